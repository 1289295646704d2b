//! What rows do that move all at once: each chooses leaf and atom by itself, wherever it is.

use rand::Rng;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::OnceLock;

use super::super::super::arena::Arena;
use super::super::super::components::{Kernel, Prepared};
use super::super::super::margin::Margin;
use super::super::super::principal::Principal;
use super::super::row::pick;
use crate::linalg::wide;
use crate::run::{Block, Philox, open01};
use crate::special::branchless::exp;

/// A rank and the row that has it: the lower wins.
pub(super) type Rank = (u64, u64);

/// The random numbers of a row, by key and row alone: first its rank, or the share of its weight at which its slice is cut, then those of
/// its choices. So the driver knows ranks and cuts too, and neither blocks nor the number of visits matter.
pub(super) fn numbers_of(key: u64, row: u64) -> Philox {
    Philox::new([key, 0], [0, row, 0, 0])
}

/// What rows need to move.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Move<'a> {
    pub(super) key: u64,
    pub(super) kernel: Cow<'a, Kernel>,
    pub(super) theta: Cow<'a, [f64]>,
    /// Of all rows.
    pub(super) leaf: Cow<'a, [u32]>,
    pub(super) atom: Cow<'a, [u32]>,
    /// Leaves, and where each is in that list, by node.
    pub(super) leaves: Vec<u32>,
    pub(super) place: Vec<u32>,
    /// `P_v` of each leaf.
    pub(super) reach: Vec<f64>,
    /// `beta_v` of each leaf, column by column.
    pub(super) weights: Vec<f64>,
    pub(super) columns: usize,
    /// Made by whoever visits first.
    #[serde(skip)]
    pub(super) ready: OnceLock<Ready>,
    pub(super) how: How,
    pub(super) charges: Option<MoveCharges<'a>>,
    /// How columns become coordinates, where they do.
    pub(super) principal: Option<Cow<'a, Principal>>,
}

/// What follows from a move, in the order in which rows go through it.
#[derive(Debug, Clone)]
pub(super) struct Ready {
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
pub(super) struct MoveCharges<'a> {
    pub(super) margin: Margin,
    pub(super) arena: Cow<'a, Arena>,
    pub(super) eta: Cow<'a, [f64]>,
    pub(super) features: Cow<'a, [f64]>,
    pub(super) width: usize,
    /// Kinds of leaves by their numbers of siblings, the kind of each leaf, and `ln r` by row and kind; empty under the stated target.
    pub(super) kinds: usize,
    pub(super) kind: Vec<u32>,
    pub(super) ln_r: Vec<f64>,
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
pub(super) enum How {
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
    pub(in super::super::super) fn along(self, principal: Option<&'a Principal>) -> Self {
        Self { principal: principal.map(Cow::Borrowed), ..self }
    }

    /// Leaf and atom of each row of a block, drawn anew.
    pub(in super::super::super) fn rows(&self, block: &Block<'_>) -> Vec<[u32; 2]> {
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
    pick(running, rng)
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
