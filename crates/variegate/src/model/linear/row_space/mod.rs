//! Weights where rows are fewer than columns: in coordinates of the space that the rows span.
//!
//! Rows X = ZRᵀ (N×D) with R orthonormal. The prior of the weights beside the bias is isotropic given τ, so that with w = Ru + w⊥ the data see
//! u alone, and q(w⊥) = N(0, I/E τ) whatever they say: the posterior in D columns is the one of the N columns Z, found by the same code, beside
//! directions in which nothing was learned. With XXᵀ = U diag(l) Uᵀ,
//!
//! ```text
//! Z = U diag(l)^½        R = XᵀU diag(l)^−½        coordinates of a new row x: z = diag(l)^−½ UᵀXx,  and beyond them (|x|² − |z|²)^½
//! ```
//!
//! Coordinates are N + 1: those of Z (0 where rows span less), and a last one that no training row has, for what is left of a new row. Its
//! variance is that of every direction beyond the rows ([`Beyond`]). R is never formed: the rows themselves are kept, which are often sparse.

mod beyond;
mod rows;
#[cfg(test)]
mod tests;

pub(crate) use beyond::Beyond;
pub(crate) use rows::Rows;

use serde::{Deserialize, Serialize};

use super::logit::{Factors, Logit, Scratch};
use super::normal_factor::pack;
use crate::data::design::{PanelScratch, packed_len};
use crate::data::{Design, Panel, X};
use crate::linalg;
use crate::parallel;
use crate::{Error, Result};

/// Most rows whose space is formed.
const MOST_ROWS: usize = 2_000;
/// Up to so many columns matrices of all of them are small enough.
const FEW_COLUMNS: usize = 200;
/// From so many columns on matrices of all of them take long however many rows there are.
const MANY_COLUMNS: usize = 2_000;
/// Columns whose deviations are found together.
const TOGETHER: usize = 256;

/// Whether so many rows should find the weights of so many columns beside the bias in the space that they span.
pub(crate) fn worthwhile(rows: usize, columns: usize) -> bool {
    let fewer = rows > 0 && rows < columns && rows <= MOST_ROWS;
    // dense coordinates take the place of rows that may be sparse: little is gained by a few columns less
    fewer && columns > FEW_COLUMNS && (columns > MANY_COLUMNS || 3 * rows <= 2 * columns)
}

/// Coordinates of so many rows.
pub(crate) fn count_of(rows: usize) -> usize {
    rows + 1
}

/// The space that rows span.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RowSpace {
    rows: Rows,
    /// Eigenvectors of the rows' inner products, one a row (rank×N).
    vectors: Vec<f64>,
    /// Their eigenvalues, all above 0.
    values: Vec<f64>,
}

impl RowSpace {
    /// The space of all rows.
    pub(crate) fn new(rows: Rows) -> Result<Self> {
        let n = rows.len();
        let inner = rows.products(&rows);
        let failed = |why: &str| Error::Numerical { what: "the inner products of the rows", sweep: 0, detail: why.into() };
        if !inner.iter().all(|v| v.is_finite()) {
            return Err(failed("some are too large to compute with; bring columns to a common scale"));
        }
        if n == 0 {
            return Ok(Self { rows, vectors: Vec::new(), values: Vec::new() });
        }
        let (by_column, all) =
            linalg::eigen(&inner, n).ok_or_else(|| failed("their eigenvectors were not found; look at the scale of the columns"))?;
        // what is smaller is rounding: rows that repeat or add up
        let least = n as f64 * f64::EPSILON * all.iter().copied().fold(0.0, f64::max);
        let (mut vectors, mut values) = (Vec::new(), Vec::new());
        for (m, &l) in all.iter().enumerate().filter(|(_, l)| **l > least) {
            vectors.extend((0..n).map(|i| by_column[i * n + m]));
            values.push(l);
        }
        Ok(Self { rows, vectors, values })
    }

    /// Number of coordinates.
    fn size(&self) -> usize {
        count_of(self.rows.len())
    }

    /// Coordinates of the rows themselves (N × coordinates).
    pub(crate) fn coordinates(&self) -> Vec<f64> {
        let (n, size) = (self.rows.len(), self.size());
        let mut out = vec![0.0; n * size];
        for (m, (vector, l)) in self.vectors.chunks_exact(n.max(1)).zip(&self.values).enumerate() {
            vector.iter().enumerate().for_each(|(i, v)| out[i * size + m] = v * l.sqrt());
        }
        out
    }

    /// Coordinates of any rows (rows × coordinates).
    pub(crate) fn coordinates_of(&self, rows: &Rows) -> Vec<f64> {
        let (n, size, rank, count) = (self.rows.len(), self.size(), self.values.len(), rows.len());
        let products = self.rows.products(rows);
        let mut turned = vec![0.0; count * rank];
        if rank > 0 {
            linalg::mul_t(&products, &self.vectors, &mut turned, count, n, rank, false);
        }
        let mut out = vec![0.0; count * size];
        for ((i, out), square) in out.chunks_exact_mut(size).enumerate().zip(rows.squares()) {
            let mut within = 0.0;
            for ((o, t), l) in out.iter_mut().zip(&turned[i * rank..(i + 1) * rank]).zip(&self.values) {
                *o = t / l.sqrt();
                within += *o * *o;
            }
            out[size - 1] = (square - within).max(0.0).sqrt();
        }
        out
    }

    /// Calls f with the panel of new rows in coordinates, the bias as they have it.
    pub(crate) fn with_new<R>(&self, panel: &Panel<'_>, f: impl FnOnce(&mut Panel<'_>) -> R) -> R {
        let intercept = panel.dim() > self.rows.width;
        with_panel(&self.coordinates_of(&Rows::of(panel, self.rows.width)), self.size(), intercept, &mut PanelScratch::default(), f)
    }

    /// Means of the weights of all columns beside the bias (labels×columns), given those of coefficients, the coordinates' first.
    pub(crate) fn means(&self, prior: &Logit, q: &Factors) -> Vec<f64> {
        let (n, labels) = (self.rows.len(), prior.labels);
        let mut times = vec![0.0; labels * n];
        for (times, m) in times.chunks_exact_mut(n.max(1)).zip(q.mean.chunks_exact(q.mean.len() / labels.max(1))) {
            for ((vector, l), m) in self.vectors.chunks_exact(n.max(1)).zip(&self.values).zip(m) {
                times.iter_mut().zip(vector).for_each(|(t, v)| *t += m / l.sqrt() * v);
            }
        }
        self.rows.combined(&times, labels)
    }

    /// Variances of the weights of all columns beside the bias (labels×columns): each is that of a row with a single 1 and no bias.
    pub(crate) fn variances(&self, prior: &Logit, q: &Factors) -> Vec<f64> {
        let (labels, width) = (prior.labels, self.rows.width);
        let view = prior.view(q);
        let of_columns = |part: usize| {
            let columns = part * TOGETHER..((part + 1) * TOGETHER).min(width);
            let mut coordinates = self.coordinates_of(&Rows::units(columns.clone(), width));
            if prior.intercept {
                coordinates = coordinates.chunks_exact(self.size()).flat_map(|z| z.iter().copied().chain([0.0])).collect();
            }
            let (mut room, mut scratch) = (PanelScratch::default(), Scratch::default());
            with_panel(&coordinates, prior.dim, false, &mut room, |panel| prior.moments(&view, panel, &mut scratch));
            scratch.found().1.to_vec()
        };
        let parts: Vec<Vec<f64>> = parallel::map_numbers(width.div_ceil(TOGETHER), of_columns);
        let by_column = parts.concat();
        (0..labels * width).map(|at| by_column[at % width * labels + at / width].max(0.0)).collect()
    }

    /// Covariance of the weights of all columns and the bias of a label, packed: E τ⁻¹ I + R (V_u − E τ⁻¹ I) Rᵀ beside the bias.
    pub(crate) fn covariance(&self, prior: &Logit, q: &Factors, label: usize) -> Vec<f64> {
        let (size, rank, width) = (self.size(), self.values.len(), self.rows.width);
        let all = packed_len(prior.dim + q.components);
        let v = &q.covariance[label * all..(label + 1) * all];
        let at = |i: usize, j: usize| v[packed_len(i.max(j)) + i.min(j)];
        let beyond = at(size - 1, size - 1);
        let coordinates = self.coordinates_of(&Rows::units(0..width, width));
        let turn: Vec<f64> = coordinates.chunks_exact(size).flat_map(|z| z[..rank].to_vec()).collect();
        let (mut half, mut full) = (vec![0.0; width * rank], vec![0.0; width * width]);
        if rank > 0 {
            let known: Vec<f64> =
                (0..rank * rank).map(|k| (k / rank, k % rank)).map(|(i, j)| at(i, j) - if i == j { beyond } else { 0.0 }).collect();
            linalg::mul(&turn, &known, &mut half, width, rank, rank, false);
            linalg::mul_t(&half, &turn, &mut full, width, rank, width, false);
        }
        (0..width).for_each(|j| full[j * width + j] += beyond);
        let mut packed = pack(&full, width);
        if prior.intercept {
            let bias: Vec<f64> = (0..rank).map(|i| at(size, i)).collect();
            packed.extend(turn.chunks_exact(rank.max(1)).map(|z| linalg::dot(z, &bias)));
            packed.resize(packed_len(width + 1) - 1, 0.0);
            packed.push(at(size, size));
        }
        packed
    }

    /// Variances of w₀ + shiftᵀw of each label; w₀ is the bias, where there is one.
    pub(crate) fn shifted(&self, prior: &Logit, q: &Factors, shift: Vec<f64>) -> Vec<f64> {
        let coordinates = self.coordinates_of(&Rows::one(shift));
        let (mut room, mut scratch) = (PanelScratch::default(), Scratch::default());
        let view = prior.view(q);
        with_panel(&coordinates, self.size(), prior.intercept, &mut room, |panel| prior.moments(&view, panel, &mut scratch));
        scratch.found().1.iter().map(|v| v.max(0.0)).collect()
    }
}

/// Calls f with the panel of rows that are given in coordinates.
pub(crate) fn with_panel<R>(
    coordinates: &[f64],
    size: usize,
    intercept: bool,
    scratch: &mut PanelScratch,
    f: impl FnOnce(&mut Panel<'_>) -> R,
) -> R {
    let design = Design::identity(size, intercept);
    let x = X::Dense { rows: coordinates.len() / size, cols: size, values: coordinates };
    f(&mut design.panel(x, scratch))
}
