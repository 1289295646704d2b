//! Many rows at once: numbers of sixteen rows lie next to each other, one in each lane of the vector instructions.
//!
//! Inside [`crate::linalg::wide`] loops over lanes become vector instructions. No lane looks at another, so that a row gives the same
//! bits alone and in any company.

use super::branchless::exp;

/// Rows of a group.
pub(crate) const LANES: usize = 16;

/// One number of each row of a group.
pub(crate) type Lane = [f64; LANES];

/// A number of each row, by lane. The result is a place of its own, so that the compiler need not ask what it might overlap with.
#[inline(always)]
pub(crate) fn each(f: impl Fn(usize) -> f64) -> Lane {
    let mut out = [0.0; LANES];
    for l in 0..LANES {
        out[l] = f(l);
    }
    out
}

/// Numbers become their exponentials over that of the largest, which is then 1. Gives back the largest, and the sum of the exponentials.
#[inline(always)]
pub(crate) fn exponentials(z: &mut [Lane]) -> (Lane, Lane) {
    let mut top = [f64::NEG_INFINITY; LANES];
    for z in z.iter() {
        top = each(|l| if z[l] > top[l] { z[l] } else { top[l] });
    }
    let mut sum = [0.0; LANES];
    for z in z.iter_mut() {
        *z = each(|l| exp(z[l] - top[l]));
        sum = each(|l| sum[l] + z[l]);
    }
    (top, sum)
}
