//! A Gamma distribution as a factor of an approximate posterior: its moments and its divergence from a prior.

use serde::{Deserialize, Serialize};

use crate::special::{digamma, ln_gamma};

/// Gamma(shape, rate), both positive.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct GammaFactor {
    /// Its shape a.
    pub shape: f64,
    /// Its rate b: the mean is a/b.
    pub rate: f64,
}

impl GammaFactor {
    /// Gamma(shape, rate).
    pub fn new(shape: f64, rate: f64) -> Self {
        Self { shape, rate }
    }

    /// E g = a/b.
    pub fn mean(&self) -> f64 {
        self.shape / self.rate
    }

    /// E ln g = ψ(a) − ln b.
    pub fn mean_ln(&self) -> f64 {
        digamma(self.shape) - self.rate.ln()
    }

    /// Kullback-Leibler divergence of this factor from a prior.
    pub fn divergence(&self, prior: &Self) -> f64 {
        let (a, b) = (self.shape, self.rate);
        let (a0, b0) = (prior.shape, prior.rate);
        (a - a0) * digamma(a) - ln_gamma(a) + ln_gamma(a0) + a0 * (b / b0).ln() + a * (b0 - b) / b
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::Gamma;
    use crate::dist::quadrature::integrate;

    /// Moments and divergence are the integrals they claim to be, taken over y = ln g.
    #[test]
    fn moments_and_divergence_are_integrals() {
        for (shape, rate, shape0, rate0) in [(2.5, 0.7, 1.0, 1.0), (0.8, 3.0, 0.5, 0.5), (30.0, 12.0, 4.0, 9.0)] {
            let (q, p) = (GammaFactor::new(shape, rate), GammaFactor::new(shape0, rate0));
            let (dq, dp) = (Gamma::new(shape, rate).unwrap(), Gamma::new(shape0, rate0).unwrap());
            let over = |f: &dyn Fn(f64) -> f64| {
                // in pieces: the integrand is narrow for large shapes
                let density = |y: f64| dq.ln_pdf_of_ln(y).exp() * f(y);
                (0..400).map(|i| integrate(&density, -70.0 + 0.2 * i as f64, -69.8 + 0.2 * i as f64)).sum::<f64>()
            };
            assert!((over(&f64::exp) - q.mean()).abs() < 1e-8 * q.mean());
            assert!((over(&|y| y) - q.mean_ln()).abs() < 1e-8);
            let divergence = over(&|y| dq.ln_pdf_of_ln(y) - dp.ln_pdf_of_ln(y));
            assert!((divergence - q.divergence(&p)).abs() < 1e-8, "{divergence} {}", q.divergence(&p));
            assert!(q.divergence(&q).abs() < 1e-14);
        }
    }
}
