//! Variational ascent of the mixture and the labels.
//!
//! A sweep visits all rows (the local step), finds q from their sums (the global step) and tells the bound after both; it never falls. Components
//! that have lost their rows are left out where the bound does not fall by it. A chain is one start; the best of them is kept.

use rand::Rng;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use super::label_part::LabelView;
use super::mixture::{Factors, Mixture, Scratch, Sums, View};
use crate::answer::SeenSets;
use crate::model::gathered::Gathered;
use crate::run::{Block, Draws, Merge, Program, Report, Rows, Stream, Sum, Tick};
use crate::{Error, Result, merge_fields};

/// A component with fewer rows is proposed to be left out.
const EMPTY: f64 = 1e-3;
/// Falls of the bound by rounding.
const ROUNDING: f64 = 1e-9;
/// Sweeps in a row that must gain little before the ascent ends.
const QUIET_SWEEPS: u32 = 2;

/// The program.
#[derive(Debug, Clone)]
pub(crate) struct Vb {
    pub(crate) mixture: Mixture,
    /// Components at the start.
    pub(crate) components: usize,
    /// Relative gain below which a sweep is quiet.
    pub(crate) tol: f64,
    /// Most sweeps.
    pub(crate) max_sweeps: u64,
}

/// How an ascent stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Standing {
    /// It goes on.
    Rising,
    /// The bound has stopped rising.
    Converged,
    /// It has had all its sweeps.
    OutOfSweeps,
}

/// Where an ascent is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) q: Factors,
    pub(crate) bound: f64,
    pub(crate) sweeps: u64,
    pub(crate) standing: Standing,
    /// Quiet sweeps in a row.
    quiet: u32,
    /// Sets of labels of the rows that know all of theirs.
    pub(crate) seen: SeenSets,
    /// The same without components that have no rows, to be tried in the next sweep.
    fewer: Option<Factors>,
    /// Empty components were kept, because the bound would have fallen.
    keep_empty: bool,
}

/// What rows are asked.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Ask<'a> {
    /// To bring some rows together.
    Gather { most: usize, key: u64 },
    /// For products of the columns, where the coupling needs them.
    Columns,
    /// To belong to the nearest centre.
    Start { centres: Cow<'a, [f64]>, labels: Cow<'a, LabelView> },
    /// The local step.
    Pass(Cow<'a, View>),
}

/// What rows report.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Stats {
    sums: Sums,
    gathered: Gathered,
    seen: Seen,
    gram: Sum<Vec<f64>>,
}
merge_fields!(Stats, sums, gathered, seen, gram);

/// Distinct sets of labels; on merge those of both.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Seen(pub(crate) SeenSets);

impl Seen {
    /// Those of the rows of a block that know all of their labels.
    pub(crate) fn of(block: &Block<'_>) -> Self {
        let labels = block.y.labels();
        Self(SeenSets::of(labels, labels.len() / block.rows().max(1)))
    }
}

impl Merge for Seen {
    fn merge(&mut self, right: Self) {
        if self.0.is_empty() {
            self.0 = right.0;
        } else if !right.0.is_empty() {
            self.0 = self.0.union(&right.0);
        }
    }
}

impl Vb {
    fn pass(&self, q: &Factors, rows: &mut dyn Rows<Self>) -> Result<(f64, Sums)> {
        let view = self.mixture.view(q);
        let sums = rows.all(&Ask::Pass(Cow::Borrowed(&view)))?.sums;
        Ok((self.mixture.bound_of_rows(q, &sums), sums))
    }

    fn finite(bound: f64, sweep: u64) -> Result<f64> {
        if bound.is_finite() {
            return Ok(bound);
        }
        let detail = format!("the bound is {bound}; bring columns to a common scale, or choose other `features`");
        Err(Error::Numerical { what: "the variational fit", sweep, detail })
    }

    /// One local and one global step.
    fn ascend(&self, state: &mut State, rows: &mut dyn Rows<Self>) -> Result<()> {
        let mut found = None;
        if let Some(fewer) = state.fewer.take() {
            let (bound, sums) = self.pass(&fewer, rows)?;
            if bound >= state.bound - ROUNDING * state.bound.abs() {
                (state.q, found) = (fewer, Some(sums));
            } else {
                state.keep_empty = true;
            }
        }
        let mut sums = match found {
            Some(sums) => sums,
            None => self.pass(&state.q, rows)?.1,
        };
        self.mixture.update(&mut state.q, &mut sums)?;
        let bound = Self::finite(self.mixture.bound(&state.q, &sums), state.sweeps)?;
        if !state.keep_empty {
            state.fewer = self.mixture.without_empty(&state.q, &sums, EMPTY)?;
        }
        let gain = bound - state.bound;
        state.quiet = if gain < self.tol * bound.abs() { state.quiet + 1 } else { 0 };
        state.bound = bound;
        state.sweeps += 1;
        if state.quiet >= QUIET_SWEEPS {
            state.standing = Standing::Converged;
        } else if state.sweeps >= self.max_sweeps {
            state.standing = Standing::OutOfSweeps;
        }
        Ok(())
    }
}

impl Program for Vb {
    const NAME: &'static str = "labels/vb";
    const RELEASES: &'static [&'static str] = &["0.1"];
    type Global = State;
    type Local = ();
    type Ask<'a> = Ask<'a>;
    type Stats = Stats;
    type Scratch = Scratch;

    fn start(&self, rows: &mut dyn Rows<Self>, stream: Stream) -> Result<State> {
        let mut rng = stream.rng();
        let Stats { gathered, seen, .. } = rows.all(&Ask::Gather { most: self.mixture.gathered_rows(), key: rng.next_u64() })?;
        let centres = self.mixture.centres(&gathered, self.components, &mut rng);
        let mut q = self.mixture.start(self.components);
        if self.mixture.labels.needs_columns() {
            let gram = rows.all(&Ask::Columns)?.gram.0;
            self.mixture.labels.look_at_columns(&mut q.labels, &gram)?;
        }
        let labels = self.mixture.labels.view(&q.labels);
        let mut sums = rows.all(&Ask::Start { centres: Cow::Borrowed(&centres), labels: Cow::Borrowed(&labels) })?.sums;
        self.mixture.update(&mut q, &mut sums)?;
        let bound = Self::finite(self.mixture.bound(&q, &sums), 0)?;
        Ok(State { q, bound, sweeps: 0, standing: Standing::Rising, quiet: 0, seen: seen.0, fewer: None, keep_empty: false })
    }

    fn local(&self, _: &Block<'_>, _: Stream) {}

    fn sweep(&self, state: &mut State, rows: &mut dyn Rows<Self>, _: Tick) -> Result<Report> {
        self.ascend(state, rows)?;
        let converged = state.standing != Standing::Rising;
        Ok(Report { objective: state.bound, components: state.q.components() as u32, converged, extras: Vec::new() })
    }

    fn visit(&self, ask: &Ask<'_>, block: &Block<'_>, (): &mut (), scratch: &mut Scratch, _: Stream) -> Result<Stats> {
        Ok(match ask {
            Ask::Gather { most, key } => {
                Stats { gathered: self.mixture.gather(*most, *key, block, scratch), seen: Seen::of(block), ..Stats::default() }
            }
            Ask::Columns => Stats { gram: Sum(self.mixture.columns(block, scratch)), ..Stats::default() },
            Ask::Start { centres, labels } => {
                let sums = self.mixture.visit_with(labels, self.components, block, scratch, |x, r| self.mixture.nearest(centres, x, r));
                Stats { sums, ..Stats::default() }
            }
            Ask::Pass(view) => Stats { sums: self.mixture.visit(view, block, scratch), ..Stats::default() },
        })
    }

    fn draw(&self, state: &State, out: &mut Draws) {
        out.scalar("bound", state.bound);
    }
}
