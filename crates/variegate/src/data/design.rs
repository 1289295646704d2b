//! From raw rows to the rows a linear predictor sees: columns kept, centred, scaled, and a bias column put last.
//!
//! A [`Design`] is recorded at fit time and replayed at prediction. Dense blocks are standardised into a small scratch panel, which
//! costs O(n·D) beside products of O(n·D·K) and keeps full accuracy for columns with large means. Sparse blocks are never
//! made dense: with u the scaled raw row and b = (−mean/scale, 1), the standardised row is x̃ = u + b, and every product below
//! is expanded in u and b.
//!
//! Between the two an input map may stand (`map.rs`): the design then keeps, centres and scales features of inner columns, and its
//! panels are dense whatever the raw rows are.

mod blocks;
mod fourier;
mod map;
mod moments;
mod packed;
mod paired;
mod picked;
mod polynomial;
mod sparse;

pub use blocks::{blocks_len, blocks_rows, runs};
pub use map::Mapped;
pub(crate) use moments::Moments;
pub use packed::{pack_form, packed_len, packed_rows};

use serde::{Deserialize, Serialize};

use super::{InputMap, X};
use crate::linalg;

/// The recorded map from raw columns to design columns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Design {
    /// Raw columns that are used, ascending; features of the map where there is one.
    pub kept: Vec<u32>,
    /// Number of raw columns expected at prediction.
    pub raw_cols: usize,
    /// Subtracted from each kept column; zeros without centring.
    pub mean: Vec<f64>,
    /// Divides each kept column; ones without scaling.
    pub scale: Vec<f64>,
    /// Whether a column of ones is appended.
    pub intercept: bool,
    /// What stands between raw columns and the columns above.
    #[serde(default)]
    pub map: Option<Box<Mapped>>,
}

const DROPPED: u32 = u32::MAX;

impl Design {
    /// Uses every column as it is.
    pub fn identity(cols: usize, intercept: bool) -> Self {
        let (mean, scale) = (vec![0.0; cols], vec![1.0; cols]);
        Self { kept: (0..cols as u32).collect(), raw_cols: cols, mean, scale, intercept, map: None }
    }

    /// Number of design columns, the bias included.
    pub fn dim(&self) -> usize {
        self.kept.len() + self.intercept as usize
    }

    /// What stands between raw columns and design columns.
    pub fn input_map(&self) -> InputMap {
        self.map.as_ref().map_or(InputMap::None, |mapped| mapped.map())
    }

    /// Prepares a run of raw rows for products. The scratch is reused from block to block and is never state.
    pub fn panel<'a>(&'a self, x: X<'a>, scratch: &'a mut PanelScratch) -> Panel<'a> {
        if let Some(mapped) = &self.map {
            return self.mapped_panel(mapped, x, scratch);
        }
        let (n, dim) = (x.rows(), self.dim());
        match x {
            X::Dense { cols, values, .. } => {
                let PanelScratch { rows, work, products, inverse, entries, .. } = scratch;
                rows.resize(n * dim, f64::NAN);
                inverse.clear();
                inverse.extend(self.scale.iter().map(|s| 1.0 / s));
                let all_kept = self.kept.len() == cols;
                for (out, row) in rows.chunks_exact_mut(dim.max(1)).zip(values.chunks_exact(cols.max(1))) {
                    if all_kept {
                        for (((o, &v), &m), &s) in out.iter_mut().zip(row).zip(&self.mean).zip(inverse.iter()) {
                            *o = (v - m) * s;
                        }
                    } else {
                        for (((o, &j), &m), &s) in out.iter_mut().zip(&self.kept).zip(&self.mean).zip(inverse.iter()) {
                            *o = (row[j as usize] - m) * s;
                        }
                    }
                    if self.intercept {
                        out[dim - 1] = 1.0;
                    }
                }
                if cols == 0 && self.intercept {
                    rows.fill(1.0);
                }
                Panel { n, dim, kind: Kind::Dense(rows), work, products, entries, packed: false }
            }
            X::Csr { .. } => {
                let PanelScratch { place, shift, work, products, inverse, entries, .. } = scratch;
                entries.clear();
                place.clear();
                place.resize(self.raw_cols, DROPPED);
                for (at, &j) in self.kept.iter().enumerate() {
                    place[j as usize] = at as u32;
                }
                inverse.clear();
                inverse.extend(self.scale.iter().map(|s| 1.0 / s));
                shift.clear();
                shift.extend(self.mean.iter().zip(&self.scale).map(|(m, s)| -m / s));
                if self.intercept {
                    shift.push(1.0);
                }
                Panel { n, dim, kind: Kind::Sparse { x, place, inverse, shift }, work, products, entries, packed: false }
            }
        }
    }
}

/// Buffers of [`Design::panel`].
#[derive(Debug, Default)]
pub struct PanelScratch {
    rows: Vec<f64>,
    work: Vec<f64>,
    products: Vec<f64>,
    place: Vec<u32>,
    shift: Vec<f64>,
    inverse: Vec<f64>,
    entries: sparse::Entries,
    map: Option<Box<map::MapScratch>>,
}

enum Kind<'a> {
    Dense(&'a [f64]),
    Sparse { x: X<'a>, place: &'a [u32], inverse: &'a [f64], shift: &'a [f64] },
}

/// n standardised rows of D columns, ready for products. Components (weights, statistics) are always one a row.
pub struct Panel<'a> {
    n: usize,
    dim: usize,
    kind: Kind<'a>,
    work: &'a mut Vec<f64>,
    /// Products of pairs of columns, once they were needed.
    products: &'a mut Vec<f64>,
    /// Entries of sparse rows, once they were needed.
    entries: &'a mut sparse::Entries,
    packed: bool,
}

impl Panel<'_> {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.n
    }

    /// Number of design columns.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The standardised rows, row-major, where the block is dense.
    pub fn dense(&self) -> Option<&[f64]> {
        match self.kind {
            Kind::Dense(rows) => Some(rows),
            Kind::Sparse { .. } => None,
        }
    }

    /// Calls f(column, value) for the entries of row i, the last column, which must be the bias, left out; of sparse rows those that they
    /// have, which must not be centred.
    pub(crate) fn for_entries(&self, i: usize, mut f: impl FnMut(usize, f64)) {
        match self.kind {
            Kind::Dense(rows) => rows[i * self.dim..(i + 1) * self.dim - 1].iter().enumerate().for_each(|(j, v)| f(j, *v)),
            Kind::Sparse { x, place, inverse, .. } => for_scaled(x, i, place, inverse, f),
        }
    }

    /// What centring adds to every sparse row, and 1 for the bias; nothing where rows are dense.
    pub(crate) fn shift(&self) -> &[f64] {
        match self.kind {
            Kind::Dense(_) => &[],
            Kind::Sparse { shift, .. } => shift,
        }
    }

    /// out (n×k) = X̃ wᵀ for k weight vectors, one a row of w (k×D).
    pub fn mul_t(&mut self, w: &[f64], k: usize, out: &mut [f64]) {
        let (n, dim) = (self.n, self.dim);
        match self.kind {
            Kind::Dense(rows) => linalg::mul_t(rows, w, out, n, dim, k, false),
            Kind::Sparse { x, place, inverse, shift } => {
                let base: Vec<f64> = w.chunks_exact(dim).map(|w| linalg::dot(w, shift)).collect();
                self.entries.read_once(x, place, inverse);
                sparse::mul_t(self.entries, w, &base, dim, self.work, out);
            }
        }
    }

    /// out (k×D) += rᵀ X̃ for r (n×k).
    pub fn t_mul_add(&mut self, r: &[f64], k: usize, out: &mut [f64]) {
        let (n, dim) = (self.n, self.dim);
        match self.kind {
            Kind::Dense(rows) => linalg::t_mul(r, rows, out, n, k, dim, true),
            Kind::Sparse { x, place, inverse, shift } => {
                let mut sums = vec![0.0; k];
                self.entries.read_once(x, place, inverse);
                sparse::t_mul_add(self.entries, r, &mut sums, dim, self.work, out);
                for (c, &s) in sums.iter().enumerate() {
                    for (o, &b) in out[c * dim..(c + 1) * dim].iter_mut().zip(shift) {
                        *o += s * b;
                    }
                }
            }
        }
    }

    /// out (D) += Σ_n c_n x̃², column by column.
    pub fn squares_add(&mut self, c: &[f64], out: &mut [f64]) {
        match self.kind {
            Kind::Dense(rows) => {
                for (row, c) in rows.chunks_exact(self.dim).zip(c) {
                    out.iter_mut().zip(row).for_each(|(o, v)| *o += c * v * v);
                }
            }
            Kind::Sparse { x, place, inverse, shift } => {
                // (u + b)² = u² + 2ub + b²
                for (i, c) in c[..self.n].iter().enumerate() {
                    for_scaled(x, i, place, inverse, |j, u| out[j] += c * u * (u + 2.0 * shift[j]));
                }
                let total: f64 = c[..self.n].iter().sum();
                out.iter_mut().zip(shift).for_each(|(o, b)| *o += total * b * b);
            }
        }
    }

    /// Lower triangle of out (D×D) += Σ_n c_n x̃ x̃ᵀ; weights of any sign.
    pub fn weighted_gram_add(&mut self, c: &[f64], out: &mut [f64]) {
        let (n, dim) = (self.n, self.dim);
        match self.kind {
            Kind::Dense(rows) => {
                self.work.resize(self.work.len().max(n * dim), f64::NAN);
                linalg::weighted_gram(rows, c, out, n, dim, self.work);
            }
            Kind::Sparse { .. } => self.sparse_gram_add((0..n).zip(c.iter().copied()), out),
        }
    }

    /// out_n = x̃ᵀ M x̃ for the symmetric M = T + Tᵀ, given T (D×D, row-major, lower triangular: the lower triangle of M with its
    /// diagonal halved). The triangular form halves the work.
    pub fn quadratic(&mut self, t: &[f64], out: &mut [f64]) {
        let (n, dim) = (self.n, self.dim);
        match self.kind {
            Kind::Dense(rows) => {
                self.work.resize(self.work.len().max(n * dim), f64::NAN);
                let product = &mut self.work[..n * dim];
                linalg::mul_lower(rows, t, product, n, dim);
                for ((o, p), x) in out.iter_mut().zip(product.chunks_exact(dim)).zip(rows.chunks_exact(dim)) {
                    *o = 2.0 * linalg::dot(p, x);
                }
            }
            Kind::Sparse { x, place, inverse, shift } => {
                // (u+b)ᵀM(u+b) = uᵀMu + 2uᵀMb + bᵀMb
                let mut mb = vec![0.0; dim];
                for i in 0..dim {
                    for j in 0..=i {
                        mb[i] += t[i * dim + j] * shift[j];
                        mb[j] += t[i * dim + j] * shift[i];
                    }
                }
                let bmb = linalg::dot(&mb, shift);
                let mut row: Vec<(usize, f64)> = Vec::new();
                for (i, o) in out.iter_mut().enumerate().take(n) {
                    row.clear();
                    for_scaled(x, i, place, inverse, |j, u| row.push((j, u)));
                    let mut sum = bmb;
                    for (at, &(j, u)) in row.iter().enumerate() {
                        let mut inner = mb[j];
                        for &(l, v) in &row[..=at] {
                            inner += t[j * dim + l] * v;
                        }
                        sum += 2.0 * u * inner;
                    }
                    *o = sum;
                }
            }
        }
    }
}

/// Calls `f(design column, scaled value)` for the stored, kept entries of a sparse row; columns ascend.
#[inline(always)]
fn for_scaled(x: X<'_>, i: usize, place: &[u32], inverse: &[f64], mut f: impl FnMut(usize, f64)) {
    let (indices, values) = x.sparse_row(i);
    for (&j, &v) in indices.iter().zip(values) {
        let at = place[j as usize];
        if at != DROPPED {
            f(at as usize, v * inverse[at as usize]);
        }
    }
}

/// Numbers between −½ and ½ that look random, for the tests of products.
#[cfg(test)]
fn pseudo(len: usize, salt: u64) -> Vec<f64> {
    let mut s = salt;
    (0..len)
        .map(|_| {
            s = s.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (s >> 11) as f64 / (1u64 << 53) as f64 - 0.5
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Matrix;

    /// Dense and sparse panels of the same rows give the same products as plain loops over the standardised matrix.
    #[test]
    fn products_agree_with_loops_dense_and_sparse() {
        let (n, cols, k) = (37, 6, 3);
        let mut raw = pseudo(n * cols, 3);
        for v in raw.iter_mut().filter(|v| **v < 0.1) {
            *v = 0.0;
        }
        let (mut indptr, mut indices, mut values) = (vec![0usize], vec![], vec![]);
        for row in raw.chunks(cols) {
            for (j, &v) in row.iter().enumerate().filter(|(_, v)| **v != 0.0) {
                indices.push(j as u32);
                values.push(v);
            }
            indptr.push(indices.len());
        }
        let dense = Matrix::dense(n, cols, raw.clone());
        let sparse = Matrix::Csr { rows: n, cols, indptr: indptr.into(), indices: indices.into(), values: values.into() };
        let design = Design {
            kept: vec![0, 2, 3, 5],
            raw_cols: cols,
            mean: vec![0.1, -0.2, 0.05, 0.3],
            scale: vec![0.5, 2.0, 1.5, 0.7],
            intercept: true,
            map: None,
        };
        let dim = design.dim();
        let mut plain = vec![0.0; n * dim];
        for i in 0..n {
            for (a, &j) in design.kept.iter().enumerate() {
                plain[i * dim + a] = (raw[i * cols + j as usize] - design.mean[a]) / design.scale[a];
            }
            plain[i * dim + dim - 1] = 1.0;
        }
        let (w, r, c) = (pseudo(k * dim, 5), pseudo(n * k, 7), pseudo(n, 9));
        let t: Vec<f64> = pseudo(dim * dim, 11).iter().enumerate().map(|(i, v)| if i % dim > i / dim { 0.0 } else { *v }).collect();
        for (x, from) in [(&dense, 4..31), (&sparse, 4..31), (&dense, 0..37), (&sparse, 0..37)] {
            let m = from.len();
            let rows = &plain[from.start * dim..from.end * dim];
            let mut scratch = PanelScratch::default();
            let mut panel = design.panel(x.slice(from.clone()), &mut scratch);
            let mut out = vec![f64::NAN; m * k];
            panel.mul_t(&w, k, &mut out);
            for i in 0..m {
                for a in 0..k {
                    let e = linalg::dot(&rows[i * dim..(i + 1) * dim], &w[a * dim..(a + 1) * dim]);
                    assert!((out[i * k + a] - e).abs() < 1e-13);
                }
            }
            let mut out = vec![0.25; k * dim];
            panel.t_mul_add(&r[..m * k], k, &mut out);
            for a in 0..k {
                for j in 0..dim {
                    let e = 0.25 + (0..m).map(|i| r[i * k + a] * rows[i * dim + j]).sum::<f64>();
                    assert!((out[a * dim + j] - e).abs() < 1e-13);
                }
            }
            let mut out = vec![0.5; dim * dim];
            panel.weighted_gram_add(&c[..m], &mut out);
            for a in 0..dim {
                for b in 0..=a {
                    let e = 0.5 + (0..m).map(|i| c[i] * rows[i * dim + a] * rows[i * dim + b]).sum::<f64>();
                    assert!((out[a * dim + b] - e).abs() < 1e-12);
                }
            }
            let mut out = vec![f64::NAN; m];
            panel.quadratic(&t, &mut out);
            for i in 0..m {
                let row = &rows[i * dim..(i + 1) * dim];
                let e: f64 = (0..dim).map(|a| (0..dim).map(|b| (t[a * dim + b] + t[b * dim + a]) * row[a] * row[b]).sum::<f64>()).sum();
                assert!((out[i] - e).abs() < 1e-12);
            }
        }
    }
}
