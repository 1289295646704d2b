//! Modified Bessel functions of the first kind, in logarithms.
//!
//! `I_nu(x) = sum_k (x/2)^(nu+2k) / (k! Gamma(nu+k+1))` for real `nu >= 0` and `x >= 0`.
//!
//! Two methods cover the quarter plane. With `s = sqrt(nu^2 + x^2)`:
//! * the power series where `s < 24` or `x^2 <= 4(nu+1)`: its terms are positive, and few there;
//! * elsewhere Debye's uniform expansion
//!   `I_nu(x) ~ exp(nu eta) / sqrt(2 pi s) * sum_k q_k(w) / s^k`, `w = nu^2/s^2`,
//!   `nu eta = s - nu asinh(nu/x)`, whose error there is below the rounding of a double for every `w` in [0, 1].
//!
//! The two parts of `nu eta` cancel near `x = 0.66 nu`, where `ln I_nu` changes sign. Written as a difference from the
//! zero of `eta` no digit is lost: see [`exponent`].
//!
//! Nothing over- or underflows: the range is limited only by `x` itself.

use super::coefficients::{ETA_ZERO, ETA_ZERO_ROOT, UNIFORM};
use super::ln_gamma;

/// Smallest `sqrt(nu^2 + x^2)` at which the truncated uniform expansion is exact to rounding.
const UNIFORM_FROM: f64 = 24.0;
const LN_2PI: f64 = 1.837_877_066_409_345_5;

/// `ln I_nu(x)` for `nu >= 0`, `x >= 0`; `-inf` at `x = 0` unless `nu = 0`. NaN outside the domain.
///
/// ```
/// let value = variegate::special::ln_bessel_i(0.5, 3.0); // I_1/2(x) = sqrt(2/(pi x)) sinh(x)
/// let closed_form = (2.0 / (std::f64::consts::PI * 3.0)).sqrt() * 3.0_f64.sinh();
/// assert!((value - closed_form.ln()).abs() < 1e-14);
/// ```
pub fn ln_bessel_i(nu: f64, x: f64) -> f64 {
    match edge(nu, x) {
        Some(value) => value,
        None if series_suffices(nu, x) => series(nu, x),
        None => {
            let s = nu.hypot(x);
            exponent(nu, x, s) + prefactor(nu, s)
        }
    }
}

/// `ln(exp(-x) I_nu(x))`: what remains of [`ln_bessel_i`] when `x` is large, without cancellation.
pub fn ln_bessel_i_scaled(nu: f64, x: f64) -> f64 {
    match edge(nu, x) {
        Some(value) => value,
        None if series_suffices(nu, x) => series(nu, x) - x,
        None => {
            let s = nu.hypot(x);
            // s - x, without cancellation
            nu * (nu / (s + x)) - nu * (nu / x).asinh() + prefactor(nu, s)
        }
    }
}

/// `I_{nu+1}(x) / I_nu(x)` in [0, 1), to full relative accuracy, for `nu >= 0`, `x >= 0`. NaN outside the domain.
///
/// For `nu = p/2 - 1` it is the mean resultant length of a von Mises-Fisher distribution on the sphere in `p` dimensions.
pub fn bessel_ratio(nu: f64, x: f64) -> f64 {
    if !(nu >= 0.0 && x >= 0.0) || nu.is_infinite() {
        return f64::NAN;
    }
    if x.is_infinite() {
        return 1.0;
    }
    // Start at an order where the expansion holds and come down by r_{k-1} = 1 / (2k/x + r_k), which damps errors.
    let steps = if nu.hypot(x) < UNIFORM_FROM { (UNIFORM_FROM - nu).ceil() } else { 0.0 };
    let order = nu + steps;
    let s = order.hypot(x);
    let (u, h) = expansion(order, s);
    let mut ratio = x * (1.0 / (order + s) - h / (u * s) / s);
    let mut k = steps;
    while k > 0.0 {
        ratio = x / (2.0 * (nu + k) + x * ratio);
        k -= 1.0;
    }
    ratio
}

/// Whether the power series is the method at `(nu, x)`.
pub(crate) fn series_suffices(nu: f64, x: f64) -> bool {
    nu.hypot(x) < UNIFORM_FROM || x * x <= 4.0 * (nu + 1.0)
}

/// `ln( Gamma(nu+1) (x/2)^-nu I_nu(x) )` by the power series; call where [`series_suffices`].
pub(crate) fn ln_bessel_series(nu: f64, x: f64) -> f64 {
    let q = 0.25 * x * x;
    let (mut sum, mut term, mut k) = (0.0, 1.0, 0.0);
    loop {
        k += 1.0;
        term *= q / (k * (nu + k));
        sum += term;
        if term <= 1e-17 * sum || term == 0.0 {
            return sum.ln_1p();
        }
    }
}

/// Values on the border of the domain and outside it.
fn edge(nu: f64, x: f64) -> Option<f64> {
    if !(nu >= 0.0 && x >= 0.0) || nu.is_infinite() || x.is_infinite() {
        Some(f64::NAN)
    } else if x == 0.0 {
        Some(if nu == 0.0 { 0.0 } else { f64::NEG_INFINITY })
    } else {
        None
    }
}

fn series(nu: f64, x: f64) -> f64 {
    let sum = ln_bessel_series(nu, x);
    if nu == 0.0 { sum } else { nu * (0.5 * x).ln() - ln_gamma(nu + 1.0) + sum }
}

/// `nu eta = s - nu asinh(nu/x)` with `s = sqrt(nu^2 + x^2)`.
///
/// With `z = x/nu`, `r = sqrt(1+z^2)` and the zero `z0` of eta, addition theorems give
/// `eta = q + asinh(q/(z z0))`, `q = (z - z0)(z + z0)/(r + r0)`: both terms have one sign, and `z - z0` is exact enough.
fn exponent(nu: f64, x: f64, s: f64) -> f64 {
    if x > 4.0 * nu {
        return s - nu * (nu / x).asinh();
    }
    let (z0, z0_low) = ETA_ZERO;
    let difference = (-nu).mul_add(z0, x) - nu * z0_low; // nu (z - z0)
    let q = difference * (x / nu + z0) / (s + nu * ETA_ZERO_ROOT);
    nu * (q + (q * nu / (x * z0)).asinh())
}

/// `ln( sum_k q_k(w)/s^k / sqrt(2 pi s) )`.
fn prefactor(nu: f64, s: f64) -> f64 {
    let (u, _) = expansion(nu, s);
    u.ln() - 0.5 * (s.ln() + LN_2PI)
}

/// The sums `U = sum_k q_k(w)/s^k` and `H = sum_k h_k(w)/s^k`, where `h_k = (k + 1/2) q_k + 2 w q_k'` belongs to the derivative:
/// `x I_nu'(x)/I_nu(x) = s - (x/s)^2 H/U`.
pub(crate) fn expansion(nu: f64, s: f64) -> (f64, f64) {
    let w = (nu / s) * (nu / s);
    let (mut u, mut h, mut power) = (1.0, 0.5, 1.0);
    for (k, row) in UNIFORM.iter().enumerate().skip(1) {
        power /= s;
        let (mut value, mut slope) = (0.0, 0.0);
        for &c in row.iter().rev() {
            slope = slope * w + value;
            value = value * w + c;
        }
        u += value * power;
        let change = ((k as f64 + 0.5) * value + 2.0 * w * slope) * power;
        h += change;
        // the terms fall until far beyond this size; a small one by chance is followed by smaller ones
        if change.abs() < 1e-18 && power < 1e-8 {
            break;
        }
    }
    (u, h)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borders_of_the_domain() {
        assert_eq!(ln_bessel_i(0.0, 0.0), 0.0);
        assert_eq!(ln_bessel_i(0.5, 0.0), f64::NEG_INFINITY);
        assert_eq!(bessel_ratio(3.0, 0.0), 0.0);
        assert_eq!(bessel_ratio(3.0, f64::INFINITY), 1.0);
        for (nu, x) in [(-1.0, 1.0), (1.0, -1.0), (f64::NAN, 1.0), (1.0, f64::NAN), (f64::INFINITY, 1.0)] {
            assert!(ln_bessel_i(nu, x).is_nan());
            assert!(bessel_ratio(nu, x).is_nan());
        }
    }

    #[test]
    fn finite_at_the_extremes() {
        for nu in [0.0, 0.5, 1.0, 30.0, 5e3, 1e8] {
            for x in [f64::MIN_POSITIVE / 8.0, 1e-300, 1e-5, 1.0, 1e6, 1e12, 1e300] {
                assert!(ln_bessel_i(nu, x).is_finite(), "ln I at ({nu}, {x})");
                let ratio = bessel_ratio(nu, x);
                assert!((0.0..=1.0).contains(&ratio), "ratio at ({nu}, {x}): {ratio}");
            }
        }
    }

    /// `I_{nu-1} - I_{nu+1} = (2 nu/x) I_nu` ties the ratio and the logarithm across both methods.
    #[test]
    fn ratio_agrees_with_the_logarithms() {
        for nu in [0.0, 0.5, 7.5, 23.0, 24.0, 100.0, 1000.5] {
            for x in [0.3, 3.0, 23.0, 25.0, 80.0, 2000.0] {
                let by_logs = (ln_bessel_i(nu + 1.0, x) - ln_bessel_i(nu, x)).exp();
                let tolerance = 4e-15 * (1.0 + ln_bessel_i(nu, x).abs());
                assert!((bessel_ratio(nu, x) / by_logs - 1.0).abs() < tolerance, "({nu}, {x})");
            }
        }
    }
}
