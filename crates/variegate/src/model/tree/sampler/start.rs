//! Where a chain begins.
//!
//! * `sequential`: rows come one after the other in random order, each placed given those before it.
//! * `prior`: the same without a look at their cells.
//! * `single`: one path and one atom for all.
//! * `ward`: atoms are clusters by k-means (from a k-means++ start), and Ward's tree of their means is cut into levels.
//! * labels that are given: their rows begin on the paths that these say, with one atom for each leaf; then the others are placed as in
//!   `sequential`, given those.
//!
//! The last three have labels first; weights then come from numbers of rows as from tables, which is near enough for a beginning: the first
//! sweep draws them anew.

use serde::{Deserialize, Serialize};

use super::super::arena::Arena;
use super::super::components::Family;
use super::super::margin::Features;
use super::super::point::ward_cuts;
use super::{Sampler, Theta};
use crate::Result;
use crate::infer::k_means;
use crate::linalg::dot;
use crate::run::Philox;

/// Where a chain begins; see the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Start {
    Sequential,
    Prior,
    Single,
    Ward,
}

/// Most clusters to begin with: atoms are soon born where there are too few.
const MOST_CLUSTERS: usize = 50;

impl Sampler<'_> {
    /// Places all rows.
    pub(in super::super) fn start(&mut self, rng: &mut Philox) -> Result<()> {
        if self.rules.theta == Theta::Explicit && self.state.finite {
            self.draw_theta(rng)?; // atoms without rows have parameters too
        }
        match self.rules.start {
            Start::Sequential => self.order(rng).into_iter().try_for_each(|n| self.insert(n as usize, rng)),
            Start::Prior => self.order(rng).into_iter().try_for_each(|n| self.insert_unseen(n as usize, rng)),
            Start::Single => {
                let (rows, depth) = (self.rows(), self.state.arena.depth());
                self.place(&vec![0; rows * depth], &vec![0; rows], rng)
            }
            Start::Ward => {
                let (labels, atoms) = self.ward(rng);
                self.place(&labels, &atoms, rng)
            }
        }
    }

    /// Places rows with labels where these say, then the others one after the other. `given` has the path of each row's label; none where it is not
    /// known.
    pub(in super::super) fn start_at(&mut self, given: &[Option<&[usize]>], rng: &mut Philox) -> Result<()> {
        let depth = self.state.arena.depth();
        let known: Vec<usize> = (0..self.rows()).filter(|&n| given[n].is_some()).collect();
        let labels: Vec<usize> = given.iter().flatten().copied().flatten().copied().collect();
        // a leaf has an atom of its own, as far as there are as many
        let (_, leaves) = Arena::from_labels(depth, &labels);
        let mut number = std::collections::HashMap::new();
        let most = if self.state.finite { self.state.size.len() } else { usize::MAX };
        let mut atom = |leaf: u32| {
            let next = number.len();
            *number.entry(leaf).or_insert(next) % most
        };
        let atoms: Vec<usize> = leaves.iter().map(|&leaf| atom(leaf)).collect();
        self.place_some(&known, &labels, &atoms, rng)?;
        let unknown = |n: &u32| given[*n as usize].is_none();
        self.order(rng).into_iter().filter(unknown).try_for_each(|n| self.insert(n as usize, rng))
    }

    /// All rows at once: labels of levels row by row, and atoms, whose numbers are used without gaps.
    pub(in super::super) fn place(&mut self, labels: &[usize], atoms: &[usize], rng: &mut Philox) -> Result<()> {
        let all: Vec<usize> = (0..self.rows()).collect();
        self.place_some(&all, labels, atoms, rng)
    }

    /// The same for some rows alone.
    fn place_some(&mut self, rows: &[usize], labels: &[usize], atoms: &[usize], rng: &mut Philox) -> Result<()> {
        let depth = self.state.arena.depth();
        let (arena, leaves) = Arena::from_labels(depth, labels);
        self.state.arena = arena;
        for ((&n, leaf), &atom) in rows.iter().zip(leaves).zip(atoms) {
            (self.state.leaf[n], self.state.atom[n]) = (leaf, atom as u32);
        }
        let used = atoms.iter().max().map_or(0, |k| k + 1);
        self.state.size.resize(self.state.size.len().max(used), 0);
        atoms.iter().for_each(|&k| self.state.size[k] += 1);
        self.state.weights.fit(self.state.arena.slots(), self.state.size.len() + 1);
        self.draw_raw_weights(rng);
        for node in self.state.arena.nodes().skip(1).collect::<Vec<_>>() {
            self.draw_scores(node, rng);
        }
        self.refresh();
        if self.rules.theta == Theta::Explicit { self.draw_theta(rng) } else { Ok(()) }
    }

    /// Labels and atoms of clusters.
    fn ward(&self, rng: &mut Philox) -> (Vec<usize>, Vec<usize>) {
        let (points, width) = self.points();
        let views: Vec<&[f64]> = points.chunks_exact(width).collect();
        let most = if self.state.finite { self.state.size.len() } else { MOST_CLUSTERS };
        let wanted = ((0.5 * views.len() as f64).sqrt().ceil() as usize).clamp(1, most);
        let found = k_means(&views, wanted, width, rng);
        // clusters without rows go
        let mut number = vec![None; wanted];
        let mut centres: Vec<&[f64]> = Vec::new();
        let mut atoms = Vec::with_capacity(views.len());
        for &member in &found.member {
            let atom = *number[member].get_or_insert_with(|| {
                centres.push(&found.centres[member * width..][..width]);
                centres.len() - 1
            });
            atoms.push(atom);
        }
        let (k, depth) = (centres.len(), self.state.arena.depth());
        let square = |i: usize, j: usize| {
            let apart: Vec<f64> = centres[i].iter().zip(centres[j]).map(|(a, b)| a - b).collect();
            dot(&apart, &apart)
        };
        // as many times more nodes from level to level
        let cuts: Vec<usize> = (1..=depth).map(|l| (k as f64).powf(l as f64 / depth as f64).round() as usize).collect();
        let nodes = ward_cuts(k, square, &cuts);
        let labels = atoms.iter().flat_map(|&atom| &nodes[atom * depth..][..depth]).copied().collect();
        (labels, atoms)
    }

    /// Rows as points: centred, codes as indicators, missing cells at the mean, and in units of their own where components have variances
    /// of their own.
    fn points(&self) -> (Vec<f64>, usize) {
        let codes = if self.kernel.family() == Family::Categorical {
            let largest = |d: usize| self.x.iter().skip(d).step_by(self.cols).fold(0.0, |m: f64, &v| m.max(v)) as usize;
            (0..self.cols).map(|d| largest(d) + 1).collect()
        } else {
            vec![0; self.cols]
        };
        let features = Features::new(self.x, &codes, None, false);
        let (mut points, width) = (features.of(self.x), features.width());
        if matches!(self.kernel.family(), Family::GaussianDiag | Family::GaussianFull) {
            for d in 0..width {
                let column = || points.iter().skip(d).step_by(width);
                let spread = (column().map(|v| v * v).sum::<f64>() / self.rows() as f64).sqrt();
                if spread > 0.0 {
                    points.iter_mut().skip(d).step_by(width).for_each(|v| *v /= spread);
                }
            }
        }
        (points, width)
    }
}
