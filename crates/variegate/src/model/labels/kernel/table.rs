//! Tables that turn a block of rows into log densities under each component. They travel to the rows.

use serde::{Deserialize, Serialize};

use super::Scratch;
use super::diagonal::square_rows;
use crate::data::X;
use crate::linalg;

/// Log densities of K components as functions of a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Table {
    /// constant + w'x.
    Linear {
        /// One number a component.
        constants: Vec<f64>,
        /// K×D.
        weights: Vec<f64>,
    },
    /// w'(x, x², 1) with x less the shift.
    Quadratic {
        /// Subtracted from rows.
        shift: Vec<f64>,
        /// K×(2D + 1).
        weights: Vec<f64>,
    },
    /// constant + (x − c)'(T + T')(x − c) with x less the shift.
    Forms {
        /// Subtracted from rows.
        shift: Vec<f64>,
        /// One number a component.
        constants: Vec<f64>,
        /// c, K×D.
        centres: Vec<f64>,
        /// T, lower triangular, K×D×D.
        forms: Vec<f64>,
    },
}

impl Table {
    /// Number of components.
    pub(crate) fn components(&self) -> usize {
        match self {
            Self::Linear { constants, .. } | Self::Forms { constants, .. } => constants.len(),
            Self::Quadratic { shift, weights } => weights.len() / (2 * shift.len() + 1),
        }
    }

    /// Adds the log densities to out (rows × K).
    pub(crate) fn evaluate(&self, x: X<'_>, out: &mut [f64], scratch: &mut Scratch) {
        let (n, k) = (x.rows(), self.components());
        if k == 0 {
            return;
        }
        match self {
            Self::Linear { constants, weights } => {
                scratch.add_products(x, weights, k, out);
                for row in out.chunks_exact_mut(k) {
                    row.iter_mut().zip(constants).for_each(|(o, c)| *o += c);
                }
            }
            Self::Quadratic { shift, weights } => {
                square_rows(x, shift, scratch);
                linalg::mul_t(&scratch.rows, weights, out, n, 2 * shift.len() + 1, k, true);
            }
            Self::Forms { shift, constants, centres, forms } => {
                each_form(x, shift, centres, forms, scratch, |c, i, form| out[i * k + c] += constants[c] + form);
                if shift.is_empty() {
                    out.chunks_exact_mut(k).for_each(|row| row.iter_mut().zip(constants).for_each(|(o, c)| *o += c));
                }
            }
        }
    }
}

/// Calls f(component, row, (x − c)'(T + T')(x − c)) for all of them; centred at each component, so that nothing cancels.
pub(super) fn each_form(
    x: X<'_>,
    shift: &[f64],
    centres: &[f64],
    forms: &[f64],
    scratch: &mut Scratch,
    mut f: impl FnMut(usize, usize, f64),
) {
    let (n, dim) = (x.rows(), shift.len());
    if dim == 0 {
        return;
    }
    scratch.centre(x, shift, dim);
    let Scratch { rows, product, weights: moved, .. } = scratch;
    moved.resize(n * dim, 0.0);
    product.resize(product.len().max(n * dim), 0.0);
    let product = &mut product[..n * dim];
    for (c, (centre, form)) in centres.chunks_exact(dim).zip(forms.chunks_exact(dim * dim)).enumerate() {
        for (out, row) in moved.chunks_exact_mut(dim).zip(rows.chunks_exact(dim)) {
            out.iter_mut().zip(row).zip(centre).for_each(|((o, v), m)| *o = v - m);
        }
        linalg::mul_lower(moved, form, product, n, dim);
        for (i, (p, v)) in product.chunks_exact(dim).zip(moved.chunks_exact(dim)).enumerate() {
            f(c, i, 2.0 * linalg::dot(p, v));
        }
    }
}
