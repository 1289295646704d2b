//! Label patterns of components and linear classifiers, fitted apart: no joint posterior, but two.
//!
//! Components see labels through their patterns alone ([`Patterns`]); the classifiers are the weights of [`Logit`] without components. Both
//! have a bound, and what is raised is the sum of the two. They meet when new rows are predicted (`stage.rs`).

use serde::{Deserialize, Serialize};

use super::bound::{jaakkola_jordan, ln_2cosh_half};
use super::expected_sigmoid::expected_sigmoid;
use super::logit::{self, Logit};
use super::patterns::{self, Patterns};
use crate::data::Panel;
use crate::{Result, merge_fields};

/// Priors of patterns and weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cut {
    /// Labels within components.
    pub(crate) patterns: Patterns,
    /// The weights of the labels, bounded after Jaakkola and Jordan; its own patterns are not used.
    pub(crate) weights: Logit,
}

/// q of both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Factors {
    pub(crate) patterns: patterns::Factors,
    /// Of no components.
    pub(crate) weights: logit::Factors,
}

/// What rows need of both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct View {
    pub(crate) patterns: patterns::View,
    pub(crate) weights: logit::View,
}

/// Sums over rows for both.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stats {
    pub(crate) patterns: patterns::Stats,
    pub(crate) weights: logit::Stats,
}
merge_fields!(Stats, patterns, weights);

/// Buffers, reused from block to block.
#[derive(Default)]
pub(crate) struct Scratch {
    patterns: patterns::Scratch,
    weights: logit::Scratch,
    curvatures: Vec<f64>,
    responses: Vec<f64>,
}

impl Cut {
    /// Before the first update.
    pub(crate) fn start(&self, components: usize) -> Factors {
        Factors { patterns: self.patterns.start(components), weights: self.weights.start(0) }
    }

    /// What rows need.
    pub(crate) fn view(&self, q: &Factors) -> View {
        View { patterns: self.patterns.view(&q.patterns), weights: self.weights.view(&q.weights) }
    }

    /// out (rows×K) += the patterns' terms, and the classifiers' bound, which is the same for every component.
    pub(crate) fn terms(&self, view: &View, panel: &mut Panel<'_>, y: &[i8], out: &mut [f64], scratch: &mut Scratch) {
        self.patterns.terms(&view.patterns, panel, y, out, &mut scratch.patterns);
        self.weights.moments(&view.weights, panel, &mut scratch.weights);
        let (means, spreads) = scratch.weights.found();
        let labels = self.weights.labels;
        let components = out.len() / panel.rows().max(1);
        for (i, out) in out.chunks_exact_mut(components.max(1)).enumerate() {
            let mut value = 0.0;
            for at in i * labels..(i + 1) * labels {
                if y[at] >= 0 {
                    value += (f64::from(y[at]) - 0.5) * means[at] - ln_2cosh_half(means[at] * means[at] + spreads[at]);
                }
            }
            out.iter_mut().for_each(|o| *o += value);
        }
    }

    /// Adds what rows with responsibilities r say; every row counts once for the classifiers.
    pub(crate) fn add(&self, view: &View, panel: &mut Panel<'_>, y: &[i8], r: &[f64], stats: &mut Stats, scratch: &mut Scratch) {
        self.patterns.add(&view.patterns, panel, y, r, &mut stats.patterns, &mut scratch.patterns);
        self.weights.moments(&view.weights, panel, &mut scratch.weights);
        let (means, spreads) = scratch.weights.found();
        let labels = self.weights.labels;
        stats.weights.reserve(labels, self.weights.dim, 0);
        let (curvatures, responses) = (&mut scratch.curvatures, &mut scratch.responses);
        for buffer in [&mut *curvatures, &mut *responses] {
            buffer.clear();
            buffer.resize(panel.rows() * labels, 0.0);
        }
        for at in (0..panel.rows() * labels).filter(|&at| y[at] >= 0) {
            let tangent = jaakkola_jordan(f64::from(y[at]), means[at] * means[at] + spreads[at]);
            (curvatures[at], responses[at]) = (tangent.curvature, tangent.response);
            stats.weights.offset.0 += tangent.offset;
        }
        panel.weighted_grams_add(curvatures, labels, &mut stats.weights.gram.0);
        panel.t_mul_add(responses, labels, &mut stats.weights.response.0);
    }

    /// E σ(w_cᵀx̃) of new rows, out (rows×C).
    pub(crate) fn classifier_probabilities(&self, view: &View, panel: &mut Panel<'_>, out: &mut [f64], scratch: &mut Scratch) {
        self.weights.moments(&view.weights, panel, &mut scratch.weights);
        let (means, spreads) = scratch.weights.found();
        for ((o, &f), &s2) in out.iter_mut().zip(means).zip(spreads) {
            *o = expected_sigmoid(f, s2);
        }
    }

    /// The global step from sums.
    pub(crate) fn update(&self, q: &mut Factors, stats: &Stats) -> Result<()> {
        self.patterns.update(&mut q.patterns, &stats.patterns)?;
        self.weights.update(&mut q.weights, &stats.weights)
    }

    /// Divergence of both from their priors.
    pub(crate) fn divergence(&self, q: &Factors) -> f64 {
        self.patterns.divergence(&q.patterns) + self.weights.divergence(&q.weights)
    }

    /// Both bounds from sums.
    pub(crate) fn value(&self, q: &Factors, stats: &Stats) -> f64 {
        self.patterns.value(&q.patterns, &stats.patterns) + self.weights.value(&q.weights, &stats.weights)
    }
}

impl Factors {
    /// Component `order[k]` becomes component k; those not named are left out.
    pub(crate) fn permute(&mut self, order: &[usize]) {
        self.patterns.permute(order);
    }
}

impl Stats {
    /// Component `order[k]` of so many becomes component k; those not named are left out.
    pub(crate) fn permute(&mut self, order: &[usize], components: usize) {
        self.patterns.permute(order, components);
    }
}
