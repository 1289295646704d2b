//! What the variational program is told once.

use super::layout::{Layout, Shape};
use super::leaf::LeafPrior;
use super::policy::Search;
use super::tree::{Coding, Emission, Tree};
use crate::data::Design;
use crate::data::split::Fold;
use crate::run::Block;

/// The program: everything that its sweeps and visits read. Rows are visited in `pass/`, and `vb.rs` has the sweep.
#[derive(Debug, Clone)]
pub(crate) struct Vb {
    /// From raw rows to design rows.
    pub(crate) design: Design,
    /// What leaves emit.
    pub(crate) outcome: Emission,
    /// Bound, covariance and prior of nodes.
    pub(crate) shape: Shape,
    /// Coding of nodes with two children.
    pub(crate) binary: Coding,
    /// Prior of Gaussian leaves.
    pub(crate) leaf: LeafPrior,
    /// Factor of the weight of each class; empty for ones.
    pub(crate) class_weight: Vec<f64>,
    /// Total weight of the rows of each class, or of all rows for real outcomes.
    pub(crate) counts: Vec<f64>,
    /// Subtracted from each real outcome.
    pub(crate) y_mean: Vec<f64>,
    /// Divides each real outcome.
    pub(crate) y_scale: Vec<f64>,
    /// ρ of the search for a start.
    pub(crate) map_penalty: f64,
    /// Ascent ends when a sweep gains less than this (or than 1e-8 of the bound).
    pub(crate) tol: f64,
    /// Whether ascents are annealed.
    pub(crate) anneal: bool,
    /// Which structures are tried, and how one is chosen.
    pub(crate) search: Search,
}

impl Vb {
    /// Layout of a tree.
    pub(crate) fn layout(&self, tree: &Tree) -> Layout {
        Layout::new(tree, &self.shape, self.outcome, self.design.dim())
    }

    /// Layout of a tree for predictions.
    pub(crate) fn predicting(&self, tree: &Tree) -> Layout {
        Layout::for_prediction(tree, &self.shape, self.outcome, self.design.dim())
    }

    /// Weight of a row: its own, its class's, and nothing in a fold that is left out.
    pub(super) fn weight(&self, block: &Block<'_>, i: usize, fold: Option<Fold>) -> f64 {
        if fold.is_some_and(|f| f.holds(block.first_row + i as u64)) {
            return 0.0;
        }
        let class = if self.class_weight.is_empty() { 1.0 } else { self.class_weight[block.y.classes()[i] as usize] };
        block.weight(i) * class
    }

    /// ln of what real outcomes are divided by, all together.
    pub(crate) fn ln_scale(&self) -> f64 {
        self.y_scale.iter().map(|s| s.ln()).sum()
    }

    pub(super) fn outcomes<'a>(&'a self, block: &Block<'a>) -> Outcomes<'a> {
        Outcomes { values: block.y.real(), mean: &self.y_mean, scale: &self.y_scale }
    }
}

/// Real outcome of a row, standardised.
pub(super) struct Outcomes<'a> {
    values: &'a [f64],
    mean: &'a [f64],
    scale: &'a [f64],
}

impl Outcomes<'_> {
    pub(super) fn get(&self, row: usize, q: usize) -> f64 {
        (self.values[row * self.mean.len() + q] - self.mean[q]) / self.scale[q]
    }

    /// What is left of a row beside what each leaf and output says of it.
    pub(super) fn residuals(&self, row: usize, leaves: &[f64], out: &mut [f64]) {
        for (at, (e, m)) in out.iter_mut().zip(leaves).enumerate() {
            *e = self.get(row, at % self.mean.len()) - m;
        }
    }
}

/// Class of a row; 0 for real outcomes.
pub(super) fn class_of(block: &Block<'_>, row: usize) -> u32 {
    block.y.classes().get(row).copied().unwrap_or(0)
}
