//! Counts, independent given the atom: `x_d ~ Poisson(rate_d)`, `rate_d ~ Gamma(a_d, b_d)`.
//!
//! Statistics: n and the sum of each column, then the sum of all `ln x!`. A column's log marginal is
//! `lgamma(a + s) - lgamma(a) + a ln b - (a + s) ln(b + n) - sum ln x!`, and a row of weight w has, with updated a and b,
//! `lgamma(a + w x) - lgamma(a) - w ln x! - a ln(1 + w/b) - w x ln(b + w)`: a negative binomial for w = 1.

use rand::Rng;
use rand_distr::Distribution;
use serde::{Deserialize, Serialize};

use super::{Conjugate, Prepared, broken};
use crate::Result;
use crate::dist::Gamma;
use crate::special::ln_gamma;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Poisson {
    /// a.
    pub(super) shape: Vec<f64>,
    /// b.
    pub(super) rate: Vec<f64>,
}

/// ln x!.
fn ln_factorial(x: f64) -> f64 {
    if x < 2.0 { 0.0 } else { ln_gamma(x + 1.0) }
}

impl Poisson {
    fn posterior(&self, d: usize, stats: &[f64]) -> (f64, f64) {
        (self.shape[d] + stats[2 * d + 1], self.rate[d] + stats[2 * d])
    }
}

impl Conjugate for Poisson {
    fn statistics(&self) -> usize {
        2 * self.shape.len() + 1
    }

    fn parameters(&self) -> usize {
        self.shape.len()
    }

    fn add(&self, stats: &mut [f64], row: &[f64], weight: f64) {
        let mut factorials = 0.0;
        for (d, &x) in row.iter().enumerate() {
            if !x.is_nan() {
                stats[2 * d] += weight;
                stats[2 * d + 1] += weight * x;
                factorials += ln_factorial(x);
            }
        }
        stats[2 * row.len()] += weight * factorials;
    }

    fn prepare(&self, stats: &[f64], weight: f64, out: &mut Prepared) {
        out.constant = 0.0;
        out.numbers.clear();
        for d in 0..self.shape.len() {
            let (a, b) = self.posterior(d, stats);
            // that of a count of 0; the logarithm that a count multiplies; a and its log-gamma
            out.numbers.extend([-a * (weight / b).ln_1p(), (b + weight).ln(), a, ln_gamma(a)]);
        }
    }

    fn ln_predictive(&self, prepared: &Prepared, row: &[f64], weight: f64) -> f64 {
        let mut sum = 0.0;
        for (&x, own) in row.iter().zip(prepared.numbers.chunks_exact(4)) {
            if x == 0.0 {
                sum += own[0];
            } else if x > 0.0 {
                sum += own[0] + ln_gamma(own[2] + weight * x) - own[3] - weight * (ln_factorial(x) + x * own[1]);
            }
        }
        sum
    }

    fn ln_marginal(&self, stats: &[f64]) -> f64 {
        let mut sum = -stats[2 * self.shape.len()];
        for d in 0..self.shape.len() {
            let ((a0, b0), (a, b)) = ((self.shape[d], self.rate[d]), self.posterior(d, stats));
            sum += ln_gamma(a) - ln_gamma(a0) + a0 * b0.ln() - a * b.ln();
        }
        sum
    }

    fn draw<R: Rng + ?Sized>(&self, stats: &[f64], rng: &mut R) -> Result<Vec<f64>> {
        let draw = |d: usize| -> Result<f64> {
            let (a, b) = self.posterior(d, stats);
            Ok(Gamma::new(a, b)?.sample(rng).max(f64::MIN_POSITIVE))
        };
        (0..self.shape.len()).map(draw).collect()
    }

    fn ln_density(&self, theta: &[f64], row: &[f64]) -> f64 {
        let cells = row.iter().zip(theta).filter(|(x, _)| !x.is_nan());
        cells.map(|(x, rate)| x * rate.ln() - rate - ln_factorial(*x)).sum()
    }

    fn draw_row<R: Rng + ?Sized>(&self, theta: &[f64], rng: &mut R, out: &mut [f64]) -> Result<()> {
        for (x, &rate) in out.iter_mut().zip(theta).filter(|(x, _)| !x.is_nan()) {
            let law = rand_distr::Poisson::new(rate).map_err(|_| broken("a Poisson draw", format!("the rate {rate} is out of range")))?;
            *x = law.sample(rng);
        }
        Ok(())
    }

    fn mean(&self, theta: &[f64]) -> Vec<f64> {
        theta.to_vec()
    }
}
