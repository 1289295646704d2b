//! One tree for a whole posterior: the nested clustering of least expected loss, with how far the draws bear out each node.
//!
//! `P^(l)_ij` is the share of draws in which rows i and j share their node of level l. The loss of a tree is the sum over levels of
//! * Binder: `sum_{i<j} |1[same_l] - P^(l)_ij|`, or
//! * VI: `(1/N) sum_i [ln|S_i| + ln sum_j P_ij - 2 ln sum_{j in S_i} P_ij]`, `S_i` the node of i: a lower bound of the expected
//!   variation of information up to a constant.
//!
//! `search.rs` looks for the tree, `ward.rs` gives it one of its starts, `credibility.rs` says what the draws think of each node,
//! `newcomer.rs` where rows go that were not in the fit.

mod credibility;
mod newcomer;
mod search;
mod ward;

#[cfg(test)]
mod tests;

pub(crate) use credibility::{Credibility, Support};
pub(crate) use newcomer::Landing;
pub(crate) use search::{PointTree, search};
pub(crate) use ward::ward_cuts;

use super::arena::Arena;
use crate::{Error, Result};

/// What a tree is judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Loss {
    /// Pairs on the wrong side; tends to flat trees.
    Binder,
    /// Variation of information; keeps levels apart.
    #[default]
    Vi,
}

/// Most pairs of all levels that are counted: 400 MB.
const MOST_CELLS: usize = 100_000_000;

/// How often rows shared their nodes, level by level. Needs memory for the square of the rows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CoOccurrence {
    rows: usize,
    levels: usize,
    draws: f64,
    /// Numbers of draws, which f32 holds exactly up to 2^24: levels × rows × rows.
    counts: Vec<f32>,
}

impl CoOccurrence {
    /// Whether so many rows can be counted.
    pub(crate) fn fits(rows: usize, levels: usize) -> bool {
        rows.checked_mul(rows).and_then(|cells| cells.checked_mul(levels)).is_some_and(|cells| cells <= MOST_CELLS)
    }

    /// Nothing yet; refuses more rows than it can hold.
    pub(crate) fn new(rows: usize, levels: usize) -> Result<Self> {
        if !Self::fits(rows, levels) {
            let most = (MOST_CELLS as f64 / levels as f64).sqrt() as usize;
            return Err(Error::Unfit(format!(
                "the point tree compares all pairs of rows, which is done for at most {most} rows at {levels} levels, and there are {rows}: \
                 use the best draw, or fit a sample of the rows"
            )));
        }
        Ok(Self { rows, levels, draws: 0.0, counts: vec![0.0; rows * rows * levels] })
    }

    /// Takes in a draw: labels row by row, one for each level; rows with equal labels up to a level share its node.
    pub(crate) fn add(&mut self, labels: &[usize]) {
        self.draws += 1.0;
        let members = members(labels, self.levels);
        for (level, rows) in members {
            let plane = &mut self.counts[level * self.rows * self.rows..][..self.rows * self.rows];
            for &i in &rows {
                rows.iter().for_each(|&j| plane[i * self.rows + j] += 1.0);
            }
        }
    }

    /// Takes in what was counted elsewhere.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.draws += other.draws;
        self.counts.iter_mut().zip(&other.counts).for_each(|(a, b)| *a += b);
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Number of levels.
    pub(crate) fn levels(&self) -> usize {
        self.levels
    }

    /// `P^(l)_ij`, l from 0 for the level below the root.
    pub(crate) fn probability(&self, level: usize, i: usize, j: usize) -> f64 {
        f64::from(self.row(level, i)[j]) / self.draws
    }

    /// Draws in which row i shared its node with each row.
    fn row(&self, level: usize, i: usize) -> &[f32] {
        &self.counts[(level * self.rows + i) * self.rows..][..self.rows]
    }

    /// The loss of a tree, all levels weighing the same.
    #[cfg(test)]
    pub(crate) fn loss(&self, loss: Loss, labels: &[usize]) -> f64 {
        self.common(loss) + self.own(loss, labels)
    }

    /// The part of the loss that all trees have: pairs as if all were apart, or `ln sum_j P_ij`.
    fn common(&self, loss: Loss) -> f64 {
        let mut sum = 0.0;
        for level in 0..self.levels {
            for i in 0..self.rows {
                sum += match loss {
                    Loss::Binder => (0..i).map(|j| self.probability(level, i, j)).sum::<f64>(),
                    Loss::Vi => (0..self.rows).map(|j| self.probability(level, i, j)).sum::<f64>().ln() / self.rows as f64,
                };
            }
        }
        sum
    }

    /// The part that depends on the tree; looks at pairs within nodes alone.
    fn own(&self, loss: Loss, labels: &[usize]) -> f64 {
        let mut sum = 0.0;
        for (level, rows) in members(labels, self.levels) {
            for (at, &i) in rows.iter().enumerate() {
                sum += match loss {
                    Loss::Binder => rows[..at].iter().map(|&j| 1.0 - 2.0 * self.probability(level, i, j)).sum::<f64>(),
                    Loss::Vi => {
                        let inside: f64 = rows.iter().map(|&j| self.probability(level, i, j)).sum();
                        ((rows.len() as f64).ln() - 2.0 * inside.ln()) / self.rows as f64
                    }
                };
            }
        }
        sum
    }
}

/// The rows of each node below the root, with its level from 0, in the order of first rows level by level.
pub(crate) fn members(labels: &[usize], levels: usize) -> Vec<(usize, Vec<usize>)> {
    let (arena, leaves) = Arena::from_labels(levels, labels);
    let order = arena.by_first_row(&leaves);
    let mut place = vec![0; arena.slots()];
    let mut found = Vec::new();
    for (level, nodes) in order.iter().enumerate().skip(1) {
        for &node in nodes {
            place[node as usize] = found.len();
            found.push((level - 1, Vec::new()));
        }
    }
    for (i, &leaf) in leaves.iter().enumerate() {
        (1..=levels).for_each(|level| found[place[arena.ancestor(leaf, level) as usize]].1.push(i));
    }
    found
}

/// Labels in which every node has a number of its own at its level, in the order of first rows: equal trees have equal labels.
pub(crate) fn canonical(labels: &[usize], levels: usize) -> Vec<usize> {
    let mut out = vec![0; labels.len()];
    let mut next = vec![0; levels];
    for (level, rows) in members(labels, levels) {
        rows.iter().for_each(|i| out[i * levels + level] = next[level]);
        next[level] += 1;
    }
    out
}
