//! The bound of rows at a q, and what the next step needs of them.

use super::super::layout::Layout;
use super::super::program::Vb;
use super::ask::{Local, TreeStats, View};
use super::{PanelView, Scratch, panel_rows};
use crate::data::design::packed_len;
use crate::data::split::Fold;
use crate::run::{Block, Sum};

impl Vb {
    /// Bound of the rows of a block.
    pub(crate) fn visit_bound(
        &self,
        layout: &Layout,
        view: &View<'_>,
        block: &Block<'_>,
        local: &mut Local,
        scratch: &mut Scratch,
    ) -> TreeStats {
        let (units, vectors, forms) = (layout.units, layout.vectors(), layout.forms);
        let outputs = layout.outputs;
        let keep = layout.needs_products();
        local.curvature.clear();
        let mut stats = TreeStats {
            curvature: Sum(vec![0.0; layout.matrices]),
            gradient: Sum(vec![0.0; vectors * layout.dim]),
            shares: Sum(vec![0.0; layout.leaves.len()]),
            squares: Sum(vec![0.0; layout.gaussians() * outputs]),
            ..TreeStats::default()
        };
        self.for_view(layout, view, block, scratch, |mut rows| {
            self.solve_panel(layout, view, block, &mut rows);
            for i in 0..rows.rows {
                let w = rows.solved.weight[i];
                if w == 0.0 {
                    rows.gradient[i * vectors..(i + 1) * vectors].fill(0.0);
                    rows.curvature[i * forms..(i + 1) * forms].fill(0.0);
                    continue;
                }
                stats.value.0 += w * rows.walk_row(self, layout, view, block, i);
                let PanelView { gradient, curvature, residual, walk, .. } = &mut rows;
                let gradient = &mut gradient[i * vectors..(i + 1) * vectors];
                let curvature = &mut curvature[i * forms..(i + 1) * forms];
                for (number, node) in layout.nodes.iter().enumerate() {
                    let reach = w * walk.reach[number];
                    let logits = node.at_logits();
                    for (share, slope) in walk.share[logits.clone()].iter_mut().zip(&walk.slope[logits.clone()]) {
                        *share = w * *share - reach * slope;
                    }
                    node.units_of(&walk.share[logits], &mut gradient[node.at_units()]);
                    curvature[node.at_forms()].iter_mut().for_each(|c| *c *= reach);
                }
                for (sum, share) in stats.shares.0.iter_mut().zip(&walk.leaf) {
                    *sum += w * share;
                }
                for leaf in 0..layout.gaussians() {
                    let share = w * walk.leaf[leaf];
                    curvature[layout.leaf_form() + leaf] = share;
                    for q in leaf * outputs..(leaf + 1) * outputs {
                        gradient[units + q] = share * residual[q];
                        stats.squares.0[q] += share * residual[q] * residual[q];
                    }
                }
            }
            let PanelView { mut panel, gradient, curvature, products, .. } = rows;
            products.grams_add(&mut panel, layout, curvature, &mut stats.curvature.0);
            panel.t_mul_add(gradient, vectors, &mut stats.gradient.0);
            if keep {
                local.curvature.extend_from_slice(curvature);
            }
        });
        stats
    }

    /// Σ c x̃(x̃ᵀd) for one direction a unit, with the curvatures c at this q.
    pub(crate) fn visit_products(
        &self,
        layout: &Layout,
        view: &View<'_>,
        vectors: &[f64],
        block: &Block<'_>,
        local: &mut Local,
        scratch: &mut Scratch,
    ) -> TreeStats {
        if local.curvature.len() != block.rows() * layout.forms {
            self.visit_bound(layout, view, block, local, scratch);
        }
        let units = layout.units;
        let Scratch { panel: buffers, m, .. } = scratch;
        let mut gradient = vec![0.0; units * layout.dim];
        let height = panel_rows(layout);
        let mut first = 0;
        while first < block.rows() {
            let n = height.min(block.rows() - first);
            m.resize(n * units, 0.0);
            let mut panel = self.design.panel(block.x.slice(first..first + n), buffers);
            panel.mul_t(vectors, units, m);
            for (i, m) in m.chunks_exact_mut(units).enumerate() {
                let c = &local.curvature[(first + i) * layout.forms..];
                for node in &layout.nodes {
                    let partial = node.covariance.needs_products();
                    for u in 0..node.units {
                        // nodes with whole matrices solve by them
                        m[node.first_unit + u] *= if partial { c[node.first_form + u] } else { 0.0 };
                    }
                }
            }
            panel.t_mul_add(m, units, &mut gradient);
            first += n;
        }
        TreeStats { gradient: Sum(gradient), ..TreeStats::default() }
    }

    /// Σ w x̃ (x̃ᵀp) for some vectors p.
    pub(crate) fn visit_spread(&self, probes: &[f64], block: &Block<'_>, scratch: &mut Scratch) -> TreeStats {
        let dim = self.design.dim();
        let k = probes.len() / dim;
        let Scratch { panel: buffers, m, .. } = scratch;
        m.resize(block.rows() * k, 0.0);
        let mut panel = self.design.panel(block.x, buffers);
        panel.mul_t(probes, k, m);
        for (i, m) in m.chunks_exact_mut(k).enumerate() {
            let w = self.weight(block, i, None);
            m.iter_mut().for_each(|m| *m *= w);
        }
        let mut gradient = vec![0.0; k * dim];
        panel.t_mul_add(m, k, &mut gradient);
        TreeStats { gradient: Sum(gradient), ..TreeStats::default() }
    }

    /// ½ Σ w x̃x̃ᵀ.
    pub(crate) fn visit_gram(&self, fold: Option<Fold>, block: &Block<'_>, scratch: &mut Scratch) -> TreeStats {
        let mut curvature = vec![0.0; packed_len(self.design.dim())];
        let weights: Vec<f64> = (0..block.rows()).map(|i| 0.5 * self.weight(block, i, fold)).collect();
        self.design.panel(block.x, &mut scratch.panel).weighted_grams_add(&weights, 1, &mut curvature);
        TreeStats { curvature: Sum(curvature), ..TreeStats::default() }
    }
}
