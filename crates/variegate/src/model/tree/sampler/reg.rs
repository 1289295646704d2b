//! The margin in moves that change the tree: how the charge of all rows changes with it.
//!
//! A row at nodes `v_1 .. v_L` with scores `s_z = eta_z' phi` violates the margin to a sibling u of `v_l` by `rho = eps0 - s_v + s_u`. Its log
//! charge is `-2C max(0, max rho)`, or with the sum in place of the largest, less `ln r` (by the numbers of siblings) under the
//! calibrated target. A node that appears or vanishes changes the siblings of every row below its parent, so all of them count in
//! the ratio, not only the row that moves.

use rand_distr::{Distribution, StandardNormal};

use super::super::arena::NONE;
use super::super::margin::{EtaUpdate, Margin, Penalty, Phi};
use super::super::state::State;
use super::Sampler;
use super::row::Lifted;
use crate::Result;
use crate::run::{Philox, open01};

/// Scores of all nodes and rows are kept up to so many numbers; beyond, they are worked out as they are needed.
const MOST_SCORES: usize = 32 << 20;

/// The margin as moves of the tree need it.
#[derive(Clone, Copy)]
pub(in super::super) struct Charges<'a> {
    /// Its settings.
    pub(in super::super) margin: Margin,
    /// How scores are redrawn given the tree.
    pub(in super::super) update: EtaUpdate,
    /// Features of rows, one after the other, and their number.
    pub(in super::super) features: &'a [f64],
    pub(in super::super) width: usize,
    /// `ln r` of a row by its numbers of siblings at levels 1, 2, ..; none under the stated target.
    pub(in super::super) ln_r: Option<&'a (dyn Fn(usize, &[usize]) -> f64 + Sync)>,
}

impl Charges<'_> {
    pub(in super::super) fn features(&self, n: usize) -> &[f64] {
        &self.features[n * self.width..][..self.width]
    }
}

/// What is known of the charges in the present tree.
#[derive(Default)]
pub(super) struct Charged {
    /// Scores by node and row, unless there are too many.
    scores: Vec<f64>,
    /// Log charge and violation of each row.
    pub(super) ln_charge: Vec<f64>,
    pub(super) violation: Vec<f64>,
    /// Rows of a proposal with what they would be charged.
    proposed: Vec<(u32, f64, f64)>,
    siblings: Vec<usize>,
}

impl Sampler<'_> {
    /// Sum of violations, and of log charges.
    pub(in super::super) fn charged(&self) -> (f64, f64) {
        let Charged { violation, ln_charge, .. } = &self.work.charged;
        (violation.iter().fold(0.0, |a, b| a + b), ln_charge.iter().fold(0.0, |a, b| a + b))
    }

    /// Scores and charges of all rows from the present tree.
    pub(in super::super) fn charge_all(&mut self) {
        let Some(charges) = self.charges else { return };
        let (rows, slots) = (self.rows(), self.state.arena.slots());
        self.state.eta.resize(slots * charges.width, 0.0);
        self.work.charged.scores.clear();
        self.fit_scores();
        for node in self.state.arena.nodes().skip(1).collect::<Vec<_>>() {
            self.score(node);
        }
        let charged: Vec<(f64, f64)> = (0..rows).map(|n| self.charge(n)).collect();
        (self.work.charged.ln_charge, self.work.charged.violation) = charged.into_iter().unzip();
    }

    /// (d) Scores of all nodes given the tree.
    pub(in super::super) fn draw_eta(&mut self, rng: &mut Philox) -> Result<()> {
        let Some(charges) = self.charges else { return Ok(()) };
        let State { arena, leaf, eta, .. } = &mut self.state;
        eta.resize(arena.slots() * charges.width, 0.0);
        charges.margin.step(charges.update, arena, leaf, Phi::new(charges.features, charges.width), eta, rng)?;
        self.charge_all();
        Ok(())
    }

    fn fit_scores(&mut self) {
        let (rows, slots) = (self.rows(), self.state.arena.slots());
        if rows * slots <= MOST_SCORES {
            if self.work.charged.scores.len() < rows * slots {
                self.work.charged.scores.resize(rows * slots, 0.0);
            }
        } else {
            self.work.charged.scores = Vec::new();
        }
    }

    /// Scores of all rows at a node, where they are kept.
    fn score(&mut self, node: u32) {
        let Some(charges) = self.charges else { return };
        let (rows, at) = (self.rows(), node as usize);
        if let Some(scores) = self.work.charged.scores.get_mut(at * rows..(at + 1) * rows) {
            let eta = &self.state.eta[at * charges.width..][..charges.width];
            for (n, score) in scores.iter_mut().enumerate() {
                *score = dot(eta, charges.features(n));
            }
        }
    }

    #[inline]
    pub(super) fn score_of(&self, node: u32, n: usize, charges: &Charges<'_>) -> f64 {
        match self.work.charged.scores.get(node as usize * self.rows() + n) {
            Some(score) => *score,
            None => dot(&self.state.eta[node as usize * charges.width..][..charges.width], charges.features(n)),
        }
    }

    /// A new node has scores from their prior.
    pub(super) fn draw_scores(&mut self, node: u32, rng: &mut Philox) {
        let Some(charges) = self.charges else { return };
        self.state.eta.resize(self.state.arena.slots() * charges.width, 0.0);
        for eta in &mut self.state.eta[node as usize * charges.width..][..charges.width] {
            let normal: f64 = StandardNormal.sample(rng);
            *eta = charges.margin.spread * normal;
        }
        self.fit_scores();
        self.score(node);
    }

    /// Scores of the nodes from a new leaf up to the node below which they are new.
    pub(super) fn draw_branch_scores(&mut self, below: u32, leaf: u32, rng: &mut Philox) {
        let mut node = leaf;
        while node != below && self.charges.is_some() {
            self.draw_scores(node, rng);
            node = self.state.arena.parent(node);
        }
    }

    /// Log charge and violation of a row where it is.
    fn charge(&mut self, n: usize) -> (f64, f64) {
        let (Some(charges), leaf) = (self.charges, self.state.leaf[n]) else { return (0.0, 0.0) };
        if leaf == NONE {
            return (0.0, 0.0);
        }
        let mut siblings = std::mem::take(&mut self.work.charged.siblings);
        let arena = &self.state.arena;
        siblings.clear();
        siblings.resize(arena.depth(), 0);
        let mut violation = 0.0_f64;
        let mut node = leaf;
        for level in (0..arena.depth()).rev() {
            let parent = arena.parent(node);
            siblings[level] = arena.n_children(parent) as usize - 1;
            if siblings[level] > 0 {
                let own = self.score_of(node, n, &charges);
                for sibling in arena.children(parent).filter(|&u| u != node) {
                    let rho = charges.margin.margin - own + self.score_of(sibling, n, &charges);
                    violation = if charges.margin.penalty == Penalty::Sum { violation + rho.max(0.0) } else { violation.max(rho) };
                }
            }
            node = parent;
        }
        let mut ln_charge = -2.0 * charges.margin.separation * violation;
        if let Some(ln_r) = charges.ln_r
            && siblings.iter().any(|&m| m > 0)
        {
            ln_charge -= ln_r(n, &siblings);
        }
        self.work.charged.siblings = siblings;
        (ln_charge, violation)
    }

    /// Charges of some rows in the tree as it is now, kept as a proposal; the change of their sum.
    fn propose_charges(&mut self, concerns: impl Fn(&Self, usize) -> bool) -> f64 {
        let mut proposed = std::mem::take(&mut self.work.charged.proposed);
        proposed.clear();
        let mut change = 0.0;
        for n in 0..self.rows() {
            if concerns(self, n) {
                let (ln_charge, violation) = self.charge(n);
                change += ln_charge - self.work.charged.ln_charge[n];
                proposed.push((n as u32, ln_charge, violation));
            }
        }
        self.work.charged.proposed = proposed;
        change
    }

    fn accept_charges(&mut self) {
        let charged = &mut self.work.charged;
        for &(n, ln_charge, violation) in &charged.proposed {
            charged.ln_charge[n as usize] = ln_charge;
            charged.violation[n as usize] = violation;
        }
    }

    fn is_below(&self, n: usize, node: u32) -> bool {
        let (arena, leaf) = (&self.state.arena, self.state.leaf[n]);
        leaf != NONE && arena.ancestor(leaf, arena.level(node)) == node
    }

    /// Step 4 of a row's move: whether row `n`, taken out, goes to (or below) `at`, given the log of what else is in the ratio.
    /// Returns the leaf it goes to; unseen nodes that nobody needs are given back.
    pub(super) fn test_row(&mut self, n: usize, lifted: Lifted, at: u32, ln_else: f64, rng: &mut Philox) -> Option<u32> {
        let leaf = self.state.arena.branch(at);
        self.draw_branch_scores(at, leaf, rng);
        self.state.arena.attach(leaf);
        self.state.leaf[n] = leaf;
        let vanished = lifted.top.map(|top| self.state.arena.parent(top));
        let appeared = (leaf != at).then_some(at);
        let change = if vanished.is_none() && appeared.is_none() {
            // nobody else's siblings change
            let (ln_charge, violation) = self.charge(n);
            self.work.charged.proposed.clear();
            self.work.charged.proposed.push((n as u32, ln_charge, violation));
            ln_charge - self.work.charged.ln_charge[n]
        } else {
            self.propose_charges(|s, m| m == n || [vanished, appeared].into_iter().flatten().any(|node| s.is_below(m, node)))
        };
        let accepted = open01(rng).ln() < change + ln_else;
        self.state.arena.detach(leaf);
        self.state.leaf[n] = NONE;
        let (top, bottom) = if accepted { (lifted.top, lifted.leaf) } else { (appeared.map(|at| self.below(at, leaf)), leaf) };
        if let Some(top) = top {
            self.state.arena.release(top, bottom);
        }
        accepted.then(|| {
            self.accept_charges();
            leaf
        })
    }

    /// The child of `node` on the way to an unseen leaf.
    fn below(&self, node: u32, leaf: u32) -> u32 {
        self.state.arena.ancestor(leaf, self.state.arena.level(node) + 1)
    }

    /// The same for a subtree that was grafted below `target` (a new node or not), from below `parent`, which may be unseen by now.
    pub(super) fn test_graft(&mut self, parent: u32, emptied: bool, target: u32, new: bool, rng: &mut Philox) -> bool {
        if self.charges.is_none() {
            return true;
        }
        let above = |s: &Self, node: u32, gone: bool| if gone { s.state.arena.parent(node) } else { node };
        let (left, joined) = (above(self, parent, emptied), above(self, target, new));
        let change = self.propose_charges(|s, n| s.is_below(n, left) || s.is_below(n, joined));
        let accepted = open01(rng).ln() < change;
        if accepted {
            self.accept_charges();
        }
        accepted
    }
}

#[inline]
fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
