//! Bayesian logistic regression: two classes, a Gaussian prior on the weights, exact posterior draws by Polya-Gamma Gibbs or a normal posterior
//! by variational Bayes.
//!
//! p(y = 1 | x) = σ(wᵀx̃) with x̃ the standardised row and a one for the bias; w_j ~ N(0, 1/`prior_precision`), the bias
//! ~ N(0, 1/`bias_precision`). Settings are here, the sampler in `gibbs.rs`, predictions and summaries of its draws in `posterior.rs`. The
//! variational fit is the ascent of `../linear/`, with the bound of Jaakkola and Jordan; `variational.rs` says what it found.

mod check;
mod gibbs;
mod posterior;
mod simulate;
mod variational;

pub use posterior::LogisticPosterior;
pub use variational::VariationalPosterior;

use serde_json::{Map, Value};
use std::sync::Arc;

use super::linear::classifier::Loss;
use super::linear::gamma_factor::Precision;
use super::linear::{Ascent, Inputs, Measured, Named, Schema, design_of};
use super::{Declared, Family, Fit, Meaningless, Model, SAMPLING, Setting, Simulation, Truth, as_map, in_use, refuse_meaningless, resolve};
use crate::answer::Posterior;
use crate::check::{CheckReport, Effort, Progress};
use crate::data::survey::preview;
use crate::data::{Design, Needs, Questions, Survey, TargetKind};
use crate::run::{Piece, Schedule, saved_global, state};
use crate::{Error, Result, settings, words};
use gibbs::Gibbs;

const NAME: &str = "logistic";
const SCHEMA: state::Kind = state::Kind::new("logistic schema", &["0.1", "0.1"]);

/// What a run depends on: the data, and how many rows they have where weights are found in the space that these span.
type Prepared = (Schema, Option<u64>);

words! {
    /// How the posterior is found.
    pub enum Inference {
        /// Draws from the exact posterior.
        Gibbs = "gibbs",
        /// Variational ascent.
        Vb = "vb",
    }
}

settings! {
    /// Settings of a fit.
    pub struct Settings {
        /// How the posterior is found: exact draws (gibbs), or a normal distribution by variational Bayes (vb).
        inference: Inference = Inference::Gibbs, in word(Inference::WORDS), read by Check;
        /// Prior precision of each weight, on the scale of the standardised columns.
        prior_precision: f64 = 1.0, in positive(), read by Simulate, Check;
        /// Prior precision of the bias; nothing gives it that of the weights.
        bias_precision: Option<f64> = Some(0.1), in positive_or_nothing(), read by Simulate, Check;
        /// Whether there is a bias.
        fit_intercept: bool = true, in switch(), read by Simulate, Check;
        /// Whether columns are centred and scaled to unit variance first.
        standardize: bool = true, in switch();
        /// The variational fit ends when two sweeps in a row raise the bound by a smaller share of itself.
        tol: f64 = 1e-8, in positive();
        /// Most sweeps of the variational fit.
        max_iter: u64 = 1000, in whole(1, 100_000_000);
        sampling { n_chains: 4, n_warmup: 500, n_draws: 1000, thin: 1 }
    }
}

impl Settings {
    /// The model with these settings, if they are valid and go together.
    pub fn validate(self) -> Result<LogisticModel> {
        self.check_ranges()?;
        refuse_meaningless(&self, &self.meaningless())?;
        Ok(LogisticModel { settings: self })
    }

    /// Which settings others make meaningless.
    fn meaningless(&self) -> [Meaningless; 2] {
        let gibbs = self.inference == Inference::Gibbs;
        [
            (gibbs, &["tol", "max_iter"], "left out where `inference` is `gibbs`"),
            (!gibbs, SAMPLING, "left out unless `inference` is `gibbs`"),
        ]
    }

    /// The sampler over a design.
    fn program(&self, design: Design) -> Gibbs {
        let mut precision = vec![self.prior_precision; design.dim()];
        if let (true, Some(bias), Some(last)) = (design.intercept, self.bias_precision, precision.last_mut()) {
            *last = bias;
        }
        Gibbs { design, precision }
    }

    /// The variational ascent over a design; of so many rows that span the space of the weights, or of any.
    fn ascent(&self, design: Design, spanning: Option<u64>) -> Ascent<Vb> {
        let inputs = Inputs { design, classes: 2, class_weight: Vec::new() };
        let bias = self.bias_precision.unwrap_or(self.prior_precision);
        let classifier = inputs.classifier(Loss::Logistic, Precision::Fixed(self.prior_precision), bias);
        Ascent::new(inputs, classifier, spanning, self.tol, self.max_iter)
    }
}

/// The ascent as checkpoints know it.
#[derive(Debug, Clone)]
struct Vb;

impl Named for Vb {
    const NAME: &'static str = "logistic/vb";
}

/// The family `logistic`.
pub struct Logistic;

impl Family for Logistic {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "Bayesian logistic regression by Polya-Gamma Gibbs sampling or variational Bayes"
    }

    fn about(&self) -> &'static str {
        "Two classes, one linear boundary, honest uncertainty. Draws come from the exact posterior; probabilities are averaged \
         over them. Weights of rows must be whole numbers (a row of weight 2 counts twice). Inference `vb` finds a normal posterior and a \
         lower bound on the log evidence instead, much sooner and with variances that are somewhat too small; rows may then have any \
         weight that is not negative. For more than two classes fit `softmax`, which compares them all at once."
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
        if state::kind(saved)? == variational::SAVED.name {
            return Ok(Box::new(VariationalPosterior::load(saved)?));
        }
        Ok(Box::new(LogisticPosterior::load(saved)?))
    }
}

/// The family with valid settings, as [`Settings::validate`] makes it.
#[derive(Debug, Clone)]
pub struct LogisticModel {
    settings: Settings,
}

impl Model for LogisticModel {
    fn family(&self) -> &'static dyn Family {
        &Logistic
    }

    fn settings(&self) -> Map<String, Value> {
        as_map(&self.settings)
    }

    fn settings_in_use(&self) -> Map<String, Value> {
        in_use(&self.settings, &self.settings.meaningless())
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
        let s = &self.settings;
        if s.inference == Inference::Gibbs {
            survey.check_whole_weights("logistic", "set `inference` to vb, or fit `softmax`, for other weights")?;
        }
        let ascends = s.inference == Inference::Vb;
        let Measured { design, dropped, spanning } = design_of(survey, NAME, (s.standardize, s.fit_intercept), 1, ascends)?;
        let warnings = survey.column_warnings(&dropped, s.standardize);
        let schema = Schema { columns: survey.header().columns.clone(), classes: classes.to_vec(), design };
        self.bind((schema, spanning), warnings)
    }

    fn reopen(&self, schema: &[u8]) -> Result<Fit> {
        let prepared = state::unseal_older(SCHEMA, schema, |older| match older.version {
            1 => Ok((older.decode()?, None)),
            _ => Err(older.refused()),
        })?;
        self.bind(prepared, Vec::new())
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
    fn bind(&self, prepared: Prepared, warnings: Vec<String>) -> Result<Fit> {
        match self.settings.inference {
            Inference::Gibbs => self.bind_gibbs(prepared, warnings),
            Inference::Vb => self.bind_vb(prepared, warnings),
        }
    }

    fn bind_gibbs(&self, prepared: Prepared, warnings: Vec<String>) -> Result<Fit> {
        let s = &self.settings;
        let sealed = state::seal(SCHEMA, &prepared)?;
        let (schema, _) = prepared;
        let program = s.program(schema.design.clone());
        let schedule = Schedule::Sample { warm_up: s.n_warmup, draws: s.n_draws, thin: s.thin };
        let read = move |chains: &[Piece]| Ok(Box::new(LogisticPosterior::new(&schema, chains)?) as Box<dyn Posterior>);
        Ok(Fit::new(Arc::new(program), s.n_chains, schedule, sealed, warnings, read))
    }

    fn bind_vb(&self, prepared: Prepared, warnings: Vec<String>) -> Result<Fit> {
        let sealed = state::seal(SCHEMA, &prepared)?;
        let (schema, spanning) = prepared;
        let program = self.settings.ascent(schema.design.clone(), spanning);
        let schedule = Schedule::Ascend { max_sweeps: self.settings.max_iter };
        let classifier = program.classifier.clone();
        let read = move |chains: &[Piece]| {
            let Some(piece) = chains.first() else { return Err(Error::Unfit("the run has not begun: resume it".into())) };
            let found = saved_global::<Ascent<Vb>>(&piece.checkpoint)?;
            Ok(Box::new(VariationalPosterior::new(&schema, &classifier, found)?) as Box<dyn Posterior>)
        };
        Ok(Fit::new(Arc::new(program), 1, schedule, sealed, warnings, read))
    }
}

#[cfg(test)]
mod tests;
