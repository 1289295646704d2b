//! Cluster tree: rows grouped into a tree of fixed depth and unknown width, by a mixture whose components all nodes share.
//!
//! Each row walks down a nested Chinese restaurant from the root (level 0) to a leaf (level `L`); each node has weights over one common
//! set of components, those of a child drawn around those of its parent (a multilevel hierarchical Dirichlet process); a row takes a
//! component by the weights of its leaf. With a separation `C > 0` a large-margin term pulls siblings apart.

mod arena;
mod check;
pub(crate) mod components;
mod draw;
pub(crate) mod draws;
pub(crate) mod export;
mod fixed;
mod generate;
mod labels;
pub(crate) mod margin;
mod numbers;
pub(crate) mod point;
mod posterior;
pub(crate) mod predict;
mod principal;
pub(crate) mod program;
mod report;
mod sampler;
mod settings;
mod simulate;
mod state;
mod tempering;

pub use numbers::{Numbers, Pull};
pub use posterior::TreePosterior;
pub use settings::{
    ComponentKind, OwnMarginKind, PathMoveKind, PenaltyKind, SamplerKind, ScoreUpdateKind, Settings, StartKind, TargetKind, ThetaKind,
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::Arc;

use super::{Declared, Family, Fit, Model, Setting, Simulation, Truth, as_map, in_use, resolve};
use crate::answer::Posterior;
use crate::check::{CheckReport, Effort, Progress};
use crate::data::{Needs, Questions, Survey, TargetHeader};
use crate::run::{AnyProgram, Piece, Schedule, state as saved};
use crate::{Error, Result};
use components::Family as ComponentFamily;

const NAME: &str = "tree";
const SCHEMA: saved::Kind = saved::Kind::new("tree schema", &["0.1", "0.1"]);

/// The family `tree`.
pub struct Tree;

impl Family for Tree {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "Cluster tree (Bayesian hierarchical mixture clustering, plain or with a margin)"
    }

    fn about(&self) -> &'static str {
        "Groups rows into a tree of fixed depth and unknown width: every level is a clustering, deeper levels refine higher ones, and all \
         nodes mix the same components. It says who belongs together at which level and how surely, and how probable new rows are. A \
         separation pulls siblings apart."
    }

    fn settings(&self) -> Vec<Setting> {
        Settings::table()
    }

    fn simulate_settings(&self) -> Vec<Setting> {
        simulate::Request::table()
    }

    fn quick_settings(&self) -> Map<String, Value> {
        as_map(&serde_json::json!({ "n_chains": 2, "n_warmup": 100, "n_draws": 100, "thin": 1 }))
    }

    fn configure(&self, given: &Map<String, Value>) -> Result<Box<dyn Model>> {
        Ok(Box::new(resolve::<Settings>(NAME, given)?.validate()?))
    }

    fn load(&self, saved: &[u8]) -> Result<Box<dyn Posterior>> {
        Ok(Box::new(TreePosterior::load(saved)?))
    }
}

/// The data as results depend on them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Schema {
    /// Names of columns; empty if they had none.
    columns: Vec<String>,
    width: usize,
    rows: usize,
    /// Names of the labels that chains begin with; empty where they begin otherwise.
    labels: Vec<String>,
}

impl Schema {
    /// The schema of data; `labelled` where chains begin with labels.
    fn of(survey: &Survey, labelled: bool) -> Result<Self> {
        let header = survey.header();
        if header.weighted {
            return Err(Error::Unfit("tree does not weigh rows: leave the weights out, or repeat rows".into()));
        }
        if header.sources.is_some() {
            return Err(Error::Unfit("tree does not tell sources apart: leave them out".into()));
        }
        let rows = u32::try_from(survey.rows()).map_err(|_| Error::Unfit("tree takes at most 4294967295 rows".into()))?;
        let labels = match &header.target {
            _ if !labelled => Vec::new(),
            TargetHeader::Classes(names) => names.clone(),
            _ => {
                return Err(Error::Unfit(
                    "`start` is labels, but the rows have none: say which column holds them (--start-labels COLUMN; in Python \
                     fit(X, start_labels=...)), or choose another `start`"
                        .into(),
                ));
            }
        };
        Ok(Self { columns: header.columns.clone(), width: header.width, rows: rows as usize, labels })
    }

    /// From its sealed form.
    fn unseal(sealed: &[u8]) -> Result<Self> {
        Ok(saved::unseal_older(SCHEMA, sealed, |older| match older.version {
            // the first had no labels
            1 => older.decode_followed_by(&Vec::<String>::new()),
            _ => Err(older.refused()),
        })?)
    }

    /// Names of columns, for messages.
    fn names(&self) -> Vec<String> {
        (0..self.width).map(|d| self.columns.get(d).cloned().unwrap_or_else(|| format!("x{d}"))).collect()
    }
}

/// The family with valid settings, as [`Settings::validate`] makes it.
#[derive(Debug, Clone)]
pub struct TreeModel {
    settings: Settings,
}

impl TreeModel {
    fn bind(&self, schema: Schema) -> Result<Fit> {
        let settings = &self.settings;
        let labels = labels::paths(&schema.labels, settings.depth as usize)?;
        let program: Arc<dyn AnyProgram> = Arc::new(settings.program(schema.rows, schema.names(), labels));
        let schedule = Schedule::Sample { warm_up: settings.n_warmup, draws: settings.n_draws, thin: settings.thin };
        let sealed = saved::seal(SCHEMA, &schema)?;
        let own = settings.clone();
        let read =
            move |chains: &[Piece]| Ok(Box::new(TreePosterior::read(&schema.columns, schema.width, &own, chains)?) as Box<dyn Posterior>);
        Ok(Fit::new(program, settings.n_chains, schedule, sealed, Vec::new(), read))
    }
}

impl Model for TreeModel {
    fn family(&self) -> &'static dyn Family {
        &Tree
    }

    fn settings(&self) -> Map<String, Value> {
        as_map(&self.settings)
    }

    fn settings_in_use(&self) -> Map<String, Value> {
        in_use(&self.settings, &self.settings.meaningless())
    }

    fn start_labels(&self) -> bool {
        self.settings.start == StartKind::Labels
    }

    fn questions(&self) -> Questions {
        // covariances and proportions of totals need whole rows
        let whole = matches!(self.settings.family(), ComponentFamily::GaussianFull | ComponentFamily::Multinomial);
        Questions::needing(Needs { missing: !whole, ..Needs::FEATURES })
    }

    fn prepare(&self, survey: &Survey) -> Result<Fit> {
        self.bind(Schema::of(survey, self.start_labels())?)
    }

    fn reopen(&self, schema: &[u8]) -> Result<Fit> {
        self.bind(Schema::unseal(schema)?)
    }

    fn simulate(&self, rows: usize, request: &Map<String, Value>, seed: u64) -> Result<Simulation> {
        simulate::simulate(&self.settings, rows, &resolve("simulate tree", request)?, seed)
    }

    fn simulate_more(&self, rows: usize, request: &Map<String, Value>, truth: &Truth<'_>, seed: u64) -> Result<Simulation> {
        simulate::simulate_more(&self.settings, rows, &resolve("simulate tree", request)?, truth, seed)
    }

    fn check(&self, effort: &Effort, seed: u64, progress: &mut dyn FnMut(Progress)) -> Result<Vec<CheckReport>> {
        check::check(&self.settings, effort, seed, progress)
    }
}

#[cfg(test)]
mod tests;
