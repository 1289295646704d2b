//! Rows of numbers, dense or sparse, owned or borrowed.

use std::borrow::Cow;
use std::ops::Range;

/// A table of numbers with one observation a row. Borrowed storage lets a caller (NumPy, SciPy) lend its memory.
#[derive(Debug, Clone, PartialEq)]
pub enum Matrix<'a> {
    /// Row-major values, `rows * cols` of them.
    Dense {
        /// Number of rows.
        rows: usize,
        /// Number of columns.
        cols: usize,
        /// Row-major entries.
        values: Cow<'a, [f64]>,
    },
    /// Compressed sparse rows: row i holds entries `indptr[i]..indptr[i + 1]`, columns ascending within a row, no column twice.
    Csr {
        /// Number of rows.
        rows: usize,
        /// Number of columns.
        cols: usize,
        /// `rows + 1` offsets into the two arrays below.
        indptr: Cow<'a, [usize]>,
        /// Column of each stored entry.
        indices: Cow<'a, [u32]>,
        /// Value of each stored entry.
        values: Cow<'a, [f64]>,
    },
}

impl<'a> Matrix<'a> {
    /// Dense rows from row-major values. Panics if the length is not `rows * cols`.
    pub fn dense(rows: usize, cols: usize, values: impl Into<Cow<'a, [f64]>>) -> Self {
        let values = values.into();
        assert_eq!(values.len(), rows * cols, "a {rows}×{cols} matrix needs {} values", rows * cols);
        Self::Dense { rows, cols, values }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        match self {
            Self::Dense { rows, .. } | Self::Csr { rows, .. } => *rows,
        }
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        match self {
            Self::Dense { cols, .. } | Self::Csr { cols, .. } => *cols,
        }
    }

    /// Whether the rows are stored sparsely.
    pub fn is_sparse(&self) -> bool {
        matches!(self, Self::Csr { .. })
    }

    /// Number of stored entries.
    pub fn stored(&self) -> usize {
        match self {
            Self::Dense { values, .. } | Self::Csr { values, .. } => values.len(),
        }
    }

    /// All rows, borrowed.
    pub fn view(&self) -> X<'_> {
        self.slice(0..self.rows())
    }

    /// A run of rows, borrowed.
    pub fn slice(&self, range: Range<usize>) -> X<'_> {
        match self {
            Self::Dense { cols, values, .. } => {
                X::Dense { rows: range.len(), cols: *cols, values: &values[range.start * cols..range.end * cols] }
            }
            Self::Csr { cols, indptr, indices, values, .. } => {
                let (first, last) = (indptr[range.start], indptr[range.end]);
                X::Csr {
                    cols: *cols,
                    indptr: &indptr[range.start..=range.end],
                    indices: &indices[first..last],
                    values: &values[first..last],
                }
            }
        }
    }

    /// The chosen rows in the given order, copied.
    pub fn take(&self, chosen: &[usize]) -> Matrix<'static> {
        match self.view() {
            X::Dense { cols, values, .. } => {
                let mut out = Vec::with_capacity(chosen.len() * cols);
                for &i in chosen {
                    out.extend_from_slice(&values[i * cols..(i + 1) * cols]);
                }
                Matrix::dense(chosen.len(), cols, out)
            }
            x @ X::Csr { cols, .. } => {
                let (mut indptr, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
                for &i in chosen {
                    let (idx, val) = x.sparse_row(i);
                    indices.extend_from_slice(idx);
                    values.extend_from_slice(val);
                    indptr.push(indices.len());
                }
                Matrix::Csr { rows: chosen.len(), cols, indptr: indptr.into(), indices: indices.into(), values: values.into() }
            }
        }
    }

    /// A copy that borrows nothing.
    pub fn into_owned(self) -> Matrix<'static> {
        match self {
            Self::Dense { rows, cols, values } => Matrix::Dense { rows, cols, values: values.into_owned().into() },
            Self::Csr { rows, cols, indptr, indices, values } => Matrix::Csr {
                rows,
                cols,
                indptr: indptr.into_owned().into(),
                indices: indices.into_owned().into(),
                values: values.into_owned().into(),
            },
        }
    }
}

/// A borrowed run of rows. In the sparse form `indptr` keeps the offsets of the whole matrix: subtract `indptr[0]`.
#[derive(Debug, Clone, Copy)]
pub enum X<'a> {
    /// Row-major values.
    Dense {
        /// Number of rows.
        rows: usize,
        /// Number of columns.
        cols: usize,
        /// Row-major entries.
        values: &'a [f64],
    },
    /// Compressed sparse rows.
    Csr {
        /// Number of columns.
        cols: usize,
        /// One more than the number of rows.
        indptr: &'a [usize],
        /// Column of each stored entry.
        indices: &'a [u32],
        /// Value of each stored entry.
        values: &'a [f64],
    },
}

impl<'a> X<'a> {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        match self {
            X::Dense { rows, .. } => *rows,
            X::Csr { indptr, .. } => indptr.len() - 1,
        }
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        match self {
            X::Dense { cols, .. } | X::Csr { cols, .. } => *cols,
        }
    }

    /// Number of stored entries.
    pub fn stored(&self) -> usize {
        match self {
            X::Dense { values, .. } | X::Csr { values, .. } => values.len(),
        }
    }

    /// Values of the stored entries.
    pub fn stored_values(&self) -> &'a [f64] {
        match self {
            X::Dense { values, .. } | X::Csr { values, .. } => values,
        }
    }

    /// Columns and values of row i of a sparse view; empty for a dense one.
    pub fn sparse_row(&self, i: usize) -> (&'a [u32], &'a [f64]) {
        match *self {
            X::Dense { .. } => (&[], &[]),
            X::Csr { indptr, indices, values, .. } => {
                let range = indptr[i] - indptr[0]..indptr[i + 1] - indptr[0];
                (&indices[range.clone()], &values[range])
            }
        }
    }

    /// Calls `f(column, value)` for every stored entry of row i.
    pub fn for_row(&self, i: usize, mut f: impl FnMut(usize, f64)) {
        match *self {
            X::Dense { cols, values, .. } => {
                for (j, &v) in values[i * cols..(i + 1) * cols].iter().enumerate() {
                    f(j, v);
                }
            }
            X::Csr { .. } => {
                let (idx, val) = self.sparse_row(i);
                for (&j, &v) in idx.iter().zip(val) {
                    f(j as usize, v);
                }
            }
        }
    }

    /// A run of rows of this view.
    pub fn slice(&self, range: Range<usize>) -> X<'a> {
        match *self {
            X::Dense { cols, values, .. } => X::Dense { rows: range.len(), cols, values: &values[range.start * cols..range.end * cols] },
            X::Csr { cols, indptr, indices, values } => {
                let base = indptr[0];
                let (first, last) = (indptr[range.start] - base, indptr[range.end] - base);
                X::Csr { cols, indptr: &indptr[range.start..=range.end], indices: &indices[first..last], values: &values[first..last] }
            }
        }
    }
}
