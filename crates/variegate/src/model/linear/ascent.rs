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
    pub(crate) classifier: Classifier,
    /// Relative gain below which a sweep is quiet.
    pub(crate) tol: f64,
    /// Most sweeps.
    pub(crate) max_sweeps: u64,
    pub(crate) of: PhantomData<F>,
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
}

/// What rows are asked: to take their bounds where these factors put them.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Ask<'a>(Cow<'a, View>);

/// What rows report.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Stats {
    sums: Sums,
    /// Rows' part of the bound.
    terms: Sum<f64>,
}
merge_fields!(Stats, sums, terms);

/// Buffers of a visit.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    panel: PanelScratch,
    told: Told,
    classifier: classifier::Scratch,
}

impl<F: Named> Ascent<F> {
    fn look(&self, q: &Factors, rows: &mut dyn Rows<Self>) -> Result<Stats> {
        rows.all(&Ask(Cow::Owned(self.classifier.view(q))))
    }

    /// Sums and terms of a block under factors.
    pub(super) fn of_block(&self, view: &View, block: &Block<'_>, scratch: &mut Scratch) -> (Sums, f64) {
        let Scratch { panel, told, classifier } = scratch;
        self.inputs.read(block, told);
        let mut panel = self.inputs.design.panel(block.x, panel);
        let mut sums = Sums::default();
        let terms = self.classifier.visit(view, &mut panel, &told.y, &told.weights, &mut sums, classifier);
        (sums, terms)
    }
}

impl<F: Named> Program for Ascent<F> {
    const NAME: &'static str = F::NAME;
    const RELEASES: &'static [&'static str] = &["0.1"];
    type Global = State;
    type Local = ();
    type Ask<'a> = Ask<'a>;
    type Stats = Stats;
    type Scratch = Scratch;

    /// Rows take their bounds at weights of 0.
    fn start(&self, rows: &mut dyn Rows<Self>, _: Stream) -> Result<State> {
        let q = self.classifier.start();
        let mut next = q.clone();
        let stats = self.look(&q, rows)?;
        self.classifier.update(&mut next, &stats.sums)?;
        Ok(State { q, bound: f64::NEG_INFINITY, next, sweeps: 0, standing: Standing::Rising, quiet: 0 })
    }

    fn local(&self, _: &Block<'_>, _: Stream) {}

    fn sweep(&self, state: &mut State, rows: &mut dyn Rows<Self>, tick: Tick) -> Result<Report> {
        let stats = self.look(&state.next, rows)?;
        let bound = stats.terms.0 - self.classifier.divergence(&state.next);
        if !bound.is_finite() {
            let detail = format!("the bound is {bound}; bring columns to a common scale, or raise the prior precision");
            return Err(Error::Numerical { what: "the variational fit", sweep: tick.sweep, detail });
        }
        state.q.clone_from(&state.next);
        self.classifier.update(&mut state.next, &stats.sums)?;
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
        let (sums, terms) = self.of_block(&ask.0, block, scratch);
        Ok(Stats { sums, terms: Sum(terms) })
    }

    fn draw(&self, state: &State, out: &mut Draws) {
        out.scalar("bound", state.bound);
    }
}
