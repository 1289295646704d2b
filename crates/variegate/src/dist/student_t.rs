//! Student's t distribution with location and scale.

use crate::diagnostics::beta_cdf;
use crate::special::{ln_gamma, norm_cdf};
use std::f64::consts::PI;

/// t with ν degrees of freedom, moved by `location` and stretched by `scale`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StudentT {
    /// Degrees of freedom, above 0.
    pub freedom: f64,
    /// Its centre.
    pub location: f64,
    /// Its scale, above 0.
    pub scale: f64,
}

impl StudentT {
    /// Log density at x.
    pub fn ln_pdf(&self, x: f64) -> f64 {
        let (nu, z) = (self.freedom, (x - self.location) / self.scale);
        ln_gamma(0.5 * (nu + 1.0)) - ln_gamma(0.5 * nu) - 0.5 * (nu * PI).ln() - self.scale.ln() - 0.5 * (nu + 1.0) * (z * z / nu).ln_1p()
    }

    /// Probability of values up to x.
    pub fn cdf(&self, x: f64) -> f64 {
        let (nu, z) = (self.freedom, (x - self.location) / self.scale);
        if nu > 1e8 {
            // no double can tell it from a normal
            return norm_cdf(z);
        }
        // both tails from the side that is small: I_{ν/(ν+z²)}(ν/2, ½)/2
        let tail = 0.5 * beta_cdf(nu / (nu + z * z), 0.5 * nu, 0.5);
        if z > 0.0 { 1.0 - tail } else { tail }
    }

    /// Variance; infinite up to two degrees of freedom.
    pub fn variance(&self) -> f64 {
        if self.freedom > 2.0 { self.scale * self.scale * self.freedom / (self.freedom - 2.0) } else { f64::INFINITY }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::quadrature::integrate;

    #[test]
    fn closed_forms() {
        let cauchy = StudentT { freedom: 1.0, location: 1.0, scale: 2.0 };
        for x in [-30.0, -1.0, 0.5, 1.0, 4.0, 100.0] {
            let z: f64 = (x - 1.0) / 2.0;
            assert!((cauchy.cdf(x) - (0.5 + z.atan() / PI)).abs() < 1e-13);
            assert!((cauchy.ln_pdf(x) + (2.0 * PI * (1.0 + z * z)).ln()).abs() < 1e-12);
        }
        // two degrees of freedom: ½ + z / (2 √(2 + z²))
        let two = StudentT { freedom: 2.0, location: 0.0, scale: 1.0 };
        for z in [-5.0, -0.3, 0.0, 2.0f64] {
            assert!((two.cdf(z) - 0.5 - 0.5 * z / (2.0 + z * z).sqrt()).abs() < 1e-13);
        }
        assert_eq!(two.variance(), f64::INFINITY);
        let many = StudentT { freedom: 1e9, location: 0.0, scale: 1.0 };
        assert!((many.cdf(1.3) - norm_cdf(1.3)).abs() < 1e-9);
    }

    #[test]
    fn the_cdf_is_the_integral_of_the_density() {
        for freedom in [0.7, 3.0, 11.0, 250.0] {
            let t = StudentT { freedom, location: -0.4, scale: 0.7 };
            let between = integrate(&|x| t.ln_pdf(x).exp(), -1.5, 2.0);
            assert!((t.cdf(2.0) - t.cdf(-1.5) - between).abs() < 1e-10, "{freedom}");
        }
    }
}
