//! Gibbs sampling of the weights of support vector machines (Polson and Scott 2011).
//!
//! Given the weights, each row and classifier has a scale λ ~ GIG(½, 1, c²(1 − sf)²); given the scales the weights are normal with precision
//! Q = Σ c²/λ x̃x̃ᵀ + P₀ and mean Q⁻¹ Σ sc(1 + c/λ) x̃ ([`Classifier::add_draws`], [`Classifier::draw`]); a learned precision of the weights then
//! comes from its Gamma distribution. Scales are never kept: a sweep draws them afresh, so that weights and precisions are the whole state.

use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use crate::data::design::PanelScratch;
use crate::dist::Gamma;
use crate::linalg::dot;
use crate::model::linear::classifier::{self, Classifier};
use crate::model::linear::gamma_factor::Precision;
use crate::model::linear::logit::Stats;
use crate::model::linear::{Inputs, Told};
use crate::run::{Block, Draws, Program, Report, Rows, Stream, Tick};
use crate::{Error, Result};

/// The sampler.
#[derive(Debug, Clone)]
pub(super) struct Gibbs {
    pub(super) inputs: Inputs,
    pub(super) classifier: Classifier,
}

/// Weights of all classifiers, and the precision that those of each have beside the bias.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Point {
    /// Classifiers × dim.
    pub(super) weights: Vec<f64>,
    pub(super) precision: Vec<f64>,
}

/// State of the sampler between sweeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    /// Where it is now.
    pub(super) now: Point,
    /// Where the last sweep started: its log density is known, so it is what is kept as a draw.
    pub(super) visited: Point,
    /// Log density of `visited`: prior times pseudo-likelihood.
    pub(super) log_joint: f64,
}

impl State {
    /// A state that is not visited yet.
    pub(super) fn at(now: Point) -> Self {
        Self { visited: now.clone(), now, log_joint: f64::NAN }
    }
}

/// What the rows are told: the weights.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Ask<'a>(Cow<'a, [f64]>);

/// Buffers of a visit.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    panel: PanelScratch,
    told: Told,
    classifier: classifier::Scratch,
}

impl Gibbs {
    /// Log prior density of a point.
    pub(super) fn log_prior(&self, point: &Point) -> Result<f64> {
        let prior = &self.classifier.prior;
        let (columns, ln_2pi) = (prior.columns(), std::f64::consts::TAU.ln());
        let normal = |p: f64, n: usize, squares: f64| 0.5 * (n as f64 * (p.ln() - ln_2pi) - p * squares);
        let mut sum = 0.0;
        for (w, &tau) in point.weights.chunks_exact(prior.dim).zip(&point.precision) {
            let (own, bias) = w.split_at(columns);
            sum += normal(tau, columns, dot(own, own)) + normal(prior.bias_precision, bias.len(), dot(bias, bias));
            if let Precision::Learned(q) = prior.weight_precision {
                sum += Gamma::new(q.shape, q.rate)?.ln_pdf(tau);
            }
        }
        Ok(sum)
    }
}

impl Program for Gibbs {
    const NAME: &'static str = "svm/gibbs";
    const RELEASES: &'static [&'static str] = &["0.1"];
    type Global = State;
    type Local = ();
    type Ask<'a> = Ask<'a>;
    type Stats = Stats;
    type Scratch = Scratch;

    /// Chains start apart from each other, no further out than the prior and no further than one unit.
    fn start(&self, _: &mut dyn Rows<Self>, stream: Stream) -> Result<State> {
        let prior = &self.classifier.prior;
        let tau = prior.weight_precision.mean(prior.weight_precision.start());
        let mut rng = stream.rng();
        let weights = (0..prior.labels * prior.dim)
            .map(|at| {
                let precision = if at % prior.dim < prior.columns() { tau } else { prior.bias_precision };
                let z: f64 = StandardNormal.sample(&mut rng);
                z / precision.sqrt().max(1.0)
            })
            .collect();
        Ok(State::at(Point { weights, precision: vec![tau; prior.labels] }))
    }

    fn local(&self, _: &Block<'_>, _: Stream) {}

    fn sweep(&self, state: &mut State, rows: &mut dyn Rows<Self>, tick: Tick) -> Result<Report> {
        let stats = rows.all(&Ask(Cow::Borrowed(&state.now.weights)))?;
        state.log_joint = stats.offset.0 + self.log_prior(&state.now)?;
        if !state.log_joint.is_finite() {
            let detail = format!("the log density is {}; standardise the columns, or give `prior_precision`", state.log_joint);
            return Err(Error::Numerical { what: "the draw of the weights", sweep: tick.sweep, detail });
        }
        let weights = self.classifier.draw(&stats, &state.now.precision, tick.stream)?;
        let precision = self.classifier.draw_precisions(&weights, tick.stream.visit(1))?;
        state.visited = std::mem::replace(&mut state.now, Point { weights, precision });
        Ok(Report { objective: state.log_joint, ..Report::default() })
    }

    fn visit(&self, ask: &Ask<'_>, block: &Block<'_>, (): &mut (), scratch: &mut Scratch, stream: Stream) -> Result<Stats> {
        let Scratch { panel, told, classifier } = scratch;
        self.inputs.read(block, told);
        let mut panel = self.inputs.design.panel(block.x, panel);
        let mut stats = Stats::default();
        self.classifier.add_draws(&ask.0, &mut panel, &told.y, &told.weights, &mut stats, (stream, 0), classifier)?;
        Ok(stats)
    }

    fn draw(&self, state: &State, out: &mut Draws) {
        out.scalar("log_joint", state.log_joint);
        out.vector("weights", &state.visited.weights);
        if matches!(self.classifier.prior.weight_precision, Precision::Learned(_)) {
            out.vector("precision", &state.visited.precision);
        }
    }
}
