//! Ascent of the bound of linear classifiers: variational Bayes, or the maximum of a point estimate.
//!
//! A sweep visits all rows, which take their bounds at the best points under q, and finds the next q from their sums. The bound that it tells
//! is that of the q it visited: it never falls from sweep to sweep. Nothing is random, so that there is one chain.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt::Debug;
use std::marker::PhantomData;

use super::classifier::{self, Classifier};
use super::inputs::{Inputs, Told};
use super::logit::{Factors, Stats as Sums, View};
use super::row_space::{Beyond, RowSpace, Rows as Spanning, with_panel};
use crate::data::Panel;
use crate::data::design::PanelScratch;
use crate::run::{Block, Draws, Program, Report, Rows, Stream, Sum, Tick};
use crate::{Error, Result, merge_fields};

/// Sweeps in a row that must gain little before the ascent ends.
const QUIET_SWEEPS: u32 = 2;

/// Whose ascent it is.
pub(crate) trait Named: Debug + Clone + Send + Sync + 'static {
    /// Name of the program, for example `svm/vb`.
    const NAME: &'static str;
}

/// The program.
#[derive(Debug, Clone)]
pub(crate) struct Ascent<F> {
    pub(crate) inputs: Inputs,
    /// Its weights are those of the design or, where rows are fewer than columns, of coordinates of the rows.
    pub(crate) classifier: Classifier,
    /// What lies beyond the coordinates, where there are such.
    beyond: Option<Beyond>,
    /// Relative gain below which a sweep is quiet.
    pub(crate) tol: f64,
    /// Most sweeps.
    pub(crate) max_sweeps: u64,
    of: PhantomData<F>,
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    /// The factors that the last sweep visited.
    pub(crate) q: Factors,
    /// Their bound; −∞ before the first sweep.
    pub(crate) bound: f64,
    /// The factors that the next sweep visits.
    next: Factors,
    pub(crate) sweeps: u64,
    pub(crate) standing: Standing,
    /// Quiet sweeps in a row.
    quiet: u32,
    /// The space that rows span, where weights are found in it.
    pub(crate) space: Option<RowSpace>,
}

/// What version 1 of a saved state held: weights of all columns.
#[derive(Deserialize)]
struct First {
    q: Factors,
    bound: f64,
    next: Factors,
    sweeps: u64,
    standing: Standing,
    quiet: u32,
}

impl From<First> for State {
    fn from(first: First) -> Self {
        let First { q, bound, next, sweeps, standing, quiet } = first;
        Self { q, bound, next, sweeps, standing, quiet, space: None }
    }
}

/// What rows are asked.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Ask<'a> {
    /// To come together, once, where weights are found in the space that they span.
    Gather,
    /// To take their bounds where these factors put them; with coordinates of all rows, where there are such.
    Look { view: Cow<'a, View>, coordinates: Cow<'a, [f64]> },
}

/// What rows report.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Stats {
    sums: Sums,
    /// Rows' part of the bound.
    terms: Sum<f64>,
    rows: Spanning,
}
merge_fields!(Stats, sums, terms, rows);

/// Buffers of a visit.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    panel: PanelScratch,
    told: Told,
    classifier: classifier::Scratch,
}

impl<F: Named> Ascent<F> {
    /// The ascent of a classifier of the design's columns; of so many rows that span the space of the weights, or of any.
    pub(crate) fn new(inputs: Inputs, mut classifier: Classifier, spanning: Option<u64>, tol: f64, max_sweeps: u64) -> Self {
        let beyond = spanning.map(|rows| {
            let (beyond, prior) = Beyond::split(rows as usize, classifier.prior.clone());
            classifier.prior = prior;
            beyond
        });
        Self { inputs, classifier, beyond, tol, max_sweeps, of: PhantomData }
    }

    fn look(&self, q: &Factors, space: Option<&RowSpace>, rows: &mut dyn Rows<Self>) -> Result<Stats> {
        let coordinates = Cow::Owned(space.map_or_else(Vec::new, RowSpace::coordinates));
        rows.all(&Ask::Look { view: Cow::Owned(self.classifier.view(q)), coordinates })
    }

    /// Sums and terms of a block under factors.
    pub(super) fn of_block(&self, view: &View, coordinates: &[f64], block: &Block<'_>, scratch: &mut Scratch) -> (Sums, f64) {
        let Scratch { panel, told, classifier } = scratch;
        self.inputs.read(block, told);
        let mut sums = Sums::default();
        let mut visit = |panel: &mut Panel<'_>| self.classifier.visit(view, panel, &told.y, &told.weights, &mut sums, classifier);
        let terms = if self.beyond.is_some() {
            let (first, size) = (block.first_row as usize, self.classifier.prior.columns());
            let of_block = &coordinates[first * size..(first + block.rows()) * size];
            with_panel(of_block, size, self.inputs.design.intercept, panel, visit)
        } else {
            visit(&mut self.inputs.design.panel(block.x, panel))
        };
        (sums, terms)
    }

    /// The global step from sums.
    pub(super) fn update(&self, q: &mut Factors, sums: &Sums) -> Result<()> {
        self.classifier.update(q, sums)?;
        if let Some(beyond) = &self.beyond {
            beyond.update(&self.classifier.prior, q);
        }
        Ok(())
    }

    /// What the priors take from the bound.
    pub(super) fn divergence(&self, q: &Factors) -> f64 {
        self.classifier.divergence(q) + self.beyond.as_ref().map_or(0.0, |beyond| beyond.divergence(&self.classifier.prior, q))
    }
}

impl<F: Named> Program for Ascent<F> {
    const NAME: &'static str = F::NAME;
    const RELEASES: &'static [&'static str] = &["0.1", "0.1"];
    type Global = State;
    type Local = ();
    type Ask<'a> = Ask<'a>;
    type Stats = Stats;
    type Scratch = Scratch;

    /// Rows take their bounds at weights of 0.
    fn start(&self, rows: &mut dyn Rows<Self>, _: Stream) -> Result<State> {
        let space = match self.beyond {
            Some(_) => Some(RowSpace::new(rows.all(&Ask::Gather)?.rows)?),
            None => None,
        };
        let q = self.classifier.start();
        let mut next = q.clone();
        let stats = self.look(&q, space.as_ref(), rows)?;
        self.update(&mut next, &stats.sums)?;
        Ok(State { q, bound: f64::NEG_INFINITY, next, sweeps: 0, standing: Standing::Rising, quiet: 0, space })
    }

    fn convert(version: u16, global: &[u8]) -> Option<State> {
        if version == 1 { postcard::from_bytes::<First>(global).ok().map(State::from) } else { None }
    }

    fn local(&self, _: &Block<'_>, _: Stream) {}

    fn sweep(&self, state: &mut State, rows: &mut dyn Rows<Self>, tick: Tick) -> Result<Report> {
        let stats = self.look(&state.next, state.space.as_ref(), rows)?;
        let bound = stats.terms.0 - self.divergence(&state.next);
        if !bound.is_finite() {
            let detail = format!("the bound is {bound}; bring columns to a common scale, or raise the prior precision");
            return Err(Error::Numerical { what: "the variational fit", sweep: tick.sweep, detail });
        }
        state.q.clone_from(&state.next);
        self.update(&mut state.next, &stats.sums)?;
        state.quiet = if bound - state.bound < self.tol * bound.abs() { state.quiet + 1 } else { 0 };
        state.bound = bound;
        state.sweeps += 1;
        if state.quiet >= QUIET_SWEEPS {
            state.standing = Standing::Converged;
        } else if state.sweeps >= self.max_sweeps {
            state.standing = Standing::OutOfSweeps;
        }
        Ok(Report { objective: bound, converged: state.standing != Standing::Rising, ..Report::default() })
    }

    fn visit(&self, ask: &Ask<'_>, block: &Block<'_>, (): &mut (), scratch: &mut Scratch, _: Stream) -> Result<Stats> {
        Ok(match ask {
            Ask::Gather => {
                let rows = Spanning::of(&self.inputs.design.panel(block.x, &mut scratch.panel), self.inputs.design.kept.len());
                Stats { rows, ..Stats::default() }
            }
            Ask::Look { view, coordinates } => {
                let (sums, terms) = self.of_block(view, coordinates, block, scratch);
                Stats { sums, terms: Sum(terms), ..Stats::default() }
            }
        })
    }

    fn draw(&self, state: &State, out: &mut Draws) {
        out.scalar("bound", state.bound);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::linear::classifier::Loss;
    use crate::model::linear::gamma_factor::Precision;

    #[derive(Debug, Clone)]
    struct Toy;

    impl Named for Toy {
        const NAME: &'static str = "toy/vb";
    }

    /// A state without a space is read as it was saved before there were such.
    #[test]
    fn states_of_version_1_are_converted() {
        let inputs = Inputs { design: crate::data::Design::identity(2, true), classes: 2, class_weight: Vec::new() };
        let q = inputs.classifier(Loss::Logistic, Precision::Fixed(1.0), 0.1).start();
        let state = State { q: q.clone(), bound: -3.5, next: q, sweeps: 4, standing: Standing::Rising, quiet: 1, space: None };
        let before = postcard::to_stdvec(&(&state.q, state.bound, &state.next, state.sweeps, state.standing, state.quiet)).unwrap();
        assert_eq!(Ascent::<Toy>::convert(1, &before), Some(state));
        assert_eq!(Ascent::<Toy>::convert(2, &before), None);
    }
}
