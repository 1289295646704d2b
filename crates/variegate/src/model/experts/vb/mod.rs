//! Variational Bayes for a mixture of experts under the mutual angular prior (type II), and posterior regularisation.
//!
//! q = Π_k vMF(a_k) Gamma(g_k) N(b_k) × the same for gates × Π_n Cat(φ_n), each factor with a concentration of its own. The objective is
//!
//! Σ_n [ln Σ_k exp(expert_nk + E f_nk) − gate_n] + E ln p − E ln q of directions, lengths and intercepts,
//!
//! with lower bounds of the experts' and gate's expectations (`bounds.rs`) and of the normalisers of the directions' chain (`side.rs`): below the
//! log evidence, and never falling. With posterior regularisation directions are independent, and λ₁Ω(â) + λ₂Ω(ê) is added.
//! A sweep is one visit to the rows, then an update of every component (`component.rs`), lengthened or, later, mixed with those before it; the
//! next visit accepts it if the objective has risen, else the plain update takes its place. A state holds the best q with its objective, and the candidate that is to be visited next.
//!
//! | file | what it is |
//! |---|---|
//! | `bounds.rs` | bounds of a row, and what they leave for updates |
//! | `rows.rs`, `tile.rs`, `classes.rs` | the visit; sixteen of its rows; their part for experts over more than two classes |
//! | `factor.rs`, `side.rs`, `fit.rs` | q of a component, of experts or gates, of the mixture |
//! | `step.rs`, `component.rs`, `sphere.rs` | the next q; the best one of a component; its direction |
//! | `relax.rs`, `mixing.rs` | longer steps, as long as they pay; steps mixed from several |

mod bounds;
mod classes;
pub(super) mod component;
pub(super) mod factor;
pub(super) mod fit;
mod mixing;
mod relax;
mod rows;
pub(super) mod side;
mod sphere;
mod step;
#[cfg(test)]
mod tests;
mod tile;

pub(super) use fit::Fit;
pub(super) use rows::{Ask, Scratch, Stats, View};

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use super::point_prior::{PointPrior, Size};
use super::settings::{GateBound, Hyper, Inference, Settings};
use super::shape::Shape;
use super::starts::{self, Reward};
use crate::data::Design;
use crate::data::design::packed_len;
use crate::linalg::dot;
use crate::model::gated::rows::Likelihood;
use crate::prior::Directions;
use crate::prior::angular::Regulariser;
use crate::run::{Block, Draws, Program, Report, Rows, Stream, Tick};
use crate::{Error, Result};
use mixing::Memory;
use relax::Relaxation;
use side::Side;

/// Largest p for which Gram matrices are formed.
const MOST_EXPLICIT: usize = 512;
/// Numbers that a visit may report: 2 GB.
const MOST_NUMBERS: usize = 250_000_000;
/// Products of the power iteration for the largest eigenvalue of XᵀX.
const POWER_STEPS: usize = 30;

/// Prior of one side.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SidePrior {
    /// κ of the chain of directions; 0 for independent uniform ones.
    pub kappa: f64,
    /// μ₀, towards which the first is drawn.
    pub first: Option<Vec<f64>>,
    /// Shape of lengths.
    pub shape: f64,
    /// Rate of lengths.
    pub rate: f64,
}

/// The program.
#[derive(Debug, Clone)]
pub(super) struct Vb {
    /// From raw rows to design rows.
    pub design: Design,
    /// Sizes of the mixture.
    pub shape: Shape,
    /// Prior of the experts.
    pub experts: SidePrior,
    /// Prior of the gates.
    pub gates: SidePrior,
    /// Standard deviation of intercepts.
    pub intercept_sd: f64,
    /// Bound of the gate.
    pub gate_bound: GateBound,
    /// Posterior regularisation: rewards of angles. Directions should then be independent.
    pub regularised: Option<Reward>,
    /// Whether hyperparameters are chosen to maximise the objective.
    pub learn: bool,
    /// The ascent ends when a sweep gains less than this for each row.
    pub tol: f64,
    /// Whether Gram matrices are formed: for few columns.
    pub grams: bool,
}

/// State between two sweeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    /// The best q so far.
    pub q: Fit,
    /// Its objective; not finite before the first sweep.
    pub objective: f64,
    /// Its lower bound of the log evidence: the objective without rewards.
    pub elbo: f64,
    /// Share of the rows that each expert has.
    pub shares: Vec<f64>,
    /// Whether the ascent has converged.
    pub converged: bool,
    /// Sweeps in a row that gained less than the tolerance.
    still: u32,
    /// What the next sweep visits.
    pub next: Fit,
    /// Where `next` is more than the plain step: the plain step.
    plain: Option<Fit>,
    /// How far steps are lengthened.
    relaxation: Relaxation,
    /// ½Σ x̃x̃ᵀ, D×D: the curvature of Böhning's gate.
    gram: Vec<f64>,
    /// Bound of the largest eigenvalue of Σ xxᵀ, where Gram matrices are not formed.
    most: f64,
    /// The last points and their steps. It is last: version 1 of the saved state had none.
    memory: Memory,
}

impl State {
    /// A state that has its first visit before it.
    pub(super) fn new(fit: Fit) -> Self {
        Self {
            next: fit.clone(),
            q: fit,
            objective: f64::NEG_INFINITY,
            elbo: f64::NEG_INFINITY,
            shares: Vec::new(),
            converged: false,
            still: 0,
            plain: None,
            relaxation: Relaxation::default(),
            gram: Vec::new(),
            most: 0.0,
            memory: Memory::default(),
        }
    }
}

fn forms_grams(shape: &Shape) -> bool {
    shape.inputs <= MOST_EXPLICIT
}

/// Refuses statistics of gigabytes.
pub(super) fn check(shape: &Shape) -> Result<()> {
    let (k, p) = (shape.experts + shape.gates(), shape.inputs);
    let numbers = if forms_grams(shape) { packed_len(shape.dim()) } else { (2 + shape.rows()) * shape.dim() };
    if k.saturating_mul(numbers) > MOST_NUMBERS {
        return Err(Error::Unfit(format!(
            "{k} weight vectors over {p} columns are too many numbers for `vb`: choose fewer experts or columns"
        )));
    }
    Ok(())
}

impl Vb {
    /// The program that settings ask for. Posterior regularisation has independent uniform directions.
    pub(super) fn new(settings: &Settings, design: Design, shape: Shape, point_prior: PointPrior) -> Self {
        let regularised = (settings.inference == Inference::Pr).then_some(Reward {
            experts: settings.diversity,
            gates: settings.gate_diversity,
            angular: Regulariser { gamma: settings.gamma, delta: settings.delta },
        });
        let side = |directions: &Directions, size: &Size| {
            let (kappa, first) = match directions {
                Directions::MutualAngular(chain) if regularised.is_none() => (chain.kappa, chain.first.clone()),
                _ => (0.0, None),
            };
            let (shape, rate) = match *size {
                Size::Gamma { shape, rate } => (shape, rate),
                Size::Gaussian { .. } => (settings.alpha1, settings.alpha2),
            };
            SidePrior { kappa, first, shape, rate }
        };
        let grams = forms_grams(&shape);
        Self {
            experts: side(&point_prior.experts.directions, &point_prior.experts.size),
            gates: side(&point_prior.gates.directions, &point_prior.gates.size),
            design,
            shape,
            intercept_sd: point_prior.intercept_sd,
            gate_bound: settings.gate_bound,
            regularised,
            learn: settings.hyper == Hyper::Ml,
            tol: settings.tolerance(),
            grams,
        }
    }

    /// A maximum of the likelihood under squared penalties, another one for each stream.
    fn start_point(&self, rows: &mut dyn Rows<Self>, stream: Stream) -> Result<Vec<f64>> {
        starts::start(&self.shape, self.intercept_sd, stream, &mut |weights| {
            let Stats { value, linear: mut gradient, .. } = rows.all(&Ask::Likelihood(Cow::Borrowed(weights)))?;
            gradient.0.resize(weights.len(), 0.0);
            Ok(Likelihood { value, gradient })
        })
    }

    /// The prior as sides without factors.
    fn sides(&self) -> (Side, Side) {
        let side = |prior: &SidePrior, dim| Side {
            dim,
            kappa: prior.kappa,
            first: prior.first.clone(),
            shape: prior.shape,
            rate: prior.rate,
            factors: Vec::new(),
        };
        (side(&self.experts, self.shape.expert_dim()), side(&self.gates, self.shape.inputs))
    }

    /// q around a point.
    pub(super) fn around(&self, point: &[f64]) -> Fit {
        let (experts, gates) = self.sides();
        Fit::around(experts, gates, &self.shape, point)
    }

    /// λ₁Ω + λ₂Ω of a fit.
    fn reward(&self, fit: &Fit) -> f64 {
        let Some(rewards) = &self.regularised else { return 0.0 };
        let of = |scale: f64, side: &Side| if scale > 0.0 { scale * rewards.angular.smoothed(&side.directions(), side.dim) } else { 0.0 };
        of(rewards.experts, &fit.experts) + of(rewards.gates, &fit.gates)
    }

    /// Objective of a fit, its bound of the evidence, and what the rows say of it.
    pub(super) fn evaluate(&self, fit: &Fit, rows: &mut dyn Rows<Self>) -> Result<(f64, f64, Stats)> {
        let stats = rows.all(&Ask::Bound(View::of(fit, &self.shape)))?;
        let elbo = stats.value.0 + fit.experts.terms(self.intercept_sd) + fit.gates.terms(self.intercept_sd);
        Ok((elbo + self.reward(fit), elbo, stats))
    }

    /// What the updates need beside the visits: the gate's curvature, or the largest eigenvalue.
    fn prepare(&self, state: &mut State, rows: &mut dyn Rows<Self>) -> Result<()> {
        let d = self.shape.dim();
        if !self.grams {
            state.most = self.largest_eigenvalue(rows)?;
        } else if self.shape.gates() > 0 && self.gate_bound == GateBound::Bohning {
            let grams = rows.all(&Ask::Gram)?.grams.0;
            state.gram = vec![0.0; d * d];
            step::unpack(&grams, d, 1, 0, 0.5, &mut state.gram);
        }
        Ok(())
    }

    /// 1.01 times the power iteration's value: a step that is too long for it is found out by the next visit.
    fn largest_eigenvalue(&self, rows: &mut dyn Rows<Self>) -> Result<f64> {
        let (p, d) = (self.shape.inputs, self.shape.dim());
        let mut v: Vec<f64> = (0..d).map(|i| if i < p { 1.0 + 0.5 * (1.7 * i as f64).sin() } else { 0.0 }).collect();
        let mut value = 0.0;
        for _ in 0..POWER_STEPS {
            if !sphere::normalise(&mut v).is_normal() {
                break;
            }
            let mut image = rows.all(&Ask::Product(Cow::Borrowed(&v)))?.linear.0;
            if image.is_empty() {
                break;
            }
            image[p..].fill(0.0);
            value = dot(&v, &image);
            v = image;
        }
        Ok(1.01 * value)
    }
}

impl Program for Vb {
    const NAME: &'static str = "experts/vb";
    const RELEASES: &'static [&'static str] = &["0.1", "0.1"];
    type Global = State;
    type Local = ();
    type Ask<'a> = Ask<'a>;
    type Stats = Stats;
    type Scratch = Scratch;

    fn start(&self, rows: &mut dyn Rows<Self>, stream: Stream) -> Result<State> {
        let point = self.start_point(rows, stream)?;
        let mut state = State::new(self.around(&point));
        self.prepare(&mut state, rows)?;
        Ok(state)
    }

    fn convert(version: u16, global: &[u8]) -> Option<State> {
        let memory = postcard::to_stdvec(&Memory::never()).ok()?;
        if version == 1 { postcard::from_bytes(&[global, &memory].concat()).ok() } else { None }
    }

    fn local(&self, _: &Block<'_>, _: Stream) {}

    fn sweep(&self, state: &mut State, rows: &mut dyn Rows<Self>, tick: Tick) -> Result<Report> {
        let candidate = state.next.clone();
        let (objective, elbo, stats) = self.evaluate(&candidate, rows)?;
        let first = !state.objective.is_finite();
        if first && !objective.is_finite() {
            return Err(Error::Numerical {
                what: "the start of the variational fit",
                sweep: tick.sweep,
                detail: format!("the bound is {objective}; standardise the columns, or bring the weights of rows nearer to 1"),
            });
        }
        let mut refused = false;
        if first || objective >= state.objective {
            let gain = objective - state.objective;
            (state.objective, state.elbo) = (objective, elbo);
            state.shares.clone_from(&stats.shares.0);
            // a step that is too long may gain little, and the next one more: twice in a row
            state.still = if gain <= self.tol * stats.weight.0 { state.still + 1 } else { 0 };
            state.converged = state.still > 1;
            let (plain, bold) = self.step(&candidate, &stats, state);
            let ahead = bold.unwrap_or_else(|| plain.clone());
            let (x, end) = (candidate.coordinates(), ahead.coordinates());
            state.memory.remember(&x, &end);
            let beyond = state.memory.mixed().or_else(|| state.relaxation.beyond(&x, &end)).and_then(|at| ahead.at(&at));
            (state.next, state.plain) = (beyond.unwrap_or(ahead), Some(plain));
            state.q = candidate;
        } else if let Some(plain) = state.plain.take() {
            // too far
            refused = true;
            state.next = plain;
            state.relaxation.reset();
            state.memory.forget();
        } else if self.grams || state.most.is_infinite() || objective >= state.objective - 1e-9 * state.objective.abs() {
            // a plain step cannot fall but by rounding: as high as numbers go
            state.converged = true;
        } else {
            // the power iteration had not yet found the largest eigenvalue
            refused = true;
            state.most *= 2.0;
            state.next = state.q.clone();
        }
        if state.converged {
            state.memory.forget();
        }
        let extras = vec![("elbo".to_string(), state.elbo), ("refused".to_string(), f64::from(u8::from(refused)))];
        Ok(Report { objective: state.objective, components: self.shape.experts as u32, converged: state.converged, extras })
    }

    fn visit(&self, ask: &Ask<'_>, block: &Block<'_>, _: &mut (), scratch: &mut Scratch, _: Stream) -> Result<Stats> {
        Ok(match ask {
            Ask::Bound(view) => self.visit_bound(view, block, scratch),
            Ask::Likelihood(weights) => self.visit_likelihood(weights, block, scratch),
            Ask::Gram => self.visit_gram(block, scratch),
            Ask::Product(vector) => self.visit_product(vector, block, scratch),
        })
    }

    /// An ascent keeps no draws.
    fn draw(&self, _: &State, _: &mut Draws) {}
}
