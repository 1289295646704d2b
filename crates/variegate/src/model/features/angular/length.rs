//! Lengths of features.

use super::chain::ln_normaliser;
use crate::Result;
use crate::dist::{Concentration, Gamma};
use crate::infer::slice::SliceSampler;
use crate::linalg::dot;
use crate::run::Philox;
use crate::special::ln_gamma;

/// The distribution of lengths.
#[derive(Debug, Clone, Copy)]
pub(super) enum Lengths {
    /// Gamma of this shape and rate.
    Gamma { shape: f64, rate: f64 },
    /// That of the length of a Gaussian vector of so many entries of this variance.
    Chi { dim: f64, variance: f64 },
}

impl Lengths {
    /// Log density.
    pub(super) fn ln_density(&self, r: f64) -> f64 {
        match *self {
            Self::Gamma { shape, rate } => shape * rate.ln() - ln_gamma(shape) + (shape - 1.0) * r.ln() - rate * r,
            Self::Chi { dim, variance } => {
                let half = 0.5 * dim;
                (1.0 - half) * std::f64::consts::LN_2 - ln_gamma(half) - half * variance.ln() + (dim - 1.0) * r.ln()
                    - 0.5 * r * r / variance
            }
        }
    }

    /// Derivative of ln density + ln r with respect to ln r.
    fn slope(&self, r: f64) -> f64 {
        match *self {
            Self::Gamma { shape, rate } => shape - rate * r,
            Self::Chi { dim, variance } => dim - r * r / variance,
        }
    }

    /// A draw.
    pub(super) fn draw(&self, rng: &mut Philox) -> Result<f64> {
        let r = match *self {
            Self::Gamma { shape, rate } => Gamma::new(shape, rate)?.sample_ln(rng).exp(),
            Self::Chi { dim, variance } => (2.0 * variance * Gamma::new(0.5 * dim, 1.0)?.sample_ln(rng).exp()).sqrt(),
        };
        Ok(r.max(f64::MIN_POSITIVE))
    }

    /// One step for the length of a feature that `uses` rows use, what they leave for it having this inner product with its direction.
    pub(super) fn step(&self, r: f64, along: f64, uses: f64, noise: f64, rng: &mut Philox) -> Result<f64> {
        if uses == 0.0 {
            return self.draw(rng);
        }
        let target = |y: f64| {
            let r = y.exp();
            self.ln_density(r) + y + (along * r - 0.5 * uses * r * r) / noise
        };
        Ok(SliceSampler::default().step(r.ln(), target, rng).map_or(r, |step| step.x.exp()))
    }

    /// A Gaussian for ln r of a feature that `uses` rows use with this sum of what they leave for it, its direction integrated out: centre and
    /// deviation. It is a function of its arguments alone, so that a death knows how likely its birth was.
    pub(super) fn proposal(&self, pull: &[f64], sum: &[f64], uses: f64, noise: f64) -> (f64, f64) {
        let (tt, ts, ss) = (dot(pull, pull), dot(pull, sum) / noise, dot(sum, sum) / (noise * noise));
        let slope = |y: f64| {
            let r = y.exp();
            let strength = (tt + 2.0 * r * ts + r * r * ss).max(0.0).sqrt();
            let turn = if strength > 0.0 { Concentration::at(pull.len(), strength).mean * (r * ts + r * r * ss) / strength } else { 0.0 };
            self.slope(r) - uses * r * r / noise + turn
        };
        let (mut low, mut high) = (-60.0, 60.0);
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            // NaN where numbers overflow, which is far too long
            if slope(middle) > 0.0 {
                low = middle;
            } else {
                high = middle;
            }
        }
        let centre = 0.5 * (low + high);
        let curvature = (slope(centre - 1e-4) - slope(centre + 1e-4)) / 2e-4;
        (centre, 1.2 / curvature.max(0.01).sqrt())
    }
}

/// Log of the factor by which one row, or several with this sum, are likelier with a feature of this length than without, direction integrated out.
pub(super) fn ln_gain(pull: &[f64], sum: &[f64], r: f64, uses: f64, noise: f64) -> f64 {
    let natural: Vec<f64> = pull.iter().zip(sum).map(|(t, s)| t + r * s / noise).collect();
    let strength = |v: &[f64]| dot(v, v).sqrt();
    -0.5 * uses * r * r / noise + ln_normaliser(pull.len(), strength(pull)) - ln_normaliser(pull.len(), strength(&natural))
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::assert_mean;
    use super::*;
    use crate::run::{Purpose, Stream};

    /// Moments of a length against published quadrature; 200 batches of 500 steps.
    #[test]
    fn steps_of_a_length_have_its_moments() {
        let lengths = Lengths::Gamma { shape: 2.0, rate: 2.0 };
        let mut rng = Stream::new(3, 0, Purpose::Check).rng();
        let mut r = 1.0;
        let batches: Vec<(f64, f64)> = (0..200)
            .map(|_| {
                (0..500).fold((0.0, 0.0), |(a, b), _| {
                    r = lengths.step(r, 1.1, 3.0, 0.25, &mut rng).unwrap();
                    (a + r / 500.0, b + r * r / 500.0)
                })
            })
            .collect();
        for (values, told) in
            [(batches.iter().map(|b| b.0).collect::<Vec<_>>(), 0.4605274976), (batches.iter().map(|b| b.1).collect(), 0.2587721662)]
        {
            assert_mean("length", &values, told);
        }
    }

    #[test]
    fn lengths_are_distributions() {
        for lengths in [Lengths::Gamma { shape: 4.0, rate: 1.7 }, Lengths::Chi { dim: 5.0, variance: 0.6 }] {
            let cells = 100_000;
            let r = |i: usize| 20.0 * (i as f64 + 0.5) / cells as f64;
            let total: f64 = (0..cells).map(|i| lengths.ln_density(r(i)).exp() * 20.0 / cells as f64).sum();
            assert!((total - 1.0).abs() < 1e-7, "{total}");
            let mean: f64 = (0..cells).map(|i| r(i) * lengths.ln_density(r(i)).exp() * 20.0 / cells as f64).sum();
            let mut rng = Stream::new(5, 0, Purpose::Check).rng();
            let n = 100_000;
            let drawn: Vec<f64> = (0..n).map(|_| lengths.draw(&mut rng).unwrap()).collect();
            let average = drawn.iter().sum::<f64>() / n as f64;
            let error = (drawn.iter().map(|v| (v - average).powi(2)).sum::<f64>() / n as f64 / n as f64).sqrt();
            assert!((average - mean).abs() < 4.0 * error, "{average} {mean}");
        }
    }

    /// The published marginal of a birth in one row, by quadrature over the length.
    #[test]
    fn the_gain_of_one_row_is_the_published_one() {
        let lengths = Lengths::Gamma { shape: 2.0, rate: 2.0 };
        let (pull, row) = ([0.0, 0.0, -2.0], [1.0, 0.5, -0.2]);
        let cells = 40_000;
        let found: f64 = (0..cells)
            .map(|i| {
                let r = 12.0 * (i as f64 + 0.5) / cells as f64;
                (lengths.ln_density(r) + ln_gain(&pull, &row, r, 1.0, 0.25)).exp() * 12.0 / cells as f64
            })
            .sum();
        assert!((found - 1.0671027760).abs() < 1e-7, "{found}");
        // the proposal sits at the mode of what is integrated, on the scale of logarithms
        let target = |y: f64| lengths.ln_density(y.exp()) + y + ln_gain(&pull, &row, y.exp(), 1.0, 0.25);
        let (centre, deviation) = lengths.proposal(&pull, &row, 1.0, 0.25);
        assert!(target(centre) > target(centre + 1e-3) && target(centre) > target(centre - 1e-3));
        let curvature = (2.0 * target(centre) - target(centre + 1e-3) - target(centre - 1e-3)) / 1e-6;
        assert!((deviation * curvature.sqrt() - 1.2).abs() < 1e-3);
    }
}
