//! Classifiers with variances alone, for more columns than matrices can have: see [`Rowwise`], here without its patterns.

use super::super::logit::{Rowwise, rowwise};
use super::super::patterns;
use super::{Cut, Factors, Stats, View, add_to_all};
use crate::Result;
use crate::data::Panel;

/// Buffers, reused from block to block.
#[derive(Default)]
pub(crate) struct Scratch {
    patterns: patterns::Scratch,
    weights: rowwise::Scratch,
    alone: Vec<f64>,
    curvatures: Vec<f64>,
    responses: Vec<f64>,
}

impl Cut {
    fn rowwise(&self) -> Rowwise {
        Rowwise { prior: self.classifier.prior.clone() }
    }

    /// As [`Cut::start`].
    pub(crate) fn start_by_rows(&self, components: usize) -> Factors<rowwise::Factors> {
        Factors { patterns: self.patterns.start(components), weights: self.rowwise().start(0) }
    }

    /// As [`Cut::view`].
    pub(crate) fn view_by_rows(&self, q: &Factors<rowwise::Factors>) -> View<rowwise::View> {
        View { patterns: self.patterns.view(&q.patterns), weights: self.rowwise().view(&q.weights) }
    }

    /// As [`Cut::terms`].
    pub(crate) fn terms_by_rows(
        &self,
        view: &View<rowwise::View>,
        panel: &mut Panel<'_>,
        y: &[i8],
        out: &mut [f64],
        scratch: &mut Scratch,
    ) {
        self.patterns.terms(&view.patterns, panel, y, out, &mut scratch.patterns);
        self.rowwise().moments(&view.weights, panel, &mut scratch.weights);
        scratch.alone.clear();
        scratch.alone.resize(panel.rows(), 0.0);
        self.classifier.terms_at(scratch.weights.found(), y, &[], &mut scratch.alone);
        add_to_all(&scratch.alone, out);
    }

    /// As [`Cut::add`]: rows are handed over instead of the sums of weights.
    pub(crate) fn add_by_rows(
        &self,
        view: &View<rowwise::View>,
        panel: &mut Panel<'_>,
        y: &[i8],
        r: &[f64],
        (stats, rows): (&mut Stats, &mut rowwise::Stats),
        scratch: &mut Scratch,
    ) {
        self.patterns.add(&view.patterns, panel, y, r, &mut stats.patterns, &mut scratch.patterns);
        let weights = self.rowwise();
        weights.moments(&view.weights, panel, &mut scratch.weights);
        let Scratch { weights: found, curvatures, responses, .. } = scratch;
        self.classifier.tangents_at(found.found(), y, (curvatures, responses));
        weights.hand_over(curvatures, responses, rows, found);
    }

    /// As [`Cut::update`]; the weights stay where no rows were handed over.
    pub(crate) fn update_by_rows(&self, q: &mut Factors<rowwise::Factors>, stats: &Stats, rows: &rowwise::Stats) -> Result<()> {
        if !rows.steps.is_empty() {
            self.rowwise().update(&mut q.weights, rows);
        }
        self.patterns.update(&mut q.patterns, &stats.patterns)
    }

    /// Room for labels up to that many, their posterior being the prior.
    pub(crate) fn add_labels_by_rows(&self, q: &mut Factors<rowwise::Factors>) {
        q.weights.add_labels(&self.rowwise());
    }

    /// As [`Cut::classifier_probabilities`].
    pub(crate) fn classifier_probabilities_by_rows(
        &self,
        view: &View<rowwise::View>,
        panel: &mut Panel<'_>,
        out: &mut [f64],
        scratch: &mut Scratch,
    ) {
        self.rowwise().moments(&view.weights, panel, &mut scratch.weights);
        self.classifier.probabilities_at(scratch.weights.found(), out);
    }
}
