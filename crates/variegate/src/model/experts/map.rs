//! Point estimates: the maximum of the penalised likelihood, with squared penalties alone or also a reward of large angles.
//!
//! Every chain looks for a maximum of its own. A sweep is a number of quasi-Newton steps, so that a long search can be watched and
//! stopped; the model of the curvature begins anew with each.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use super::shape::Shape;
use super::shares;
use super::starts::{self, Penalty};
use crate::Result;
use crate::data::Design;
use crate::model::gated::rows::{self, Likelihood};
use crate::run::{Block, Draws, Program, Report, Rows, Stream, Tick};

/// The search.
#[derive(Debug, Clone)]
pub(super) struct Map {
    /// From raw rows to design rows.
    pub design: Design,
    /// Sizes of the mixture.
    pub shape: Shape,
    /// What is taken from the likelihood, and added to it.
    pub penalty: Penalty,
    /// A search ends when a step gains less than this for each row.
    pub tol: f64,
}

/// Where a search is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    /// Weights and intercepts.
    pub plain: Vec<f64>,
    /// The objective there; NaN before the first sweep.
    pub objective: f64,
    /// Whether it is a maximum.
    pub converged: bool,
}

/// What the rows are asked of some weights.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Ask<'a> {
    /// Log likelihood and gradient.
    Likelihood(Cow<'a, [f64]>),
    /// Sums of the shares of the experts, in the place of the gradient.
    Shares(Cow<'a, [f64]>),
}

/// Quasi-Newton steps of a sweep.
const STEPS: usize = 50;

impl Program for Map {
    const NAME: &'static str = "experts/map";
    const RELEASES: &'static [&'static str] = &["0.1"];
    type Global = State;
    type Local = ();
    type Ask<'a> = Ask<'a>;
    type Stats = Likelihood;
    type Scratch = rows::Scratch;

    fn start(&self, _: &mut dyn Rows<Self>, stream: Stream) -> Result<State> {
        Ok(State { plain: starts::random(&self.shape, stream), objective: f64::NAN, converged: false })
    }

    fn local(&self, _: &Block<'_>, _: Stream) {}

    fn sweep(&self, state: &mut State, rows: &mut dyn Rows<Self>, _: Tick) -> Result<Report> {
        let ln_likelihood = &mut |weights: &[f64]| rows.all(&Ask::Likelihood(Cow::Borrowed(weights)));
        let found = starts::maximise(&self.shape, &self.penalty, &state.plain, STEPS, self.tol, ln_likelihood)?;
        // a line search that finds nothing better has arrived as far as numbers go
        state.converged = found.status != crate::infer::lbfgs::Status::MaxIterations;
        state.objective = -found.value;
        state.plain = found.x;
        let mut weights = Vec::new();
        self.shape.weights(&state.plain, &mut weights);
        let sums = shares::visit(&self.shape, || Ok(rows.all(&Ask::Shares(Cow::Borrowed(&weights)))?.gradient.0))?;
        let (objective, converged, extras) = (state.objective, state.converged, shares::with(&sums, Vec::new()));
        Ok(Report { objective, components: self.shape.experts as u32, converged, extras })
    }

    fn visit(&self, ask: &Ask<'_>, block: &Block<'_>, _: &mut (), scratch: &mut rows::Scratch, _: Stream) -> Result<Likelihood> {
        let (gated, weight) = (self.shape.gated(), |i| block.weight(i));
        Ok(match ask {
            Ask::Likelihood(weights) => rows::likelihood(&self.design, &gated, weights, block, weight, scratch),
            Ask::Shares(weights) => rows::shares(&self.design, &gated, weights, block, weight, scratch),
        })
    }

    fn draw(&self, _: &State, _: &mut Draws) {}
}
