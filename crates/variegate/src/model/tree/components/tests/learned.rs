//! One step of the strength and of the shared variance, from exact draws.

use super::*;
use crate::check::invariance::{InvarianceSettings, one_step_invariance};
use crate::dist::testing::{TestRng, rng};
use crate::{Error, Result};

struct State {
    kernel: Kernel,
    /// Rows of three atoms.
    atoms: Vec<Vec<Vec<f64>>>,
    theta: Vec<Vec<f64>>,
}

impl State {
    /// The shared number from its prior, parameters given it, rows given them.
    fn exact(kernel: &Kernel, shape: &[Vec<f64>], rng: &mut TestRng) -> Result<Self> {
        let mut kernel = kernel.clone();
        kernel.draw_shared(rng)?;
        let nothing = vec![0.0; kernel.statistics()];
        let (mut atoms, mut thetas) = (Vec::new(), Vec::new());
        for size in [3, 1, 2] {
            let theta = kernel.draw(&nothing, rng)?;
            let mut rows: Vec<Vec<f64>> = shape.iter().cycle().take(size).cloned().collect();
            rows.iter_mut().try_for_each(|row| kernel.draw_row(&theta, rng, row))?;
            atoms.push(rows);
            thetas.push(theta);
        }
        Ok(Self { kernel, atoms, theta: thetas })
    }

    fn statistics(&self) -> Vec<Vec<f64>> {
        self.atoms.iter().map(|rows| statistics(&self.kernel, &rows.iter().map(Vec::as_slice).collect::<Vec<_>>())).collect()
    }
}

fn check(name: &'static str, draws: u64, step: impl Fn(&mut State, &mut TestRng) -> Result<()>) {
    let case = cases().into_iter().find(|c| c.name == name).unwrap();
    let settings = InvarianceSettings { draws, false_alarm_rate: 1e-3 };
    let report = one_step_invariance(
        name,
        &settings,
        &["value", "logarithm", "with a cell", "with the marginal"],
        |state: &State, out: &mut Vec<f64>| {
            let value = state.kernel.shared().unwrap();
            let marginal: f64 = state.statistics().iter().map(|s| state.kernel.ln_marginal(s)).sum();
            out.extend([value.min(50.0), value.ln(), value.min(50.0) * state.atoms[0][0][0], marginal.clamp(-200.0, 200.0)]);
        },
        &mut rng(51),
        |rng| State::exact(&case.kernel, &case.rows, rng),
        |mut state, rng| -> Result<State, Error> {
            step(&mut state, rng)?;
            Ok(state)
        },
    )
    .unwrap();
    assert!(report.passed, "{report}");
}

#[test]
fn one_step_of_the_strength() {
    for name in ["bernoulli", "categorical", "multinomial"] {
        check(name, 40_000, |state, rng| {
            let stats = state.statistics();
            state.kernel.step_strength(stats.iter().map(Vec::as_slice), rng)
        });
    }
}

#[test]
fn one_step_of_the_variance() {
    for name in ["tied", "tied, matrix"] {
        check(name, 30_000, |state, rng| {
            let stats = state.statistics();
            state.kernel.step_variance(stats.iter().map(Vec::as_slice).zip(state.theta.iter().map(Vec::as_slice)), rng)
        });
    }
}

/// To a power tau, rows have the density `N(x; mu, s2/tau)` but for a factor `s2^((1 - tau)/2)` a cell: their variance is s2/tau, and s2 has a shape
/// less by `(1 - tau)/2` for each of them.
#[test]
fn one_step_of_the_variance_to_a_power() {
    const TAU: f64 = 0.6;
    let shape = |kernel: &mut Kernel, a: f64| {
        let super::super::Likelihood::Fixed(fixed) = &mut kernel.likelihood else { unreachable!() };
        fixed.shared = Some((a, 3.0));
    };
    let case = cases().into_iter().find(|c| c.name == "tied").unwrap();
    let mut kernel = case.kernel.clone().tempered(TAU);
    shape(&mut kernel, 9.0);
    let settings = InvarianceSettings { draws: 20_000, false_alarm_rate: 1e-3 };
    let report = one_step_invariance(
        "tied, to a power",
        &settings,
        &["value", "logarithm", "with squares"],
        |state: &State, out: &mut Vec<f64>| {
            let value = state.kernel.shared().unwrap();
            let squares: f64 = state.atoms.iter().flatten().flatten().filter(|x| !x.is_nan()).map(|x| x * x).sum();
            out.extend([value.min(50.0), value.ln(), value.min(50.0) * squares.min(500.0)]);
        },
        &mut rng(52),
        |rng| -> Result<State> {
            let cells = [3, 1, 2].iter().flat_map(|&size| case.rows.iter().cycle().take(size)).flatten().filter(|x| !x.is_nan()).count();
            let mut own = kernel.clone();
            shape(&mut own, 9.0 - 0.5 * (1.0 - TAU) * cells as f64);
            own.draw_shared(rng)?;
            let variance = own.shared().unwrap();
            shape(&mut own, 9.0);
            let mut wide = own.clone();
            wide.set_shared(variance / TAU);
            let (mut atoms, mut theta) = (Vec::new(), Vec::new());
            for size in [3, 1, 2] {
                let mean = own.draw(&vec![0.0; own.statistics()], rng)?;
                let mut rows: Vec<Vec<f64>> = case.rows.iter().cycle().take(size).cloned().collect();
                rows.iter_mut().try_for_each(|row| wide.draw_row(&mean, rng, row))?;
                atoms.push(rows);
                theta.push(mean);
            }
            Ok(State { kernel: own, atoms, theta })
        },
        |mut state, rng| -> Result<State, Error> {
            let stats = state.statistics();
            state.kernel.step_variance(stats.iter().map(Vec::as_slice).zip(state.theta.iter().map(Vec::as_slice)), rng)?;
            Ok(state)
        },
    )
    .unwrap();
    assert!(report.passed, "{report}");
}

#[test]
fn what_is_fixed_stays() {
    for case in cases() {
        let mut kernel = case.kernel.clone();
        let before = kernel.shared();
        let stats = [case.stats()];
        if !kernel.learns_strength() {
            kernel.step_strength(stats.iter().map(Vec::as_slice), &mut rng(1)).unwrap();
        }
        if !kernel.learns_variance() {
            kernel.step_variance(std::iter::empty(), &mut rng(1)).unwrap();
        }
        assert_eq!(kernel.shared(), before);
    }
    let fixed = Prior { strength: Some(0.7), ..Prior::default() };
    let kernel = bound(Family::Bernoulli, &fixed, &[0.0, 1.0], 1);
    assert!(!kernel.learns_strength() && kernel.shared() == Some(0.7));
}
