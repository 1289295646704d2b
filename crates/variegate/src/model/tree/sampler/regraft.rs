//! Whole subtrees look for a new parent: the cure for slow upper levels.
//!
//! In the middle of the way up, with the tables of level l drawn and the weights of levels l-1 and below integrated out, every node y of
//! level l chooses again among the nodes of level l-1 and new ones below those of level l-2. With `b` its rows, `t` its tables, `m` the
//! customers and `N` the rows of others,
//! `A_j = lgamma(N_j + b) - lgamma(N_j) + lgamma(a + N_j) - lgamma(a + N_j + b)` for each node on the way down but the root,
//! `DM(t | m, q) = lgamma(g + m.) - lgamma(g + m. + t.) + sum_k [lgamma(g beta_qk + m_k + t_k) - lgamma(g beta_qk + m_k)]`; a child z of q
//! weighs `sum A + A_z + DM(t | m_z, q)`, a new one `sum A + ln a_{l-1} + lgamma(b) + lgamma(a_l) - lgamma(a_l + b) + DM(t | 0, q)`.
//!
//! Nodes take turns by the smallest row in them, which the moves do not change; any order that remembers which node came first would not
//! leave the distribution invariant. A node whose move would empty one above level l-1 stays: the test is the same from either side.

use super::super::arena::ROOT;
use super::super::draw::ln_rising;
use super::super::state::column;
use super::Sampler;
use crate::dist::draw_from_ln_weights;
use crate::run::Philox;
use crate::special::ln_gamma;

impl Sampler<'_> {
    /// Every node of a level, from 2 on.
    pub(super) fn regraft_level(&mut self, level: usize, rng: &mut Philox) {
        for node in self.turns(level) {
            self.regraft(node, level, rng);
        }
    }

    /// Nodes of a level in the order of their turns.
    pub(super) fn turns(&self, level: usize) -> Vec<u32> {
        self.state.arena.by_first_row(&self.state.leaf).swap_remove(level)
    }

    fn regraft(&mut self, node: u32, level: usize, rng: &mut Philox) {
        let arena = &self.state.arena;
        let (parent, rows) = (arena.parent(node), arena.rows(node));
        let above = arena.parent(parent);
        if above != ROOT && arena.rows(above) == rows {
            return;
        }
        let emptied = self.state.arena.lift(node);
        debug_assert!(emptied.is_none_or(|top| top == parent));
        self.move_tables(node, parent, false);

        self.weigh_parents(node, level);
        let place = draw_from_ln_weights(&mut self.work.running, rng).unwrap_or(usize::MAX);
        // nothing possible: weights of the present place have underflowed, so it stays
        let target = self.work.candidates.get(place).copied().unwrap_or(parent);
        let new = self.state.arena.level(target) + 1 < level;
        let mut target = if new { self.state.arena.child(target) } else { target };
        if new {
            self.draw_scores(target, rng);
        }
        self.state.arena.graft(node, target);
        if !self.test_graft(parent, emptied.is_some(), target, new, rng) {
            self.state.arena.lift(node);
            if new {
                self.state.arena.release(target, target);
            }
            self.state.arena.graft(node, parent);
            target = parent;
        }
        let (slots, width) = (self.state.arena.slots(), self.work.customers.width());
        self.work.customers.fit(slots, width);
        self.work.tables.fit(slots, width);
        if self.state.arena.rows(target) == rows {
            // a number that was given again may have customers of before
            self.work.customers.row_mut(target).fill(0);
        }
        self.move_tables(node, target, true);
        if emptied.is_some() && target != parent {
            self.state.arena.release(parent, parent);
        }
    }

    /// Adds the tables of a node to the customers of another, or takes them away.
    fn move_tables(&mut self, node: u32, parent: u32, add: bool) {
        let tables = self.work.tables.row(node);
        let customers = self.work.customers.row_mut(parent);
        for (n, t) in customers.iter_mut().zip(tables) {
            if add { *n += t } else { *n -= t }
        }
    }

    /// Candidates and their log weights: nodes of the level above, and (as nodes of the level above that) new ones below them.
    fn weigh_parents(&mut self, node: u32, level: usize) {
        let (arena, concentrations) = (&self.state.arena, &self.state.concentrations);
        let b = f64::from(arena.rows(node));
        // A_j of the nodes up to q: the root's is the same for all
        let change = |j: u32| {
            let (n, a) = (f64::from(arena.rows(j)), concentrations.alpha[arena.level(j)]);
            ln_gamma(n + b) - ln_gamma(n) + ln_gamma(a + n) - ln_gamma(a + n + b)
        };
        let (of_parents, own) = (concentrations.alpha[level - 2], concentrations.alpha[level - 1]);
        let fresh = of_parents.ln() + ln_gamma(b) + ln_gamma(own) - ln_gamma(own + b);
        self.work.candidates.clear();
        self.work.running.clear();
        for &q in arena.at_level(level - 2) {
            let mut base = 0.0;
            let mut j = q;
            while j != ROOT {
                base += change(j);
                j = arena.parent(j);
            }
            self.work.candidates.push(q);
            self.work.running.push(base + fresh + self.ln_tables(node, None, q, level));
            for z in arena.children(q) {
                self.work.candidates.push(z);
                self.work.running.push(base + change(z) + self.ln_tables(node, Some(z), q, level));
            }
        }
    }

    /// `DM(t | m, q)`: the tables of `node` as customers of `z` (of a new node: none), a child of `q`.
    fn ln_tables(&self, node: u32, z: Option<u32>, q: u32, level: usize) -> f64 {
        let gamma = self.state.concentrations.gamma[level - 2];
        let (tables, weights) = (self.work.tables.row(node), self.state.weights.row(q));
        let customers = z.map(|z| self.work.customers.row(z));
        let (mut all, mut present, mut sum) = (0, 0, 0.0);
        for atom in 0..self.state.size.len() as u32 {
            let k = column(atom);
            let m = customers.map_or(0, |c| c[k]);
            present += m;
            if tables[k] > 0 {
                all += tables[k];
                sum += ln_rising(gamma * weights[k] + f64::from(m), tables[k]);
            }
        }
        sum - ln_rising(gamma + f64::from(present), all)
    }
}
