//! Stochastic variational Bayes: a step for every minibatch of rows, for more rows than sweeps can visit, and for rows that come later.
//!
//! A minibatch is a set of blocks, of which the rows are asked as in `vb.rs`. What they say, scaled up to all rows, is averaged into what
//! earlier ones said, and q follows from the averages:
//!
//! ```text
//! S ← (1 − ρ_t) S + ρ_t (N/B) S_B,    ρ_t = (t + delay)^−power        or, where old rows are forgotten,   S ← δ S + S_B
//! ```
//!
//! A sum is linear in the natural parameters of its factor, whose prior part is constant, so that this is the natural gradient step. The number of
//! components is that of the start. A label that came later has its own t and N. There is no bound to watch: instead
//! some minibatches are predicted before they are used, and the mean log probability of their labels is told.

mod stream;
#[cfg(test)]
mod tests;

pub(crate) use stream::Stream;

use rand::Rng;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use super::bound::Bound;
use super::label_part::{LabelPart, LabelView};
use super::logit::{self, Logit};
use super::mixture::{Factors, Mixture, Scratch, Sums, View};
use super::schema::Schema;
use super::settings::{CombineKind, HistoryKind, Settings};
use super::stage::{Room, Stage};
use super::vb::Seen;
use crate::answer::SeenSets;
use crate::data::Block;
use crate::model::gathered::Gathered;
use crate::run::{Draws, Program, Report, Rows, Stream as Random, Sum, Tick, Which};
use crate::{Error, Result, merge_fields};

/// Rows of a minibatch, where columns are few.
const LEAST_BATCH: usize = 256;
/// One minibatch in so many is predicted before it is used.
const PREDICTED: usize = 10;

/// The program.
#[derive(Debug, Clone)]
pub(crate) struct Svi {
    pub(crate) mixture: Mixture,
    /// Number of components.
    pub(crate) components: usize,
    /// Passes over the rows.
    pub(crate) passes: u64,
    /// Rows of a minibatch.
    pub(crate) batch_rows: usize,
    pub(crate) pace: StepSize,
    pub(crate) combine: CombineKind,
    /// Share of the rows with each label.
    pub(crate) rates: Vec<f64>,
    /// A label that every row is without, whose sums are kept for labels that come later; nothing where none are needed.
    absent: Option<Logit>,
    /// Where to begin: an earlier fit, whose rows are gone.
    pub(crate) from: Option<Box<State>>,
}

/// How much a minibatch counts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) enum StepSize {
    /// (t + delay)^−power.
    Falling { delay: f64, power: f64 },
    /// As much as its rows, of which this share is left after each later one.
    Decay(f64),
}

/// Where a fit is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) q: Factors,
    pub(crate) stream: Stream,
    /// Passes that were made.
    pub(crate) passes: u64,
    /// Mean log probability of the known labels of the last pass, each predicted before its row was used in it; NaN if there were none.
    pub(crate) score: f64,
    /// Sets of labels of the rows that know all of theirs.
    pub(crate) seen: SeenSets,
}

/// What rows are asked.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Ask<'a> {
    /// To bring some of so many rows together.
    Gather { all: usize, most: usize, key: u64 },
    /// To belong to the nearest centre.
    Start { centres: Cow<'a, [f64]>, labels: Cow<'a, LabelView> },
    /// How likely their labels are.
    Predict(Cow<'a, Factors>),
    /// The local step.
    Pass(Cow<'a, View>),
}

/// What rows report.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Stats {
    sums: Sums,
    past: logit::Stats,
    gathered: Gathered,
    seen: Seen,
    rows: Sum<u64>,
    /// Sum of the log probabilities of known labels, and how many there are.
    ln_probability: Sum<f64>,
    entries: Sum<u64>,
}
merge_fields!(Stats, sums, past, gathered, seen, rows, ln_probability, entries);

impl Svi {
    /// The program of data, from the start or from where an earlier fit ended.
    pub(super) fn new(schema: &Schema, s: &Settings, from: Option<Box<State>>) -> Result<Self> {
        let (pace, passes) = match s.decay {
            Some(kept) => (StepSize::Decay(kept), 1),
            None => (StepSize::Falling { delay: s.step_delay, power: s.step_power }, s.passes),
        };
        // further rows count once, whatever the first ones did
        let passes = if from.is_some() { 1 } else { passes };
        let mixture = schema.mixture(s)?;
        let absent = match &mixture.labels {
            LabelPart::Logit(p) if s.history == HistoryKind::Negative => Some(Logit { labels: 1, bound: Bound::Bohning, ..p.clone() }),
            _ => None,
        };
        let batch_rows = s.batch_rows.map_or_else(|| LEAST_BATCH.max(schema.width / 10), |rows| rows as usize);
        Ok(Self {
            mixture,
            absent,
            components: s.components as usize,
            passes,
            batch_rows,
            pace,
            combine: s.combine,
            rates: schema.label_rates(),
            from,
        })
    }

    /// Blocks of a pass in a random order, cut into minibatches.
    fn batches(&self, rows: &dyn Rows<Self>, rng: &mut impl Rng) -> Vec<Vec<u32>> {
        let shape = rows.shape();
        let mut blocks: Vec<u32> = (0..shape.blocks).collect();
        for i in (1..blocks.len()).rev() {
            blocks.swap(i, rng.next_u64() as usize % (i + 1));
        }
        let size = self.batch_rows.div_ceil(shape.block_rows.max(1)).max(1);
        // what is left over goes with the batch before it: a small one would be scaled up most
        let batches = (blocks.len() / size).max(1);
        (0..batches)
            .map(|b| {
                let end = if b + 1 == batches { blocks.len() } else { (b + 1) * size };
                let mut batch = blocks[b * size..end].to_vec();
                batch.sort_unstable();
                batch
            })
            .collect()
    }

    /// One step with what a minibatch said.
    fn step(&self, state: &mut State, batch: Stats) -> Result<()> {
        let rows = batch.rows.0 as f64;
        let (common, of_labels) = state.stream.next_step(self.pace, rows);
        self.absorb(state, batch.sums, batch.past, common, &of_labels)
    }

    /// S ← old S + new S_B, then q.
    fn absorb(
        &self,
        state: &mut State,
        mut batch: Sums,
        mut past: logit::Stats,
        (old, new): (f64, f64),
        of_labels: &[(f64, f64)],
    ) -> Result<()> {
        state.stream.past.scale(&[old]);
        past.scale(&[new]);
        crate::run::Merge::merge(&mut state.stream.past, past);
        let sums = &mut state.stream.sums;
        let [olds, news] = [|s: &(f64, f64)| s.0, |s: &(f64, f64)| s.1].map(|f| of_labels.iter().map(f).collect::<Vec<f64>>());
        sums.scale(old, &olds);
        batch.scale(new, &news);
        crate::run::Merge::merge(sums, batch);
        sums.forget_dust();
        let rowwise = &mut sums.labels.rowwise;
        (rowwise.step, rowwise.steps) = ((old, new), of_labels.to_vec());
        state.stream.past.permute(&sums.falling());
        self.mixture.update(&mut state.q, sums)?;
        sums.labels.rowwise = Default::default();
        let weight = state.q.sticks.mean_alpha();
        if weight.is_finite() && state.q.counts.iter().all(|n| n.is_finite()) {
            return Ok(());
        }
        let detail = "weights of components are not finite; bring columns to a common scale, or choose other `features`".to_string();
        Err(Error::Numerical { what: "a step of the variational fit", sweep: state.passes, detail })
    }
}

impl Program for Svi {
    const NAME: &'static str = "labels/svi";
    const RELEASES: &'static [&'static str] = &["0.1"];
    type Global = State;
    type Local = ();
    type Ask<'a> = Ask<'a>;
    type Stats = Stats;
    type Scratch = Scratch;

    fn start(&self, rows: &mut dyn Rows<Self>, stream: Random) -> Result<State> {
        let mut rng = stream.rng();
        let (all, most) = (rows.shape().rows, self.mixture.gathered_rows());
        let Stats { gathered, seen, .. } = rows.all(&Ask::Gather { all, most, key: rng.next_u64() })?;
        if let Some(from) = &self.from {
            let mut state = State::clone(from);
            state.seen = state.seen.union(&seen.0);
            state.stream.more_rows(rows.shape().rows);
            return Ok(state);
        }
        let centres = self.mixture.centres(&gathered, self.components, &mut rng);
        let q = self.mixture.start(self.components);
        let labels = self.mixture.labels.view(&q.labels);
        let first = self.batches(rows, &mut rng).swap_remove(0);
        let ask = Ask::Start { centres: Cow::Borrowed(&centres), labels: Cow::Borrowed(&labels) };
        let Stats { sums, past, rows: in_batch, .. } = rows.visit(&ask, Which::Some(&first))?;
        let mut state = State { q, stream: Stream::new(self.rates.len(), all), passes: 0, score: f64::NAN, seen: seen.0 };
        let scale = match self.pace {
            StepSize::Falling { .. } => all as f64 / in_batch.0 as f64,
            StepSize::Decay(_) => 1.0,
        };
        self.absorb(&mut state, sums, past, (0.0, scale), &vec![(0.0, scale); self.rates.len()])?;
        Ok(state)
    }

    fn local(&self, _: &Block<'_>, _: Random) {}

    fn sweep(&self, state: &mut State, rows: &mut dyn Rows<Self>, tick: Tick) -> Result<Report> {
        let batches = self.batches(rows, &mut tick.stream.rng());
        let (mut ln_probability, mut entries) = (0.0, 0);
        for (b, batch) in batches.iter().enumerate() {
            if b % PREDICTED == PREDICTED - 1 || (b + 1 == batches.len() && batches.len() < PREDICTED) {
                let found = rows.visit(&Ask::Predict(Cow::Borrowed(&state.q)), Which::Some(batch))?;
                ln_probability += found.ln_probability.0;
                entries += found.entries.0;
            }
            let view = self.mixture.view(&state.q);
            let found = rows.visit(&Ask::Pass(Cow::Borrowed(&view)), Which::Some(batch))?;
            self.step(state, found)?;
        }
        state.passes += 1;
        state.score = if entries > 0 { ln_probability / entries as f64 } else { f64::NAN };
        let components = state.q.counts.iter().filter(|n| **n >= 0.5).count() as u32;
        Ok(Report { objective: state.score, components, converged: state.passes >= self.passes, extras: Vec::new() })
    }

    fn visit(&self, ask: &Ask<'_>, block: &Block<'_>, (): &mut (), scratch: &mut Scratch, _: Random) -> Result<Stats> {
        let rows = Sum(block.rows() as u64);
        Ok(match ask {
            Ask::Gather { all, most, key } => {
                let labels = block.y.labels();
                let seen = Seen(SeenSets::of(labels, labels.len() / block.rows().max(1)));
                // where a fit goes on, no clusters are looked for
                let gathered = match self.from {
                    Some(_) => Gathered::default(),
                    None => self.mixture.gather_among(*all, *most, *key, block, scratch),
                };
                Stats { gathered, seen, ..Stats::default() }
            }
            Ask::Start { centres, labels } => {
                let sums = self.mixture.visit_with(labels, self.components, block, scratch, |x, r| self.mixture.nearest(centres, x, r));
                Stats { sums, past: self.absent_in(block, self.components, scratch), rows, ..Stats::default() }
            }
            Ask::Predict(q) => self.predicted(q, block),
            Ask::Pass(view) => {
                let sums = self.mixture.visit(view, block, scratch);
                let components = sums.counts.0.len();
                Stats { sums, past: self.absent_in(block, components, scratch), rows, ..Stats::default() }
            }
        })
    }

    fn draw(&self, state: &State, out: &mut Draws) {
        out.scalar("score", state.score);
    }
}

impl Svi {
    /// Log probabilities of the known labels of rows that were not used yet.
    fn predicted(&self, q: &Factors, block: &Block<'_>) -> Stats {
        let stage = Stage::new(&self.mixture, q, self.combine, self.rates.clone());
        let mut room = Room::default();
        stage.probabilities(block.x, &mut room);
        let (mut ln_probability, mut entries) = (0.0, 0);
        for (&y, &p) in block.y.labels().iter().zip(&room.probability).filter(|(y, _)| **y >= 0) {
            ln_probability += if y == 1 { p } else { 1.0 - p }.max(1e-15).ln();
            entries += 1;
        }
        Stats { ln_probability: Sum(ln_probability), entries: Sum(entries), ..Stats::default() }
    }

    /// Sums of a label that these rows are without, with the responsibilities that they were just given.
    fn absent_in(&self, block: &Block<'_>, components: usize, scratch: &mut Scratch) -> logit::Stats {
        let mut stats = logit::Stats::default();
        if let Some(absent) = &self.absent {
            let view = absent.view(&absent.start(components));
            let y = vec![0; block.rows()];
            self.mixture.with_shares(block, scratch, |panel, r| absent.add(&view, panel, &y, r, &mut stats, &mut Default::default()));
        }
        stats
    }

    /// Whether rows are handed over instead of sums.
    #[cfg(test)]
    fn rowwise(&self) -> bool {
        matches!(self.mixture.labels, LabelPart::Rowwise(_))
    }
}
