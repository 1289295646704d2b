//! One row chooses its path and its atom anew, with its atom (if no other row has it) and the weights of its private nodes integrated out.
//!
//! Through any chain of Dirichlet variables `E[beta_leaf | beta_z] = beta_z`, so a row that opens a new branch below `z` has density
//! `g_z = sum_k beta_zk f_k + beta_z* f*` exactly: the infinitely many paths are one candidate a leaf,
//! `prod N_y/(N_parent + alpha) g_leaf`, and one an inner node, `prod N_y/(N_parent + alpha) alpha/(N_z + alpha) g_z`. Then the atom by the
//! weights of the node chosen, the weights of new nodes `Dir(gamma beta_parent + e_atom)`, and for a new atom its part of the
//! rest of every node, parents first: `Beta(1, gamma0)` at the root, `Beta(gamma beta_parent,new + [on the row's path],
//! gamma beta_parent,rest)` below.

use super::super::arena::{NONE, ROOT};
use super::super::draw::{beta, dirichlet};
use super::super::state::{REST, column};
use super::{PathMove, Sampler, Theta};
use crate::run::{Philox, open01};
use crate::{Error, Result};

/// A row that was taken out of the tree.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lifted {
    /// Its leaf.
    pub(super) leaf: u32,
    /// The highest node that it had for itself.
    pub(super) top: Option<u32>,
}

impl Sampler<'_> {
    /// Moves row `n`.
    pub(in super::super) fn row_step(&mut self, n: usize, rng: &mut Philox) -> Result<()> {
        let lifted = self.take_out(n);
        self.densities(n);
        let base = match lifted {
            Lifted { leaf, top: None } => leaf,
            Lifted { top: Some(top), .. } => self.state.arena.parent(top),
        };
        let (at, ln_else) = match self.rules.path_move {
            PathMove::Gibbs => (self.choose(n, rng)?, 0.0),
            PathMove::Prior => {
                let at = self.choose_by_prior(rng);
                // nothing but the densities differs between where it was and where it may go
                (at, (self.mass(at) / self.mass(base)).ln())
            }
        };
        if self.charges.is_some() {
            // private nodes that stay keep their scores, and have their weights drawn again
            let (at, leaf) = self.test_row(n, lifted, at, ln_else, rng).map_or((base, lifted.leaf), |leaf| (at, leaf));
            return self.put_in(n, at, leaf, rng);
        }
        let at = if ln_else == 0.0 || open01(rng).ln() < ln_else { at } else { base };
        if let Some(top) = lifted.top {
            self.state.arena.release(top, lifted.leaf);
        }
        let leaf = self.state.arena.branch(at);
        self.put_in(n, at, leaf, rng)
    }

    /// Puts a row that has no place yet, whatever the margin says of it.
    pub(super) fn insert(&mut self, n: usize, rng: &mut Philox) -> Result<()> {
        self.densities(n);
        let at = self.choose(n, rng)?;
        let leaf = self.state.arena.branch(at);
        self.draw_branch_scores(at, leaf, rng);
        self.put_in(n, at, leaf, rng)
    }

    /// The same whatever its cells are: from the prior.
    pub(super) fn insert_unseen(&mut self, n: usize, rng: &mut Philox) -> Result<()> {
        self.work.density.clear();
        self.work.density.resize(self.state.weights.width(), 1.0);
        let at = self.choose_by_prior(rng);
        let leaf = self.state.arena.branch(at);
        self.draw_branch_scores(at, leaf, rng);
        self.put_in(n, at, leaf, rng)
    }

    /// 1: the row leaves its atom and its path. An atom without rows goes into the rest at every node: it is no more known than
    /// any new one.
    pub(super) fn take_out(&mut self, n: usize) -> Lifted {
        let (leaf, atom) = (self.state.leaf[n], self.state.atom[n]);
        let top = self.state.arena.detach(leaf);
        self.count(n, atom, -1.0);
        if self.state.size[atom as usize] == 0 && !self.state.finite {
            self.state.merge_into_rest(atom);
        }
        (self.state.leaf[n], self.state.atom[n]) = (NONE, NONE);
        Lifted { leaf, top }
    }

    /// The same with its path as it is: the row chooses its atom alone.
    pub(super) fn atom_step(&mut self, n: usize, rng: &mut Philox) -> Result<()> {
        let Lifted { leaf, top } = self.take_out(n);
        let base = top.map_or(leaf, |top| self.state.arena.parent(top));
        self.densities_at(n, base);
        self.put_in(n, base, leaf, rng)
    }

    /// 2: densities of the row by column, relative to the largest that has weight.
    pub(super) fn densities(&mut self, n: usize) {
        self.densities_at(n, ROOT);
    }

    /// The same, relative to the largest that has weight at a node: where the row may take nothing that has none there.
    fn densities_at(&mut self, n: usize, node: u32) {
        let row = self.row(n);
        let (columns, width) = (self.state.size.len() + 1, self.state.weights.width());
        self.work.density.resize(width, 0.0);
        let (density, padding) = self.work.density.split_at_mut(columns);
        padding.fill(0.0);
        match self.rules.theta {
            Theta::Collapsed => self.kernel.ln_predictive_each(&self.work.prepared[..columns], row, density),
            Theta::Explicit => {
                density[REST] = self.kernel.ln_predictive_prepared(&self.work.prepared[REST], row);
                let (parameters, tau) = (self.kernel.parameters(), self.kernel.tau());
                for (k, density) in density[1..].iter_mut().enumerate() {
                    *density = if self.state.finite || self.state.size[k] > 0 {
                        tau * self.kernel.ln_density(&self.state.theta[k * parameters..][..parameters], row)
                    } else {
                        f64::NEG_INFINITY
                    };
                }
            }
        }
        // what has no weight at the root has none anywhere, and must not set the scale
        let weights = self.state.weights.row(node);
        let top = density.iter().zip(weights).filter(|(_, w)| **w > 0.0).fold(f64::NEG_INFINITY, |m, (&d, _)| m.max(d));
        for (d, &w) in density.iter_mut().zip(weights) {
            *d = if w > 0.0 { (*d - top).exp() } else { 0.0 };
        }
    }

    /// `g_z`, relative.
    #[inline]
    pub(super) fn mass(&self, node: u32) -> f64 {
        let (weights, density) = (self.state.weights.row(node), &self.work.density);
        let mut sums = [0.0; 4];
        for (w, f) in weights.chunks_exact(4).zip(density.chunks_exact(4)) {
            for i in 0..4 {
                sums[i] += w[i] * f[i];
            }
        }
        (sums[0] + sums[1]) + (sums[2] + sums[3])
    }

    /// 3: a leaf, or an inner node below which a new branch begins.
    pub(super) fn choose(&mut self, n: usize, rng: &mut Philox) -> Result<u32> {
        let depth = self.state.arena.depth();
        let slots = self.state.arena.slots();
        self.work.reach.resize(slots, 0.0);
        self.work.candidates.clear();
        self.work.running.clear();
        let mut total = 0.0;
        for level in 0..=depth {
            let (above, below) = (level.wrapping_sub(1), level);
            for i in 0..self.state.arena.at_level(level).len() {
                let node = self.state.arena.at_level(level)[i];
                let arena = &self.state.arena;
                let alpha = &self.state.concentrations.alpha;
                let rows = f64::from(arena.rows(node));
                let reach = if level == 0 {
                    1.0
                } else {
                    let parent = arena.parent(node);
                    self.work.reach[parent as usize] * rows / (f64::from(arena.rows(parent)) + alpha[above])
                };
                self.work.reach[node as usize] = reach;
                let prior = if level == depth { reach } else { reach * alpha[below] / (rows + alpha[below]) };
                total += prior * self.mass(node);
                self.work.candidates.push(node);
                self.work.running.push(total);
            }
        }
        if !(total > 0.0 && total.is_finite()) {
            return Err(Error::Numerical {
                what: "placing a row in the tree",
                sweep: 0,
                detail: format!(
                    "row {} has no density under any component nor under their prior (the sum is {total}): widen the prior, or look for extreme values in this row",
                    n + 1
                ),
            });
        }
        Ok(pick(&self.work.running, rng).map_or(ROOT, |place| self.work.candidates[place]))
    }

    /// The same by the nested Chinese restaurant alone.
    pub(super) fn choose_by_prior(&self, rng: &mut Philox) -> u32 {
        let arena = &self.state.arena;
        let mut at = ROOT;
        while arena.level(at) < arena.depth() {
            let mut left = open01(rng) * (f64::from(arena.rows(at)) + self.state.concentrations.alpha[arena.level(at)]);
            let child = arena.children(at).find(|&child| {
                left -= f64::from(arena.rows(child));
                left < 0.0
            });
            match child {
                Some(child) => at = child,
                None => break,
            }
        }
        at
    }

    /// 5 to 8: the atom by the weights of `at`, weights of the unseen nodes from there down to `leaf`, a new atom's part of every
    /// node's rest; then the row is in.
    pub(super) fn put_in(&mut self, n: usize, at: u32, leaf: u32, rng: &mut Philox) -> Result<()> {
        let mut total = 0.0;
        let weights = self.state.weights.row(at);
        self.work.running.clear();
        for (w, f) in weights.iter().zip(&self.work.density) {
            total += w * f;
            self.work.running.push(total);
        }
        let chosen = pick(&self.work.running, rng).unwrap_or(REST);

        let depth = self.state.arena.depth();
        let mut path = std::mem::take(&mut self.work.path);
        path[0] = ROOT;
        self.state.arena.path_into(leaf, &mut path[1..]);
        self.state.weights.fit(self.state.arena.slots(), 1);
        for level in self.state.arena.level(at) + 1..=depth {
            let gamma = self.state.concentrations.gamma[level - 1];
            let (above, own) = self.state.weights.pair(path[level - 1], path[level]);
            own.iter_mut().zip(above).for_each(|(own, above)| *own = gamma * above);
            own[chosen] += 1.0;
            dirichlet(own, rng);
        }
        self.state.arena.attach(leaf);
        let atom = if chosen == REST { self.split_rest(&path, rng) } else { chosen as u32 - 1 };
        self.work.path = path;

        (self.state.leaf[n], self.state.atom[n]) = (leaf, atom);
        self.count(n, atom, 1.0);
        if chosen == REST && self.rules.theta == Theta::Explicit {
            self.draw_own_theta(atom, rng)?;
        }
        Ok(())
    }

    /// Parameters of a new atom, given its row.
    pub(super) fn draw_own_theta(&mut self, atom: u32, rng: &mut Philox) -> Result<()> {
        let theta = self.kernel.draw(self.stats(atom), rng)?;
        let start = atom as usize * theta.len();
        if self.state.theta.len() < start + theta.len() {
            self.state.theta.resize(start + theta.len(), 0.0);
        }
        self.state.theta[start..][..theta.len()].copy_from_slice(&theta);
        Ok(())
    }

    /// 7: a new atom that the row of this path chose takes its part of the rest of every node. Without a path nobody is said to
    /// have chosen it.
    pub(super) fn split_rest(&mut self, path: &[u32], rng: &mut Philox) -> u32 {
        let atom = self.new_atom();
        let new = column(atom);
        let concentrations = &self.state.concentrations;
        for level in 0..=self.state.arena.depth() {
            for &node in self.state.arena.at_level(level) {
                let (part, left) = if level == 0 {
                    beta(1.0, concentrations.gamma0, rng)
                } else {
                    let gamma = concentrations.gamma[level - 1];
                    let above = self.state.weights.row(self.state.arena.parent(node));
                    let chose = if path.get(level) == Some(&node) { 1.0 } else { 0.0 };
                    beta(gamma * above[new] + chose, gamma * above[REST], rng)
                };
                let own = self.state.weights.row_mut(node);
                own[new] = part * own[REST];
                own[REST] *= left;
            }
        }
        atom
    }
}

/// The first place whose running sum exceeds a uniform share of the total: never one of weight 0. None if there is no weight at all.
pub(super) fn pick(running: &[f64], rng: &mut Philox) -> Option<usize> {
    let total = running.last().copied().filter(|total| *total > 0.0)?;
    let u = open01(rng) * total;
    let place = running.partition_point(|&c| c <= u);
    // rounding may carry u up to the total: then the last place that has weight
    Some(if place < running.len() { place } else { running.partition_point(|&c| c < total) })
}
