//! Polya-Gamma Gibbs with elliptical slices: exact, nothing to tune, for two classes.
//!
//! A sweep, given everything else each time:
//!
//! 1. the expert z_n behind each row (behind each of the b trials of a row of weight b) from its posterior, and ω ~ PG(n_k, β_k·x + b_k), n_k the number of
//!    trials that expert k stands behind: with them expert k has the quadratic log likelihood hᵀw − ½wᵀQw, Q = Σωx̃x̃ᵀ,
//!    h = Σ(y − ½)n_k x̃, and `update.rs` moves it;
//! 2. gate after gate: with c = ln Σ_{j≠k} exp f_j the labels are logistic in f_k − c, so that ω ~ PG(b, f_k − c) gives
//!    Q = Σωx̃x̃ᵀ and h = Σ(n_k − b/2 + ωc)x̃, one visit to the rows a gate;
//! 3. the hyperparameters, and exchanges of neighbouring labels.
//!
//! Labels and ω are drawn afresh in each sweep: nothing of a row survives it. What is kept of a sweep is the point it began with, whose
//! likelihood it learned. Limits: K matrices of D×D numbers, N D² work a gate, and labels hold the weights back: more than a few hundred
//! columns are better left to `hmc`.

mod update;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use super::draws;
use super::hyper::{self, Learning};
use super::moves;
use super::point_prior::PointPrior;
use super::sampler::Sampler;
use super::settings::Hyper;
use super::shape::Shape;
use super::{shares, starts};
use crate::data::{Design, Survey};
use crate::dist::{PolyaGamma, draw_from_shares};
use crate::linalg::wide;
use crate::model::gated::ln_mixture;
use crate::model::gated::rows::{self, Likelihood};
use crate::prior::Coupled;
use crate::run::{Block, Draws, Philox, Program, Report, Rows, Stream, Sum, Tick};
use crate::special::log_sum_exp;
use crate::{Error, Result, merge_fields};
use rand_distr::Distribution;
use update::{Prior, Quadratic, Vector};

/// Most columns of the design without the intercept.
pub(super) const MOST_COLUMNS: usize = 2000;
/// Most bytes of the matrices that a thread holds.
const MOST_BYTES: usize = 2 << 30;
/// Sums of exponentials outside this range are computed in logarithms.
const RANGE: std::ops::Range<f64> = 1e-200..1e200;
/// Scores whose square is still finite.
const LARGEST: f64 = 1e150;

/// The sampler.
#[derive(Debug, Clone)]
pub(super) struct Gibbs {
    /// From raw rows to design rows.
    pub design: Design,
    /// Sizes of the mixture; two classes.
    pub shape: Shape,
    /// Prior of a point, with the hyperparameters chains begin with.
    pub point_prior: PointPrior,
    /// What happens to the hyperparameters.
    pub hyper: Hyper,
    /// Updates of each weight vector within a sweep.
    pub inner: u32,
}

/// Refuses what this sampler does not do: more classes than two, matrices that would take gigabytes, weights that are no numbers of trials.
pub(super) fn check(shape: &Shape, survey: &Survey) -> Result<()> {
    let bytes = shape.experts.saturating_mul(shape.dim()).saturating_mul(shape.dim()).saturating_mul(8);
    if shape.inputs > MOST_COLUMNS || bytes > MOST_BYTES {
        return Err(Error::Unfit(format!(
            "inference `gibbs` holds {} matrices of {1} by {1} numbers for each thread, which is too large (at most {MOST_COLUMNS} columns, \
             and {2} GB): use inference `hmc`, or select columns first",
            shape.experts,
            shape.dim(),
            MOST_BYTES >> 30
        )));
    }
    if shape.classes > 2 {
        return Err(Error::Unfit(format!("inference `gibbs` is for two classes, but there are {}: use inference `hmc`", shape.classes)));
    }
    survey.check_whole_weights("inference `gibbs`", "use inference `hmc` for other weights")
}

/// State of the sampler between sweeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    /// The point.
    pub point: Vec<f64>,
    /// The prior with the hyperparameters now.
    pub point_prior: PointPrior,
    /// What was learned of the hyperparameters.
    pub learning: Learning,
    /// The point and prior that the last sweep began with, and their log likelihood and prior density: what is kept as a draw.
    visited: Vec<f64>,
    visited_prior: PointPrior,
    ln_likelihood: f64,
    ln_prior: f64,
}

/// What the rows are asked.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Ask<'a> {
    /// The gradient of the likelihood of these weights, to find a start.
    Slopes(Cow<'a, [f64]>),
    /// To draw labels given these weights, and what they then say of the experts.
    Experts(Cow<'a, [f64]>),
    /// What they say of a gate.
    Gate {
        /// Which.
        turn: usize,
        /// New weights of the gate before it.
        before: Cow<'a, [f64]>,
    },
}

/// What the rows report.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Stats {
    /// Lower triangles of Q, one a vector that was asked about.
    grams: Sum<Vec<f64>>,
    /// h, one a vector.
    linear: Sum<Vec<f64>>,
    /// Likelihood of the weights asked about.
    likelihood: Likelihood,
    /// Sums of the shares of the experts at those weights.
    shares: Sum<Vec<f64>>,
}
merge_fields!(Stats, grams, linear, likelihood, shares);

/// What a block keeps from visit to visit of one sweep; a sweep begins by drawing it afresh, so that it is not saved.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Local {
    /// The expert behind each trial.
    #[serde(skip)]
    labels: Vec<u32>,
    /// Scores of the gates, one column a gate, and their exponentials.
    #[serde(skip)]
    gates: Vec<f64>,
    #[serde(skip)]
    exponentials: Vec<f64>,
}

/// Buffers of a visit.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    rows: rows::Scratch,
    scores: Vec<f64>,
    omega: Vec<f64>,
    linear: Vec<f64>,
    joint: Vec<f64>,
    /// Rows that each expert stands behind, with the number of trials.
    behind: Vec<Vec<u32>>,
    trials: Vec<Vec<u32>>,
}

impl Gibbs {
    fn weights(&self, point: &[f64]) -> Vec<f64> {
        let (mut plain, mut weights) = (Vec::new(), Vec::new());
        self.shape.plain(point, &mut plain);
        self.shape.weights(&plain, &mut weights);
        weights
    }

    /// Labels of a block given the weights, and what they say of the experts.
    fn visit_experts(
        &self,
        weights: &[f64],
        block: &Block<'_>,
        local: &mut Local,
        scratch: &mut Scratch,
        rng: &mut Philox,
    ) -> Result<Stats> {
        let (n, dim, experts, gates) = (block.rows(), self.shape.dim(), self.shape.experts, self.shape.gates());
        let (columns, gated) = (gates + experts, self.shape.gated());
        let Scratch { rows, scores, omega, linear, joint, behind, trials } = scratch;
        scores.resize(n * columns, f64::NAN);
        linear.clear();
        linear.resize(n * experts, 0.0);
        joint.resize(experts, f64::NAN);
        for lists in [&mut *behind, &mut *trials] {
            lists.resize_with(experts, Vec::new);
            lists.iter_mut().for_each(Vec::clear);
        }
        local.labels.clear();
        for columns in [&mut local.gates, &mut local.exponentials] {
            columns.resize(n * gates, f64::NAN);
        }
        let mut panel = self.design.panel(block.x, &mut rows.panel);
        panel.mul_t(weights, columns, scores);
        let (mut ln_likelihood, mut shares) = (0.0, vec![0.0; experts]);
        for (i, (&class, scores)) in block.y.classes().iter().zip(scores.chunks_exact(columns)).enumerate() {
            let (f, s) = scores.split_at(gates);
            for (k, &f) in f.iter().enumerate() {
                (local.gates[k * n + i], local.exponentials[k * n + i]) = (f, f.exp());
            }
            let weight = block.weight(i);
            if weight == 0.0 {
                continue;
            }
            joint.iter_mut().zip(s.chunks_exact(1)).for_each(|(joint, s)| *joint = gated.ln_given(s, class));
            let mixture = ln_mixture(f, joint);
            ln_likelihood += weight * mixture.likelihood();
            if !ln_likelihood.is_finite() {
                return Err(too_large(block, i));
            }
            shares.iter_mut().zip(joint.iter()).for_each(|(sum, ln)| *sum += weight * (ln - mixture.total).exp());
            for _ in 0..weight as u64 {
                let k = draw_from_shares(joint.iter().map(|ln| (ln - mixture.total).exp()), rng);
                local.labels.push(k as u32);
                match trials[k].last_mut() {
                    Some(count) if behind[k].last() == Some(&(i as u32)) => *count += 1,
                    _ => {
                        behind[k].push(i as u32);
                        trials[k].push(1);
                    }
                }
                linear[i * experts + k] += if class == 1 { 0.5 } else { -0.5 };
            }
        }
        let mut stats = Stats { grams: Sum(vec![0.0; experts * dim * dim]), linear: Sum(vec![0.0; experts * dim]), ..Stats::default() };
        stats.likelihood.value = Sum(ln_likelihood);
        stats.shares = Sum(shares);
        for (k, gram) in stats.grams.0.chunks_exact_mut(dim * dim).enumerate() {
            omega.clear();
            for (&i, &count) in behind[k].iter().zip(&trials[k]) {
                omega.push(polya_gamma(count, scores[i as usize * columns + gates + k], rng).ok_or_else(|| too_large(block, i as usize))?);
            }
            panel.picked_gram_add(&behind[k], omega, gram);
        }
        panel.t_mul_add(linear, experts, &mut stats.linear.0);
        Ok(stats)
    }

    /// What the labels say of a gate, after the one before it has moved.
    fn visit_gate(
        &self,
        turn: usize,
        before: &[f64],
        block: &Block<'_>,
        local: &mut Local,
        scratch: &mut Scratch,
        rng: &mut Philox,
    ) -> Result<Stats> {
        let (n, dim, gates) = (block.rows(), self.shape.dim(), self.shape.gates());
        let Scratch { rows, scores: others, omega, linear, joint, .. } = scratch;
        let mut panel = self.design.panel(block.x, &mut rows.panel);
        if turn > 0 {
            let moved = (turn - 1) * n..turn * n;
            panel.mul_t(before, 1, &mut local.gates[moved.clone()]);
            local.exponentials[moved.clone()].iter_mut().zip(&local.gates[moved]).for_each(|(e, f)| *e = f.exp());
        }
        for buffer in [&mut *omega, &mut *linear, &mut *others] {
            buffer.clear();
            buffer.resize(n, 0.0);
        }
        for k in (0..gates).filter(|k| *k != turn) {
            let column = &local.exponentials[k * n..(k + 1) * n];
            wide(
                #[inline(always)]
                || others.iter_mut().zip(column).for_each(|(o, e)| *o += e),
            );
        }
        let mut labels = &local.labels[..];
        for i in 0..n {
            let weight = block.weight(i);
            if weight == 0.0 {
                continue;
            }
            let (own, later) = labels.split_at(weight as usize);
            labels = later;
            let chosen = own.iter().filter(|k| **k as usize == turn).count() as f64;
            let others = if RANGE.contains(&others[i]) {
                others[i].ln()
            } else {
                joint.clear();
                joint.extend((0..gates).filter(|k| *k != turn).map(|k| local.gates[k * n + i]));
                log_sum_exp(joint)
            };
            omega[i] = polya_gamma(weight as u32, local.gates[turn * n + i] - others, rng).ok_or_else(|| too_large(block, i))?;
            linear[i] = chosen - 0.5 * weight + omega[i] * others;
        }
        let mut stats = Stats { grams: Sum(vec![0.0; dim * dim]), linear: Sum(vec![0.0; dim]), ..Stats::default() };
        panel.weighted_gram_add(omega, &mut stats.grams.0);
        panel.t_mul_add(linear, 1, &mut stats.linear.0);
        Ok(stats)
    }
}

fn vector(shape: &Shape, point: &[f64], gate: bool, k: usize) -> Vector {
    let places = shape.places(gate, k);
    Vector { size: point[places.size], intercept: point[places.intercepts].first().copied().unwrap_or(0.0) }
}

fn put(shape: &Shape, point: &mut [f64], gate: bool, k: usize, vector: &Vector) {
    let places = shape.places(gate, k);
    point[places.size] = vector.size;
    point[places.intercepts].fill(vector.intercept);
}

/// PG(b, c); nothing where c is too large to be computed with.
fn polya_gamma(b: u32, c: f64, rng: &mut Philox) -> Option<f64> {
    if c.is_nan() || c.abs() > LARGEST {
        return None;
    }
    if b == 1 { Some(PolyaGamma::draw_1(c, rng)) } else { PolyaGamma::new(b, c).ok().map(|distribution| distribution.sample(rng)) }
}

fn too_large(block: &Block<'_>, row: usize) -> Error {
    let number = block.first_row + row as u64 + 1;
    Error::Unfit(format!("row {number}: its values are too large to compute with; scale the columns"))
}

impl Sampler for Gibbs {
    fn at(&self, point: Vec<f64>, point_prior: PointPrior) -> State {
        State {
            visited: point.clone(),
            visited_prior: point_prior.clone(),
            point,
            point_prior,
            learning: Learning::default(),
            ln_likelihood: f64::NAN,
            ln_prior: f64::NAN,
        }
    }

    fn point(state: &State) -> &[f64] {
        &state.point
    }

    fn point_prior(state: &State) -> &PointPrior {
        &state.point_prior
    }
}

impl Program for Gibbs {
    const NAME: &'static str = "experts/gibbs";
    const RELEASES: &'static [&'static str] = &["0.1"];
    type Global = State;
    type Local = Local;
    type Ask<'a> = Ask<'a>;
    type Stats = Stats;
    type Scratch = Scratch;

    fn start(&self, rows: &mut dyn Rows<Self>, stream: Stream) -> Result<State> {
        let ln_likelihood = &mut |weights: &[f64]| Ok(rows.all(&Ask::Slopes(Cow::Borrowed(weights)))?.likelihood);
        let point = starts::start(&self.shape, self.point_prior.intercept_sd, stream, ln_likelihood)?;
        Ok(self.at(point, self.point_prior.clone()))
    }

    fn local(&self, _: &Block<'_>, _: Stream) -> Local {
        Local::default()
    }

    fn sweep(&self, state: &mut State, rows: &mut dyn Rows<Self>, tick: Tick) -> Result<Report> {
        let (shape, mut rng) = (&self.shape, tick.stream.rng());
        let (dim, inputs) = (shape.dim(), shape.inputs);
        let mut weights = self.weights(&state.point);
        state.visited.clone_from(&state.point);
        state.visited_prior.clone_from(&state.point_prior);
        let State { point, point_prior, .. } = state;

        let stats = rows.all(&Ask::Experts(Cow::Borrowed(&weights)))?;
        let (ln_likelihood, sums) = (stats.likelihood.value.0, stats.shares.0);
        let prior = Prior { side: &point_prior.experts, intercept_sd: point_prior.intercept_sd };
        let mut directions = Coupled::new(&point_prior.experts.directions, &point[shape.expert_directions()], inputs);
        let grams = stats.grams.0.chunks_exact(dim * dim).zip(stats.linear.0.chunks_exact(dim));
        for (k, (gram, linear)) in grams.enumerate() {
            let rows_say = Quadratic::new(gram.to_vec(), linear.to_vec(), inputs);
            let mut vector = vector(shape, point, false, k);
            rows_say.update(&prior, &mut directions, k, &mut vector, self.inner, &mut rng)?;
            put(shape, point, false, k, &vector);
        }
        point[shape.expert_directions()].copy_from_slice(directions.directions());

        if shape.gates() > 0 {
            let prior = Prior { side: &point_prior.gates, intercept_sd: point_prior.intercept_sd };
            let mut directions = Coupled::new(&point_prior.gates.directions, &point[shape.gate_directions()], inputs);
            for k in 0..shape.gates() {
                let before = if k > 0 { &weights[(k - 1) * dim..k * dim] } else { &[] };
                let stats = rows.all(&Ask::Gate { turn: k, before: Cow::Borrowed(before) })?;
                let rows_say = Quadratic::new(stats.grams.0, stats.linear.0, inputs);
                let mut vector = vector(shape, point, true, k);
                rows_say.update(&prior, &mut directions, k, &mut vector, self.inner, &mut rng)?;
                put(shape, point, true, k, &vector);
                let (length, moved) = (vector.size.exp(), &mut weights[k * dim..(k + 1) * dim]);
                moved.iter_mut().zip(&directions.directions()[k * inputs..(k + 1) * inputs]).for_each(|(w, a)| *w = length * a);
                if shape.bias {
                    moved[inputs] = vector.intercept;
                }
            }
            point[shape.gate_directions()].copy_from_slice(directions.directions());
        }

        hyper::update(self.hyper, &mut state.learning, &mut state.point_prior, shape, &state.point, tick.warm_up, &mut rng)?;
        let swaps = moves::swaps(shape, &state.point_prior, &mut state.point, &mut rng, |_| ());
        state.ln_likelihood = ln_likelihood;
        state.ln_prior = state.visited_prior.ln_density(shape, &state.visited);
        let objective = state.ln_likelihood + state.ln_prior;
        if !objective.is_finite() {
            let detail = "the log density is not finite; scale the columns, or use inference `hmc`".into();
            return Err(Error::Numerical { what: "the sampler", sweep: tick.sweep, detail });
        }
        // of the point that the sweep began with, which is the one that is kept
        let extras = shares::with(&sums, vec![("log_likelihood".into(), state.ln_likelihood), ("swaps".into(), f64::from(swaps))]);
        Ok(Report { objective, components: shape.experts as u32, converged: false, extras })
    }

    fn visit(&self, ask: &Ask<'_>, block: &Block<'_>, local: &mut Local, scratch: &mut Scratch, stream: Stream) -> Result<Stats> {
        let mut rng = stream.rng();
        match ask {
            Ask::Slopes(weights) => {
                let likelihood =
                    rows::likelihood(&self.design, &self.shape.gated(), weights, block, |i| block.weight(i), &mut scratch.rows);
                Ok(Stats { likelihood, ..Stats::default() })
            }
            Ask::Experts(weights) => self.visit_experts(weights, block, local, scratch, &mut rng),
            Ask::Gate { turn, before } => self.visit_gate(*turn, before, block, local, scratch, &mut rng),
        }
    }

    fn draw(&self, state: &State, out: &mut Draws) {
        draws::keep(&self.shape, &state.visited, &state.visited_prior, self.hyper, state.ln_likelihood, state.ln_prior, out);
    }
}
