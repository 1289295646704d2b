//! The sweep of the paper, to reproduce its figures. It is approximate: every other sampler of the family is exact.
//!
//! All rows first choose paths, then all rows components (E8); weights follow from raw counts of rows,
//! `beta_root ~ Dir(N_k, gamma0)` and `beta_z ~ Dir(gamma beta_parent + N_zk)`, as if every row had opened a table at every level (E5); a
//! new component splits the rest of every node by plain Betas, whoever chose it (E6); a component that only the row itself has stays among
//! its candidates (E7). A path is proposed from the prior with new weights and scores from theirs, and accepted by the density of the row
//! and its own margin alone: that of the rows whose siblings change is left out (E9). The margin is the joint factor of
//! `exp(-2C max(0, rho)) = int (2 pi l)^{-1/2} exp(-(l + C rho)^2/(2 l)) dl` at a scale l that is held while all rows move, or the left
//! side itself; a row without siblings has `rho = 0`. Scores of nodes are redrawn with the largest violation of each row frozen (E13). Signs,
//! precisions and sums are the corrected ones.

use serde::{Deserialize, Serialize};

use super::super::arena::NONE;
use super::super::draw::dirichlet;
use super::super::margin::draw_inverse_scale;
use super::super::state::{REST, column};
use super::row::pick;
use super::{Charges, Sampler};
use crate::Result;
use crate::run::{Philox, open01};

/// How the margin of a row enters the ratio of its own move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum OwnMargin {
    /// Given a scale that is drawn before the move and held.
    Scales,
    /// With the scale integrated out.
    Marginal,
}

impl Sampler<'_> {
    /// One sweep.
    pub(super) fn sweep_of_paper(&mut self, own: OwnMargin, rng: &mut Philox) -> Result<()> {
        self.refresh();
        self.charge_all();
        self.sweep_paths(own, rng)?;
        self.sweep_components(rng)?;
        self.draw_raw_weights(rng);
        self.draw_theta(rng)?;
        self.draw_eta(rng)
    }

    /// All rows choose paths. Scales are drawn before the first of them moves: births and deaths do not change them.
    pub(super) fn sweep_paths(&mut self, own: OwnMargin, rng: &mut Philox) -> Result<()> {
        let mut inverse = vec![0.0; self.rows()];
        if let (Some(charges), OwnMargin::Scales) = (self.charges, own) {
            for (n, inverse) in inverse.iter_mut().enumerate() {
                *inverse = draw_inverse_scale(charges.margin.separation * self.largest_violation(n), rng)?;
            }
        }
        for n in self.order(rng) {
            self.move_path(n as usize, own, inverse[n as usize], rng);
        }
        Ok(())
    }

    /// All rows choose components.
    pub(super) fn sweep_components(&mut self, rng: &mut Philox) -> Result<()> {
        self.order(rng).into_iter().try_for_each(|n| self.move_component(n as usize, rng))
    }

    /// One row tries a path from the prior. Its component stays, though the ratio sums over all of them.
    fn move_path(&mut self, n: usize, own: OwnMargin, inverse: f64, rng: &mut Philox) {
        self.densities(n);
        let (old, before) = (self.state.leaf[n], self.largest_violation(n));
        let density = self.mass(old);
        let top = self.state.arena.detach(old);
        self.state.leaf[n] = NONE;
        let at = self.choose_by_prior(rng);
        let leaf = self.state.arena.branch(at);
        self.draw_branch_weights(at, leaf, rng);
        self.draw_branch_scores(at, leaf, rng);
        self.state.arena.attach(leaf);
        self.state.leaf[n] = leaf;
        let after = self.largest_violation(n);
        let margin = self.charges.map_or(0.0, |charges| ln_ratio(&charges, own, inverse, before, after));
        let accepted = open01(rng).ln() < (self.mass(leaf) / density).ln() + margin;
        let arena = &mut self.state.arena;
        if accepted {
            if let Some(top) = top {
                arena.release(top, old);
            }
        } else {
            if let Some(new) = arena.detach(leaf) {
                arena.release(new, leaf);
            }
            arena.attach(old);
            self.state.leaf[n] = old;
        }
    }

    /// Weights of the new nodes below `at` down to `leaf` from their prior.
    fn draw_branch_weights(&mut self, at: u32, leaf: u32, rng: &mut Philox) {
        let arena = &self.state.arena;
        self.state.weights.fit(arena.slots(), 1);
        for level in arena.level(at) + 1..=arena.depth() {
            let node = arena.ancestor(leaf, level);
            let gamma = self.state.concentrations.gamma[level - 1];
            let (above, own) = self.state.weights.pair(arena.parent(node), node);
            own.iter_mut().zip(above).for_each(|(own, above)| *own = gamma * above);
            dirichlet(own, rng);
        }
    }

    /// One row chooses its component by the weights of its leaf, its own among the candidates.
    fn move_component(&mut self, n: usize, rng: &mut Philox) -> Result<()> {
        self.densities(n);
        let old = self.state.atom[n];
        let mut total = 0.0;
        self.work.running.clear();
        for (w, f) in self.state.weights.row(self.state.leaf[n]).iter().zip(&self.work.density) {
            total += w * f;
            self.work.running.push(total);
        }
        // without any density the row stays where it is
        let chosen = pick(&self.work.running, rng).unwrap_or(column(old));
        if chosen == column(old) {
            return Ok(());
        }
        let atom = if chosen == REST { self.split_rest(&[], rng) } else { chosen as u32 - 1 };
        self.count(n, old, -1.0);
        if self.state.size[old as usize] == 0 {
            self.state.merge_into_rest(old);
        }
        self.state.atom[n] = atom;
        self.count(n, atom, 1.0);
        if chosen == REST { self.draw_own_theta(atom, rng) } else { Ok(()) }
    }

    /// All weights given numbers of rows, as if they were tables.
    pub(super) fn draw_raw_weights(&mut self, rng: &mut Philox) {
        self.count_leaves();
        for level in (1..=self.state.arena.depth()).rev() {
            for &node in self.state.arena.at_level(level) {
                let (own, up) = self.work.customers.pair(node, self.state.arena.parent(node));
                up.iter_mut().zip(own).for_each(|(up, own)| *up += own);
            }
        }
        self.draw_weights(rng);
    }

    /// The largest violation of a row, of any sign; 0 where it has no siblings.
    fn largest_violation(&self, n: usize) -> f64 {
        let Some(charges) = self.charges else { return 0.0 };
        let arena = &self.state.arena;
        let mut node = self.state.leaf[n];
        let mut largest = f64::NEG_INFINITY;
        for _ in 0..arena.depth() {
            let parent = arena.parent(node);
            let own = self.score_of(node, n, &charges);
            for sibling in arena.children(parent).filter(|&u| u != node) {
                largest = largest.max(charges.margin.margin - own + self.score_of(sibling, n, &charges));
            }
            node = parent;
        }
        if largest.is_finite() { largest } else { 0.0 }
    }
}

/// Log ratio of what a row is charged for two largest violations.
pub(super) fn ln_ratio(charges: &Charges<'_>, own: OwnMargin, inverse: f64, before: f64, after: f64) -> f64 {
    let c = charges.margin.separation;
    match own {
        OwnMargin::Marginal => -2.0 * c * (after.max(0.0) - before.max(0.0)),
        // -(l + C rho)^2/(2 l), less what both have
        OwnMargin::Scales => -c * (after - before) - 0.5 * c * c * inverse * (after * after - before * before),
    }
}
