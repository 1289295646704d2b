//! q of all weight vectors of one side, experts or gates, and what their common prior says of it.
//!
//! Directions follow a chain: a₁ ~ vMF(μ₀, κ) or uniform, a_i with density ∝ exp(−κ s·a), s = a₁ + … + a_{i−1}. Its normaliser is
//! S exp L(κ|s|), and L(κ√t) is concave in t, so that with m_j = E a_j, M_i = m₁ + … + m_i and τ_i = E|s|² = |M_{i−1}|² + Σ_{j<i}(1 − A_j²)
//!
//! E ln p(a) ≥ Σ_i [−ln S − L(κ√τ_i)] − κ Σ_i M_{i−1}·m_i + κ μ₀·m₁    (without μ₀ the first term is −ln S).
//!
//! Every τ is linear in each m_k, and the tangent of L in τ (slope ω_i = κ²ρ(κ√τ_i)/2P) makes the bound linear in m_k too: its
//! coefficient, [k=1]κμ₀ − κΣ_{j≠k}m_j − Σ_{i>k}2ω_i(M_{i−1} − m_k), is what the other directions pull with. κ = 0 leaves all independent.

use serde::{Deserialize, Serialize};

use super::factor::{Factor, Moments};
use crate::dist::{Concentration, ln_surface};
use crate::linalg::dot;
use crate::special::{digamma, ln_gamma, trigamma};

/// Largest shape that maximum likelihood may choose for the lengths: beyond it they are all but equal.
const MOST_SHAPE: f64 = 1e4;
/// Largest concentration that it may choose.
const MOST_KAPPA: f64 = 1e6;

/// One side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Side {
    /// Dimension P of a direction.
    pub dim: usize,
    /// κ of the chain; 0 for independent uniform directions.
    pub kappa: f64,
    /// μ₀, towards which the first direction is drawn.
    pub first: Option<Vec<f64>>,
    /// Shape of the Gamma prior of lengths.
    pub shape: f64,
    /// Its rate.
    pub rate: f64,
    /// q, one a component.
    pub factors: Vec<Factor>,
}

impl Side {
    /// E a of each component, one a row.
    pub(crate) fn means(&self) -> Vec<f64> {
        self.factors
            .iter()
            .flat_map(|f| {
                let a = Concentration::at(self.dim, f.kappa).mean;
                f.direction.iter().map(move |v| a * v)
            })
            .collect()
    }

    /// Directions of all components, one a row.
    pub(crate) fn directions(&self) -> Vec<f64> {
        self.factors.iter().flat_map(|f| &f.direction).copied().collect()
    }

    /// τ_i and M_{i−1}·m_i of the components after the first.
    fn links(&self, means: &[f64]) -> Vec<(f64, f64)> {
        let mut sum = vec![0.0; self.dim];
        let mut spread = 0.0;
        let mut links = Vec::with_capacity(self.factors.len());
        for (i, (m, f)) in means.chunks_exact(self.dim).zip(&self.factors).enumerate() {
            if i > 0 {
                links.push((dot(&sum, &sum) + spread, dot(&sum, m)));
            }
            sum.iter_mut().zip(m).for_each(|(s, m)| *s += m);
            let gap = Concentration::at(self.dim, f.kappa).gap;
            spread += gap * (2.0 - gap);
        }
        links
    }

    /// The lower bound of E ln p(directions).
    pub(crate) fn chain(&self, means: &[f64]) -> f64 {
        let mut value = -(self.factors.len() as f64) * ln_surface(self.dim);
        if self.kappa > 0.0 {
            if let Some(first) = self.first.as_ref().filter(|_| !self.factors.is_empty()) {
                value += self.kappa * dot(first, &means[..self.dim]) - Concentration::at(self.dim, self.kappa).ln_ratio;
            }
            for (tau, along) in self.links(means) {
                value -= Concentration::at(self.dim, self.kappa * tau.sqrt()).ln_ratio + self.kappa * along;
            }
        }
        value
    }

    /// Coefficient of m_k in the tangent of the bound.
    pub(crate) fn pull(&self, means: &[f64], k: usize) -> Vec<f64> {
        let p = self.dim;
        let mut out = vec![0.0; p];
        if self.kappa == 0.0 {
            return out;
        }
        let own = &means[k * p..(k + 1) * p];
        for (j, m) in means.chunks_exact(p).enumerate() {
            if j != k {
                out.iter_mut().zip(m).for_each(|(o, m)| *o -= self.kappa * m);
            }
        }
        if let (0, Some(first)) = (k, &self.first) {
            out.iter_mut().zip(first).for_each(|(o, f)| *o += self.kappa * f);
        }
        let links = self.links(means);
        let mut sum = vec![0.0; p];
        for (i, m) in means.chunks_exact(p).enumerate() {
            if i > k {
                let slope = self.kappa * self.kappa / (2.0 * p as f64) * Concentration::at(p, self.kappa * links[i - 1].0.sqrt()).rho;
                out.iter_mut().zip(&sum).zip(own).for_each(|((o, s), m)| *o -= 2.0 * slope * (s - m));
            }
            sum.iter_mut().zip(m).for_each(|(s, m)| *s += m);
        }
        out
    }

    /// All of the objective that does not come from rows: E ln p − E ln q of directions, lengths and intercepts.
    pub(crate) fn terms(&self, intercept_sd: f64) -> f64 {
        let precision = 1.0 / (intercept_sd * intercept_sd);
        let (a1, a2) = (self.shape, self.rate);
        let mut value = self.chain(&self.means());
        for f in &self.factors {
            let moments: Moments = f.moments();
            value += a1 * a2.ln() - ln_gamma(a1) + (a1 - 1.0) * f.ln_size() - a2 * moments.size + f.entropy(&moments);
            for m in &f.intercepts {
                value += 0.5 * (precision / (2.0 * std::f64::consts::PI)).ln() - 0.5 * precision * (m * m + f.variance);
            }
        }
        value
    }

    /// Prior of lengths, κ (where it is not 0) and μ₀ (where there is one) that maximise the objective given q.
    pub(crate) fn learn(&mut self) {
        if self.factors.is_empty() {
            return;
        }
        let count = self.factors.len() as f64;
        let mean = self.factors.iter().map(|f| f.shape / f.rate).sum::<f64>() / count;
        let mean_ln = self.factors.iter().map(Factor::ln_size).sum::<f64>() / count;
        self.shape = gamma_shape(mean.ln() - mean_ln);
        self.rate = self.shape / mean;
        if self.kappa > 0.0 {
            let means = self.means();
            if let Some(first) = &mut self.first {
                let length = dot(&means[..self.dim], &means[..self.dim]).sqrt();
                if length > 0.0 {
                    first.iter_mut().zip(&means).for_each(|(f, m)| *f = m / length);
                }
            }
            self.kappa = self.best_kappa(&means);
        }
    }

    /// κ that maximises the bound, which is concave in it.
    fn best_kappa(&self, means: &[f64]) -> f64 {
        let links = self.links(means);
        if links.is_empty() && self.first.is_none() {
            return self.kappa;
        }
        let mean = |kappa: f64| Concentration::at(self.dim, kappa).mean;
        let slope = |kappa: f64| {
            let first = self.first.as_ref().map_or(0.0, |f| dot(f, &means[..self.dim]) - mean(kappa));
            first - links.iter().map(|(tau, along)| along + tau.sqrt() * mean(kappa * tau.sqrt())).sum::<f64>()
        };
        // zero would end the chain for good: the least is a chain that is as good as none
        let (mut low, mut high) = (1e-6, MOST_KAPPA);
        if slope(low) <= 0.0 {
            return low;
        }
        if slope(high) >= 0.0 {
            return high;
        }
        while high - low > 1e-13 * high {
            let middle = (low * high).sqrt();
            if !(middle > low && middle < high) {
                break;
            }
            if slope(middle) > 0.0 {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }
}

/// The shape a of a Gamma distribution with ln a − ψ(a) = ln E g − E ln g.
fn gamma_shape(difference: f64) -> f64 {
    let d = difference.max(0.0);
    if d < 0.5 / MOST_SHAPE {
        return MOST_SHAPE;
    }
    let mut a = (3.0 - d + ((d - 3.0) * (d - 3.0) + 24.0 * d).sqrt()) / (12.0 * d);
    for _ in 0..50 {
        // Newton's step for 1/a
        let inverse = 1.0 / a + (a.ln() - digamma(a) - d) / (a * a * (1.0 / a - trigamma(a)));
        let next = if inverse > 0.0 { 1.0 / inverse } else { 2.0 * a };
        if (next - a).abs() <= 1e-14 * a {
            break;
        }
        a = next;
    }
    a.min(MOST_SHAPE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(rows: &[&[f64]], kappas: &[f64], kappa: f64, first: Option<Vec<f64>>) -> Side {
        let factors = rows
            .iter()
            .zip(kappas)
            .map(|(d, &kappa)| Factor { direction: d.to_vec(), kappa, shape: 2.0, rate: 1.0, intercepts: vec![], variance: 1.0 })
            .collect();
        Side { dim: rows[0].len(), kappa, first, shape: 2.0, rate: 0.5, factors }
    }

    /// Values computed apart from this code.
    #[test]
    fn chain_and_pulls_as_computed_elsewhere() {
        let rows: [&[f64]; 3] = [&[1.0, 0.0, 0.0], &[-0.6, 0.8, 0.0], &[0.0, -0.6, 0.8]];
        let side = side(&rows, &[5.0, 10.0, 20.0], 2.0, Some(vec![0.0, 0.0, 1.0]));
        let means = side.means();
        let links = side.links(&means);
        assert!((links[0].0 - 1.0).abs() < 1e-9 && (links[1].0 - 1.135901928).abs() < 1e-9);
        assert!((side.chain(&means) + 7.766003245).abs() < 1e-9, "{}", side.chain(&means));
        let expected = [[1.646881244, -1.055841659, 0.48], [-2.440100987, 1.14, -1.52], [-0.520181603, -1.440000007, 0.0]];
        for (k, expected) in expected.iter().enumerate() {
            let pull = side.pull(&means, k);
            assert!(pull.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-8), "{k}: {pull:?}");
        }
    }

    /// The pull is the derivative of the bound in the mean of one direction, other means held.
    #[test]
    fn pulls_are_derivatives_along_means() {
        let rows: [&[f64]; 4] = [&[1.0, 0.0], &[-0.6, 0.8], &[0.0, -1.0], &[0.8, 0.6]];
        for first in [None, Some(vec![0.6, 0.8])] {
            let base = side(&rows, &[1.0, 3.0, 8.0, 0.4], 2.5, first);
            for k in 0..4 {
                let pull = base.pull(&base.means(), k);
                // move κ̂_k: m_k moves along the direction
                let at = |kappa: f64| {
                    let mut s = base.clone();
                    s.factors[k].kappa = kappa;
                    s.chain(&s.means())
                };
                let (kappa, h) = (base.factors[k].kappa, 1e-4);
                let along = (at(kappa + h) - at(kappa - h)) / (2.0 * h * Concentration::at(2, kappa).slope);
                assert!((along - dot(&pull, rows[k])).abs() < 1e-6);
                // turn it: m_k moves across
                let turned = |t: f64| {
                    let mut s = base.clone();
                    let d = rows[k];
                    s.factors[k].direction = vec![d[0] * t.cos() - d[1] * t.sin(), d[0] * t.sin() + d[1] * t.cos()];
                    s.chain(&s.means())
                };
                let across = (turned(h) - turned(-h)) / (2.0 * h * Concentration::at(2, kappa).mean);
                assert!((across - (pull[1] * rows[k][0] - pull[0] * rows[k][1])).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn gamma_shape_as_computed_elsewhere() {
        // mean 3, mean of logarithms 0.9
        let shape = gamma_shape(3.0_f64.ln() - 0.9);
        assert!((shape - 2.672402309).abs() < 1e-9 && (shape / 3.0 - 0.890800770).abs() < 1e-9);
        assert_eq!(gamma_shape(0.0), MOST_SHAPE);
        assert!((gamma_shape(1e3) - 1e-3).abs() < 1e-4);
    }

    /// What is learned is better than its neighbours.
    #[test]
    fn learned_hyperparameters_are_maxima() {
        let rows: [&[f64]; 3] = [&[1.0, 0.0, 0.0], &[-0.6, 0.8, 0.0], &[0.0, -0.6, 0.8]];
        for first in [None, Some(vec![0.0, 0.0, 1.0])] {
            let mut side = side(&rows, &[50.0, 40.0, 20.0], 0.3, first);
            side.factors[1].rate = 3.0;
            let before = side.terms(1.0);
            side.learn();
            let best = side.terms(1.0);
            assert!(best > before && side.kappa > 0.1 && side.kappa < 100.0, "{}", side.kappa);
            for (dk, da, db) in
                [(1e-3, 0.0, 0.0), (-1e-3, 0.0, 0.0), (0.0, 1e-3, 0.0), (0.0, -1e-3, 0.0), (0.0, 0.0, 1e-3), (0.0, 0.0, -1e-3)]
            {
                let mut other = side.clone();
                other.kappa += dk;
                other.shape += da;
                other.rate += db;
                assert!(other.terms(1.0) < best);
            }
        }
    }
}
