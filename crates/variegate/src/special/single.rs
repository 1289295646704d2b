//! Single precision, sixteen numbers at a time, for what need not be exact.
//!
//! As in [`super::lanes`], loops over lanes become vector instructions inside [`crate::linalg::wide`]. Sums over lanes have one order.

use std::f32::consts::{FRAC_1_SQRT_2, LN_2, LOG2_E};
use std::ops::{Index, IndexMut};

/// Numbers of a vector.
pub(crate) const LANES: usize = 16;

/// Numbers next to each other, in one line of the cache: loads that cross lines take twice as long.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[repr(align(64))]
pub(crate) struct Lane(pub [f32; LANES]);

impl Lane {
    /// The same number everywhere.
    #[inline(always)]
    pub(crate) fn all(value: f32) -> Self {
        Self([value; LANES])
    }
}

impl Index<usize> for Lane {
    type Output = f32;

    #[inline(always)]
    fn index(&self, l: usize) -> &f32 {
        &self.0[l]
    }
}

impl IndexMut<usize> for Lane {
    #[inline(always)]
    fn index_mut(&mut self, l: usize) -> &mut f32 {
        &mut self.0[l]
    }
}

/// A number for each lane.
#[inline(always)]
pub(crate) fn each(f: impl Fn(usize) -> f32) -> Lane {
    let mut out = [0.0; LANES];
    for l in 0..LANES {
        out[l] = f(l);
    }
    Lane(out)
}

/// Lanes folded in halves.
#[inline(always)]
fn fold(z: &Lane, f: impl Fn(f32, f32) -> f32) -> f32 {
    let (mut a, mut b, mut c) = ([0.0; 8], [0.0; 4], [0.0; 2]);
    (0..8).for_each(|l| a[l] = f(z[l], z[l + 8]));
    (0..4).for_each(|l| b[l] = f(a[l], a[l + 4]));
    (0..2).for_each(|l| c[l] = f(b[l], b[l + 2]));
    f(c[0], c[1])
}

/// Sum over lanes.
#[inline(always)]
pub(crate) fn sum(z: &Lane) -> f32 {
    fold(z, |a, b| a + b)
}

/// The largest of all lanes.
#[inline(always)]
pub(crate) fn largest(z: &Lane) -> f32 {
    fold(z, |a, b| if a > b { a } else { b })
}

/// `e^x` for `x <= 0` to 3e-7 of its value: 0 below -87.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    const LEAST: f32 = -87.0;
    /// 1.5 2^23: a sum with it is rounded to an integer, which stands in its low bits.
    const ROUND: f32 = 12582912.0;
    /// `ln 2` in two parts; the first has 15 bits, so that its product with an exponent is exact.
    const PARTS: (f32, f32) = (0.693_145_75, 1.428_606_8e-6);
    let y = if x < LEAST { LEAST } else { x };
    let shifted = y * LOG2_E + ROUND;
    let k = shifted - ROUND;
    let r = (y - k * PARTS.0) - k * PARTS.1;
    let series = 0.5 + r * (1.0 / 6.0 + r * (1.0 / 24.0 + r * (1.0 / 120.0 + r * (1.0 / 720.0))));
    let significand = 1.0 + (r + r * r * series);
    let value = significand * f32::from_bits((shifted.to_bits() << 23).wrapping_add(1.0f32.to_bits()));
    if x < LEAST { 0.0 } else { value }
}

/// `ln x` for positive `x` to about 1e-7, of its value or of 1; what is too small for all its digits gives about -88.
#[inline(always)]
pub(crate) fn ln(x: f32) -> f32 {
    // x = 2^e (1 + f) with 1 + f between sqrt(1/2) and sqrt(2), where ln(1 + f) = 2 atanh(s)
    let e = (x.to_bits() as i32 - FRAC_1_SQRT_2.to_bits() as i32) >> 23;
    let f = f32::from_bits((x.to_bits() as i32 - (e << 23)) as u32) - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let series = z * (2.0 / 3.0 + z * (2.0 / 5.0 + z * (2.0 / 7.0 + z * (2.0 / 9.0))));
    e as f32 * LN_2 + (2.0 * s + s * series)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_are_right_to_single_precision() {
        let mut worst = 0.0f64;
        for i in 0..200_000 {
            let x = -87.0 * (i as f32 / 200_000.0);
            worst = worst.max((f64::from(exp(x)) / f64::from(x).exp() - 1.0).abs());
        }
        // the series leaves 1.7e-7, rounding half as much
        assert!(worst < 3e-7, "{worst}");
        assert_eq!((exp(0.0), exp(-88.0), exp(f32::NEG_INFINITY)), (1.0, 0.0, 0.0));
        assert!(exp(f32::NAN).is_nan());
    }

    #[test]
    fn logarithms_are_right_to_single_precision() {
        let mut worst = 0.0f64;
        for i in 0..200_000 {
            let x = (-85.0 * (i as f32 / 200_000.0)).exp() * 1.5;
            let exact = f64::from(x).ln();
            worst = worst.max((f64::from(ln(x)) - exact).abs() / exact.abs().max(1.0));
        }
        assert!(worst < 2e-7, "{worst}");
        assert!(ln(1.0) == 0.0 && ln(0.0) < -80.0);
    }

    #[test]
    fn lanes_are_folded() {
        let z = each(|l| (l * l) as f32 - 50.0 * l as f32);
        assert_eq!(sum(&z), z.0.iter().sum::<f32>());
        assert_eq!(largest(&z), 0.0);
    }
}
