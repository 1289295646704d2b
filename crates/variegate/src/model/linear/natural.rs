//! Weights in the units of the user's columns: coefficients β_j = w_j/s_j and the intercept b − Σ_j w_j μ_j/s_j.

use super::inputs::Schema;
use crate::answer::{Dim, NamedArray};
use crate::data::Design;
use crate::linalg::dot;

/// Weights of the design (one vector of them a row) in the units of the columns that are kept: coefficients, then the intercept (0 without one).
pub(crate) fn natural(design: &Design, weights: &[f64]) -> Vec<f64> {
    let k = design.kept.len();
    let mut out = Vec::with_capacity(weights.len() / design.dim().max(1) * (k + 1));
    for w in weights.chunks_exact(design.dim().max(1)) {
        let from = out.len();
        out.extend(w[..k].iter().zip(&design.scale).map(|(w, s)| w / s));
        let bias = if design.intercept { w[k] } else { 0.0 };
        let shift = dot(&out[from..], &design.mean);
        out.push(bias - shift);
    }
    out
}

/// Names of the coefficients of all classifiers, the intercept of each last where there is one; classifiers are told apart by their class.
pub(crate) fn coefficient_names(schema: &Schema) -> Vec<String> {
    let design = &schema.design;
    let own: Vec<String> = design.names(&schema.columns).into_iter().chain(design.intercept.then(|| "(intercept)".to_string())).collect();
    match schema.classifiers() {
        [] => own,
        classes => classes.iter().flat_map(|class| own.iter().map(move |name| format!("{class}: {name}"))).collect(),
    }
}

/// Two arrays of natural weights, one vector of them a classifier and row of `lead`: coefficients of all raw columns (those left out as constant
/// have 0) and intercepts.
pub(crate) fn natural_arrays(
    schema: &Schema,
    (coef, intercept): (&'static str, &'static str),
    lead: &[Dim],
    natural: &[f64],
) -> [NamedArray; 2] {
    let (k, width) = (schema.design.kept.len(), schema.design.raw_cols);
    let rows = natural.len() / (k + 1);
    let mut coefficients = vec![0.0; rows * width];
    let mut intercepts = Vec::with_capacity(rows);
    for (at, row) in natural.chunks_exact(k + 1).enumerate() {
        for (&j, &v) in schema.design.kept.iter().zip(row) {
            coefficients[at * width + j as usize] = v;
        }
        intercepts.push(row[k]);
    }
    let mut dims = lead.to_vec();
    let classifiers = schema.classifiers();
    dims.push(if classifiers.is_empty() { Dim::counted("row", 1) } else { Dim::named("class", classifiers.to_vec()) });
    let intercepts = NamedArray::new(intercept, dims.clone(), intercepts);
    dims.push(Dim::columns(&schema.columns, width));
    [NamedArray::new(coef, dims, coefficients), intercepts]
}
