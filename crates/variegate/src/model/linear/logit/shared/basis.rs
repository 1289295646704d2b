//! The eigenvectors of X̃ᵀX̃/4, without the bias.

use serde::{Deserialize, Serialize};

use super::super::super::normal_factor::diagonal;
use crate::data::design::packed_len;
use crate::linalg;
use crate::{Error, Result};

/// A = U diag(l) Uᵀ of the columns beside the bias.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Basis {
    /// Eigenvectors, one a row (columns×dim), with 0 for the bias.
    pub(crate) vectors: Vec<f64>,
    /// Eigenvalues l ≥ 0.
    pub(crate) values: Vec<f64>,
    dim: usize,
}

impl Basis {
    /// From A, packed (dim(dim+1)/2), as [`super::SharedBohning::gram_add`] sums it up; the bias, if any, is the last column.
    pub(crate) fn new(gram: &[f64], dim: usize, intercept: bool) -> Result<Self> {
        let columns = dim - intercept as usize;
        let mut full = vec![0.0; columns * columns];
        for i in 0..columns {
            full[i * columns..=i * columns + i].copy_from_slice(&gram[packed_len(i)..=diagonal(i)]);
        }
        if columns == 0 {
            return Ok(Self { vectors: Vec::new(), values: Vec::new(), dim });
        }
        let (by_column, values) = linalg::eigen(&full, columns).ok_or_else(|| Error::Numerical {
            what: "the decomposition of the columns' products",
            sweep: 0,
            detail: "its eigenvectors were not found; look at the scale of the columns".into(),
        })?;
        let mut vectors = vec![0.0; columns * dim];
        for (d, row) in by_column.chunks_exact(columns).enumerate() {
            for (m, &v) in row.iter().enumerate() {
                vectors[m * dim + d] = v;
            }
        }
        Ok(Self { vectors, values: values.iter().map(|l| l.max(0.0)).collect(), dim })
    }

    /// Rows (n×dim) in the eigenvectors (n×columns).
    pub(crate) fn turn(&self, rows: &[f64], n: usize) -> Vec<f64> {
        let columns = self.values.len();
        let mut out = vec![0.0; n * columns];
        if columns > 0 && n > 0 {
            linalg::mul_t(rows, &self.vectors, &mut out, n, self.dim, columns, false);
        }
        out
    }

    /// And back (n×dim), with 0 for the bias.
    pub(crate) fn turn_back(&self, rows: &[f64], n: usize) -> Vec<f64> {
        let columns = self.values.len();
        let mut out = vec![0.0; n * self.dim];
        if columns > 0 && n > 0 {
            linalg::mul(rows, &self.vectors, &mut out, n, columns, self.dim, false);
        }
        out
    }
}
