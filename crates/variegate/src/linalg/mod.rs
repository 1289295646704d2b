//! Dense linear algebra: the one place that talks to faer.
//!
//! Every function works on row-major slices of exact length, runs on the calling thread (parallelism belongs to blocks of rows)
//! and is property-tested against plain loops in `tests.rs`. Mutable views are only ever made with `from_row_major_slice_mut` on
//! exact slices: faer 0.24's strided row-major constructor for mutable views swaps its strides and corrupts memory.

mod cholesky;
pub(crate) mod eights;
mod registers;
#[cfg(test)]
mod tests;

pub use cholesky::{Cholesky, NotPositiveDefinite};

use faer::linalg::matmul::{matmul, triangular};
use faer::{Accum, MatMut, MatRef, Par};
use registers::clear_wide_registers;

fn accum(add: bool) -> Accum {
    if add { Accum::Add } else { Accum::Replace }
}

/// out (n×k) = x (n×d) · w (d×k), or `out +=` with `add`.
pub fn mul(x: &[f64], w: &[f64], out: &mut [f64], n: usize, d: usize, k: usize, add: bool) {
    matmul(
        MatMut::from_row_major_slice_mut(out, n, k),
        accum(add),
        MatRef::from_row_major_slice(x, n, d),
        MatRef::from_row_major_slice(w, d, k),
        1.0,
        Par::Seq,
    );
    clear_wide_registers();
}

/// out (n×k) = x (n×d) · wᵀ with w (k×d): weights stored one component a row.
pub fn mul_t(x: &[f64], w: &[f64], out: &mut [f64], n: usize, d: usize, k: usize, add: bool) {
    matmul(
        MatMut::from_row_major_slice_mut(out, n, k),
        accum(add),
        MatRef::from_row_major_slice(x, n, d),
        MatRef::from_row_major_slice(w, k, d).transpose(),
        1.0,
        Par::Seq,
    );
    clear_wide_registers();
}

/// out (k×d) = rᵀ · x with r (n×k), x (n×d): statistics one component a row, the faster of the two orientations.
pub(crate) fn t_mul(r: &[f64], x: &[f64], out: &mut [f64], n: usize, k: usize, d: usize, add: bool) {
    matmul(
        MatMut::from_row_major_slice_mut(out, k, d),
        accum(add),
        MatRef::from_row_major_slice(r, n, k).transpose(),
        MatRef::from_row_major_slice(x, n, d),
        1.0,
        Par::Seq,
    );
    clear_wide_registers();
}

/// Lower triangle of out (d×d) += Σ_n c_n x_n x_nᵀ. Weights may have any sign. `scaled` is scratch of at least n·d.
/// The strict upper triangle is left as it was.
pub(crate) fn weighted_gram(x: &[f64], c: &[f64], out: &mut [f64], n: usize, d: usize, scaled: &mut [f64]) {
    let scaled = &mut scaled[..n * d];
    for ((s, row), &c) in scaled.chunks_exact_mut(d).zip(x.chunks_exact(d)).zip(c) {
        for (s, &v) in s.iter_mut().zip(row) {
            *s = c * v;
        }
    }
    gram_of(scaled, x, out, n, d);
}

/// Lower triangle of out (d×d) += aᵀ · b for a, b (n×d) whose product is symmetric.
pub(crate) fn gram_of(a: &[f64], b: &[f64], out: &mut [f64], n: usize, d: usize) {
    triangular::matmul(
        MatMut::from_row_major_slice_mut(out, d, d),
        triangular::BlockStructure::TriangularLower,
        Accum::Add,
        MatRef::from_row_major_slice(a, n, d).transpose(),
        triangular::BlockStructure::Rectangular,
        MatRef::from_row_major_slice(b, n, d),
        triangular::BlockStructure::Rectangular,
        1.0,
        Par::Seq,
    );
    clear_wide_registers();
}

/// out (n×d) = x (n×d) · t for t (d×d) lower triangular; the strict upper triangle of t is not read.
pub(crate) fn mul_lower(x: &[f64], t: &[f64], out: &mut [f64], n: usize, d: usize) {
    triangular::matmul(
        MatMut::from_row_major_slice_mut(out, n, d),
        triangular::BlockStructure::Rectangular,
        Accum::Replace,
        MatRef::from_row_major_slice(x, n, d),
        triangular::BlockStructure::Rectangular,
        MatRef::from_row_major_slice(t, d, d),
        triangular::BlockStructure::TriangularLower,
        1.0,
        Par::Seq,
    );
    clear_wide_registers();
}

/// Eigenvectors (d×d, one a column) and eigenvalues of a symmetric matrix, of which the lower triangle is read; none where they are not found.
pub(crate) fn eigen(a: &[f64], d: usize) -> Option<(Vec<f64>, Vec<f64>)> {
    let found = MatRef::from_row_major_slice(a, d, d).self_adjoint_eigen(faer::Side::Lower).ok()?;
    let (vectors, values) = (found.U(), found.S().column_vector());
    clear_wide_registers();
    let vectors = (0..d * d).map(|at| vectors[(at / d, at % d)]).collect();
    Some((vectors, values.iter().copied().collect()))
}

/// Runs a loop compiled for the widest vector instructions of this processor. Worth it for plain loops over many numbers that
/// call nothing; sums keep their order, so the bits are those of ordinary code. Mark the closure
/// `#[inline(always)]`, even a short one: the compiler may otherwise make it a function of its own, with ordinary instructions. Sums are
/// not made of vector instructions by themselves: [`eights`] has those that are.
pub(crate) fn wide<R>(f: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(f)
}

/// Copies the lower triangle of a (d×d) onto its upper one.
pub(crate) fn mirror_lower(a: &mut [f64], d: usize) {
    for i in 0..d {
        for j in 0..i {
            a[j * d + i] = a[i * d + j];
        }
    }
}

/// Plain dot product, in index order.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// The same for long vectors, in eight sums side by side: several times as fast, rounded in another order.
#[inline]
pub fn dot_long(a: &[f64], b: &[f64]) -> f64 {
    sum_long(a, b, |x, y| x * y)
}

/// Squared distance of a long vector from a multiple of another.
#[inline]
pub fn distance_long(a: &[f64], b: &[f64], times: f64) -> f64 {
    sum_long(a, b, |x, y| (x - times * y) * (x - times * y))
}

#[inline(always)]
fn sum_long(a: &[f64], b: &[f64], term: impl Fn(f64, f64) -> f64) -> f64 {
    const LANES: usize = 8;
    let mut sums = [0.0; LANES];
    let (a_lanes, b_lanes) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest: f64 = a_lanes.remainder().iter().zip(b_lanes.remainder()).map(|(&x, &y)| term(x, y)).sum();
    for (x, y) in a_lanes.zip(b_lanes) {
        sums.iter_mut().zip(x.iter().zip(y)).for_each(|(s, (&x, &y))| *s += term(x, y));
    }
    sums.iter().sum::<f64>() + rest
}
