//! Factors shared among data sources, under the restricted hierarchical beta process.
//!
//! Several sources describe different rows by the same columns. Every row is a combination of some of an unknown number of factors;
//! how likely a row is to use a factor depends on its source, and sources draw these probabilities from a common parent. Counts are
//! Poisson with gamma factors and weights, real numbers Gaussian. The book's chapter on `factors` has the mathematics.
//!
//! | file | what is in it |
//! |---|---|
//! | `settings.rs` | settings and what they may be |
//! | `sampler.rs` | the three samplers, whatever the distribution of the data |
//! | `likelihood.rs` | what they ask of it |
//! | `counts/`, `gaussian/` | the two likelihoods |
//! | `draws.rs`, `posterior.rs`, `report.rs` | what is kept, and what it says of itself |
//! | `stage.rs`, `guests.rs`, `complete.rs`, `impute.rs`, `anneal.rs` | what it says of new rows |
//! | `generate.rs`, `simulate.rs`, `check.rs` | the model as a distribution, data drawn from it, and the checks |

mod anneal;
mod check;
mod complete;
mod counts;
mod draws;
mod gaussian;
mod generate;
mod guests;
mod impute;
#[doc(hidden)] // for benchmarks
pub mod likelihood;
mod posterior;
mod report;
#[doc(hidden)] // for benchmarks
pub mod sampler;
mod schema;
mod settings;
mod simulate;
mod stage;

#[cfg(test)]
mod tests;

pub use posterior::FactorsPosterior;
pub use sampler::Kind as SamplerKind;
pub(crate) use schema::Schema;
pub use settings::{LikelihoodKind, Settings};

use serde_json::{Map, Value};
use std::sync::Arc;

use super::{Declared, Family, Fit, Model, Setting, Simulation, Truth, as_map, in_use, resolve};
use crate::answer::Posterior;
use crate::check::{CheckReport, Effort, Progress};
use crate::data::survey::Around;
use crate::data::{Needs, Questions, Survey};
use crate::run::{AnyProgram, Piece, Schedule, state};
use crate::{Error, Result};
use counts::Counts;
use gaussian::Gaussian;
use sampler::Sampler;

const NAME: &str = "factors";
const SCHEMA: state::Kind = state::Kind::new("factors schema", &["0.1"]);

/// The family `factors`.
pub struct Factors;

impl Family for Factors {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "Factors shared among several data sources (hierarchical beta process)"
    }

    fn about(&self) -> &'static str {
        "Which factors make up the rows of several data sets over the same columns (journal sections, hospitals, product categories), which \
         of them are shared, and how sure that is. The number of factors is learned. Counts, sparse or dense, or real numbers."
    }

    fn settings(&self) -> Vec<Setting> {
        Settings::table()
    }

    fn simulate_settings(&self) -> Vec<Setting> {
        simulate::Request::table()
    }

    fn quick_settings(&self) -> Map<String, Value> {
        as_map(&serde_json::json!({ "n_warmup": 100, "n_draws": 40 }))
    }

    fn configure(&self, given: &Map<String, Value>) -> Result<Box<dyn Model>> {
        Ok(Box::new(resolve::<Settings>(NAME, given)?.validate()?))
    }

    fn load(&self, saved: &[u8]) -> Result<Box<dyn Posterior>> {
        Ok(Box::new(FactorsPosterior::load(saved)?))
    }
}

/// The family with valid settings, as [`Settings::validate`] makes it.
#[derive(Debug, Clone)]
pub struct FactorsModel {
    settings: Settings,
}

impl FactorsModel {
    /// The sampler over counts, and what a user should know of the data.
    pub fn counts(&self, survey: &Survey) -> Result<(Sampler<Counts>, Vec<String>)> {
        let (schema, warnings) = Schema::of(survey, &self.settings)?;
        Ok((sampler_of(&self.settings, &schema, schema.counts(&self.settings)), warnings))
    }

    /// The sampler over real numbers.
    pub fn gaussian(&self, survey: &Survey) -> Result<(Sampler<Gaussian>, Vec<String>)> {
        let (schema, warnings) = Schema::of(survey, &self.settings)?;
        Ok((sampler_of(&self.settings, &schema, schema.gaussian(&self.settings)), warnings))
    }
}

impl Model for FactorsModel {
    fn family(&self) -> &'static dyn Family {
        &Factors
    }

    fn settings(&self) -> Map<String, Value> {
        as_map(&self.settings)
    }

    fn settings_in_use(&self) -> Map<String, Value> {
        in_use(&self.settings, &self.settings.meaningless())
    }

    fn questions(&self) -> Questions {
        let s = &self.settings;
        let counts = s.likelihood == LikelihoodKind::Poisson;
        let around = match (counts, s.center) {
            (true, _) => Around::Nothing,
            // without centring the spread is still that around the mean of all entries
            (false, false) => Around::Mean,
            (false, true) => Around::ColumnMeans,
        };
        let needs = Needs { counts, missing: s.missing, ..Needs::FEATURES };
        Questions { by_source: Some(around), ..Questions::needing(needs) }
    }

    fn prepare(&self, survey: &Survey) -> Result<Fit> {
        let (schema, warnings) = Schema::of(survey, &self.settings)?;
        self.bind(schema, warnings)
    }

    fn reopen(&self, schema: &[u8]) -> Result<Fit> {
        self.bind(state::unseal(SCHEMA, schema)?, Vec::new())
    }

    fn simulate(&self, rows: usize, request: &Map<String, Value>, seed: u64) -> Result<Simulation> {
        let request = resolve("simulate factors", request)?;
        simulate::simulate(&self.settings, rows, &request, seed)
    }

    fn simulate_more(&self, rows: usize, request: &Map<String, Value>, truth: &Truth<'_>, seed: u64) -> Result<Simulation> {
        let request = resolve("simulate factors", request)?;
        simulate::simulate_more(&self.settings, rows, &request, truth, seed)
    }

    fn check(&self, effort: &Effort, seed: u64, progress: &mut dyn FnMut(Progress)) -> Result<Vec<CheckReport>> {
        check::check(&self.settings, effort, seed, progress)
    }
}

impl FactorsModel {
    fn bind(&self, schema: Schema, warnings: Vec<String>) -> Result<Fit> {
        let settings = self.settings.clone();
        let program: Arc<dyn AnyProgram> = match settings.likelihood {
            LikelihoodKind::Poisson => Arc::new(sampler_of(&settings, &schema, schema.counts(&settings))),
            LikelihoodKind::Gaussian => Arc::new(sampler_of(&settings, &schema, schema.gaussian(&settings))),
        };
        let schedule = Schedule::Sample { warm_up: settings.n_warmup, draws: settings.n_draws, thin: settings.thin };
        let (chains, sealed) = (settings.n_chains, state::seal(SCHEMA, &schema)?);
        let read = move |chains: &[Piece]| Ok(Box::new(FactorsPosterior::new(&schema, &settings, chains)?) as Box<dyn Posterior>);
        Ok(Fit::new(program, chains, schedule, sealed, warnings, read))
    }
}

/// Sweeps before the shape of atoms is learned.
const SHAPE_FROM: u64 = 30;

/// Rows of a factor that are dealt one after the other when it is split or merged. Between 64 and all of thousands of rows no difference was
/// seen in what is accepted.
const CORE: usize = 256;

fn sampler_of<L>(s: &Settings, schema: &Schema, likelihood: L) -> Sampler<L> {
    let first_atoms = s.start_factors as usize;
    Sampler {
        likelihood,
        kind: s.sampler,
        rows: schema.rows.clone(),
        mass: s.mass,
        mass_prior: s.learn_mass.then_some((1.0, 1.0 / s.mass)),
        concentration: 1.0,
        concentration_prior: Some((s.concentration_shape, s.concentration_rate)),
        split_merge: s.split_merge_attempts(),
        core: CORE,
        birth_rows: s.birth_rows_expected(),
        most_atoms: schema.most_atoms(s.max_factors),
        // within the warm-up, which need not keep the distribution; many factors tell it at once
        shape_from: if first_atoms > 1 { 0 } else { SHAPE_FROM.min(s.n_warmup / 2) },
        pairs: true,
        first_atoms,
    }
}

/// What there is to say where data cannot be fitted.
fn unfit(message: impl Into<String>) -> Error {
    Error::Unfit(message.into())
}
