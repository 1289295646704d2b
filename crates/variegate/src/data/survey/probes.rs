//! A few rows, chosen by a hash of their numbers: the same ones wherever the rows are.

use rand::Rng;
use serde::{Deserialize, Serialize};

use crate::data::{Block, Matrix, X};
use crate::run::{Purpose, Stream};

/// The rows of smallest hash, ascending.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Probes {
    most: usize,
    chosen: Vec<Probe>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Probe {
    hash: u64,
    row: u64,
    /// Columns of the stored entries; empty for dense rows.
    indices: Vec<u32>,
    values: Vec<f64>,
}

impl Probes {
    /// The rows of a block that may be among the chosen.
    pub(super) fn of(block: &Block<'_>, most: usize) -> Self {
        if most == 0 {
            return Self::default();
        }
        let hash = |row: u64| Stream::new(0, 0, Purpose::Split).item(row).rng().next_u64();
        let mut order: Vec<(u64, usize)> = (0..block.rows()).map(|i| (hash(block.first_row + i as u64), i)).collect();
        order.sort_unstable();
        order.truncate(most);
        let probe = |(hash, i): (u64, usize)| {
            let (indices, values) = match block.x {
                X::Dense { cols, values, .. } => (Vec::new(), values[i * cols..(i + 1) * cols].to_vec()),
                X::Csr { .. } => {
                    let (indices, values) = block.x.sparse_row(i);
                    (indices.to_vec(), values.to_vec())
                }
            };
            Probe { hash, row: block.first_row + i as u64, indices, values }
        };
        Self { most, chosen: order.into_iter().map(probe).collect() }
    }

    pub(super) fn merge(&mut self, right: Self) {
        self.most = self.most.max(right.most);
        self.chosen.extend(right.chosen);
        self.chosen.sort_by_key(|p| (p.hash, p.row));
        self.chosen.truncate(self.most);
    }

    /// Each of them as rows are stored.
    pub(super) fn rows(&self, sparse: bool, width: usize) -> impl Iterator<Item = Matrix<'static>> + '_ {
        self.chosen.iter().map(move |p| {
            if sparse {
                let indptr = vec![0, p.values.len()].into();
                Matrix::Csr { rows: 1, cols: width, indptr, indices: p.indices.clone().into(), values: p.values.clone().into() }
            } else {
                Matrix::dense(1, width, p.values.clone())
            }
        })
    }
}
