//! Rows of an atom that is split, or of one of two that are merged, with the atom integrated out.

use rand::Rng;
use rand_distr::Distribution;
use serde::{Deserialize, Serialize};

use super::super::likelihood::Side;
use super::SMALLEST;
use crate::Result;
use crate::dist::Gamma;
use crate::run::Merge;
use crate::special::ln_gamma;

/// What a row brings: its weight, and the counts that it owes to the atom.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CountContribution {
    /// Weight of the atom in the row.
    pub weight: f64,
    /// Columns and counts, those that are not zero.
    pub counts: Vec<(u32, f64)>,
}

/// Such rows together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CountSide {
    shape: f64,
    rate: f64,
    /// Counts of each column.
    counts: Vec<f64>,
    total: f64,
    weight: f64,
}

impl CountSide {
    /// No rows yet; entries of the atom are Gamma(shape, rate).
    pub fn new(shape: f64, rate: f64, width: usize) -> Self {
        Self { shape, rate, counts: vec![0.0; width], total: 0.0, weight: 0.0 }
    }

    fn all_shapes(&self) -> f64 {
        self.shape * self.counts.len() as f64 + self.total
    }
}

/// ln Γ(a + s) − ln Γ(a) for a whole number s; few factors are multiplied out.
fn ln_rise(a: f64, s: f64) -> f64 {
    match s as u64 {
        1 => a.ln(),
        2 => (a * (a + 1.0)).ln(),
        3 => (a * (a + 1.0) * (a + 2.0)).ln(),
        _ => ln_gamma(a + s) - ln_gamma(a),
    }
}

impl Merge for CountSide {
    fn merge(&mut self, right: Self) {
        self.counts.iter_mut().zip(&right.counts).for_each(|(l, r)| *l += r);
        self.total += right.total;
        self.weight += right.weight;
    }
}

impl Side for CountSide {
    type Contribution = CountContribution;

    fn sums(&self) -> Self {
        Self { counts: vec![0.0; self.counts.len()], total: 0.0, weight: 0.0, ..*self }
    }

    fn add(&mut self, row: &CountContribution) {
        for &(m, s) in &row.counts {
            self.counts[m as usize] += s;
            self.total += s;
        }
        self.weight += row.weight;
    }

    fn ln_predictive(&self, row: &CountContribution) -> f64 {
        let total: f64 = row.counts.iter().map(|c| c.1).sum();
        let seen: f64 = row.counts.iter().map(|&(m, s)| ln_rise(self.shape + self.counts[m as usize], s)).sum();
        let (shapes, rate) = (self.all_shapes(), self.rate + self.weight);
        seen + shapes * rate.ln() - (shapes + total) * (rate + row.weight).ln()
    }

    fn ln_marginal(&self) -> f64 {
        let seen: f64 = self.counts.iter().filter(|s| **s > 0.0).map(|&s| ln_rise(self.shape, s)).sum();
        let prior = self.shape * self.counts.len() as f64;
        seen + prior * self.rate.ln() - self.all_shapes() * (self.rate + self.weight).ln()
    }

    fn draw<R: Rng + ?Sized>(&self, rng: &mut R) -> Result<Vec<f64>> {
        let rate = self.rate + self.weight;
        self.counts.iter().map(|&s| Ok(Gamma::new(self.shape + s, rate)?.sample(rng).max(SMALLEST))).collect()
    }
}
