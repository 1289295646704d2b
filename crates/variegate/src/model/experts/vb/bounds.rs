//! Lower bounds of a row's expected log likelihood, and what they leave for the updates: slopes and curvatures of scores.
//!
//! A score has a mean μ and a variance; S = μ² + variance. Bounds, all exact in their own parameters:
//!
//! * log-odds (Jaakkola and Jordan): E ln σ(±s) ≥ ln σ(e) + (±μ − e)/2 with e = √S, of curvature tanh(e/2)/2e;
//! * class scores of an expert (Böhning, in contrasts): ln softmax at the means − variance/8, of curvature ¼;
//! * gate (Böhning): −ln Σ exp μ_k − ¼(1 − 1/K) Σ variance, of curvature ½;
//! * gate (Bouchard): −c − Σ_k [ln(1 + exp d_k) + (μ_k − c − d_k)/2], d_k² = (μ_k − c)² + variance. It is convex in c, whose best value is
//!   solved for afresh in each visit, so that the bound is a function of q alone.

use crate::special::branchless;

/// tanh(e/2)/2e, e ≥ 0, given exp(−e).
#[inline(always)]
pub(super) fn logistic_curvature(e: f64, small: f64) -> f64 {
    let value = (1.0 - small) / ((1.0 + small) * 2.0 * e);
    if e < 1e-4 { 0.25 } else { value }
}

/// The bound of E ln σ(sign s), and its curvature.
#[inline(always)]
pub(super) fn log_odds(sign: f64, mean: f64, second: f64) -> (f64, f64) {
    let e = second.max(0.0).sqrt();
    let small = branchless::exp(-e);
    (0.5 * (sign * mean - e) - branchless::ln_1p(small), logistic_curvature(e, small))
}

/// The bound of E ln Σ exp f_k of Bouchard, at its best c; curvatures take the place of the variances. Gives back (bound, c).
pub(super) fn bouchard(means: &[f64], variances: &mut [f64]) -> (f64, f64) {
    let half = 0.5 * means.len() as f64;
    // slope in c and its derivative
    let slope = |c: f64| {
        let (mut g, mut steep, mut sum) = (1.0 - half, 0.0, 0.0);
        for (m, v) in means.iter().zip(&*variances) {
            let square = (c - m) * (c - m) + v.max(0.0);
            let d = square.sqrt();
            let small = (-d).exp();
            let h = logistic_curvature(d, small);
            g += (c - m) * h;
            sum += h;
            steep += h;
            if d > 1e-4 {
                steep += (c - m) * (c - m) / square * (small / ((1.0 + small) * (1.0 + small)) - h);
            }
        }
        (g, steep, sum)
    };
    let mut c = means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (mut low, mut high) = (f64::NEG_INFINITY, f64::INFINITY);
    for _ in 0..100 {
        let (g, steep, sum) = slope(c);
        if g > 0.0 {
            high = high.min(c);
        } else {
            low = low.max(c);
        }
        let mut next = c - g / steep;
        if !(next > low && next < high) {
            // the step of the fixed point goes down, however far it is
            next = if low.is_finite() && high.is_finite() { 0.5 * (low + high) } else { c - g / sum };
        }
        if (next - c).abs() <= 1e-13 * (1.0 + c.abs()) {
            break;
        }
        c = next;
    }
    let mut bound = c;
    for (m, v) in means.iter().zip(variances) {
        let d = ((c - m) * (c - m) + v.max(0.0)).sqrt();
        let small = (-d).exp();
        bound += 0.5 * (m - c + d) + small.ln_1p();
        *v = logistic_curvature(d, small);
    }
    (bound, c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::special::log_sum_exp;

    /// Values computed apart from this code.
    #[test]
    fn bounds_as_computed_elsewhere() {
        let (means, variances) = ([0.5, -1.0, 2.0], [0.3, 0.2, 0.1]);
        let bohning = log_sum_exp(&means) + 0.25 * (2.0 / 3.0) * variances.iter().sum::<f64>();
        assert!((bohning - 2.341311297).abs() < 1e-9);
        let mut curvatures = variances;
        let (bound, c) = bouchard(&means, &mut curvatures);
        assert!((bound - 2.928975637).abs() < 1e-9 && (c - 1.450450218).abs() < 1e-6, "{bound} {c}");
        let (value, curvature) = log_odds(-1.0, 0.7, 0.7 * 0.7 + 0.4);
        assert!((value + 1.150501016).abs() < 1e-9);
        let e = 0.89_f64.sqrt();
        assert!((curvature - (0.5 * e).tanh() / (2.0 * e)).abs() < 1e-15);
        assert_eq!(log_odds(1.0, 0.0, 0.0), (-std::f64::consts::LN_2, 0.25));
    }

    /// c is a minimum, also for scores far apart and without variance.
    #[test]
    fn bouchard_is_at_its_best() {
        let at = |means: &[f64], variances: &[f64], c: f64| {
            c + means
                .iter()
                .zip(variances)
                .map(|(m, v)| {
                    let d = ((m - c) * (m - c) + v).sqrt();
                    0.5 * (m - c + d) + (-d).exp().ln_1p()
                })
                .sum::<f64>()
        };
        let cases: [(&[f64], &[f64]); 4] = [
            (&[0.0, 0.0], &[0.0, 0.0]),
            (&[300.0, -300.0, 5.0], &[0.0, 1.0, 9.0]),
            (&[1.0; 30], &[0.5; 30]),
            (&[-2.0, 40.0], &[100.0, 1e-9]),
        ];
        for (means, variances) in cases {
            let mut curvatures = variances.to_vec();
            let (bound, c) = bouchard(means, &mut curvatures);
            assert!((bound - at(means, variances, c)).abs() < 1e-12 * (1.0 + bound.abs()));
            assert!(bound >= log_sum_exp(means));
            for dc in [-0.1, -1e-4, 1e-4, 0.1] {
                assert!(at(means, variances, c + dc) >= bound - 1e-13 * (1.0 + bound.abs()), "{means:?} {c}");
            }
            assert!(curvatures.iter().all(|w| *w > 0.0 && *w <= 0.25));
        }
    }
}
