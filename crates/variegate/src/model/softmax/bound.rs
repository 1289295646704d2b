//! Upper bounds Φ of E ln Σ_c exp z_c for Gaussian logits z of one row at one node.
//!
//! A bound is all that keeps a softmax node from being conjugate. Besides Φ each gives its slope s_c = ∂Φ/∂m_c in the means of
//! the logits, which sums to one, and a curvature: the matrix K of the quadratic model in which a Newton step of the weights is
//! taken. Adding a constant to all logits adds it to Φ.

use serde::{Deserialize, Serialize};

use super::double::{self, lambda};
use super::tilted::{self, Spread, softmax};

/// Which bound, as users ask for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// Tight for moderate variances; steps must be damped. See `tilted.rs`.
    Tilted,
    /// Loose by up to one nat a row; every step is an exact optimum. See `double.rs`.
    Double,
    /// Jaakkola and Jordan's quadratic bound, for nodes of two children; every step is an exact optimum.
    Jj,
    /// Böhning's fixed curvature: the cheapest sweep, and loose for large variances.
    Bohning,
}

impl Bound {
    /// The word users write.
    pub fn word(self) -> &'static str {
        match self {
            Bound::Tilted => "tilted",
            Bound::Double => "double",
            Bound::Jj => "jj",
            Bound::Bohning => "bohning",
        }
    }
}

/// The bound of a node, with what it knows of the covariance of the logits: k numbers a row, and k numbers of curvature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowBound {
    /// Variances of independent logits; curvatures p(1−p).
    TiltedChild,
    /// Packed covariance of the logits; packed curvature diag p − ppᵀ.
    TiltedJoint,
    /// Variances of independent logits; curvatures 2λ.
    Double,
    /// Variance of the difference of two logits; curvature 2λ of that difference.
    Jj,
    /// Variance of each contrast, the same for all; curvature ½ of each, which needs no reporting but the reach of the node.
    Bohning,
}

impl RowBound {
    /// Whether a full step may lower the objective, so that it must be tried first.
    pub fn needs_damping(self) -> bool {
        matches!(self, RowBound::TiltedChild | RowBound::TiltedJoint)
    }
}

/// Solves one row after the other; keeps only buffers.
#[derive(Debug, Default)]
pub struct Solver {
    tilted: tilted::Solver,
}

impl Solver {
    /// Φ at its minimum over the variational parameters of the row, with slope and curvature. `m` are the means of the logits; what
    /// `v` and `curvature` hold is said at [`RowBound`].
    pub fn row(&mut self, bound: RowBound, m: &[f64], v: &[f64], slope: &mut [f64], curvature: &mut [f64]) -> f64 {
        match bound {
            RowBound::Double => double::row(m, v, slope, curvature),
            RowBound::TiltedChild => {
                let phi = self.tilted.minimise(m, Spread::Child(v), tilted::FITTING);
                for ((s, k), &p) in slope.iter_mut().zip(curvature).zip(self.tilted.minimiser()) {
                    (*s, *k) = (p, p * (1.0 - p));
                }
                phi
            }
            RowBound::TiltedJoint => {
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
            RowBound::Jj => {
                let difference = m[0] - m[1];
                let xi = (difference * difference + v[0]).sqrt();
                curvature[0] = 2.0 * lambda(xi).0;
                slope[0] = 0.5 + curvature[0] * difference;
                slope[1] = 1.0 - slope[0];
                0.5 * (m[0] + m[1] + xi) + (-xi).exp().ln_1p()
            }
            RowBound::Bohning => {
                slope.copy_from_slice(m);
                let phi = softmax(slope);
                curvature[0] = 0.5;
                phi + 0.25 * (m.len() - 1) as f64 * v[0]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jj_has_its_reference_value_and_slope() {
        let mut solver = Solver::default();
        let (mut slope, mut curvature) = ([0.0; 2], [0.0]);
        let mut phi = |a: f64, b: f64| {
            let phi = solver.row(RowBound::Jj, &[a, b], &[1.7], &mut slope, &mut curvature);
            (phi, slope)
        };
        let (value, slope) = phi(0.7, -0.4);
        assert!((value - 1.1698173310).abs() < 1e-10);
        let numeric = (phi(0.7 + 1e-6, -0.4).0 - phi(0.7 - 1e-6, -0.4).0) / 2e-6;
        assert!((numeric - slope[0]).abs() < 1e-8);
        // logits as far apart as numbers go
        assert!((phi(800.0, -800.0).0 - 800.0).abs() < 1.0);
    }

    #[test]
    fn bohning_adds_its_fixed_curvature() {
        let mut solver = Solver::default();
        let (mut slope, mut curvature) = ([0.0; 3], [0.0]);
        let m = [0.3, -1.2, 2.0];
        // contrasts of equal variance v: lse(m) + ¼(S−1)v
        let phi = solver.row(RowBound::Bohning, &m, &[0.8], &mut slope, &mut curvature);
        assert!((phi - crate::special::log_sum_exp(&m) - 0.25 * 2.0 * 0.8).abs() < 1e-12);
        assert!((slope.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert_eq!(curvature, [0.5]);
    }
}
