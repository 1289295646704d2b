//! q of a whole tree, and what follows from it.

use serde::{Deserialize, Serialize};

use super::layout::Layout;
use super::leaf::{GaussianLeaf, LeafMoments};
use super::node::{Moments, Node};
use super::pass::ask::View;
use crate::data::split::Fold;
use crate::linalg::NotPositiveDefinite;

/// q of all nodes and leaves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Factors {
    /// Nodes of the tree.
    pub(crate) nodes: Vec<Node>,
    /// Gaussian leaves.
    pub(crate) leaves: Vec<GaussianLeaf>,
}

/// What follows from the precisions of all nodes and leaves.
#[derive(Debug, Clone)]
pub(crate) struct TreeMoments {
    /// Of the nodes.
    pub(crate) nodes: Vec<Moments>,
    /// Of the leaves.
    pub(crate) leaves: Vec<LeafMoments>,
}

impl Factors {
    /// Moments of all nodes and leaves.
    pub(crate) fn moments(&self, layout: &Layout, basis: &[f64], beta: f64) -> Result<TreeMoments, NotPositiveDefinite> {
        Ok(TreeMoments {
            nodes: self.nodes.iter().zip(&layout.nodes).map(|(n, l)| n.moments(l, basis, beta)).collect::<Result<_, _>>()?,
            leaves: self.leaves.iter().map(GaussianLeaf::moments).collect::<Result<_, _>>()?,
        })
    }

    /// What rows need to know.
    pub(crate) fn view(&self, layout: &Layout, moments: &TreeMoments, basis: &[f64], beta: f64, fold: Option<Fold>) -> View<'static> {
        let mean: Vec<f64> = self.nodes.iter().flat_map(|n| &n.mean).chain(self.leaves.iter().flat_map(|l| &l.mean)).copied().collect();
        let nodes = moments.nodes.iter().zip(&layout.nodes).filter(|(_, l)| l.forms > 0).flat_map(|(m, _)| &m.forms);
        let forms: Vec<f64> = nodes.chain(moments.leaves.iter().flat_map(|m| &m.form)).copied().collect();
        let constants = self.leaves.iter().map(|l| (0..l.rates.len()).map(|q| l.constant(q)).sum::<f64>());
        let precisions = self.leaves.iter().flat_map(|l| (0..l.rates.len()).map(|q| l.noise_precision(q)));
        let noise: Vec<f64> = constants.chain(precisions).chain(self.leaves.iter().map(|l| l.shape)).collect();
        View { mean: mean.into(), forms: forms.into(), noise: noise.into(), basis: basis.to_vec().into(), beta, fold }
    }
}
