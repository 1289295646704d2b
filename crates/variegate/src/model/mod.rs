//! Model families and what every front asks of them.
//!
//! The way of a fit: a [`Family`] turns settings into a [`Model`]; the model looks at the data and becomes a [`Fit`] (a program and the
//! schema of its data); the driver runs it; the fit turns what was kept into a [`Posterior`]. Each step has one place for its errors.
//!
//! With typed settings ([`softmax::Settings`] and its sisters) only validated settings become a model. Fronts go by names:
//!
//! ```
//! use serde_json::json;
//! use variegate::model::{RunSettings, family, fit};
//! use variegate::run::Unobserved;
//!
//! # fn main() -> variegate::Result<()> {
//! let given = json!({ "experts": "2", "max_iter": 20 });
//! let model = family("softmax")?.configure(given.as_object().unwrap())?;
//! let simulated = model.simulate(100, &Default::default(), 1)?;
//! let fitted = fit(model.as_ref(), &simulated.data, &RunSettings::default(), &mut Unobserved)?;
//! assert_eq!(fitted.posterior.classes().len(), 3);
//!
//! let wrong = json!({ "max_iter": 0 });
//! let said = family("softmax")?.configure(wrong.as_object().unwrap()).err().unwrap().to_string();
//! assert!(said.starts_with("setting `max_iter` is 0, but it must be"), "{said}");
//! # Ok(())
//! # }
//! ```

mod class_weight;
mod elsewhere;
pub mod experts;
pub mod factors;
pub mod features;
mod fit;
#[doc(hidden)] // for benchmarks
pub mod gated;
mod gathered;
mod idle;
pub mod labels;
mod linear;
pub mod logistic;
mod matching;
mod ranks;
mod settings;
pub mod softmax;
pub mod svm;
pub mod tree;
mod truth;

pub use class_weight::ClassWeight;
pub use elsewhere::{Cluster, Task, fit_on};
pub use fit::{EXTENDABLE, Fit, Fitted, Prepared, RunSettings, arranged, fit, fit_more};
pub use settings::{
    Declared, Kind, Meaningless, Reader, SAMPLING, Setting, as_map, as_value, defaults, in_use, refuse_meaningless, resolve, resolve_from,
    short_number, shown,
};
pub use truth::Truth;

use serde_json::{Map, Value};

use crate::answer::Posterior;
use crate::check::{CheckReport, Effort, Progress};
use crate::data::{Dataset, Questions, Survey, TargetKind};
use crate::{Error, Result};

/// The families as modules, for [`crate::prelude`]. A new one is one word here and one in [`FAMILIES`].
pub mod families {
    pub use super::{experts, factors, features, labels, logistic, softmax, svm, tree};
}

/// Every family there is.
pub static FAMILIES: &[&dyn Family] = &[
    &logistic::Logistic,
    &svm::Svm,
    &softmax::Softmax,
    &experts::Experts,
    &factors::Factors,
    &features::Features,
    &labels::Labels,
    &tree::Tree,
];

/// The family of this name.
pub fn family(name: &str) -> Result<&'static dyn Family> {
    FAMILIES
        .iter()
        .find(|f| f.name() == name)
        .copied()
        .ok_or_else(|| Error::UnknownModel { name: name.into(), known: FAMILIES.iter().map(|f| f.name()).collect::<Vec<_>>().join(", ") })
}

/// A model family: its name, what it is for, and its settings.
pub trait Family: Sync {
    /// Name on the command line.
    fn name(&self) -> &'static str;
    /// What it is, in one line.
    fn title(&self) -> &'static str;
    /// What it is for and how it is fitted, in a paragraph.
    fn about(&self) -> &'static str;
    /// Its settings.
    fn settings(&self) -> Vec<Setting>;
    /// What `simulate` can be told, beside rows, seed and those of the settings that it reads.
    fn simulate_settings(&self) -> Vec<Setting>;
    /// Settings under which a fit of a few hundred rows takes seconds and still shows what the family does; for a demonstration.
    fn quick_settings(&self) -> Map<String, Value> {
        Map::new()
    }
    /// Checks settings; those not given take their defaults.
    fn configure(&self, given: &Map<String, Value>) -> Result<Box<dyn Model>>;
    /// A posterior from bytes that [`Posterior::save`] made.
    fn load(&self, saved: &[u8]) -> Result<Box<dyn Posterior>>;
}

/// A family with valid settings.
pub trait Model: Send + Sync {
    /// Its family.
    fn family(&self) -> &'static dyn Family;
    /// Every setting with its value.
    fn settings(&self) -> Map<String, Value>;
    /// The settings that a fit reads, with their values: not those that others make meaningless.
    fn settings_in_use(&self) -> Map<String, Value> {
        self.settings()
    }
    /// What kind of target it is fitted to; nothing for a model of the rows alone.
    fn target(&self) -> Option<TargetKind> {
        self.questions().needs.target
    }
    /// Whether its chains begin with labels of the rows: a fit then reads one name a row in the place of a target, and an empty name for a row
    /// whose label is not known.
    fn start_labels(&self) -> bool {
        false
    }
    /// Whether features may be missing (NaN).
    fn missing(&self) -> bool {
        self.questions().needs.missing
    }
    /// What it asks of the data before it can be bound to them.
    fn questions(&self) -> Questions;
    /// Binds the model to the schema of data that were asked its questions.
    fn prepare(&self, survey: &Survey) -> Result<Fit>;
    /// Binds the model to further rows, on top of an earlier fit: what [`Posterior::save`] made of it. Its rows are gone.
    fn prepare_more(&self, earlier: &[u8], survey: &Survey) -> Result<Fit> {
        let _ = (earlier, survey);
        Err(Error::Unfit(format!("a fit of `{}` cannot go on with further rows: fit all rows together", self.family().name())))
    }
    /// The fit of an earlier [`Model::prepare`], from its schema: no data are needed to read results.
    fn reopen(&self, schema: &[u8]) -> Result<Fit>;
    /// Data from the model's prior, with the truth.
    fn simulate(&self, rows: usize, request: &Map<String, Value>, seed: u64) -> Result<Simulation>;
    /// Further rows from a truth that [`Model::simulate`] told under these settings. They are others than those of the same seed there.
    fn simulate_more(&self, rows: usize, request: &Map<String, Value>, truth: &Truth<'_>, seed: u64) -> Result<Simulation>;
    /// Whether the inference does what it claims, on small data of its own: the checks of [`crate::check`] for a sampler, a valid and
    /// rising bound for a variational method.
    fn check(&self, effort: &Effort, seed: u64, progress: &mut dyn FnMut(Progress)) -> Result<Vec<CheckReport>>;
}

/// Data drawn from a model, with the parameters they were drawn from.
#[derive(Debug, Clone)]
pub struct Simulation {
    /// The data.
    pub data: Dataset<'static>,
    /// The truth: named values.
    pub truth: Map<String, Value>,
}
