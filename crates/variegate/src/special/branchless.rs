//! Elementary functions without branches, calls or tables, for loops over many numbers.
//!
//! Inside [`crate::linalg::wide`] the compiler turns a loop over them into vector instructions. Every step is a single rounding of ordinary
//! arithmetic (no fused multiply-add), so a value has the same bits alone, in a vector of any width, and on any machine.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_PI_2, LOG2_E};

const EXPONENT: u32 = 52;
const BIAS: u64 = 1023;
/// Bits of 1.
const ONE: u64 = BIAS << EXPONENT;
/// Bits of 2^52: with an integer below 2^52 in its low bits, the double is the sum of the two.
const INTEGER: u64 = (BIAS + 52) << EXPONENT;
/// `ln 2` in two parts; the first has 42 bits, so that its product with an exponent is exact.
const LN_2: (f64, f64) = (0.6931471805598903, 5.497923018708371e-14);

/// `c_0 + x (c_1 + x (c_2 + ...))`.
#[inline(always)]
fn polynomial<const N: usize>(c: [f64; N], x: f64) -> f64 {
    let mut sum = c[N - 1];
    for i in (0..N - 1).rev() {
        sum = c[i] + x * sum;
    }
    sum
}

/// `2/3, 2/5, 2/7, ...`
const fn atanh_terms<const N: usize>() -> [f64; N] {
    let mut terms = [0.0; N];
    let mut i = 0;
    while i < N {
        terms[i] = 2.0 / (2 * i + 3) as f64;
        i += 1;
    }
    terms
}

/// `sign/first!, -sign/(first + 2)!, ...`; the factorials up to 18 are exact.
const fn circle_terms<const N: usize>(first: usize, sign: f64) -> [f64; N] {
    let mut terms = [0.0; N];
    let (mut n, mut factorial, mut i) = (1, sign, 0);
    while i < N {
        while n < first + 2 * i {
            n += 1;
            factorial *= n as f64;
        }
        terms[i] = 1.0 / factorial;
        factorial = -factorial;
        i += 1;
    }
    terms
}

/// `1/first!, 1/(first + 1)!, ...`
const fn exponential_terms<const N: usize>(first: usize) -> [f64; N] {
    let mut terms = [0.0; N];
    let (mut n, mut factorial, mut i) = (1, 1.0, 0);
    while i < N {
        while n < first + i {
            n += 1;
            factorial *= n as f64;
        }
        terms[i] = 1.0 / factorial;
        i += 1;
    }
    terms
}

/// `e^x` for `x <= 0`: 0 below -708, where what is left is less than the smallest number with all its digits. NaN stays NaN.
///
/// `x = k ln 2 + r` with `|r| <= ln(2)/2`, where the series takes 14 terms. What the difference `r` rounds away is added to the series.
#[inline(always)]
pub(crate) fn exp(x: f64) -> f64 {
    debug_assert!(x.is_nan() || x <= 0.0);
    const LEAST: f64 = -708.0;
    /// 1.5 2^52: a sum with it is rounded to an integer, which stands in its low bits.
    const ROUND: f64 = 6755399441055744.0;
    let y = if x < LEAST { LEAST } else { x };
    let shifted = y * LOG2_E + ROUND;
    let k = shifted - ROUND;
    // exact: k has 10 bits
    let (high, low) = (y - k * LN_2.0, k * LN_2.1);
    let r = high - low;
    let lost = (high - r) - low;
    const TERMS: [f64; 12] = exponential_terms(2);
    let significand = 1.0 + (r + (lost + r * r * polynomial(TERMS, r)));
    let value = significand * f64::from_bits((shifted.to_bits() << EXPONENT).wrapping_add(ONE));
    if x < LEAST { 0.0 } else { value }
}

/// `ln(1 + x)` for `-1 < x < 1e300`, to full relative accuracy; what lies outside gives no useful value.
///
/// `1 + x = 2^e (1 + f)` with `1 + f` between `sqrt(1/2)` and `sqrt(2)`, where `ln(1 + f) = 2 atanh(s)` for `s = f/(2 + f)`. What the sum
/// `1 + x` rounds away is added to `f`, which makes `f = x` exactly where `e = 0`.
#[inline(always)]
pub(crate) fn ln_1p(x: f64) -> f64 {
    debug_assert!(x > -1.0 && x < 1e300);
    let y = 1.0 + x;
    // the lost part: exact, whichever of 1 and x is larger
    let lost = if x < 1.0 { x - (y - 1.0) } else { 1.0 - (y - x) };
    // e + 1023, for a significand that starts at sqrt(1/2)
    let biased = (y.to_bits() + (ONE - FRAC_1_SQRT_2.to_bits())) >> EXPONENT;
    let e = f64::from_bits(INTEGER | biased) - ((1u64 << EXPONENT) + BIAS) as f64;
    let down = f64::from_bits((2 * BIAS - biased) << EXPONENT);
    let significand = f64::from_bits(y.to_bits() + ONE - (biased << EXPONENT));
    let f = (significand - 1.0) + lost * down;
    let s = f / (2.0 + f);
    let z = s * s;
    // 2 atanh(s) - 2 s = s r; z < 0.0295, so that ten terms leave 1e-18
    const TERMS: [f64; 10] = atanh_terms();
    let r = z * polynomial(TERMS, z);
    // 2 s = f - s f
    e * LN_2.0 + (f - (s * (f - r) - e * LN_2.1))
}

/// Sine and cosine of `t` quarter turns, for `|t| <= 1/2`: the angle is reduced by the unit, not by subtraction.
#[inline(always)]
pub(crate) fn sin_cos_quarters(t: f64) -> (f64, f64) {
    debug_assert!(t.abs() <= 0.5);
    let a = FRAC_PI_2 * t;
    let z = a * a;
    // the series: up to pi/4 the first term left out is below 1e-19 of the sine and 3e-18 of the cosine
    const SINE: [f64; 8] = circle_terms(3, -1.0);
    const COSINE: [f64; 7] = circle_terms(4, 1.0);
    let sine = a + a * (z * polynomial(SINE, z));
    let cosine = 1.0 - (0.5 * z - z * z * polynomial(COSINE, z));
    (sine, cosine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg;
    use proptest::prelude::*;

    #[test]
    fn exact_values() {
        assert_eq!((ln_1p(0.0), sin_cos_quarters(0.0)), (0.0, (0.0, 1.0)));
        assert_eq!(ln_1p(1.0), std::f64::consts::LN_2);
        assert_eq!((ln_1p(1e-20), ln_1p(-1e-300)), (1e-20, -1e-300));
        assert_eq!((exp(0.0), exp(-1e-300), exp(-1e4), exp(f64::NEG_INFINITY)), (1.0, 1.0, 0.0, 0.0));
        assert!(exp(-708.0) >= f64::MIN_POSITIVE && exp(f64::NAN).is_nan());
    }

    /// A vector of any width and a single number take the same steps.
    #[test]
    fn loops_have_the_same_bits() {
        let x: Vec<f64> = (0..1003).map(|i| (i as f64 * 0.01).exp() - 0.9999).collect();
        let t: Vec<f64> = (0..1003).map(|i| i as f64 / 1003.0 - 0.5).collect();
        let mut out = vec![(0.0, 0.0, (0.0, 0.0)); x.len()];
        linalg::wide(
            #[inline(always)]
            || {
                for ((out, &x), &t) in out.iter_mut().zip(&x).zip(&t) {
                    *out = (exp(-1.0 - x), ln_1p(x), sin_cos_quarters(t));
                }
            },
        );
        for ((out, &x), &t) in out.iter().zip(&x).zip(&t) {
            let (x, t) = std::hint::black_box((x, t));
            assert_eq!(*out, (exp(-1.0 - x), ln_1p(x), sin_cos_quarters(t)));
        }
    }

    proptest! {
        /// The C library's functions, which have their own error of half a unit.
        #[test]
        fn as_the_standard_library(e in -60.0..0.0f64, x in -1.0..3.0f64, t in -0.5..0.5f64) {
            for x in [x, x * e.exp2(), e.exp2() - 1.0] {
                if x > -1.0 {
                    prop_assert!((ln_1p(x) / x.ln_1p() - 1.0).abs() < 5e-16 || x == 0.0, "{x}");
                }
            }
            for x in [e, e.exp2() - 1.0, 11.8 * e] {
                prop_assert!((exp(x) / x.exp() - 1.0).abs() < 5e-16, "{x}");
            }
            let (sine, cosine) = sin_cos_quarters(t);
            prop_assert!((sine - (FRAC_PI_2 * t).sin()).abs() <= 4e-16 * sine.abs() && (cosine - (FRAC_PI_2 * t).cos()).abs() < 4e-16);
        }
    }
}
