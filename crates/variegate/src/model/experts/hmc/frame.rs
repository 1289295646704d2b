//! Flat coordinates in which directions can be told how columns hang together.
//!
//! A sphere has one scale in all directions, but rows bend the posterior far more along some combinations of columns than along others. A unit
//! vector a in P dimensions with a density p(a) is y/|y| for y with density p(y/|y|) e^{−|y|²/2}: |y| is independent of all else and
//! is drawn anew before every trajectory, and y lives in flat space, where momenta may have any covariance. Theirs is I + cC for each row of
//! an expert or gate, C the covariance of the columns and c such that the mean curvature is that of the target; lengths and
//! intercepts have one mass for each of the four kinds. Curvature is measured by squared gradients (their mean is minus the mean second
//! derivative), in windows of the warm-up that double in length.

use rand::Rng;
use serde::{Deserialize, Serialize};
use std::ops::Range;

use super::super::shape::Shape;
use crate::dist::Gamma;
use crate::linalg::{self, Cholesky, dot};
use crate::{Error, Result};

/// Columns beyond which C is taken as diagonal: its factor would cost more than the rows.
pub const MOST_COLUMNS: usize = 512;
/// Sweeps of the first window.
const FIRST_WINDOW: u64 = 20;

/// The coordinates, and what was learned of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Frame {
    /// C (p×p, lower triangle), or its diagonal.
    covariance: Vec<f64>,
    /// c of experts and of gates.
    pull: [f64; 2],
    /// Masses of lengths of experts and gates, and of their intercepts.
    mass: [f64; 4],
    /// Mean squared gradients of the sweeps of this window, by kind: directions of experts and gates, lengths, intercepts.
    seen: [Vec<f64>; 6],
    /// Sweep at which the window ends.
    until: u64,
    #[serde(skip)]
    factors: Option<[Factor; 2]>,
}

/// I + cC = LLᵀ.
#[derive(Debug, Clone, PartialEq)]
enum Factor {
    Dense { lower: Vec<f64>, inverse: Vec<f64> },
    Diagonal(Vec<f64>),
}

impl Factor {
    fn new(covariance: &[f64], p: usize, c: f64) -> Result<Self> {
        if covariance.len() == p {
            return Ok(Factor::Diagonal(covariance.iter().map(|v| (1.0 + c * v).sqrt()).collect()));
        }
        let mut matrix: Vec<f64> = covariance.iter().map(|v| c * v).collect();
        (0..p).for_each(|j| matrix[j * p + j] += 1.0);
        let detail = |e| format!("{e}; look at the scale of the columns");
        let (factor, _) = Cholesky::with_jitter(p, &matrix).map_err(|e| Error::Numerical {
            what: "the covariance of the columns",
            sweep: 0,
            detail: detail(e),
        })?;
        Ok(Factor::Dense { lower: factor.lower(), inverse: factor.inverse_lower() })
    }

    /// q = Lᵀy for each row.
    fn whiten(&self, rows: &mut [f64], p: usize) {
        let n = rows.len() / p;
        match self {
            Factor::Dense { lower, .. } => {
                let given = rows.to_vec();
                linalg::mul(&given, lower, rows, n, p, p, false);
            }
            Factor::Diagonal(root) => rows.chunks_exact_mut(p).for_each(|row| row.iter_mut().zip(root).for_each(|(v, r)| *v *= r)),
        }
    }

    /// y = L⁻ᵀq for each row.
    fn colour(&self, rows: &mut [f64], p: usize) {
        let n = rows.len() / p;
        match self {
            Factor::Dense { inverse, .. } => {
                let given = rows.to_vec();
                linalg::mul(&given, inverse, rows, n, p, p, false);
            }
            Factor::Diagonal(root) => rows.chunks_exact_mut(p).for_each(|row| row.iter_mut().zip(root).for_each(|(v, r)| *v /= r)),
        }
    }

    /// Gradients with respect to q from those with respect to y: L⁻¹g for each row.
    fn pull_back(&self, rows: &mut [f64], p: usize) {
        let n = rows.len() / p;
        match self {
            Factor::Dense { inverse, .. } => {
                let given = rows.to_vec();
                linalg::mul_t(&given, inverse, rows, n, p, p, false);
            }
            Factor::Diagonal(_) => self.colour(rows, p),
        }
    }
}

/// Where the six kinds of coordinates lie: directions, lengths and intercepts, each of experts and of gates.
fn kinds(shape: &Shape) -> [Range<usize>; 6] {
    [
        shape.expert_directions(),
        shape.gate_directions(),
        shape.expert_sizes(),
        shape.gate_sizes(),
        shape.expert_intercepts(),
        shape.gate_intercepts(),
    ]
}

impl Frame {
    /// From Σ x̃x̃ᵀ (lower triangle, or its diagonal and the sums Σ x̃ after it) over so many rows, with a first guess at the curvature from
    /// the mean square lengths that the prior gives experts and gates. It must not depend on where the chain is: a sweep would not leave the posterior as it is.
    pub fn new(shape: &Shape, gram: &[f64], rows: f64, squares: [f64; 2]) -> Self {
        let (p, d) = (shape.inputs, shape.dim());
        let n = rows.max(1.0);
        let covariance: Vec<f64> = if gram.len() == 2 * d {
            (0..p).map(|j| (gram[j] / n - if shape.bias { (gram[d + j] / n).powi(2) } else { 0.0 }).max(0.0)).collect()
        } else {
            // the last design column is the bias, so its row of the Gram matrix holds the sums
            let mean = |j: usize| if shape.bias { gram[p * d + j] / n } else { 0.0 };
            let entry = |i: usize, j: usize| if j <= i { gram[i * d + j] / n - mean(i) * mean(j) } else { 0.0 };
            (0..p * p).map(|at| entry(at / p, at % p)).collect()
        };
        let mut out = Self { covariance, pull: [0.0; 2], mass: [1.0; 4], seen: Default::default(), until: FIRST_WINDOW, factors: None };
        // a logistic row has a curvature of about a tenth, and each expert has its share of rows
        let bend = 0.1 * n / shape.experts as f64;
        let spread = out.trace(p) / p as f64;
        for (side, (square, dim)) in squares.into_iter().zip([shape.expert_dim(), p]).enumerate() {
            out.pull[side] = bend * square / dim as f64;
            out.mass[side] = 1.0 + bend * square * spread;
            out.mass[2 + side] = 1.0 + bend;
        }
        out
    }

    fn trace(&self, p: usize) -> f64 {
        if self.covariance.len() == p { self.covariance.iter().sum() } else { (0..p).map(|j| self.covariance[j * p + j]).sum() }
    }

    fn factors(&mut self, p: usize) -> Result<&[Factor; 2]> {
        if self.factors.is_none() {
            self.factors = Some([Factor::new(&self.covariance, p, self.pull[0])?, Factor::new(&self.covariance, p, self.pull[1])?]);
        }
        self.factors.as_ref().ok_or_else(|| Error::Unfit("no factors".into()))
    }

    /// Paces of all coordinates.
    pub fn paces(&self, shape: &Shape) -> Vec<f64> {
        let mut out = vec![1.0; shape.len()];
        for (range, mass) in kinds(shape)[2..].iter().zip(self.mass) {
            out[range.clone()].fill(mass.sqrt().recip());
        }
        out
    }

    /// Flat coordinates of a point, with lengths |y| drawn anew.
    pub fn enter<R: Rng + ?Sized>(&mut self, shape: &Shape, point: &[f64], rng: &mut R) -> Result<Vec<f64>> {
        let p = shape.inputs;
        let mut out = point.to_vec();
        let sides = [(shape.expert_directions(), shape.expert_dim()), (shape.gate_directions(), p)];
        let factors = self.factors(p)?;
        for ((range, dim), factor) in sides.into_iter().zip(factors) {
            let length = Gamma::new(0.5 * dim as f64, 0.5)?;
            for row in out[range.clone()].chunks_exact_mut(dim) {
                let scale = (0.5 * length.sample_ln(rng)).exp();
                row.iter_mut().for_each(|v| *v *= scale);
            }
            if !range.is_empty() {
                factor.whiten(&mut out[range], p);
            }
        }
        Ok(out)
    }

    /// The point of flat coordinates, and |y| of every direction. `enter` comes before it.
    pub fn leave(&self, shape: &Shape, flat: &[f64], lengths: &mut Vec<f64>) -> Vec<f64> {
        let p = shape.inputs;
        let mut out = flat.to_vec();
        lengths.clear();
        let sides = [(shape.expert_directions(), shape.expert_dim()), (shape.gate_directions(), p)];
        for ((range, dim), factor) in sides.into_iter().zip(self.factors.iter().flatten()) {
            if range.is_empty() {
                continue;
            }
            factor.colour(&mut out[range.clone()], p);
            for row in out[range].chunks_exact_mut(dim) {
                let length = dot(row, row).sqrt();
                row.iter_mut().for_each(|v| *v /= length);
                lengths.push(length);
            }
        }
        out
    }

    /// Turns the gradient with respect to a point (in the surrounding space) into that with respect to flat coordinates, and returns what
    /// the lengths |y| add to the log density.
    pub fn pull_back(&self, shape: &Shape, point: &[f64], lengths: &[f64], gradient: &mut [f64]) -> f64 {
        let p = shape.inputs;
        let mut value = 0.0;
        let mut lengths = lengths.iter();
        let sides = [(shape.expert_directions(), shape.expert_dim()), (shape.gate_directions(), p)];
        for ((range, dim), factor) in sides.into_iter().zip(self.factors.iter().flatten()) {
            if range.is_empty() {
                continue;
            }
            let rows = point[range.clone()].chunks_exact(dim).zip(gradient[range.clone()].chunks_exact_mut(dim));
            for ((a, g), length) in rows.zip(&mut lengths) {
                let along = dot(a, g);
                g.iter_mut().zip(a).for_each(|(g, a)| *g = (*g - along * a) / length - length * a);
                value -= 0.5 * length * length;
            }
            factor.pull_back(&mut gradient[range], p);
        }
        value
    }

    /// Takes in the gradient at a point (in the surrounding space) during the warm-up. True at the end of a window: the
    /// coordinates are others from then on.
    pub fn learn(&mut self, shape: &Shape, point: &[f64], gradient: &[f64], sweep: u64) -> bool {
        for (kind, range) in kinds(shape).into_iter().enumerate() {
            if range.is_empty() {
                continue;
            }
            let square = match kind {
                0 | 1 => {
                    let dim = if kind == 0 { shape.expert_dim() } else { shape.inputs };
                    let rows = point[range.clone()].chunks_exact(dim).zip(gradient[range.clone()].chunks_exact(dim));
                    // across the sphere, where |y|² is about the dimension
                    rows.map(|(a, g)| (dot(g, g) - dot(a, g).powi(2)).max(0.0)).sum::<f64>() / dim as f64
                }
                _ => gradient[range.clone()].iter().map(|g| g * g).sum(),
            };
            self.seen[kind].push(square / range.len() as f64);
        }
        if sweep < self.until {
            return false;
        }
        let p = shape.inputs;
        let spread = self.trace(p) / p as f64;
        // the median, because a chain on its way from its start sees slopes that it never meets again
        let curvature = self.seen.each_mut().map(|seen| median(seen));
        for side in 0..2 {
            self.pull[side] = if spread > 0.0 { curvature[side] / spread } else { 0.0 };
        }
        for (mass, curvature) in self.mass.iter_mut().zip(&curvature[2..]) {
            // never lighter than a weak prior would make it
            *mass = curvature.max(0.02);
        }
        self.seen.iter_mut().for_each(Vec::clear);
        self.factors = None;
        self.until = 2 * sweep.max(FIRST_WINDOW);
        true
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
