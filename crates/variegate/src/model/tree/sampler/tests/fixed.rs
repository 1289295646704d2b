//! Sweeps on a fixed tree against the enumeration of all partitions into atoms, and new rows on it against that of one row more.

use super::super::super::arena::Arena;
use super::super::super::draws::{Draw, Figures};
use super::super::super::predict::Frame;
use super::super::super::state::State;
use super::super::{Rules, Sampler, Theta};
use super::enumeration::{X, ln_atoms, partitions, tree_a};
use super::summary;
use crate::run::{Purpose, Stream};
use crate::special::log_sum_exp;

/// Level 1: {0, 1, 2}, {3}; leaves {0, 1}, {2}, {3}.
const LABELS: [usize; 8] = [0, 0, 0, 0, 0, 1, 1, 0];
/// Numbers of components, and pairs of rows that share one, in a summary of four rows and two levels.
const OF_ATOMS: [usize; 7] = [2, 16, 17, 18, 19, 20, 21];

/// Log weights of all partitions of rows into atoms, on the tree of these labels.
fn ln_partitions(x: &[f64], labels: &[usize]) -> Vec<(Vec<usize>, f64)> {
    let (kernel, c) = tree_a();
    let (arena, leaves) = Arena::from_labels(2, labels);
    let weigh = |atoms: Vec<usize>| {
        let mut ln = ln_atoms(&arena, &leaves, &atoms, &c);
        for atom in 0..=*atoms.iter().max().unwrap() {
            let mut stats = vec![0.0; kernel.statistics()];
            x.iter().zip(&atoms).filter(|(_, k)| **k == atom).for_each(|(x, _)| kernel.add(&mut stats, &[*x], 1.0));
            ln += kernel.ln_marginal(&stats);
        }
        (atoms, ln)
    };
    partitions(x.len()).into_iter().map(weigh).collect()
}

fn evidence(all: &[(Vec<usize>, f64)]) -> f64 {
    log_sum_exp(&all.iter().map(|(_, ln)| *ln).collect::<Vec<_>>())
}

/// What is known of the atoms of rows, and of a new row: the density with which it takes each place of the tree.
fn known(new: f64) -> Vec<f64> {
    let all = ln_partitions(&X, &LABELS);
    let total = evidence(&all);
    let mean = |f: &dyn Fn(&[usize]) -> f64| all.iter().map(|(atoms, ln)| (ln - total).exp() * f(atoms)).sum::<f64>();
    let mut known = vec![mean(&|atoms| *atoms.iter().max().unwrap() as f64 + 1.0)];
    for j in 0..4 {
        known.extend((0..j).map(|i| mean(&|atoms| f64::from(u8::from(atoms[i] == atoms[j])))));
    }
    // nodes as draws number them, and the chance to come by under the prior
    let (a, five) = (0.7, [&X[..], &[new]].concat());
    let places = [
        ([9, 9], a / (4.0 + a)),
        ([0, 9], 3.0 / (4.0 + a) * a / (3.0 + a)),
        ([1, 9], 1.0 / (4.0 + a) * a / (1.0 + a)),
        ([0, 0], 3.0 / (4.0 + a) * 2.0 / (3.0 + a)),
        ([0, 1], 3.0 / (4.0 + a) * 1.0 / (3.0 + a)),
        ([1, 0], 1.0 / (4.0 + a) * 1.0 / (1.0 + a)),
    ];
    known.extend(places.map(|(path, prior)| prior * (evidence(&ln_partitions(&five, &[&LABELS[..], &path].concat())) - total).exp()));
    known
}

/// With and without drawn parameters, with splits and merges. 39 comparisons by Student's distribution: a false alarm in 140 choices of the seeds.
#[test]
fn sweeps_on_a_fixed_tree_meet_the_exact_posterior() {
    let (kernel, c) = tree_a();
    let (new, known) = (0.5, known(0.5));
    for (i, (theta, split_merges)) in [(Theta::Collapsed, 0), (Theta::Explicit, 0), (Theta::Collapsed, 1)].into_iter().enumerate() {
        let rules = Rules { theta, split_merges, ..Rules::default() };
        let mut s = Sampler::new(&X, 1, kernel.clone(), rules, State::new(2, 4, None, c.clone()));
        let mut rng = Stream::new(171 + i as u64, 0, Purpose::Check).rng();
        s.place(&LABELS, &[0, 1, 0, 1], &mut rng).unwrap();
        s.draw_theta(&mut rng).unwrap();
        (0..100).for_each(|_| s.sweep_on_fixed_tree(&mut rng).unwrap());
        let (batches, each) = (60, 400);
        let mut means = vec![];
        for _ in 0..batches {
            let mut sums = vec![0.0; known.len()];
            for _ in 0..each {
                s.sweep_on_fixed_tree(&mut rng).unwrap();
                let found = summary(&s.state);
                let draw = Draw::of(&s.state, Figures { shared: f64::NAN, ..Figures::default() });
                assert_eq!(draw.parent, [0, 0, 0, 1, 1, 2], "the tree stays");
                assert_eq!(draw.leaf, [3, 3, 4, 5]);
                let places = Frame::new(&draw, &kernel).ln_weights(&[new], None);
                let values = OF_ATOMS.iter().map(|&i| found[i]).chain(places.into_iter().map(f64::exp));
                sums.iter_mut().zip(values).for_each(|(s, v)| *s += v / each as f64);
            }
            means.push(sums);
        }
        s.state.assert_consistent();
        for (k, known) in known.iter().enumerate() {
            let n = batches as f64;
            let mean = means.iter().map(|m| m[k]).sum::<f64>() / n;
            let error = (means.iter().map(|m| (m[k] - mean).powi(2)).sum::<f64>() / (n * (n - 1.0))).sqrt();
            assert!(((mean - known) / error).abs() < 4.0, "{theta:?}, statistic {k}: {mean} +- {error}, exactly {known}");
        }
    }
}

/// A finite mixture: the tree stays, and so does the number of atoms.
#[test]
fn a_finite_mixture_stays_on_its_tree() {
    let (kernel, c) = tree_a();
    let rules = Rules { split_merges: 0, ..Rules::default() };
    let mut s = Sampler::new(&X, 1, kernel, rules, State::new(2, 4, Some(3), c));
    let mut rng = Stream::new(175, 0, Purpose::Check).rng();
    s.place(&LABELS, &[0, 2, 0, 2], &mut rng).unwrap();
    for _ in 0..20 {
        s.sweep_on_fixed_tree(&mut rng).unwrap();
        s.state.assert_consistent();
        let draw = Draw::of(&s.state, Figures::default());
        assert_eq!((draw.atoms, draw.parent, draw.leaf), (3, vec![0, 0, 0, 1, 1, 2], vec![3, 3, 4, 5]));
    }
}
