//! Tests of the kernels: known values and ratios (`values.rs`), draws (`draws.rs`), powers of the likelihood (`tempered.rs`), learned numbers
//! (`learned.rs`), the door (`door.rs`).

mod door;
mod draws;
mod learned;
mod tempered;
mod values;

use super::{Columns, Family, Kernel, Matrix, Prior};

const GAP: f64 = f64::NAN;

fn names(dim: usize) -> Vec<String> {
    (1..=dim).map(|d| format!("c{d}")).collect()
}

/// Binds to rows, which also give the defaults.
fn bound(family: Family, prior: &Prior, x: &[f64], dim: usize) -> Kernel {
    let columns = Columns::of(family, x, &names(dim)).unwrap();
    Kernel::bind(family, prior, &columns).unwrap().0
}

fn statistics(kernel: &Kernel, rows: &[&[f64]]) -> Vec<f64> {
    let mut stats = vec![0.0; kernel.statistics()];
    rows.iter().for_each(|row| kernel.add(&mut stats, row, 1.0));
    stats
}

/// A kernel with some rows of its own; the last is not yet among the atom's.
#[derive(Clone)]
struct Case {
    name: &'static str,
    kernel: Kernel,
    rows: Vec<Vec<f64>>,
}

impl Case {
    fn new(name: &'static str, family: Family, prior: Prior, rows: Vec<Vec<f64>>) -> Self {
        let x: Vec<f64> = rows.concat();
        Self { name, kernel: bound(family, &prior, &x, rows[0].len()), rows }
    }

    /// All rows but the last.
    fn stats(&self) -> Vec<f64> {
        let rows: Vec<&[f64]> = self.rows[..self.rows.len() - 1].iter().map(Vec::as_slice).collect();
        statistics(&self.kernel, &rows)
    }

    fn new_row(&self) -> &[f64] {
        &self.rows[self.rows.len() - 1]
    }
}

fn skew(dim: usize, off: f64) -> Matrix {
    Matrix::Full((0..dim * dim).map(|at| if at / dim == at % dim { 1.0 + (at / dim) as f64 } else { off }).collect())
}

/// Every family, with missing cells where they may be, and matrices that are not diagonal.
fn cases() -> Vec<Case> {
    let whole = vec![vec![0.5, -1.0, 3.0], vec![1.5, 0.2, 2.0], vec![-0.3, 0.8, 4.5], vec![0.1, 0.4, 2.5]];
    let mut gaps = whole.clone();
    (gaps[0][1], gaps[2][0], gaps[3][2]) = (GAP, GAP, GAP);
    let answers = vec![vec![1.0, 0.0, 1.0], vec![1.0, GAP, 0.0], vec![0.0, 1.0, 1.0], vec![1.0, 1.0, GAP]];
    let codes = vec![vec![0.0, 3.0], vec![1.0, GAP], vec![GAP, 1.0], vec![1.0, 3.0]];
    let counts = vec![vec![0.0, 7.0, 2.0], vec![1.0, 4.0, 0.0], vec![3.0, 9.0, 1.0], vec![2.0, 5.0, 0.0]];
    let mut count_gaps = counts.clone();
    (count_gaps[1][0], count_gaps[3][1]) = (GAP, GAP);
    let matrices = Prior { covariance: Some(skew(3, 0.4)), mean_covariance: Some(skew(3, -0.3)), ..Prior::default() };
    let turned = Prior { mean_covariance: Some(skew(3, 0.6)), ..Prior::default() };
    vec![
        Case::new("diag", Family::GaussianDiag, Prior::default(), gaps.clone()),
        Case::new("known", Family::GaussianKnown, Prior::default(), gaps.clone()),
        Case::new("known, matrices", Family::GaussianKnown, matrices, whole.clone()),
        Case::new("tied", Family::GaussianTied, Prior::default(), gaps),
        Case::new("tied, matrix", Family::GaussianTied, turned, whole.clone()),
        Case::new("full", Family::GaussianFull, Prior::default(), whole),
        Case::new("bernoulli", Family::Bernoulli, Prior::default(), answers),
        Case::new("categorical", Family::Categorical, Prior::default(), codes),
        Case::new("poisson", Family::Poisson, Prior::default(), count_gaps),
        Case::new("multinomial", Family::Multinomial, Prior::default(), counts),
    ]
}
