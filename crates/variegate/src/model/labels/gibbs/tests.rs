//! The sampler against posteriors that were enumerated, the checks of a sampler, and what runs rely on.

mod enumerated;
mod invariant;
mod runs;

use super::*;
use crate::data::{Dataset, Design, LabelSets, Matrix, Target};
use crate::model::labels::gamma_factor::{GammaFactor, Precision};
use crate::run::{Purpose, Shape, Threads, blocks};

/// Rows with labels.
fn dataset(values: &[f64], cols: usize, y: &[i8], labels: usize) -> Dataset<'static> {
    let names = (0..labels).map(|c| format!("label{c}")).collect();
    let x = Matrix::dense(y.len() / labels, cols, values.to_vec());
    Dataset::new(x).with_target(Target::Labels(LabelSets { names, values: y.to_vec() }))
}

/// The sampler of rows that are taken as they are, all columns and a bias for the classifiers.
fn sampler(kernel: Kernel, labels: LabelModel, alpha: Concentration, seeds: usize) -> Gibbs {
    let design = Design::identity(kernel.width(), true);
    Gibbs { inputs: Inputs::plain(design), kernel, labels, apart: None, means: Means::Matrices, alpha, seeds, most: MOST }
}

fn learned(shape: f64, rate: f64) -> Precision {
    Precision::Learned(GammaFactor::new(shape, rate))
}
