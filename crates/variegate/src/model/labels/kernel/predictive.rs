//! Posterior predictive densities of a new row under each component, its parameters integrated out.

use serde::{Deserialize, Serialize};
use std::f64::consts::PI;

use super::full::half_form;
use super::table::each_form;
use super::{DiagonalFactor, FullFactor, Scratch, Table};
use crate::data::X;
use crate::special::ln_gamma;

/// Log predictive densities of K components as functions of a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Predictive {
    /// Probabilities of answers: linear in the row.
    Linear(Table),
    /// Dirichlet-multinomial without its coefficient.
    Counts {
        /// Sum of each component's parameters.
        totals: Vec<f64>,
        /// Parameters, D×K: the components of a column lie together.
        counts: Vec<f64>,
    },
    /// Products of Student's t.
    Students {
        /// Subtracted from rows.
        shift: Vec<f64>,
        /// One number a component.
        constants: Vec<f64>,
        /// The exponent of each component: degrees of freedom plus one, halved.
        exponents: Vec<f64>,
        /// Locations, K×D.
        locations: Vec<f64>,
        /// One over degrees of freedom times squared scale, K×D.
        inverses: Vec<f64>,
    },
    /// Multivariate t.
    Multivariate {
        /// Subtracted from rows.
        shift: Vec<f64>,
        /// One number a component.
        constants: Vec<f64>,
        /// The exponent of each component: degrees of freedom plus D, halved.
        exponents: Vec<f64>,
        /// Locations, K×D.
        locations: Vec<f64>,
        /// T, lower triangular, K×D×D: T + T' is the inverse of degrees of freedom times scale.
        forms: Vec<f64>,
    },
}

/// ln Γ(p + v) − ln Γ(p), for small whole v as a product that loses no digits.
fn ln_rising(p: f64, v: f64) -> f64 {
    if v <= 8.0 && v.fract() == 0.0 && p < 1e30 {
        return (0..v as u32).map(|m| p + f64::from(m)).product::<f64>().ln();
    }
    ln_gamma(p + v) - ln_gamma(p)
}

impl Predictive {
    /// For counts of so many kinds under Dirichlet parameters.
    pub(super) fn counts(width: usize, components: &[&[f64]]) -> Self {
        let totals = components.iter().map(|c| c.iter().sum()).collect();
        Self::Counts { totals, counts: (0..width).flat_map(|d| components.iter().map(move |c| c[d])).collect() }
    }

    /// For independent columns under normal-gamma factors: 2a degrees of freedom, location m, squared scale b (k+1)/(a k).
    pub(super) fn students(shift: &[f64], q: &[&DiagonalFactor]) -> Self {
        let (mut constants, mut inverses) = (Vec::new(), Vec::new());
        for q in q {
            let each = ln_gamma(q.shape + 0.5) - ln_gamma(q.shape);
            // degrees of freedom times squared scale
            let spreads = q.rate.iter().map(|b| 2.0 * b * (q.strength + 1.0) / q.strength);
            constants.push(spreads.clone().map(|s| each - 0.5 * (PI * s).ln()).sum());
            inverses.extend(spreads.map(|s| 1.0 / s));
        }
        Self::Students {
            shift: shift.to_vec(),
            constants,
            exponents: q.iter().map(|q| q.shape + 0.5).collect(),
            locations: q.iter().flat_map(|q| q.mean.iter().copied()).collect(),
            inverses,
        }
    }

    /// Under normal-inverse-Wishart factors: ν − D + 1 degrees of freedom, scale S (k+1)/(k (ν − D + 1)).
    pub(super) fn multivariate(shift: &[f64], q: &[&FullFactor]) -> Self {
        let dim = shift.len();
        let (mut constants, mut forms) = (Vec::new(), Vec::new());
        for q in q {
            let (d, widened) = (dim as f64, (q.strength + 1.0) / q.strength);
            let gammas = ln_gamma(0.5 * (q.freedom + 1.0)) - ln_gamma(0.5 * (q.freedom + 1.0 - d));
            constants.push(gammas - 0.5 * d * (PI * widened).ln() - 0.5 * q.scatter.ln_det());
            forms.extend(half_form(&q.scatter.inverse(), dim).map(|v| v / widened));
        }
        Self::Multivariate {
            shift: shift.to_vec(),
            constants,
            exponents: q.iter().map(|q| 0.5 * (q.freedom + 1.0)).collect(),
            locations: q.iter().flat_map(|q| q.mean.iter().copied()).collect(),
            forms,
        }
    }

    /// Number of components.
    pub(crate) fn components(&self) -> usize {
        match self {
            Self::Linear(table) => table.components(),
            Self::Counts { totals, .. } => totals.len(),
            Self::Students { constants, .. } | Self::Multivariate { constants, .. } => constants.len(),
        }
    }

    /// Adds the log densities to out (rows × K).
    pub(crate) fn evaluate(&self, x: X<'_>, out: &mut [f64], scratch: &mut Scratch) {
        let k = self.components();
        if k == 0 {
            return;
        }
        match self {
            Self::Linear(table) => table.evaluate(x, out, scratch),
            Self::Counts { totals, counts } => {
                for (i, row) in out.chunks_exact_mut(k).enumerate() {
                    let mut total = 0.0;
                    x.for_row(i, |j, v| {
                        if v != 0.0 {
                            total += v;
                            row.iter_mut().zip(&counts[j * k..]).for_each(|(o, &p)| *o += ln_rising(p, v));
                        }
                    });
                    if total > 0.0 {
                        row.iter_mut().zip(totals).for_each(|(o, &p)| *o -= ln_gamma(p + total) - ln_gamma(p));
                    }
                }
            }
            Self::Students { shift, constants, exponents, locations, inverses } => {
                let dim = shift.len();
                scratch.centre(x, shift, dim.max(1));
                for (row, out) in scratch.rows.chunks_exact(dim.max(1)).zip(out.chunks_exact_mut(k)) {
                    for (c, out) in out.iter_mut().enumerate() {
                        let columns = row.iter().zip(&locations[c * dim..(c + 1) * dim]).zip(&inverses[c * dim..(c + 1) * dim]);
                        *out += constants[c] - exponents[c] * ln_product(columns.map(|((v, m), s)| (v - m) * (v - m) * s));
                    }
                }
            }
            Self::Multivariate { shift, constants, exponents, locations, forms } => {
                each_form(x, shift, locations, forms, scratch, |c, i, form| {
                    out[i * k + c] += constants[c] - exponents[c] * form.max(0.0).ln_1p();
                });
            }
        }
    }
}

/// Σ ln(1 + v): one logarithm for as many as their product allows.
fn ln_product(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut product) = (0.0, 1.0f64);
    for v in values {
        if v > 1e100 {
            sum += v.ln();
            continue;
        }
        product *= 1.0 + v;
        if product > 1e100 {
            sum += product.ln();
            product = 1.0;
        }
    }
    sum + product.ln()
}
