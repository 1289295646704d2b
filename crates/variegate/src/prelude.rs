//! What a program that fits models needs, in one line: `use variegate::prelude::*;`.
//!
//! The families come as modules, so that their settings read as what they are: `softmax::Settings`, `factors::Settings`.

pub use crate::answer::{Answers, Posterior};
pub use crate::data::{Classes, Dataset, Matrix, Target};
pub use crate::model::families::*;
pub use crate::model::{Family, Fitted, Model, RunSettings, fit};
pub use crate::run::{Observer, Unobserved};
pub use crate::{Error, Result};
