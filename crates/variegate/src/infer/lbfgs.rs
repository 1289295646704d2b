//! L-BFGS: minimises a smooth function of many variables from its values and gradients.
//!
//! The inverse Hessian is modelled by the last m pairs s = x' − x, y = ∇f' − ∇f (two-loop recursion, scaled by sᵀy / yᵀy),
//! the step by a line search with strong Wolfe conditions. The objective is a closure that may fail, because one evaluation
//! is a visit over all blocks of rows; its error ends the search at once.
//!
//! Limits: the function should be smooth; where it is not finite (a log of a negative number, an overflow) the step counts as
//! too long. Only a start that is not finite cannot be helped. Results hold no NaN and depend on nothing but the input.
//!
//! ```
//! use std::convert::Infallible;
//! use variegate::infer::lbfgs::{LbfgsSettings, minimise};
//!
//! let bowl = |x: &[f64], gradient: &mut [f64]| {
//!     gradient[0] = 2.0 * (x[0] - 1.0);
//!     gradient[1] = 200.0 * (x[1] + 2.0);
//!     Ok::<f64, Infallible>((x[0] - 1.0).powi(2) + 100.0 * (x[1] + 2.0).powi(2))
//! };
//! let found = minimise(&[0.0, 0.0], &LbfgsSettings::default(), bowl).unwrap();
//! assert!(found.status.converged());
//! assert!((found.x[0] - 1.0).abs() < 1e-6 && (found.x[1] + 2.0).abs() < 1e-6);
//! ```

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::line_search::{ROUNDING, search};
use super::require;
use crate::Result;

/// When to stop, and how much to remember.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LbfgsSettings {
    /// Number of pairs (s, y) that model the curvature. 0 gives steepest descent.
    pub memory: usize,
    /// Most iterations; each needs one to two evaluations as a rule.
    pub max_iterations: usize,
    /// Converged once max_i |∂f/∂x_i| max(|x_i|, 1) ≤ this · max(|f|, 1).
    pub gradient_tolerance: f64,
    /// Converged once two successive iterations each lower f by no more than this · max(|f|, 1).
    pub value_tolerance: f64,
    /// Most evaluations in one line search.
    pub max_line_search: usize,
}

impl Default for LbfgsSettings {
    fn default() -> Self {
        Self { memory: 20, max_iterations: 1_000, gradient_tolerance: 1e-9, value_tolerance: 1e-14, max_line_search: 40 }
    }
}

impl LbfgsSettings {
    /// Refuses what could never work.
    pub fn validate(&self) -> Result<()> {
        let at_least_0 = "a number of at least 0";
        require(self.gradient_tolerance >= 0.0, "gradient_tolerance", self.gradient_tolerance, at_least_0)?;
        require(self.value_tolerance >= 0.0, "value_tolerance", self.value_tolerance, at_least_0)?;
        require(self.max_line_search > 0, "max_line_search", self.max_line_search, "at least 1")
    }
}

/// Why the search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// The gradient is small enough.
    ConvergedGradient,
    /// The value no longer falls.
    ConvergedValue,
    /// The allowed number of iterations is used up.
    MaxIterations,
    /// No lower point was found along the direction of steepest descent: the gradient is likely wrong, or the function not smooth.
    LineSearchFailed,
    /// Value or gradient at the start is NaN or infinite.
    StartNotFinite,
}

impl Status {
    /// Whether the point found is a minimum to the tolerances asked for.
    pub fn converged(self) -> bool {
        matches!(self, Status::ConvergedGradient | Status::ConvergedValue)
    }
}

/// The best point found.
#[derive(Debug, Clone, PartialEq)]
pub struct Minimum {
    /// Where it is.
    pub x: Vec<f64>,
    /// f(x); infinite if the start was not finite.
    pub value: f64,
    /// Largest absolute entry of the gradient there; infinite if the start was not finite.
    pub gradient_norm: f64,
    /// Steps taken.
    pub iterations: usize,
    /// Calls of the objective.
    pub evaluations: usize,
    /// Why the search ended.
    pub status: Status,
}

/// Minimises `objective` from `start`; it gets a point, fills in the gradient and returns the value.
///
/// The first error of the objective is passed on.
pub fn minimise<E>(
    start: &[f64],
    settings: &LbfgsSettings,
    mut objective: impl FnMut(&[f64], &mut [f64]) -> Result<f64, E>,
) -> Result<Minimum, E> {
    let n = start.len();
    let mut evaluations = 0;
    let mut evaluate = |x: &[f64], gradient: &mut [f64]| {
        evaluations += 1;
        objective(x, gradient)
    };

    let mut x = start.to_vec();
    let mut gradient = vec![0.0; n];
    let mut value = evaluate(&x, &mut gradient)?;
    let mut iterations = 0;

    let status = if !value.is_finite() || !all_finite(&gradient) || !all_finite(&x) {
        value = f64::INFINITY;
        gradient = vec![f64::INFINITY; n.max(1)];
        Status::StartNotFinite
    } else {
        let mut memory = Memory::new(settings.memory);
        let mut small_steps = 0;
        let mut next_x = vec![0.0; n];
        let mut next_gradient = vec![0.0; n];
        loop {
            if relative_gradient(&x, &gradient, value) <= settings.gradient_tolerance {
                break Status::ConvergedGradient;
            }
            if iterations >= settings.max_iterations {
                break Status::MaxIterations;
            }

            let mut direction = memory.descent(&gradient);
            let mut slope = dot(&gradient, &direction);
            if !(slope < 0.0 && slope.is_finite() && all_finite(&direction)) {
                memory.clear();
                direction = memory.descent(&gradient);
                slope = dot(&gradient, &direction);
            }
            let mut along = |a: f64| {
                for i in 0..n {
                    next_x[i] = x[i] + a * direction[i];
                }
                let value = evaluate(&next_x, &mut next_gradient)?;
                let clean = all_finite(&next_x) && all_finite(&next_gradient);
                Ok(if clean { (value, dot(&next_gradient, &direction)) } else { (f64::NAN, f64::NAN) })
            };
            // Without curvature the gradient has no scale: begin with a step of length at most 1.
            let first_step = if memory.is_empty() { (1.0 / norm(&direction)).min(1.0) } else { 1.0 };
            let Some(next_value) = search(value, slope, first_step, settings.max_line_search, &mut along)? else {
                // What the quadratic model still promised was below the rounding of f: there is nothing left to gain.
                let noise = ROUNDING.max(settings.value_tolerance) * value.abs().max(1.0);
                if !memory.is_empty() && -slope <= noise {
                    break Status::ConvergedValue;
                }
                if memory.is_empty() {
                    break Status::LineSearchFailed;
                }
                memory.clear();
                continue;
            };

            memory.remember(&x, &next_x, &gradient, &next_gradient);
            let gain = value - next_value;
            std::mem::swap(&mut x, &mut next_x);
            std::mem::swap(&mut gradient, &mut next_gradient);
            value = next_value;
            iterations += 1;

            small_steps = if gain <= settings.value_tolerance * value.abs().max(1.0) { small_steps + 1 } else { 0 };
            if small_steps >= 2 && relative_gradient(&x, &gradient, value) > settings.gradient_tolerance {
                break Status::ConvergedValue;
            }
        }
    };
    let gradient_norm = gradient.iter().fold(0.0f64, |largest, g| largest.max(g.abs()));
    Ok(Minimum { x, value, gradient_norm, iterations, evaluations, status })
}

/// The last pairs (s, y, 1/sᵀy), oldest first.
struct Memory {
    pairs: VecDeque<(Vec<f64>, Vec<f64>, f64)>,
    capacity: usize,
    scale: f64,
}

impl Memory {
    fn new(capacity: usize) -> Self {
        Self { pairs: VecDeque::with_capacity(capacity.min(1_000)), capacity, scale: 1.0 }
    }

    fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    fn clear(&mut self) {
        self.pairs.clear();
        self.scale = 1.0;
    }

    /// −H g by the two-loop recursion.
    fn descent(&self, gradient: &[f64]) -> Vec<f64> {
        let mut q = gradient.to_vec();
        let mut alphas = Vec::with_capacity(self.pairs.len());
        for (s, y, inverse) in self.pairs.iter().rev() {
            let alpha = inverse * dot(s, &q);
            add(&mut q, -alpha, y);
            alphas.push(alpha);
        }
        q.iter_mut().for_each(|v| *v *= self.scale);
        for ((s, y, inverse), alpha) in self.pairs.iter().zip(alphas.iter().rev()) {
            let beta = inverse * dot(y, &q);
            add(&mut q, alpha - beta, s);
        }
        q.iter_mut().for_each(|v| *v = -*v);
        q
    }

    fn remember(&mut self, x: &[f64], next_x: &[f64], gradient: &[f64], next_gradient: &[f64]) {
        if self.capacity == 0 {
            return;
        }
        let difference = |new: &[f64], old: &[f64]| new.iter().zip(old).map(|(a, b)| a - b).collect::<Vec<_>>();
        let s = difference(next_x, x);
        let y = difference(next_gradient, gradient);
        let (curvature, yy) = (dot(&s, &y), dot(&y, &y));
        // A pair without positive curvature would make the model indefinite.
        if !(curvature > f64::EPSILON * norm(&s) * yy.sqrt() && (1.0 / curvature).is_finite()) {
            return;
        }
        if self.pairs.len() == self.capacity {
            self.pairs.pop_front();
        }
        self.scale = curvature / yy;
        self.pairs.push_back((s, y, 1.0 / curvature));
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn norm(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}

fn add(a: &mut [f64], factor: f64, b: &[f64]) {
    a.iter_mut().zip(b).for_each(|(a, b)| *a += factor * b);
}

fn all_finite(a: &[f64]) -> bool {
    a.iter().all(|v| v.is_finite())
}

fn relative_gradient(x: &[f64], gradient: &[f64], value: f64) -> f64 {
    let largest = x.iter().zip(gradient).fold(0.0f64, |worst, (x, g)| worst.max(g.abs() * x.abs().max(1.0)));
    largest / value.abs().max(1.0)
}

#[cfg(test)]
mod tests;
