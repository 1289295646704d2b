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

use super::super::law::{Side, Size};
use crate::infer::elliptical_slice;
use crate::infer::slice::SliceSampler;
use crate::linalg::{Cholesky, dot};
use crate::prior::Coupled;
use crate::{Error, Result};

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

impl Quadratic {
    /// From the lower triangle of Q and from h, of `inputs` entries and (or not) an intercept.
    pub(super) fn new(q: Vec<f64>, h: Vec<f64>, inputs: usize) -> Self {
        Self { q, dim: h.len(), h, inputs }
    }

    /// Q v, from the lower triangle.
    fn times(&self, v: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; self.dim];
        for (i, row) in self.q.chunks_exact(self.dim).enumerate().take(self.dim) {
            let mut sum = row[i] * v[i];
            for j in 0..i {
                sum += row[j] * v[j];
                out[j] += row[j] * v[i];
            }
            out[i] += sum;
        }
        out
    }

    /// N(Π⁻¹h, Π⁻¹) with the prior precision e of weights and the standard deviation of the intercept.
    fn base(&self, e: f64, intercept_sd: f64, sweep: u64) -> Result<Cholesky> {
        let mut precision = self.q.clone();
        for j in 0..self.dim {
            precision[j * self.dim + j] += if j < self.inputs { e } else { 1.0 / (intercept_sd * intercept_sd) };
        }
        let (factor, _) = Cholesky::with_jitter(self.dim, &precision).map_err(|error| Error::Numerical {
            what: "the draw of a weight vector",
            sweep,
            detail: format!("{error}; scale the columns, or use inference `hmc`"),
        })?;
        Ok(factor)
    }

    /// Updates vector k of its side `inner` times.
    pub(super) fn update<R: Rng + ?Sized>(
        &self,
        side: &Side,
        intercept_sd: f64,
        directions: &mut Coupled,
        k: usize,
        vector: &mut Vector,
        (inner, sweep): (u32, u64),
        rng: &mut R,
    ) -> Result<()> {
        match side.size {
            Size::Gaussian { sd } => {
                let factor = self.base(1.0 / (sd * sd), intercept_sd, sweep)?;
                // mean + L⁻ᵀz in one back substitution: L⁻ᵀ(L⁻¹h + z)
                let mut w = self.h.clone();
                factor.solve_lower(&mut w);
                w.iter_mut().for_each(|v| *v += normal(rng));
                factor.solve_upper(&mut w);
                self.set(&w, directions, k, vector);
            }
            Size::Gamma { shape, rate } => {
                let p = self.inputs as f64;
                let e = p * rate * rate / (shape * (shape + 1.0));
                let factor = self.base(e, intercept_sd, sweep)?;
                let mut mean = self.h.clone();
                factor.solve(&mut mean);
                for _ in 0..inner {
                    self.turn(&factor, &mean, (shape, rate, e), directions, k, vector, rng);
                    self.stretch((shape, rate), directions, k, vector, rng)?;
                }
            }
        }
        Ok(())
    }

    /// The elliptical slice.
    #[allow(clippy::too_many_arguments)]
    fn turn<R: Rng + ?Sized>(
        &self,
        factor: &Cholesky,
        mean: &[f64],
        (shape, rate, e): (f64, f64, f64),
        directions: &mut Coupled,
        k: usize,
        vector: &mut Vector,
        rng: &mut R,
    ) {
        let p = self.inputs;
        let mut w: Vec<f64> = self.at(directions, k).iter().map(|a| vector.size.exp() * a).collect();
        if self.dim > p {
            w.push(vector.intercept);
        }
        let mut other: Vec<f64> = (0..self.dim).map(|_| normal(rng)).collect();
        factor.solve_upper(&mut other);
        let ln_now = directions.ln_density();
        let mut a = vec![0.0; p];
        let mut weight = |w: &[f64], ln_directions: Option<f64>| {
            let r = direction(&w[..p], &mut a);
            let ln = ln_directions.unwrap_or_else(|| directions.propose(k, &a));
            ln + (shape - p as f64) * r.ln() - rate * r + 0.5 * e * r * r
        };
        let now = weight(&w, Some(ln_now));
        elliptical_slice::step(&mut w, mean, &other, now, |w| weight(w, None), rng);
        self.set(&w, directions, k, vector);
    }

    /// The slice step of the length.
    fn stretch<R: Rng + ?Sized>(&self, (shape, rate): (f64, f64), directions: &Coupled, k: usize, vector: &mut Vector, rng: &mut R) -> Result<()> {
        let p = self.inputs;
        let mut a = self.at(directions, k).to_vec();
        a.resize(self.dim, 0.0);
        let qa = self.times(&a);
        let square = dot(&qa[..p], &a[..p]);
        let across = if self.dim > p { vector.intercept * qa[p] } else { 0.0 };
        let linear = dot(&self.h[..p], &a[..p]) - rate - across;
        let density = |u: f64| {
            let r = u.exp();
            shape * u + linear * r - 0.5 * square * r * r
        };
        let step = SliceSampler::default().step(vector.size, density, rng).map_err(|e| Error::Unfit(e.to_string()))?;
        vector.size = step.x;
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
