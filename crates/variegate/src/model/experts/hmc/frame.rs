//! Flat coordinates in which directions are preconditioned by the covariance of columns.
//!
//! A sphere has one scale in all directions, but rows bend the posterior far more along some combinations of columns than along others. A unit
//! vector a in P dimensions with a density p(a) is y/|y| for y with density p(y/|y|) e^{−|y|²/2}: |y| is independent of all else and
//! is drawn anew before every trajectory, and y lives in flat space, where momenta may have any covariance. Theirs is I + cC for each row of
//! an expert or gate, C the covariance of the columns and c such that its mean curvature is that of the likelihood, and to that comes what
//! a chain of type II binds the experts with: their sum, and the sums on the way to it, are far stiffer than each of them; lengths and
//! intercepts have masses. An expert that many rows ask is stiffer than one that few ask, so that each has a c and masses of its own, which
//! go along when labels are exchanged. Curvature is measured by squared gradients (their mean is minus the mean second
//! derivative), in windows of the warm-up that double in length.

use rand::Rng;
use serde::{Deserialize, Serialize};
use std::ops::Range;

use crate::dist::Gamma;
use crate::linalg::{self, Cholesky, dot};
use crate::model::experts::point_prior::PointPrior;
use crate::model::experts::shape::Shape;
use crate::prior::{AngularKind, Directions, MutualAngular};
use crate::{Error, Result};

/// Columns beyond which C is taken as diagonal: its factor would cost more than the rows.
pub(super) const MOST_COLUMNS: usize = 512;
/// Sweeps of the first window.
const FIRST_WINDOW: u64 = 20;

/// Share of the highest squared gradients that is left out of a mean: a chain on its way from its start sees slopes that it never meets
/// again.
const LEFT_OUT: f64 = 0.1;
/// No vector is taken to be freer than this share of the mean: an expert that no row asks now may be asked later. With a share of 1 steps are
/// refused less often, but in three runs of four chains did not agree (`bench/RESULTS.md`).
const LEAST_SHARE: f64 = 0.3;

/// The coordinates, and what was learned of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Frame {
    /// Eigenvectors of C, one a column; empty where C is diagonal.
    basis: Vec<f64>,
    /// Eigenvalues of C.
    spread: Vec<f64>,
    /// c of each expert and of each gate.
    pulls: [Vec<f64>; 2],
    /// Masses of the lengths of experts and gates, and of their intercepts.
    masses: [Vec<f64>; 4],
    /// Mean squared gradients of the sweeps of this window, by kind (directions of experts and gates, lengths, intercepts), an expert
    /// after the other.
    seen: [Vec<f64>; 6],
    /// Sweep at which the window ends.
    until: u64,
    /// Concentrations of the chains of experts and gates that the factors are for; 0 without a chain.
    #[serde(skip)]
    kappas: [f64; 2],
    #[serde(skip)]
    factors: Option<[Factors; 2]>,
}

/// LLᵀ = I + λ diag(c) + R over the experts, for every eigenvalue λ: L (K×K each), and its inverse.
#[derive(Debug, Clone, PartialEq)]
struct Factors {
    lower: Vec<f64>,
    inverse: Vec<f64>,
}

/// What is done to vectors: y becomes q = Lᵀy, or q becomes y, or a gradient with respect to y one with respect to q.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Whiten,
    Colour,
    PullBack,
}

/// R: how a mutual angular chain of type II binds K vectors y in p dimensions to each other. Near a sum of zero its logarithm is
/// −κ Σ_{i<j} aᵢ'aⱼ − κ²/(2p) Σ_i |a₁ + … + aᵢ|², with a = y/√p.
fn bonds(experts: usize, p: f64, kappa: f64) -> Vec<f64> {
    // element (i, j): in how many of the sums before the last both are
    let together = |i: usize, j: usize| (experts - 1 - i.max(j)) as f64;
    (0..experts * experts).map(|at| (kappa + kappa * kappa / p * together(at / experts, at % experts)) / p).collect()
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
    /// the mean square lengths that the prior gives experts and gates. It must not depend on where the chain is:
    /// a sweep would not leave the posterior as it is.
    pub(super) fn new(shape: &Shape, gram: &[f64], rows: f64, squares: [f64; 2]) -> Result<Self> {
        let (p, d) = (shape.inputs, shape.dim());
        let n = rows.max(1.0);
        let (basis, spread): (Vec<f64>, Vec<f64>) = if gram.len() == 2 * d {
            let variance = |j: usize| gram[j] / n - if shape.bias { (gram[d + j] / n).powi(2) } else { 0.0 };
            (Vec::new(), (0..p).map(|j| variance(j).max(0.0)).collect())
        } else {
            // the last design column is the bias, so its row of the Gram matrix holds the sums
            let mean = |j: usize| if shape.bias { gram[p * d + j] / n } else { 0.0 };
            let entry = |i: usize, j: usize| if j <= i { gram[i * d + j] / n - mean(i) * mean(j) } else { 0.0 };
            let covariance: Vec<f64> = (0..p * p).map(|at| entry(at / p, at % p)).collect();
            let (basis, spread) = linalg::eigen(&covariance, p).ok_or_else(|| Error::Numerical {
                what: "the covariance of the columns",
                sweep: 0,
                detail: "its eigenvectors were not found; look at the scale of the columns".into(),
            })?;
            (basis, spread.iter().map(|v: &f64| v.max(0.0)).collect())
        };
        // a logistic row has a curvature of about a tenth, and each expert has its share of rows
        let bend = 0.1 * n / shape.experts as f64;
        let mean = spread_mean(&spread);
        let (mut pulls, mut masses) = ([Vec::new(), Vec::new()], [const { Vec::new() }; 4]);
        for (side, (square, dim, count)) in
            [(squares[0], shape.expert_dim(), shape.experts), (squares[1], p, shape.gates())].into_iter().enumerate()
        {
            pulls[side] = vec![bend * square / dim as f64; count];
            masses[side] = vec![1.0 + bend * square * mean; count];
            masses[2 + side] = vec![1.0 + bend; count];
        }
        Ok(Self { basis, spread, pulls, masses, seen: Default::default(), until: FIRST_WINDOW, kappas: [0.0; 2], factors: None })
    }

    /// Two experts exchange labels: what was learned of them goes along.
    pub(super) fn exchange(&mut self, i: usize, k: usize) {
        let experts = self.pulls[0].len();
        for values in self.pulls.iter_mut().chain(&mut self.masses).chain(&mut self.seen).filter(|values| !values.is_empty()) {
            values.chunks_exact_mut(experts).for_each(|sweep| sweep.swap(i, k));
        }
        self.factors = None;
    }

    /// Gets ready for a trajectory under a prior.
    pub(super) fn prepare(&mut self, shape: &Shape, point_prior: &PointPrior) -> Result<()> {
        let kappas = [&point_prior.experts, &point_prior.gates].map(|side| match &side.directions {
            Directions::MutualAngular(MutualAngular { kind: AngularKind::Two, kappa, .. }) => *kappa,
            _ => 0.0,
        });
        if self.basis.is_empty() || (self.factors.is_some() && self.kappas == kappas) {
            return Ok(());
        }
        let factor = |side: usize, dim: usize| -> Result<Factors> {
            let k = self.pulls[side].len();
            let (bonds, mut out) = (bonds(k, dim as f64, kappas[side]), Factors { lower: Vec::new(), inverse: Vec::new() });
            for l in self.spread.iter().filter(|_| k > 0) {
                let mut matrix = bonds.clone();
                (0..k).for_each(|i| matrix[i * k + i] += 1.0 + l * self.pulls[side][i]);
                let (factor, _) = Cholesky::with_jitter(k, &matrix).map_err(|e| Error::Numerical {
                    what: "the coordinates of trajectories",
                    sweep: 0,
                    detail: format!("{e}; look at the scale of the columns"),
                })?;
                out.lower.extend(factor.lower());
                out.inverse.extend(factor.inverse_lower());
            }
            Ok(out)
        };
        let factors = [factor(0, shape.expert_dim())?, factor(1, shape.inputs)?];
        (self.kappas, self.factors) = (kappas, Some(factors));
        Ok(())
    }

    /// Paces of all coordinates.
    pub(super) fn paces(&self, shape: &Shape) -> Vec<f64> {
        let mut out = vec![1.0; shape.len()];
        for (range, masses) in kinds(shape)[2..].iter().zip(&self.masses).filter(|(range, _)| !range.is_empty()) {
            let each = range.len() / masses.len();
            out[range.clone()].chunks_exact_mut(each).zip(masses).for_each(|(paces, mass)| paces.fill(mass.sqrt().recip()));
        }
        out
    }

    /// Multiplies the vectors of a side, in the eigenvectors, by Lᵀ, L⁻ᵀ or L⁻¹. Where C is diagonal, vectors stand alone and L is.
    fn stretch(&self, side: usize, rows: &mut [f64], way: Way) {
        let (p, k) = (self.spread.len(), self.pulls[side].len());
        let each = rows.len() / k;
        let Some(factors) = &self.factors else {
            for (vector, c) in rows.chunks_exact_mut(each).zip(&self.pulls[side]) {
                for row in vector.chunks_exact_mut(p) {
                    for (v, l) in row.iter_mut().zip(&self.spread) {
                        let by = (1.0 + c * l).sqrt();
                        *v = if way == Way::Whiten { *v * by } else { *v / by };
                    }
                }
            }
            return;
        };
        let Factors { lower, inverse } = &factors[side];
        let matrix = if way == Way::Whiten { lower } else { inverse };
        let (mut given, mut made) = (vec![0.0; k], vec![0.0; k]);
        for r in 0..each / p {
            for (j, matrix) in matrix.chunks_exact(k * k).enumerate() {
                let at = |i: usize| i * each + r * p + j;
                (0..k).for_each(|i| given[i] = rows[at(i)]);
                made.fill(0.0);
                for (i, row) in matrix.chunks_exact(k).enumerate() {
                    if way == Way::PullBack {
                        made[i] = dot(&row[..=i], &given[..=i]);
                    } else {
                        made[..=i].iter_mut().zip(row).for_each(|(m, l)| *m += l * given[i]);
                    }
                }
                (0..k).for_each(|i| rows[at(i)] = made[i]);
            }
        }
    }

    /// Rows in the eigenvectors, or back.
    fn rotate(&self, rows: &mut [f64], back: bool) {
        if self.basis.is_empty() {
            return;
        }
        let p = self.spread.len();
        let (given, n) = (rows.to_vec(), rows.len() / p);
        let product = if back { linalg::mul_t } else { linalg::mul };
        product(&given, &self.basis, rows, n, p, p, false);
    }

    /// Flat coordinates of a point, with lengths |y| drawn anew.
    pub(super) fn enter<R: Rng + ?Sized>(&self, shape: &Shape, point: &[f64], rng: &mut R) -> Result<Vec<f64>> {
        let mut out = point.to_vec();
        for (side, (range, dim)) in sides(shape).into_iter().enumerate() {
            let length = Gamma::new(0.5 * dim as f64, 0.5)?;
            for row in out[range.clone()].chunks_exact_mut(dim) {
                let scale = (0.5 * length.sample_ln(rng)).exp();
                row.iter_mut().for_each(|v| *v *= scale);
            }
            self.rotate(&mut out[range.clone()], false);
            self.stretch(side, &mut out[range], Way::Whiten);
        }
        Ok(out)
    }

    /// The point of flat coordinates, and |y| of every direction.
    pub(super) fn leave(&self, shape: &Shape, flat: &[f64], lengths: &mut Vec<f64>) -> Vec<f64> {
        let mut out = flat.to_vec();
        lengths.clear();
        for (side, (range, dim)) in sides(shape).into_iter().enumerate() {
            self.stretch(side, &mut out[range.clone()], Way::Colour);
            self.rotate(&mut out[range.clone()], true);
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
    pub(super) fn pull_back(&self, shape: &Shape, point: &[f64], lengths: &[f64], gradient: &mut [f64]) -> f64 {
        let mut value = 0.0;
        let mut lengths = lengths.iter();
        for (side, (range, dim)) in sides(shape).into_iter().enumerate() {
            let rows = point[range.clone()].chunks_exact(dim).zip(gradient[range.clone()].chunks_exact_mut(dim));
            for ((a, g), length) in rows.zip(&mut lengths) {
                let along = dot(a, g);
                g.iter_mut().zip(a).for_each(|(g, a)| *g = (*g - along * a) / length - length * a);
                value -= 0.5 * length * length;
            }
            self.rotate(&mut gradient[range.clone()], false);
            self.stretch(side, &mut gradient[range], Way::PullBack);
        }
        value
    }

    /// Takes in the gradient at a point (in the surrounding space; of directions that of the likelihood alone) during the warm-up. True at
    /// the end of a window: the coordinates are others from then on.
    pub(super) fn learn(&mut self, shape: &Shape, point: &[f64], gradient: &[f64], sweep: u64) -> bool {
        let experts = shape.experts;
        for (kind, range) in kinds(shape).into_iter().enumerate() {
            let each = range.len() / experts;
            if each == 0 {
                continue;
            }
            let rows = point[range.clone()].chunks_exact(each).zip(gradient[range].chunks_exact(each));
            self.seen[kind].extend(rows.map(|(a, g)| {
                // of directions across the sphere, where |y|² is about the dimension
                let square = dot(g, g);
                let across = if kind < 2 { (square - dot(a, g).powi(2)).max(0.0) / each as f64 } else { square };
                across / each as f64
            }));
        }
        if sweep < self.until {
            return false;
        }
        let mean = spread_mean(&self.spread);
        for (kind, seen) in self.seen.iter_mut().enumerate().filter(|(_, seen)| !seen.is_empty()) {
            let mut curvature: Vec<f64> = (0..experts).map(|k| usual(seen.iter().skip(k).step_by(experts).copied().collect())).collect();
            let least = LEAST_SHARE * curvature.iter().sum::<f64>() / experts as f64;
            curvature.iter_mut().for_each(|c| *c = c.max(least));
            match kind {
                0 | 1 => self.pulls[kind] = curvature.iter().map(|c| if mean > 0.0 { c / mean } else { 0.0 }).collect(),
                // never lighter than a weak prior would make it
                _ => self.masses[kind - 2] = curvature.iter().map(|c| c.max(0.02)).collect(),
            }
            seen.clear();
        }
        self.factors = None;
        self.until = 2 * sweep.max(FIRST_WINDOW);
        true
    }
}

/// Places of the directions of experts and of gates, and their dimensions.
fn sides(shape: &Shape) -> Vec<(Range<usize>, usize)> {
    let mut out = vec![(shape.expert_directions(), shape.expert_dim())];
    if shape.gates() > 0 {
        out.push((shape.gate_directions(), shape.inputs));
    }
    out
}

fn spread_mean(spread: &[f64]) -> f64 {
    spread.iter().sum::<f64>() / spread.len().max(1) as f64
}

/// Mean of all but the highest values.
fn usual(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.truncate(((1.0 - LEFT_OUT) * values.len() as f64).ceil() as usize);
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
