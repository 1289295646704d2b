//! Determinantal distribution of directions: the squared volume that a kernel gives them.

use rand::Rng;
use serde::{Deserialize, Serialize};

use super::{Scratch, room, rows, uniform_direction};
use crate::infer::require;
use crate::linalg::dot;
use crate::run::open01;
use crate::{Error, Result};

/// Taken off the kernel between different directions; part of the definition. It keeps the matrix positive definite.
const OFF: f64 = 1e-8;

/// Tries before a draw by rejection is given up.
const MOST_TRIES: u32 = 1_000_000;

/// Density proportional to `det L` with respect to uniform directions: `L_ii = 1` and
/// `L_ij = (1 - 1e-8) exp(-(1 - a_i'a_j)/length^2)`, the Gaussian kernel of that length on unit vectors.
///
/// The log density is `ln det L - K ln S`, `S` the surface of the sphere. It is **unnormalised**: the constant depends on the length
/// (and on `K` and the dimension) alone, so the length is chosen, not sampled. A length near 0 gives the uniform distribution. Where
/// `L` is not positive definite in double arithmetic the log density is `-inf`. `O(K^3 + K^2 dim)`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Determinantal {
    /// Length scale of the kernel, from 1e-6 to 1e6.
    pub length: f64,
}

impl Determinantal {
    pub(super) fn validate(&self) -> Result<()> {
        require((1e-6..=1e6).contains(&self.length), "length", self.length, "between 1e-6 and 1e6")
    }

    /// Kernel between two different directions of the given inner product.
    pub(super) fn kernel(&self, cosine: f64) -> f64 {
        (1.0 - OFF) * (-(1.0 - cosine) / (self.length * self.length)).exp()
    }

    /// The log density; its gradient is added where `out` is given.
    pub(super) fn gradient_add(&self, directions: &[f64], dim: usize, out: Option<&mut [f64]>, scratch: &mut Scratch) -> f64 {
        let count = rows(directions, dim);
        let row = |i: usize| &directions[i * dim..(i + 1) * dim];
        let kernel = room(&mut scratch.first, count * count);
        for i in 0..count {
            kernel[i * count + i] = 1.0;
            for j in 0..i {
                kernel[i * count + j] = self.kernel(dot(row(i), row(j)));
            }
        }
        let factor = room(&mut scratch.second, count * count);
        factor.copy_from_slice(kernel);
        let Some(ln_det) = factor_in_place(factor, count) else { return f64::NEG_INFINITY };
        let value = ln_det - count as f64 * crate::dist::ln_surface(dim);
        let Some(out) = out else { return value };
        let inverse = room(&mut scratch.third, count * count);
        invert_lower(factor, inverse, count);
        let strength = 2.0 / (self.length * self.length);
        for i in 0..count {
            for j in 0..i {
                // (L^-1)_ij from the inverse factor, whose columns begin on the diagonal
                let inverse: f64 = (i..count).map(|m| inverse[m * count + i] * inverse[m * count + j]).sum();
                let weight = strength * inverse * kernel[i * count + j];
                for d in 0..dim {
                    out[i * dim + d] += weight * directions[j * dim + d];
                    out[j * dim + d] += weight * directions[i * dim + d];
                }
            }
        }
        value
    }

    /// Rejection from uniform directions, `det L <= 1` being the probability. The determinant is a product over the directions of factors
    /// that are at most 1, so a try ends at the first one that fails.
    pub(super) fn sample<R: Rng + ?Sized>(&self, count: usize, dim: usize, rng: &mut R) -> Result<Vec<f64>> {
        let mut out = vec![0.0; count * dim];
        let mut factor = vec![0.0; count * count];
        let mut cross = vec![0.0; count];
        'tries: for _ in 0..MOST_TRIES {
            for i in 0..count {
                let (before, now) = out.split_at_mut(i * dim);
                let now = &mut now[..dim];
                uniform_direction(now, rng);
                for (c, other) in cross.iter_mut().zip(before.chunks_exact(dim)) {
                    *c = self.kernel(dot(now, other));
                }
                solve_lower(&factor, &mut cross[..i], count);
                let left = 1.0 - dot(&cross[..i], &cross[..i]);
                if open01(rng) >= left {
                    continue 'tries;
                }
                factor[i * count..i * count + i].copy_from_slice(&cross[..i]);
                factor[i * count + i] = left.sqrt();
            }
            return Ok(out);
        }
        Err(Error::Unfit(format!(
            "no draw of {count} directions in {dim} dimensions from the determinantal distribution of length {} was accepted in {MOST_TRIES} \
             tries; use a shorter length or fewer directions",
            self.length
        )))
    }
}

/// Cholesky factor of the lower triangle, in place (row-major), and the log determinant; `None` if not positive definite.
///
/// Kernel matrices have as many rows as a model has components: plain loops are as fast as blocked ones, and allocate nothing.
pub(super) fn factor_in_place(a: &mut [f64], n: usize) -> Option<f64> {
    let mut ln_det = 0.0;
    for i in 0..n {
        let (above, rest) = a.split_at_mut(i * n);
        let row = &mut rest[..n];
        for j in 0..i {
            let other = &above[j * n..j * n + j + 1];
            row[j] = (row[j] - dot(&row[..j], &other[..j])) / other[j];
        }
        let square = row[i] - dot(&row[..i], &row[..i]);
        if !(square > 0.0 && square.is_finite()) {
            return None;
        }
        row[i] = square.sqrt();
        ln_det += square.ln();
    }
    Some(ln_det)
}

/// `b <- L^-1 b` for the leading block of the factor that `b` is as long as; rows of the factor are `stride` apart.
pub(super) fn solve_lower(factor: &[f64], b: &mut [f64], stride: usize) {
    for i in 0..b.len() {
        let row = &factor[i * stride..i * stride + i + 1];
        b[i] = (b[i] - dot(&row[..i], &b[..i])) / row[i];
    }
}

/// Lower triangle of the inverse of a lower triangular matrix.
fn invert_lower(factor: &[f64], inverse: &mut [f64], n: usize) {
    for j in 0..n {
        inverse[j * n + j] = 1.0 / factor[j * n + j];
        for i in j + 1..n {
            let sum: f64 = (j..i).map(|m| factor[i * n + m] * inverse[m * n + j]).sum();
            inverse[i * n + j] = -sum / factor[i * n + i];
        }
    }
}
