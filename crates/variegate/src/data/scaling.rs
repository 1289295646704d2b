//! Fitting a [`Design`]: column means and standard deviations, and which columns are constant.
//!
//! With weights w_n and W = Σ w_n, column j has mean m = Σ w_n x_nj / W and scale s = √(Σ w_n (x_nj − m)² / W), the population
//! form, so that a weight of 2 is the row twice. Each column is first moved and shrunk to t = (x − c)/h in [−1, 1], which keeps
//! large means accurate and squares in range over all of f64; deviations are then summed in a pass of their own. The unstored
//! zeros of a sparse column are counted without being visited. Rows of weight 0 have no say.

use super::{Design, Matrix, X};

/// What [`Design::fit`] should do to the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scaling {
    /// Subtract the mean.
    pub center: bool,
    /// Divide by the standard deviation.
    pub scale: bool,
    /// Append a column of ones.
    pub intercept: bool,
    /// Leave constant columns out. (Without centring or intercept a constant column can carry the level: then keep it.)
    pub drop_constant: bool,
}

impl Default for Scaling {
    fn default() -> Self {
        Self { center: true, scale: true, intercept: true, drop_constant: true }
    }
}

/// Partial sums are closed after this many rows, which keeps their rounding error from growing with the number of rows.
const RUN: usize = 1024;

impl Design {
    /// Measures the columns of checked data. Also returns the raw columns that were dropped because they are constant.
    ///
    /// A column counts as constant if all its values are equal or differ by less than f64 can divide by. A constant column that
    /// is kept has scale 1. If every column is constant only the intercept remains.
    pub fn fit(x: &Matrix<'_>, weights: Option<&[f64]>, options: Scaling) -> (Self, Vec<usize>) {
        let columns = Columns::measure(x.view(), weights);
        let (mut kept, mut dropped, mut mean, mut scale) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (j, &(m, sd)) in columns.iter().enumerate() {
            let constant = sd.is_none();
            if constant && options.drop_constant {
                dropped.push(j);
                continue;
            }
            kept.push(j as u32);
            mean.push(if options.center { m } else { 0.0 });
            scale.push(if options.scale { sd.unwrap_or(1.0) } else { 1.0 });
        }
        (Self { kept, raw_cols: x.cols(), mean, scale, intercept: options.intercept, map: None }, dropped)
    }
}

impl Design {
    /// Scales every kept column by its largest absolute value instead. A column of zeros has scale 1.
    pub fn scale_to_largest(&mut self, x: &Matrix<'_>, weights: Option<&[f64]>) {
        let mut largest = vec![0.0f64; self.raw_cols];
        let x = x.view();
        for i in (0..x.rows()).filter(|i| weights.is_none_or(|w| w[*i] > 0.0)) {
            x.for_row(i, |j, v| largest[j] = largest[j].max(v.abs()));
        }
        for (scale, j) in self.scale.iter_mut().zip(&self.kept) {
            let most = largest[*j as usize];
            *scale = if most >= f64::MIN_POSITIVE { most } else { 1.0 };
        }
    }
}

/// Running sums of every column.
struct Columns {
    /// Where t is 0, and the half-width of the range.
    origin: Vec<(f64, f64)>,
    /// Total weight.
    total: f64,
    /// Weight of the rows that do not store the column.
    unstored: Vec<f64>,
}

impl Columns {
    /// Mean and, unless the column is constant, standard deviation of each column.
    fn measure(x: X<'_>, weights: Option<&[f64]>) -> Vec<(f64, Option<f64>)> {
        let cols = x.cols();
        let columns = Self::ranges(x, weights);
        if columns.total <= 0.0 {
            return vec![(0.0, None); cols];
        }
        let total = columns.total;
        // the origin is 0 wherever a column has unstored zeros, so they add nothing to the first sum
        let mean_t: Vec<f64> = columns.sums(x, weights, |t, _| t).iter().map(|s| s / total).collect();
        let squares = columns.sums(x, weights, |t, j| (t - mean_t[j]) * (t - mean_t[j]));
        (0..cols)
            .map(|j| {
                let (c, h) = columns.origin[j];
                if h == 0.0 {
                    return (c, None);
                }
                let variance = (squares[j] + columns.unstored[j] * mean_t[j] * mean_t[j]) / total;
                let sd = h * variance.sqrt();
                (c + h * mean_t[j], (sd >= f64::MIN_POSITIVE).then_some(sd))
            })
            .collect()
    }

    fn ranges(x: X<'_>, weights: Option<&[f64]>) -> Self {
        let cols = x.cols();
        let (mut low, mut high) = (vec![f64::INFINITY; cols], vec![f64::NEG_INFINITY; cols]);
        let (mut total, mut rows) = (0.0, 0usize);
        let mut stored = vec![(0usize, 0.0); if matches!(x, X::Csr { .. }) { cols } else { 0 }];
        for i in 0..x.rows() {
            let w = weights.map_or(1.0, |w| w[i]);
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
        let origin = low.iter().zip(&high).map(|(&l, &h)| origin(l, h)).collect();
        Self { origin, total, unstored }
    }

    /// Σ w f(t, column) over the stored entries, one sum a column.
    fn sums(&self, x: X<'_>, weights: Option<&[f64]>, f: impl Fn(f64, usize) -> f64) -> Vec<f64> {
        let cols = x.cols();
        let (mut sums, mut run) = (vec![0.0; cols], vec![0.0; cols]);
        for start in (0..x.rows()).step_by(RUN) {
            run.fill(0.0);
            for i in start..(start + RUN).min(x.rows()) {
                let w = weights.map_or(1.0, |w| w[i]);
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
    use proptest::prelude::*;

    fn csr(rows: usize, cols: usize, dense: &[f64]) -> Matrix<'static> {
        let (mut indptr, mut indices, mut values) = (vec![0usize], vec![], vec![]);
        for row in dense.chunks(cols) {
            for (j, &v) in row.iter().enumerate().filter(|(_, v)| **v != 0.0) {
                indices.push(j as u32);
                values.push(v);
            }
            indptr.push(indices.len());
        }
        Matrix::Csr { rows, cols, indptr: indptr.into(), indices: indices.into(), values: values.into() }
    }

    fn close(a: f64, b: f64, tolerance: f64) -> bool {
        (a - b).abs() <= tolerance * a.abs().max(b.abs()).max(1e-300)
    }

    #[test]
    fn means_and_deviations_of_a_small_table() {
        let x = Matrix::dense(4, 3, vec![1.0, 5.0, 0.0, 2.0, 5.0, 0.0, 3.0, 5.0, 8.0, 6.0, 5.0, 0.0]);
        let (d, dropped) = Design::fit(&x, None, Scaling::default());
        assert_eq!(dropped, [1]);
        assert_eq!(d.kept, [0, 2]);
        assert_eq!((d.raw_cols, d.dim()), (3, 3));
        assert_eq!(d.mean, [3.0, 2.0]);
        assert!(close(d.scale[0], 3.5f64.sqrt(), 1e-15) && close(d.scale[1], 12f64.sqrt(), 1e-15));
        let (d, dropped) = Design::fit(&x, None, Scaling { center: false, scale: false, intercept: false, drop_constant: false });
        assert!(dropped.is_empty());
        assert_eq!((d.mean, d.scale, d.intercept), (vec![0.0; 3], vec![1.0; 3], false));
        let (d, _) = Design::fit(&x, None, Scaling { drop_constant: false, ..Scaling::default() });
        assert_eq!((d.mean[1], d.scale[1]), (5.0, 1.0));
    }

    #[test]
    fn columns_are_scaled_to_their_largest_entry() {
        let dense = [0.0, -4.0, 0.0, 2.0, 1.0, 0.0, 0.5, 3.0, 0.0];
        for x in [Matrix::dense(3, 3, dense.to_vec()), csr(3, 3, &dense)] {
            let (mut d, _) = Design::fit(&x, None, Scaling { center: false, drop_constant: false, ..Scaling::default() });
            d.scale_to_largest(&x, Some(&[1.0, 1.0, 0.0]));
            assert_eq!((d.mean, d.scale), (vec![0.0; 3], vec![2.0, 4.0, 1.0]));
        }
    }

    #[test]
    fn all_columns_constant_leaves_the_intercept() {
        for x in [Matrix::dense(3, 2, vec![0.0, 7.0, 0.0, 7.0, 0.0, 7.0]), csr(3, 2, &[0.0, 7.0, 0.0, 7.0, 0.0, 7.0])] {
            let (d, dropped) = Design::fit(&x, None, Scaling::default());
            assert_eq!((d.dim(), dropped), (1, vec![0, 1]));
        }
    }

    #[test]
    fn large_means_and_extreme_sizes_lose_nothing() {
        let values: Vec<f64> = (0..1001).map(|i| 1e9 + (i % 7) as f64).collect();
        let expected = {
            let d: Vec<f64> = (0..1001).map(|i| (i % 7) as f64).collect();
            let m = d.iter().sum::<f64>() / 1001.0;
            (1e9 + m, (d.iter().map(|v| (v - m) * (v - m)).sum::<f64>() / 1001.0).sqrt())
        };
        for x in [Matrix::dense(1001, 1, values.clone()), csr(1001, 1, &values)] {
            let (d, _) = Design::fit(&x, None, Scaling::default());
            assert!(close(d.mean[0], expected.0, 1e-15) && close(d.scale[0], expected.1, 1e-13), "{d:?} {expected:?}");
        }
        let x = Matrix::dense(2, 4, vec![1.7e308, 1e-200, 5e-324, 1e16, -1.7e308, 3e-200, 1e-323, 1e16 + 2.0]);
        let (d, dropped) = Design::fit(&x, None, Scaling::default());
        assert_eq!(dropped, [2], "a difference that cannot be divided by is none");
        for (got, want) in d.mean.iter().zip([0.0, 2e-200, 1e16 + 1.0]) {
            assert!(close(*got, want, 1e-15), "{got} {want}");
        }
        for (got, want) in d.scale.iter().zip([1.7e308, 1e-200, 1.0]) {
            assert!(close(*got, want, 1e-15), "{got} {want}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// Dense and sparse agree, and a whole weight is the row so many times (0: not at all).
        #[test]
        fn weights_repeat_rows_and_sparse_equals_dense(
            cols in 1usize..5,
            picks in prop::collection::vec((0usize..4, prop::collection::vec(prop_oneof![Just(0.0), -5.0..5.0f64], 4)), 1..40),
        ) {
            let (mut plain, mut repeated, mut weights) = (vec![], vec![], vec![]);
            for (w, row) in &picks {
                plain.extend_from_slice(&row[..cols]);
                weights.push(*w as f64);
                for _ in 0..*w {
                    repeated.extend_from_slice(&row[..cols]);
                }
            }
            prop_assume!(!repeated.is_empty());
            let all = Matrix::dense(repeated.len() / cols, cols, repeated.clone());
            let (a, dropped) = Design::fit(&all, None, Scaling::default());
            for x in [Matrix::dense(picks.len(), cols, plain.clone()), csr(picks.len(), cols, &plain)] {
                let (b, also) = Design::fit(&x, Some(&weights), Scaling::default());
                prop_assert_eq!(&dropped, &also);
                prop_assert_eq!(&a.kept, &b.kept);
                for (p, q) in a.mean.iter().chain(&a.scale).zip(b.mean.iter().chain(&b.scale)) {
                    prop_assert!((p - q).abs() < 1e-13, "{} {}", p, q);
                }
            }
        }
    }
}
