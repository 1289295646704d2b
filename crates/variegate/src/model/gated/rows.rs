//! Log likelihood of a block of rows and its gradient with respect to the weights: one product, the row pass, one product back.

use serde::{Deserialize, Serialize};

use super::{Gated, Work};
use crate::data::Design;
use crate::data::design::{Panel, PanelScratch};
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

/// Fills in the scores of all rows of a panel, makes room for what is made of them, and gives the panel back.
fn scored<'a>(mut panel: Panel<'a>, columns: usize, weights: &[f64], scores: &mut Vec<f64>, ln_likelihood: &mut Vec<f64>) -> Panel<'a> {
    scores.resize(panel.rows() * columns, f64::NAN);
    ln_likelihood.resize(panel.rows(), f64::NAN);
    panel.mul_t(weights, columns, scores);
    panel
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
    let columns = gated.columns();
    let Scratch { panel, scores, ln_likelihood, work } = scratch;
    let mut panel = scored(design.panel(block.x, panel), columns, weights, scores, ln_likelihood);
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
    let Scratch { panel, scores, ln_likelihood, work } = scratch;
    scored(design.panel(block.x, panel), gated.columns(), weights, scores, ln_likelihood);
    gated.values(scores, block.y.classes(), ln_likelihood, work);
    (0..block.rows()).map(|i| (weight(i), ln_likelihood[i])).filter(|(w, _)| *w != 0.0).map(|(w, ln)| w * ln).sum()
}

/// Sums over a block of the shares of each expert, in the place of the gradient; rows count as above.
pub fn shares(
    design: &Design,
    gated: &Gated,
    weights: &[f64],
    block: &Block<'_>,
    weight: impl Fn(usize) -> f64,
    scratch: &mut Scratch,
) -> Likelihood {
    let (columns, gates) = (gated.columns(), gated.gates());
    let mut sums = vec![0.0; gated.experts];
    if gates == 0 {
        sums[0] = (0..block.rows()).map(weight).sum();
        return Likelihood { value: Sum(0.0), gradient: Sum(sums) };
    }
    let Scratch { panel, scores, ln_likelihood, work } = scratch;
    scored(design.panel(block.x, panel), columns, weights, scores, ln_likelihood);
    gated.shares(scores, block.y.classes(), ln_likelihood, work);
    for (i, row) in scores.chunks_exact(columns).enumerate() {
        let w = weight(i);
        if w != 0.0 {
            sums.iter_mut().zip(&row[..gates]).for_each(|(sum, share)| *sum += w * share);
        }
    }
    Likelihood { value: Sum(0.0), gradient: Sum(sums) }
}
