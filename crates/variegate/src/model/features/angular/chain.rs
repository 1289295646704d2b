//! The chain of directions: each points away from the sum of those before it, with a strength that does not depend on the length of the sum.
//!
//! Directions are unit vectors, one after the other, by descending probability of use. Given the others and what rows say of it, the log
//! density of direction k is a linear function of it (those before it, and the rows) plus what it means for those after it.

use rand::Rng;

use crate::Result;
use crate::dist::{Concentration, VonMisesFisher, ln_surface};
use crate::infer::geodesic::{Manifold, Pace, transition};
use crate::linalg::dot;
use crate::prior::{NOWHERE, normalise, uniform_direction};
use crate::run::{Philox, open01};
use crate::special::sigmoid;

/// Most leapfrog steps of a trajectory: five on average.
const STEPS: u32 = 9;

/// Dimension and strength of the chain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chain {
    pub dim: usize,
    pub kappa: f64,
    /// ln of the normaliser of no strength over that of kappa.
    flat: f64,
}

/// Log normaliser of a von Mises-Fisher distribution of this strength.
pub(super) fn ln_normaliser(dim: usize, kappa: f64) -> f64 {
    -ln_surface(dim) - Concentration::at(dim, kappa).ln_ratio
}

/// A draw from the von Mises-Fisher distribution of density proportional to exp(natural · u).
pub(super) fn draw_direction<R: Rng + ?Sized>(natural: &[f64], rng: &mut R) -> Result<Vec<f64>> {
    let mut out = vec![0.0; natural.len()];
    let strength = dot(natural, natural).sqrt();
    if let [only] = natural {
        out[0] = if open01(rng) < sigmoid(2.0 * only) { 1.0 } else { -1.0 };
    } else if strength > 0.0 {
        VonMisesFisher::new(natural, strength)?.sample_into(rng, &mut out);
        normalise(&mut out);
    } else {
        uniform_direction(&mut out, rng);
    }
    Ok(out)
}

impl Chain {
    pub(super) fn new(dim: usize, kappa: f64) -> Self {
        Self { dim, kappa, flat: Concentration::at(dim, kappa).ln_ratio }
    }

    fn row<'a>(&self, directions: &'a [f64], k: usize) -> &'a [f64] {
        &directions[k * self.dim..][..self.dim]
    }

    /// Sum of the directions before place k.
    fn sum_before(&self, directions: &[f64], k: usize) -> Vec<f64> {
        let mut sum = vec![0.0; self.dim];
        for j in 0..k {
            sum.iter_mut().zip(self.row(directions, j)).for_each(|(s, u)| *s += u);
        }
        sum
    }

    /// What those before place k add to the log density of the direction there: −kappa t/|t|.
    pub(super) fn pull(&self, directions: &[f64], k: usize) -> Vec<f64> {
        let mut sum = self.sum_before(directions, k);
        let length = dot(&sum, &sum).sqrt();
        let factor = if length <= NOWHERE { 0.0 } else { -self.kappa / length };
        sum.iter_mut().for_each(|s| *s *= factor);
        sum
    }

    /// What a direction at place k means for those after it, up to place `last`, exclusive.
    pub(super) fn successors(&self, directions: &[f64], k: usize, candidate: &[f64], last: usize) -> f64 {
        self.walk(directions, k, candidate, last, |_, _, _, _| ())
    }

    /// The same with its gradient added to `out`.
    fn successors_gradient(&self, directions: &[f64], k: usize, candidate: &[f64], last: usize, out: &mut [f64]) -> f64 {
        self.walk(directions, k, candidate, last, |sum, length, u, along| {
            for ((o, u), s) in out.iter_mut().zip(u).zip(sum) {
                *o -= self.kappa * (u - s / length * along) / length;
            }
        })
    }

    /// Adds up what a direction at place k means for those after it; `f` sees the sum before each that points away from one, its length,
    /// the direction, and the cosine between the two.
    fn walk(&self, directions: &[f64], k: usize, candidate: &[f64], last: usize, mut f: impl FnMut(&[f64], f64, &[f64], f64)) -> f64 {
        if self.kappa == 0.0 {
            return 0.0;
        }
        let mut sum = self.sum_before(directions, k);
        sum.iter_mut().zip(candidate).for_each(|(s, u)| *s += u);
        let mut total = 0.0;
        for j in k + 1..last {
            let u = self.row(directions, j);
            let length = dot(&sum, &sum).sqrt();
            if length <= NOWHERE {
                total += self.flat;
            } else {
                let along = dot(&sum, u) / length;
                total -= self.kappa * along;
                f(&sum, length, u, along);
            }
            sum.iter_mut().zip(u).for_each(|(s, u)| *s += u);
        }
        total
    }

    /// Log density of all directions.
    pub(super) fn ln_density(&self, directions: &[f64]) -> f64 {
        let count = directions.len() / self.dim.max(1);
        let mut sum = vec![0.0; self.dim];
        let mut total = -(count as f64) * ln_surface(self.dim);
        for k in 0..count {
            let u = self.row(directions, k);
            let length = dot(&sum, &sum).sqrt();
            if length > NOWHERE {
                total -= self.flat + self.kappa * dot(&sum, u) / length;
            }
            sum.iter_mut().zip(u).for_each(|(s, u)| *s += u);
        }
        total
    }

    /// How many directions point away from a sum, and the sum of their cosines to it: all that kappa is learned from.
    pub(super) fn cosines(&self, directions: &[f64]) -> (f64, f64) {
        let count = directions.len() / self.dim.max(1);
        let mut sum = vec![0.0; self.dim];
        let (mut terms, mut total) = (0.0, 0.0);
        for k in 0..count {
            let u = self.row(directions, k);
            let length = dot(&sum, &sum).sqrt();
            if length > NOWHERE {
                terms += 1.0;
                total += dot(&sum, u) / length;
            }
            sum.iter_mut().zip(u).for_each(|(s, u)| *s += u);
        }
        (terms, total)
    }

    /// By how much the log density changes if places k and k+1 exchange their directions. Later ones see the same sum.
    pub(super) fn swap(&self, directions: &[f64], k: usize) -> f64 {
        if k == 0 || self.kappa == 0.0 {
            return 0.0;
        }
        let sum = self.sum_before(directions, k);
        let (u, v) = (self.row(directions, k), self.row(directions, k + 1));
        let pair = |u: &[f64], v: &[f64]| {
            let term = |sum: &[f64], u: &[f64]| {
                let length = dot(sum, sum).sqrt();
                if length <= NOWHERE { self.flat } else { -self.kappa * dot(sum, u) / length }
            };
            let next: Vec<f64> = sum.iter().zip(u).map(|(s, u)| s + u).collect();
            term(&sum, u) + term(&next, v)
        };
        pair(v, u) - pair(u, v)
    }

    /// A direction for place k after those before it.
    pub(super) fn extend(&self, directions: &[f64], k: usize, rng: &mut Philox) -> Result<Vec<f64>> {
        draw_direction(&self.pull(directions, k), rng)
    }

    /// Draws direction k from what those before it and the rows (`natural`, all of it linear) say, and tests what it means for those after it.
    pub(super) fn step_vmf(&self, directions: &mut [f64], k: usize, natural: &[f64], rng: &mut Philox) -> Result<bool> {
        let last = directions.len() / self.dim;
        let next = draw_direction(natural, rng)?;
        let gain = self.successors(directions, k, &next, last) - self.successors(directions, k, self.row(directions, k), last);
        let accepted = open01(rng).ln() < gain;
        if accepted {
            directions[k * self.dim..][..self.dim].copy_from_slice(&next);
        }
        Ok(accepted)
    }

    /// Moves direction k along a geodesic trajectory; the probability with which its end was accepted.
    pub(super) fn step_hmc(&self, directions: &mut [f64], k: usize, natural: &[f64], step: f64, rng: &mut Philox) -> Result<f64> {
        let (dim, last) = (self.dim, directions.len() / self.dim);
        let mut position = self.row(directions, k).to_vec();
        let mut gradient = vec![0.0; dim];
        let others = directions.to_vec();
        let target = |u: &[f64], gradient: &mut [f64], _: bool| -> Result<f64> {
            gradient.copy_from_slice(natural);
            Ok(dot(natural, u) + self.successors_gradient(&others, k, u, last, gradient))
        };
        let mut value = target(&position, &mut gradient, true)?;
        let manifold = Manifold { spheres: &[(0, 1, dim)], len: dim, paces: &[] };
        let length = step / (1.0 + dot(natural, natural).sqrt()).sqrt();
        let pace = Pace { step: length, max_steps: STEPS, retry: None };
        let done = transition(manifold, &mut position, &mut value, &mut gradient, pace, target, rng)?;
        directions[k * dim..][..dim].copy_from_slice(&position);
        Ok(done.accept_probability)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::infer::finite_difference::check_gradient;
    use crate::run::{Purpose, Stream};

    const U: [f64; 12] = [1.0, 0.0, 0.0, 0.6, 0.8, 0.0, 0.0, 0.6, 0.8, -0.48, 0.6, 0.64];

    /// Values that were published with the model.
    #[test]
    fn the_chain_has_its_published_values() {
        let chain = Chain::new(3, 2.0);
        assert!((chain.ln_density(&U) + 14.160597207934).abs() < 1e-11);
        let mut gradient = vec![0.0; 3];
        let value = chain.successors_gradient(&U, 1, &U[3..6], 4, &mut gradient);
        assert!((value + 1.0508396439).abs() < 1e-9);
        assert_eq!(value, chain.successors(&U, 1, &U[3..6], 4));
        for (found, told) in gradient.iter().zip([0.8503812836, -0.9254197535, -1.3781974254]) {
            assert!((found - told).abs() < 1e-9);
        }
        let mut gradient = vec![0.0; 3];
        chain.successors_gradient(&U, 0, &U[..3], 4, &mut gradient);
        for (found, told) in gradient.iter().zip([0.8503812836, -2.5254197535, -1.3781974254]) {
            assert!((found - told).abs() < 1e-9);
        }
        for (k, told) in [0.0, 0.2093056672, -0.0475728768].into_iter().enumerate() {
            let mut swapped = U;
            (0..3).for_each(|d| swapped.swap(3 * k + d, 3 * (k + 1) + d));
            assert!((chain.swap(&U, k) - told).abs() < 1e-9);
            assert!((chain.swap(&U, k) - (chain.ln_density(&swapped) - chain.ln_density(&U))).abs() < 1e-13);
        }
        let (terms, total) = chain.cosines(&U);
        assert!((chain.ln_density(&U) - (4.0 * -ln_surface(3) - terms * chain.flat - 2.0 * total)).abs() < 1e-13);
        for (dim, kappa, told) in [
            (2, 3.0, -3.4231846882),
            (3, 2.0, -3.1262444390),
            (36, 1.0, 12.192904507),
            (36, 36.0, -1.4592838851),
            (1032, 500.0, 2003.3445307),
            (5000, 1.0, 14194.604014),
        ] {
            assert!((ln_normaliser(dim, kappa) / told - 1.0).abs() < 1e-9, "{dim} {kappa}");
        }
        assert!((ln_normaliser(1, 0.7) + (2.0 * 0.7f64.cosh()).ln()).abs() < 1e-13);
        let at = check_gradient(|u| chain.successors(&U, 1, u, 4), &[0.3, 0.9, -0.2], &{
            let mut g = vec![0.0; 3];
            chain.successors_gradient(&U, 1, &[0.3, 0.9, -0.2], 4, &mut g);
            g
        });
        assert!(at.relative_error < 1e-7, "{at:?}");
    }

    /// In one dimension sums of directions vanish; the chain then starts anew, and exchanges know it.
    #[test]
    fn sums_that_vanish_point_nowhere() {
        let chain = Chain::new(1, 1.3);
        let u = [1.0, -1.0, 1.0, 1.0];
        let p = |x: f64| 1.3 * x - (2.0 * 1.3f64.cosh()).ln();
        let half = 0.5f64.ln();
        assert!((chain.ln_density(&u) - (half + p(1.0) + half + p(-1.0))).abs() < 1e-12);
        for k in 0..3 {
            let mut swapped = u;
            swapped.swap(k, k + 1);
            assert!((chain.swap(&u, k) - (chain.ln_density(&swapped) - chain.ln_density(&u))).abs() < 1e-12);
            for candidate in [1.0, -1.0] {
                let mut there = u;
                there[k] = candidate;
                let change = chain.ln_density(&there) - chain.ln_density(&u);
                let pull = chain.pull(&u, k)[0] * (candidate - u[k]);
                let after = chain.successors(&u, k, &[candidate], 4) - chain.successors(&u, k, &[u[k]], 4);
                assert!((change - pull - after).abs() < 1e-12, "{k} {candidate}");
            }
        }
    }

    /// Both kernels against quadrature, by batch means of 120,000 steps.
    #[test]
    fn kernels_of_a_direction_have_its_moments() {
        let chain = Chain::new(3, 2.0);
        let natural: Vec<f64> = chain.pull(&U, 1).iter().zip([0.5, 2.0, -1.0]).map(|(p, l)| p + l).collect();
        for hmc in [false, true] {
            let mut rng = Stream::new(4, 0, Purpose::Check).rng();
            let mut u = U.to_vec();
            let (batches, each) = (150, 800);
            let mut means = vec![[0.0; 4]; batches];
            for mean in &mut means {
                for _ in 0..each {
                    if hmc {
                        chain.step_hmc(&mut u, 1, &natural, 0.5, &mut rng).unwrap();
                    } else {
                        chain.step_vmf(&mut u, 1, &natural, &mut rng).unwrap();
                    }
                    let row = &u[3..6];
                    assert!((dot(row, row) - 1.0).abs() < 1e-12);
                    [row[0], row[1], row[2], row[0] * row[0]].iter().zip(mean.iter_mut()).for_each(|(v, m)| *m += v / each as f64);
                }
            }
            for (which, told) in [-0.22560, 0.01792, -0.66445, 0.23444].into_iter().enumerate() {
                let n = batches as f64;
                let mean = means.iter().map(|m| m[which]).sum::<f64>() / n;
                let error = (means.iter().map(|m| (m[which] - mean).powi(2)).sum::<f64>() / (n * (n - 1.0))).sqrt();
                assert!((mean - told).abs() < 4.0 * error + 1e-5, "{hmc} {which}: {mean} ± {error} for {told}");
            }
        }
    }
}
