//! From raw entries to those that are modelled.

use serde::{Deserialize, Serialize};

use crate::data::X;

/// How raw entries become those that are modelled: (x − mean of the source's column) / scale. A row of a source that was not seen takes
/// the overall mean.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Centre {
    /// Number of columns.
    pub columns: usize,
    /// Means of the columns, one source a row; the last row has the overall means.
    pub means: Vec<f64>,
    /// What centred entries are divided by.
    pub scale: f64,
    /// Whether entries may be missing (NaN), to be drawn.
    pub missing: bool,
}

impl Centre {
    /// Number of sources that were seen.
    pub fn sources(&self) -> usize {
        (self.means.len() / self.columns.max(1)).saturating_sub(1)
    }

    /// Means of the columns in a source.
    pub fn means_of(&self, source: usize) -> &[f64] {
        let at = source.min(self.sources()) * self.columns;
        &self.means[at..at + self.columns]
    }

    /// Writes row `at` of `x`, centred and scaled, to `out`; `filled` stands in for its missing entries. Tells how many it took.
    pub fn dense(&self, x: X<'_>, at: usize, source: usize, filled: &[f64], out: &mut [f64]) -> usize {
        let means = self.means_of(source);
        if let X::Csr { .. } = x {
            for (o, mean) in out.iter_mut().zip(means) {
                *o = -mean / self.scale;
            }
        }
        let mut used = 0;
        x.for_row(at, |m, value| {
            out[m] = if self.missing && value.is_nan() {
                used += 1;
                filled.get(used - 1).copied().unwrap_or(0.0)
            } else {
                (value - means[m]) / self.scale
            };
        });
        used
    }

    /// Calls `f(which, column)` for every missing entry of row `at`, in the order in which values stand in for them.
    pub fn for_missing(&self, x: X<'_>, at: usize, mut f: impl FnMut(usize, usize)) {
        if !self.missing {
            return;
        }
        let mut which = 0;
        x.for_row(at, |m, value| {
            if value.is_nan() {
                f(which, m);
                which += 1;
            }
        });
    }
}
