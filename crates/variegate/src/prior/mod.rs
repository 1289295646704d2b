//! Distributions that keep the components of a model apart, and distributions of which components there are.
//!
//! | file | what it is |
//! |---|---|
//! | [`MutualAngular`] | a chain of von Mises-Fisher distributions, each pointing away from the directions before it |
//! | [`Determinantal`] | the determinant of a kernel matrix: zero where two directions coincide |
//! | [`Coupled`] | either distribution with the inner products kept, to change one direction at a time |
//! | [`Pulls`] | what the concentration of a mutual angular distribution is learned from |
//! | [`angular`] | the mutual angular regulariser and summaries of angles |
//! | [`BetaProcess`] | which columns of ones several sources share, when their number is not fixed |
//! | [`StableBeta`] | which columns of ones there are, when their number is not fixed and their use follows a power law |
//!
//! A distribution of directions is of `K` unit vectors in `dim` dimensions, stored one a row; its density is with respect to surface measure
//! on every sphere. In one dimension the sphere is the two signs.

pub mod angular;
mod beta_process;
mod coupled;
mod determinantal;
mod mutual_angular;
mod pulls;
mod stable_beta;

pub use beta_process::BetaProcess;
pub use coupled::Coupled;
pub use determinantal::Determinantal;
pub(crate) use mutual_angular::NOWHERE;
pub use mutual_angular::{AngularKind, MAX_KAPPA, MutualAngular};
pub use pulls::Pulls;
pub use stable_beta::StableBeta;
pub(crate) use stable_beta::ln_not;

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};

use crate::dist::ln_surface;
use crate::linalg::dot;
use crate::{Error, Result};

/// A distribution of `K` unit vectors.
///
/// ```
/// use variegate::prior::{AngularKind, Directions, MutualAngular};
/// let apart = Directions::MutualAngular(MutualAngular { kind: AngularKind::Two, kappa: 2.0, first: None });
/// let (same, opposite) = ([1.0, 0.0, 1.0, 0.0], [1.0, 0.0, -1.0, 0.0]);
/// assert!(apart.ln_density(&opposite, 2) > apart.ln_density(&same, 2));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Directions {
    /// Independent and uniform.
    Uniform,
    /// Chain of von Mises-Fisher distributions.
    MutualAngular(MutualAngular),
    /// Determinantal; unnormalised.
    Determinantal(Determinantal),
}

/// Room to work in, kept between calls so that they allocate nothing.
#[derive(Debug, Clone, Default)]
pub struct Scratch {
    first: Vec<f64>,
    second: Vec<f64>,
    third: Vec<f64>,
}

/// The first `len` places of `room`, which grows to hold them.
fn room(room: &mut Vec<f64>, len: usize) -> &mut [f64] {
    if room.len() < len {
        room.resize(len, 0.0);
    }
    &mut room[..len]
}

impl Directions {
    /// Refuses parameters for which the distribution in `dim` dimensions does not exist.
    pub fn validate(&self, dim: usize) -> Result<()> {
        if dim == 0 {
            return Err(Error::setting("dim", dim, "at least 1"));
        }
        match self {
            Self::Uniform => Ok(()),
            Self::MutualAngular(distribution) => distribution.validate(dim),
            Self::Determinantal(distribution) => distribution.validate(),
        }
    }

    /// Log density of directions (unit vectors, one a row). The determinantal distribution lacks its normaliser, see [`Determinantal`].
    ///
    /// # Panics
    /// If the number of entries is no multiple of `dim`, or a first direction has another dimension.
    pub fn ln_density(&self, directions: &[f64], dim: usize) -> f64 {
        let count = rows(directions, dim);
        match self {
            Self::Uniform => -(count as f64) * ln_surface(dim),
            Self::MutualAngular(distribution) => {
                let mut sum = vec![0.0; dim];
                distribution.ln_density(count, dim, |i| &directions[i * dim..(i + 1) * dim], &mut sum)
            }
            Self::Determinantal(distribution) => distribution.gradient_add(directions, dim, None, &mut Scratch::default()),
        }
    }

    /// Adds the gradient of the log density with respect to all entries to `out` and returns the log density.
    ///
    /// The gradient is the ambient one: project it onto the tangent spaces to move on the spheres. It is left out where the
    /// density is 0 (coinciding directions of the determinantal distribution).
    ///
    /// # Panics
    /// As [`ln_density`](Self::ln_density), and if `out` has another length.
    pub fn gradient_add(&self, directions: &[f64], dim: usize, out: &mut [f64], scratch: &mut Scratch) -> f64 {
        assert_eq!(directions.len(), out.len(), "one derivative an entry");
        match self {
            Self::Uniform => self.ln_density(directions, dim),
            Self::MutualAngular(distribution) => distribution.gradient_add(rows(directions, dim), directions, dim, out, scratch),
            Self::Determinantal(distribution) => distribution.gradient_add(directions, dim, Some(out), scratch),
        }
    }

    /// An exact draw of `count` directions.
    ///
    /// The determinantal distribution is drawn by rejection from the uniform one; where next to nothing is accepted that is an error
    /// which says what to change.
    pub fn sample<R: Rng + ?Sized>(&self, count: usize, dim: usize, rng: &mut R) -> Result<Vec<f64>> {
        self.validate(dim)?;
        match self {
            Self::Uniform => {
                let mut out = vec![0.0; count * dim];
                out.chunks_exact_mut(dim).for_each(|row| uniform_direction(row, rng));
                Ok(out)
            }
            Self::MutualAngular(distribution) => distribution.sample(count, dim, rng),
            Self::Determinantal(distribution) => distribution.sample(count, dim, rng),
        }
    }
}

/// How many directions there are.
fn rows(directions: &[f64], dim: usize) -> usize {
    assert!(dim > 0 && directions.len().is_multiple_of(dim), "{} entries are no rows of {dim}", directions.len());
    directions.len() / dim
}

/// A uniform unit vector.
pub(crate) fn uniform_direction<R: Rng + ?Sized>(out: &mut [f64], rng: &mut R) {
    loop {
        out.iter_mut().for_each(|v| *v = StandardNormal.sample(rng));
        if normalise(out) > 0.0 {
            return;
        }
    }
}

/// Scales to unit length and returns the length before; a zero vector stays.
pub(crate) fn normalise(v: &mut [f64]) -> f64 {
    let length = dot(v, v).sqrt();
    if length > 0.0 {
        v.iter_mut().for_each(|x| *x /= length);
    }
    length
}

#[cfg(test)]
mod tests;
