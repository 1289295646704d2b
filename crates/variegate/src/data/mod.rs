//! Rows, targets and their checks: everything a model is given.

mod dataset;
pub mod design;
mod matrix;

pub use dataset::{Classes, Dataset, LabelSets, Target, TargetView};
pub use design::{Design, Panel};
pub use matrix::{Matrix, X};
