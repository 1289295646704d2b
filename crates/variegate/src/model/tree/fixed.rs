//! The tree of least loss with weights of its own: once all draws are taken, sweeps in which paths stay on that tree and all else moves.
//!
//! Draws have other trees each, so that their nodes have no names in common. With the paths `V` held fixed a chain draws atoms of rows, weights of
//! nodes, parameters, scores and learned concentrations from `p(. | V, rows)`; its nodes are those of the tree. A new row then has a probability for
//! each node, and for a new branch below each, by the weights of a row's move averaged over these draws and normalised last.
//!
//! The first fifth of the sweeps is left out: atoms begin as chain 0 had them, and weights from numbers of rows.

use serde::{Deserialize, Serialize};

use super::draws::{Draw, Figures};
use super::point::{CoOccurrence, Loss};
use super::posterior::{Bound, TreePosterior, same_atoms};
use super::predict::Separated;
use super::program::{Chain, TreeSampler};
use super::sampler::Sampler;
use super::state::State;
use super::tempering::Rung;
use crate::Result;
use crate::run::{Draws, Philox, Piece};

/// One sweep in so many is left out at the beginning.
const LEFT_OUT: u64 = 5;

/// The tree of least loss, and what is drawn on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct FixedTree {
    /// Draws of each chain that it was found from.
    lengths: Vec<u64>,
    /// Node of each row at each level, row by row: nodes are numbered as in draws.
    pub(crate) labels: Vec<u32>,
    /// Its expected loss.
    pub(crate) loss: f64,
    sweeps: u64,
    done: u64,
    /// Where the chain on the tree is, until all sweeps are done.
    rung: Option<Rung>,
    /// Atom of each row in the best of the draws that the tree was found from, until all sweeps are done.
    best: Vec<u32>,
    /// How many atoms that has.
    best_atoms: usize,
    /// Atoms of rows to begin with.
    atoms: Vec<u32>,
    /// What was drawn, without what all of them have: rows and tree.
    drawn: Vec<Draw>,
    /// The tree, as draws have it: parent and level of each node, leaf of each row.
    tree: [Vec<u32>; 3],
    /// Sums over draws of the weights of each node: on the components of the best draw, on all others, and on what no row has.
    weights: Vec<f64>,
}

impl FixedTree {
    /// The tree of least loss of these draws, before the first sweep; none where there are too many rows for one.
    pub(super) fn of(
        program: &TreeSampler,
        chain: &Chain,
        lengths: &[u64],
        draws: &mut dyn FnMut() -> Result<Vec<Draws>>,
    ) -> Result<Option<Self>> {
        if !CoOccurrence::fits(chain.state.leaf.len(), chain.state.arena.depth()) {
            return Ok(None);
        }
        let piece = |(chain, draws)| Piece { chain, sweeps: 0, draws, trace: vec![], checkpoint: vec![], finished: true };
        let pieces: Vec<Piece> = (0..).zip(draws()?).map(piece).collect();
        let separated = program.margin.as_ref().zip(chain.features.clone());
        let separated = separated.map(|(s, features)| Separated { margin: s.margin, calibrated: s.calibrated, features });
        let bound =
            Bound { columns: vec![], width: 0, kernel: chain.kernel.clone(), separated, said: vec![], principal: chain.principal.clone() };
        let posterior = TreePosterior::of(bound, &pieces)?;
        let Some((labels, loss)) = posterior.least(Loss::Vi) else { return Ok(None) };
        let (best, best_atoms) = posterior.best_atoms();
        Ok(Some(Self {
            lengths: lengths.to_vec(),
            labels,
            loss,
            sweeps: program.node_sweeps,
            done: 0,
            rung: None,
            best: best.to_vec(),
            best_atoms,
            atoms: chain.state.atom.clone(),
            drawn: vec![],
            tree: Default::default(),
            weights: vec![],
        }))
    }

    /// Whether it was found from so many draws of each chain.
    pub(super) fn is_of(&self, lengths: &[u64]) -> bool {
        self.lengths == lengths
    }

    /// Whether all sweeps are done.
    pub(super) fn is_done(&self) -> bool {
        self.done >= self.sweeps
    }

    /// Sweeps so far.
    pub(super) fn done(&self) -> u64 {
        self.done
    }

    /// Where the chain on the tree is; nowhere at first.
    pub(super) fn begin(&mut self, empty: impl FnOnce() -> State) -> Rung {
        self.rung.take().unwrap_or_else(|| Rung { state: empty(), shared: None, figures: Figures::default() })
    }

    /// Places all rows on the tree, with their first atoms.
    pub(super) fn place(&self, sampler: &mut Sampler<'_>, rng: &mut Philox) -> Result<()> {
        let labels: Vec<usize> = self.labels.iter().map(|&z| z as usize).collect();
        let mut number = std::collections::HashMap::new();
        let atoms: Vec<usize> = (self.atoms.iter())
            .map(|&k| {
                let next = number.len();
                if sampler.state.finite { k as usize } else { *number.entry(k).or_insert(next) }
            })
            .collect();
        sampler.place(&labels, &atoms, rng)?;
        sampler.draw_theta(rng)
    }

    /// Takes in a sweep.
    pub(super) fn take_in(&mut self, rung: Option<Rung>) {
        let Some(rung) = rung else { return };
        self.done += 1;
        if self.done > self.sweeps / LEFT_OUT {
            let mut draw = Draw::of(&rung.state, rung.figures);
            self.add_weights(&draw);
            self.tree = [std::mem::take(&mut draw.parent), std::mem::take(&mut draw.level), std::mem::take(&mut draw.leaf)];
            draw.atom.clear();
            self.drawn.push(draw);
        }
        if self.is_done() {
            (self.best, self.atoms) = (vec![], vec![]);
        } else {
            self.rung = Some(rung);
        }
    }

    fn add_weights(&mut self, draw: &Draw) {
        let width = self.best.iter().max().map_or(0, |&k| k as usize + 1) + 2;
        let same = same_atoms(draw, (&self.best, self.best_atoms));
        self.weights.resize(draw.nodes() * width, 0.0);
        for (node, sums) in self.weights.chunks_exact_mut(width).enumerate() {
            let (new, atoms) = draw.weights_of(node).split_first().unwrap_or((&0.0, &[]));
            sums[width - 1] += new;
            atoms.iter().zip(&same).for_each(|(weight, as_one)| sums[as_one.unwrap_or(width - 2)] += weight);
        }
    }

    /// What was drawn, as draws of the tree.
    pub(super) fn draws(&self) -> Vec<Draw> {
        let [parent, level, leaf] = &self.tree;
        let whole = |draw: &Draw| Draw { parent: parent.clone(), level: level.clone(), leaf: leaf.clone(), ..draw.clone() };
        self.drawn.iter().map(whole).collect()
    }

    /// Mean weights of each node: on the components of the best draw, on all others, and on what no row has.
    pub(super) fn weights(&self) -> Vec<f64> {
        self.weights.iter().map(|sum| sum / self.drawn.len() as f64).collect()
    }
}
