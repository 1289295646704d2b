//! The shape of the entries of atoms, given the latent counts and weights of all rows, with the atoms integrated out.
//!
//! Given the atoms the shape would hardly move: they are many, and they were drawn under the shape as it was.

use std::collections::BTreeMap;

use super::learn::by_atom;
use super::{Counts, Scales, Sums};
use crate::infer::slice::SliceSampler;
use crate::run::Philox;
use crate::special::ln_gamma;
use crate::{Error, Result};

/// The logarithm of the shape stays within these bounds.
const LOWEST: f64 = -12.0;
const HIGHEST: f64 = 12.0;

/// What the rows tell of shape and rate.
struct Evidence {
    /// Latent counts that are not zero, by how often they occur.
    counts: Vec<(f64, f64)>,
    /// Total of the latent counts and of the weights of each atom.
    atoms: Vec<(f64, f64)>,
    width: f64,
}

impl Evidence {
    fn new(sums: &Sums, width: usize, count: usize) -> Self {
        let mut occur: BTreeMap<u64, f64> = BTreeMap::new();
        let mut few = [0.0f64; 256];
        let mut atoms = Vec::with_capacity(count);
        for k in 0..count {
            let counts = &sums.counts.0[k * width..][..width];
            for &s in counts.iter().filter(|s| **s > 0.0) {
                match few.get_mut(s as usize) {
                    Some(n) => *n += 1.0,
                    None => *occur.entry(s as u64).or_default() += 1.0,
                }
            }
            atoms.push((counts.iter().sum(), by_atom(&sums.weights.0, count, k).sum()));
        }
        let few = few.iter().enumerate().filter(|(_, n)| **n > 0.0).map(|(s, &n)| (s as f64, n));
        Self { counts: few.chain(occur.into_iter().map(|(s, n)| (s as f64, n))).collect(), atoms, width: width as f64 }
    }

    /// Log probability of the latent counts, up to what depends on neither shape nor rate.
    fn ln_probability(&self, shape: f64, rate: f64) -> f64 {
        let base = ln_gamma(shape);
        let rises: f64 = self.counts.iter().map(|&(s, n)| n * (ln_gamma(shape + s) - base)).sum();
        let totals = |&(counts, weights): &(f64, f64)| self.width * shape * -(weights / rate).ln_1p() - counts * (rate + weights).ln();
        rises + self.atoms.iter().map(totals).sum::<f64>()
    }
}

/// Two steps: shape and rate by the same factor, which leaves the size of atoms alone, then the shape.
pub(super) fn draw(model: &Counts, prior: (f64, f64), scales: &mut Scales, sums: &Sums, count: usize, rng: &mut Philox) -> Result<()> {
    let evidence = Evidence::new(sums, model.width, count);
    let ln_gamma_of_ln = |(a, b): (f64, f64), y: f64| a * y - b * y.exp();
    let slice = SliceSampler { width: 1.0, lower: LOWEST, upper: HIGHEST, ..SliceSampler::default() };
    let wrong = |e| Error::Unfit(format!("the shape of the factors: {e}"));
    let ln_ratio = (scales.atom / scales.shape).ln();
    let together = |y: f64| {
        ln_gamma_of_ln(prior, y) + ln_gamma_of_ln(model.rate_prior, y + ln_ratio) + evidence.ln_probability(y.exp(), (y + ln_ratio).exp())
    };
    let y = slice.step(scales.shape.ln().clamp(LOWEST, HIGHEST), together, rng).map_err(wrong)?.x;
    scales.shape = y.exp();
    scales.atom = (y + ln_ratio).exp();
    let alone = |y: f64| ln_gamma_of_ln(prior, y) + evidence.ln_probability(y.exp(), scales.atom);
    scales.shape = slice.step(y, alone, rng).map_err(wrong)?.x.exp();
    Ok(())
}
