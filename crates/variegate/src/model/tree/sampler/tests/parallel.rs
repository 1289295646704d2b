//! Rows that move all at once: slices against the enumeration of all trees, and anchors as a move of their own.

use super::super::super::state::State;
use super::super::{Rules, Sampler};
use super::enumeration::{X, compare_steps, enumerate, tree_a};
use super::summary;
use crate::data::{Dataset, Matrix, blocks};
use crate::run::{Philox, Purpose, Stream};

/// Moves all rows at once.
fn move_all(sampler: &mut Sampler<'_>, slices: bool, rng: &mut Philox) {
    let data = Dataset::new(Matrix::dense(X.len(), 1, X.to_vec()));
    let block = &blocks(&data, X.len())[0];
    let moved = if slices { sampler.sliced_move(rng).unwrap().rows(block) } else { sampler.anchored_move(rng).rows(block) };
    sampler.take_in(&moved);
}

/// No row moves by itself here, so that nothing makes up for a slice that is wrong.
#[test]
fn long_slices_meet_the_exact_posterior() {
    let (kernel, c) = tree_a();
    let known = enumerate(&X, 1, 2, &kernel, &c).1;
    let rules = Rules { regraft: false, split_merges: 0, ..Rules::default() };
    let sampler = Sampler::new(&X, 1, kernel, rules, State::new(2, X.len(), None, c));
    compare_steps("slices", sampler, &known, 120_000, 40, |sampler, rng| {
        move_all(sampler, true, rng);
        sampler.sweep_rest(rng).unwrap();
    });
}

/// After sweeps of rows in turn, moves between anchors change nothing on average: means of what they change, in batches. Components
/// without end, and a finite number of them; the likelihood as it is, and to a power. 66 statistics, a false alarm in 2,000 runs.
#[test]
fn long_moves_between_anchors_leave_the_posterior_alone() {
    for (finite, tau) in [(None, 1.0), (Some(3), 1.0), (None, 0.3)] {
        let (kernel, c) = tree_a();
        let kernel = kernel.tempered(tau);
        let mut sampler = Sampler::new(&X, 1, kernel, Rules { split_merges: 0, ..Rules::default() }, State::new(2, X.len(), finite, c));
        let mut rng = Stream::new(50, 0, Purpose::Check).rng();
        sampler.start(&mut rng).unwrap();
        let (batches, each) = (100, 400);
        let mut changes = vec![];
        for _ in 0..batches {
            let mut sum = vec![];
            for _ in 0..each {
                sampler.sweep(&mut rng).unwrap();
                let before = summary(&sampler.state);
                for _ in 0..4 {
                    move_all(&mut sampler, false, &mut rng);
                }
                let after = summary(&sampler.state);
                sum.resize(after.len(), 0.0);
                sum.iter_mut().zip(before.iter().zip(&after)).for_each(|(s, (a, b))| *s += (b - a) / f64::from(each));
            }
            changes.push(sum);
        }
        let n = f64::from(batches);
        for i in 0..changes[0].len() {
            let mean = changes.iter().map(|c| c[i]).sum::<f64>() / n;
            let error = (changes.iter().map(|c| (c[i] - mean).powi(2)).sum::<f64>() / (n * (n - 1.0))).sqrt();
            assert!(error == 0.0 || (mean / error).abs() < 4.5, "{finite:?}, power {tau}: statistic {i} changes by {mean} +- {error}");
        }
    }
}

/// Sums over many rows are made in lots: they are those of one row after the other, and to the last bit the same on any number of threads.
#[test]
fn sums_of_many_rows_do_not_depend_on_threads() {
    let x: Vec<f64> = (0..5000).map(|n| f64::from(n * 7919 % 1009) / 100.0 - 5.0).collect();
    let kernel = super::known(&x, 1, 0.5, 4.0);
    let state = || {
        let mut state = State::new(2, x.len(), None, super::concentrations(2, 0.7, 1.3, 0.9));
        let leaves = [0; 2].map(|_| state.arena.branch(0));
        for n in 0..x.len() {
            (state.leaf[n], state.atom[n]) = (leaves[n % 2], (n % 3) as u32);
            state.arena.attach(leaves[n % 2]);
        }
        (0..3).for_each(|_| {
            state.new_atom();
        });
        state.size = vec![1667, 1667, 1666];
        state.weights.fit(state.arena.slots(), 4);
        (0..state.arena.slots() as u32).for_each(|z| state.weights.row_mut(z)[..4].copy_from_slice(&[0.1, 0.3, 0.3, 0.3]));
        state.theta = vec![-1.0, 0.5, 2.0];
        state
    };
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let mut sampler = Sampler::new(&x, 1, kernel.clone(), Rules::default(), state());
            let figure = sampler.ln_likelihoods();
            move_block(&mut sampler, &x);
            (sampler.work.stats.clone(), figure, sampler.state.leaf.clone(), sampler.state.atom.clone())
        })
    };
    let (one, three) = (on(1), on(3));
    assert_eq!(one, three);
    let sampler = Sampler::new(&x, 1, kernel.clone(), Rules::default(), state());
    let mut want = vec![0.0; 9];
    x.iter().enumerate().for_each(|(n, v)| kernel.add(&mut want[n % 3 * 3..][..3], &[*v], 1.0));
    sampler.work.stats.iter().zip(&want).for_each(|(a, b)| assert!((a - b).abs() < 1e-9 * b.abs().max(1.0), "{a} {b}"));
}

/// All rows between anchors, as one block.
fn move_block(sampler: &mut Sampler<'_>, x: &[f64]) {
    let data = Dataset::new(Matrix::dense(x.len(), 1, x.to_vec()));
    let mut rng = Stream::new(51, 0, Purpose::Check).rng();
    let moved = sampler.anchored_move(&mut rng).rows(&blocks(&data, x.len())[0]);
    sampler.take_in(&moved);
}
