//! Rows, targets and their checks: everything a model is given.

mod dataset;
pub mod design;
mod encode;
mod error;
mod fingerprint;
mod input_map;
mod matrix;
mod scaling;
pub mod split;
mod validate;

pub use dataset::{Classes, Dataset, LabelSets, Target, TargetView};
pub use design::{Design, Panel};
pub use encode::ClassEncoder;
pub use error::DataError;
pub use fingerprint::Fingerprint;
pub use input_map::InputMap;
pub use matrix::{Matrix, X};
pub use scaling::Scaling;
pub use validate::{Needs, TargetKind};
