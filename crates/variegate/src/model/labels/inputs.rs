//! Rows as kernels and classifiers see them.
//!
//! Kernels of counts and of zeros and ones take rows as they are; Gaussian kernels take standardised ones, dense. Classifiers take
//! standardised columns, or rows of length one, and a bias.

use serde::{Deserialize, Serialize};

use super::row_space::with_panel;
use crate::data::design::PanelScratch;
use crate::data::{Design, Panel, X};

/// What becomes of raw rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Inputs {
    /// Standardised columns for a Gaussian kernel; nothing takes rows as they are.
    pub(crate) kernel: Option<Design>,
    /// Columns of the classifiers, the bias last.
    pub(crate) classifier: Design,
    /// Whether the classifiers see rows of length one.
    pub(crate) unit_rows: bool,
}

/// Buffers of rows.
#[derive(Debug, Default)]
pub(crate) struct InputScratch {
    pub(crate) kernel: KernelScratch,
    pub(crate) classifier: ClassifierScratch,
}

/// Buffers of rows as the kernel sees them.
#[derive(Debug, Default)]
pub(crate) struct KernelScratch {
    dense: Vec<f64>,
    standardised: PanelScratch,
}

/// Buffers of rows as the classifiers see them.
#[derive(Debug, Default)]
pub(crate) struct ClassifierScratch {
    unit: Vec<f64>,
    panel: PanelScratch,
}

impl Inputs {
    /// Rows as they are, for the kernel and, as this design has it, for the classifiers.
    #[cfg(test)]
    pub(crate) fn plain(classifier: Design) -> Self {
        Self { kernel: None, classifier, unit_rows: false }
    }

    /// Calls `f` with the rows as the kernel and the classifiers see them.
    pub(crate) fn with<R>(&self, x: X<'_>, scratch: &mut InputScratch, f: impl FnOnce(X<'_>, &mut Panel<'_>) -> R) -> R {
        let mut panel = self.panel(x, &mut scratch.classifier);
        self.with_rows(x, &mut scratch.kernel, |x| f(x, &mut panel))
    }

    /// Calls `f` with the rows as the kernel sees them.
    pub(crate) fn with_rows<R>(&self, x: X<'_>, scratch: &mut KernelScratch, f: impl FnOnce(X<'_>) -> R) -> R {
        let Some(design) = &self.kernel else { return f(x) };
        let x = made_dense(x, &mut scratch.dense);
        let (rows, cols) = (x.rows(), design.dim());
        let made = design.panel(x, &mut scratch.standardised);
        f(X::Dense { rows, cols, values: made.dense().unwrap_or(&[]) })
    }

    /// Calls `f` with the rows as the kernel sees them, and as they are given in so many coordinates beside the bias.
    pub(crate) fn with_coordinates<R>(
        &self,
        x: X<'_>,
        (coordinates, size): (&[f64], usize),
        scratch: &mut InputScratch,
        f: impl FnOnce(X<'_>, &mut Panel<'_>) -> R,
    ) -> R {
        let InputScratch { kernel, classifier } = scratch;
        self.with_rows(x, kernel, |x| with_panel(coordinates, size, true, &mut classifier.panel, |panel| f(x, panel)))
    }

    /// The rows as the classifiers see them.
    pub(crate) fn panel<'a>(&'a self, x: X<'a>, scratch: &'a mut ClassifierScratch) -> Panel<'a> {
        let seen = if self.unit_rows { of_unit_length(x, &mut scratch.unit) } else { x };
        self.classifier.panel(seen, &mut scratch.panel)
    }
}

/// Rows divided by their lengths; rows of zeros stay.
fn of_unit_length<'a>(x: X<'a>, room: &'a mut Vec<f64>) -> X<'a> {
    room.clear();
    let mut add = |row: &[f64]| {
        let length = row.iter().map(|v| v * v).sum::<f64>().sqrt();
        let times = if length > 0.0 { length.recip() } else { 0.0 };
        room.extend(row.iter().map(|v| v * times));
    };
    match x {
        X::Dense { rows, cols, values } => {
            values.chunks_exact(cols.max(1)).for_each(add);
            X::Dense { rows, cols, values: room }
        }
        X::Csr { cols, indptr, indices, .. } => {
            (0..x.rows()).for_each(|i| add(x.sparse_row(i).1));
            X::Csr { cols, indptr, indices, values: room }
        }
    }
}

/// The same rows, dense.
fn made_dense<'a>(x: X<'a>, room: &'a mut Vec<f64>) -> X<'a> {
    let X::Csr { cols, .. } = x else { return x };
    room.clear();
    room.resize(x.rows() * cols, 0.0);
    for (i, row) in room.chunks_exact_mut(cols.max(1)).enumerate() {
        x.for_row(i, |j, v| row[j] = v);
    }
    X::Dense { rows: x.rows(), cols, values: room }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Matrix;

    #[test]
    fn sparse_and_dense_rows_are_the_same_inputs() {
        let dense = Matrix::dense(3, 2, vec![3.0, 4.0, 0.0, 0.0, 0.0, -2.0]);
        let sparse = Matrix::Csr {
            rows: 3,
            cols: 2,
            indptr: vec![0, 2, 2, 3].into(),
            indices: vec![0, 1, 1].into(),
            values: vec![3.0, 4.0, -2.0].into(),
        };
        let kernel = Design { mean: vec![1.0, 0.5], scale: vec![2.0, 1.0], ..Design::identity(2, false) };
        let inputs = Inputs { kernel: Some(kernel), classifier: Design::identity(2, true), unit_rows: true };
        for x in [&dense, &sparse] {
            let mut scratch = InputScratch::default();
            for from in [0..3, 1..3] {
                inputs.with(x.slice(from.clone()), &mut scratch, |seen, panel| {
                    let X::Dense { values, .. } = seen else { panic!("not dense") };
                    assert_eq!(values, &[1.0, 3.5, -0.5, -0.5, -0.5, -2.5][2 * from.start..]);
                    let mut out = vec![0.0; from.len()];
                    panel.mul_t(&[1.0, 10.0, 100.0], 1, &mut out);
                    let expected = [100.0 + 0.6 + 8.0, 100.0, 90.0];
                    assert!(out.iter().zip(&expected[from.start..]).all(|(a, b)| (a - b).abs() < 1e-12), "{out:?}");
                });
            }
        }
    }
}
