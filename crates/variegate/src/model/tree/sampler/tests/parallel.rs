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
/// without end, and a finite number of them. 44 statistics, a false alarm in 3,000 runs.
#[test]
fn long_moves_between_anchors_leave_the_posterior_alone() {
    for finite in [None, Some(3)] {
        let (kernel, c) = tree_a();
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
            assert!(error == 0.0 || (mean / error).abs() < 4.5, "{finite:?}: statistic {i} changes by {mean} +- {error}");
        }
    }
}
