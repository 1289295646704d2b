//! Counts of D kinds, of which the total is given: `x ~ Multinomial(n, p)`, `p ~ Dir(s m)`.
//!
//! Statistics: sum of each column, then the sum of the log coefficients `ln n! - sum ln x!`. The log marginal is
//! `lgamma(s) - lgamma(s + n) + sum_j [lgamma(s m_j + n_j) - lgamma(s m_j)]` plus those, and a row of weight w is the ratio.

use rand::Rng;
use serde::{Deserialize, Serialize};

use super::codes::ln_rising;
use super::{Conjugate, Prepared};
use crate::Result;
use crate::dist::{Dirichlet, draw_from_shares};
use crate::special::ln_gamma;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Multinomial {
    /// s.
    pub(super) strength: f64,
    /// m.
    pub(super) base: Vec<f64>,
}

/// `ln n! - sum ln x!`.
fn ln_coefficient(row: &[f64]) -> f64 {
    let large = row.iter().filter(|x| **x > 1.0).map(|x| ln_gamma(x + 1.0)).sum::<f64>();
    ln_gamma(row.iter().sum::<f64>() + 1.0) - large
}

impl Conjugate for Multinomial {
    fn statistics(&self) -> usize {
        self.base.len() + 1
    }

    fn parameters(&self) -> usize {
        self.base.len()
    }

    fn add(&self, stats: &mut [f64], row: &[f64], weight: f64) {
        stats.iter_mut().zip(row).for_each(|(s, x)| *s += weight * x);
        stats[row.len()] += weight * ln_coefficient(row);
    }

    /// The concentrations a_j, and their sum.
    fn prepare(&self, stats: &[f64], _: f64, out: &mut Prepared) {
        out.numbers.clear();
        out.numbers.extend(self.base.iter().zip(stats).map(|(m, n)| self.strength * m + n));
        out.constant = self.strength + stats[..self.base.len()].iter().sum::<f64>();
    }

    fn ln_predictive(&self, prepared: &Prepared, row: &[f64], weight: f64) -> f64 {
        let total: f64 = row.iter().sum();
        if total == 0.0 {
            return 0.0;
        }
        // zeros, most of a row as a rule, cost nothing
        let cells = row.iter().zip(&prepared.numbers).filter(|(x, _)| **x > 0.0);
        let sum: f64 = cells.map(|(x, a)| ln_rising(*a, weight * x)).sum();
        sum - ln_rising(prepared.constant, weight * total) + weight * ln_coefficient(row)
    }

    fn ln_marginal(&self, stats: &[f64]) -> f64 {
        let (counts, coefficients) = stats.split_at(self.base.len());
        let n: f64 = counts.iter().sum();
        let seen = self.base.iter().zip(counts).filter(|(_, n)| **n > 0.0);
        let sum: f64 = seen.map(|(m, n)| ln_gamma(self.strength * m + n) - ln_gamma(self.strength * m)).sum();
        sum + ln_gamma(self.strength) - ln_gamma(self.strength + n) + coefficients[0]
    }

    fn draw<R: Rng + ?Sized>(&self, stats: &[f64], rng: &mut R) -> Result<Vec<f64>> {
        let shapes: Vec<f64> = self.base.iter().zip(stats).map(|(m, n)| (self.strength * m + n).max(1e-300)).collect();
        let mut theta = vec![0.0; shapes.len()];
        Dirichlet::new(&shapes)?.sample_ln_into(rng, &mut theta);
        Ok(theta)
    }

    fn ln_density(&self, theta: &[f64], row: &[f64]) -> f64 {
        let cells = row.iter().zip(theta).filter(|(x, _)| **x > 0.0);
        ln_coefficient(row) + cells.map(|(x, ln_p)| x * ln_p).sum::<f64>()
    }

    fn draw_row<R: Rng + ?Sized>(&self, theta: &[f64], rng: &mut R, out: &mut [f64]) -> Result<()> {
        let total = out.iter().sum::<f64>() as u64;
        out.fill(0.0);
        for _ in 0..total {
            out[draw_from_shares(theta.iter().map(|v| v.exp()), rng)] += 1.0;
        }
        Ok(())
    }

    fn mean(&self, theta: &[f64]) -> Vec<f64> {
        theta.iter().map(|v| v.exp()).collect()
    }
}
