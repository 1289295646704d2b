//! Where chains begin: every start is a state that sweeps go on from.

use super::super::super::components::{Family, Prior};
use super::super::super::state::State;
use super::super::{Rules, Sampler, Start, Theta};
use super::enumeration::{X, enumerate, estimate, tree_a};
use super::{bind, concentrations};
use crate::run::{Purpose, Stream};

/// Three groups on a line, two of them near one another.
fn groups() -> Vec<f64> {
    (0..30).map(|n| [-9.0, 5.0, 9.0][n % 3] + 0.01 * n as f64).collect()
}

#[test]
fn every_start_is_a_state() {
    let x = groups();
    let kernel = bind(Family::GaussianDiag, &Prior::default(), &x, 1);
    for (start, finite, theta) in [
        (Start::Prior, None, Theta::Collapsed),
        (Start::Prior, Some(4), Theta::Explicit),
        (Start::Single, None, Theta::Explicit),
        (Start::Single, Some(4), Theta::Collapsed),
        (Start::Ward, None, Theta::Explicit),
        (Start::Ward, Some(3), Theta::Collapsed),
    ] {
        let state = State::new(2, 30, finite, concentrations(2, 0.5, 1.0, 1.0));
        let mut s = Sampler::new(&x, 1, kernel.clone(), Rules { start, theta, ..Rules::default() }, state);
        let mut rng = Stream::new(71, 0, Purpose::Check).rng();
        s.start(&mut rng).unwrap();
        s.state.assert_consistent();
        let (arena, leaf, atom) = (&s.state.arena, &s.state.leaf, &s.state.atom);
        assert_eq!(arena.rows(0), 30);
        match start {
            Start::Single => assert_eq!((arena.len(), s.state.occupied_atoms()), (3, 1)),
            Start::Ward => {
                // clusters are within groups, and the far group is a node of its own at level 1
                assert!((0..30).all(|n| (0..n).all(|m| atom[n] != atom[m] || n % 3 == m % 3)), "{atom:?}");
                let above = |n: usize| arena.ancestor(leaf[n], 1);
                assert!((0..30).all(|n| (above(n) == above(0)) == (n % 3 == 0)), "{start:?}");
            }
            _ => {}
        }
        s.draw_theta(&mut rng).unwrap();
        (0..5).for_each(|_| s.sweep(&mut rng).unwrap());
        s.state.assert_consistent();
    }
}

/// A start from the prior has the prior's expected numbers: `1 + alpha sum_{n=1}^{N-1} 1/(n + alpha)` nodes of level 1, whatever the rows.
#[test]
fn a_start_from_the_prior_is_one() {
    let (kernel, c) = tree_a();
    let mut rng = Stream::new(72, 0, Purpose::Check).rng();
    let draws = 20_000;
    let (mut nodes, mut squares, mut same) = (0.0, 0.0, 0.0);
    for _ in 0..draws {
        let rules = Rules { start: Start::Prior, ..Rules::default() };
        let mut s = Sampler::new(&X, 1, kernel.clone(), rules, State::new(2, 4, None, c.clone()));
        s.start(&mut rng).unwrap();
        let n = s.state.arena.at_level(1).len() as f64;
        nodes += n / draws as f64;
        squares += n * n / draws as f64;
        same += f64::from(s.state.atom[0] == s.state.atom[3]) / draws as f64;
    }
    let expected = 0.7 * (0..4).map(|n| 1.0 / (f64::from(n) + 0.7)).sum::<f64>();
    let error = ((squares - nodes * nodes) / draws as f64).sqrt();
    assert!(((nodes - expected) / error).abs() < 4.0, "{nodes} +- {error}, not {expected}");
    // rows are exchangeable: two of them share their atom as the first two do
    let (mut p, gamma, gamma0, alpha) = (0.0, 1.3f64, 0.9f64, 0.7f64);
    let root = 1.0 / (1.0 + gamma0);
    let apart = |depth: i32| {
        // agreement of two draws from weights that part above so many levels of Dirichlet draws
        let mut agree = root;
        (0..depth).for_each(|_| agree = (1.0 + gamma * agree) / (1.0 + gamma));
        agree
    };
    let stay = 1.0 / (1.0 + alpha);
    for (chance, levels) in [(1.0 - stay, 0), (stay * (1.0 - stay), 1), (stay * stay, 2)] {
        p += chance * apart(levels);
    }
    let error = (p * (1.0 - p) / draws as f64).sqrt();
    assert!(((same - p) / error).abs() < 4.0, "{same} +- {error}, not {p}");
}

/// A chain forgets where it began.
#[test]
fn a_chain_from_a_single_path_meets_the_exact_posterior() {
    let (kernel, c) = tree_a();
    let known = enumerate(&X, 1, 2, &kernel, &c).1;
    let rules = Rules { start: Start::Single, ..Rules::default() };
    let found = estimate(Sampler::new(&X, 1, kernel, rules, State::new(2, 4, None, c)), 6_000, 73, |s, rng| s.sweep(rng).unwrap());
    for (i, ((mean, error), known)) in found.into_iter().zip(known).enumerate() {
        // 22 comparisons: a false alarm in 700
        assert!(((mean - known) / error).abs() < 4.0, "statistic {i} is {mean} +- {error}, exactly {known}");
    }
}

/// Chains begin on the paths of given labels, with an atom for each leaf; rows without one are placed given the others.
#[test]
fn labels_are_where_a_chain_begins() {
    let x = groups();
    let kernel = bind(Family::GaussianDiag, &Prior::default(), &x, 1);
    // groups are right but for row 4, and every seventh row is not known
    let path = |n: usize| [vec![1, 0], vec![2, 1], vec![2, 2]][if n == 4 { 0 } else { n % 3 }].clone();
    let paths: Vec<Option<Vec<usize>>> = (0..30).map(|n| (n % 7 != 6).then(|| path(n))).collect();
    for (finite, theta) in [(None, Theta::Collapsed), (None, Theta::Explicit), (Some(2), Theta::Collapsed), (Some(5), Theta::Explicit)] {
        for known in [true, false] {
            let given: Vec<Option<&[usize]>> = paths.iter().map(|p| p.as_deref().filter(|_| known)).collect();
            let state = State::new(2, 30, finite, concentrations(2, 0.5, 1.0, 1.0));
            let mut s = Sampler::new(&x, 1, kernel.clone(), Rules { theta, ..Rules::default() }, state);
            let mut rng = Stream::new(74, 0, Purpose::Check).rng();
            s.start_at(&given, &mut rng).unwrap();
            s.state.assert_consistent();
            let (arena, leaf, atom) = (&s.state.arena, &s.state.leaf, &s.state.atom);
            assert_eq!(arena.rows(0), 30);
            let there: Vec<usize> = (0..30).filter(|&n| given[n].is_some()).collect();
            assert_eq!(there.len(), if known { 26 } else { 0 });
            for (&n, &m) in there.iter().flat_map(|n| there.iter().map(move |m| (n, m))) {
                for level in 1..=2 {
                    let same = arena.ancestor(leaf[n], level) == arena.ancestor(leaf[m], level);
                    assert_eq!(same, path(n)[..level] == path(m)[..level], "rows {n} and {m}, level {level}");
                }
                assert!(finite == Some(2) || (atom[n] == atom[m]) == (leaf[n] == leaf[m]));
            }
            if known && finite != Some(2) {
                // the groups lie far apart: rows that were not known have the component of their own
                assert!((0..30).filter(|n| n % 7 == 6).all(|n| atom[n] == atom[n % 3 + 9]), "{atom:?}");
            }
            s.draw_theta(&mut rng).unwrap();
            (0..5).for_each(|_| s.sweep(&mut rng).unwrap());
            s.state.assert_consistent();
        }
    }
}
