//! Real numbers, independent given the atom: `x_d ~ N(mu_d, 1/tau_d)`, `tau_d ~ Gamma(a0, b0_d)`, `mu_d ~ N(m0_d, 1/(k0 tau_d))`.
//!
//! Statistics of a column: n, sum of `x - m0`, sum of its squares. Then `k = k0 + n`, `m = s/k` (less `m0`), `a = a0 + n/2`,
//! `b = b0 + (q - s^2/k)/2`, and a column's log marginal is
//! `-(n/2) ln 2pi + ln(k0/k)/2 + a0 ln b0 - a ln b + lgamma(a) - lgamma(a0)`.
//! A row of weight w adds `w k (x - m)^2/(2 (k + w))` to b: with it the ratio of two marginals is a power of a Student density,
//! `c - (a + w/2) ln(1 + w k (x - m)^2 / (2 (k + w) b))`.

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};
use std::f64::consts::TAU;

use super::{Conjugate, LANES, Prepared, padded};
use crate::Result;
use crate::dist::Gamma;
use crate::linalg::wide;
use crate::special::branchless::ln_1p;
use crate::special::ln_gamma;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Diagonal {
    /// m0.
    pub(super) centre: Vec<f64>,
    /// k0.
    pub(super) strength: f64,
    /// a0.
    pub(super) shape: f64,
    /// b0 of each column; 0 where the column is left out.
    pub(super) rate: Vec<f64>,
}

/// Of one column: k, m less `m0`, a, b.
struct Posterior {
    k: f64,
    m: f64,
    a: f64,
    b: f64,
}

impl Diagonal {
    fn used(&self, d: usize) -> bool {
        self.rate[d] > 0.0
    }

    fn posterior(&self, d: usize, stats: &[f64]) -> Posterior {
        let [n, s, q] = [stats[3 * d], stats[3 * d + 1], stats[3 * d + 2]];
        let k = self.strength + n;
        // rounding must not make the spread about the mean negative
        Posterior { k, m: s / k, a: self.shape + 0.5 * n, b: self.rate[d] + 0.5 * (q - s * s / k).max(0.0) }
    }
}

/// Numbers of a column in [`Prepared`], each a run of its own: mean (with `m0`), scale of squares, power, constant.
const RUNS: usize = 4;

/// Sum over columns, of a row with cells added up to whole lanes; missing cells count nothing. One plain loop over all cells is what the
/// compiler turns into vector instructions; `terms` is room for them.
#[inline(always)]
fn student(numbers: &[f64], row: &[f64], terms: &mut [f64]) -> f64 {
    let n = row.len();
    let terms = &mut terms[..n];
    let (mean, scale) = (&numbers[..n], &numbers[n..2 * n]);
    let (power, constant) = (&numbers[2 * n..3 * n], &numbers[3 * n..4 * n]);
    for d in 0..n {
        let moved = row[d] - mean[d];
        let square = scale[d] * moved * moved;
        // a missing cell is NaN here; beyond 1e299 a density is as good as 0
        let square = if square < 1e299 { square } else { 1e299 };
        let value = constant[d] - power[d] * ln_1p(square);
        terms[d] = if row[d].is_nan() { 0.0 } else { value };
    }
    let mut sums = [0.0; LANES];
    for part in terms.chunks_exact(LANES) {
        for lane in 0..LANES {
            sums[lane] += part[lane];
        }
    }
    sums.iter().sum()
}

/// Numbers of a column of an atom made ready, each a run of its own: mean, precision, `ln(precision / 2 pi)`. The constant is the sum of the last.
const READY: usize = 3;

/// Sum over columns of precisions times squares, of a row without missing cells and with cells added up to whole lanes.
#[inline(always)]
fn squares(numbers: &[f64], row: &[f64]) -> f64 {
    let (mean, precision) = (&numbers[..row.len()], &numbers[row.len()..2 * row.len()]);
    let mut sums = [0.0; LANES];
    for ((x, m), p) in row.chunks_exact(LANES).zip(mean.chunks_exact(LANES)).zip(precision.chunks_exact(LANES)) {
        for lane in 0..LANES {
            let moved = x[lane] - m[lane];
            sums[lane] += p[lane] * moved * moved;
        }
    }
    sums.iter().sum()
}

impl Conjugate for Diagonal {
    fn statistics(&self) -> usize {
        3 * self.centre.len()
    }

    fn parameters(&self) -> usize {
        2 * self.centre.len()
    }

    fn add(&self, stats: &mut [f64], row: &[f64], weight: f64) {
        for d in 0..row.len() {
            let x = row[d] - self.centre[d];
            if self.used(d) && !x.is_nan() {
                stats[3 * d] += weight;
                stats[3 * d + 1] += weight * x;
                stats[3 * d + 2] += weight * x * x;
            }
        }
    }

    fn prepare(&self, stats: &[f64], weight: f64, out: &mut Prepared) {
        let width = padded(self.centre.len());
        out.constant = 0.0;
        out.numbers.clear();
        out.numbers.resize(RUNS * width, 0.0);
        // complete columns share n, and so the dear part of the constant
        let mut last = (f64::NAN, 0.0);
        for d in (0..self.centre.len()).filter(|&d| self.used(d)) {
            let Posterior { k, m, a, b } = self.posterior(d, stats);
            if last.0 != a {
                last = (a, ln_gamma(a + 0.5 * weight) - ln_gamma(a) + 0.5 * (k / (k + weight)).ln());
            }
            out.numbers[d] = self.centre[d] + m;
            out.numbers[width + d] = weight * k / (2.0 * (k + weight) * b);
            out.numbers[2 * width + d] = a + 0.5 * weight;
            out.numbers[3 * width + d] = last.1 - 0.5 * weight * (TAU * b).ln();
        }
    }

    fn ln_predictive(&self, prepared: &Prepared, row: &[f64], weight: f64) -> f64 {
        let mut out = [0.0];
        self.ln_predictive_each(std::slice::from_ref(prepared), row, weight, &mut out);
        out[0]
    }

    fn ln_predictive_each(&self, prepared: &[Prepared], row: &[f64], _: f64, out: &mut [f64]) {
        let mut cells = row.to_vec();
        cells.resize(padded(row.len()), 0.0); // of no weight in `numbers`
        let mut terms = vec![0.0; cells.len()];
        wide(
            #[inline(always)]
            || {
                for (out, prepared) in out.iter_mut().zip(prepared) {
                    *out = student(&prepared.numbers, &cells, &mut terms);
                }
            },
        );
    }

    fn ln_marginal(&self, stats: &[f64]) -> f64 {
        let mut sum = 0.0;
        for d in (0..self.centre.len()).filter(|&d| self.used(d)) {
            let (n, b0, a0, k0) = (stats[3 * d], self.rate[d], self.shape, self.strength);
            let Posterior { k, a, b, .. } = self.posterior(d, stats);
            sum += 0.5 * ((k0 / k).ln() - n * TAU.ln()) + a0 * b0.ln() - a * b.ln() + ln_gamma(a) - ln_gamma(a0);
        }
        sum
    }

    fn draw<R: Rng + ?Sized>(&self, stats: &[f64], rng: &mut R) -> Result<Vec<f64>> {
        let dim = self.centre.len();
        let mut theta = self.centre.clone();
        theta.resize(2 * dim, 0.0);
        for d in (0..dim).filter(|&d| self.used(d)) {
            let Posterior { k, m, a, b } = self.posterior(d, stats);
            let precision = Gamma::new(a, b)?.sample(rng).max(f64::MIN_POSITIVE);
            let z: f64 = StandardNormal.sample(rng);
            theta[d] += m + z / (k * precision).sqrt();
            theta[dim + d] = precision;
        }
        Ok(theta)
    }

    fn ln_density(&self, theta: &[f64], row: &[f64]) -> f64 {
        let (mean, precision) = theta.split_at(row.len());
        let cells = (0..row.len()).filter(|&d| precision[d] > 0.0 && !row[d].is_nan());
        cells.map(|d| 0.5 * ((precision[d] / TAU).ln() - precision[d] * (row[d] - mean[d]).powi(2))).sum()
    }

    fn ready(&self, theta: &[f64], out: &mut Prepared) {
        let dim = self.centre.len();
        let width = padded(dim);
        out.numbers.clear();
        out.numbers.resize(READY * width, 0.0);
        out.numbers[..dim].copy_from_slice(&theta[..dim]);
        for d in (0..dim).filter(|&d| theta[dim + d] > 0.0) {
            out.numbers[width + d] = theta[dim + d];
            out.numbers[2 * width + d] = (theta[dim + d] / TAU).ln();
        }
        out.constant = out.numbers[2 * width..].iter().sum();
    }

    fn ln_density_ready(&self, ready: &Prepared, row: &[f64]) -> f64 {
        let width = padded(row.len());
        let (mean, rest) = ready.numbers.split_at(width);
        let (precision, ln) = rest.split_at(width);
        let cells = (0..row.len()).filter(|&d| precision[d] > 0.0 && !row[d].is_nan());
        cells.map(|d| 0.5 * (ln[d] - precision[d] * (row[d] - mean[d]).powi(2))).sum()
    }

    fn ln_density_each(&self, ready: &[Prepared], row: &[f64], open: impl Fn(usize) -> bool, out: &mut [f64]) {
        let whole = !row.iter().any(|x| x.is_nan());
        if !whole {
            for (k, (out, ready)) in out.iter_mut().zip(ready).enumerate() {
                *out = if open(k) { self.ln_density_ready(ready, row) } else { f64::NEG_INFINITY };
            }
            return;
        }
        let mut cells = row.to_vec();
        cells.resize(padded(row.len()), 0.0); // of no precision
        wide(
            #[inline(always)]
            || {
                for (k, (out, ready)) in out.iter_mut().zip(ready).enumerate() {
                    *out = if open(k) { 0.5 * (ready.constant - squares(&ready.numbers, &cells)) } else { f64::NEG_INFINITY };
                }
            },
        );
    }

    fn draw_row<R: Rng + ?Sized>(&self, theta: &[f64], rng: &mut R, out: &mut [f64]) -> Result<()> {
        let (mean, precision) = theta.split_at(out.len());
        for d in (0..out.len()).filter(|&d| !out[d].is_nan()).collect::<Vec<_>>() {
            let z: f64 = StandardNormal.sample(rng);
            out[d] = if self.used(d) { mean[d] + z / precision[d].sqrt() } else { mean[d] };
        }
        Ok(())
    }

    fn mean(&self, theta: &[f64]) -> Vec<f64> {
        theta[..self.centre.len()].to_vec()
    }
}
