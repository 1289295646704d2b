//! The expected log likelihood under the exact softmax, sampled: Σ_n w_n E_q ln P(y_n | x_n, W).
//!
//! It takes the place of the rows' part of L and is at least as large: neither is the log-sum-exp bounded, nor are paths given factors of
//! their own, so L with it is a lower bound on the log evidence that does not depend on `bound`. Logits are drawn, not weights: one normal
//! a child and node, for Gaussian leaves one normal and the noise precision an output. Draws come in antithetic pairs (the same precisions,
//! the opposite normals) from a stream named by the number of the row, so the result is the same however rows are split into
//! blocks. Rows draw independently: squared standard errors add up.

use rand_distr::{Distribution, StandardNormal};
use std::f64::consts::PI;

use super::expect::{factorise, shift, spread_of};
use super::layout::Layout;
use super::pass::{PanelView, Scratch, TreeStats, View};
use super::vb::Vb;
use super::walk::Walk;
use crate::Result;
use crate::dist::Gamma;
use crate::run::{Block, Philox, Purpose, Stream, Sum};
use crate::special::log_sum_exp;

/// Antithetic pairs of a row.
const PAIRS: usize = 100;

impl Vb {
    /// The sum over the rows of a block in `value`, and its squared standard error in the one entry of `shares`.
    pub(super) fn visit_tight(&self, layout: &Layout, view: &View<'_>, key: u64, block: &Block<'_>, scratch: &mut Scratch) -> Result<TreeStats> {
        let (vectors, forms, outputs) = (layout.vectors(), layout.forms, layout.outputs);
        let stream = Stream::new(key, 0, Purpose::Score).sweep(1);
        let mut draws = Draws::new(layout, view)?;
        let (mut value, mut square) = (0.0, 0.0);
        let y = self.outcomes(block);
        self.for_view(layout, view, block, scratch, |first, rows| {
            let PanelView { rows: n, m, v, residual, walk, .. } = rows;
            for i in 0..n {
                let w = self.weight(block, first + i, view.fold);
                if w == 0.0 {
                    continue;
                }
                let (m, v) = (&m[i * vectors..(i + 1) * vectors], &mut v[i * forms..(i + 1) * forms]);
                for (at, e) in residual.iter_mut().enumerate() {
                    *e = y.get(first + i, at % outputs) - m[layout.units + at];
                }
                let class = block.y.classes().get(first + i).copied().unwrap_or(0);
                draws.prepare(layout, m, v);
                let mut rng = stream.item(block.first_row + (first + i) as u64).rng();
                let (mut mean, mut sum) = (0.0, 0.0);
                for pair in 1..=PAIRS {
                    draws.draw(layout, &mut rng);
                    let both = 0.5 * (draws.ln_likelihood(layout, 1.0, residual, class, walk) + draws.ln_likelihood(layout, -1.0, residual, class, walk));
                    let away = both - mean;
                    mean += away / pair as f64;
                    sum += away * (both - mean);
                }
                value += w * mean;
                square += w * w * sum / (PAIRS * (PAIRS - 1)) as f64;
            }
        });
        Ok(TreeStats { value: Sum(value), shares: Sum(vec![square]), ..TreeStats::default() })
    }
}

/// One pair of draws after the other for one row after the other.
struct Draws {
    /// Noise precision of each leaf and output.
    noise: Vec<Gamma>,
    /// Logits at their means.
    z: Vec<f64>,
    /// Factor of their covariance, for each node.
    factors: Vec<Vec<f64>>,
    /// √(x̃ᵀΛ⁻¹x̃) of each leaf.
    spread: Vec<f64>,
    normals: Vec<f64>,
    /// How far each logit is from its mean.
    away: Vec<f64>,
    /// Logarithm of the noise precision, and a standard normal, of each leaf and output.
    leaves: Vec<(f64, f64)>,
    buffer: Vec<f64>,
}

impl Draws {
    fn new(layout: &Layout, view: &View<'_>) -> Result<Self> {
        let (gaussians, outputs) = (layout.gaussians(), layout.outputs);
        let noise = |at: usize| {
            let shape = view.noise[gaussians * (1 + outputs) + at / outputs];
            Gamma::new(shape, shape / view.noise[gaussians + at])
        };
        Ok(Self {
            noise: (0..gaussians * outputs).map(noise).collect::<std::result::Result<_, _>>()?,
            z: vec![0.0; layout.logits],
            factors: vec![Vec::new(); layout.nodes.len()],
            spread: vec![0.0; gaussians],
            normals: vec![0.0; layout.logits],
            away: vec![0.0; layout.logits],
            leaves: vec![(0.0, 0.0); gaussians * outputs],
            buffer: Vec::new(),
        })
    }

    /// Means and covariances of a row.
    fn prepare(&mut self, layout: &Layout, m: &[f64], v: &mut [f64]) {
        for (node, factor) in layout.nodes.iter().zip(&mut self.factors) {
            let logits = node.first_logit..node.first_logit + node.width();
            node.logits_of(&m[node.first_unit..node.first_unit + node.units], &mut self.z[logits]);
            factorise(spread_of(node, &mut v[node.first_form..node.first_form + node.forms], &mut self.buffer), factor);
        }
        self.spread.iter_mut().zip(&v[layout.leaf_form()..]).for_each(|(s, v)| *s = v.max(0.0).sqrt());
    }

    fn draw(&mut self, layout: &Layout, rng: &mut Philox) {
        self.normals.iter_mut().for_each(|e| *e = StandardNormal.sample(rng));
        for (node, factor) in layout.nodes.iter().zip(&self.factors) {
            let logits = node.first_logit..node.first_logit + node.width();
            shift(factor, &self.normals[logits.clone()], &mut self.away[logits]);
        }
        for (leaf, noise) in self.leaves.iter_mut().zip(&self.noise) {
            *leaf = (noise.sample_ln(rng), StandardNormal.sample(rng));
        }
    }

    /// ln P(y | x, W) at the draw, or (sign −1) at its opposite.
    fn ln_likelihood(&self, layout: &Layout, sign: f64, residual: &[f64], class: u32, walk: &mut Walk) -> f64 {
        for ((to, z), away) in walk.z.iter_mut().zip(&self.z).zip(&self.away) {
            *to = z + sign * away;
        }
        for (node, phi) in layout.nodes.iter().zip(&mut walk.phi) {
            *phi = log_sum_exp(&walk.z[node.first_logit..node.first_logit + node.width()]);
        }
        let outputs = layout.outputs.max(1);
        let leaves = self.leaves.chunks_exact(outputs).zip(residual.chunks_exact(outputs));
        for ((density, spread), (draws, residual)) in walk.density.iter_mut().zip(&self.spread).zip(leaves) {
            // with η from N(m, (τΛ)⁻¹), √τ(y − ηᵀx̃) = √τ(y − mᵀx̃) − √(x̃ᵀΛ⁻¹x̃) e
            let term = |((ln_tau, e), residual): (&(f64, f64), &f64)| {
                let standard = (0.5 * ln_tau).exp() * residual - sign * spread * e;
                0.5 * (ln_tau - (2.0 * PI).ln() - standard * standard)
            };
            *density = draws.iter().zip(residual).map(term).sum();
        }
        walk.up(layout, class, 1.0)
    }
}
