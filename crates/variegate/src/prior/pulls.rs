//! What the concentration of a mutual angular distribution is learned from.

use serde::{Deserialize, Serialize};

use super::mutual_angular::{AngularKind, MAX_KAPPA, MutualAngular};
use super::rows;
use crate::dist::{Concentration, inverse_mean, ln_surface};
use crate::linalg::dot;

/// A mutual angular distribution as a function of its concentration alone, for directions that are given (one set or several draws of it).
///
/// The log density is `-N ln S - sum_i L(kappa r_i) + kappa T`, where the sum is over the factors that are pulled anywhere, `r_i` is 1 (kind one,
/// and a first factor that has a direction) or `|s|` (kind two), and `T` adds up the cosines of kind one,
/// `-s'a/|s|`, or the products of kind two, `-s'a`. It is concave in `kappa`; its maximum solves `sum_i r_i A(kappa r_i) = T`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pulls {
    dim: usize,
    /// all factors, also the uniform ones
    factors: usize,
    /// factors of radius 1
    unit: usize,
    /// radii of the others
    radii: Vec<f64>,
    /// T
    total: f64,
}

impl Pulls {
    /// Of no directions yet, in `dim` dimensions.
    pub fn new(dim: usize) -> Self {
        Self { dim, factors: 0, unit: 0, radii: Vec::new(), total: 0.0 }
    }

    /// Takes in one set of directions under the kind and first direction of `distribution`; its concentration is not used.
    ///
    /// # Panics
    /// If the number of entries is no multiple of the dimension.
    pub fn add(&mut self, distribution: &MutualAngular, directions: &[f64]) {
        let count = rows(directions, self.dim);
        self.factors += count;
        let mut sum = vec![0.0; self.dim];
        for (i, a) in directions.chunks_exact(self.dim).enumerate() {
            let length = dot(&sum, &sum).sqrt();
            if i == 0 {
                if let Some(along) = distribution.along_first(a) {
                    self.unit += 1;
                    self.total += along;
                }
            } else if distribution.kind == AngularKind::Two {
                self.radii.push(length);
                self.total -= dot(&sum, a);
            } else if length > super::mutual_angular::NOWHERE {
                self.unit += 1;
                self.total -= dot(&sum, a) / length;
            }
            sum.iter_mut().zip(a).for_each(|(s, a)| *s += a);
        }
    }

    /// Takes in first directions that were left out: so many of them, whose cosines to where they point sum to `along`.
    pub fn add_first(&mut self, count: usize, along: f64) {
        self.unit += count;
        self.total += along;
    }

    /// Log density of all sets taken in together, at another concentration: `O(K)` a set (kind one: `O(1)`).
    pub fn ln_density(&self, kappa: f64) -> f64 {
        let mut value = kappa * self.total - self.factors as f64 * ln_surface(self.dim);
        if self.unit > 0 {
            value -= self.unit as f64 * Concentration::at(self.dim, kappa).ln_ratio;
        }
        value - self.radii.iter().map(|r| Concentration::at(self.dim, kappa * r).ln_ratio).sum::<f64>()
    }

    /// The concentration of largest density, 0 where nothing pulls apart and at most [`MAX_KAPPA`].
    pub fn kappa(&self) -> f64 {
        kappa_of(self.dim, self.unit as f64, &self.radii, self.total)
    }
}

/// The root of `unit A(kappa) + sum_i r_i A(kappa r_i) = total`: 0 where the total is not positive, at most [`MAX_KAPPA`].
///
/// `A` is the mean resultant length in `dim` dimensions. This is the likelihood equation of a concentration from averaged statistics,
/// whatever the average is over (draws, or a variational distribution). Radii must not be negative.
pub(super) fn kappa_of(dim: usize, unit: f64, radii: &[f64], total: f64) -> f64 {
    if total.is_nan() || total <= 0.0 {
        return 0.0;
    }
    if radii.iter().all(|r| *r == 0.0) {
        return if unit > 0.0 { inverse_mean(dim, total / unit).min(MAX_KAPPA) } else { MAX_KAPPA };
    }
    // value and slope of the left side: increasing and concave
    let left = |kappa: f64| {
        let at = Concentration::at(dim, kappa);
        radii.iter().fold((unit * at.mean, unit * at.slope), |(value, slope), r| {
            let at = Concentration::at(dim, kappa * r);
            (value + r * at.mean, slope + r * r * at.slope)
        })
    };
    if left(MAX_KAPPA).0 <= total {
        return MAX_KAPPA;
    }
    let (mut low, mut high) = (0.0, MAX_KAPPA);
    // the tangent at 0 lies above the curve, so its root is below the curve's
    let mut kappa = (total / left(0.0).1).min(0.5 * MAX_KAPPA);
    for _ in 0..200 {
        let (value, slope) = left(kappa);
        if value < total {
            low = kappa;
        } else {
            high = kappa;
        }
        let next = kappa + (total - value) / slope;
        if (next - kappa).abs() <= 1e-14 * kappa {
            return next;
        }
        kappa = if next > low && next < high { next } else { 0.5 * (low + high) };
    }
    kappa
}
