//! The `tilted` bound of a group of rows: full Newton steps as in `tilted.rs`. Rows that need shorter ones are left unsolved.

use super::super::tilted::{MOST_STEPS, reach_of};
use crate::data::design::packed_len;
use crate::linalg;
use crate::special::lanes::{LANES, Lane, any, each, larger, softmax};

/// Covariances of the logits of a group, as in `tilted.rs`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Spread<'a> {
    /// Variances of independent logits.
    Child(&'a [Lane]),
    /// Packed lower triangles.
    Joint(&'a [Lane]),
}

/// Buffers of the search, and its results.
#[derive(Debug, Default)]
pub(crate) struct Tilted {
    /// Φ at its minimum.
    pub(crate) phi: Lane,
    /// The minimisers.
    pub(crate) minimiser: Vec<Lane>,
    /// 1 where the row is not solved.
    pub(crate) unsolved: Lane,
    at: Point,
    work: Work,
}

/// Where the search is.
#[derive(Debug, Default)]
struct Point {
    a: Vec<Lane>,
    /// Softmax of the tilted argument at `a`.
    p: Vec<Lane>,
    /// The Newton step.
    d: Vec<Lane>,
}

/// What a joint covariance needs besides.
#[derive(Debug, Default)]
struct Work {
    va: Vec<Lane>,
    vr: Vec<Lane>,
    root: Vec<Lane>,
    y: Vec<Lane>,
    factor: Vec<Lane>,
}

/// What a step promises, twice over; the largest entry of Vd, and of d.
struct Step {
    promise: Lane,
    reach: Lane,
    change: Lane,
}

impl Tilted {
    /// Φ, for logits with means m.
    pub(crate) fn minimise(&mut self, m: &[Lane], v: Spread<'_>, tolerance: f64) {
        let Self { minimiser, at: Point { a, p, d }, work: Work { va, vr, root, y, factor }, .. } = self;
        for buffer in [minimiser, a, p, d, va, vr, root, y] {
            buffer.resize(m.len(), [0.0; LANES]);
        }
        factor.resize(packed_len(m.len()), [0.0; LANES]);
        linalg::wide(
            #[inline(always)]
            || match v {
                Spread::Child(v) => self.search(
                    m,
                    tolerance,
                    #[inline(always)]
                    |at, _| child_arguments(m, v, at),
                    #[inline(always)]
                    |at, work, _| child_step(v, at, &mut work.y),
                ),
                Spread::Joint(v) => self.search(
                    m,
                    tolerance,
                    #[inline(always)]
                    |at, work| joint_arguments(m, v, at, &mut work.va),
                    #[inline(always)]
                    |at, work, unsolved| joint_step(v, at, work, unsolved),
                ),
            },
        );
    }

    /// `arguments` fills in the argument of the softmax at a and returns aᵀVa.
    #[inline(always)]
    fn search(
        &mut self,
        m: &[Lane],
        tolerance: f64,
        arguments: impl Fn(&mut Point, &mut Work) -> Lane,
        step: impl Fn(&mut Point, &mut Work, &mut Lane) -> Step,
    ) {
        let Self { phi, minimiser, unsolved, at, work } = self;
        let near = reach_of(tolerance);
        at.a.copy_from_slice(m);
        softmax(&mut at.a);
        let mut open = [1.0; LANES];
        *unsolved = [0.0; LANES];
        for steps in 0..=MOST_STEPS {
            let half = arguments(at, work);
            let ln_sum = softmax(&mut at.p);
            let next = each(|l| ln_sum[l] + 0.5 * half[l]);
            if steps > 0 {
                // a step that raises Φ would have to be shortened
                let fell = each(|l| if next[l] <= phi[l] + 1e-12 * (1.0 + phi[l].abs()) { open[l] } else { 0.0 });
                *unsolved = each(|l| if fell[l] < open[l] { 1.0 } else { unsolved[l] });
                *phi = each(|l| if fell[l] > 0.0 { next[l] } else { phi[l] });
                open = fell;
            } else {
                *phi = next;
            }
            if !any(&open) {
                return;
            }
            let Step { promise, reach, change } = step(at, work, unsolved);
            open = each(|l| if unsolved[l] > 0.0 { 0.0 } else { open[l] });
            let ends = each(|l| if (reach[l] < near) | (change[l] < tolerance) { open[l] } else { 0.0 });
            *phi = each(|l| if (ends[l] > 0.0) & (promise[l] > 0.0) { phi[l] - 0.5 * promise[l] } else { phi[l] });
            open = each(|l| if ends[l] > 0.0 { 0.0 } else { open[l] });
            for ((a, d), minimiser) in at.a.iter_mut().zip(&at.d).zip(minimiser.iter_mut()) {
                let next = each(|l| a[l] + d[l]);
                let kept = each(|l| if next[l] > 0.0 { next[l] } else { 0.0 });
                *minimiser = each(|l| if ends[l] > 0.0 { kept[l] } else { minimiser[l] });
                *a = next;
            }
            if !any(&open) {
                return;
            }
        }
        *unsolved = each(|l| if open[l] > 0.0 { 1.0 } else { unsolved[l] });
    }
}

#[inline(always)]
fn child_arguments(m: &[Lane], v: &[Lane], at: &mut Point) -> Lane {
    let mut half = [0.0; LANES];
    for (((p, m), v), a) in at.p.iter_mut().zip(m).zip(v).zip(&at.a) {
        *p = each(|l| m[l] + (0.5 - a[l]) * v[l]);
        half = each(|l| half[l] + a[l] * a[l] * v[l]);
    }
    half
}

#[inline(always)]
fn child_step(v: &[Lane], at: &mut Point, y: &mut [Lane]) -> Step {
    let (mut top, mut bottom) = ([0.0; LANES], [0.0; LANES]);
    for ((((d, y), p), a), v) in at.d.iter_mut().zip(y.iter_mut()).zip(&at.p).zip(&at.a).zip(v) {
        let t = each(|l| 1.0 / (1.0 + p[l] * v[l]));
        *d = each(|l| (p[l] - a[l]) * t[l]);
        *y = each(|l| p[l] * t[l]);
        top = each(|l| top[l] + p[l] * v[l] * d[l]);
        bottom = each(|l| bottom[l] + y[l]);
    }
    let scale = each(|l| top[l] / bottom[l]);
    let mut step = Step { promise: [0.0; LANES], reach: [0.0; LANES], change: [0.0; LANES] };
    for ((((d, y), p), a), v) in at.d.iter_mut().zip(y.iter()).zip(&at.p).zip(&at.a).zip(v) {
        *d = each(|l| d[l] + scale[l] * y[l]);
        step.add(&each(|l| (p[l] - a[l]) * v[l]), d, &each(|l| v[l] * d[l]));
    }
    step
}

impl Step {
    /// One more logit: r or V r for independent logits, d, and Vd.
    #[inline(always)]
    fn add(&mut self, vr: &Lane, d: &Lane, vd: &Lane) {
        self.promise = each(|l| self.promise[l] + vr[l] * d[l]);
        self.reach = each(|l| larger(self.reach[l], vd[l].abs()));
        self.change = each(|l| larger(self.change[l], d[l].abs()));
    }
}

#[inline(always)]
fn joint_arguments(m: &[Lane], v: &[Lane], at: &mut Point, va: &mut [Lane]) -> Lane {
    mul_packed(v, &at.a, va);
    let mut half = [0.0; LANES];
    for (c, ((p, m), (a, va))) in at.p.iter_mut().zip(m).zip(at.a.iter().zip(va.iter())).enumerate() {
        let v = &v[packed_len(c) + c];
        *p = each(|l| m[l] + 0.5 * v[l] - va[l]);
        half = each(|l| half[l] + a[l] * va[l]);
    }
    half
}

/// With q = √p: the positive definite I + (I − qqᵀ)QVQ(I − qqᵀ), its solution, and back.
#[inline(always)]
fn joint_step(v: &[Lane], at: &mut Point, work: &mut Work, unsolved: &mut Lane) -> Step {
    let Work { va, vr, root: q, y, factor: f } = work;
    for ((d, q), (p, a)) in at.d.iter_mut().zip(q.iter_mut()).zip(at.p.iter().zip(&at.a)) {
        *d = each(|l| p[l] - a[l]);
        *q = each(|l| p[l].sqrt());
    }
    mul_packed(v, &at.d, vr);
    for i in 0..q.len() {
        let row = packed_len(i)..=packed_len(i) + i;
        for ((f, v), qj) in f[row.clone()].iter_mut().zip(&v[row]).zip(q.iter()) {
            *f = each(|l| q[i][l] * v[l] * qj[l]);
        }
    }
    mul_packed(f, q, y);
    let total = dot(y, q);
    for i in 0..q.len() {
        for ((f, qj), yj) in f[packed_len(i)..=packed_len(i) + i].iter_mut().zip(q.iter()).zip(y.iter()) {
            *f = each(|l| f[l] + (total[l] * q[i][l] - y[i][l]) * qj[l] - q[i][l] * yj[l]);
        }
        let diagonal = &mut f[packed_len(i) + i];
        *diagonal = each(|l| diagonal[l] + 1.0);
    }
    for ((y, q), w) in y.iter_mut().zip(q.iter()).zip(vr.iter()) {
        *y = each(|l| q[l] * w[l]);
    }
    let along = dot(y, q);
    for (y, q) in y.iter_mut().zip(q.iter()) {
        minus(y, q, &along);
    }
    solve_packed(f, y, unsolved);
    for ((d, y), q) in at.d.iter_mut().zip(y.iter()).zip(q.iter()) {
        minus(d, q, y);
    }
    mul_packed(v, &at.d, va);
    let mut step = Step { promise: [0.0; LANES], reach: [0.0; LANES], change: [0.0; LANES] };
    for ((d, vd), vr) in at.d.iter().zip(va.iter()).zip(vr.iter()) {
        step.add(vr, d, vd);
    }
    step
}

/// Packed Cholesky factor in place, reciprocals on its diagonal, and y ← (LLᵀ)⁻¹y. Where a pivot is not positive the row is not solved.
#[inline(always)]
fn solve_packed(f: &mut [Lane], y: &mut [Lane], unsolved: &mut Lane) {
    let s = y.len();
    for i in 0..s {
        let (above, row) = f.split_at_mut(packed_len(i));
        for j in 0..i {
            let other = &above[packed_len(j)..=packed_len(j) + j];
            let mut entry = row[j];
            for (r, o) in row[..j].iter().zip(other) {
                minus(&mut entry, r, o);
            }
            row[j] = each(|l| entry[l] * other[j][l]);
        }
        let (mut pivot, mut here) = (row[i], y[i]);
        for (r, y) in row[..i].iter().zip(y.iter()) {
            minus(&mut pivot, r, r);
            minus(&mut here, r, y);
        }
        *unsolved = each(|l| if pivot[l] > 0.0 { unsolved[l] } else { 1.0 });
        row[i] = each(|l| 1.0 / (if pivot[l] > 0.0 { pivot[l] } else { 1.0 }).sqrt());
        y[i] = each(|l| here[l] * row[i][l]);
    }
    for i in (0..s).rev() {
        let row = &f[packed_len(i)..=packed_len(i) + i];
        let here = each(|l| y[i][l] * row[i][l]);
        y[i] = here;
        for (y, r) in y[..i].iter_mut().zip(row) {
            minus(y, r, &here);
        }
    }
}

/// out −= a b.
#[inline(always)]
fn minus(out: &mut Lane, a: &Lane, b: &Lane) {
    *out = each(|l| out[l] - a[l] * b[l]);
}

#[inline(always)]
fn dot(a: &[Lane], b: &[Lane]) -> Lane {
    let mut sum = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        sum = each(|l| sum[l] + a[l] * b[l]);
    }
    sum
}

/// out = V a for packed V.
#[inline(always)]
fn mul_packed(v: &[Lane], a: &[Lane], out: &mut [Lane]) {
    for i in 0..a.len() {
        let row = &v[packed_len(i)..=packed_len(i) + i];
        let here = a[i];
        let mut sum = each(|l| row[i][l] * here[l]);
        for ((v, a), out) in row[..i].iter().zip(a).zip(out.iter_mut()) {
            sum = each(|l| sum[l] + v[l] * a[l]);
            *out = each(|l| out[l] + v[l] * here[l]);
        }
        out[i] = sum;
    }
}
