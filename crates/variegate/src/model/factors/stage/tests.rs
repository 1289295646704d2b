//! New rows against sums over the uses of two atoms, and against the scans of a fit.

use super::super::counts::{Counts, Scales};
use super::super::gaussian::{Centre, Gaussian, Hyper, Scales as Precisions};
use super::super::likelihood::Tempering;
use super::*;
use crate::data::Matrix;
use crate::dist::Gamma;

mod own;

/// Scans that count.
const COUNTED: usize = 10;

fn odds(p: f64) -> f64 {
    (p / (1.0 - p)).ln()
}

/// Means over batches of `together` draws of what a row leaves, and their standard errors. The row goes from draw to draw with its atoms, as one
/// long chain.
fn means<L: Likelihood>(
    likelihood: &L,
    mut stage: Stage<L>,
    x: &[f64],
    exposure: f64,
    each: usize,
    (batches, together): (u32, u32),
    f: impl Fn(&Stage<L>, &mut [f64], &L::Placing) + Sync,
) -> Vec<(f64, f64)> {
    let rows = Matrix::dense(1, x.len(), x.to_vec());
    let mut guests = [Guest::default()];
    let mut all = vec![Vec::new(); each];
    for batch in 0..batches {
        let mut sums = vec![0.0; each];
        for at in 0..together {
            stage.number = batch * together + at;
            let out =
                stage.settle(likelihood, rows.view(), &[0], exposure, &mut guests, COUNTED, each, |out, _, p| f(&stage, out, p)).unwrap();
            guests[0].settled = true;
            sums.iter_mut().zip(out).for_each(|(s, v)| *s += v / (together as usize * COUNTED) as f64);
        }
        all.iter_mut().zip(sums).for_each(|(all, s)| all.push(s));
    }
    all.iter()
        .map(|values| {
            let n = values.len() as f64;
            let mean = values.iter().sum::<f64>() / n;
            (mean, (values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n / (n - 1.0)).sqrt())
        })
        .collect()
}

fn counts(weight_shape: f64) -> (Counts, Stage<Counts>) {
    let scales = Scales { shape: 1.0, atom: 1.0, weight: vec![0.8; 2], background: vec![0.2; 2] };
    let likelihood = Counts { weight_shape, ..Counts::of_three_columns() };
    let view = likelihood.view(&PHI.concat(), 2, &scales);
    let ln_odds = vec![odds(0.6), odds(0.3), odds(0.6), odds(0.3)];
    (likelihood, Stage { view, scales, ln_odds, ln_own: Vec::new(), count: 2, number: 0 })
}

const PHI: [[f64; 3]; 2] = [[1.0, 0.2, 2.0], [0.1, 1.5, 0.3]];

/// Use of both atoms, their mean weights, and what a count more is expected to be, by quadrature over the logarithms of the weights.
fn exact(x: &[f64; 3], weight_shape: f64, exposure: f64) -> [f64; 7] {
    let prior = Gamma::new(weight_shape, 0.8).unwrap();
    let (from, step, points) = (-30.0, 0.05, 700);
    // weights with the logarithm of what each counts for; the first is that of an atom that is not used
    let grid = |p: f64| -> Vec<(f64, f64)> {
        let at = |i: usize| from + step * i as f64;
        let used = (0..points).map(|i| (at(i).exp(), p.ln() + prior.ln_pdf_of_ln(at(i)) + f64::ln(step)));
        [(0.0, (1.0 - p).ln())].into_iter().chain(used).collect()
    };
    let (first, second) = (grid(0.6), grid(0.3));
    let (mut total, mut sums) = (0.0, [0.0; 7]);
    for &(v, ln_v) in &first {
        for &(w, ln_w) in &second {
            let rate: [f64; 3] = std::array::from_fn(|m| 0.2 + v * PHI[0][m] + w * PHI[1][m]);
            let all: f64 = rate.iter().sum();
            // of the order of 1 at its largest
            let ln_row: f64 = x.iter().zip(&rate).map(|(x, r)| x * (exposure * r / x.max(1.0)).ln() + x).sum::<f64>() - exposure * all;
            let p = (ln_v + ln_w + ln_row).exp();
            total += p;
            let (uses_v, uses_w) = (f64::from(u8::from(v > 0.0)), f64::from(u8::from(w > 0.0)));
            let told = [uses_v, uses_w, v, w, rate[0] / all, rate[1] / all, rate[2] / all];
            sums.iter_mut().zip(told).for_each(|(s, t)| *s += p * t);
        }
    }
    sums.map(|s| s / total)
}

/// Seven figures of each of six cases, four standard errors: a false alarm in 400.
#[test]
fn new_rows_of_counts_have_their_exact_distribution() {
    // the first two have known uses of both atoms
    let known = exact(&[20.0, 3.0, 41.0], 1.2, 1.0);
    assert!((known[0] - 1.0).abs() < 1e-6 && (known[1] - 0.2156825).abs() < 1e-6, "{known:?}");
    let cases = [
        ([20.0, 3.0, 41.0], 1.2, 1.0),
        ([3.0, 0.0, 5.0], 1.2, 1.0),
        ([3.0, 0.0, 5.0], 1.0, 0.5),
        ([0.0, 1.0, 0.0], 1.0, 1.0),
        ([0.0, 2.0, 1.0], 0.5, 1.0),
        ([0.0, 0.0, 0.0], 2.0, 0.5),
    ];
    for (x, weight_shape, exposure) in cases {
        let (likelihood, stage) = counts(weight_shape);
        let found = means(&likelihood, stage, &x, exposure, 7, (50, 200), |stage, out, placing| {
            let mut entries = Vec::new();
            likelihood.met(placing, &mut entries);
            entries.iter().for_each(|e| out[e.0 as usize] += 1.0);
            likelihood.add_expected(stage.view(), &stage.ln_odds[..2], placing, &mut out[2..4]);
            let mut shares = [0.0; 3];
            placing.add_shares(stage.view(), 3, &mut shares);
            for m in 0..3 {
                let of = |a: usize| shares[a] * PHI[a][m] / PHI[a].iter().sum::<f64>();
                out[4 + m] += of(0) + of(1) + shares[2] / 3.0;
            }
        });
        for (which, ((mean, error), exact)) in found.into_iter().zip(exact(&x, weight_shape, exposure)).enumerate() {
            // a use that no scan has seen has no error to go by: that of as many independent scans
            let error = if which < 2 { error.max((exact * (1.0 - exact) / 100_000.0).sqrt()) } else { error };
            assert!((mean - exact).abs() < 4.0 * error + 1e-6, "{x:?} shape {weight_shape}, {which}: {mean} ± {error} for {exact}");
        }
    }
}

/// Uses of two atoms of a row whose density is known for every use, and the means of their weights, C⁻¹y.
#[test]
fn new_rows_of_real_numbers_have_their_exact_distribution() {
    let scales = Precisions { atom: 1.0, weight: vec![1.0 / 1.5; 2], noise: vec![2.0; 2] };
    let centre = Centre { columns: 3, means: vec![0.0; 6], scale: 1.0, missing: false };
    let likelihood = Gaussian { centre, hyper: Hyper { shape: 1.0, rate: 1.0, fixed: None } };
    let view = likelihood.view(&[1.0, 0.5, -1.0, 0.3, -2.0, 0.4], 2, &scales);
    let ln_odds = vec![odds(0.6), odds(0.3), odds(0.6), odds(0.3)];
    let stage = Stage { view, scales, ln_odds, ln_own: Vec::new(), count: 2, number: 0 };
    let x: [f64; 3] = [1.2, -0.7, -1.0];
    let found = means(&likelihood, stage, &x, 1.0, 5, (50, 40), |stage, out, placing| {
        let mut entries = Vec::new();
        likelihood.met(placing, &mut entries);
        entries.iter().for_each(|e| out[e.0 as usize] += 1.0);
        out[2] += f64::from(u8::from(entries.len() == 2));
        likelihood.add_expected(stage.view(), &stage.ln_odds[..2], placing, &mut out[3..]);
    });
    // Gm + νI with ν = 1/3, and y
    let (a, b, c, ridge) = (2.25, -1.1, 4.25, 1.0 / 3.0);
    let (y, z) = (1.2 - 0.35 + 1.0, 0.36 + 1.4 - 0.4);
    let (a, c): (f64, f64) = (a + ridge, c + ridge);
    let det = a * c - b * b;
    let both = [(c * y - b * z) / det, (a * z - b * y) / det];
    let (first, second, together) = (0.51203945, 0.04371434, 0.19161159);
    let exact = [first + together, second + together, together, first * y / a + together * both[0], second * z / c + together * both[1]];
    for ((mean, error), exact) in found.into_iter().zip(exact) {
        assert!((mean - exact).abs() < 4.0 * error + 1e-7, "{mean} ± {error} for {exact}");
    }
}

/// Mean weights of a row by scans of a fit, as batch means: the row is begun, every atom is asked, weights are drawn.
fn by_scans_of_a_fit<L: Likelihood>(likelihood: &L, stage: &Stage<L>, x: &[f64], (batches, scans): (u32, u32)) -> Vec<(f64, f64)> {
    let rows = Matrix::dense(1, x.len(), x.to_vec());
    let row = Row { x: rows.view(), at: 0, source: 0, filled: &[] };
    let (mut scratch, mut entries, mut rng) = (L::Scratch::default(), Vec::new(), stage.rng(1));
    likelihood.prepare(&stage.view, rows.view(), &[0], &[], &mut scratch);
    let mut all = vec![Vec::new(); stage.count];
    for batch in 0..=batches {
        let mut sums = vec![0.0; stage.count];
        for _ in 0..scans {
            likelihood.begin(&stage.view, row, &entries, Tempering::NONE, &mut scratch);
            for k in 0..stage.count {
                likelihood.update(&stage.view, k, stage.ln_odds[k], &mut scratch, &mut rng).unwrap();
            }
            likelihood.finish(&stage.view, &mut scratch, &mut rng, &mut entries).unwrap();
            entries.iter().for_each(|e| sums[e.0 as usize] += e.1 / f64::from(scans));
        }
        // the first batch warms up
        if batch > 0 {
            all.iter_mut().zip(sums).for_each(|(all, s)| all.push(s));
        }
    }
    let moments = |values: &Vec<f64>| {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        (mean, (values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n / (n - 1.0)).sqrt())
    };
    all.iter().map(moments).collect()
}

/// Eight atoms and two likelihoods, five standard errors: a false alarm in 100,000.
fn agree<L: Likelihood>(likelihood: &L, stage: Stage<L>, x: &[f64]) {
    let fit = by_scans_of_a_fit(likelihood, &stage, x, (40, 250));
    let count = stage.count;
    let found = means(likelihood, stage, x, 1.0, count, (40, 25), |stage, out, placing| {
        likelihood.add_expected(stage.view(), &stage.ln_odds[..count], placing, out);
    });
    for (k, ((mean, error), (other, other_error))) in found.into_iter().zip(fit).enumerate() {
        let both = error.hypot(other_error);
        assert!((mean - other).abs() < 5.0 * both + 1e-6, "atom {k}: {mean} ± {error} and {other} ± {other_error}");
    }
}

#[test]
fn scans_of_new_rows_and_of_a_fit_agree() {
    let (width, count) = (20, 8);
    let mut rng = Stream::new(4, 0, Purpose::Check).rng();
    let ln_odds: Vec<f64> = (0..2 * count).map(|k| odds([0.02, 0.1, 0.3, 0.7][k % 4])).collect();
    let scales = Scales { shape: 1.0, atom: 1.0, weight: vec![0.5; 2], background: vec![0.1; 2] };
    let (likelihood, _) = counts(1.0);
    let likelihood = Counts { width, ..likelihood };
    let phi: Vec<f64> = (0..width * count).map(|_| open01(&mut rng).powi(6)).collect();
    let view = likelihood.view(&phi, count, &scales);
    let mix: Vec<f64> = (0..width).map(|m| 3.0 * phi[m] + 1.5 * phi[3 * width + m]).collect();
    let x = likelihood.draw_row(&scales, 0, &mix, &mut rng).unwrap();
    agree(&likelihood, Stage { view, scales, ln_odds: ln_odds.clone(), ln_own: Vec::new(), count, number: 0 }, &x);

    let scales = Precisions { atom: 1.0, weight: vec![1.0; 2], noise: vec![0.5; 2] };
    let centre = Centre { columns: width, means: vec![0.0; 2 * width], scale: 1.0, missing: false };
    let likelihood = Gaussian { centre, hyper: Hyper { shape: 1.0, rate: 1.0, fixed: None } };
    let phi: Vec<f64> = (0..count).flat_map(|_| likelihood.prior_atom(&scales, &mut rng).unwrap()).collect();
    let view = likelihood.view(&phi, count, &scales);
    let mix: Vec<f64> = (0..width).map(|m| 0.7 * phi[m] - 0.5 * phi[3 * width + m]).collect();
    let x = likelihood.draw_row(&scales, 0, &mix, &mut rng).unwrap();
    agree(&likelihood, Stage { view, scales, ln_odds, ln_own: Vec::new(), count, number: 0 }, &x);
}
