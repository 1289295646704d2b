//! What rows are asked and what they report.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use super::super::tree::Tree;
use crate::data::split::Fold;
use crate::merge_fields;
use crate::model::gathered::Gathered;
use crate::run::Sum;

/// What the rows need to know of q.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct View<'a> {
    /// Means of all units, then of the linear models of the leaves, one a row.
    pub(crate) mean: Cow<'a, [f64]>,
    /// Quadratic forms of all nodes, then of the leaves.
    pub(crate) forms: Cow<'a, [f64]>,
    /// Σ_q ½(E ln τ_q − ln 2π) of each leaf, then E τ_q of each leaf and output, then the shape of q(τ) of each leaf.
    pub(crate) noise: Cow<'a, [f64]>,
    /// Basis of low-rank covariances, one direction a row; empty without them.
    pub(crate) basis: Cow<'a, [f64]>,
    /// Inverse temperature.
    pub(crate) beta: f64,
    /// Rows to leave out.
    pub(crate) fold: Option<Fold>,
}

/// A tree and a q of its weights.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct AtQ<'a> {
    pub(crate) tree: Cow<'a, Tree>,
    pub(crate) view: View<'a>,
}

/// What the rows are asked.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Ask<'a> {
    /// Log likelihood and gradient at these weights (and log noise precisions).
    Likelihood {
        /// The tree.
        tree: Cow<'a, Tree>,
        /// Its parameters, as `map.rs` lays them out.
        weights: Cow<'a, [f64]>,
        /// Rows to leave out.
        fold: Option<Fold>,
    },
    /// Bound, gradient and curvature at a q.
    Bound(AtQ<'a>),
    /// Products of the curvature at a q with one vector a unit.
    Products {
        at: AtQ<'a>,
        /// The vectors.
        vectors: Cow<'a, [f64]>,
    },
    /// Σ w x̃ (x̃ᵀp) for some vectors p.
    Spread {
        /// The vectors, one a row.
        probes: Cow<'a, [f64]>,
    },
    /// ½ Σ w x̃x̃ᵀ, packed.
    Gram {
        /// Rows to leave out.
        fold: Option<Fold>,
    },
    /// Some rows, chosen by a hash of their numbers.
    Gather {
        /// How many of each class (or in all, for real outcomes).
        each: usize,
        /// Names the choice.
        key: u64,
    },
    /// For each component, the sum of shares, of x̃ and of x̃x̃ᵀ weighted by them.
    Scatter {
        at: AtQ<'a>,
        /// The component of each leaf.
        components: Cow<'a, [usize]>,
    },
    /// Expected log likelihood under the exact softmax, by sampling.
    Tight {
        at: AtQ<'a>,
        /// Names the draws.
        key: u64,
    },
    /// Log loss and errors of the rows of the fold that q was fitted without, under posterior means of probabilities.
    HeldOut(AtQ<'a>),
    /// Log density of each row under the posterior of the others.
    Loo {
        at: AtQ<'a>,
        /// Names the draws.
        key: u64,
    },
}

/// What the rows report; which fields are filled in depends on the question.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct TreeStats {
    /// Curvature of all nodes, then Gram matrices of the leaves, as the forms are laid out.
    pub(crate) curvature: Sum<Vec<f64>>,
    /// Gradient of all units, then Σ r e x̃ of the leaves, one vector a row.
    pub(crate) gradient: Sum<Vec<f64>>,
    /// The rows' part of the objective.
    pub(crate) value: Sum<f64>,
    /// Sum of shares of each leaf.
    pub(crate) shares: Sum<Vec<f64>>,
    /// Σ r e² of each leaf and output.
    pub(crate) squares: Sum<Vec<f64>>,
    /// Rows that were asked for.
    pub(crate) gathered: Gathered,
}
merge_fields!(TreeStats, curvature, gradient, value, shares, squares, gathered);

/// What a block keeps from one visit of a sweep to the next: curvatures of its rows, for products with them. Made anew where
/// missing, so it is never saved.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Local {
    #[serde(skip)]
    pub(super) curvature: Vec<f64>,
}
