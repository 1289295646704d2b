//! Quadratic forms and Gram matrices that are block diagonal: columns in runs of a fixed width, pairs within a run only.
//!
//! The blocks of a matrix lie one after the other, each packed as in `packed.rs`; width 1 is a diagonal. Sparse rows stay sparse:
//! with x̃ = u + b every product is expanded in u and b, as in the parent module.

use super::{Kind, Panel, for_scaled, packed_len};
use crate::linalg;

/// Runs of `width` columns, the last one shorter: (first column, columns, place of the block).
pub fn runs(dim: usize, width: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..dim.div_ceil(width)).map(move |b| (b * width, width.min(dim - b * width), b * packed_len(width)))
}

/// Length of a packed block-diagonal matrix.
pub fn blocks_len(dim: usize, width: usize) -> usize {
    dim / width * packed_len(width) + packed_len(dim % width)
}

/// Rows of a panel whose products fit the cache.
pub fn blocks_rows(dim: usize, width: usize) -> usize {
    (512 * 1024 / blocks_len(dim, width).max(1)).clamp(8, 512) / 8 * 8
}

/// Calls `f(place, j, l)` for all pairs l ≤ j of the same run.
fn for_pairs(dim: usize, width: usize, mut f: impl FnMut(usize, usize, usize)) {
    for (first, columns, at) in runs(dim, width) {
        for i in 0..columns {
            for j in 0..=i {
                f(at + packed_len(i) + j, first + i, first + j);
            }
        }
    }
}

/// Place of the pair (j, l), l ≤ j, of the same run.
fn place_of(j: usize, l: usize, width: usize) -> usize {
    let first = j / width * width;
    j / width * packed_len(width) + packed_len(j - first) + (l - first)
}

impl Panel<'_> {
    /// Products of pairs of columns of the same run, n × `blocks_len`.
    fn pack_blocks(&mut self, width: usize) {
        let (n, dim) = (self.n, self.dim);
        let Kind::Dense(rows) = self.kind else { return };
        let len = blocks_len(dim, width);
        self.work.resize(self.work.len().max(n * len), f64::NAN);
        if width == 1 {
            // squares: a loop for each would be all overhead
            let work = &mut self.work[..n * len];
            linalg::wide(
                #[inline(always)]
                || work.iter_mut().zip(rows).for_each(|(z, x)| *z = x * x),
            );
            return;
        }
        for (x, z) in rows.chunks_exact(dim).zip(self.work.chunks_exact_mut(len)) {
            for (first, columns, at) in runs(dim, width) {
                for i in 0..columns {
                    let from = at + packed_len(i);
                    for (z, &u) in z[from..=from + i].iter_mut().zip(&x[first..]) {
                        *z = x[first + i] * u;
                    }
                }
            }
        }
    }

    /// out (n×k) = x̃ᵀ M x̃ for k block-diagonal matrices given as packed forms (off-diagonal entries doubled).
    pub fn block_quadratics(&mut self, width: usize, forms: &[f64], k: usize, out: &mut [f64]) {
        let (n, dim) = (self.n, self.dim);
        let len = blocks_len(dim, width);
        match self.kind {
            Kind::Dense(_) => {
                self.pack_blocks(width);
                linalg::mul_t(&self.work[..n * len], forms, out, n, len, k, false);
            }
            Kind::Sparse { x, place, inverse, shift } => {
                // (u+b)ᵀM(u+b) = uᵀMu + 2uᵀMb + bᵀMb; forms with one matrix a column, so that an entry touches k neighbours
                let mut linear = vec![0.0; dim * k];
                let mut base = vec![0.0; k];
                let mut forms_t = vec![0.0; len * k];
                for (c, form) in forms.chunks_exact(len).enumerate() {
                    for_pairs(dim, width, |at, j, l| {
                        forms_t[at * k + c] = form[at];
                        // 2Mb, from forms whose off-diagonal entries are m_jl + m_lj
                        if j == l {
                            linear[j * k + c] += 2.0 * form[at] * shift[j];
                        } else {
                            linear[j * k + c] += form[at] * shift[l];
                            linear[l * k + c] += form[at] * shift[j];
                        }
                        base[c] += form[at] * shift[j] * shift[l];
                    });
                }
                let mut row: Vec<(usize, f64)> = Vec::new();
                for (i, out) in out.chunks_exact_mut(k).enumerate().take(n) {
                    row.clear();
                    for_scaled(x, i, place, inverse, |j, u| row.push((j, u)));
                    out.copy_from_slice(&base);
                    for (at, &(j, u)) in row.iter().enumerate() {
                        add(out, u, &linear[j * k..(j + 1) * k]);
                        for &(l, v) in row[..=at].iter().rev().take_while(|(l, _)| l / width == j / width) {
                            add(out, u * v, &forms_t[place_of(j, l, width) * k..][..k]);
                        }
                    }
                }
            }
        }
    }

    /// Packed blocks of out (k × `blocks_len`) += Σ_n c_nk x̃ x̃ᵀ for weights c (n×k) of any sign.
    pub fn block_grams_add(&mut self, width: usize, c: &[f64], k: usize, out: &mut [f64]) {
        let (n, dim) = (self.n, self.dim);
        let len = blocks_len(dim, width);
        match self.kind {
            Kind::Dense(_) => {
                self.pack_blocks(width);
                linalg::t_mul(c, &self.work[..n * len], out, n, k, len, true);
            }
            Kind::Sparse { x, place, inverse, shift } => {
                let mut linear = vec![0.0; dim * k];
                let mut total = vec![0.0; k];
                let mut row: Vec<(usize, f64)> = Vec::new();
                for (i, c) in c.chunks_exact(k).enumerate().take(n) {
                    row.clear();
                    for_scaled(x, i, place, inverse, |j, u| row.push((j, u)));
                    add(&mut total, 1.0, c);
                    for (at, &(j, u)) in row.iter().enumerate() {
                        add(&mut linear[j * k..(j + 1) * k], u, c);
                        for &(l, v) in row[..=at].iter().rev().take_while(|(l, _)| l / width == j / width) {
                            let at = place_of(j, l, width);
                            for (c, &weight) in c.iter().enumerate() {
                                out[c * len + at] += weight * u * v;
                            }
                        }
                    }
                }
                for c in 0..k {
                    for_pairs(dim, width, |at, j, l| {
                        out[c * len + at] += linear[j * k + c] * shift[l] + shift[j] * linear[l * k + c] + total[c] * shift[j] * shift[l];
                    });
                }
            }
        }
    }
}

/// out += a v.
fn add(out: &mut [f64], a: f64, v: &[f64]) {
    for (o, v) in out.iter_mut().zip(v) {
        *o += a * v;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Design, PanelScratch, pseudo};
    use super::*;
    use crate::data::Matrix;

    #[test]
    fn block_products_agree_with_loops_dense_and_sparse() {
        let (n, cols, k) = (23, 7, 3);
        let mut raw = pseudo(n * cols, 3);
        raw.iter_mut().filter(|v| **v < 0.1).for_each(|v| *v = 0.0);
        let (mut indptr, mut indices, mut values) = (vec![0usize], vec![], vec![]);
        for row in raw.chunks(cols) {
            for (j, &v) in row.iter().enumerate().filter(|(_, v)| **v != 0.0) {
                indices.push(j as u32);
                values.push(v);
            }
            indptr.push(indices.len());
        }
        let design = Design { mean: pseudo(cols, 5), scale: vec![0.5, 2.0, 1.5, 0.7, 1.0, 3.0, 0.2], ..Design::identity(cols, true) };
        let dim = design.dim();
        let plain: Vec<f64> = raw
            .chunks(cols)
            .flat_map(|row| (0..dim).map(|j| if j < cols { (row[j] - design.mean[j]) / design.scale[j] } else { 1.0 }).collect::<Vec<_>>())
            .collect();
        let dense = Matrix::dense(n, cols, raw.clone());
        let sparse = Matrix::Csr { rows: n, cols, indptr: indptr.into(), indices: indices.into(), values: values.into() };
        for width in [1, 3, 8, 20] {
            let len = blocks_len(dim, width);
            let (forms, c) = (pseudo(k * len, 7), pseudo(n * k, 9));
            for x in [&dense, &sparse] {
                let mut scratch = PanelScratch::default();
                let mut panel = design.panel(x.slice(0..n), &mut scratch);
                let mut out = vec![f64::NAN; n * k];
                panel.block_quadratics(width, &forms, k, &mut out);
                let mut grams = vec![0.25; k * len];
                panel.block_grams_add(width, &c, k, &mut grams);
                for a in 0..k {
                    for i in 0..n {
                        let row = &plain[i * dim..(i + 1) * dim];
                        let mut e = 0.0;
                        for_pairs(dim, width, |at, j, l| e += forms[a * len + at] * row[j] * row[l]);
                        assert!((out[i * k + a] - e).abs() < 1e-11 * (1.0 + e.abs()), "{width}");
                    }
                    for_pairs(dim, width, |at, j, l| {
                        let e = 0.25 + (0..n).map(|i| c[i * k + a] * plain[i * dim + j] * plain[i * dim + l]).sum::<f64>();
                        assert!((grams[a * len + at] - e).abs() < 1e-11 * (1.0 + e.abs()), "{width}");
                    });
                }
            }
        }
    }
}
