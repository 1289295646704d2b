//! Inverse Gaussian distribution.

use super::{ParamError, normal, require, uniform};
use rand::Rng;
use rand_distr::Distribution;
use std::f64::consts::TAU;

/// InverseGaussian(mean m, shape l): density `sqrt(l / (2 pi x^3)) exp(-l (x-m)^2 / (2 m^2 x))` on `x > 0`.
///
/// The textbook root of the sampling equation subtracts two numbers of size `m^2/l`; here both roots are formed without
/// subtraction, so that draws keep full relative accuracy for every ratio of mean to shape, until `m (m/l)` over- or underflows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InverseGaussian {
    mean: f64,
    shape: f64,
}

impl InverseGaussian {
    /// Mean and shape, both positive and finite.
    pub fn new(mean: f64, shape: f64) -> Result<Self, ParamError> {
        for (parameter, value) in [("mean", mean), ("shape", shape)] {
            require(value > 0.0 && value.is_finite(), "inverse Gaussian", parameter, value, "positive and finite")?;
        }
        Ok(Self { mean, shape })
    }

    /// Log density at `x`.
    pub fn ln_pdf(&self, x: f64) -> f64 {
        if x <= 0.0 || x.is_infinite() {
            return f64::NEG_INFINITY;
        }
        let deviation = (x - self.mean) / self.mean;
        0.5 * (self.shape.ln() - TAU.ln() - 3.0 * x.ln() - self.shape * deviation * (deviation / x))
    }

    /// `m`.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// `m^3 / l`.
    pub fn variance(&self) -> f64 {
        self.mean * self.mean * (self.mean / self.shape)
    }
}

/// A draw of mean `mean`, given `spread = mean/shape`.
///
/// `shape (x-m)^2 / (m^2 x)` is chi-squared with one degree of freedom; it has two roots `x1 <= m <= m^2/x1`, of which the smaller
/// is taken with probability `m/(m + x1)` (Michael, Schucany and Haas).
#[inline]
pub(super) fn draw<R: Rng + ?Sized>(mean: f64, spread: f64, rng: &mut R) -> f64 {
    let z = normal(rng);
    let half = 0.5 * spread * z * z;
    let root = 1.0 + half + (half * (2.0 + half)).sqrt(); // m over the smaller root
    // u <= m/(m + m/root)
    if uniform(rng) * (1.0 + 1.0 / root) <= 1.0 { mean / root } else { mean * root }
}

impl Distribution<f64> for InverseGaussian {
    #[inline]
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        draw(self.mean, self.mean / self.shape, rng)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn moments_and_density() {
        for (i, (mean, shape)) in [(1.0, 1.0), (3.0, 0.5), (0.2, 40.0), (1e6, 1e9)].into_iter().enumerate() {
            let ig = InverseGaussian::new(mean, shape).unwrap();
            let mut rng = rng(400 + i as u64);
            let draws: Vec<f64> = (0..40_000).map(|_| ig.sample(&mut rng)).collect();
            let name = format!("inverse Gaussian({mean}, {shape})");
            check_moments(&name, &draws, ig.mean(), ig.variance());
            let logs: Vec<f64> = draws.iter().map(|x| x.ln()).collect();
            check_ks(&name, &logs, |y| ig.ln_pdf(y.exp()) + y, f64::NEG_INFINITY, f64::INFINITY, 200);
        }
    }

    /// As the mean grows the distribution tends to shape / chi-squared with one degree of freedom, where the textbook root loses every digit.
    #[test]
    fn huge_mean_is_levy() {
        let ig = InverseGaussian::new(1e30, 1.0).unwrap();
        let mut rng = rng(9);
        let logs: Vec<f64> = (0..40_000).map(|_| ig.sample(&mut rng).ln()).collect();
        let levy = |y: f64| -0.5 * (TAU.ln() + y + (-y).exp());
        check_ks("Levy limit", &logs, levy, f64::NEG_INFINITY, f64::INFINITY, 200);
    }

    #[test]
    fn edges() {
        assert!(InverseGaussian::new(0.0, 1.0).is_err() && InverseGaussian::new(1.0, f64::INFINITY).is_err());
        assert_eq!(InverseGaussian::new(1.0, 1.0).unwrap().ln_pdf(0.0), f64::NEG_INFINITY);
        let mut rng = rng(2);
        let narrow = InverseGaussian::new(1e-5, 1e12).unwrap();
        assert!((narrow.sample(&mut rng) / 1e-5 - 1.0).abs() < 1e-6);
    }

    #[test]
    fn pinned_draws() {
        let mut rng = rng(1);
        let ig = InverseGaussian::new(3.0, 0.5).unwrap();
        check_pinned(
            "inverse Gaussian",
            &[ig.sample(&mut rng), ig.sample(&mut rng), ig.sample(&mut rng)],
            &[4.270621615326058, 0.1600080277079376, 4.098556922835545],
        );
    }
}
