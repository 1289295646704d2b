//! Rows that are chosen whatever the state, so that they may be chosen in any sweep: by random ranks, which are hashes, and by pairs.

use serde::{Deserialize, Serialize};

use crate::run::{GOLDEN, Philox, open01, scatter_bits};
use crate::special::ln_sigmoid;

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

/// So many different rows of `total`, every set as likely as any other; all where there are no more.
pub(crate) fn different(total: u64, count: usize, rng: &mut Philox) -> Vec<u64> {
    let count = (count as u64).min(total);
    // Floyd's
    let mut out: Vec<u64> = Vec::new();
    for top in total - count..total {
        let row = ((open01(rng) * (top + 1) as f64) as u64).min(top);
        out.push(if out.contains(&row) { top } else { row });
    }
    out
}

/// So many ordered pairs of different rows of `total`, which must be at least two.
pub(crate) fn pairs(total: u64, count: usize, rng: &mut Philox) -> Vec<(u64, u64)> {
    let mut below = |n: u64| ((open01(rng) * n as f64) as u64).min(n - 1);
    (0..count)
        .map(|_| {
            let (a, b) = (below(total), below(total - 1));
            (a, if b >= a { b + 1 } else { b })
        })
        .collect()
}

/// All rows of some pairs, ascending, each once.
pub(crate) fn rows_of(pairs: &[(u64, u64)]) -> Vec<u64> {
    let mut rows: Vec<u64> = pairs.iter().flat_map(|&(a, b)| [a, b]).collect();
    rows.sort_unstable();
    rows.dedup();
    rows
}

/// Log probability that a row is dealt to a side, at these log odds of the second.
pub(crate) fn ln_side(lean: f64, side: usize) -> f64 {
    ln_sigmoid(if side == 1 { lean } else { -lean })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Purpose, Stream};

    #[test]
    fn every_set_of_rows_is_as_likely() {
        let mut rng = Stream::new(2, 0, Purpose::Check).rng();
        let mut times = [0.0; 10];
        for _ in 0..5000 {
            let mut set = different(5, 2, &mut rng);
            set.sort_unstable();
            assert!(set.len() == 2 && set[0] < set[1] && set[1] < 5, "{set:?}");
            times[(set[1] * (set[1] - 1) / 2 + set[0]) as usize] += 1.0;
        }
        // 500 of each, with a standard deviation of 21.2
        assert!(times.iter().all(|t: &f64| (t - 500.0).abs() < 85.0), "{times:?}");
        let mut all = different(3, 7, &mut rng);
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2]);
    }

    #[test]
    fn pairs_are_of_different_rows() {
        let mut rng = Stream::new(1, 0, Purpose::Check).rng();
        let found = pairs(3, 3000, &mut rng);
        for a in 0..3 {
            for b in 0..3 {
                let times = found.iter().filter(|p| **p == (a, b)).count() as f64;
                // 500 of each, with a standard deviation of 20.4
                assert!(if a == b { times == 0.0 } else { (times - 500.0).abs() < 82.0 }, "{a} {b}: {times}");
            }
        }
        assert_eq!(rows_of(&[(5, 2), (2, 9)]), [2, 5, 9]);
    }
}
