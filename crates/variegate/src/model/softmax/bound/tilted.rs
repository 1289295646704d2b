//! The `tilted` bound (Knowles and Minka 2011), the default.
//!
//! For any a: Φ(a) = ln Σ_c exp( m_c + ½V_cc − (Va)_c ) + ½ aᵀVa. It is convex in a and smallest where a = p, the softmax of that argument.
//! Newton: J d = p − a with J = I + (diag p − ppᵀ)V, backing off while Φ rises. Then ∂Φ/∂m = p and ∂Φ/∂V = ½(diag p − ppᵀ).
//! With V = 0 it is the exact log-sum-exp; its excess over E ln Σ exp z grows with the variances, so fits start from small ones.

use crate::data::design::packed_len;

/// Largest change of a that ends the search while fitting. Φ is flat at its minimum: what is left is of the order of the square.
pub(crate) const FITTING: f64 = 1e-6;
/// The same where a itself is the answer.
pub(crate) const REFINED: f64 = 1e-10;

/// Most steps of a search.
pub(super) const MOST_STEPS: usize = 100;

/// Largest change of the logits by a step that ends the search: what is left is of the order of its square.
pub(super) fn reach_of(tolerance: f64) -> f64 {
    0.1 * tolerance.sqrt()
}

/// Covariance of the logits of a row.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Spread<'a> {
    /// Independent logits: their variances.
    Child(&'a [f64]),
    /// Packed lower triangle of V.
    Joint(&'a [f64]),
}

/// Newton's method for one row; the buffers are reused from row to row.
#[derive(Debug, Default, Clone)]
pub(crate) struct Solver {
    a: Vec<f64>,
    /// Softmax of the tilted argument at `a`.
    p: Vec<f64>,
    /// The Newton step.
    d: Vec<f64>,
    from: Vec<f64>,
    va: Vec<f64>,
    vr: Vec<f64>,
    root: Vec<f64>,
    y: Vec<f64>,
    factor: Vec<f64>,
}

impl Solver {
    /// The minimiser of the last call, also an approximate mean of the softmax.
    pub(crate) fn minimiser(&self) -> &[f64] {
        &self.p
    }

    /// Φ at its minimum, for logits with means m.
    pub(crate) fn minimise(&mut self, m: &[f64], v: Spread<'_>, tolerance: f64) -> f64 {
        let s = m.len();
        for buffer in [&mut self.p, &mut self.d, &mut self.va, &mut self.vr, &mut self.root, &mut self.y] {
            buffer.resize(s, 0.0);
        }
        self.a.clear();
        self.a.extend_from_slice(m);
        softmax(&mut self.a);
        let mut phi = self.evaluate(m, v);
        for _ in 0..MOST_STEPS {
            let Some((promise, reach)) = self.step(v) else { break };
            if reach < reach_of(tolerance) || self.d.iter().all(|d| d.abs() < tolerance) {
                // the last step is not evaluated any more: a + d is the softmax there up to the square of what the step does to the
                // logits, and Φ is its quadratic model up to the cube
                for ((p, a), d) in self.p.iter_mut().zip(&self.a).zip(&self.d) {
                    *p = (a + d).max(0.0);
                }
                return phi - 0.5 * promise.max(0.0);
            }
            self.from.clone_from(&self.a);
            let mut length = 1.0;
            loop {
                for ((a, from), d) in self.a.iter_mut().zip(&self.from).zip(&self.d) {
                    *a = from + length * d;
                }
                let next = self.evaluate(m, v);
                if next <= phi + 1e-12 * (1.0 + phi.abs()) {
                    phi = next;
                    break;
                }
                length *= 0.5;
                if length < 1e-6 {
                    // rounding hides any further descent, or the logits are not finite: the point before is a bound all the same
                    self.a.clone_from(&self.from);
                    return self.evaluate(m, v);
                }
            }
        }
        phi
    }

    /// Φ(a), and p.
    fn evaluate(&mut self, m: &[f64], v: Spread<'_>) -> f64 {
        let mut half = 0.0;
        match v {
            Spread::Child(v) => {
                for (((p, &m), &v), &a) in self.p.iter_mut().zip(m).zip(v).zip(&self.a) {
                    *p = m + (0.5 - a) * v;
                    half += a * a * v;
                }
            }
            Spread::Joint(v) => {
                mul_packed(v, &self.a, &mut self.va);
                for (c, p) in self.p.iter_mut().enumerate() {
                    *p = m[c] + 0.5 * v[packed_len(c) + c] - self.va[c];
                    half += self.a[c] * self.va[c];
                }
            }
        }
        softmax(&mut self.p) + 0.5 * half
    }

    /// Newton's d with (p − a)ᵀVd, twice what the quadratic model promises, and the largest entry of Vd. `None` where V is not a
    /// covariance to working accuracy.
    fn step(&mut self, v: Spread<'_>) -> Option<(f64, f64)> {
        match v {
            Spread::Child(v) => Some(self.child_step(v)),
            Spread::Joint(v) => self.joint_step(v),
        }
    }

    /// J is diagonal plus rank one, T − p(pv)ᵀ with T = 1 + pv. In Sherman and Morrison's inverse the denominator
    /// 1 − Σ p²v/(1+pv) is Σ p/(1+pv), where nothing cancels.
    fn child_step(&mut self, v: &[f64]) -> (f64, f64) {
        let (mut top, mut bottom) = (0.0, 0.0);
        for ((((d, y), &p), &a), &v) in self.d.iter_mut().zip(&mut self.y).zip(&self.p).zip(&self.a).zip(v) {
            let pv = p * v;
            let t = 1.0 / (1.0 + pv);
            *d = (p - a) * t;
            *y = p * t;
            top += pv * *d;
            bottom += *y;
        }
        let scale = top / bottom;
        let (mut promise, mut reach) = (0.0, 0.0f64);
        for ((((d, y), &p), &a), &v) in self.d.iter_mut().zip(&self.y).zip(&self.p).zip(&self.a).zip(v) {
            *d += scale * y;
            promise += (p - a) * v * *d;
            reach = reach.max((v * *d).abs());
        }
        (promise, reach)
    }

    /// diag p − ppᵀ = BBᵀ with B = Q(I − qqᵀ), q = √p, Q = diag q, so J⁻¹r = r − B (I + BᵀVB)⁻¹ BᵀVr: a positive definite solve.
    fn joint_step(&mut self, v: &[f64]) -> Option<(f64, f64)> {
        let Self { a, p, d, va, vr, root: q, y, factor: f, .. } = self;
        for ((d, &p), &a) in d.iter_mut().zip(p.iter()).zip(a.iter()) {
            *d = p - a;
        }
        mul_packed(v, d, vr);
        for (q, &p) in q.iter_mut().zip(p.iter()) {
            *q = p.sqrt();
        }
        // I + (I − qqᵀ) G (I − qqᵀ) with G = QVQ
        f.clear();
        for (i, &qi) in q.iter().enumerate() {
            let at = packed_len(i);
            f.extend(v[at..=at + i].iter().zip(q.iter()).map(|(v, qj)| qi * v * qj));
        }
        mul_packed(f, q, y);
        let total = dot(y, q);
        for i in 0..q.len() {
            let row = &mut f[packed_len(i)..=packed_len(i) + i];
            for (j, f) in row.iter_mut().enumerate() {
                *f += total * q[i] * q[j] - y[i] * q[j] - q[i] * y[j];
            }
            row[i] += 1.0;
        }
        // the right-hand side (I − qqᵀ) Q V r, and back through B
        for ((y, q), w) in y.iter_mut().zip(q.iter()).zip(vr.iter()) {
            *y = q * w;
        }
        let along = dot(y, q);
        for (y, q) in y.iter_mut().zip(q.iter()) {
            *y -= along * q;
        }
        factor_packed(f, y.len())?;
        solve_packed(f, y);
        // the solution is orthogonal to q as the right-hand side is
        for ((d, y), q) in d.iter_mut().zip(y.iter()).zip(q.iter()) {
            *d -= q * y;
        }
        mul_packed(v, d, va);
        Some((dot(d, vr), va.iter().fold(0.0, |reach, u| reach.max(u.abs()))))
    }
}

/// Logits become probabilities; returns their log-sum-exp.
pub(crate) fn softmax(z: &mut [f64]) -> f64 {
    let top = z.iter().fold(f64::NEG_INFINITY, |top, &z| top.max(z));
    let mut sum = 0.0;
    for z in z.iter_mut() {
        *z = (*z - top).exp();
        sum += *z;
    }
    let scale = 1.0 / sum;
    for z in z.iter_mut() {
        *z *= scale;
    }
    top + sum.ln()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// out = V a for the packed V.
fn mul_packed(v: &[f64], a: &[f64], out: &mut [f64]) {
    out.fill(0.0);
    for i in 0..a.len() {
        let row = &v[packed_len(i)..packed_len(i) + i];
        let mut sum = 0.0;
        for j in 0..i {
            sum += row[j] * a[j];
            out[j] += row[j] * a[i];
        }
        out[i] += sum + v[packed_len(i) + i] * a[i];
    }
}

/// Packed Cholesky factor in place.
fn factor_packed(f: &mut [f64], s: usize) -> Option<()> {
    for i in 0..s {
        let (above, row) = f.split_at_mut(packed_len(i));
        for j in 0..i {
            let other = &above[packed_len(j)..=packed_len(j) + j];
            row[j] = (row[j] - dot(&row[..j], &other[..j])) * other[j];
        }
        let pivot = row[i] - dot(&row[..i], &row[..i]);
        if pivot.is_nan() || pivot <= 0.0 {
            return None;
        }
        // the reciprocal is kept: it is only ever multiplied with
        row[i] = 1.0 / pivot.sqrt();
    }
    Some(())
}

/// y ← (LLᵀ)⁻¹ y for a factor of [`factor_packed`].
fn solve_packed(f: &[f64], y: &mut [f64]) {
    for i in 0..y.len() {
        let row = &f[packed_len(i)..=packed_len(i) + i];
        y[i] = (y[i] - dot(&row[..i], &y[..i])) * row[i];
    }
    for i in (0..y.len()).rev() {
        let row = &f[packed_len(i)..=packed_len(i) + i];
        y[i] *= row[i];
        let (head, tail) = y.split_at_mut(i);
        for (h, r) in head.iter_mut().zip(row) {
            *h -= r * tail[0];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::special::log_sum_exp;
    use proptest::prelude::*;

    #[test]
    fn reference_values() {
        let (m, v) = ([0.3, -1.2, 2.0], [0.5, 1.5, 0.8]);
        let mut s = Solver::default();
        assert!((s.minimise(&m, Spread::Child(&v), FITTING) - 2.3417689490).abs() < 1e-10);
        let phi = s.minimise(&m, Spread::Child(&v), REFINED);
        assert!((phi - 2.3417689490).abs() < 1e-10);
        for (a, e) in s.minimiser().iter().zip([0.1909426583, 0.0696176432, 0.7394396985]) {
            assert!((a - e).abs() < 1e-10, "{a} {e}");
        }
        let joint = [0.5, 0.3, 1.5, -0.1, 0.2, 0.8];
        assert!((s.minimise(&m, Spread::Joint(&joint), FITTING) - 2.3431575091).abs() < 1e-10);
        assert!((s.minimise(&[0.7, -0.4], Spread::Child(&[0.6, 1.1]), FITTING) - 1.1599576513).abs() < 1e-10);
    }

    #[test]
    fn without_variance_it_is_the_log_sum_exp() {
        let mut s = Solver::default();
        for m in [vec![0.0, 0.0], vec![1.0, -2.0, 0.5], vec![800.0, -800.0, 799.0], vec![-1e5, 1e5]] {
            let exact = log_sum_exp(&m);
            let zeros = vec![0.0; packed_len(m.len())];
            assert!((s.minimise(&m, Spread::Child(&zeros[..m.len()]), FITTING) - exact).abs() <= 1e-12 * exact.abs());
            assert!((s.minimise(&m, Spread::Joint(&zeros), FITTING) - exact).abs() <= 1e-12 * exact.abs());
            assert!((s.minimiser().iter().sum::<f64>() - 1.0).abs() < 1e-12);
        }
    }

    proptest! {
        /// The stationary point a = softmax(m + ½ diag V − Va), found from any means and covariances, and no a is better.
        #[test]
        fn the_minimiser_is_its_own_softmax(
            m in prop::collection::vec(-1.0..1.0f64, 2..8),
            l in prop::collection::vec(-1.0..1.0f64, 28),
            scale in prop_oneof![Just(0.1), Just(3.0), Just(100.0)],
        ) {
            let n = m.len();
            let m: Vec<f64> = m.iter().map(|v| v * 3.0 * scale).collect();
            // V = LLᵀ, and its diagonal for independent logits
            let mut joint = vec![0.0; packed_len(n)];
            for i in 0..n {
                for j in 0..=i {
                    joint[packed_len(i) + j] = scale * (0..=j).map(|k| l[packed_len(i) + k] * l[packed_len(j) + k]).sum::<f64>();
                }
            }
            let child: Vec<f64> = (0..n).map(|i| joint[packed_len(i) + i]).collect();
            let diagonal: Vec<f64> =
                (0..packed_len(n)).map(|k| (0..n).find(|i| packed_len(*i) + i == k).map_or(0.0, |i| child[i])).collect();
            let mut s = Solver::default();
            for (spread, full) in [(Spread::Child(&child), &diagonal), (Spread::Joint(&joint), &joint), (Spread::Joint(&diagonal), &diagonal)] {
                let phi = s.minimise(&m, spread, REFINED);
                let a = s.minimiser().to_vec();
                let value = |a: &[f64]| {
                    let mut va = vec![0.0; n];
                    mul_packed(full, a, &mut va);
                    let e: Vec<f64> = (0..n).map(|c| m[c] + 0.5 * full[packed_len(c) + c] - va[c]).collect();
                    let phi = log_sum_exp(&e) + 0.5 * dot(a, &va);
                    (phi, e.iter().map(|v| (v - log_sum_exp(&e)).exp()).collect::<Vec<f64>>())
                };
                let (direct, p) = value(&a);
                prop_assert!((direct - phi).abs() < 1e-10 * (1.0 + phi.abs()), "{} {}", direct, phi);
                for (a, p) in a.iter().zip(&p) {
                    prop_assert!((a - p).abs() < 1e-7, "{} {}", a, p);
                }
                prop_assert!(phi >= log_sum_exp(&m) - 1e-10 * (1.0 + phi.abs()));
                for c in 0..n {
                    let mut other = a.clone();
                    other[c] += 0.05;
                    other[(c + 1) % n] -= 0.03;
                    prop_assert!(value(&other).0 >= phi - 1e-10 * (1.0 + phi.abs()));
                }
                let rough = s.minimise(&m, spread, FITTING);
                prop_assert!((rough - phi).abs() < 1e-9 * (1.0 + phi.abs()), "{} {}", rough, phi);
            }
        }
    }
}
