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

use crate::special::branchless::ln_1p;
pub(crate) use crate::special::lanes::{LANES, Lane};
use crate::special::lanes::{each, exponentials};

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
    let (top, sum) = exponentials(z);
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
