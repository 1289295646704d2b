//! Distributions of a row within a component (an atom), each with its conjugate prior.
//!
//! An atom is known by additive statistics, a flat run of [`Kernel::statistics`] numbers. With `m(stats)` the marginal likelihood of the
//! rows behind them, the log density of a further row is `ln m(stats + row) - ln m(stats)`; without rows it is the prior predictive `f*`.
//! At a temperature `tau` below 1 every row counts `tau` times: its likelihood is raised to that power, statistics are multiplied by it,
//! and the same ratio is meant (which is not the predictive with other parameters). All formulas below hold for any weight `w` of a row.
//!
//! | file | families | prior of an atom |
//! |---|---|---|
//! | `diagonal.rs` | `gaussian-diag` | normal-gamma, a column each |
//! | `fixed.rs` | `gaussian-known`, `gaussian-tied` | normal means; the covariance is given, or one variance shared |
//! | `full.rs` | `gaussian-full` | normal-inverse-Wishart |
//! | `codes.rs` | `bernoulli`, `categorical` | Dirichlet, a column each |
//! | `poisson.rs` | `poisson` | gamma, a column each |
//! | `multinomial.rs` | `multinomial` | Dirichlet |
//!
//! A missing cell is NaN. Families that factor over columns leave it out of densities and statistics; the door (`bind.rs`, `cells.rs`)
//! refuses it for the others. Gaussian statistics are those of `x - m0`, never of `x`: large means cost no digits.

mod bind;
mod cells;
mod codes;
mod diagonal;
mod family;
mod fixed;
mod full;
mod learned;
mod multinomial;
mod poisson;

#[cfg(test)]
mod tests;

pub(crate) use cells::Columns;
pub(crate) use family::{Family, Matrix, Prior};

use rand::Rng;
use serde::{Deserialize, Serialize};

use codes::Codes;
use diagonal::Diagonal;
use fixed::Fixed;
use full::Full;
use multinomial::Multinomial;
use poisson::Poisson;

use crate::{Error, Result};

/// A family with its prior, bound to the columns of some data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Kernel {
    family: Family,
    /// How often a row counts: the power of its likelihood.
    tau: f64,
    /// Whether the strength of a prior of proportions is learned.
    learned: bool,
    likelihood: Likelihood,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Likelihood {
    Diagonal(Diagonal),
    Fixed(Fixed),
    Full(Full),
    Codes(Codes),
    Poisson(Poisson),
    Multinomial(Multinomial),
}

/// What the predictive density of an atom needs, worked out once for many rows.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Prepared {
    /// What does not depend on the row.
    constant: f64,
    /// Numbers of the family's own, column by column.
    numbers: Vec<f64>,
}

/// What the likelihoods have in common; the row's weight is always given.
trait Conjugate {
    /// Numbers of an atom's statistics.
    fn statistics(&self) -> usize;
    /// Numbers of an atom's parameters.
    fn parameters(&self) -> usize;
    fn add(&self, stats: &mut [f64], row: &[f64], weight: f64);
    fn prepare(&self, stats: &[f64], weight: f64, out: &mut Prepared);
    /// The same after the statistics changed by this row; exact up to rounding.
    fn refresh(&self, stats: &[f64], row: &[f64], change: f64, weight: f64, out: &mut Prepared) {
        let _ = (row, change);
        self.prepare(stats, weight, out);
    }
    fn ln_predictive(&self, prepared: &Prepared, row: &[f64], weight: f64) -> f64;
    /// The same for many atoms, in one run over the row.
    fn ln_predictive_each(&self, prepared: &[Prepared], row: &[f64], weight: f64, out: &mut [f64]) {
        for (out, prepared) in out.iter_mut().zip(prepared) {
            *out = self.ln_predictive(prepared, row, weight);
        }
    }
    fn ln_marginal(&self, stats: &[f64]) -> f64;
    fn draw<R: Rng + ?Sized>(&self, stats: &[f64], rng: &mut R) -> Result<Vec<f64>>;
    fn ln_density(&self, theta: &[f64], row: &[f64]) -> f64;
    /// What densities given parameters need of an atom, worked out once for many rows.
    fn ready(&self, theta: &[f64], out: &mut Prepared) {
        out.numbers.clear();
        out.numbers.extend_from_slice(theta);
    }
    /// [`Conjugate::ln_density`] to the last bit.
    fn ln_density_ready(&self, ready: &Prepared, row: &[f64]) -> f64 {
        self.ln_density(&ready.numbers, row)
    }
    /// The same of many atoms up to rounding, in one run over the row; minus infinity where an atom is not open.
    fn ln_density_each(&self, ready: &[Prepared], row: &[f64], open: impl Fn(usize) -> bool, out: &mut [f64]) {
        for (k, (out, ready)) in out.iter_mut().zip(ready).enumerate() {
            *out = if open(k) { self.ln_density_ready(ready, row) } else { f64::NEG_INFINITY };
        }
    }
    fn draw_row<R: Rng + ?Sized>(&self, theta: &[f64], rng: &mut R, out: &mut [f64]) -> Result<()>;
    /// Expected row of an atom with these parameters.
    fn mean(&self, theta: &[f64]) -> Vec<f64>;
}

/// Calls a method of the likelihood at hand.
macro_rules! each {
    ($kernel:expr, $inner:ident => $call:expr) => {
        match &$kernel.likelihood {
            Likelihood::Diagonal($inner) => $call,
            Likelihood::Fixed($inner) => $call,
            Likelihood::Full($inner) => $call,
            Likelihood::Codes($inner) => $call,
            Likelihood::Poisson($inner) => $call,
            Likelihood::Multinomial($inner) => $call,
        }
    };
}

impl Kernel {
    /// The family.
    pub(crate) fn family(&self) -> Family {
        self.family
    }

    /// The same kernel with rows that count `tau` times: for a rung of tempering. Statistics made before are of another temperature.
    pub(crate) fn tempered(mut self, tau: f64) -> Self {
        self.tau = tau;
        self
    }

    /// How often a row counts: the power of its likelihood.
    pub(crate) fn tau(&self) -> f64 {
        self.tau
    }

    /// Numbers of an atom's statistics; all 0 without rows.
    pub(crate) fn statistics(&self) -> usize {
        each!(self, k => k.statistics())
    }

    /// Numbers of an atom's drawn parameters.
    pub(crate) fn parameters(&self) -> usize {
        each!(self, k => k.parameters())
    }

    /// Adds a row so many times; -1 takes it out. The temperature comes on top.
    pub(crate) fn add(&self, stats: &mut [f64], row: &[f64], weight: f64) {
        each!(self, k => k.add(stats, row, weight * self.tau))
    }

    /// Log density of a further row of the atom with these statistics, at a temperature the ratio of marginals; `f*` without rows.
    #[cfg(test)]
    pub(crate) fn ln_predictive(&self, stats: &[f64], row: &[f64]) -> f64 {
        self.ln_predictive_prepared(&self.prepare(stats), row)
    }

    /// What [`Kernel::ln_predictive_prepared`] needs of an atom.
    pub(crate) fn prepare(&self, stats: &[f64]) -> Prepared {
        let mut out = Prepared::default();
        self.prepare_into(stats, &mut out);
        out
    }

    /// The same into a place that is used again.
    pub(crate) fn prepare_into(&self, stats: &[f64], out: &mut Prepared) {
        each!(self, k => k.prepare(stats, self.tau, out))
    }

    /// The same after `row` was added `weight` times (-1: taken out) to what `out` was prepared for; `stats` are those after it.
    /// Covariance matrices are updated rather than factored anew, so errors of rounding add up: prepare anew once a sweep.
    pub(crate) fn refresh(&self, stats: &[f64], row: &[f64], weight: f64, out: &mut Prepared) {
        each!(self, k => k.refresh(stats, row, weight * self.tau, self.tau, out))
    }

    /// [`Kernel::ln_predictive`] of a prepared atom.
    pub(crate) fn ln_predictive_prepared(&self, prepared: &Prepared, row: &[f64]) -> f64 {
        each!(self, k => k.ln_predictive(prepared, row, self.tau))
    }

    /// The same of many atoms; the quick way where there are many.
    pub(crate) fn ln_predictive_each(&self, prepared: &[Prepared], row: &[f64], out: &mut [f64]) {
        each!(self, k => k.ln_predictive_each(prepared, row, self.tau, out))
    }

    /// Log marginal likelihood of the rows behind these statistics, each to the power of the temperature; 0 without rows.
    pub(crate) fn ln_marginal(&self, stats: &[f64]) -> f64 {
        each!(self, k => k.ln_marginal(stats))
    }

    /// Parameters of an atom from their posterior given its rows; from the prior without rows.
    ///
    /// Means, then precisions (`gaussian-diag`; 0 for a column that is left out); means (`gaussian-known`, `gaussian-tied`); means, then
    /// the rows of the lower triangle `G` of the precision `G G'`, all of the columns in use (`gaussian-full`); logarithms of the
    /// probabilities of each code, column by column (`bernoulli`: of 0 and 1; `categorical`); rates (`poisson`); logarithms of
    /// proportions (`multinomial`).
    pub(crate) fn draw<R: Rng + ?Sized>(&self, stats: &[f64], rng: &mut R) -> Result<Vec<f64>> {
        each!(self, k => k.draw(stats, rng))
    }

    /// Log density of a row of an atom with these parameters, at temperature 1.
    pub(crate) fn ln_density(&self, theta: &[f64], row: &[f64]) -> f64 {
        each!(self, k => k.ln_density(theta, row))
    }

    /// Atoms with these parameters, one after the other, made ready for many rows; `atoms` of them where all columns are left out, so that they
    /// have no parameters.
    pub(crate) fn ready(&self, theta: &[f64], atoms: usize) -> Vec<Prepared> {
        let width = self.parameters();
        let atoms = theta.len().checked_div(width).unwrap_or(atoms);
        let of_atom = |k: usize| {
            let mut out = Prepared::default();
            each!(self, kernel => kernel.ready(&theta[k * width..][..width], &mut out));
            out
        };
        (0..atoms).map(of_atom).collect()
    }

    /// [`Kernel::ln_density`] of an atom made ready, to the last bit.
    pub(crate) fn ln_density_ready(&self, ready: &Prepared, row: &[f64]) -> f64 {
        each!(self, k => k.ln_density_ready(ready, row))
    }

    /// The same of many atoms up to rounding, the quick way; minus infinity where an atom is not open.
    pub(crate) fn ln_density_each(&self, ready: &[Prepared], row: &[f64], open: impl Fn(usize) -> bool, out: &mut [f64]) {
        each!(self, k => k.ln_density_each(ready, row, open, out))
    }

    /// Draws a row of an atom with these parameters. Cells of `out` that are NaN before stay missing, and a row of proportions keeps
    /// the total it has.
    pub(crate) fn draw_row<R: Rng + ?Sized>(&self, theta: &[f64], rng: &mut R, out: &mut [f64]) -> Result<()> {
        each!(self, k => k.draw_row(theta, rng, out))
    }

    /// Expected row of an atom with these parameters: means, probabilities of 1, rates or proportions; the likeliest code of a
    /// categorical column.
    pub(crate) fn mean(&self, theta: &[f64]) -> Vec<f64> {
        each!(self, k => k.mean(theta))
    }
}

/// A parameter that came out of range, although the input was checked.
fn broken(what: &'static str, detail: impl Into<String>) -> Error {
    Error::Numerical { what, sweep: 0, detail: detail.into() }
}

/// Cells side by side in a sum: so many of them keep the vector instructions busy, and the order of the sum is the same anywhere.
const LANES: usize = 8;

/// Columns rounded up to whole lanes.
fn padded(columns: usize) -> usize {
    columns.div_ceil(LANES) * LANES
}
