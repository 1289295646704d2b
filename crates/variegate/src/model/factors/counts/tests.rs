//! The Poisson kernels against closed forms, and a row alone against its exact distribution.

use super::super::likelihood::Side;
use super::private::Site;
use super::row::{Proposal, fit};
use super::*;
use crate::data::Matrix;
use crate::run::{Purpose, Stream};

const X: [f64; 3] = [3.0, 0.0, 1.0];
const RATE: [f64; 3] = [0.5, 0.2, 1.1];

fn model(atom_shape: f64, weight_shape: f64) -> Counts {
    Counts { atom_shape, weight_shape, ..Counts::of_three_columns() }
}

fn close(found: f64, exact: f64, bound: f64) {
    assert!((found - exact).abs() < bound, "{found} for {exact}");
}

#[test]
fn the_likelihood_of_a_new_atom() {
    let counts = model(0.8, 1.5);
    let scales = Scales { shape: 0.8, atom: 1.3, weight: vec![0.9], background: vec![0.2] };
    let site = Site { counts: &[3.0, 1.0], rate: &[0.5, 1.1], model: &counts, scales: &scales };
    close(site.ln_gain(0.7), 1.0141763456, 1e-9);
}

#[test]
fn the_proposal_of_a_weight() {
    let phi = [1.0, 0.3, 0.2];
    let ratio: Vec<f64> = phi.iter().zip(&RATE).map(|(p, r)| p / r).collect();
    let fitted = fit(&ratio, &X, 1.5, 0.9, 1.5).unwrap();
    close(fitted.mean(), 2.989010 / 1.726232, 1e-5);
    close(fitted.variance(), 2.989010 / (1.726232 * 1.726232), 1e-5);
    let prior = Gamma::new(1.5, 0.9).unwrap();
    close(Proposal { fitted, prior }.ln_pdf(0.7), -0.9559505, 1e-6);
    let ln_target = prior.ln_pdf(0.7) + ratio.iter().zip(&X).map(|(r, x)| x * (0.7 * r).ln_1p()).sum::<f64>() - 1.5 * 0.7;
    close(ln_target, 0.8506114041, 1e-9);
}

#[test]
fn rows_of_an_atom_together() {
    let mut side = CountSide::new(0.8, 1.3, 3);
    side.add(&CountContribution { weight: 2.0, counts: vec![(0, 3.0), (2, 1.0)] });
    close(side.ln_marginal(), -5.8403105840, 1e-9);
    // what a row adds is what it was predicted to
    let next = CountContribution { weight: 0.4, counts: vec![(0, 1.0), (1, 6.0)] };
    let (before, predicted) = (side.ln_marginal(), side.ln_predictive(&next));
    side.add(&next);
    close(side.ln_marginal() - before, predicted, 1e-11);
}

/// P(z = 1) and E[z w] of one atom of one row, whose other rates come from an atom that stays as it is.
fn row_alone(x: &[f64], rest: &[f64], background: f64, phi: &[f64], weight_shape: f64, weight_rate: f64, ln_odds: f64) -> [(f64, f64); 2] {
    let width = x.len();
    let counts = Counts { width, ..model(1.0, weight_shape) };
    let all: Vec<f64> = rest.iter().chain(phi).copied().collect();
    let view = counts.view(&all, 2, &Scales { shape: 1.0, atom: 1.0, weight: vec![weight_rate], background: vec![background] });
    let matrix = Matrix::dense(1, width, x.to_vec());
    let row = Row { x: matrix.view(), at: 0, source: 0, filled: &[] };
    let mut scratch = Scratch::default();
    let mut rng = Stream::new(11, 0, Purpose::Check).rng();
    counts.begin(&view, row, &[(0, 1.0)], Tempering::NONE, &mut scratch);
    let (batches, each) = (200, 1000);
    let mut means = vec![[0.0; 2]; batches];
    let mut entries = Vec::new();
    for mean in &mut means {
        for _ in 0..each {
            counts.update(&view, 1, ln_odds, &mut scratch, &mut rng).unwrap();
            counts.list(&scratch, &mut entries);
            if let Some(e) = entries.iter().find(|e| e.0 == 1) {
                mean[0] += 1.0 / each as f64;
                mean[1] += e.1 / each as f64;
            }
        }
    }
    [0, 1].map(|c| {
        let n = batches as f64;
        let mean = means.iter().map(|m| m[c]).sum::<f64>() / n;
        let variance = means.iter().map(|m| (m[c] - mean) * (m[c] - mean)).sum::<f64>() / (n - 1.0);
        (mean, (variance / n).sqrt())
    })
}

#[test]
fn a_row_alone_has_its_exact_distribution() {
    let cases = [
        (row_alone(&X, &[0.3, 0.0, 0.9], 0.2, &[1.0, 0.3, 0.2], 1.5, 0.9, -1.0), [0.68417, 1.09761]),
        (row_alone(&[1.0], &[0.0], 0.05, &[0.2], 0.5, 0.5, 0.0), [0.76525, 1.35640]),
    ];
    for (found, exact) in cases {
        for ((mean, error), exact) in found.into_iter().zip(exact) {
            // batches of a thousand steps are independent of each other; exact values have five digits
            assert!((mean - exact).abs() < 4.0 * error + 1e-5, "{mean} ± {error} for {exact}");
        }
    }
}

/// Steps of weights raise the likelihood of the row, and every count is owed to an atom or to the background.
#[test]
fn climbing_raises_the_likelihood() {
    let counts = model(1.0, 1.0);
    let scales = Scales { shape: 1.0, atom: 1.0, weight: vec![1.0], background: vec![0.05] };
    let view = counts.view(&[1.0, 0.2, 2.0, 0.1, 1.5, 0.3, 0.5, 0.5, 0.5], 3, &scales);
    let x = Matrix::dense(1, 3, vec![9.0, 4.0, 1.0]);
    let row = Row { x: x.view(), at: 0, source: 0, filled: &[] };
    let (mut entries, mut scratch, mut last) = (Vec::new(), Scratch::default(), f64::NEG_INFINITY);
    for _ in 0..30 {
        let mut sums = Sums::default();
        counts.climb(&view, row, false, &mut entries, &mut scratch, &mut sums);
        let now = counts.ln_row(&view, &scratch);
        // atoms that explain less than a millionth of the row are dropped on the way
        assert!(now >= last - 1e-4, "{now} after {last}");
        last = now;
        assert!((sums.counts.0.iter().sum::<f64>() + sums.background.0[0] - 14.0).abs() < 1e-12);
        entries.iter().for_each(|&(k, w)| assert_eq!(sums.weights.0[k as usize], w));
    }
    // there the expected counts of atoms in use are those that they are owed
    let mut sums = Sums::default();
    counts.climb(&view, row, false, &mut entries, &mut scratch, &mut sums);
    for &(k, w) in entries.iter().filter(|e| e.1 > 1e-3) {
        close(sums.counts.0[3 * k as usize..][..3].iter().sum::<f64>(), w * view.totals[k as usize], 1e-2);
    }
    // what hardly matters is left out at last, but never all of it
    counts.climb(&view, row, true, &mut entries, &mut scratch, &mut Sums::default());
    assert!(!entries.is_empty() && entries.iter().all(|&(k, w)| w * view.totals[k as usize] > 0.02 * 13.0), "{entries:?}");
}
