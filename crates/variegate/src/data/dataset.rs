//! Rows together with what is known of them: targets, sources, weights and names.

use serde::{Deserialize, Serialize};
use std::ops::Range;

use super::Matrix;

/// What a model may fit: rows and, where there are any, their targets, sources and weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset<'a> {
    /// The features.
    pub x: Matrix<'a>,
    /// Names of the columns of `x`; empty if they have none.
    pub columns: Vec<String>,
    /// What is to be predicted.
    pub target: Target,
    /// The source (group) of each row.
    pub sources: Option<Classes>,
    /// Non-negative weight of each row.
    pub weights: Option<Vec<f64>>,
}

/// One name out of a fixed list for each row: class labels, or sources.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Classes {
    /// Index into `names`, one a row.
    pub codes: Vec<u32>,
    /// The distinct names, in ascending order (numerically where all of them are numbers).
    pub names: Vec<String>,
}

/// A set of labels for each row, with unknown entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelSets {
    /// Names of the labels.
    pub names: Vec<String>,
    /// Row-major, one entry a row and label: 1 present, 0 absent, -1 unknown.
    pub values: Vec<i8>,
}

/// What is to be predicted for each row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Target {
    /// Nothing: unsupervised.
    None,
    /// One class a row.
    Classes(Classes),
    /// A set of labels a row.
    Labels(LabelSets),
    /// `width` real numbers a row, row-major.
    Real {
        /// Numbers a row.
        width: usize,
        /// Row-major numbers.
        values: Vec<f64>,
    },
}

/// The targets of a run of rows, borrowed.
#[derive(Debug, Clone, Copy)]
pub enum TargetView<'a> {
    /// Nothing.
    None,
    /// Class of each row.
    Classes(&'a [u32]),
    /// Row-major label entries: 1 present, 0 absent, -1 unknown.
    Labels(&'a [i8]),
    /// Row-major real targets.
    Real(&'a [f64]),
}

impl Target {
    /// The targets of the given rows.
    pub fn slice(&self, range: Range<usize>) -> TargetView<'_> {
        match self {
            Target::None => TargetView::None,
            Target::Classes(c) => TargetView::Classes(&c.codes[range]),
            Target::Labels(l) => {
                let width = l.names.len();
                TargetView::Labels(&l.values[range.start * width..range.end * width])
            }
            Target::Real { width, values } => TargetView::Real(&values[range.start * width..range.end * width]),
        }
    }
}

impl<'a> TargetView<'a> {
    /// Class codes; empty if the target is of another kind.
    pub fn classes(self) -> &'a [u32] {
        match self {
            TargetView::Classes(c) => c,
            _ => &[],
        }
    }
}

impl<'a> Dataset<'a> {
    /// Rows without target, sources, weights or names.
    pub fn new(x: Matrix<'a>) -> Self {
        Self { x, columns: Vec::new(), target: Target::None, sources: None, weights: None }
    }

    /// The same rows with a target.
    pub fn with_target(mut self, target: Target) -> Self {
        self.target = target;
        self
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.x.rows()
    }

    /// Name of column j: its own, or its number.
    pub fn column_name(&self, j: usize) -> String {
        self.columns.get(j).cloned().unwrap_or_else(|| format!("x{j}"))
    }
}
