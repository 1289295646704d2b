//! Hidden components of rows: subclasses, experts, paths.

use crate::Result;
use crate::data::Dataset;

/// A posterior that tells which hidden components rows come from.
pub trait HiddenComponents {
    /// Share of each component in each row: given the row alone, or given its outcome too where the data have a target.
    fn responsibilities(&self, data: &Dataset<'_>) -> Result<Responsibilities>;
}

/// A posterior that tells which rows share a component, whatever its label.
pub trait SharedComponents {
    /// Probability that two rows come from the same component, for all pairs (n×n, row-major).
    fn together(&self, data: &Dataset<'_>) -> Result<Vec<f64>>;
}

/// Shares of hidden components in rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Responsibilities {
    /// Name of each component.
    pub names: Vec<String>,
    /// Row-major, one number a row and component; rows sum to one.
    pub share: Vec<f64>,
}
