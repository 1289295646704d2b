//! Gamma factors of a variational posterior, and precisions that are given or learned.

use rand::Rng;
use rand_distr::Distribution;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::dist::Gamma;
use crate::special::{digamma, ln_gamma};

/// A Gamma(shape, rate) distribution of a positive parameter.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct GammaFactor {
    /// Shape a.
    pub(crate) shape: f64,
    /// Rate b.
    pub(crate) rate: f64,
}

impl GammaFactor {
    /// Gamma(shape, rate).
    pub(crate) fn new(shape: f64, rate: f64) -> Self {
        Self { shape, rate }
    }

    /// E x = a/b.
    pub(crate) fn mean(&self) -> f64 {
        self.shape / self.rate
    }

    /// E ln x = ψ(a) − ln b.
    pub(crate) fn mean_ln(&self) -> f64 {
        digamma(self.shape) - self.rate.ln()
    }

    /// KL divergence from a prior.
    pub(crate) fn divergence(&self, prior: GammaFactor) -> f64 {
        let (a, b, a0, b0) = (self.shape, self.rate, prior.shape, prior.rate);
        (a - a0) * digamma(a) - ln_gamma(a) + ln_gamma(a0) + a0 * (b / b0).ln() + a * (b0 - b) / b
    }
}

/// The precision of normal variables: a given number, or unknown with a Gamma prior.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) enum Precision {
    /// Known.
    Fixed(f64),
    /// Unknown, with this prior.
    Learned(GammaFactor),
}

impl Precision {
    /// What is believed before the data; of a known precision a factor that is never read.
    pub(crate) fn start(&self) -> GammaFactor {
        match *self {
            Self::Fixed(value) => GammaFactor { shape: value, rate: 1.0 },
            Self::Learned(prior) => prior,
        }
    }

    /// E τ under q.
    pub(crate) fn mean(&self, q: GammaFactor) -> f64 {
        match *self {
            Self::Fixed(value) => value,
            Self::Learned(_) => q.mean(),
        }
    }

    /// E ln τ under q.
    pub(crate) fn mean_ln(&self, q: GammaFactor) -> f64 {
        match *self {
            Self::Fixed(value) => value.ln(),
            Self::Learned(_) => q.mean_ln(),
        }
    }

    /// q(τ) given so many normal variables and the expected sum of their squares.
    pub(crate) fn posterior(&self, count: usize, squares: f64) -> GammaFactor {
        match *self {
            Self::Fixed(_) => self.start(),
            Self::Learned(prior) => GammaFactor { shape: prior.shape + 0.5 * count as f64, rate: prior.rate + 0.5 * squares },
        }
    }

    /// A draw from the prior.
    pub(crate) fn draw<R: Rng + ?Sized>(&self, rng: &mut R) -> Result<f64> {
        Ok(match *self {
            Self::Fixed(value) => value,
            Self::Learned(prior) => Gamma::new(prior.shape, prior.rate)?.sample(rng),
        })
    }

    /// KL divergence of q from the prior; none of a known precision.
    pub(crate) fn divergence(&self, q: GammaFactor) -> f64 {
        match *self {
            Self::Fixed(_) => 0.0,
            Self::Learned(prior) => q.divergence(prior),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::Gamma;
    use crate::dist::quadrature::LnDensity;

    /// Moments and divergence are integrals of the density of ln x.
    #[test]
    fn moments_and_divergence_are_integrals() {
        for (shape, rate) in [(0.5, 0.5), (3.0, 2.0), (40.0, 0.1)] {
            let (q, p) = (GammaFactor { shape, rate }, GammaFactor { shape: 1.3, rate: 0.7 });
            let [ln_q, ln_p] = [q, p].map(|g| Gamma::new(g.shape, g.rate).unwrap());
            let density = LnDensity::new(|y| ln_q.ln_pdf_of_ln(y), (shape / rate).ln(), 1.0, -200.0, 50.0);
            let (mean, _) = density.mean_and_variance(f64::exp);
            let (mean_ln, _) = density.mean_and_variance(|y| y);
            let (kl, _) = density.mean_and_variance(|y| ln_q.ln_pdf_of_ln(y) - ln_p.ln_pdf_of_ln(y));
            assert!((mean / q.mean() - 1.0).abs() < 1e-10 && (mean_ln - q.mean_ln()).abs() < 1e-10);
            assert!((kl - q.divergence(p)).abs() < 1e-9, "{kl} {}", q.divergence(p));
        }
    }
}
