//! Real numbers with covariances: `x ~ N(mu, Sigma)`, `Sigma ~ IW(df0, Psi0)`, `mu ~ N(m0, Sigma/k0)`.
//!
//! Statistics: n, sums of `x - m0`, lower triangle of the sum of its products. `k = k0 + n`, `m = s/k` (less m0), `nu = df0 + n`,
//! `Psi = Psi0 + Q - s s'/k`; the log marginal is
//! `-(nD/2) ln pi + G(nu/2) - G(df0/2) + (df0/2) ln|Psi0| - (nu/2) ln|Psi| + (D/2) ln(k0/k)`, G the log multivariate gamma function.
//! A row of weight w adds `c d d'` to Psi, `d = x - m`, `c = w k/(k + w)`, and `|Psi + c d d'| = |Psi| (1 + c d' Psi^-1 d)`. So an atom
//! needs one Cholesky factor, and a row that comes or goes (w = -1) changes it by one rank.

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};
use std::f64::consts::{PI, TAU};

use super::{Conjugate, Prepared, broken};
use crate::dist::Gamma;
use crate::linalg::{Cholesky, dot};
use crate::special::ln_gamma;
use crate::{Error, Result};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Full {
    /// Value of each column of a row: m0, of those left out what they always are.
    pub(super) centre: Vec<f64>,
    /// Columns in use.
    pub(super) used: Vec<usize>,
    /// k0.
    pub(super) strength: f64,
    /// df0.
    pub(super) freedom: f64,
    /// Psi0 of the columns in use; the lower triangle is read.
    pub(super) scatter: Vec<f64>,
    /// ln |Psi0|.
    ln_det: f64,
}

/// ln of the multivariate gamma function of so many dimensions.
fn ln_gamma_many(dim: usize, a: f64) -> f64 {
    0.25 * (dim * dim.saturating_sub(1)) as f64 * PI.ln() + (0..dim).map(|j| ln_gamma(a - 0.5 * j as f64)).sum::<f64>()
}

impl Full {
    pub(super) fn new(centre: Vec<f64>, used: Vec<usize>, strength: f64, freedom: f64, scatter: Vec<f64>) -> Result<Self> {
        let ln_det = Cholesky::new(used.len(), &scatter)
            .map_err(|_| Error::setting("scatter", "not positive definite", "a positive definite matrix"))?
            .ln_det();
        Ok(Self { centre, used, strength, freedom, scatter, ln_det })
    }

    fn dim(&self) -> usize {
        self.used.len()
    }

    /// The columns in use, less m0.
    fn moved(&self, row: &[f64]) -> Vec<f64> {
        self.used.iter().map(|&d| row[d] - self.centre[d]).collect()
    }

    /// k, nu, and Psi (lower triangle, row-major).
    fn posterior(&self, stats: &[f64]) -> (f64, f64, Vec<f64>) {
        let dim = self.dim();
        let (n, sums, products) = (stats[0], &stats[1..=dim], &stats[dim + 1..]);
        let k = self.strength + n;
        let mut scatter = self.scatter.clone();
        let mut at = 0;
        for i in 0..dim {
            for j in 0..=i {
                scatter[i * dim + j] += products[at] - sums[i] * sums[j] / k;
                at += 1;
            }
        }
        (k, self.freedom + n, scatter)
    }

    /// The factor of a matrix that is positive definite but for rounding.
    fn factor(&self, scatter: &[f64]) -> Option<Cholesky> {
        Cholesky::with_jitter(self.dim(), scatter).ok().map(|(factor, _)| factor)
    }

    /// Fills in what depends on k, nu and |Psi| for a row of this weight.
    fn constants(&self, k: f64, nu: f64, ln_det: f64, weight: f64, out: &mut Prepared) {
        let (dim, d) = (self.dim(), self.dim() as f64);
        let gammas = if weight == 1.0 {
            // neighbours cancel
            ln_gamma(0.5 * (nu + 1.0)) - ln_gamma(0.5 * (nu - d + 1.0))
        } else {
            ln_gamma_many(dim, 0.5 * (nu + weight)) - ln_gamma_many(dim, 0.5 * nu)
        };
        out.constant = gammas - 0.5 * weight * (d * PI.ln() + ln_det) + 0.5 * d * (k / (k + weight)).ln();
        out.numbers[dim] = weight * k / (k + weight);
        out.numbers[dim + 1] = 0.5 * (nu + weight);
        out.numbers[dim + 2] = k;
    }
}

/// Where the factor begins after m (with m0), c, the power and k.
const HEAD: usize = 3;

/// L (row-major) becomes the factor of L L' + c v v'; false where that is not positive definite.
fn rank_one(lower: &mut [f64], v: &mut [f64], c: f64) -> bool {
    let dim = v.len();
    // the ratio c/b of rotations, after Gill, Golub, Murray and Saunders: works for either sign of c
    let mut b = 1.0;
    for j in 0..dim {
        let (diagonal, w) = (lower[j * dim + j], v[j]);
        let square = diagonal * diagonal + c / b * w * w;
        if !(square > 1e-13 * diagonal * diagonal && square.is_finite()) {
            return false;
        }
        let new = square.sqrt();
        let gain = c * w / (b * new);
        let ratio = new / diagonal;
        for i in j + 1..dim {
            let l = lower[i * dim + j];
            v[i] -= w / diagonal * l;
            lower[i * dim + j] = ratio * l + gain * v[i];
        }
        lower[j * dim + j] = new;
        b += c * w * w / (diagonal * diagonal);
        if b.is_nan() || b <= 0.0 {
            return false;
        }
    }
    true
}

impl Conjugate for Full {
    fn statistics(&self) -> usize {
        1 + self.dim() + self.dim() * (self.dim() + 1) / 2
    }

    fn parameters(&self) -> usize {
        self.dim() + self.dim() * (self.dim() + 1) / 2
    }

    fn add(&self, stats: &mut [f64], row: &[f64], weight: f64) {
        let moved = self.moved(row);
        let (head, products) = stats.split_at_mut(1 + moved.len());
        head[0] += weight;
        head[1..].iter_mut().zip(&moved).for_each(|(s, x)| *s += weight * x);
        let mut at = 0;
        for i in 0..moved.len() {
            for j in 0..=i {
                products[at] += weight * moved[i] * moved[j];
                at += 1;
            }
        }
    }

    fn prepare(&self, stats: &[f64], weight: f64, out: &mut Prepared) {
        let dim = self.dim();
        let (k, nu, scatter) = self.posterior(stats);
        out.numbers.clear();
        out.numbers.extend((0..dim).map(|i| self.centre[self.used[i]] + stats[1 + i] / k));
        out.numbers.resize(dim + HEAD, 0.0);
        let Some(factor) = self.factor(&scatter) else {
            // rounding has destroyed the matrix: an atom that nothing joins, until it is prepared anew
            out.constant = f64::NEG_INFINITY;
            out.numbers.resize(dim + HEAD + dim * dim, 0.0);
            return;
        };
        self.constants(k, nu, factor.ln_det(), weight, out);
        out.numbers.extend(factor.lower());
    }

    fn refresh(&self, stats: &[f64], row: &[f64], change: f64, weight: f64, out: &mut Prepared) {
        let dim = self.dim();
        let k = out.numbers[dim + 2];
        let after = k + change;
        let mut v: Vec<f64> = (0..dim).map(|i| row[self.used[i]] - out.numbers[i]).collect();
        // an atom that is emptied is the prior, which is better had exactly
        if stats[0] < 0.5 * weight
            || out.constant == f64::NEG_INFINITY
            || !rank_one(&mut out.numbers[dim + HEAD..], &mut v, change * k / after)
        {
            return self.prepare(stats, weight, out);
        }
        for i in 0..dim {
            out.numbers[i] = self.centre[self.used[i]] + stats[1 + i] / after;
        }
        let ln_det = 2.0 * (0..dim).map(|i| out.numbers[dim + HEAD + i * dim + i].ln()).sum::<f64>();
        self.constants(self.strength + stats[0], self.freedom + stats[0], ln_det, weight, out);
    }

    fn ln_predictive(&self, prepared: &Prepared, row: &[f64], _: f64) -> f64 {
        let mut y = vec![0.0; self.dim()];
        self.distance(prepared, row, &mut y)
    }

    fn ln_predictive_each(&self, prepared: &[Prepared], row: &[f64], _: f64, out: &mut [f64]) {
        let mut y = vec![0.0; self.dim()];
        for (out, prepared) in out.iter_mut().zip(prepared) {
            *out = self.distance(prepared, row, &mut y);
        }
    }

    fn ln_marginal(&self, stats: &[f64]) -> f64 {
        let (dim, n) = (self.dim(), stats[0]);
        let (k, nu, scatter) = self.posterior(stats);
        let Some(factor) = self.factor(&scatter) else { return f64::NEG_INFINITY };
        let (d, df0) = (dim as f64, self.freedom);
        ln_gamma_many(dim, 0.5 * nu) - ln_gamma_many(dim, 0.5 * df0) + 0.5 * (df0 * self.ln_det - nu * factor.ln_det())
            - 0.5 * d * (n * PI.ln() - (self.strength / k).ln())
    }

    /// With Psi = U U', U upper triangular, `C = U^-T` is lower triangular and `Psi^-1 = C C'`; with A that of Bartlett, `G = C A` is
    /// the factor of a precision, and `G^-T z` has its covariance.
    fn draw<R: Rng + ?Sized>(&self, stats: &[f64], rng: &mut R) -> Result<Vec<f64>> {
        let dim = self.dim();
        let (k, nu, scatter) = self.posterior(stats);
        // U turned end for end is the ordinary factor of Psi turned end for end
        let turned: Vec<f64> = (0..dim * dim)
            .map(|at| {
                let (i, j) = (dim - 1 - at / dim, dim - 1 - at % dim);
                scatter[i.max(j) * dim + i.min(j)]
            })
            .collect();
        let factor = self.factor(&turned).ok_or_else(|| {
            broken("the Cholesky factor of a component's scatter", "standardise the columns, or take the family `gaussian-diag`")
        })?;
        let inverse = factor.inverse_lower();
        let c = |i: usize, j: usize| inverse[(dim - 1 - j) * dim + dim - 1 - i];
        let mut a = vec![0.0; dim * dim];
        for i in 0..dim {
            a[i * dim..i * dim + i].iter_mut().for_each(|v| *v = StandardNormal.sample(rng));
            let square = Gamma::new(0.5 * (nu - i as f64), 0.5)?.sample_ln(rng);
            a[i * dim + i] = (0.5 * square).exp().max(f64::MIN_POSITIVE);
        }
        let mut theta: Vec<f64> = Vec::with_capacity(self.parameters());
        let mut lower = vec![0.0; dim * dim];
        for i in 0..dim {
            for j in 0..=i {
                lower[i * dim + j] = (j..=i).map(|l| c(i, l) * a[l * dim + j]).sum();
            }
        }
        let mut z: Vec<f64> = (0..dim).map(|_| StandardNormal.sample(rng)).collect();
        for i in (0..dim).rev() {
            let later: f64 = (i + 1..dim).map(|j| lower[j * dim + i] * z[j]).sum();
            z[i] = (z[i] - later) / lower[i * dim + i];
        }
        theta.extend((0..dim).map(|i| self.centre[self.used[i]] + stats[1 + i] / k + z[i] / k.sqrt()));
        (0..dim).for_each(|i| theta.extend(&lower[i * dim..=i * dim + i]));
        Ok(theta)
    }

    fn ln_density(&self, theta: &[f64], row: &[f64]) -> f64 {
        let dim = self.dim();
        let (mean, lower) = theta.split_at(dim);
        let mut projected = vec![0.0; dim]; // G'(x - mu)
        let (mut at, mut sum) = (0, -0.5 * dim as f64 * TAU.ln());
        for i in 0..dim {
            let moved = row[self.used[i]] - mean[i];
            projected[..=i].iter_mut().zip(&lower[at..=at + i]).for_each(|(p, g)| *p += g * moved);
            sum += lower[at + i].ln();
            at += i + 1;
        }
        sum - 0.5 * dot(&projected, &projected)
    }

    fn draw_row<R: Rng + ?Sized>(&self, theta: &[f64], rng: &mut R, out: &mut [f64]) -> Result<()> {
        let dim = self.dim();
        let (mean, lower) = theta.split_at(dim);
        out.copy_from_slice(&self.centre);
        let mut z: Vec<f64> = (0..dim).map(|_| StandardNormal.sample(rng)).collect();
        for i in (0..dim).rev() {
            let later: f64 = (i + 1..dim).map(|j| lower[j * (j + 1) / 2 + i] * z[j]).sum();
            z[i] = (z[i] - later) / lower[i * (i + 1) / 2 + i];
            out[self.used[i]] = mean[i] + z[i];
        }
        Ok(())
    }

    fn mean(&self, theta: &[f64]) -> Vec<f64> {
        let mut out = self.centre.clone();
        self.used.iter().zip(theta).for_each(|(&d, m)| out[d] = *m);
        out
    }
}

impl Full {
    /// constant - power ln(1 + c |L^-1 (x - m)|^2), by forward substitution.
    fn distance(&self, prepared: &Prepared, row: &[f64], y: &mut [f64]) -> f64 {
        let dim = y.len();
        let (mean, rest) = prepared.numbers.split_at(dim);
        let lower = &rest[HEAD..];
        let mut square = 0.0;
        for i in 0..dim {
            let moved = row[self.used[i]] - mean[i];
            y[i] = (moved - dot(&lower[i * dim..i * dim + i], &y[..i])) / lower[i * dim + i];
            square += y[i] * y[i];
        }
        prepared.constant - rest[1] * (rest[0] * square).ln_1p()
    }
}
