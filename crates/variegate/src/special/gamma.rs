//! The log-gamma family on the positive half line.
//!
//! `ln_gamma` is the C library's algorithm as carried by `libm` (the same bits on every platform), which keeps its relative
//! accuracy at the zeros 1 and 2. Digamma and trigamma are shifted upwards by their recurrences to where the asymptotic
//! series holds; digamma is summed as a Taylor series about its zero 1.4616..., so it keeps relative accuracy there too.
//! All return NaN below zero (this library only meets positive arguments), and their limits at 0 and at infinity.

use super::coefficients::{DIGAMMA_TAYLOR, DIGAMMA_ZERO};

/// Arguments from here on use the asymptotic series with the seven terms below (error under 1e-17).
const ASYMPTOTIC_FROM: f64 = 12.0;
const HALF_LN_2PI: f64 = 0.918_938_533_204_672_7;

/// `ln Gamma(x)`, `x > 0`; `+inf` at 0.
pub fn ln_gamma(x: f64) -> f64 {
    if x < 0.0 { f64::NAN } else { libm::lgamma(x) }
}

/// `psi(x) = d ln Gamma(x) / dx`, `x > 0`; `-inf` at 0.
pub fn digamma(x: f64) -> f64 {
    if x.is_nan() || x <= 0.0 {
        return if x == 0.0 { f64::NEG_INFINITY } else { f64::NAN };
    }
    let d = (x - DIGAMMA_ZERO.0) - DIGAMMA_ZERO.1;
    if d.abs() < 0.25 {
        return d * DIGAMMA_TAYLOR.iter().rev().fold(0.0, |sum, c| sum * d + c);
    }
    let (mut y, mut below) = (x, 0.0);
    while y < ASYMPTOTIC_FROM {
        below += 1.0 / y;
        y += 1.0;
    }
    let v = 1.0 / (y * y);
    // sum of B_2k / (2k y^2k)
    let tail = v
        * (1.0 / 12.0
            - v * (1.0 / 120.0 - v * (1.0 / 252.0 - v * (1.0 / 240.0 - v * (1.0 / 132.0 - v * (691.0 / 32760.0 - v * (1.0 / 12.0)))))));
    y.ln() - 0.5 / y - tail - below
}

/// `psi'(x)`, `x > 0`; `+inf` at 0.
pub fn trigamma(x: f64) -> f64 {
    if x.is_nan() || x <= 0.0 {
        return if x == 0.0 { f64::INFINITY } else { f64::NAN };
    }
    let (mut y, mut below) = (x, 0.0);
    while y < ASYMPTOTIC_FROM {
        below += 1.0 / (y * y);
        y += 1.0;
    }
    let v = 1.0 / (y * y);
    // sum of B_2k / y^(2k+1)
    let tail = v
        * (1.0 / 6.0 - v * (1.0 / 30.0 - v * (1.0 / 42.0 - v * (1.0 / 30.0 - v * (5.0 / 66.0 - v * (691.0 / 2730.0 - v * (7.0 / 6.0)))))));
    (1.0 + 0.5 / y + tail) / y + below
}

/// `ln B(a, b) = ln( Gamma(a) Gamma(b) / Gamma(a+b) )`, `a, b > 0`.
///
/// For large arguments the three log-gammas nearly cancel; there Stirling's leading parts are combined in closed form and only
/// their small corrections are subtracted.
pub fn ln_beta(a: f64, b: f64) -> f64 {
    if !(a >= 0.0 && b >= 0.0) {
        return f64::NAN;
    }
    let (a, b) = if a <= b { (a, b) } else { (b, a) };
    if a == 0.0 {
        return f64::INFINITY;
    }
    if b.is_infinite() {
        return f64::NEG_INFINITY;
    }
    if b < ASYMPTOTIC_FROM {
        return ln_gamma(a) + (ln_gamma(b) - ln_gamma(a + b));
    }
    let part = 1.0 / (1.0 + b / a); // a/(a+b)
    // (b - 1/2) ln(b/(a+b)), the larger argument's share
    let larger = (b - 0.5) * (-part).ln_1p();
    if a < ASYMPTOTIC_FROM {
        let corrections = stirling_correction(b) - stirling_correction(a + b);
        return ln_gamma(a) + corrections + a * (1.0 - (a + b).ln()) + larger;
    }
    let corrections = stirling_correction(a) + (stirling_correction(b) - stirling_correction(a + b));
    HALF_LN_2PI - 0.5 * b.ln() + corrections + (a - 0.5) * part.ln() + b * (-part).ln_1p()
}

/// `ln Gamma(x) - (x - 1/2) ln x + x - ln(2 pi)/2` for `x >= 12`.
pub(crate) fn stirling_correction(x: f64) -> f64 {
    let v = 1.0 / (x * x);
    let series = 1.0 / 12.0
        - v * (1.0 / 360.0 - v * (1.0 / 1260.0 - v * (1.0 / 1680.0 - v * (1.0 / 1188.0 - v * (691.0 / 360_360.0 - v * (1.0 / 156.0))))));
    series / x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borders_of_the_domain() {
        assert_eq!(ln_gamma(0.0), f64::INFINITY);
        assert_eq!(ln_gamma(1.0), 0.0);
        assert_eq!(ln_gamma(2.0), 0.0);
        assert_eq!(digamma(0.0), f64::NEG_INFINITY);
        assert_eq!(trigamma(0.0), f64::INFINITY);
        assert_eq!(digamma(f64::INFINITY), f64::INFINITY);
        assert_eq!(trigamma(f64::INFINITY), 0.0);
        assert_eq!(ln_beta(0.0, 1.0), f64::INFINITY);
        assert_eq!(ln_beta(2.0, f64::INFINITY), f64::NEG_INFINITY);
        for f in [ln_gamma, digamma, trigamma] {
            assert!(f(-0.5).is_nan() && f(f64::NAN).is_nan());
        }
        assert!(ln_beta(-1.0, 1.0).is_nan() && ln_beta(1.0, f64::NAN).is_nan());
    }

    #[test]
    fn beta_is_symmetric_and_continuous_across_its_methods() {
        for (a, b) in [(0.3, 11.999_999_999), (11.999_999_999, 11.999_999_999), (5.0, 200.0)] {
            assert_eq!(ln_beta(a, b), ln_beta(b, a));
            let (a2, b2) = (a * (1.0 + 1e-9), b * (1.0 + 1e-9));
            assert!((ln_beta(a, b) - ln_beta(a2, b2)).abs() < 1e-7);
        }
    }
}
