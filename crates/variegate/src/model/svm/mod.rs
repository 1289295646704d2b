//! Bayesian support vector machine (Polson and Scott 2011): a hinge in place of a likelihood, with exact draws, a variational posterior, or the
//! maximum.
//!
//! With s = ±1 for the class and f = wᵀx̃, a row of weight c counts exp(−2c max(0, 1 − sf)); w_j ~ N(0, 1/τ), τ ~ Gamma or given, the bias
//! ~ N(0, 1/`bias_precision`). That is no distribution of the class (it does not add up to one over s), so that the posterior is one of a
//! *pseudo*-likelihood: proper, since a row counts at most 1, but not what Bayes' rule makes of a model of the classes. Two classes have
//! one classifier, more have one each against the rest.
//!
//! | file | what is in it |
//! |---|---|
//! | `settings.rs` | settings and what they may be |
//! | `gibbs.rs`, `draws.rs` | the sampler; what its draws say |
//! | `posterior.rs` | what the ascent of `../linear/` found, a variational posterior or a point |
//! | `simulate.rs`, `check.rs` | data by the classes' shares of the pseudo-likelihood; checks of what has no joint distribution |

mod check;
mod draws;
mod gibbs;
mod posterior;
mod settings;
mod simulate;
#[cfg(test)]
mod tests;

pub use draws::DrawsPosterior;
pub use posterior::SvmPosterior;
pub use settings::{Inference, Settings};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::Arc;

use super::linear::{Ascent, Inputs, Measured, Named, Schema as Columns, design_of};
use super::{ClassWeight, Declared, Family, Fit, Model, Setting, Simulation, Truth, as_map, in_use, resolve};
use crate::answer::{Fact, Figure, Posterior};
use crate::check::{CheckReport, Effort, Progress};
use crate::data::{Needs, Questions, Survey, TargetKind};
use crate::run::{Piece, Schedule, saved_global, state};
use crate::{Error, Result};

const NAME: &str = "svm";
const SCHEMA: state::Kind = state::Kind::new("svm schema", &["0.1", "0.1"]);

/// What a run depends on: the data, and how many rows they have where weights are found in the space that these span.
type Prepared = (Schema, Option<u64>);

/// The ascent as checkpoints know it.
#[derive(Debug, Clone)]
pub(crate) struct Vb;

impl Named for Vb {
    const NAME: &'static str = "svm/vb";
}

/// The family `svm`.
pub struct Svm;

impl Family for Svm {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "Bayesian support vector machine by Gibbs sampling, variational Bayes or its maximum"
    }

    fn about(&self) -> &'static str {
        "Classes that a line or plane should part with a margin. The hinge of a support vector machine takes the place of a likelihood: \
         weights have a posterior, and the strength of the penalty is learned, but the hinge is no probability of a class. Probabilities \
         are the classes' shares of the pseudo-likelihood, and those of `logistic` or `softmax` are better calibrated. More than two classes \
         are told apart one against the rest, and their probabilities made to sum to one. Inference `map` is the usual support vector \
         machine; standard deviations of `vb` are far too small, those of `gibbs` are right. Rows may have any weight that is not negative."
    }

    fn settings(&self) -> Vec<Setting> {
        Settings::table()
    }

    fn simulate_settings(&self) -> Vec<Setting> {
        simulate::Request::table()
    }

    fn quick_settings(&self) -> Map<String, Value> {
        // draws of data that are nearly apart take more than seconds
        as_map(&serde_json::json!({ "inference": "vb" }))
    }

    fn configure(&self, given: &Map<String, Value>) -> Result<Box<dyn Model>> {
        Ok(Box::new(resolve::<Settings>(NAME, given)?.validate()?))
    }

    fn load(&self, saved: &[u8]) -> Result<Box<dyn Posterior>> {
        if state::kind(saved)? == draws::SAVED.name {
            return Ok(Box::new(DrawsPosterior::load(saved)?));
        }
        Ok(Box::new(SvmPosterior::load(saved)?))
    }
}

/// The family with valid settings, as [`Settings::validate`] makes it.
#[derive(Debug, Clone)]
pub struct SvmModel {
    settings: Settings,
}

/// What results depend on beside draws and factors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Schema {
    columns: Columns,
    /// Total weight of the rows of each class, class weights included.
    counts: Vec<f64>,
    /// Factor of the weight of the rows of each class; empty for ones.
    class_weight: Vec<f64>,
}

impl Schema {
    fn inputs(&self) -> Inputs {
        Inputs { design: self.columns.design.clone(), classes: self.columns.classes.len(), class_weight: self.class_weight.clone() }
    }

    /// What is fitted, in words.
    fn model(&self) -> String {
        match self.columns.classes.as_slice() {
            [first, second] => format!("support vector machine: `{second}` against `{first}`"),
            classes => format!("support vector machine: each of {} classes against the rest", classes.len()),
        }
    }

    fn rows(&self) -> Fact {
        let counts = self.columns.classes.iter().cloned().zip(self.counts.iter().copied()).collect();
        Fact::new("rows of each class", Figure::Numbers(counts))
    }
}

/// What every summary says of the hinge.
const PSEUDO: &str = "the hinge is a pseudo-likelihood and no probability of a class: deviations say how sure the boundary is, and probabilities \
                      are the classes' shares of it, sharper than those of a logistic regression";

impl Model for SvmModel {
    fn family(&self) -> &'static dyn Family {
        &Svm
    }

    fn settings(&self) -> Map<String, Value> {
        as_map(&self.settings)
    }

    fn settings_in_use(&self) -> Map<String, Value> {
        in_use(&self.settings, &self.settings.meaningless())
    }

    /// Weights of classes are weights of rows, and count in the means and deviations of columns like those.
    fn questions(&self) -> Questions {
        let balanced = self.settings.class_weight == ClassWeight::Balanced;
        Questions { columns: true, balanced, ..Questions::needing(Needs::target(TargetKind::Classes)) }
    }

    fn prepare(&self, survey: &Survey) -> Result<Fit> {
        let (s, classes) = (&self.settings, survey.header().classes());
        if classes.len() < 2 {
            let found = classes.first().map_or("none".to_string(), |c| format!("`{c}` alone"));
            return Err(Error::Unfit(format!("svm tells classes apart and needs at least two, but the target has {found}")));
        }
        let class_weight = survey.class_weight().to_vec();
        let counts = survey.class_counts()?;
        let counts = if class_weight.is_empty() { counts.to_vec() } else { counts.iter().zip(&class_weight).map(|(n, w)| n * w).collect() };
        let classifiers = if classes.len() == 2 { 1 } else { classes.len() };
        let ascends = s.inference != Inference::Gibbs;
        let Measured { design, dropped, spanning } = design_of(survey, NAME, (s.standardize, s.fit_intercept), classifiers, ascends)?;
        let warnings = survey.column_warnings(&dropped, s.standardize);
        let columns = Columns { columns: survey.header().columns.clone(), classes: classes.to_vec(), design };
        self.bind((Schema { columns, counts, class_weight }, spanning), warnings)
    }

    fn reopen(&self, schema: &[u8]) -> Result<Fit> {
        let prepared = state::unseal_older(SCHEMA, schema, |older| match older.version {
            1 => Ok((older.decode()?, None)),
            _ => Err(older.refused()),
        })?;
        self.bind(prepared, Vec::new())
    }

    fn simulate(&self, rows: usize, request: &Map<String, Value>, seed: u64) -> Result<Simulation> {
        simulate::simulate(&self.settings, rows, &resolve("simulate svm", request)?, seed)
    }

    fn simulate_more(&self, rows: usize, request: &Map<String, Value>, truth: &Truth<'_>, seed: u64) -> Result<Simulation> {
        simulate::simulate_more(&self.settings, rows, &resolve("simulate svm", request)?, truth, seed)
    }

    fn check(&self, effort: &Effort, seed: u64, progress: &mut dyn FnMut(Progress)) -> Result<Vec<CheckReport>> {
        check::check(&self.settings, effort, seed, progress)
    }
}

impl SvmModel {
    fn bind(&self, prepared: Prepared, warnings: Vec<String>) -> Result<Fit> {
        match self.settings.inference {
            Inference::Gibbs => self.bind_sampler(prepared, warnings),
            Inference::Vb | Inference::Map => self.bind_ascent(prepared, warnings),
        }
    }

    fn bind_sampler(&self, prepared: Prepared, warnings: Vec<String>) -> Result<Fit> {
        let s = &self.settings;
        let sealed = state::seal(SCHEMA, &prepared)?;
        let (schema, _) = prepared;
        let program = s.sampler(schema.inputs());
        let schedule = Schedule::Sample { warm_up: s.n_warmup, draws: s.n_draws, thin: s.thin };
        let learned = s.prior_precision.is_none();
        let read = move |chains: &[Piece]| Ok(Box::new(DrawsPosterior::new(&schema, learned, chains)?) as Box<dyn Posterior>);
        Ok(Fit::new(Arc::new(program), s.n_chains, schedule, sealed, warnings, read))
    }

    fn bind_ascent(&self, prepared: Prepared, warnings: Vec<String>) -> Result<Fit> {
        let sealed = state::seal(SCHEMA, &prepared)?;
        let (schema, spanning) = prepared;
        let program = self.settings.ascent(schema.inputs(), spanning);
        let schedule = Schedule::Ascend { max_sweeps: self.settings.max_iter };
        let classifier = program.classifier.clone();
        let read = move |chains: &[Piece]| {
            let Some(piece) = chains.first() else { return Err(Error::Unfit("the run has not begun: resume it".into())) };
            let found = saved_global::<Ascent<Vb>>(&piece.checkpoint)?;
            Ok(Box::new(SvmPosterior::new(&schema, &classifier, found)?) as Box<dyn Posterior>)
        };
        Ok(Fit::new(Arc::new(program), 1, schedule, sealed, warnings, read))
    }
}
