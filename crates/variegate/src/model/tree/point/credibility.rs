//! How far the draws bear out a node S of a tree, at its level l:
//! * cohesion: mean of `P^(l)_ij` over pairs of its rows (1 for one row);
//! * separation: 1 less the largest mean of `P^(l)_ij` over pairs with a sibling's rows (NaN without siblings);
//! * support: mean over draws of the best overlap `|S and T|/|S or T|` with a node T of the draw, at any level below the root.

use serde::{Deserialize, Serialize};

use super::{CoOccurrence, members};

/// What the draws think of a node.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Credibility {
    /// How surely its rows belong together.
    pub(crate) cohesion: f64,
    /// How surely they are apart from its siblings.
    pub(crate) separation: f64,
    /// How often the draws have such a node.
    pub(crate) support: f64,
}

/// Overlaps of the nodes of one tree with those of draws. Needs the draws, but no pairs of rows.
#[derive(Debug, Clone)]
pub(crate) struct Support {
    levels: usize,
    nodes: Vec<(usize, Vec<usize>)>,
    /// Node of each row at each level, as a place in `nodes`.
    of: Vec<usize>,
    sums: Vec<f64>,
    draws: f64,
}

impl Support {
    /// For a tree given by labels.
    pub(crate) fn new(labels: &[usize], levels: usize) -> Self {
        let nodes = members(labels, levels);
        let of = places(&nodes, labels.len(), levels);
        Self { levels, sums: vec![0.0; nodes.len()], nodes, of, draws: 0.0 }
    }

    /// Takes in a draw.
    pub(crate) fn add(&mut self, labels: &[usize]) {
        let theirs = members(labels, self.levels);
        let of = places(&theirs, labels.len(), self.levels);
        let mut both = std::collections::HashMap::new();
        for (a, b) in self.of.chunks_exact(self.levels).zip(of.chunks_exact(self.levels)) {
            for &a in a {
                b.iter().for_each(|&b| *both.entry((a, b)).or_insert(0usize) += 1);
            }
        }
        let mut best = vec![0.0f64; self.nodes.len()];
        for ((a, b), common) in both {
            let either = self.nodes[a].1.len() + theirs[b].1.len() - common;
            best[a] = best[a].max(common as f64 / either as f64);
        }
        self.sums.iter_mut().zip(best).for_each(|(s, b)| *s += b);
        self.draws += 1.0;
    }

    /// The credibility of each node, in the order of levels and first rows, with its level from 1 and its rows.
    pub(crate) fn finish(self, together: &CoOccurrence) -> Vec<(usize, Vec<usize>, Credibility)> {
        let mut found = Vec::with_capacity(self.nodes.len());
        for (at, (level, rows)) in self.nodes.iter().enumerate() {
            let pairs = rows.len() * (rows.len() - 1) / 2;
            let sum: f64 =
                rows.iter().enumerate().map(|(k, &i)| rows[..k].iter().map(|&j| together.probability(*level, i, j)).sum::<f64>()).sum();
            let cohesion = if pairs == 0 { 1.0 } else { sum / pairs as f64 };
            let above = |node: &[usize]| if *level == 0 { 0 } else { self.of[node[0] * self.levels + level - 1] };
            let mut nearest = f64::NEG_INFINITY;
            for (other, (other_level, others)) in self.nodes.iter().enumerate() {
                if other == at || other_level != level || above(others) != above(rows) {
                    continue;
                }
                let sum: f64 = rows.iter().map(|&i| others.iter().map(|&j| together.probability(*level, i, j)).sum::<f64>()).sum();
                nearest = nearest.max(sum / (rows.len() * others.len()) as f64);
            }
            let separation = if nearest == f64::NEG_INFINITY { f64::NAN } else { 1.0 - nearest };
            let support = self.sums[at] / self.draws;
            found.push((level + 1, rows.clone(), Credibility { cohesion, separation, support }));
        }
        found
    }
}

fn places(nodes: &[(usize, Vec<usize>)], cells: usize, levels: usize) -> Vec<usize> {
    let mut of = vec![0; cells];
    for (at, (level, rows)) in nodes.iter().enumerate() {
        rows.iter().for_each(|i| of[i * levels + level] = at);
    }
    of
}
