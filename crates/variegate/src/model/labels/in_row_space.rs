//! Couplings whose weights are found in the space that rows span, where rows are fewer than columns.
//!
//! They are the couplings of whole covariances, with coordinates of rows in place of columns: all that is done to rows and to sums is done by
//! their own code. What is beside it is here, and in `../linear/row_space/`.

use super::and::And;
use super::classifier::Classifier;
use super::cut::Cut;
use super::label_part::{LabelFactors, LabelPart, LabelView};
use super::logit::{self, Logit};
use super::row_space::Beyond;
use crate::data::Block;

impl LabelPart {
    /// The same with weights in the space that so many rows span; the coupling must keep whole covariances.
    pub(crate) fn in_row_space(self, rows: usize) -> Self {
        let mut part = self;
        let beyond = match &mut part {
            Self::Logit(weights)
            | Self::And(And { weights, .. })
            | Self::Cut(Cut { classifier: Classifier { prior: weights, .. }, .. }) => {
                let (beyond, inner) = Beyond::split(rows, weights.clone());
                *weights = inner;
                beyond
            }
            Self::Shared(_) | Self::Rowwise(_) | Self::InRowSpace(_) => return part,
        };
        Self::InRowSpace(Box::new((part, beyond)))
    }

    /// Prior of the weights.
    pub(crate) fn weights(&self) -> &Logit {
        match self {
            Self::Logit(p) => p,
            Self::Shared(p) => &p.prior,
            Self::Rowwise(p) => &p.prior,
            Self::And(p) => &p.weights,
            Self::Cut(p) => &p.classifier.prior,
            Self::InRowSpace(p) => p.0.weights(),
        }
    }

    /// The coupling, wherever its weights are.
    pub(crate) fn coupling(&self) -> &Self {
        match self {
            Self::InRowSpace(p) => &p.0,
            other => other,
        }
    }

    /// Coordinates of the rows of a block and how many each has, where weights are in the space that rows span.
    pub(crate) fn coordinates<'a>(&self, view: &'a LabelView, block: &Block<'_>) -> Option<(&'a [f64], usize)> {
        let LabelView::InRowSpace(v) = view else { return None };
        let (first, size) = (block.first_row as usize, self.weights().columns());
        Some((&v.1[first * size..(first + block.rows()) * size], size))
    }
}

impl LabelFactors {
    /// The factors, wherever the weights are.
    pub(crate) fn coupling(&self) -> &Self {
        match self {
            Self::InRowSpace(q) => &q.0,
            other => other,
        }
    }

    /// Whole covariances of weights.
    pub(super) fn weights(&self) -> &logit::Factors {
        match self {
            Self::Logit(q) => q,
            Self::And(q) => &q.weights,
            Self::Cut(q) => &q.weights,
            _ => unreachable!("a row space is for whole covariances"),
        }
    }

    /// The same, to be changed.
    pub(super) fn weights_mut(&mut self) -> &mut logit::Factors {
        match self {
            Self::Logit(q) => q,
            Self::And(q) => &mut q.weights,
            Self::Cut(q) => &mut q.weights,
            _ => unreachable!("a row space is for whole covariances"),
        }
    }

    /// Means and variances of the weights of all columns beside the bias (C×columns), where they are kept in coordinates of rows.
    pub(crate) fn of_columns(&self, part: &LabelPart) -> Option<(Vec<f64>, Vec<f64>)> {
        let Self::InRowSpace(q) = self else { return None };
        let ((q, space), prior) = (&**q, part.weights());
        space.as_ref().map(|space| (space.means(prior, q.weights()), space.variances(prior, q.weights())))
    }
}
