//! Model families and what every front asks of them.
//!
//! The way of a fit: a [`Family`] turns settings into a [`Model`]; the model looks at the data and becomes a [`Fit`] (a program and the
//! schema of its data); the driver runs it; the fit turns what was kept into a [`Posterior`]. Each step has one place for its errors.

mod columns;
pub mod experts;
pub mod factors;
pub mod gated;
pub mod logistic;
mod settings;
pub mod softmax;
mod unsupervised;

pub use settings::{Kind, Meaningless, SAMPLING, SIMULATED_CLASSES, Setting, as_map, defaults, refuse_meaningless, resolve};
pub use unsupervised::{Coordinates, HeldOut, HeldOutEffort};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::time::Duration;

use crate::check::{CheckReport, Effort, Progress};
use crate::data::{Dataset, Needs, TargetKind, X};
use crate::run::{AnyProgram, Ending, Memory, Observer, Pace, Piece, Plan, Schedule, default_block_rows, drive};
use crate::{Error, Result};
use unsupervised::has_no_factors;

/// Every family there is. A new one is one line here.
pub static FAMILIES: &[&dyn Family] = &[&logistic::Logistic, &softmax::Softmax, &experts::Experts, &factors::Factors];

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
    /// Default of every setting.
    fn defaults(&self) -> Map<String, Value>;
    /// What `simulate` can be told, beside rows and seed.
    fn simulate_settings(&self) -> Vec<Setting>;
    /// Defaults of those.
    fn simulate_defaults(&self) -> Map<String, Value>;
    /// Which of its own settings `simulate` reads: those of the model, not those of the fit.
    fn simulate_reads(&self) -> Vec<&'static str>;
    /// Which of its own settings `check` reads, beside the data and priors of its own.
    fn check_reads(&self) -> Vec<&'static str>;
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
    /// What kind of target it is fitted to; nothing for a model of the rows alone.
    fn target(&self) -> Option<TargetKind> {
        Some(TargetKind::Classes)
    }
    /// Whether features may be missing (NaN).
    fn missing(&self) -> bool {
        false
    }
    /// Checks the data and binds the model to their schema.
    fn prepare(&self, data: &Dataset<'_>) -> Result<Box<dyn Fit>>;
    /// The fit of an earlier [`Model::prepare`], from its schema: no data are needed to read results.
    fn reopen(&self, schema: &[u8]) -> Result<Box<dyn Fit>>;
    /// Data from the model's prior, with the truth.
    fn simulate(&self, rows: usize, request: &Map<String, Value>, seed: u64) -> Result<Simulation>;
    /// Whether the inference does what it claims, on small data of its own: the checks of [`crate::check`] for a sampler, a valid and
    /// rising bound for a variational method.
    fn check(&self, effort: &Effort, seed: u64, progress: &mut dyn FnMut(Progress)) -> Result<Vec<CheckReport>>;
}

/// A model bound to the schema of its data: ready to run, and able to read what a run has kept.
pub trait Fit: Send + Sync {
    /// What the driver runs.
    fn program(&self) -> &dyn AnyProgram;
    /// Number of chains, or of starts.
    fn chains(&self) -> u32;
    /// How long they run.
    fn schedule(&self) -> Schedule;
    /// Everything about the data that results depend on (names, classes, scaling), sealed.
    fn schema(&self) -> Result<Vec<u8>>;
    /// What a user should know before the fit: dropped columns, doubtful scales…
    fn warnings(&self) -> &[String];
    /// The posterior, from everything that was kept of every chain. Works on unfinished chains where that makes sense.
    fn posterior(&self, chains: &[Piece]) -> Result<Box<dyn Posterior>>;
    /// The posterior of every structure that was compared, in the order of [`Posterior::selection`]; empty if there is one alone.
    fn candidates(&self, chains: &[Piece]) -> Result<Vec<Box<dyn Posterior>>> {
        let _ = chains;
        Ok(Vec::new())
    }
}

/// A fitted model. It needs no training data, and what it says of a row depends on that row alone.
pub trait Posterior: Send + Sync {
    /// Its family, and the rows it was fitted on.
    fn origin(&self) -> Origin<'_>;
    /// Name of its family.
    fn family(&self) -> &'static str {
        self.origin().family
    }
    /// Names of the columns it was fitted on; empty if they had none.
    fn columns(&self) -> &[String] {
        self.origin().columns
    }
    /// Number of columns it was fitted on.
    fn width(&self) -> usize {
        self.origin().width
    }
    /// Names of the classes.
    fn classes(&self) -> &[String] {
        self.origin().classes
    }
    /// Names of the sources it was fitted on; empty if rows had none.
    fn sources(&self) -> &[String] {
        &[]
    }
    /// Whether it was fitted to a target, which it predicts.
    fn predicts(&self) -> bool {
        !self.methods().is_empty()
    }
    /// The words that `method` of [`Posterior::predict`] may be; the first is the default. Without a target there are none.
    fn methods(&self) -> &'static [&'static str] {
        &[]
    }
    /// Class probabilities of each row. An empty method is the default.
    fn predict(&self, data: &Dataset<'_>, method: &str) -> Result<ClassProbabilities> {
        let _ = (data, method);
        let what = "use transform for the coordinates of rows, held_out or complete for their probability";
        Err(Error::Unfit(format!("`{}` has no target to predict: {what}", self.family())))
    }
    /// Number of real outcomes it predicts; 0 for a classifier.
    fn outputs(&self) -> usize {
        0
    }
    /// Distribution of the real outcomes of each row, with its quantiles at these levels. With outcomes in the data, also their log density.
    fn predict_real(&self, data: &Dataset<'_>, levels: &[f64], method: &str) -> Result<RealPrediction> {
        let _ = (data, levels, method);
        Err(Error::Unfit(format!("`{}` was fitted to classes: it predicts no real outcomes", self.family())))
    }
    /// Share of each hidden component (subclass, expert, path) in each row: given the row alone, or given its outcome too where the
    /// data have a target.
    fn responsibilities(&self, data: &Dataset<'_>) -> Result<Responsibilities> {
        let _ = data;
        Err(Error::Unfit(format!("`{}` has no hidden components", self.family())))
    }
    /// Probability that two rows come from the same hidden component, for all pairs (n×n, row-major). Labels of components do not matter to it.
    fn together(&self, data: &Dataset<'_>) -> Result<Vec<f64>> {
        let _ = data;
        Err(Error::Unfit(format!("`{}` does not say which rows share a component", self.family())))
    }
    /// Coordinates of each row in the space of factors.
    fn transform(&self, data: &Dataset<'_>) -> Result<Coordinates> {
        let _ = data;
        Err(has_no_factors(self.family(), "space to place rows in"))
    }
    /// Whether the rows that it explains are counts, which can be completed and whose probabilities are no densities; none if it
    /// explains no rows but their targets.
    fn counts(&self) -> Option<bool> {
        None
    }
    /// Log probability of each held-out row, averaged over draws.
    fn held_out(&self, data: &Dataset<'_>, effort: &HeldOutEffort) -> Result<HeldOut> {
        let _ = (data, effort);
        Err(has_no_factors(self.family(), "probability of rows"))
    }
    /// Distribution over columns of what is still to come of each row, given the part of it that was seen, which is a share `exposure`
    /// of the whole (n×M, row-major; rows sum to one).
    fn complete(&self, data: &Dataset<'_>, exposure: f64) -> Result<Vec<f64>> {
        let _ = (data, exposure);
        Err(has_no_factors(self.family(), "rest of a row to predict"))
    }
    /// The rows of `among` that are most like each query, best first: place and similarity. Of equals the first comes first.
    fn retrieve(&self, queries: &Dataset<'_>, among: &Dataset<'_>, most: usize) -> Result<Vec<Vec<(usize, f64)>>> {
        let _ = (queries, among, most);
        Err(has_no_factors(self.family(), "likeness between rows"))
    }
    /// The structures that were compared, if there is anything to compare.
    fn selection(&self) -> Option<Selection> {
        None
    }
    /// What was found, and how sure it is.
    fn summary(&self) -> Summary;
    /// Named arrays of the posterior: coefficients, covariances, draws.
    fn arrays(&self) -> Vec<NamedArray>;
    /// All of it, sealed.
    fn save(&self) -> Result<Vec<u8>>;
}

/// Where a fitted model comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Origin<'a> {
    /// Name of its family.
    pub family: &'static str,
    /// Names of the columns; empty if they had none.
    pub columns: &'a [String],
    /// Number of columns.
    pub width: usize,
    /// Names of the classes; empty for real outcomes.
    pub classes: &'a [String],
}

/// Class probabilities of some rows.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassProbabilities {
    /// Row-major, one number a row and class; rows sum to one.
    pub probability: Vec<f64>,
    /// Posterior standard deviation of each probability, where the method gives it.
    pub deviation: Option<Vec<f64>>,
}

impl ClassProbabilities {
    /// Index of the most probable class of each row; the first of equals.
    pub fn best(&self, classes: usize) -> Vec<usize> {
        self.probability
            .chunks_exact(classes)
            .map(|p| p.iter().enumerate().fold(0, |best, (i, v)| if *v > p[best] { i } else { best }))
            .collect()
    }
}

/// Predictive distribution of real outcomes; all row-major with `outputs` numbers a row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RealPrediction {
    /// Mean of each outcome.
    pub mean: Vec<f64>,
    /// Its standard deviation; infinite where the distribution has none.
    pub deviation: Vec<f64>,
    /// Quantiles, one array a level.
    pub quantiles: Vec<Vec<f64>>,
    /// Log density of each row's outcomes, where the data have them.
    pub ln_density: Option<Vec<f64>>,
}

/// Shares of hidden components in rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Responsibilities {
    /// Name of each component.
    pub names: Vec<String>,
    /// Row-major, one number a row and component; rows sum to one.
    pub share: Vec<f64>,
}

/// Structures that were compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Selection {
    /// Headings of the figures.
    pub headings: Vec<String>,
    /// One structure a row: its name, and figures that may not be known.
    pub rows: Vec<(String, Vec<Option<f64>>)>,
    /// Place of the one that was chosen.
    pub chosen: usize,
    /// Heading of the figure that decided.
    pub criterion: String,
    /// Why, in a sentence.
    pub reason: String,
}

/// An array with a name, row-major.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedArray {
    /// Name, as Python attributes and reports use it.
    pub name: &'static str,
    /// Length along each axis.
    pub shape: Vec<usize>,
    /// Row-major entries.
    pub values: Vec<f64>,
}

/// What a fitted model says of itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Facts in the order they should be read: name and value.
    pub facts: Vec<(String, String)>,
    /// Headings of the table.
    pub headings: Vec<String>,
    /// Rows of the table: a name and its numbers.
    pub rows: Vec<(String, Vec<f64>)>,
    /// Whether the fit can be trusted to have arrived; the reason is in `notes`.
    pub converged: bool,
    /// What to know and what to do.
    pub notes: Vec<String>,
}

/// Data drawn from a model, with the parameters they were drawn from.
#[derive(Debug, Clone)]
pub struct Simulation {
    /// The data.
    pub data: Dataset<'static>,
    /// The truth: named values.
    pub truth: Map<String, Value>,
}

/// What a run needs to know beside model and data.
#[derive(Debug, Clone, Copy)]
pub struct RunSettings {
    /// Seed of every random number.
    pub seed: u64,
    /// Threads; 0 takes all there are.
    pub threads: usize,
    /// Rows of a block; `None` chooses by the number of columns.
    pub block_rows: Option<usize>,
    /// Time between two commits.
    pub commit_every: Duration,
}

impl Default for RunSettings {
    fn default() -> Self {
        Self { seed: 0, threads: 0, block_rows: None, commit_every: Pace::default().commit_every }
    }
}

impl RunSettings {
    /// The plan of a fit over these data.
    pub fn plan(&self, fit: &dyn Fit, data: &Dataset<'_>) -> Result<Plan> {
        let block_rows = self.block_rows.unwrap_or_else(|| default_block_rows(data.x.cols()));
        if block_rows == 0 {
            return Err(Error::setting("block_rows", 0, "a whole number of at least 1"));
        }
        if data.rows().div_ceil(block_rows) > u32::MAX as usize {
            return Err(Error::setting("block_rows", block_rows, "large enough for at most 4294967295 blocks"));
        }
        Ok(Plan { seed: self.seed, chains: fit.chains(), schedule: fit.schedule(), block_rows })
    }

    /// The pace of a run.
    pub fn pace(&self) -> Pace {
        Pace { threads: self.threads, commit_every: self.commit_every }
    }
}

/// What came out of a fit that is kept in memory.
pub struct Fitted {
    /// The posterior.
    pub posterior: Box<dyn Posterior>,
    /// Draws, traces and final states.
    pub kept: Memory,
    /// Whether it was stopped early.
    pub ending: Ending,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// Fits in memory: the shortest way from settings and data to a posterior.
pub fn fit(model: &dyn Model, data: &Dataset<'_>, run: &RunSettings, observer: &mut dyn Observer) -> Result<Fitted> {
    let fit = model.prepare(data)?;
    let plan = run.plan(fit.as_ref(), data)?;
    let mut kept = Memory::default();
    let ending = drive(fit.program(), data, &plan, run.pace(), &mut kept, observer)?;
    let posterior = fit.posterior(&kept.chains)?;
    Ok(Fitted { posterior, kept, ending, warnings: fit.warnings().to_vec() })
}

/// Rows of a panel at prediction. One row alone takes another path through a matrix product than the same row among others, so
/// predictions always use panels of this height, the last one filled up with zero rows.
pub const PREDICT_PANEL: usize = 64;

/// Calls `f(first row, rows, panel)` for every run of [`PREDICT_PANEL`] rows, the last one filled up.
pub fn for_panels(x: X<'_>, mut f: impl FnMut(usize, usize, X<'_>)) {
    for first in (0..x.rows()).step_by(PREDICT_PANEL) {
        with_panel(x, first, &mut f);
    }
}

/// The same in parallel: takes one state a panel through `f` and gives them back in order.
pub fn for_panels_parallel<T: Send>(x: X<'_>, states: Vec<T>, f: impl Fn(T, usize, usize, X<'_>) -> T + Sync) -> Vec<T> {
    use rayon::prelude::*;
    let work = |(panel, state): (usize, T)| {
        let mut state = Some(state);
        with_panel(x, panel * PREDICT_PANEL, &mut |first, count, x: X<'_>| state = state.take().map(|s| f(s, first, count, x)));
        state
    };
    states.into_par_iter().enumerate().filter_map(work).collect()
}

/// Calls `f` with the panel that begins at a row.
fn with_panel(x: X<'_>, first: usize, f: &mut dyn FnMut(usize, usize, X<'_>)) {
    let count = PREDICT_PANEL.min(x.rows() - first);
    let run = x.slice(first..first + count);
    match run {
        X::Dense { cols, values, .. } if count < PREDICT_PANEL => {
            let mut full = vec![0.0; PREDICT_PANEL * cols];
            full[..values.len()].copy_from_slice(values);
            f(first, count, X::Dense { rows: PREDICT_PANEL, cols, values: &full });
        }
        // sparse products go row by row, but an input map makes dense panels of sparse rows
        X::Csr { cols, indptr, indices, values } if count < PREDICT_PANEL => {
            let mut full = indptr.to_vec();
            full.resize(PREDICT_PANEL + 1, indptr[count]);
            f(first, count, X::Csr { cols, indptr: &full, indices, values });
        }
        _ => f(first, count, run),
    }
}

/// Checks rows at the door of a prediction.
pub fn check_prediction_rows(data: &Dataset<'_>, width: usize, columns: &[String]) -> Result<()> {
    check_new_rows(data, width, columns, Needs::FEATURES)
}

/// Checks rows that are not those of the fit: their columns are, their features and sources are what the model needs. No row is as good
/// as one; targets and weights do not matter.
pub fn check_new_rows(data: &Dataset<'_>, width: usize, columns: &[String], needs: Needs) -> Result<()> {
    data.x.check_structure()?;
    data.check_columns(width, columns)?;
    Ok(data.check_features(needs)?)
}

/// The method asked for, or an error that names the methods there are. An empty word is the default.
pub fn choose_method(method: &str, methods: &'static [&'static str]) -> Result<&'static str> {
    if method.is_empty() {
        return Ok(methods[0]);
    }
    methods.iter().find(|m| **m == method).copied().ok_or_else(|| Error::setting("method", method, Kind::Word(methods).allowed()))
}
