//! Real numbers around means that alone are unknown: `x ~ N(mu, S)`, `mu ~ N(mu0, S0)`, with S given (`gaussian-known`) or `S = s2 I`
//! with `s2 ~ InvGamma(a_s, b_s)` shared by all atoms (`gaussian-tied`).
//!
//! In coordinates `y = T (x - mu0)` both matrices are diagonal: none are needed where they already are, T turns by the eigenvectors of
//! S0 for `gaussian-tied`, and for `gaussian-known` it makes S the identity first. With a column's n, sum s and sum of squares q of y:
//! `V = 1/(1/S0 + n/S)`, `m = V s/S`, log marginal `-(n/2) ln(2 pi S) - ln(1 + n S0/S)/2 - (q/S - V s^2/S^2)/2`, and a row of weight w
//! has `-(w/2) ln(2 pi S) - ln(1 + w V/S)/2 - w (y - m)^2/(2 (S + w V))`, to which T adds `w ln |T|`.

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};
use std::f64::consts::TAU;

use super::{Conjugate, LANES, Prepared, broken, padded};
use crate::linalg::{self, Cholesky, wide};
use crate::{Error, Result};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Fixed {
    /// mu0.
    pub(super) centre: Vec<f64>,
    /// S, in the coordinates; 0 where the column is left out.
    pub(super) within: Vec<f64>,
    /// S0, in the coordinates.
    pub(super) between: Vec<f64>,
    pub(super) basis: Option<Basis>,
    /// Of `gaussian-tied`: a_s and b_s.
    pub(super) shared: Option<(f64, f64)>,
}

/// T, its inverse, and ln |T|.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Basis {
    there: Vec<f64>,
    back: Vec<f64>,
    ln_det: f64,
}

impl Basis {
    /// Turns by the eigenvectors of S0; S0 in the new coordinates comes with it.
    pub(super) fn turn(between: &[f64], dim: usize) -> Result<(Self, Vec<f64>)> {
        let (vectors, values) =
            linalg::eigen(between, dim).ok_or_else(|| broken("the eigenvectors of the spread of means", "give a diagonal one"))?;
        if !values.iter().all(|v| *v > 0.0 && v.is_finite()) {
            return Err(Error::setting("mean_variance", "not positive definite", "a positive definite matrix"));
        }
        let there = transposed(&vectors, dim);
        Ok((Self { there, back: vectors, ln_det: 0.0 }, values))
    }

    /// Makes S = L L' the identity and S0 diagonal: T = U' L^-1 with U the eigenvectors of L^-1 S0 L^-T.
    pub(super) fn whiten(within: &Cholesky, between: &[f64], dim: usize) -> Result<(Self, Vec<f64>)> {
        let lower = within.inverse_lower();
        let (mut half, mut both) = (vec![0.0; dim * dim], vec![0.0; dim * dim]);
        linalg::mul(&lower, between, &mut half, dim, dim, dim, false);
        linalg::mul_t(&half, &lower, &mut both, dim, dim, dim, false);
        let (turn, values) = Self::turn(&both, dim)?;
        let (mut there, mut back) = (vec![0.0; dim * dim], vec![0.0; dim * dim]);
        linalg::mul(&turn.there, &lower, &mut there, dim, dim, dim, false);
        linalg::mul(&within.lower(), &turn.back, &mut back, dim, dim, dim, false);
        Ok((Self { there, back, ln_det: -0.5 * within.ln_det() }, values))
    }
}

fn transposed(a: &[f64], dim: usize) -> Vec<f64> {
    (0..dim * dim).map(|at| a[at % dim * dim + at / dim]).collect()
}

/// out = a v.
fn times(a: &[f64], v: &[f64]) -> Vec<f64> {
    a.chunks_exact(v.len().max(1)).map(|row| linalg::dot(row, v)).collect()
}

/// Numbers of a column in [`Prepared`], each a run of its own: m, scale of squares, constant.
const RUNS: usize = 3;

/// Sum over columns, of coordinates with cells added up to whole lanes; missing cells count nothing.
#[inline(always)]
fn normal(numbers: &[f64], moved: &[f64]) -> f64 {
    let (mean, rest) = numbers.split_at(moved.len());
    let (scale, constant) = rest.split_at(moved.len());
    let runs = mean.chunks_exact(LANES).zip(scale.chunks_exact(LANES)).zip(constant.chunks_exact(LANES));
    let mut sums = [0.0; LANES];
    for (y, ((m, s), c)) in moved.chunks_exact(LANES).zip(runs) {
        for lane in 0..LANES {
            let value = c[lane] - s[lane] * (y[lane] - m[lane]) * (y[lane] - m[lane]);
            sums[lane] += if y[lane].is_nan() { 0.0 } else { value };
        }
    }
    sums.iter().sum()
}

impl Fixed {
    fn used(&self, d: usize) -> bool {
        self.within[d] > 0.0
    }

    /// The row in the coordinates.
    fn coordinates(&self, row: &[f64]) -> Vec<f64> {
        let moved: Vec<f64> = row.iter().zip(&self.centre).map(|(x, m)| x - m).collect();
        self.turned(moved)
    }

    /// T v.
    fn turned(&self, v: Vec<f64>) -> Vec<f64> {
        match &self.basis {
            Some(basis) => times(&basis.there, &v),
            None => v,
        }
    }

    /// m and V of a column.
    fn posterior(&self, d: usize, stats: &[f64]) -> (f64, f64) {
        let (n, s) = (stats[3 * d], stats[3 * d + 1]);
        let variance = 1.0 / (1.0 / self.between[d] + n / self.within[d]);
        (variance * s / self.within[d], variance)
    }

    fn ln_det(&self) -> f64 {
        self.basis.as_ref().map_or(0.0, |b| b.ln_det)
    }

    /// Weighted cells and their squared distances from the means drawn, of one atom.
    pub(super) fn residual(&self, stats: &[f64], theta: &[f64]) -> (f64, f64) {
        let mean = self.coordinates(theta);
        let mut sums = (0.0, 0.0);
        for d in (0..mean.len()).filter(|&d| self.used(d)) {
            let [n, s, q] = [stats[3 * d], stats[3 * d + 1], stats[3 * d + 2]];
            sums.0 += n;
            sums.1 += (q - 2.0 * mean[d] * s + n * mean[d] * mean[d]).max(0.0);
        }
        sums
    }

    /// The shared variance s2.
    pub(super) fn variance(&self) -> Option<f64> {
        self.shared.and_then(|_| self.within.iter().copied().find(|&v| v > 0.0))
    }

    pub(super) fn set_variance(&mut self, variance: f64) {
        self.within.iter_mut().filter(|v| **v > 0.0).for_each(|v| *v = variance);
    }
}

impl Conjugate for Fixed {
    fn statistics(&self) -> usize {
        3 * self.centre.len()
    }

    fn parameters(&self) -> usize {
        self.centre.len()
    }

    fn add(&self, stats: &mut [f64], row: &[f64], weight: f64) {
        let mut put = |d: usize, y: f64| {
            if self.used(d) && !y.is_nan() {
                stats[3 * d] += weight;
                stats[3 * d + 1] += weight * y;
                stats[3 * d + 2] += weight * y * y;
            }
        };
        match self.basis {
            Some(_) => self.coordinates(row).into_iter().enumerate().for_each(|(d, y)| put(d, y)),
            None => row.iter().zip(&self.centre).enumerate().for_each(|(d, (x, m))| put(d, x - m)),
        }
    }

    fn prepare(&self, stats: &[f64], weight: f64, out: &mut Prepared) {
        let width = padded(self.centre.len());
        out.constant = weight * self.ln_det();
        out.numbers.clear();
        out.numbers.resize(RUNS * width, 0.0);
        for d in (0..self.centre.len()).filter(|&d| self.used(d)) {
            let (m, variance) = self.posterior(d, stats);
            let within = self.within[d];
            out.numbers[d] = m;
            out.numbers[width + d] = 0.5 * weight / (within + weight * variance);
            out.numbers[2 * width + d] = -0.5 * (weight * (TAU * within).ln() + (weight * variance / within).ln_1p());
        }
    }

    fn ln_predictive(&self, prepared: &Prepared, row: &[f64], weight: f64) -> f64 {
        let mut out = [0.0];
        self.ln_predictive_each(std::slice::from_ref(prepared), row, weight, &mut out);
        out[0]
    }

    fn ln_predictive_each(&self, prepared: &[Prepared], row: &[f64], _: f64, out: &mut [f64]) {
        let mut moved = self.coordinates(row);
        moved.resize(padded(row.len()), 0.0); // of no weight in `numbers`
        wide(
            #[inline(always)]
            || {
                for (out, prepared) in out.iter_mut().zip(prepared) {
                    *out = prepared.constant + normal(&prepared.numbers, &moved);
                }
            },
        );
    }

    fn ln_marginal(&self, stats: &[f64]) -> f64 {
        let mut sum = stats.first().map_or(0.0, |n| n * self.ln_det());
        for d in (0..self.centre.len()).filter(|&d| self.used(d)) {
            let [n, s, q] = [stats[3 * d], stats[3 * d + 1], stats[3 * d + 2]];
            let (within, (m, _)) = (self.within[d], self.posterior(d, stats));
            // V s^2/S^2 = m s/S
            sum -= 0.5 * (n * (TAU * within).ln() + (n * self.between[d] / within).ln_1p() + (q - m * s) / within);
        }
        sum
    }

    fn draw<R: Rng + ?Sized>(&self, stats: &[f64], rng: &mut R) -> Result<Vec<f64>> {
        let mut moved = vec![0.0; self.centre.len()];
        for d in (0..moved.len()).filter(|&d| self.used(d)) {
            let (m, variance) = self.posterior(d, stats);
            let z: f64 = StandardNormal.sample(rng);
            moved[d] = m + variance.sqrt() * z;
        }
        if let Some(basis) = &self.basis {
            moved = times(&basis.back, &moved);
        }
        Ok(moved.iter().zip(&self.centre).map(|(y, m)| y + m).collect())
    }

    fn ln_density(&self, theta: &[f64], row: &[f64]) -> f64 {
        let moved = self.turned(row.iter().zip(theta).map(|(x, m)| x - m).collect());
        let cells = (0..row.len()).filter(|&d| self.used(d) && !moved[d].is_nan());
        self.ln_det() - 0.5 * cells.map(|d| (TAU * self.within[d]).ln() + moved[d] * moved[d] / self.within[d]).sum::<f64>()
    }

    /// Means and scales in the coordinates, as [`normal`] takes them, then the means as they are.
    fn ready(&self, theta: &[f64], out: &mut Prepared) {
        let width = padded(theta.len());
        out.constant = self.ln_det();
        out.numbers.clear();
        out.numbers.resize(RUNS * width, 0.0);
        for (d, y) in self.coordinates(theta).into_iter().enumerate().filter(|&(d, _)| self.used(d)) {
            out.numbers[d] = y;
            out.numbers[width + d] = 0.5 / self.within[d];
            out.numbers[2 * width + d] = -0.5 * (TAU * self.within[d]).ln();
        }
        out.numbers.extend_from_slice(theta);
    }

    fn ln_density_ready(&self, ready: &Prepared, row: &[f64]) -> f64 {
        self.ln_density(&ready.numbers[RUNS * padded(row.len())..], row)
    }

    fn ln_density_each(&self, ready: &[Prepared], row: &[f64], open: impl Fn(usize) -> bool, out: &mut [f64]) {
        let mut moved = self.coordinates(row);
        moved.resize(padded(row.len()), 0.0); // of no weight in `numbers`
        wide(
            #[inline(always)]
            || {
                for (k, (out, ready)) in out.iter_mut().zip(ready).enumerate() {
                    let numbers = &ready.numbers[..RUNS * moved.len()];
                    *out = if open(k) { ready.constant + normal(numbers, &moved) } else { f64::NEG_INFINITY };
                }
            },
        );
    }

    fn draw_row<R: Rng + ?Sized>(&self, theta: &[f64], rng: &mut R, out: &mut [f64]) -> Result<()> {
        let mut moved: Vec<f64> = (0..out.len())
            .map(|d| {
                let z: f64 = StandardNormal.sample(rng);
                z * self.within[d].sqrt()
            })
            .collect();
        if let Some(basis) = &self.basis {
            moved = times(&basis.back, &moved);
        }
        for d in 0..out.len() {
            if !out[d].is_nan() {
                out[d] = theta[d] + moved[d];
            }
        }
        Ok(())
    }

    fn mean(&self, theta: &[f64]) -> Vec<f64> {
        theta.to_vec()
    }
}
