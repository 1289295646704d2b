//! The sampler against posteriors that were enumerated, the checks of a sampler, and what runs rely on.

mod enumerated;
mod invariant;
mod runs;

use super::*;
use crate::data::{Dataset, LabelSets, Matrix, Target};
use crate::model::labels::gamma_factor::{GammaFactor, Precision};
use crate::run::{Purpose, Shape, Threads, blocks};

/// Rows with labels.
fn dataset(values: &[f64], cols: usize, y: &[i8], labels: usize) -> Dataset<'static> {
    let names = (0..labels).map(|c| format!("label{c}")).collect();
    let x = Matrix::dense(y.len() / labels, cols, values.to_vec());
    Dataset::new(x).with_target(Target::Labels(LabelSets { names, values: y.to_vec() }))
}

/// Weights without a bias.
fn classifier(labels: usize, kept: Vec<u32>, raw_cols: usize, weight_precision: Precision) -> Classifier {
    let (mean, scale) = (vec![0.0; kept.len()], vec![1.0; kept.len()]);
    let design = Design { kept, raw_cols, mean, scale, intercept: false, map: None };
    Classifier { labels, design, bias_precision: 1.0, weight_precision }
}

fn learned(shape: f64, rate: f64) -> Precision {
    Precision::Learned(GammaFactor::new(shape, rate))
}
