//! Many quadratic forms and many weighted Gram matrices of the same rows.
//!
//! A symmetric D×D matrix is kept *packed*: its lower triangle row by row, P = D(D+1)/2 numbers, entry (i, j) at i(i+1)/2 + j.
//! With z_n the packed products x̃_i x̃_j of a row, all Grams are one product cᵀZ and all quadratic forms one product Z Fᵀ. Forming Z
//! costs D²/2 a row and pays where matrices are many or small, as long as a panel of Z stays in the second-level cache; else
//! each matrix takes a triangular product of its own. Where the one overtakes the other was measured for 6 and 21 matrices.

use super::{Kind, Panel, for_scaled};
use crate::linalg;

/// Whether Z is formed for k matrices.
fn forms_products(dim: usize, k: usize) -> bool {
    dim <= (10 * k).min(96)
}

/// Numbers of Z that stay in the second-level cache.
const CACHED: usize = 96 * 1024;

/// Length of a packed symmetric matrix.
pub fn packed_len(dim: usize) -> usize {
    dim * (dim + 1) / 2
}

/// Rows of a panel that suit k products of `dim` columns: as many as keep Z and the k numbers of each row in cache, 512 where Z is
/// not formed.
pub fn packed_rows(dim: usize, k: usize) -> usize {
    if !forms_products(dim, k) {
        return 512;
    }
    (CACHED / packed_len(dim).max(k)).clamp(16, 512) / 8 * 8
}

/// The quadratic form xᵀMx of a square M (symmetric or not) in the packed products of x: the diagonal, and m_ij + m_ji below it.
/// `at(i, j)` reads M.
pub fn pack_form(dim: usize, at: impl Fn(usize, usize) -> f64, out: &mut [f64]) {
    let mut k = 0;
    for i in 0..dim {
        for j in 0..i {
            out[k] = at(i, j) + at(j, i);
            k += 1;
        }
        out[k] = at(i, i);
        k += 1;
    }
}

impl Panel<'_> {
    /// Forms Z once a panel.
    fn pack(&mut self) {
        let (n, dim) = (self.n, self.dim);
        let Kind::Dense(rows) = self.kind else { return };
        if self.packed {
            return;
        }
        let len = packed_len(dim);
        self.products.resize(self.products.len().max(n * len), f64::NAN);
        let products = &mut self.products[..];
        linalg::wide(
            #[inline(always)]
            || {
                for (x, z) in rows.chunks_exact(dim).zip(products.chunks_exact_mut(len)) {
                    let mut at = 0;
                    for i in 0..dim {
                        let n = i + 1;
                        let (v, x, z) = (x[i], &x[..n], &mut z[at..at + n]);
                        for l in 0..n {
                            z[l] = v * x[l];
                        }
                        at += n;
                    }
                }
            },
        );
        self.packed = true;
    }

    /// out (n×k) = x̃ᵀ M x̃ for k matrices given as packed forms (k×P, see [`pack_form`]).
    pub fn quadratics(&mut self, forms: &[f64], k: usize, out: &mut [f64]) {
        let (n, dim, len) = (self.n, self.dim, packed_len(self.dim));
        match self.kind {
            Kind::Dense(_) if forms_products(dim, k) => {
                self.pack();
                linalg::mul_t(&self.products[..n * len], forms, out, n, len, k, false);
            }
            _ => {
                // one triangular product a form; T is M with its diagonal halved, so that M = T + Tᵀ
                let mut t = vec![0.0; dim * dim];
                let mut column = vec![0.0; n];
                for (c, form) in forms.chunks_exact(len).enumerate() {
                    let mut at = 0;
                    for i in 0..dim {
                        for (t, f) in t[i * dim..=i * dim + i].iter_mut().zip(&form[at..]) {
                            *t = 0.5 * f;
                        }
                        at += i + 1;
                    }
                    self.quadratic(&t, &mut column);
                    for (out, &v) in out.chunks_exact_mut(k).zip(&column) {
                        out[c] = v;
                    }
                }
            }
        }
    }

    /// Packed out (k×P) += Σ_n c_nk x̃ x̃ᵀ for weights c (n×k) of any sign.
    pub fn weighted_grams_add(&mut self, c: &[f64], k: usize, out: &mut [f64]) {
        let (n, dim, len) = (self.n, self.dim, packed_len(self.dim));
        match self.kind {
            Kind::Dense(_) if forms_products(dim, k) => {
                self.pack();
                linalg::t_mul(c, &self.products[..n * len], out, n, k, len, true);
            }
            Kind::Dense(_) => {
                let mut gram = vec![0.0; dim * dim];
                let mut column = vec![0.0; n];
                for (j, out) in out.chunks_exact_mut(len).enumerate() {
                    for (v, c) in column.iter_mut().zip(c.chunks_exact(k)) {
                        *v = c[j];
                    }
                    gram.fill(0.0);
                    self.weighted_gram_add(&column, &mut gram);
                    let mut at = 0;
                    for i in 0..dim {
                        for (o, g) in out[at..=at + i].iter_mut().zip(&gram[i * dim..]) {
                            *o += g;
                        }
                        at += i + 1;
                    }
                }
            }
            Kind::Sparse { x, place, inverse, shift } => {
                // Σc (u+b)(u+b)ᵀ = Σc uuᵀ + g bᵀ + b gᵀ + (Σc) bbᵀ, g = Σc u, for all k in one walk over the entries
                self.work.clear();
                self.work.resize(k * (dim + 1), 0.0);
                let (g, total) = self.work.split_at_mut(k * dim);
                let mut row: Vec<(usize, f64)> = Vec::new();
                for (i, c) in c.chunks_exact(k).enumerate().take(n) {
                    for (t, c) in total.iter_mut().zip(c) {
                        *t += c;
                    }
                    row.clear();
                    for_scaled(x, i, place, inverse, |j, u| row.push((j, u)));
                    for (at, &(j, u)) in row.iter().enumerate() {
                        for (h, &c) in c.iter().enumerate() {
                            g[h * dim + j] += c * u;
                        }
                        for &(l, v) in &row[..=at] {
                            let uv = u * v;
                            for (h, &c) in c.iter().enumerate() {
                                out[h * len + packed_len(j) + l] += c * uv;
                            }
                        }
                    }
                }
                for ((out, g), &total) in out.chunks_exact_mut(len).zip(g.chunks_exact(dim)).zip(total.iter()) {
                    let mut at = 0;
                    for i in 0..dim {
                        for j in 0..=i {
                            out[at] += g[i] * shift[j] + shift[i] * g[j] + total * shift[i] * shift[j];
                            at += 1;
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::design::{PanelScratch, pseudo};
    use crate::data::{Design, Matrix};

    /// Packed, triangular and sparse paths agree with plain loops.
    #[test]
    fn many_products_agree_with_loops() {
        for (n, cols) in [(19, 1), (37, 7), (1, 5), (23, 40)] {
            let k = 3;
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
            let mut design = Design::identity(cols, true);
            design.mean = pseudo(cols, 21);
            design.scale = pseudo(cols, 22).iter().map(|v| v + 1.0).collect();
            let dim = design.dim();
            let len = packed_len(dim);
            let rows: Vec<f64> = raw
                .chunks(cols)
                .flat_map(|r| {
                    let mut row: Vec<f64> = r.iter().zip(&design.mean).zip(&design.scale).map(|((v, m), s)| (v - m) / s).collect();
                    row.push(1.0);
                    row
                })
                .collect();
            let m = pseudo(k * dim * dim, 5);
            let mut forms = vec![f64::NAN; k * len];
            for (m, f) in m.chunks(dim * dim).zip(forms.chunks_mut(len)) {
                pack_form(dim, |i, j| m[i * dim + j], f);
            }
            let c = pseudo(n * k, 9);
            for x in [&dense, &sparse] {
                let mut scratch = PanelScratch::default();
                let mut panel = design.panel(x.view(), &mut scratch);
                let mut out = vec![f64::NAN; n * k];
                panel.quadratics(&forms, k, &mut out);
                let mut grams = vec![0.5; k * len];
                panel.weighted_grams_add(&c, k, &mut grams);
                for h in 0..k {
                    for i in 0..n {
                        let row = &rows[i * dim..(i + 1) * dim];
                        let e: f64 =
                            (0..dim).map(|a| row[a] * linalg::dot(&m[h * dim * dim + a * dim..h * dim * dim + (a + 1) * dim], row)).sum();
                        assert!((out[i * k + h] - e).abs() < 1e-10, "{} {e}", out[i * k + h]);
                    }
                    for a in 0..dim {
                        for b in 0..=a {
                            let e = 0.5 + (0..n).map(|i| c[i * k + h] * rows[i * dim + a] * rows[i * dim + b]).sum::<f64>();
                            assert!((grams[h * len + packed_len(a) + b] - e).abs() < 1e-11);
                        }
                    }
                }
            }
        }
    }
}
