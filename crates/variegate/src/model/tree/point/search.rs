//! The search for the tree of least loss.
//!
//! Starts: the five best different sampled trees, Ward's tree of `1 - mean_l P^(l)` cut at the rounded mean numbers of nodes, and the
//! single path. From each, every row in turn, by index, is taken out and put on the best of all existing paths and new branches (it
//! stays on a tie), until nothing changes; the best end is kept. What a row adds at a level by joining node S, of the rows but it, is
//! * Binder: `sum_{j in S} (1 - 2 P_ij)`;
//! * VI, times N: `(s+1) ln(s+1) - s ln s - 2 ln(1 + sum_{j in S} P_ij) - 2 sum_{j in S} ln(1 + P_ij/A_j)`, `s = |S|`,
//!   `A_j = sum_{k in S} P_jk`;
//!
//! and nothing in a node of its own, so a new branch costs what the levels above it cost.

use super::super::arena::{Arena, NONE};
use super::{CoOccurrence, Loss, canonical, members, ward_cuts};

/// A tree with its loss.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PointTree {
    /// Levels below the root.
    pub(crate) levels: usize,
    /// Node of each row, row by row one for each level: numbers of their own at each level, by first rows.
    pub(crate) labels: Vec<usize>,
    /// What was minimised.
    pub(crate) kind: Loss,
    /// Its value.
    pub(crate) loss: f64,
}

/// Most rounds over all rows from one start; each lowers the loss, so they end long before.
const MOST_ROUNDS: usize = 1000;
/// A gain below this is rounding.
pub(super) const LEAST_GAIN: f64 = 1e-9;
/// Sampled trees that the search starts from.
const SAMPLED: usize = 5;

/// The best tree that is found; `draws` are labels row by row, one for each level.
pub(crate) fn search<'a>(together: &CoOccurrence, kind: Loss, draws: impl Iterator<Item = &'a [usize]>) -> PointTree {
    let levels = together.levels();
    let mut best: Option<(f64, Vec<usize>)> = None;
    for start in starts(together, kind, draws) {
        let labels = canonical(&descend(together, kind, &start), levels);
        let loss = together.own(kind, &labels);
        if best.as_ref().is_none_or(|(least, _)| loss < *least) {
            best = Some((loss, labels));
        }
    }
    let (own, labels) = best.unwrap_or_default();
    PointTree { levels, labels, kind, loss: together.common(kind) + own }
}

fn starts<'a>(together: &CoOccurrence, kind: Loss, draws: impl Iterator<Item = &'a [usize]>) -> Vec<Vec<usize>> {
    let (rows, levels) = (together.rows(), together.levels());
    let mut nodes = vec![0.0; levels];
    let mut n_draws = 0.0;
    let mut seen = std::collections::HashSet::new();
    let mut sampled: Vec<(f64, Vec<usize>)> = Vec::new();
    for draw in draws {
        let labels = canonical(draw, levels);
        n_draws += 1.0;
        (0..levels).for_each(|l| nodes[l] += labels.iter().skip(l).step_by(levels).max().map_or(0.0, |m| *m as f64 + 1.0));
        if seen.contains(&labels) {
            continue;
        }
        seen.insert(labels.clone());
        sampled.push((together.own(kind, &labels), labels));
        sampled.sort_by(|a, b| a.0.total_cmp(&b.0));
        sampled.truncate(SAMPLED);
    }
    let mut all: Vec<Vec<usize>> = sampled.into_iter().map(|(_, labels)| labels).collect();
    if n_draws > 0.0 {
        let clusters: Vec<usize> = nodes.iter().map(|n| (n / n_draws).round() as usize).collect();
        let apart = |i: usize, j: usize| {
            let mean = (0..levels).map(|l| together.probability(l, i, j)).sum::<f64>() / levels as f64;
            (1.0 - mean) * (1.0 - mean)
        };
        all.push(ward_cuts(rows, apart, &clusters));
    }
    all.push(vec![0; rows * levels]);
    all
}

/// Moves rows one by one until none gains.
fn descend(together: &CoOccurrence, kind: Loss, start: &[usize]) -> Vec<usize> {
    let (rows, levels) = (together.rows(), together.levels());
    let (mut arena, mut leaves) = Arena::from_labels(levels, start);
    // A_j at each level: sum of P over the own node, kept up to date
    let mut inside = vec![0.0; rows * levels];
    for (level, own) in members(start, levels) {
        for &i in &own {
            inside[i * levels + level] = own.iter().map(|&j| together.probability(level, i, j)).sum();
        }
    }
    let mut path = vec![NONE; rows * levels];
    (0..rows).for_each(|i| arena.path_into(leaves[i], &mut path[i * levels..(i + 1) * levels]));
    for _ in 0..MOST_ROUNDS {
        let mut moved = false;
        for i in 0..rows {
            moved |= place(i, together, kind, &mut arena, &mut leaves, &mut path, &mut inside);
        }
        if !moved {
            break;
        }
    }
    path.iter().map(|&z| z as usize).collect()
}

/// Takes row i out and puts it where it costs least; whether it moved.
fn place(
    i: usize,
    together: &CoOccurrence,
    kind: Loss,
    arena: &mut Arena,
    leaves: &mut [u32],
    path: &mut [u32],
    inside: &mut [f64],
) -> bool {
    let (rows, levels) = (together.rows(), together.levels());
    let old = leaves[i];
    let joined = |path: &[u32], level: usize, j: usize, node: u32| j != i && path[j * levels + level] == node;
    for level in 0..levels {
        let node = path[i * levels + level];
        for j in (0..rows).filter(|&j| joined(path, level, j, node)) {
            inside[j * levels + level] -= together.probability(level, i, j);
        }
    }
    let private = arena.detach(old);
    leaves[i] = NONE;
    // what the row adds by joining each node
    let mut cost = vec![0.0; arena.slots()];
    let (mut shared, mut size) = (vec![0.0; arena.slots()], vec![0.0f64; arena.slots()]);
    for level in 0..levels {
        for j in (0..rows).filter(|&j| j != i) {
            let (z, p) = (path[j * levels + level] as usize, together.probability(level, i, j));
            match kind {
                Loss::Binder => cost[z] += 1.0 - 2.0 * p,
                Loss::Vi => {
                    size[z] += 1.0;
                    shared[z] += p;
                    cost[z] -= 2.0 * (p / inside[j * levels + level]).ln_1p();
                }
            }
        }
    }
    let order = arena.by_first_row(leaves);
    if kind == Loss::Vi {
        for &z in order.iter().skip(1).flatten() {
            let s = size[z as usize];
            cost[z as usize] += (s + 1.0) * (s + 1.0).ln() - s * s.ln() - 2.0 * f64::ln_1p(shared[z as usize]);
        }
    }
    // along paths
    for nodes in order.iter().skip(1) {
        nodes.iter().for_each(|&z| cost[z as usize] += if arena.level(z) > 1 { cost[arena.parent(z) as usize] } else { 0.0 });
    }
    let stay = private.map_or(old, |top| arena.parent(top));
    let mut best = (cost[stay as usize], stay);
    for &z in order.iter().flatten() {
        if cost[z as usize] < best.0 - LEAST_GAIN {
            best = (cost[z as usize], z);
        }
    }
    if let Some(top) = private {
        arena.release(top, old);
    }
    leaves[i] = arena.branch(best.1);
    arena.attach(leaves[i]);
    arena.path_into(leaves[i], &mut path[i * levels..(i + 1) * levels]);
    for level in 0..levels {
        let node = path[i * levels + level];
        let mut own = 1.0;
        for j in (0..rows).filter(|&j| joined(path, level, j, node)) {
            let p = together.probability(level, i, j);
            inside[j * levels + level] += p;
            own += p;
        }
        inside[i * levels + level] = own;
    }
    best.1 != stay
}
