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

impl Target {
    /// The targets of the chosen rows, copied.
    pub fn take(&self, chosen: &[usize]) -> Self {
        fn rows<T: Copy>(values: &[T], width: usize, chosen: &[usize]) -> Vec<T> {
            chosen.iter().flat_map(|&i| &values[i * width..(i + 1) * width]).copied().collect()
        }
        match self {
            Self::None => Self::None,
            Self::Classes(c) => Self::Classes(c.take(chosen)),
            Self::Labels(l) => Self::Labels(LabelSets { names: l.names.clone(), values: rows(&l.values, l.names.len(), chosen) }),
            Self::Real { width, values } => Self::Real { width: *width, values: rows(values, *width, chosen) },
        }
    }
}

impl<'a> TargetView<'a> {
    /// Real outcomes, row-major; empty if the target is of another kind.
    pub fn real(self) -> &'a [f64] {
        match self {
            TargetView::Real(values) => values,
            _ => &[],
        }
    }

    /// Class codes; empty if the target is of another kind.
    pub fn classes(self) -> &'a [u32] {
        match self {
            TargetView::Classes(c) => c,
            _ => &[],
        }
    }

    /// Label entries, row-major; empty if the target is of another kind.
    pub fn labels(self) -> &'a [i8] {
        match self {
            TargetView::Labels(values) => values,
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

    /// The chosen rows in the given order, copied; lists of names stay whole.
    pub fn subset(&self, chosen: &[usize]) -> Dataset<'static> {
        Dataset {
            x: self.x.take(chosen),
            columns: self.columns.clone(),
            target: self.target.take(chosen),
            sources: self.sources.as_ref().map(|s| s.take(chosen)),
            weights: self.weights.as_ref().map(|w| chosen.iter().map(|&i| w[i]).collect()),
        }
    }

    /// The same data, borrowing nothing.
    pub fn into_owned(self) -> Dataset<'static> {
        let Self { x, columns, target, sources, weights } = self;
        Dataset { x: x.into_owned(), columns, target, sources, weights }
    }

    /// Bytes that features, target, sources and weights take in memory, names aside.
    pub fn memory_bytes(&self) -> usize {
        let target = match &self.target {
            Target::None => 0,
            Target::Classes(c) => size_of_val(&c.codes[..]),
            Target::Labels(l) => size_of_val(&l.values[..]),
            Target::Real { values, .. } => size_of_val(&values[..]),
        };
        let sources = self.sources.as_ref().map_or(0, |s| size_of_val(&s.codes[..]));
        self.x.memory_bytes() + target + sources + self.weights.as_ref().map_or(0, |w| size_of_val(&w[..]))
    }

    /// Name of column j: its own, or its number.
    pub fn column_name(&self, j: usize) -> String {
        self.columns.get(j).cloned().unwrap_or_else(|| format!("x{j}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subset_carries_everything_along() {
        let csr = Matrix::Csr {
            rows: 3,
            cols: 2,
            indptr: vec![0, 1, 1, 3].into(),
            indices: vec![1, 0, 1].into(),
            values: vec![1.0, 2.0, 3.0].into(),
        };
        let mut d = Dataset::new(csr);
        d.sources = Some(Classes::encode(["s", "t", "t"]));
        d.weights = Some(vec![1.0, 2.0, 3.0]);
        let targets = [
            (Target::None, Target::None, 0),
            (Target::Classes(Classes::encode(["a", "b", "c"])), Target::Classes(Classes::encode(["a", "b", "c"]).take(&[2, 0, 2])), 12),
            (
                Target::Real { width: 2, values: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0] },
                Target::Real { width: 2, values: vec![5.0, 6.0, 1.0, 2.0, 5.0, 6.0] },
                48,
            ),
            (
                Target::Labels(LabelSets { names: vec!["l".into()], values: vec![1, 0, -1] }),
                Target::Labels(LabelSets { names: vec!["l".into()], values: vec![-1, 1, -1] }),
                3,
            ),
        ];
        for (whole, part, bytes) in targets {
            let d = d.clone().with_target(whole);
            let s = d.subset(&[2, 0, 2]);
            assert_eq!(s.x.to_dense(), [2.0, 3.0, 0.0, 1.0, 2.0, 3.0]);
            assert_eq!(s.sources.as_ref().unwrap().codes, [1, 0, 1]);
            assert_eq!(s.weights.as_ref().unwrap()[..], [3.0, 1.0, 3.0]);
            assert_eq!(s.target, part);
            let labels: &[i8] = if let Target::Labels(_) = part { &[1, -1] } else { &[] };
            assert_eq!(s.target.slice(1..3).labels(), labels);
            assert_eq!(d.memory_bytes(), 4 * 8 + 3 * 4 + 3 * 8 + 3 * 4 + 3 * 8 + bytes);
        }
    }
}
