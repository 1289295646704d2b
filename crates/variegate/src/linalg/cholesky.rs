//! Cholesky factor of a symmetric positive definite matrix, A = L Lᵀ.

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt::factor;
use faer::linalg::{triangular_inverse, triangular_solve};
use faer::{MatMut, MatRef, Par};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::registers::clear_wide_registers;

/// The matrix handed to [`Cholesky::new`] has no Cholesky factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the {dim}×{dim} matrix is not positive definite")]
pub struct NotPositiveDefinite {
    /// Number of rows of the matrix.
    pub dim: usize,
}

/// Factor of a precision or covariance matrix, with the solves that samplers and variational updates need.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cholesky {
    dim: usize,
    /// L in column-major order; the strict upper triangle is zero.
    factor: Vec<f64>,
}

impl Cholesky {
    /// Factors the matrix whose lower triangle (row-major) is given; the strict upper triangle is not read.
    pub fn new(dim: usize, lower: &[f64]) -> Result<Self, NotPositiveDefinite> {
        assert_eq!(lower.len(), dim * dim);
        let mut factor = vec![0.0; dim * dim];
        for i in 0..dim {
            for j in 0..=i {
                let value = lower[i * dim + j];
                if !value.is_finite() {
                    return Err(NotPositiveDefinite { dim });
                }
                factor[j * dim + i] = value;
            }
        }
        let need = factor::cholesky_in_place_scratch::<f64>(dim, Par::Seq, Default::default());
        let mut memory = MemBuffer::new(need);
        let done = factor::cholesky_in_place(
            MatMut::from_column_major_slice_mut(&mut factor, dim, dim),
            Default::default(),
            Par::Seq,
            MemStack::new(&mut memory),
            Default::default(),
        );
        clear_wide_registers();
        done.map_err(|_| NotPositiveDefinite { dim })?;
        for j in 0..dim {
            factor[j * dim..j * dim + j].fill(0.0);
        }
        if factor.iter().any(|v| !v.is_finite()) {
            return Err(NotPositiveDefinite { dim });
        }
        Ok(Self { dim, factor })
    }

    /// As [`Cholesky::new`], but a matrix that is only just not positive definite is helped by a multiple of its mean diagonal
    /// (1e-12, then 1e-10, then 1e-8). The second value is the jitter that was added, 0 as a rule.
    pub fn with_jitter(dim: usize, lower: &[f64]) -> Result<(Self, f64), NotPositiveDefinite> {
        if let Ok(done) = Self::new(dim, lower) {
            return Ok((done, 0.0));
        }
        let mean_diagonal = (0..dim).map(|i| lower[i * dim + i].abs()).sum::<f64>() / dim.max(1) as f64;
        let mut helped = lower.to_vec();
        for relative in [1e-12, 1e-10, 1e-8] {
            for i in 0..dim {
                helped[i * dim + i] = lower[i * dim + i] + relative * mean_diagonal;
            }
            if let Ok(done) = Self::new(dim, &helped) {
                return Ok((done, relative * mean_diagonal));
            }
        }
        Err(NotPositiveDefinite { dim })
    }

    /// As [`Cholesky::with_jitter`], for the rows of a lower triangle one after the other.
    pub fn of_packed(dim: usize, packed: &[f64]) -> Result<Self, NotPositiveDefinite> {
        let mut lower = vec![0.0; dim * dim];
        let mut at = 0;
        for i in 0..dim {
            lower[i * dim..=i * dim + i].copy_from_slice(&packed[at..=at + i]);
            at += i + 1;
        }
        Ok(Self::with_jitter(dim, &lower)?.0)
    }

    /// Number of rows.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// ln |A|.
    pub fn ln_det(&self) -> f64 {
        2.0 * (0..self.dim).map(|i| self.factor[i * self.dim + i].ln()).sum::<f64>()
    }

    fn l(&self) -> MatRef<'_, f64> {
        MatRef::from_column_major_slice(&self.factor, self.dim, self.dim)
    }

    /// b ← L⁻¹ b.
    pub fn solve_lower(&self, b: &mut [f64]) {
        let b = MatMut::from_column_major_slice_mut(b, self.dim, 1);
        triangular_solve::solve_lower_triangular_in_place(self.l(), b, Par::Seq);
        clear_wide_registers();
    }

    /// b ← L⁻ᵀ b. With A a precision and b standard normal, the result has covariance A⁻¹.
    pub fn solve_upper(&self, b: &mut [f64]) {
        let b = MatMut::from_column_major_slice_mut(b, self.dim, 1);
        triangular_solve::solve_upper_triangular_in_place(self.l().transpose(), b, Par::Seq);
        clear_wide_registers();
    }

    /// B ← L⁻¹ B for B of so many columns, row-major.
    pub fn solve_lower_many(&self, b: &mut [f64], columns: usize) {
        let b = MatMut::from_row_major_slice_mut(b, self.dim, columns);
        triangular_solve::solve_lower_triangular_in_place(self.l(), b, Par::Seq);
        clear_wide_registers();
    }

    /// B ← L⁻ᵀ B for B of so many columns, row-major.
    pub fn solve_upper_many(&self, b: &mut [f64], columns: usize) {
        let b = MatMut::from_row_major_slice_mut(b, self.dim, columns);
        triangular_solve::solve_upper_triangular_in_place(self.l().transpose(), b, Par::Seq);
        clear_wide_registers();
    }

    /// b ← A⁻¹ b.
    pub fn solve(&self, b: &mut [f64]) {
        self.solve_lower(b);
        self.solve_upper(b);
    }

    /// b ← Lᵀb, and returns (ln |A|, bᵀAb of the b given): what a normal density with precision A needs.
    pub fn whiten(&self, b: &mut [f64]) -> (f64, f64) {
        let dim = self.dim;
        let mut square = 0.0;
        for i in 0..dim {
            // column i of L from the diagonal on is row i of Lᵀ; later entries of b are still the old ones
            b[i] = super::dot(&self.factor[i * dim + i..(i + 1) * dim], &b[i..]);
            square += b[i] * b[i];
        }
        (self.ln_det(), square)
    }

    /// L⁻¹, row-major, lower triangular with zeros above.
    pub fn inverse_lower(&self) -> Vec<f64> {
        let mut inverse = vec![0.0; self.dim * self.dim];
        triangular_inverse::invert_lower_triangular(MatMut::from_row_major_slice_mut(&mut inverse, self.dim, self.dim), self.l(), Par::Seq);
        clear_wide_registers();
        inverse
    }

    /// A⁻¹ = L⁻ᵀ L⁻¹, row-major and symmetric.
    pub fn inverse(&self) -> Vec<f64> {
        let dim = self.dim;
        let lower = self.inverse_lower();
        let mut out = vec![0.0; dim * dim];
        super::gram_of(&lower, &lower, &mut out, dim, dim);
        super::mirror_lower(&mut out, dim);
        out
    }

    /// L, row-major.
    pub fn lower(&self) -> Vec<f64> {
        let mut out = vec![0.0; self.dim * self.dim];
        for i in 0..self.dim {
            for j in 0..=i {
                out[i * self.dim + j] = self.factor[j * self.dim + i];
            }
        }
        out
    }
}
