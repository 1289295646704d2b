//! Tables that turn a block of rows into log densities under each component. They travel to the rows.

use serde::{Deserialize, Serialize};
use std::sync::OnceLock;

use super::Scratch;
use super::diagonal::square_rows;
use crate::data::X;
use crate::linalg::{self, wide};

/// Weights of K components (K×D). Sparse rows meet them column by column, and the first to come turns them for all.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Weights {
    components: usize,
    of_components: Vec<f64>,
    #[serde(skip)]
    of_columns: OnceLock<Vec<f64>>,
}

impl PartialEq for Weights {
    /// Whether they were turned yet makes no difference.
    fn eq(&self, other: &Self) -> bool {
        (self.components, &self.of_components) == (other.components, &other.of_components)
    }
}

impl Weights {
    /// From those of one component after the other.
    pub(super) fn new(components: usize, of_components: Vec<f64>) -> Self {
        Self { components, of_components, of_columns: OnceLock::new() }
    }

    /// K×D.
    pub(super) fn by_component(&self) -> &[f64] {
        &self.of_components
    }

    /// D×K.
    fn by_column(&self) -> &[f64] {
        self.of_columns.get_or_init(|| {
            let width = self.of_components.len() / self.components;
            let mut out = vec![0.0; self.of_components.len()];
            // tiles of columns, which stay in the nearest cache while all components write to them
            for (tile, out) in out.chunks_mut(TILE * self.components).enumerate() {
                let columns = tile * TILE..width.min((tile + 1) * TILE);
                for (k, w) in self.of_components.chunks_exact(width).enumerate() {
                    w[columns.clone()].iter().zip(out[k..].iter_mut().step_by(self.components)).for_each(|(w, o)| *o = *w);
                }
            }
            out
        })
    }

    /// out (rows×K) += X wᵀ for sparse rows; `sums` has room for K numbers.
    pub(super) fn add_sparse(&self, x: X<'_>, sums: &mut [f64], out: &mut [f64]) {
        let (k, table) = (self.components, self.by_column());
        wide(
            #[inline(always)]
            || {
                for (i, out) in out.chunks_exact_mut(k).enumerate() {
                    sums.fill(0.0);
                    let (columns, values) = x.sparse_row(i);
                    for (&j, &v) in columns.iter().zip(values) {
                        let w = &table[j as usize * k..(j as usize + 1) * k];
                        sums.iter_mut().zip(w).for_each(|(s, w)| *s += v * w);
                    }
                    out.iter_mut().zip(&*sums).for_each(|(o, s)| *o += s);
                }
            },
        );
    }
}

/// Columns that are turned at a time.
const TILE: usize = 64;

/// Log densities of K components as functions of a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Table {
    /// constant + w'x.
    Linear {
        /// One number a component.
        constants: Vec<f64>,
        /// K×D.
        weights: Weights,
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
