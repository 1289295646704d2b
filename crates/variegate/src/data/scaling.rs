//! From measured columns to a [`Design`]: which columns are kept, what is subtracted, what they are divided by.

use serde::{Deserialize, Serialize};

use super::Design;
use super::survey::Spread;

/// What a [`Design`] should do to the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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

impl Design {
    /// The design of measured columns. Also returns the raw columns that were dropped because they are constant.
    ///
    /// A column counts as constant if all its values are equal or differ by less than f64 can divide by. A constant column that
    /// is kept has scale 1. If every column is constant only the intercept remains.
    pub(crate) fn of_columns(columns: &[Spread], options: Scaling) -> (Self, Vec<usize>) {
        let (mut kept, mut dropped, mut mean, mut scale) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (j, column) in columns.iter().enumerate() {
            let sd = column.deviation();
            if sd.is_none() && options.drop_constant {
                dropped.push(j);
                continue;
            }
            kept.push(j as u32);
            mean.push(if options.center { column.mean() } else { 0.0 });
            scale.push(if options.scale { sd.unwrap_or(1.0) } else { 1.0 });
        }
        (Self { kept, raw_cols: columns.len(), mean, scale, intercept: options.intercept, map: None }, dropped)
    }

    /// Scales every kept column by its largest absolute value instead. A column of zeros has scale 1.
    pub(crate) fn scale_to_largest(&mut self, columns: &[Spread]) {
        for (scale, j) in self.scale.iter_mut().zip(&self.kept) {
            let most = columns[*j as usize].largest();
            *scale = if most >= f64::MIN_POSITIVE { most } else { 1.0 };
        }
    }

    /// The design of rows that are all here, as one block.
    #[cfg(test)]
    pub(crate) fn fit(x: &super::Matrix<'_>, weights: Option<&[f64]>, options: Scaling) -> (Self, Vec<usize>) {
        Self::of_columns(&Spread::of_columns(x.view(), |i| weights.map_or(1.0, |w| w[i])), options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Matrix;
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
            d.scale_to_largest(&Spread::of_columns(x.view(), |i| [1.0, 1.0, 0.0][i]));
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
