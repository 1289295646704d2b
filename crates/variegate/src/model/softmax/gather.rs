//! Some rows brought together: where clusters are looked for.
//!
//! Rows are chosen by a hash of their number, the smallest of each class, so that the choice depends on nothing but the data and a key.

use serde::{Deserialize, Serialize};

use super::pass::{Scratch, TreeStats};
use super::vb::Vb;
use crate::run::{Block, Merge, Purpose, Stream};
use rand::Rng;

/// A row: its hash, class (0 for real outcomes) and design columns.
pub type GatheredRow = (u64, u32, Vec<f64>);

/// The rows of smallest hash, so many a class.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Gathered {
    /// How many of each class.
    pub each: usize,
    /// The rows, by class and hash.
    pub rows: Vec<GatheredRow>,
}

impl Gathered {
    /// Keeps the smallest of each class.
    fn settle(&mut self) {
        self.rows.sort_by_key(|(hash, class, _)| (*class, *hash));
        let (mut class, mut seen) = (u32::MAX, 0);
        self.rows.retain(|row| {
            seen = if row.1 == class { seen + 1 } else { 1 };
            class = row.1;
            seen <= self.each
        });
    }
}

impl Merge for Gathered {
    fn merge(&mut self, mut right: Self) {
        if right.rows.is_empty() {
            return;
        }
        self.each = self.each.max(right.each);
        self.rows.append(&mut right.rows);
        self.settle();
    }
}

impl Vb {
    /// The chosen rows of a block.
    pub(super) fn visit_gather(&self, each: usize, key: u64, block: &Block<'_>, scratch: &mut Scratch) -> TreeStats {
        let dim = self.design.dim();
        let mut hashes: Vec<(u64, u32, usize)> = (0..block.rows())
            .filter(|&i| self.weight(block, i, None) > 0.0)
            .map(|i| {
                let hash = Stream::new(key, 0, Purpose::Split).item(block.first_row + i as u64).rng().next_u64();
                (hash, block.y.classes().get(i).copied().unwrap_or(0), i)
            })
            .collect();
        // only what can be among the smallest is looked at
        hashes.sort_by_key(|(hash, class, _)| (*class, *hash));
        let (mut class, mut seen) = (u32::MAX, 0);
        hashes.retain(|row| {
            seen = if row.1 == class { seen + 1 } else { 1 };
            class = row.1;
            seen <= each
        });
        let mut rows = Vec::with_capacity(hashes.len());
        for (hash, class, i) in hashes {
            let mut row = vec![0.0; dim];
            let mut panel = self.design.panel(block.x.slice(i..i + 1), &mut scratch.panel);
            panel.t_mul_add(&[1.0], 1, &mut row);
            rows.push((hash, class, row));
        }
        TreeStats { gathered: Gathered { each, rows }, ..TreeStats::default() }
    }
}
