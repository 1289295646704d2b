//! How labels depend on a row and its component, as the sampler sees it: priors, the present parameters, and sums over rows.

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};

use super::classifier::Classifier;
use crate::Result;
use crate::dist::{Beta, Gamma};
use crate::merge_fields;
use crate::model::labels::gamma_factor::Precision;
use crate::model::labels::patterns::Patterns;
use crate::run::Sum;

/// The three couplings of components and labels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum LabelModel {
    /// Each component has its own probabilities of labels; classifiers are fitted apart (`cut`).
    Patterns(Patterns),
    /// A label is present with probability σ(b_kc + w_c'x̃) (`logit`).
    Logit {
        /// The w.
        classifier: Classifier,
        /// Precision of the b of a label.
        patterns: Precision,
    },
    /// A label is present where both a coin of the component, ψ_kc ~ Beta, and one of the row, σ(w_c'x̃), say so (`and`).
    And {
        /// The w.
        classifier: Classifier,
        /// Parameters of the Beta prior.
        psi: (f64, f64),
    },
}

/// Parameters of labels; what a model does not have is empty.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    /// w, C×D̃, be they part of the model or fitted apart.
    pub(crate) weights: Vec<f64>,
    /// K×C: b of `logit`; log-odds of ψ of `and` and of Bernoulli patterns; ln ψ of multinomial ones.
    pub(crate) patterns: Vec<f64>,
    /// Precision of the weights of each label.
    pub(crate) weight_precision: Vec<f64>,
    /// Precision of the b of each label.
    pub(crate) pattern_precision: Vec<f64>,
}

/// Sums over rows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LabelSums {
    /// Σ ω x̃x̃' of each label, packed.
    pub(crate) grams: Sum<Vec<f64>>,
    /// Σ κ x̃ of each label; κ is y − ½ (`logit`) or h − ½ (`and`).
    pub(crate) linear: Sum<Vec<f64>>,
    /// Σ ω x̃ over the rows of a component, K×C×D̃ (`logit`).
    pub(crate) crosses: Sum<Vec<f64>>,
    /// K×C: Σ ω (`logit`), Σ a (`and`), present labels (`cut`).
    pub(crate) first: Sum<Vec<f64>>,
    /// K×C: Σ κ (`logit`), Σ (1 − a) (`and`), absent labels (`cut`).
    pub(crate) second: Sum<Vec<f64>>,
}

merge_fields!(LabelSums, grams, linear, crosses, first, second);

/// A draw of a precision, given so many normal numbers and the sum of their squares.
pub(super) fn draw_precision<R: Rng + ?Sized>(prior: Precision, count: usize, squares: f64, rng: &mut R) -> Result<f64> {
    match prior {
        Precision::Fixed(value) => Ok(value),
        Precision::Learned(prior) => {
            let drawn = Gamma::new(prior.shape + 0.5 * count as f64, prior.rate + 0.5 * squares)?.sample(rng);
            Ok(drawn.clamp(f64::MIN_POSITIVE, f64::MAX))
        }
    }
}

/// A normal number of this precision.
pub(super) fn normal<R: Rng + ?Sized>(precision: f64, rng: &mut R) -> f64 {
    let z: f64 = StandardNormal.sample(rng);
    z / precision.sqrt()
}

impl LabelModel {
    /// Number of labels.
    pub(crate) fn labels(&self) -> usize {
        match self {
            Self::Patterns(patterns) => patterns.labels(),
            Self::Logit { classifier, .. } | Self::And { classifier, .. } => classifier.labels,
        }
    }

    /// The classifiers, where there are any.
    pub(crate) fn classifier(&self) -> Option<&Classifier> {
        match self {
            Self::Patterns(_) => None,
            Self::Logit { classifier, .. } | Self::And { classifier, .. } => Some(classifier),
        }
    }

    /// Where a chain begins: weights of 0, patterns that say nothing, precisions at their prior mean.
    pub(crate) fn start(&self, components: usize) -> Point {
        let labels = self.labels();
        let mean = |prior: Precision| prior.mean(prior.start());
        let mut point = Point { patterns: vec![0.0; components * labels], ..Point::default() };
        if let Some(classifier) = self.classifier() {
            point.weights = vec![0.0; labels * classifier.dim];
            point.weight_precision = vec![mean(classifier.weight_precision); labels];
        }
        if let Self::Logit { patterns, .. } = self {
            point.pattern_precision = vec![mean(*patterns); labels];
        }
        point
    }

    /// A draw from the prior.
    pub(crate) fn prior<R: Rng + ?Sized>(&self, components: usize, rng: &mut R) -> Result<Point> {
        let labels = self.labels();
        let mut point = self.start(components);
        if let Some(classifier) = self.classifier() {
            for c in 0..labels {
                point.weight_precision[c] = draw_precision(classifier.weight_precision, 0, 0.0, rng)?;
                let precisions = classifier.precisions(point.weight_precision[c]);
                let own = &mut point.weights[c * precisions.len()..(c + 1) * precisions.len()];
                own.iter_mut().zip(precisions).for_each(|(w, p)| *w = normal(p, rng));
            }
        }
        match self {
            Self::Patterns(patterns) => point.patterns = patterns.draw(&patterns.start(components), rng)?,
            Self::Logit { patterns, .. } => {
                for c in 0..labels {
                    point.pattern_precision[c] = draw_precision(*patterns, 0, 0.0, rng)?;
                }
                let precisions = point.pattern_precision.iter().cycle();
                point.patterns.iter_mut().zip(precisions).for_each(|(b, &tau)| *b = normal(tau, rng));
            }
            Self::And { psi, .. } => {
                let prior = Beta::new(psi.0, psi.1)?;
                point.patterns.iter_mut().for_each(|p| *p = prior.sample_logit(rng));
            }
        }
        Ok(point)
    }
}

impl Point {
    /// Component `order[k]` becomes component k; one that was not there says nothing.
    pub(super) fn permute(&mut self, order: &[usize], labels: usize) {
        let (old, mut next) = (&self.patterns, vec![0.0; order.len() * labels]);
        for (next, &k) in next.chunks_exact_mut(labels).zip(order) {
            if let Some(old) = old.get(k * labels..(k + 1) * labels) {
                next.copy_from_slice(old);
            }
        }
        self.patterns = next;
    }
}
