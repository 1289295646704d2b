//! Variational ascent for a softmax node.
//!
//! Given q(W), the variational parameters of each row are solved exactly, so one visit gives the bound L and everything the next step
//! needs; the rows keep nothing. A sweep takes one step of the weights and precisions (`node.rs`) and visits the rows. With the
//! tilted bound a step may overshoot: then it is taken back, halved and tried again, and the length that worked is remembered.
//! L never falls beyond rounding.

use rand::Rng;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use super::bound::{Bound, Solver};
use super::map;
use super::node::{Covariance, Moments, Node, NodeStats};
use super::precision::Prior;
use crate::data::Design;
use crate::data::design::{PanelScratch, packed_len, packed_rows};
use crate::run::{Block, Draws, Program, Report, Rows, Stream, Sum, Tick};
use crate::{Error, Result};

/// Variance of each weight at the start: small, since the tilted bound is loose for large ones.
const START_VARIANCE: f64 = 0.1;
/// Below this a step is not worth another visit.
const SHORTEST_STEP: f64 = 1e-4;

/// The program.
#[derive(Debug, Clone)]
pub struct Vb {
    /// From raw rows to design rows.
    pub design: Design,
    /// Number of classes.
    pub children: usize,
    /// Bound of the log-sum-exp.
    pub bound: Bound,
    /// Shape of the covariance.
    pub covariance: Covariance,
    /// Prior of the weights.
    pub prior: Prior,
    /// ρ of the start.
    pub map_penalty: f64,
    /// Ascent ends when a sweep gains less than this (or than 1e-8 of the bound).
    pub tol: f64,
}

/// How the ascent stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// Still rising.
    Running,
    /// The last sweep gained less than the tolerance.
    Converged,
    /// No step, however short, gains anything: as high as rounding allows.
    NoStepLeft,
    /// The bound was not finite after a step; the state before it is kept.
    Numerical,
}

/// State between two sweeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// q.
    pub node: Node,
    /// What the rows say of this q.
    pub stats: NodeStats,
    /// L of this q.
    pub bound: f64,
    /// Length of the last step.
    pub step: f64,
    /// How the ascent stands.
    pub outcome: Outcome,
    /// Names the random numbers of predictions that sample.
    pub key: u64,
}

/// What the rows are asked.
#[derive(Debug, Serialize, Deserialize)]
pub enum Ask<'a> {
    /// Log likelihood and gradient at these weights.
    Likelihood(Cow<'a, [f64]>),
    /// Bound, gradient and curvature at this q: means, and covariances as packed forms.
    Bound {
        /// μ.
        mean: Cow<'a, [f64]>,
        /// Blocks of P⁻¹.
        forms: Cow<'a, [f64]>,
    },
}

/// Buffers of a visit.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(super) panel: PanelScratch,
    pub(super) m: Vec<f64>,
    v: Vec<f64>,
    slope: Vec<f64>,
    curvature: Vec<f64>,
    solver: Solver,
}

impl Vb {
    /// L of a node, and what the rows say of it.
    pub fn evaluate(&self, node: &Node, moments: &Moments, rows: &mut dyn Rows<Self>) -> Result<(f64, NodeStats)> {
        let stats = rows.all(&Ask::Bound { mean: Cow::Borrowed(&node.mean), forms: Cow::Borrowed(&moments.forms) })?;
        Ok((stats.value.0 + node.terms(&self.prior, moments), stats))
    }

    /// The state at given means, before the first sweep.
    pub fn state_at(&self, mean: Vec<f64>, rows: &mut dyn Rows<Self>, key: u64) -> Result<State> {
        let node = Node::new(self.children, self.design.dim(), self.covariance, mean, START_VARIANCE, &self.prior);
        let numerical = |detail: String| Error::Numerical { what: "the start of the variational fit", sweep: 0, detail };
        let moments = node.moments().map_err(|e| numerical(e.to_string()))?;
        let (bound, stats) = self.evaluate(&node, &moments, rows)?;
        if !bound.is_finite() {
            return Err(numerical(format!("the bound is {bound}; standardise the columns, or bring the weights of rows nearer to 1")));
        }
        Ok(State { node, stats, bound, step: 1.0, outcome: Outcome::Running, key })
    }

    /// Bound of the rows of a block.
    fn visit_bound(&self, mean: &[f64], forms: &[f64], block: &Block<'_>, scratch: &mut Scratch) -> NodeStats {
        let (s, dim) = (self.children, self.design.dim());
        let k = self.covariance.blocks(s);
        let Scratch { panel, m, v, slope, curvature, solver } = scratch;
        let mut stats = NodeStats { curvature: Sum(vec![0.0; k * packed_len(dim)]), gradient: Sum(vec![0.0; s * dim]), value: Sum(0.0) };
        let height = packed_rows(dim, k);
        let mut first = 0;
        while first < block.rows() {
            let n = height.min(block.rows() - first);
            for (buffer, width) in [(&mut *m, s), (&mut *v, k), (&mut *slope, s), (&mut *curvature, k)] {
                buffer.resize(n * width, f64::NAN);
            }
            let mut panel = self.design.panel(block.x.slice(first..first + n), panel);
            panel.mul_t(mean, s, m);
            panel.quadratics(forms, k, v);
            for i in 0..n {
                let (slope, curvature) = (&mut slope[i * s..(i + 1) * s], &mut curvature[i * k..(i + 1) * k]);
                let w = block.weight(first + i);
                if w == 0.0 {
                    slope.fill(0.0);
                    curvature.fill(0.0);
                    continue;
                }
                let (m, v) = (&m[i * s..(i + 1) * s], &mut v[i * k..(i + 1) * k]);
                // rounding can leave a variance just below 0
                for c in 0..s {
                    let at = self.covariance.diagonal(c);
                    v[at] = v[at].max(0.0);
                }
                let phi = solver.row(self.bound, self.covariance, m, v, slope, curvature);
                let class = block.y.classes()[first + i] as usize;
                stats.value.0 += w * (m[class] - phi);
                for s in slope.iter_mut() {
                    *s *= -w;
                }
                slope[class] += w;
                for c in curvature.iter_mut() {
                    *c *= w;
                }
            }
            panel.weighted_grams_add(curvature, k, &mut stats.curvature.0);
            panel.t_mul_add(slope, s, &mut stats.gradient.0);
            first += n;
        }
        stats
    }
}

impl Program for Vb {
    const NAME: &'static str = "softmax/vb";
    type Global = State;
    type Local = ();
    type Ask<'a> = Ask<'a>;
    type Stats = NodeStats;
    type Scratch = Scratch;

    fn start(&self, rows: &mut dyn Rows<Self>, stream: Stream) -> Result<State> {
        let found = map::search(self, rows)?;
        self.state_at(found.x, rows, stream.rng().next_u64())
    }

    fn local(&self, _: &Block<'_>, _: Stream) {}

    fn sweep(&self, state: &mut State, rows: &mut dyn Rows<Self>, _: Tick) -> Result<Report> {
        let mut rho = if self.bound.needs_damping() { (2.0 * state.step).min(1.0) } else { 1.0 };
        let mut visits = 0;
        loop {
            let mut node = state.node.clone();
            // a matrix that is not positive definite counts as a bound that is not finite
            let (bound, stats) = match node.step(&self.prior, &state.stats, rho) {
                Err(_) => (f64::NAN, NodeStats::default()),
                Ok(moments) => {
                    visits += 1;
                    self.evaluate(&node, &moments, rows)?
                }
            };
            let fallen = bound < state.bound - 1e-10 * (1.0 + state.bound.abs());
            if bound.is_finite() && !(fallen && self.bound.needs_damping()) {
                let gain = bound - state.bound;
                // a short step gains little also far from the top
                if gain < rho * self.tol.max(1e-8 * bound.abs()) {
                    state.outcome = Outcome::Converged;
                }
                (state.node, state.stats, state.bound, state.step) = (node, stats, bound, rho);
                break;
            }
            rho *= 0.5;
            if !self.bound.needs_damping() || rho < SHORTEST_STEP {
                state.outcome = if bound.is_finite() { Outcome::NoStepLeft } else { Outcome::Numerical };
                break;
            }
        }
        let extras = vec![("step".to_string(), state.step), ("visits".to_string(), visits as f64)];
        Ok(Report { objective: state.bound, components: self.children as u32, converged: state.outcome != Outcome::Running, extras })
    }

    fn visit(&self, ask: &Ask<'_>, block: &Block<'_>, _: &mut (), scratch: &mut Scratch, _: Stream) -> Result<NodeStats> {
        Ok(match ask {
            Ask::Likelihood(weights) => map::visit(self, weights, block, scratch),
            Ask::Bound { mean, forms } => self.visit_bound(mean, forms, block, scratch),
        })
    }

    /// An ascent keeps no draws.
    fn draw(&self, _: &State, _: &mut Draws) {}
}
