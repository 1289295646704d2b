//! Bounds and fixed points of tiny problems, computed independently in high precision, and the evidence by quadrature.

use super::*;
use crate::data::Dataset;

fn fixed(bound: Bound, covariance: CovarianceChoice) -> Settings {
    Settings { bound, covariance, precision: Precision::Fixed, ..Settings::default() }
}

fn per_class(bound: Bound, covariance: CovarianceChoice) -> Settings {
    Settings { bound, covariance, precision: Precision::Child, ..Settings::default() }
}

const KINDS: [(Bound, CovarianceChoice); 3] = [(Bound::Double, CHILD), (Bound::Tilted, CHILD), (Bound::Tilted, JOINT)];

#[test]
fn bounds_and_evidence_of_tiny_problems() {
    let two = five(&[0, 0, 1, 1, 1], 2);
    let three = five(&[0, 0, 1, 2, 1], 3);
    let cases: [(&Dataset<'_>, usize, bool, f64, [f64; 3]); 3] = [
        (&two, 2, true, -3.1211518661, [-6.43379348, -3.37263931, -3.16882741]),
        (&two, 2, false, -3.261474479, [-6.89169079, -3.82025411, -3.62623808]),
        (&three, 3, true, -5.0269354489, [-9.12508983, -5.29222643, -5.11067522]),
    ];
    for (data, children, is_fixed, evidence, bounds) in cases {
        for ((bound, covariance), expected) in KINDS.into_iter().zip(bounds) {
            let s = if is_fixed { fixed(bound, covariance) } else { per_class(bound, covariance) };
            let l = top(&program(&s, children, Design::identity(1, false)), data).bound;
            assert!((l - expected).abs() < 2e-8, "{bound:?} {covariance:?} K={children}: {l} instead of {expected}");
            assert!(l < evidence);
        }
    }
}

#[test]
fn fixed_points_of_tiny_problems() {
    let data = five(&[0, 0, 1, 1, 1], 2);
    let at = |s: &Settings| {
        let state = top(&program(s, 2, Design::identity(1, false)), &data);
        let p = program(s, 2, Design::identity(1, false));
        let moments = node(&state).moments(&p.layout(&state.tree).nodes[0], &[], 1.0).unwrap();
        (node(&state).mean.clone(), moments, node(&state).rates.clone())
    };
    let near = |a: f64, b: f64, tolerance: f64| assert!((a - b).abs() < tolerance, "{a} instead of {b}");
    let cases = [
        (Bound::Double, 0.7816124, 0.3721964, 0.779053, 0.370978, 1.488950),
        (Bound::Tilted, 0.6039814, 0.4163659, 0.580145, 0.396214, 1.366391),
    ];
    for (bound, mean, variance, mean_learned, variance_learned, rate) in cases {
        let (mu, q, rates) = at(&fixed(bound, CHILD));
        for c in 0..2 {
            near(mu[c], if c == 0 { mean } else { -mean }, 1e-7);
            near(q.variance[c], variance, 1e-7);
        }
        assert!(rates.is_empty());
        let (mu, q, rates) = at(&per_class(bound, CHILD));
        for c in 0..2 {
            near(mu[c].abs(), mean_learned, 1e-6);
            near(q.variance[c], variance_learned, 1e-6);
            near(rates[c], rate, 1e-6);
        }
    }
    let (mu, q, _) = at(&fixed(Bound::Tilted, JOINT));
    near(mu[0] - mu[1], 1.1233366, 1e-7);
    near(q.forms[0] + q.forms[2] - 2.0 * q.forms[1], 0.5427152, 1e-7);
}

/// With equal fixed precisions the double bound of two classes is two separate logistic regressions, which count the data twice.
#[test]
fn the_double_bound_of_two_classes_is_two_logistic_regressions() {
    // fixed point of the logistic regression δ ~ N(0, 1) with the same quadratic bound, iterated on its own
    let (x, y) = ([1.0, 2.0, -0.5, -1.5, 0.8], [1.0, 1.0, 0.0, 0.0, 0.0]);
    let (mut mean, mut variance, mut l) = (0.0f64, 1.0f64, 0.0);
    for _ in 0..2000 {
        let (mut p, mut h) = (1.0, 0.0);
        l = 0.0;
        for (x, y) in x.iter().zip(y) {
            let xi = (x * x * (variance + mean * mean)).sqrt();
            p += 2.0 * (xi / 2.0).tanh() / (4.0 * xi) * x * x;
            h += (y - 0.5) * x;
            l += (y - 0.5) * x * mean - (2.0 * (xi / 2.0).cosh()).ln();
        }
        l += -0.5 * (mean * mean + variance) + 0.5 * variance.ln() + 0.5;
        (mean, variance) = (h / p, 1.0 / p);
    }
    assert!((mean - 0.78161242).abs() < 1e-8 && (variance - 0.37219639).abs() < 1e-8 && (l - -3.21689674).abs() < 1e-8);
    let state = top(&program(&fixed(Bound::Double, AUTO), 2, Design::identity(1, false)), &five(&[0, 0, 1, 1, 1], 2));
    assert!((state.bound - 2.0 * l).abs() < 1e-9, "{} {l}", state.bound);
    assert!((node(&state).mean[0] - mean).abs() < 1e-7 && (node(&state).mean[1] + mean).abs() < 1e-7);
}

/// Bias precision of the sampled problem, and the groups of its three weight vectors of two entries and a bias.
const BIAS: f64 = 0.5;

fn group(precision: Precision, c: usize, j: usize) -> Option<usize> {
    match precision {
        _ if j == 2 => None,
        Precision::Node => Some(0),
        Precision::Child => Some(c),
        Precision::Feature => Some(j),
        Precision::Entry => Some(c * 2 + j),
        Precision::Fixed => None,
    }
}

/// The whole covariance of the weights, from the blocks of P by plain indexing.
pub(super) fn whole_covariance(node: &node::Node) -> Vec<f64> {
    let (dim, all) = (node.dim, node.dim * node.units);
    let packed = |i: usize, j: usize| i.max(j) * (i.max(j) + 1) / 2 + i.min(j);
    let len = dim * (dim + 1) / 2;
    let p: Vec<f64> = (0..all * all)
        .map(|k| {
            let (a, b) = (k / all, k % all);
            let block = match node.covariance {
                Covariance::Child if a / dim != b / dim => return 0.0,
                Covariance::Child => a / dim,
                _ => packed(a / dim, b / dim),
            };
            node.precision[block * len + packed(a % dim, b % dim)]
        })
        .collect();
    crate::linalg::Cholesky::new(all, &p).unwrap().inverse()
}

/// The smallest tilted bound by a slow, damped fixed-point iteration.
fn slow_tilted(m: &[f64], v: &[Vec<f64>]) -> f64 {
    let s = m.len();
    let mut a = vec![1.0 / s as f64; s];
    let at = |a: &[f64]| {
        let va: Vec<f64> = v.iter().map(|r| r.iter().zip(a).map(|(v, a)| v * a).sum()).collect();
        let e: Vec<f64> = (0..s).map(|c| m[c] + 0.5 * v[c][c] - va[c]).collect();
        let total: f64 = e.iter().map(|e| e.exp()).sum();
        (e.iter().map(|e| e.exp() / total).collect::<Vec<f64>>(), total.ln() + 0.5 * a.iter().zip(&va).map(|(a, v)| a * v).sum::<f64>())
    };
    for _ in 0..3000 {
        let (p, _) = at(&a);
        for (a, p) in a.iter_mut().zip(p) {
            *a += 0.2 * (p - *a);
        }
    }
    at(&a).1
}

/// The smallest double bound by shrinking an interval.
fn slow_double(m: &[f64], v: &[Vec<f64>]) -> f64 {
    let at = |g: f64| {
        let terms = m.iter().enumerate().map(|(c, m)| {
            let xi = (v[c][c] + (m - g) * (m - g)).sqrt();
            0.5 * (m - g) + (2.0 * (xi / 2.0).cosh()).ln()
        });
        g + terms.sum::<f64>()
    };
    let (mut lo, mut hi) = (-60.0, 60.0);
    for _ in 0..300 {
        let (a, b) = (lo + (hi - lo) / 3.0, hi - (hi - lo) / 3.0);
        if at(a) < at(b) { hi = b } else { lo = a }
    }
    at(0.5 * (lo + hi))
}

/// L once more, from the definition: the rows' part by plain loops and slow solvers, prior and entropies by sampling q.
#[test]
fn the_bound_is_what_its_definition_says() {
    use crate::run::{Purpose, Stream};
    use crate::special::ln_gamma;
    use rand_distr::{Distribution, Gamma, StandardNormal};
    let x = pseudo(8 * 2, 4);
    let codes = [0u32, 1, 2, 1, 0, 2, 2, 1];
    let data = Dataset::new(Matrix::dense(8, 2, x.clone())).with_target(classes(&codes, 3));
    let (a0, b0, draws, all) = (2.0, 1.5, 20_000, 9);
    for precision in [Precision::Node, Precision::Child, Precision::Feature, Precision::Entry, Precision::Fixed] {
        for (bound, covariance) in KINDS {
            let s =
                Settings { bound, covariance, precision, a0, b0, bias_precision: Some(BIAS), prior_precision: 1.3, ..Settings::default() };
            let p = program(&s, 3, Design::identity(2, true));
            // a q with nothing special about it: a few sweeps from the start
            let state = climb(&p, &data, 3, |chain, _| chain.global.clone());
            let node = super::node(&state);
            let sigma = whole_covariance(node);
            let mut value = 0.0;
            for (row, &code) in x.chunks(2).zip(&codes) {
                let row = [row[0], row[1], 1.0];
                let m: Vec<f64> = node.mean.chunks(3).map(|w| (0..3).map(|j| w[j] * row[j]).sum()).collect();
                let entry = |c: usize, d: usize| -> f64 {
                    (0..9).map(|k| row[k / 3] * row[k % 3] * sigma[(c * 3 + k / 3) * all + d * 3 + k % 3]).sum()
                };
                let v: Vec<Vec<f64>> = (0..3).map(|c| (0..3).map(|d| entry(c, d)).collect()).collect();
                value += m[code as usize] - if bound == Bound::Tilted { slow_tilted(&m, &v) } else { slow_double(&m, &v) };
            }
            assert!((value - state.stats.value.0).abs() < 1e-9, "{precision:?} {bound:?}: {value} {}", state.stats.value.0);

            let factor = crate::linalg::Cholesky::new(all, &sigma).unwrap().lower();
            let ln_2pi = (2.0 * std::f64::consts::PI).ln();
            let sizes: Vec<usize> =
                (0..node.rates.len()).map(|g| (0..9).filter(|k| group(precision, k / 3, k % 3) == Some(g)).count()).collect();
            let mut rng = Stream::new(3, 0, Purpose::Check).rng();
            let (mut sum, mut square) = (0.0, 0.0);
            for _ in 0..draws {
                let e: Vec<f64> = (0..all).map(|_| StandardNormal.sample(&mut rng)).collect();
                let mut term: f64 = (0..all).map(|i| 0.5 * ln_2pi + factor[i * all + i].ln() + 0.5 * e[i] * e[i]).sum();
                let alphas: Vec<f64> = node
                    .rates
                    .iter()
                    .zip(&sizes)
                    .map(|(&b, &size)| {
                        let a = a0 + 0.5 * size as f64;
                        let alpha: f64 = Gamma::new(a, 1.0 / b).unwrap().sample(&mut rng);
                        let density = |a: f64, b: f64| a * b.ln() - ln_gamma(a) + (a - 1.0) * alpha.ln() - b * alpha;
                        term += density(a0, b0) - density(a, b);
                        alpha
                    })
                    .collect();
                for i in 0..all {
                    let w = node.mean[i] + (0..=i).map(|k| factor[i * all + k] * e[k]).sum::<f64>();
                    let alpha = group(precision, i / 3, i % 3).map_or(if i % 3 == 2 { BIAS } else { 1.3 }, |g| alphas[g]);
                    term += 0.5 * (alpha.ln() - ln_2pi - alpha * w * w);
                }
                sum += term;
                square += term * term;
            }
            let n = draws as f64;
            let se = ((square / n - (sum / n) * (sum / n)) / n).sqrt();
            let z = (sum / n - (state.bound - state.stats.value.0)) / se;
            assert!(se < 0.05 && z.abs() < 4.5, "{precision:?} {bound:?} {covariance:?}: z = {z}"); // 15 comparisons: false alarm below 1e-4
        }
    }
}
