//! All trees and all partitions into atoms of three or four rows: their exact posterior, and the sampler against it.

use super::super::super::arena::{Arena, NONE, ROOT};
use super::super::super::components::{Family, Kernel, Prior};
use super::super::super::state::{Concentrations, State};
use super::super::{PathMove, Rules, Sampler, Theta};
use super::{bind, concentrations, known, summary};
use crate::dist::TableCount;
use crate::run::{Philox, Purpose, Stream};
use crate::special::{ln_gamma, log_sum_exp};

/// Partitions of rows as labels in order of appearance.
pub(super) fn partitions(rows: usize) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for _ in 0..rows {
        all = all
            .into_iter()
            .flat_map(|p: Vec<usize>| {
                let next = p.iter().max().map_or(0, |m| m + 1);
                (0..=next).map(move |label| [p.clone(), vec![label]].concat())
            })
            .collect();
    }
    all
}

/// All trees of a depth, as labels row by row.
pub(super) fn trees(rows: usize, depth: usize) -> Vec<Vec<usize>> {
    let finer = |fine: &[usize], coarse: &[usize]| (0..rows).all(|i| (0..i).all(|j| fine[i] != fine[j] || coarse[i] == coarse[j]));
    let mut chains: Vec<Vec<Vec<usize>>> = partitions(rows).into_iter().map(|p| vec![p]).collect();
    for _ in 1..depth {
        chains = chains
            .into_iter()
            .flat_map(|chain| {
                let coarse = chain[chain.len() - 1].clone();
                partitions(rows).into_iter().filter(move |p| finer(p, &coarse)).map(move |p| [chain.clone(), vec![p]].concat())
            })
            .collect();
    }
    chains.into_iter().map(|chain| (0..rows).flat_map(|n| chain.iter().map(move |p| p[n]).collect::<Vec<_>>()).collect()).collect()
}

/// `ln p(c | V)`, weights integrated out: the sum over numbers of tables of
/// `gamma0^K G(gamma0)/G(gamma0+M.) prod G(M_k) prod_z [gamma^t. G(gamma)/G(gamma+n.) prod s(n, t)]`.
pub(super) fn ln_atoms(arena: &Arena, leaves: &[u32], atoms: &[usize], c: &Concentrations) -> f64 {
    let k = atoms.iter().max().map_or(0, |m| m + 1);
    let mut customers = vec![vec![0u64; k]; arena.slots()];
    leaves.iter().zip(atoms).for_each(|(&leaf, &atom)| customers[leaf as usize][atom] += 1);
    // nodes bottom-up
    let nodes: Vec<u32> = (1..=arena.depth()).rev().flat_map(|l| arena.at_level(l).to_vec()).collect();
    fn rest(arena: &Arena, nodes: &[u32], at: usize, customers: &mut Vec<Vec<u64>>, c: &Concentrations) -> f64 {
        let k = customers[0].len();
        let Some(&node) = nodes.get(at / k) else {
            let m: Vec<f64> = customers[ROOT as usize].iter().map(|&m| m as f64).collect();
            let dishes: f64 = m.iter().map(|&m| c.gamma0.ln() + ln_gamma(m)).sum();
            return dishes + ln_gamma(c.gamma0) - ln_gamma(c.gamma0 + m.iter().sum::<f64>());
        };
        let (z, dish, gamma) = (node as usize, at % k, c.gamma[arena.level(node) - 1]);
        let n = customers[z][dish];
        // TableCount has gamma^t s(n,t) G(gamma)/G(gamma+n); the node's own factor has n. in place of n
        let count = TableCount::new(n, gamma).unwrap();
        let own = ln_gamma(gamma + n as f64) - ln_gamma(gamma);
        let whole: u64 = customers[z].iter().sum();
        let node_factor = if dish == 0 { ln_gamma(gamma) - ln_gamma(gamma + whole as f64) } else { 0.0 };
        let parent = arena.parent(node) as usize;
        let terms: Vec<f64> = (n.min(1)..=n)
            .map(|t| {
                customers[parent][dish] += t;
                let below = rest(arena, nodes, at + 1, customers, c);
                customers[parent][dish] -= t;
                count.ln_pmf(t) + own + below
            })
            .collect();
        node_factor + log_sum_exp(&terms)
    }
    rest(arena, &nodes, 0, &mut customers, c)
}

/// The exact posterior: log evidence and means of [`summary`].
pub(in super::super::super) fn enumerate(x: &[f64], cols: usize, depth: usize, kernel: &Kernel, c: &Concentrations) -> (f64, Vec<f64>) {
    let rows = x.len() / cols;
    let (mut logs, mut values) = (vec![], vec![]);
    for labels in trees(rows, depth) {
        let (arena, leaves) = Arena::from_labels(depth, &labels);
        for atoms in partitions(rows) {
            let mut ln = arena.ln_prior(&c.alpha) + ln_atoms(&arena, &leaves, &atoms, c);
            let k = atoms.iter().max().unwrap() + 1;
            let mut size = vec![0; k];
            for atom in 0..k {
                let mut stats = vec![0.0; kernel.statistics()];
                (0..rows).filter(|&n| atoms[n] == atom).for_each(|n| {
                    kernel.add(&mut stats, &x[n * cols..][..cols], 1.0);
                    size[atom] += 1;
                });
                ln += kernel.ln_marginal(&stats);
            }
            let mut state = State::new(depth, rows, None, c.clone());
            (state.arena, state.leaf, state.size) = (arena.clone(), leaves.clone(), size);
            state.atom = atoms.iter().map(|&k| k as u32).collect();
            logs.push(ln);
            values.push(summary(&state));
        }
    }
    let evidence = log_sum_exp(&logs);
    let means = (0..values[0].len()).map(|i| logs.iter().zip(&values).map(|(l, v)| (l - evidence).exp() * v[i]).sum()).collect();
    (evidence, means)
}

/// Runs a chain and compares the means of [`summary`] with known ones, by means of batches.
fn compare(what: &str, sampler: Sampler<'_>, known: &[f64], sweeps: usize, seed: u64) {
    compare_steps(what, sampler, known, sweeps, seed, |sampler, rng| sampler.sweep(rng).unwrap());
}

/// The same with steps of any kind.
pub(super) fn compare_steps<'a>(
    what: &str,
    sampler: Sampler<'a>,
    known: &[f64],
    sweeps: usize,
    seed: u64,
    step: impl FnMut(&mut Sampler<'a>, &mut Philox),
) {
    for (i, (&known, (mean, error))) in known.iter().zip(estimate(sampler, sweeps, seed, step)).enumerate() {
        let z = (mean - known) / error;
        // 22 statistics a run, a false alarm in 700 runs
        assert!(z.abs() < 4.0, "{what}: statistic {i} is {mean} +- {error}, exactly {known} (z = {z})");
    }
}

/// Means of [`summary`] over a chain with their standard errors, by means of batches.
pub(super) fn estimate<'a>(
    mut sampler: Sampler<'a>,
    sweeps: usize,
    seed: u64,
    mut step: impl FnMut(&mut Sampler<'a>, &mut Philox),
) -> Vec<(f64, f64)> {
    let mut rng = Stream::new(seed, 0, Purpose::Check).rng();
    assert!(sampler.state.leaf.iter().all(|&leaf| leaf == NONE));
    sampler.start(&mut rng).unwrap();
    sampler.state.assert_consistent();
    sampler.sweep(&mut rng).unwrap();
    (0..200).for_each(|_| step(&mut sampler, &mut rng));
    sampler.state.assert_consistent();
    let (batches, statistics) = (100, summary(&sampler.state).len());
    let mut means = vec![];
    for _ in 0..batches {
        let mut sum = vec![0.0; statistics];
        for _ in 0..sweeps / batches {
            step(&mut sampler, &mut rng);
            sum.iter_mut().zip(summary(&sampler.state)).for_each(|(s, v)| *s += v);
        }
        means.push(sum.into_iter().map(|s| s / (sweeps / batches) as f64).collect::<Vec<_>>());
    }
    let n = batches as f64;
    let of = |i: usize| {
        let mean = means.iter().map(|m| m[i]).sum::<f64>() / n;
        (mean, (means.iter().map(|m| (m[i] - mean).powi(2)).sum::<f64>() / (n * (n - 1.0))).sqrt())
    };
    (0..statistics).map(of).collect()
}

#[test]
fn known_probabilities_of_atoms() {
    let (arena, leaves) = Arena::from_labels(2, &[0, 0, 0, 0, 0, 1, 1, 0]);
    let c = concentrations(2, 0.7, 1.3, 0.9);
    for (atoms, known) in [([0, 0, 1, 0], -2.710632543), ([0, 0, 0, 0], -0.897373521), ([0, 1, 2, 3], -5.456270644)] {
        assert!((ln_atoms(&arena, &leaves, &atoms, &c) - known).abs() < 1e-9);
    }
    let all: f64 = partitions(4).iter().map(|p| ln_atoms(&arena, &leaves, p, &c).exp()).sum();
    assert!((all - 1.0).abs() < 1e-12);
    // a large gamma makes one restaurant of the tree, a small one gives all rows of a leaf one atom
    let wide = concentrations(2, 0.7, 1e6, 0.9);
    assert!((ln_atoms(&arena, &leaves, &[0, 0, 1, 0], &wide) + 2.479754511).abs() < 1e-5);
    let narrow = concentrations(2, 0.7, 1e-9, 0.9);
    assert!(ln_atoms(&arena, &leaves, &[0, 1, 0, 0], &narrow) < -15.0);
}

pub(super) const X: [f64; 4] = [-1.5, -1.2, 1.0, 1.9];

pub(super) fn tree_a() -> (Kernel, Concentrations) {
    (known(&X, 1, 0.5, 4.0), concentrations(2, 0.7, 1.3, 0.9))
}

#[test]
fn known_posterior_of_four_rows() {
    let (kernel, c) = tree_a();
    let (evidence, means) = enumerate(&X, 1, 2, &kernel, &c);
    assert!((evidence + 8.792231586).abs() < 1e-8, "{evidence}");
    let printed = [
        2.0680518, 2.7880552, 2.2612493, 0.0631148, // nodes, atoms, one path
        0.6534732, 0.4132146, 0.4185386, 0.3950903, 0.3987272, 0.6298897, // same node of level 1
        0.4131001, 0.1973833, 0.2019399, 0.1817981, 0.1849034, 0.3931669, // of level 2
        0.8455736, 0.0782018, 0.0936680, 0.0231256, 0.0339198, 0.7810144, // same atom
    ];
    for (i, (mean, known)) in means.iter().zip(printed).enumerate() {
        assert!((mean - known).abs() < 1e-6, "statistic {i}: {mean}, not {known}");
    }
}

/// Every exact variant of the sampler against the enumeration.
#[test]
fn long_all_variants_meet_the_exact_posterior() {
    let (kernel, c) = tree_a();
    let known = enumerate(&X, 1, 2, &kernel, &c).1;
    let plain = Rules { regraft: false, split_merges: 0, ..Rules::default() };
    let variants = [
        ("all moves", Rules::default()),
        ("rows and tables only", plain.clone()),
        ("prior proposals", Rules { path_move: PathMove::Prior, ..plain.clone() }),
        ("drawn parameters", Rules { theta: Theta::Explicit, ..plain }),
        ("all moves, drawn parameters", Rules { theta: Theta::Explicit, ..Rules::default() }),
    ];
    for (i, (what, rules)) in variants.into_iter().enumerate() {
        let state = State::new(2, 4, None, c.clone());
        compare(what, Sampler::new(&X, 1, kernel.clone(), rules, state), &known, 60_000, 10 + i as u64);
    }
}

/// Three levels: tables of tables.
#[test]
fn long_three_levels_meet_the_exact_posterior() {
    let x = [-1.0, -1.0, -1.0, 1.5];
    let (kernel, c) = (known(&x, 1, 0.5, 4.0), concentrations(3, 0.7, 0.6, 1.5));
    let (evidence, means) = enumerate(&x, 1, 3, &kernel, &c);
    assert!((evidence + 7.470206499).abs() < 1e-8, "{evidence}");
    for (mean, known) in means.iter().zip([2.0767, 2.7666, 3.2199, 2.0333, 0.0158]) {
        assert!((mean - known).abs() < 1e-4, "{mean}, not {known}");
    }
    let state = State::new(3, 4, None, c);
    compare("three levels", Sampler::new(&x, 1, kernel, Rules::default(), state), &means, 80_000, 20);
}

/// Binary rows.
#[test]
fn long_binary_rows_meet_the_exact_posterior() {
    let x = [1.0, 1.0, 1.0, 0.0, 0.0, 0.0];
    let prior = Prior { base: Some(vec![0.5, 0.5]), strength: Some(1.0), ..Prior::default() };
    let (kernel, c) = (bind(Family::Bernoulli, &prior, &x, 2), concentrations(2, 0.8, 1.2, 0.9));
    let (evidence, means) = enumerate(&x, 2, 2, &kernel, &c);
    assert!((evidence + 5.021378302).abs() < 1e-8, "{evidence}");
    for (i, known) in [(0, 1.828402), (1, 2.319709), (2, 1.799517), (10, 0.561000), (11, 0.404033)] {
        assert!((means[i] - known).abs() < 1e-6, "statistic {i}: {}", means[i]);
    }
    let state = State::new(2, 3, None, c);
    compare("binary rows", Sampler::new(&x, 2, kernel, Rules::default(), state), &means, 60_000, 30);
}
