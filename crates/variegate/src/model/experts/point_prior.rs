//! The prior of a point: directions that know of each other, lengths and intercepts that do not.
//!
//! Densities are with respect to surface measure on spheres and to the logarithm u of a length: a Gamma(α₁, α₂) length has
//! α₁u − α₂eᵘ + const, a Gaussian vector in R^P the distribution Pu − e²ᵘ/(2τ²) + const of its length and a uniform direction.

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};
use std::f64::consts::PI;
use std::ops::Range;

use super::settings::{Prior, Settings};
use super::shape::Shape;
use crate::Result;
use crate::dist::{Gamma, ln_surface};
use crate::prior::{AngularKind, Determinantal, Directions, MutualAngular, Scratch};
use crate::special::ln_gamma;

/// Prior of the length of a weight vector.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) enum Size {
    /// Gamma with this shape and rate.
    Gamma {
        /// Shape.
        shape: f64,
        /// Rate.
        rate: f64,
    },
    /// That of a Gaussian vector whose entries have this standard deviation.
    Gaussian {
        /// Standard deviation of an entry.
        sd: f64,
    },
}

/// Prior of the weight vectors of one side: experts or gates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Side {
    /// Distribution of the directions.
    pub directions: Directions,
    /// Distribution of each length.
    pub size: Size,
}

/// Prior of a point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct PointPrior {
    /// Weights of the experts.
    pub experts: Side,
    /// Weights of the gates.
    pub gates: Side,
    /// Standard deviation of intercepts.
    pub intercept_sd: f64,
}

impl Size {
    /// Log density of the logarithm of a length in `dim` dimensions, and its derivative.
    pub(super) fn ln_density(&self, u: f64, dim: usize) -> (f64, f64) {
        match *self {
            Size::Gamma { shape, rate } => {
                let g = u.exp();
                (shape * u - rate * g + shape * rate.ln() - ln_gamma(shape), shape - rate * g)
            }
            Size::Gaussian { sd } => {
                let square = (2.0 * u).exp() / (sd * sd);
                let p = dim as f64;
                // of the vector in all: the uniform direction takes ln of the surface away again
                (p * (u - sd.ln()) - 0.5 * square - 0.5 * p * (2.0 * PI).ln() + ln_surface(dim), p - square)
            }
        }
    }

    /// Mean of the squared length in `dim` dimensions.
    pub(super) fn mean_square(&self, dim: usize) -> f64 {
        match *self {
            Size::Gamma { shape, rate } => shape * (shape + 1.0) / (rate * rate),
            Size::Gaussian { sd } => sd * sd * dim as f64,
        }
    }

    /// A draw of the logarithm of a length.
    pub(super) fn sample<R: Rng + ?Sized>(&self, dim: usize, rng: &mut R) -> Result<f64> {
        Ok(match *self {
            Size::Gamma { shape, rate } => Gamma::new(shape, rate)?.sample_ln(rng),
            Size::Gaussian { sd } => sd.ln() + 0.5 * (2.0 * Gamma::new(0.5 * dim as f64, 1.0)?.sample(rng)).ln(),
        })
    }
}

impl PointPrior {
    /// The prior that the settings ask for.
    pub(super) fn new(settings: &Settings, shape: &Shape) -> Self {
        let side = |dim: usize, kappa: Option<f64>, alpha: (f64, f64)| {
            let kappa = kappa.unwrap_or(0.5 * dim as f64);
            let chain = |kind| Directions::MutualAngular(MutualAngular { kind, kappa, first: None });
            let directions = match settings.prior {
                Prior::Gaussian => Directions::Uniform,
                Prior::MutualAngular => chain(AngularKind::Two),
                Prior::MutualAngularOne => chain(AngularKind::One),
                Prior::Determinantal => Directions::Determinantal(Determinantal { length: settings.ell }),
            };
            let size = match settings.prior {
                Prior::Gaussian => {
                    // the same mean square length as the Gamma prior
                    let sd = settings.tau.unwrap_or_else(|| (alpha.0 * (alpha.0 + 1.0) / (alpha.1 * alpha.1 * dim as f64)).sqrt());
                    Size::Gaussian { sd }
                }
                _ => Size::Gamma { shape: alpha.0, rate: alpha.1 },
            };
            Side { directions, size }
        };
        Self {
            experts: side(shape.expert_dim(), settings.kappa, (settings.alpha1, settings.alpha2)),
            gates: side(shape.inputs, settings.gate_kappa, (settings.omega1, settings.omega2)),
            intercept_sd: settings.tau0,
        }
    }

    /// Both sides with the places of their directions and lengths in a point, and their dimension. One expert has no gates.
    pub(super) fn sides<'a>(&'a self, shape: &Shape) -> Vec<(&'a Side, Range<usize>, Range<usize>, usize)> {
        let mut out = vec![(&self.experts, shape.expert_directions(), shape.expert_sizes(), shape.expert_dim())];
        if shape.gates() > 0 {
            out.push((&self.gates, shape.gate_directions(), shape.gate_sizes(), shape.inputs));
        }
        out
    }

    /// Log density of a point.
    pub(super) fn ln_density(&self, shape: &Shape, point: &[f64]) -> f64 {
        self.directions(shape, point) + self.rest(shape, point, None)
    }

    /// Log density of the directions alone.
    pub(super) fn directions(&self, shape: &Shape, point: &[f64]) -> f64 {
        self.sides(shape).into_iter().map(|(side, directions, _, dim)| side.directions.ln_density(&point[directions], dim)).sum()
    }

    /// Log density of a point; its gradient, in the surrounding space, is added.
    pub(super) fn gradient_add(&self, shape: &Shape, point: &[f64], gradient: &mut [f64], scratch: &mut Scratch) -> f64 {
        let mut value = 0.0;
        for (side, directions, _, dim) in self.sides(shape) {
            value += side.directions.gradient_add(&point[directions.clone()], dim, &mut gradient[directions], scratch);
        }
        value + self.rest(shape, point, Some(gradient))
    }

    /// Log density of lengths and intercepts, and its gradient.
    fn rest(&self, shape: &Shape, point: &[f64], mut gradient: Option<&mut [f64]>) -> f64 {
        let mut value = 0.0;
        for (side, _, sizes, dim) in self.sides(shape) {
            for at in sizes {
                let (ln, slope) = side.size.ln_density(point[at], dim);
                value += ln;
                if let Some(gradient) = gradient.as_deref_mut() {
                    gradient[at] += slope;
                }
            }
        }
        let variance = self.intercept_sd * self.intercept_sd;
        for at in shape.expert_intercepts().chain(shape.gate_intercepts()) {
            value -= 0.5 * (point[at] * point[at] / variance + (2.0 * PI * variance).ln());
            if let Some(gradient) = gradient.as_deref_mut() {
                gradient[at] -= point[at] / variance;
            }
        }
        value
    }

    /// A draw.
    pub(super) fn sample<R: Rng + ?Sized>(&self, shape: &Shape, rng: &mut R) -> Result<Vec<f64>> {
        let mut point = vec![0.0; shape.len()];
        for (side, directions, sizes, dim) in self.sides(shape) {
            let count = sizes.len();
            point[directions].copy_from_slice(&side.directions.sample(count, dim, rng)?);
            for at in sizes {
                point[at] = side.size.sample(dim, rng)?;
            }
        }
        for at in shape.expert_intercepts().chain(shape.gate_intercepts()) {
            let z: f64 = StandardNormal.sample(rng);
            point[at] = self.intercept_sd * z;
        }
        Ok(point)
    }
}
