//! Runs of rows: what is visited, merged and shipped as one piece.

use super::{Dataset, TargetView, X};

/// A fixed run of rows: the unit of threading, of determinism and of shipping work elsewhere.
#[derive(Debug, Clone, Copy)]
pub struct Block<'a> {
    /// Number of the block, from 0.
    pub number: u32,
    /// Number of its first row.
    pub first_row: u64,
    /// Its features.
    pub x: X<'a>,
    /// Its targets.
    pub y: TargetView<'a>,
    /// Source of each row, where rows have one.
    pub sources: Option<&'a [u32]>,
    /// Weight of each row, where rows have one.
    pub weights: Option<&'a [f64]>,
}

impl Block<'_> {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.x.rows()
    }

    /// Weight of row i; 1 without weights.
    pub fn weight(&self, i: usize) -> f64 {
        self.weights.map_or(1.0, |w| w[i])
    }
}

/// Cuts the rows into blocks.
pub fn blocks<'a>(data: &'a Dataset<'_>, block_rows: usize) -> Vec<Block<'a>> {
    blocks_from(data, block_rows, 0)
}

/// The same where the first block of these rows has this number among all.
pub(crate) fn blocks_from<'a>(data: &'a Dataset<'_>, block_rows: usize, first: u32) -> Vec<Block<'a>> {
    let rows = data.rows();
    (0..rows.div_ceil(block_rows))
        .map(|number| {
            let range = number * block_rows..((number + 1) * block_rows).min(rows);
            Block {
                number: first + number as u32,
                first_row: first as u64 * block_rows as u64 + range.start as u64,
                x: data.x.slice(range.clone()),
                y: data.target.slice(range.clone()),
                sources: data.sources.as_ref().map(|s| &s.codes[range.clone()]),
                weights: data.weights.as_ref().map(|w| &w[range]),
            }
        })
        .collect()
}
