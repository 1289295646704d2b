//! Leave-one-out predictive density from the draws of one fit, by Pareto-smoothed importance sampling.
//!
//! With ℓ_s = ln p(y_i | θ_s), the density of row i under the posterior of the other rows is the mean of p(y_i | θ_s) with weights
//! ∝ 1/p(y_i | θ_s). The largest weights, M = ⌈min(S/5, 3√(S/r))⌉ of them (r the efficiency of the draws relative to independent ones),
//! are replaced by the expected order statistics of the generalised Pareto distribution
//!
//! ```text
//! P(w > u + t) = (1 + k t/σ)^(−1/k)
//! ```
//!
//! that fits them, cut at the largest raw weight (Vehtari, Simpson, Gelman, Yao and Gabry 2024; k and σ as Zhang and Stephens 2009).
//! The shape k says what the row's figure is worth: below 0.7 it can be trusted, above it the weights have next to no variance to
//! speak of, and the row is one that the fit would hardly know without having seen it. Fewer than five weights in the tail fit
//! nothing: k is infinite then. Weights that are all equal have no tail: k is minus infinity and the figure exact.

use crate::special::log_sum_exp;

/// Shapes above this are doubtful.
pub const K_LIMIT: f64 = 0.7;
/// A tail with fewer weights is not fitted.
const SHORTEST_TAIL: usize = 5;

/// What one row says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowLoo {
    /// Log predictive density of the row under the posterior of the others.
    pub elpd: f64,
    /// The same under the posterior that has seen the row.
    pub lpd: f64,
    /// Shape of the tail of its weights.
    pub k: f64,
}

impl RowLoo {
    /// Whether its shape is above [`K_LIMIT`].
    pub fn is_doubtful(&self) -> bool {
        // a shape that is not a number is no comfort
        self.k > K_LIMIT || self.k.is_nan()
    }
}

/// Leave-one-out figures, gathered row by row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Loo {
    /// Every row, in the order it came.
    pub rows: Vec<RowLoo>,
}

impl Loo {
    /// Takes some rows: `ln_likelihood` holds a draw a line, row-major with `rows` numbers each. `efficiency` is the effective number
    /// of draws divided by their number (1 for independent ones), and decides only how long the tail is.
    ///
    /// ```
    /// let mut loo = variegate::diagnostics::Loo::default();
    /// // four draws of two rows, one of them certain
    /// loo.add(&[-1.0, 0.0, -2.0, 0.0, -1.5, 0.0, -1.2, 0.0], 2, 1.0);
    /// assert!(loo.rows[0].elpd < loo.rows[0].lpd && loo.rows[1].elpd == 0.0);
    /// ```
    pub fn add(&mut self, ln_likelihood: &[f64], rows: usize, efficiency: f64) {
        let mut column = Vec::new();
        for row in 0..rows {
            column.clear();
            column.extend(ln_likelihood.iter().skip(row).step_by(rows));
            self.rows.push(one(&column, efficiency));
        }
    }

    /// One row, from its log likelihood under each draw.
    pub(crate) fn of_row(ln_likelihood: &[f64], efficiency: f64) -> RowLoo {
        one(ln_likelihood, efficiency)
    }

    /// Sum of the log predictive densities of the rows left out.
    pub fn elpd(&self) -> f64 {
        self.rows.iter().map(|r| r.elpd).sum()
    }

    /// Its standard error, from the spread over rows.
    pub fn standard_error(&self) -> f64 {
        let n = self.rows.len() as f64;
        let mean = self.elpd() / n;
        self.rows.iter().map(|r| (r.elpd - mean).powi(2)).sum::<f64>().sqrt()
    }

    /// Effective number of parameters: what the rows gain from having been seen.
    pub fn p_loo(&self) -> f64 {
        self.rows.iter().map(|r| r.lpd).sum::<f64>() - self.elpd()
    }

    /// Number of rows whose shape is above [`K_LIMIT`].
    pub fn doubtful(&self) -> usize {
        self.rows.iter().filter(|r| r.is_doubtful()).count()
    }
}

/// One row, from its log likelihood under each draw.
fn one(ln_likelihood: &[f64], efficiency: f64) -> RowLoo {
    let draws = ln_likelihood.len();
    let lpd = log_sum_exp(ln_likelihood) - (draws as f64).ln();
    let least = ln_likelihood.iter().copied().fold(f64::INFINITY, f64::min);
    if draws == 0 || ln_likelihood.iter().any(|l| l.is_nan()) {
        return RowLoo { elpd: f64::NAN, lpd: f64::NAN, k: f64::NAN };
    }
    if least == f64::NEG_INFINITY {
        // a draw that thinks the row impossible has all the weight
        return RowLoo { elpd: f64::NEG_INFINITY, lpd, k: f64::INFINITY };
    }
    // log weights, the largest 0
    let mut weights: Vec<f64> = ln_likelihood.iter().map(|l| least - l).collect();
    let k = smooth(&mut weights, efficiency);
    let total = log_sum_exp(&weights);
    let joint: Vec<f64> = weights.iter().zip(ln_likelihood).map(|(w, l)| w - total + l).collect();
    RowLoo { elpd: log_sum_exp(&joint), lpd, k }
}

/// Smooths the tail of log weights whose largest is 0 and gives its shape.
fn smooth(weights: &mut [f64], efficiency: f64) -> f64 {
    let draws = weights.len() as f64;
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by(|&a, &b| weights[a].total_cmp(&weights[b]));
    if order.first().is_none_or(|&least| weights[least] == 0.0) {
        return f64::NEG_INFINITY;
    }
    let length = (draws / 5.0).min(3.0 * (draws / efficiency).sqrt()).ceil() as usize;
    let Some(at) = weights.len().checked_sub(length + 1) else { return f64::INFINITY };
    let cut = weights[order[at]].max(f64::MIN_POSITIVE.ln());
    // weights equal to the cut are not beyond it
    let tail: Vec<usize> = order[at..].iter().copied().filter(|&i| weights[i] > cut).collect();
    if tail.len() < SHORTEST_TAIL {
        return f64::INFINITY;
    }
    let base = cut.exp();
    let excess: Vec<f64> = tail.iter().map(|&i| weights[i].exp() - base).collect();
    let Some((k, scale)) = fit(&excess) else { return f64::INFINITY };
    for (place, &i) in tail.iter().enumerate() {
        let p = (place as f64 + 0.5) / tail.len() as f64;
        weights[i] = (base + quantile(p, k, scale)).ln().min(0.0);
    }
    k
}

/// Shape and scale of a generalised Pareto distribution for ascending values; none where the values do not tell them.
///
/// With b = −k/σ the profile log likelihood is n (ln(−b/k(b)) − k(b) − 1), k(b) the mean of ln(1 − b x). Zhang and Stephens
/// average b over a grid with the profile likelihood as weight; the shape is then drawn to ½ with the strength of ten values.
fn fit(values: &[f64]) -> Option<(f64, f64)> {
    const PRIOR_SCALE: f64 = 3.0;
    const PRIOR_VALUES: f64 = 10.0;
    let n = values.len() as f64;
    let grid = 30 + n.sqrt() as usize;
    let quartile = values[(n / 4.0 + 0.5) as usize - 1];
    let largest = *values.last()?;
    let shape = |b: f64| values.iter().map(|x| (-b * x).ln_1p()).sum::<f64>() / n;
    let points: Vec<(f64, f64)> = (1..=grid)
        .map(|j| {
            let b = (1.0 - (grid as f64 / (j as f64 - 0.5)).sqrt()) / (PRIOR_SCALE * quartile) + 1.0 / largest;
            let k = shape(b);
            (b, n * ((-b / k).ln() - k - 1.0))
        })
        .filter(|p| !p.1.is_nan())
        .collect();
    let total = log_sum_exp(&points.iter().map(|p| p.1).collect::<Vec<_>>());
    // points of no weight are left out, so that they cannot spoil the mean
    let kept = points.iter().map(|(b, l)| (b, (l - total).exp())).filter(|p| p.1 >= 10.0 * f64::EPSILON);
    let (sum, weight) = kept.fold((0.0, 0.0), |(sum, weight), (b, w)| (sum + b * w, weight + w));
    let b = sum / weight;
    let k = shape(b);
    let scale = -k / b;
    let k = (n * k + PRIOR_VALUES * 0.5) / (n + PRIOR_VALUES);
    (k.is_finite() && scale.is_finite() && scale > 0.0).then_some((k, scale))
}

/// Quantile of the generalised Pareto distribution.
fn quantile(p: f64, k: f64, scale: f64) -> f64 {
    let tail = (-p).ln_1p();
    if k.abs() < f64::EPSILON { -scale * tail } else { scale * (-k * tail).exp_m1() / k }
}

#[cfg(test)]
mod tests {
    use super::super::reference_tests::{Generator, number};
    use super::*;
    use serde_json::Value;

    /// The draws of `tools/psis_reference.py`, operation by operation.
    fn draws(case: &Value) -> (Vec<f64>, usize) {
        let count = |key: &str| case[key].as_u64().unwrap() as usize;
        let mut generator = Generator { state: case["seed"].as_u64().unwrap() };
        let (draws, rows) = (count("draws"), count("rows"));
        let values = (0..draws * rows).map(|at| {
            let (row, z) = ((at % rows) as f64, generator.bell());
            -(0.5 + 0.1 * row) - 0.02 * (1.0 + row * row) * z * z + 0.1 * z
        });
        (values.collect(), rows)
    }

    #[test]
    fn agrees_with_arviz() {
        let cases: Vec<Value> = serde_json::from_str(include_str!("psis.json")).unwrap();
        assert!(cases.len() >= 5);
        for case in &cases {
            let (values, rows) = draws(case);
            let mut loo = Loo::default();
            // in two chunks of rows, as a caller with little memory would
            let cut = rows / 2;
            let side = |from: usize, to: usize| values.chunks_exact(rows).flat_map(|d| d[from..to].to_vec()).collect::<Vec<_>>();
            let efficiency = number(&case["efficiency"]);
            loo.add(&side(0, cut), cut, efficiency);
            loo.add(&side(cut, rows), rows - cut, efficiency);
            let close = |got: f64, key: &str, expected: &Value| {
                let expected = number(expected);
                let same = got == expected || (got - expected).abs() < 1e-9 * expected.abs().max(1.0);
                assert!(same, "{} draws, {key}: {got} against {expected}", case["draws"]);
            };
            close(loo.elpd(), "elpd", &case["elpd"]);
            close(loo.standard_error(), "se", &case["se"]);
            close(loo.p_loo(), "p_loo", &case["p_loo"]);
            for (row, (elpd, k)) in loo.rows.iter().zip(case["rows_elpd"].as_array().unwrap().iter().zip(case["k"].as_array().unwrap())) {
                close(row.elpd, "row", elpd);
                close(row.k, "k", k);
            }
            let above = loo.rows.iter().filter(|r| r.k > K_LIMIT).count();
            assert_eq!(loo.doubtful(), above);
        }
    }

    /// A normal mean with known variance, of which everything is known: leaving row i out, y_i ~ N(m₋ᵢ, 1 + v₋ᵢ). 4000 independent
    /// draws give each row to within about √(Var w)/√4000; 0.02 is five such errors for the rows here.
    #[test]
    fn a_normal_mean_is_known_in_closed_form() {
        use rand::rngs::SmallRng;
        use rand::{RngExt, SeedableRng};
        let y = [-1.2, -0.3, 0.1, 0.4, 0.9, 1.1, -0.6, 0.3, 0.0, -0.2];
        let n = y.len() as f64;
        let total: f64 = y.iter().sum();
        let ln_normal = |x: f64, m: f64, v: f64| -0.5 * ((x - m).powi(2) / v + (std::f64::consts::TAU * v).ln());
        let mut rng = SmallRng::seed_from_u64(4);
        let mut values = Vec::new();
        for _ in 0..4000 {
            let z: f64 = rng.sample(rand_distr::StandardNormal);
            let mean = total / n + z / n.sqrt();
            values.extend(y.iter().map(|y| ln_normal(*y, mean, 1.0)));
        }
        let mut loo = Loo::default();
        loo.add(&values, y.len(), 1.0);
        for (row, y) in loo.rows.iter().zip(y) {
            let exact = ln_normal(y, (total - y) / (n - 1.0), 1.0 + 1.0 / (n - 1.0));
            assert!((row.elpd - exact).abs() < 0.02 && row.k < 0.5, "{row:?} {exact}");
        }
        assert_eq!(loo.doubtful(), 0);
    }

    #[test]
    fn edges() {
        let of = |values: &[f64]| {
            let mut loo = Loo::default();
            loo.add(values, 1, 1.0);
            loo.rows[0]
        };
        // all equal: nothing to smooth, and nothing to doubt
        let row = of(&[-0.7; 50]);
        assert!((row.elpd + 0.7).abs() < 1e-14 && (row.lpd + 0.7).abs() < 1e-14 && row.k == f64::NEG_INFINITY);
        // too few draws: the raw weights, of which nothing is known
        for draws in 1..20 {
            let values: Vec<f64> = (0..draws).map(|i| -f64::from(i) / 10.0).collect();
            let row = of(&values);
            // with weights 1/p the estimate is the harmonic mean
            let harmonic = (f64::from(draws)).ln() - log_sum_exp(&values.iter().map(|l| -l).collect::<Vec<_>>());
            assert!((row.elpd - harmonic).abs() < 1e-12 && (row.k == f64::INFINITY || draws == 1), "{draws}: {row:?}");
        }
        assert_eq!(of(&[-1.0, f64::NEG_INFINITY, -2.0]).elpd, f64::NEG_INFINITY);
        assert!(of(&[-1.0, f64::NAN]).elpd.is_nan());
        // far apart: nothing overflows
        let wild: Vec<f64> = (0..100).map(|i| -1e6 * f64::from(i)).collect();
        assert!(of(&wild).elpd.is_finite());
        let mut bad = Loo::default();
        bad.add(&[f64::NAN, -1.0], 2, 1.0);
        assert_eq!(bad.doubtful(), 1);
        let none = Loo::default();
        assert_eq!((none.elpd(), none.doubtful()), (0.0, 0));
    }
}
