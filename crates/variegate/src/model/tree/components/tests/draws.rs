//! Drawn parameters and rows against densities.

use super::*;
use crate::check::invariance::{InvarianceSettings, one_step_invariance};
use crate::dist::testing::rng;
use crate::{Error, Result};

/// The predictive density is the mean of the density over parameters drawn from the posterior, all of them to a power: ten cases with and without
/// rows and two powers, a false alarm in 2e-3 at z = 4.
#[test]
fn the_mean_density_over_draws_is_the_predictive() {
    const DRAWS: usize = 20_000;
    for (case, tau) in cases().into_iter().flat_map(|case| [1.0, 0.4].map(|tau| (case.clone(), tau))) {
        let case = Case { kernel: case.kernel.tempered(tau), ..case };
        for stats in [case.stats(), vec![0.0; case.kernel.statistics()]] {
            let mut rng = rng(31);
            let exact = case.kernel.ln_predictive(&stats, case.new_row());
            let (mut sum, mut squares) = (0.0, 0.0);
            for _ in 0..DRAWS {
                let theta = case.kernel.draw(&stats, &mut rng).unwrap();
                assert_eq!(theta.len(), case.kernel.parameters());
                let ratio = (tau * case.kernel.ln_density(&theta, case.new_row()) - exact).exp();
                sum += ratio;
                squares += ratio * ratio;
            }
            let mean = sum / DRAWS as f64;
            let error = ((squares / DRAWS as f64 - mean * mean) / DRAWS as f64).sqrt();
            assert!(((mean - 1.0) / error).abs() < 4.0, "{}, power {tau}: {mean} +- {error}", case.name);
            assert!(error < 0.1, "{}: {error}", case.name);
        }
    }
}

/// Parameters from the prior, rows given them, parameters given the rows: the distribution is that of before, alone and with the rows.
#[test]
fn redrawn_parameters_keep_the_joint_distribution() {
    for case in cases() {
        let kernel = &case.kernel;
        let settings = InvarianceSettings { draws: 20_000, false_alarm_rate: 1e-3 };
        let names = ["mean", "square", "with a row", "density"];
        // proportions by their probabilities: logarithms of tiny ones have no useful moments
        let of = |theta: &[f64]| kernel.mean(theta)[0];
        let report = one_step_invariance(
            case.name,
            &settings,
            &names,
            |(theta, rows): &(Vec<f64>, Vec<Vec<f64>>), out: &mut Vec<f64>| {
                let value = of(theta).clamp(-20.0, 20.0);
                let cell = rows.iter().map(|r| r[0]).find(|x| !x.is_nan()).unwrap_or(0.0).clamp(-20.0, 20.0);
                out.extend([value, value * value, value * cell, kernel.ln_density(theta, &rows[0]).max(-50.0)]);
            },
            &mut rng(32),
            |rng| -> Result<_, Error> {
                let theta = kernel.draw(&vec![0.0; kernel.statistics()], rng)?;
                let mut rows = case.rows.clone();
                rows.iter_mut().try_for_each(|row| kernel.draw_row(&theta, rng, row))?;
                Ok((theta, rows))
            },
            |(_, rows), rng| {
                let stats = statistics(kernel, &rows.iter().map(Vec::as_slice).collect::<Vec<_>>());
                Ok((kernel.draw(&stats, rng)?, rows))
            },
        )
        .unwrap();
        assert!(report.passed, "{report}");
    }
}

/// Atoms made ready have the densities that they had, and many at once up to rounding; those that are not open are left out. Rows of all
/// cases, with and without gaps.
#[test]
fn atoms_made_ready_have_the_same_densities() {
    for case in cases() {
        let (kernel, mut rng) = (&case.kernel, rng(33));
        let theta: Vec<f64> = (0..5).flat_map(|_| kernel.draw(&case.stats(), &mut rng).unwrap()).collect();
        let ready = kernel.ready(&theta, 5);
        assert_eq!(ready.len(), 5);
        for row in &case.rows {
            let mut each = [0.0; 5];
            kernel.ln_density_each(&ready, row, |k| k != 3, &mut each);
            for (k, theta) in theta.chunks_exact(kernel.parameters()).enumerate() {
                let want = kernel.ln_density(theta, row);
                assert_eq!(kernel.ln_density_ready(&ready[k], row), want, "{}", case.name);
                let near = if k == 3 { each[k] == f64::NEG_INFINITY } else { (each[k] - want).abs() < 1e-12 * (1.0 + want.abs()) };
                assert!(near, "{}: {} {want}", case.name, each[k]);
            }
        }
    }
}
