//! Many rows at once: numbers of sixteen rows lie next to each other, one in each lane of the vector instructions.
//!
//! Inside [`crate::linalg::wide`] loops over lanes become vector instructions. No lane looks at another, so that a row gives the same
//! bits alone and in any company.

use super::branchless::{exp, ln_1p};

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

/// Whether any lane is open (has 1, not 0).
pub(crate) fn any(open: &Lane) -> bool {
    open.iter().any(|o| *o > 0.0)
}

/// The larger, or NaN where `b` is.
#[inline(always)]
pub(crate) fn larger(a: f64, b: f64) -> f64 {
    if b <= a { a } else { b }
}

/// Log-sum-exp from what [`exponentials`] gives back: NaN where a number was not finite.
#[inline(always)]
pub(crate) fn ln_sum(top: &Lane, sum: &Lane) -> Lane {
    each(|l| {
        // at least 1, from the largest
        let finite = sum[l] < f64::INFINITY;
        let ln = top[l] + ln_1p(if finite { sum[l] - 1.0 } else { 0.0 });
        if finite { ln } else { f64::NAN }
    })
}

/// Logits become probabilities; returns their log-sum-exp, NaN where one of them is not finite.
#[inline(always)]
pub(crate) fn softmax(z: &mut [Lane]) -> Lane {
    let (top, sum) = exponentials(z);
    let scale = each(|l| 1.0 / sum[l]);
    for z in z.iter_mut() {
        *z = each(|l| z[l] * scale[l]);
    }
    ln_sum(&top, &sum)
}
