//! Where fits begin, and the point estimate itself: weights that maximise a penalised likelihood.
//!
//! Maximised is ln p(y | X) − ½λ(|Θ|² + |H|²) − (|b|² + |c|²)/(2τ₀²) + λ₁Ω(Θ) + λ₂Ω(H), Ω the mutual angular regulariser of the rows of a matrix
//! (smoothed). It has many maxima: every chain and every ascent looks for one of its own, from random weights N(0, 1/p).

use rand_distr::{Distribution, StandardNormal};

use super::shape::Shape;
use crate::Result;
use crate::infer::lbfgs::{LbfgsSettings, Minimum, minimise};
use crate::model::gated::rows::Likelihood;
use crate::prior::Scratch;
use crate::prior::angular::Regulariser;
use crate::run::Stream;

/// Rewards of large angles.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Reward {
    /// λ₁, of the experts.
    pub experts: f64,
    /// λ₂, of the gates.
    pub gates: f64,
    /// The regulariser.
    pub angular: Regulariser,
}

/// What is taken from the log likelihood, and what is added to it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Penalty {
    /// λ, of squared weights.
    pub weights: f64,
    /// τ₀, the standard deviation of intercepts.
    pub intercept_sd: f64,
    /// Rewards of large angles, if any.
    pub reward: Option<Reward>,
}

impl Penalty {
    /// What is added to the log likelihood at a plain form; its gradient is added too.
    pub(super) fn value(&self, shape: &Shape, plain: &[f64], gradient: &mut [f64]) -> f64 {
        let (theta, eta) = shape.plain_parts();
        let intercepts = eta.end;
        let mut value = 0.0;
        for (at, (w, g)) in plain.iter().zip(gradient.iter_mut()).enumerate() {
            let precision = if at < intercepts { self.weights } else { 1.0 / (self.intercept_sd * self.intercept_sd) };
            value -= 0.5 * precision * w * w;
            *g -= precision * w;
        }
        if let Some(reward) = &self.reward {
            let mut scratch = Scratch::default();
            for (scale, part, dim) in [(reward.experts, theta, shape.expert_dim()), (reward.gates, eta, shape.inputs)] {
                if scale > 0.0 && !part.is_empty() {
                    value +=
                        scale * reward.angular.smoothed_gradient_add(&plain[part.clone()], dim, scale, &mut gradient[part], &mut scratch);
                }
            }
        }
        value
    }
}

/// The log likelihood of weights as rows multiply them, and its gradient.
pub(super) type LnLikelihood<'a> = dyn FnMut(&[f64]) -> Result<Likelihood> + 'a;

/// Random weights and intercepts of zero, in plain form.
pub(super) fn random(shape: &Shape, stream: Stream) -> Vec<f64> {
    let mut rng = stream.rng();
    let scale = (shape.inputs.max(1) as f64).sqrt().recip();
    let (_, eta) = shape.plain_parts();
    (0..shape.plain_len())
        .map(|at| {
            let z: f64 = StandardNormal.sample(&mut rng);
            if at < eta.end { scale * z } else { 0.0 }
        })
        .collect()
}

/// Looks for a maximum of the penalised likelihood from a plain form.
pub(super) fn maximise(
    shape: &Shape,
    penalty: &Penalty,
    start: &[f64],
    iterations: usize,
    value_tolerance: f64,
    ln_likelihood: &mut LnLikelihood<'_>,
) -> Result<Minimum> {
    let settings =
        LbfgsSettings { memory: 10, max_iterations: iterations, gradient_tolerance: 1e-6, value_tolerance, ..LbfgsSettings::default() };
    let (mut weights, mut slopes) = (Vec::new(), Vec::new());
    minimise(start, &settings, |plain, gradient| {
        shape.weights(plain, &mut weights);
        let found = ln_likelihood(&weights)?;
        shape.plain_gradient(&found.gradient.0, &mut slopes);
        let value = found.value.0 + penalty.value(shape, plain, &mut slopes);
        gradient.iter_mut().zip(&slopes).for_each(|(g, s)| *g = -s);
        Ok(-value)
    })
}

/// Iterations that a start is given: chains move on from it.
const START_ITERATIONS: usize = 100;
/// Lengths below this are none: a chain could not leave them.
const LEAST_SIZE: f64 = 1e-8;

/// A point for a chain to start from: near a maximum of the likelihood under squared penalties, another one for each stream.
pub(super) fn start(shape: &Shape, intercept_sd: f64, stream: Stream, ln_likelihood: &mut LnLikelihood<'_>) -> Result<Vec<f64>> {
    let penalty = Penalty { weights: 1.0, intercept_sd, reward: None };
    let begin = random(shape, stream);
    let found = maximise(shape, &penalty, &begin, START_ITERATIONS, 1e-6, ln_likelihood)?;
    let (mut point, fallback) = (shape.point(&found.x), shape.point(&begin));
    for (directions, sizes) in [(shape.expert_directions(), shape.expert_sizes()), (shape.gate_directions(), shape.gate_sizes())] {
        let dim = directions.len() / sizes.len().max(1);
        for (k, at) in sizes.enumerate() {
            if point[at] < LEAST_SIZE.ln() {
                let from = directions.start + k * dim;
                point[from..from + dim].copy_from_slice(&fallback[from..from + dim]);
                point[at] = fallback[at];
            }
        }
    }
    Ok(point)
}
