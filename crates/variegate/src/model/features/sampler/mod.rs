//! The samplers of features.
//!
//! | file | what is in it |
//! |---|---|
//! | `ask.rs`, `rows.rs` | what rows are asked, and what a block of them does then |
//! | `groups.rs` | births and deaths in small groups of rows, features integrated out |
//! | `scans.rs` | every row's use of every feature, three ways |
//! | `moves.rs`, `split_merge.rs` | features that are exchanged for others |
//! | `weights.rs`, `hyper.rs` | entries of features, and what governs them |
//! | `sweeps.rs` | the order of all this in a sweep |

pub mod ask;
mod groups;
mod hyper;
mod moves;
mod rows;
mod scans;
mod split_merge;
mod sweeps;
mod weights;

#[cfg(test)]
mod tests;

pub(super) use hyper::Learn;
pub(super) use rows::{Entries, happens};
pub use rows::{Local, Scratch};
pub(super) use weights::Totals;

use std::borrow::Cow;

use super::angular::Angular;
use super::settings::SamplerKind;
use super::state::{Figures, Hyper, State};
use crate::Result;
use crate::run::{Block, Draws, Philox, Program, Report, Rows, Stream, Tick, Which};
use ask::{Ask, Change, Question, Stats, View};

/// A model with a sampler.
#[derive(Debug, Clone)]
pub struct Sampler {
    /// Which sampler.
    pub kind: SamplerKind,
    /// Directions and lengths, where the model has them; else features are Gaussian.
    pub angular: Option<Angular>,
    /// Number of rows.
    pub rows: u64,
    /// Number of columns.
    pub width: usize,
    /// Whether rows are stored sparsely.
    pub sparse: bool,
    /// What one unit of the model is in the data.
    pub scale: f64,
    /// What is added to every row.
    pub intercept: Intercept,
    /// Where the numbers start that govern features and noise.
    pub hyper: Hyper,
    /// Which of them are learned.
    pub learn: Learn,
    /// Rows of a group in which features are born and die.
    pub group: usize,
    /// Attempts to split or merge in a sweep.
    pub split_merge: usize,
    /// How many rows of a feature, on average, a split or merge deals one after the other; the others follow together.
    pub core: usize,
    /// Attempts to shear in a sweep.
    pub shear: usize,
    /// Attempts to turn a feature inside out in a sweep.
    pub complement: usize,
    /// Joint updates of two features of each row in a sweep.
    pub pairs: u32,
    /// No births beyond so many features.
    pub most: usize,
    /// How chains begin.
    pub start: Option<super::start::Grown>,
}

/// What is added to every row.
#[derive(Debug, Clone, PartialEq)]
pub enum Intercept {
    /// This.
    Known(Vec<f64>),
    /// A vector of Gaussian entries of this variance around 0, which starts here.
    Learned {
        /// The variance.
        variance: f64,
        /// Where it starts.
        start: Vec<f64>,
    },
}

impl Intercept {
    fn start(&self) -> &[f64] {
        match self {
            Self::Known(at) | Self::Learned { start: at, .. } => at,
        }
    }

    /// Its variance, where it is learned.
    pub(super) fn variance(&self) -> Option<f64> {
        match self {
            Self::Known(_) => None,
            Self::Learned { variance, .. } => Some(*variance),
        }
    }
}

/// Features that a row may have to itself after a visit.
const MOST_OF_A_ROW: u64 = 4000;
/// Who names features that no row alone gives rise to.
const BY_SPLIT: u64 = 4093;
const BY_TAIL: u64 = 4094;

/// The name of a feature: the sweep, then the row or the attempt that it comes from, then a count.
fn name(sweep: u64, row: u64, count: u64) -> u64 {
    sweep << 44 | (row & 0xFFFF_FFFF) << 12 | count
}

/// A sweep that is under way: the rows, what they have not heard of yet, and the features as they see them.
pub(super) struct Course<'r> {
    pub(super) sampler: &'r Sampler,
    pub(super) rows: &'r mut dyn Rows<Sampler>,
    pub(super) rng: Philox,
    pub(super) sweep: u64,
    changes: Vec<Change>,
    /// Places of the features that rows are told of, and what they are told.
    told: Option<(Vec<usize>, View)>,
    /// Features that were named in this sweep, but for those that rows named.
    named: u64,
}

impl<'r> Course<'r> {
    pub(super) fn new(sampler: &'r Sampler, rows: &'r mut dyn Rows<Sampler>, rng: Philox, sweep: u64) -> Self {
        Self { sampler, rows, rng, sweep, changes: Vec::new(), told: None, named: 0 }
    }

    /// A name for a feature that no row alone gives rise to.
    pub(super) fn new_name(&mut self, by: u64) -> u64 {
        self.named += 1;
        name(self.sweep, self.named, by)
    }

    /// A name for a feature that nobody uses.
    pub(super) fn unused_name(&mut self) -> u64 {
        self.new_name(BY_TAIL)
    }

    /// Features have changed: rows must be told anew.
    pub(super) fn changed(&mut self) {
        self.told = None;
    }

    /// Rows hear of a change with the next question.
    pub(super) fn change(&mut self, change: Change) {
        self.changes.push(change);
    }

    /// Asks some blocks about the features that rows use.
    pub(super) fn ask(&mut self, state: &State, kind: Question<'_>, which: Which<'_>) -> Result<Stats> {
        if self.told.is_none() {
            let places = state.features.in_use();
            let view = self.sampler.view(state, &places);
            self.told = Some((places, view));
        }
        self.ask_told(state, kind, which)
    }

    /// The same about all features, also those that nobody uses.
    fn ask_of_all(&mut self, state: &State, kind: Question<'_>, which: Which<'_>) -> Result<Stats> {
        let places = state.features.by_name();
        if self.told.as_ref().is_none_or(|told| told.0 != places) {
            let view = self.sampler.view(state, &places);
            self.told = Some((places, view));
        }
        self.ask_told(state, kind, which)
    }

    fn ask_told(&mut self, state: &State, kind: Question<'_>, which: Which<'_>) -> Result<Stats> {
        let Some((places, view)) = &self.told else { return Ok(Stats::default()) };
        let ids: Vec<u64> = places.iter().map(|&k| state.features.ids[k]).collect();
        let ask = Ask { ids: Cow::Owned(ids), view: Some(Cow::Borrowed(view)), changes: Cow::Borrowed(&self.changes), kind };
        let stats = self.rows.visit(&ask, which)?;
        // blocks that were not asked hear of changes with a question to all
        if matches!(which, Which::All) {
            self.changes.clear();
        }
        Ok(stats)
    }

    /// Rows hear of changes before some of them are asked alone.
    pub(super) fn settle(&mut self, state: &State) -> Result<()> {
        if !self.changes.is_empty() {
            self.ask(state, Question::Nothing, Which::All)?;
        }
        Ok(())
    }

    /// How rows know the features that are used.
    pub(super) fn told_places(state: &State) -> Vec<usize> {
        state.features.in_use()
    }
}

impl Sampler {
    /// The features at these places as rows need them.
    fn view(&self, state: &State, places: &[usize]) -> View {
        View::new(state.features.weights(places), &state.intercept, state.hyper.noise, self.sparse)
    }

    /// The state before any row was seen.
    pub(super) fn empty_state(&self) -> State {
        State {
            features: super::state::Features::default(),
            hyper: self.hyper,
            intercept: self.intercept.start().to_vec(),
            step: None,
            truncated: false,
            figures: Figures::default(),
        }
    }
}

impl Program for Sampler {
    const NAME: &'static str = "features";
    const RELEASES: &'static [&'static str] = &["0.1"];
    type Global = State;
    type Local = Local;
    type Ask<'a> = Ask<'a>;
    type Stats = Stats;
    type Scratch = Scratch;

    fn start(&self, rows: &mut dyn Rows<Self>, stream: Stream) -> Result<State> {
        let mut state = self.empty_state();
        if let Some(angular) = &self.angular {
            angular.begin(&mut state)?;
        }
        match &self.start {
            None => Ok(state),
            Some(grown) => grown.start(self, state, rows, stream),
        }
    }

    fn local(&self, block: &Block<'_>, _: Stream) -> Local {
        // missing entries start at what is added to every row
        let start = self.intercept.start();
        let mut filled = Vec::new();
        for i in 0..block.rows() {
            block.x.for_row(i, |j, v| {
                if v.is_nan() {
                    filled.push(start[j]);
                }
            });
        }
        Local { codes: super::codes::Codes::new(block.rows()), filled, ..Local::default() }
    }

    fn sweep(&self, state: &mut State, rows: &mut dyn Rows<Self>, tick: Tick) -> Result<Report> {
        let mut course = Course::new(self, rows, tick.stream.rng(), tick.sweep);
        let mut extras = sweeps::sweep(&mut course, state, tick.warm_up)?;
        // what rows have not heard of would be lost
        course.settle(state)?;
        extras.extend([
            ("log_likelihood".into(), state.figures.ln_likelihood),
            ("noise".into(), state.hyper.noise),
            ("mass".into(), state.hyper.process.mass),
        ]);
        Ok(Report { objective: state.figures.ln_joint, components: state.features.used() as u32, converged: false, extras })
    }

    fn visit(&self, ask: &Ask<'_>, block: &Block<'_>, local: &mut Local, scratch: &mut Scratch, stream: Stream) -> Result<Stats> {
        rows::visit(self.scale, ask, block, local, scratch, stream)
    }

    fn draw(&self, state: &State, out: &mut Draws) {
        super::draws::write(self, state, out);
    }
}
