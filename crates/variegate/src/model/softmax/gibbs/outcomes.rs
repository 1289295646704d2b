//! What the draws say of the real outcomes of a row: a mixture of normals, one for each draw and leaf.

use super::super::walk::Walk;
use super::Gibbs;
use super::mixture::{Normal, quantile};
use super::posterior::{DrawsPosterior, METHODS};
use crate::answer::{
    PREDICT_PANEL, Predict, PredictDraws, PredictOutcomes, RealPrediction, Scored, check_levels, check_prediction_rows, choose_method,
    for_scores, panels_at_once,
};
use crate::data::{Dataset, Target};
use crate::parallel;
use crate::special::log_sum_exp;
use crate::{Error, Result};

/// What is gathered of the rows of a panel: of each row a normal component for each output, draw and leaf, and the log density of each draw.
struct Gathered {
    parts: Vec<Normal>,
    densities: Vec<f64>,
    /// Draws that are there.
    done: usize,
}

/// What is said of the outcomes of a row.
struct Told {
    /// Mean, deviation and quantiles of each outcome.
    outcomes: Vec<(f64, f64, Vec<f64>)>,
    ln_density: f64,
}

impl PredictOutcomes for DrawsPosterior {
    fn outcomes(&self) -> usize {
        self.outputs()
    }

    fn methods(&self) -> &'static [&'static str] {
        METHODS
    }

    fn predict(&self, data: &Dataset<'_>, levels: &[f64], method: &str) -> Result<RealPrediction> {
        PredictOutcomes::predict_with(self, data, levels, &Predict::by(method))
    }

    fn predict_with(&self, data: &Dataset<'_>, levels: &[f64], how: &Predict<'_>) -> Result<RealPrediction> {
        choose_method(how.method, METHODS)?;
        how.draws.check()?;
        if how.level.is_some() {
            return Err(Error::Unfit("intervals of real outcomes lie between two of their quantiles: ask for these".into()));
        }
        check_prediction_rows(data, self.schema.design.raw_cols, &self.schema.columns)?;
        let outputs = self.outputs();
        check_levels(levels)?;
        let given = match &data.target {
            Target::Real { width, values } if *width == outputs => Some(&values[..]),
            _ => None,
        };
        let program = self.program();
        let tree = self.tree(&program);
        let draws = if how.draws == PredictDraws::Enough { PredictDraws::All } else { how.draws };
        let draws = draws.rounds(self.draws()).concat();
        let (leaves, m) = (program.layout.gaussians(), draws.len());
        let n = data.rows();
        let at_once = PREDICT_PANEL * panels_at_once(3 * outputs * m * leaves);
        let mut told: Vec<Told> = Vec::with_capacity(n);
        for from in (0..n).step_by(at_once) {
            let rows = at_once.min(n - from);
            let gathered = || Gathered {
                parts: vec![Normal::default(); PREDICT_PANEL * outputs * m * leaves],
                densities: vec![0.0; PREDICT_PANEL * m],
                done: 0,
            };
            let mut states: Vec<Gathered> = (0..rows.div_ceil(PREDICT_PANEL)).map(|_| gathered()).collect();
            for_scores(
                &tree,
                (data.x.view(), from),
                &draws,
                &mut states,
                |_| true,
                |state, mut scored, room| {
                    self.gather_parts(&program, m, given, state, &mut scored, room);
                },
            );
            let of_panel = |panel: usize, state: Gathered| {
                let rows = PREDICT_PANEL.min(rows - panel * PREDICT_PANEL);
                (0..rows).map(|i| state.told(i, outputs, m, leaves, levels)).collect::<Vec<_>>()
            };
            let found: Vec<Vec<Told>> = parallel::map(states, of_panel);
            told.extend(found.into_iter().flatten());
        }
        let each = |f: &dyn Fn(&(f64, f64, Vec<f64>)) -> f64| told.iter().flat_map(|t| &t.outcomes).map(f).collect::<Vec<f64>>();
        let out = RealPrediction {
            mean: each(&|o| o.0),
            deviation: each(&|o| o.1),
            quantiles: (0..levels.len()).map(|at| each(&|o| o.2[at])).collect(),
            ln_density: given.map(|_| told.iter().map(|t| t.ln_density).collect()),
        };
        if let Some(at) = out.mean.iter().position(|p| !p.is_finite()) {
            return Err(Error::Unfit(format!("row {}: its values are too large to compute with", at / outputs + 1)));
        }
        Ok(out)
    }
}

impl DrawsPosterior {
    /// Adds what some of `m` draws say of the outcomes of a panel.
    fn gather_parts(
        &self,
        program: &Gibbs,
        m: usize,
        given: Option<&[f64]>,
        state: &mut Gathered,
        scored: &mut Scored<'_>,
        room: &mut (Walk, Vec<f64>),
    ) {
        let (outputs, units, leaves) = (self.outputs(), program.layout.units, program.layout.gaussians());
        let (count, mut place) = (scored.draws.len(), 0);
        Self::for_draws(program, scored, room, |i, seen| {
            // draws of a row come in order
            let draw = state.done + place % count;
            place += 1;
            let parts = &mut state.parts[i * outputs * m * leaves..(i + 1) * outputs * m * leaves];
            for leaf in 0..leaves {
                for q in 0..outputs {
                    let (at, scale) = (leaf * outputs + q, self.schema.y_scale[q]);
                    parts[(q * m + draw) * leaves + leaf] = Normal {
                        share: seen.leaf[leaf] / m as f64,
                        mean: self.schema.y_mean[q] + scale * seen.m[units + at],
                        sd: scale / self.noise[seen.draw * leaves * outputs + at].sqrt(),
                    };
                }
            }
            if let Some(values) = given {
                let own = self.leaf_densities(program, &seen, &values[seen.row * outputs..(seen.row + 1) * outputs]);
                state.densities[i * m + draw] = log_sum_exp(&own.iter().zip(seen.leaf).map(|(d, p)| d + p.ln()).collect::<Vec<_>>());
            }
        });
        state.done += count;
    }
}

impl Gathered {
    /// What is said of row `i` of the panel.
    fn told(&self, i: usize, outputs: usize, m: usize, leaves: usize, levels: &[f64]) -> Told {
        let outcome = |q: usize| {
            let parts = &self.parts[(i * outputs + q) * m * leaves..(i * outputs + q + 1) * m * leaves];
            let mean: f64 = parts.iter().map(|p| p.share * p.mean).sum();
            let variance: f64 = parts.iter().map(|p| p.share * (p.sd * p.sd + (p.mean - mean) * (p.mean - mean))).sum();
            (mean, variance.sqrt(), levels.iter().map(|level| quantile(*level, parts, mean, variance.sqrt())).collect())
        };
        let ln_density = log_sum_exp(&self.densities[i * m..(i + 1) * m]) - (m as f64).ln();
        Told { outcomes: (0..outputs).map(outcome).collect(), ln_density }
    }
}
