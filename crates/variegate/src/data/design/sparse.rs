//! Products of sparse rows with several vectors: a strip of components at a time, which stays in registers while a row's entries pass by.
//!
//! The weights of a strip lie next to each other, column by column, and for a few hundred columns fit the nearest cache. Sums go through
//! a row's entries, and through the rows, in order, whatever the strip: bits do not depend on its width.

use super::{X, for_scaled};
use crate::linalg::wide;

/// Scaled entries of sparse rows, and where each row ends.
#[derive(Debug, Default)]
pub(super) struct Entries {
    ends: Vec<u32>,
    columns: Vec<u32>,
    values: Vec<f64>,
}

impl Entries {
    /// Forgets them.
    pub(super) fn clear(&mut self) {
        self.ends.clear();
        self.columns.clear();
        self.values.clear();
    }

    /// Those of all rows of x, unless they are here already.
    pub(super) fn read_once(&mut self, x: X<'_>, place: &[u32], inverse: &[f64]) {
        let Self { ends, columns, values } = self;
        if !ends.is_empty() {
            return;
        }
        for i in 0..x.rows() {
            for_scaled(x, i, place, inverse, |j, u| {
                columns.push(j as u32);
                values.push(u);
            });
            ends.push(columns.len() as u32);
        }
    }

    /// Column and value of the entries of each row, a row after the other.
    #[inline(always)]
    fn rows(&self) -> impl Iterator<Item = impl Iterator<Item = (usize, f64)> + '_> + '_ {
        let mut from = 0;
        self.ends.iter().map(move |&end| {
            let range = from..end as usize;
            from = range.end;
            self.columns[range.clone()].iter().zip(&self.values[range]).map(|(&j, &u)| (j as usize, u))
        })
    }
}

/// Calls `f` with the first component of each strip; it answers how many it did.
macro_rules! strips {
    ($k:expr, $f:ident ( $($argument:expr),* )) => {{
        let mut from = 0;
        while from < $k {
            // the last strip may be wider than what is left
            from += match $k - from {
                25.. => $f::<32>(from, $($argument),*),
                13.. => $f::<16>(from, $($argument),*),
                5.. => $f::<8>(from, $($argument),*),
                _ => $f::<4>(from, $($argument),*),
            };
        }
    }};
}

/// out (n×k) = base + U wᵀ for k vectors, one a row of w (k×dim), and rows U of entries.
pub(super) fn mul_t(entries: &Entries, w: &[f64], base: &[f64], dim: usize, work: &mut Vec<f64>, out: &mut [f64]) {
    let k = base.len();
    if entries.values.len() <= dim {
        // a strip would cost more than the entries
        for (row, out) in entries.rows().zip(out.chunks_exact_mut(k)) {
            out.copy_from_slice(base);
            row.for_each(|(j, u)| out.iter_mut().enumerate().for_each(|(c, o)| *o += u * w[c * dim + j]));
        }
        return;
    }
    strips!(k, strip_mul_t(entries, w, base, dim, work, out));
}

fn strip_mul_t<const W: usize>(
    from: usize,
    entries: &Entries,
    w: &[f64],
    base: &[f64],
    dim: usize,
    work: &mut Vec<f64>,
    out: &mut [f64],
) -> usize {
    let k = base.len();
    let count = W.min(k - from);
    work.clear();
    work.resize(dim * W, 0.0);
    let (strip, _) = work.as_chunks_mut::<W>();
    for (c, w) in w[from * dim..].chunks_exact(dim).take(count).enumerate() {
        strip.iter_mut().zip(w).for_each(|(s, v)| s[c] = *v);
    }
    let mut first = [0.0; W];
    first[..count].copy_from_slice(&base[from..from + count]);
    let strip = &*strip;
    wide(
        #[inline(always)]
        || {
            for (row, out) in entries.rows().zip(out.chunks_exact_mut(k)) {
                let mut sums = first;
                for (j, u) in row {
                    let w = &strip[j];
                    for c in 0..W {
                        sums[c] += u * w[c];
                    }
                }
                out[from..from + count].copy_from_slice(&sums[..count]);
            }
        },
    );
    count
}

/// out (k×dim) += rᵀ U for r (n×k), and sums (k) += Σ r.
pub(super) fn t_mul_add(entries: &Entries, r: &[f64], sums: &mut [f64], dim: usize, work: &mut Vec<f64>, out: &mut [f64]) {
    let k = sums.len();
    if entries.values.len() <= dim {
        // a strip would cost more than the entries
        for (row, r) in entries.rows().zip(r.chunks_exact(k)) {
            sums.iter_mut().zip(r).for_each(|(s, v)| *s += v);
            row.for_each(|(j, u)| r.iter().enumerate().for_each(|(c, v)| out[c * dim + j] += v * u));
        }
        return;
    }
    strips!(k, strip_t_mul_add(entries, r, sums, dim, work, out));
}

fn strip_t_mul_add<const W: usize>(
    from: usize,
    entries: &Entries,
    r: &[f64],
    sums: &mut [f64],
    dim: usize,
    work: &mut Vec<f64>,
    out: &mut [f64],
) -> usize {
    let k = sums.len();
    let count = W.min(k - from);
    work.clear();
    work.resize(dim * W, 0.0);
    let (strip, _) = work.as_chunks_mut::<W>();
    let mut total = [0.0; W];
    wide(
        #[inline(always)]
        || {
            let mut factors = [0.0; W];
            for (row, r) in entries.rows().zip(r.chunks_exact(k)) {
                factors[..count].copy_from_slice(&r[from..from + count]);
                for c in 0..W {
                    total[c] += factors[c];
                }
                for (j, u) in row {
                    let o = &mut strip[j];
                    for c in 0..W {
                        o[c] += factors[c] * u;
                    }
                }
            }
        },
    );
    sums[from..from + count].iter_mut().zip(total).for_each(|(s, t)| *s += t);
    for (c, out) in out[from * dim..].chunks_exact_mut(dim).take(count).enumerate() {
        out.iter_mut().zip(&*strip).for_each(|(o, s)| *o += s[c]);
    }
    count
}
