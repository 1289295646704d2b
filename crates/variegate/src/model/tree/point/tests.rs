//! Known losses, the search against all trees of four rows, Ward's tree against a plain search for the nearest pair.

use super::*;
use crate::dist::testing::rng;
use rand::{Rng, RngExt};

const SIX: [usize; 12] = [0, 0, 0, 0, 0, 1, 1, 0, 1, 0, 1, 1];

/// P1 = 0.1 + 0.9 same, P2 = 0.05 + 0.6 same in twenty draws, by hand.
fn known() -> CoOccurrence {
    let mut all = CoOccurrence::new(6, 2).unwrap();
    all.draws = 20.0;
    let (arena, leaves) = Arena::from_labels(2, &SIX);
    for level in 0..2 {
        for at in 0..36 {
            let (i, j) = (at / 6, at % 6);
            let same = arena.ancestor(leaves[i], level + 1) == arena.ancestor(leaves[j], level + 1);
            let count = match (i == j, level, same) {
                (true, _, _) | (false, 0, true) => 20.0,
                (false, 0, false) => 2.0,
                (false, _, true) => 13.0,
                (false, _, false) => 1.0,
            };
            all.counts[(level * 6 + i) * 6 + j] = count;
        }
    }
    all
}

#[test]
fn known_losses() {
    let all = known();
    assert!((all.loss(Loss::Binder, &SIX) - 2.25).abs() < 1e-6);
    assert!((all.loss(Loss::Vi, &SIX) - 0.374213).abs() < 1e-6);
}

/// Draws of some rows: a few trees that repeat, with rows that stray.
fn draws(rows: usize, levels: usize, n: usize, rng: &mut impl Rng) -> Vec<Vec<usize>> {
    let homes: Vec<usize> = (0..rows * levels).map(|_| rng.random_range(0..3)).collect();
    let stray = 0.1 + 0.6 * rng.random::<f64>();
    let one = |rng: &mut dyn FnMut() -> f64| homes.iter().map(|&h| if rng() < stray { (rng() * 3.0) as usize } else { h }).collect();
    let mut uniform = || rng.random::<f64>();
    (0..n).map(|_| one(&mut uniform)).collect()
}

fn counted(draws: &[Vec<usize>], rows: usize, levels: usize) -> CoOccurrence {
    let mut together = CoOccurrence::new(rows, levels).unwrap();
    draws.iter().for_each(|d| together.add(d));
    together
}

#[test]
fn shares_fall_with_the_level_and_parts_add_up() {
    let draws = draws(9, 3, 40, &mut rng(3));
    let all = counted(&draws, 9, 3);
    for at in 0..81 {
        let (i, j) = (at / 9, at % 9);
        let p: Vec<f64> = (0..3).map(|l| all.probability(l, i, j)).collect();
        assert!(p[0] >= p[1] && p[1] >= p[2] && p[0] <= 1.0 && (i != j || p[2] == 1.0));
        let shared = draws.iter().filter(|d| d[3 * i..3 * i + 2] == d[3 * j..3 * j + 2]).count();
        assert!((p[1] - shared as f64 / 40.0).abs() < 1e-12);
    }
    let mut parts = counted(&draws[..15], 9, 3);
    parts.merge(&counted(&draws[15..], 9, 3));
    assert_eq!(parts, all);
}

/// All trees of four rows and two levels: every labelling, once in its canonical form.
fn all_trees() -> Vec<Vec<usize>> {
    let mut found = std::collections::BTreeSet::new();
    for code in 0..4usize.pow(8) {
        let labels: Vec<usize> = (0..8).map(|d| code / 4usize.pow(d) % 4).collect();
        found.insert(canonical(&labels, 2));
    }
    found.into_iter().collect()
}

/// Of all trees the search finds the best one; that it may stop at a tree that no single row improves is known, and rare from so
/// many starts.
#[test]
fn the_search_finds_the_best_of_all_small_trees() {
    let trees = all_trees();
    assert_eq!(trees.len(), 60); // chains of two partitions of four things
    let mut rng = rng(8);
    for kind in [Loss::Binder, Loss::Vi] {
        let mut missed = 0;
        for _ in 0..200 {
            let draws = draws(4, 2, 12, &mut rng);
            let together = counted(&draws, 4, 2);
            let least = trees.iter().map(|t| together.loss(kind, t)).fold(f64::INFINITY, f64::min);
            let found = search(&together, kind, draws.iter().map(Vec::as_slice));
            assert!(found.loss >= least - 1e-9);
            assert!((found.loss - together.loss(kind, &found.labels)).abs() < 1e-12);
            missed += usize::from(found.loss > least + 1e-9);
        }
        assert!(missed <= 4, "{kind:?}: {missed} of 200 missed");
    }
}

/// From the single path, to a tree that no move of one row betters.
#[test]
fn no_single_row_gains_at_the_end() {
    let mut rng = rng(9);
    for kind in [Loss::Binder, Loss::Vi] {
        for _ in 0..10 {
            let draws = draws(7, 3, 20, &mut rng);
            let together = counted(&draws, 7, 3);
            let end = search(&together, kind, std::iter::empty());
            for i in 0..7 {
                for code in 0..8usize.pow(3) {
                    // any label: those of the others, or ones of its own
                    let mut moved = end.labels.clone();
                    (0..3).for_each(|l| moved[3 * i + l] = code / 8usize.pow(l as u32) % 8);
                    assert!(together.loss(kind, &canonical(&moved, 3)) >= end.loss - 1e-8, "{kind:?}");
                }
            }
        }
    }
}

#[test]
fn clear_groups_are_found() {
    let truth = [0, 0, 0, 0, 0, 1, 1, 0, 1, 0, 1, 1];
    let one_off = [0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 1, 1];
    let draws: Vec<Vec<usize>> = (0..10).map(|n| if n < 8 { truth.to_vec() } else { one_off.to_vec() }).collect();
    let together = counted(&draws, 6, 2);
    for kind in [Loss::Binder, Loss::Vi] {
        let tree = search(&together, kind, draws.iter().map(Vec::as_slice));
        assert_eq!(tree.labels, canonical(&truth, 2), "{kind:?}");
        let mut support = Support::new(&tree.labels, 2);
        draws.iter().for_each(|d| support.add(d));
        let nodes = support.finish(&together);
        assert_eq!(nodes.len(), 6);
        let (level, rows, c) = &nodes[0];
        assert_eq!((*level, rows.as_slice()), (1, [0, 1, 2].as_slice()));
        assert_eq!((c.cohesion, c.separation, c.support), (1.0, 1.0, 1.0));
        // {0, 1} at level 2: its pair always together, row 2 with it in 2 of 10 draws, when {0, 1, 2} overlaps by 2/3
        let (level, rows, c) = &nodes[2];
        assert_eq!((*level, rows.as_slice()), (2, [0, 1].as_slice()));
        assert!((c.cohesion - 1.0).abs() < 1e-12 && (c.separation - 0.8).abs() < 1e-12);
        assert!((c.support - (8.0 + 2.0 * 2.0 / 3.0) / 10.0).abs() < 1e-12);
        // {2}: alone in 8 draws, else at best 1/3 of {0, 1, 2}
        let (_, rows, c) = &nodes[3];
        assert_eq!(rows.as_slice(), [2]);
        assert!(c.cohesion == 1.0 && (c.separation - 0.8).abs() < 1e-12 && (c.support - (8.0 + 2.0 / 3.0) / 10.0).abs() < 1e-12);
    }
    let path = vec![0; 12];
    let mut support = Support::new(&path, 2);
    support.add(&path);
    assert!(support.finish(&together)[0].2.separation.is_nan());
}

/// Always merging the nearest pair, by sums of squares of points.
#[test]
fn ward_merges_the_nearest() {
    let mut rng = rng(4);
    for _ in 0..20 {
        let points: Vec<[f64; 2]> = (0..12).map(|_| [rng.random::<f64>(), rng.random::<f64>()]).collect();
        let square = |a: &[f64; 2], b: &[f64; 2]| (a[0] - b[0]).powi(2) + (a[1] - b[1]).powi(2);
        let cuts = ward_cuts(12, |i, j| square(&points[i], &points[j]), &[2, 5]);
        let mut groups: Vec<Vec<usize>> = (0..12).map(|i| vec![i]).collect();
        let mean = |g: &[usize]| [0, 1].map(|d| g.iter().map(|&i| points[i][d]).sum::<f64>() / g.len() as f64);
        for wanted in [5, 2] {
            while groups.len() > wanted {
                let mut best = (f64::INFINITY, 0, 0);
                for a in 0..groups.len() {
                    for b in 0..a {
                        let (n, m) = (groups[a].len() as f64, groups[b].len() as f64);
                        let gain = n * m / (n + m) * square(&mean(&groups[a]), &mean(&groups[b]));
                        if gain < best.0 {
                            best = (gain, a, b);
                        }
                    }
                }
                let taken = groups.remove(best.1);
                groups[best.2].extend(taken);
            }
            let level = usize::from(wanted == 5);
            for a in 0..12 {
                for b in 0..a {
                    let together = groups.iter().any(|g| g.contains(&a) && g.contains(&b));
                    assert_eq!(cuts[2 * a + level] == cuts[2 * b + level], together);
                }
            }
        }
    }
}

#[test]
fn too_many_rows_are_refused() {
    assert!(CoOccurrence::fits(5000, 3) && !CoOccurrence::fits(20_000, 3) && !CoOccurrence::fits(usize::MAX, 3));
    let said = CoOccurrence::new(20_000, 3).unwrap_err().to_string();
    assert!(said.contains("use the best draw"), "{said}");
}
