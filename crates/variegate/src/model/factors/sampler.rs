//! Three samplers of one posterior: which atoms there are, which rows use them, how much.
//!
//! `parallel` visits all rows at once: births and deaths of atoms that one row alone uses, then every row's use of every atom but for
//! what keeps an atom alive (each has an *owner*, the row of lowest random rank among those that use it, which keeps it; rows of lower rank
//! that do not use it may not begin to). `rowslice` cuts the infinite list of atoms at a random height for each row. `slice` cuts it
//! at one height for all and goes through the rows one after the other, with the probabilities of use integrated out.
//!
//! `start.rs` finds atoms to begin with, `weights.rs` draws what governs the use of atoms, `split_merge.rs` divides and joins atoms, `rows.rs`
//! is what a block of rows does.

mod rows;
mod split_merge;
mod start;
mod weights;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use super::likelihood::Likelihood;
use crate::model::ranks::Part;
use crate::prior::BetaProcess;
use crate::run::{Block, Draws, Least, List, Merge, Philox, Program, Report, Rows, Stream, Sum, Tick, open01};
use crate::{Error, Result, words};

words! {
    /// Which sampler.
    pub enum Kind {
        /// Rows in parallel, births and deaths with the atom integrated out.
        Parallel = "parallel",
        /// Rows in parallel, each with a slice of its own.
        RowSlice = "rowslice",
        /// One slice, rows one after the other.
        Slice = "slice",
    }
}

/// A likelihood with a sampler.
#[derive(Debug, Clone)]
pub struct Sampler<L> {
    /// The distribution of the data.
    pub likelihood: L,
    /// Which sampler.
    pub kind: Kind,
    /// Number of rows of each source.
    pub rows: Vec<u64>,
    /// Mass τ of the process to start with.
    pub mass: f64,
    /// Shape and rate of its prior; none keeps it as it is.
    pub mass_prior: Option<(f64, f64)>,
    /// Concentrations to start with.
    pub concentration: f64,
    /// Shape and rate of the prior of each concentration; none keeps them as they are.
    pub concentration_prior: Option<(f64, f64)>,
    /// Attempts to split or merge atoms in a sweep.
    pub split_merge: usize,
    /// How many rows of an atom, on average, a split or merge deals one after the other; the others follow together.
    pub core: usize,
    /// How many rows on average propose births or deaths of atoms in a sweep.
    pub birth_rows: f64,
    /// No births beyond so many atoms.
    pub most_atoms: usize,
    /// Sweeps before the shape of atoms is learned: the few that a fit begins with tell little of it.
    pub shape_from: u64,
    /// Whether rows move weight between atoms that are alike.
    pub pairs: bool,
    /// Atoms to begin with: more than one are seeded from rows, where the likelihood can do that.
    pub first_atoms: usize,
}

/// Atoms in use, ascending by their names.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Atoms {
    /// A name that is never used again.
    pub ids: Vec<u64>,
    /// φ, one atom after the other.
    pub phi: Vec<f64>,
    /// Weight b of each in the parent process.
    pub weight: Vec<f64>,
    /// Rows of each source that use it, one atom after the other.
    pub uses: Vec<u32>,
}

impl Atoms {
    /// Number of atoms.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Appends an atom; its name must be larger than any other.
    pub(super) fn push(&mut self, id: u64, phi: &[f64], weight: f64, uses: &[u32]) {
        debug_assert!(self.ids.last().is_none_or(|last| *last < id));
        self.ids.push(id);
        self.phi.extend_from_slice(phi);
        self.weight.push(weight);
        self.uses.extend_from_slice(uses);
    }

    /// Uses of one atom.
    pub fn uses_of(&self, k: usize) -> &[u32] {
        let sources = self.uses.len() / self.len().max(1);
        &self.uses[k * sources..][..sources]
    }

    fn place(&self, id: u64) -> Option<usize> {
        self.ids.binary_search(&id).ok()
    }

    /// Keeps the atoms at these places, ascending.
    fn keep(&mut self, kept: &[usize]) {
        let (n, width, sources) = (self.len().max(1), self.phi.len() / self.len().max(1), self.uses.len() / self.len().max(1));
        if kept.len() == self.ids.len() {
            return;
        }
        fn pick<T: Copy>(values: &[T], each: usize, kept: &[usize]) -> Vec<T> {
            kept.iter().flat_map(|&k| &values[k * each..][..each]).copied().collect()
        }
        debug_assert!(kept.len() < n);
        self.ids = pick(&self.ids, 1, kept);
        self.weight = pick(&self.weight, 1, kept);
        self.phi = pick(&self.phi, width, kept);
        self.uses = pick(&self.uses, sources, kept);
    }

    /// Uses with one source a row, as likelihoods take them.
    fn uses_by_source(&self, sources: usize) -> Vec<u64> {
        (0..sources).flat_map(|j| self.uses.chunks_exact(sources.max(1)).map(move |u| u64::from(u[j]))).collect()
    }

    /// Which atoms a single row uses.
    fn private(&self, sources: usize) -> Vec<bool> {
        self.uses.chunks_exact(sources.max(1)).map(|u| u.iter().sum::<u32>() == 1).collect()
    }
}

/// State between sweeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State<S> {
    /// The atoms in use.
    pub atoms: Atoms,
    /// Concentration of each source.
    pub concentration: Vec<f64>,
    /// Mass of the process.
    pub mass: f64,
    /// Rates or precisions.
    pub scales: S,
    /// By what φ of each atom was multiplied since the rows last heard of it; they divide their weights by it.
    pub factors: Vec<f64>,
    /// What is kept as a draw: the state at the end of the last scan, where the log joint density is known.
    pub visited: Option<Visited<S>>,
}

/// A state whose log joint density is known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Visited<S> {
    /// Atoms.
    pub atoms: Atoms,
    /// Concentration of each source.
    pub concentration: Vec<f64>,
    /// Mass of the process.
    pub mass: f64,
    /// Rates or precisions.
    pub scales: S,
    /// Log joint density, the weights b, the probabilities of use and the unused atoms integrated out.
    pub ln_joint: f64,
    /// Log likelihood.
    pub ln_likelihood: f64,
    /// Sum of the weights of each source and atom times what the atom adds up to, one source a row: how much of a source it carries.
    pub carried: Vec<f64>,
}

/// What a block keeps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Local {
    /// Atoms of each row by name, ascending, with their weights.
    pub rows: Vec<Vec<(u64, f64)>>,
    /// Height of each row's slice, of the sampler that has one a row.
    pub slices: Vec<f64>,
    /// What stands in for missing entries.
    pub filled: Vec<f64>,
    /// Where those of each row begin; empty if nothing is missing.
    pub filled_at: Vec<u32>,
    /// Rows that the attempt to split an atom which is under way has dealt to its second side.
    #[serde(skip)]
    pub dealt: Vec<u32>,
}

/// What rows must do before anything else.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Pending<'a> {
    /// Divide weights by these, one an atom; empty if there is nothing to do.
    factors: Cow<'a, [f64]>,
    /// Exchange an atom for another.
    moved: Option<Cow<'a, Exchange>>,
}

/// A split or a merge that was accepted, as rows hear of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Exchange {
    from: u64,
    to: u64,
    /// These rows of the core, ascending, and whoever else was dealt to the second side; none for all that use the atom.
    rows: Option<Vec<u64>>,
}

/// A question to the rows. What is large and changes least comes first: such bytes need not be sent twice.
#[derive(Debug, Serialize, Deserialize)]
pub struct Ask<'a, V: Clone, S: Clone> {
    /// Names of the atoms, ascending.
    ids: Cow<'a, [u64]>,
    view: Option<Cow<'a, V>>,
    pending: Pending<'a>,
    kind: Question<'a, S>,
}

/// What is asked.
#[derive(Debug, Serialize, Deserialize)]
enum Question<'a, S: Clone> {
    /// Births and deaths in these rows; names of the new atoms begin at `first_id`.
    Private { private: Cow<'a, [bool]>, ln_rates: Cow<'a, [f64]>, room: bool, first_id: u64, chosen: Cow<'a, [u64]> },
    /// Which atoms these rows use.
    Lists { chosen: Cow<'a, [u64]> },
    /// How many rows use both atoms.
    Both { atoms: (u32, u32) },
    /// What the rows of a part tell of these atoms.
    Holders { atoms: Cow<'a, [u32]>, part: Part },
    /// To which of two sides the rows of a part belong, each by itself: those that they are on, if there are two atoms. Which of the rows
    /// listed came to the second is told by name.
    Rest { atoms: Cow<'a, [u32]>, part: Part, listed: Cow<'a, [u64]>, sides: Cow<'a, [S; 2]> },
    /// Lowest rank among the rows that use each atom.
    Owners { salt: u64 },
    /// Heights of the slices, for atoms that reach these.
    Heights { reach: Cow<'a, [f64]> },
    /// A scan of all rows.
    Scan { gates: Gates<'a> },
    /// Atoms that would explain these rows.
    Seeds { chosen: Cow<'a, [u64]> },
    /// Better weights: of all atoms at first, at last of those that matter alone.
    Climb { first: bool, last: bool },
}

/// What decides whether a row may use an atom.
#[derive(Debug, Serialize, Deserialize)]
enum Gates<'a> {
    /// Log odds of each source and atom, and the lowest ranks.
    Owned { ln_odds: Cow<'a, [f64]>, salt: u64, owners: Cow<'a, [u64]>, pairs: bool },
    /// Log odds, how high each atom reaches, and the order of atoms.
    Heights { ln_odds: Cow<'a, [f64]>, reach: Cow<'a, [f64]>, order: Cow<'a, [u32]> },
    /// Weights, concentrations, rows and uses of each source, and the order of atoms.
    Counted { weight: Cow<'a, [f64]>, concentration: Cow<'a, [f64]>, rows: Cow<'a, [u64]>, uses: Cow<'a, [u32]>, order: Cow<'a, [u32]> },
}

/// An atom that was born: name, φ, source of its row.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Born {
    id: u64,
    source: u32,
    phi: Vec<f64>,
}

/// A row that uses an atom which may be split or merged.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Holder<P> {
    row: u64,
    source: u32,
    /// Which of the atoms asked about.
    which: u32,
    contribution: P,
}

/// What rows that were dealt together add to the two sides.
#[derive(Debug, Serialize, Deserialize)]
struct Rest<S> {
    sides: [S; 2],
    /// Uses of each side and source.
    uses: Sum<Vec<f64>>,
    /// Log probability of having been dealt so.
    ln_dealt: Sum<f64>,
    /// Those on the second side, of the rows that were listed.
    listed: List<u64>,
}

impl<S: Merge> Merge for Rest<S> {
    fn merge(&mut self, right: Self) {
        let [zero, one] = right.sides;
        self.sides[0].merge(zero);
        self.sides[1].merge(one);
        self.uses.merge(right.uses);
        self.ln_dealt.merge(right.ln_dealt);
        self.listed.merge(right.listed);
    }
}

/// What rows report.
#[derive(Debug, Serialize, Deserialize)]
pub struct Stats<S, P, D> {
    born: List<Born>,
    died: List<u64>,
    redrawn: List<(u64, Vec<f64>)>,
    lists: List<(u64, Vec<u64>)>,
    both: Sum<u64>,
    holders: List<Holder<P>>,
    /// None if no row was dealt.
    rest: Option<Rest<D>>,
    owners: Least<u64>,
    lowest: Least<f64>,
    /// Uses of each atom and source, one atom after the other.
    uses: Sum<Vec<f64>>,
    sums: S,
}

impl<S: Default, P, D> Default for Stats<S, P, D> {
    fn default() -> Self {
        Self {
            born: List::default(),
            died: List::default(),
            redrawn: List::default(),
            lists: List::default(),
            both: Sum::default(),
            holders: List::default(),
            rest: None,
            owners: Least::default(),
            lowest: Least::default(),
            uses: Sum::default(),
            sums: S::default(),
        }
    }
}

impl<S: Merge, P, D: Merge> Merge for Stats<S, P, D> {
    fn merge(&mut self, right: Self) {
        self.born.merge(right.born);
        self.died.merge(right.died);
        self.redrawn.merge(right.redrawn);
        self.lists.merge(right.lists);
        self.both.merge(right.both);
        self.holders.merge(right.holders);
        match (&mut self.rest, right.rest) {
            (Some(l), Some(r)) => l.merge(r),
            (l, r) => *l = l.take().or(r),
        }
        self.owners.merge(right.owners);
        self.lowest.merge(right.lowest);
        self.uses.merge(right.uses);
        self.sums.merge(right.sums);
    }
}

/// What the rows report to a sampler of this likelihood.
type Found<L> = Stats<<L as Likelihood>::Sums, <L as Likelihood>::Contribution, <L as Likelihood>::Side>;

/// Names of atoms that a sweep makes: the number of the sweep, then who made it, then a count.
const SWEEP: u32 = 32;
const SPLIT: u64 = 1 << 30;
const TAIL: u64 = 1 << 31;
/// Weight of the atoms that a fit begins with, until it is drawn.
const FIRST_WEIGHT: f64 = 0.5;
/// Births of one row in a visit.
const ATTEMPTS: usize = 2;
/// Chosen rows are numbered below this.
const MOST_CHOSEN: usize = 1 << 29;

/// A sweep that is under way: the rows, what they have not heard of yet, and the atoms as they see them.
struct Course<'r, L: Likelihood> {
    sampler: &'r Sampler<L>,
    rows: &'r mut dyn Rows<Sampler<L>>,
    moved: Option<Exchange>,
    view: Option<L::View>,
    rng: Philox,
    sweep: u64,
}

impl<L: Likelihood> Course<'_, L> {
    /// Asks all rows; what was pending is done with.
    fn ask(&mut self, state: &mut State<L::Scales>, with_view: bool, kind: Question<'_, L::Side>) -> Result<Found<L>> {
        if with_view && self.view.is_none() {
            self.view = Some(self.sampler.likelihood.view(&state.atoms.phi, state.atoms.len(), &state.scales));
        }
        let factors = std::mem::take(&mut state.factors);
        let moved = std::mem::take(&mut self.moved);
        let pending = Pending { factors: Cow::Borrowed(&factors), moved: moved.as_ref().map(Cow::Borrowed) };
        let view = if with_view { self.view.as_ref().map(Cow::Borrowed) } else { None };
        self.rows.all(&Ask { ids: Cow::Borrowed(&state.atoms.ids), view, pending, kind })
    }

    /// Births and deaths in rows chosen whatever the state.
    fn private_moves(&mut self, state: &mut State<L::Scales>) -> Result<()> {
        let sampler = self.sampler;
        let total: u64 = sampler.rows.iter().sum();
        let chosen = choose(total, (sampler.birth_rows / total as f64).min(1.0), &mut self.rng);
        if chosen.is_empty() {
            return Ok(());
        }
        let process = BetaProcess::new(&sampler.rows, &state.concentration);
        let ln_rates: Vec<f64> =
            (0..sampler.rows.len()).map(|j| if sampler.rows[j] == 0 { 0.0 } else { state.mass.ln() + process.ln_private(j) }).collect();
        let private = state.atoms.private(sampler.rows.len());
        let question = Question::Private {
            private: Cow::Owned(private),
            ln_rates: Cow::Owned(ln_rates),
            room: state.atoms.len() < sampler.most_atoms,
            first_id: self.sweep << SWEEP,
            chosen: Cow::Owned(chosen),
        };
        let stats = self.ask(state, true, question)?;
        if stats.born.0.is_empty() && stats.died.0.is_empty() && stats.redrawn.0.is_empty() {
            return Ok(());
        }
        let width = sampler.likelihood.width();
        for (id, phi) in &stats.redrawn.0 {
            if let Some(k) = state.atoms.place(*id) {
                state.atoms.phi[k * width..][..width].copy_from_slice(phi);
            }
        }
        let mut died = stats.died.0;
        died.sort_unstable();
        let kept: Vec<usize> = (0..state.atoms.len()).filter(|&k| died.binary_search(&state.atoms.ids[k]).is_err()).collect();
        state.atoms.keep(&kept);
        for born in stats.born.0 {
            let mut uses = vec![0; sampler.rows.len()];
            uses[born.source as usize] = 1;
            state.atoms.push(born.id, &born.phi, 0.0, &uses);
        }
        self.view = None;
        Ok(())
    }

    /// Every row's use of every atom, given who must keep what.
    fn scan_owned(&mut self, state: &mut State<L::Scales>) -> Result<Found<L>> {
        let ln_odds = weights::ln_odds(&self.sampler.rows, state, &mut self.rng)?;
        let salt = rand::Rng::next_u64(&mut self.rng);
        let owners = self.ask(state, false, Question::Owners { salt })?.owners.0;
        let pairs = self.sampler.pairs && state.atoms.len() > 1;
        self.scan(state, Gates::Owned { ln_odds: Cow::Owned(ln_odds), salt, owners: Cow::Owned(owners), pairs })
    }

    /// Every row's use of the atoms that reach its slice.
    fn scan_heights(&mut self, state: &mut State<L::Scales>) -> Result<Found<L>> {
        // the flat top lets every row see every common atom; its edge does not depend on the state
        let edge = (-4.0 * open01(&mut self.rng)).exp();
        let reach = |b: f64| (b / edge).min(1.0);
        let heights: Vec<f64> = state.atoms.weight.iter().map(|&b| reach(b)).collect();
        let lowest = self.ask(state, false, Question::Heights { reach: Cow::Owned(heights) })?.lowest.0;
        let lowest = lowest.first().copied().unwrap_or(1.0);
        self.tail(state, edge * lowest)?;
        let ln_odds = weights::ln_odds(&self.sampler.rows, state, &mut self.rng)?;
        let heights: Vec<f64> = state.atoms.weight.iter().map(|&b| reach(b)).collect();
        let order = weights::descending(&state.atoms.weight);
        self.scan(state, Gates::Heights { ln_odds: Cow::Owned(ln_odds), reach: Cow::Owned(heights), order: Cow::Owned(order) })
    }

    /// The rows one after the other, the probabilities of use integrated out.
    fn scan_counted(&mut self, state: &mut State<L::Scales>) -> Result<Found<L>> {
        let least = state.atoms.weight.iter().fold(1.0f64, |m, &b| m.min(b));
        let height = least * open01(&mut self.rng);
        self.tail(state, height)?;
        let order = weights::descending(&state.atoms.weight);
        let likelihood = &self.sampler.likelihood;
        let view = likelihood.scan_view(&state.atoms.phi, state.atoms.len(), &state.scales);
        let (mut uses, mut sums) = (state.atoms.uses.clone(), L::Sums::default());
        // rows that have not been asked yet must hear of what is pending before their turn, and once only
        let factors = std::mem::take(&mut state.factors);
        let moved = std::mem::take(&mut self.moved);
        for block in 0..self.rows.shape().blocks {
            let gates = Gates::Counted {
                weight: Cow::Borrowed(&state.atoms.weight),
                concentration: Cow::Borrowed(&state.concentration),
                rows: Cow::Borrowed(&self.sampler.rows),
                uses: Cow::Borrowed(&uses),
                order: Cow::Borrowed(&order),
            };
            // factors were given before the tail was there: its atoms have none
            let pending = Pending { factors: Cow::Borrowed(&factors), moved: moved.as_ref().map(Cow::Borrowed) };
            let ids = Cow::Borrowed(&state.atoms.ids[..]);
            let ask = Ask { ids, view: Some(Cow::Borrowed(&view)), pending, kind: Question::Scan { gates } };
            let stats = self.rows.visit(&ask, crate::run::Which::Some(&[block]))?;
            uses = stats.uses.0.iter().map(|&n| n as u32).collect();
            sums.merge(stats.sums);
        }
        let uses = Sum(uses.iter().map(|&n| f64::from(n)).collect());
        Ok(Stats { uses, sums, ..Stats::default() })
    }

    /// Asks for a scan.
    fn scan(&mut self, state: &mut State<L::Scales>, gates: Gates<'_>) -> Result<Found<L>> {
        self.view = Some(self.sampler.likelihood.scan_view(&state.atoms.phi, state.atoms.len(), &state.scales));
        self.ask(state, true, Question::Scan { gates })
    }

    /// Adds the atoms that nobody uses down to a weight.
    fn tail(&mut self, state: &mut State<L::Scales>, down_to: f64) -> Result<()> {
        let sampler = self.sampler;
        let process = BetaProcess::new(&sampler.rows, &state.concentration);
        let nobody = vec![0; sampler.rows.len()];
        let mut b = 1.0;
        for count in 0.. {
            b = process.next_empty(b, state.mass, &mut self.rng);
            if b <= down_to {
                break;
            }
            if count >= MOST_CHOSEN / 1024 {
                return Err(Error::Numerical {
                    what: "the list of unused factors",
                    sweep: self.sweep,
                    detail: "it does not end; lower `mass`, or use the sampler `parallel`".into(),
                });
            }
            let phi = sampler.likelihood.prior_atom(&state.scales, &mut self.rng)?;
            state.atoms.push(self.sweep << SWEEP | TAIL | count as u64, &phi, b, &nobody);
        }
        // atoms that are new have no pending factor
        if !state.factors.is_empty() {
            state.factors.resize(state.atoms.len(), 1.0);
        }
        self.view = None;
        Ok(())
    }
}

/// Numbers below `total`, each with the same probability, independently.
fn choose(total: u64, probability: f64, rng: &mut Philox) -> Vec<u64> {
    if probability >= 1.0 {
        return (0..total.min(MOST_CHOSEN as u64)).collect();
    }
    let mut out = Vec::new();
    let ln_not = (-probability).ln_1p();
    let mut at = 0.0;
    loop {
        // how many are passed over
        at += (open01(rng).ln() / ln_not).floor();
        if at >= total as f64 || out.len() >= MOST_CHOSEN {
            return out;
        }
        out.push(at as u64);
        at += 1.0;
    }
}

impl<L: Likelihood> Program for Sampler<L> {
    const NAME: &'static str = L::NAME;
    const RELEASES: &'static [&'static str] = L::RELEASES;
    type Global = State<L::Scales>;
    type Local = Local;
    type Ask<'a> = Ask<'a, L::View, L::Side>;
    type Stats = Found<L>;
    type Scratch = rows::Scratch<L::Scratch>;

    fn start(&self, rows: &mut dyn Rows<Self>, stream: Stream) -> Result<State<L::Scales>> {
        let mut state = State {
            atoms: Atoms::default(),
            concentration: vec![self.concentration; self.rows.len()],
            mass: self.mass,
            scales: self.likelihood.start(),
            factors: Vec::new(),
            visited: None,
        };
        if self.first_atoms > 1 && self.seed(&mut state, rows, stream)? {
            return Ok(state);
        }
        if let Some(phi) = self.likelihood.first_atom() {
            let uses: Vec<u32> = self.rows.iter().map(|&n| n as u32).collect();
            state.atoms.push(0, &phi, FIRST_WEIGHT, &uses);
        }
        Ok(state)
    }

    fn local(&self, block: &Block<'_>, _: Stream) -> Local {
        let first = if self.likelihood.first_atom().is_some() { vec![(0, 1.0)] } else { Vec::new() };
        let mut local = Local { rows: vec![first; block.rows()], filled: self.likelihood.fill(block), ..Local::default() };
        if !local.filled.is_empty() {
            local.filled_at.push(0);
            for i in 0..block.rows() {
                let mut missing = 0;
                block.x.for_row(i, |_, v| missing += u32::from(v.is_nan()));
                local.filled_at.push(local.filled_at[i] + missing);
            }
        }
        local
    }

    fn sweep(&self, state: &mut State<L::Scales>, rows: &mut dyn Rows<Self>, tick: Tick) -> Result<Report> {
        let mut course = Course { sampler: self, rows, moved: None, view: None, rng: tick.stream.rng(), sweep: tick.sweep };
        if self.kind == Kind::Parallel {
            course.private_moves(state)?;
        }
        let split_merge = course.split_merge(state)?;
        weights::draw(self, state, &mut course.rng)?;
        let mut stats = match self.kind {
            Kind::Parallel => course.scan_owned(state)?,
            Kind::RowSlice => course.scan_heights(state)?,
            Kind::Slice => course.scan_counted(state)?,
        };
        let mut rng = course.rng;
        let sources = self.rows.len();
        state.atoms.uses = stats.uses.0.iter().map(|&n| n as u32).collect();
        state.atoms.uses.resize(state.atoms.len() * sources, 0);
        let count = state.atoms.len();
        let kept: Vec<usize> = (0..count).filter(|&k| state.atoms.uses_of(k).iter().any(|&n| n > 0)).collect();
        if kept.len() < count {
            self.likelihood.keep(&mut stats.sums, &kept, count);
            state.atoms.keep(&kept);
        }
        let uses = state.atoms.uses_by_source(sources);
        let visited = self.visited(state, &stats.sums, &uses);
        let report = Report {
            objective: visited.ln_joint,
            components: state.atoms.len() as u32,
            converged: false,
            extras: vec![
                ("log_likelihood".into(), visited.ln_likelihood),
                ("mass".into(), state.mass),
                ("splits".into(), split_merge.0 as f64),
                ("merges".into(), split_merge.1 as f64),
            ],
        };
        state.visited = Some(visited);
        if tick.sweep > self.shape_from {
            self.likelihood.learn_shape(&mut state.scales, &stats.sums, state.atoms.len(), &mut rng)?;
        }
        state.factors = self.likelihood.learn(&mut state.atoms.phi, &mut state.scales, &stats.sums, &uses, &self.rows, &mut rng)?;
        Ok(report)
    }

    fn visit(
        &self,
        ask: &Ask<'_, L::View, L::Side>,
        block: &Block<'_>,
        local: &mut Local,
        scratch: &mut rows::Scratch<L::Scratch>,
        stream: Stream,
    ) -> Result<Self::Stats> {
        rows::visit(self, ask, block, local, scratch, stream)
    }

    fn draw(&self, state: &State<L::Scales>, out: &mut Draws) {
        super::draws::write(self, state, out);
    }
}

impl<L: Likelihood> Sampler<L> {
    /// The state at the end of a scan.
    fn visited(&self, state: &State<L::Scales>, sums: &L::Sums, uses: &[u64]) -> Visited<L::Scales> {
        let likelihood = &self.likelihood;
        let ln_likelihood = likelihood.ln_likelihood(&state.scales, sums, &self.rows);
        let process = BetaProcess::new(&self.rows, &state.concentration);
        let patterns: f64 = (0..state.atoms.len()).map(|k| process.ln_pattern(state.atoms.uses_of(k))).sum();
        let mass = state.mass;
        let mut ln_joint = ln_likelihood
            + likelihood.ln_prior(&state.atoms.phi, &state.scales, sums, uses)
            + patterns
            + state.atoms.len() as f64 * mass.ln()
            - mass * process.atoms();
        let ln_gamma_kernel = |(a, r): (f64, f64), x: f64| (a - 1.0) * x.ln() - r * x;
        if let Some(prior) = self.concentration_prior {
            ln_joint += state.concentration.iter().map(|&a| ln_gamma_kernel(prior, a)).sum::<f64>();
        }
        if let Some(prior) = self.mass_prior {
            ln_joint += ln_gamma_kernel(prior, mass);
        }
        Visited {
            atoms: state.atoms.clone(),
            concentration: state.concentration.clone(),
            mass,
            scales: state.scales.clone(),
            ln_joint,
            ln_likelihood,
            carried: likelihood.carried(&state.atoms.phi, sums, self.rows.len()),
        }
    }
}
