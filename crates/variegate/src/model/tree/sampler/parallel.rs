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
use std::sync::OnceLock;

use super::super::arena::{Arena, ROOT};
use super::super::components::{Kernel, Prepared};
use super::super::draw::{beta, dirichlet};
use super::super::margin::Margin;
use super::super::principal::Principal;
use super::super::state::{REST, column};
use super::{Sampler, TOGETHER};
use crate::linalg::wide;
use crate::run::{Block, Philox, open01};
use crate::special::branchless::exp;
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
    /// Made by whoever visits first.
    #[serde(skip)]
    ready: OnceLock<Ready>,
    how: How,
    charges: Option<MoveCharges<'a>>,
    /// How columns become coordinates, where they do.
    principal: Option<Cow<'a, Principal>>,
}

/// What follows from a move, in the order in which rows go through it.
#[derive(Debug, Clone)]
struct Ready {
    /// Atoms made ready.
    atoms: Vec<Prepared>,
    /// `P_v beta_vk` of every [`LANES`] leaves, atom by atom, those of the leaves side by side; empty with slices.
    weights: Vec<f64>,
    lanes: usize,
    of_leaves: Anchors,
    /// Empty in a finite mixture, whose atoms are open to all.
    of_atoms: Anchors,
}

/// Leaves whose masses are summed at once.
const LANES: usize = 16;
/// Rows that go through the weights together.
const AT_ONCE: usize = 4;

/// Anchors: their ranks and, apart, their rows.
#[derive(Debug, Clone, Default)]
struct Anchors {
    rank: Vec<u64>,
    row: Vec<u64>,
}

impl Anchors {
    fn of(all: impl Iterator<Item = Rank>) -> Self {
        let (rank, row) = all.unzip();
        Self { rank, row }
    }

    /// Puts `closed` where the anchor is not below a rank, or, for a row that is the anchor of `own`, everywhere else.
    #[inline(always)]
    fn close(&self, (rank, row): Rank, own: usize, closed: f64, values: &mut [f64]) {
        if self.rank.get(own).is_some_and(|&r| (r, self.row[own]) == (rank, row)) {
            let kept = values[own];
            values.fill(closed);
            values[own] = kept;
            return;
        }
        for (value, (&r, &n)) in values.iter_mut().zip(self.rank.iter().zip(&self.row)) {
            *value = if (r < rank) | ((r == rank) & (n < row)) { *value } else { closed };
        }
    }
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

/// Room for some rows after the other.
struct Room {
    /// Columns, those columns moved to their means, and coordinates; columns themselves where they are the coordinates.
    cells: Vec<f64>,
    moved: Vec<f64>,
    row: Vec<f64>,
    /// Densities by atom, of one row after the other.
    density: Vec<f64>,
    /// Masses of leaves, of one row after the other.
    mass: Vec<f64>,
    running: Vec<f64>,
    open: Vec<bool>,
    path: Vec<u32>,
}

impl<'a> Move<'a> {
    /// The same for rows whose columns become coordinates.
    pub(in super::super) fn along(self, principal: Option<&'a Principal>) -> Self {
        Self { principal: principal.map(Cow::Borrowed), ..self }
    }

    /// Leaf and atom of each row of a block, drawn anew.
    pub(in super::super) fn rows(&self, block: &Block<'_>) -> Vec<[u32; 2]> {
        let ready = self.ready.get_or_init(|| self.make_ready());
        let atoms = self.columns - 1;
        debug_assert!(ready.atoms.len() >= atoms, "every atom has parameters");
        let mut room = Room {
            cells: vec![0.0; block.x.cols()],
            moved: vec![],
            row: vec![0.0; self.principal.as_ref().map_or(block.x.cols(), |principal| principal.len())],
            density: vec![0.0; AT_ONCE * atoms],
            mass: vec![0.0; AT_ONCE * ready.lanes],
            running: vec![],
            open: vec![],
            path: vec![0; self.charges.as_ref().map_or(0, |charges| charges.arena.depth())],
        };
        let mut moved = Vec::with_capacity(block.rows());
        let mut some: Vec<Turn> = Vec::with_capacity(AT_ONCE);
        for from in (0..block.rows()).step_by(AT_ONCE) {
            some.clear();
            for i in from..(from + AT_ONCE).min(block.rows()) {
                let n = block.first_row + i as u64;
                let present = [self.leaf[n as usize], self.atom[n as usize]];
                let own = (self.place[present[0] as usize] as usize, present[1] as usize);
                let mut turn = Turn { n, present, own, rank: 0, rng: numbers_of(self.key, n) };
                let cells = if self.principal.is_some() { &mut room.cells } else { &mut room.row };
                cells.fill(0.0);
                block.x.for_row(i, |j, value| cells[j] = value);
                if let Some(principal) = &self.principal {
                    principal.of_row(&room.cells, &mut room.moved, &mut room.row);
                }
                if let How::Slices(pairs) = &self.how {
                    let to = self.above_slice(pairs, ready, &mut room, &mut turn);
                    moved.push(self.landed(&turn, to));
                    continue;
                }
                turn.rank = turn.rng.next_u64();
                self.anchored_densities(&turn, ready, &room.row, &mut room.density[some.len() * atoms..][..atoms]);
                some.push(turn);
            }
            if some.is_empty() {
                continue;
            }
            room.density[some.len() * atoms..].fill(0.0);
            masses(ready, atoms, &room.density, &mut room.mass);
            for (i, turn) in some.iter_mut().enumerate() {
                let to = self.between_anchors(i, ready, &mut room, turn);
                moved.push(self.landed(turn, to));
            }
        }
        moved
    }

    /// Where a row is after its turn; where rounding leaves nothing, the present pair is open all the same.
    fn landed(&self, turn: &Turn, to: Option<(usize, u32)>) -> [u32; 2] {
        to.map_or(turn.present, |(v, k)| [self.leaves[v], k])
    }

    fn make_ready(&self) -> Ready {
        let atoms = self.kernel.ready(&self.theta, self.columns - 1);
        let How::Anchors(leaves, of) = &self.how else {
            return Ready { atoms, weights: vec![], lanes: 0, of_leaves: Anchors::default(), of_atoms: Anchors::default() };
        };
        let lanes = leaves.len().next_multiple_of(LANES);
        let mut weights = Vec::with_capacity((self.columns - 1) * lanes);
        for from in (0..lanes).step_by(LANES) {
            for k in 0..self.columns - 1 {
                weights.extend((from..from + LANES).map(|v| if v < leaves.len() { self.weight(v, k) } else { 0.0 }));
            }
        }
        Ready { atoms, weights, lanes, of_leaves: Anchors::of(leaves.iter().copied()), of_atoms: Anchors::of(of.iter().copied().flatten()) }
    }

    /// One of the pairs above the row's slice.
    fn above_slice(&self, pairs: &[(f64, u32, u32)], ready: &Ready, room: &mut Room, turn: &mut Turn) -> Option<(usize, u32)> {
        let cut = open01(&mut turn.rng) * self.weight(turn.own.0, turn.own.1);
        let pairs = &pairs[..pairs.partition_point(|pair| pair.0 > cut)];
        let Room { row, density, running, open, .. } = room;
        let density = &mut density[..self.columns - 1];
        open.clear();
        open.resize(density.len(), false);
        pairs.iter().for_each(|pair| open[pair.2 as usize] = true);
        self.kernel.ln_density_each(&ready.atoms, row, |k| open[k], density);
        relative(density, self.kernel.tau());
        let at = running_pick(pairs.iter().map(|pair| density[pair.2 as usize]), running, &mut turn.rng)?;
        Some((pairs[at].1 as usize, pairs[at].2))
    }

    /// Densities of a row under the atoms with anchors of lower rank.
    fn anchored_densities(&self, turn: &Turn, ready: &Ready, row: &[f64], density: &mut [f64]) {
        let of_atoms = &ready.of_atoms;
        // numbers of atoms that are not in use have no anchor, and no parameters that mean something
        self.kernel.ln_density_each(&ready.atoms, row, |k| of_atoms.rank.get(k).is_none_or(|r| *r < u64::MAX), density);
        if !of_atoms.rank.is_empty() {
            of_atoms.close((turn.rank, turn.n), turn.own.1, f64::NEG_INFINITY, density);
        }
        relative(density, self.kernel.tau());
    }

    /// A leaf and an atom among those with anchors of lower rank, for the row of this place among some.
    fn between_anchors(&self, place: usize, ready: &Ready, room: &mut Room, turn: &mut Turn) -> Option<(usize, u32)> {
        let Room { density, mass, running, path, .. } = room;
        let atoms = self.columns - 1;
        let density = &density[place * atoms..][..atoms];
        let mass = &mut mass[place * ready.lanes..][..self.leaves.len()];
        ready.of_leaves.close((turn.rank, turn.n), turn.own.0, 0.0, mass);
        if let Some(charges) = &self.charges {
            running.clear();
            let charge = |(v, m): (usize, &f64)| {
                if *m > 0.0 { charges.ln_charge(turn.n as usize, self.leaves[v], v, path) } else { f64::NEG_INFINITY }
            };
            running.extend(mass.iter().enumerate().map(charge));
            let top = running.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            mass.iter_mut().zip(running.iter()).filter(|(m, _)| **m > 0.0).for_each(|(m, c)| *m *= (c - top).exp());
        }
        let v = running_pick(mass.iter().copied(), running, &mut turn.rng)?;
        let weights = &self.weights[v * self.columns + 1..][..atoms];
        let k = running_pick(weights.iter().zip(density).map(|(w, f)| w * f), running, &mut turn.rng)?;
        Some((v, k as u32))
    }

    fn weight(&self, leaf: usize, atom: usize) -> f64 {
        self.reach[leaf] * self.weights[leaf * self.columns + atom + 1]
    }
}

/// A row on its way.
struct Turn {
    n: u64,
    present: [u32; 2],
    /// Places of its leaf and of its atom.
    own: (usize, usize),
    rank: u64,
    rng: Philox,
}

/// Masses `sum_k P_v beta_vk f_k` of all leaves for some rows at once, in the order of atoms whoever comes along: the weights are read but once.
fn masses(ready: &Ready, atoms: usize, density: &[f64], mass: &mut [f64]) {
    let lanes = ready.lanes;
    wide(
        #[inline(always)]
        || {
            let mut f = [&[][..]; AT_ONCE];
            f.iter_mut().zip(density.chunks_exact(atoms.max(1))).for_each(|(f, own)| *f = &own[..atoms]);
            for (lot, weights) in ready.weights.chunks_exact((atoms * LANES).max(1)).enumerate() {
                let mut sums = [[0.0; LANES]; AT_ONCE];
                for (k, weights) in weights.chunks_exact(LANES).enumerate() {
                    for i in 0..AT_ONCE {
                        let f = f[i][k];
                        for lane in 0..LANES {
                            sums[i][lane] += weights[lane] * f;
                        }
                    }
                }
                for (i, sums) in sums.iter().enumerate() {
                    mass[i * lanes + lot * LANES..][..LANES].copy_from_slice(sums);
                }
            }
        },
    );
}

/// A place in proportion to these weights.
fn running_pick(weights: impl Iterator<Item = f64>, running: &mut Vec<f64>, rng: &mut Philox) -> Option<usize> {
    let mut total = 0.0;
    running.clear();
    running.extend(weights.map(|w| {
        total += w;
        total
    }));
    super::row::pick(running, rng)
}

/// Turns log densities into densities to this power, relative to the largest.
fn relative(ln: &mut [f64], power: f64) {
    let top = ln.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if top == f64::NEG_INFINITY {
        ln.fill(0.0);
        return;
    }
    wide(
        #[inline(always)]
        || ln.iter_mut().for_each(|place| *place = exp(power * (*place - top))),
    );
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
