//! The sampler as the checks see it, and data for that of the ascent: five points with one to three trials each, two columns and a bias where there is one.
//!
//! A sweep draws every ω afresh given the weights, so the weights alone are what it conditions on. Several trials at a point give
//! rows of weight 0 to 3, so that PG(b, c) is checked for each of these b.

use super::gibbs::{Gibbs, State};
use super::{Inference, Settings};
use crate::Result;
use crate::check::generative::{Trials, normal_features};
use crate::check::{CalibrationSettings, CheckReport, Checkable, Effort, Generative, Installed, Progress};
use crate::data::{Dataset, Design, Matrix, Target};
use crate::linalg::dot;
use crate::run::{Block, Philox, Program};
use crate::special::{log1p_exp, sigmoid};

const TRIALS: Trials<'static> = Trials(&[1, 2, 1, 3, 1]);
const COLUMNS: usize = 2;

/// Rows of the data that the ascent is checked on.
const ASCENT_ROWS: usize = 30;

/// Runs the three checks of the sampler that is set, or that of the ascent.
pub(super) fn check(settings: &Settings, effort: &Effort, seed: u64, progress: &mut dyn FnMut(Progress)) -> Result<Vec<CheckReport>> {
    if settings.inference == Inference::Vb {
        let design = Design::identity(COLUMNS, settings.fit_intercept);
        let (program, model) = (settings.ascent(design.clone(), None), settings.program(design));
        return crate::model::linear::check(&program, effort.calibration.data_sets / 10, seed, progress, |rng| {
            let x = normal_features(ASCENT_ROWS, COLUMNS, rng);
            model.data(&model.prior(rng)?, &x, rng)
        });
    }
    // a weak prior lets weights go far where the few rows can be separated, and it takes many sweeps to come back
    let calibration = CalibrationSettings { max_thin: effort.calibration.max_thin.max(200), ..effort.calibration.clone() };
    crate::check::check(&Subject::new(settings), &Effort { calibration, ..effort.clone() }, seed, progress)
}

/// Subject of the checks.
pub(super) struct Subject {
    program: Gibbs,
    title: String,
}

impl Subject {
    /// The sampler that is set.
    pub(super) fn new(settings: &Settings) -> Self {
        let program = settings.program(Design::identity(COLUMNS, settings.fit_intercept));
        let bias = program.precision.get(COLUMNS).map_or("no bias".to_string(), |p| format!("that of the bias {p}"));
        let title = format!("{}, prior precision {}, {bias}", Gibbs::NAME, settings.prior_precision);
        Self { program, title }
    }
}

impl Checkable for Subject {
    type Program = Gibbs;
    type Model = Gibbs;

    fn title(&self) -> String {
        self.title.clone()
    }

    fn block_rows(&self) -> usize {
        2
    }

    fn model(&self) -> &Gibbs {
        &self.program
    }

    fn program(&self) -> &Gibbs {
        &self.program
    }

    fn given(&self, rng: &mut Philox) -> Matrix<'static> {
        TRIALS.features(COLUMNS, rng)
    }

    fn arrange(&self, data: Dataset<'static>) -> Dataset<'static> {
        TRIALS.gather(data)
    }

    fn install(&self, weights: Vec<f64>, _: &[Block<'_>]) -> Result<Installed<Gibbs>> {
        Ok(Installed { global: State::at(weights), locals: None })
    }

    fn recover(&self, state: &State, _: &[()]) -> Result<Vec<f64>> {
        Ok(state.weights.clone())
    }

    fn names(&self) -> Vec<String> {
        let names = &["w1", "w2", "bias"][..self.program.precision.len()];
        let mut out: Vec<String> = names.iter().map(|w| w.to_string()).collect();
        for (i, a) in names.iter().enumerate() {
            out.extend(names[..=i].iter().map(|b| format!("{b}·{a}")));
        }
        out.push("log likelihood".into());
        out.extend(names.iter().map(|w| format!("score of {w}")));
        out
    }

    fn functions(&self, w: &Vec<f64>, data: &Dataset<'_>, out: &mut Vec<f64>) {
        out.extend(w);
        for (i, a) in w.iter().enumerate() {
            out.extend(w[..=i].iter().map(|b| a * b));
        }
        let Target::Classes(classes) = &data.target else { return };
        let (mut log_likelihood, mut score) = (0.0, vec![0.0; w.len()]);
        let mut row = vec![1.0; w.len()];
        for (i, x) in data.x.to_dense().chunks_exact(COLUMNS).enumerate() {
            row[..COLUMNS].copy_from_slice(x);
            let b = data.weights.as_ref().map_or(1.0, |w| w[i]);
            let (y, eta) = (f64::from(classes.codes[i]), dot(&row, w));
            log_likelihood += b * (y * eta - log1p_exp(eta));
            for (s, v) in score.iter_mut().zip(&row) {
                *s += b * (y - sigmoid(eta)) * v;
            }
        }
        out.push(log_likelihood);
        out.extend(score);
    }
}
