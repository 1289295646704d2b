//! Many weighted Gram matrices of the same rows, kept one pair of columns a row and one matrix a column.
//!
//! In this order a stored pair of a sparse row touches neighbours in all matrices, which vector instructions add at once; in the order of
//! `packed.rs`, one matrix a row, it touches as many lines of memory as there are matrices.

use super::{Kind, Panel, for_scaled, packed_len};
use crate::linalg;

impl Panel<'_> {
    /// out (pairs × k) += Σ_n c_nk x̃_i x̃_j for weights c (n×k) of any sign; pairs j ≤ i as `packed.rs` numbers them.
    pub fn paired_grams_add(&mut self, c: &[f64], k: usize, out: &mut [f64]) {
        let (n, dim) = (self.n, self.dim);
        if let Kind::Sparse { x, place, inverse, shift } = self.kind {
            // Σc (u+b)(u+b)ᵀ = Σc uuᵀ + g bᵀ + b gᵀ + (Σc) bbᵀ, g = Σc u
            self.work.clear();
            self.work.resize((dim + 1) * k, 0.0);
            let (g, total) = self.work.split_at_mut(dim * k);
            let mut row: Vec<(usize, f64)> = Vec::new();
            linalg::wide(
                #[inline(always)]
                || {
                    for (i, c) in c.chunks_exact(k).enumerate().take(n) {
                        row.clear();
                        for_scaled(x, i, place, inverse, |j, u| row.push((j, u)));
                        add(total, 1.0, c);
                        for (at, &(j, u)) in row.iter().enumerate() {
                            add(&mut g[j * k..(j + 1) * k], u, c);
                            let first = packed_len(j);
                            for &(l, v) in &row[..=at] {
                                add(&mut out[(first + l) * k..(first + l + 1) * k], u * v, c);
                            }
                        }
                    }
                },
            );
            for i in 0..dim {
                for j in 0..=i {
                    let (bi, bj) = (shift[i], shift[j]);
                    if bi == 0.0 && bj == 0.0 {
                        continue;
                    }
                    let out = &mut out[(packed_len(i) + j) * k..][..k];
                    for (h, o) in out.iter_mut().enumerate() {
                        *o += g[i * k + h] * bj + bi * g[j * k + h] + total[h] * bi * bj;
                    }
                }
            }
            return;
        }
        let len = packed_len(dim);
        let mut grams = vec![0.0; k * len];
        self.weighted_grams_add(c, k, &mut grams);
        for (h, gram) in grams.chunks_exact(len).enumerate() {
            for (o, g) in out.iter_mut().skip(h).step_by(k).zip(gram) {
                *o += g;
            }
        }
    }
}

/// out += a v.
#[inline(always)]
fn add(out: &mut [f64], a: f64, v: &[f64]) {
    for (o, v) in out.iter_mut().zip(v) {
        *o += a * v;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Design, PanelScratch, packed_len, pseudo};
    use crate::data::Matrix;

    #[test]
    fn paired_grams_are_the_packed_ones() {
        for (n, cols, centred) in [(19, 1, true), (37, 7, false), (1, 5, true), (23, 40, false)] {
            let k = 3;
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
            let dense = Matrix::dense(n, cols, raw.clone());
            let sparse = Matrix::Csr { rows: n, cols, indptr: indptr.into(), indices: indices.into(), values: values.into() };
            for intercept in [true, false] {
                let mut design = Design::identity(cols, intercept);
                if centred {
                    design.mean = pseudo(cols, 21);
                }
                let (c, len) = (pseudo(n * k, 9), packed_len(design.dim()));
                let mut expected = vec![0.0; k * len];
                design.panel(dense.view(), &mut PanelScratch::default()).weighted_grams_add(&c, k, &mut expected);
                for x in [&dense, &sparse] {
                    let mut out = vec![0.5; len * k];
                    design.panel(x.view(), &mut PanelScratch::default()).paired_grams_add(&c, k, &mut out);
                    for h in 0..k {
                        for at in 0..len {
                            assert!((out[at * k + h] - 0.5 - expected[h * len + at]).abs() < 1e-12);
                        }
                    }
                }
            }
        }
    }
}
