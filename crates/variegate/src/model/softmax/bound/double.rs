//! The `double` bound: Σ_c exp z_c ≤ e^γ Π_c (1 + exp(z_c − γ)), and each factor by a quadratic (Bouchard 2007).
//!
//! Φ = γ + Σ_c [ (m_c − γ)/2 + ln 2cosh(ξ_c/2) ], ξ_c² = v_c + (m_c − γ)², with γ at its minimum. The profile in γ is strictly convex
//! for two children or more, and its minimum lies in a bracket known beforehand. Curvature 2λ(ξ_c), slope ½ + 2λ(ξ_c)(m_c − γ).

/// Below this ξ a series takes the place of formulas that cancel.
pub(super) const SMALL: f64 = 1e-2;

/// λ(ξ) = tanh(ξ/2)/(4ξ), ξ ≥ 0, and λ'(ξ)/ξ, which is negative and −1/48 at 0.
pub(crate) fn lambda(xi: f64) -> (f64, f64) {
    if xi < SMALL {
        let s = xi * xi;
        return (1.0 / 8.0 - s / 96.0 + s * s / 960.0, -1.0 / 48.0 + s / 240.0);
    }
    // all from e^{−ξ}, which cannot overflow: tanh(ξ/2) = (1−e)/(1+e), 1/cosh²(ξ/2) = 4e/(1+e)²
    let e = (-xi).exp();
    let scale = 1.0 / (1.0 + e);
    let tanh = (1.0 - e) * scale;
    (tanh / (4.0 * xi), (2.0 * xi * e * scale * scale - tanh) / (4.0 * xi * xi * xi))
}

/// The search ends where the derivative in γ, a sum over the children, is this near to 0 for each.
pub(super) const FLAT: f64 = 1e-13;
/// The search ends with a step shorter than this for γ of order 1.
pub(super) const STEP: f64 = 1e-10;
/// It also ends with a Newton step shorter than this: the third derivative is never larger than the second, so that what is left of the
/// way is at most half the square.
pub(super) const SETTLED: f64 = 1e-6;
/// Most steps of a search.
pub(super) const MOST_STEPS: usize = 200;

/// The minimum lies above the largest mean by at most √(scale · largest variance) or by this much, whichever is more.
pub(super) fn bracket(children: usize) -> (f64, f64) {
    let s = children as f64;
    (0.5 * (s - 2.0), 2.0 * (1.0 - 2.0 / s).sqrt().atanh())
}

/// γ at the minimum of the bound: Newton, with bisection whenever a step leaves the bracket or does not halve.
pub(crate) fn gamma(m: &[f64], v: &[f64]) -> f64 {
    let s = m.len() as f64;
    let (mut lo, top, widest) =
        m.iter().zip(v).fold((f64::INFINITY, f64::NEG_INFINITY, 0.0f64), |(lo, hi, w), (&m, &v)| (lo.min(m), hi.max(m), w.max(v)));
    let (scale, least) = bracket(m.len());
    let mut hi = top + (scale * widest).sqrt().max(least);
    let mut gamma = top;
    let mut last = hi - lo;
    for _ in 0..MOST_STEPS {
        let (mut first, mut second) = (1.0 - 0.5 * s, 0.0);
        for (&m, &v) in m.iter().zip(v) {
            let away = gamma - m;
            let (l, slope) = lambda((away * away + v).sqrt());
            first += 2.0 * l * away;
            second += 2.0 * (l + slope * away * away);
        }
        if first.is_nan() || first.abs() <= FLAT * s {
            break; // flat here: any γ gives a bound, and this one is as good as the best
        }
        if first > 0.0 {
            hi = gamma;
        } else {
            lo = gamma;
        }
        let mut next = gamma - first / second;
        let newton = next >= lo && next <= hi && (next - gamma).abs() <= 0.5 * last;
        if !newton {
            next = 0.5 * (lo + hi);
        }
        last = (next - gamma).abs();
        gamma = next;
        if last <= STEP * (1.0 + gamma.abs()) || (newton && last <= SETTLED) {
            break;
        }
    }
    gamma
}

/// Φ with slope and curvature.
pub(crate) fn row(m: &[f64], v: &[f64], slope: &mut [f64], curvature: &mut [f64]) -> f64 {
    let gamma = gamma(m, v);
    let mut phi = gamma;
    for (((&m, &v), s), k) in m.iter().zip(v).zip(slope).zip(curvature) {
        let away = m - gamma;
        let xi = (away * away + v).sqrt();
        let l = 2.0 * lambda(xi).0;
        phi += 0.5 * (away + xi) + (-xi).exp().ln_1p();
        *s = 0.5 + l * away;
        *k = l;
    }
    phi
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn phi(m: &[f64], v: &[f64]) -> f64 {
        row(m, v, &mut vec![0.0; m.len()], &mut vec![0.0; m.len()])
    }

    fn phi_at(gamma: f64, m: &[f64], v: &[f64]) -> f64 {
        gamma
            + m.iter()
                .zip(v)
                .map(|(m, v)| {
                    let xi = (m - gamma).hypot(v.sqrt());
                    0.5 * (m - gamma + xi) + (-xi).exp().ln_1p()
                })
                .sum::<f64>()
    }

    #[test]
    fn reference_values() {
        let (m, v) = ([0.3, -1.2, 2.0], [0.5, 1.5, 0.8]);
        assert!((phi(&m, &v) - 3.0667112572).abs() < 1e-10);
        let g = gamma(&m, &v);
        assert!((g - 1.3819104094).abs() < 1e-9);
        for (c, xi) in [1.2924898971, 2.8576671189, 1.0872142116].iter().enumerate() {
            assert!(((m[c] - g).hypot(v[c].sqrt()) - xi).abs() < 1e-9);
        }
        assert!((phi(&[0.7, -0.4], &[0.6, 1.1]) - 1.8110132307).abs() < 1e-10);
        // at equal logits without variance the excess is (S−1) ln(S/(S−1))
        for s in [2usize, 3, 10, 1000] {
            let excess = phi(&vec![0.0; s], &vec![0.0; s]) - (s as f64).ln();
            assert!((excess - (s - 1) as f64 * (s as f64 / (s - 1) as f64).ln()).abs() < 1e-9);
        }
    }

    #[test]
    fn lambda_joins_its_series() {
        let (below, above) = (lambda(1e-2 - 1e-15), lambda(1e-2));
        for (a, b) in [(below.0, above.0), (below.1, above.1)] {
            assert!((a - b).abs() < 1e-8 * a.abs(), "{a} {b}");
        }
        let h = 1e-5;
        for xi in [1e-3, 0.3, 2.0, 30.0] {
            let numeric = (lambda(xi + h).0 - lambda(xi - h).0) / (2.0 * h) / xi;
            assert!((lambda(xi).0 - (0.5 * xi).tanh() / (4.0 * xi)).abs() < 1e-13);
            assert!((lambda(xi).1 - numeric).abs() < 1e-6 * (1e-3 + numeric.abs()), "{xi}");
        }
        assert!(lambda(2000.0).1.is_finite());
    }

    proptest! {
        #[test]
        fn gamma_is_the_minimum_and_slopes_sum_to_one(
            logits in prop::collection::vec((-1.0..1.0f64, 0.0..1.0f64), 2..12),
            spread in prop_oneof![Just(0.0), Just(1.0), Just(30.0), Just(900.0)],
        ) {
            let m: Vec<f64> = logits.iter().map(|l| l.0 * spread).collect();
            let v: Vec<f64> = logits.iter().map(|l| l.1 * spread).collect();
            let (mut slope, mut curvature) = (vec![0.0; m.len()], vec![0.0; m.len()]);
            let best = row(&m, &v, &mut slope, &mut curvature);
            prop_assert!((slope.iter().sum::<f64>() - 1.0).abs() < 1e-8);
            prop_assert!(curvature.iter().all(|k| *k >= 0.0 && *k <= 0.25));
            let g = gamma(&m, &v);
            for step in [-3.0, -0.1, -1e-3, 1e-3, 0.1, 3.0] {
                prop_assert!(phi_at(g + step, &m, &v) >= best - 1e-11 * (1.0 + best.abs()));
            }
            prop_assert!(best >= crate::special::log_sum_exp(&m));
            // slopes are those of Φ
            for c in 0..m.len() {
                let h = 1e-5 * (1.0 + spread);
                let (mut up, mut down) = (m.clone(), m.clone());
                up[c] += h;
                down[c] -= h;
                let numeric = (phi(&up, &v) - phi(&down, &v)) / (2.0 * h);
                prop_assert!((numeric - slope[c]).abs() < 1e-4, "{} {}", numeric, slope[c]);
            }
        }
    }
}
