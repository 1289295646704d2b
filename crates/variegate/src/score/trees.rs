//! How good a tree of rows is: how tight its nodes are, how far siblings lie apart, and how well it keeps classes together.
//!
//! With `S_z` the unbiased covariance of the rows of node z, and `S` that of all rows:
//! * inner distance (AID): mean over nodes below the root with two rows or more of `2 tr S_z`, the mean squared distance of two rows;
//!   under random labels it is `2 tr S` for a tree of any shape, so the ratio to that is what can be compared;
//! * outer distance (AOD): mean over ordered pairs of siblings of the squared distance of their means; under random labels it is the mean
//!   of `tr S (1/N_z + 1/N_z')`, which is large for small nodes;
//! * F-measure of a level: `sum_i N_i/N max_j 2 N_ij/(N_i + N_j)` over classes i and nodes j, of the rows whose class is known;
//! * purity: mean over pairs of rows of one class of the share of this class in the smallest node that holds both.
//!
//! Both distances reward splitting: never choose a model by them.

use std::collections::HashMap;

/// Distances within and between the nodes of a tree; NaN where there is nothing to average.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NodeDistances {
    /// Inner distance over nodes of two rows or more.
    pub inner: f64,
    /// The same with nodes of one row counted as 0.
    pub inner_zero: f64,
    /// `inner` over `2 tr S`: below 1 where nodes are tighter than chance.
    pub inner_ratio: f64,
    /// Outer distance; NaN where no node has a sibling.
    pub outer: f64,
    /// `outer` over its expectation under random labels: above 1 where siblings are farther apart than chance.
    pub outer_ratio: f64,
}

/// The nodes that labels describe: rows with the same labels up to a level share its node.
struct Nodes {
    /// Node of each row at each level, level by level the fastest.
    of: Vec<usize>,
    /// Node above; the root is node 0.
    parent: Vec<usize>,
    levels: usize,
}

impl Nodes {
    fn new(labels: &[u32], levels: usize) -> Self {
        assert!(levels > 0 && labels.len().is_multiple_of(levels), "labels come row by row, one for each level");
        let (mut of, mut parent, mut known) = (Vec::with_capacity(labels.len()), vec![0], HashMap::new());
        for row in labels.chunks_exact(levels) {
            let mut at = 0;
            for label in row {
                at = *known.entry((at, *label)).or_insert_with(|| {
                    parent.push(at);
                    parent.len() - 1
                });
                of.push(at);
            }
        }
        Self { of, parent, levels }
    }

    fn rows(&self) -> impl Iterator<Item = &[usize]> {
        self.of.chunks_exact(self.levels)
    }

    fn len(&self) -> usize {
        self.parent.len()
    }
}

/// Distances of a tree; `labels` has one number for each level, row by row, and `x` the rows' numbers, without gaps (codes as
/// indicators, missing cells as the means of their columns).
///
/// # Panics
/// If labels and rows do not fit together.
pub fn node_distances(labels: &[u32], levels: usize, x: &[f64], columns: usize) -> NodeDistances {
    let nodes = Nodes::new(labels, levels);
    let n = labels.len() / levels;
    assert_eq!(x.len(), n * columns, "a row of numbers for each row of labels");
    let mut counts = vec![0.0; nodes.len()];
    let mut means = vec![0.0; nodes.len() * columns];
    let every_node = |row: &[usize]| std::iter::once(0).chain(row.iter().copied()).collect::<Vec<_>>();
    for (i, row) in nodes.rows().enumerate() {
        for z in every_node(row) {
            counts[z] += 1.0;
            // the running mean keeps digits where means are large
            let own = &mut means[z * columns..(z + 1) * columns];
            own.iter_mut().zip(&x[i * columns..]).for_each(|(m, v)| *m += (v - *m) / counts[z]);
        }
    }
    let distance = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
    let mean = |z: usize| &means[z * columns..(z + 1) * columns];
    let mut squares = vec![0.0; nodes.len()];
    for (i, row) in nodes.rows().enumerate() {
        let values = &x[i * columns..(i + 1) * columns];
        every_node(row).into_iter().for_each(|z| squares[z] += distance(values, mean(z)));
    }
    let trace = squares[0] / (counts[0] - 1.0);
    let within: Vec<f64> = (1..nodes.len()).filter(|&z| counts[z] > 1.5).map(|z| 2.0 * squares[z] / (counts[z] - 1.0)).collect();
    let sum: f64 = within.iter().sum();
    let inner = sum / within.len() as f64;
    let (mut apart, mut chance, mut pairs) = (0.0, 0.0, 0.0);
    for a in 1..nodes.len() {
        for b in (1..a).filter(|&b| nodes.parent[b] == nodes.parent[a]) {
            apart += distance(mean(a), mean(b));
            chance += trace * (1.0 / counts[a] + 1.0 / counts[b]);
            pairs += 1.0;
        }
    }
    NodeDistances {
        inner,
        // a tree of single rows has no distances at all
        inner_zero: if within.is_empty() { f64::NAN } else { sum / (nodes.len() - 1) as f64 },
        inner_ratio: inner / (2.0 * trace),
        outer: apart / pairs,
        outer_ratio: apart / chance,
    }
}

/// Rows of each node (from 0, the root) and class; rows of unknown class are left out.
fn by_class(nodes: &Nodes, classes: &[Option<u32>]) -> Vec<HashMap<u32, f64>> {
    let mut table = vec![HashMap::new(); nodes.len()];
    for (row, class) in nodes.rows().zip(classes) {
        if let Some(class) = class {
            std::iter::once(&0).chain(row).for_each(|&z| *table[z].entry(*class).or_insert(0.0) += 1.0);
        }
    }
    table
}

/// F-measure of each level; NaN where no class is known.
///
/// # Panics
/// If labels and classes do not fit together.
pub fn level_f_measures(labels: &[u32], levels: usize, classes: &[Option<u32>]) -> Vec<f64> {
    let nodes = Nodes::new(labels, levels);
    assert_eq!(classes.len(), labels.len() / levels, "a class, known or not, for each row of labels");
    let table = by_class(&nodes, classes);
    let total: f64 = table[0].values().sum();
    let mut level = vec![0; nodes.len()];
    nodes.rows().for_each(|row| row.iter().enumerate().for_each(|(l, &z)| level[z] = l));
    let mut all: Vec<(&u32, &f64)> = table[0].iter().collect();
    all.sort_unstable_by_key(|(class, _)| **class); // a sum in a fixed order
    let best = |l: usize, class: &u32, size: f64| {
        let own = (1..nodes.len()).filter(|&z| level[z] == l);
        own.map(|z| 2.0 * table[z].get(class).unwrap_or(&0.0) / (size + table[z].values().sum::<f64>())).fold(0.0, f64::max)
    };
    (0..levels)
        .map(|l| all.iter().map(|(class, size)| **size / total * best(l, class, **size)).sum::<f64>() / f64::from(total > 0.0))
        .collect()
}

/// Purity of a tree; NaN where no two rows have the same class.
///
/// # Panics
/// If labels and classes do not fit together.
pub fn dendrogram_purity(labels: &[u32], levels: usize, classes: &[Option<u32>]) -> f64 {
    let nodes = Nodes::new(labels, levels);
    assert_eq!(classes.len(), labels.len() / levels, "a class, known or not, for each row of labels");
    let table = by_class(&nodes, classes);
    let choose = |n: f64| 0.5 * n * (n - 1.0);
    // pairs that meet in a node: those in it, less those that met further down
    let (mut weighted, mut pairs) = (0.0, 0.0);
    for z in 0..nodes.len() {
        let size: f64 = table[z].values().sum();
        let mut own: Vec<(&u32, &f64)> = table[z].iter().collect();
        own.sort_unstable_by_key(|(class, _)| **class);
        for (class, &n) in own {
            let children = (1..nodes.len()).filter(|&y| nodes.parent[y] == z);
            let below: f64 = children.map(|y| choose(table[y].get(class).copied().unwrap_or(0.0))).sum();
            weighted += (choose(n) - below) * n / size;
            pairs += choose(n) - below;
        }
    }
    weighted / pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    const X: [f64; 12] = [0.0, 0.0, 1.0, 0.0, 0.0, 2.0, 5.0, 5.0, 6.0, 5.0, 5.0, 8.0];
    const LABELS: [u32; 12] = [0, 0, 0, 0, 0, 1, 1, 0, 1, 0, 1, 1];

    fn close(got: f64, want: f64) {
        assert!((got - want).abs() < 1e-6, "{got}, not {want}");
    }

    #[test]
    fn known_values() {
        let d = node_distances(&LABELS, 2, &X, 2);
        close(d.inner, 3.0);
        close(d.inner_zero, 2.0);
        close(d.inner_ratio, 3.0 / 36.066667);
        close(d.outer, 22.314815);
        let classes = [Some(0), Some(0), Some(1), Some(1), Some(1), Some(2)];
        let f = level_f_measures(&LABELS, 2, &classes);
        close(f[0], 0.683333);
        close(f[1], 0.9);
        close(dendrogram_purity(&LABELS, 2, &classes), 0.75);
        // names of nodes and the place of the origin say nothing
        let renamed: Vec<u32> = LABELS.iter().map(|l| 7 - l).collect();
        let far: Vec<f64> = X.iter().map(|v| v + 1e8).collect();
        let e = node_distances(&renamed, 2, &far, 2);
        close(e.inner, d.inner);
        close(e.outer, d.outer);
        close(e.outer_ratio, d.outer_ratio);
    }

    /// The mean over all orders of the rows is what is expected under random labels: exactly, as all 720 are taken.
    #[test]
    fn ratios_are_one_under_random_labels() {
        let mut order: Vec<usize> = (0..6).collect();
        let (mut sum, mut base, mut orders) = ((0.0, 0.0), node_distances(&LABELS, 2, &X, 2), 0.0);
        base.inner /= base.inner_ratio;
        base.outer /= base.outer_ratio;
        permute(&mut order, 0, &mut |order| {
            let x: Vec<f64> = order.iter().flat_map(|&i| [X[2 * i], X[2 * i + 1]]).collect();
            let d = node_distances(&LABELS, 2, &x, 2);
            sum = (sum.0 + d.inner, sum.1 + d.outer);
            orders += 1.0;
        });
        close(sum.0 / orders, base.inner);
        close(sum.1 / orders, base.outer);
    }

    fn permute(order: &mut Vec<usize>, from: usize, f: &mut impl FnMut(&[usize])) {
        if from == order.len() {
            return f(order);
        }
        for i in from..order.len() {
            order.swap(from, i);
            permute(order, from + 1, f);
            order.swap(from, i);
        }
    }

    /// Purity pair by pair, by its definition.
    #[test]
    fn purity_is_a_mean_over_pairs() {
        let n = 40;
        let labels: Vec<u32> = (0..n * 3).map(|i| ((i * i + i / 3) % 3) as u32).collect();
        let classes: Vec<Option<u32>> = (0..n).map(|i| (i % 7 != 0).then_some((i * 5 % 4) as u32)).collect();
        let meet = |i: usize, j: usize| (0..3).take_while(|&l| labels[3 * i + l] == labels[3 * j + l]).count();
        let (mut sum, mut pairs) = (0.0, 0.0);
        for i in 0..n {
            for j in (0..i).filter(|&j| classes[i].is_some() && classes[i] == classes[j]) {
                let level = meet(i, j);
                let below: Vec<usize> = (0..n).filter(|&k| classes[k].is_some() && meet(i, k) >= level).collect();
                sum += below.iter().filter(|&&k| classes[k] == classes[i]).count() as f64 / below.len() as f64;
                pairs += 1.0;
            }
        }
        close(dendrogram_purity(&labels, 3, &classes), sum / pairs);
    }

    #[test]
    fn nothing_to_average_is_nan() {
        let one = node_distances(&[0, 0], 2, &[1.0], 1);
        assert!(one.inner.is_nan() && one.inner_zero.is_nan() && one.outer.is_nan() && one.outer_ratio.is_nan());
        let path = node_distances(&[0, 0, 0], 1, &[1.0, 2.0, 4.0], 1);
        assert!(path.outer.is_nan() && (path.inner_ratio - 1.0).abs() < 1e-12);
        assert!(level_f_measures(&[0, 1], 1, &[None, None])[0].is_nan());
        assert!(dendrogram_purity(&[0, 1], 1, &[Some(0), Some(1)]).is_nan());
        assert!(dendrogram_purity(&[0, 1], 1, &[None, None]).is_nan());
        assert_eq!(dendrogram_purity(&[0, 0], 1, &[Some(0), Some(0)]), 1.0);
    }
}
