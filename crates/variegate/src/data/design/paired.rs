//! Many weighted Gram matrices of the same rows, kept one pair of columns a row and one matrix a column.
//!
//! In this order a stored pair of a sparse row touches neighbours in all matrices, which vector instructions add at once; in the order of
//! `packed.rs`, one matrix a row, it touches as many lines of memory as there are matrices.

use super::{Kind, Panel, for_scaled, packed_len};
use crate::linalg;

/// Up to so many columns products of their own are faster than those of large matrices (`bench/RESULTS.md`).
const FEW_COLUMNS: usize = 96;
/// The same for a single matrix, whose sums alone do not keep the processor busy.
const FEW_COLUMNS_OF_ONE: usize = 40;
/// Rows that are worked on together: blocks of columns stay in cache.
const FEW_ROWS: usize = 256;
/// Columns of a block.
const LANES: usize = 8;
/// Matrices of a group, at most: their sums are held in registers.
const GROUP: usize = 6;

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
        if let Kind::Dense(rows) = self.kind
            && dim <= if k == 1 { FEW_COLUMNS_OF_ONE } else { FEW_COLUMNS }
        {
            for (rows, c) in rows.chunks(FEW_ROWS * dim).zip(c[..n * k].chunks(FEW_ROWS * k)) {
                few_columns(rows, dim, c, k, self.work, out);
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

/// The same for dense rows of few columns: for column i the rows are weighted by c x̃_i, and meet blocks of columns j ≤ i.
fn few_columns(rows: &[f64], dim: usize, c: &[f64], k: usize, work: &mut Vec<f64>, out: &mut [f64]) {
    let n = rows.len() / dim;
    let blocks = dim.div_ceil(LANES);
    // columns a power of two apart would meet in the same lines of the cache
    let stride = n + LANES;
    work.clear();
    work.resize(blocks * n * LANES + (dim + k + k.min(GROUP)) * stride, 0.0);
    let (block, rest) = work.split_at_mut(blocks * n * LANES);
    let (columns, rest) = rest.split_at_mut(dim * stride);
    let (weights, scaled) = rest.split_at_mut(k * stride);
    for (r, row) in rows.chunks_exact(dim).enumerate() {
        for (j, &v) in row.iter().enumerate() {
            block[(j / LANES * n + r) * LANES + j % LANES] = v;
            columns[j * stride + r] = v;
        }
        for (h, &v) in c[r * k..(r + 1) * k].iter().enumerate() {
            weights[h * stride + r] = v;
        }
    }
    let (block, _) = block.as_chunks::<LANES>();
    let groups = k.div_ceil(GROUP);
    for g in 0..groups {
        // groups of equal sizes
        let own = g * k / groups..(g + 1) * k / groups;
        let some = Group { block, columns, weights: &weights[own.start * stride..own.end * stride], n, stride, dim, k, first: own.start };
        match own.len() {
            1 => some.add::<1>(scaled, out),
            2 => some.add::<2>(scaled, out),
            3 => some.add::<3>(scaled, out),
            4 => some.add::<4>(scaled, out),
            5 => some.add::<5>(scaled, out),
            _ => some.add::<GROUP>(scaled, out),
        }
    }
}

/// Some of the matrices: rows in blocks of columns and column by column, weights matrix by matrix.
struct Group<'a> {
    block: &'a [[f64; LANES]],
    columns: &'a [f64],
    weights: &'a [f64],
    n: usize,
    /// From one column to the next.
    stride: usize,
    dim: usize,
    /// All matrices, and the first of these.
    k: usize,
    first: usize,
}

impl Group<'_> {
    fn add<const K: usize>(&self, scaled: &mut [f64], out: &mut [f64]) {
        linalg::wide(
            #[inline(always)]
            || self.add_here::<K>(scaled, out),
        );
    }

    #[inline(always)]
    fn add_here<const K: usize>(&self, scaled: &mut [f64], out: &mut [f64]) {
        let (n, stride) = (self.n, self.stride);
        for i in 0..self.dim {
            let column = &self.columns[i * stride..][..n];
            for h in 0..K {
                let (scaled, weights) = (&mut scaled[h * stride..][..n], &self.weights[h * stride..][..n]);
                for r in 0..n {
                    scaled[r] = weights[r] * column[r];
                }
            }
            for b in 0..=i / LANES {
                let sums = outer::<K>(&self.block[b * n..][..n], scaled, stride);
                for j in b * LANES..(b * LANES + LANES).min(i + 1) {
                    let at = (packed_len(i) + j) * self.k + self.first;
                    for h in 0..K {
                        out[at + h] += sums[h][j % LANES];
                    }
                }
            }
        }
    }
}

/// Σ_n s_hn b_n of each h.
#[inline(always)]
fn outer<const K: usize>(block: &[[f64; LANES]], scaled: &[f64], stride: usize) -> [[f64; LANES]; K] {
    let n = block.len();
    let mut sums = [[0.0; LANES]; K];
    let mut weights = [&scaled[..n]; K];
    for h in 0..K {
        weights[h] = &scaled[h * stride..][..n];
    }
    for r in 0..n {
        for h in 0..K {
            let w = weights[h][r];
            for l in 0..LANES {
                sums[h][l] += w * block[r][l];
            }
        }
    }
    sums
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
        let shapes = [
            (19, 1, true, 3),
            (37, 7, false, 1),
            (1, 5, true, 5),
            (23, 40, false, 13),
            (300, 12, true, 6),
            (520, 8, true, 7),
            (9, 100, true, 2),
            (270, 60, true, 1),
        ];
        for (n, cols, centred, k) in shapes {
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
