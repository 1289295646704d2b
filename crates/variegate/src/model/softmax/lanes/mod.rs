//! Bounds of many rows at once: the searches of `tilted.rs` and `double.rs` with a row in each lane of the vector instructions.
//!
//! Numbers of the rows of a group lie next to each other, and every loop over them is plain arithmetic without branches. No lane looks at
//! another, and a lane that is done keeps its result while others go on, so that a row gives the same bits alone and in any company. A lane
//! whose search leaves the straight path (a step that must be shortened, a covariance that is none) is handed back unsolved.

mod double;
#[cfg(test)]
mod tests;
mod tilted;

pub use double::Double;
pub use tilted::{Spread, Tilted};

use crate::special::branchless::{exp, ln_1p};

/// Rows of a group.
pub const LANES: usize = 16;

/// One number of each row of a group.
pub type Lane = [f64; LANES];

/// A number of each row, by lane. The result is a place of its own, so that the compiler need not ask what it might overlap with.
#[inline(always)]
fn each(f: impl Fn(usize) -> f64) -> Lane {
    let mut out = [0.0; LANES];
    for l in 0..LANES {
        out[l] = f(l);
    }
    out
}

/// Whether any lane is open (has 1, not 0).
fn any(open: &Lane) -> bool {
    open.iter().any(|o| *o > 0.0)
}

/// The larger, or NaN where `b` is.
#[inline(always)]
fn larger(a: f64, b: f64) -> f64 {
    if b <= a { a } else { b }
}

/// Logits become probabilities; returns their log-sum-exp, NaN where one of them is not finite.
#[inline(always)]
fn softmax(z: &mut [Lane]) -> Lane {
    let mut top = [f64::NEG_INFINITY; LANES];
    for z in z.iter() {
        top = each(|l| if z[l] > top[l] { z[l] } else { top[l] });
    }
    let mut sum = [0.0; LANES];
    for z in z.iter_mut() {
        *z = each(|l| exp(z[l] - top[l]));
        sum = each(|l| sum[l] + z[l]);
    }
    let scale = each(|l| 1.0 / sum[l]);
    for z in z.iter_mut() {
        *z = each(|l| z[l] * scale[l]);
    }
    each(|l| {
        // at least 1, from the largest logit
        let finite = sum[l] < f64::INFINITY;
        let ln = top[l] + ln_1p(if finite { sum[l] - 1.0 } else { 0.0 });
        if finite { ln } else { f64::NAN }
    })
}
