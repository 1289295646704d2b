//! Variational ascent of the mixture and the labels.
//!
//! A sweep visits all rows (the local step), finds q from their sums (the global step) and tells the bound after both; it never falls. Components
//! that have lost their rows are left out where the bound does not fall by it, and where it is asked for, components are split and merged
//! (`moves/`). A chain is one start; the best of them is kept.

use rand::Rng;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use super::label_part::{Columns, LabelView};
use super::mixture::{Factors, Mixture, Scratch, Sums, View};
use super::moves::{LEAST_GAIN, Look, Moves, Pair, Plan, Restricted, SLOW, inverse, seeds};
use super::settings::{MoveKind, Settings};
use crate::answer::SeenSets;
use crate::model::gathered::Gathered;
use crate::run::{Block, Draws, Merge, Program, Report, Rows, Stream, Sum, Tick};
use crate::{Error, Result, merge_fields};

/// A component with fewer rows is proposed to be left out.
pub(super) const EMPTY: f64 = 1e-3;
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
    /// Moves that may change the number of components.
    pub(crate) moves: MoveKind,
    /// Most components that splits may lead to.
    pub(crate) most_components: usize,
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
    pub(super) keep_empty: bool,
    /// Moves that are left to be tried.
    pub(super) moves: Moves,
}

/// What version 1 of a saved state held: an ascent without moves.
#[derive(Deserialize)]
struct First {
    q: Factors,
    bound: f64,
    sweeps: u64,
    standing: Standing,
    quiet: u32,
    seen: SeenSets,
    fewer: Option<Factors>,
    keep_empty: bool,
}

impl From<First> for State {
    fn from(first: First) -> Self {
        let First { q, bound, sweeps, standing, quiet, seen, fewer, keep_empty } = first;
        // it goes on as it began
        let moves = Moves::none(q.components());
        Self { q, bound, sweeps, standing, quiet, seen, fewer, keep_empty, moves }
    }
}

/// What rows are asked.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Ask<'a> {
    /// To bring some rows together.
    Gather { most: usize, key: u64 },
    /// For products of the columns, or for themselves, where the coupling needs them.
    Columns,
    /// To belong to the nearest centre.
    Start { centres: Cow<'a, [f64]>, labels: Cow<'a, LabelView> },
    /// The local step, and what else is looked for.
    Pass { view: Cow<'a, View>, look: Look },
    /// The local step of two components that one is split into.
    Split(Cow<'a, Restricted>),
}

/// What rows report.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Stats {
    pub(super) sums: Sums,
    pub(super) gathered: Gathered,
    /// Joint entropies of pairs of components.
    pub(super) joint: Sum<Vec<f64>>,
    seen: Seen,
    columns: Columns,
}
merge_fields!(Stats, sums, gathered, joint, seen, columns);

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
    pub(super) fn new(mixture: Mixture, s: &Settings) -> Self {
        let most_components = s.max_components as usize;
        Self { mixture, components: s.components as usize, tol: s.tol, max_sweeps: s.max_iter, moves: s.moves, most_components }
    }

    fn pass(&self, q: &Factors, rows: &mut dyn Rows<Self>) -> Result<(f64, Sums)> {
        let view = self.mixture.view(q);
        let sums = rows.all(&Ask::Pass { view: Cow::Borrowed(&view), look: Look::default() })?.sums;
        Ok((self.mixture.bound_of_rows(q, &sums), sums))
    }

    pub(super) fn finite(bound: f64, sweep: u64) -> Result<f64> {
        if bound.is_finite() {
            return Ok(bound);
        }
        let detail = format!("the bound is {bound}; bring columns to a common scale, or choose other `features`");
        Err(Error::Numerical { what: "the variational fit", sweep, detail })
    }

    /// Centres of clusters that rows begin in, q before its first update, and the sets of labels that rows have.
    pub(super) fn begin(&self, all: &mut dyn FnMut(&Ask<'_>) -> Result<Stats>, stream: Stream) -> Result<(Vec<f64>, Factors, SeenSets)> {
        let mut rng = stream.rng();
        let Stats { gathered, seen, .. } = all(&Ask::Gather { most: self.mixture.gathered_rows(), key: rng.next_u64() })?;
        let centres = self.mixture.centres(&gathered, self.components, &mut rng);
        let mut q = self.mixture.start(self.components);
        if self.mixture.labels.needs_columns() {
            let columns = all(&Ask::Columns)?.columns;
            self.mixture.labels.look_at_columns(&mut q.labels, columns)?;
        }
        Ok((centres, q, seen.0))
    }

    /// The state after the first global step from these sums.
    pub(super) fn first(&self, mut q: Factors, sums: &mut Sums, seen: SeenSets) -> Result<(State, Vec<usize>)> {
        let order = self.mixture.update(&mut q, sums)?;
        let bound = Self::finite(self.mixture.bound(&q, sums), 0)?;
        let moves = Moves::new(self.components);
        let standing = Standing::Rising;
        Ok((State { q, bound, sweeps: 0, standing, quiet: 0, seen, fewer: None, keep_empty: false, moves }, order))
    }

    /// One local and one global step, and what was planned beside them.
    fn ascend(&self, state: &mut State, rows: &mut dyn Rows<Self>, stream: Stream) -> Result<()> {
        let plan = std::mem::take(&mut state.moves.next);
        let mut found = None;
        if let Some(fewer) = state.fewer.take() {
            let (bound, sums) = self.pass(&fewer, rows)?;
            if bound >= state.bound - ROUNDING * state.bound.abs() {
                state.moves.permute(&(0..fewer.components()).collect::<Vec<_>>());
                (state.q, found) = (fewer, Some(sums));
            } else {
                state.keep_empty = true;
            }
        }
        let mut rng = stream.rng();
        let view = self.mixture.view(&state.q);
        let mut stats = match found {
            Some(sums) => Stats { sums, ..Stats::default() },
            None => rows.all(&Ask::Pass { view: Cow::Borrowed(&view), look: plan.look(&mut rng) })?,
        };
        let sums = &mut stats.sums;
        let order = self.mixture.update(&mut state.q, sums)?;
        state.moves.permute(&order);
        let mut bound = Self::finite(self.mixture.bound(&state.q, sums), state.sweeps)?;
        match plan {
            Plan::Nothing => {}
            Plan::Merge(pairs) => {
                let now = inverse(&order);
                let pair = |(&(j, l), &entropy): (&(usize, usize), &f64)| Pair { one: now[j], other: now[l], entropy, free: false };
                let pairs: Vec<Pair> = pairs.iter().zip(&stats.joint.0).map(pair).collect();
                let merged = self.mixture.merge(&mut state.q, sums, &mut bound, &pairs)?;
                state.moved(|moves| moves.merged(&merged, true), !merged.is_empty());
            }
            Plan::Split(k) => {
                let now = inverse(&order);
                let mut split = false;
                if let Some(seeds) = seeds(&stats.gathered, &mut rng) {
                    // children are found in the order of the view that rows were visited with
                    let mut q = state.q.clone();
                    q.labels.permute(&now);
                    let mut step = Restricted::new(&self.mixture, view, k, seeds, &mut q);
                    let mut visit = |step: &Restricted| Ok(rows.all(&Ask::Split(Cow::Borrowed(step)))?.sums);
                    if let Some(mut children) = step.alternate(&self.mixture, &mut q, &mut visit, &Sums::clone)? {
                        let order = self.mixture.update(&mut q, &mut children)?;
                        let after = self.mixture.bound(&q, &children);
                        if after - bound > LEAST_GAIN * bound.abs() {
                            state.moves.permute(&now);
                            state.moved(|moves| moves.split(k, &order), true);
                            (state.q, *sums, bound, split) = (q, children, after, true);
                        }
                    }
                }
                if !split {
                    state.moves.split_failed(now[k]);
                }
            }
        }
        if !state.keep_empty {
            state.fewer = self.mixture.without_empty(&state.q, sums, EMPTY)?;
        }
        self.settle(state, bound, sums)
    }

    /// Takes note of the bound after a sweep, and plans the next.
    pub(super) fn settle(&self, state: &mut State, bound: f64, sums: &Sums) -> Result<()> {
        let gain = bound - state.bound;
        state.quiet = if gain < self.tol * bound.abs() { state.quiet + 1 } else { 0 };
        state.bound = bound;
        state.sweeps += 1;
        if gain < SLOW * self.tol * bound.abs() && state.fewer.is_none() {
            state.moves.next = state.moves.plan(self.moves, self.most_components, &self.mixture, sums)?;
        }
        let more = state.moves.next != Plan::Nothing || (self.moves != MoveKind::None && state.fewer.is_some());
        if state.quiet >= QUIET_SWEEPS && !more {
            state.standing = Standing::Converged;
        } else if state.sweeps >= self.max_sweeps {
            state.standing = Standing::OutOfSweeps;
        }
        Ok(())
    }

    /// What a block answers.
    pub(super) fn answer(&self, ask: &Ask<'_>, block: &Block<'_>, scratch: &mut Scratch) -> Stats {
        match ask {
            Ask::Gather { most, key } => {
                let labels = block.y.labels();
                let seen = Seen(SeenSets::of(labels, labels.len() / block.rows().max(1)));
                Stats { gathered: self.mixture.gather(*most, *key, block, scratch), seen, ..Stats::default() }
            }
            Ask::Columns => Stats { columns: self.mixture.columns(block, scratch), ..Stats::default() },
            Ask::Start { centres, labels } => {
                let sums = self.mixture.visit_with(labels, self.components, block, scratch, |x, r| self.mixture.nearest(centres, x, r));
                Stats { sums, ..Stats::default() }
            }
            Ask::Pass { view, look } => {
                let sums = self.mixture.visit(view, block, scratch);
                let components = sums.components();
                let joint = Sum(self.mixture.joint_entropies(&look.pairs, components, scratch));
                let members = look.members.map(|(k, key)| self.mixture.members(k, key, components, block, scratch));
                Stats { sums, joint, gathered: members.unwrap_or_default(), ..Stats::default() }
            }
            Ask::Split(step) => Stats { sums: self.mixture.visit_restricted(step, block, scratch), ..Stats::default() },
        }
    }
}

impl Plan {
    /// What rows are asked for it.
    pub(super) fn look(&self, rng: &mut impl Rng) -> Look {
        match self {
            Plan::Nothing => Look::default(),
            Plan::Merge(pairs) => Look { pairs: pairs.clone(), members: None },
            Plan::Split(k) => Look { pairs: Vec::new(), members: Some((*k, rng.next_u64())) },
        }
    }
}

impl State {
    /// Takes note of a move, and whether it changed anything.
    pub(super) fn moved(&mut self, note: impl FnOnce(&mut Moves), changed: bool) {
        note(&mut self.moves);
        if changed {
            // empty components may be another matter now
            self.keep_empty = false;
        }
    }

    /// What a driver is told.
    pub(super) fn report(&self) -> Report {
        let converged = self.standing != Standing::Rising;
        Report { objective: self.bound, components: self.q.components() as u32, converged, extras: Vec::new() }
    }
}

impl Program for Vb {
    const NAME: &'static str = "labels/vb";
    const RELEASES: &'static [&'static str] = &["0.1", "0.1"];
    type Global = State;
    type Local = ();
    type Ask<'a> = Ask<'a>;
    type Stats = Stats;
    type Scratch = Scratch;

    fn start(&self, rows: &mut dyn Rows<Self>, stream: Stream) -> Result<State> {
        let (centres, q, seen) = self.begin(&mut |ask| rows.all(ask), stream)?;
        let labels = self.mixture.labels.view(&q.labels);
        let mut sums = rows.all(&Ask::Start { centres: Cow::Borrowed(&centres), labels: Cow::Borrowed(&labels) })?.sums;
        Ok(self.first(q, &mut sums, seen)?.0)
    }

    fn convert(version: u16, global: &[u8]) -> Option<State> {
        if version == 1 { postcard::from_bytes::<First>(global).ok().map(State::from) } else { None }
    }

    fn local(&self, _: &Block<'_>, _: Stream) {}

    fn sweep(&self, state: &mut State, rows: &mut dyn Rows<Self>, tick: Tick) -> Result<Report> {
        self.ascend(state, rows, tick.stream)?;
        Ok(state.report())
    }

    fn visit(&self, ask: &Ask<'_>, block: &Block<'_>, (): &mut (), scratch: &mut Scratch, _: Stream) -> Result<Stats> {
        Ok(self.answer(ask, block, scratch))
    }

    fn draw(&self, state: &State, out: &mut Draws) {
        out.scalar("bound", state.bound);
    }
}
