//! Quadratic bounds of the logistic likelihood, number by number.
//!
//! With f ~ N(F, s²), the label y ∈ {0, 1} and a point of tangency (ξ or u), both bounds have the form
//!
//! ```text
//! E ln σ((2y − 1) f) ≥ κ F − λ (F² + s²)/2 + e
//! Jaakkola and Jordan: λ = tanh(ξ/2)/(2ξ),  κ = y − ½,             e = λξ²/2 − ln 2cosh(ξ/2);   tight at ξ² = F² + s²
//! Böhning:             λ = ¼,               κ = y − σ(u) + u/4,    e = uσ(u) − u²/8 − ln(1 + eᵘ);  tight at u = F
//! ```
//!
//! The functions take no branches and call nothing, so that loops over them become vector instructions inside
//! [`crate::linalg::wide`].

use serde::{Deserialize, Serialize};

use crate::special::branchless::{exp, ln_1p};

/// Which bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Bound {
    /// Of Jaakkola and Jordan, the same as Polya-Gamma variables: the tighter one.
    JaakkolaJordan,
    /// Of Böhning: the same curvature for every row.
    Bohning,
}

/// A bound at its best point: curvature λ, response κ and offset e.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tangent {
    /// λ.
    pub(crate) curvature: f64,
    /// κ.
    pub(crate) response: f64,
    /// e.
    pub(crate) offset: f64,
}

/// Where ξ is smaller, tanh(ξ/2)/(2ξ) is its series: what is left out is below 1e-20.
const SMALL: f64 = 1e-3;

/// λ(ξ) = tanh(ξ/2)/(2ξ) for ξ ≥ 0, given e^−ξ.
#[inline(always)]
pub(crate) fn curvature_given(xi: f64, e: f64) -> f64 {
    let square = xi * xi;
    let series = 0.25 - square * (1.0 / 48.0) + square * square * (1.0 / 480.0);
    let ratio = (1.0 - e) / ((1.0 + e) * 2.0 * xi);
    if xi < SMALL { series } else { ratio }
}

/// (κ, λ, e) of Jaakkola and Jordan at ξ = √(E f²), given E f².
#[inline(always)]
pub(crate) fn jaakkola_jordan(y: f64, second: f64) -> Tangent {
    let xi = second.max(0.0).sqrt();
    let e = exp(-xi);
    let curvature = curvature_given(xi, e);
    Tangent { curvature, response: y - 0.5, offset: 0.5 * curvature * xi * xi - (0.5 * xi + ln_1p(e)) }
}

/// ln 2cosh(ξ/2) at ξ = √(E f²), given E f².
#[inline(always)]
pub(crate) fn ln_2cosh_half(second: f64) -> f64 {
    let xi = second.max(0.0).sqrt();
    ln_2cosh_half_given(xi, exp(-xi))
}

/// ln 2cosh(ξ/2) for ξ ≥ 0, given e^−ξ.
#[inline(always)]
pub(crate) fn ln_2cosh_half_given(xi: f64, e: f64) -> f64 {
    0.5 * xi + ln_1p(e)
}

/// (κ, λ, e) of Böhning at u = F.
#[inline(always)]
pub(crate) fn bohning(y: f64, mean: f64) -> Tangent {
    let e = exp(-mean.abs());
    let sigma = if mean < 0.0 { e } else { 1.0 } / (1.0 + e);
    let ln_1p_exp = mean.max(0.0) + ln_1p(e);
    Tangent { curvature: 0.25, response: y - sigma + 0.25 * mean, offset: mean * sigma - 0.125 * mean * mean - ln_1p_exp }
}

/// Böhning's bound of E ln p(y) at u = F: yF − ln(1 + e^F) − s²/8.
#[inline(always)]
pub(crate) fn bohning_value(y: f64, mean: f64, variance: f64) -> f64 {
    y * mean - (mean.max(0.0) + ln_1p(exp(-mean.abs()))) - 0.125 * variance
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::special::ln_sigmoid;

    /// Both are below ln σ(±f) everywhere and touch it at their point.
    #[test]
    fn bounds_hold_and_touch() {
        for at in [0.0, 1e-5, 9.99e-4, 1.01e-3, 0.3, 2.0, -2.0, 9.0, -40.0, 800.0] {
            for y in [0.0, 1.0] {
                let sign = 2.0 * y - 1.0;
                for (tangent, points) in [(jaakkola_jordan(y, at * at), vec![at, -at]), (bohning(y, at), vec![at])] {
                    let value = |f: f64| tangent.response * f - 0.5 * tangent.curvature * f * f + tangent.offset;
                    for p in points {
                        assert!((value(p) - ln_sigmoid(sign * p)).abs() < 1e-12 * (1.0 + p.abs()), "{at} {p}");
                    }
                    for f in [-50.0, -3.0, -0.1, 0.0, 0.7, 4.0, 60.0] {
                        assert!(value(f) <= ln_sigmoid(sign * f) + 1e-12 * (1.0 + f * f), "{at} {f}");
                    }
                }
                let best = (y - 0.5) * at - ln_2cosh_half(at * at);
                assert!((best - ln_sigmoid(sign * at)).abs() < 1e-12 * (1.0 + at.abs()));
                assert!((bohning_value(y, at, 2.0) + 0.25 - ln_sigmoid(sign * at)).abs() < 1e-12 * (1.0 + at.abs()));
            }
        }
    }

    /// tanh(ξ/2)/(2ξ) with all its digits, on both sides of where the series ends.
    #[test]
    fn curvature_keeps_its_digits() {
        for xi in [1e-9f64, 1e-4, 9.999e-4, 1.0001e-3, 0.01, 1.0, 30.0] {
            let exact = (0.5 * xi).tanh() / (2.0 * xi);
            assert!((jaakkola_jordan(1.0, xi * xi).curvature / exact - 1.0).abs() < 1e-12, "{xi}");
        }
        assert_eq!(jaakkola_jordan(1.0, 0.0).curvature, 0.25);
        assert_eq!(jaakkola_jordan(1.0, -1e-18).curvature, 0.25);
    }
}
