//! Features whose directions point away from one another.
//!
//! The prior is not exchangeable: directions are ordered by probability of use. The state holds all features down to the last that some row
//! uses, those that nobody uses among them: later directions point away from theirs too. What comes after integrates out, so it is forgotten
//! and drawn again at will.
//!
//! | file | what is in it |
//! |---|---|
//! | `chain.rs` | directions |
//! | `length.rs` | lengths |
//! | `births.rs` | births and deaths at a place in the order |

mod births;
mod chain;
mod length;
#[cfg(test)]
mod tests;

use rand_distr::{Distribution, StandardNormal};

use super::sampler::{Course, Sampler, Totals};
use super::settings::{DirectionKind, MagnitudeKind, SamplerKind};
use super::state::State;
use crate::Result;
use crate::infer::dual_averaging::DualAveraging;
use crate::infer::slice::SliceSampler;
use crate::prior::ln_not;
use crate::run::{Philox, open01};
use chain::Chain;
use length::Lengths;

/// How directions and lengths are distributed and drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Angular {
    /// Distribution of lengths.
    pub magnitude: MagnitudeKind,
    /// Shape of the gamma distribution of lengths.
    pub shape: f64,
    /// How directions are drawn.
    pub direction: DirectionKind,
    /// Attempts of births and deaths in a sweep, half of them in several rows, half in one.
    pub births: usize,
}

/// Where steps of trajectories start, and which acceptance they aim at.
const STEP: f64 = 0.5;
const ACCEPTANCE: f64 = 0.8;
/// Kappa up to this share of the number of columns leaves directions free enough to be drawn at once.
const WEAK: f64 = 1.0 / 6.0;

/// Sums over rows for all features in their order.
pub(super) struct Ordered {
    totals: Totals,
}

impl Ordered {
    /// Totals of the features that rows were told of, for all in their order.
    fn new(state: &State, totals: &Totals) -> Self {
        let told = state.features.in_use();
        let mut out = totals.unused(state.features.len());
        out.fill_from(totals, &told);
        Self { totals: out }
    }

    /// Drops the features after the last that some row uses.
    fn forget(&mut self, state: &mut State) {
        state.features.forget();
        let count = state.features.len();
        if self.totals.count() > count {
            self.totals = self.totals.picked(&(0..count).collect::<Vec<_>>());
        }
    }

    /// Appends features that nobody uses until there are so many.
    fn extend(&mut self, angular: &Angular, course: &mut Course<'_>, state: &mut State, count: usize) -> Result<()> {
        while state.features.len() < count {
            angular.append(course, state)?;
        }
        while self.totals.count() < state.features.len() {
            self.totals.append();
        }
        Ok(())
    }
}

impl Angular {
    /// What a state holds beside that of every model.
    pub(super) fn begin(&self, state: &mut State) -> Result<()> {
        state.step = Some(DualAveraging::new(STEP, ACCEPTANCE)?);
        Ok(())
    }

    fn chain(&self, sampler: &Sampler, state: &State) -> Chain {
        Chain::new(sampler.width, state.hyper.kappa)
    }

    fn lengths(&self, sampler: &Sampler, state: &State) -> Lengths {
        match self.magnitude {
            MagnitudeKind::Gamma => Lengths::Gamma { shape: self.shape, rate: state.hyper.rate },
            MagnitudeKind::Chi => Lengths::Chi { dim: sampler.width as f64, variance: state.hyper.spread },
        }
    }

    /// Variance of the entries of a feature, as births reckon with it.
    fn variance(&self, sampler: &Sampler, state: &State) -> f64 {
        match self.magnitude {
            MagnitudeKind::Gamma => self.shape * (self.shape + 1.0) / (state.hyper.rate * state.hyper.rate * sampler.width as f64),
            MagnitudeKind::Chi => state.hyper.spread,
        }
    }

    /// Direction and length of a feature after all that there are.
    pub(super) fn next(&self, sampler: &Sampler, state: &State, rng: &mut Philox) -> Result<(Vec<f64>, f64)> {
        let direction = self.chain(sampler, state).extend(&state.features.entries, state.features.len(), rng)?;
        Ok((direction, self.lengths(sampler, state).draw(rng)?))
    }

    /// Appends the next feature that nobody uses.
    fn append(&self, course: &mut Course<'_>, state: &mut State) -> Result<()> {
        let sampler = course.sampler;
        let below = state.features.ln_on.last().copied().unwrap_or(0.0);
        // none above e^-700: its probability is nothing
        let y = state.hyper.process.next_unused(below, f64::NEG_INFINITY, sampler.rows, &mut course.rng).unwrap_or(-700.0);
        let id = course.unused_name();
        sampler.append_unused(state, id, y, &mut course.rng)
    }

    pub(super) fn sweep(&self, course: &mut Course<'_>, state: &mut State, warm_up: bool) -> Result<Vec<(String, f64)>> {
        let mut born = 0;
        let mut ordered = if course.sampler.kind == SamplerKind::Slice {
            course.begin(state)?;
            course.slice(state)?;
            course.scan_counted(state)?;
            state.features.forget();
            let mut ordered = Ordered { totals: course.totals_of_all(state)? };
            self.directions(course, state, &ordered, warm_up)?;
            self.swaps(course, state, &mut ordered)?;
            ordered
        } else {
            state.features.forget();
            course.changed();
            let owners = course.begin(state)?;
            let totals = course.scan_owned(state, owners, true)?;
            let mut ordered = Ordered::new(state, &totals);
            self.directions(course, state, &ordered, warm_up)?;
            self.sticks(course, state, &mut ordered)?;
            self.swaps(course, state, &mut ordered)?;
            for attempt in 0..self.births {
                let group = if attempt % 2 == 0 { course.sampler.group } else { 1 };
                born += u64::from(self.birth_or_death(course, state, &mut ordered, group)?);
            }
            ordered
        };
        ordered.forget(state);
        self.intercept(course, state, &ordered);
        let weights = state.features.weights(&(0..state.features.len()).collect::<Vec<_>>());
        course.changed();
        let unexplained = course.unexplained(state, &ordered.totals, &weights)?;
        self.learn(course, state, unexplained)?;
        course.changed();
        state.figures.ln_likelihood = course.sampler.ln_likelihood(state, unexplained);
        state.figures.ln_joint = self.ln_joint(course.sampler, state);
        let step = state.step.as_ref().map_or(0.0, DualAveraging::final_step);
        Ok(vec![("births_and_deaths".into(), born as f64), ("prefix".into(), state.features.len() as f64), ("step".into(), step)])
    }

    /// Direction and length of each feature, in order.
    pub(super) fn directions(&self, course: &mut Course<'_>, state: &mut State, ordered: &Ordered, warm_up: bool) -> Result<()> {
        let (sampler, width) = (course.sampler, course.sampler.width);
        let (chain, lengths, noise) = (self.chain(sampler, state), self.lengths(sampler, state), state.hyper.noise);
        let count = state.features.len();
        let mut weights = state.features.weights(&(0..count).collect::<Vec<_>>());
        let strong = state.hyper.kappa > WEAK * width as f64;
        let (hmc, vmf) = match self.direction {
            _ if width == 1 => (false, true),
            DirectionKind::Vmf => (false, true),
            DirectionKind::Hmc => (true, false),
            DirectionKind::Auto => (strong, true),
        };
        for k in 0..count {
            let left = ordered.totals.left_for(k, &weights, &state.intercept);
            let r = state.features.lengths[k];
            let natural: Vec<f64> = chain.pull(&state.features.entries, k).iter().zip(&left).map(|(t, s)| t + r * s / noise).collect();
            if hmc {
                let step = state.step.as_ref().map_or(STEP, |s| if warm_up { s.step() } else { s.final_step() });
                let accepted = chain.step_hmc(&mut state.features.entries, k, &natural, step, &mut course.rng)?;
                if let (Some(step), true) = (&mut state.step, warm_up) {
                    step.update(accepted);
                }
            }
            if vmf {
                chain.step_vmf(&mut state.features.entries, k, &natural, &mut course.rng)?;
            }
            let u = &state.features.entries[k * width..][..width];
            let along = crate::linalg::dot(&left, u);
            let r = lengths.step(r, along, ordered.totals.together(k, k), noise, &mut course.rng)?;
            weights[k * width..][..width].iter_mut().zip(u).for_each(|(w, u)| *w = r * u);
            state.features.lengths[k] = r;
        }
        course.changed();
        Ok(())
    }

    /// Probabilities of use within the order that they have.
    fn sticks(&self, course: &mut Course<'_>, state: &mut State, ordered: &mut Ordered) -> Result<()> {
        let count = state.features.len();
        if count == 0 {
            return Ok(());
        }
        ordered.extend(self, course, state, count + 1)?;
        let process = state.hyper.process;
        for k in 0..count {
            let high = if k == 0 { 0.0 } else { state.features.ln_on[k - 1] };
            let (low, y) = (state.features.ln_on[k + 1], state.features.ln_on[k]);
            let y = process.step_between(y, state.features.uses[k], course.sampler.rows, (low, high), &mut course.rng);
            state.features.ln_on[k] = y;
            state.features.ln_off[k] = ln_not(y);
        }
        Ok(())
    }

    /// Neighbours in the order exchange their places, from the last to the first; probabilities of use stay.
    fn swaps(&self, course: &mut Course<'_>, state: &mut State, ordered: &mut Ordered) -> Result<()> {
        let (width, count) = (course.sampler.width, state.features.uses.iter().rposition(|&m| m > 0).map_or(0, |k| k + 1));
        if count == 0 {
            return Ok(());
        }
        ordered.extend(self, course, state, count + 1)?;
        let chain = self.chain(course.sampler, state);
        let features = &mut state.features;
        let mut order: Vec<usize> = (0..features.len()).collect();
        for k in (0..count).rev() {
            let odds = |k: usize| features.ln_on[k] - features.ln_off[k];
            let more = features.uses[k + 1] as f64 - features.uses[k] as f64;
            let ln_ratio = more * (odds(k) - odds(k + 1)) + chain.swap(&features.entries, k);
            if open01(&mut course.rng).ln() < ln_ratio {
                features.ids.swap(k, k + 1);
                features.uses.swap(k, k + 1);
                features.lengths.swap(k, k + 1);
                order.swap(k, k + 1);
                let (before, after) = features.entries.split_at_mut((k + 1) * width);
                before[k * width..].swap_with_slice(&mut after[..width]);
            }
        }
        ordered.totals = ordered.totals.picked(&order);
        ordered.forget(state);
        course.changed();
        Ok(())
    }

    /// What is added to every row, where it is learned.
    fn intercept(&self, course: &mut Course<'_>, state: &mut State, ordered: &Ordered) {
        let Some(variance) = course.sampler.intercept.variance() else { return };
        let (noise, rows) = (state.hyper.noise, course.sampler.rows as f64);
        let mut sum = ordered.totals.all().to_vec();
        for k in 0..state.features.len() {
            let uses = state.features.uses[k] as f64;
            sum.iter_mut().zip(state.features.weight(k)).for_each(|(s, w)| *s -= uses * w);
        }
        let precision = rows + noise / variance;
        let sd = (noise / precision).sqrt();
        for (b, s) in state.intercept.iter_mut().zip(sum) {
            let z: f64 = StandardNormal.sample(&mut course.rng);
            *b = s / precision + sd * z;
        }
    }

    /// What governs features and noise.
    fn learn(&self, course: &mut Course<'_>, state: &mut State, unexplained: f64) -> Result<()> {
        let sampler = course.sampler;
        sampler.learn_mass_of_prefix(state, &mut course.rng)?;
        sampler.learn_noise(state, unexplained, &mut course.rng)?;
        match self.magnitude {
            MagnitudeKind::Gamma => {
                if let Some((e, f)) = sampler.learn.rate {
                    let (count, sum) = (state.features.len() as f64, state.features.lengths.iter().sum::<f64>());
                    let rate = crate::dist::Gamma::new(e + count * self.shape, f + sum)?.sample(&mut course.rng);
                    state.hyper.rate = rate.max(f64::MIN_POSITIVE);
                }
            }
            MagnitudeKind::Chi => sampler.learn_spread(state, &mut course.rng)?,
        }
        if let Some((shape, rate)) = sampler.learn.kappa {
            let (terms, cosines) = self.chain(sampler, state).cosines(&state.features.entries);
            let target = |y: f64| {
                let kappa = y.exp();
                // a density of kappa itself: its logarithm has kappa as a factor more
                shape * y - rate * kappa + terms * chain::ln_normaliser(sampler.width, kappa) - kappa * cosines
            };
            let slice = SliceSampler { upper: crate::prior::MAX_KAPPA.ln(), ..SliceSampler::default() };
            let start = state.hyper.kappa.max(1e-300).ln();
            if let Ok(step) = slice.step(start, target, &mut course.rng) {
                state.hyper.kappa = step.x.exp();
            }
        }
        Ok(())
    }

    /// Log joint density; features after the last that is used are integrated out.
    fn ln_joint(&self, sampler: &Sampler, state: &State) -> f64 {
        let (features, process, rows) = (&state.features, &state.hyper.process, sampler.rows as f64);
        let lengths = self.lengths(sampler, state);
        let sticks: f64 = (0..features.len())
            .map(|k| {
                let m = features.uses[k] as f64;
                process.mass.ln() - features.ln_on[k]
                    + m * features.ln_on[k]
                    + (rows - m) * features.ln_off[k]
                    + lengths.ln_density(features.lengths[k])
            })
            .sum();
        let unused = features.ln_on.last().map_or(0.0, |&y| process.unused_above(y, sampler.rows));
        sticks - process.mass * (process.growth(sampler.rows) + unused)
            + self.chain(sampler, state).ln_density(&features.entries)
            + state.figures.ln_likelihood
            + sampler.ln_intercept(&state.intercept)
            + sampler.learn.ln_density(&state.hyper)
    }
}

impl Sampler {
    /// Appends a feature that nobody uses, of this probability of use.
    pub(super) fn append_unused(&self, state: &mut State, id: u64, ln_on: f64, rng: &mut Philox) -> Result<()> {
        let chance = (ln_on, ln_not(ln_on));
        match &self.angular {
            None => {
                let entries = self.prior_entries(&state.hyper, rng);
                state.features.push(id, chance, 0, &entries, None);
            }
            Some(angular) => {
                let (direction, length) = angular.next(self, state, rng)?;
                state.features.push(id, chance, 0, &direction, Some(length));
            }
        }
        Ok(())
    }
}
