//! Beta distribution.

use super::{Gamma, ParamError, SMALLEST_SHAPE, require};
use crate::special::{ln_beta, ln_sigmoid, log1p_exp};
use rand::Rng;
use rand_distr::Distribution;

/// Beta(a, b): density `x^(a-1) (1-x)^(b-1) / B(a, b)` on `(0, 1)`.
///
/// A double cannot tell `1 - 1e-20` from 1, and small shapes push draws below the smallest double: [`Beta::sample_ln`] returns
/// `ln x` and `ln(1-x)`, both finite and exact, where [`Distribution::sample`] may return 0 or 1. Shapes from 1e-300 on are
/// accepted. The absolute error of `ln_pdf` is about `1e-16 (a+b)` for large shapes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Beta {
    a: f64,
    b: f64,
    first: Gamma,
    second: Gamma,
}

impl Beta {
    /// Shapes of at least 1e-300, finite.
    pub fn new(a: f64, b: f64) -> Result<Self, ParamError> {
        for (parameter, value) in [("a", a), ("b", b)] {
            require(value >= SMALLEST_SHAPE && value.is_finite(), "beta", parameter, value, "at least 1e-300 and finite")?;
        }
        Ok(Self { a, b, first: Gamma::new(a, 1.0)?, second: Gamma::new(b, 1.0)? })
    }

    /// `(ln x, ln(1 - x))` of a draw.
    #[inline]
    pub fn sample_ln<R: Rng + ?Sized>(&self, rng: &mut R) -> (f64, f64) {
        let odds = self.sample_logit(rng);
        (ln_sigmoid(odds), ln_sigmoid(-odds))
    }

    /// `ln(x / (1 - x))` of a draw.
    #[inline]
    pub fn sample_logit<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        self.first.sample_ln(rng) - self.second.sample_ln(rng)
    }

    /// Log density at `x`.
    pub fn ln_pdf(&self, x: f64) -> f64 {
        if !(0.0..=1.0).contains(&x) {
            return f64::NEG_INFINITY;
        }
        // a factor with exponent 0 is 1 also at the ends
        let power = |exponent: f64, ln_base: f64| if exponent == 0.0 { 0.0 } else { exponent * ln_base };
        power(self.a - 1.0, x.ln()) + power(self.b - 1.0, (-x).ln_1p()) - ln_beta(self.a, self.b)
    }

    /// Log density of `y = ln(x / (1-x))`: no singularities.
    pub fn ln_pdf_of_logit(&self, y: f64) -> f64 {
        -self.a * log1p_exp(-y) - self.b * log1p_exp(y) - ln_beta(self.a, self.b)
    }

    /// `a / (a + b)`.
    pub fn mean(&self) -> f64 {
        1.0 / (1.0 + self.b / self.a)
    }

    /// `a b / ((a + b)^2 (a + b + 1))`.
    pub fn variance(&self) -> f64 {
        self.mean() / (1.0 + self.a / self.b) / (self.a + self.b + 1.0)
    }
}

impl Distribution<f64> for Beta {
    #[inline]
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        if self.a < 1.0 || self.b < 1.0 {
            return 1.0 / (1.0 + (-self.sample_logit(rng)).exp());
        }
        let (x, y) = (self.first.sample(rng), self.second.sample(rng));
        x / (x + y)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::special::{digamma, trigamma};

    #[test]
    fn moments_and_density() {
        for (i, (a, b)) in [(0.05, 0.2), (0.5, 3.0), (1.0, 1.0), (2.0, 5.5), (3000.0, 50.0)].into_iter().enumerate() {
            let beta = Beta::new(a, b).unwrap();
            let mut rng = rng(200 + i as u64);
            let name = format!("beta({a}, {b})");
            let draws: Vec<f64> = (0..40_000).map(|_| beta.sample(&mut rng)).collect();
            check_moments(&name, &draws, beta.mean(), beta.variance());
            let odds: Vec<f64> = (0..40_000).map(|_| beta.sample_logit(&mut rng)).collect();
            check_moments(&name, &odds, digamma(a) - digamma(b), trigamma(a) + trigamma(b));
            check_ks(&name, &odds, |y| beta.ln_pdf_of_logit(y), f64::NEG_INFINITY, f64::INFINITY, 200);
            if a >= 1.0 && b >= 1.0 {
                check_ks(&name, &draws, |x| beta.ln_pdf(x), 0.0, 1.0, 200);
            }
        }
    }

    #[test]
    fn logarithms_survive_where_numbers_do_not() {
        let beta = Beta::new(1e-5, 1e-5).unwrap();
        let mut rng = rng(3);
        for _ in 0..1000 {
            let (ln_x, ln_rest) = beta.sample_ln(&mut rng);
            assert!(ln_x.is_finite() && ln_rest <= 0.0 && ln_x <= 0.0);
        }
        assert!(Beta::new(1e-300, 1e-300).unwrap().sample_ln(&mut rng).0.is_finite());
    }

    #[test]
    fn ends_of_the_support() {
        let density = |a, b, x| Beta::new(a, b).unwrap().ln_pdf(x);
        assert_eq!(density(1.0, 1.0, 0.0), 0.0);
        assert_eq!(density(1.0, 1.0, 1.0), 0.0);
        assert_eq!(density(2.0, 1.0, 0.0), f64::NEG_INFINITY);
        assert_eq!(density(0.5, 1.0, 0.0), f64::INFINITY);
        assert_eq!(density(2.0, 2.0, 1.5), f64::NEG_INFINITY);
        assert!(Beta::new(0.0, 1.0).is_err() && Beta::new(1.0, f64::NAN).is_err());
    }

    #[test]
    fn pinned_draws() {
        let mut rng = rng(1);
        let got = [(0.5, 0.5), (0.5, 3.0), (2.0, 5.5)].map(|(a, b)| Beta::new(a, b).unwrap().sample(&mut rng));
        check_pinned("beta", &got, &[0.23653058881252517, 0.23289210735623678, 0.24533904515678273]);
    }
}
