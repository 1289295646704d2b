//! Densities and marginals: known values, ratios, integrals, digits.

use super::*;
use crate::dist::quadrature::integrate;
use crate::linalg::Cholesky;

fn close(name: &str, got: f64, want: f64, tolerance: f64) {
    assert!((got - want).abs() <= tolerance * want.abs().max(1.0), "{name}: {got}, not {want}");
}

#[test]
fn known_values() {
    let rows: [&[f64]; 3] = [&[0.5, -1.0], &[1.5, 0.2], &[-0.3, 0.8]];
    let (x, new) = (rows.concat(), [0.1, 0.4]);
    let known = Prior { covariance: Some(Matrix::Multiple(0.5)), mean_covariance: Some(Matrix::Multiple(2.0)), ..Prior::default() };
    let zero = Some(vec![0.0]);
    let diag = Prior { mean: zero.clone(), precision_rate: Some(vec![0.25]), ..Prior::default() };
    let full = Prior { mean: zero, scatter: Some(Matrix::Multiple(0.5)), ..Prior::default() };
    for (family, prior, marginal, predictive) in [
        (Family::GaussianKnown, known, -9.379908246, -1.672224642),
        (Family::GaussianDiag, diag, -12.658173410, -1.505288563),
        (Family::GaussianFull, full, -13.651297218, -1.373592041),
    ] {
        let kernel = bound(family, &prior, &x, 2);
        let stats = statistics(&kernel, &rows);
        close(family.name(), kernel.ln_marginal(&stats), marginal, 1e-9);
        close(family.name(), kernel.ln_predictive(&stats, &new), predictive, 1e-9);
    }
    let rows: [&[f64]; 3] = [&[1.0, 1.0], &[1.0, 0.0], &[0.0, 0.0]];
    let half = Prior { base: Some(vec![0.5]), strength: Some(1.0), ..Prior::default() };
    let kernel = bound(Family::Bernoulli, &half, &rows.concat(), 2);
    close("bernoulli", kernel.ln_marginal(&statistics(&kernel, &rows)), -5.545177444, 1e-9);
}

#[test]
fn predictive_densities_are_ratios_of_marginals() {
    for case in cases() {
        for tau in [1.0, 0.4] {
            let case = Case { kernel: case.kernel.clone().tempered(tau), name: case.name, rows: case.rows.clone() };
            let stats = case.stats();
            let mut more = stats.clone();
            case.kernel.add(&mut more, case.new_row(), 1.0);
            let ratio = case.kernel.ln_marginal(&more) - case.kernel.ln_marginal(&stats);
            close(case.name, case.kernel.ln_predictive(&stats, case.new_row()), ratio, 1e-11);
            let nothing = vec![0.0; stats.len()];
            assert_eq!(case.kernel.ln_marginal(&nothing).abs(), 0.0, "{}", case.name);
            let one = statistics(&case.kernel, &[case.new_row()]);
            close(case.name, case.kernel.ln_predictive(&nothing, case.new_row()), case.kernel.ln_marginal(&one), 1e-11);
        }
    }
}

/// A row added and taken out leaves nothing behind, and refreshed atoms are as prepared ones.
#[test]
fn rows_come_and_go() {
    for case in cases() {
        for tau in [1.0, 0.3] {
            let kernel = case.kernel.clone().tempered(tau);
            let stats = statistics(&kernel, &case.rows.iter().map(Vec::as_slice).collect::<Vec<_>>()[..3]);
            let (mut moving, mut prepared) = (stats.clone(), kernel.prepare(&stats));
            for weight in [1.0, -1.0] {
                kernel.add(&mut moving, case.new_row(), weight);
                kernel.refresh(&moving, case.new_row(), weight, &mut prepared);
                let fresh = kernel.prepare(&moving);
                for row in &case.rows {
                    let (a, b) = (kernel.ln_predictive_prepared(&prepared, row), kernel.ln_predictive_prepared(&fresh, row));
                    close(case.name, a, b, 1e-10);
                    let mut each = [0.0; 2];
                    kernel.ln_predictive_each(&[fresh.clone(), prepared.clone()], row, &mut each);
                    assert_eq!(each, [b, a], "{}", case.name);
                }
            }
            for (a, b) in moving.iter().zip(&stats) {
                close(case.name, *a, *b, 1e-13);
            }
        }
    }
}

/// Many rows through one atom of `gaussian-full`: the factor that is changed by one rank at a time stays right.
#[test]
fn ranks_one_after_the_other() {
    let dim = 5;
    let row = |n: usize| -> Vec<f64> { (0..dim).map(|d| ((n * 7 + d * 13) % 11) as f64 * 0.3 + (n * d) as f64 % 3.0 + 1e3).collect() };
    let rows: Vec<Vec<f64>> = (0..40).map(row).collect();
    let kernel = bound(Family::GaussianFull, &Prior::default(), &rows.concat(), dim);
    let mut stats = vec![0.0; kernel.statistics()];
    let mut prepared = kernel.prepare(&stats);
    for step in 0..75 {
        let (n, weight) = if step < 40 { (step, 1.0) } else { (step - 40, -1.0) };
        kernel.add(&mut stats, &rows[n], weight);
        kernel.refresh(&stats, &rows[n], weight, &mut prepared);
        let fresh = kernel.ln_predictive(&stats, &rows[39]);
        close("full", kernel.ln_predictive_prepared(&prepared, &rows[39]), fresh, 1e-9);
    }
}

/// Rows of a Gaussian family with given matrices are jointly normal: covariance S + S0 within a row, S0 between rows.
#[test]
fn matrices_agree_with_the_joint_normal() {
    for case in cases().into_iter().filter(|c| c.name.ends_with("matrices") || c.name.ends_with("matrix")) {
        let (dim, n) = (3, case.rows.len());
        let (within, between, centre) = if case.name == "known, matrices" {
            (skew(dim, 0.4).whole(dim), skew(dim, -0.3).whole(dim), vec![0.0; dim])
        } else {
            let columns = Columns::of(Family::GaussianTied, &case.rows.concat(), &names(dim)).unwrap();
            (Matrix::Multiple(case.kernel.shared().unwrap()).whole(dim), skew(dim, 0.6).whole(dim), columns.mean)
        };
        let size = n * dim;
        let joint: Vec<f64> = (0..size * size)
            .map(|at| {
                let (i, j) = (at / size, at % size);
                let place = i % dim * dim + j % dim;
                between[place] + if i / dim == j / dim { within[place] } else { 0.0 }
            })
            .collect();
        let factor = Cholesky::new(size, &joint).unwrap();
        let mut moved: Vec<f64> = case.rows.concat().iter().enumerate().map(|(i, x)| x - centre[i % dim]).collect();
        factor.solve_lower(&mut moved);
        let square: f64 = moved.iter().map(|v| v * v).sum();
        let want = -0.5 * (size as f64 * std::f64::consts::TAU.ln() + factor.ln_det() + square);
        let all: Vec<&[f64]> = case.rows.iter().map(Vec::as_slice).collect();
        close(case.name, case.kernel.ln_marginal(&statistics(&case.kernel, &all)), want, 1e-11);
    }
}

#[test]
fn densities_have_total_one() {
    let x = [0.5, 1.5, -0.3, 0.4];
    for family in [Family::GaussianDiag, Family::GaussianFull, Family::GaussianKnown, Family::GaussianTied] {
        let kernel = bound(family, &Prior::default(), &x, 1);
        let stats = statistics(&kernel, &[&[0.5], &[1.5]]);
        let prepared = kernel.prepare(&stats);
        // x = tan(pi u / 2): heavy tails on a finite interval
        let density = |u: f64| {
            let x = (0.5 * std::f64::consts::PI * u).tan();
            kernel.ln_predictive_prepared(&prepared, &[x]).exp() * 0.5 * std::f64::consts::PI * (1.0 + x * x)
        };
        close(family.name(), integrate(&density, -1.0 + 1e-12, 1.0 - 1e-12), 1.0, 1e-9);
    }
    let by_name = |name: &str| cases().into_iter().find(|c| c.name == name).unwrap();
    let sum = |case: &Case, rows: &[Vec<f64>]| -> f64 { rows.iter().map(|r| case.kernel.ln_predictive(&case.stats(), r).exp()).sum() };
    let case = by_name("bernoulli");
    let all: Vec<Vec<f64>> = (0..8).map(|b| (0..3).map(|d| f64::from(b >> d & 1)).collect()).collect();
    close("bernoulli", sum(&case, &all), 1.0, 1e-12);
    let case = by_name("categorical");
    let all: Vec<Vec<f64>> = (0..8).map(|b| vec![f64::from(b % 2), f64::from(b / 2)]).collect();
    close("categorical", sum(&case, &all), 1.0, 1e-12);
    let case = by_name("poisson");
    let all: Vec<Vec<f64>> = (0..4000).map(|n| vec![GAP, f64::from(n), GAP]).collect();
    close("poisson", sum(&case, &all), 1.0, 1e-9);
    let case = by_name("multinomial");
    let mut all = Vec::new();
    for a in 0..=6 {
        (0..=6 - a).for_each(|b| all.push(vec![f64::from(a), f64::from(b), f64::from(6 - a - b)]));
    }
    close("multinomial", sum(&case, &all), 1.0, 1e-12);
}

/// A column of mean 1e8 and variance 4.8 is as one of mean 0.
#[test]
fn a_large_mean_costs_no_digits() {
    let near: Vec<f64> = (0..100).map(|n| [-3.0, 2.0, 1.0, -2.0, 2.5][n % 5] + (n / 20) as f64 * 0.25).collect();
    let far: Vec<f64> = near.iter().map(|x| x + 1e8).collect();
    let make = |x: &[f64], family: Family| {
        let kernel = bound(family, &Prior::default(), x, 1);
        let rows: Vec<&[f64]> = x.chunks(1).collect();
        let stats = statistics(&kernel, &rows[..99]);
        (kernel.ln_marginal(&stats), kernel.ln_predictive(&stats, rows[99]))
    };
    for family in [Family::GaussianDiag, Family::GaussianFull, Family::GaussianTied] {
        let (a, b) = (make(&near, family), make(&far, family));
        close(family.name(), b.0, a.0, 1e-7);
        close(family.name(), b.1, a.1, 1e-7);
    }
}

/// A column that is left out changes no density, whatever a new row holds there; a code never seen before is as a missing cell.
#[test]
fn what_is_left_out_says_nothing() {
    let x = [1.0, 5.0, 2.0, 2.0, 5.0, 1.0, 4.0, 5.0, 7.0, 3.0, 5.0, 0.0];
    for family in [Family::GaussianDiag, Family::GaussianFull, Family::GaussianTied] {
        let kernel = bound(family, &Prior::default(), &x, 3);
        let without: Vec<f64> = x.chunks(3).flat_map(|r| [r[0], r[2]]).collect();
        let narrow = bound(family, &Prior::default(), &without, 2);
        let (mut stats, mut less) = (vec![0.0; kernel.statistics()], vec![0.0; narrow.statistics()]);
        x.chunks(3).for_each(|r| kernel.add(&mut stats, r, 1.0));
        without.chunks(2).for_each(|r| narrow.add(&mut less, r, 1.0));
        close(family.name(), kernel.ln_marginal(&stats), narrow.ln_marginal(&less), 1e-13);
        close(family.name(), kernel.ln_predictive(&stats, &[1.0, -300.0, 2.0]), narrow.ln_predictive(&less, &[1.0, 2.0]), 1e-13);
    }
    let case = cases().into_iter().find(|c| c.name == "categorical").unwrap();
    let (a, b) = (case.kernel.ln_predictive(&case.stats(), &[1.0, 4.0]), case.kernel.ln_predictive(&case.stats(), &[1.0, GAP]));
    assert_eq!(a, b);
    assert_eq!(case.kernel.check_row(&[1.0, 4.0], 0, &names(2)).unwrap(), 1);
}
