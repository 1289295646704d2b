//! Answers yes or no: x_d ~ Bernoulli(φ_d) with φ_d ~ Beta(s μ_d, s (1 − μ_d)). Numbers of a row: x, then 1.

use rand::Rng;
use serde::{Deserialize, Serialize};

use super::{Conjugate, Predictive, Scratch, Table, Weights, add_counts};
use crate::Result;
use crate::data::X;
use crate::dist::Beta;
use crate::run::open01;
use crate::special::{digamma, ln_beta, ln_sigmoid, sigmoid};

/// The kernel of answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Bernoulli {
    ones: Vec<f64>,
    zeros: Vec<f64>,
    power: f64,
}

/// A Beta for each column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct BernoulliFactor {
    /// First parameters: those of a one.
    pub(crate) ones: Vec<f64>,
    /// Second parameters: those of a zero.
    pub(crate) zeros: Vec<f64>,
}

impl Bernoulli {
    /// A prior worth s rows with base rates μ_d, which lie strictly between 0 and 1.
    pub(crate) fn new(strength: f64, rates: &[f64], power: f64) -> Self {
        let ones = rates.iter().map(|mu| strength * mu).collect();
        Self { ones, zeros: rates.iter().map(|mu| strength * (1.0 - mu)).collect(), power }
    }

    /// The base rate of a column that has this many ones among so many entries.
    pub(crate) fn rate(ones: f64, observed: f64) -> f64 {
        (ones + 1.0) / (observed + 2.0)
    }

    /// A linear table from log probabilities of a one and of a zero.
    fn table(&self, pairs: &[(f64, f64)], components: usize) -> Table {
        let width = self.width();
        let constants: Vec<f64> =
            (0..components).map(|k| pairs[k * width..(k + 1) * width].iter().map(|p| self.power * p.1).sum()).collect();
        let weights = Weights::new(constants.len(), pairs.iter().map(|(one, zero)| self.power * (one - zero)).collect());
        Table::Linear { constants, weights }
    }
}

/// E ln φ and E ln(1 − φ) of Beta(a, b).
fn ln_means(a: f64, b: f64) -> (f64, f64) {
    let both = digamma(a + b);
    (digamma(a) - both, digamma(b) - both)
}

impl BernoulliFactor {
    fn pairs(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.ones.iter().copied().zip(self.zeros.iter().copied())
    }
}

impl Conjugate for Bernoulli {
    type Factor = BernoulliFactor;

    fn width(&self) -> usize {
        self.ones.len()
    }

    fn power(&self) -> f64 {
        self.power
    }

    fn size(&self) -> usize {
        self.width() + 1
    }

    fn parameters(&self) -> usize {
        self.width()
    }

    fn prior(&self) -> BernoulliFactor {
        BernoulliFactor { ones: self.ones.clone(), zeros: self.zeros.clone() }
    }

    fn posterior(&self, stats: &[f64]) -> Result<BernoulliFactor> {
        let count = stats[self.width()];
        let ones = self.ones.iter().zip(stats).map(|(a, s)| a + s).collect();
        // sums of the two kinds may round to a little more than the count
        Ok(BernoulliFactor { ones, zeros: self.zeros.iter().zip(stats).map(|(b, s)| b + (count - s).max(0.0)).collect() })
    }

    fn divergence(&self, q: &BernoulliFactor) -> f64 {
        let terms = q.pairs().zip(self.ones.iter().zip(&self.zeros)).map(|((a, b), (&a0, &b0))| {
            let (one, zero) = ln_means(a, b);
            ln_beta(a0, b0) - ln_beta(a, b) + (a - a0) * one + (b - b0) * zero
        });
        terms.sum()
    }

    fn ln_marginal(&self, stats: &[f64]) -> Result<f64> {
        let q = self.posterior(stats)?;
        Ok(q.pairs().zip(self.ones.iter().zip(&self.zeros)).map(|((a, b), (&a0, &b0))| ln_beta(a, b) - ln_beta(a0, b0)).sum())
    }

    fn coefficients(&self, q: &BernoulliFactor) -> Vec<f64> {
        let mut constant = 0.0;
        let mut out: Vec<f64> = q
            .pairs()
            .map(|(a, b)| {
                let (one, zero) = ln_means(a, b);
                constant += zero;
                one - zero
            })
            .collect();
        out.push(constant);
        out
    }

    fn mean(&self, q: &BernoulliFactor) -> Vec<f64> {
        q.pairs().map(|(a, b)| a / (a + b)).collect()
    }

    fn mean_of(&self, parameters: &[f64]) -> Vec<f64> {
        parameters.iter().map(|&p| sigmoid(p)).collect()
    }

    fn draw<R: Rng + ?Sized>(&self, q: &BernoulliFactor, rng: &mut R, out: &mut Vec<f64>) -> Result<()> {
        for (a, b) in q.pairs() {
            out.push(Beta::new(a, b)?.sample_logit(rng));
        }
        Ok(())
    }

    fn draw_row<R: Rng + ?Sized>(&self, parameters: &[f64], _: u32, rng: &mut R, out: &mut [f64]) -> Result<()> {
        out.iter_mut().zip(parameters).for_each(|(o, &odds)| *o = f64::from(u8::from(open01(rng) < sigmoid(odds))));
        Ok(())
    }

    fn expected(&self, q: &[&BernoulliFactor]) -> Table {
        let pairs: Vec<(f64, f64)> = q.iter().flat_map(|q| q.pairs()).map(|(a, b)| ln_means(a, b)).collect();
        self.table(&pairs, q.len())
    }

    fn table_of(&self, parameters: &[f64], components: usize) -> Table {
        let pairs: Vec<(f64, f64)> = parameters.iter().map(|&odds| (ln_sigmoid(odds), ln_sigmoid(-odds))).collect();
        self.table(&pairs, components)
    }

    fn predictive(&self, q: &[&BernoulliFactor]) -> Predictive {
        let pairs: Vec<(f64, f64)> = q.iter().flat_map(|q| q.pairs()).map(|(a, b)| ((a / (a + b)).ln(), (b / (a + b)).ln())).collect();
        let plain = Self { power: 1.0, ..self.clone() };
        Predictive::Linear(plain.table(&pairs, q.len()))
    }

    fn add(&self, x: X<'_>, r: &[f64], k: usize, stats: &mut [f64], scratch: &mut Scratch) {
        scratch.add_sums(x, r, k, self.size(), stats);
        add_counts(r, k, self.size(), self.width(), stats);
    }
}
