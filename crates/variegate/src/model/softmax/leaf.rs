//! Linear-Gaussian leaves: y | x ~ N(η_qᵀx̃, 1/τ_q) for each output q.
//!
//! Prior η_q | τ_q, κ ~ N(0, (τ_q κ)⁻¹ I), τ_q ~ Gamma(c₀, d₀), κ ~ Gamma(e₀, f₀) or given. Given the rows' shares r, the factors
//! q(η_q, τ_q) = N(m_q, (τ_q Λ)⁻¹) Gamma(c, d_q) and q(κ) have closed forms; all outputs of a leaf share Λ = ⟨κ⟩I + Σ r x̃x̃ᵀ.
//! Rows report their residuals e = y − mᵀx̃ at the old m, so that the sum of squares at the new m is formed without cancellation.

use serde::{Deserialize, Serialize};
use std::f64::consts::PI;

use super::precision::gamma_divergence;
use crate::data::design::{pack_form, packed_len};
use crate::linalg::{Cholesky, NotPositiveDefinite, dot};
use crate::special::digamma;

/// Prior of the leaves.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct LeafPrior {
    /// c₀, d₀: shape and rate of the noise precision.
    pub(crate) noise: (f64, f64),
    /// e₀, f₀: shape and rate of the precision of slopes.
    pub(crate) slope: (f64, f64),
    /// κ where it is given.
    pub(crate) fixed_slope: Option<f64>,
}

/// q of a leaf.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct GaussianLeaf {
    /// m, Q×D.
    pub(crate) mean: Vec<f64>,
    /// Λ, packed.
    pub(crate) precision: Vec<f64>,
    /// c.
    pub(crate) shape: f64,
    /// d_q of each output.
    pub(crate) rates: Vec<f64>,
    /// Shape and rate of q(κ); not read where κ is given.
    pub(crate) slope: (f64, f64),
}

/// What follows from Λ.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LeafMoments {
    /// Λ⁻¹ as a packed form.
    pub(crate) form: Vec<f64>,
    /// tr Λ⁻¹.
    pub(crate) trace: f64,
    /// ln |Λ|.
    pub(crate) ln_det: f64,
}

/// What rows report of a leaf, all weighted by their shares.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeafStats<'a> {
    /// Σ r.
    pub(crate) weight: f64,
    /// Σ r x̃x̃ᵀ, packed.
    pub(crate) gram: &'a [f64],
    /// Σ r e x̃, Q×D.
    pub(crate) gradient: &'a [f64],
    /// Σ r e² of each output.
    pub(crate) squares: &'a [f64],
}

impl GaussianLeaf {
    /// A leaf that has seen nothing, with slopes of zero and outputs of unit variance.
    pub(crate) fn new(outputs: usize, dim: usize, prior: &LeafPrior) -> Self {
        let mut leaf = Self {
            mean: vec![0.0; outputs * dim],
            precision: vec![0.0; packed_len(dim)],
            shape: prior.noise.0,
            rates: vec![prior.noise.0; outputs],
            slope: prior.slope,
        };
        let kappa = leaf.kappa(prior);
        for j in 0..dim {
            leaf.precision[packed_len(j) + j] = kappa;
        }
        leaf
    }

    /// E κ.
    fn kappa(&self, prior: &LeafPrior) -> f64 {
        prior.fixed_slope.unwrap_or(self.slope.0 / self.slope.1)
    }

    /// Cholesky factor of Λ.
    pub(super) fn factor(&self) -> Result<Cholesky, NotPositiveDefinite> {
        Cholesky::of_packed(self.mean.len() / self.rates.len(), &self.precision)
    }

    /// What follows from Λ.
    pub(crate) fn moments(&self) -> Result<LeafMoments, NotPositiveDefinite> {
        Ok(Self::moments_of(&self.factor()?))
    }

    fn moments_of(factor: &Cholesky) -> LeafMoments {
        let (dim, inverse) = (factor.dim(), factor.inverse());
        let mut form = vec![0.0; packed_len(dim)];
        pack_form(dim, |i, j| inverse[i * dim + j], &mut form);
        LeafMoments { form, trace: (0..dim).map(|i| inverse[i * dim + i]).sum(), ln_det: factor.ln_det() }
    }

    /// The best factors for what the rows reported: first q(η, τ), then q(κ).
    pub(crate) fn update(&mut self, stats: LeafStats<'_>, prior: &LeafPrior) -> Result<LeafMoments, NotPositiveDefinite> {
        let outputs = self.rates.len();
        let dim = self.mean.len() / outputs;
        let kappa = self.kappa(prior);
        self.precision.copy_from_slice(stats.gram);
        for j in 0..dim {
            self.precision[packed_len(j) + j] += kappa;
        }
        let factor = self.factor()?;
        let moments = Self::moments_of(&factor);
        self.shape = prior.noise.0 + 0.5 * stats.weight;
        let mut slopes = 0.0;
        for q in 0..outputs {
            let (mean, gradient) = (&mut self.mean[q * dim..(q + 1) * dim], &stats.gradient[q * dim..(q + 1) * dim]);
            // m = m_old + Λ⁻¹(Σ r e x̃ − κ m_old)
            let mut change: Vec<f64> = gradient.iter().zip(mean.iter()).map(|(g, m)| g - kappa * m).collect();
            factor.solve(&mut change);
            let mut curved = 0.0;
            for i in 0..dim {
                for j in 0..i {
                    curved += 2.0 * stats.gram[packed_len(i) + j] * change[i] * change[j];
                }
                curved += stats.gram[packed_len(i) + i] * change[i] * change[i];
            }
            let squares = stats.squares[q] - 2.0 * dot(&change, gradient) + curved;
            mean.iter_mut().zip(&change).for_each(|(m, d)| *m += d);
            let length = dot(mean, mean);
            self.rates[q] = prior.noise.1 + 0.5 * (squares.max(0.0) + kappa * length);
            slopes += self.shape / self.rates[q] * length + moments.trace;
        }
        self.slope = (prior.slope.0 + 0.5 * (outputs * dim) as f64, prior.slope.1 + 0.5 * slopes);
        Ok(moments)
    }

    /// E τ_q.
    pub(crate) fn noise_precision(&self, q: usize) -> f64 {
        self.shape / self.rates[q]
    }

    /// The constant of E ln N(y | η_qᵀx̃, 1/τ_q): ½(E ln τ_q − ln 2π).
    pub(crate) fn constant(&self, q: usize) -> f64 {
        0.5 * (digamma(self.shape) - self.rates[q].ln() - (2.0 * PI).ln())
    }

    /// The part of the bound that rows have no say in.
    pub(crate) fn terms(&self, moments: &LeafMoments, prior: &LeafPrior) -> f64 {
        let outputs = self.rates.len();
        let dim = self.mean.len() / outputs;
        let kappa = self.kappa(prior);
        let ln_kappa = prior.fixed_slope.map_or_else(|| digamma(self.slope.0) - self.slope.1.ln(), f64::ln);
        let mut sum = 0.0;
        for (q, mean) in self.mean.chunks_exact(dim).enumerate() {
            let length = self.noise_precision(q) * dot(mean, mean) + moments.trace;
            // E ln τ of the prior of η and of its entropy cancel, and so does ln 2π
            sum += 0.5 * (dim as f64 * (ln_kappa + 1.0) - kappa * length - moments.ln_det);
            sum -= gamma_divergence(self.shape, self.rates[q], prior.noise.0, prior.noise.1);
        }
        if prior.fixed_slope.is_none() {
            sum -= gamma_divergence(self.slope.0, self.slope.1, prior.slope.0, prior.slope.1);
        }
        sum
    }
}
