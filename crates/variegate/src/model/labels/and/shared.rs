//! Weights with Böhning's bound, for many columns and labels that are known together: see [`SharedBohning`], here without its patterns.
//!
//! The bound of ln σ(±f) keeps σ(f)/σ(−f) = e^f, so that q(a, h | k) is found as in `rows.rs`; what it says of the variance of f is the same for
//! h = 0 and h = 1 and drops out of it.

use super::super::bound::bohning;
use super::super::logit::SharedBohning;
use super::super::logit::shared::{self, Basis};
use super::rows::expected_sigmoids;
use super::{And, Factors, Stats, View};
use crate::Result;
use crate::data::Panel;

/// Buffers, reused from block to block.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    weights: shared::Scratch,
    curvatures: Vec<f64>,
    responses: Vec<f64>,
}

impl And {
    /// The weights alone.
    pub(crate) fn shared(&self) -> SharedBohning {
        SharedBohning { prior: self.weights.clone() }
    }

    /// As [`And::start`].
    pub(crate) fn start_shared(&self, components: usize) -> Factors<shared::Factors> {
        self.start_with(self.shared().start(0), components)
    }

    /// As [`And::view`].
    pub(crate) fn view_shared(&self, q: &Factors<shared::Factors>) -> View<shared::View> {
        q.view_with(self.shared().view(&q.weights))
    }

    /// As [`And::terms`], but for the variances of rows.
    pub(crate) fn terms_shared(&self, view: &View<shared::View>, panel: &mut Panel<'_>, y: &[i8], out: &mut [f64], scratch: &mut Scratch) {
        let points = self.shared().points(&view.weights, panel, &mut scratch.weights);
        self.terms_at(view, points, y, out);
    }

    /// As [`And::add`].
    pub(crate) fn add_shared(
        &self,
        view: &View<shared::View>,
        panel: &mut Panel<'_>,
        y: &[i8],
        r: &[f64],
        (stats, sums): (&mut Stats, &mut shared::Stats),
        scratch: &mut Scratch,
    ) {
        let weights = self.shared();
        let Scratch { weights: found, curvatures, responses } = scratch;
        let points = weights.points(&view.weights, panel, found);
        self.add_at(view, points, y, r, stats, (curvatures, responses), |f, _| bohning(1.0, f));
        let offset = std::mem::take(&mut stats.weights.offset.0);
        weights.add_alone(panel, y, responses, offset, sums);
    }

    /// As [`And::update`].
    pub(crate) fn update_shared(
        &self,
        q: &mut Factors<shared::Factors>,
        (stats, sums): (&Stats, &shared::Stats),
        basis: &Basis,
    ) -> Result<()> {
        self.shared().update(&mut q.weights, sums, basis)?;
        self.update_patterns(q, stats);
        Ok(())
    }

    /// As [`And::divergence`].
    pub(crate) fn divergence_shared(&self, q: &Factors<shared::Factors>) -> f64 {
        self.shared().divergence(&q.weights) + self.divergence_of_patterns(q)
    }

    /// As [`And::value`].
    pub(crate) fn value_shared(&self, q: &Factors<shared::Factors>, (stats, sums): (&Stats, &shared::Stats), basis: &Basis) -> f64 {
        self.shared().value(&q.weights, sums, basis) + stats.entropy.0 + Self::value_of_patterns(q, stats)
    }

    /// As [`And::classifier_probabilities`].
    pub(crate) fn classifier_probabilities_shared(
        &self,
        q: &Factors<shared::Factors>,
        basis: &Basis,
        panel: &mut Panel<'_>,
        out: &mut [f64],
        scratch: &mut Scratch,
    ) {
        expected_sigmoids(self.shared().scores(&q.weights, basis, panel, &mut scratch.weights), out);
    }
}
