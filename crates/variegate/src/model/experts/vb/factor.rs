//! q of one weight vector and its intercepts: a direction, a length, and Gaussians beside them.
//!
//! q(a) = vMF(a | â, κ̂) on the unit sphere of R^P, q(g) = Gamma(r, s), q(b_j) = N(m_j, v). With A and ρ of the direction at κ̂,
//! E a = A â and E aaᵀ = (ρ/P) I + (1 − ρ) ââᵀ; with E g = r/s and E g² = r(r+1)/s² these are all the moments that scores need.

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};
use std::f64::consts::{E, PI};

use crate::Result;
use crate::dist::{Concentration, Gamma, VonMisesFisher, ln_surface};
use crate::special::{digamma, ln_gamma};

/// q of one component.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Factor {
    /// â, of unit length.
    pub direction: Vec<f64>,
    /// κ̂.
    pub kappa: f64,
    /// r, the shape of the length.
    pub shape: f64,
    /// s, its rate.
    pub rate: f64,
    /// Means of the intercepts, one a contrast row; none where there are no intercepts.
    pub intercepts: Vec<f64>,
    /// Their common variance.
    pub variance: f64,
}

/// Moments of a factor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Moments {
    /// L, A, 1 − A and ρ at κ̂.
    pub along: Concentration,
    /// E g.
    pub size: f64,
    /// E g².
    pub square: f64,
}

impl Factor {
    /// Moments of direction and length.
    pub(crate) fn moments(&self) -> Moments {
        let along = Concentration::at(self.direction.len(), self.kappa);
        Moments { along, size: self.shape / self.rate, square: self.shape * (self.shape + 1.0) / (self.rate * self.rate) }
    }

    /// E ln g.
    pub(crate) fn ln_size(&self) -> f64 {
        digamma(self.shape) - self.rate.ln()
    }

    /// Entropy of direction, length and intercepts.
    pub(crate) fn entropy(&self, moments: &Moments) -> f64 {
        let r = self.shape;
        let direction = ln_surface(self.direction.len()) + moments.along.ln_ratio - self.kappa * moments.along.mean;
        let size = r - self.rate.ln() + ln_gamma(r) + (1.0 - r) * digamma(r);
        direction + size + 0.5 * self.intercepts.len() as f64 * (2.0 * PI * E * self.variance).ln()
    }

    /// A draw: direction, logarithm of the length, intercepts.
    pub(crate) fn sample<R: Rng + ?Sized>(&self, rng: &mut R, direction: &mut [f64], intercepts: &mut [f64]) -> Result<f64> {
        if let [sign] = direction {
            // two points: P(+) = 1/(1 + exp(−2κ̂â))
            let towards = crate::run::open01(rng) < crate::special::sigmoid(2.0 * self.kappa);
            *sign = if towards { self.direction[0] } else { -self.direction[0] };
        } else {
            VonMisesFisher::new(&self.direction, self.kappa)?.sample_into(rng, direction);
        }
        let ln_size = Gamma::new(self.shape, self.rate)?.sample_ln(rng);
        for (out, mean) in intercepts.iter_mut().zip(&self.intercepts) {
            let z: f64 = StandardNormal.sample(rng);
            *out = mean + self.variance.sqrt() * z;
        }
        Ok(ln_size)
    }
}
