//! Log likelihood of a block of rows and its gradient with respect to the weights: one product, the row pass, one product back.

use serde::{Deserialize, Serialize};

use super::{Gated, Work};
use crate::data::Design;
use crate::data::design::PanelScratch;
use crate::merge_fields;
use crate::run::{Block, Sum};

/// What rows report of some weights.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Likelihood {
    /// Log likelihood.
    pub value: Sum<f64>,
    /// Its gradient with respect to the weights, one vector a score.
    pub gradient: Sum<Vec<f64>>,
}
merge_fields!(Likelihood, value, gradient);

/// Buffers of a visit.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(crate) panel: PanelScratch,
    scores: Vec<f64>,
    ln_likelihood: Vec<f64>,
    work: Work,
}

/// Log likelihood of a block and its gradient. Rows count by `weight(i)`; those of weight 0 have no say.
pub fn likelihood(
    design: &Design,
    gated: &Gated,
    weights: &[f64],
    block: &Block<'_>,
    weight: impl Fn(usize) -> f64,
    scratch: &mut Scratch,
) -> Likelihood {
    let (n, columns) = (block.rows(), gated.columns());
    let Scratch { panel, scores, ln_likelihood, work } = scratch;
    scores.resize(n * columns, f64::NAN);
    ln_likelihood.resize(n, f64::NAN);
    let mut panel = design.panel(block.x, panel);
    panel.mul_t(weights, columns, scores);
    gated.slopes(scores, block.y.classes(), ln_likelihood, work);
    let mut value = 0.0;
    for (i, (row, ln)) in scores.chunks_exact_mut(columns).zip(ln_likelihood.iter()).enumerate() {
        let w = weight(i);
        if w == 0.0 {
            row.fill(0.0);
            continue;
        }
        value += w * ln;
        if w != 1.0 {
            row.iter_mut().for_each(|s| *s *= w);
        }
    }
    let mut gradient = vec![0.0; weights.len()];
    panel.t_mul_add(scores, columns, &mut gradient);
    Likelihood { value: Sum(value), gradient: Sum(gradient) }
}

/// Log likelihood of a block alone; rows count as above.
pub fn value(
    design: &Design,
    gated: &Gated,
    weights: &[f64],
    block: &Block<'_>,
    weight: impl Fn(usize) -> f64,
    scratch: &mut Scratch,
) -> f64 {
    let (n, columns) = (block.rows(), gated.columns());
    let Scratch { panel, scores, ln_likelihood, work } = scratch;
    scores.resize(n * columns, f64::NAN);
    ln_likelihood.resize(n, f64::NAN);
    design.panel(block.x, panel).mul_t(weights, columns, scores);
    gated.values(scores, block.y.classes(), ln_likelihood, work);
    (0..n).map(|i| (weight(i), ln_likelihood[i])).filter(|(w, _)| *w != 0.0).map(|(w, ln)| w * ln).sum()
}
