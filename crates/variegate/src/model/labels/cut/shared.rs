//! Classifiers with Böhning's bound, for many columns and labels that are known together: see [`SharedBohning`], here without its patterns. They
//! are logistic, and every row counts once.

use super::super::logit::SharedBohning;
use super::super::logit::shared::{self, Basis};
use super::super::patterns;
use super::{Cut, Factors, Stats, View, add_to_all};
use crate::Result;
use crate::data::Panel;

/// Buffers, reused from block to block.
#[derive(Default)]
pub(crate) struct Scratch {
    patterns: patterns::Scratch,
    weights: shared::Scratch,
    alone: Vec<f64>,
    curvatures: Vec<f64>,
    responses: Vec<f64>,
}

impl Cut {
    /// The classifiers alone.
    pub(crate) fn shared(&self) -> SharedBohning {
        SharedBohning { prior: self.classifier.prior.clone() }
    }

    /// As [`Cut::start`].
    pub(crate) fn start_shared(&self, components: usize) -> Factors<shared::Factors> {
        Factors { patterns: self.patterns.start(components), weights: self.shared().start(0) }
    }

    /// As [`Cut::view`].
    pub(crate) fn view_shared(&self, q: &Factors<shared::Factors>) -> View<shared::View> {
        View { patterns: self.patterns.view(&q.patterns), weights: self.shared().view(&q.weights) }
    }

    /// As [`Cut::terms`], but for the variances of rows.
    pub(crate) fn terms_shared(&self, view: &View<shared::View>, panel: &mut Panel<'_>, y: &[i8], out: &mut [f64], scratch: &mut Scratch) {
        self.patterns.terms(&view.patterns, panel, y, out, &mut scratch.patterns);
        scratch.alone.clear();
        scratch.alone.resize(panel.rows(), 0.0);
        let points = self.shared().points(&view.weights, panel, &mut scratch.weights);
        self.classifier.terms_at(points, y, &[], &mut scratch.alone);
        add_to_all(&scratch.alone, out);
    }

    /// As [`Cut::add`].
    pub(crate) fn add_shared(
        &self,
        view: &View<shared::View>,
        panel: &mut Panel<'_>,
        y: &[i8],
        r: &[f64],
        (stats, sums): (&mut Stats, &mut shared::Stats),
        scratch: &mut Scratch,
    ) {
        self.patterns.add(&view.patterns, panel, y, r, &mut stats.patterns, &mut scratch.patterns);
        let weights = self.shared();
        let Scratch { weights: found, curvatures, responses, .. } = scratch;
        let points = weights.points(&view.weights, panel, found);
        let offset = self.classifier.tangents_at(points, y, (curvatures, responses));
        weights.add_alone(panel, y, responses, offset, sums);
    }

    /// As [`Cut::update`].
    pub(crate) fn update_shared(
        &self,
        q: &mut Factors<shared::Factors>,
        (stats, sums): (&Stats, &shared::Stats),
        basis: &Basis,
    ) -> Result<()> {
        self.patterns.update(&mut q.patterns, &stats.patterns)?;
        self.shared().update(&mut q.weights, sums, basis)
    }

    /// As [`Cut::divergence`].
    pub(crate) fn divergence_shared(&self, q: &Factors<shared::Factors>) -> f64 {
        self.patterns.divergence(&q.patterns) + self.shared().divergence(&q.weights)
    }

    /// As [`Cut::value`].
    pub(crate) fn value_shared(&self, q: &Factors<shared::Factors>, (stats, sums): (&Stats, &shared::Stats), basis: &Basis) -> f64 {
        self.patterns.value(&q.patterns, &stats.patterns) + self.shared().value(&q.weights, sums, basis)
    }

    /// As [`Cut::classifier_probabilities`].
    pub(crate) fn classifier_probabilities_shared(
        &self,
        q: &Factors<shared::Factors>,
        basis: &Basis,
        panel: &mut Panel<'_>,
        out: &mut [f64],
        scratch: &mut Scratch,
    ) {
        let found = self.shared().scores(&q.weights, basis, panel, &mut scratch.weights);
        self.classifier.probabilities_at(found, out);
    }
}
