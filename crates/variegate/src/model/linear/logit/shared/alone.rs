//! Weights without patterns, whose linear terms come from elsewhere: the border is the bias alone.

use super::rows::Scratch;
use super::{Basis, Factors, SharedBohning, Stats, View, scale_columns};
use crate::data::Panel;
use crate::linalg;

impl SharedBohning {
    /// x̃ᵀm_w of all labels, and as many zeros (rows×C each): variances, which rows leave out of the bound.
    pub(crate) fn points<'a>(&self, view: &View, panel: &mut Panel<'_>, scratch: &'a mut Scratch) -> (&'a [f64], &'a [f64]) {
        let (labels, rows) = (self.prior.labels, panel.rows());
        let Scratch { means, alone, .. } = scratch;
        means.resize(rows * labels, 0.0);
        panel.mul_t(&view.weights, labels, means);
        alone.clear();
        alone.resize(rows * labels, 0.0);
        (means, alone)
    }

    /// Adds what labelled rows say that count once: their linear terms (rows×C, 0 where a row has no labels), and the sum of offsets.
    pub(crate) fn add_alone(&self, panel: &mut Panel<'_>, y: &[i8], responses: &[f64], offset: f64, stats: &mut Stats) {
        let (labels, dim) = (self.prior.labels, self.prior.dim);
        stats.cross.0.resize(dim, 0.0);
        stats.mass.0.resize(1, 0.0);
        stats.response.0.resize(labels * dim, 0.0);
        stats.offset.0 += offset;
        let quarters: Vec<f64> = y.chunks_exact(labels).map(|y| if y[0] >= 0 { 0.25 } else { 0.0 }).collect();
        stats.mass.0[0] += quarters.iter().sum::<f64>();
        panel.t_mul_add(&quarters, 1, &mut stats.cross.0);
        panel.t_mul_add(responses, labels, &mut stats.response.0);
    }

    /// Mean and variance of x̃ᵀw of new rows (rows×C each).
    pub(crate) fn scores<'a>(&self, q: &Factors, basis: &Basis, panel: &mut Panel<'_>, scratch: &'a mut Scratch) -> (&'a [f64], &'a [f64]) {
        let (labels, rows, columns) = (self.prior.labels, panel.rows(), self.prior.columns());
        self.alone(q, basis, panel, scratch);
        let Scratch { means, turned, alone, border, .. } = scratch;
        border.resize(rows, 0.0);
        // f given the bias has the variance found; the bias adds (1 − Ẽᵀ diag(j) Uᵀx)² times its own
        for (c, &variance) in q.border_covariance.iter().enumerate() {
            border.fill(0.0);
            if columns > 0 {
                let j: Vec<f64> = basis.values.iter().map(|l| 1.0 / (l + q.used_precision[c])).collect();
                linalg::mul_t(turned, &scale_columns(&q.turned, &j), border, rows, columns, 1, false);
            }
            for (s2, b) in alone.iter_mut().skip(c).step_by(labels).zip(border.iter()) {
                *s2 += variance * (1.0 - b) * (1.0 - b);
            }
        }
        (means, alone)
    }
}
