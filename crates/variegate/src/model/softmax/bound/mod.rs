//! Upper bounds Φ of E ln Σ_c exp z_c for Gaussian logits z of one row at one node.
//!
//! A bound is all that keeps a softmax node from being conjugate. Besides Φ each gives its slope s_c = ∂Φ/∂m_c in the means of
//! the logits, which sums to one, and a curvature: the matrix K of the quadratic model in which a Newton step of the weights is
//! taken. Adding a constant to all logits adds it to Φ.

mod double;
mod lanes;
pub(super) mod tilted;

use crate::special::lanes::{LANES, Lane};
use crate::words;
use double::lambda;
use tilted::{Spread, softmax};

words! {
    /// Which bound, as users ask for it.
    pub enum Bound {
        /// Tight for moderate variances; steps must be damped. See `tilted.rs`.
        Tilted = "tilted",
        /// Loose by up to one nat a row; every step is an exact optimum. See `double.rs`.
        Double = "double",
        /// Jaakkola and Jordan's quadratic bound, for nodes of two children; every step is an exact optimum.
        Jj = "jj",
        /// Böhning's fixed curvature: the cheapest sweep, and loose for large variances.
        Bohning = "bohning",
    }
}

/// The bound of a node, with what it knows of the covariance of the logits: k numbers a row, and k numbers of curvature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowBound {
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
    pub(crate) fn needs_damping(self) -> bool {
        matches!(self, RowBound::TiltedChild | RowBound::TiltedJoint)
    }
}

/// Solves one row after the other, or many at once; keeps only buffers.
#[derive(Debug, Default)]
pub(crate) struct Solver {
    tilted: tilted::Solver,
    many_tilted: lanes::Tilted,
    many_double: lanes::Double,
    m: Vec<Lane>,
    v: Vec<Lane>,
}

/// The numbers of one node among those of all nodes, a row of the panel after the other.
#[derive(Debug)]
pub(crate) struct Columns<'a, T> {
    /// All numbers of all rows.
    pub(crate) all: &'a mut [T],
    /// How many a row has.
    pub(crate) stride: usize,
    /// First of this node.
    pub(crate) first: usize,
    /// How many are of this node.
    pub(crate) width: usize,
}

impl<T> Columns<'_, T> {
    /// Those of a row.
    pub(crate) fn row(&mut self, row: usize) -> &mut [T] {
        let at = row * self.stride + self.first;
        &mut self.all[at..at + self.width]
    }
}

/// What a panel is solved from and into.
#[derive(Debug)]
pub(crate) struct PanelColumns<'a> {
    /// Means of the logits.
    pub(crate) m: Columns<'a, f64>,
    /// What is known of their covariance, see [`RowBound`]. May have no numbers where a row has none.
    pub(crate) v: Columns<'a, f64>,
    /// ∂Φ/∂m.
    pub(crate) slope: Columns<'a, f64>,
    /// Curvatures.
    pub(crate) curvature: Columns<'a, f64>,
    /// Φ.
    pub(crate) phi: Columns<'a, f64>,
}

impl Solver {
    /// [`Solver::row`] for some rows of a panel. What a row gets does not depend on which others are asked for.
    pub(crate) fn panel(&mut self, bound: RowBound, rows: &[usize], mut parts: PanelColumns<'_>) {
        if matches!(bound, RowBound::Jj | RowBound::Bohning) {
            for &row in rows {
                let (slope, m) = (parts.slope.row(row), parts.m.row(row));
                parts.phi.row(row)[0] = if parts.v.width == 0 {
                    self.row(bound, m, &[0.0], slope, &mut [0.0])
                } else {
                    self.row(bound, m, parts.v.row(row), slope, parts.curvature.row(row))
                };
            }
            return;
        }
        for rows in rows.chunks(LANES) {
            self.gather(rows, &mut parts);
            match bound {
                RowBound::Double => self.many_double.solve(&self.m, &self.v),
                RowBound::TiltedJoint => self.many_tilted.minimise(&self.m, lanes::Spread::Joint(&self.v), tilted::FITTING),
                _ => self.many_tilted.minimise(&self.m, lanes::Spread::Child(&self.v), tilted::FITTING),
            }
            for (lane, &row) in rows.iter().enumerate() {
                let (slope, curvature) = (parts.slope.row(row), parts.curvature.row(row));
                let phi = &mut parts.phi.row(row)[0];
                if bound == RowBound::Double {
                    *phi = self.many_double.phi[lane];
                    slope.iter_mut().zip(&self.many_double.slope).for_each(|(s, of)| *s = of[lane]);
                    curvature.iter_mut().zip(&self.many_double.curvature).for_each(|(k, of)| *k = of[lane]);
                } else if self.many_tilted.unsolved[lane] > 0.0 {
                    *phi = self.row(bound, parts.m.row(row), parts.v.row(row), slope, curvature);
                } else {
                    *phi = self.many_tilted.phi[lane];
                    slope.iter_mut().zip(&self.many_tilted.minimiser).for_each(|(s, of)| *s = of[lane]);
                    tilted_curvature(bound, slope, curvature);
                }
            }
        }
    }

    /// Means and covariances of up to [`LANES`] rows; lanes without a row repeat the first.
    fn gather(&mut self, rows: &[usize], parts: &mut PanelColumns<'_>) {
        self.m.resize(parts.m.width, [0.0; LANES]);
        self.v.resize(parts.v.width, [0.0; LANES]);
        for lane in 0..LANES {
            let row = *rows.get(lane).unwrap_or(&rows[0]);
            self.m.iter_mut().zip(parts.m.row(row).iter()).for_each(|(to, m)| to[lane] = *m);
            self.v.iter_mut().zip(parts.v.row(row).iter()).for_each(|(to, v)| to[lane] = *v);
        }
    }

    /// Φ at its minimum over the variational parameters of the row, with slope and curvature. `m` are the means of the logits; what
    /// `v` and `curvature` hold is said at [`RowBound`].
    pub(crate) fn row(&mut self, bound: RowBound, m: &[f64], v: &[f64], slope: &mut [f64], curvature: &mut [f64]) -> f64 {
        match bound {
            RowBound::Double => double::row(m, v, slope, curvature),
            RowBound::TiltedChild | RowBound::TiltedJoint => {
                let spread = if bound == RowBound::TiltedJoint { Spread::Joint(v) } else { Spread::Child(v) };
                let phi = self.tilted.minimise(m, spread, tilted::FITTING);
                slope.copy_from_slice(self.tilted.minimiser());
                tilted_curvature(bound, slope, curvature);
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

/// diag p − ppᵀ: its diagonal for independent logits, packed for others.
fn tilted_curvature(bound: RowBound, p: &[f64], curvature: &mut [f64]) {
    if bound == RowBound::TiltedChild {
        curvature.iter_mut().zip(p).for_each(|(k, p)| *k = p * (1.0 - p));
        return;
    }
    let mut at = 0;
    for (i, &pi) in p.iter().enumerate() {
        for &pj in &p[..i] {
            curvature[at] = -pi * pj;
            at += 1;
        }
        curvature[at] = pi * (1.0 - pi);
        at += 1;
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
