//! Counts x ~ Mult(n, φ) with φ ~ Dirichlet(ω, …, ω). Numbers of a row: x itself. Fractions are allowed as pseudo-counts.

use rand::Rng;
use serde::{Deserialize, Serialize};

use super::{Conjugate, Predictive, Scratch, Table, Weights};
use crate::Result;
use crate::data::X;
use crate::dist::{Dirichlet, draw_from_shares};
use crate::parallel;
use crate::special::{digamma, ln_gamma};

/// The kernel of counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Multinomial {
    width: usize,
    omega: f64,
    power: f64,
}

/// Dirichlet(P) over D kinds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct MultinomialFactor {
    /// Its parameters P.
    pub(crate) counts: Vec<f64>,
}

impl Multinomial {
    /// Counts of so many kinds; ω and power positive.
    pub(crate) fn new(width: usize, omega: f64, power: f64) -> Self {
        Self { width, omega, power }
    }

    pub(super) fn ln_coefficient(&self, x: X<'_>, out: &mut [f64]) {
        for (i, out) in out.iter_mut().enumerate().take(x.rows()) {
            let (mut total, mut factorials) = (0.0, 0.0);
            x.for_row(i, |_, v| {
                total += v;
                factorials += if v == 0.0 { 0.0 } else { ln_gamma(v + 1.0) };
            });
            *out += self.power * (ln_gamma(total + 1.0) - factorials);
        }
    }
}

impl Conjugate for Multinomial {
    type Factor = MultinomialFactor;

    fn width(&self) -> usize {
        self.width
    }

    fn power(&self) -> f64 {
        self.power
    }

    fn size(&self) -> usize {
        self.width
    }

    fn parameters(&self) -> usize {
        self.width
    }

    fn prior(&self) -> MultinomialFactor {
        MultinomialFactor { counts: vec![self.omega; self.width] }
    }

    fn posterior(&self, stats: &[f64]) -> Result<MultinomialFactor> {
        Ok(MultinomialFactor { counts: stats.iter().map(|s| self.omega + s).collect() })
    }

    fn divergence(&self, q: &MultinomialFactor) -> f64 {
        if self.width == 0 {
            return 0.0;
        }
        let total: f64 = q.counts.iter().sum();
        let (at_total, prior) = (digamma(total), ln_gamma(self.omega));
        let terms = q.counts.iter().map(|&p| prior - ln_gamma(p) + (p - self.omega) * (digamma(p) - at_total));
        ln_gamma(total) - ln_gamma(self.omega * self.width as f64) + terms.sum::<f64>()
    }

    fn ln_marginal(&self, stats: &[f64]) -> Result<f64> {
        if self.width == 0 {
            return Ok(0.0);
        }
        let (before, total) = (self.omega * self.width as f64, stats.iter().sum::<f64>());
        let kinds: f64 = stats.iter().map(|s| ln_gamma(self.omega + s) - ln_gamma(self.omega)).sum();
        Ok(ln_gamma(before) - ln_gamma(before + total) + kinds)
    }

    fn coefficients(&self, q: &MultinomialFactor) -> Vec<f64> {
        let total = digamma(q.counts.iter().sum());
        q.counts.iter().map(|&p| digamma(p) - total).collect()
    }

    fn mean(&self, q: &MultinomialFactor) -> Vec<f64> {
        let total: f64 = q.counts.iter().sum();
        q.counts.iter().map(|p| p / total).collect()
    }

    fn mean_of(&self, parameters: &[f64]) -> Vec<f64> {
        parameters.iter().map(|p| p.exp()).collect()
    }

    fn draw<R: Rng + ?Sized>(&self, q: &MultinomialFactor, rng: &mut R, out: &mut Vec<f64>) -> Result<()> {
        if self.width > 0 {
            let from = out.len();
            out.resize(from + self.width, 0.0);
            Dirichlet::new(&q.counts)?.sample_ln_into(rng, &mut out[from..]);
        }
        Ok(())
    }

    fn draw_row<R: Rng + ?Sized>(&self, parameters: &[f64], total: u32, rng: &mut R, out: &mut [f64]) -> Result<()> {
        out.fill(0.0);
        if self.width > 0 {
            (0..total).for_each(|_| out[draw_from_shares(parameters.iter().map(|p| p.exp()), rng)] += 1.0);
        }
        Ok(())
    }

    fn expected(&self, q: &[&MultinomialFactor]) -> Table {
        let of_components: Vec<Vec<f64>> = parallel::map(q, |_, q| self.coefficients(q).into_iter().map(|w| self.power * w).collect());
        Table::Linear { constants: vec![0.0; q.len()], weights: Weights::new(q.len(), of_components.concat()) }
    }

    fn table_of(&self, parameters: &[f64], components: usize) -> Table {
        let weights = Weights::new(components, parameters.iter().map(|w| self.power * w).collect());
        Table::Linear { constants: vec![0.0; components], weights }
    }

    fn predictive(&self, q: &[&MultinomialFactor]) -> Predictive {
        Predictive::counts(self.width, &q.iter().map(|q| q.counts.as_slice()).collect::<Vec<_>>())
    }

    fn add(&self, x: X<'_>, r: &[f64], k: usize, stats: &mut [f64], scratch: &mut Scratch) {
        scratch.add_sums(x, r, k, self.width.max(1), stats);
    }
}
