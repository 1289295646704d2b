//! Likelihoods under trials of one vector in single precision, to choose one trial that is then looked at exactly.
//!
//! Whether a gate or an expert is moved, the likelihood of a row is (total + e^z q)/(norm + e^z), with z linear in the trial: of a gate
//! z is its score over that of the others, and for an expert in odds e^z/(1 + e^z) is the probability that it gives the row's class.

use std::ops::Range;

use super::{Apart, Trial, Vector};
use crate::linalg::wide;
use crate::model::gated::beside;
use crate::run::Block;
use crate::special::single::{LANES, Lane, each, exp, ln, sum};

/// Rows next to each other, whose likelihoods are multiplied by fours before a logarithm is taken.
const TOGETHER: usize = 4 * LANES;

type Rows = Vec<[Lane; 4]>;

/// Rows of a block in single precision, as one vector sees them. Rows that are padding have likelihood 1.
#[derive(Debug, Default)]
pub(super) struct Rough {
    /// x'a and x't, with the sign of the class for an expert.
    along: Rows,
    across: Rows,
    /// That sign, and what is subtracted.
    unit: Rows,
    top: Rows,
    q: Rows,
    norm: Rows,
    total: Rows,
    /// Empty where all are 1.
    weights: Rows,
}

/// Numbers of all rows, and the same number for padding.
fn fill(out: &mut Rows, rows: usize, padding: f32, value: impl Fn(usize) -> f64) {
    out.resize(rows.div_ceil(TOGETHER), [Lane::all(padding); 4]);
    for (at, lane) in out.as_flattened_mut().iter_mut().enumerate() {
        let from = at * LANES;
        for l in 0..LANES {
            lane[l] = if from + l < rows { value(from + l) as f32 } else { padding };
        }
    }
}

impl Apart {
    /// Gets ready for trials of a vector whose expert is left out of the sums already.
    pub(super) fn round(&mut self, of: Vector, places: Range<usize>, block: &Block<'_>) {
        let Apart { products, gates, given, top, other_norm, other_total, rough, .. } = self;
        let (n, along) = (other_norm.len(), &products[places]);
        let own = of.k * n..(of.k + 1) * n;
        let (gates, given) = (&gates[own.clone()], &given[own]);
        if of.gate {
            fill(&mut rough.along, n, 0.0, |i| along[i]);
            fill(&mut rough.unit, n, 0.0, |_| 1.0);
            fill(&mut rough.top, n, 0.0, |i| top[i]);
            fill(&mut rough.q, n, 1.0, |i| given[i]);
            fill(&mut rough.norm, n, 1.0, |i| other_norm[i]);
            fill(&mut rough.total, n, 1.0, |i| other_total[i]);
        } else {
            let classes = block.y.classes();
            let sign = |i: usize| if classes[i] == 1 { 1.0 } else { -1.0 };
            fill(&mut rough.along, n, 0.0, |i| sign(i) * along[i]);
            fill(&mut rough.unit, n, 0.0, sign);
            fill(&mut rough.top, n, 0.0, |_| 0.0);
            fill(&mut rough.q, n, 1.0, |i| (other_total[i] + gates[i]) / (other_norm[i] + gates[i]));
            fill(&mut rough.norm, n, 1.0, |_| 1.0);
            fill(&mut rough.total, n, 1.0, |i| other_total[i] / (other_norm[i] + gates[i]));
        }
        match block.weights {
            Some(weights) if weights.iter().any(|w| *w != 1.0) => fill(&mut rough.weights, n, 1.0, |i| weights[i]),
            _ => rough.weights.clear(),
        }
    }
}

impl Rough {
    /// Log likelihoods under some trials; `across` is x't of the rows, or nothing.
    pub(super) fn values(&mut self, trials: &[Trial], across: &[f64]) -> Vec<f64> {
        let unit = self.unit.as_flattened();
        fill(&mut self.across, across.len(), 0.0, |i| across[i] * f64::from(unit[i / LANES][i % LANES]));
        self.across.resize(self.along.len(), [Lane::default(); 4]);
        trials
            .iter()
            .map(|trial| f64::from(if self.weights.is_empty() { self.value::<true>(trial) } else { self.value::<false>(trial) }))
            .collect()
    }

    /// The same for one trial; `PLAIN`: all rows have weight 1.
    fn value<const PLAIN: bool>(&self, trial: &Trial) -> f32 {
        let (a, t) = (trial.along as f32, trial.across as f32);
        let c = trial.intercepts.first().copied().unwrap_or(0.0) as f32;
        let mut sums = Lane::default();
        wide(
            #[inline(always)]
            || {
                for (at, along) in self.along.iter().enumerate() {
                    let (across, unit, top) = (&self.across[at], &self.unit[at], &self.top[at]);
                    let (q, norm, total) = (&self.q[at], &self.norm[at], &self.total[at]);
                    let mut mix = [Lane::default(); 4];
                    for (r, mix) in mix.iter_mut().enumerate() {
                        let (along, across, unit, top) = (&along[r], &across[r], &unit[r], &top[r]);
                        let (q, norm, total) = (&q[r], &norm[r], &total[r]);
                        for l in 0..LANES {
                            let z = a * along[l] + t * across[l] + c * unit[l] - top[l];
                            mix[l] = beside(z > 0.0, exp(-z.abs()), q[l], norm[l], total[l]);
                        }
                    }
                    if PLAIN {
                        let product = each(|l| (mix[0][l] * mix[1][l]) * (mix[2][l] * mix[3][l]));
                        sums = each(|l| sums[l] + ln(product[l]));
                    } else {
                        for (mix, weights) in mix.iter().zip(&self.weights[at]) {
                            // a row without weight has no say, whatever its likelihood
                            sums = each(|l| sums[l] + if weights[l] == 0.0 { 0.0 } else { weights[l] * ln(mix[l]) });
                        }
                    }
                }
            },
        );
        sum(&sums)
    }
}
