//! Infinite latent features: rows are sums of a few features out of an unknown number.
//!
//! x = b + Σ_k z_k w_k + noise with z_k either 0 or 1. How often features are used follows the Indian buffet process or the stable-beta process,
//! whose uses follow a power law; features are Gaussian, or have directions that point away from one another. The book's chapter on
//! `features` has the mathematics.
//!
//! | file | what is in it |
//! |---|---|
//! | `settings.rs`, `schema.rs` | settings and what they may be; the data as results depend on them |
//! | `state.rs`, `codes.rs` | what every row sees; which rows use what |
//! | `sampler/`, `angular/` | the samplers; directions that point away from one another |
//! | `start.rs` | the start that is grown on a few rows |
//! | `draws.rs`, `stage.rs`, `posterior.rs`, `report.rs` | what is kept, and what it says of rows and of itself |
//! | `generate.rs`, `simulate.rs`, `check.rs` | the model as a distribution, data drawn from it, and the checks |

mod angular;
mod check;
mod codes;
mod draws;
mod generate;
mod posterior;
mod report;
#[doc(hidden)] // for benchmarks
pub mod sampler;
mod schema;
mod settings;
mod simulate;
mod stage;
mod start;
#[doc(hidden)] // for benchmarks
pub mod state;
#[cfg(test)]
mod testing;

pub use posterior::FeaturesPosterior;
pub(crate) use schema::Schema;
pub use settings::{DirectionKind, InterceptKind, MagnitudeKind, PriorKind, SamplerKind, Settings, StartKind};

use serde_json::{Map, Value};
use std::sync::Arc;

use super::{Declared, Family, Fit, Model, Setting, Simulation, Truth, as_map, in_use, resolve};
use crate::Result;
use crate::answer::Posterior;
use crate::check::{CheckReport, Effort, Progress};
use crate::data::survey::Around;
use crate::data::{Needs, Questions, Survey};
use crate::run::{AnyProgram, Piece, Schedule, state as saved};

const NAME: &str = "features";
const SCHEMA: saved::Kind = saved::Kind::new("features schema", &["0.1"]);

/// The family `features`.
pub struct Features;

impl Family for Features {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "Infinite latent features (Indian buffet, Pitman-Yor, mutual angular)"
    }

    fn about(&self) -> &'static str {
        "Which features a table of real numbers is built from (parts of images, sources of a spectrum, groups of words), how many there are, \
         and which rows use which. Every row is a sum of a few of them. The number of features is learned."
    }

    fn settings(&self) -> Vec<Setting> {
        Settings::table()
    }

    fn simulate_settings(&self) -> Vec<Setting> {
        simulate::Request::table()
    }

    fn quick_settings(&self) -> Map<String, Value> {
        as_map(&serde_json::json!({ "n_warmup": 30, "n_draws": 40 }))
    }

    fn configure(&self, given: &Map<String, Value>) -> Result<Box<dyn Model>> {
        Ok(Box::new(resolve::<Settings>(NAME, given)?.validate()?))
    }

    fn load(&self, saved: &[u8]) -> Result<Box<dyn Posterior>> {
        Ok(Box::new(FeaturesPosterior::load(saved)?))
    }
}

/// The family with valid settings, as [`Settings::validate`] makes it.
#[derive(Debug, Clone)]
pub struct FeaturesModel {
    settings: Settings,
}

impl FeaturesModel {
    /// The sampler of these data, and what a user should know of them.
    #[doc(hidden)] // for benchmarks
    pub fn sampler(&self, survey: &Survey) -> Result<(sampler::Sampler, Vec<String>)> {
        let (schema, warnings) = Schema::of(survey, &self.settings)?;
        Ok((schema.sampler(&self.settings), warnings))
    }

    fn bind(&self, schema: Schema, warnings: Vec<String>) -> Result<Fit> {
        let settings = self.settings.clone();
        let program: Arc<dyn AnyProgram> = Arc::new(schema.sampler(&settings));
        let schedule = Schedule::Sample { warm_up: settings.n_warmup, draws: settings.n_draws, thin: settings.thin };
        let (chains, sealed) = (settings.n_chains, saved::seal(SCHEMA, &schema)?);
        let read = move |chains: &[Piece]| Ok(Box::new(FeaturesPosterior::new(&schema, &settings, chains)?) as Box<dyn Posterior>);
        Ok(Fit::new(program, chains, schedule, sealed, warnings, read))
    }
}

impl Model for FeaturesModel {
    fn family(&self) -> &'static dyn Family {
        &Features
    }

    fn settings(&self) -> Map<String, Value> {
        as_map(&self.settings)
    }

    fn settings_in_use(&self) -> Map<String, Value> {
        in_use(&self.settings, &self.settings.meaningless())
    }

    fn questions(&self) -> Questions {
        let needs = Needs { missing: self.settings.missing, ..Needs::FEATURES };
        Questions { by_source: Some(Around::Mean), ..Questions::needing(needs) }
    }

    fn prepare(&self, survey: &Survey) -> Result<Fit> {
        let (schema, warnings) = Schema::of(survey, &self.settings)?;
        self.bind(schema, warnings)
    }

    fn reopen(&self, schema: &[u8]) -> Result<Fit> {
        self.bind(saved::unseal(SCHEMA, schema)?, Vec::new())
    }

    fn simulate(&self, rows: usize, request: &Map<String, Value>, seed: u64) -> Result<Simulation> {
        simulate::simulate(&self.settings, rows, &resolve("simulate features", request)?, seed)
    }

    fn simulate_more(&self, rows: usize, request: &Map<String, Value>, truth: &Truth<'_>, seed: u64) -> Result<Simulation> {
        simulate::simulate_more(&self.settings, rows, &resolve("simulate features", request)?, truth, seed)
    }

    fn check(&self, effort: &Effort, seed: u64, progress: &mut dyn FnMut(Progress)) -> Result<Vec<CheckReport>> {
        check::check(&self.settings, effort, seed, progress)
    }
}
