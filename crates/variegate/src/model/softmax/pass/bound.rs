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
        let y = self.outcomes(block);
        self.for_view(layout, view, block, scratch, |first, mut rows| {
            self.solve_panel(layout, view, block, first, &mut rows);
            let PanelView { rows: n, mut panel, m, v, gradient, curvature, residual, walk, solved, products, .. } = rows;
            for i in 0..n {
                let gradient = &mut gradient[i * vectors..(i + 1) * vectors];
                let curvature = &mut curvature[i * forms..(i + 1) * forms];
                let w = solved.weight[i];
                if w == 0.0 {
                    gradient.fill(0.0);
                    curvature.fill(0.0);
                    continue;
                }
                let (m, v) = (&m[i * vectors..(i + 1) * vectors], &v[i * forms..(i + 1) * forms]);
                for (at, e) in residual.iter_mut().enumerate() {
                    *e = y.get(first + i, at % outputs) - m[units + at];
                }
                let class = block.y.classes().get(first + i).copied().unwrap_or(0);
                self.solve_row(layout, view, solved, i, v, residual, walk);
                stats.value.0 += w * walk.up(layout, class, view.beta);
                walk.down(layout, class, view.beta);
                for (number, node) in layout.nodes.iter().enumerate() {
                    let reach = w * walk.reach[number];
                    let logits = node.first_logit..node.first_logit + node.width();
                    for (share, slope) in walk.share[logits.clone()].iter_mut().zip(&walk.slope[logits.clone()]) {
                        *share = w * *share - reach * slope;
                    }
                    node.units_of(&walk.share[logits], &mut gradient[node.first_unit..node.first_unit + node.units]);
                    curvature[node.first_form..node.first_form + node.forms].iter_mut().for_each(|c| *c *= reach);
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
