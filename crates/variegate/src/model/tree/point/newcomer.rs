//! A row that is not of the fit, on the tree of least loss: it goes where it would add least to the expected loss of the tree with it, on the best of
//! all existing paths and new branches. What it adds at a node is what `search.rs` says, with the probabilities that it shares its node
//! with each row of the fit.

use super::search::LEAST_GAIN;
use super::{CoOccurrence, Loss, PointTree, members};

/// A tree that rows can be put on.
#[derive(Debug, Clone)]
pub(crate) struct Landing {
    kind: Loss,
    levels: usize,
    /// Nodes from the root on, level by level and by first rows: level (0 for the root), place of the parent, rows.
    nodes: Vec<(usize, usize, Vec<usize>)>,
    /// `A_j` at each level: sum of P over the node of the row.
    inside: Vec<f64>,
}

impl Landing {
    /// For a tree, with what it was found by.
    pub(crate) fn new(together: &CoOccurrence, tree: &PointTree) -> Self {
        let levels = tree.levels;
        let mut inside = vec![0.0; tree.labels.len()];
        let mut nodes = vec![(0, 0, (0..together.rows()).collect::<Vec<usize>>())];
        let mut of = vec![vec![0; together.rows()]; levels + 1];
        for (level, rows) in members(&tree.labels, levels) {
            for &i in &rows {
                inside[i * levels + level] = rows.iter().map(|&j| together.probability(level, i, j)).sum();
                of[level + 1][i] = nodes.len();
            }
            nodes.push((level + 1, of[level][rows[0]], rows));
        }
        Self { kind: tree.kind, levels, nodes, inside }
    }

    /// What the tree was found by.
    pub(crate) fn kind(&self) -> Loss {
        self.kind
    }

    /// Mean over the rows of each node of the probabilities that the row shares its node with them; 1 for the root.
    pub(crate) fn through(&self, shared: &[f64]) -> Vec<f64> {
        let mean = |(level, _, rows): &(usize, usize, Vec<usize>)| match level {
            0 => 1.0,
            _ => rows.iter().map(|j| shared[j * self.levels + level - 1]).sum::<f64>() / rows.len() as f64,
        };
        self.nodes.iter().map(mean).collect()
    }

    /// The node that the row joins: a leaf, or one below which it opens a new branch. Of equals the first. `shared` has the probabilities that it
    /// shares its node with each row of the fit, row by row one for each level.
    pub(crate) fn place(&self, shared: &[f64]) -> usize {
        let mut cost = vec![0.0; self.nodes.len()];
        let mut best = 0;
        for (z, (level, parent, rows)) in self.nodes.iter().enumerate().skip(1) {
            let p = |j: &usize| shared[j * self.levels + level - 1];
            let own = match self.kind {
                Loss::Binder => rows.iter().map(|j| 1.0 - 2.0 * p(j)).sum::<f64>(),
                Loss::Vi => {
                    let s = rows.len() as f64;
                    let others: f64 = rows.iter().map(|j| (p(j) / self.inside[j * self.levels + level - 1]).ln_1p()).sum();
                    (s + 1.0) * (s + 1.0).ln() - s * s.ln() - 2.0 * rows.iter().map(p).sum::<f64>().ln_1p() - 2.0 * others
                }
            };
            cost[z] = cost[*parent] + own;
            if cost[z] < cost[best] - LEAST_GAIN {
                best = z;
            }
        }
        best
    }

    /// Nodes of levels 1, 2, .. on the way to a node; none below it.
    pub(crate) fn path(&self, node: usize) -> Vec<Option<usize>> {
        let mut path = vec![None; self.levels];
        let mut at = node;
        while at > 0 {
            path[self.nodes[at].0 - 1] = Some(at);
            at = self.nodes[at].1;
        }
        path
    }
}

#[cfg(test)]
mod tests {
    use super::super::search;
    use super::*;

    /// Two clear groups of three rows, one of them split in two at level 2: draws that are almost sure.
    fn draws() -> Vec<Vec<usize>> {
        let sure = vec![0, 0, 0, 0, 0, 1, 1, 0, 1, 0, 1, 0];
        let other = vec![0, 0, 0, 0, 0, 0, 1, 0, 1, 1, 1, 1];
        [vec![sure; 9], vec![other; 1]].concat()
    }

    /// The place of a new row is the one of least loss among all trees with it: each is built and judged as a whole.
    #[test]
    fn a_new_row_goes_where_the_whole_tree_is_best() {
        let draws = draws();
        let mut together = CoOccurrence::new(6, 2).unwrap();
        draws.iter().for_each(|d| together.add(d));
        for kind in [Loss::Vi, Loss::Binder] {
            let tree = search(&together, kind, draws.iter().map(Vec::as_slice));
            let landing = Landing::new(&together, &tree);
            // where the seventh row was in each draw: like row 0, like row 5, alone below the first node, alone
            for newcomer in [[0, 0], [1, 0], [0, 7], [7, 7]] {
                let unsure = [1, 1];
                let mut seven = CoOccurrence::new(7, 2).unwrap();
                let mut shared = vec![0.0; 12];
                for (d, draw) in draws.iter().enumerate() {
                    let own = if d < 8 { newcomer } else { unsure };
                    let all = [draw.as_slice(), &own].concat();
                    seven.add(&all);
                    for j in 0..6 {
                        let same = draw[2 * j] == own[0];
                        shared[2 * j] += f64::from(same) / 10.0;
                        shared[2 * j + 1] += f64::from(same && draw[2 * j + 1] == own[1]) / 10.0;
                    }
                }
                let place = landing.place(&shared);
                let with = |z: usize| {
                    // labels of the tree, and a path that is new below z
                    let mut labels = tree.labels.clone();
                    let first = |z: usize| landing.nodes[z].2[0];
                    labels.extend((0..2).map(|l| landing.path(z)[l].map_or(99, |node| tree.labels[2 * first(node) + l])));
                    seven.loss(kind, &labels)
                };
                let losses: Vec<f64> = (0..landing.nodes.len()).map(with).collect();
                let least = losses.iter().copied().fold(f64::INFINITY, f64::min);
                assert!((losses[place] - least).abs() < 1e-9, "{kind:?} {newcomer:?}: {place} of {losses:?}");
                assert_eq!(losses.iter().position(|l| *l < least + 1e-9), Some(place), "of equals the first");
            }
        }
    }
}
