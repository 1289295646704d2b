//! Draws of a node and of a Gaussian leaf, given what the rows reported.

use rand_distr::{Distribution, StandardNormal};

use super::super::layout::Logits;
use super::super::leaf::{GaussianLeaf, LeafPrior, LeafStats};
use super::{Gibbs, Point};
use crate::data::design::packed_len;
use crate::dist::Gamma;
use crate::linalg::{Cholesky, NotPositiveDefinite, dot};
use crate::run::{Philox, Tick};
use crate::{Error, Result};

/// mean + L⁻ᵀz / scale in one back substitution, for a precision LLᵀ and its product h with the mean: L⁻ᵀ(L⁻¹h + z/scale).
fn gaussian(factor: &Cholesky, linear: &mut [f64], scale: f64, rng: &mut Philox) {
    factor.solve_lower(linear);
    for v in linear.iter_mut() {
        let z: f64 = StandardNormal.sample(rng);
        *v += z / scale;
    }
    factor.solve_upper(linear);
}

/// Advice where a matrix is not positive definite.
fn broken(what: &'static str, sweep: u64) -> impl Fn(NotPositiveDefinite) -> Error {
    move |e| Error::Numerical { what, sweep, detail: format!("{e}; standardise the columns, or raise the prior precision") }
}

impl Gibbs {
    /// Draws a unit with these prior precisions, from what the rows reported, in the place of `linear`.
    pub(super) fn draw_unit(&self, prior: &[f64], gram: &[f64], linear: &mut [f64], tick: Tick, rng: &mut Philox) -> Result<()> {
        let mut precision = gram.to_vec();
        prior.iter().enumerate().for_each(|(i, a)| precision[packed_len(i) + i] += a);
        let factor = Cholesky::of_packed(prior.len(), &precision).map_err(broken("the Gaussian draw of the weights", tick.sweep))?;
        gaussian(&factor, linear, 1.0, rng);
        Ok(())
    }

    /// Draws η, τ and κ of a Gaussian leaf: the best factors of `leaf.rs` at a given κ are their conditionals.
    pub(super) fn draw_leaf(&self, number: usize, point: &mut Point, stats: LeafStats<'_>, tick: Tick, rng: &mut Philox) -> Result<()> {
        let (outputs, dim) = (self.layout.outputs, self.layout.dim);
        let given = LeafPrior { fixed_slope: Some(point.slope[number]), ..self.leaf };
        let at = (self.layout.units + number * outputs) * dim;
        let eta = &mut point.vectors[at..at + outputs * dim];
        let mut distribution = GaussianLeaf::new(outputs, dim, &given);
        distribution.mean.copy_from_slice(eta);
        let failed = broken("the Gaussian draw of an expert", tick.sweep);
        distribution.update(stats, &given).map_err(&failed)?;
        let factor = distribution.factor().map_err(&failed)?;
        let mut length = 0.0;
        for q in 0..outputs {
            let tau = Gamma::new(distribution.shape, distribution.rates[q])?.sample(rng);
            let eta = &mut eta[q * dim..(q + 1) * dim];
            eta.fill(0.0);
            gaussian(&factor, eta, tau.sqrt(), rng);
            eta.iter_mut().zip(&distribution.mean[q * dim..]).for_each(|(e, m)| *e += m);
            length += tau * dot(eta, eta);
            point.noise[number * outputs + q] = tau;
        }
        if self.leaf.fixed_slope.is_none() {
            let (shape, rate) = self.leaf.slope;
            point.slope[number] = Gamma::new(shape + 0.5 * (outputs * dim) as f64, rate + 0.5 * length)?.sample(rng);
        }
        Ok(())
    }

    /// Draws the vector that is added to all children of each node of full coding.
    pub(super) fn draw_shifts(&self, point: &mut Point, rng: &mut Philox) {
        let dim = self.layout.dim;
        let mut alpha = &point.alpha[..];
        for node in &self.layout.nodes {
            let (own, rest) = alpha.split_at(node.prior.groups());
            alpha = rest;
            if node.logits != Logits::Full {
                continue;
            }
            let precision = node.prior.spread(own);
            let weights = &mut point.vectors[node.at_weights(dim)];
            for j in 0..dim {
                let (mut total, mut linear) = (0.0, 0.0);
                for at in (j..weights.len()).step_by(dim) {
                    total += precision[at];
                    linear += precision[at] * weights[at];
                }
                let z: f64 = StandardNormal.sample(rng);
                let shift = z / total.sqrt() - linear / total;
                weights.iter_mut().skip(j).step_by(dim).for_each(|w| *w += shift);
            }
        }
    }

    /// Draws α of each group.
    pub(super) fn draw_precisions(&self, point: &mut Point, rng: &mut Philox) -> Result<()> {
        let mut next = Vec::with_capacity(point.alpha.len());
        for node in &self.layout.nodes {
            let mut failed = None;
            next.extend(node.prior.conditional(&point.vectors[node.at_weights(self.layout.dim)], |shape, rate| {
                match Gamma::new(shape, rate) {
                    Ok(distribution) => distribution.sample(rng),
                    Err(error) => {
                        failed = Some(error);
                        f64::NAN
                    }
                }
            }));
            if let Some(error) = failed {
                return Err(error.into());
            }
        }
        point.alpha = next;
        Ok(())
    }
}
