//! Random ranks of rows: hashes that do not depend on the state, so that whatever is chosen by them may be chosen in any sweep.

use serde::{Deserialize, Serialize};

use crate::run::{GOLDEN, scatter_bits};

/// What ranks of rows for one component have in common.
pub(crate) fn key(salt: u64, id: u64) -> u64 {
    scatter_bits(salt ^ scatter_bits(id.wrapping_mul(GOLDEN)))
}

/// The rank of a row for the component of this key.
#[inline]
pub(crate) fn rank_of(key: u64, row: u64) -> u64 {
    scatter_bits(key.wrapping_add(row.wrapping_mul(0xD6E8_FEB8_6659_FD93)))
}

/// A random rank of a row for a component: a hash of both, and of a number that is new in every sweep.
pub(crate) fn rank(salt: u64, id: u64, row: u64) -> u64 {
    rank_of(key(salt, id), row)
}

/// Some of the rows, whatever the state: two of them come first, the others are ranked by a hash of their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Part {
    pub(crate) first: (u64, u64),
    pub(crate) salt: u64,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl Part {
    /// Ranks are below this.
    pub(crate) const END: u64 = 1 << 63;

    pub(crate) fn holds(&self, row: u64) -> bool {
        let rank = if row == self.first.0 || row == self.first.1 { 0 } else { (rank(self.salt, 0, row) >> 1).max(1) };
        (self.from..self.to).contains(&rank)
    }
}

/// The part of a sorted list of rows that lies in a run of rows: from where to where.
pub(crate) fn within(chosen: &[u64], first: u64, count: usize) -> (usize, usize) {
    let end = first + count as u64;
    (chosen.partition_point(|&r| r < first), chosen.partition_point(|&r| r < end))
}
