//! A start that is grown: short chains on a few rows, the best of them, then all rows.
//!
//! Barriers between ways to express the same rows grow with the number of rows; they are crossed while there are few.

use rand::Rng;
use rand::seq::SliceRandom;
use std::borrow::Cow;

use super::angular::Angular;
use super::sampler::ask::{Gathered, Question};
use super::sampler::{Course, Intercept, Sampler};
use super::settings::SamplerKind;
use super::state::{Features, State};
use crate::Result;
use crate::data::{Dataset, Matrix};
use crate::linalg::dot;
use crate::parallel;
use crate::run::{Program, Purpose, Rows, Shape, Stream, Threads, Tick, Which, blocks};

/// How a start is grown.
#[derive(Debug, Clone, PartialEq)]
pub struct Grown {
    /// Rows, at most.
    pub rows: usize,
    /// Sweeps of each chain; the last tenth of them with births in all rows.
    pub sweeps: u64,
    /// Chains to choose from.
    pub restarts: u64,
}

/// Rows of a group in which features are born.
const GROUP: usize = 16;
/// Attempts of moves in a sweep.
const SPLIT_MERGE: usize = 10;
/// Prior of the variance of entries, where the model itself has none.
const SPREAD: (f64, f64) = (1.0, 0.1);
/// Scans that give the other rows their codes.
const SCANS: u32 = 3;

impl Grown {
    /// The state that a chain begins with. Rows hear what they use.
    pub(super) fn start(&self, sampler: &Sampler, state: State, rows: &mut dyn Rows<Sampler>, stream: Stream) -> Result<State> {
        let mut rng = stream.rng();
        let total = sampler.rows;
        let count = (self.rows as u64).min(total);
        let mut all: Vec<u64> = (0..total).collect();
        let (chosen, _) = all.partial_shuffle(&mut rng, count as usize);
        let mut chosen = chosen.to_vec();
        chosen.sort_unstable();
        let mut course = Course::new(sampler, rows, rng, 0);
        let gathered = course.ask(&state, Question::Rows { rows: Cow::Borrowed(&chosen) }, Which::All)?.gathered.0;
        let seeds: Vec<u64> = (0..self.restarts).map(|_| course.rng.next_u64()).collect();
        let few = sampler.on_few_rows(count);
        let grown: Vec<(State, Vec<Vec<u32>>)> =
            parallel::map(seeds, |_, seed| self.grow(&few, &gathered, seed)).into_iter().collect::<Result<_>>()?;
        let mut best: Option<(State, Vec<Vec<u32>>)> = None;
        for found in grown {
            if best.as_ref().is_none_or(|b| found.0.figures.ln_marginal > b.0.figures.ln_marginal) {
                best = Some(found);
            }
        }
        let Some((found, codes)) = best else { return Ok(state) };
        let mut state = State { features: found.features, hyper: found.hyper, intercept: found.intercept, ..state };
        // names of the short chain are free again
        state.features.ids = (0..state.features.len() as u64).collect();
        let ln_odds: Vec<f64> = (0..state.features.len()).map(|k| state.features.ln_on[k] - state.features.ln_off[k]).collect();
        let given: Vec<(u64, Vec<u32>)> = chosen.iter().copied().zip(codes).collect();
        let question = Question::Code { ln_odds: Cow::Owned(ln_odds), scans: SCANS, given: Cow::Owned(given) };
        course.changed();
        let uses = course.ask(&state, question, Which::All)?.uses.0;
        state.features.uses = uses.iter().map(|&m| m as u64).collect();
        state.features.drop_unused();
        course.changed();
        sampler.draw_chances(&mut state, &mut course.rng)?;
        match &sampler.angular {
            Some(angular) => angular.convert(&mut course, &mut state)?,
            None if sampler.kind == SamplerKind::Slice => course.fill(&mut state)?,
            None => {}
        }
        Ok(state)
    }

    /// One short chain: its last state, and which features rows use.
    fn grow(&self, few: &Sampler, rows: &[Gathered], seed: u64) -> Result<(State, Vec<Vec<u32>>)> {
        let values: Vec<f64> = rows.iter().flat_map(|g| g.entries.iter().copied()).collect();
        let data = Dataset::new(Matrix::dense(rows.len(), few.width, values));
        let blocks = blocks(&data, rows.len().max(1));
        let shape = Shape { rows: rows.len(), cols: few.width, blocks: blocks.len() as u32, block_rows: rows.len().max(1) };
        let mut threads = Threads::new(few, &blocks, shape, seed, 0, None);
        let mut state = few.empty_state();
        for sweep in 1..=self.sweeps {
            threads.begin(sweep);
            let stream = Stream::new(seed, 0, Purpose::Sweep).sweep(sweep);
            few.sweep(&mut state, &mut threads, Tick { stream, sweep, warm_up: 10 * sweep <= 9 * self.sweeps })?;
        }
        let places = |local: &super::sampler::Local| {
            let mut codes = local.codes.clone();
            codes.arrange(&state.features.ids);
            (0..codes.rows()).map(|i| codes.used(i)).collect::<Vec<_>>()
        };
        let codes = threads.locals().iter().flat_map(places).collect();
        Ok((state, codes))
    }
}

impl Sampler {
    /// The model with independent Gaussian features on a few dense rows.
    fn on_few_rows(&self, rows: u64) -> Self {
        let learned = matches!(self.intercept, Intercept::Learned { .. });
        let own = self.kind == SamplerKind::Anchored && self.angular.is_none();
        let mut learn = self.learn;
        (learn.rate, learn.kappa) = (None, None);
        if self.angular.is_some() && learn.spread.is_none() {
            learn.spread = Some(SPREAD);
        }
        Self {
            kind: SamplerKind::Anchored,
            angular: None,
            rows,
            sparse: false,
            scale: 1.0,
            learn,
            group: if own { self.group } else { GROUP },
            split_merge: if own { self.split_merge } else { SPLIT_MERGE },
            shear: if own { self.shear } else { 1 },
            complement: if own { self.complement } else { usize::from(learned) },
            start: None,
            ..self.clone()
        }
    }
}

impl Sampler {
    /// A state with these features, one after the other in units of the data, and codes that scans give to the rows: for benchmarks.
    #[doc(hidden)]
    pub fn seeded(&self, rows: &mut dyn Rows<Self>, weights: &[f64], chance: f64, stream: Stream) -> Result<State> {
        let mut state = self.empty_state();
        for (id, w) in weights.chunks_exact(self.width).enumerate() {
            let entries: Vec<f64> = w.iter().map(|v| v / self.scale).collect();
            state.features.push(id as u64, (chance.ln(), (-chance).ln_1p()), 1, &entries, None);
        }
        let mut course = Course::new(self, rows, stream.rng(), 0);
        let ln_odds = vec![(chance / (1.0 - chance)).ln(); state.features.len()];
        let question = Question::Code { ln_odds: Cow::Owned(ln_odds), scans: SCANS, given: Cow::Owned(Vec::new()) };
        let uses = course.ask(&state, question, Which::All)?.uses.0;
        state.features.uses = uses.iter().map(|&m| m as u64).collect();
        state.features.drop_unused();
        Ok(state)
    }
}

impl Angular {
    /// A state of independent features becomes one of directions in an order, with those that nobody uses among them.
    fn convert(&self, course: &mut Course<'_>, state: &mut State) -> Result<()> {
        let (sampler, found) = (course.sampler, std::mem::take(&mut state.features));
        let least = found.ln_on.iter().copied().fold(0.0, f64::min);
        let mut places: Vec<(f64, Option<usize>)> = found.ln_on.iter().enumerate().map(|(k, &y)| (y, Some(k))).collect();
        let mut y = 0.0;
        while let Some(next) = state.hyper.process.next_unused(y, least, sampler.rows, &mut course.rng) {
            y = next;
            places.push((y, None));
        }
        places.sort_by(|a, b| b.0.total_cmp(&a.0));
        let length = |k: usize| {
            let w = found.weight(k);
            dot(&w, &w).sqrt().max(f64::MIN_POSITIVE)
        };
        let sum: f64 = (0..found.len()).map(length).sum();
        if sampler.learn.rate.is_some() && sum > 0.0 {
            state.hyper.rate = self.shape * found.len() as f64 / sum;
        }
        state.features = Features::default();
        for (y, place) in places {
            match place {
                Some(k) => {
                    let r = length(k);
                    let direction: Vec<f64> = found.weight(k).iter().map(|w| w / r).collect();
                    state.features.push(found.ids[k], (found.ln_on[k], found.ln_off[k]), found.uses[k], &direction, Some(r));
                }
                None => {
                    let id = course.unused_name();
                    sampler.append_unused(state, id, y, &mut course.rng)?;
                }
            }
        }
        course.changed();
        Ok(())
    }
}
