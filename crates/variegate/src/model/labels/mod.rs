//! Sets of labels: an unknown number of components that share features and labels, and a linear classifier of each label.
//!
//! Rows come from components with weights by stick-breaking. Within a component features have a distribution of their own, and each label a
//! pattern; a label depends on the pattern and on a linear function of the row. Labels may be unknown, entry by entry. The book's chapter
//! on `labels` has the mathematics.
//!
//! | file | what is in it |
//! |---|---|
//! | `settings.rs`, `schema.rs` | settings and what they may be; the data as results depend on them |
//! | `inputs.rs`, `kernel/` | rows as components and classifiers see them; features within a component |
//! | `sticks.rs` | weights of components |
//! | `label_part.rs`, `and/`, `cut/`, `patterns.rs` | labels given component and row, one file or folder a coupling |
//! | `in_row_space.rs` | weights of few rows with many columns, in the space that the rows span |
//! | `../linear/` | weights of labels, classifiers, and pieces of the variational posterior |
//! | `gibbs/` | exact draws |
//! | `mixture.rs`, `start.rs`, `vb.rs` | the variational posterior, where it begins, and its ascent |
//! | `memoized.rs`, `add_times.rs` | the ascent batch by batch, and sums that can be taken away again |
//! | `moves/` | splits and merges of components, gated by the bound |
//! | `svi/` | the ascent by minibatches, for many rows and for rows that come later |
//! | `stage.rs`, `report.rs` | what a variational posterior says of new rows and of itself |
//! | `sampled/` | the same of draws, and which of their components are the same |
//! | `posterior.rs`, `saved.rs` | a fit, whichever of the two it has, and how it is saved |
//! | `generate.rs`, `simulate.rs`, `check.rs` | the model as a distribution, data drawn from it, and the checks |

mod add_times;
mod and;
mod check;
mod cut;
mod generate;
mod gibbs;
mod in_row_space;
mod inputs;
mod kernel;
mod label_part;
mod memoized;
pub(super) mod mixture;
mod moves;
mod patterns;
mod posterior;
mod report;
mod sampled;
mod saved;
mod schema;
mod settings;
mod simulate;
mod stage;
mod start;
mod sticks;
mod svi;
mod together;
mod vb;

#[cfg(test)]
mod enumerated;
#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod tests;

pub use posterior::LabelsPosterior;
pub use settings::{
    BoundKind, ClassifierKind, CombineKind, Coupling, CovarianceKind, HistoryKind, InferenceKind, KernelKind, MoveKind, PatternKind,
    RowScaling, Settings,
};

use serde_json::{Map, Value};
use std::sync::Arc;

use super::linear::{bound, classifier, expected_sigmoid, gamma_factor, lanes, logit, row_space};
use super::{Declared, Family, Fit, Model, Setting, Simulation, Truth, as_map, in_use, resolve};
use crate::Result;
use crate::answer::Posterior;
use crate::check::{CheckReport, Effort, Progress};
use crate::data::{Needs, Questions, Survey, TargetKind};
use crate::run::{Piece, Schedule, saved_global, state};
use gibbs::Gibbs;
use memoized::{Memoized, batches_that_fit};
use schema::Schema;
use svi::Svi;
use vb::Vb;

const NAME: &str = "labels";
const SCHEMA: state::Kind = state::Kind::new("labels schema", &["0.1"]);
const STREAM: state::Kind = state::Kind::new("labels stream", &["0.1"]);

/// What a fit by minibatches depends on: the data, and where an earlier fit ended.
type StreamedSchema = (Schema, Option<Box<svi::State>>);

/// The family `labels`.
pub struct Labels;

impl Family for Labels {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "Sets of labels (nonparametric mixture of label patterns with linear classifiers)"
    }

    fn about(&self) -> &'static str {
        "Which labels a row has, out of many that may go together: tags of texts, genes with several functions, scenes with several things in \
         them. Finds groups of rows that share features and label patterns, how many there are, and a linear classifier of each label. \
         Labels may be unknown, of some rows or of single entries; such rows are used too. It says how sure it is of each label, \
         and which rows are like none it has seen."
    }

    fn settings(&self) -> Vec<Setting> {
        Settings::table()
    }

    fn simulate_settings(&self) -> Vec<Setting> {
        simulate::Request::table()
    }

    fn quick_settings(&self) -> Map<String, Value> {
        as_map(&serde_json::json!({ "components": 10, "tol": 1e-5 }))
    }

    fn configure(&self, given: &Map<String, Value>) -> Result<Box<dyn Model>> {
        Ok(Box::new(resolve::<Settings>(NAME, given)?.validate()?))
    }

    fn load(&self, saved: &[u8]) -> Result<Box<dyn Posterior>> {
        Ok(Box::new(LabelsPosterior::load(saved)?))
    }
}

/// The family with valid settings, as [`Settings::validate`] makes it.
#[derive(Debug, Clone)]
pub struct LabelsModel {
    settings: Settings,
}

impl LabelsModel {
    fn bind(&self, schema: Schema, warnings: Vec<String>) -> Result<Fit> {
        match self.settings.inference {
            InferenceKind::Vb => self.bind_vb(schema, warnings),
            InferenceKind::Svi => self.bind_svi((schema, None), warnings),
            InferenceKind::Gibbs => self.bind_gibbs(schema, warnings),
            InferenceKind::Memoized => self.bind_memoized(schema, warnings),
        }
    }

    fn bind_vb(&self, schema: Schema, warnings: Vec<String>) -> Result<Fit> {
        let s = self.settings.clone();
        let program = Vb::new(schema.mixture(&s)?, &s);
        let (starts, sealed) = (s.n_init, state::seal(SCHEMA, &schema)?);
        let schedule = Schedule::Ascend { max_sweeps: s.max_iter };
        let read = move |chains: &[Piece]| {
            let states = chains.iter().map(|piece| Ok(saved_global::<Vb>(&piece.checkpoint)?)).collect::<Result<Vec<_>>>()?;
            Ok(Box::new(LabelsPosterior::best(&schema, &s, states)?) as Box<dyn Posterior>)
        };
        Ok(Fit::new(Arc::new(program), starts, schedule, sealed, warnings, read))
    }

    fn bind_memoized(&self, schema: Schema, mut warnings: Vec<String>) -> Result<Fit> {
        let s = self.settings.clone();
        let vb = Vb::new(schema.mixture(&s)?, &s);
        let batches = batches_that_fit(&vb.mixture, &s)?;
        if batches < s.batches as usize {
            warnings.push(format!(
                "there are {batches} batches instead of {}: the sums of more would not fit `label_memory`, {} GB",
                s.batches, s.label_memory
            ));
        }
        let program = Memoized { vb, batches };
        let (starts, sealed) = (s.n_init, state::seal(SCHEMA, &schema)?);
        let schedule = Schedule::Ascend { max_sweeps: s.max_iter };
        let read = move |chains: &[Piece]| {
            let states = chains.iter().map(|piece| Ok(saved_global::<Memoized>(&piece.checkpoint)?.ascent)).collect::<Result<Vec<_>>>()?;
            Ok(Box::new(LabelsPosterior::best(&schema, &s, states)?) as Box<dyn Posterior>)
        };
        Ok(Fit::new(Arc::new(program), starts, schedule, sealed, warnings, read))
    }

    fn bind_gibbs(&self, schema: Schema, warnings: Vec<String>) -> Result<Fit> {
        let s = self.settings.clone();
        let program = Gibbs::of(schema.mixture(&s)?, s.components as usize).for_rows(schema.rows as usize);
        let (chains, sealed) = (s.n_chains, state::seal(SCHEMA, &schema)?);
        let schedule = Schedule::Sample { warm_up: s.n_warmup, draws: s.n_draws, thin: s.thin };
        let read = move |chains: &[Piece]| Ok(Box::new(LabelsPosterior::drawn(&schema, &s, chains)?) as Box<dyn Posterior>);
        Ok(Fit::new(Arc::new(program), chains, schedule, sealed, warnings, read))
    }
}

impl LabelsModel {
    /// Minibatches, from the start or from where an earlier fit ended.
    fn bind_svi(&self, streamed: StreamedSchema, warnings: Vec<String>) -> Result<Fit> {
        let sealed = state::seal(STREAM, &streamed)?;
        let (schema, from) = streamed;
        let s = self.settings.clone();
        let program = Svi::new(&schema, &s, from)?;
        let passes = program.passes;
        let read = move |chains: &[Piece]| {
            let state = chains.first().map(|piece| saved_global::<Svi>(&piece.checkpoint)).transpose()?;
            Ok(Box::new(LabelsPosterior::streamed(&schema, &s, state, passes)?) as Box<dyn Posterior>)
        };
        Ok(Fit::new(Arc::new(program), 1, Schedule::Ascend { max_sweeps: passes }, sealed, warnings, read))
    }
}

impl Model for LabelsModel {
    fn family(&self) -> &'static dyn Family {
        &Labels
    }

    fn settings(&self) -> Map<String, Value> {
        as_map(&self.settings)
    }

    fn settings_in_use(&self) -> Map<String, Value> {
        in_use(&self.settings, &self.settings.meaningless())
    }

    fn questions(&self) -> Questions {
        Questions { columns: true, ..Questions::needing(Needs::target(TargetKind::Labels)) }
    }

    fn prepare(&self, survey: &Survey) -> Result<Fit> {
        let (schema, warnings) = Schema::of(survey, &self.settings)?;
        self.bind(schema, warnings)
    }

    fn prepare_more(&self, earlier: &[u8], survey: &Survey) -> Result<Fit> {
        let earlier = LabelsPosterior::load(earlier)?;
        let (schema, state, warnings) = earlier.with_more(survey, &self.settings)?;
        self.bind_svi((schema, Some(Box::new(state))), warnings)
    }

    fn reopen(&self, schema: &[u8]) -> Result<Fit> {
        if self.settings.inference == InferenceKind::Svi {
            return self.bind_svi(state::unseal(STREAM, schema)?, Vec::new());
        }
        self.bind(state::unseal(SCHEMA, schema)?, Vec::new())
    }

    fn simulate(&self, rows: usize, request: &Map<String, Value>, seed: u64) -> Result<Simulation> {
        simulate::simulate(&self.settings, rows, &resolve("simulate labels", request)?, seed)
    }

    fn simulate_more(&self, rows: usize, request: &Map<String, Value>, truth: &Truth<'_>, seed: u64) -> Result<Simulation> {
        simulate::simulate_more(&self.settings, rows, &resolve("simulate labels", request)?, truth, seed)
    }

    fn check(&self, effort: &Effort, seed: u64, progress: &mut dyn FnMut(Progress)) -> Result<Vec<CheckReport>> {
        match self.settings.inference {
            InferenceKind::Vb | InferenceKind::Memoized | InferenceKind::Svi => {
                check::check(&self.settings, effort.calibration.data_sets / 10, seed, progress)
            }
            InferenceKind::Gibbs => gibbs::check::check(&gibbs::check::Subject::of(&self.settings)?, effort, seed, progress),
        }
    }
}
