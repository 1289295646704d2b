//! What rows are asked and what they report: one visit gives the bound of q and all that its next update needs.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use super::Vb;
use super::fit::Fit;
use super::tile::Tile;
use crate::data::X;
use crate::data::design::{PanelScratch, packed_len};
use crate::linalg::wide;
use crate::merge_fields;
use crate::model::experts::settings::GateBound;
use crate::model::experts::shape::Shape;
use crate::model::gated::rows::{Scratch as LikelihoodScratch, likelihood};
use crate::run::{Block, Sum};

/// Rows of a dense panel: products of panels stay in the second-level cache.
const PANEL: usize = 256;

/// What the rows need to know of q. Vectors are those of the experts, one a contrast row, then those of the gates; components are the
/// experts, then the gates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct View<'a> {
    /// â of each vector, with a zero for the intercept where there is one.
    pub directions: Cow<'a, [f64]>,
    /// Mean intercept of each vector.
    pub intercepts: Cow<'a, [f64]>,
    /// E g A of each component.
    pub scale: Cow<'a, [f64]>,
    /// E g² ρJ/P: what |x|² counts in the second moment.
    pub isotropic: Cow<'a, [f64]>,
    /// E g² (1 − ρ): what |Âx|² counts.
    pub along: Cow<'a, [f64]>,
    /// Sum of the intercepts' variances.
    pub variance: Cow<'a, [f64]>,
}

impl View<'_> {
    /// Of a fit.
    pub(crate) fn of(fit: &Fit, shape: &Shape) -> View<'static> {
        let (p, d) = (shape.inputs, shape.dim());
        let sides = [&fit.experts, &fit.gates];
        let factors = || sides.iter().flat_map(|s| &s.factors);
        let mut directions = Vec::with_capacity((shape.experts * shape.rows() + shape.gates()) * d);
        let mut intercepts = Vec::new();
        for f in factors() {
            for (j, a) in f.direction.chunks_exact(p).enumerate() {
                directions.extend_from_slice(a);
                directions.resize(directions.len() + d - p, 0.0);
                intercepts.push(f.intercepts.get(j).copied().unwrap_or(0.0));
            }
        }
        let of = |value: fn(f64, f64, f64, f64) -> f64| -> Vec<f64> {
            factors()
                .map(|f| {
                    let m = f.moments();
                    value(m.size, m.square, m.along.mean, m.along.rho)
                })
                .collect()
        };
        let mut isotropic = of(|_, square, _, rho| square * rho);
        // ρJ/P = ρ/p
        isotropic.iter_mut().for_each(|v| *v /= p as f64);
        View {
            directions: directions.into(),
            intercepts: intercepts.into(),
            scale: of(|size, _, a, _| size * a).into(),
            isotropic: isotropic.into(),
            along: of(|_, square, _, rho| square * (1.0 - rho)).into(),
            variance: factors().map(|f| f.intercepts.len() as f64 * f.variance).collect::<Vec<_>>().into(),
        }
    }
}

/// What the rows are asked.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Ask<'a> {
    /// Bound, slopes and curvatures at this q.
    Bound(View<'a>),
    /// Log likelihood of these weights (`shape.rs`) and its gradient.
    Likelihood(Cow<'a, [f64]>),
    /// Σ x̃x̃ᵀ.
    Gram,
    /// Σ x̃ (x̃·v), and the total weight.
    Product(Cow<'a, [f64]>),
}

/// What the rows report; which fields are filled in depends on the question.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stats {
    /// The rows' part of the objective.
    pub value: Sum<f64>,
    /// Σ g x̃ of each vector, or the gradient, or a product.
    pub linear: Sum<Vec<f64>>,
    /// Σ w x̃x̃ᵀ, one pair of columns a row and one component a column.
    pub grams: Sum<Vec<f64>>,
    /// Σ w (â·x) x̃ of each vector.
    pub along: Sum<Vec<f64>>,
    /// Σ w x̃ of each component.
    pub sums: Sum<Vec<f64>>,
    /// Σ w |x|² of each component.
    pub traces: Sum<Vec<f64>>,
    /// Σ w |Âx|² of each component.
    pub squares: Sum<Vec<f64>>,
    /// Sum of the shares of each expert.
    pub shares: Sum<Vec<f64>>,
    /// Σ π(1 − π) of each gate, π its probability at the means.
    pub open: Sum<Vec<f64>>,
    /// Sum of the rows' weights.
    pub weight: Sum<f64>,
}
merge_fields!(Stats, value, linear, grams, along, sums, traces, squares, shares, open, weight);

/// Buffers of a visit.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) panel: PanelScratch,
    /// â·x of each vector; then w â·x.
    scores: Vec<f64>,
    /// g of each vector.
    slopes: Vec<f64>,
    /// w of each component that needs one.
    curvatures: Vec<f64>,
    norms: Vec<f64>,
    tile: Tile,
    likelihood: LikelihoodScratch,
}

impl Vb {
    /// Vectors of all components.
    pub(super) fn vectors(&self) -> usize {
        self.shape.experts * self.shape.rows() + self.shape.gates()
    }

    /// Components whose curvature the rows report.
    pub(super) fn curved(&self) -> usize {
        let fixed = self.grams && self.gate_bound == GateBound::Bohning;
        self.shape.experts + if fixed { 0 } else { self.shape.gates() }
    }

    /// What no rows say of q.
    pub(super) fn no_rows(&self) -> Stats {
        let (d, vectors, curved) = (self.shape.dim(), self.vectors(), self.curved());
        let zeros = |n: usize| Sum(vec![0.0; n]);
        let stats =
            Stats { linear: zeros(vectors * d), shares: zeros(self.shape.experts), open: zeros(self.shape.gates()), ..Stats::default() };
        if self.grams {
            return Stats { grams: zeros(packed_len(d) * curved), ..stats };
        }
        Stats { along: zeros(vectors * d), sums: zeros(curved * d), traces: zeros(curved), squares: zeros(curved), ..stats }
    }

    pub(super) fn visit_bound(&self, view: &View<'_>, block: &Block<'_>, scratch: &mut Scratch) -> Stats {
        let (d, vectors, curved, whole) = (self.shape.dim(), self.vectors(), self.curved(), self.grams);
        let mut stats = self.no_rows();
        let n = block.rows();
        // sparse rows need no panel of their own
        let step = if matches!(block.x, X::Csr { .. }) && self.design.map.is_none() { n.max(1) } else { PANEL };
        for from in (0..n).step_by(step) {
            let to = (from + step).min(n);
            let rows = to - from;
            let Scratch { panel, scores, slopes, curvatures, norms, tile, .. } = &mut *scratch;
            scores.resize(rows * vectors, f64::NAN);
            slopes.resize(rows * vectors, f64::NAN);
            curvatures.resize(rows * curved, f64::NAN);
            norms.resize(rows, f64::NAN);
            let mut panel = self.design.panel(block.x.slice(from..to), panel);
            panel.mul_t(&view.directions, vectors, scores);
            let mut ones = vec![1.0; d];
            if self.shape.bias {
                ones[d - 1] = 0.0;
            }
            panel.block_quadratics(1, &ones, 1, norms);
            tile.resize(&self.shape);
            wide(
                #[inline(always)]
                || self.bound_rows(view, block, from, scores, slopes, curvatures, norms, tile, &mut stats),
            );
            panel.t_mul_add(slopes, vectors, &mut stats.linear.0);
            if whole {
                panel.paired_grams_add(curvatures, curved, &mut stats.grams.0);
            } else {
                panel.t_mul_add(curvatures, curved, &mut stats.sums.0);
                panel.t_mul_add(scores, vectors, &mut stats.along.0);
            }
        }
        stats
    }

    pub(super) fn visit_likelihood(&self, weights: &[f64], block: &Block<'_>, scratch: &mut Scratch) -> Stats {
        let found = likelihood(&self.design, &self.shape.gated(), weights, block, |i| block.weight(i), &mut scratch.likelihood);
        Stats { value: found.value, linear: found.gradient, ..Stats::default() }
    }

    pub(super) fn visit_gram(&self, block: &Block<'_>, scratch: &mut Scratch) -> Stats {
        let weights: Vec<f64> = (0..block.rows()).map(|i| block.weight(i)).collect();
        let mut panel = self.design.panel(block.x, &mut scratch.panel);
        let mut grams = vec![0.0; packed_len(self.shape.dim())];
        panel.paired_grams_add(&weights, 1, &mut grams);
        Stats { grams: Sum(grams), weight: Sum(weights.iter().sum()), ..Stats::default() }
    }

    pub(super) fn visit_product(&self, vector: &[f64], block: &Block<'_>, scratch: &mut Scratch) -> Stats {
        let mut panel = self.design.panel(block.x, &mut scratch.panel);
        let mut scores = vec![0.0; block.rows()];
        panel.mul_t(vector, 1, &mut scores);
        let mut weight = 0.0;
        for (i, s) in scores.iter_mut().enumerate() {
            weight += block.weight(i);
            *s *= block.weight(i);
        }
        let mut linear = vec![0.0; self.shape.dim()];
        panel.t_mul_add(&scores, 1, &mut linear);
        Stats { linear: Sum(linear), weight: Sum(weight), ..Stats::default() }
    }
}
