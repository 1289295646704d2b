//! Rows of a design, kept as they came: dense, or the entries of sparse ones and what centring adds to every row.

use serde::{Deserialize, Serialize};

use crate::data::Panel;
use crate::linalg::{self, dot_long};
use crate::run::Merge;

/// Rows without the bias, in their order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rows {
    /// Number of columns; 0 of no rows.
    pub(super) width: usize,
    /// Where the entries of each sparse row end, and their columns; empty where rows are dense.
    ends: Vec<u32>,
    columns: Vec<u32>,
    values: Vec<f64>,
    /// What centring adds to every sparse row; empty for nothing.
    shift: Vec<f64>,
}

impl Merge for Rows {
    fn merge(&mut self, mut right: Self) {
        if self.width == 0 {
            *self = right;
            return;
        }
        let before = self.values.len() as u32;
        self.ends.extend(right.ends.iter().map(|end| before + end));
        self.columns.append(&mut right.columns);
        self.values.append(&mut right.values);
    }
}

impl Rows {
    /// Those of a panel, of so many columns beside the bias.
    pub(crate) fn of(panel: &Panel<'_>, width: usize) -> Self {
        let mut rows = Self { width, ..Self::default() };
        if let Some(dense) = panel.dense() {
            dense.chunks_exact(panel.dim()).for_each(|row| rows.values.extend_from_slice(&row[..width]));
            return rows;
        }
        let shift = &panel.shift()[..width];
        if shift.iter().any(|b| *b != 0.0) {
            rows.shift.extend_from_slice(shift);
        }
        for i in 0..panel.rows() {
            panel.for_entries(i, |j, v| {
                rows.columns.push(j as u32);
                rows.values.push(v);
            });
            rows.ends.push(rows.values.len() as u32);
        }
        rows
    }

    /// Sparse rows with a single 1, one for each of these columns.
    pub(super) fn units(columns: std::ops::Range<usize>, width: usize) -> Self {
        let ends = (1..=columns.len() as u32).collect();
        Self { width, ends, values: vec![1.0; columns.len()], columns: columns.map(|j| j as u32).collect(), shift: Vec::new() }
    }

    /// One dense row.
    pub(super) fn one(row: Vec<f64>) -> Self {
        Self { width: row.len(), values: row, ..Self::default() }
    }

    fn dense(&self) -> bool {
        self.ends.is_empty()
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        if self.dense() { self.values.len() / self.width.max(1) } else { self.ends.len() }
    }

    /// Columns and values of a sparse row.
    fn entries(&self, i: usize) -> (&[u32], &[f64]) {
        let range = if i == 0 { 0 } else { self.ends[i - 1] as usize }..self.ends[i] as usize;
        (&self.columns[range.clone()], &self.values[range])
    }

    /// Calls f(i, row i) for all rows, made dense one after the other.
    fn each(&self, mut f: impl FnMut(usize, &[f64])) {
        if self.dense() {
            self.values.chunks_exact(self.width.max(1)).enumerate().for_each(|(i, row)| f(i, row));
            return;
        }
        let rest = |j: usize| self.shift.get(j).copied().unwrap_or(0.0);
        let mut row: Vec<f64> = (0..self.width).map(rest).collect();
        for i in 0..self.len() {
            let (columns, values) = self.entries(i);
            columns.iter().zip(values).for_each(|(&j, v)| row[j as usize] += v);
            f(i, &row);
            columns.iter().for_each(|&j| row[j as usize] = rest(j as usize));
        }
    }

    /// Inner products of other rows with these (others × rows).
    pub(super) fn products(&self, others: &Self) -> Vec<f64> {
        let n = self.len();
        let mut out = vec![0.0; others.len() * n];
        if self.dense() && others.dense() {
            linalg::mul_t(&others.values, &self.values, &mut out, others.len(), self.width, n, false);
            return out;
        }
        others.each(|i, other| {
            let of_shift = dot_long(&self.shift, &other[..self.shift.len()]);
            for (l, o) in out[i * n..(i + 1) * n].iter_mut().enumerate() {
                *o = if self.dense() {
                    dot_long(&self.values[l * self.width..(l + 1) * self.width], other)
                } else {
                    let (columns, values) = self.entries(l);
                    columns.iter().zip(values).fold(of_shift, |sum, (&j, v)| sum + v * other[j as usize])
                };
            }
        });
        out
    }

    /// Squared lengths.
    pub(super) fn squares(&self) -> Vec<f64> {
        let mut out = vec![0.0; self.len()];
        if self.dense() || !self.shift.is_empty() {
            self.each(|i, row| out[i] = dot_long(row, row));
        } else {
            out.iter_mut().enumerate().for_each(|(i, o)| *o = self.entries(i).1.iter().map(|v| v * v).sum());
        }
        out
    }

    /// Sums of rows, each times a number, of k sets of numbers (k×rows): k×columns.
    pub(super) fn combined(&self, times: &[f64], k: usize) -> Vec<f64> {
        let n = self.len();
        let mut out = vec![0.0; k * self.width];
        for (out, times) in out.chunks_exact_mut(self.width.max(1)).zip(times.chunks_exact(n.max(1))) {
            for (i, &t) in times.iter().enumerate() {
                if self.dense() {
                    out.iter_mut().zip(&self.values[i * self.width..]).for_each(|(o, v)| *o += t * v);
                } else {
                    let (columns, values) = self.entries(i);
                    columns.iter().zip(values).for_each(|(&j, v)| out[j as usize] += t * v);
                }
            }
            let all: f64 = times.iter().sum();
            out.iter_mut().zip(&self.shift).for_each(|(o, b)| *o += all * b);
        }
        out
    }
}
