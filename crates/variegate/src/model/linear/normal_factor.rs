//! Normal factors given by their precision and linear term, in packed form (the lower triangle row by row).

use crate::data::design::packed_len;
use crate::linalg::{Cholesky, NotPositiveDefinite};

/// What is added to the diagonal, over its mean, where a matrix has no Cholesky factor; one after the other.
const JITTER: [f64; 5] = [1e-10, 1e-9, 1e-8, 1e-7, 1e-6];

/// The normal distribution N(Q⁻¹h, Q⁻¹).
pub(crate) struct NormalFactor {
    /// Q⁻¹h.
    pub(crate) mean: Vec<f64>,
    /// Q⁻¹, packed.
    pub(crate) covariance: Vec<f64>,
    /// ln |Q⁻¹|.
    pub(crate) ln_det: f64,
    /// Whether the diagonal of Q had to be helped.
    pub(crate) helped: bool,
}

impl NormalFactor {
    /// From the packed precision and the linear term.
    pub(crate) fn new(precision: &[f64], linear: &[f64]) -> Result<Self, NotPositiveDefinite> {
        let dim = linear.len();
        let (factor, helped) = factor_of(dim, precision)?;
        let mut mean = linear.to_vec();
        factor.solve(&mut mean);
        let full = factor.inverse();
        Ok(Self { mean, covariance: pack(&full, dim), ln_det: -factor.ln_det(), helped })
    }
}

/// The lower triangle of a square matrix.
pub(crate) fn pack(full: &[f64], dim: usize) -> Vec<f64> {
    let mut packed = Vec::with_capacity(packed_len(dim));
    full.chunks_exact(dim.max(1)).take(dim).enumerate().for_each(|(i, row)| packed.extend_from_slice(&row[..=i]));
    packed
}

/// The Cholesky factor of a packed matrix, and whether its diagonal had to be helped.
pub(crate) fn factor_of(dim: usize, packed: &[f64]) -> Result<(Cholesky, bool), NotPositiveDefinite> {
    let mut lower = vec![0.0; dim * dim];
    for i in 0..dim {
        lower[i * dim..=i * dim + i].copy_from_slice(&packed[packed_len(i)..packed_len(i + 1)]);
    }
    if let Ok(factor) = Cholesky::new(dim, &lower) {
        return Ok((factor, false));
    }
    let mean_diagonal = (0..dim).map(|i| lower[i * dim + i]).sum::<f64>() / dim as f64;
    for relative in JITTER {
        for i in 0..dim {
            lower[i * dim + i] = packed[packed_len(i) + i] + relative * mean_diagonal;
        }
        if let Ok(factor) = Cholesky::new(dim, &lower) {
            return Ok((factor, true));
        }
    }
    Err(NotPositiveDefinite { dim })
}

/// Place of entry (i, i) of a packed matrix.
pub(crate) fn diagonal(i: usize) -> usize {
    packed_len(i) + i
}

/// tr(AB) for symmetric packed matrices.
pub(crate) fn trace_product(a: &[f64], b: &[f64], dim: usize) -> f64 {
    (0..dim)
        .map(|i| {
            let (row, at) = (packed_len(i), diagonal(i));
            2.0 * crate::linalg::dot(&a[row..at], &b[row..at]) + a[at] * b[at]
        })
        .sum()
}

/// mᵀAm for a symmetric packed matrix.
pub(crate) fn form(a: &[f64], m: &[f64]) -> f64 {
    m.iter().enumerate().map(|(i, v)| v * (2.0 * crate::linalg::dot(&a[packed_len(i)..diagonal(i)], m) + a[diagonal(i)] * v)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn solves_a_small_system() {
        // Q = [[2, 1], [1, 3]], h = (1, 2): mean (1/5, 3/5)
        let q = NormalFactor::new(&[2.0, 1.0, 3.0], &[1.0, 2.0]).unwrap();
        assert!((q.mean[0] - 0.2).abs() < 1e-15 && (q.mean[1] - 0.6).abs() < 1e-15 && !q.helped);
        let want = [0.6, -0.2, 0.4];
        assert!(q.covariance.iter().zip(want).all(|(v, w)| (v - w).abs() < 1e-15));
        assert!((q.ln_det + 5f64.ln()).abs() < 1e-15);
        assert!((trace_product(&[2.0, 1.0, 3.0], &q.covariance, 2) - 2.0).abs() < 1e-15);
        assert!((form(&[2.0, 1.0, 3.0], &[1.0, -2.0]) - 10.0).abs() < 1e-15);
    }

    #[test]
    fn helps_what_is_only_just_singular() {
        let q = NormalFactor::new(&[1.0, 1.0, 1.0], &[1.0, 1.0]).unwrap();
        assert!(q.helped && (q.mean[0] - 0.5).abs() < 1e-4);
        assert!(NormalFactor::new(&[1.0, 2.0, 1.0], &[1.0, 1.0]).is_err());
        assert!(NormalFactor::new(&[f64::NAN], &[1.0]).is_err());
    }
}
