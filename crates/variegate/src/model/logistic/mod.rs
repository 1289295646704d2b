//! Bayesian logistic regression: two classes, a Gaussian prior on the weights, exact posterior draws by Polya-Gamma Gibbs.
//!
//! p(y = 1 | x) = σ(wᵀx̃) with x̃ the standardised row and a one for the bias; w_j ~ N(0, 1/`prior_precision`), the bias
//! ~ N(0, 1/`bias_precision`). Settings are here, the sampler in `gibbs.rs`, predictions and summaries in `posterior.rs`.

mod check;
mod gibbs;
mod posterior;
mod simulate;

pub use posterior::LogisticPosterior;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::Arc;

use super::{Declared, Family, Fit, Model, Setting, Simulation, Truth, as_map, resolve};
use crate::answer::Posterior;
use crate::check::{CheckReport, Effort, Progress};
use crate::data::survey::preview;
use crate::data::{Design, Needs, Questions, Scaling, Survey, TargetKind};
use crate::run::{Piece, Schedule, state};
use crate::{Error, Result, settings};
use gibbs::Gibbs;

const NAME: &str = "logistic";
const SCHEMA: state::Kind = state::Kind::new("logistic schema", &["0.1"]);
/// A sweep keeps a few D×D matrices a thread; beyond this it would take gigabytes.
const MOST_COLUMNS: usize = 5000;

settings! {
    /// Settings of a fit.
    pub struct Settings {
        /// Prior precision of each weight, on the scale of the standardised columns.
        prior_precision: f64 = 1.0, in positive(), read by Simulate, Check;
        /// Prior precision of the bias; nothing gives it that of the weights.
        bias_precision: Option<f64> = Some(0.1), in positive_or_nothing(), read by Simulate, Check;
        /// Whether there is a bias.
        fit_intercept: bool = true, in switch(), read by Simulate, Check;
        /// Whether columns are centred and scaled to unit variance first.
        standardize: bool = true, in switch();
        sampling { n_chains: 4, n_warmup: 500, n_draws: 1000, thin: 1 }
    }
}

impl Settings {
    /// The model with these settings, if they are valid.
    pub fn validate(self) -> Result<LogisticModel> {
        self.check_ranges()?;
        Ok(LogisticModel { settings: self })
    }

    /// The sampler over a design.
    fn program(&self, design: Design) -> Gibbs {
        let mut precision = vec![self.prior_precision; design.dim()];
        if let (true, Some(bias), Some(last)) = (design.intercept, self.bias_precision, precision.last_mut()) {
            *last = bias;
        }
        Gibbs { design, precision }
    }
}

/// The family `logistic`.
pub struct Logistic;

impl Family for Logistic {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "Bayesian logistic regression by Polya-Gamma Gibbs sampling"
    }

    fn about(&self) -> &'static str {
        "Two classes, one linear boundary, honest uncertainty. Draws come from the exact posterior; probabilities are averaged \
         over them. Weights of rows must be whole numbers (a row of weight 2 counts twice)."
    }

    fn settings(&self) -> Vec<Setting> {
        Settings::table()
    }

    fn simulate_settings(&self) -> Vec<Setting> {
        simulate::Request::table()
    }

    fn configure(&self, given: &Map<String, Value>) -> Result<Box<dyn Model>> {
        Ok(Box::new(resolve::<Settings>(NAME, given)?.validate()?))
    }

    fn load(&self, saved: &[u8]) -> Result<Box<dyn Posterior>> {
        Ok(Box::new(LogisticPosterior::load(saved)?))
    }
}

/// The family with valid settings, as [`Settings::validate`] makes it.
#[derive(Debug, Clone)]
pub struct LogisticModel {
    settings: Settings,
}

/// What results depend on beside draws.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Schema {
    columns: Vec<String>,
    classes: Vec<String>,
    design: Design,
}

impl Model for LogisticModel {
    fn family(&self) -> &'static dyn Family {
        &Logistic
    }

    fn settings(&self) -> Map<String, Value> {
        as_map(&self.settings)
    }

    fn questions(&self) -> Questions {
        Questions { columns: true, ..Questions::needing(Needs::target(TargetKind::Classes)) }
    }

    fn prepare(&self, survey: &Survey) -> Result<Fit> {
        let classes = survey.header().classes();
        if classes.len() != 2 {
            return Err(Error::Unfit(format!(
                "logistic separates two classes, but the target has {}: {}; fit `softmax` instead",
                classes.len(),
                preview(classes)
            )));
        }
        survey.check_whole_weights("logistic", "fit `softmax` for other weights")?;
        let s = &self.settings;
        let scaling = Scaling {
            center: s.standardize && s.fit_intercept,
            scale: s.standardize,
            intercept: s.fit_intercept,
            drop_constant: s.fit_intercept,
        };
        let (design, dropped) = survey.design(scaling)?;
        if design.dim() > MOST_COLUMNS {
            return Err(Error::Unfit(format!(
                "logistic holds a {0} by {0} matrix for each thread and takes at most {MOST_COLUMNS} columns: select columns first",
                design.dim()
            )));
        }
        let warnings = survey.column_warnings(&dropped, s.standardize);
        let schema = Schema { columns: survey.header().columns.clone(), classes: classes.to_vec(), design };
        self.bind(schema, warnings)
    }

    fn reopen(&self, schema: &[u8]) -> Result<Fit> {
        self.bind(state::unseal(SCHEMA, schema)?, Vec::new())
    }

    fn simulate(&self, rows: usize, request: &Map<String, Value>, seed: u64) -> Result<Simulation> {
        let request = resolve("simulate logistic", request)?;
        simulate::simulate(&self.settings, rows, &request, seed)
    }

    fn simulate_more(&self, rows: usize, request: &Map<String, Value>, truth: &Truth<'_>, seed: u64) -> Result<Simulation> {
        let request = resolve("simulate logistic", request)?;
        simulate::simulate_more(&self.settings, rows, &request, truth, seed)
    }

    fn check(&self, effort: &Effort, seed: u64, progress: &mut dyn FnMut(Progress)) -> Result<Vec<CheckReport>> {
        check::check(&self.settings, effort, seed, progress)
    }
}

impl LogisticModel {
    fn bind(&self, schema: Schema, warnings: Vec<String>) -> Result<Fit> {
        let s = &self.settings;
        let program = s.program(schema.design.clone());
        let schedule = Schedule::Sample { warm_up: s.n_warmup, draws: s.n_draws, thin: s.thin };
        let sealed = state::seal(SCHEMA, &schema)?;
        let read = move |chains: &[Piece]| Ok(Box::new(LogisticPosterior::new(&schema, chains)?) as Box<dyn Posterior>);
        Ok(Fit::new(Arc::new(program), s.n_chains, schedule, sealed, warnings, read))
    }
}

#[cfg(test)]
mod tests;
