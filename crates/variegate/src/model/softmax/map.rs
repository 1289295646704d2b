//! Where the variational fit starts: the weights that maximise Σ ln p(y_n | x_n, W) − ½ρ‖W‖² under the exact softmax.
//!
//! The objective is concave, so L-BFGS from W = 0 finds the one maximum; ρ > 0 keeps it finite where classes can be separated.

use super::Vb;
use super::tilted::softmax;
use super::vb::{Ask, Scratch};
use crate::Result;
use crate::infer::lbfgs::{LbfgsSettings, Minimum, minimise};
use crate::run::{Block, Rows, Sum};
use std::borrow::Cow;

use super::node::NodeStats;

/// A start needs no more digits than this: the fit moves on from it.
fn settings() -> LbfgsSettings {
    LbfgsSettings { memory: 20, max_iterations: 500, gradient_tolerance: 1e-6, value_tolerance: 1e-9, ..LbfgsSettings::default() }
}

/// Minus the objective and its gradient at W (S×D).
pub fn objective(program: &Vb, rows: &mut dyn Rows<Vb>, weights: &[f64], gradient: &mut [f64]) -> Result<f64> {
    let stats = rows.all(&Ask::Likelihood(Cow::Borrowed(weights)))?;
    let rho = program.map_penalty;
    for ((g, s), w) in gradient.iter_mut().zip(&stats.gradient.0).zip(weights) {
        *g = rho * w - s;
    }
    Ok(0.5 * rho * weights.iter().map(|w| w * w).sum::<f64>() - stats.value.0)
}

/// Searches the maximum.
pub fn search(program: &Vb, rows: &mut dyn Rows<Vb>) -> Result<Minimum> {
    let start = vec![0.0; program.children * program.design.dim()];
    minimise(&start, &settings(), |w, g| objective(program, rows, w, g))
}

/// Log likelihood of the rows of a block, and its gradient Σ (1[c = y] − p_c) x̃.
pub(super) fn visit(program: &Vb, weights: &[f64], block: &Block<'_>, scratch: &mut Scratch) -> NodeStats {
    let (n, s) = (block.rows(), program.children);
    let Scratch { panel, m, .. } = scratch;
    m.resize(n * s, f64::NAN);
    let mut panel = program.design.panel(block.x, panel);
    panel.mul_t(weights, s, m);
    let mut value = 0.0;
    for (i, (z, &class)) in m.chunks_exact_mut(s).zip(block.y.classes()).enumerate() {
        let w = block.weight(i);
        if w == 0.0 {
            z.fill(0.0);
            continue;
        }
        let own = z[class as usize];
        value += w * (own - softmax(z));
        for p in z.iter_mut() {
            *p *= -w;
        }
        z[class as usize] += w;
    }
    let mut stats = NodeStats { gradient: Sum(vec![0.0; s * program.design.dim()]), value: Sum(value), ..NodeStats::default() };
    panel.t_mul_add(m, s, &mut stats.gradient.0);
    stats
}
