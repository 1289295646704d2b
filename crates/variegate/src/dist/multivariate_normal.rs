//! Multivariate normal distribution given by its precision.

use super::normal;
use crate::linalg::{Cholesky, NotPositiveDefinite};
use rand::Rng;
use rand_distr::Distribution;
use std::f64::consts::TAU;

/// MultivariateNormal(m, Q): density `|Q|^(1/2) (2 pi)^(-d/2) exp(-(x-m)' Q (x-m) / 2)` with precision `Q = L L'`.
///
/// A draw is `m + L^-T z` with `z` standard normal: one triangular solve, no inverse. Relative accuracy is that of the Cholesky
/// factor, about `1e-16` times the condition number of `Q`.
#[derive(Debug, Clone, PartialEq)]
pub struct MultivariateNormal {
    mean: Vec<f64>,
    precision: Cholesky,
}

impl MultivariateNormal {
    /// From the mean and the lower triangle of the precision (row-major, `d*d` numbers).
    pub fn new(mean: Vec<f64>, precision: &[f64]) -> Result<Self, NotPositiveDefinite> {
        let dim = mean.len();
        if precision.len() != dim * dim || mean.iter().any(|v| !v.is_finite()) {
            return Err(NotPositiveDefinite { dim });
        }
        Ok(Self { precision: Cholesky::new(dim, precision)?, mean })
    }

    /// From the linear term `h = Q m` and a factored precision: the form in which Gaussian conditionals arise.
    pub fn from_linear_term(mut h: Vec<f64>, precision: Cholesky) -> Self {
        assert_eq!(h.len(), precision.dim());
        precision.solve(&mut h);
        Self { mean: h, precision }
    }

    /// Number of coordinates.
    pub fn dim(&self) -> usize {
        self.mean.len()
    }

    /// Writes a draw; `out` has one place a coordinate.
    pub fn sample_into<R: Rng + ?Sized>(&self, rng: &mut R, out: &mut [f64]) {
        assert_eq!(out.len(), self.dim());
        out.iter_mut().for_each(|v| *v = normal(rng));
        self.precision.solve_upper(out);
        out.iter_mut().zip(&self.mean).for_each(|(v, m)| *v += m);
    }

    /// Log density at `x`.
    pub fn ln_pdf(&self, x: &[f64]) -> f64 {
        assert_eq!(x.len(), self.dim());
        let dim = self.dim();
        let lower = self.precision.lower();
        // (x-m)' L L' (x-m), a column of L at a time
        let mut square = 0.0;
        for j in 0..dim {
            let entry: f64 = (j..dim).map(|i| lower[i * dim + j] * (x[i] - self.mean[i])).sum();
            square += entry * entry;
        }
        0.5 * (self.precision.ln_det() - dim as f64 * TAU.ln() - square)
    }

    /// Mean.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// Covariance `Q^-1`, row-major.
    pub fn covariance(&self) -> Vec<f64> {
        self.precision.inverse()
    }

    /// Variance of each coordinate.
    pub fn variance(&self) -> Vec<f64> {
        let dim = self.dim();
        let covariance = self.covariance();
        (0..dim).map(|i| covariance[i * dim + i]).collect()
    }
}

impl Distribution<Vec<f64>> for MultivariateNormal {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> Vec<f64> {
        let mut out = vec![0.0; self.dim()];
        self.sample_into(rng, &mut out);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    const Q: [f64; 9] = [4.0, 0.0, 0.0, 1.5, 3.0, 0.0, -0.5, 0.3, 0.5];

    #[test]
    fn moments_and_density() {
        let mvn = MultivariateNormal::new(vec![1.0, -2.0, 30.0], &Q).unwrap();
        let mut rng = rng(900);
        let draws: Vec<Vec<f64>> = (0..40_000).map(|_| mvn.sample(&mut rng)).collect();
        let (covariance, mean) = (mvn.covariance(), mvn.mean());
        for i in 0..3 {
            let column: Vec<f64> = draws.iter().map(|d| d[i]).collect();
            check_moments("coordinate", &column, mean[i], mvn.variance()[i]);
            let sd = mvn.variance()[i].sqrt();
            let marginal = |x: f64| -0.5 * ((x - mean[i]) / sd).powi(2) - sd.ln() - 0.5 * TAU.ln();
            check_ks("coordinate", &column, marginal, f64::NEG_INFINITY, f64::INFINITY, 100);
            for j in 0..i {
                // the sum of two coordinates has variance v_i + v_j + 2 c_ij
                let sum: Vec<f64> = draws.iter().map(|d| d[i] + d[j]).collect();
                let variance = covariance[i * 3 + i] + covariance[j * 3 + j] + 2.0 * covariance[i * 3 + j];
                check_moments("sum", &sum, mean[i] + mean[j], variance);
            }
        }
        // -2 (ln p(x) - ln p(m)) is chi-squared with 3 degrees of freedom
        let top = mvn.ln_pdf(mean);
        let squares: Vec<f64> = draws.iter().map(|d| 2.0 * (top - mvn.ln_pdf(d))).collect();
        check_moments("squared distance", &squares, 3.0, 6.0);
    }

    #[test]
    fn density_in_two_dimensions() {
        let mvn = MultivariateNormal::new(vec![0.5, -1.0], &[2.0, 0.0, 0.6, 1.0]).unwrap();
        let (dx, dy) = (0.3 - 0.5, 0.2 + 1.0);
        let square = 2.0 * dx * dx + 2.0 * 0.6 * dx * dy + dy * dy;
        let want = 0.5 * (2.0 - 0.36_f64).ln() - TAU.ln() - 0.5 * square;
        assert!((mvn.ln_pdf(&[0.3, 0.2]) - want).abs() < 1e-14);
    }

    #[test]
    fn linear_term_and_edges() {
        let mvn = MultivariateNormal::new(vec![1.0, -2.0, 30.0], &Q).unwrap();
        let full = [4.0, 1.5, -0.5, 1.5, 3.0, 0.3, -0.5, 0.3, 0.5];
        let h: Vec<f64> = (0..3).map(|i| (0..3).map(|j| full[i * 3 + j] * mvn.mean()[j]).sum()).collect();
        let same = MultivariateNormal::from_linear_term(h, Cholesky::new(3, &Q).unwrap());
        assert!(same.mean().iter().zip(mvn.mean()).all(|(a, b)| (a - b).abs() < 1e-12));
        assert!(MultivariateNormal::new(vec![0.0, 0.0], &[1.0, 0.0, 2.0, 1.0]).is_err());
        assert!(MultivariateNormal::new(vec![0.0], &[f64::NAN]).is_err());
        assert!(MultivariateNormal::new(vec![0.0], &[1.0, 2.0]).is_err());
        let mut rng = rng(2);
        assert!(MultivariateNormal::new(vec![], &[]).unwrap().sample(&mut rng).is_empty());
    }

    #[test]
    fn pinned_draws() {
        let mut rng = rng(1);
        check_pinned(
            "multivariate normal",
            &MultivariateNormal::new(vec![1.0, -2.0, 30.0], &Q).unwrap().sample(&mut rng),
            &[1.444559755488627, -2.035621698244658, 32.86992478802606],
        );
    }
}
