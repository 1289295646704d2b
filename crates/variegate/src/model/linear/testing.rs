//! Two coefficients whose posteriors are known (oracles O3 and O4 of the specification).

use serde_json::{Map, Value};

use crate::data::{Classes, Dataset, Matrix, Target};

/// The exact posterior of the hinge: means of bias and slope, their variances and covariance.
pub(crate) const HINGE_MOMENTS: [f64; 5] = [-0.02506267, 0.66663829, 0.31155304, 0.22439947, 0.00765987];

/// Six rows, a bias and one column; prior precisions (1/4, 1).
pub(crate) fn six_rows() -> Dataset<'static> {
    let x = vec![-1.2, -0.4, 0.1, 0.7, 1.5, -0.9];
    let classes = Classes { codes: vec![0, 0, 1, 0, 1, 1], names: vec!["0".into(), "1".into()] };
    Dataset::new(Matrix::dense(6, 1, x)).with_target(Target::Classes(classes))
}

/// Settings as a map.
pub(crate) fn settings(pairs: &[(&str, Value)]) -> Map<String, Value> {
    pairs.iter().map(|(k, v)| (k.to_string(), v.clone())).collect()
}
