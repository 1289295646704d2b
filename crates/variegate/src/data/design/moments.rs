//! Weighted means, deviations and ranges of columns that come by row, once.
//!
//! Within a run of rows mean and sum of squared deviations are updated row by row (Welford 1962, West 1979 for weights); runs are then
//! merged (Chan, Golub and LeVeque 1983), which keeps the rounding error from growing with the number of rows.

use serde::{Deserialize, Serialize};

/// Rows of a run.
const RUN: usize = 1024;

/// Moments of all rows added so far.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Moments {
    whole: Sums,
    run: Sums,
    run_rows: usize,
    /// Smallest and largest value of each column.
    range: Vec<(f64, f64)>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Sums {
    total: f64,
    mean: Vec<f64>,
    squares: Vec<f64>,
}

impl Sums {
    fn new(columns: usize) -> Self {
        Self { total: 0.0, mean: vec![0.0; columns], squares: vec![0.0; columns] }
    }

    fn merge(&mut self, right: &Self) {
        if right.total > 0.0 {
            let total = self.total + right.total;
            let share = right.total / total;
            for (((m, s), n), t) in self.mean.iter_mut().zip(&mut self.squares).zip(&right.mean).zip(&right.squares) {
                let gap = n - *m;
                *m += share * gap;
                *s += t + gap * gap * (share * self.total);
            }
            self.total = total;
        }
    }
}

impl Moments {
    pub(crate) fn new(columns: usize) -> Self {
        let range = vec![(f64::INFINITY, f64::NEG_INFINITY); columns];
        Self { whole: Sums::new(columns), run: Sums::new(columns), run_rows: 0, range }
    }

    /// Adds a row. A weight of 0 adds nothing.
    pub(super) fn add(&mut self, weight: f64, row: &[f64]) {
        if weight == 0.0 {
            return;
        }
        let run = &mut self.run;
        run.total += weight;
        let share = weight / run.total;
        for ((m, s), &v) in run.mean.iter_mut().zip(&mut run.squares).zip(row) {
            let before = v - *m;
            *m += share * before;
            *s += weight * before * (v - *m);
        }
        for ((low, high), &v) in self.range.iter_mut().zip(row) {
            *low = low.min(v);
            *high = high.max(v);
        }
        self.run_rows += 1;
        if self.run_rows == RUN {
            self.close_run();
        }
    }

    fn close_run(&mut self) {
        let Self { whole, run, .. } = self;
        whole.merge(run);
        run.total = 0.0;
        run.mean.fill(0.0);
        run.squares.fill(0.0);
        self.run_rows = 0;
    }

    /// Takes in later rows of the same columns.
    pub(crate) fn merge(&mut self, mut right: Self) {
        if self.range.is_empty() {
            *self = right;
            return;
        }
        self.close_run();
        right.close_run();
        self.whole.merge(&right.whole);
        for ((low, high), (l, h)) in self.range.iter_mut().zip(right.range) {
            *low = low.min(l);
            *high = high.max(h);
        }
    }

    /// Mean, standard deviation (population form), smallest and largest value of each column; nothing if no row had weight.
    pub(super) fn finish(mut self) -> Option<Vec<Column>> {
        self.close_run();
        let Sums { total, mean, squares } = self.whole;
        (total > 0.0).then(|| {
            let columns = mean.iter().zip(&squares).zip(&self.range);
            columns.map(|((&mean, s), &(low, high))| Column { mean, sd: (s / total).sqrt(), low, high }).collect()
        })
    }
}

/// What is known of a column.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    pub mean: f64,
    pub sd: f64,
    pub low: f64,
    pub high: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_rows_are_all_rows() {
        let row = |i: usize| [(i % 7) as f64, 1e6 + (i * i % 13) as f64];
        let of = |rows: std::ops::Range<usize>| {
            let mut moments = Moments::new(2);
            rows.for_each(|i| moments.add(1.0 + (i % 2) as f64, &row(i)));
            moments
        };
        let (mut merged, whole) = (Moments::default(), of(0..1500).finish().unwrap());
        [0..400, 400..401, 401..1500].into_iter().for_each(|part| merged.merge(of(part)));
        for (a, b) in merged.finish().unwrap().iter().zip(&whole) {
            assert!((a.mean - b.mean).abs() < 1e-8 && (a.sd / b.sd - 1.0).abs() < 1e-9, "{a:?} {b:?}"); // 1e6 has ten digits left
            assert_eq!((a.low, a.high), (b.low, b.high));
        }
    }

    /// Runs of several lengths, weights and a large mean, against two passes.
    #[test]
    fn one_pass_equals_two() {
        for rows in [1usize, 5, 1024, 1025, 5000] {
            let value = |i: usize| [1e8 + ((i * 7919) % 1009) as f64, ((i * 31) % 17) as f64 - 8.0];
            let weight = |i: usize| [1.0, 0.0, 2.5, 0.25][i % 4];
            let mut moments = Moments::new(2);
            (0..rows).for_each(|i| moments.add(weight(i), &value(i)));
            let got = moments.finish().unwrap();
            let total: f64 = (0..rows).map(weight).sum();
            for (j, (c, offset)) in got.iter().zip([1e8, 0.0]).enumerate() {
                let mean = (0..rows).map(|i| weight(i) * (value(i)[j] - offset)).sum::<f64>() / total;
                let sd = ((0..rows).map(|i| weight(i) * (value(i)[j] - offset - mean).powi(2)).sum::<f64>() / total).sqrt();
                assert!((c.mean - offset - mean).abs() < 1e-7 && (c.sd - sd).abs() < 1e-10 * (1.0 + sd), "{rows} {c:?} {mean} {sd}");
                let seen = || (0..rows).filter(|&i| weight(i) > 0.0).map(|i| value(i)[j]);
                assert_eq!((c.low, c.high), (seen().fold(f64::INFINITY, f64::min), seen().fold(f64::NEG_INFINITY, f64::max)));
            }
        }
        assert!(Moments::new(1).finish().is_none());
    }
}
