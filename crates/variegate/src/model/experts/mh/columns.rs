//! What a block keeps for proposals of one weight vector: for each vector the products with its direction, and what follows from them,
//! e_k = exp f_k for a gate and q_k = p_k(y) for an expert. The likelihood of a row is Σ e q / Σ e.
//!
//! Every column is computed by the same operations whether it is new or rebuilt, so that a chain goes on with the same bits after its
//! blocks have forgotten their columns. They are therefore not saved. Rows whose sums leave the range of numbers are computed in logarithms.

use serde::{Deserialize, Serialize};

use super::{Change, Likelihood, Mh, News};
use crate::linalg::wide;
use crate::model::gated::{ln_mixture, rows};
use crate::run::{Block, Sum};
use crate::{Error, Result};

/// Sums outside this range are computed in logarithms.
const RANGE: std::ops::Range<f64> = 1e-200..1e200;

/// Columns of a block; empty before the first visit.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Local {
    /// x·a of each gate (n), then Xa of the J rows of each expert's direction (n×J).
    #[serde(skip)]
    products: Vec<f64>,
    /// e of each gate, then q of each expert; n a column.
    #[serde(skip)]
    columns: Vec<f64>,
    /// The column that was asked about last.
    #[serde(skip)]
    asked: Asked,
}

/// A column that may take the place of another.
#[derive(Debug, Default)]
struct Asked {
    /// Which.
    at: usize,
    /// Products with a new direction; empty where it is the same.
    products: Vec<f64>,
    column: Vec<f64>,
}

/// Buffers of a visit.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(super) rows: rows::Scratch,
    total: Vec<f64>,
    norm: Vec<f64>,
    scores: Vec<f64>,
}

/// One weight vector: logarithm of its length, and its intercepts.
struct Rest<'a> {
    size: f64,
    intercepts: &'a [f64],
}

impl Mh {
    /// Products of a block with a direction: one number a row for a gate, J for an expert.
    fn products(&self, direction: &[f64], block: &Block<'_>, scratch: &mut Scratch, out: &mut Vec<f64>) {
        let rows = direction.len() / self.shape.inputs;
        out.resize(block.rows() * rows, f64::NAN);
        self.design.panel(block.x, &mut scratch.rows.panel).mul_t(&self.shape.without_intercepts(direction), rows, out);
    }

    /// ln p(y) of an expert from a row's products. `scores` is room to work in.
    fn ln_given(&self, products: &[f64], rest: &Rest<'_>, class: u32, scores: &mut Vec<f64>) -> f64 {
        let length = rest.size.exp();
        let theta = |r: usize| length * products[r] + rest.intercepts.get(r).copied().unwrap_or(0.0);
        self.shape.ln_given(theta, class, scores)
    }

    /// e of a gate or q of an expert, from products.
    fn column(&self, gate: bool, products: &[f64], rest: &Rest<'_>, block: &Block<'_>, scores: &mut Vec<f64>, out: &mut Vec<f64>) {
        out.clear();
        if gate {
            let (length, intercept) = (rest.size.exp(), rest.intercepts.first().copied().unwrap_or(0.0));
            out.extend(products.iter().map(|t| (length * t + intercept).exp()));
        } else {
            let rows = products.chunks_exact(self.shape.rows()).zip(block.y.classes());
            out.extend(rows.map(|(t, class)| self.ln_given(t, rest, *class, scores).exp()));
        }
    }

    /// Column of a weight vector.
    fn at(&self, gate: bool, k: usize) -> usize {
        if gate { k } else { self.shape.gates() + k }
    }

    /// Whose column that is: whether a gate's, and which.
    fn whose(&self, at: usize) -> (bool, usize) {
        let gates = self.shape.gates();
        if at < gates { (true, at) } else { (false, at - gates) }
    }

    /// Where the products of a column are.
    fn product_places(&self, at: usize, n: usize) -> std::ops::Range<usize> {
        let (gate, k) = self.whose(at);
        self.shape.product_places(gate, k, n)
    }

    fn rest<'a>(&self, point: &'a [f64], at: usize) -> Rest<'a> {
        let (gate, k) = self.whose(at);
        let places = self.shape.places(gate, k);
        Rest { size: point[places.size], intercepts: &point[places.intercepts] }
    }

    /// Takes in what happened since the last visit, or computes all columns where there are none.
    pub(super) fn hear(&self, point: &[f64], news: &News, block: &Block<'_>, local: &mut Local, scratch: &mut Scratch) -> Result<()> {
        let (n, gates, experts) = (block.rows(), self.shape.gates(), self.shape.experts);
        if local.columns.is_empty() {
            let (mut products, mut column) = (Vec::new(), Vec::new());
            local.products.clear();
            for at in 0..gates + experts {
                let (gate, k) = self.whose(at);
                self.products(&point[self.shape.places(gate, k).direction], block, scratch, &mut products);
                self.column(gate, &products, &self.rest(point, at), block, &mut scratch.scores, &mut column);
                local.products.extend_from_slice(&products);
                local.columns.extend_from_slice(&column);
            }
            if let Some(bad) = local.products.iter().position(|v| !v.is_finite()) {
                let row = if bad < gates * n { bad % n } else { (bad - gates * n) / self.shape.rows() % n };
                let number = block.first_row + row as u64 + 1;
                return Err(Error::Unfit(format!("row {number}: its values are too large to compute with; scale the columns")));
            }
            return Ok(());
        }
        if news.accepted {
            let Asked { at, products, column } = &local.asked;
            if !products.is_empty() {
                local.products[self.product_places(*at, n)].copy_from_slice(products);
            }
            local.columns[at * n..(at + 1) * n].copy_from_slice(column);
        }
        for &i in &news.exchanged {
            let sides = if gates > 0 { &[true, false][..] } else { &[false] };
            for &gate in sides {
                let at = self.at(gate, i as usize);
                exchange(&mut local.columns, at * n, n);
                let places = self.product_places(at, n);
                exchange(&mut local.products, places.start, places.len());
            }
        }
        Ok(())
    }

    /// Log likelihood of a block after a change, whose column is put aside.
    pub(super) fn change(
        &self,
        point: &[f64],
        change: Option<&Change<'_>>,
        block: &Block<'_>,
        local: &mut Local,
        scratch: &mut Scratch,
    ) -> Likelihood {
        let (n, gates, experts) = (block.rows(), self.shape.gates(), self.shape.experts);
        let mut asked = std::mem::take(&mut local.asked);
        let mut changed = None;
        if let Some(change) = change {
            asked.at = self.at(change.gate, change.k);
            asked.products.clear();
            if let Some(direction) = &change.direction {
                self.products(direction, block, scratch, &mut asked.products);
            }
            let products = if asked.products.is_empty() { &local.products[self.product_places(asked.at, n)] } else { &asked.products };
            let rest = Rest { size: change.size, intercepts: &change.intercepts };
            self.column(change.gate, products, &rest, block, &mut scratch.scores, &mut asked.column);
            changed = Some((asked.at, products, rest));
        }
        let Scratch { total, norm, scores, .. } = scratch;
        let column = |at: usize| match &changed {
            Some((of, ..)) if *of == at => &asked.column[..],
            _ => &local.columns[at * n..(at + 1) * n],
        };
        for sum in [&mut *total, &mut *norm] {
            sum.clear();
            sum.resize(n, 0.0);
        }
        if gates == 0 {
            total.copy_from_slice(column(0));
            norm.fill(1.0);
        }
        for k in 0..gates {
            let (e, q) = (column(k), column(gates + k));
            wide(
                #[inline(always)]
                || {
                    for (((total, norm), e), q) in total.iter_mut().zip(norm.iter_mut()).zip(e).zip(q) {
                        *total += e * q;
                        *norm += e;
                    }
                },
            );
        }
        let mut value = 0.0;
        for i in 0..n {
            let weight = block.weight(i);
            if weight == 0.0 {
                continue;
            }
            let share = total[i] / norm[i];
            value += weight
                * if RANGE.contains(&total[i]) && RANGE.contains(&norm[i]) && RANGE.contains(&share) {
                    share.ln()
                } else {
                    let score = |at: usize, scores: &mut Vec<f64>| {
                        let (products, rest) = match &changed {
                            Some((of, products, rest)) if *of == at => (*products, Rest { ..*rest }),
                            _ => (&local.products[self.product_places(at, n)], self.rest(point, at)),
                        };
                        if at < gates {
                            rest.size.exp() * products[i] + rest.intercepts.first().copied().unwrap_or(0.0)
                        } else {
                            let rows = self.shape.rows();
                            self.ln_given(&products[i * rows..(i + 1) * rows], &rest, block.y.classes()[i], scores)
                        }
                    };
                    let f: Vec<f64> = (0..gates).map(|k| score(k, scores)).collect();
                    let mut joint: Vec<f64> = (gates..gates + experts).map(|at| score(at, scores)).collect();
                    ln_mixture(&f, &mut joint).likelihood()
                };
        }
        local.asked = asked;
        Likelihood { value: Sum(value), gradient: Sum(Vec::new()) }
    }
}

/// Exchanges a run of numbers with the next one.
fn exchange(values: &mut [f64], start: usize, len: usize) {
    let (left, right) = values[start..start + 2 * len].split_at_mut(len);
    left.swap_with_slice(right);
}
