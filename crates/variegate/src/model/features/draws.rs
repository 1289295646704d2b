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

impl Draw {
    /// Says the same of rows with no feature that most rows use: such a one is turned inside out, and the intercept takes it in. Draws that
    /// differ in that alone then have the same features. One that all rows use stays.
    pub(super) fn turned(mut self, rows: u64) -> Self {
        let width = self.intercept.len();
        for k in 0..self.count() {
            if 2 * self.uses[k] <= rows || self.uses[k] == rows {
                continue;
            }
            self.uses[k] = rows - self.uses[k];
            self.ln_odds[k] = -self.ln_odds[k];
            for (b, w) in self.intercept.iter_mut().zip(&mut self.weights[k * width..][..width]) {
                *b += f64::from(*w);
                *w = -*w;
            }
        }
        self
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

#[cfg(test)]
mod tests {
    use super::super::stage::{Stage, Want};
    use super::*;
    use crate::data::Matrix;

    /// A draw whose features are turned says the same of rows: their densities, and what is expected of them.
    #[test]
    fn turned_features_say_the_same_of_rows() {
        let draw = Draw {
            noise: 0.4,
            intercept: vec![0.25, -0.5],
            ln_odds: vec![1.5, -0.3, 4.0],
            uses: vec![8, 4, 10],
            weights: vec![1.0, 0.5, -0.75, 2.0, 0.5, 0.5],
            ..Draw::default()
        };
        let turned = draw.clone().turned(10);
        assert_eq!((&turned.uses[..], &turned.ln_odds[..]), (&[2, 4, 10][..], &[-1.5, -0.3, 4.0][..]));
        assert_eq!((&turned.intercept[..], &turned.weights[..2]), (&[1.25, 0.0][..], &[-1.0, -0.5][..]));
        let x = Matrix::dense(2, 2, vec![0.7, 1.2, -1.0, 0.3]);
        let want = Want { both: false, density: Some((1, 1)) };
        let [a, b] = [draw, turned].map(|d| {
            let stage = Stage::new(&d, 0, false);
            stage.codes(x.view(), 2, 1.0, want).into_iter().map(|c| (c.ln_density[0], stage.fit(|k| c.on[k]))).collect::<Vec<_>>()
        });
        for ((p, fit), (q, other)) in a.iter().zip(&b) {
            assert!((p - q).abs() < 1e-12, "{p} {q}");
            assert!(fit.iter().zip(other).all(|(f, o)| (f - o).abs() < 1e-12), "{fit:?} {other:?}");
        }
    }
}
