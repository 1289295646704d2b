//! Sums and missing entries of columns, source by source. Only pairs of a source and a column that have an entry are kept, so that
//! blocks of sparse rows stay small.

use serde::{Deserialize, Serialize};

use crate::data::Block;

/// What sources have in each column.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct SourceColumns {
    /// Rows of each source.
    pub rows: Vec<u64>,
    /// Largest entry, or 0.
    pub largest: f64,
    /// By ascending place, which is source · columns + column.
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Entry {
    place: u64,
    sum: f64,
    missing: u64,
}

impl SourceColumns {
    /// Of the rows of a block; rows without source are of the first.
    pub(super) fn of(block: &Block<'_>, sources: usize) -> Self {
        let width = block.x.cols();
        let mut out = Self { rows: vec![0; sources], ..Self::default() };
        // rows in order within each place: entries are added one after the other
        let mut all: Vec<(u64, f64)> = Vec::with_capacity(block.x.stored());
        for i in 0..block.rows() {
            let source = block.sources.map_or(0, |s| s[i] as usize);
            out.rows[source] += 1;
            block.x.for_row(i, |j, v| all.push(((source * width + j) as u64, v)));
        }
        all.sort_by_key(|(place, _)| *place);
        for (place, v) in all {
            if out.entries.last().is_none_or(|e| e.place != place) {
                out.entries.push(Entry { place, sum: 0.0, missing: 0 });
            }
            let Some(entry) = out.entries.last_mut() else { continue };
            if v.is_nan() {
                entry.missing += 1;
            } else {
                entry.sum += v;
                out.largest = out.largest.max(v);
            }
        }
        out
    }

    pub(super) fn merge(&mut self, right: Self) {
        if self.rows.is_empty() {
            *self = right;
            return;
        }
        self.rows.iter_mut().zip(right.rows).for_each(|(l, r)| *l += r);
        self.largest = self.largest.max(right.largest);
        self.entries.extend(right.entries);
        // a stable sort, so that what came first is added to
        self.entries.sort_by_key(|e| e.place);
        self.entries.dedup_by(|later, first| {
            let same = later.place == first.place;
            if same {
                first.sum += later.sum;
                first.missing += later.missing;
            }
            same
        });
    }

    /// Sum of each column in each source.
    pub(super) fn sums(&self, width: usize) -> Vec<f64> {
        let mut out = vec![0.0; self.rows.len() * width];
        self.entries.iter().for_each(|e| out[e.place as usize] = e.sum);
        out
    }

    /// Missing entries of each column in each source.
    pub(super) fn missing(&self, width: usize) -> Vec<u64> {
        let mut out = vec![0; self.rows.len() * width];
        self.entries.iter().for_each(|e| out[e.place as usize] = e.missing);
        out
    }
}
