//! Distributions, one a file: sampler, log density, moments, and the tests that hold them together.
//!
//! Samplers are exact (no approximation beyond the rounding of a double) and take every bit of randomness from the generator they
//! are handed. Constructors check parameters once; what they return can be trusted. A density is `-inf` outside the support.

mod beta;
mod categorical;
mod chinese_restaurant;
mod concentration;
mod dirichlet;
mod gamma;
mod generalized_inverse_gaussian;
mod inverse_gaussian;
mod multivariate_normal;
mod polya_gamma;
mod polya_gamma_density;
pub(crate) mod quadrature;
mod student_t;
mod truncated_beta;
mod truncated_normal;
mod von_mises_fisher;
mod von_mises_fisher_sphere;

#[cfg(test)]
pub(crate) mod testing;

pub use beta::Beta;
pub use categorical::{Categorical, draw_from_ln_weights, draw_from_shares};
pub use chinese_restaurant::TableCount;
pub(crate) use concentration::inverse_mean;
pub use concentration::{Concentration, ln_surface};
pub use dirichlet::Dirichlet;
pub use gamma::Gamma;
pub use generalized_inverse_gaussian::GeneralizedInverseGaussian;
pub use inverse_gaussian::InverseGaussian;
pub use multivariate_normal::MultivariateNormal;
pub use polya_gamma::PolyaGamma;
pub use student_t::StudentT;
pub use truncated_beta::TruncatedBeta;
pub use truncated_normal::TruncatedNormal;
pub use von_mises_fisher::VonMisesFisher;

use rand::Rng;
use thiserror::Error;

/// A parameter for which the distribution does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
#[error("{distribution}: {parameter} is {value}, but it must be {allowed}")]
pub struct ParamError {
    /// The distribution.
    pub distribution: &'static str,
    /// The parameter, as the constructor names it.
    pub parameter: &'static str,
    /// The value given.
    pub value: f64,
    /// What is allowed.
    pub allowed: &'static str,
}

/// `Ok` where the condition holds, else the error.
fn require(holds: bool, distribution: &'static str, parameter: &'static str, value: f64, allowed: &'static str) -> Result<(), ParamError> {
    if holds { Ok(()) } else { Err(ParamError { distribution, parameter, value, allowed }) }
}

/// Smallest shape for which `Exp(1)/shape` cannot overflow.
const SMALLEST_SHAPE: f64 = 1e-300;

/// Uniform on (0, 1): never 0, so that its logarithm is finite, and never 1.
#[inline]
fn uniform<R: Rng + ?Sized>(rng: &mut R) -> f64 {
    crate::run::open01(rng)
}

/// Exponential of mean 1.
#[inline]
fn exponential<R: Rng + ?Sized>(rng: &mut R) -> f64 {
    use rand_distr::{Distribution, Exp1};
    Exp1.sample(rng)
}

/// Standard normal.
#[inline]
fn normal<R: Rng + ?Sized>(rng: &mut R) -> f64 {
    use rand_distr::{Distribution, StandardNormal};
    StandardNormal.sample(rng)
}
