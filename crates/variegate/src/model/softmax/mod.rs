//! Softmax classification by variational Bayes.
//!
//! p(y = c | x) ∝ exp(w_cᵀx̃) with x̃ the standardised row and a one for the bias; w_cj ~ N(0, 1/α_g), α_g ~ Gamma(a₀, b₀), where
//! `precision` says which weights share an α. q(W) is Gaussian, q(α) Gamma; the log-sum-exp of the logits is bounded from above, so that
//! the objective L is a lower bound on the log evidence and never falls.
//!
//! | file | what it is |
//! |---|---|
//! | `bound.rs` | upper bounds of the expected log-sum-exp; `tilted.rs`, `double.rs` hold the two there are |
//! | `precision.rs` | groups of prior precisions |
//! | `node.rs` | Gaussian factor of a node and its step |
//! | `map.rs` | the start: penalised maximum likelihood |
//! | `vb.rs` | the program: visits, sweeps, when to stop |
//! | `expect.rs` | E softmax under q |
//! | `posterior.rs` | predictions and summaries |
//! | `check.rs` | does the bound rise, and stay a bound? |

pub mod bound;
mod check;
mod double;
mod expect;
pub mod map;
pub mod node;
mod posterior;
pub mod precision;
mod simulate;
mod tilted;
pub mod vb;

pub use bound::Bound;
pub use node::Covariance;
pub use posterior::SoftmaxPosterior;
pub use precision::Precision;
pub use vb::{State, Vb};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::columns::column_warnings;
use super::{Family, Fit, Kind, Model, Posterior, Setting, Simulation, as_map, defaults, resolve};
use crate::check::{CheckReport, Effort, Progress};
use crate::data::{DataError, Dataset, Design, Needs, Scaling, Target, TargetKind};
use crate::run::{AnyProgram, Piece, Schedule, saved_global, state};
use crate::{Error, Result};
use precision::Prior;

const NAME: &str = "softmax";
const SCHEMA: &str = "softmax schema";
/// `auto` takes a joint covariance up to this many weights.
const JOINT_UP_TO: usize = 512;
/// Numbers in the matrices of one statistic; a thread holds several of them.
const MOST_NUMBERS: usize = 25_000_000;

/// Shape of the covariance, as users ask for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CovarianceChoice {
    /// Joint for up to 512 weights, else child.
    Auto,
    /// One covariance for all weights.
    Joint,
    /// One for the weights of each class.
    Child,
}

/// Settings of a fit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Bound of the log-sum-exp.
    pub bound: Bound,
    /// Which weights may correlate under the posterior.
    pub covariance: CovarianceChoice,
    /// Which weights share a prior precision.
    pub precision: Precision,
    /// The prior precision where `precision` is `fixed`.
    pub prior_precision: f64,
    /// Shape of the prior of precisions.
    pub a0: f64,
    /// Rate of the prior of precisions.
    pub b0: f64,
    /// Prior precision of the bias; `None` treats it like any other input.
    pub bias_precision: Option<f64>,
    /// Whether columns are centred and scaled to unit variance first.
    pub standardize: bool,
    /// Ascent ends when a sweep gains less than this.
    pub tol: f64,
    /// Most sweeps.
    pub max_iter: u64,
    /// Penalty of squared weights in the search for the start.
    pub map_penalty: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            bound: Bound::Tilted,
            covariance: CovarianceChoice::Auto,
            precision: Precision::Node,
            prior_precision: 1.0,
            a0: 1.0,
            b0: 1.0,
            bias_precision: None,
            standardize: true,
            tol: 1e-3,
            max_iter: 600,
            map_penalty: 1e-2,
        }
    }
}

impl Settings {
    /// A setting that another one makes meaningless must not be given.
    fn validate(&self) -> Result<()> {
        let standard = Self::default();
        if self.precision == Precision::Fixed {
            for (name, value, default) in [("a0", self.a0, standard.a0), ("b0", self.b0, standard.b0)] {
                if value != default {
                    return Err(Error::setting(name, value, "left out where `precision` is `fixed`"));
                }
            }
        } else if self.prior_precision != standard.prior_precision {
            return Err(Error::setting("prior_precision", self.prior_precision, "left out unless `precision` is `fixed`"));
        }
        Ok(())
    }

    /// Prior of the weights.
    fn prior(&self, children: usize, design: &Design) -> Prior {
        let bias = self.bias_precision.filter(|_| design.intercept);
        Prior::new(self.precision, children, design.dim(), self.a0, self.b0, self.prior_precision, bias)
    }

    /// The covariance to use for `children` weight vectors of `dim` entries. The double bound sees each class alone: its joint
    /// optimum is block diagonal, which is what `child` holds.
    fn covariance(&self, children: usize, dim: usize) -> Covariance {
        match (self.bound, self.covariance) {
            (Bound::Double, _) | (_, CovarianceChoice::Child) => Covariance::Child,
            (_, CovarianceChoice::Joint) => Covariance::Joint,
            (_, CovarianceChoice::Auto) if children * dim <= JOINT_UP_TO => Covariance::Joint,
            (_, CovarianceChoice::Auto) => Covariance::Child,
        }
    }
}

/// The family `softmax`.
pub struct Softmax;

impl Family for Softmax {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "Softmax classification by variational Bayes"
    }

    fn about(&self) -> &'static str {
        "Two classes or more, linear boundaries, probabilities that know how sure the weights are, and a lower bound on the log \
         evidence to compare models by (only between fits with the same `bound`, `covariance` and `precision`). It starts from \
         penalised maximum likelihood. Rows may have any non-negative weight."
    }

    fn settings(&self) -> Vec<Setting> {
        let positive = Kind::Number { above: 0.0, most: f64::MAX };
        vec![
            Setting { name: "bound", kind: Kind::Word(&["tilted", "double"]), help: "Bound of the log-sum-exp; double is much looser" },
            Setting {
                name: "covariance",
                kind: Kind::Word(&["auto", "joint", "child"]),
                help: "Covariance of all weights, or of each class apart; auto is joint up to 512 weights",
            },
            Setting {
                name: "precision",
                kind: Kind::Word(&["node", "child", "feature", "entry", "fixed"]),
                help: "Weights that share a learned prior precision: all, of a class, of a column, none; or fixed",
            },
            Setting { name: "prior_precision", kind: positive, help: "Prior precision of each weight where precision is fixed" },
            Setting { name: "a0", kind: positive, help: "Shape of the Gamma prior of precisions" },
            Setting { name: "b0", kind: positive, help: "Rate of the Gamma prior of precisions" },
            Setting {
                name: "bias_precision",
                kind: Kind::OptionalNumber { above: 0.0, most: f64::MAX },
                help: "Fixed prior precision of the bias; nothing treats it like any other input",
            },
            Setting { name: "standardize", kind: Kind::Switch, help: "Whether columns are centred and scaled first" },
            Setting { name: "tol", kind: positive, help: "The fit ends when a sweep raises the bound by less than this" },
            Setting { name: "max_iter", kind: Kind::Integer { least: 1, most: 100_000_000 }, help: "Most sweeps" },
            Setting { name: "map_penalty", kind: positive, help: "Penalty of squared weights in the search for the start" },
        ]
    }

    fn defaults(&self) -> Map<String, Value> {
        defaults::<Settings>()
    }

    fn simulate_settings(&self) -> Vec<Setting> {
        simulate::SETTINGS.to_vec()
    }

    fn simulate_defaults(&self) -> Map<String, Value> {
        defaults::<simulate::Request>()
    }

    fn configure(&self, given: &Map<String, Value>) -> Result<Box<dyn Model>> {
        let settings: Settings = resolve(NAME, &self.settings(), given)?;
        settings.validate()?;
        Ok(Box::new(SoftmaxModel { settings }))
    }

    fn load(&self, saved: &[u8]) -> Result<Box<dyn Posterior>> {
        Ok(Box::new(SoftmaxPosterior::load(saved)?))
    }
}

/// The family with valid settings.
#[derive(Debug, Clone)]
pub struct SoftmaxModel {
    /// The settings.
    pub settings: Settings,
}

/// What results depend on beside q.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Schema {
    columns: Vec<String>,
    classes: Vec<String>,
    /// Total weight of the rows of each class.
    counts: Vec<f64>,
    design: Design,
}

impl Model for SoftmaxModel {
    fn family(&self) -> &'static dyn Family {
        &Softmax
    }

    fn settings(&self) -> Map<String, Value> {
        as_map(&self.settings)
    }

    fn prepare(&self, data: &Dataset<'_>) -> Result<Box<dyn Fit>> {
        data.check(Needs::target(TargetKind::Classes))?;
        let Target::Classes(classes) = &data.target else { return Err(DataError::NoTarget.into()) };
        let mut counts = vec![0.0; classes.names.len()];
        for (i, &code) in classes.codes.iter().enumerate() {
            counts[code as usize] += data.weights.as_ref().map_or(1.0, |w| w[i]);
        }
        if let Some(empty) = counts.iter().position(|&n| n == 0.0) {
            return Err(Error::Unfit(format!(
                "class `{}` has no row of positive weight: leave it out of the list of classes",
                classes.names[empty]
            )));
        }
        let s = &self.settings;
        let scaling = Scaling { center: s.standardize, scale: s.standardize, intercept: true, drop_constant: true };
        let (design, dropped) = Design::fit(&data.x, data.weights.as_deref(), scaling);
        self.check_size(counts.len(), design.dim())?;
        let mut warnings = column_warnings(data, &dropped, s.standardize);
        if s.bound == Bound::Double && s.covariance == CovarianceChoice::Joint {
            warnings.push(
                "with the double bound a joint covariance has no entries between classes: `child` gives the same fit and was used".into(),
            );
        }
        let schema = Schema { columns: data.columns.clone(), classes: classes.names.clone(), counts, design };
        Ok(Box::new(SoftmaxFit::new(s, schema, warnings)))
    }

    fn reopen(&self, schema: &[u8]) -> Result<Box<dyn Fit>> {
        Ok(Box::new(SoftmaxFit::new(&self.settings, state::unseal(SCHEMA, schema)?, Vec::new())))
    }

    fn simulate(&self, rows: usize, request: &Map<String, Value>, seed: u64) -> Result<Simulation> {
        let request = resolve("simulate softmax", &simulate::SETTINGS, request)?;
        simulate::simulate(&self.settings, rows, &request, seed)
    }

    fn check(&self, effort: &Effort, seed: u64, progress: &mut dyn FnMut(Progress)) -> Result<Vec<CheckReport>> {
        check::check(&self.settings, effort.calibration.data_sets / 10, seed, progress)
    }
}

impl SoftmaxModel {
    /// Refuses what would take gigabytes.
    fn check_size(&self, classes: usize, dim: usize) -> Result<()> {
        let covariance = self.settings.covariance(classes, dim);
        let numbers = match covariance {
            Covariance::Child => classes.saturating_mul(dim).saturating_mul(dim),
            Covariance::Joint => (classes * dim).saturating_mul(classes * dim),
        };
        if numbers <= MOST_NUMBERS {
            return Ok(());
        }
        let advice = match covariance {
            Covariance::Child => {
                let most = ((MOST_NUMBERS / classes) as f64).sqrt() as usize;
                format!("{classes} classes can have at most {most} columns: select columns first")
            }
            Covariance::Joint => "set `covariance` to `child`, or select columns first".to_string(),
        };
        Err(Error::Unfit(format!(
            "{} covariance matrices of {classes} classes and {dim} columns are too large: {advice}",
            covariance.word()
        )))
    }
}

struct SoftmaxFit {
    settings: Settings,
    schema: Schema,
    program: Vb,
    warnings: Vec<String>,
}

impl SoftmaxFit {
    fn new(settings: &Settings, schema: Schema, warnings: Vec<String>) -> Self {
        let program = Self::program_of(settings, schema.classes.len(), &schema.design);
        Self { settings: settings.clone(), schema, program, warnings }
    }

    fn program_of(settings: &Settings, children: usize, design: &Design) -> Vb {
        Vb {
            children,
            bound: settings.bound,
            covariance: settings.covariance(children, design.dim()),
            prior: settings.prior(children, design),
            map_penalty: settings.map_penalty,
            tol: settings.tol,
            design: design.clone(),
        }
    }
}

impl Fit for SoftmaxFit {
    fn program(&self) -> &dyn AnyProgram {
        &self.program
    }

    /// The start is the one maximum of a concave function, so there is nothing to restart from.
    fn chains(&self) -> u32 {
        1
    }

    fn schedule(&self) -> Schedule {
        Schedule::Ascend { max_sweeps: self.settings.max_iter }
    }

    fn schema(&self) -> Result<Vec<u8>> {
        Ok(state::seal(SCHEMA, &self.schema)?)
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn posterior(&self, chains: &[Piece]) -> Result<Box<dyn Posterior>> {
        let Some(piece) = chains.first() else {
            return Err(Error::Unfit("the run has not made its first sweep yet: resume it".into()));
        };
        let state = saved_global::<Vb>(&piece.checkpoint)?;
        let alpha = self.program.prior.group_means(&state.node.rates);
        Ok(Box::new(SoftmaxPosterior::new(&self.schema, &self.settings, alpha, &state, piece.sweeps)?))
    }
}

#[cfg(test)]
mod tests;
