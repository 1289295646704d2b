//! Mutual angular regulariser, and summaries of the angles between directions.
//!
//! For `K` weight vectors with the non-obtuse angles `theta_ij = arccos|c_ij|`, `c_ij` the cosine of a pair,
//!
//! ```text
//! Omega = mean(theta) - gamma variance(theta)        over the M = K (K-1)/2 pairs (population variance); 0 for K < 2
//! ```
//!
//! It is largest where all vectors are orthogonal, and bounded: `|Omega| <= pi/2 + gamma pi^2/16`. There `|c|` has a kink on which
//! gradient methods stall, so optimisers are given the smoothed value, with `|c|` replaced by
//! `S(c) = (sqrt(c^2 + delta^2) - delta)/(sqrt(1 + delta^2) - delta)`.
//!
//! A vector of length 0 has no direction: its cosines count as 0 and its gradient is 0.

use serde::{Deserialize, Serialize};

use super::{Scratch, room, rows};
use crate::Result;
use crate::infer::require;
use crate::linalg::dot;

/// Pairs closer to parallel than this have no usable gradient.
const PARALLEL: f64 = 1e-15;

/// The mutual angular regulariser `Omega`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Regulariser {
    /// Weight of the variance of the angles, at least 0.
    pub gamma: f64,
    /// Smoothing of `|c|`, at least 0; 0 is none.
    pub delta: f64,
}

impl Default for Regulariser {
    fn default() -> Self {
        Self { gamma: 1.0, delta: 1e-2 }
    }
}

impl Regulariser {
    /// Refuses a negative or infinite gamma or delta.
    pub fn validate(&self) -> Result<()> {
        require(self.gamma >= 0.0 && self.gamma.is_finite(), "gamma", self.gamma, "finite and at least 0")?;
        require(self.delta >= 0.0 && self.delta.is_finite(), "delta", self.delta, "finite and at least 0")
    }

    /// `Omega` itself, of weight vectors of any length, one a row.
    ///
    /// # Panics
    /// If the number of entries is no multiple of `dim`.
    pub fn value(&self, weights: &[f64], dim: usize) -> f64 {
        Self { delta: 0.0, ..*self }.gradient_add(weights, dim, 0.0, None, &mut Scratch::default())
    }

    /// The smoothed `Omega`.
    ///
    /// # Panics
    /// As [`value`](Self::value).
    pub fn smoothed(&self, weights: &[f64], dim: usize) -> f64 {
        self.gradient_add(weights, dim, 0.0, None, &mut Scratch::default())
    }

    /// Adds `factor` times the gradient of the smoothed `Omega` to `out` and returns the smoothed `Omega` (without the factor).
    ///
    /// # Panics
    /// As [`value`](Self::value), and if `out` has another length.
    pub fn smoothed_gradient_add(&self, weights: &[f64], dim: usize, factor: f64, out: &mut [f64], scratch: &mut Scratch) -> f64 {
        assert_eq!(weights.len(), out.len(), "one derivative an entry");
        self.gradient_add(weights, dim, factor, Some(out), scratch)
    }

    fn gradient_add(&self, weights: &[f64], dim: usize, factor: f64, out: Option<&mut [f64]>, scratch: &mut Scratch) -> f64 {
        let count = rows(weights, dim);
        if count < 2 {
            return 0.0;
        }
        let lengths = room(&mut scratch.first, count);
        for (length, row) in lengths.iter_mut().zip(weights.chunks_exact(dim)) {
            *length = dot(row, row).sqrt();
        }
        let row = |i: usize| &weights[i * dim..(i + 1) * dim];
        let pairs = || (1..count).flat_map(|i| (0..i).map(move |j| (i, j)));
        let number = (count * (count - 1) / 2) as f64;
        let cosines = room(&mut scratch.second, count * (count - 1) / 2);
        let angles = room(&mut scratch.third, count * (count - 1) / 2);
        for (((i, j), c), theta) in pairs().zip(cosines.iter_mut()).zip(angles.iter_mut()) {
            let product = lengths[i] * lengths[j];
            *c = if product > 0.0 { (dot(row(i), row(j)) / product).clamp(-1.0, 1.0) } else { 0.0 };
            *theta = self.smooth(*c).0.acos();
        }
        let (mean, variance) = moments(angles);
        let Some(out) = out else { return mean - self.gamma * variance };
        for (((i, j), &c), &theta) in pairs().zip(cosines.iter()).zip(angles.iter()) {
            if 1.0 - c.abs() < PARALLEL || lengths[i] * lengths[j] == 0.0 {
                continue;
            }
            let (s, slope) = self.smooth(c);
            let by_angle = (1.0 - 2.0 * self.gamma * (theta - mean)) / number;
            let by_cosine = -factor * by_angle * slope / ((1.0 - s) * (1.0 + s)).sqrt();
            for d in 0..dim {
                let (a, b) = (weights[i * dim + d] / lengths[i], weights[j * dim + d] / lengths[j]);
                out[i * dim + d] += by_cosine * (b - c * a) / lengths[i];
                out[j * dim + d] += by_cosine * (a - c * b) / lengths[j];
            }
        }
        mean - self.gamma * variance
    }

    /// `S(c)` and its derivative.
    fn smooth(&self, c: f64) -> (f64, f64) {
        let delta = self.delta;
        if delta == 0.0 {
            return (c.abs(), if c == 0.0 { 0.0 } else { c.signum() });
        }
        // sqrt(x^2 + delta^2) - delta = x^2/(sqrt(x^2 + delta^2) + delta): no digit is lost for large delta
        let root = c.hypot(delta);
        let scale = 1.0_f64.hypot(delta) + delta;
        ((c * c * scale / (root + delta)).min(1.0), c / root * scale)
    }
}

/// Angles between directions in both notions, which disagree: opposite directions are as far apart as can be by the signed
/// angle and not at all by the non-obtuse one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Angles {
    /// `arccos(c)` of the pairs `(2,1), (3,1), (3,2), ...`, between 0 and pi.
    pub signed: Vec<f64>,
    /// `arccos|c|`, between 0 and pi/2.
    pub non_obtuse: Vec<f64>,
}

/// Mean, smallest value and population variance.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AngleSummary {
    /// Mean.
    pub mean: f64,
    /// Smallest.
    pub min: f64,
    /// Population variance.
    pub variance: f64,
}

impl AngleSummary {
    /// Of the given angles; `None` where there are none.
    pub fn of(angles: &[f64]) -> Option<Self> {
        if angles.is_empty() {
            return None;
        }
        let (mean, variance) = moments(angles);
        Some(Self { mean, min: angles.iter().copied().fold(f64::INFINITY, f64::min), variance })
    }
}

/// Angles of all pairs of vectors of any length, one a row.
///
/// # Panics
/// If the number of entries is no multiple of `dim`.
pub fn angles(directions: &[f64], dim: usize) -> Angles {
    let count = rows(directions, dim);
    let row = |i: usize| &directions[i * dim..(i + 1) * dim];
    let mut out = Angles { signed: Vec::new(), non_obtuse: Vec::new() };
    for i in 1..count {
        for j in 0..i {
            let product = (dot(row(i), row(i)) * dot(row(j), row(j))).sqrt();
            let cosine = if product > 0.0 { (dot(row(i), row(j)) / product).clamp(-1.0, 1.0) } else { 0.0 };
            out.signed.push(cosine.acos());
            out.non_obtuse.push(cosine.abs().acos());
        }
    }
    out
}

/// Mean and population variance.
fn moments(values: &[f64]) -> (f64, f64) {
    let number = values.len() as f64;
    let mean = values.iter().sum::<f64>() / number;
    (mean, values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / number)
}
