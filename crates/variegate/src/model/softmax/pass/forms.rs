//! Quadratic forms and Gram matrices of rows for whole trees, whatever the form of each node's covariance.
//!
//! Nodes with whole matrices take one product for all of them together; a tree with other forms goes node by node.

use super::super::covariance::Covariance;
use super::super::layout::Layout;
use crate::data::design::{Panel, PanelScratch, packed_len};
use crate::data::{Design, X};

/// Forms that belong together: those of a node, or of all Gaussian leaves.
struct FormGroup {
    /// Place of the first among the forms of a row.
    first: usize,
    /// How many.
    count: usize,
    /// Their numbers in the vector of all matrices.
    matrices: std::ops::Range<usize>,
    covariance: Covariance,
}

fn groups(layout: &Layout) -> impl Iterator<Item = FormGroup> {
    let nodes = layout.nodes.iter().map(|node| FormGroup {
        first: node.first_form,
        count: node.forms,
        matrices: node.matrices.clone(),
        covariance: node.covariance,
    });
    let leaves = FormGroup {
        first: layout.leaf_form(),
        count: layout.gaussians(),
        matrices: layout.matrices - layout.gaussians() * packed_len(layout.dim)..layout.matrices,
        covariance: Covariance::Child,
    };
    nodes.chain([leaves]).filter(|group| group.count > 0)
}

/// Products of the rows of a panel with forms and weights, whatever the form of the covariances.
pub(super) struct Products<'a> {
    pub(super) projected: &'a mut PanelScratch,
    pub(super) part: &'a mut Vec<f64>,
    pub(super) along: &'a mut Vec<f64>,
    pub(super) norm: &'a mut Vec<f64>,
}

impl Products<'_> {
    /// Prepares Qᵀx̃ and ‖x̃‖² where a covariance of the layout needs them.
    pub(super) fn project(&mut self, panel: &mut Panel<'_>, layout: &Layout, basis: &[f64]) {
        if let Some(rank) = layout.rank() {
            self.along.resize(panel.rows() * rank, 0.0);
            panel.mul_t(basis, rank, self.along);
            self.norm.resize(panel.rows(), 0.0);
            panel.block_quadratics(1, &vec![1.0; layout.dim], 1, self.norm);
        }
    }

    /// v (n×K): the forms of every row. Rounding can leave one that is a variance just below 0; callers clip.
    pub(super) fn quadratics(&mut self, panel: &mut Panel<'_>, layout: &Layout, forms: &[f64], v: &mut [f64]) {
        let (n, all) = (panel.rows(), layout.forms);
        if all == 0 {
            return;
        }
        if !layout.needs_products() {
            panel.quadratics(forms, all, v);
            return;
        }
        for FormGroup { first, count: k, matrices, covariance } in groups(layout) {
            self.part.resize(n * k, 0.0);
            let part = &mut self.part[..n * k];
            let forms = &forms[matrices];
            match covariance {
                Covariance::Blocks(width) => panel.block_quadratics(width, forms, k, part),
                Covariance::LowRank(rank) => {
                    let len = packed_len(rank) + 1;
                    let packed: Vec<f64> = forms.chunks_exact(len).flat_map(|f| &f[..len - 1]).copied().collect();
                    let design = Design::identity(rank, false);
                    design.panel(X::Dense { rows: n, cols: rank, values: self.along }, self.projected).quadratics(&packed, k, part);
                    for (part, norm) in part.chunks_exact_mut(k).zip(self.norm.iter()) {
                        part.iter_mut().zip(forms.chunks_exact(len)).for_each(|(p, f)| *p += f[len - 1] * norm);
                    }
                }
                _ => panel.quadratics(forms, k, part),
            }
            for (v, part) in v.chunks_exact_mut(all).zip(part.chunks_exact(k)) {
                v[first..first + k].copy_from_slice(part);
            }
        }
    }

    /// out += Σ_n c_n x̃x̃ᵀ in the layout of the forms, for weights c (n×K).
    pub(super) fn grams_add(&mut self, panel: &mut Panel<'_>, layout: &Layout, c: &[f64], out: &mut [f64]) {
        let (n, all) = (panel.rows(), layout.forms);
        if all == 0 {
            return;
        }
        if !layout.needs_products() {
            panel.weighted_grams_add(c, all, out);
            return;
        }
        for FormGroup { first, count: k, matrices, covariance } in groups(layout) {
            self.part.resize(n * k, 0.0);
            for (c, part) in c.chunks_exact(all).zip(self.part.chunks_exact_mut(k)) {
                part.copy_from_slice(&c[first..first + k]);
            }
            let (part, out) = (&self.part[..n * k], &mut out[matrices]);
            match covariance {
                Covariance::Blocks(width) => panel.block_grams_add(width, part, k, out),
                Covariance::LowRank(rank) => {
                    let len = packed_len(rank) + 1;
                    let mut packed = vec![0.0; k * (len - 1)];
                    let design = Design::identity(rank, false);
                    let x = X::Dense { rows: n, cols: rank, values: self.along };
                    design.panel(x, self.projected).weighted_grams_add(part, k, &mut packed);
                    for (out, packed) in out.chunks_exact_mut(len).zip(packed.chunks_exact(len - 1)) {
                        out.iter_mut().zip(packed).for_each(|(o, p)| *o += p);
                    }
                    for (part, norm) in part.chunks_exact(k).zip(self.norm.iter()) {
                        out.chunks_exact_mut(len).zip(part).for_each(|(o, c)| o[len - 1] += c * norm);
                    }
                }
                _ => panel.weighted_grams_add(part, k, out),
            }
        }
    }
}
