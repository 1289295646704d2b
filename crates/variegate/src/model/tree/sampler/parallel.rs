//! Rows that move independently of one another, given the global state: what the driver does before and after. What rows do is in `moves.rs`.
//!
//! Sticks `(pi_children, pi_rest) ~ Dir(N_children, alpha)` of every inner node make the prior of a path a product `P_v`. Two ways to keep
//! the candidates of a row finite, both exact:
//! * slices: `u_n ~ U(0, P_v beta_v,atom)`; nodes and atoms are drawn from the prior until none that is hidden could be above the smallest
//!   `u_n`; a row chooses among all pairs above its own.
//! * anchors: every row has a random rank; the row of lowest rank in a leaf (of an atom) is its anchor and stays, other rows choose among
//!   leaves and atoms whose anchors have lower ranks. Anchors determine what is occupied, so rows are independent. Births and deaths are
//!   left to some rows that then move one after the other.

mod moves;

pub(in super::super) use moves::Move;

use rand::{Rng, RngExt};
use std::borrow::Cow;
use std::sync::OnceLock;

use super::super::arena::ROOT;
use super::super::draw::{beta, dirichlet};
use super::super::state::{REST, column};
use super::{Sampler, TOGETHER};
use crate::run::{Philox, open01};
use crate::{Error, Result};
use moves::{How, MoveCharges, Rank, numbers_of};

/// Rows that move one after the other in a sweep with anchors.
const IN_TURN: usize = 256;
/// Most components that slices may need.
const MOST_ATOMS: usize = 2048;
/// Most weights (nodes times components) that slices may need.
const MOST_WEIGHTS: usize = 1 << 21;

/// Sticks by node: the probability to come by, and the part that no child has.
struct Sticks {
    reach: Vec<f64>,
    rest: Vec<f64>,
}

impl Sampler<'_> {
    /// Sticks of all nodes.
    fn draw_sticks(&self, rng: &mut Philox) -> Sticks {
        let arena = &self.state.arena;
        let mut sticks = Sticks { reach: vec![0.0; arena.slots()], rest: vec![0.0; arena.slots()] };
        sticks.reach[ROOT as usize] = 1.0;
        let mut shares = vec![];
        for level in 0..arena.depth() {
            for &node in arena.at_level(level) {
                shares.clear();
                shares.push(self.state.concentrations.alpha[level]);
                shares.extend(arena.children(node).map(|child| f64::from(arena.rows(child))));
                dirichlet(&mut shares, rng);
                sticks.rest[node as usize] = shares[0];
                for (child, share) in arena.children(node).zip(&shares[1..]) {
                    sticks.reach[child as usize] = sticks.reach[node as usize] * share;
                }
            }
        }
        sticks
    }

    /// What rows need to move between anchors.
    pub(in super::super) fn anchored_move(&self, rng: &mut Philox) -> Move<'_> {
        let sticks = self.draw_sticks(rng);
        let key = rng.next_u64();
        // of nodes and atoms without rows no row is lower
        const NOBODY: Rank = (u64::MAX, u64::MAX);
        let (slots, sizes) = (self.state.arena.slots(), self.state.size.len());
        let lowest = |from: usize| {
            let (mut leaves, mut atoms) = (vec![NOBODY; slots], vec![NOBODY; sizes]);
            for n in from..(from + TOGETHER).min(self.rows()) {
                let rank = (numbers_of(key, n as u64).next_u64(), n as u64);
                for lowest in [&mut leaves[self.state.leaf[n] as usize], &mut atoms[self.state.atom[n] as usize]] {
                    *lowest = rank.min(*lowest);
                }
            }
            (leaves, atoms)
        };
        let (mut leaves, mut atoms) = (vec![NOBODY; slots], vec![NOBODY; sizes]);
        self.by_lots(lowest, |(of_leaves, of_atoms)| {
            leaves.iter_mut().zip(of_leaves).for_each(|(a, b)| *a = b.min(*a));
            atoms.iter_mut().zip(of_atoms).for_each(|(a, b)| *a = b.min(*a));
        });
        // atoms of a finite mixture are never born and never die, so they need no anchors
        let atoms = atoms.into_iter().map(|anchor| (!self.state.finite).then_some(anchor)).collect();
        let all = self.state.arena.at_level(self.state.arena.depth()).to_vec();
        let of_leaves = all.iter().map(|&leaf| leaves[leaf as usize]).collect();
        let charges = self.move_charges(&all);
        Move { charges, ..self.movement(key, all, &sticks.reach, How::Anchors(of_leaves, atoms)) }
    }

    /// The same with slices; nodes and atoms that could be chosen are drawn first.
    pub(in super::super) fn sliced_move(&mut self, rng: &mut Philox) -> Result<Move<'_>> {
        let sticks = self.draw_sticks(rng);
        let key = rng.next_u64();
        let mut least = f64::INFINITY;
        for (n, (&leaf, &atom)) in self.state.leaf.iter().zip(&self.state.atom).enumerate() {
            let weight = sticks.reach[leaf as usize] * self.state.weights.row(leaf)[column(atom)];
            least = least.min(open01(&mut numbers_of(key, n as u64)) * weight);
        }
        let (leaves, reach) = self.extend(sticks, least, rng)?;
        let mut pairs = vec![];
        for (v, &leaf) in leaves.iter().enumerate() {
            let weights = self.state.weights.row(leaf);
            let pair = |k: usize| (reach[leaf as usize] * weights[k + 1], v as u32, k as u32);
            pairs.extend((0..self.state.size.len()).map(pair).filter(|pair| pair.0 > least));
        }
        pairs.sort_by(|a, b| b.0.total_cmp(&a.0));
        Ok(self.movement(key, leaves, &reach, How::Slices(pairs)))
    }

    fn movement(&self, key: u64, leaves: Vec<u32>, reach: &[f64], how: How) -> Move<'_> {
        let columns = self.state.size.len() + 1;
        let mut place = vec![u32::MAX; self.state.arena.slots()];
        leaves.iter().enumerate().for_each(|(v, &leaf)| place[leaf as usize] = v as u32);
        Move {
            key,
            kernel: Cow::Borrowed(&self.kernel),
            theta: Cow::Borrowed(&self.state.theta),
            leaf: Cow::Borrowed(&self.state.leaf),
            atom: Cow::Borrowed(&self.state.atom),
            reach: leaves.iter().map(|&leaf| reach[leaf as usize]).collect(),
            weights: leaves.iter().flat_map(|&leaf| &self.state.weights.row(leaf)[..columns]).copied().collect(),
            place,
            leaves,
            columns,
            ready: OnceLock::new(),
            how,
            charges: None,
            principal: None,
        }
    }

    /// What the margin says of rows that move between these leaves.
    fn move_charges(&self, leaves: &[u32]) -> Option<MoveCharges<'_>> {
        let charges = self.charges?;
        let arena = &self.state.arena;
        let mut path = vec![0; arena.depth()];
        let mut kinds: Vec<Vec<usize>> = vec![];
        let mut kind = vec![];
        for &leaf in leaves {
            arena.path_into(leaf, &mut path);
            let siblings: Vec<usize> = path.iter().map(|&node| arena.n_children(arena.parent(node)) as usize - 1).collect();
            let known = kinds.iter().position(|other| *other == siblings);
            kind.push(known.unwrap_or(kinds.len()) as u32);
            if known.is_none() {
                kinds.push(siblings);
            }
        }
        let ln_r = |f: &(dyn Fn(usize, &[usize]) -> f64 + Sync)| {
            (0..self.rows()).flat_map(|n| kinds.iter().map(move |m| if m.iter().any(|&m| m > 0) { f(n, m) } else { 0.0 })).collect()
        };
        Some(MoveCharges {
            margin: charges.margin,
            arena: Cow::Borrowed(arena),
            eta: Cow::Borrowed(&self.state.eta),
            features: Cow::Borrowed(charges.features),
            width: charges.width,
            ln_r: charges.ln_r.map_or(vec![], ln_r),
            kinds: kinds.len(),
            kind,
        })
    }

    /// Draws nodes and atoms from the prior until nothing hidden can weigh more than `least`; all leaves, and reach by node.
    fn extend(&mut self, sticks: Sticks, least: f64, rng: &mut Philox) -> Result<(Vec<u32>, Vec<f64>)> {
        let depth = self.state.arena.depth();
        let Sticks { mut reach, mut rest } = sticks;
        // nodes by level, new ones behind: parents come before their children
        let mut levels: Vec<Vec<u32>> = (0..=depth).map(|level| self.state.arena.at_level(level).to_vec()).collect();
        for level in 0..depth {
            let (alpha, gamma) = (self.state.concentrations.alpha[level], self.state.concentrations.gamma[level]);
            for i in 0..levels[level].len() {
                let node = levels[level][i];
                while reach[node as usize] * rest[node as usize] > least {
                    let (part, left) = beta(1.0, alpha, rng);
                    let child = self.state.arena.child(node);
                    let slots = self.state.arena.slots();
                    self.bearable()?;
                    reach.resize(slots.max(reach.len()), 0.0);
                    rest.resize(slots.max(rest.len()), 0.0);
                    reach[child as usize] = reach[node as usize] * rest[node as usize] * part;
                    rest[node as usize] *= left;
                    rest[child as usize] = 1.0;
                    self.state.weights.fit(slots, 1);
                    let (above, own) = self.state.weights.pair(node, child);
                    own.iter_mut().zip(above).for_each(|(own, above)| *own = gamma * above);
                    dirichlet(own, rng);
                    levels[level + 1].push(child);
                }
            }
        }
        let hidden = |s: &Self| levels[depth].iter().any(|&v| reach[v as usize] * s.state.weights.row(v)[REST] > least);
        let none = vec![0.0; self.kernel.statistics()];
        while !self.state.finite && hidden(self) {
            let atom = self.new_atom();
            self.bearable()?;
            let new = column(atom);
            for (level, nodes) in levels.iter().enumerate() {
                for &node in nodes {
                    // chosen by nobody yet, so by the prior alone
                    let (part, left) = if level == 0 {
                        beta(1.0, self.state.concentrations.gamma0, rng)
                    } else {
                        let gamma = self.state.concentrations.gamma[level - 1];
                        let above = self.state.weights.row(self.state.arena.parent(node));
                        beta(gamma * above[new], gamma * above[REST], rng)
                    };
                    let own = self.state.weights.row_mut(node);
                    own[new] = part * own[REST];
                    own[REST] *= left;
                }
            }
            let theta = self.kernel.draw(&none, rng)?;
            let at = atom as usize * theta.len();
            self.state.theta.resize(self.state.theta.len().max(at + theta.len()), 0.0);
            self.state.theta[at..][..theta.len()].copy_from_slice(&theta);
        }
        Ok((levels.swap_remove(depth), reach))
    }

    /// Refuses more weights than a sweep could ever go through.
    fn bearable(&self) -> Result<()> {
        let (nodes, atoms) = (self.state.arena.slots(), self.state.size.len());
        if atoms <= MOST_ATOMS && nodes * (atoms + 1) <= MOST_WEIGHTS {
            return Ok(());
        }
        Err(Error::Numerical {
            what: "sampling by slices",
            sweep: 0,
            detail: format!("more than {nodes} nodes and {atoms} components would be needed: use the sampler `anchored`"),
        })
    }

    /// Takes in where rows went; nodes and atoms without rows are gone.
    pub(in super::super) fn take_in(&mut self, moved: &[[u32; 2]]) {
        // first in, then out: what somebody comes to never vanishes in between
        let before = std::mem::take(&mut self.state.leaf);
        self.state.arena.exchange(&before, moved.iter().map(|to| to[0]));
        self.state.arena.release_unseen();
        self.state.leaf = moved.iter().map(|to| to[0]).collect();
        self.state.atom = moved.iter().map(|to| to[1]).collect();
        self.state.size.fill(0);
        self.state.atom.iter().for_each(|&k| self.state.size[k as usize] += 1);
        if !self.state.finite {
            for k in self.state.emptied() {
                self.state.merge_into_rest(k);
            }
        }
        self.refresh();
        self.charge_all();
    }

    /// Some rows, chosen without a look at the state, move one after the other.
    pub(in super::super) fn move_some_in_turn(&mut self, rng: &mut Philox) -> Result<()> {
        if self.rows() <= IN_TURN {
            return self.sweep_rows(rng);
        }
        (0..IN_TURN).try_for_each(|_| {
            let n = rng.random_range(0..self.rows());
            self.row_step(n, rng)
        })
    }
}
