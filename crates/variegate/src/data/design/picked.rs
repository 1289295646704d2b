//! Weighted Gram matrices of some of the rows.

use super::{Kind, Panel, for_scaled};
use crate::linalg;

impl Panel<'_> {
    /// Lower triangle of out (D×D) += Σ c x̃ x̃ᵀ over the rows picked, one weight of any sign for each. Costs what these rows cost, where
    /// a weight of zero for every other row would cost them all.
    pub fn picked_gram_add(&mut self, rows: &[u32], c: &[f64], out: &mut [f64]) {
        let dim = self.dim;
        match self.kind {
            Kind::Dense(all) => {
                let n = rows.len();
                self.work.resize(self.work.len().max(2 * n * dim), f64::NAN);
                let (own, scaled) = self.work.split_at_mut(n * dim);
                for (own, &i) in own.chunks_exact_mut(dim.max(1)).zip(rows) {
                    own.copy_from_slice(&all[i as usize * dim..][..dim]);
                }
                linalg::weighted_gram(own, c, out, n, dim, scaled);
            }
            Kind::Sparse { .. } => self.sparse_gram_add(rows.iter().map(|i| *i as usize).zip(c.iter().copied()), out),
        }
    }

    /// Lower triangle of out (D×D) += Σ c x̃ x̃ᵀ over rows with their weights, of a sparse panel.
    pub(super) fn sparse_gram_add(&mut self, rows: impl Iterator<Item = (usize, f64)>, out: &mut [f64]) {
        let (Kind::Sparse { x, place, inverse, shift }, dim) = (&self.kind, self.dim) else { return };
        // Σc (u+b)(u+b)ᵀ = Σc uuᵀ + g bᵀ + b gᵀ + (Σc) bbᵀ, g = Σc u
        self.work.clear();
        self.work.resize(dim, 0.0);
        let g = &mut self.work[..];
        let mut row: Vec<(usize, f64)> = Vec::new();
        let mut total = 0.0;
        for (i, c) in rows {
            total += c;
            row.clear();
            for_scaled(*x, i, place, inverse, |j, u| row.push((j, u)));
            for (at, &(j, u)) in row.iter().enumerate() {
                let cu = c * u;
                g[j] += cu;
                for &(l, v) in &row[..=at] {
                    out[j * dim + l] += cu * v;
                }
            }
        }
        for i in 0..dim {
            for j in 0..=i {
                out[i * dim + j] += g[i] * shift[j] + shift[i] * g[j] + total * shift[i] * shift[j];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::data::design::{PanelScratch, pseudo};
    use crate::data::{Design, Matrix};

    /// As all rows with weights of zero for those not picked, dense and sparse.
    #[test]
    fn rows_picked_are_rows_weighted() {
        let (n, cols) = (23, 5);
        let raw: Vec<f64> = pseudo(n * cols, 3).into_iter().map(|v| if v > 0.2 { 0.0 } else { v }).collect();
        let (mut indptr, mut indices, mut values) = (vec![0usize], vec![], vec![]);
        for row in raw.chunks(cols) {
            for (j, &v) in row.iter().enumerate().filter(|(_, v)| **v != 0.0) {
                indices.push(j as u32);
                values.push(v);
            }
            indptr.push(indices.len());
        }
        let dense = Matrix::dense(n, cols, raw);
        let sparse = Matrix::Csr { rows: n, cols, indptr: indptr.into(), indices: indices.into(), values: values.into() };
        let mut design = Design::identity(cols, true);
        (design.mean, design.scale) = (pseudo(cols, 4), vec![0.5, 2.0, 1.0, 3.0, 0.7]);
        for picked in [vec![], vec![4u32], vec![1, 2, 7, 20, 22]] {
            let c: Vec<f64> = pseudo(picked.len(), 5);
            let mut weights = vec![0.0; n];
            picked.iter().zip(&c).for_each(|(i, c)| weights[*i as usize] = *c);
            for x in [&dense, &sparse] {
                let mut scratch = PanelScratch::default();
                let mut panel = design.panel(x.view(), &mut scratch);
                let (mut own, mut expected) = (vec![0.5; 36], vec![0.5; 36]);
                panel.picked_gram_add(&picked, &c, &mut own);
                panel.weighted_gram_add(&weights, &mut expected);
                assert!(own.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-12), "{picked:?}");
            }
        }
    }
}
