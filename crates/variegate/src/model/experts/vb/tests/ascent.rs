//! No step goes down, and the top is one.

use super::*;
use crate::infer::finite_difference::gradient;

/// All kinds of fits: name and program, over `inputs` columns.
fn kinds(inputs: usize) -> Vec<(&'static str, Vb)> {
    let with = |experts, classes, bias, change: &dyn Fn(&mut Vb)| {
        let mut p = program(experts, classes, inputs, bias);
        change(&mut p);
        p
    };
    vec![
        ("chain", with(3, 2, true, &|_| ())),
        ("chain without intercepts", with(3, 2, false, &|_| ())),
        (
            "chain towards a direction",
            with(3, 2, true, &|p| {
                let mut first = pseudo(inputs, 3);
                sphere::normalise(&mut first);
                p.experts.first = Some(first.clone());
                p.gates.first = Some(first);
            }),
        ),
        ("bouchard", with(3, 2, true, &|p| p.gate_bound = GateBound::Bouchard)),
        ("bouchard without intercepts", with(2, 3, false, &|p| p.gate_bound = GateBound::Bouchard)),
        ("classes", with(3, 3, true, &|_| ())),
        ("classes without intercepts", with(2, 4, false, &|_| ())),
        ("one expert", with(1, 2, true, &|_| ())),
        ("one expert, classes", with(1, 3, true, &|_| ())),
        ("independent", regularised(with(3, 2, true, &|_| ()), 0.0)),
        ("regularised", regularised(with(3, 2, true, &|_| ()), 20.0)),
        ("regularised classes, bouchard", regularised(with(3, 3, false, &|p| p.gate_bound = GateBound::Bouchard), 20.0)),
        ("learned", with(3, 2, true, &|p| p.learn = true)),
        (
            "learned towards a direction",
            with(3, 2, false, &|p| {
                p.learn = true;
                p.experts.first = Some((0..inputs).map(|i| if i == 0 { 1.0 } else { 0.0 }).collect());
            }),
        ),
    ]
}

/// Plain steps, one by one, with and without Gram matrices.
#[test]
fn no_step_goes_down() {
    for (name, program) in kinds(4) {
        let data = dataset(50, 4, program.shape.classes);
        for grams in [true, false] {
            let program = Vb { grams, ..program.clone() };
            with_chain(&program, &data, 16, 9, |chain| {
                plain_sweep(&program, chain);
                let first = chain.global.objective;
                for sweep in 1..=25 {
                    let gain = plain_sweep(&program, chain);
                    let objective = chain.global.objective;
                    assert!(gain >= -1e-9 * objective.abs(), "{name}, {grams}, sweep {sweep}: {objective} after {gain}");
                }
                let rise = chain.global.objective - first;
                assert!(rise > 0.5, "{name}, {grams}: rises by {rise} only");
            });
        }
    }
}

/// All parameters of q: directions (of any length), logarithms of what is positive, intercepts.
fn parameters(q: &Fit) -> Vec<f64> {
    let of = |f: &factor::Factor| {
        let rest = [f.kappa.ln(), f.shape.ln(), f.rate.ln(), f.variance.ln()];
        f.direction.iter().chain(&f.intercepts).chain(&rest).copied().collect::<Vec<f64>>()
    };
    q.experts.factors.iter().chain(&q.gates.factors).flat_map(of).collect()
}

fn with_parameters(q: &Fit, mut x: &[f64]) -> Fit {
    let mut q = q.clone();
    for f in q.experts.factors.iter_mut().chain(&mut q.gates.factors) {
        let (dim, rows) = (f.direction.len(), f.intercepts.len());
        f.direction.copy_from_slice(&x[..dim]);
        sphere::normalise(&mut f.direction);
        f.intercepts.copy_from_slice(&x[dim..dim + rows]);
        x = &x[dim + rows..];
        (f.kappa, f.shape, f.rate, f.variance) = (x[0].exp(), x[1].exp(), x[2].exp(), x[3].exp());
        x = &x[4..];
    }
    q
}

/// At the top the objective is flat in every parameter of q: its derivatives by differences vanish.
#[test]
fn the_top_is_stationary() {
    for (name, program) in kinds(2) {
        if program.learn {
            continue;
        }
        let data = dataset(30, 2, program.shape.classes);
        let program = Vb { tol: 1e-13, ..program };
        with_chain(&program, &data, 16, 4, |chain| {
            // one of them stays by a saddle for 8,000 sweeps
            for _ in 0..20_000 {
                if chain.advance(false).unwrap().converged {
                    break;
                }
            }
            let state = chain.global.clone();
            assert!(state.converged, "{name}");
            let at = parameters(&state.q);
            let mut value = |x: &[f64]| program.evaluate(&with_parameters(&state.q, x), chain.rows()).unwrap().0;
            assert!((value(&at) - state.objective).abs() < 1e-9 * state.objective.abs());
            let slopes = gradient(&mut value, &at);
            let worst = slopes.iter().fold(0.0_f64, |w, s| w.max(s.abs()));
            assert!(worst < 2e-3, "{name}: a slope of {worst} is left; {slopes:?}");
            // and elsewhere it is not flat
            let away: Vec<f64> = at.iter().map(|v| v + 0.1).collect();
            assert!(value(&away) < state.objective - 1e-3, "{name}");
        });
    }
}

/// A chain of no concentration is no chain, and no reward is none.
#[test]
fn no_concentration_and_no_reward_are_the_same() {
    let data = dataset(40, 3, 2);
    let base = program(3, 2, 3, true);
    let faint = Vb { experts: side(1e-7), gates: side(1e-7), ..base.clone() };
    let (a, b) = (climb(&faint, &data, 400, 2), climb(&regularised(base.clone(), 0.0), &data, 400, 2));
    assert!((a.objective - b.objective).abs() < 1e-6, "{} {}", a.objective, b.objective);
    assert_eq!(b.objective, b.elbo);
    // with a chain it is another model
    assert!((climb(&base, &data, 400, 2).objective - a.objective).abs() > 1e-3);
}

/// The reward widens angles, and the bound of the evidence is the objective without it.
#[test]
fn rewards_widen_angles() {
    let data = dataset(60, 3, 2);
    let base = program(3, 2, 3, true);
    let (plain, wide) = (climb(&regularised(base.clone(), 0.0), &data, 600, 6), climb(&regularised(base, 20.0), &data, 600, 6));
    let omega = |s: &State| Regulariser::default().smoothed(&s.q.experts.directions(), 3);
    assert!(omega(&wide) > omega(&plain), "{} {}", omega(&wide), omega(&plain));
    let gates = Regulariser::default().smoothed(&wide.q.gates.directions(), 3);
    assert!((wide.objective - wide.elbo - 20.0 * (omega(&wide) + gates)).abs() < 1e-9);
}

/// One expert is a logistic regression: its bound, written out with the moments of a direction as a matrix.
#[test]
fn one_expert_is_a_logistic_regression() {
    use crate::special::{digamma, ln_gamma, ln_sigmoid};
    let (n, p) = (12, 3);
    let (x, y) = crossed(n, p, 2);
    let data = Dataset::new(Matrix::dense(n, p, x.clone())).with_target(target(&y, 2));
    let program = program(1, 2, p, true);
    assert_eq!(program.shape.gates(), 0);
    let state = climb(&program, &data, 500, 1);
    assert!(state.q.gates.factors.is_empty() && state.shares == [n as f64]);
    let f = &state.q.experts.factors[0];
    let m = f.moments();
    let (r, s) = (f.shape, f.rate);
    let mut value = 0.0;
    for (x, &y) in x.chunks(p).zip(&y) {
        let mut second = 0.0;
        for i in 0..p {
            for j in 0..p {
                let e = m.along.rho / p as f64 * if i == j { 1.0 } else { 0.0 } + (1.0 - m.along.rho) * f.direction[i] * f.direction[j];
                second += x[i] * x[j] * e * r * (r + 1.0) / (s * s);
            }
        }
        let mean = r / s * m.along.mean * dot(x, &f.direction);
        let (b, v) = (f.intercepts[0], f.variance);
        let e = (second + 2.0 * mean * b + b * b + v).sqrt();
        let sign = if y == 1 { 1.0 } else { -1.0 };
        value += ln_sigmoid(e) + 0.5 * (sign * (mean + b) - e);
    }
    // a uniform direction: ln S cancels
    value += m.along.ln_ratio - f.kappa * m.along.mean;
    value += 2.0 * 0.5_f64.ln() - ln_gamma(2.0) + (digamma(r) - s.ln()) - 0.5 * r / s;
    value += r - s.ln() + ln_gamma(r) + (1.0 - r) * digamma(r);
    let tau = program.intercept_sd;
    value += 0.5 * (f.variance / (tau * tau)).ln() + 0.5 - (f.intercepts[0].powi(2) + f.variance) / (2.0 * tau * tau);
    assert!((value - state.objective).abs() < 1e-9, "{value} {}", state.objective);
}

/// Hyperparameters that are learned give a higher bound than those that are set.
#[test]
fn learning_raises_the_bound() {
    let data = dataset(60, 3, 2);
    let fixed = program(3, 2, 3, true);
    let learned = Vb { learn: true, tol: 1e-8, ..fixed.clone() };
    let (a, b) = (climb(&fixed, &data, 400, 8), climb(&learned, &data, 400, 8));
    assert!(b.objective > a.objective + 0.1, "{} {}", a.objective, b.objective);
    assert!(b.q.experts.shape != 2.0 && b.q.experts.kappa != 1.5 && b.q.gates.rate != 0.5);
}
