//! The exact likelihood of a tree and its gradient.
//!
//! The gradient of a node is Σ (r − Rp) x̃ with the exact shares r and the softmax p.

use std::f64::consts::PI;

use super::super::bound::tilted::softmax;
use super::super::layout::Layout;
use super::super::program::{Vb, class_of};
use super::Scratch;
use super::ask::TreeStats;
use crate::data::split::Fold;
use crate::model::gated::rows;
use crate::run::{Block, Sum};

impl Vb {
    /// Log likelihood of the rows of a block and its gradient.
    pub(crate) fn visit_likelihood(
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
                let logits = node.at_logits();
                node.logits_of(&m[node.at_units()], &mut walk.z[logits.clone()]);
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
            let class = class_of(block, i);
            value += w * walk.up(layout, class, 1.0);
            walk.down(layout, class, 1.0);
            for (number, node) in layout.nodes.iter().enumerate() {
                let logits = node.at_logits();
                let reach = w * walk.reach[number];
                for (share, slope) in walk.share[logits.clone()].iter_mut().zip(&walk.slope[logits.clone()]) {
                    *share = w * *share - reach * slope;
                }
                node.units_of(&walk.share[logits], &mut m[node.at_units()]);
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
