//! Dirichlet distribution.

use super::{Gamma, ParamError, SMALLEST_SHAPE, require};
use crate::special::{ln_gamma, log_sum_exp};
use rand::Rng;
use rand_distr::Distribution;

/// Dirichlet(alpha): density `Gamma(sum alpha) prod_i x_i^(alpha_i - 1) / Gamma(alpha_i)` on the simplex.
///
/// With small concentrations most coordinates lie below the smallest double. [`Dirichlet::sample_into`] then writes zeros (a legal
/// weight), [`Dirichlet::sample_ln_into`] keeps their logarithms; at least one coordinate is never lost. Concentrations from 1e-300
/// on are accepted.
#[derive(Debug, Clone, PartialEq)]
pub struct Dirichlet {
    alpha: Vec<f64>,
    gammas: Vec<Gamma>,
    total: f64,
}

impl Dirichlet {
    /// One concentration a coordinate, at least one of them.
    pub fn new(alpha: &[f64]) -> Result<Self, ParamError> {
        require(!alpha.is_empty(), "Dirichlet", "number of concentrations", 0.0, "at least 1")?;
        for &value in alpha {
            let holds = value >= SMALLEST_SHAPE && value.is_finite();
            require(holds, "Dirichlet", "concentration", value, "at least 1e-300 and finite")?;
        }
        let total = alpha.iter().sum::<f64>();
        require(total.is_finite(), "Dirichlet", "sum of concentrations", total, "finite")?;
        let gammas = alpha.iter().map(|&a| Gamma::new(a, 1.0)).collect::<Result<_, _>>()?;
        Ok(Self { alpha: alpha.to_vec(), gammas, total })
    }

    /// Number of coordinates.
    pub fn dim(&self) -> usize {
        self.alpha.len()
    }

    /// Writes the logarithms of a draw; `out` has one place a coordinate.
    pub fn sample_ln_into<R: Rng + ?Sized>(&self, rng: &mut R, out: &mut [f64]) {
        assert_eq!(out.len(), self.dim());
        for (place, gamma) in out.iter_mut().zip(&self.gammas) {
            *place = gamma.sample_ln(rng);
        }
        let norm = log_sum_exp(out);
        out.iter_mut().for_each(|v| *v -= norm);
    }

    /// Writes a draw; `out` has one place a coordinate.
    pub fn sample_into<R: Rng + ?Sized>(&self, rng: &mut R, out: &mut [f64]) {
        self.sample_ln_into(rng, out);
        out.iter_mut().for_each(|v| *v = v.exp());
    }

    /// Log density at a point of the simplex (its coordinates are taken to sum to 1).
    pub fn ln_pdf(&self, x: &[f64]) -> f64 {
        if x.len() != self.dim() || x.iter().any(|v| !(0.0..=1.0).contains(v)) {
            return f64::NEG_INFINITY;
        }
        let mut sum = ln_gamma(self.total);
        for (&a, &v) in self.alpha.iter().zip(x) {
            sum -= ln_gamma(a);
            if a != 1.0 {
                sum += (a - 1.0) * v.ln();
            }
        }
        sum
    }

    /// `alpha_i / sum alpha`.
    pub fn mean(&self) -> Vec<f64> {
        self.alpha.iter().map(|a| a / self.total).collect()
    }

    /// Variance of each coordinate, `m_i (1 - m_i) / (1 + sum alpha)`.
    pub fn variance(&self) -> Vec<f64> {
        self.mean().into_iter().map(|m| m * (1.0 - m) / (1.0 + self.total)).collect()
    }
}

impl Distribution<Vec<f64>> for Dirichlet {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> Vec<f64> {
        let mut out = vec![0.0; self.dim()];
        self.sample_into(rng, &mut out);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::super::Beta;
    use super::super::testing::*;
    use super::*;

    #[test]
    fn moments_and_marginals() {
        for (seed, alpha) in [(1, vec![2.0, 0.5, 4.0, 1.0]), (2, vec![0.05, 0.1, 0.2]), (3, vec![50.0, 30.0])] {
            let dirichlet = Dirichlet::new(&alpha).unwrap();
            let mut rng = rng(300 + seed);
            let draws: Vec<Vec<f64>> = (0..30_000).map(|_| dirichlet.sample(&mut rng)).collect();
            let (mean, variance) = (dirichlet.mean(), dirichlet.variance());
            let total: f64 = alpha.iter().sum();
            let mut logs = vec![vec![]; alpha.len()];
            let mut scratch = vec![0.0; alpha.len()];
            for _ in 0..30_000 {
                dirichlet.sample_ln_into(&mut rng, &mut scratch);
                (0..alpha.len()).for_each(|i| logs[i].push(scratch[i]));
            }
            for i in 0..alpha.len() {
                let column: Vec<f64> = draws.iter().map(|d| d[i]).collect();
                check_moments("Dirichlet", &column, mean[i], variance[i]);
                // coordinate i is Beta(alpha_i, rest); the density of ln x is the density of x times x
                let marginal = Beta::new(alpha[i], total - alpha[i]).unwrap();
                let of_ln = |y: f64| {
                    alpha[i] * y + (total - alpha[i] - 1.0) * (-y.exp_m1()).ln() - crate::special::ln_beta(alpha[i], total - alpha[i])
                };
                assert!((of_ln(-0.7) - marginal.ln_pdf((-0.7_f64).exp()) + 0.7).abs() < 1e-12);
                if total - alpha[i] >= 1.0 {
                    check_ks("Dirichlet", &logs[i], of_ln, f64::NEG_INFINITY, 0.0, 200);
                }
            }
            assert!(draws.iter().all(|d| (d.iter().sum::<f64>() - 1.0).abs() < 1e-12));
        }
    }

    /// The density integrates to 1 over the simplex in three coordinates, and reduces to the beta density in two.
    #[test]
    fn density() {
        let dirichlet = Dirichlet::new(&[2.0, 1.5, 3.0]).unwrap();
        let slice =
            |x: f64| super::super::quadrature::integrate(&|y| dirichlet.ln_pdf(&[x, y, (1.0 - x - y).max(0.0)]).exp(), 0.0, 1.0 - x);
        let total = super::super::quadrature::integrate(&slice, 0.0, 1.0);
        assert!((total - 1.0).abs() < 1e-8, "{total}");
        let two = Dirichlet::new(&[2.0, 0.7]).unwrap();
        assert!((two.ln_pdf(&[0.3, 0.7]) - Beta::new(2.0, 0.7).unwrap().ln_pdf(0.3)).abs() < 1e-13);
        assert_eq!(two.ln_pdf(&[1.5, -0.5]), f64::NEG_INFINITY);
        assert_eq!(two.ln_pdf(&[1.0]), f64::NEG_INFINITY);
    }

    #[test]
    fn tiny_concentrations() {
        let dirichlet = Dirichlet::new(&[1e-300, 1e-300, 1e-300]).unwrap();
        let mut rng = rng(5);
        for _ in 0..100 {
            let draw = dirichlet.sample(&mut rng);
            assert_eq!(draw.iter().sum::<f64>(), 1.0);
        }
        assert!(Dirichlet::new(&[]).is_err() && Dirichlet::new(&[1.0, 0.0]).is_err() && Dirichlet::new(&[1e308; 3]).is_err());
    }

    #[test]
    fn pinned_draws() {
        let mut rng = rng(1);
        check_pinned(
            "Dirichlet",
            &Dirichlet::new(&[2.0, 0.5, 4.0]).unwrap().sample(&mut rng),
            &[0.2082054365521509, 0.18314238587599435, 0.6086521775718549],
        );
    }
}
