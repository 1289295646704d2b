//! Diversified mixtures of experts: a softmax gate over linear classifiers whose directions are kept diverse by their prior.
//!
//! z ~ Cat(softmax_k(η_k·x + c_k)); given z = k, y ~ Cat(softmax(V(Θ_k x + b_k))). The weights of an expert (and of a gate) are a
//! length times a direction; lengths are Gamma, and directions are coupled by a mutual angular chain or a determinant, so that no two
//! experts say the same. A Gaussian prior leaves them independent.
//!
//! | file | what it is |
//! |---|---|
//! | `settings.rs` | settings, their defaults, and what goes with what |
//! | `shape.rs` | coordinates, weights as rows see them, and the ways between |
//! | `point_prior.rs` | the prior of a point |
//! | `../gated.rs` | rows of a gate over experts: likelihood, shares, derivatives |
//! | `starts.rs`, `map.rs` | penalised maximum likelihood: where fits begin, and a fit of its own |
//! | `hmc.rs`, `gibbs.rs`, `mh.rs` | the samplers; `sampler.rs` is what they share, `moves.rs` and `hyper.rs` the steps |
//! | `vb/` | variational Bayes and posterior regularisation |
//! | `draws.rs`, `posterior.rs` | what is kept of a point; predictions |
//! | `shares.rs`, `spread.rs`, `report.rs` | shares of experts; angles of those in use; summaries |
//! | `fit.rs`, `tree.rs` | which program a fit runs; Gaussian weights by variational Bayes, which is the family softmax |
//! | `simulate.rs`, `check.rs` | data from the prior; do the samplers draw from the posterior? |

mod check;
mod draws;
mod fit;
mod gibbs;
mod hmc;
mod hyper;
mod map;
mod mh;
mod moves;
mod point_prior;
mod posterior;
mod report;
mod sampler;
mod settings;
mod shape;
mod shares;
mod simulate;
mod spread;
mod starts;
mod tree;
mod vb;

pub use posterior::ExpertsPosterior;
pub use settings::{GateBound, Hyper, Inference, Intercept, Metric, Prior, Scale, Settings};
#[doc(hidden)] // sizes, for benchmarks
pub use shape::Shape;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::softmax::Softmax;
use super::{Declared, Family, Fit, Model, Setting, Simulation, Truth, as_map, in_use, resolve};
use crate::Result;
use crate::answer::Posterior;
use crate::check::{CheckReport, Effort, Progress};
use crate::data::{Design, Questions, Survey};
use crate::run::state;

pub(crate) const NAME: &str = "experts";
const SCHEMA: state::Kind = state::Kind::new("experts schema", &["0.1"]);

/// What results depend on beside draws.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Schema {
    pub(crate) columns: Vec<String>,
    pub(crate) classes: Vec<String>,
    /// Total weight of the rows of each class.
    pub(crate) counts: Vec<f64>,
    pub(crate) design: Design,
    pub(crate) shape: Shape,
    /// Some design rows, at which chains are asked whether their predictions agree.
    pub(crate) probes: Vec<f64>,
}

/// The family `experts`.
pub struct Experts;

impl Family for Experts {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "Mixtures of diverse experts (repulsive priors), by exact draws or variational Bayes"
    }

    fn about(&self) -> &'static str {
        "Two classes or more, split softly among linear experts whose directions repel each other, so that few of them go far and rare patterns can \
         have an expert of their own. The prior is a chain of directions (mutual-angular), a determinant, or independent Gaussians; the \
         posterior is drawn from exactly, bounded, or maximised. Angles depend on the scale of columns: they are scaled first unless told \
         otherwise. Prior gaussian with inference vb is the family softmax with a given number of experts, and is fitted as such."
    }

    fn settings(&self) -> Vec<Setting> {
        Settings::table()
    }

    fn simulate_settings(&self) -> Vec<Setting> {
        simulate::Request::table()
    }

    /// Chains need minutes to agree; the bound does not.
    fn quick_settings(&self) -> Map<String, Value> {
        as_map(&serde_json::json!({ "inference": "vb" }))
    }

    fn configure(&self, given: &Map<String, Value>) -> Result<Box<dyn Model>> {
        Ok(Box::new(resolve::<Settings>(NAME, given)?.validate()?))
    }

    fn load(&self, saved: &[u8]) -> Result<Box<dyn Posterior>> {
        if state::kind(saved)? == posterior::SAVED.name {
            return Ok(Box::new(ExpertsPosterior::read(saved)?));
        }
        Softmax.load(saved)
    }
}

/// The family with valid settings, as [`Settings::validate`] makes it.
#[derive(Debug, Clone)]
pub struct ExpertsModel {
    settings: Settings,
    /// What is fitted instead, for Gaussian weights by variational Bayes.
    tree: Option<tree::TreeModel>,
}

impl Model for ExpertsModel {
    fn family(&self) -> &'static dyn Family {
        &Experts
    }

    fn settings(&self) -> Map<String, Value> {
        as_map(&self.settings)
    }

    fn settings_in_use(&self) -> Map<String, Value> {
        let mut used = in_use(&self.settings, &self.settings.meaningless());
        if self.tree.is_some() {
            tree::NOT_READ.iter().for_each(|name| drop(used.remove(*name)));
        }
        used
    }

    fn questions(&self) -> Questions {
        self.tree.as_ref().map_or_else(fit::questions, tree::TreeModel::questions)
    }

    fn prepare(&self, survey: &Survey) -> Result<Fit> {
        if let Some(tree) = &self.tree {
            return tree.prepare(survey);
        }
        let (schema, warnings) = fit::schema(&self.settings, survey)?;
        fit::check(&self.settings, &schema, survey)?;
        fit::bind(&self.settings, schema, warnings)
    }

    fn reopen(&self, schema: &[u8]) -> Result<Fit> {
        if let Some(tree) = &self.tree {
            return tree.reopen(schema);
        }
        fit::bind(&self.settings, state::unseal(SCHEMA, schema)?, Vec::new())
    }

    fn simulate(&self, rows: usize, request: &Map<String, Value>, seed: u64) -> Result<Simulation> {
        let request = resolve("simulate experts", request)?;
        simulate::simulate(&self.settings, rows, &request, seed)
    }

    fn simulate_more(&self, rows: usize, request: &Map<String, Value>, truth: &Truth<'_>, seed: u64) -> Result<Simulation> {
        let request = resolve("simulate experts", request)?;
        simulate::simulate_more(&self.settings, rows, &request, truth, seed)
    }

    fn check(&self, effort: &Effort, seed: u64, progress: &mut dyn FnMut(Progress)) -> Result<Vec<CheckReport>> {
        if let Some(tree) = &self.tree {
            return tree.check(effort, seed, progress);
        }
        check::check(&self.settings, effort, seed, progress)
    }
}

#[cfg(test)]
mod shares_tests;
#[cfg(test)]
mod tests;
