//! One visit of the rows: what they do with a question of `ask.rs`.
//!
//! | file | what is asked for |
//! |---|---|
//! | `ask.rs` | questions and answers |
//! | `bound.rs` | bound, gradient and curvature at a q, and products with the curvature |
//! | `likelihood.rs` | the exact likelihood and its gradient |
//! | `gather.rs`, `scatter.rs` | some rows; where the rows of each component lie |
//! | `tight.rs`, `held_out.rs`, `loo.rs` | what the criteria `elbo-tight`, `cv` and `loo` need |
//! | `forms.rs` | quadratic forms and Gram matrices of rows for whole trees |

pub(super) mod ask;
mod bound;
mod forms;
mod gather;
mod held_out;
mod likelihood;
mod loo;
mod scatter;
mod tight;

use super::bound::{Columns, PanelColumns, RowBound, Solver};
use super::covariance::Covariance;
use super::layout::Layout;
use super::program::{Vb, class_of};
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
    fn solve_panel(&self, layout: &Layout, view: &View<'_>, block: &Block<'_>, rows: &mut PanelView<'_, '_>) {
        let PanelView { first, rows: n, m, v, curvature, solver, solved, .. } = rows;
        let Solved { weight, z, slope, phi, rows } = &mut **solved;
        let (first, n, vectors, nodes) = (*first, *n, layout.vectors(), layout.nodes.len());
        weight.clear();
        weight.extend((first..first + n).map(|i| self.weight(block, i, view.fold)));
        for (buffer, width) in [(&mut *z, layout.logits), (&mut *slope, layout.logits), (&mut *phi, nodes)] {
            buffer.resize(n * width, 0.0);
        }
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
                if !node.reaches.is_empty() && !node.reaches[class_of(block, first + i) as usize] {
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

    /// Calls `f` for every panel of a block, with means and forms of its rows.
    pub(super) fn for_view(
        &self,
        layout: &Layout,
        view: &View<'_>,
        block: &Block<'_>,
        scratch: &mut Scratch,
        mut f: impl FnMut(PanelView<'_, '_>),
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
            f(PanelView { first, rows: n, panel, m, v, gradient, curvature, residual, walk, solver, solved, products: &mut products });
            first += n;
        }
    }
}

/// A panel with what was computed of its rows, and buffers for what will be.
pub(super) struct PanelView<'a, 'p> {
    /// Number of its first row in the block.
    pub(super) first: usize,
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

impl PanelView<'_, '_> {
    /// Walks the tree with row `i` of a panel that [`Vb::solve_panel`] solved, and gives what the row says of the whole tree.
    fn walk_row(&mut self, program: &Vb, layout: &Layout, view: &View<'_>, block: &Block<'_>, i: usize) -> f64 {
        let Self { first, m, v, residual, walk, solved, .. } = self;
        let (row, logits, nodes) = (*first + i, layout.logits, layout.nodes.len());
        walk.z.copy_from_slice(&solved.z[i * logits..(i + 1) * logits]);
        walk.slope.copy_from_slice(&solved.slope[i * logits..(i + 1) * logits]);
        walk.phi.copy_from_slice(&solved.phi[i * nodes..(i + 1) * nodes]);
        program.outcomes(block).residuals(row, &m[i * layout.vectors() + layout.units..], residual);
        let outputs = layout.outputs;
        for leaf in 0..layout.gaussians() {
            let precisions = &view.noise[layout.gaussians() + leaf * outputs..][..outputs];
            let spread = v[i * layout.forms + layout.leaf_form() + leaf].max(0.0) * outputs as f64;
            let squares: f64 = precisions.iter().zip(&residual[leaf * outputs..]).map(|(t, e)| t * e * e).sum();
            walk.density[leaf] = view.noise[leaf] - 0.5 * (squares + spread);
        }
        let class = class_of(block, row);
        let value = walk.up(layout, class, view.beta);
        walk.down(layout, class, view.beta);
        value
    }
}
