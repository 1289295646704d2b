//! The Gaussian factor of a softmax node: S weight vectors of D entries, their precisions, and one natural-gradient step.
//!
//! q(W) = N(μ, P⁻¹), with one covariance for all weights (`joint`) or independent weight vectors (`child`). Rows report the curvature
//! C = Σ K ⊗ x̃x̃ᵀ and the gradient Σ (r − s) ⊗ x̃ of their bounds (see `bound.rs`). With A the mean prior precisions, a step of length
//! ρ is P ← (1−ρ)P + ρ(A + C), μ ← μ + ρ P⁻¹(gradient − Aμ); for ρ = 1 and a quadratic bound it is the exact optimum.
//!
//! Precision and curvature share one layout: k packed D×D matrices, k = S (`child`) or S(S+1)/2 (`joint`: block (c, d), d ≤ c, at
//! c(c+1)/2 + d). The blocks of a joint precision are symmetric themselves, because every row adds a multiple of x̃x̃ᵀ to each.

use serde::{Deserialize, Serialize};
use std::f64::consts::PI;

use super::precision::Prior;
use crate::data::design::{pack_form, packed_len};
use crate::linalg::{Cholesky, NotPositiveDefinite};
use crate::merge_fields;
use crate::run::Sum;

/// Which weights of a node may correlate under q.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Covariance {
    /// All of them.
    Joint,
    /// Those of one child.
    Child,
}

impl Covariance {
    /// The word users write.
    pub fn word(self) -> &'static str {
        match self {
            Covariance::Joint => "joint",
            Covariance::Child => "child",
        }
    }

    /// Number of D×D blocks for S children.
    pub fn blocks(self, children: usize) -> usize {
        match self {
            Covariance::Joint => packed_len(children),
            Covariance::Child => children,
        }
    }

    /// Place of the diagonal block of a child.
    pub fn diagonal(self, c: usize) -> usize {
        match self {
            Covariance::Joint => packed_len(c) + c,
            Covariance::Child => c,
        }
    }
}

/// What rows report about a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeStats {
    /// C: k packed matrices.
    pub curvature: Sum<Vec<f64>>,
    /// Σ (r − s) ⊗ x̃, S×D.
    pub gradient: Sum<Vec<f64>>,
    /// The rows' part of the bound.
    pub value: Sum<f64>,
}
merge_fields!(NodeStats, curvature, gradient, value);

/// q of a node: Gaussian weights and Gamma precisions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// S.
    pub children: usize,
    /// D.
    pub dim: usize,
    /// Which weights may correlate.
    pub covariance: Covariance,
    /// μ, S×D.
    pub mean: Vec<f64>,
    /// P.
    pub precision: Vec<f64>,
    /// b_g of each group of precisions.
    pub rates: Vec<f64>,
}

/// What follows from P: covariances as the rows need them, and the entropy.
#[derive(Debug, Clone, PartialEq)]
pub struct Moments {
    /// Blocks of P⁻¹ as packed quadratic forms, so that form k of a row is an entry of Cov(z).
    pub forms: Vec<f64>,
    /// Variance of each weight, S×D.
    pub variance: Vec<f64>,
    /// Entropy of q(W).
    pub entropy: f64,
}

impl Node {
    /// Weights at `mean` with variance `spread`, and the precisions that suit them.
    pub fn new(children: usize, dim: usize, covariance: Covariance, mean: Vec<f64>, spread: f64, prior: &Prior) -> Self {
        let len = packed_len(dim);
        let mut precision = vec![0.0; covariance.blocks(children) * len];
        for c in 0..children {
            for j in 0..dim {
                precision[covariance.diagonal(c) * len + packed_len(j) + j] = 1.0 / spread;
            }
        }
        let squares: Vec<f64> = mean.iter().map(|m| m * m + spread).collect();
        Self { children, dim, covariance, rates: prior.best_rates(&squares), mean, precision }
    }

    /// Factors of P: one, or one a child.
    fn factors(&self) -> Result<Vec<Cholesky>, NotPositiveDefinite> {
        let (s, dim, len) = (self.children, self.dim, packed_len(self.dim));
        match self.covariance {
            Covariance::Child => {
                let mut lower = vec![0.0; dim * dim];
                self.precision
                    .chunks_exact(len)
                    .map(|packed| {
                        for i in 0..dim {
                            lower[i * dim..=i * dim + i].copy_from_slice(&packed[packed_len(i)..=packed_len(i) + i]);
                        }
                        Ok(Cholesky::with_jitter(dim, &lower)?.0)
                    })
                    .collect()
            }
            Covariance::Joint => {
                let all = s * dim;
                let mut lower = vec![0.0; all * all];
                for c in 0..s {
                    for d in 0..=c {
                        let packed = &self.precision[(packed_len(c) + d) * len..][..len];
                        for i in 0..dim {
                            for j in 0..=i {
                                let v = packed[packed_len(i) + j];
                                lower[(c * dim + i) * all + d * dim + j] = v;
                                if d < c {
                                    lower[(c * dim + j) * all + d * dim + i] = v;
                                }
                            }
                        }
                    }
                }
                Ok(vec![Cholesky::with_jitter(all, &lower)?.0])
            }
        }
    }

    /// Covariances and entropy.
    pub fn moments(&self) -> Result<Moments, NotPositiveDefinite> {
        Ok(self.moments_of(&self.factors()?))
    }

    fn moments_of(&self, factors: &[Cholesky]) -> Moments {
        let (s, dim, len) = (self.children, self.dim, packed_len(self.dim));
        let mut forms = vec![0.0; self.covariance.blocks(s) * len];
        let mut variance = Vec::with_capacity(s * dim);
        match self.covariance {
            Covariance::Child => {
                for (factor, form) in factors.iter().zip(forms.chunks_exact_mut(len)) {
                    let inverse = factor.inverse();
                    pack_form(dim, |i, j| inverse[i * dim + j], form);
                    variance.extend((0..dim).map(|i| inverse[i * dim + i]));
                }
            }
            Covariance::Joint => {
                let (all, inverse) = (s * dim, factors[0].inverse());
                for c in 0..s {
                    for d in 0..=c {
                        let form = &mut forms[(packed_len(c) + d) * len..][..len];
                        pack_form(dim, |i, j| inverse[(c * dim + i) * all + d * dim + j], form);
                    }
                }
                variance.extend((0..all).map(|i| inverse[i * all + i]));
            }
        }
        let ln_det: f64 = factors.iter().map(Cholesky::ln_det).sum();
        let entropy = 0.5 * ((s * dim) as f64 * (1.0 + (2.0 * PI).ln()) - ln_det);
        Moments { forms, variance, entropy }
    }

    /// ⟨w²⟩ of each entry.
    pub fn squares(&self, moments: &Moments) -> Vec<f64> {
        self.mean.iter().zip(&moments.variance).map(|(m, v)| m * m + v).collect()
    }

    /// The part of the bound that rows have no say in: prior, entropy, and divergence of the precisions.
    pub fn terms(&self, prior: &Prior, moments: &Moments) -> f64 {
        prior.terms(&self.rates, &self.squares(moments)) + moments.entropy
    }

    /// A step of length ρ from what the rows reported of this node, then the best precisions for the new weights.
    pub fn step(&mut self, prior: &Prior, stats: &NodeStats, rho: f64) -> Result<Moments, NotPositiveDefinite> {
        let (s, dim, len) = (self.children, self.dim, packed_len(self.dim));
        let alpha = prior.means(&self.rates);
        for (p, c) in self.precision.iter_mut().zip(&stats.curvature.0) {
            *p = (1.0 - rho) * *p + rho * c;
        }
        for c in 0..s {
            for j in 0..dim {
                self.precision[self.covariance.diagonal(c) * len + packed_len(j) + j] += rho * alpha[c * dim + j];
            }
        }
        let factors = self.factors()?;
        let mut change: Vec<f64> = stats.gradient.0.iter().zip(&alpha).zip(&self.mean).map(|((g, a), m)| g - a * m).collect();
        for (factor, part) in factors.iter().zip(change.chunks_exact_mut(s * dim / factors.len())) {
            factor.solve(part);
        }
        for (m, d) in self.mean.iter_mut().zip(&change) {
            *m += rho * d;
        }
        if self.covariance == Covariance::Child {
            self.recentre(&alpha);
        }
        let moments = self.moments_of(&factors);
        self.rates = prior.best_rates(&self.squares(&moments));
        Ok(moments)
    }

    /// Shifts all weight vectors by the t that suits the prior best: the softmax does not see it, and without it a common
    /// shift of independent children decays only slowly.
    fn recentre(&mut self, alpha: &[f64]) {
        for j in 0..self.dim {
            let (mut top, mut bottom) = (0.0, 0.0);
            for c in 0..self.children {
                top += alpha[c * self.dim + j] * self.mean[c * self.dim + j];
                bottom += alpha[c * self.dim + j];
            }
            let t = top / bottom;
            for c in 0..self.children {
                self.mean[c * self.dim + j] -= t;
            }
        }
    }
}
