//! Where a variational fit starts, and a fit of its own: the weights that maximise Σ ln p(y_n | x_n, W) − ½ρ‖W‖² under the exact tree.
//!
//! The gradient of a node is Σ (r − Rp) x̃ with the exact shares r and the softmax p. A plain softmax is concave and has one maximum; ρ > 0
//! keeps it finite where classes can be separated. Other trees have many, and `starts.rs` says from where they are looked for.
//! Gaussian leaves add their slopes η (penalised like W) and ln τ with the prior Gamma(c₀, d₀) of τ, which keeps a leaf from
//! collapsing onto a single row.

use std::borrow::Cow;
use std::f64::consts::PI;

use super::layout::Layout;
use super::pass::{Ask, Fold, Scratch, TreeStats};
use super::tilted::softmax;
use super::tree::Tree;
use super::vb::Vb;
use crate::Result;
use crate::infer::lbfgs::{LbfgsSettings, Minimum, minimise};
use crate::model::gated::rows;
use crate::run::{Block, Rows, Sum};

/// A start needs no more digits than this: the fit moves on from it.
pub fn settings(iterations: usize) -> LbfgsSettings {
    LbfgsSettings { memory: 20, max_iterations: iterations, gradient_tolerance: 1e-6, value_tolerance: 1e-9, ..LbfgsSettings::default() }
}

/// What is maximised.
pub struct Objective<'a> {
    /// The program.
    pub program: &'a Vb,
    /// The tree.
    pub tree: &'a Tree,
    /// Rows to leave out.
    pub fold: Option<Fold>,
    /// ρ.
    pub penalty: f64,
}

impl Objective<'_> {
    /// Number of parameters: vectors of D entries, then one log precision a Gaussian leaf and output.
    pub fn len(layout: &Layout) -> usize {
        layout.vectors() * layout.dim + layout.gaussians() * layout.outputs
    }

    /// Minus the objective and its gradient.
    pub fn value(&self, rows: &mut dyn Rows<Vb>, at: &[f64], gradient: &mut [f64]) -> Result<f64> {
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
    pub fn search(&self, rows: &mut dyn Rows<Vb>, start: &[f64], iterations: usize) -> Result<Minimum> {
        minimise(start, &settings(iterations), |w, g| self.value(rows, w, g))
    }

    /// Log likelihood alone.
    pub fn ln_likelihood(&self, rows: &mut dyn Rows<Vb>, at: &[f64]) -> Result<f64> {
        Ok(rows.all(&Ask::Likelihood { tree: Cow::Borrowed(self.tree), weights: Cow::Borrowed(at), fold: self.fold })?.value.0)
    }
}

impl Vb {
    /// Log likelihood of the rows of a block and its gradient.
    pub(super) fn visit_likelihood(
        &self,
        layout: &Layout,
        at: &[f64],
        fold: Option<Fold>,
        block: &Block<'_>,
        scratch: &mut Scratch,
    ) -> TreeStats {
        if let Some(gated) = layout.gated() {
            let found = rows::likelihood(&self.design, &gated, at, block, |i| self.weight(block, i, fold), &mut scratch.rows);
            return TreeStats { gradient: found.gradient, value: found.value, ..TreeStats::default() };
        }
        let (n, vectors, outputs) = (block.rows(), layout.vectors(), layout.outputs);
        let weights = vectors * layout.dim;
        let Scratch { panel, m, walk, .. } = scratch;
        walk.resize(layout);
        m.resize(n * vectors, f64::NAN);
        let mut panel = self.design.panel(block.x, panel);
        panel.mul_t(&at[..weights], vectors, m);
        let y = self.outcomes(block);
        let mut value = 0.0;
        let mut squares = vec![0.0; at.len() - weights];
        for (i, m) in m.chunks_exact_mut(vectors).enumerate() {
            let w = self.weight(block, i, fold);
            if w == 0.0 {
                m.fill(0.0);
                continue;
            }
            for (number, node) in layout.nodes.iter().enumerate() {
                let logits = node.first_logit..node.first_logit + node.width();
                node.logits_of(&m[node.first_unit..node.first_unit + node.units], &mut walk.z[logits.clone()]);
                walk.slope[logits.clone()].copy_from_slice(&walk.z[logits.clone()]);
                walk.phi[number] = softmax(&mut walk.slope[logits]);
            }
            for leaf in 0..layout.gaussians() {
                walk.density[leaf] = (leaf * outputs..(leaf + 1) * outputs)
                    .map(|at_q| {
                        let ln_tau = at[weights + at_q];
                        let e = y.get(i, at_q % outputs) - m[layout.units + at_q];
                        0.5 * (ln_tau - (2.0 * PI).ln() - ln_tau.exp() * e * e)
                    })
                    .sum();
            }
            let class = block.y.classes().get(i).copied().unwrap_or(0);
            value += w * walk.up(layout, class, 1.0);
            walk.down(layout, class, 1.0);
            for (number, node) in layout.nodes.iter().enumerate() {
                let logits = node.first_logit..node.first_logit + node.width();
                let reach = w * walk.reach[number];
                for (share, slope) in walk.share[logits.clone()].iter_mut().zip(&walk.slope[logits.clone()]) {
                    *share = w * *share - reach * slope;
                }
                node.units_of(&walk.share[logits], &mut m[node.first_unit..node.first_unit + node.units]);
            }
            for leaf in 0..layout.gaussians() {
                let share = w * walk.leaf[leaf];
                for at_q in leaf * outputs..(leaf + 1) * outputs {
                    let tau = at[weights + at_q].exp();
                    let e = y.get(i, at_q % outputs) - m[layout.units + at_q];
                    m[layout.units + at_q] = share * tau * e;
                    squares[at_q] += 0.5 * share * (1.0 - tau * e * e);
                }
            }
        }
        let mut stats = TreeStats { gradient: Sum(vec![0.0; weights]), value: Sum(value), squares: Sum(squares), ..TreeStats::default() };
        panel.t_mul_add(m, vectors, &mut stats.gradient.0);
        stats
    }
}
