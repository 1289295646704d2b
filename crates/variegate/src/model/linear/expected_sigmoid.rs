//! Moments of σ(f) for normal f.
//!
//! Up to a standard deviation of 2.5 a Gauss-Hermite rule of 20 points (error below 5e-5; it grows quickly beyond). Wider normals see
//! σ as a staircase: σ is nearly a mixture of normal distribution functions' steps, Σ_j u_j 1[f > l_j] with steps 1.5 apart and
//! u_j ∝ σ'(l_j), whose mean is Σ_j u_j Φ((F − l_j)/sd) (error below 3e-5). So is σ², with u_j ∝ 2σ(l_j)σ'(l_j).

use std::sync::LazyLock;

use crate::special::{norm_cdf, sigmoid};

/// Widest normal of the Gauss-Hermite rule.
const WIDEST: f64 = 2.5;
/// Points of either rule.
const POINTS: usize = 20;

/// Positive points and weights of the Gauss-Hermite rule for a standard normal (even: the negative points have the same weights).
static HERMITE: LazyLock<[(f64, f64); POINTS / 2]> = LazyLock::new(hermite);

/// Steps l_j and their heights u_j.
static STEPS: LazyLock<[(f64, f64); POINTS]> = LazyLock::new(|| {
    let steps: [f64; POINTS] = std::array::from_fn(|j| 1.5 * (j as f64 + 1.0 - 10.5));
    let total: f64 = steps.iter().map(|&l| sigmoid(l) * sigmoid(-l)).sum();
    steps.map(|l| (l, sigmoid(l) * sigmoid(-l) / total))
});

/// Heights of the same steps for σ².
static SQUARE_STEPS: LazyLock<[(f64, f64); POINTS]> = LazyLock::new(|| {
    let total: f64 = STEPS.iter().map(|(l, u)| u * sigmoid(*l)).sum();
    STEPS.map(|(l, u)| (l, u * sigmoid(l) / total))
});

/// The standard deviation of σ(f) for f ~ N(mean, variance).
pub(crate) fn sigmoid_deviation(mean: f64, variance: f64) -> f64 {
    let (sd, first) = (variance.max(0.0).sqrt(), expected_sigmoid(mean, variance));
    let square = |f: f64| sigmoid(f) * sigmoid(f);
    let second: f64 = if sd <= WIDEST {
        HERMITE.iter().map(|&(x, w)| w * (square(mean - sd * x) + square(mean + sd * x))).sum()
    } else {
        SQUARE_STEPS.iter().map(|&(l, u)| u * norm_cdf((mean - l) / sd)).sum()
    };
    (second - first * first).max(0.0).sqrt()
}

/// E σ(f) for f ~ N(mean, variance).
pub(crate) fn expected_sigmoid(mean: f64, variance: f64) -> f64 {
    let sd = variance.max(0.0).sqrt();
    if sd <= WIDEST {
        HERMITE.iter().map(|&(x, w)| w * (sigmoid(mean - sd * x) + sigmoid(mean + sd * x))).sum()
    } else {
        STEPS.iter().map(|&(l, u)| u * norm_cdf((mean - l) / sd)).sum()
    }
}

/// Orthonormal Hermite polynomial of degree POINTS at x (weight: the standard normal density), and that of one degree less.
fn polynomial(x: f64) -> (f64, f64) {
    let (mut last, mut now) = (0.0, 1.0);
    for n in 0..POINTS {
        // √(n+1) h_{n+1} = x h_n − √n h_{n−1}
        (last, now) = (now, (x * now - (n as f64).sqrt() * last) / (n as f64 + 1.0).sqrt());
    }
    (now, last)
}

/// The positive roots of the polynomial: found between the points of a fine grid by bisection, then polished by Newton's method.
fn hermite() -> [(f64, f64); POINTS / 2] {
    let mut found = [(0.0, 0.0); POINTS / 2];
    let (mut at, step, mut x) = (0, 0.05, 0.0);
    while at < found.len() {
        let (mut low, mut high) = (x, x + step);
        if polynomial(low).0 * polynomial(high).0 < 0.0 {
            for _ in 0..60 {
                let middle = 0.5 * (low + high);
                if polynomial(low).0 * polynomial(middle).0 <= 0.0 { high = middle } else { low = middle }
            }
            let root = 0.5 * (low + high);
            // the weight is 1/(n h_{n−1}²)
            let before = polynomial(root).1;
            found[at] = (root, 1.0 / (POINTS as f64 * before * before));
            at += 1;
        }
        x += step;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::quadrature::integrate;

    fn exact(mean: f64, sd: f64) -> f64 {
        // in pieces, so that neither the normal nor the sigmoid is missed
        let density = |z: f64| sigmoid(mean + sd * z) * (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt();
        (-24..24).map(|i| integrate(&density, 0.5 * i as f64, 0.5 * (i + 1) as f64)).sum()
    }

    /// The rule integrates polynomials of degree up to 39 exactly.
    #[test]
    fn hermite_rule_has_the_moments_of_a_normal() {
        let moment = |p: i32| HERMITE.iter().map(|(x, w)| 2.0 * w * x.powi(p)).sum::<f64>();
        let mut want = 1.0;
        for p in 0..20 {
            assert!((moment(2 * p) / want - 1.0).abs() < 1e-11, "moment {}: {} {want}", 2 * p, moment(2 * p));
            want *= (2 * p + 1) as f64;
        }
    }

    /// Errors of at most 5e-5 up to a standard deviation of 2.5 and 3e-5 beyond, and not much less: the rules are the stated ones.
    #[test]
    fn errors_are_those_stated() {
        let worst = |sds: &[f64]| {
            let mut worst = 0.0f64;
            for &sd in sds {
                for i in -120..=120 {
                    let mean = 0.25 * i as f64;
                    worst = worst.max((expected_sigmoid(mean, sd * sd) - exact(mean, sd)).abs());
                }
            }
            worst
        };
        let narrow = worst(&[0.0, 0.1, 0.7, 1.5, 2.2, 2.5]);
        let wide = worst(&[2.500001, 3.0, 4.0, 7.0, 10.0, 40.0]);
        assert!(narrow < 5e-5 && narrow > 5e-6, "{narrow}");
        assert!(wide < 3e-5 && wide > 1e-7, "{wide}");
    }

    /// Variances to 4e-4: what the steps of σ² miss is more than those of σ do.
    #[test]
    fn deviations_are_integrals() {
        for sd in [0.1f64, 0.7, 2.4, 2.6, 5.0, 20.0] {
            for i in -20..=20 {
                let mean = 0.5 * i as f64;
                let square = |z: f64| sigmoid(mean + sd * z).powi(2) * (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt();
                let second: f64 = (-24..24).map(|i| integrate(&square, 0.5 * i as f64, 0.5 * (i + 1) as f64)).sum();
                let want = (second - exact(mean, sd).powi(2)).sqrt();
                let found = sigmoid_deviation(mean, sd * sd);
                assert!((found * found - want * want).abs() < 4e-4, "{mean} {sd}: {found} {want}");
            }
        }
        assert!(sigmoid_deviation(1.0, 0.0) < 1e-7);
    }

    #[test]
    fn limits() {
        assert_eq!(expected_sigmoid(0.0, 0.0), 0.5);
        assert!((expected_sigmoid(1.3, 0.0) - sigmoid(1.3)).abs() < 1e-14);
        assert!((expected_sigmoid(1.3, -1e-17) - sigmoid(1.3)).abs() < 1e-14);
        for variance in [1.0, 100.0] {
            assert!((expected_sigmoid(2.0, variance) + expected_sigmoid(-2.0, variance) - 1.0).abs() < 1e-14);
            assert_eq!(expected_sigmoid(1e4, variance), 1.0);
        }
    }
}
