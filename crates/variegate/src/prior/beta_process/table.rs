//! Probabilities of numbers of ones, tabled over the nodes of a rule.

use super::rule::{pattern_level, rule};
use super::source::Source;

/// A sum below this may have lost terms to underflow.
const LEAST: f64 = 1e-200;

/// `rise(al b, n) rise(al (1-b), N-n) / rise(al, N)` at every node `b`, for one `n` after another.
#[derive(Debug, Clone)]
pub(super) struct Table(Vec<f64>);

impl Table {
    /// For a process of `total` rows.
    pub(super) fn new(source: &Source, total: u64) -> Self {
        let rule = rule(pattern_level(total));
        let (size, rows, al) = (rule.b.len(), source.rows as usize, source.al);
        let inverse: Vec<f64> = (0..rows).map(|t| 1.0 / (al + t as f64)).collect();
        // rise(al, n) rise(al, N-n) / rise(al, N); from both ends, as it may underflow between them
        let mut split = vec![1.0; rows + 1];
        for n in 1..=rows / 2 {
            split[n] = split[n - 1] * (al + (n - 1) as f64) * inverse[rows - n];
        }
        for n in 0..=rows / 2 {
            split[rows - n] = split[n];
        }
        // every factor is at most 1: what underflows is of no account
        let mut table = Vec::with_capacity(size * (rows + 1));
        let mut up = vec![1.0; size];
        table.extend_from_slice(&up);
        for t in 0..rows {
            for (up, b) in up.iter_mut().zip(&rule.b) {
                *up *= (al * b + t as f64) * inverse[t];
            }
            table.extend_from_slice(&up);
        }
        let mut down = vec![1.0; size];
        for (t, row) in table.chunks_exact_mut(size).rev().enumerate() {
            let (split, inverse) = (split[t], inverse.get(t).copied().unwrap_or(0.0));
            for ((value, down), rest) in row.iter_mut().zip(&mut down).zip(&rule.rest) {
                *value *= *down * split;
                *down *= (al * rest + t as f64) * inverse;
            }
        }
        Self(table)
    }
}

/// `A(n)`; none where nothing is tabled, or it is too small.
pub(super) fn sum(tables: &[Table], counts: &[u32], total: u64) -> Option<f64> {
    if tables.is_empty() {
        return None;
    }
    let weight = &rule(pattern_level(total)).weight;
    let size = weight.len();
    let at = |(i, &weight): (usize, &f64)| tables.iter().zip(counts).fold(weight, |all, (table, &n)| all * table.0[n as usize * size + i]);
    let sum: f64 = weight.iter().enumerate().map(at).sum();
    (sum > LEAST).then_some(sum)
}
