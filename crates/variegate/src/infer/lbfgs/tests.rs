use super::*;
use crate::infer::finite_difference::check_gradient;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::convert::Infallible;

fn solve(start: &[f64], f: impl FnMut(&[f64], &mut [f64]) -> f64) -> Minimum {
    solve_with(start, &LbfgsSettings::default(), f)
}

fn solve_with(start: &[f64], settings: &LbfgsSettings, mut f: impl FnMut(&[f64], &mut [f64]) -> f64) -> Minimum {
    minimise(start, settings, |x, g| Ok::<_, Infallible>(f(x, g))).unwrap()
}

fn rosenbrock(x: &[f64], g: &mut [f64]) -> f64 {
    g.fill(0.0);
    let mut value = 0.0;
    for i in 0..x.len() - 1 {
        let (a, b) = (1.0 - x[i], x[i + 1] - x[i] * x[i]);
        value += a * a + 100.0 * b * b;
        g[i] += -2.0 * a - 400.0 * x[i] * b;
        g[i + 1] += 200.0 * b;
    }
    value
}

#[test]
fn quadratics_of_bad_condition() {
    // Log-spaced curvatures, the hardest spectrum. The last column is about what a reference L-BFGS-B with memory 20 needs.
    for (n, condition, most) in [(5, 1e2, 30), (50, 1e4, 1_000), (30, 1e6, 4_500), (15, 1e8, 600)] {
        let curvature = |i: usize| f64::powf(condition, i as f64 / (n - 1) as f64);
        let settings = LbfgsSettings { max_iterations: 10_000, ..Default::default() };
        let found = solve_with(&vec![3.0; n], &settings, |x, g| {
            (0..n)
                .map(|i| {
                    let away = x[i] - i as f64;
                    g[i] = curvature(i) * away;
                    0.5 * curvature(i) * away * away
                })
                .sum()
        });
        assert!(found.status.converged(), "{n} {condition}: {found:?}");
        assert!(found.value < 1e-10, "{n} {condition}: {found:?}");
        assert!(found.evaluations < most, "{n} {condition}: {}", found.evaluations);
    }
}

#[test]
fn one_variable_and_extreme_scales() {
    for scale in [1e-12, 1e-3, 1.0, 1e6] {
        // f = cosh(x − 2), in units of x of the given size.
        let found = solve(&[0.0], |x, g| {
            g[0] = (x[0] / scale - 2.0).sinh() / scale;
            (x[0] / scale - 2.0).cosh()
        });
        assert!(found.status.converged(), "{scale}: {found:?}");
        // The gradient test is relative to max(|x|, 1): with tiny units it is strict, with huge ones the value decides.
        assert!((found.x[0] / scale - 2.0).abs() < 1e-4, "{scale}: {found:?}");
    }
}

#[test]
fn rosenbrock_in_2_and_20_dimensions() {
    for start in [[-1.2, 1.0], [1e3, -1e3], [0.0, 0.0]] {
        let found = solve(&start, rosenbrock);
        assert!(found.status.converged(), "{found:?}");
        assert!(found.x.iter().all(|x| (x - 1.0).abs() < 1e-6), "{found:?}");
    }
    let start: Vec<f64> = (0..20).map(|i| if i % 2 == 0 { -1.2 } else { 1.0 }).collect();
    let found = solve(&start, rosenbrock);
    assert!(found.status.converged(), "{found:?}");
    assert!(found.evaluations < 300, "{}", found.evaluations);
    // From this start there is a second minimum near x₁ = −1; both have a vanishing gradient.
    assert!(found.gradient_norm < 1e-5, "{found:?}");
    assert!(found.value < 1e-9 || (found.value - 3.98).abs() < 0.02, "{found:?}");
    let found = solve(&[0.5; 20], rosenbrock);
    assert!(found.x.iter().all(|x| (x - 1.0).abs() < 1e-6), "{found:?}");
}

/// Ridge-penalised logistic regression with made-up rows.
struct Logistic {
    x: Vec<f64>,
    y: Vec<f64>,
    d: usize,
}

impl Logistic {
    fn new(rows: usize, d: usize) -> Self {
        let mut rng = SmallRng::seed_from_u64(1);
        let x: Vec<f64> = (0..rows * d).map(|_| rng.random_range(-2.0..2.0)).collect();
        let y = (0..rows).map(|i| f64::from(x[i * d] + rng.random_range(-1.0..1.0) > 0.0)).collect();
        Self { x, y, d }
    }

    fn negative_log_posterior(&self, w: &[f64], g: &mut [f64]) -> f64 {
        g.copy_from_slice(w);
        let mut value = 0.5 * dot(w, w);
        for (row, &y) in self.x.chunks(self.d).zip(&self.y) {
            let eta = dot(row, w);
            value += eta.max(0.0) + (-eta.abs()).exp().ln_1p() - y * eta;
            add(g, 1.0 / (1.0 + (-eta).exp()) - y, row);
        }
        value
    }
}

#[test]
fn logistic_regression() {
    let problem = Logistic::new(500, 12);
    let w: Vec<f64> = (0..12).map(|i| 0.1 * i as f64 - 0.5).collect();
    let mut g = vec![0.0; 12];
    problem.negative_log_posterior(&w, &mut g);
    let worst = check_gradient(|w| problem.negative_log_posterior(w, &mut [0.0; 12]), &w, &g);
    assert!(worst.relative_error < 1e-9, "{worst:?}");

    let found = solve(&[0.0; 12], |w, g| problem.negative_log_posterior(w, g));
    assert!(found.status.converged(), "{found:?}");
    assert!(found.gradient_norm < 1e-5 && found.evaluations < 60, "{found:?}");
    // Every neighbour is higher.
    for i in 0..12 {
        for step in [-1e-3, 1e-3] {
            let mut w = found.x.clone();
            w[i] += step;
            assert!(problem.negative_log_posterior(&w, &mut g) > found.value);
        }
    }
    // The same bits every time.
    assert_eq!(found, solve(&[0.0; 12], |w, g| problem.negative_log_posterior(w, g)));
}

#[test]
fn regions_without_a_value_are_avoided() {
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        // Σ x − log x: not defined for x ≤ 0, minimum at 1.
        let found = solve(&[1e-3, 50.0, 0.4], |x, g| {
            let mut value = 0.0;
            for i in 0..3 {
                if x[i] <= 0.0 {
                    g.fill(bad);
                    return bad;
                }
                g[i] = 1.0 - 1.0 / x[i];
                value += x[i] - x[i].ln();
            }
            value
        });
        assert!(found.status.converged(), "{found:?}");
        assert!(found.x.iter().all(|x| (x - 1.0).abs() < 1e-5), "{found:?}");
    }
    // A finite value with a gradient that is not.
    let found = solve(&[3.0], |x, g| {
        g[0] = if x[0] < 1.0 { f64::NAN } else { 2.0 * (x[0] - 2.0) };
        (x[0] - 2.0).powi(2)
    });
    assert!((found.x[0] - 2.0).abs() < 1e-6, "{found:?}");
}

#[test]
fn an_optimal_start_is_recognised() {
    let found = solve(&[1.0; 20], rosenbrock);
    assert_eq!((found.status, found.iterations, found.evaluations), (Status::ConvergedGradient, 0, 1));
    let found = solve(&[], |_, _| 4.0);
    assert_eq!((found.status, found.value, found.gradient_norm), (Status::ConvergedGradient, 4.0, 0.0));
}

#[test]
fn tight_tolerances_end_at_rounding_not_in_a_loop() {
    let settings = LbfgsSettings { gradient_tolerance: 0.0, value_tolerance: 0.0, ..Default::default() };
    let problem = Logistic::new(300, 6);
    let found = solve_with(&[0.0; 6], &settings, |w, g| problem.negative_log_posterior(w, g));
    assert!(found.gradient_norm < 1e-9, "{found:?}");
    assert!(found.evaluations < 500, "{found:?}");
    assert_ne!(found.status, Status::LineSearchFailed);
}

#[test]
fn failures_are_told_apart() {
    let start = solve(&[-1.0], |x, g| {
        g[0] = 1.0 / x[0];
        x[0].ln()
    });
    assert_eq!(start.status, Status::StartNotFinite);
    assert_eq!((start.value, start.gradient_norm, start.x), (f64::INFINITY, f64::INFINITY, vec![-1.0]));

    let wrong_gradient = solve(&[3.0], |x, g| {
        g[0] = -2.0 * x[0];
        x[0] * x[0]
    });
    assert_eq!(wrong_gradient.status, Status::LineSearchFailed);
    assert_eq!(wrong_gradient.x, [3.0]);

    let settings = LbfgsSettings { max_iterations: 3, ..Default::default() };
    let short = solve_with(&[-1.2, 1.0], &settings, rosenbrock);
    assert_eq!((short.status, short.iterations), (Status::MaxIterations, 3));
    assert!(short.value < 24.2);

    // Unbounded below: runs to the limit, but every number stays finite.
    let endless = solve(&[0.0], |x, g| {
        g[0] = -1.0;
        -x[0]
    });
    assert!(endless.x[0].is_finite() && endless.value.is_finite());

    let mut calls = 0;
    let failed = minimise(&[-1.2, 1.0], &LbfgsSettings::default(), |x, g| {
        calls += 1;
        if calls == 7 { Err("block 3 was lost") } else { Ok(rosenbrock(x, g)) }
    });
    assert_eq!(failed, Err("block 3 was lost"));
    assert_eq!(calls, 7);

    let nan = LbfgsSettings { value_tolerance: f64::NAN, ..Default::default() };
    assert!(nan.validate().is_err());
    assert!(LbfgsSettings::default().validate().is_ok());
}

#[test]
fn little_memory_still_works() {
    for memory in [0, 1, 3] {
        let settings = LbfgsSettings { memory, max_iterations: 100_000, ..Default::default() };
        let found = solve_with(&[0.2, -0.3, 0.1], &settings, |x, g| {
            let w = [1.0, 5.0, 20.0];
            for i in 0..3 {
                g[i] = w[i] * x[i] + x[i].powi(3);
            }
            (0..3).map(|i| 0.5 * w[i] * x[i] * x[i] + 0.25 * x[i].powi(4)).sum()
        });
        assert!(found.status.converged() && found.value < 1e-12, "{memory}: {found:?}");
    }
}
