//! Linear classifiers, one a label: logistic regression and the support vector machine, by variational Bayes.
//!
//! Both are the weights of [`Logit`] without patterns, with other bounds of each row's term. A row's weight times the weight of its
//! class is c; s = 2y − 1 and f = wᵀx̃.
//!
//! ```text
//! logistic: c ln σ(sf), bounded as in `bound.rs`, times c
//! hinge:    −2c max(0, 1 − sf) ≥ −c(1 − sf) − (c²(1 − sf)²/√χ + √χ)/2,   tight at χ = c² E(1 − sf)²
//! ```
//!
//! The hinge is the logarithm of a pseudo-likelihood: a mixture over scales λ ~ GIG(½, 1, χ) makes it normal in f. It does not add up to 1 over
//! y, so that it never joins a mixture of rows. Its variances are far too small here; `gibbs.rs` has the exact ones. As a point
//! estimate the hinge is maximised with the prior (EM): the covariance is 0. Derivations are in the book's chapter on `labels`.

mod gibbs;
mod handed;
#[cfg(test)]
mod tests;

pub(crate) use handed::{Handed, Means};

use serde::{Deserialize, Serialize};

use super::bound::{Bound, Tangent, bohning, bohning_value, jaakkola_jordan, ln_2cosh_half};
use super::expected_sigmoid::expected_sigmoid;
use super::logit::{Factors, Logit, Scratch as WeightScratch, Stats, View, grams_add};
use crate::Result;
use crate::data::Panel;
use crate::special::{ln_sigmoid, sigmoid};

/// Largest 1/√χ: rows on the margin of a point estimate have χ = 0.
const STEEPEST: f64 = 1e10;

/// What a classifier makes of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Loss {
    /// The logistic likelihood.
    Logistic,
    /// The hinge.
    Hinge,
    /// The hinge, for a point estimate.
    HingePoint,
}

/// One linear classifier a label.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Classifier {
    /// Prior of the weights, the bound of the logistic likelihood, and the form of the covariance; there are no patterns.
    pub(crate) prior: Logit,
    /// Prior mean of the weights (dim), the same for all labels; empty for 0.
    pub(crate) prior_mean: Vec<f64>,
    /// What is made of a row.
    pub(crate) loss: Loss,
    /// Weights of rows where a label is absent and where it is present (C); empty for 1.
    pub(crate) class_weights: Vec<[f64; 2]>,
}

/// Buffers, reused from block to block.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    weights: WeightScratch,
    /// x̃ᵀw of a draw (rows×C).
    means: Vec<f64>,
    /// Curvatures (rows×C).
    curvatures: Vec<f64>,
    /// Responses (rows×C).
    responses: Vec<f64>,
}

/// The probability of a label that goes with the pseudo-likelihood at f: its share e^{−2max(0,1−f)} of the two classes'.
pub(crate) fn hinge_probability(f: f64) -> f64 {
    sigmoid(hinge_log_odds(f))
}

/// The logarithm of [`hinge_probability`].
pub(crate) fn ln_hinge_probability(f: f64) -> f64 {
    ln_sigmoid(hinge_log_odds(f))
}

fn hinge_log_odds(f: f64) -> f64 {
    2.0 * (1.0 + f).max(0.0) - 2.0 * (1.0 - f).max(0.0)
}

/// The hinge's bound at its best point, given E f and Var f.
#[inline(always)]
fn hinge(y: f64, c: f64, mean: f64, variance: f64) -> Tangent {
    let s = 2.0 * y - 1.0;
    let root = c * ((1.0 - s * mean) * (1.0 - s * mean) + variance.max(0.0)).sqrt();
    let inverse = (1.0 / root).min(STEEPEST);
    let offset = -c - 0.5 * c * c * inverse - 0.5 / inverse;
    Tangent { curvature: c * c * inverse, response: s * c * (1.0 + c * inverse), offset }
}

impl Classifier {
    /// Before the first update: precisions as the prior has them, and no weights.
    pub(crate) fn start(&self) -> Factors {
        self.prior.start(0)
    }

    /// What rows need.
    pub(crate) fn view(&self, q: &Factors) -> View {
        self.prior.view(q)
    }

    /// Weight of a row in a label.
    #[inline(always)]
    fn weight(&self, weights: &[f64], i: usize, c: usize, y: i8) -> f64 {
        weights.get(i).unwrap_or(&1.0) * self.class_weights.get(c).map_or(1.0, |w| w[y as usize])
    }

    /// Bound of a label's term at its best point.
    fn tangent(&self, y: f64, c: f64, mean: f64, variance: f64) -> Tangent {
        let times = |t: Tangent| Tangent { curvature: c * t.curvature, response: c * t.response, offset: c * t.offset };
        match (self.loss, self.prior.bound) {
            (Loss::Logistic, Bound::JaakkolaJordan) => times(jaakkola_jordan(y, mean * mean + variance)),
            (Loss::Logistic, Bound::Bohning) => times(bohning(y, mean)),
            (Loss::Hinge, _) => hinge(y, c, mean, variance),
            (Loss::HingePoint, _) => hinge(y, c, mean, 0.0),
        }
    }

    /// out (rows) += Σ over the known labels of a row's terms, bounded at their best points. `weights` are those of rows, or empty for 1.
    pub(crate) fn terms(&self, view: &View, panel: &mut Panel<'_>, y: &[i8], weights: &[f64], out: &mut [f64], scratch: &mut Scratch) {
        self.prior.moments(view, panel, &mut scratch.weights);
        self.terms_at(scratch.weights.found(), y, weights, out);
    }

    /// The same, given means and variances of x̃ᵀw (rows×C each).
    pub(crate) fn terms_at(&self, (means, spreads): (&[f64], &[f64]), y: &[i8], weights: &[f64], out: &mut [f64]) {
        let labels = self.prior.labels;
        for (i, o) in out.iter_mut().enumerate() {
            for c in 0..labels {
                let at = i * labels + c;
                if y[at] < 0 {
                    continue;
                }
                let weight = self.weight(weights, i, c, y[at]);
                *o += self.term(f64::from(y[at]), weight, means[at], spreads[at]);
            }
        }
    }

    /// A label's term of a row, bounded at its best point.
    #[inline(always)]
    fn term(&self, y: f64, weight: f64, f: f64, s2: f64) -> f64 {
        let s = 2.0 * y - 1.0;
        match (self.loss, self.prior.bound) {
            (Loss::Logistic, Bound::JaakkolaJordan) => weight * ((y - 0.5) * f - ln_2cosh_half(f * f + s2)),
            (Loss::Logistic, Bound::Bohning) => weight * bohning_value(y, f, s2),
            (Loss::Hinge, _) => -weight * (1.0 - s * f) - weight * ((1.0 - s * f).powi(2) + s2.max(0.0)).sqrt(),
            (Loss::HingePoint, _) => -2.0 * weight * (1.0 - s * f).max(0.0),
        }
    }

    /// Adds what rows say, as [`Classifier::add`] does, and gives the sum of [`Classifier::terms`] over all of them.
    pub(crate) fn visit(
        &self,
        view: &View,
        panel: &mut Panel<'_>,
        y: &[i8],
        weights: &[f64],
        stats: &mut Stats,
        scratch: &mut Scratch,
    ) -> f64 {
        self.prior.moments(view, panel, &mut scratch.weights);
        let Scratch { weights: found, curvatures, responses, .. } = scratch;
        let (means, spreads) = found.found();
        let mut sum = 0.0;
        let tangent = |at: usize, c: f64| {
            let y = f64::from(y[at]);
            sum += self.term(y, c, means[at], spreads[at]);
            self.tangent(y, c, means[at], spreads[at])
        };
        self.add_tangents(panel, y, weights, stats, (curvatures, responses), tangent);
        sum
    }

    /// Adds what rows say, with the bounds tangent where this view puts them. `weights` are those of rows, or empty for 1.
    pub(crate) fn add(&self, view: &View, panel: &mut Panel<'_>, y: &[i8], weights: &[f64], stats: &mut Stats, scratch: &mut Scratch) {
        self.prior.moments(view, panel, &mut scratch.weights);
        let Scratch { weights: found, curvatures, responses, .. } = scratch;
        let (means, spreads) = found.found();
        let tangent = |at: usize, c: f64| self.tangent(f64::from(y[at]), c, means[at], spreads[at]);
        self.add_tangents(panel, y, weights, stats, (curvatures, responses), tangent);
    }

    /// Adds the bounds of all known labels of weight above 0; `tangent(place in y, weight)` is that of one.
    fn add_tangents(
        &self,
        panel: &mut Panel<'_>,
        y: &[i8],
        weights: &[f64],
        stats: &mut Stats,
        (curvatures, responses): (&mut Vec<f64>, &mut Vec<f64>),
        tangent: impl FnMut(usize, f64) -> Tangent,
    ) {
        let offset = self.tangents(y, weights, (curvatures, responses), tangent);
        self.add_found(panel, stats, (curvatures, responses), offset);
    }

    /// Adds curvatures and linear terms of all labels (rows×C each).
    fn add_found(&self, panel: &mut Panel<'_>, stats: &mut Stats, (curvatures, responses): (&[f64], &[f64]), offset: f64) {
        let labels = self.prior.labels;
        stats.reserve(labels, self.prior.dim, 0);
        stats.offset.0 += offset;
        grams_add(panel, curvatures, labels, &mut stats.gram.0);
        panel.t_mul_add(responses, labels, &mut stats.response.0);
    }

    /// Curvatures and linear terms of all labels (rows×C each) at the best points of their bounds, given means and variances of x̃ᵀw; gives the sum
    /// of offsets.
    pub(crate) fn tangents_at(&self, (means, spreads): (&[f64], &[f64]), y: &[i8], into: (&mut Vec<f64>, &mut Vec<f64>)) -> f64 {
        self.tangents(y, &[], into, |at, c| self.tangent(f64::from(y[at]), c, means[at], spreads[at]))
    }

    /// Curvatures and linear terms of all known labels of weight above 0, and 0 of the others; gives the sum of offsets.
    fn tangents(
        &self,
        y: &[i8],
        weights: &[f64],
        (curvatures, responses): (&mut Vec<f64>, &mut Vec<f64>),
        mut tangent: impl FnMut(usize, f64) -> Tangent,
    ) -> f64 {
        let labels = self.prior.labels;
        let mut offset = 0.0;
        for buffer in [&mut *curvatures, &mut *responses] {
            buffer.clear();
            buffer.resize(y.len(), 0.0);
        }
        for (at, &label) in y.iter().enumerate() {
            if label < 0 {
                continue;
            }
            let weight = self.weight(weights, at / labels, at % labels, label);
            // without weight the hinge's scale would be 0/0
            if weight > 0.0 {
                let t = tangent(at, weight);
                (curvatures[at], responses[at]) = (t.curvature, t.response);
                offset += t.offset;
            }
        }
        offset
    }

    /// The global step from sums: q(w_c) of each label given E τ, then q(τ).
    pub(crate) fn update(&self, q: &mut Factors, stats: &Stats) -> Result<()> {
        self.prior.update_about(&self.prior_mean, q, stats)?;
        if self.loss == Loss::HingePoint {
            q.covariance.fill(0.0);
            for c in 0..self.prior.labels {
                let w = &q.mean[c * self.prior.dim..(c + 1) * self.prior.dim];
                let ((_, squares), _) = self.prior.squares(&self.prior_mean, w, &q.covariance);
                q.weight_precision[c] = self.prior.weight_precision.posterior(self.prior.columns(), squares);
            }
        }
        Ok(())
    }

    /// KL divergence of all factors from their priors; of point estimates −E ln p(w | τ) without its constant −(dim/2) ln 2π, and the
    /// divergence of the precisions.
    pub(crate) fn divergence(&self, q: &Factors) -> f64 {
        if self.loss != Loss::HingePoint {
            return self.prior.divergence_about(&self.prior_mean, q);
        }
        // a covariance of no size: ln |V| and the dimension, which a normal factor would add, are left out
        let flat = Factors { ln_det: vec![-(self.prior.dim as f64); self.prior.labels], ..q.clone() };
        self.prior.divergence_about(&self.prior_mean, &flat)
    }

    /// The rows' part of the bound from sums, at the points of tangency of the sums.
    pub(crate) fn value(&self, q: &Factors, stats: &Stats) -> f64 {
        self.prior.value(q, stats)
    }

    /// Mean and variance of x̃ᵀw of new rows (rows×C each).
    pub(crate) fn scores<'a>(&self, view: &View, panel: &mut Panel<'_>, scratch: &'a mut Scratch) -> (&'a [f64], &'a [f64]) {
        self.prior.moments(view, panel, &mut scratch.weights);
        scratch.weights.found()
    }

    /// Probabilities of the labels of new rows, out (rows×C): means of the sigmoid, or the hinge's share at the mean weights.
    pub(crate) fn probabilities(&self, view: &View, panel: &mut Panel<'_>, out: &mut [f64], scratch: &mut Scratch) {
        let found = self.scores(view, panel, scratch);
        self.probabilities_at(found, out);
    }

    /// The same, given means and variances of x̃ᵀw (rows×C each).
    pub(crate) fn probabilities_at(&self, (means, spreads): (&[f64], &[f64]), out: &mut [f64]) {
        for ((o, &f), &s2) in out.iter_mut().zip(means).zip(spreads) {
            *o = if self.loss == Loss::Logistic { expected_sigmoid(f, s2) } else { hinge_probability(f) };
        }
    }
}
