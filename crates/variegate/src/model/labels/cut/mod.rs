//! Label patterns of components and linear classifiers, fitted apart: no joint posterior, but two.
//!
//! Components see labels through their patterns alone ([`Patterns`]); each label has a linear classifier ([`Classifier`]). Both have a
//! bound, and what is raised is the sum of the two. They meet when new rows are predicted (`stage.rs`). `by_rows.rs` is the form of
//! the classifiers with variances alone, for minibatches of rows with many columns, and `shared.rs` the one with Böhning's bound, whose one
//! matrix serves all labels.

mod by_rows;
mod shared;

pub(crate) use by_rows::Scratch as RowScratch;
pub(crate) use shared::Scratch as SharedScratch;

use serde::{Deserialize, Serialize};

use super::classifier::{self, Classifier};
use super::logit;
use super::patterns::{self, Patterns};
use crate::data::Panel;
use crate::{Result, merge_fields};

/// Priors of patterns and weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cut {
    /// Labels within components.
    pub(crate) patterns: Patterns,
    /// One of each label.
    pub(crate) classifier: Classifier,
}

/// q of both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Factors<W = logit::Factors> {
    pub(crate) patterns: patterns::Factors,
    /// Of no components.
    pub(crate) weights: W,
}

/// What rows need of both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct View<W = logit::View> {
    pub(crate) patterns: patterns::View,
    pub(crate) weights: W,
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
    classifier: classifier::Scratch,
    alone: Vec<f64>,
}

impl Cut {
    /// Before the first update.
    pub(crate) fn start(&self, components: usize) -> Factors {
        Factors { patterns: self.patterns.start(components), weights: self.classifier.start() }
    }

    /// What rows need.
    pub(crate) fn view(&self, q: &Factors) -> View {
        View { patterns: self.patterns.view(&q.patterns), weights: self.classifier.view(&q.weights) }
    }

    /// out (rows×K) += the patterns' terms, and the classifiers' bound, which is the same for every component.
    pub(crate) fn terms(&self, view: &View, panel: &mut Panel<'_>, y: &[i8], out: &mut [f64], scratch: &mut Scratch) {
        self.patterns.terms(&view.patterns, panel, y, out, &mut scratch.patterns);
        let alone = &mut scratch.alone;
        alone.clear();
        alone.resize(panel.rows(), 0.0);
        self.classifier.terms(&view.weights, panel, y, &[], alone, &mut scratch.classifier);
        add_to_all(alone, out);
    }

    /// Adds what rows with responsibilities r say; every row counts once for the classifiers.
    pub(crate) fn add(&self, view: &View, panel: &mut Panel<'_>, y: &[i8], r: &[f64], stats: &mut Stats, scratch: &mut Scratch) {
        self.patterns.add(&view.patterns, panel, y, r, &mut stats.patterns, &mut scratch.patterns);
        self.classifier.add(&view.weights, panel, y, &[], &mut stats.weights, &mut scratch.classifier);
    }

    /// Probabilities of the labels of new rows by their classifiers alone, out (rows×C).
    pub(crate) fn classifier_probabilities(&self, view: &View, panel: &mut Panel<'_>, out: &mut [f64], scratch: &mut Scratch) {
        self.classifier.probabilities(&view.weights, panel, out, &mut scratch.classifier);
    }

    /// The global step from sums.
    pub(crate) fn update(&self, q: &mut Factors, stats: &Stats) -> Result<()> {
        self.patterns.update(&mut q.patterns, &stats.patterns)?;
        self.classifier.update(&mut q.weights, &stats.weights)
    }

    /// Divergence of both from their priors.
    pub(crate) fn divergence(&self, q: &Factors) -> f64 {
        self.patterns.divergence(&q.patterns) + self.classifier.divergence(&q.weights)
    }

    /// Both bounds from sums.
    pub(crate) fn value(&self, q: &Factors, stats: &Stats) -> f64 {
        self.patterns.value(&q.patterns, &stats.patterns) + self.classifier.value(&q.weights, &stats.weights)
    }
}

/// Adds a number of each row to its numbers of all components.
fn add_to_all(alone: &[f64], out: &mut [f64]) {
    let components = out.len() / alone.len().max(1);
    for (out, value) in out.chunks_exact_mut(components.max(1)).zip(alone) {
        out.iter_mut().for_each(|o| *o += *value);
    }
}

impl<W> Factors<W> {
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
