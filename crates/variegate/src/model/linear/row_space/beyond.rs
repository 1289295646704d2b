//! Directions beyond the coordinates, of which the data say nothing.

use serde::{Deserialize, Serialize};

use super::super::gamma_factor::Precision;
use super::super::logit::{Factors, Logit};
use super::super::normal_factor::diagonal;
use super::count_of;
use crate::data::design::packed_len;

/// So many directions that no coordinate stands for. Weights along them have mean 0 and the variance of the last coordinate: that of the prior
/// whose precision the last update was made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Beyond {
    directions: usize,
}

impl Beyond {
    /// The prior of weights in coordinates of so many rows, and what lies beyond them.
    pub(crate) fn split(rows: usize, prior: Logit) -> (Self, Logit) {
        let coordinates = count_of(rows);
        let beyond = Self { directions: prior.columns() - coordinates };
        let dim = coordinates + prior.intercept as usize;
        (beyond, Logit { dim, ..prior })
    }

    /// Number of columns beside the bias, given the prior in coordinates.
    pub(crate) fn columns(&self, prior: &Logit) -> usize {
        prior.columns() + self.directions
    }

    /// Variance of a label's weights along them.
    fn variance(prior: &Logit, q: &Factors, c: usize) -> f64 {
        let size = packed_len(prior.dim + q.components);
        q.covariance[c * size + diagonal(prior.columns() - 1)]
    }

    /// After an update of the coordinates: q(τ_w) of all columns.
    pub(crate) fn update(&self, prior: &Logit, q: &mut Factors) {
        let Precision::Learned(_) = prior.weight_precision else { return };
        for c in 0..prior.labels {
            let squares = self.directions as f64 * Self::variance(prior, q, c);
            let tau = &mut q.weight_precision[c];
            (tau.shape, tau.rate) = (tau.shape + 0.5 * self.directions as f64, tau.rate + 0.5 * squares);
        }
    }

    /// KL divergence of the weights along them from their prior; of a point −E ln p(w | τ) without its constant.
    pub(crate) fn divergence(&self, prior: &Logit, q: &Factors) -> f64 {
        let of_label = |c: usize| {
            let (v, tau) = (Self::variance(prior, q, c), q.weight_precision[c]);
            let (mean, mean_ln) = (prior.weight_precision.mean(tau), prior.weight_precision.mean_ln(tau));
            let normal = if v > 0.0 { mean * v - v.ln() - 1.0 } else { 0.0 };
            0.5 * self.directions as f64 * (normal - mean_ln)
        };
        (0..prior.labels).map(of_label).sum()
    }
}
