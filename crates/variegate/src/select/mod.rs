//! Choosing between models by how well they predict rows that they were not fitted to.
//!
//! [`cross_validate`] fits any family anew at every point of a grid of settings. The criterion `cv` of the family `softmax` compares
//! structures instead, inside one run: see there why it deals the rows in another way. Both count what held-out rows say alike
//! ([`crate::score::Losses`]).

mod cross_validation;

pub use cross_validation::{Axis, Cell, CellResult, Grid, Held, Point, PointScores, Table, cross_validate, points, unsupervised};
