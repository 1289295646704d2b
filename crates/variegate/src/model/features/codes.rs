//! Which rows use which features: one bit each, rows of a block, columns by the names of features.

use serde::{Deserialize, Serialize};

const BITS: usize = 64;

/// Bits of the rows of a block.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Codes {
    /// Names of the columns.
    ids: Vec<u64>,
    rows: usize,
    bits: Vec<u64>,
}

fn words(columns: usize) -> usize {
    columns.div_ceil(BITS)
}

impl Codes {
    /// Rows that use nothing.
    pub fn new(rows: usize) -> Self {
        Self { rows, ..Self::default() }
    }

    /// Rows that use these columns, of these names.
    pub fn of(ids: &[u64], rows: &[Vec<u32>]) -> Self {
        let mut out = Self { ids: ids.to_vec(), rows: rows.len(), bits: vec![0; rows.len() * words(ids.len())] };
        for (i, row) in rows.iter().enumerate() {
            row.iter().for_each(|&k| out.set(i, k as usize, true));
        }
        out
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Names of the columns.
    pub fn ids(&self) -> &[u64] {
        &self.ids
    }

    /// Bits of a row.
    pub fn row(&self, i: usize) -> &[u64] {
        let each = words(self.ids.len());
        &self.bits[i * each..][..each]
    }

    /// The same, to be changed.
    pub fn row_mut(&mut self, i: usize) -> &mut [u64] {
        let each = words(self.ids.len());
        &mut self.bits[i * each..][..each]
    }

    /// Whether a row uses a column.
    #[inline]
    pub fn has(&self, i: usize, k: usize) -> bool {
        self.bits[i * words(self.ids.len()) + k / BITS] >> (k % BITS) & 1 == 1
    }

    /// Makes a row use a column, or not.
    #[inline]
    pub fn set(&mut self, i: usize, k: usize, on: bool) {
        let word = &mut self.bits[i * words(self.ids.len()) + k / BITS];
        let mask = 1 << (k % BITS);
        if on {
            *word |= mask;
        } else {
            *word &= !mask;
        }
    }

    /// Calls `f` with each column that a row uses, ascending.
    #[inline]
    pub fn for_used(&self, i: usize, f: impl FnMut(usize)) {
        for_ones(self.row(i), f);
    }

    /// Columns that a row uses.
    pub fn used(&self, i: usize) -> Vec<u32> {
        let mut out = Vec::new();
        self.for_used(i, |k| out.push(k as u32));
        out
    }

    /// Place of the column of this name.
    pub fn place(&self, id: u64) -> Option<usize> {
        self.ids.iter().position(|&found| found == id)
    }

    /// Place of the column of this name, which is appended if it is not there.
    pub fn column(&mut self, id: u64) -> usize {
        self.place(id).unwrap_or_else(|| {
            self.append(&[id]);
            self.ids.len() - 1
        })
    }

    /// How many rows use each column.
    pub fn uses(&self) -> Vec<u64> {
        let mut out = vec![0; self.ids.len()];
        for i in 0..self.rows {
            self.for_used(i, |k| out[k] += 1);
        }
        out
    }

    /// Exactly these columns in this order: others are dropped, those that are new are used by nobody.
    pub fn arrange(&mut self, ids: &[u64]) {
        if self.ids == ids {
            return;
        }
        let mut by_name: Vec<(u64, usize)> = ids.iter().copied().zip(0..).collect();
        by_name.sort_unstable();
        let to: Vec<Option<usize>> =
            self.ids.iter().map(|id| by_name.binary_search_by_key(id, |e| e.0).ok().map(|at| by_name[at].1)).collect();
        let mut next = Self { ids: ids.to_vec(), rows: self.rows, bits: vec![0; self.rows * words(ids.len())] };
        for i in 0..self.rows {
            self.for_used(i, |k| {
                if let Some(k) = to[k] {
                    next.set(i, k, true);
                }
            });
        }
        *self = next;
    }

    /// Appends columns that nobody uses.
    pub fn append(&mut self, ids: &[u64]) {
        if !ids.is_empty() {
            let all = [&self.ids, ids].concat();
            self.arrange(&all);
        }
    }

    /// The bits as numbers, one row after the other.
    pub fn numbers(&self, out: &mut Vec<f64>) {
        let columns = self.ids.len();
        out.clear();
        out.resize(self.rows * columns, 0.0);
        for i in 0..self.rows {
            self.for_used(i, |k| out[i * columns + k] = 1.0);
        }
    }
}

/// Calls `f` with the place of each bit that is set, ascending.
#[inline]
pub(super) fn for_ones(bits: &[u64], mut f: impl FnMut(usize)) {
    for (w, &word) in bits.iter().enumerate() {
        let mut left = word;
        while left != 0 {
            f(w * BITS + left.trailing_zeros() as usize);
            left &= left - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_follow_their_names() {
        let ids: Vec<u64> = (0..70).map(|k| 100 + k).collect();
        let mut codes = Codes::of(&ids, &[vec![0, 63, 64, 69], vec![], vec![64]]);
        assert_eq!(codes.used(0), [0, 63, 64, 69]);
        assert!(codes.has(2, 64) && !codes.has(1, 64));
        codes.append(&[7]);
        codes.set(1, 70, true);
        codes.arrange(&[7, 169, 164, 1]);
        assert_eq!((codes.used(0), codes.used(1), codes.used(2)), (vec![1, 2], vec![0], vec![2]));
        assert_eq!((codes.uses(), codes.place(164), codes.place(100)), (vec![1, 1, 2, 0], Some(2), None));
        let mut numbers = Vec::new();
        codes.numbers(&mut numbers);
        assert_eq!(numbers[..8], [0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
        codes.arrange(&[]);
        assert!(codes.used(0).is_empty() && codes.row(2).is_empty());
    }
}
