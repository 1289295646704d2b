//! Extrapolation of an ascent from its last steps (Anderson): the combination of them whose residuals nearly cancel.
//!
//! A sweep is a map x → G(x) with residual f = G(x) − x. With differences ΔF, ΔG of the last residuals and images, the next point is
//! G(x) − ΔG γ, γ = argmin |f − ΔF γ|² + ε|γ|². It is a proposal only: the ascent goes on from it if the objective has risen, else from G(x).

use serde::{Deserialize, Serialize};

use crate::linalg::{Cholesky, dot};

/// Numbers that may be remembered in all.
const MOST_NUMBERS: usize = 4_000_000;
/// Steps that are remembered at most.
const MOST_STEPS: usize = 8;
/// Ridge ε, relative to the largest squared difference.
const RIDGE: f64 = 1e-10;

/// The last steps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    images: Vec<Vec<f64>>,
    residuals: Vec<Vec<f64>>,
}

impl Memory {
    /// Forgets all.
    pub fn clear(&mut self) {
        self.images.clear();
        self.residuals.clear();
    }

    /// Takes in a step from x to its image, and proposes where to go from there; none at first.
    pub fn propose(&mut self, x: &[f64], image: Vec<f64>) -> Option<Vec<f64>> {
        let most = (MOST_NUMBERS / (2 * x.len().max(1))).min(MOST_STEPS);
        if most < 2 {
            return None;
        }
        let residual: Vec<f64> = image.iter().zip(x).map(|(g, x)| g - x).collect();
        self.images.push(image);
        self.residuals.push(residual);
        if self.images.len() > most + 1 {
            self.images.remove(0);
            self.residuals.remove(0);
        }
        let m = self.images.len() - 1;
        let (image, residual) = (self.images.last()?, self.residuals.last()?);
        if m == 0 {
            return None;
        }
        let differences: Vec<Vec<f64>> = self.residuals.windows(2).map(|w| w[1].iter().zip(&w[0]).map(|(b, a)| b - a).collect()).collect();
        let mut gram = vec![0.0; m * m];
        for i in 0..m {
            for j in 0..=i {
                gram[i * m + j] = dot(&differences[i], &differences[j]);
            }
        }
        let ridge = RIDGE * (0..m).map(|i| gram[i * m + i]).fold(0.0, f64::max);
        (0..m).for_each(|i| gram[i * m + i] += ridge);
        let (factor, _) = Cholesky::with_jitter(m, &gram).ok()?;
        let mut gamma: Vec<f64> = differences.iter().map(|d| dot(d, residual)).collect();
        factor.solve_lower(&mut gamma);
        factor.solve_upper(&mut gamma);
        let mut next = image.clone();
        for (w, gamma) in self.images.windows(2).zip(&gamma) {
            next.iter_mut().zip(&w[1]).zip(&w[0]).for_each(|((n, b), a)| *n -= gamma * (b - a));
        }
        next.iter().all(|v| v.is_finite()).then_some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slow linear map is solved in as many steps as it has eigenvalues.
    #[test]
    fn linear_maps_are_solved() {
        let rates = [0.99, 0.9, 0.5, -0.3];
        let mut memory = Memory::default();
        let mut x = vec![1.0, -2.0, 3.0, 0.5];
        for _ in 0..7 {
            let image: Vec<f64> = x.iter().zip(&rates).map(|(x, r)| r * x).collect();
            x = memory.propose(&x, image.clone()).unwrap_or(image);
        }
        assert!(x.iter().all(|v| v.abs() < 1e-4), "{x:?}");
    }
}
