//! Powers of the likelihood: marginals and predictives against integrals over parameters.

use super::*;
use crate::special::ln_gamma;

/// Bernoulli at power 0.4, prior 0.9 (0.3, 0.7): after two ones in three rows a further one has 0.723112, where the prior predictive with updated
/// parameters would have 0.509524.
#[test]
fn a_tempered_predictive_is_a_ratio_of_marginals() {
    let prior = Prior { base: Some(vec![0.3]), strength: Some(0.9), ..Prior::default() };
    let kernel = bound(Family::Bernoulli, &prior, &[1.0, 0.0], 1).tempered(0.4);
    let stats = statistics(&kernel, &[&[1.0], &[1.0], &[0.0]]);
    assert!((kernel.ln_predictive(&stats, &[1.0]).exp() - 0.723112).abs() < 1e-6);
    let updated: f64 = (0.9 * 0.3 + 0.4 * 2.0) / (0.9 + 0.4 * 3.0);
    assert!((updated - 0.509524).abs() < 1e-6);
}

/// Integral of a smooth function that vanishes at both ends: the trapezoidal rule, which has all digits then.
fn integral(from: f64, to: f64, step: f64, f: impl Fn(f64) -> f64) -> f64 {
    let count = ((to - from) / step).round() as usize;
    (0..=count).map(|i| f(from + step * i as f64)).sum::<f64>() * step
}

fn ln_normal(x: f64, mean: f64, variance: f64) -> f64 {
    -0.5 * ((std::f64::consts::TAU * variance).ln() + (x - mean).powi(2) / variance)
}

/// Log density of l = ln y, y ~ Gamma(shape, rate).
fn ln_gamma_density(l: f64, shape: f64, rate: f64) -> f64 {
    shape * (rate.ln() + l) - rate * l.exp() - ln_gamma(shape)
}

/// Means and log precisions, `precision ~ Gamma(a, b)`, `mean ~ N(m, 1/(k precision))`.
fn normal_gamma([m, k, a, b]: [f64; 4], ln_f: impl Fn(f64, f64) -> f64) -> f64 {
    integral(-22.0, 6.0, 0.1, |l| {
        let sd = (k * l.exp()).powf(-0.5);
        let of_mean = |u: f64| (ln_normal(u, 0.0, 1.0) + ln_f(m + sd * u, (-l).exp())).exp();
        integral(-14.0, 14.0, 0.05, of_mean) * ln_gamma_density(l, a, b).exp()
    })
}

/// Three probabilities by their log ratios to the third, from a Dirichlet distribution.
fn dirichlet(shapes: [f64; 3], ln_f: impl Fn([f64; 3]) -> f64) -> f64 {
    let constant = ln_gamma(shapes.iter().sum()) - shapes.iter().map(|a| ln_gamma(*a)).sum::<f64>();
    let of = |s: f64, t: f64| {
        let total = (s.exp() + t.exp() + 1.0).ln();
        let ln_p = [s - total, t - total, -total];
        (constant + shapes.iter().zip(ln_p).map(|(a, l)| a * l).sum::<f64>() + ln_f(ln_p)).exp()
    };
    integral(-25.0, 25.0, 0.2, |s| integral(-25.0, 25.0, 0.2, |t| of(s, t)))
}

/// Every family: the marginal likelihood of rows to a power is the integral of that power over the prior, written out here a second time.
#[test]
fn tempered_marginals_are_integrals() {
    let x = [0.3, 1.2, -0.4];
    let mean = Some(vec![0.2]);
    let ln_normals = |mean: f64, variance: f64| x.iter().map(|v| ln_normal(*v, mean, variance)).sum::<f64>();
    let (counts, codes) = ([2.0, 0.0, 5.0], [2.0, 0.0, 2.0]);
    let tables = [[2.0, 0.0, 1.0], [4.0, 1.0, 1.0]];
    let factorial = |n: f64| (1..=n as usize).map(|i| (i as f64).ln()).sum::<f64>();
    let three = [0.5, 0.3, 0.2];
    let shapes = three.map(|m| 7.0 * m);
    for tau in [1.0, 0.4, 0.2] {
        let check = |family: Family, prior: Prior, rows: &[&[f64]], integral: f64| {
            let kernel = bound(family, &prior, &rows.concat(), rows[0].len()).tempered(tau);
            let marginal = kernel.ln_marginal(&statistics(&kernel, rows)).exp();
            assert!((marginal / integral - 1.0).abs() < 1e-9, "{} at {tau}: {marginal}, not {integral}", family.name());
        };
        let real: Vec<&[f64]> = x.chunks(1).collect();

        let between = Some(Matrix::Multiple(2.0));
        let given =
            Prior { mean: mean.clone(), covariance: Some(Matrix::Multiple(0.5)), mean_covariance: between.clone(), ..Prior::default() };
        let with_means = |variance: f64| integral(-20.0, 20.0, 0.01, |m| (ln_normal(m, 0.2, 2.0) + tau * ln_normals(m, variance)).exp());
        check(Family::GaussianKnown, given, &real, with_means(0.5));
        let tied =
            Prior { mean: mean.clone(), mean_covariance: between, variance_shape: Some(2.0), variance_rate: Some(1.4), ..Prior::default() };
        check(Family::GaussianTied, tied, &real, with_means(0.7));
        let diag = Prior {
            mean: mean.clone(),
            mean_strength: Some(0.5),
            precision_shape: Some(2.0),
            precision_rate: Some(vec![0.7]),
            ..Prior::default()
        };
        check(Family::GaussianDiag, diag, &real, normal_gamma([0.2, 0.5, 2.0, 0.7], |m, v| tau * ln_normals(m, v)));
        let scatter = Some(Matrix::Multiple(0.9));
        let full = Prior { mean: mean.clone(), mean_strength: Some(0.5), freedom: Some(3.0), scatter, ..Prior::default() };
        check(Family::GaussianFull, full, &real, normal_gamma([0.2, 0.5, 1.5, 0.45], |m, v| tau * ln_normals(m, v)));

        let answers: [&[f64]; 3] = [&[1.0], &[1.0], &[0.0]];
        let binary = Prior { base: Some(vec![0.3]), strength: Some(0.9), ..Prior::default() };
        let constant = ln_gamma(0.9) - ln_gamma(0.27) - ln_gamma(0.63);
        let of_logit = |t: f64| {
            let (no, yes) = (-t.exp().ln_1p(), -(-t).exp().ln_1p());
            (constant + (0.63 + tau) * no + (0.27 + 2.0 * tau) * yes).exp()
        };
        check(Family::Bernoulli, binary, &answers, integral(-120.0, 120.0, 0.02, of_logit));
        let prior = |base: &[f64]| Prior { base: Some(base.to_vec()), strength: Some(7.0), ..Prior::default() };
        let seen = Prior { categories: Some(vec![3]), ..prior(&three) };
        let of_codes = dirichlet(shapes, |ln_p| tau * codes.iter().map(|c| ln_p[*c as usize]).sum::<f64>());
        check(Family::Categorical, seen, &codes.chunks(1).collect::<Vec<_>>(), of_codes);
        let coefficient = |row: &[f64; 3]| factorial(row.iter().sum()) - row.iter().map(|n| factorial(*n)).sum::<f64>();
        let of_tables = dirichlet(shapes, |ln_p| {
            tau * tables.iter().map(|row| coefficient(row) + row.iter().zip(ln_p).map(|(n, l)| n * l).sum::<f64>()).sum::<f64>()
        });
        check(Family::Multinomial, prior(&three), &[&tables[0], &tables[1]], of_tables);

        let rates = Prior { rate_shape: Some(vec![1.3]), rate_rate: Some(vec![0.6]), ..Prior::default() };
        let ln_counts = |l: f64| counts.iter().map(|n| n * l - l.exp() - factorial(*n)).sum::<f64>();
        let of_rates = integral(-40.0, 8.0, 0.01, |l| (ln_gamma_density(l, 1.3, 0.6) + tau * ln_counts(l)).exp());
        check(Family::Poisson, rates, &counts.chunks(1).collect::<Vec<_>>(), of_rates);
    }
}
