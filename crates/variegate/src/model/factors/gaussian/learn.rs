//! Atoms and precisions given what the rows reported.

use rand::Rng;
use rand_distr::Distribution;
use std::f64::consts::TAU;

use super::{Gaussian, Scales, Sums, broken, normals};
use crate::dist::{Gamma, GeneralizedInverseGaussian};
use crate::linalg::{Cholesky, dot, mul, t_mul};
use crate::{Error, Result};

/// A precision is no less than this: one over it must be finite.
const SMALLEST: f64 = 1e-300;

impl Gaussian {
    /// Noise, atoms, their scales, then the other precisions. The order matters: residuals belong to the atoms that the rows saw, and
    /// the squares of weights that precisions are drawn from are those after atoms were rescaled.
    pub(super) fn learn_all<R: Rng + ?Sized>(
        &self,
        phi: &mut [f64],
        scales: &mut Scales,
        sums: &Sums,
        uses: &[u64],
        rows: &[u64],
        rng: &mut R,
    ) -> Result<Vec<f64>> {
        let columns = self.centre.columns;
        let (sources, atoms) = (scales.noise.len(), phi.len() / columns.max(1));
        if self.hyper.fixed.is_none() {
            for (j, noise) in scales.noise.iter_mut().enumerate() {
                let squares = sums.squares.0.get(j).copied().unwrap_or(0.0);
                *noise = self.precision((columns as u64 * rows[j]) as f64, squares, rng)?;
            }
        }
        draw_atoms(phi, columns, scales, sums, rng)?;

        let weight_squares = |j: usize, k: usize| sums.weight_squares.0.get(j * atoms + k).copied().unwrap_or(0.0);
        let mut factors = vec![1.0; atoms];
        for (k, (atom, factor)) in phi.chunks_exact_mut(columns.max(1)).zip(&mut factors).enumerate() {
            let used: u64 = (0..sources).map(|j| uses[j * atoms + k]).sum();
            let pull: f64 = (0..sources).map(|j| scales.weight[j] * weight_squares(j, k)).sum();
            *factor = draw_scale(0.5 * (columns as f64 - used as f64), scales.atom * dot(atom, atom), pull, rng)?;
            for p in atom {
                *p *= *factor;
            }
        }

        if self.hyper.fixed.is_none() {
            scales.atom = self.precision(phi.len() as f64, dot(phi, phi), rng)?;
            for (j, weight) in scales.weight.iter_mut().enumerate() {
                let used: u64 = uses[j * atoms..][..atoms].iter().sum();
                let squares = (0..atoms).map(|k| weight_squares(j, k) / (factors[k] * factors[k])).sum();
                *weight = self.precision(used as f64, squares, rng)?;
            }
            // the scale of all atoms at once, with the precisions, which one step at a time would hardly move: the distributions of atoms and
            // weights given their precisions do not change along it, so that only the priors of the precisions have a say
            let (shape, rate) = (self.hyper.shape, self.hyper.rate);
            let pull = scales.weight.iter().sum::<f64>();
            let all = draw_scale(shape * (sources as f64 - 1.0), 2.0 * rate * pull, 2.0 * rate * scales.atom, rng)?;
            scales.atom = (scales.atom / (all * all)).max(SMALLEST);
            scales.weight.iter_mut().for_each(|weight| *weight = (*weight * all * all).max(SMALLEST));
            phi.iter_mut().for_each(|p| *p *= all);
            factors.iter_mut().for_each(|factor| *factor *= all);
        }
        Ok(factors)
    }

    /// The precision of `count` normal values of mean 0 with this sum of squares.
    fn precision<R: Rng + ?Sized>(&self, count: f64, squares: f64, rng: &mut R) -> Result<f64> {
        Ok(Gamma::new(self.hyper.shape + 0.5 * count, self.hyper.rate + 0.5 * squares)?.sample(rng).max(SMALLEST))
    }

    /// Log density of atoms, of weights, and of precisions unless these are given.
    pub(super) fn ln_prior_of(&self, phi: &[f64], scales: &Scales, sums: &Sums, uses: &[u64]) -> f64 {
        let atoms = phi.len() / self.centre.columns.max(1);
        let normal = |count: f64, squares: f64, precision: f64| 0.5 * (count * (precision / TAU).ln() - precision * squares);
        let mut density = normal(phi.len() as f64, dot(phi, phi), scales.atom);
        for (j, &weight) in scales.weight.iter().enumerate() {
            let used: u64 = uses[j * atoms..][..atoms].iter().sum();
            let squares = sums.weight_squares.0.get(j * atoms..(j + 1) * atoms).map_or(0.0, |s| s.iter().sum());
            density += normal(used as f64, squares, weight);
        }
        if self.hyper.fixed.is_none()
            && let Ok(prior) = Gamma::new(self.hyper.shape, self.hyper.rate)
        {
            density += [scales.atom].iter().chain(&scales.weight).chain(&scales.noise).map(|&t| prior.ln_pdf(t)).sum::<f64>();
        }
        density
    }
}

/// Φ ~ N(P⁻¹B, P⁻¹) column by column, P = t_φI + Σ t_n HᵀH and B = Σ t_n HᵀX.
fn draw_atoms<R: Rng + ?Sized>(phi: &mut [f64], columns: usize, scales: &Scales, sums: &Sums, rng: &mut R) -> Result<()> {
    let atoms = phi.len() / columns.max(1);
    if atoms == 0 {
        return Ok(());
    }
    let add = |out: &mut [f64], parts: &[f64]| {
        for (part, noise) in parts.chunks_exact(out.len()).zip(&scales.noise) {
            for (o, p) in out.iter_mut().zip(part) {
                *o += noise * p;
            }
        }
    };
    let mut precision = vec![0.0; atoms * atoms];
    add(&mut precision, &sums.gram.0);
    for k in 0..atoms {
        precision[k * atoms + k] += scales.atom;
    }
    let mut linear = vec![0.0; atoms * columns];
    add(&mut linear, &sums.cross.0);
    let (factor, _) = Cholesky::with_jitter(atoms, &precision).map_err(|e| Error::Numerical {
        what: "the draw of the atoms",
        sweep: 0,
        detail: format!("{e}; look for columns of very different scale, or for outliers"),
    })?;
    // L⁻ᵀ(L⁻¹B + E)
    let inverse = factor.inverse_lower();
    let mut whitened = vec![0.0; atoms * columns];
    normals(&mut whitened, 1.0, rng);
    mul(&inverse, &linear, &mut whitened, atoms, atoms, columns, true);
    t_mul(&inverse, &whitened, phi, atoms, atoms, columns, false);
    if phi.iter().all(|p| p.is_finite()) { Ok(()) } else { Err(broken("the draw of the atoms")) }
}

/// The factor c of an atom, where c² has density ∝ u^(p−1) exp(−(a u + b/u)/2).
fn draw_scale<R: Rng + ?Sized>(p: f64, a: f64, b: f64, rng: &mut R) -> Result<f64> {
    if !(a > 0.0 && b > 0.0 && a.is_finite() && b.is_finite()) {
        return Ok(1.0);
    }
    let square: f64 = GeneralizedInverseGaussian::new(p, a, b)?.sample(rng);
    if square > 0.0 && square.is_finite() { Ok(square.sqrt()) } else { Err(broken("the draw of the scale of an atom")) }
}
