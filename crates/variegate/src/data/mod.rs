//! Rows, targets and their checks: everything a model is given.

mod block;
mod dataset;
pub mod design;
mod encode;
mod error;
mod fingerprint;
mod header;
mod input_map;
mod matrix;
mod scaling;
pub mod split;
pub mod survey;
mod validate;

pub use block::{Block, blocks};
pub use dataset::{Classes, Dataset, LabelSets, Target, TargetView};
pub use design::{Design, Panel};
pub use encode::ClassEncoder;
pub use error::DataError;
pub use fingerprint::FINGERPRINT_VERSION;
pub use header::{Header, TargetHeader};
pub use input_map::InputMap;
pub use matrix::{Matrix, X};
pub use scaling::Scaling;
pub use survey::{Questions, Survey};
pub use validate::{Needs, TargetKind};
