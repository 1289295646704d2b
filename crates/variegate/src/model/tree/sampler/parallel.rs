//! Rows that move independently of one another, given the global state: what the driver does before and after.
//!
//! Sticks `(pi_children, pi_rest) ~ Dir(N_children, alpha)` of every inner node make the prior of a path a product `P_v`. Two ways to keep
//! the candidates of a row finite, both exact:
//! * slices: `u_n ~ U(0, P_v beta_v,atom)`; nodes and atoms are drawn from the prior until none that is hidden could be above the smallest
//!   `u_n`; a row chooses among all pairs above its own.
//! * anchors: every row has a random rank; the row of lowest rank in a leaf (of an atom) is its anchor and stays, other rows choose among
//!   leaves and atoms whose anchors have lower ranks. Anchors determine what is occupied, so rows are independent. Births and deaths are
//!   left to some rows that then move one after the other.

use rand::{Rng, RngExt};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use super::super::arena::{Arena, ROOT};
use super::super::components::Kernel;
use super::super::draw::{beta, dirichlet};
use super::super::margin::Margin;
use super::super::state::{REST, column};
use super::Sampler;
use crate::run::{Block, Philox, open01};
use crate::{Error, Result};

/// Rows that move one after the other in a sweep with anchors.
const IN_TURN: usize = 256;
/// Most components that slices may need.
const MOST_ATOMS: usize = 2048;
/// Most weights (nodes times components) that slices may need.
const MOST_WEIGHTS: usize = 1 << 21;

/// A rank and the row that has it: the lower wins.
type Rank = (u64, u64);

/// The random numbers of a row, by key and row alone: first its rank, or the share of its weight at which its slice is cut, then those of
/// its choices. So the driver knows ranks and cuts too, and neither blocks nor the number of visits matter.
fn numbers_of(key: u64, row: u64) -> Philox {
    Philox::new([key, 0], [0, row, 0, 0])
}

/// What rows need to move.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Move<'a> {
    key: u64,
    kernel: Cow<'a, Kernel>,
    theta: Cow<'a, [f64]>,
    /// Of all rows.
    leaf: Cow<'a, [u32]>,
    atom: Cow<'a, [u32]>,
    /// Leaves, and where each is in that list, by node.
    leaves: Vec<u32>,
    place: Vec<u32>,
    /// `P_v` of each leaf.
    reach: Vec<f64>,
    /// `beta_v` of each leaf, column by column.
    weights: Vec<f64>,
    columns: usize,
    how: How,
    charges: Option<MoveCharges<'a>>,
}

/// The margin for rows that move between leaves that all stay: siblings are those of now, whoever moves.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct MoveCharges<'a> {
    margin: Margin,
    arena: Cow<'a, Arena>,
    eta: Cow<'a, [f64]>,
    features: Cow<'a, [f64]>,
    width: usize,
    /// Kinds of leaves by their numbers of siblings, the kind of each leaf, and `ln r` by row and kind; empty under the stated target.
    kinds: usize,
    kind: Vec<u32>,
    ln_r: Vec<f64>,
}

impl MoveCharges<'_> {
    /// Log charge of a row at a leaf.
    fn ln_charge(&self, n: usize, leaf: u32, v: usize, path: &mut [u32]) -> f64 {
        self.arena.path_into(leaf, path);
        let phi = &self.features[n * self.width..][..self.width];
        let violation = self.margin.violation(&self.arena, &self.eta, path.iter().copied(), phi);
        let ln_r = if self.ln_r.is_empty() { 0.0 } else { self.ln_r[n * self.kinds + self.kind[v] as usize] };
        -2.0 * self.margin.separation * violation - ln_r
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
enum How {
    /// Pairs of (weight, leaf, atom), the heaviest first.
    Slices(Vec<(f64, u32, u32)>),
    /// Anchors of leaves and of atoms; none of atoms of a finite mixture, which are open to all.
    Anchors(Vec<Rank>, Vec<Option<Rank>>),
}

impl Move<'_> {
    /// Leaf and atom of each row of a block, drawn anew.
    pub(in super::super) fn rows(&self, block: &Block<'_>) -> Vec<[u32; 2]> {
        let atoms = self.columns - 1;
        let (mut row, mut density) = (vec![0.0; block.x.cols()], vec![0.0; atoms]);
        let (mut running, mut of_atoms, mut charge) = (Vec::new(), Vec::new(), Vec::new());
        let mut path = vec![0; self.charges.as_ref().map_or(0, |charges| charges.arena.depth())];
        let parameters = self.kernel.parameters();
        let mut moved = Vec::with_capacity(block.rows());
        for i in 0..block.rows() {
            let n = block.first_row + i as u64;
            row.fill(0.0);
            block.x.for_row(i, |j, value| row[j] = value);
            let present = [self.leaf[n as usize], self.atom[n as usize]];
            let own = (self.place[present[0] as usize] as usize, present[1] as usize);
            let rng = &mut numbers_of(self.key, n);
            match &self.how {
                How::Slices(pairs) => {
                    let cut = open01(rng) * self.weight(own.0, own.1);
                    let open = pairs.partition_point(|pair| pair.0 > cut);
                    of_atoms.clear();
                    of_atoms.resize(atoms, false);
                    pairs[..open].iter().for_each(|pair| of_atoms[pair.2 as usize] = true);
                    self.densities(&row, parameters, |k| of_atoms[k], &mut density);
                    running.clear();
                    let mut total = 0.0;
                    running.extend(pairs[..open].iter().map(|pair| {
                        total += density[pair.2 as usize];
                        total
                    }));
                    // rounding may shut out the present pair, which is always open
                    moved.push(super::row::pick(&running, rng).map_or(present, |at| [self.leaves[pairs[at].1 as usize], pairs[at].2]));
                }
                How::Anchors(leaves, of) => {
                    let rank = (rng.next_u64(), n);
                    let stays = of[own.1] == Some(rank);
                    self.densities(
                        &row,
                        parameters,
                        |k| if stays { k == own.1 } else { of[k].is_none_or(|anchor| anchor < rank) },
                        &mut density,
                    );
                    running.clear();
                    let mut total = 0.0;
                    let is_open = |v: usize| if leaves[own.0] == rank { v == own.0 } else { leaves[v] < rank };
                    charge.clear();
                    if let Some(charges) = &self.charges {
                        let of_leaf =
                            |v| if is_open(v) { charges.ln_charge(n as usize, self.leaves[v], v, &mut path) } else { f64::NEG_INFINITY };
                        charge.extend((0..leaves.len()).map(of_leaf));
                        let top = charge.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                        charge.iter_mut().for_each(|c| *c = (*c - top).exp());
                    }
                    for v in 0..leaves.len() {
                        if is_open(v) {
                            let mass: f64 = (0..atoms).map(|k| self.weights[v * self.columns + k + 1] * density[k]).sum();
                            total += self.reach[v] * mass * charge.get(v).copied().unwrap_or(1.0);
                        }
                        running.push(total);
                    }
                    let Some(v) = super::row::pick(&running, rng) else {
                        moved.push(present);
                        continue;
                    };
                    total = 0.0;
                    running.clear();
                    running.extend((0..atoms).map(|k| {
                        total += self.weights[v * self.columns + k + 1] * density[k];
                        total
                    }));
                    moved.push(super::row::pick(&running, rng).map_or(present, |k| [self.leaves[v], k as u32]));
                }
            }
        }
        moved
    }

    fn weight(&self, leaf: usize, atom: usize) -> f64 {
        self.reach[leaf] * self.weights[leaf * self.columns + atom + 1]
    }

    /// Densities of a row under the atoms that are open to it, relative to the largest.
    fn densities(&self, row: &[f64], parameters: usize, open: impl Fn(usize) -> bool, out: &mut [f64]) {
        let mut top = f64::NEG_INFINITY;
        for (k, place) in out.iter_mut().enumerate() {
            *place = if open(k) { self.kernel.ln_density(&self.theta[k * parameters..][..parameters], row) } else { f64::NEG_INFINITY };
            top = top.max(*place);
        }
        out.iter_mut().for_each(|place| *place = if *place > f64::NEG_INFINITY { (*place - top).exp() } else { 0.0 });
    }
}

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
        let mut leaves = vec![(u64::MAX, u64::MAX); self.state.arena.slots()];
        let mut atoms = vec![None; self.state.size.len()];
        for (n, (&leaf, &atom)) in self.state.leaf.iter().zip(&self.state.atom).enumerate() {
            let rank = (numbers_of(key, n as u64).next_u64(), n as u64);
            leaves[leaf as usize] = rank.min(leaves[leaf as usize]);
            atoms[atom as usize] = Some(atoms[atom as usize].map_or(rank, |lowest| rank.min(lowest)));
        }
        if self.state.finite {
            // atoms are never born and never die, so they need no anchors
            atoms.fill(None);
        } else {
            // numbers that are not in use have no weight
            atoms.iter_mut().filter(|anchor| anchor.is_none()).for_each(|anchor| *anchor = Some((u64::MAX, u64::MAX)));
        }
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
            how,
            charges: None,
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
        let before = std::mem::take(&mut self.state.leaf);
        // first in, then out: what somebody comes to never vanishes in between
        moved.iter().for_each(|to| self.state.arena.attach(to[0]));
        before.iter().for_each(|&leaf| {
            self.state.arena.detach(leaf);
        });
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
