//! Real numbers with covariances: x ~ N(μ, Σ), Σ ~ inverse-Wishart(ν, S), μ ~ N(m, Σ/k).
//! Numbers of a row: x less the shift, its products in pairs, then 1. All means in here are less the shift; of symmetric matrices
//! the lower triangle is kept, in D×D numbers with zeros above.

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};
use std::f64::consts::{LN_2, PI, TAU};

use super::{Conjugate, Predictive, Scratch, Table, add_counts};
use crate::data::X;
use crate::dist::Gamma;
use crate::linalg::{self, Cholesky};
use crate::special::{digamma, ln_gamma};
use crate::{Error, Result};

/// The kernel of real numbers with covariances.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Full {
    shift: Vec<f64>,
    /// S of the prior.
    scatter: Vec<f64>,
    prior: FullFactor,
    power: f64,
}

/// Normal-inverse-Wishart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct FullFactor {
    /// k: how many rows the mean is worth.
    pub(crate) strength: f64,
    /// m, less the kernel's shift.
    pub(crate) mean: Vec<f64>,
    /// ν.
    pub(crate) freedom: f64,
    /// S, factored.
    pub(crate) scatter: Cholesky,
}

impl FullFactor {
    /// E ln |Σ⁻¹|.
    fn mean_ln_det(&self) -> f64 {
        let dim = self.mean.len();
        (0..dim).map(|j| digamma(0.5 * (self.freedom - j as f64))).sum::<f64>() + dim as f64 * LN_2 - self.scatter.ln_det()
    }
}

/// ln of the multivariate gamma function of so many dimensions.
fn ln_gamma_many(dim: usize, a: f64) -> f64 {
    0.25 * (dim * dim.saturating_sub(1)) as f64 * PI.ln() + (0..dim).map(|j| ln_gamma(a - 0.5 * j as f64)).sum::<f64>()
}

fn factor(dim: usize, lower: &[f64]) -> Result<Cholesky> {
    let failed = |_| Error::Numerical {
        what: "the Cholesky factor of a component's scatter",
        sweep: 0,
        detail: "columns of very different size or linearly dependent ones may do this: standardise them, or use `gaussian-diag`".into(),
    };
    Ok(Cholesky::with_jitter(dim, lower).map_err(failed)?.0)
}

impl Full {
    /// Prior means m, strength k, degrees of freedom ν above D − 1, scatter S (lower triangle), and the columns' means over all rows
    /// as the shift.
    pub(crate) fn new(mean: &[f64], strength: f64, freedom: f64, scatter: &[f64], shift: &[f64], power: f64) -> Result<Self> {
        let dim = shift.len();
        let mean = mean.iter().zip(shift).map(|(m, s)| m - s).collect();
        let prior = FullFactor { strength, mean, freedom, scatter: factor(dim, scatter)? };
        let mut lower = vec![0.0; dim * dim];
        (0..dim).for_each(|i| lower[i * dim..=i * dim + i].copy_from_slice(&scatter[i * dim..=i * dim + i]));
        Ok(Self { shift: shift.to_vec(), scatter: lower, prior, power })
    }

    /// The identity, as a scatter.
    pub(crate) fn identity(dim: usize) -> Vec<f64> {
        (0..dim * dim).map(|at| if at % (dim + 1) == 0 { 1.0 } else { 0.0 }).collect()
    }

    /// A table of constant − (x − m)'P(x − m)/2 for the lower triangle of P, all times the power.
    fn forms(&self, components: impl Iterator<Item = (f64, Vec<f64>, Vec<f64>)>) -> Table {
        let (mut constants, mut centres, mut forms) = (Vec::new(), Vec::new(), Vec::new());
        for (constant, mean, precision) in components {
            constants.push(self.power * constant);
            centres.extend(mean);
            forms.extend(half_form(&precision, self.width()).map(|v| -0.5 * self.power * v));
        }
        Table::Forms { shift: self.shift.clone(), constants, centres, forms }
    }
}

/// T with T + Tᵀ the given symmetric matrix: its lower triangle with the diagonal halved.
pub(super) fn half_form(symmetric: &[f64], dim: usize) -> impl Iterator<Item = f64> + '_ {
    (0..dim * dim).map(move |at| match (at / dim).cmp(&(at % dim)) {
        std::cmp::Ordering::Less => 0.0,
        std::cmp::Ordering::Equal => 0.5 * symmetric[at],
        std::cmp::Ordering::Greater => symmetric[at],
    })
}

impl Conjugate for Full {
    type Factor = FullFactor;

    fn width(&self) -> usize {
        self.shift.len()
    }

    fn power(&self) -> f64 {
        self.power
    }

    fn size(&self) -> usize {
        self.width() * (self.width() + 1) + 1
    }

    fn parameters(&self) -> usize {
        self.size()
    }

    fn prior(&self) -> FullFactor {
        self.prior.clone()
    }

    fn posterior(&self, stats: &[f64]) -> Result<FullFactor> {
        let (dim, prior) = (self.width(), &self.prior);
        let (sums, products, count) = (&stats[..dim], &stats[dim..dim + dim * dim], stats[dim + dim * dim]);
        if count <= 0.0 {
            return Ok(self.prior());
        }
        let strength = prior.strength + count;
        let weight = prior.strength * count / strength;
        let averages: Vec<f64> = sums.iter().map(|s| s / count).collect();
        let moved: Vec<f64> = averages.iter().zip(&prior.mean).map(|(a, m)| a - m).collect();
        let mut scatter = self.scatter.clone();
        for i in 0..dim {
            for j in 0..=i {
                // scatter about the average, and of the average about the prior mean
                scatter[i * dim + j] += products[i * dim + j] - sums[i] * averages[j] + weight * moved[i] * moved[j];
            }
        }
        let mean = prior.mean.iter().zip(sums).map(|(m, s)| (prior.strength * m + s) / strength).collect();
        Ok(FullFactor { strength, mean, freedom: prior.freedom + count, scatter: factor(dim, &scatter)? })
    }

    fn divergence(&self, q: &FullFactor) -> f64 {
        let (dim, prior) = (self.width(), &self.prior);
        let (d, k, k0, nu, nu0) = (dim as f64, q.strength, prior.strength, q.freedom, prior.freedom);
        let mut moved: Vec<f64> = q.mean.iter().zip(&prior.mean).map(|(m, m0)| m - m0).collect();
        q.scatter.solve_lower(&mut moved);
        let distance = linalg::dot(&moved, &moved);
        let inverse = q.scatter.inverse();
        // tr(S₀ S⁻¹) from lower triangles
        let trace: f64 = (0..dim)
            .map(|i| {
                self.scatter[i * dim + i] * inverse[i * dim + i]
                    + 2.0 * linalg::dot(&self.scatter[i * dim..i * dim + i], &inverse[i * dim..i * dim + i])
            })
            .sum();
        let ln_det = q.mean_ln_det();
        let part = |nu: f64, scatter: &Cholesky| {
            0.5 * nu * (scatter.ln_det() - d * LN_2) - ln_gamma_many(dim, 0.5 * nu) + 0.5 * (nu + d + 1.0) * ln_det
        };
        let wishart = part(nu, &q.scatter) - 0.5 * nu * d - part(nu0, &prior.scatter) + 0.5 * nu * trace;
        0.5 * (k0 * nu * distance + d * (k0 / k - 1.0 + (k / k0).ln())) + wishart
    }

    fn ln_marginal(&self, stats: &[f64]) -> Result<f64> {
        let (q, prior, dim) = (self.posterior(stats)?, &self.prior, self.width());
        let (d, count) = (dim as f64, q.freedom - prior.freedom);
        let part = |q: &FullFactor| ln_gamma_many(dim, 0.5 * q.freedom) - 0.5 * q.freedom * q.scatter.ln_det() - 0.5 * d * q.strength.ln();
        Ok(part(&q) - part(prior) - 0.5 * count * d * PI.ln())
    }

    fn coefficients(&self, q: &FullFactor) -> Vec<f64> {
        let dim = self.width();
        let mut precision = q.scatter.inverse();
        precision.iter_mut().for_each(|v| *v *= q.freedom);
        let mut out: Vec<f64> = precision.chunks_exact(dim.max(1)).map(|row| linalg::dot(row, &q.mean)).collect();
        let square = linalg::dot(&out, &q.mean);
        // products appear once in the statistics but twice in the form
        out.extend(half_form(&precision, dim).map(|v| -v));
        out.push(0.5 * (q.mean_ln_det() - dim as f64 * (TAU.ln() + 1.0 / q.strength) - square));
        out
    }

    fn mean(&self, q: &FullFactor) -> Vec<f64> {
        q.mean.iter().zip(&self.shift).map(|(m, s)| m + s).collect()
    }

    fn mean_of(&self, parameters: &[f64]) -> Vec<f64> {
        parameters.iter().zip(&self.shift).map(|(m, s)| m + s).collect()
    }

    fn draw<R: Rng + ?Sized>(&self, q: &FullFactor, rng: &mut R, out: &mut Vec<f64>) -> Result<()> {
        let dim = self.width();
        // Bartlett: Σ⁻¹ = M'M with M = A'L⁻¹, where S = LL' and A is lower triangular, χ on its diagonal and normal below
        let mut a = vec![0.0; dim * dim];
        let mut ln_det = -q.scatter.ln_det();
        for i in 0..dim {
            let ln_square = Gamma::new(0.5 * (q.freedom - i as f64), 0.5)?.sample_ln(rng);
            ln_det += ln_square;
            a[i * dim + i] = (0.5 * ln_square).exp().max(f64::MIN_POSITIVE);
            a[i * dim..i * dim + i].iter_mut().for_each(|v| *v = StandardNormal.sample(rng));
        }
        let (mut root, mut precision) = (vec![0.0; dim * dim], vec![0.0; dim * dim]);
        linalg::t_mul(&a, &q.scatter.inverse_lower(), &mut root, dim, dim, dim, false);
        linalg::gram_of(&root, &root, &mut precision, dim, dim);
        // μ = m + M⁻¹z/√k = m + L (A'⁻¹ z)/√k
        let mut z: Vec<f64> = (0..dim).map(|_| StandardNormal.sample(rng)).collect();
        for i in (0..dim).rev() {
            let later: f64 = (i + 1..dim).map(|j| a[j * dim + i] * z[j]).sum();
            z[i] = (z[i] - later) / a[i * dim + i];
        }
        let lower = q.scatter.lower();
        let spread = q.strength.sqrt();
        out.extend((0..dim).map(|i| q.mean[i] + linalg::dot(&lower[i * dim..=i * dim + i], &z[..=i]) / spread));
        out.extend((0..dim * dim).map(|at| if at % dim <= at / dim { precision[at] } else { 0.0 }));
        out.push(ln_det);
        Ok(())
    }

    fn draw_row<R: Rng + ?Sized>(&self, parameters: &[f64], _: u32, rng: &mut R, out: &mut [f64]) -> Result<()> {
        let dim = self.width();
        let precision = factor(dim, &parameters[dim..dim + dim * dim])?;
        out.iter_mut().for_each(|v| *v = StandardNormal.sample(rng));
        precision.solve_upper(out);
        out.iter_mut().zip(&self.shift).zip(parameters).for_each(|((o, s), m)| *o += s + m);
        Ok(())
    }

    fn expected(&self, q: &[&FullFactor]) -> Table {
        self.forms(q.iter().map(|q| {
            let precision = q.scatter.inverse().iter().map(|v| q.freedom * v).collect();
            (0.5 * (q.mean_ln_det() - self.width() as f64 * (TAU.ln() + 1.0 / q.strength)), q.mean.clone(), precision)
        }))
    }

    fn table_of(&self, parameters: &[f64], components: usize) -> Table {
        let dim = self.width();
        self.forms(parameters.chunks_exact(self.size()).take(components).map(|p| {
            let constant = 0.5 * (p[dim + dim * dim] - dim as f64 * TAU.ln());
            (constant, p[..dim].to_vec(), p[dim..dim + dim * dim].to_vec())
        }))
    }

    fn predictive(&self, q: &[&FullFactor]) -> Predictive {
        Predictive::multivariate(&self.shift, q)
    }

    fn add(&self, x: X<'_>, r: &[f64], k: usize, stats: &mut [f64], scratch: &mut Scratch) {
        let (n, dim, size) = (x.rows(), self.width(), self.size());
        add_counts(r, k, size, size - 1, stats);
        if dim == 0 {
            return;
        }
        scratch.centre(x, &self.shift, dim);
        let Scratch { rows, product, column, .. } = scratch;
        product.resize(product.len().max(n * dim).max(k * dim), 0.0);
        linalg::t_mul(r, rows, &mut product[..k * dim], n, k, dim, false);
        for (stats, sums) in stats.chunks_exact_mut(size).zip(product.chunks_exact(dim)) {
            stats.iter_mut().zip(sums).for_each(|(o, s)| *o += s);
        }
        for (c, stats) in stats.chunks_exact_mut(size).enumerate() {
            column.clear();
            column.extend(r.iter().skip(c).step_by(k));
            if column.iter().any(|&r| r != 0.0) {
                linalg::weighted_gram(rows, column, &mut stats[dim..dim + dim * dim], n, dim, product);
            }
        }
    }
}
