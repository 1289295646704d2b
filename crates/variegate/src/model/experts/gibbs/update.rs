//! One weight vector w = (r a, b) given the rows: density ∝ exp(hᵀw − ½wᵀQw) times its prior.
//!
//! A Gaussian prior makes w Gaussian: it is drawn. Otherwise two steps follow one another. An elliptical slice has the base
//! N(Π⁻¹h, Π⁻¹) with Π = Q + diag(e, …, e, 1/τ₀²), where e = pα₂²/(α₁(α₁+1)) is the precision with the mean square length of the Gamma prior,
//! and what the prior has beyond it as its weight,
//!
//! ```text
//! ln p(…, a = w/r, …) + (α₁ − p) ln r − α₂r + ½er²,
//! ```
//!
//! the p with α₁ being the Jacobian of w. It turns the direction, and its sign in one dimension. A slice step then moves u = ln r alone, with
//! log density α₁u + (hᵀa − α₂ − b aᵀQ_b)eᵘ − ½aᵀQa e²ᵘ.

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

use super::super::point_prior::{Side, Size};
use crate::infer::elliptical_slice;
use crate::infer::slice::SliceSampler;
use crate::linalg::{Cholesky, dot};
use crate::prior::Coupled;
use crate::{Error, Result};

/// Below this a vector is too short to be computed with; only its length moves, on the scale of logarithms.
const LEAST_LENGTH: f64 = 1e-150;

/// What the rows say of one weight vector: Q (lower triangle, D×D) and h, the intercept last.
pub(super) struct Quadratic {
    q: Vec<f64>,
    h: Vec<f64>,
    dim: usize,
    inputs: usize,
}

/// Where a weight vector is, apart from its direction, which the directions of its side hold.
pub(super) struct Vector {
    /// ln r.
    pub(super) size: f64,
    /// Intercept; 0 without one.
    pub(super) intercept: f64,
}

/// The prior of the vectors of one side.
pub(super) struct Prior<'a> {
    pub(super) side: &'a Side,
    pub(super) intercept_sd: f64,
}

/// A Gamma prior, and the base distribution of the elliptical slice.
pub(super) struct Base {
    shape: f64,
    rate: f64,
    /// Precision of weights in the base distribution.
    e: f64,
    factor: Cholesky,
    mean: Vec<f64>,
}

impl Quadratic {
    /// From the lower triangle of Q and from h, of `inputs` entries and (or not) an intercept.
    pub(super) fn new(q: Vec<f64>, h: Vec<f64>, inputs: usize) -> Self {
        Self { q, dim: h.len(), h, inputs }
    }

    /// Q v, from the lower triangle.
    fn times(&self, v: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; self.dim];
        for (i, row) in self.q.chunks_exact(self.dim).enumerate() {
            let mut sum = row[i] * v[i];
            for j in 0..i {
                sum += row[j] * v[j];
                out[j] += row[j] * v[i];
            }
            out[i] += sum;
        }
        out
    }

    /// Factor of Π, with the prior precision e of weights and the standard deviation of the intercept.
    fn precision(&self, e: f64, intercept_sd: f64) -> Result<Cholesky> {
        let mut precision = self.q.clone();
        for j in 0..self.dim {
            precision[j * self.dim + j] += if j < self.inputs { e } else { 1.0 / (intercept_sd * intercept_sd) };
        }
        let (factor, _) = Cholesky::with_jitter(self.dim, &precision).map_err(|error| {
            Error::Unfit(format!("a weight vector cannot be drawn ({error}): scale the columns, or use inference `hmc`"))
        })?;
        Ok(factor)
    }

    /// Updates vector k of its side; where its distribution is no Gaussian, `inner` times.
    pub(super) fn update<R: Rng + ?Sized>(
        &self,
        prior: &Prior<'_>,
        directions: &mut Coupled,
        k: usize,
        vector: &mut Vector,
        inner: u32,
        rng: &mut R,
    ) -> Result<()> {
        match prior.side.size {
            Size::Gaussian { sd } => {
                let factor = self.precision(1.0 / (sd * sd), prior.intercept_sd)?;
                // mean + L⁻ᵀz in one back substitution: L⁻ᵀ(L⁻¹h + z)
                let mut w = self.h.clone();
                factor.solve_lower(&mut w);
                w.iter_mut().for_each(|v| *v += normal(rng));
                factor.solve_upper(&mut w);
                self.set(&w, directions, k, vector);
            }
            Size::Gamma { shape, rate } => {
                let base = self.base(shape, rate, prior.intercept_sd)?;
                for _ in 0..inner {
                    self.turn(&base, directions, k, vector, rng);
                    self.stretch(&base, directions, k, vector, rng)?;
                }
            }
        }
        Ok(())
    }

    /// Base distribution of the elliptical slice under a Gamma prior.
    pub(super) fn base(&self, shape: f64, rate: f64, intercept_sd: f64) -> Result<Base> {
        let e = self.inputs as f64 * rate * rate / (shape * (shape + 1.0));
        let factor = self.precision(e, intercept_sd)?;
        let mut mean = self.h.clone();
        factor.solve(&mut mean);
        Ok(Base { shape, rate, e, factor, mean })
    }

    /// The elliptical slice.
    pub(super) fn turn<R: Rng + ?Sized>(&self, base: &Base, directions: &mut Coupled, k: usize, vector: &mut Vector, rng: &mut R) {
        let p = self.inputs;
        let length = vector.size.exp();
        if length < LEAST_LENGTH {
            return;
        }
        let mut w: Vec<f64> = self.at(directions, k).iter().map(|a| length * a).collect();
        if self.dim > p {
            w.push(vector.intercept);
        }
        let mut other: Vec<f64> = (0..self.dim).map(|_| normal(rng)).collect();
        base.factor.solve_upper(&mut other);
        // what the prior has beyond the base distribution
        let rest = |ln_directions: f64, r: f64| ln_directions + (base.shape - p as f64) * r.ln() - base.rate * r + 0.5 * base.e * r * r;
        let now = rest(directions.ln_density(), length);
        let mut a = vec![0.0; p];
        let weight = |w: &[f64]| {
            let r = direction(&w[..p], &mut a);
            rest(directions.propose(k, &a), r)
        };
        elliptical_slice::step(&mut w, &base.mean, &other, now, weight, rng);
        self.set(&w, directions, k, vector);
    }

    /// The slice step of the length.
    pub(super) fn stretch<R: Rng + ?Sized>(
        &self,
        base: &Base,
        directions: &Coupled,
        k: usize,
        vector: &mut Vector,
        rng: &mut R,
    ) -> Result<()> {
        let p = self.inputs;
        let mut a = self.at(directions, k).to_vec();
        a.resize(self.dim, 0.0);
        let qa = self.times(&a);
        let square = dot(&qa, &a);
        let across = if self.dim > p { vector.intercept * qa[p] } else { 0.0 };
        let linear = dot(&self.h, &a) - base.rate - across;
        let density = |u: f64| {
            let r = u.exp();
            base.shape * u + linear * r - 0.5 * square * r * r
        };
        let step = SliceSampler::default().step(vector.size, density, rng);
        vector.size = step.map_err(|error| Error::Unfit(format!("a length cannot be drawn: {error}")))?.x;
        Ok(())
    }

    fn at<'a>(&self, directions: &'a Coupled, k: usize) -> &'a [f64] {
        &directions.directions()[k * self.inputs..(k + 1) * self.inputs]
    }

    fn set(&self, w: &[f64], directions: &mut Coupled, k: usize, vector: &mut Vector) {
        let mut a = vec![0.0; self.inputs];
        vector.size = direction(&w[..self.inputs], &mut a).ln();
        if self.dim > self.inputs {
            vector.intercept = w[self.inputs];
        }
        directions.accept(k, &a);
    }
}

/// Direction and length of a vector.
fn direction(w: &[f64], a: &mut [f64]) -> f64 {
    let r = dot(w, w).sqrt();
    a.iter_mut().zip(w).for_each(|(a, w)| *a = w / r);
    r
}

fn normal<R: Rng + ?Sized>(rng: &mut R) -> f64 {
    StandardNormal.sample(rng)
}
