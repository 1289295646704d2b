//! Weights of nodes: numbers of tables bottom-up, Dirichlet draws top-down.
//!
//! Customers `n_zk` of a node are its rows of atom k (at a leaf) or the tables of its children; its tables are
//! `t_zk ~ CRT(n_zk, gamma beta_parent,k)`. Then `beta_root ~ Dir(M, gamma0)` with `M` the tables of level 1 (`Dir(gamma0/K + M)` in a finite
//! mixture), and `beta_z ~ Dir(gamma beta_parent + n_z)`, the rest having no customers. Raw counts of rows in place of tables would
//! take every row for a table of its own at every level.

use super::super::arena::{NONE, ROOT};
use super::super::draw::{dirichlet, tables};
use super::super::state::{REST, column};
use super::Sampler;
use crate::run::Philox;

impl Sampler<'_> {
    /// Customers of leaves; none anywhere else.
    pub(super) fn count_leaves(&mut self) {
        let (slots, width) = (self.state.arena.slots(), self.state.weights.width());
        for grid in [&mut self.work.customers, &mut self.work.tables] {
            grid.clear();
            grid.fit(slots, width);
        }
        for (&leaf, &atom) in self.state.leaf.iter().zip(&self.state.atom).filter(|(leaf, _)| **leaf != NONE) {
            self.work.customers.row_mut(leaf)[column(atom)] += 1;
        }
    }

    /// Tables of the nodes of a level, who are customers of the nodes above.
    pub(super) fn draw_tables(&mut self, level: usize, rng: &mut Philox) {
        let gamma = self.state.concentrations.gamma[level - 1];
        for &node in self.state.arena.at_level(level) {
            let parent = self.state.arena.parent(node);
            let above = self.state.weights.row(parent);
            let (own, up) = self.work.customers.pair(node, parent);
            let drawn = self.work.tables.row_mut(node);
            for k in 1..own.len() {
                drawn[k] = if own[k] > 0 { tables(own[k], gamma * above[k], rng) } else { 0 };
                up[k] += drawn[k];
            }
        }
    }

    /// All weights given tables.
    pub(in super::super) fn draw_weights(&mut self, rng: &mut Philox) {
        let customers = &self.work.customers;
        self.state.weights.fit(self.state.arena.slots(), customers.width());
        let gamma0 = self.state.concentrations.gamma0;
        let atoms = self.state.size.len();
        let root = self.state.weights.row_mut(ROOT);
        let each = if self.state.finite { gamma0 / atoms as f64 } else { 0.0 };
        root.fill(0.0);
        root[REST] = if self.state.finite { 0.0 } else { gamma0 };
        for (k, &n) in customers.row(ROOT).iter().enumerate().skip(1).take(atoms) {
            root[k] = each + f64::from(n);
        }
        dirichlet(root, rng);
        for level in 1..=self.state.arena.depth() {
            let gamma = self.state.concentrations.gamma[level - 1];
            for &node in self.state.arena.at_level(level) {
                let (above, own) = self.state.weights.pair(self.state.arena.parent(node), node);
                for ((own, above), &n) in own.iter_mut().zip(above).zip(customers.row(node)) {
                    *own = gamma * above + f64::from(n);
                }
                dirichlet(own, rng);
            }
        }
    }
}
