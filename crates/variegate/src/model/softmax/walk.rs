//! One row through the tree: from the leaves up to what the row says of the whole, and back down to the share each path has in it.
//!
//! With t_c = z_c + A_c for every child (A_c = 0 or −∞ for a leaf of the right or a wrong class, the log density for a Gaussian leaf),
//! A_v = ln Σ_c exp t_c − Φ_v and the share of a child is R_v exp(t_c − Φ_v − A_v). With Φ a bound of the expected
//! log-sum-exp this is the best distribution over whole paths; with Φ the log-sum-exp itself it is the exact posterior.

use super::layout::Layout;
use super::tree::{Child, Leaf};

/// Buffers of a walk. `z`, `phi` and (where leaves are Gaussian) `density` are filled in by the caller.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    /// Logits of all nodes.
    pub(crate) z: Vec<f64>,
    /// ∂Φ/∂z of all nodes.
    pub(crate) slope: Vec<f64>,
    /// Share of each child in the row.
    pub(crate) share: Vec<f64>,
    /// Φ of each node.
    pub(crate) phi: Vec<f64>,
    /// Log density of each Gaussian leaf.
    pub(crate) density: Vec<f64>,
    /// Share of each node.
    pub(crate) reach: Vec<f64>,
    /// Share of each leaf.
    pub(crate) leaf: Vec<f64>,
    up: Vec<f64>,
}

impl Walk {
    /// Makes room for a tree.
    pub(crate) fn resize(&mut self, layout: &Layout) {
        for buffer in [&mut self.z, &mut self.slope, &mut self.share] {
            buffer.resize(layout.logits, 0.0);
        }
        for buffer in [&mut self.phi, &mut self.up, &mut self.reach] {
            buffer.resize(layout.nodes.len(), 0.0);
        }
        self.density.resize(layout.gaussians(), 0.0);
        self.leaf.resize(layout.leaves.len(), 0.0);
    }

    fn below(&self, layout: &Layout, child: Child, class: u32) -> f64 {
        match child {
            Child::Node(node) => self.up[node],
            Child::Leaf(leaf) => match layout.leaves[leaf] {
                Leaf::Gaussian => self.density[leaf],
                Leaf::Class(emitted) if emitted == class => 0.0,
                Leaf::Class(_) => f64::NEG_INFINITY,
            },
        }
    }

    /// Up: A of the root, for a row of this class (any number where leaves are Gaussian). β is the inverse temperature.
    pub(crate) fn up(&mut self, layout: &Layout, class: u32, beta: f64) -> f64 {
        for (v, node) in layout.nodes.iter().enumerate().rev() {
            self.up[v] = if let Some(own) = &node.own {
                let own = &own[class as usize];
                match own[..] {
                    [] => f64::NEG_INFINITY,
                    [only] => self.z[node.first_logit + only] - self.phi[v],
                    _ => tempered(own.iter().map(|c| self.z[node.first_logit + c]), beta) - self.phi[v],
                }
            } else {
                let terms =
                    node.children.iter().enumerate().map(|(c, child)| self.z[node.first_logit + c] + self.below(layout, *child, class));
                tempered(terms, beta) - self.phi[v]
            };
        }
        self.below(layout, layout.root, class)
    }

    /// Down: shares of nodes, children and leaves. Needs [`Walk::up`] before it.
    pub(crate) fn down(&mut self, layout: &Layout, class: u32, beta: f64) {
        match layout.root {
            Child::Node(_) => self.reach[0] = 1.0,
            Child::Leaf(leaf) => self.leaf[leaf] = 1.0,
        }
        for (v, node) in layout.nodes.iter().enumerate() {
            let reach = self.reach[v];
            let base = self.phi[v] + self.up[v];
            if let Some(own) = &node.own {
                self.share[node.at_logits()].fill(0.0);
                let own = &own[class as usize];
                for &c in own {
                    let share = match own[..] {
                        [_] => reach,
                        _ if reach == 0.0 => 0.0,
                        _ => reach * (beta * (self.z[node.first_logit + c] - base)).exp(),
                    };
                    self.share[node.first_logit + c] = share;
                }
                for (c, child) in node.children.iter().enumerate() {
                    if let Child::Leaf(leaf) = child {
                        self.leaf[*leaf] = self.share[node.first_logit + c];
                    }
                }
                continue;
            }
            for (c, child) in node.children.iter().enumerate() {
                let at = node.first_logit + c;
                let share = if reach == 0.0 { 0.0 } else { reach * (beta * (self.z[at] + self.below(layout, *child, class) - base)).exp() };
                self.share[at] = share;
                match child {
                    Child::Node(node) => self.reach[*node] = share,
                    Child::Leaf(leaf) => self.leaf[*leaf] = share,
                }
            }
        }
    }
}

/// (1/β) ln Σ exp βt.
fn tempered(terms: impl Iterator<Item = f64> + Clone, beta: f64) -> f64 {
    let top = terms.clone().fold(f64::NEG_INFINITY, f64::max);
    if top == f64::NEG_INFINITY {
        return top;
    }
    top + terms.map(|t| (beta * (t - top)).exp()).sum::<f64>().ln() / beta
}
