//! Mean, standard deviation and range of weighted numbers, block by block.
//!
//! With weights w_n and W = Σ w_n, a column has mean m = Σ w_n x_n / W and deviation s = √(Σ w_n (x_n − m)² / W), the population
//! form, so that a weight of 2 is the row twice. Within a block each column is first moved and shrunk to t = (x − c)/h in [−1, 1], which
//! keeps large means accurate and squares in range over all of f64; deviations are then summed in a pass of their own. The unstored
//! zeros of a sparse column are counted without being visited. Rows of weight 0 have no say. Blocks are merged by the formula of Chan,
//! Golub and LeVeque (1983), with the mean kept as c + offset and the squares taken of shrunk numbers, for the same two reasons.

use serde::{Deserialize, Serialize};

use crate::data::X;

/// Partial sums are closed after this many rows, which keeps their rounding error from growing with the number of rows.
const RUN: usize = 1024;

/// What is known of some numbers, for example those of a column.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Sum of their weights.
    weight: f64,
    /// Smallest and largest of them; the one above the other if there are none.
    low: f64,
    high: f64,
    /// The mean is origin + offset.
    origin: f64,
    offset: f64,
    /// Standard deviation.
    deviation: f64,
}

impl Default for Spread {
    fn default() -> Self {
        Self { weight: 0.0, low: f64::INFINITY, high: f64::NEG_INFINITY, origin: 0.0, offset: 0.0, deviation: 0.0 }
    }
}

impl Spread {
    /// Mean; 0 of nothing.
    pub fn mean(&self) -> f64 {
        self.origin + self.offset
    }

    /// Standard deviation (population form), unless all numbers are equal or differ by less than f64 can divide by.
    pub fn deviation(&self) -> Option<f64> {
        (self.low < self.high && self.deviation >= f64::MIN_POSITIVE).then_some(self.deviation)
    }

    /// Smallest and largest number, if there is any.
    pub fn range(&self) -> Option<(f64, f64)> {
        (self.low <= self.high).then_some((self.low, self.high))
    }

    /// Largest absolute value; 0 of nothing.
    pub fn largest(&self) -> f64 {
        self.range().map_or(0.0, |(low, high)| low.abs().max(high.abs()))
    }

    /// Takes in further numbers.
    pub fn merge(&mut self, right: &Self) {
        if right.weight == 0.0 {
            return;
        }
        if self.weight == 0.0 {
            *self = *right;
            return;
        }
        let (low, high) = (self.low.min(right.low), self.high.max(right.high));
        let weight = self.weight + right.weight;
        let (left_share, right_share) = (self.weight / weight, right.weight / weight);
        // a power of two near the largest number, so that nothing overflows and dividing by it rounds nothing
        let largest = [self.origin, self.offset, self.deviation, right.origin, right.offset, right.deviation]
            .iter()
            .fold(0.0f64, |m, v| m.max(v.abs()));
        let unit = if largest > 0.0 { 2f64.powi((largest.log2().floor() as i32).clamp(-1000, 1000)) } else { 1.0 };
        let gap = (right.origin / unit - self.origin / unit) + (right.offset / unit - self.offset / unit);
        let (a, b) = (self.deviation / unit, right.deviation / unit);
        let variance = left_share * a * a + right_share * b * b + left_share * right_share * gap * gap;
        let offset = (self.offset / unit + right_share * gap) * unit;
        *self = Self { weight, low, high, origin: self.origin, offset, deviation: variance.sqrt() * unit };
    }

    /// Spreads of the columns of a block; `weight` says that of each row.
    pub fn of_columns(x: X<'_>, weight: impl Fn(usize) -> f64) -> Vec<Self> {
        let cols = x.cols();
        let columns = Columns::ranges(x, &weight);
        let total = columns.total;
        if total <= 0.0 {
            return vec![Self::default(); cols];
        }
        // the origin is 0 wherever a column has unstored zeros, so they add nothing to the first sum
        let mean_t: Vec<f64> = columns.sums(x, &weight, |t, _| t).iter().map(|s| s / total).collect();
        let squares = columns.sums(x, &weight, |t, j| (t - mean_t[j]) * (t - mean_t[j]));
        (0..cols)
            .map(|j| {
                let ((c, h), (low, high)) = (columns.origin[j], columns.range[j]);
                let still = Self { weight: total, low, high, origin: c, offset: 0.0, deviation: 0.0 };
                if h == 0.0 {
                    return still;
                }
                let variance = (squares[j] + columns.unstored[j] * mean_t[j] * mean_t[j]) / total;
                Self { offset: h * mean_t[j], deviation: h * variance.sqrt(), ..still }
            })
            .collect()
    }

    /// Spreads of the real outcomes of a block, `width` a row.
    pub fn of_outcomes(values: &[f64], width: usize, weight: impl Fn(usize) -> f64) -> Vec<Self> {
        let rows = values.len() / width.max(1);
        let total: f64 = (0..rows).map(&weight).sum();
        if total <= 0.0 {
            return vec![Self::default(); width];
        }
        let of = |q: usize| (0..rows).map(move |i| (i, values[i * width + q]));
        (0..width)
            .map(|q| {
                let mean = of(q).map(|(i, v)| weight(i) * v).sum::<f64>() / total;
                let square: f64 = of(q).map(|(i, v)| weight(i) * (v - mean).powi(2)).sum();
                let counted = || of(q).filter(|(i, _)| weight(*i) > 0.0).map(|(_, v)| v);
                let (low, high) = (counted().fold(f64::INFINITY, f64::min), counted().fold(f64::NEG_INFINITY, f64::max));
                Self { weight: total, low, high, origin: 0.0, offset: mean, deviation: (square / total).sqrt() }
            })
            .collect()
    }
}

/// Merges the spreads of the same columns in two blocks; none is nothing.
pub(super) fn merge_spreads(left: &mut Vec<Spread>, right: Vec<Spread>) {
    if left.is_empty() {
        *left = right;
    } else {
        left.iter_mut().zip(&right).for_each(|(l, r)| l.merge(r));
    }
}

/// Running sums of every column.
struct Columns {
    /// Where t is 0, and the half-width of the range.
    origin: Vec<(f64, f64)>,
    /// Smallest and largest value.
    range: Vec<(f64, f64)>,
    /// Total weight.
    total: f64,
    /// Weight of the rows that do not store the column.
    unstored: Vec<f64>,
}

impl Columns {
    fn ranges(x: X<'_>, weight: &impl Fn(usize) -> f64) -> Self {
        let cols = x.cols();
        let (mut low, mut high) = (vec![f64::INFINITY; cols], vec![f64::NEG_INFINITY; cols]);
        let (mut total, mut rows) = (0.0, 0usize);
        let mut stored = vec![(0usize, 0.0); if matches!(x, X::Csr { .. }) { cols } else { 0 }];
        for i in 0..x.rows() {
            let w = weight(i);
            if w == 0.0 {
                continue;
            }
            total += w;
            rows += 1;
            match x {
                X::Dense { values, .. } => {
                    for ((l, h), &v) in low.iter_mut().zip(&mut high).zip(&values[i * cols..(i + 1) * cols]) {
                        *l = l.min(v);
                        *h = h.max(v);
                    }
                }
                X::Csr { .. } => x.for_row(i, |j, v| {
                    low[j] = low[j].min(v);
                    high[j] = high[j].max(v);
                    stored[j].0 += 1;
                    stored[j].1 += w;
                }),
            }
        }
        let mut unstored = vec![0.0; cols];
        for (j, &(count, weight)) in stored.iter().enumerate() {
            if count < rows {
                low[j] = low[j].min(0.0);
                high[j] = high[j].max(0.0);
                unstored[j] = (total - weight).max(0.0);
            }
        }
        let range: Vec<_> = low.into_iter().zip(high).collect();
        let origin = range.iter().map(|&(l, h)| origin(l, h)).collect();
        Self { origin, range, total, unstored }
    }

    /// Σ w f(t, column) over the stored entries, one sum a column.
    fn sums(&self, x: X<'_>, weight: &impl Fn(usize) -> f64, f: impl Fn(f64, usize) -> f64) -> Vec<f64> {
        let cols = x.cols();
        let (mut sums, mut run) = (vec![0.0; cols], vec![0.0; cols]);
        for start in (0..x.rows()).step_by(RUN) {
            run.fill(0.0);
            for i in start..(start + RUN).min(x.rows()) {
                let w = weight(i);
                if w == 0.0 {
                    continue;
                }
                match x {
                    X::Dense { values, .. } => {
                        let row = &values[i * cols..(i + 1) * cols];
                        for (j, ((r, &v), &(c, h))) in run.iter_mut().zip(row).zip(&self.origin).enumerate() {
                            *r += w * f((v - c) / h, j);
                        }
                    }
                    X::Csr { .. } => x.for_row(i, |j, v| {
                        let (c, h) = self.origin[j];
                        run[j] += w * f((v - c) / h, j);
                    }),
                }
            }
            for (s, r) in sums.iter_mut().zip(&run) {
                *s += r;
            }
        }
        sums
    }
}

/// Centre and half-width of the range, the centre 0 if 0 lies in it. The width is 0 for a constant column.
fn origin(low: f64, high: f64) -> (f64, f64) {
    if low > high {
        return (0.0, 0.0); // no row has a say
    }
    if low == high {
        return (low, 0.0);
    }
    let c = if low <= 0.0 && 0.0 <= high { 0.0 } else { low / 2.0 + high / 2.0 };
    let h = (high - c).max(c - low);
    (c, if h >= f64::MIN_POSITIVE { h } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of several sizes against one block: large means, extreme sizes, weights, rows without a say.
    #[test]
    fn merged_blocks_agree_with_one() {
        let rows = 200;
        let value =
            |i: usize| [1e9 + (i * 7 % 11) as f64, [1.7e308, -1.7e308, 0.5][i % 3], 1e-200 * (i % 5) as f64, 7.0, (i * i % 17) as f64];
        let values: Vec<f64> = (0..rows).flat_map(value).collect();
        let weight = |i: usize| [1.0, 0.0, 2.5, 0.25][i % 4];
        let all = |range: std::ops::Range<usize>| {
            let x = X::Dense { rows: range.len(), cols: 5, values: &values[5 * range.start..5 * range.end] };
            Spread::of_columns(x, |i| weight(range.start + i))
        };
        let whole = all(0..rows);
        for block in [1, 3, 64, 150] {
            let mut merged = Vec::new();
            for first in (0..rows).step_by(block) {
                merge_spreads(&mut merged, all(first..(first + block).min(rows)));
            }
            for (j, (a, b)) in merged.iter().zip(&whole).enumerate() {
                assert_eq!((a.range(), a.deviation().is_some()), (b.range(), b.deviation().is_some()), "column {j}");
                let (sd, reference) = (a.deviation().unwrap_or(1.0), b.deviation().unwrap_or(1.0));
                assert!((sd / reference - 1.0).abs() < 1e-12, "column {j} in blocks of {block}: {sd} for {reference}");
                assert!(
                    ((a.mean() - b.mean()) / reference).abs() < 1e-12 + 1e-16 * (b.mean() / reference).abs(),
                    "column {j}: {a:?} {b:?}"
                );
            }
        }
        assert_eq!(Spread::default().range(), None);
        assert_eq!(whole[3].deviation(), None);
    }
}
