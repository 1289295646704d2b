//! All that a chain of the cluster tree knows: the tree, leaf and atom of each row, weights of nodes, concentrations.
//!
//! Weights of a node are a row of one matrix, `beta_z = (rest, atom 0, atom 1, ..)`. Atoms are the components that some row has (or all
//! `K` of them in a finite mixture, where the rest is 0); the rest is the weight of all that no row has. An atom without
//! rows is given back and its column is 0 until it is used again, so products over whole rows of the matrix need no list of atoms.

use serde::{Deserialize, Serialize};

use super::arena::{Arena, NONE, ROOT};

/// Column of the rest.
pub(super) const REST: usize = 0;

/// Column of an atom.
#[inline]
pub(super) fn column(atom: u32) -> usize {
    atom as usize + 1
}

/// A matrix with one row a node, that grows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Grid<T> {
    width: usize,
    cells: Vec<T>,
}

impl<T: Copy + Default> Grid<T> {
    pub(super) fn new(rows: usize, width: usize) -> Self {
        Self { width, cells: vec![T::default(); rows * width] }
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// At least so many rows and columns; what is new is 0.
    pub(super) fn fit(&mut self, rows: usize, width: usize) {
        if width > self.width {
            let wider = width.next_multiple_of(4);
            let mut cells = vec![T::default(); self.cells.len().checked_div(self.width).unwrap_or(0).max(rows) * wider];
            if self.width > 0 {
                for (new, old) in cells.chunks_exact_mut(wider).zip(self.cells.chunks_exact(self.width)) {
                    new[..self.width].copy_from_slice(old);
                }
            }
            (self.width, self.cells) = (wider, cells);
        }
        if self.cells.len() < rows * self.width {
            self.cells.resize(rows * self.width, T::default());
        }
    }

    #[inline]
    pub(super) fn row(&self, node: u32) -> &[T] {
        &self.cells[node as usize * self.width..][..self.width]
    }

    #[inline]
    pub(super) fn row_mut(&mut self, node: u32) -> &mut [T] {
        &mut self.cells[node as usize * self.width..][..self.width]
    }

    /// A row to read and another to write.
    pub(super) fn pair(&mut self, read: u32, write: u32) -> (&[T], &mut [T]) {
        debug_assert_ne!(read, write);
        let (r, w, width) = (read as usize * self.width, write as usize * self.width, self.width);
        if r < w {
            let (left, right) = self.cells.split_at_mut(w);
            (&left[r..r + width], &mut right[..width])
        } else {
            let (left, right) = self.cells.split_at_mut(r);
            (&right[..width], &mut left[w..w + width])
        }
    }

    pub(super) fn clear(&mut self) {
        self.cells.fill(T::default());
    }
}

/// The concentrations: `alpha[l]` and `gamma[l]` belong to nodes of level `l + 1`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Concentrations {
    /// Of the choice of a child.
    pub alpha: Vec<f64>,
    /// Of a node's weights around those of its parent.
    pub gamma: Vec<f64>,
    /// Of the root's weights.
    pub gamma0: f64,
}

/// The state of a chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    /// The nodes.
    pub arena: Arena,
    /// Leaf of each row.
    pub leaf: Vec<u32>,
    /// Atom of each row.
    pub atom: Vec<u32>,
    /// Rows of each atom.
    pub size: Vec<u32>,
    /// Weights of nodes; see the header.
    pub weights: Grid<f64>,
    /// Parameters of atoms, one after the other.
    pub theta: Vec<f64>,
    /// Scores of nodes, one after the other; empty without a margin.
    pub eta: Vec<f64>,
    /// Concentrations.
    pub concentrations: Concentrations,
    /// Whether the atoms are a fixed number that is never born or deleted.
    pub finite: bool,
    free: Vec<u32>,
}

impl State {
    /// A tree without rows: the root has all its weight on the rest, or equal weights on `atoms` atoms of a finite mixture.
    pub(super) fn new(depth: usize, rows: usize, atoms: Option<usize>, concentrations: Concentrations) -> Self {
        let n = atoms.unwrap_or(0);
        let mut weights = Grid::new(1, 4);
        weights.fit(1, n + 1);
        match atoms {
            Some(n) => weights.row_mut(ROOT)[1..=n].fill(1.0 / n as f64),
            None => weights.row_mut(ROOT)[REST] = 1.0,
        }
        Self {
            arena: Arena::new(depth),
            leaf: vec![NONE; rows],
            atom: vec![NONE; rows],
            size: vec![0; n],
            weights,
            theta: vec![],
            eta: vec![],
            concentrations,
            finite: atoms.is_some(),
            free: vec![],
        }
    }

    /// Whether the atom has a column of weights.
    #[inline]
    pub(crate) fn is_live(&self, atom: usize) -> bool {
        self.finite || self.size[atom] > 0
    }

    /// Number of atoms that rows have.
    pub(crate) fn occupied_atoms(&self) -> usize {
        self.size.iter().filter(|&&n| n > 0).count()
    }

    /// A number for a new atom, with a place in the weights of all nodes.
    pub(super) fn new_atom(&mut self) -> u32 {
        let atom = self.free.pop().unwrap_or_else(|| {
            self.size.push(0);
            self.size.len() as u32 - 1
        });
        self.weights.fit(self.arena.slots(), column(atom) + 1);
        atom
    }

    /// Gives back an atom that lost its last row: at every node its weight goes to the rest.
    pub(super) fn merge_into_rest(&mut self, atom: u32) {
        let Self { arena, weights, .. } = self;
        for node in arena.nodes() {
            let row = weights.row_mut(node);
            row[REST] += row[column(atom)];
            row[column(atom)] = 0.0;
        }
        self.give_back(atom);
    }

    /// Atoms without rows whose numbers were not given back.
    pub(super) fn emptied(&self) -> Vec<u32> {
        let mut empty: Vec<bool> = self.size.iter().map(|&n| n == 0).collect();
        self.free.iter().for_each(|&k| empty[k as usize] = false);
        (0..empty.len() as u32).filter(|&k| empty[k as usize]).collect()
    }

    /// Gives back the number of an atom without rows.
    pub(super) fn give_back(&mut self, atom: u32) {
        debug_assert_eq!(self.size[atom as usize], 0);
        self.free.push(atom);
    }
}

#[cfg(test)]
impl State {
    /// Panics unless counts, weights and free numbers agree.
    pub(super) fn assert_consistent(&self) {
        let mut size = vec![0; self.size.len()];
        self.atom.iter().for_each(|&k| size[k as usize] += 1);
        assert_eq!(size, self.size);
        for node in self.arena.nodes() {
            let row = self.weights.row(node);
            assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-12, "weights of a node sum to {}", row.iter().sum::<f64>());
            for (atom, &n) in size.iter().enumerate() {
                assert!(self.finite || n > 0 || row[atom + 1] == 0.0, "an atom without rows has weight");
            }
            assert!(!self.finite || row[REST] == 0.0);
        }
        if !self.finite {
            let mut free = self.free.clone();
            free.sort_unstable();
            let empty: Vec<u32> = (0..size.len() as u32).filter(|&k| size[k as usize] == 0).collect();
            assert_eq!(free, empty);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_grows_and_keeps() {
        let mut grid = Grid::new(2, 3);
        grid.row_mut(1).copy_from_slice(&[1, 2, 3]);
        grid.fit(5, 6);
        assert_eq!(&grid.row(1)[..6], [1, 2, 3, 0, 0, 0]);
        grid.row_mut(4)[5] = 9;
        let (read, write) = grid.pair(4, 1);
        write[0] = read[5];
        let (read, write) = grid.pair(1, 4);
        write[1] = read[0];
        assert_eq!((grid.row(1)[0], grid.row(4)[1]), (9, 9));
    }
}
