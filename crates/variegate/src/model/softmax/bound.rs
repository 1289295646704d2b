//! Upper bounds Φ of E ln Σ_c exp z_c for Gaussian logits z of one row at one node.
//!
//! A bound is all that keeps a softmax node from being conjugate. Besides Φ each gives its slope s_c = ∂Φ/∂m_c in the means of
//! the logits, which sums to one, and a curvature: the matrix K of the quadratic model in which a Newton step of the weights is
//! taken (K_c for `child`, the packed lower triangle of K for `joint`). Adding a constant to all logits adds it to Φ.

use serde::{Deserialize, Serialize};

use super::double;
use super::node::Covariance;
use super::tilted::{self, Spread};

/// Which bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// Tight for moderate variances; steps must be damped. See `tilted.rs`.
    Tilted,
    /// Loose by up to one nat a row; every step is an exact optimum. See `double.rs`.
    Double,
}

impl Bound {
    /// The word users write.
    pub fn word(self) -> &'static str {
        match self {
            Bound::Tilted => "tilted",
            Bound::Double => "double",
        }
    }

    /// Whether a full step may lower the objective, so that it must be tried first.
    pub fn needs_damping(self) -> bool {
        self == Bound::Tilted
    }
}

/// Solves one row after the other; keeps only buffers.
#[derive(Debug, Default)]
pub struct Solver {
    tilted: tilted::Solver,
}

impl Solver {
    /// Φ at its minimum over the variational parameters of the row, with slope and curvature.
    ///
    /// `m` are the means of the logits; `v` their variances (`Child`) or packed covariance (`Joint`), as `curvature` is. The double
    /// bound sees variances alone and its curvature is diagonal: it is always asked with `Child`.
    pub fn row(&mut self, bound: Bound, covariance: Covariance, m: &[f64], v: &[f64], slope: &mut [f64], curvature: &mut [f64]) -> f64 {
        match (bound, covariance) {
            (Bound::Double, _) => double::row(m, v, slope, curvature),
            (Bound::Tilted, Covariance::Child) => {
                let phi = self.tilted.minimise(m, Spread::Child(v), tilted::FITTING);
                for ((s, k), &p) in slope.iter_mut().zip(curvature).zip(self.tilted.minimiser()) {
                    (*s, *k) = (p, p * (1.0 - p));
                }
                phi
            }
            (Bound::Tilted, Covariance::Joint) => {
                let phi = self.tilted.minimise(m, Spread::Joint(v), tilted::FITTING);
                let p = self.tilted.minimiser();
                slope.copy_from_slice(p);
                let mut at = 0;
                for (i, &pi) in p.iter().enumerate() {
                    for &pj in &p[..i] {
                        curvature[at] = -pi * pj;
                        at += 1;
                    }
                    curvature[at] = pi * (1.0 - pi);
                    at += 1;
                }
                phi
            }
        }
    }
}
