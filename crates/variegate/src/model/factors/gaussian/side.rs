//! Rows of one side of a split or merge: φ integrated out, weights kept.

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};
use std::f64::consts::TAU;

use super::{Scales, broken};
use crate::Result;
use crate::linalg::dot;
use crate::model::factors::likelihood::Side;
use crate::run::Merge;

/// What a row tells of an atom.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GaussianContribution {
    /// Weight of the atom in the row.
    pub weight: f64,
    /// What the other atoms leave of the row.
    pub residual: Vec<f64>,
    /// Source of the row.
    pub source: u32,
}

/// φ given rows e ~ N(wφ, 1/t_n) is N(B/p, 1/p) with p = t_φ + Σ t_n w² and B = Σ t_n w e.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GaussianSide {
    /// t_φ.
    atom: f64,
    /// t_n of each source.
    noise: Vec<f64>,
    /// p.
    precision: f64,
    /// B.
    linear: Vec<f64>,
}

impl GaussianSide {
    /// Without rows.
    pub fn new(scales: &Scales, columns: usize) -> Self {
        Self { atom: scales.atom, noise: scales.noise.clone(), precision: scales.atom, linear: vec![0.0; columns] }
    }
}

impl Merge for GaussianSide {
    fn merge(&mut self, right: Self) {
        self.precision += right.precision;
        self.linear.iter_mut().zip(&right.linear).for_each(|(l, r)| *l += r);
    }
}

impl Side for GaussianSide {
    type Contribution = GaussianContribution;

    fn sums(&self) -> Self {
        Self { atom: self.atom, noise: self.noise.clone(), precision: 0.0, linear: vec![0.0; self.linear.len()] }
    }

    fn add(&mut self, row: &GaussianContribution) {
        let scaled = self.noise[row.source as usize] * row.weight;
        self.precision += scaled * row.weight;
        for (b, e) in self.linear.iter_mut().zip(&row.residual) {
            *b += scaled * e;
        }
    }

    fn ln_predictive(&self, row: &GaussianContribution) -> f64 {
        let share = row.weight / self.precision;
        let variance = 1.0 / self.noise[row.source as usize] + row.weight * share;
        let square: f64 = row.residual.iter().zip(&self.linear).map(|(e, b)| (e - share * b) * (e - share * b)).sum();
        -0.5 * (self.linear.len() as f64 * (TAU * variance).ln() + square / variance)
    }

    fn ln_marginal(&self) -> f64 {
        0.5 * (dot(&self.linear, &self.linear) / self.precision - self.linear.len() as f64 * (self.precision / self.atom).ln())
    }

    fn draw<R: Rng + ?Sized>(&self, rng: &mut R) -> Result<Vec<f64>> {
        let spread = 1.0 / self.precision.sqrt();
        let phi =
            self.linear.iter().map(|b| b / self.precision + spread * <StandardNormal as Distribution<f64>>::sample(&StandardNormal, rng));
        let phi: Vec<f64> = phi.collect();
        if phi.iter().all(|p| p.is_finite()) { Ok(phi) } else { Err(broken("the draw of an atom")) }
    }
}
