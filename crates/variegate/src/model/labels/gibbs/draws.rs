//! What is kept of a state as a draw, and how it is read back.
//!
//! One row a draw: `log_joint`, `log_likelihood`, `alpha`, `n_components` (with rows), `n_held`, `ln_remaining` (logarithm of the
//! weight of all components without rows) and, where there are classifiers, `weights` (C×D̃) and `weight_precision` (C); for
//! `logit` also `pattern_precision` (C). One row a component that has rows: `ln_weight`, `rows`, `parameters` of its features (see
//! [`Kernel::draw`](crate::model::labels::kernel::Kernel::draw)), `patterns` (C): b of `logit`, log-odds of ψ of `and` and of Bernoulli
//! patterns, ln ψ of multinomial ones; and how many of its rows have each label (`present`, C) and know it (`known`, C).
//!
//! Weights, parameters and patterns are those that the components of rows were chosen by, and are a draw from the posterior
//! together with them. A new row belongs to component k with weight exp(`ln_weight`), and with exp(`ln_remaining`) to one without
//! rows: given the components of all rows, parameters of such ones have the prior distribution, so that none need be kept.

use serde::{Deserialize, Serialize};

use super::{Gibbs, State};
use crate::run::{Draws, Piece};
use crate::special::log_sum_exp;
use crate::{Error, Result};

/// One draw from the posterior.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Draw {
    pub(crate) ln_joint: f64,
    pub(crate) ln_likelihood: f64,
    pub(crate) alpha: f64,
    /// Logarithm of the weight of all components without rows.
    pub(crate) ln_remaining: f64,
    /// w of labels, C×D̃; empty without classifiers.
    pub(crate) weights: Vec<f64>,
    /// Precision of the weights of each label; empty without classifiers.
    pub(crate) weight_precision: Vec<f64>,
    /// Precision of the b of each label; empty but for `logit`.
    pub(crate) pattern_precision: Vec<f64>,
    /// ln π of each component that has rows.
    pub(crate) ln_weights: Vec<f64>,
    /// Rows of each.
    pub(crate) rows: Vec<u64>,
    /// Parameters of features, component by component.
    pub(crate) parameters: Vec<f64>,
    /// Patterns of labels, K×C.
    pub(crate) patterns: Vec<f64>,
    /// Rows of each component that have each label, and those that know it, K×C.
    pub(crate) present: Vec<f64>,
    pub(crate) known: Vec<f64>,
}

impl Draw {
    /// Components with rows.
    pub(crate) fn components(&self) -> usize {
        self.rows.len()
    }
}

/// Vectors that only some models have.
const VECTORS: [&str; 3] = ["weights", "weight_precision", "pattern_precision"];

/// Keeps the state at the end of a sweep.
pub(super) fn write(sampler: &Gibbs, state: &State, out: &mut Draws) {
    out.scalar("log_joint", sampler.ln_joint(state));
    out.scalar("log_likelihood", state.ln_likelihood);
    out.scalar("alpha", state.alpha);
    out.scalar("n_components", state.occupied() as f64);
    out.scalar("n_held", state.ln_weights.len() as f64);
    let rows = |k: usize| state.counts.get(k).copied().unwrap_or(0);
    let idle = (0..state.ln_weights.len()).filter(|&k| rows(k) == 0).map(|k| state.ln_weights[k]);
    out.scalar("ln_remaining", log_sum_exp(&idle.chain([state.ln_remaining]).collect::<Vec<_>>()));
    let point = &state.point;
    let vectors = [&point.weights, &point.weight_precision, &point.pattern_precision];
    for (name, values) in VECTORS.into_iter().zip(vectors).filter(|(_, v)| !v.is_empty()) {
        out.vector(name, values);
    }
    let (size, labels) = (sampler.kernel.parameters(), sampler.labels.labels());
    for (k, ln_weight) in state.ln_weights.iter().enumerate().filter(|(k, _)| rows(*k) > 0) {
        let fields: [(&str, &[f64]); 6] = [
            ("ln_weight", &[*ln_weight]),
            ("rows", &[rows(k) as f64]),
            ("parameters", &state.parameters[k * size..(k + 1) * size]),
            ("patterns", &point.patterns[k * labels..(k + 1) * labels]),
            ("present", &state.present[k * labels..(k + 1) * labels]),
            ("known", &state.known[k * labels..(k + 1) * labels]),
        ];
        out.component(k, &fields);
    }
}

/// All draws of all chains that have some, in order, and how many each of them has.
pub(crate) fn read(chains: &[&Piece]) -> Result<(Vec<Draw>, Vec<usize>)> {
    let (mut all, mut lengths) = (Vec::new(), Vec::new());
    for piece in chains {
        let (scalars, components) = (&piece.draws.scalars, &piece.draws.components);
        let missing = |name: &str| Error::Unfit(format!("the draws of chain {} have no column `{name}`", piece.chain));
        let place = |name: &str| scalars.find(name).map(|p| p.0).ok_or_else(|| missing(name));
        let numbers = (place("log_joint")?, place("log_likelihood")?, place("alpha")?, place("ln_remaining")?);
        let vectors = VECTORS.map(|name| scalars.find(name).unwrap_or((0, 0)));
        let first = all.len();
        for row in scalars.values.chunks_exact(scalars.width()) {
            let [weights, weight_precision, pattern_precision] = vectors.map(|(at, width)| row[at..at + width].to_vec());
            all.push(Draw {
                ln_joint: row[numbers.0],
                ln_likelihood: row[numbers.1],
                alpha: row[numbers.2],
                ln_remaining: row[numbers.3],
                weights,
                weight_precision,
                pattern_precision,
                ..Draw::default()
            });
        }
        lengths.push(all.len() - first);
        let place = |name: &str| components.find(name).ok_or_else(|| missing(name));
        if components.rows() == 0 {
            continue;
        }
        let (draw, weight, rows) = (place("draw")?.0, place("ln_weight")?.0, place("rows")?.0);
        let (parameters, patterns, present, known) = (place("parameters")?, place("patterns")?, place("present")?, place("known")?);
        for row in components.values.chunks_exact(components.width()) {
            let number = (row[draw] as u64).saturating_sub(piece.draws.first) as usize;
            let Some(kept) = all.get_mut(first + number) else { continue };
            kept.ln_weights.push(row[weight]);
            kept.rows.push(row[rows] as u64);
            let vectors = [
                (&mut kept.parameters, parameters),
                (&mut kept.patterns, patterns),
                (&mut kept.present, present),
                (&mut kept.known, known),
            ];
            vectors.into_iter().for_each(|(out, (at, width))| out.extend(&row[at..at + width]));
        }
    }
    Ok((all, lengths))
}
