//! Rising factorials and their logarithmic derivatives.
//!
//! The gamma functions of `Gamma(a+n)/Gamma(a)` nearly cancel where `a` is large and diverge where it is small. So the first factors
//! are multiplied out, up to where Stirling's series holds, and the series at both ends is subtracted in closed form.

use crate::special::stirling_correction;

/// Stirling's series is taken from here on.
pub(super) const STIRLING_FROM: f64 = 12.0;
/// The factors that lead up to it.
pub(super) const LEAD: u64 = 12;
/// So few factors are multiplied out.
pub(super) const SHORT: u64 = 16;
/// Beyond this the product of [`SHORT`] factors might overflow.
const LARGE: f64 = 1e15;

/// `ln( a (a+1) .. (a+n-1) )`, `a >= 0`: 0 for `n = 0`, else `-inf` at `a = 0`.
#[inline]
pub fn ln_rise(a: f64, n: u64) -> f64 {
    if n == 0 {
        return 0.0;
    }
    if n <= SHORT && a < LARGE {
        return product(a, n).ln();
    }
    if a < STIRLING_FROM {
        return product(a, LEAD).ln() + stirling(a + LEAD as f64, (n - LEAD) as f64);
    }
    stirling(a, n as f64)
}

/// `a (a+1) .. (a+n-1)`.
#[inline]
fn product(a: f64, n: u64) -> f64 {
    (1..n).fold(a, |sum, t| sum * (a + t as f64))
}

/// `ln Gamma(a+n) - ln Gamma(a)` for `a >= STIRLING_FROM`.
#[inline]
fn stirling(a: f64, n: f64) -> f64 {
    let high = a + n;
    (a - 0.5) * (n / a).ln_1p() + n * (high.ln() - 1.0) + (stirling_correction(high) - stirling_correction(a))
}

/// First and second derivative of `ln_rise` in `a > 0`.
#[inline]
pub(super) fn slopes(a: f64, n: u64) -> (f64, f64) {
    if n <= SHORT && a < LARGE {
        return product_slopes(a, n);
    }
    if a < STIRLING_FROM {
        let (first, second) = product_slopes(a, LEAD);
        let (more, more_second) = stirling_slopes(a + LEAD as f64, (n - LEAD) as f64);
        return (first + more, second + more_second);
    }
    stirling_slopes(a, n as f64)
}

/// The derivatives of `ln product(a, n)` from those of the product: one division instead of `2n`.
#[inline]
fn product_slopes(a: f64, n: u64) -> (f64, f64) {
    let (mut value, mut first, mut second) = (1.0, 0.0, 0.0);
    for t in 0..n {
        let factor = a + t as f64;
        second = second * factor + 2.0 * first;
        first = first * factor + value;
        value *= factor;
    }
    let (first, second) = (first / value, second / value);
    (first, second - first * first)
}

#[inline]
fn stirling_slopes(a: f64, n: f64) -> (f64, f64) {
    let high = a + n;
    (digamma_rise(a, n), -n / (a * high) + (trigamma_rest(high) - trigamma_rest(a)))
}

/// `psi(a+n) - psi(a)` for `a >= STIRLING_FROM`, keeping relative accuracy for `n` far below `a`.
#[inline]
pub(super) fn digamma_rise(a: f64, n: f64) -> f64 {
    let high = a + n;
    let rest = |y: f64| {
        let v = 1.0 / (y * y);
        v * (1.0 / 12.0 - v * (1.0 / 120.0 - v * (1.0 / 252.0 - v * (1.0 / 240.0 - v * (1.0 / 132.0 - v * (691.0 / 32760.0))))))
    };
    (n / a).ln_1p() + 0.5 * (n / high) / a + (rest(a) - rest(high))
}

/// `psi'(y) - 1/y` for `y >= STIRLING_FROM`, to about ten digits.
#[inline]
pub(super) fn trigamma_rest(y: f64) -> f64 {
    let v = 1.0 / (y * y);
    v * (0.5 + (1.0 / 6.0 - v * (1.0 / 30.0 - v * (1.0 / 42.0))) / y)
}
