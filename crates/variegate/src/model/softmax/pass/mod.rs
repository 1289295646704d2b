//! One visit of the rows: what they do with a question of `ask.rs`.
//!
//! | file | what is asked for |
//! |---|---|
//! | `ask.rs` | questions and answers |
//! | `bound.rs` | bound, gradient and curvature at a q, and products with the curvature |
//! | `likelihood.rs` | the exact likelihood and its gradient |
//! | `gather.rs`, `scatter.rs` | some rows; where the rows of each component lie |
//! | `tight.rs`, `held_out.rs` | what the criteria `elbo-tight` and `cv` need |
//! | `forms.rs` | quadratic forms and Gram matrices of rows for whole trees |

pub(super) mod ask;
mod bound;
mod forms;
mod gather;
mod held_out;
mod likelihood;
mod scatter;
mod tight;

use super::bound::{Columns, PanelColumns, RowBound, Solver};
use super::covariance::Covariance;
use super::layout::Layout;
use super::program::Vb;
use super::walk::Walk;
use crate::data::design::{Panel, PanelScratch, blocks_rows, packed_len, packed_rows};
use crate::run::Block;
use ask::View;
use forms::Products;

/// Buffers of a visit.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
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
            let logits = |all| Columns { all, stride: layout.logits, first: node.first_logit, width: node.width() };
            let forms = |all| Columns { all, stride: layout.forms, first: node.first_form, width: node.forms };
            let phi = Columns { all: &mut phi[..], stride: nodes, first: number, width: 1 };
            let mut parts = PanelColumns {
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
