//! Forms of the covariance of the weights of a node under q.

use serde::{Deserialize, Serialize};

use crate::data::design::{blocks_len, packed_len};

/// Which weights of a node may correlate under q.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Covariance {
    /// All of them.
    Joint,
    /// Those of one unit.
    Child,
    /// Those of one unit, and all units have the same covariance.
    Shared,
    /// Those of one unit whose columns are in the same run of this width; width 1 is a diagonal.
    Blocks(usize),
    /// Those of one unit, along this many directions in which the rows vary most.
    LowRank(usize),
}

impl Covariance {
    /// The text users write.
    pub(crate) fn text(self) -> String {
        match self {
            Covariance::Joint => "joint".into(),
            Covariance::Child => "child".into(),
            Covariance::Shared => "shared".into(),
            Covariance::Blocks(1) => "diag".into(),
            Covariance::Blocks(width) => format!("block:{width}"),
            Covariance::LowRank(rank) => format!("lowrank:{rank}"),
        }
    }

    /// Blocks and ranks no larger than the number of columns.
    pub(crate) fn at_most(self, dim: usize) -> Self {
        match self {
            Covariance::Blocks(width) => Covariance::Blocks(width.min(dim)),
            Covariance::LowRank(rank) => Covariance::LowRank(rank.min(dim)),
            other => other,
        }
    }

    /// Whether P holds only part of the curvature, so that means need products with the rows.
    pub(crate) fn needs_products(self) -> bool {
        matches!(self, Covariance::Blocks(_) | Covariance::LowRank(_))
    }

    /// Number of matrices of P for so many units.
    pub(crate) fn count(self, units: usize) -> usize {
        match self {
            Covariance::Joint => packed_len(units),
            Covariance::Shared => 1,
            _ => units,
        }
    }

    /// Numbers of one matrix of a form.
    pub(crate) fn matrix_len(self, dim: usize) -> usize {
        match self {
            Covariance::Blocks(width) => blocks_len(dim, width),
            Covariance::LowRank(rank) => packed_len(rank) + 1,
            _ => packed_len(dim),
        }
    }

    /// Width of the runs of columns that may correlate within a unit: all of them, unless it says another.
    pub(crate) fn run_width(self, dim: usize) -> usize {
        if let Covariance::Blocks(width) = self { width } else { dim.max(1) }
    }
}
