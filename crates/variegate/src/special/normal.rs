//! The standard normal distribution function and its logarithm.
//!
//! Everything rests on the Mills ratio `M(x) = (1 - Phi(x)) / phi(x)`, `x >= 0`, which falls smoothly from `sqrt(pi/2)` to
//! `1/x`. `(x + 4) M(x)` is a fixed polynomial on each of 64 pieces of `t = 4/(x + 4)`: one division and one short polynomial,
//! with an approximation error below 1e-17. The density, where all the range is, is a separate factor. Around zero `libm`'s
//! error function is used instead.

use super::coefficients::{MILLS, MILLS_CENTRE};
use std::f64::consts::FRAC_1_SQRT_2;

const HALF_LN_2PI: f64 = 0.918_938_533_204_672_7;
const INV_SQRT_2PI: f64 = 0.398_942_280_401_432_7;

/// `M(x) = (1 - Phi(x)) / phi(x)` for `x >= 0`. NaN below zero, where it would overflow: use [`ln_norm_cdf`].
#[inline]
pub fn mills_ratio(x: f64) -> f64 {
    let t = MILLS_CENTRE / (x + MILLS_CENTRE);
    if !(t >= 0.0 && x >= 0.0) {
        return f64::NAN;
    }
    let scaled = t * MILLS.len() as f64;
    let piece = (scaled as usize).min(MILLS.len() - 1);
    let u = scaled - (piece as f64 + 0.5);
    let [c0, c1, c2, c3, c4, c5, c6] = MILLS[piece];
    // even and odd parts side by side: half the latency of Horner's rule
    let v = u * u;
    let even = c0 + v * (c2 + v * (c4 + v * c6));
    let odd = c1 + v * (c3 + v * c5);
    (even + u * odd) * (t * (1.0 / MILLS_CENTRE))
}

/// `Phi(x)`, the probability that a standard normal variable is at most `x`.
///
/// The relative error stays at rounding in the left tail, down to where the value itself becomes subnormal (`x < -37.5`).
pub fn norm_cdf(x: f64) -> f64 {
    if x < -1.0 { density(x) * mills_ratio(-x) } else { 0.5 * libm::erfc(-FRAC_1_SQRT_2 * x) }
}

/// `ln Phi(x)`, with no underflow: about `-x^2/2` far to the left, about `-phi(x)/x` far to the right.
pub fn ln_norm_cdf(x: f64) -> f64 {
    if x < -1.0 {
        mills_ratio(-x).ln() - HALF_LN_2PI - 0.5 * x * x
    } else if x < 1.0 {
        norm_cdf(x).ln()
    } else {
        (-density(x) * mills_ratio(x)).ln_1p()
    }
}

/// `phi(x) = exp(-x^2/2) / sqrt(2 pi)`; the rounding error of `x^2` is put back, for it counts `x^2/2` times.
fn density(x: f64) -> f64 {
    if x.abs() > 40.0 {
        return 0.0; // exp(-800) is no double, and x*x may overflow
    }
    let square = x * x;
    let lost = x.mul_add(x, -square);
    (-0.5 * square).exp() * (1.0 - 0.5 * lost) * INV_SQRT_2PI
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits() {
        let inf = f64::INFINITY;
        assert_eq!((norm_cdf(-inf), norm_cdf(0.0), norm_cdf(inf)), (0.0, 0.5, 1.0));
        assert_eq!((ln_norm_cdf(-inf), ln_norm_cdf(inf)), (-inf, 0.0));
        assert!(norm_cdf(f64::NAN).is_nan() && ln_norm_cdf(f64::NAN).is_nan());
        assert_eq!(mills_ratio(inf), 0.0);
        assert!(mills_ratio(-1e-300).is_nan() && mills_ratio(f64::NAN).is_nan());
        assert!((ln_norm_cdf(-1e150) / -5e299 - 1.0).abs() < 1e-15);
        assert_eq!(norm_cdf(-50.0), 0.0);
    }
}
