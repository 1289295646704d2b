//! Some rows brought together: where clusters are looked for.
//!
//! Rows are chosen by a hash of their number, the smallest of each class, so that the choice depends on nothing but the data and a key.

use super::super::program::{Vb, class_of};
use super::Scratch;
use super::ask::TreeStats;
use crate::model::gathered::{Gathered, hash_of, keep_smallest};
use crate::run::Block;

impl Vb {
    /// The chosen rows of a block.
    pub(crate) fn visit_gather(&self, each: usize, key: u64, block: &Block<'_>, scratch: &mut Scratch) -> TreeStats {
        let dim = self.design.dim();
        let mut hashes: Vec<(u64, u32, usize)> = (0..block.rows())
            .filter(|&i| self.weight(block, i, None) > 0.0)
            .map(|i| (hash_of(key, block, i), class_of(block, i), i))
            .collect();
        // only what can be among the smallest is looked at
        keep_smallest(&mut hashes, each);
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
