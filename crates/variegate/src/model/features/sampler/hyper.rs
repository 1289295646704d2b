//! What governs features and noise, given these.

use rand_distr::Distribution;

use super::weights::ln_normal;
use super::{Course, Sampler};
use crate::Result;
use crate::dist::Gamma;
use crate::infer::slice::SliceSampler;
use crate::model::features::state::{Hyper, State};
use crate::prior::StableBeta;
use crate::run::{Philox, open01};
use crate::special::ln_gamma;

/// Which numbers are learned, with their priors; those that are not stay as they are.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Learn {
    /// Shape and rate of the Gamma prior of the mass.
    pub mass: Option<(f64, f64)>,
    /// Shape and rate of the Gamma prior of concentration and discount together.
    pub level: Option<(f64, f64)>,
    /// The discount is uniform from 0 to this.
    pub discount: Option<f64>,
    /// Shape and scale of the inverse Gamma prior of the noise.
    pub noise: Option<(f64, f64)>,
    /// The same of the variance of entries.
    pub spread: Option<(f64, f64)>,
    /// Shape and rate of the Gamma prior of the rate of lengths.
    pub rate: Option<(f64, f64)>,
    /// Shape and rate of the Gamma prior of kappa.
    pub kappa: Option<(f64, f64)>,
}

/// The noise is not below this: the scan would freeze.
const LEAST_NOISE: f64 = 1e-12;
/// Proposals of the discount in a sweep.
const PROPOSALS: usize = 5;
/// Discounts are below 1 by this.
const NEARLY: f64 = 1e-9;
/// Concentration and discount together.
const LEVELS: (f64, f64) = (1e-6, 1e4);

/// Log density of an inverse gamma distribution.
fn ln_inverse_gamma((a, b): (f64, f64), v: f64) -> f64 {
    a * b.ln() - ln_gamma(a) - (a + 1.0) * v.ln() - b / v
}

/// A draw from it.
pub(in crate::model::features) fn inverse_gamma((a, b): (f64, f64), rng: &mut Philox) -> Result<f64> {
    Ok((b.ln() - Gamma::new(a, 1.0)?.sample_ln(rng)).exp())
}

fn ln_gamma_pdf((a, r): (f64, f64), x: f64) -> f64 {
    a * r.ln() - ln_gamma(a) + (a - 1.0) * x.ln() - r * x
}

impl Learn {
    /// A draw from the priors; what is not learned is as given.
    pub(in crate::model::features) fn draw(&self, known: &Hyper, rng: &mut Philox) -> Result<Hyper> {
        let gamma = |prior: Option<(f64, f64)>, known: f64, rng: &mut Philox| -> Result<f64> {
            Ok(match prior {
                Some((a, r)) => Gamma::new(a, r)?.sample(rng),
                None => known,
            })
        };
        let variance = |prior: Option<(f64, f64)>, known: f64, rng: &mut Philox| prior.map_or(Ok(known), |p| inverse_gamma(p, rng));
        let mass = gamma(self.mass, known.process.mass, rng)?;
        let discount = self.discount.map_or(known.process.discount, |most| most * open01(rng));
        let concentration = match self.level {
            Some((a, r)) => Gamma::new(a, r)?.sample(rng) - discount,
            None => known.process.concentration,
        };
        Ok(Hyper {
            process: StableBeta { mass, concentration, discount },
            noise: variance(self.noise, known.noise, rng)?,
            spread: variance(self.spread, known.spread, rng)?,
            rate: gamma(self.rate, known.rate, rng)?,
            kappa: gamma(self.kappa, known.kappa, rng)?,
        })
    }

    /// Log density of the priors.
    pub(in crate::model::features) fn ln_density(&self, hyper: &Hyper) -> f64 {
        let process = &hyper.process;
        let gammas = [
            (self.mass, process.mass),
            (self.level, process.concentration + process.discount),
            (self.rate, hyper.rate),
            (self.kappa, hyper.kappa),
        ];
        let variances = [(self.noise, hyper.noise), (self.spread, hyper.spread)];
        let known = |(prior, x): (Option<(f64, f64)>, f64), f: fn((f64, f64), f64) -> f64| prior.map_or(0.0, |p| f(p, x));
        gammas.into_iter().map(|g| known(g, ln_gamma_pdf)).sum::<f64>()
            + variances.into_iter().map(|v| known(v, ln_inverse_gamma)).sum::<f64>()
    }
}

impl Sampler {
    /// Variance of the noise given what is left unexplained.
    pub(in crate::model::features) fn learn_noise(&self, state: &mut State, unexplained: f64, rng: &mut Philox) -> Result<()> {
        if let Some((a, b)) = self.learn.noise {
            let cells = self.rows as f64 * self.width as f64;
            state.hyper.noise = inverse_gamma((a + 0.5 * cells, b + 0.5 * unexplained.max(0.0)), rng)?.max(LEAST_NOISE);
        }
        Ok(())
    }

    /// Variance of entries given the features, of which there are so many with these squares in all.
    pub(in crate::model::features) fn learn_spread(&self, state: &mut State, rng: &mut Philox) -> Result<()> {
        if let Some((a, b)) = self.learn.spread {
            let cells = state.features.len() as f64 * self.width as f64;
            state.hyper.spread = inverse_gamma((a + 0.5 * cells, b + 0.5 * state.features.squares()), rng)?.max(LEAST_NOISE);
        }
        Ok(())
    }

    /// The mass given the features that are used, unused ones integrated out.
    pub(in crate::model::features) fn learn_mass(&self, state: &mut State, rng: &mut Philox) -> Result<()> {
        if let Some((a, b)) = self.learn.mass {
            let growth = state.hyper.process.growth(self.rows);
            state.hyper.process.mass = Gamma::new(a + state.features.len() as f64, b + growth)?.sample(rng).max(f64::MIN_POSITIVE);
        }
        Ok(())
    }

    /// The mass given all features down to the last that is used, those that nobody uses among them.
    pub(in crate::model::features) fn learn_mass_of_prefix(&self, state: &mut State, rng: &mut Philox) -> Result<()> {
        if let Some((a, b)) = self.learn.mass {
            let process = state.hyper.process;
            let unused = state.features.ln_on.last().map_or(0.0, |&y| process.unused_above(y, self.rows));
            let rate = b + process.growth(self.rows) + unused;
            state.hyper.process.mass = Gamma::new(a + state.features.len() as f64, rate)?.sample(rng).max(f64::MIN_POSITIVE);
        }
        Ok(())
    }

    /// Discount and concentration given the features that are used, probabilities of use integrated out.
    pub(in crate::model::features) fn learn_shape(&self, state: &mut State, rng: &mut Philox) {
        if self.learn.discount.is_none() && self.learn.level.is_none() {
            return;
        }
        let uses = &state.features.uses;
        let ln_density = |process: &StableBeta| process.ln_columns(uses.iter().copied().filter(|&m| m > 0), self.rows);
        let mut process = state.hyper.process;
        let mut now = ln_density(&process);
        if let Some(most) = self.learn.discount {
            for _ in 0..PROPOSALS {
                let discount = (most * open01(rng)).min(1.0 - NEARLY);
                let level = process.concentration + process.discount;
                let concentration = if self.learn.level.is_some() { level - discount } else { process.concentration };
                if concentration + discount <= 0.0 {
                    continue;
                }
                let next = StableBeta { discount, concentration, ..process };
                let there = ln_density(&next);
                if open01(rng).ln() < there - now {
                    (process, now) = (next, there);
                }
            }
        }
        if let Some(prior) = self.learn.level {
            let target = |y: f64| {
                let level = y.exp();
                let next = StableBeta { concentration: level - process.discount, ..process };
                // a density of the number itself: its logarithm has the number as a factor more
                ln_gamma_pdf(prior, level) + y + ln_density(&next)
            };
            let slice = SliceSampler { lower: LEVELS.0.ln(), upper: LEVELS.1.ln(), ..SliceSampler::default() };
            let y = (process.concentration + process.discount).clamp(LEVELS.0, LEVELS.1).ln();
            if let Ok(step) = slice.step(y, target, rng) {
                process.concentration = step.x.exp() - process.discount;
            }
        }
        state.hyper.process = process;
    }
}

impl Course<'_> {
    /// Log joint density of a state with Gaussian features: probabilities of use and unused features integrated out.
    pub(super) fn ln_joint(&self, state: &State, ln_likelihood: f64) -> f64 {
        let sampler = self.sampler;
        let used: Vec<usize> = state.features.in_use();
        let entries: Vec<f64> = state.features.weights(&used);
        let columns = state.hyper.process.ln_columns(used.iter().map(|&k| state.features.uses[k]), sampler.rows);
        ln_likelihood
            + columns
            + ln_normal(&entries, state.hyper.spread)
            + sampler.ln_intercept(&state.intercept)
            + sampler.learn.ln_density(&state.hyper)
    }
}
