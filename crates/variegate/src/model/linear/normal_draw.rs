//! Draws of weights w ~ N(Q⁻¹h, Q⁻¹) with Q = X'ΩX + P, h = X'κ + Pm, that form no matrix of all columns.
//!
//! ```text
//! few rows:      u ~ N(m, P⁻¹), d ~ N(0, I), Φ = Ω^½X:   (I + ΦP⁻¹Φ') a = Ω^−½κ − Φu − d,   w = u + P⁻¹Φ'a          O(N²D + N³)
//! many columns:  e₁, e₂ ~ N(0, I):                       Q w = h + X'Ω^½e₁ + P^½e₂  by conjugate gradients            O(entries) a step
//! ```
//!
//! Both are linear in their normal variables, with mean Q⁻¹h and covariance Q⁻¹: the distribution of the draw by a Cholesky factor of Q. Rows of Ω = 0 say
//! nothing and are left out. The second is exact but for the residual at which it ends; the preconditioner is the diagonal of Q.

use serde::{Deserialize, Serialize};

use crate::linalg::{Cholesky, NotPositiveDefinite, dot};
use crate::run::Merge;

/// Residual over right-hand side at which conjugate gradients end.
const RESIDUAL: f64 = 1e-8;
/// Steps for each coefficient after which they have failed; without rounding one would do.
const PATIENCE: usize = 20;

/// Rows of a design: entries beside the bias, which is the last column and 1 in every row.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct DesignRows {
    /// Where the entries of each row end, their columns and values.
    pub(crate) ends: Vec<u32>,
    pub(crate) columns: Vec<u32>,
    pub(crate) values: Vec<f64>,
}

impl Merge for DesignRows {
    fn merge(&mut self, mut right: Self) {
        let before = self.columns.len() as u32;
        self.ends.extend(right.ends.iter().map(|end| before + end));
        self.columns.append(&mut right.columns);
        self.values.append(&mut right.values);
    }
}

impl DesignRows {
    /// Number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.ends.len()
    }

    /// Columns and values of row i.
    fn row(&self, i: usize) -> (&[u32], &[f64]) {
        let from = if i == 0 { 0 } else { self.ends[i - 1] as usize };
        let range = from..self.ends[i] as usize;
        (&self.columns[range.clone()], &self.values[range])
    }

    /// x̃_i'w.
    fn product(&self, i: usize, w: &[f64]) -> f64 {
        let (columns, values) = self.row(i);
        columns.iter().zip(values).fold(w[w.len() - 1], |sum, (&j, v)| sum + v * w[j as usize])
    }

    /// out += times · x̃_i.
    fn add(&self, i: usize, times: f64, out: &mut [f64]) {
        let (columns, values) = self.row(i);
        columns.iter().zip(values).for_each(|(&j, v)| out[j as usize] += times * v);
        out[out.len() - 1] += times;
    }

    /// Inner products of all rows without the bias (N×N, the lower triangle).
    pub(crate) fn inner(&self, dim: usize) -> Vec<f64> {
        let n = self.rows();
        let mut out = vec![0.0; n * n];
        let mut dense = vec![0.0; dim];
        for i in 0..n {
            let (columns, values) = self.row(i);
            columns.iter().zip(values).for_each(|(&j, v)| dense[j as usize] = *v);
            for l in 0..=i {
                let (columns, values) = self.row(l);
                out[i * n + l] = columns.iter().zip(values).map(|(&j, v)| v * dense[j as usize]).sum();
            }
            columns.iter().for_each(|&j| dense[j as usize] = 0.0);
        }
        out
    }
}

/// What is known of a label's weights: the rows, ω and κ of each, precision of the weights and of the bias, and the prior mean (0 if empty).
pub(crate) struct Known<'a> {
    pub(crate) rows: &'a DesignRows,
    pub(crate) curvatures: &'a [f64],
    pub(crate) responses: &'a [f64],
    pub(crate) precision: f64,
    pub(crate) bias_precision: f64,
    pub(crate) mean: &'a [f64],
    pub(crate) dim: usize,
}

impl Known<'_> {
    fn prior(&self, j: usize) -> f64 {
        if j + 1 < self.dim { self.precision } else { self.bias_precision }
    }

    fn prior_mean(&self, j: usize) -> f64 {
        self.mean.get(j).copied().unwrap_or(0.0)
    }

    /// The draw for few rows, given their inner products; `normal` gives independent standard normal numbers.
    pub(crate) fn by_inner(&self, inner: &[f64], mut normal: impl FnMut() -> f64) -> Result<Vec<f64>, NotPositiveDefinite> {
        let mut w: Vec<f64> = (0..self.dim).map(|j| self.prior_mean(j) + normal() / self.prior(j).sqrt()).collect();
        let n = self.rows.rows();
        let used: Vec<usize> = (0..n).filter(|&i| self.curvatures[i] > 0.0).collect();
        let (size, root) = (used.len(), |i: usize| self.curvatures[i].sqrt());
        let mut matrix = vec![0.0; size * size];
        let mut a = Vec::with_capacity(size);
        for (at, &i) in used.iter().enumerate() {
            for (m, &l) in matrix[at * size..].iter_mut().zip(&used[..=at]) {
                *m = root(i) * root(l) * (inner[i * n + l] / self.precision + 1.0 / self.bias_precision);
            }
            matrix[at * size + at] += 1.0;
            a.push(self.responses[i] / root(i) - root(i) * self.rows.product(i, &w) - normal());
        }
        let (factor, _) = Cholesky::with_jitter(size, &matrix)?;
        factor.solve(&mut a);
        let mut pull = vec![0.0; self.dim];
        used.iter().zip(&a).for_each(|(&i, a)| self.rows.add(i, a * root(i), &mut pull));
        w.iter_mut().zip(&pull).enumerate().for_each(|(j, (w, p))| *w += p / self.prior(j));
        Ok(w)
    }

    /// The draw for many columns, and its residual over the right-hand side; nothing if it does not become small.
    pub(crate) fn by_gradients(&self, mut normal: impl FnMut() -> f64) -> Option<(Vec<f64>, f64)> {
        let (rows, dim) = (self.rows, self.dim);
        let mut right: Vec<f64> = (0..dim).map(|j| self.prior(j) * self.prior_mean(j) + self.prior(j).sqrt() * normal()).collect();
        let mut diagonal: Vec<f64> = (0..dim).map(|j| self.prior(j)).collect();
        for i in (0..rows.rows()).filter(|&i| self.curvatures[i] > 0.0) {
            rows.add(i, self.responses[i] + self.curvatures[i].sqrt() * normal(), &mut right);
            let (columns, values) = rows.row(i);
            columns.iter().zip(values).for_each(|(&j, v)| diagonal[j as usize] += self.curvatures[i] * v * v);
            diagonal[dim - 1] += self.curvatures[i];
        }
        let size = dot(&right, &right).sqrt();
        let (mut w, mut residual) = (vec![0.0; dim], right);
        let over_diagonal = |r: &[f64]| -> Vec<f64> { r.iter().zip(&diagonal).map(|(r, d)| r / d).collect() };
        let mut z = over_diagonal(&residual);
        let mut direction = z.clone();
        let mut length = dot(&residual, &z);
        for _ in 0..PATIENCE * dim {
            let left = dot(&residual, &residual).sqrt();
            if left <= RESIDUAL * size {
                return Some((w, if size > 0.0 { left / size } else { 0.0 }));
            }
            let mut image: Vec<f64> = direction.iter().enumerate().map(|(j, d)| self.prior(j) * d).collect();
            for i in (0..rows.rows()).filter(|&i| self.curvatures[i] > 0.0) {
                let times = self.curvatures[i] * rows.product(i, &direction);
                rows.add(i, times, &mut image);
            }
            let times = length / dot(&direction, &image);
            w.iter_mut().zip(&direction).for_each(|(w, d)| *w += times * d);
            residual.iter_mut().zip(&image).for_each(|(r, a)| *r -= times * a);
            z = over_diagonal(&residual);
            let next = dot(&residual, &z);
            direction.iter_mut().zip(&z).for_each(|(d, z)| *d = z + next / length * *d);
            length = next;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIM: usize = 9;

    /// Five rows of eight columns and a bias, some entries 0; the fourth row says nothing.
    fn rows() -> (DesignRows, [f64; 5], [f64; 5]) {
        let mut rows = DesignRows::default();
        for i in 0..5u32 {
            let mut one = DesignRows::default();
            for j in (0..8u32).filter(|j| (i + j) % 3 != 0) {
                one.columns.push(j);
                one.values.push(f64::from((7 * i + 5 * j) % 11) * 0.3 - 1.2);
            }
            one.ends.push(one.columns.len() as u32);
            rows.merge(one);
        }
        (rows, [0.2, 1.7, 40.0, 0.0, 0.6], [0.5, -0.5, 3.0, 0.0, -0.7])
    }

    fn dense(rows: &DesignRows, i: usize) -> Vec<f64> {
        let mut out = vec![0.0; DIM];
        rows.add(i, 1.0, &mut out);
        out
    }

    /// Both draws are linear in their normal variables. With those at 0 they are the mean; what each of them adds, squared and summed, is
    /// the covariance: those of the Cholesky factor of Q.
    #[test]
    fn all_three_have_the_same_distribution() {
        let (rows, curvatures, responses) = rows();
        let mean: Vec<f64> = (0..DIM).map(|j| 0.1 * j as f64 - 0.3).collect();
        for mean in [&mean[..], &[]] {
            let known =
                Known { rows: &rows, curvatures: &curvatures, responses: &responses, precision: 0.7, bias_precision: 0.05, mean, dim: DIM };
            let (mut q, mut h) = (vec![0.0; DIM * DIM], vec![0.0; DIM]);
            for j in 0..DIM {
                q[j * DIM + j] = known.prior(j);
                h[j] = known.prior(j) * known.prior_mean(j);
            }
            for i in 0..5 {
                let x = dense(&rows, i);
                for j in 0..DIM {
                    h[j] += responses[i] * x[j];
                    (0..DIM).for_each(|l| q[j * DIM + l] += curvatures[i] * x[j] * x[l]);
                }
            }
            let factor = Cholesky::new(DIM, &q).unwrap();
            factor.solve(&mut h);
            let covariance = factor.inverse();
            let inner = rows.inner(DIM);
            // columns and the four rows that say something
            let variables = DIM + 4;
            let with = |which: Option<usize>, few: bool| {
                let mut next = 0;
                let normal = || {
                    next += 1;
                    f64::from(u8::from(which == Some(next - 1)))
                };
                if few { known.by_inner(&inner, normal).unwrap() } else { known.by_gradients(normal).unwrap().0 }
            };
            for (few, close) in [(true, 1e-9), (false, 1e-6)] {
                let at_mean = with(None, few);
                assert!(at_mean.iter().zip(&h).all(|(a, b)| (a - b).abs() < close), "{few}: {at_mean:?} {h:?}");
                let mut found = vec![0.0; DIM * DIM];
                for v in 0..variables {
                    let moved: Vec<f64> = with(Some(v), few).iter().zip(&at_mean).map(|(a, b)| a - b).collect();
                    for (at, f) in found.iter_mut().enumerate() {
                        *f += moved[at / DIM] * moved[at % DIM];
                    }
                }
                assert!(found.iter().zip(&covariance).all(|(a, b)| (a - b).abs() < close * 10.0), "{few}: {found:?} {covariance:?}");
            }
        }
    }

    /// The residual is told, and no number of steps is enough for what is no number.
    #[test]
    fn residuals_are_small_or_the_draw_fails() {
        let (rows, curvatures, responses) = rows();
        let known =
            Known { rows: &rows, curvatures: &curvatures, responses: &responses, precision: 1.0, bias_precision: 0.1, mean: &[], dim: DIM };
        let (_, residual) = known.by_gradients(|| 0.3).unwrap();
        assert!(residual <= RESIDUAL, "{residual}");
        assert!(Known { precision: f64::NAN, ..known }.by_gradients(|| 0.3).is_none());
    }
}
