//! Where a variational fit starts, and a fit of its own: the weights that maximise Σ ln p(y_n | x_n, W) − ½ρ‖W‖² under the exact tree.
//!
//! A plain softmax is concave and has one maximum; ρ > 0
//! keeps it finite where classes can be separated. Other trees have many, and `starts.rs` says from where they are looked for.
//! Gaussian leaves add their slopes η (penalised like W) and ln τ with the prior Gamma(c₀, d₀) of τ, which keeps a leaf from
//! collapsing onto a single row.

use std::borrow::Cow;

use super::pass::ask::Ask;
use super::program::Vb;
use super::tree::Tree;
use crate::Result;
use crate::data::split::Fold;
use crate::infer::lbfgs::{LbfgsSettings, Minimum, minimise};
use crate::run::Rows;

/// A start needs no more digits than this: the fit moves on from it.
pub(crate) fn settings(iterations: usize) -> LbfgsSettings {
    LbfgsSettings { memory: 20, max_iterations: iterations, gradient_tolerance: 1e-6, value_tolerance: 1e-9, ..LbfgsSettings::default() }
}

/// What is maximised.
pub(crate) struct Objective<'a> {
    /// The program.
    pub(crate) program: &'a Vb,
    /// The tree.
    pub(crate) tree: &'a Tree,
    /// Rows to leave out.
    pub(crate) fold: Option<Fold>,
    /// ρ.
    pub(crate) penalty: f64,
}

impl Objective<'_> {
    /// Minus the objective and its gradient.
    pub(crate) fn value(&self, rows: &mut dyn Rows<Vb>, at: &[f64], gradient: &mut [f64]) -> Result<f64> {
        let stats = rows.all(&Ask::Likelihood { tree: Cow::Borrowed(self.tree), weights: Cow::Borrowed(at), fold: self.fold })?;
        let weights = stats.gradient.0.len();
        for ((g, s), w) in gradient.iter_mut().zip(&stats.gradient.0).zip(at) {
            *g = self.penalty * w - s;
        }
        let mut value = 0.5 * self.penalty * at[..weights].iter().map(|w| w * w).sum::<f64>() - stats.value.0;
        let (c0, d0) = self.program.leaf.noise;
        for ((g, s), ln_tau) in gradient[weights..].iter_mut().zip(&stats.squares.0).zip(&at[weights..]) {
            let tau = ln_tau.exp();
            value += d0 * tau - c0 * ln_tau;
            *g = d0 * tau - c0 - s;
        }
        Ok(value)
    }

    /// Searches a maximum from a start.
    pub(crate) fn search(&self, rows: &mut dyn Rows<Vb>, start: &[f64], iterations: usize) -> Result<Minimum> {
        minimise(start, &settings(iterations), |w, g| self.value(rows, w, g))
    }

    /// Log likelihood alone.
    pub(crate) fn ln_likelihood(&self, rows: &mut dyn Rows<Vb>, at: &[f64]) -> Result<f64> {
        Ok(rows.all(&Ask::Likelihood { tree: Cow::Borrowed(self.tree), weights: Cow::Borrowed(at), fold: self.fold })?.value.0)
    }
}
