//! How good predictions are where the truth is known: accuracy, log loss, Brier score, squared error and log density, in all, by
//! category, and of two fits on the same rows.
//!
//! Everything begins with one [`ClassScore`] a row; what is said of many rows is a [`Tally`] of them, so that a score by category is
//! made of the very figures that the score in all is made of.

mod classes;
mod groups;
mod interval;
mod paired;
mod real;

pub use classes::{ClassScore, Tally, score_classes};
pub use groups::Group;
pub use interval::{Z95, wilson};
pub use paired::Paired;
pub use real::RealScore;
