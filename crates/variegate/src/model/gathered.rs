//! Some rows brought together, for starts: those whose numbers have the smallest hashes, so that the choice depends on nothing but the data
//! and a key.

use rand::Rng;
use serde::{Deserialize, Serialize};

use crate::run::{Block, Merge, Purpose, Stream};

/// Hash of row i of a block.
pub(crate) fn hash_of(key: u64, block: &Block<'_>, i: usize) -> u64 {
    Stream::new(key, 0, Purpose::Split).item(block.first_row + i as u64).rng().next_u64()
}

/// A row: its hash, class (0 where there are none) and numbers.
pub(crate) type GatheredRow = (u64, u32, Vec<f64>);

/// The rows of smallest hash, so many a class.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Gathered {
    /// How many of each class.
    pub(crate) each: usize,
    /// The rows, by class and hash.
    pub(crate) rows: Vec<GatheredRow>,
}

/// Keeps so many rows (hash, class, …) of each class, those of smallest hash, in order of class and hash.
pub(crate) fn keep_smallest<T>(rows: &mut Vec<(u64, u32, T)>, each: usize) {
    rows.sort_by_key(|(hash, class, _)| (*class, *hash));
    let (mut class, mut seen) = (u32::MAX, 0);
    rows.retain(|row| {
        seen = if row.1 == class { seen + 1 } else { 1 };
        class = row.1;
        seen <= each
    });
}

impl Merge for Gathered {
    fn merge(&mut self, mut right: Self) {
        if right.rows.is_empty() {
            return;
        }
        self.each = self.each.max(right.each);
        self.rows.append(&mut right.rows);
        keep_smallest(&mut self.rows, self.each);
    }
}
