//! Weights with variances alone, for more columns than matrices can have: see [`Rowwise`], here without its patterns. Rows meet patterns as
//! in `rows.rs`.

use super::super::bound::jaakkola_jordan;
use super::super::logit::{Rowwise, rowwise};
use super::rows::expected_sigmoids;
use super::{And, Factors, Stats, View};
use crate::data::Panel;

/// Buffers, reused from block to block.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    weights: rowwise::Scratch,
    curvatures: Vec<f64>,
    responses: Vec<f64>,
}

impl And {
    fn rowwise(&self) -> Rowwise {
        Rowwise { prior: self.weights.clone() }
    }

    /// As [`And::start`].
    pub(crate) fn start_by_rows(&self, components: usize) -> Factors<rowwise::Factors> {
        self.start_with(self.rowwise().start(0), components)
    }

    /// As [`And::view`].
    pub(crate) fn view_by_rows(&self, q: &Factors<rowwise::Factors>) -> View<rowwise::View> {
        q.view_with(self.rowwise().view(&q.weights))
    }

    /// As [`And::terms`].
    pub(crate) fn terms_by_rows(
        &self,
        view: &View<rowwise::View>,
        panel: &mut Panel<'_>,
        y: &[i8],
        out: &mut [f64],
        scratch: &mut Scratch,
    ) {
        self.rowwise().moments(&view.weights, panel, &mut scratch.weights);
        self.terms_at(view, scratch.weights.found(), y, out);
    }

    /// As [`And::add`]: rows are handed over instead of the sums of weights.
    pub(crate) fn add_by_rows(
        &self,
        view: &View<rowwise::View>,
        panel: &mut Panel<'_>,
        y: &[i8],
        r: &[f64],
        (stats, rows): (&mut Stats, &mut rowwise::Stats),
        scratch: &mut Scratch,
    ) {
        let weights = self.rowwise();
        weights.moments(&view.weights, panel, &mut scratch.weights);
        let Scratch { weights: found, curvatures, responses } = scratch;
        self.add_at(view, found.found(), y, r, stats, (curvatures, responses), |f, s2| jaakkola_jordan(1.0, f * f + s2));
        weights.hand_over(curvatures, responses, rows, found);
    }

    /// As [`And::update`]; the weights stay where no rows were handed over.
    pub(crate) fn update_by_rows(&self, q: &mut Factors<rowwise::Factors>, stats: &Stats, rows: &rowwise::Stats) {
        if !rows.steps.is_empty() {
            self.rowwise().update(&mut q.weights, rows);
        }
        self.update_patterns(q, stats);
    }

    /// Room for labels up to that many, their posterior being the prior.
    pub(crate) fn add_labels_by_rows(&self, q: &mut Factors<rowwise::Factors>) {
        q.weights.add_labels(&self.rowwise());
    }

    /// As [`And::classifier_probabilities`].
    pub(crate) fn classifier_probabilities_by_rows(
        &self,
        view: &View<rowwise::View>,
        panel: &mut Panel<'_>,
        out: &mut [f64],
        scratch: &mut Scratch,
    ) {
        self.rowwise().moments(&view.weights, panel, &mut scratch.weights);
        expected_sigmoids(scratch.weights.found(), out);
    }
}
