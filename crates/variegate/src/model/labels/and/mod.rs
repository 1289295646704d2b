//! Labels that need both their component and their row, by variational Bayes.
//!
//! y_c = a_c h_c with a_c ~ Bern(ψ_kc) of the row's component k and h_c ~ Bern(σ(w_cᵀx̃)): the probabilities of pattern and classifier
//! multiply. Where a label is present both a and h are 1; where it is absent, one of the three other pairs holds, and q(a, h | k) is
//! found afresh at each visit. ψ_kc has a Beta factor; the weights are those of [`Logit`] without patterns, with E h as responses:
//!
//! ```text
//! ln ψ, ln(1 − ψ): l₁, l₀    H₁, H₀ = ±F/2 − ln 2cosh(ξ/2),  ξ² = E f²
//! y = 1: l₁ + H₁             y = 0: ln(e^{l₀+H₀} + e^{l₀+H₁} + e^{l₁+H₀})
//! ```
//!
//! The derivation is in the book's chapter on `labels`. `by_rows.rs` is the form with variances alone, for minibatches of rows with many columns,
//! and `shared.rs` the one with Böhning's bound, whose one matrix serves all labels.

mod by_rows;
mod rows;
mod shared;
#[cfg(test)]
mod tests;

pub(crate) use by_rows::Scratch as RowScratch;
pub(crate) use rows::Scratch;
pub(crate) use shared::Scratch as SharedScratch;

use serde::{Deserialize, Serialize};

use super::logit::{self, Logit, permuted};
use crate::run::Sum;
use crate::special::{digamma, ln_beta};
use crate::{Result, merge_fields};

/// Prior of patterns and weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct And {
    /// The weights of the labels; its patterns are not used. With Böhning's bound they are those of [`SharedBohning`](logit::SharedBohning).
    pub(crate) weights: Logit,
    /// Shapes of the Beta prior of the patterns, of presence and of absence.
    pub(crate) pattern_prior: (f64, f64),
}

/// The factors of all labels, with those of the weights in either form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Factors<W = logit::Factors> {
    /// Number of components, K.
    pub(crate) components: usize,
    /// q(w_c) and q(τ_w), of no components.
    pub(crate) weights: W,
    /// First shape of q(ψ_kc) (C×K).
    pub(crate) present: Vec<f64>,
    /// Second shape of q(ψ_kc) (C×K).
    pub(crate) absent: Vec<f64>,
}

/// What rows need of the factors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct View<W = logit::View> {
    /// Number of components, K.
    pub(crate) components: usize,
    /// Moments of the weights.
    pub(crate) weights: W,
    /// E ln ψ_kc (C×K).
    pub(crate) ln_present: Vec<f64>,
    /// E ln(1 − ψ_kc) (C×K).
    pub(crate) ln_absent: Vec<f64>,
    /// E ψ_kc (C×K).
    pub(crate) patterns: Vec<f64>,
}

/// Sums over rows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stats {
    /// A_c, g_c and the offset e of the weights.
    pub(crate) weights: logit::Stats,
    /// Σ_i r E a (C×K).
    pub(crate) present: Sum<Vec<f64>>,
    /// Σ_i r (1 − E a) (C×K).
    pub(crate) absent: Sum<Vec<f64>>,
    /// Σ_ikc r H[q(a, h | k)].
    pub(crate) entropy: Sum<f64>,
}
merge_fields!(Stats, weights, present, absent, entropy);

impl Stats {
    /// Component `order[k]` of so many becomes component k; one that is not named is left out.
    pub(crate) fn permute(&mut self, order: &[usize], components: usize) {
        for table in [&mut self.present.0, &mut self.absent.0] {
            *table = permuted(table, order, components, 1);
        }
    }

    /// Calls f(numbers of all components, 1) for every label of every table that has so many components.
    pub(crate) fn each_table(&mut self, components: usize, f: &mut dyn FnMut(&mut [f64], usize)) {
        for table in [&mut self.present.0, &mut self.absent.0] {
            table.chunks_exact_mut(components.max(1)).for_each(|label| f(label, 1));
        }
    }
}

impl<W> Factors<W> {
    /// Component `order[k]` becomes component k; one that is not named is left out, and a number beyond the last is a new component, of
    /// a uniform pattern until the next update.
    pub(crate) fn permute(&mut self, order: &[usize]) {
        let components = self.components;
        for table in [&mut self.present, &mut self.absent] {
            let of_label = |label: &[f64]| order.iter().map(|&k| label.get(k).copied().unwrap_or(1.0)).collect::<Vec<_>>();
            *table = table.chunks_exact(components.max(1)).flat_map(of_label).collect();
        }
        self.components = order.len();
    }

    /// What rows need, with the moments of the weights.
    fn view_with<V>(&self, weights: V) -> View<V> {
        let shapes = || self.present.iter().zip(&self.absent);
        View {
            components: self.components,
            weights,
            ln_present: shapes().map(|(a, b)| digamma(*a) - digamma(a + b)).collect(),
            ln_absent: shapes().map(|(a, b)| digamma(*b) - digamma(a + b)).collect(),
            patterns: shapes().map(|(a, b)| a / (a + b)).collect(),
        }
    }
}

impl And {
    /// Before the first update: precisions as the prior has them, no weights and even patterns, so that an absent label has a and h
    /// with probability 1/3 each.
    pub(crate) fn start(&self, components: usize) -> Factors {
        self.start_with(self.weights.start(0), components)
    }

    fn start_with<W>(&self, weights: W, components: usize) -> Factors<W> {
        let even = vec![1.0; self.weights.labels * components];
        Factors { components, weights, present: even.clone(), absent: even }
    }

    /// What rows need.
    pub(crate) fn view(&self, q: &Factors) -> View {
        q.view_with(self.weights.view(&q.weights))
    }

    /// The global step from sums: q(w_c) of each label given E τ, q(τ), and q(ψ). The number of components is that of the sums.
    pub(crate) fn update(&self, q: &mut Factors, stats: &Stats) -> Result<()> {
        self.weights.update(&mut q.weights, &stats.weights)?;
        self.update_patterns(q, stats);
        Ok(())
    }

    fn update_patterns<W>(&self, q: &mut Factors<W>, stats: &Stats) {
        q.components = stats.present.0.len() / self.weights.labels.max(1);
        q.present = stats.present.0.iter().map(|s| self.pattern_prior.0 + s).collect();
        q.absent = stats.absent.0.iter().map(|s| self.pattern_prior.1 + s).collect();
    }

    /// KL divergence of all factors from their priors.
    pub(crate) fn divergence(&self, q: &Factors) -> f64 {
        self.weights.divergence(&q.weights) + self.divergence_of_patterns(q)
    }

    fn divergence_of_patterns<W>(&self, q: &Factors<W>) -> f64 {
        let (a0, b0) = self.pattern_prior;
        let ln_prior = ln_beta(a0, b0);
        let of_pattern = |(&a, &b): (&f64, &f64)| {
            let all = digamma(a + b);
            ln_prior - ln_beta(a, b) + (a - a0) * (digamma(a) - all) + (b - b0) * (digamma(b) - all)
        };
        q.present.iter().zip(&q.absent).map(of_pattern).sum::<f64>()
    }

    /// The label part of the bound from sums, under any factors of as many components.
    pub(crate) fn value(&self, q: &Factors, stats: &Stats) -> f64 {
        self.weights.value(&q.weights, &stats.weights) + stats.entropy.0 + Self::value_of_patterns(q, stats)
    }

    fn value_of_patterns<W>(q: &Factors<W>, stats: &Stats) -> f64 {
        let of_pattern = |((&a, &b), (s1, s0)): ((&f64, &f64), (&f64, &f64))| {
            let all = digamma(a + b);
            s1 * (digamma(a) - all) + s0 * (digamma(b) - all)
        };
        let shapes = q.present.iter().zip(&q.absent);
        shapes.zip(stats.present.0.iter().zip(&stats.absent.0)).map(of_pattern).sum()
    }
}
