//! Real numbers, independent given the component: x_d ~ N(μ_d, 1/t_d), t_d ~ Gamma(a, b_d), μ_d ~ N(m_d, 1/(k t_d)).
//! Numbers of a row: x less the shift, its squares, then 1. All means in here are less the shift.

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};
use std::f64::consts::TAU;

use super::{Conjugate, Predictive, Scratch, Table};
use crate::Result;
use crate::data::X;
use crate::dist::Gamma;
use crate::linalg;
use crate::model::labels::gamma_factor::GammaFactor;
use crate::special::ln_gamma;

/// The kernel of independent real numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Diagonal {
    shift: Vec<f64>,
    prior: DiagonalFactor,
    power: f64,
}

/// A normal-gamma for each column; k and a are those of all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct DiagonalFactor {
    /// k: how many rows the mean is worth.
    pub(crate) strength: f64,
    /// m, less the kernel's shift.
    pub(crate) mean: Vec<f64>,
    /// a of the precisions.
    pub(crate) shape: f64,
    /// b of the precisions.
    pub(crate) rate: Vec<f64>,
}

impl Diagonal {
    /// Prior means m, strength k, precisions of Gamma(a, b_d), and the columns' means over all rows as the shift.
    pub(crate) fn new(mean: &[f64], strength: f64, shape: f64, rate: &[f64], shift: &[f64], power: f64) -> Self {
        let mean = mean.iter().zip(shift).map(|(m, s)| m - s).collect();
        Self { shift: shift.to_vec(), prior: DiagonalFactor { strength, mean, shape, rate: rate.to_vec() }, power }
    }

    /// Coefficients of constant − Σ_d t_d (x_d − m_d)²/2, from precisions t and means m.
    fn terms(precisions: impl Iterator<Item = (f64, f64)>, constant: f64) -> Vec<f64> {
        let pairs: Vec<(f64, f64)> = precisions.collect();
        let mut out: Vec<f64> = pairs.iter().map(|(t, m)| t * m).collect();
        out.extend(pairs.iter().map(|(t, _)| -0.5 * t));
        out.push(constant - 0.5 * pairs.iter().map(|(t, m)| t * m * m).sum::<f64>());
        out
    }
}

/// Rows of numbers less a shift, their squares and a one.
pub(super) fn square_rows(x: X<'_>, shift: &[f64], scratch: &mut Scratch) {
    let width = shift.len();
    scratch.centre(x, shift, 2 * width + 1);
    for row in scratch.rows.chunks_exact_mut(2 * width + 1) {
        let (plain, rest) = row.split_at_mut(width);
        rest.iter_mut().zip(plain).for_each(|(o, v)| *o = *v * *v);
        rest[width] = 1.0;
    }
}

impl Conjugate for Diagonal {
    type Factor = DiagonalFactor;

    fn width(&self) -> usize {
        self.shift.len()
    }

    fn power(&self) -> f64 {
        self.power
    }

    fn size(&self) -> usize {
        2 * self.width() + 1
    }

    fn parameters(&self) -> usize {
        2 * self.width()
    }

    fn prior(&self) -> DiagonalFactor {
        self.prior.clone()
    }

    fn posterior(&self, stats: &[f64]) -> Result<DiagonalFactor> {
        let (width, prior) = (self.width(), &self.prior);
        let count = stats[2 * width];
        if count <= 0.0 {
            return Ok(self.prior());
        }
        let strength = prior.strength + count;
        let mut q = DiagonalFactor { strength, mean: vec![0.0; width], shape: prior.shape + 0.5 * count, rate: vec![0.0; width] };
        for d in 0..width {
            let (sum, square, before) = (stats[d], stats[width + d], prior.mean[d]);
            let average = sum / count;
            q.mean[d] = (prior.strength * before + sum) / strength;
            // scatter about the average, and of the average about the prior mean: neither is negative
            let within = (square - sum * average).max(0.0);
            let between = prior.strength * count / strength * (average - before) * (average - before);
            q.rate[d] = prior.rate[d] + 0.5 * (within + between);
        }
        Ok(q)
    }

    fn divergence(&self, q: &DiagonalFactor) -> f64 {
        let prior = &self.prior;
        let (k, k0) = (q.strength, prior.strength);
        let columns = (0..self.width()).map(|d| {
            let precision = GammaFactor::new(q.shape, q.rate[d]);
            let moved = q.mean[d] - prior.mean[d];
            precision.divergence(GammaFactor::new(prior.shape, prior.rate[d]))
                + 0.5 * (k0 * precision.mean() * moved * moved + k0 / k - 1.0 + (k / k0).ln())
        });
        columns.sum()
    }

    fn ln_marginal(&self, stats: &[f64]) -> Result<f64> {
        let (q, prior) = (self.posterior(stats)?, &self.prior);
        let count = stats[2 * self.width()];
        let common = ln_gamma(q.shape) - ln_gamma(prior.shape) + 0.5 * (prior.strength / q.strength).ln() - 0.5 * count * TAU.ln();
        Ok(q.rate.iter().zip(&prior.rate).map(|(b, b0)| common + prior.shape * b0.ln() - q.shape * b.ln()).sum())
    }

    fn coefficients(&self, q: &DiagonalFactor) -> Vec<f64> {
        let factors = q.rate.iter().map(|&b| GammaFactor::new(q.shape, b));
        let constant = factors.clone().map(|t| 0.5 * (t.mean_ln() - TAU.ln() - 1.0 / q.strength)).sum();
        Self::terms(factors.map(|t| t.mean()).zip(q.mean.iter().copied()), constant)
    }

    fn mean(&self, q: &DiagonalFactor) -> Vec<f64> {
        q.mean.iter().zip(&self.shift).map(|(m, s)| m + s).collect()
    }

    fn mean_of(&self, parameters: &[f64]) -> Vec<f64> {
        parameters.iter().zip(&self.shift).map(|(m, s)| m + s).collect()
    }

    fn draw<R: Rng + ?Sized>(&self, q: &DiagonalFactor, rng: &mut R, out: &mut Vec<f64>) -> Result<()> {
        let from = out.len();
        out.resize(from + 2 * self.width(), 0.0);
        let (means, precisions) = out[from..].split_at_mut(self.width());
        for d in 0..self.width() {
            // a precision below the smallest number would be an infinite variance
            precisions[d] = Gamma::new(q.shape, q.rate[d])?.sample(rng).max(f64::MIN_POSITIVE);
            let z: f64 = StandardNormal.sample(rng);
            means[d] = q.mean[d] + z / (q.strength * precisions[d]).sqrt();
        }
        Ok(())
    }

    fn draw_row<R: Rng + ?Sized>(&self, parameters: &[f64], _: u32, rng: &mut R, out: &mut [f64]) -> Result<()> {
        let (means, precisions) = parameters.split_at(self.width());
        for (((o, s), m), t) in out.iter_mut().zip(&self.shift).zip(means).zip(precisions) {
            let z: f64 = StandardNormal.sample(rng);
            *o = s + m + z / t.sqrt();
        }
        Ok(())
    }

    fn expected(&self, q: &[&DiagonalFactor]) -> Table {
        let weights = q.iter().flat_map(|q| self.coefficients(q)).map(|w| self.power * w).collect();
        Table::Quadratic { shift: self.shift.clone(), weights }
    }

    fn table_of(&self, parameters: &[f64], components: usize) -> Table {
        let width = self.width();
        let component = |k: usize| {
            let (means, precisions) = parameters[2 * k * width..2 * (k + 1) * width].split_at(width);
            let constant = precisions.iter().map(|t| 0.5 * (t.ln() - TAU.ln())).sum();
            Self::terms(precisions.iter().copied().zip(means.iter().copied()), constant)
        };
        let weights = (0..components).flat_map(component).map(|w| self.power * w).collect();
        Table::Quadratic { shift: self.shift.clone(), weights }
    }

    fn predictive(&self, q: &[&DiagonalFactor]) -> Predictive {
        Predictive::students(&self.shift, q)
    }

    fn add(&self, x: X<'_>, r: &[f64], k: usize, stats: &mut [f64], scratch: &mut Scratch) {
        square_rows(x, &self.shift, scratch);
        linalg::t_mul(r, &scratch.rows, stats, x.rows(), k, self.size(), true);
    }
}
