//! What is kept of a state as a draw, and how it is read back.
//!
//! Nodes are numbered level by level and within a level by their smallest row, atoms by theirs (those without rows last): equal
//! states give equal draws, whatever numbers a chain used. Node 0 is the root, and a parent comes before its children.

#[cfg(test)]
use super::arena::Arena;
use super::arena::ROOT;
use super::state::{Concentrations, REST, State, column};
use crate::run::{Draws, Piece};
use crate::{Error, Result};

/// Figures of the state at the end of a sweep.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Figures {
    /// `sum_n [ln f(x_n | theta) + ln beta_leaf(atom)] + ln p(V)`.
    pub(crate) complete: f64,
    /// The same with the margin's log charges.
    pub(crate) charged: f64,
    /// Sum of violations of the margin.
    pub(crate) violation: f64,
    /// What all atoms share: strength or variance; NaN if they share nothing.
    pub(crate) shared: f64,
}

/// One draw from the posterior.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Draw {
    pub(crate) figures: Figures,
    pub(crate) concentrations: Concentrations,
    /// Leaf and atom of each row.
    pub(crate) leaf: Vec<u32>,
    pub(crate) atom: Vec<u32>,
    /// Parent of each node; the root has none and says 0.
    pub(crate) parent: Vec<u32>,
    /// Level of each node.
    pub(crate) level: Vec<u32>,
    /// Number of atoms.
    pub(crate) atoms: usize,
    /// Weights of each node: of the rest, then of each atom.
    pub(crate) weights: Vec<f64>,
    /// Parameters of atoms, one after the other.
    pub(crate) theta: Vec<f64>,
    /// Scores of nodes, one after the other (the root's are 0); empty without a margin.
    pub(crate) eta: Vec<f64>,
}

impl Draw {
    /// Whether some row has more than one sibling, at all levels together.
    pub(crate) fn is_crowded(&self) -> bool {
        let mut children = vec![0; self.parent.len()];
        self.parent.iter().skip(1).for_each(|&p| children[p as usize] += 1);
        // parents come first
        let mut siblings = vec![0; self.parent.len()];
        for z in 1..self.parent.len() {
            let above = self.parent[z] as usize;
            siblings[z] = siblings[above] + children[above] - 1;
        }
        siblings.into_iter().any(|n| n > 1)
    }

    /// The draw that a state is.
    pub(crate) fn of(state: &State, figures: Figures) -> Self {
        let order: Vec<u32> = state.arena.by_first_row(&state.leaf).concat();
        let mut number = vec![0; state.arena.slots()];
        order.iter().enumerate().for_each(|(i, &node)| number[node as usize] = i as u32);

        let mut atoms: Vec<u32> = vec![];
        let mut place = vec![u32::MAX; state.size.len()];
        let live = (0..state.size.len() as u32).filter(|&k| state.finite && state.size[k as usize] == 0);
        for k in state.atom.iter().copied().chain(live) {
            if place[k as usize] == u32::MAX {
                place[k as usize] = atoms.len() as u32;
                atoms.push(k);
            }
        }
        let parameters = state.theta.len().checked_div(state.size.len()).unwrap_or(0);
        let scores = state.eta.len().checked_div(state.arena.slots()).unwrap_or(0);
        let mut draw = Self {
            figures,
            concentrations: state.concentrations.clone(),
            leaf: state.leaf.iter().map(|&leaf| number[leaf as usize]).collect(),
            atom: state.atom.iter().map(|&k| place[k as usize]).collect(),
            parent: vec![],
            level: vec![],
            atoms: atoms.len(),
            weights: vec![],
            theta: atoms.iter().flat_map(|&k| &state.theta[k as usize * parameters..][..parameters]).copied().collect(),
            eta: vec![],
        };
        for &node in &order {
            draw.parent.push(if node == ROOT { 0 } else { number[state.arena.parent(node) as usize] });
            draw.level.push(state.arena.level(node) as u32);
            let weights = state.weights.row(node);
            draw.weights.push(weights[REST]);
            draw.weights.extend(atoms.iter().map(|&k| weights[column(k)]));
            let eta = &state.eta[node as usize * scores..][..scores];
            draw.eta.extend(eta.iter().map(|&v| if node == ROOT { 0.0 } else { v }));
        }
        draw
    }

    /// Atom of each row, and the number of atoms.
    pub(crate) fn atoms_of_rows(&self) -> (&[u32], usize) {
        (&self.atom, self.atoms)
    }

    /// Number of nodes.
    pub(crate) fn nodes(&self) -> usize {
        self.parent.len()
    }

    /// Weights of a node: of the rest, then of each atom.
    pub(crate) fn weights_of(&self, node: usize) -> &[f64] {
        &self.weights[node * (self.atoms + 1)..][..self.atoms + 1]
    }

    /// Nodes of levels 1, 2, .. on each row's path, row by row.
    pub(crate) fn labels(&self) -> Vec<u32> {
        let depth = self.concentrations.alpha.len();
        let mut labels = vec![0; depth * self.leaf.len()];
        for (path, &leaf) in labels.chunks_exact_mut(depth).zip(&self.leaf) {
            let mut node = leaf;
            for place in path.iter_mut().rev() {
                *place = node;
                node = self.parent[node as usize];
            }
        }
        labels
    }

    /// The tree with the leaf of each row.
    #[cfg(test)]
    pub(crate) fn tree(&self) -> (Arena, Vec<u32>) {
        let labels: Vec<usize> = self.labels().into_iter().map(|z| z as usize).collect();
        Arena::from_labels(self.concentrations.alpha.len(), &labels)
    }

    /// Keeps the draw. Tables have columns of fixed widths: what changes its size is cut into records.
    pub(crate) fn write(&self, out: &mut Draws) {
        let c = &self.concentrations;
        for (name, value) in FIGURES.iter().zip(self.figures.numbers()) {
            out.scalar(name, value);
        }
        out.scalar("n_components", self.atoms as f64);
        out.vector("alpha", &c.alpha);
        out.vector("gamma", &c.gamma);
        out.scalar("gamma0", c.gamma0);
        let wide = |values: &[u32]| values.iter().map(|&v| f64::from(v)).collect::<Vec<_>>();
        out.vector("leaf", &wide(&self.leaf));
        out.vector("atom", &wide(&self.atom));
        let (parameters, scores) = (self.theta.len().checked_div(self.atoms).unwrap_or(0), self.eta.len() / self.nodes());
        let width = parameters.max(scores).max(1);
        let mut put = |record: Record, at: usize, also: f64, values: &[f64]| {
            let mut padded = values.to_vec();
            padded.resize(width, 0.0);
            out.component(at, &[("record", &[f64::from(record as u8)]), ("also", &[also]), ("values", &padded)]);
        };
        for node in 0..self.nodes() {
            put(Record::Node, node, f64::from(self.parent[node]), &self.eta[node * scores..][..scores]);
            for part in self.weights_of(node).chunks(width) {
                put(Record::Weights, node, part.len() as f64, part);
            }
        }
        for k in 0..self.atoms {
            put(Record::Atom, k, 0.0, &self.theta[k * parameters..][..parameters]);
        }
    }

    /// All draws of a chain; `parameters` of an atom and `scores` of a node are known from the model.
    pub(crate) fn read(piece: &Piece, parameters: usize, scores: usize) -> Result<Vec<Self>> {
        let (scalars, components) = (&piece.draws.scalars, &piece.draws.components);
        let missing = |name: &str| Error::Unfit(format!("the draws of chain {} have no column `{name}`, or a damaged one", piece.chain));
        let find = |name: &str| scalars.find(name).ok_or_else(|| missing(name));
        let figures = FIGURES.iter().map(|name| Ok(find(name)?.0)).collect::<Result<Vec<_>>>()?;
        let (alpha, gamma, gamma0) = (find("alpha")?, find("gamma")?, find("gamma0")?);
        let (leaf, atom) = (find("leaf")?, find("atom")?);
        let records = ["draw", "component", "record", "also", "values"].map(|name| components.find(name).map(|c| c.0));
        let [Some(of), Some(at), Some(kind), Some(also), Some(values)] = records else { return Err(missing("values")) };
        let mut rest = components.values.chunks_exact(components.width().max(1)).peekable();
        let mut all = vec![];
        for (i, row) in scalars.values.chunks_exact(scalars.width().max(1)).enumerate() {
            let vector = |place: (usize, usize)| row[place.0..][..place.1].to_vec();
            let whole = |place: (usize, usize)| row[place.0..][..place.1].iter().map(|&v| v as u32).collect::<Vec<_>>();
            let mut draw = Self {
                figures: Figures::from_numbers([0, 1, 2, 3].map(|f| row[figures[f]])),
                concentrations: Concentrations { alpha: vector(alpha), gamma: vector(gamma), gamma0: row[gamma0.0] },
                leaf: whole(leaf),
                atom: whole(atom),
                parent: vec![],
                level: vec![],
                atoms: 0,
                weights: vec![],
                theta: vec![],
                eta: vec![],
            };
            let number = (piece.draws.first + i as u64) as f64;
            while let Some(record) = rest.next_if(|record| record[of] == number) {
                let numbers = &record[values..];
                match record[kind] as u8 {
                    k if k == Record::Node as u8 => {
                        let parent = record[also] as u32;
                        let level = draw.level.get(parent as usize).map_or(0, |l| l + 1);
                        draw.parent.push(parent);
                        draw.level.push(level);
                        draw.eta.extend(numbers.get(..scores).ok_or_else(|| missing("values"))?);
                    }
                    k if k == Record::Weights as u8 => {
                        draw.weights.extend(numbers.get(..record[also] as usize).ok_or_else(|| missing("values"))?);
                    }
                    _ => {
                        draw.atoms = record[at] as usize + 1;
                        draw.theta.extend(numbers.get(..parameters).ok_or_else(|| missing("values"))?);
                    }
                }
            }
            if draw.nodes() == 0 || draw.weights.len() != draw.nodes() * (draw.atoms + 1) {
                return Err(missing("values"));
            }
            all.push(draw);
        }
        Ok(all)
    }
}

const FIGURES: [&str; 4] = ["log_likelihood", "log_joint", "violation", "shared"];

impl Figures {
    fn numbers(self) -> [f64; 4] {
        [self.complete, self.charged, self.violation, self.shared]
    }

    fn from_numbers([complete, charged, violation, shared]: [f64; 4]) -> Self {
        Self { complete, charged, violation, shared }
    }
}

/// What a row of the table of components is.
#[derive(Clone, Copy)]
enum Record {
    Node = 0,
    Weights = 1,
    Atom = 2,
}
