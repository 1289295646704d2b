//! The sticks of a sweep, in the order of the components: drawn given the rows of each, moved by exchanges, and carried on as far
//! as any row may look.
//!
//! All of it is in logarithms, ln v and ln(1 − v) kept apart: 1 − v is never formed.

use rand::{Rng, RngExt};
use rand_distr::Distribution;

use crate::dist::{Beta, Gamma};
use crate::model::labels::sticks::Concentration;
use crate::run::open01;
use crate::{Error, Result};

/// Components that a sweep holds, occupied or not.
#[derive(Debug, Clone)]
pub(super) struct Line {
    /// Rows of each.
    pub(crate) counts: Vec<u64>,
    /// The number that each had before the exchanges; those that are new have numbers that nobody had.
    pub(crate) order: Vec<usize>,
    /// ln v.
    taken: Vec<f64>,
    /// ln(1 − v).
    left: Vec<f64>,
}

impl Line {
    /// Draws the sticks up to the last occupied component, α given them, and then as many from the prior as an exchange may need.
    pub(crate) fn draw<R: Rng + ?Sized>(counts: &[u64], alpha: &mut f64, prior: Concentration, rng: &mut R) -> Result<Self> {
        let last = counts.iter().rposition(|n| *n > 0).map_or(0, |k| k + 1);
        let mut line = Self { counts: counts[..last].to_vec(), order: Vec::new(), taken: Vec::new(), left: Vec::new() };
        let mut later: u64 = line.counts.iter().sum();
        for k in 0..last {
            later -= line.counts[k];
            line.push(1.0 + line.counts[k] as f64, *alpha + later as f64, rng)?;
        }
        if let Concentration::Random(prior) = prior {
            // the sticks after the last occupied component are integrated out
            let rate = prior.rate - line.left.iter().sum::<f64>();
            *alpha = Gamma::new(prior.shape + last as f64, rate)?.sample(rng).max(f64::MIN_POSITIVE);
        }
        let enough = line.occupied() + 2;
        while line.len() < enough {
            line.counts.push(0);
            line.push(1.0, *alpha, rng)?;
        }
        Ok(line)
    }

    fn push<R: Rng + ?Sized>(&mut self, a: f64, b: f64, rng: &mut R) -> Result<()> {
        let (taken, left) = Beta::new(a, b)?.sample_ln(rng);
        self.order.push(self.taken.len());
        self.taken.push(taken);
        self.left.push(left);
        Ok(())
    }

    /// How many it holds.
    pub(crate) fn len(&self) -> usize {
        self.taken.len()
    }

    /// How many of them have rows.
    pub(crate) fn occupied(&self) -> usize {
        self.counts.iter().filter(|n| **n > 0).count()
    }

    /// ln π of each, and the logarithm of what is left.
    pub(crate) fn ln_weights(&self) -> (Vec<f64>, f64) {
        let mut before = 0.0;
        let weights = self.taken.iter().zip(&self.left).map(|(taken, left)| {
            let weight = before + taken;
            before += left;
            weight
        });
        let weights = weights.collect();
        (weights, before)
    }

    /// Two exchanges of numbers, each accepted as it leaves p(z, v | α) unchanged: of two occupied components, and of two neighbours
    /// together with their sticks. The range of the latter depends on how many components are occupied, which no exchange changes.
    pub(crate) fn exchange<R: Rng + ?Sized>(&mut self, rng: &mut R) {
        let occupied: Vec<usize> = (0..self.len()).filter(|&k| self.counts[k] > 0).collect();
        if occupied.len() > 1 {
            let first = rng.random_range(0..occupied.len());
            let second = (first + rng.random_range(1..occupied.len())) % occupied.len();
            let (j, l) = (occupied[first], occupied[second]);
            let (weights, _) = self.ln_weights();
            let difference = self.counts[j] as f64 - self.counts[l] as f64;
            if open01(rng).ln() < difference * (weights[l] - weights[j]) {
                self.counts.swap(j, l);
                self.order.swap(j, l);
            }
        }
        let k = rng.random_range(0..=occupied.len());
        let ratio = self.counts[k] as f64 * self.left[k + 1] - self.counts[k + 1] as f64 * self.left[k];
        if open01(rng).ln() < ratio {
            self.counts.swap(k, k + 1);
            self.order.swap(k, k + 1);
            self.taken.swap(k, k + 1);
            self.left.swap(k, k + 1);
        }
    }

    /// Adds sticks from the prior until less is left than the lowest slice.
    pub(crate) fn extend<R: Rng + ?Sized>(&mut self, alpha: f64, lowest: f64, most: usize, sweep: u64, rng: &mut R) -> Result<()> {
        let mut left: f64 = self.left.iter().sum();
        while left >= lowest {
            if self.len() >= most {
                let detail = format!("more than {most} components would have to be looked at; a smaller `concentration` needs fewer");
                return Err(Error::Numerical { what: "the slice sampler", sweep, detail });
            }
            self.counts.push(0);
            self.push(1.0, alpha, rng)?;
            left += self.left.last().copied().unwrap_or(0.0);
        }
        Ok(())
    }
}
