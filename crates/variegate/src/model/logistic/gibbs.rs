//! Polya-Gamma Gibbs for logistic regression (Polson, Scott and Windle 2013).
//!
//! Given the weights, ω_n ~ PG(b_n, wᵀx̃_n) row by row; given ω, the weights are Gaussian with precision
//! Q = Σ ω x̃x̃ᵀ + P₀ and mean Q⁻¹ Σ κ x̃, κ_n = b_n (y_n − ½), b_n the weight of the row. The ω are never kept: a sweep draws
//! them afresh, so a block has no local state and one visit is a whole sweep.

use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use crate::data::Design;
use crate::data::design::PanelScratch;
use crate::dist::PolyaGamma;
use crate::linalg::Cholesky;
use crate::run::{Block, Draws, Program, Report, Rows, Stream, Sum, Tick};
use crate::special::log1p_exp;
use crate::{Error, Result, merge_fields};

/// The sampler.
#[derive(Debug, Clone)]
pub(super) struct Gibbs {
    /// From raw rows to design rows.
    pub design: Design,
    /// Prior precision of each design column.
    pub precision: Vec<f64>,
}

/// State of the sampler between sweeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    /// The weights now.
    pub weights: Vec<f64>,
    /// The weights that the last sweep started from: their log joint density is known, so they are what is kept as a draw.
    pub visited: Vec<f64>,
    /// Log joint density of `visited`.
    pub log_joint: f64,
}

impl State {
    /// A state at these weights, not yet visited.
    pub(super) fn at(weights: Vec<f64>) -> Self {
        Self { visited: weights.clone(), weights, log_joint: f64::NAN }
    }
}

/// What the rows are told: the weights.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Ask<'a>(Cow<'a, [f64]>);

/// What the rows report.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Stats {
    /// Lower triangle of Σ ω x̃x̃ᵀ.
    gram: Sum<Vec<f64>>,
    /// Σ κ x̃.
    linear: Sum<Vec<f64>>,
    /// Log likelihood of the weights asked about.
    log_likelihood: Sum<f64>,
}
merge_fields!(Stats, gram, linear, log_likelihood);

/// Buffers of a visit.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    panel: PanelScratch,
    eta: Vec<f64>,
    omega: Vec<f64>,
    kappa: Vec<f64>,
}

impl Program for Gibbs {
    const NAME: &'static str = "logistic/gibbs";
    const RELEASES: &'static [&'static str] = &["0.1"];
    type Global = State;
    type Local = ();
    type Ask<'a> = Ask<'a>;
    type Stats = Stats;
    type Scratch = Scratch;

    /// Chains start apart from each other, no further out than the prior.
    fn start(&self, _: &mut dyn Rows<Self>, stream: Stream) -> Result<State> {
        let mut rng = stream.rng();
        let weights = self
            .precision
            .iter()
            .map(|p| {
                let z: f64 = StandardNormal.sample(&mut rng);
                z / p.sqrt().max(1.0)
            })
            .collect();
        Ok(State::at(weights))
    }

    fn local(&self, _: &Block<'_>, _: Stream) {}

    fn sweep(&self, state: &mut State, rows: &mut dyn Rows<Self>, tick: Tick) -> Result<Report> {
        let stats = rows.all(&Ask(Cow::Borrowed(&state.weights)))?;
        let log_prior: f64 =
            state.weights.iter().zip(&self.precision).map(|(w, p)| 0.5 * (p.ln() - (2.0 * std::f64::consts::PI).ln() - p * w * w)).sum();
        state.log_joint = stats.log_likelihood.0 + log_prior;

        let dim = self.design.dim();
        let mut q = stats.gram.0;
        for (j, p) in self.precision.iter().enumerate() {
            q[j * dim + j] += p;
        }
        let (factor, _) = Cholesky::with_jitter(dim, &q).map_err(|e| Error::Numerical {
            what: "the Gaussian draw of the weights",
            sweep: tick.sweep,
            detail: format!("{e}; standardise the columns, or raise `prior_precision`"),
        })?;
        // mean + L⁻ᵀ z in one back substitution: L⁻ᵀ (L⁻¹ h + z)
        let mut rng = tick.stream.rng();
        let mut next = stats.linear.0;
        factor.solve_lower(&mut next);
        for v in &mut next {
            let z: f64 = StandardNormal.sample(&mut rng);
            *v += z;
        }
        factor.solve_upper(&mut next);
        state.visited = std::mem::replace(&mut state.weights, next);
        Ok(Report { objective: state.log_joint, ..Report::default() })
    }

    fn visit(&self, ask: &Ask<'_>, block: &Block<'_>, _: &mut (), scratch: &mut Scratch, stream: Stream) -> Result<Stats> {
        let (n, dim) = (block.rows(), self.design.dim());
        let Scratch { panel, eta, omega, kappa } = scratch;
        for buffer in [&mut *eta, &mut *omega, &mut *kappa] {
            buffer.resize(n, f64::NAN);
        }
        let mut panel = self.design.panel(block.x, panel);
        panel.mul_t(&ask.0, 1, eta);
        let mut rng = stream.rng();
        let mut log_likelihood = 0.0;
        for (i, &class) in block.y.classes().iter().enumerate() {
            let (y, b) = (class as f64, block.weight(i));
            omega[i] = match b as u32 {
                0 => 0.0,
                1 => PolyaGamma::draw_1(eta[i], &mut rng),
                b => PolyaGamma::new(b, eta[i])?.sample(&mut rng),
            };
            kappa[i] = b * (y - 0.5);
            log_likelihood += b * (y * eta[i] - log1p_exp(eta[i]));
        }
        let mut stats = Stats { gram: Sum(vec![0.0; dim * dim]), linear: Sum(vec![0.0; dim]), log_likelihood: Sum(log_likelihood) };
        panel.weighted_gram_add(&omega[..n], &mut stats.gram.0);
        panel.t_mul_add(&kappa[..n], 1, &mut stats.linear.0);
        Ok(stats)
    }

    fn draw(&self, state: &State, out: &mut Draws) {
        out.scalar("log_joint", state.log_joint);
        out.vector("weights", &state.visited);
    }
}
