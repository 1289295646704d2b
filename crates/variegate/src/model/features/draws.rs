//! What is kept of a state as a draw, and how it is read back.

use serde::{Deserialize, Serialize};

use super::sampler::Sampler;
use super::state::State;
use crate::run::{Draws, Piece};
use crate::{Error, Result};

/// One draw from the posterior: the features in use and what governs them, in units of the model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Draw {
    pub ln_joint: f64,
    pub ln_likelihood: f64,
    pub mass: f64,
    pub concentration: f64,
    pub discount: f64,
    pub noise: f64,
    pub spread: f64,
    pub rate: f64,
    pub kappa: f64,
    pub truncated: bool,
    pub intercept: Vec<f64>,
    /// Log odds of use of each feature.
    pub ln_odds: Vec<f64>,
    /// Rows that use it.
    pub uses: Vec<u64>,
    /// What it adds, one feature after the other. Half the digits are far more than the posterior has.
    pub weights: Vec<f32>,
}

impl Draw {
    /// Number of features.
    pub(super) fn count(&self) -> usize {
        self.uses.len()
    }

    /// Features with all the digits that calculations use.
    pub(super) fn wide_weights(&self) -> Vec<f64> {
        self.weights.iter().map(|&v| f64::from(v)).collect()
    }
}

const NUMBERS: [&str; 10] =
    ["log_joint", "log_likelihood", "mass", "concentration", "discount", "noise", "spread", "rate", "kappa", "truncated"];

/// Keeps the state at the end of a sweep.
pub(super) fn write(sampler: &Sampler, state: &State, out: &mut Draws) {
    let (hyper, figures, features) = (&state.hyper, &state.figures, &state.features);
    let process = &hyper.process;
    let numbers = [
        figures.ln_joint,
        figures.ln_likelihood,
        process.mass,
        process.concentration,
        process.discount,
        hyper.noise,
        hyper.spread,
        hyper.rate,
        hyper.kappa,
        f64::from(u8::from(state.truncated)),
    ];
    for (name, value) in NUMBERS.iter().zip(numbers) {
        out.scalar(name, value);
    }
    let used = features.in_use();
    out.scalar("n_features", used.len() as f64);
    out.vector("intercept", &state.intercept);
    for (at, &k) in used.iter().enumerate() {
        let weight = features.weight(k);
        debug_assert_eq!(weight.len(), sampler.width);
        out.component(
            at,
            &[("ln_odds", &[features.ln_on[k] - features.ln_off[k]]), ("uses", &[features.uses[k] as f64]), ("weights", &weight)],
        );
    }
}

/// All draws of all chains, in order, and how many each chain has.
pub(super) fn read(chains: &[Piece], width: usize) -> Result<(Vec<Draw>, Vec<usize>)> {
    let (mut all, mut lengths) = (Vec::new(), Vec::new());
    for piece in chains {
        let (scalars, components) = (&piece.draws.scalars, &piece.draws.components);
        let missing = |name: &str| Error::Unfit(format!("the draws of chain {} have no column `{name}`", piece.chain));
        let columns = NUMBERS.iter().map(|name| scalars.column(name, 0).ok_or_else(|| missing(name))).collect::<Result<Vec<_>>>()?;
        let (at, found) = scalars.find("intercept").ok_or_else(|| missing("intercept"))?;
        if found != width {
            return Err(missing("intercept"));
        }
        let (first, count) = (all.len(), columns[0].len());
        for (s, row) in scalars.values.chunks_exact(scalars.width().max(1)).enumerate().take(count) {
            let [ln_joint, ln_likelihood, mass, concentration, discount, noise, spread, rate, kappa, truncated] =
                std::array::from_fn(|i| columns[i][s]);
            let intercept = row[at..at + width].to_vec();
            let truncated = truncated != 0.0;
            all.push(Draw {
                ln_joint,
                ln_likelihood,
                mass,
                concentration,
                discount,
                noise,
                spread,
                rate,
                kappa,
                truncated,
                intercept,
                ..Draw::default()
            });
        }
        lengths.push(count);
        if components.rows() == 0 {
            continue;
        }
        let place = |name: &str| components.find(name).ok_or_else(|| missing(name));
        let (draw, odds, uses, weights) = (place("draw")?.0, place("ln_odds")?.0, place("uses")?.0, place("weights")?);
        for row in components.values.chunks_exact(components.width()) {
            let s = (row[draw] as u64).checked_sub(piece.draws.first).map_or(usize::MAX, |s| s as usize);
            let Some(kept) = all.get_mut(first.saturating_add(s)) else { continue };
            kept.ln_odds.push(row[odds]);
            kept.uses.push(row[uses] as u64);
            kept.weights.extend(row[weights.0..weights.0 + weights.1].iter().map(|&v| (v as f32).clamp(f32::MIN, f32::MAX)));
        }
    }
    Ok((all, lengths))
}
