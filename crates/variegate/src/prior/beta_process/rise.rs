//! Rising factorials and their logarithmic derivatives.
//!
//! The gamma functions of `Gamma(a+n)/Gamma(a)` nearly cancel where `a` is large and diverge where it is small. So the first factors
//! are multiplied out, up to where Stirling's series holds, and the series at both ends is subtracted in closed form.

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
pub(super) fn ln_rise(a: f64, n: u64) -> f64 {
    if n == 0 {
        return 0.0;
    }
    if n <= SHORT && a < LARGE {
        return product(a, n).ln();
    }
    if a < STIRLING_FROM {
        return lead(a).ln() + stirling(a + LEAD as f64, (n - LEAD) as f64);
    }
    stirling(a, n as f64)
}

/// `a (a+1) .. (a+n-1)`, its factors taken in pairs `(a+i)(a+n-1-i) = a(a+n-1) + i(n-1-i)`.
#[inline]
fn product(a: f64, n: u64) -> f64 {
    let last = (n - 1) as f64;
    let pair = a * (a + last);
    let mut all = if n % 2 == 1 { a + 0.5 * last } else { 1.0 };
    for i in 0..n / 2 {
        let i = i as f64;
        all *= pair + i * (last - i);
    }
    all
}

/// `product(a, LEAD)`.
#[inline]
fn lead(a: f64) -> f64 {
    let pair = a * (a + 11.0);
    (pair * (pair + 10.0)) * ((pair + 18.0) * (pair + 24.0)) * ((pair + 28.0) * (pair + 30.0))
}

/// `ln Gamma(a+n) - ln Gamma(a)` for `a >= STIRLING_FROM`.
#[inline]
fn stirling(a: f64, n: f64) -> f64 {
    let high = a + n;
    let ln_ratio = if n < 0.1 * a { (n / a).ln_1p() } else { (high / a).ln() };
    (a - 0.5) * ln_ratio + n * (high.ln() - 1.0) + (correction(high) - correction(a))
}

/// `ln Gamma(x) - (x - 1/2) ln x + x - ln(2 pi)/2` for `x >= STIRLING_FROM`, with one division.
#[inline]
pub(super) fn correction(x: f64) -> f64 {
    let inverse = 1.0 / x;
    let v = inverse * inverse;
    inverse * (1.0 / 12.0 - v * (1.0 / 360.0 - v * (1.0 / 1260.0 - v * (1.0 / 1680.0 - v * (1.0 / 1188.0 - v * (691.0 / 360_360.0))))))
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

/// The derivatives of `ln product(a, n)` from those of the product in `a(a+n-1)`: two divisions instead of `2n`.
#[inline]
fn product_slopes(a: f64, n: u64) -> (f64, f64) {
    if n == 0 {
        return (0.0, 0.0);
    }
    let last = (n - 1) as f64;
    let pair = a * (a + last);
    let (mut value, mut first, mut second) = (1.0, 0.0, 0.0);
    for i in 0..n / 2 {
        let i = i as f64;
        let factor = pair + i * (last - i);
        second = second * factor + 2.0 * first;
        first = first * factor + value;
        value *= factor;
    }
    let (first, second) = (first / value, second / value);
    let inner = a + (a + last);
    let (mut slope, mut bend) = (first * inner, (second - first * first) * inner * inner + 2.0 * first);
    if n % 2 == 1 {
        let middle = 2.0 / inner;
        slope += middle;
        bend -= middle * middle;
    }
    (slope, bend)
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
    let ratio = n / a;
    let ln_ratio = if ratio < 0.1 { ratio.ln_1p() } else { (1.0 + ratio).ln() };
    ln_ratio + 0.5 * ratio / high + (rest(a) - rest(high))
}

/// `psi'(y) - 1/y` for `y >= STIRLING_FROM`, to about ten digits.
#[inline]
pub(super) fn trigamma_rest(y: f64) -> f64 {
    let v = 1.0 / (y * y);
    v * (0.5 + (1.0 / 6.0 - v * (1.0 / 30.0 - v * (1.0 / 42.0))) / y)
}
