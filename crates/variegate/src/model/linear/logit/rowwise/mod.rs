//! Weights with variances alone, for more columns than matrices can have: rows of a minibatch speak for themselves.
//!
//! The matrices A_c and B_c of [`Logit`] are never formed. A minibatch hands over its rows with their curvatures; the means of a label
//! solve, with (1 − ρ, ρN/B) or (δ, 1) for (old, new), by a few steps of conjugate gradients from where they are,
//!
//! ```text
//! (P₀ + old D + new Q_B) m = old h + new g_B          Q_B, g_B: precision and linear term of the minibatch
//! D ← old D + new diag Q_B        V = 1/(P₀ + D)        h = (P₀ + D) m
//! ```
//!
//! where P₀ holds the prior precisions, D the averaged diagonal and h the averaged linear term. It is stable for every ρ.
//! Labels lie side by side in groups of [`LANES`], so that every loop over entries of rows is one over a whole vector.

mod alone;
mod history;
mod rows;
mod solve;
#[cfg(test)]
mod tests;

pub(crate) use rows::Scratch;

use serde::{Deserialize, Serialize};

use super::super::gamma_factor::GammaFactor;
use super::Logit;
use crate::parallel;
use crate::run::{Merge, Sum};

/// Labels of a group.
pub(super) const LANES: usize = 16;

/// A number for each label of a group.
pub(super) type Lanes = [f64; LANES];

/// Labels with variances alone, bounded after Jaakkola and Jordan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rowwise {
    /// Priors; its form is not read.
    pub(crate) prior: Logit,
}

/// The factors of all labels. Coefficients of a group are its weights (dim, the bias last), then its patterns (K).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Factors {
    /// Number of components, K.
    pub(crate) components: usize,
    /// Labels in groups; what lies beyond the last label is idle.
    pub(super) groups: Vec<Group>,
    /// q(τ_w) of each label.
    pub(crate) weight_precision: Vec<GammaFactor>,
    /// q(τ_b) of each label.
    pub(crate) pattern_precision: Vec<GammaFactor>,
    /// Averaged Σ_i x̃² (dim), for labels that come later and were absent before.
    pub(super) squares: Vec<f64>,
}

/// Some labels.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Group {
    /// m.
    pub(super) mean: Vec<Lanes>,
    /// D.
    pub(super) curvature: Vec<Lanes>,
    /// h.
    pub(super) linear: Vec<Lanes>,
    /// P₀ of weights, bias and patterns as the last step had them.
    pub(super) prior: [Lanes; 3],
}

/// What rows need of the factors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct View {
    /// Number of components, K.
    pub(super) components: usize,
    pub(super) groups: Vec<GroupView>,
    /// Expected variance 1/E τ_b of the pattern of a component that no row has yet (C).
    pub(super) new_variance: Vec<f64>,
}

/// Means and variances of a group's coefficients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct GroupView {
    /// Of the weights (dim).
    pub(super) weights: Vec<[Lanes; 2]>,
    /// Of the patterns (K).
    pub(super) patterns: Vec<[Lanes; 2]>,
}

/// A minibatch, and how much it counts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stats {
    /// Rows, block after block.
    pub(super) chunks: Vec<Chunk>,
    /// Σ_i x̃² (dim).
    pub(super) squares: Sum<Vec<f64>>,
    /// (old, new) for each label.
    pub(crate) steps: Vec<(f64, f64)>,
    /// The same for what all labels share.
    pub(crate) step: (f64, f64),
}

impl Merge for Stats {
    fn merge(&mut self, mut right: Self) {
        self.chunks.append(&mut right.chunks);
        self.squares.merge(right.squares);
    }
}

/// Rows of a block as the means need them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Chunk {
    /// Where the entries of each row end, their columns and values; the bias is no entry.
    pub(super) ends: Vec<u32>,
    pub(super) columns: Vec<u32>,
    pub(super) values: Vec<f64>,
    /// Labels (rows×C).
    pub(super) y: Vec<i8>,
    /// Where the components of each row end, which they are, and their responsibilities.
    pub(super) component_ends: Vec<u32>,
    pub(super) of_component: Vec<u32>,
    pub(super) share: Vec<f64>,
    /// r λ of the same, group after group; 0 where a label is unknown.
    pub(super) weight: Vec<Lanes>,
    /// Linear terms of rows that have no patterns (and then one weight each), group after group; else y tells them, and it is empty.
    pub(super) response: Vec<Lanes>,
}

impl Stats {
    /// Component `order[k]` becomes component k. None is left out: minibatches do not prune.
    pub(crate) fn permute(&mut self, order: &[usize]) {
        if self.chunks.is_empty() {
            return;
        }
        let mut place = vec![0; order.len()];
        order.iter().enumerate().for_each(|(new, &old)| place[old] = new as u32);
        for chunk in &mut self.chunks {
            chunk.of_component.iter_mut().for_each(|k| *k = place[*k as usize]);
        }
    }
}

impl Factors {
    /// Component `order[k]` becomes component k.
    pub(crate) fn permute(&mut self, order: &[usize]) {
        let components = self.components;
        for group in &mut self.groups {
            for table in [&mut group.mean, &mut group.curvature, &mut group.linear] {
                let dim = table.len() - components;
                let moved: Vec<Lanes> = order.iter().map(|k| table[dim + k]).collect();
                table.truncate(dim);
                table.extend(moved);
            }
        }
        self.components = order.len();
    }

    /// Mean and variance of coefficient i of a label.
    pub(crate) fn coefficient(&self, label: usize, i: usize) -> (f64, f64) {
        let (group, lane) = (&self.groups[label / LANES], label % LANES);
        let dim = group.mean.len() - self.components;
        (group.mean[i][lane], 1.0 / (group.prior[kind(i, dim)][lane] + group.curvature[i][lane]))
    }
}

/// Which prior precision coefficient i has: that of weights, bias or patterns.
fn kind(i: usize, dim: usize) -> usize {
    if i + 1 < dim {
        0
    } else if i < dim {
        1
    } else {
        2
    }
}

impl Rowwise {
    /// Before the first update: no weights, so that rows take their bounds at 0.
    pub(crate) fn start(&self, components: usize) -> Factors {
        let (p, coefficients) = (&self.prior, self.prior.dim + components);
        let none = vec![[0.0; LANES]; coefficients];
        let group = Group { mean: none.clone(), curvature: none.clone(), linear: none, prior: [[f64::INFINITY; LANES]; 3] };
        Factors {
            components,
            groups: vec![group; p.labels.div_ceil(LANES)],
            weight_precision: vec![p.weight_precision.start(); p.labels],
            pattern_precision: vec![p.pattern_precision.start(); p.labels],
            squares: Vec::new(),
        }
    }

    /// What rows need.
    pub(crate) fn view(&self, q: &Factors) -> View {
        let p = &self.prior;
        let of_group = |_, group: &Group| {
            let dim = group.mean.len() - q.components;
            let pair = |i: usize| {
                let prior = &group.prior[kind(i, dim)];
                let mut variance = group.curvature[i];
                variance.iter_mut().zip(prior).for_each(|(v, p)| *v = 1.0 / (p + *v));
                [group.mean[i], variance]
            };
            GroupView { weights: (0..dim).map(pair).collect(), patterns: (dim..group.mean.len()).map(pair).collect() }
        };
        let new_variance = q.pattern_precision.iter().map(|&tau| 1.0 / p.pattern_precision.mean(tau)).collect();
        View { components: q.components, groups: parallel::map(&q.groups, of_group), new_variance }
    }

    /// The global step: means, variances and precisions of every label from a minibatch and what is kept of earlier ones.
    pub(crate) fn update(&self, q: &mut Factors, stats: &Stats) {
        let rows = solve::Rows::new(&stats.chunks, self.prior.dim);
        let labels = self.prior.labels;
        let precisions: Vec<(GammaFactor, GammaFactor)> =
            q.weight_precision.iter().copied().zip(q.pattern_precision.iter().copied()).collect();
        let components = q.components;
        let found: Vec<Vec<(f64, f64)>> = parallel::map(&mut q.groups, |g, group| {
            let own = g * LANES..labels.min((g + 1) * LANES);
            self.step(group, g, &precisions[own.clone()], &stats.steps[own], components, &rows)
        });
        for (c, (weights, patterns)) in found.into_iter().flatten().enumerate() {
            q.weight_precision[c] = self.prior.weight_precision.posterior(self.prior.columns(), weights);
            q.pattern_precision[c] = self.prior.pattern_precision.posterior(components, patterns);
        }
        let (old, new) = stats.step;
        q.squares.resize(self.prior.dim, 0.0);
        q.squares.iter_mut().for_each(|s| *s *= old);
        q.squares.iter_mut().zip(&stats.squares.0).for_each(|(s, b)| *s += new * b);
    }
}
