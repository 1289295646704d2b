//! Squared distances between rows: products of panels to search by, plain sums to decide by.
//!
//! |x − y|² = |x|² − 2 x·y + |y|² is fast, since x·y is a product of matrices, but its last bits depend on the place of a row in its
//! panel and on the processor, and little is left of it where rows are long and close. So it only says which rows may be the nearest:
//! those within [`Rows::slack`] of the best. Among these the sum of squared differences decides, and what is found has the same bits
//! everywhere and is what plain loops would find: rows that are equal are equally far.

use crate::linalg::dot;

/// Largest squared length up to which the products of whole numbers, and |x|² − 2 x·y + |y|², are exact in whatever order they are
/// summed: no part of the sum exceeds 2⁵³.
const WHOLE: f64 = (1u64 << 51) as f64;

/// Rows and their squared lengths.
pub(super) struct Rows<'a> {
    /// The numbers, row by row.
    pub(super) values: &'a [f64],
    /// Number of rows.
    pub(super) n: usize,
    /// Numbers a row.
    pub(super) d: usize,
    /// Squared length of each row.
    pub(super) squares: Vec<f64>,
    /// The largest of these; infinite if one of them is not finite.
    pub(super) largest: f64,
}

impl<'a> Rows<'a> {
    /// The first n rows of d numbers.
    pub(super) fn new(values: &'a [f64], n: usize, d: usize) -> Self {
        let values = &values[..n * d];
        let squares: Vec<f64> = (0..n).map(|i| &values[i * d..(i + 1) * d]).map(|row| dot(row, row)).collect();
        let largest = if squares.iter().all(|s| s.is_finite()) { squares.iter().copied().fold(0.0, f64::max) } else { f64::INFINITY };
        Self { values, n, d, squares, largest }
    }

    /// One row.
    pub(super) fn row(&self, i: usize) -> &'a [f64] {
        &self.values[i * self.d..(i + 1) * self.d]
    }

    /// Several rows that follow one another.
    pub(super) fn panel(&self, first: usize, count: usize) -> &'a [f64] {
        &self.values[first * self.d..(first + count) * self.d]
    }

    /// Whether distances between such rows come out exact from products.
    pub(super) fn are_whole(&self) -> bool {
        self.largest <= WHOLE && self.values.iter().all(|v| v.trunc() == *v)
    }

    /// How far |y|² − 2 x·y + |x|² and the sum of squared differences can be from one another, for these rows y and an x of this squared
    /// length. Errors of sums of d terms are at most d·u times the sum of what is summed, u = ε/2: d for |y|² and for 2 x·y, which
    /// is at most |x|² + |y|², and twice that for |x − y|² ≤ 2(|x|² + |y|²), and a few for the last steps.
    pub(super) fn slack(&self, square: f64) -> f64 {
        (2 * self.d + 16) as f64 * f64::EPSILON * (square + self.largest) + f64::MIN_POSITIVE
    }
}

/// Sum of squared differences, in index order.
pub(super) fn squared_distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| (x - y) * (x - y)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg::mul_t;
    use crate::run::{Purpose, Stream, open01};

    /// Rows of many lengths and with a common shift, which is the worst case: the two ways never differ by more than they may.
    #[test]
    fn both_ways_agree_within_the_slack() {
        let mut rng = Stream::new(1, 0, Purpose::Check).rng();
        for (d, shift, scale) in [(1, 0.0, 1.0), (3, 1e8, 1.0), (50, 1e3, 1e-3), (400, -1.0, 1e4), (7, 0.0, 1e-170)] {
            let mut draw = |n: usize| -> Vec<f64> { (0..n * d).map(|_| shift + scale * (open01(&mut rng) - 0.5)).collect() };
            let (x, y) = (draw(9), draw(40));
            let (x, y) = (Rows::new(&x, 9, d), Rows::new(&y, 40, d));
            let mut products = vec![0.0; 9 * 40];
            mul_t(x.values, y.values, &mut products, 9, d, 40, false);
            for (at, product) in products.iter().enumerate() {
                let (i, j) = (at / 40, at % 40);
                let fast = y.squares[j] - 2.0 * product + x.squares[i];
                let plain = squared_distance(x.row(i), y.row(j));
                assert!((fast - plain).abs() <= y.slack(x.squares[i]), "{d} {shift}: {fast} {plain}");
            }
        }
    }

    #[test]
    fn whole_numbers_are_told_from_others() {
        let whole = |v: &[f64]| Rows::new(v, 1, v.len()).are_whole();
        assert!(whole(&[0.0, 1.0, -3.0]) && whole(&[]) && whole(&[(1 << 25) as f64]));
        assert!(!whole(&[0.5]) && !whole(&[(1 << 26) as f64]) && !whole(&[f64::NAN]) && !whole(&[f64::INFINITY]));
        assert_eq!(Rows::new(&[1.0, f64::NAN], 2, 1).largest, f64::INFINITY);
    }
}
