//! What rows are asked and what they report: the one visit behind every ascent.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use super::bound::{PanelParts, Part, RowBound, Solver};
use super::forms::Products;
use super::gather::Gathered;
use super::layout::Layout;
use super::node::Covariance;
use super::tree::Tree;
use super::vb::Vb;
use super::walk::Walk;
use crate::data::design::{Panel, PanelScratch, blocks_rows, packed_len, packed_rows};
use crate::merge_fields;
use crate::run::{Block, Sum};

/// What the rows need to know of q.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct View<'a> {
    /// Means of all units, then of the linear models of the leaves, one a row.
    pub mean: Cow<'a, [f64]>,
    /// Quadratic forms of all nodes, then of the leaves.
    pub forms: Cow<'a, [f64]>,
    /// Σ_q ½(E ln τ_q − ln 2π) of each leaf, then E τ_q of each leaf and output, then the shape of q(τ) of each leaf.
    pub noise: Cow<'a, [f64]>,
    /// Basis of low-rank covariances, one direction a row; empty without them.
    pub basis: Cow<'a, [f64]>,
    /// Inverse temperature.
    pub beta: f64,
    /// Rows to leave out.
    pub fold: Option<Fold>,
}

/// One part of the rows, chosen by a hash of their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fold {
    /// Which part.
    pub index: u32,
    /// Of how many.
    pub of: u32,
}

impl Fold {
    /// Whether a row belongs to this part.
    pub fn holds(self, row: u64) -> bool {
        // the finaliser of splitmix64: neighbouring rows go to unrelated parts
        let mut z = row.wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % u64::from(self.of) == u64::from(self.index)
    }
}

/// What the rows are asked.
#[derive(Debug, Serialize, Deserialize)]
pub enum Ask<'a> {
    /// Log likelihood and gradient at these weights (and log noise precisions).
    Likelihood {
        /// The tree.
        tree: Cow<'a, Tree>,
        /// Its parameters, as `map.rs` lays them out.
        weights: Cow<'a, [f64]>,
        /// Rows to leave out.
        fold: Option<Fold>,
    },
    /// Bound, gradient and curvature at this q.
    Bound {
        /// The tree.
        tree: Cow<'a, Tree>,
        /// q.
        view: View<'a>,
    },
    /// Products of the curvature at this q with one vector a unit.
    Products {
        /// The tree.
        tree: Cow<'a, Tree>,
        /// q.
        view: View<'a>,
        /// The vectors.
        vectors: Cow<'a, [f64]>,
    },
    /// Σ w x̃ (x̃ᵀp) for some vectors p.
    Spread {
        /// The vectors, one a row.
        probes: Cow<'a, [f64]>,
    },
    /// ½ Σ w x̃x̃ᵀ, packed.
    Gram {
        /// Rows to leave out.
        fold: Option<Fold>,
    },
    /// Some rows, chosen by a hash of their numbers.
    Gather {
        /// How many of each class (or in all, for real outcomes).
        each: usize,
        /// Names the choice.
        key: u64,
    },
    /// For each leaf, the sum of shares, of x̃ and of x̃x̃ᵀ weighted by them.
    Scatter {
        /// The tree.
        tree: Cow<'a, Tree>,
        /// q.
        view: View<'a>,
    },
    /// Expected log likelihood under the exact softmax, by sampling.
    Tight {
        /// The tree.
        tree: Cow<'a, Tree>,
        /// q.
        view: View<'a>,
        /// Names the draws.
        key: u64,
    },
    /// Log loss and errors of the rows of a fold, under posterior means of probabilities.
    HeldOut {
        /// The tree.
        tree: Cow<'a, Tree>,
        /// q, fitted without the fold.
        view: View<'a>,
    },
}

/// What the rows report; which fields are filled in depends on the question.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TreeStats {
    /// Curvature of all nodes, then Gram matrices of the leaves, as the forms are laid out.
    pub curvature: Sum<Vec<f64>>,
    /// Gradient of all units, then Σ r e x̃ of the leaves, one vector a row.
    pub gradient: Sum<Vec<f64>>,
    /// The rows' part of the objective.
    pub value: Sum<f64>,
    /// Sum of shares of each leaf.
    pub shares: Sum<Vec<f64>>,
    /// Σ r e² of each leaf and output.
    pub squares: Sum<Vec<f64>>,
    /// Rows that were asked for.
    pub gathered: Gathered,
}
merge_fields!(TreeStats, curvature, gradient, value, shares, squares, gathered);

/// What a block keeps from one visit of a sweep to the next: curvatures of its rows, for products with them. Made anew where
/// missing, so it is never saved.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Local {
    #[serde(skip)]
    curvature: Vec<f64>,
}

/// Buffers of a visit.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(super) panel: PanelScratch,
    projected: PanelScratch,
    pub(super) m: Vec<f64>,
    pub(super) v: Vec<f64>,
    gradient: Vec<f64>,
    curvature: Vec<f64>,
    part: Vec<f64>,
    along: Vec<f64>,
    norm: Vec<f64>,
    residual: Vec<f64>,
    pub(super) walk: Walk,
    solver: Solver,
    solved: Solved,
    pub(super) rows: crate::model::gated::rows::Scratch,
}

/// Weights of the rows of a panel, and what the bounds of all nodes say of them.
#[derive(Debug, Default)]
pub(super) struct Solved {
    weight: Vec<f64>,
    /// Means of the logits.
    z: Vec<f64>,
    slope: Vec<f64>,
    phi: Vec<f64>,
    /// Rows that reach a node.
    rows: Vec<usize>,
}

impl Scratch {
    /// v (n×K): the forms of every row of a panel.
    pub(super) fn quadratics(&mut self, panel: &mut Panel<'_>, layout: &Layout, view: &View<'_>, v: &mut [f64]) {
        let Self { projected, part, along, norm, .. } = self;
        let mut products = Products { projected, part, along, norm };
        products.project(panel, layout, &view.basis);
        products.quadratics(panel, layout, &view.forms, v);
    }
}

/// Real outcome of a row, standardised.
pub(super) struct Outcomes<'a> {
    values: &'a [f64],
    mean: &'a [f64],
    scale: &'a [f64],
}

impl Outcomes<'_> {
    pub(super) fn get(&self, row: usize, q: usize) -> f64 {
        (self.values[row * self.mean.len() + q] - self.mean[q]) / self.scale[q]
    }
}

/// Rows of a panel that suit a layout.
pub(super) fn panel_rows(layout: &Layout) -> usize {
    layout
        .nodes
        .iter()
        .map(|n| match n.covariance {
            Covariance::Blocks(width) => blocks_rows(layout.dim, width),
            Covariance::LowRank(_) => 512,
            _ => packed_rows(layout.dim, layout.forms),
        })
        .min()
        .unwrap_or_else(|| packed_rows(layout.dim, layout.forms.max(1)))
}

impl Vb {
    /// Weight of a row: its own, its class's, and nothing in a fold that is left out.
    pub(super) fn weight(&self, block: &Block<'_>, i: usize, fold: Option<Fold>) -> f64 {
        if fold.is_some_and(|f| f.holds(block.first_row + i as u64)) {
            return 0.0;
        }
        let class = if self.class_weight.is_empty() { 1.0 } else { self.class_weight[block.y.classes()[i] as usize] };
        block.weight(i) * class
    }

    pub(super) fn outcomes<'a>(&'a self, block: &Block<'a>) -> Outcomes<'a> {
        Outcomes { values: block.y.real(), mean: &self.y_mean, scale: &self.y_scale }
    }

    /// Bounds of all nodes for all rows of a panel that count; curvatures are 0 where a row cannot get to.
    fn solve_panel(&self, layout: &Layout, view: &View<'_>, block: &Block<'_>, first: usize, rows: &mut PanelView<'_, '_>) {
        let PanelView { rows: n, m, v, curvature, solver, solved, .. } = rows;
        let Solved { weight, z, slope, phi, rows } = &mut **solved;
        let (n, vectors, nodes) = (*n, layout.vectors(), layout.nodes.len());
        weight.clear();
        weight.extend((first..first + n).map(|i| self.weight(block, i, view.fold)));
        for (buffer, width) in [(&mut *z, layout.logits), (&mut *slope, layout.logits), (&mut *phi, nodes)] {
            buffer.resize(n * width, 0.0);
        }
        let classes = block.y.classes();
        for (number, node) in layout.nodes.iter().enumerate() {
            let logits = |all| Part { all, stride: layout.logits, first: node.first_logit, width: node.width() };
            let forms = |all| Part { all, stride: layout.forms, first: node.first_form, width: node.forms };
            let phi = Part { all: &mut phi[..], stride: nodes, first: number, width: 1 };
            let mut parts = PanelParts {
                m: logits(&mut z[..]),
                v: forms(&mut v[..]),
                slope: logits(&mut slope[..]),
                curvature: forms(&mut curvature[..]),
                phi,
            };
            rows.clear();
            for i in (0..n).filter(|i| weight[*i] != 0.0) {
                node.logits_of(&m[i * vectors + node.first_unit..][..node.units], parts.m.row(i));
                if !node.reaches.is_empty() && !node.reaches[classes.get(first + i).copied().unwrap_or(0) as usize] {
                    parts.phi.row(i)[0] = 0.0;
                    parts.slope.row(i).fill(0.0);
                    parts.curvature.row(i).fill(0.0);
                    continue;
                }
                rows.push(i);
                let v = parts.v.row(i);
                if node.bound == RowBound::TiltedJoint {
                    (0..node.width()).for_each(|c| v[packed_len(c) + c] = v[packed_len(c) + c].max(0.0));
                } else {
                    v.iter_mut().for_each(|v| *v = v.max(0.0));
                }
            }
            solver.panel(node.bound, rows, parts);
        }
    }

    /// Bounds of the nodes of a row into the walk, and log densities of its leaves. `v` are the row's forms.
    fn solve_row(&self, layout: &Layout, view: &View<'_>, solved: &Solved, i: usize, v: &[f64], residual: &[f64], walk: &mut Walk) {
        walk.z.copy_from_slice(&solved.z[i * layout.logits..(i + 1) * layout.logits]);
        walk.slope.copy_from_slice(&solved.slope[i * layout.logits..(i + 1) * layout.logits]);
        walk.phi.copy_from_slice(&solved.phi[i * layout.nodes.len()..(i + 1) * layout.nodes.len()]);
        let outputs = layout.outputs;
        for leaf in 0..layout.gaussians() {
            let precisions = &view.noise[layout.gaussians() + leaf * outputs..][..outputs];
            let spread = v[layout.leaf_form() + leaf].max(0.0) * outputs as f64;
            let squares: f64 = precisions.iter().zip(&residual[leaf * outputs..]).map(|(t, e)| t * e * e).sum();
            walk.density[leaf] = view.noise[leaf] - 0.5 * (squares + spread);
        }
    }

    /// Calls `f(first row, rows of the panel, panel, m, v, …)` for every panel of a block, with means and forms of its rows.
    pub(super) fn for_view(
        &self,
        layout: &Layout,
        view: &View<'_>,
        block: &Block<'_>,
        scratch: &mut Scratch,
        mut f: impl FnMut(usize, PanelView<'_, '_>),
    ) {
        let Scratch { panel: buffers, projected, m, v, gradient, curvature, part, along, norm, residual, walk, solver, solved, .. } =
            scratch;
        walk.resize(layout);
        let (vectors, forms) = (layout.vectors(), layout.forms);
        let mut products = Products { projected, part, along, norm };
        let height = panel_rows(layout);
        let mut first = 0;
        while first < block.rows() {
            let n = height.min(block.rows() - first);
            for (buffer, width) in [(&mut *m, vectors), (&mut *v, forms), (&mut *gradient, vectors), (&mut *curvature, forms)] {
                buffer.resize(n * width, f64::NAN);
            }
            residual.resize(layout.gaussians() * layout.outputs, 0.0);
            let mut panel = self.design.panel(block.x.slice(first..first + n), buffers);
            panel.mul_t(&view.mean, vectors, m);
            products.project(&mut panel, layout, &view.basis);
            products.quadratics(&mut panel, layout, &view.forms, v);
            f(first, PanelView { rows: n, panel, m, v, gradient, curvature, residual, walk, solver, solved, products: &mut products });
            first += n;
        }
    }

    /// Bound of the rows of a block.
    pub(super) fn visit_bound(
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
    pub(super) fn visit_products(
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
    pub(super) fn visit_spread(&self, probes: &[f64], block: &Block<'_>, scratch: &mut Scratch) -> TreeStats {
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
    pub(super) fn visit_gram(&self, fold: Option<Fold>, block: &Block<'_>, scratch: &mut Scratch) -> TreeStats {
        let mut curvature = vec![0.0; packed_len(self.design.dim())];
        let weights: Vec<f64> = (0..block.rows()).map(|i| 0.5 * self.weight(block, i, fold)).collect();
        self.design.panel(block.x, &mut scratch.panel).weighted_grams_add(&weights, 1, &mut curvature);
        TreeStats { curvature: Sum(curvature), ..TreeStats::default() }
    }
}

impl Vb {
    /// Calls `f(row of the panel, its weight, share of each leaf)` for every row that counts, and gives the panel back.
    pub(super) fn for_shares<'a>(
        &self,
        layout: &Layout,
        view: &View<'_>,
        block: &Block<'_>,
        first: usize,
        mut rows: PanelView<'a, '_>,
        mut f: impl FnMut(usize, f64, &[f64]),
    ) -> Panel<'a> {
        self.solve_panel(layout, view, block, first, &mut rows);
        let PanelView { rows: n, panel, m, v, residual, walk, solved, .. } = rows;
        let (vectors, forms, outputs) = (layout.vectors(), layout.forms, layout.outputs);
        let y = self.outcomes(block);
        for i in 0..n {
            let w = solved.weight[i];
            if w == 0.0 {
                continue;
            }
            let (m, v) = (&m[i * vectors..(i + 1) * vectors], &v[i * forms..(i + 1) * forms]);
            for (at, e) in residual.iter_mut().enumerate() {
                *e = y.get(first + i, at % outputs) - m[layout.units + at];
            }
            let class = block.y.classes().get(first + i).copied().unwrap_or(0);
            self.solve_row(layout, view, solved, i, v, residual, walk);
            walk.up(layout, class, view.beta);
            walk.down(layout, class, view.beta);
            f(i, w, &walk.leaf);
        }
        panel
    }
}

/// A panel with what was computed of its rows, and buffers for what will be.
pub(super) struct PanelView<'a, 'p> {
    pub(super) rows: usize,
    pub(super) panel: Panel<'a>,
    pub(super) m: &'a [f64],
    pub(super) v: &'a mut [f64],
    pub(super) gradient: &'a mut [f64],
    pub(super) curvature: &'a mut [f64],
    pub(super) residual: &'a mut [f64],
    pub(super) walk: &'a mut Walk,
    solver: &'a mut Solver,
    solved: &'a mut Solved,
    products: &'a mut Products<'p>,
}
