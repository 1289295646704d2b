//! Gamma distribution.

use super::{ParamError, SMALLEST_SHAPE, exponential, normal, require, uniform};
use crate::special::ln_gamma;
use rand::Rng;
use rand_distr::Distribution;

/// Gamma(shape a, rate r): density `r^a x^(a-1) exp(-r x) / Gamma(a)` on `x > 0`.
///
/// Small shapes put most of their mass below the smallest double (at `a = 0.001` half of it): [`Distribution::sample`] then
/// returns 0, while [`Gamma::sample_ln`] keeps the logarithm exactly. Shapes from 1e-300 on are accepted. The absolute error of
/// `ln_pdf` is about `1e-16 a ln a` for large shapes.
///
/// ```
/// use variegate::dist::Gamma;
/// let tiny = Gamma::new(1e-6, 1.0)?;
/// let mut rng = variegate::run::Philox::new([1, 2], [0; 4]);
/// assert!(tiny.sample_ln(&mut rng).is_finite());
/// # Ok::<(), variegate::dist::ParamError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gamma {
    shape: f64,
    rate: f64,
    core: Core,
}

/// Squeezed cube of a normal (Marsaglia and Tsang) for the shape itself if it is at least 1, else for shape + 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Core {
    d: f64,
    c: f64,
}

impl Core {
    pub(super) fn new(shape: f64) -> Self {
        let d = if shape < 1.0 { shape + 1.0 } else { shape } - 1.0 / 3.0;
        Self { d, c: 1.0 / (9.0 * d).sqrt() }
    }

    #[inline]
    pub(super) fn draw<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        loop {
            let x = normal(rng);
            let root = 1.0 + self.c * x;
            if root <= 0.0 {
                continue;
            }
            let v = root * root * root;
            let u = uniform(rng);
            let square = x * x;
            if u < 1.0 - 0.0331 * square * square || u.ln() < 0.5 * square + self.d * (1.0 - v + v.ln()) {
                return self.d * v;
            }
        }
    }
}

impl Gamma {
    /// Shape of at least 1e-300 and rate, both finite.
    pub fn new(shape: f64, rate: f64) -> Result<Self, ParamError> {
        let name = "gamma";
        require(shape >= SMALLEST_SHAPE && shape.is_finite(), name, "shape", shape, "at least 1e-300 and finite")?;
        require(rate > 0.0 && rate.is_finite(), name, "rate", rate, "positive and finite")?;
        Ok(Self { shape, rate, core: Core::new(shape) })
    }

    /// Logarithm of a draw; does not underflow for small shapes.
    #[inline]
    pub fn sample_ln<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        let core = self.core.draw(rng).ln() - self.rate.ln();
        // a gamma of shape a is one of shape a+1 times U^(1/a)
        if self.shape < 1.0 { core - exponential(rng) / self.shape } else { core }
    }

    /// Log density at `x`.
    pub fn ln_pdf(&self, x: f64) -> f64 {
        if x < 0.0 || x.is_infinite() {
            return f64::NEG_INFINITY;
        }
        if x == 0.0 {
            return match self.shape {
                a if a < 1.0 => f64::INFINITY,
                1.0 => self.rate.ln(),
                _ => f64::NEG_INFINITY,
            };
        }
        self.shape * (self.rate * x).ln() - x.ln() - self.rate * x - ln_gamma(self.shape)
    }

    /// Log density of `y = ln x`: no singularity at 0.
    pub fn ln_pdf_of_ln(&self, y: f64) -> f64 {
        let shifted = y + self.rate.ln();
        self.shape * shifted - shifted.exp() - ln_gamma(self.shape)
    }

    /// `a / r`.
    pub fn mean(&self) -> f64 {
        self.shape / self.rate
    }

    /// `a / r^2`.
    pub fn variance(&self) -> f64 {
        self.shape / self.rate / self.rate
    }
}

impl Distribution<f64> for Gamma {
    #[inline]
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        let core = self.core.draw(rng) / self.rate;
        if self.shape < 1.0 { core * (-exponential(rng) / self.shape).exp() } else { core }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::special::{digamma, trigamma};

    #[test]
    fn moments_and_density() {
        for (i, (shape, rate)) in [(0.3, 2.0), (1.0, 0.5), (2.5, 10.0), (400.0, 1e-3)].into_iter().enumerate() {
            let gamma = Gamma::new(shape, rate).unwrap();
            let mut rng = rng(100 + i as u64);
            let name = format!("gamma({shape}, {rate})");
            let draws: Vec<f64> = (0..40_000).map(|_| gamma.sample(&mut rng)).collect();
            check_moments(&name, &draws, gamma.mean(), gamma.variance());
            let logs: Vec<f64> = (0..40_000).map(|_| gamma.sample_ln(&mut rng)).collect();
            check_moments(&name, &logs, digamma(shape) - rate.ln(), trigamma(shape));
            check_ks(&name, &logs, |y| gamma.ln_pdf_of_ln(y), f64::NEG_INFINITY, f64::INFINITY, 200);
            if shape >= 1.0 {
                check_ks(&name, &draws, |x| gamma.ln_pdf(x), 0.0, f64::INFINITY, 200);
            }
        }
    }

    #[test]
    fn tiny_shapes_keep_their_logarithm() {
        let gamma = Gamma::new(1e-8, 1.0).unwrap();
        let mut rng = rng(7);
        // a ln x tends to minus a standard exponential
        let scaled: Vec<f64> = (0..40_000).map(|_| -1e-8 * gamma.sample_ln(&mut rng)).collect();
        check_moments("scaled log of gamma(1e-8)", &scaled, 1.0, 1.0);
        assert!(Gamma::new(1e-300, 1.0).unwrap().sample_ln(&mut rng).is_finite());
        assert_eq!(gamma.ln_pdf(0.0), f64::INFINITY);
        assert_eq!(gamma.ln_pdf(-1.0), f64::NEG_INFINITY);
    }

    #[test]
    fn huge_shapes() {
        let gamma = Gamma::new(1e12, 1e12).unwrap();
        let mut rng = rng(8);
        let draws: Vec<f64> = (0..20_000).map(|_| gamma.sample(&mut rng)).collect();
        check_moments("gamma(1e12, 1e12)", &draws, 1.0, 1e-12);
    }

    #[test]
    fn bad_parameters() {
        for (shape, rate) in [(0.0, 1.0), (-1.0, 1.0), (f64::NAN, 1.0), (1.0, 0.0), (1.0, f64::INFINITY), (1e-301, 1.0)] {
            assert!(Gamma::new(shape, rate).is_err());
        }
        let message = Gamma::new(-1.0, 1.0).unwrap_err().to_string();
        assert_eq!(message, "gamma: shape is -1, but it must be at least 1e-300 and finite");
    }

    #[test]
    fn pinned_draws() {
        let mut rng = rng(1);
        let got: Vec<f64> =
            [(0.3, 2.0), (0.3, 2.0), (2.5, 10.0), (2.5, 10.0)].map(|(a, r)| Gamma::new(a, r).unwrap().sample(&mut rng)).to_vec();
        check_pinned("gamma", &got, &[0.0005427007984711658, 0.004907982000892385, 0.39335703109085135, 0.14613686631619868]);
    }
}
