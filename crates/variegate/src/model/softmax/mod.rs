//! Trees of softmax nodes: classification with subclasses, mixtures of experts, trees of experts, and regression by experts.
//!
//! At each node of a tree a row chooses a child with probability ∝ exp(w_cᵀx̃), x̃ the standardised row and a one for the bias, until
//! it reaches a leaf, which emits a class or a real outcome. w_cj ~ N(0, 1/α_g), α_g ~ Gamma(a₀, b₀), where `precision` says which
//! weights share an α. q(W) is Gaussian, q(α) Gamma, q(path) any; the log-sum-exp of the logits is bounded from above, so that the
//! objective L is a lower bound on the log evidence and never falls. Softmax, subclasses, experts and gates differ in their tree alone.
//!
//! Files in layers, each of which knows only those above it:
//!
//! | file | what it is |
//! |---|---|
//! | `tree.rs` | trees and their symmetries |
//! | `bound/` | upper bounds of the expected log-sum-exp, for one row and for many at once |
//! | `precision.rs`, `covariance.rs` | groups of prior precisions; which weights of a node may correlate |
//! | `layout.rs` | where everything of a tree lies in vectors |
//! | `node.rs`, `leaf.rs`, `factors.rs` | factors of a node, of a Gaussian leaf and of the tree, and their steps |
//! | `walk.rs`, `expect.rs`, `symmetry.rs` | one row through a tree; what a fit expects of it; what relabelled copies of a fit add |
//! | `criterion.rs`, `policy.rs`, `structure.rs` | what decides between structures, which are tried, and how users write them |
//! | `program.rs`, `pass/` | what the program is told; what rows are asked and what they report |
//! | `map.rs`, `starts.rs`, `products.rs` | penalised maximum likelihood; from where it is looked for; conjugate gradients |
//! | `job.rs`, `score.rs`, `search/` | what a chain does and how far it is; what its fit is worth; which chains follow |
//! | `vb.rs` | the program: sweeps, and when to stop |
//! | `gibbs.rs`, `gibbs/` | the other program: draws from the exact posterior, and what they say |
//! | `settings.rs`, `posterior.rs`, `report.rs` | settings, predictions, summaries |
//! | `simulate.rs`, `check.rs` | data from the prior; does the bound rise, and stay a bound? |

mod bound;
mod check;
mod covariance;
mod criterion;
mod expect;
mod factors;
mod gibbs;
mod job;
mod layout;
mod leaf;
mod map;
mod node;
mod pass;
mod policy;
mod posterior;
mod precision;
mod products;
mod program;
mod report;
mod score;
mod search;
mod settings;
mod simulate;
mod starts;
mod structure;
mod symmetry;
mod tree;
mod vb;
mod walk;

pub use bound::Bound;
pub use covariance::Covariance;
pub use criterion::Criterion;
pub use gibbs::posterior::DrawsPosterior;
pub use posterior::SoftmaxPosterior;
pub use precision::Precision;
pub use settings::{ClassWeight, CovarianceChoice, Inference, Preset, Settings, Task};
pub use structure::GatesValue;
pub use tree::Coding;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::columns::column_warnings;
use super::{Family, Fit, Model, Posterior, SIMULATED_CLASSES, Setting, Simulation, as_map, defaults, resolve};
use crate::check::{CheckReport, Effort, Progress};
use crate::data::{Classes, DataError, Dataset, Design, Needs, Scaling, Target, TargetKind};
use crate::run::{AnyProgram, Piece, Schedule, saved_global, state};
use crate::{Error, Result};
use gibbs::fit::GibbsFit;
use job::State;
use layout::Layout;
use policy::Policy;
use program::Vb;
use tree::{Emission, Structure};

const NAME: &str = "softmax";
const SCHEMA: &str = "softmax schema";
/// Numbers in the matrices of one statistic; a thread holds several of them.
const MOST_NUMBERS: usize = 25_000_000;

/// The family `softmax`.
pub struct Softmax;

impl Family for Softmax {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "Softmax, subclasses and experts by variational Bayes"
    }

    fn about(&self) -> &'static str {
        "Two classes or more, with linear boundaries, or with curved ones made of subclasses, experts behind a gate, or trees of gates; \
         real outcomes by experts. Probabilities know how sure the weights are, and a lower bound on the log evidence chooses the \
         structure (only between fits with the same `bound`, `covariance` and `precision`). It starts from penalised maximum \
         likelihood. Rows may have any non-negative weight. Inference `gibbs` draws from the exact posterior of a given structure; \
         weights of rows must then be whole numbers."
    }

    fn settings(&self) -> Vec<Setting> {
        settings::table()
    }

    fn defaults(&self) -> Map<String, Value> {
        defaults::<Settings>()
    }

    fn simulate_settings(&self) -> Vec<Setting> {
        SIMULATED_CLASSES.to_vec()
    }

    fn simulate_defaults(&self) -> Map<String, Value> {
        defaults::<simulate::Request>()
    }

    fn simulate_reads(&self) -> Vec<&'static str> {
        simulate::READS.to_vec()
    }

    fn check_reads(&self) -> Vec<&'static str> {
        check::reads()
    }

    fn configure(&self, given: &Map<String, Value>) -> Result<Box<dyn Model>> {
        let mut given = given.clone();
        if given.get("preset") == Some(&json!("paper")) {
            // the publication's choices, where the user made none
            for (name, value) in
                [("bound", json!("double")), ("covariance", json!("child")), ("precision", json!("child")), ("n_vb", json!(1))]
            {
                given.entry(name).or_insert(value);
            }
        }
        let settings: Settings = resolve(NAME, &self.settings(), &given)?;
        settings.validate()?;
        Ok(Box::new(SoftmaxModel { settings }))
    }

    fn load(&self, saved: &[u8]) -> Result<Box<dyn Posterior>> {
        if state::kind(saved)? == gibbs::posterior::SAVED {
            return Ok(Box::new(DrawsPosterior::load(saved)?));
        }
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
    /// Total weight of the rows of each class, or of all rows; class weights included.
    counts: Vec<f64>,
    /// Factor of the weight of each class; empty for ones.
    class_weight: Vec<f64>,
    /// Mean and standard deviation of each real outcome.
    y_mean: Vec<f64>,
    y_scale: Vec<f64>,
    design: Design,
}

impl Schema {
    /// Number of classes, and of inputs without the bias, from a sealed schema.
    pub(crate) fn sizes(sealed: &[u8]) -> Result<(usize, usize)> {
        let schema: Self = state::unseal(SCHEMA, sealed)?;
        Ok((schema.classes.len(), schema.design.kept.len()))
    }

    fn outcome(&self) -> Emission {
        if self.y_mean.is_empty() { Emission::Classes(self.classes.len()) } else { Emission::Real(self.y_mean.len()) }
    }
}

impl Model for SoftmaxModel {
    fn family(&self) -> &'static dyn Family {
        &Softmax
    }

    fn settings(&self) -> Map<String, Value> {
        as_map(&self.settings)
    }

    fn target(&self) -> Option<TargetKind> {
        Some(match self.settings.task {
            Task::Classification => TargetKind::Classes,
            Task::Regression => TargetKind::Real,
        })
    }

    fn prepare(&self, data: &Dataset<'_>) -> Result<Box<dyn Fit>> {
        data.check(Needs { target: self.target(), ..Needs::FEATURES })?;
        let s = &self.settings;
        let scaling = Scaling { center: s.standardize, scale: s.standardize, intercept: true, drop_constant: true };
        let weight = |i: usize| data.weights.as_ref().map_or(1.0, |w| w[i]);
        let (counts, class_weight) = match &data.target {
            Target::Classes(classes) => class_counts(classes, weight, s.class_weight)?,
            _ => (vec![(0..data.rows()).map(weight).sum()], Vec::new()),
        };
        // weights of classes are weights of rows, and count in the means and deviations of columns like those
        let weights: Option<Vec<f64>> = match &data.target {
            Target::Classes(c) if !class_weight.is_empty() => {
                Some(c.codes.iter().enumerate().map(|(i, code)| weight(i) * class_weight[*code as usize]).collect())
            }
            _ => None,
        };
        let weights = weights.as_deref().or(data.weights.as_deref());
        let (design, dropped) = Design::fit_mapped(&data.x, weights, scaling, s.input_map, 0)?;
        let mut warnings = column_warnings(data, &dropped, s.standardize);
        if s.bound == Bound::Double && s.covariance.0 == Some(Covariance::Joint) {
            warnings.push(
                "with the double bound a joint covariance has no entries between classes: `child` gives the same fit and was used".into(),
            );
        }
        let mut schema = Schema {
            columns: data.columns.clone(),
            classes: Vec::new(),
            counts,
            class_weight,
            y_mean: Vec::new(),
            y_scale: Vec::new(),
            design,
        };
        match &data.target {
            Target::Classes(classes) => schema.classes.clone_from(&classes.names),
            Target::Real { width, values } => (schema.y_mean, schema.y_scale) = moments(*width, values, weight),
            _ => return Err(DataError::NoTarget.into()),
        }
        if s.inference == Inference::Gibbs {
            let fit = GibbsFit::new(s, schema, warnings)?;
            fit.check(data)?;
            return Ok(Box::new(fit));
        }
        let fit = SoftmaxFit::new(s, schema, warnings)?;
        fit.check_size()?;
        Ok(Box::new(fit))
    }

    fn reopen(&self, schema: &[u8]) -> Result<Box<dyn Fit>> {
        let schema = state::unseal(SCHEMA, schema)?;
        if self.settings.inference == Inference::Gibbs {
            return Ok(Box::new(GibbsFit::new(&self.settings, schema, Vec::new())?));
        }
        Ok(Box::new(SoftmaxFit::new(&self.settings, schema, Vec::new())?))
    }

    fn simulate(&self, rows: usize, request: &Map<String, Value>, seed: u64) -> Result<Simulation> {
        let request = resolve("simulate softmax", &SIMULATED_CLASSES, request)?;
        simulate::simulate(&self.settings, rows, &request, seed)
    }

    fn check(&self, effort: &Effort, seed: u64, progress: &mut dyn FnMut(Progress)) -> Result<Vec<CheckReport>> {
        if self.settings.inference == Inference::Gibbs {
            return gibbs::check::check(&self.settings, effort, seed, progress);
        }
        check::check(&self.settings, effort.calibration.data_sets / 10, seed, progress)
    }
}

/// Total weight of the rows of each class, and the factor of its rows where classes are to count the same.
fn class_counts(classes: &Classes, weight: impl Fn(usize) -> f64, balance: ClassWeight) -> Result<(Vec<f64>, Vec<f64>)> {
    let mut counts = vec![0.0; classes.names.len()];
    classes.codes.iter().enumerate().for_each(|(i, &code)| counts[code as usize] += weight(i));
    if let Some(empty) = counts.iter().position(|&n| n == 0.0) {
        return Err(Error::Unfit(format!(
            "class `{}` has no row of positive weight: leave it out of the list of classes",
            classes.names[empty]
        )));
    }
    if balance == ClassWeight::None {
        return Ok((counts, Vec::new()));
    }
    let each = counts.iter().sum::<f64>() / counts.len() as f64;
    let factors = counts.iter().map(|n| each / n).collect();
    Ok((vec![each; counts.len()], factors))
}

/// Weighted mean and standard deviation of each real outcome; a constant one keeps its scale.
fn moments(width: usize, values: &[f64], weight: impl Fn(usize) -> f64) -> (Vec<f64>, Vec<f64>) {
    let rows = values.len() / width.max(1);
    let total: f64 = (0..rows).map(&weight).sum();
    let mean: Vec<f64> = (0..width).map(|q| (0..rows).map(|i| weight(i) * values[i * width + q]).sum::<f64>() / total).collect();
    let scale = (0..width)
        .map(|q| {
            let square: f64 = (0..rows).map(|i| weight(i) * (values[i * width + q] - mean[q]).powi(2)).sum();
            let sd = (square / total).sqrt();
            if sd > 1e-12 * (1.0 + mean[q].abs()) { sd } else { 1.0 }
        })
        .collect();
    (mean, scale)
}

struct SoftmaxFit {
    settings: Settings,
    schema: Schema,
    program: Vb,
    warnings: Vec<String>,
}

impl SoftmaxFit {
    fn new(settings: &Settings, schema: Schema, mut warnings: Vec<String>) -> Result<Self> {
        let program = Self::program_of(settings, &schema)?;
        let most = |counts: &[f64], sizes: &[usize]| sizes.iter().zip(counts).any(|(s, n)| *s as f64 > *n);
        if let Policy::All(structures) = &program.search.policy {
            for structure in structures {
                match structure {
                    Structure::Subclasses(sizes) if most(&program.counts, sizes) && structures.len() == 1 && !structure.is_concave() => {
                        warnings.push(format!("{}: a class has more subclasses than rows", structure.describe()));
                    }
                    Structure::Experts(count) if *count as f64 > program.counts.iter().sum() => {
                        warnings.push(format!("{}: more experts than rows", structure.describe()));
                    }
                    _ => {}
                }
            }
        }
        Ok(Self { settings: settings.clone(), schema, program, warnings })
    }

    fn program_of(settings: &Settings, schema: &Schema) -> Result<Vb> {
        let outcome = schema.outcome();
        Ok(Vb {
            design: schema.design.clone(),
            outcome,
            shape: settings.shape(&schema.design),
            binary: settings.coding,
            leaf: settings.leaf(),
            class_weight: schema.class_weight.clone(),
            counts: schema.counts.clone(),
            y_mean: schema.y_mean.clone(),
            y_scale: schema.y_scale.clone(),
            map_penalty: settings.map_penalty,
            tol: settings.tol,
            anneal: settings.anneal,
            search: settings.search(outcome)?,
        })
    }

    /// Refuses what would take gigabytes, and bounds that do not fit the tree.
    fn check_size(&self) -> Result<()> {
        let program = &self.program;
        let dim = program.design.dim();
        let structures = match &program.search.policy {
            Policy::All(structures) => structures.clone(),
            Policy::Compressive { classes, largest, .. } => vec![Structure::Subclasses(vec![*largest; *classes])],
            Policy::GreedySubclasses { classes, .. } => vec![Structure::Subclasses(vec![1; *classes])],
            Policy::GreedyExperts { .. } => vec![Structure::Experts(1)],
        };
        let grows = match program.search.policy {
            Policy::GreedySubclasses { .. } => true,
            Policy::GreedyExperts { most } => most > 2,
            _ => false,
        };
        if program.shape.bound == Bound::Jj && grows {
            return Err(Error::setting("bound", "jj", "`tilted`, `double` or `bohning`: the search tries nodes of more than two children"));
        }
        for structure in structures {
            let tree = structure.tree(program.outcome, program.binary);
            if program.shape.bound == Bound::Jj
                && let Some(wide) = tree.nodes.iter().find(|n| n.children.len() > 2)
            {
                let allowed =
                    format!("`tilted`, `double` or `bohning`: {} has a node of {} children", structure.describe(), wide.children.len());
                return Err(Error::setting("bound", "jj", allowed));
            }
            let narrow = program.shape.covariance.is_some_and(Covariance::needs_products);
            if narrow && tree.nodes.iter().any(|n| n.coding == Coding::Logistic) {
                let text = self.settings.covariance.text();
                return Err(Error::setting("covariance", text, "`joint` or `child` where a gate has coding `logistic`"));
            }
            let layout: Layout = program.layout(&tree);
            // the precisions of a joint covariance have more numbers than the forms of its rows
            let joint = layout
                .nodes
                .iter()
                .map(|n| if n.covariance == Covariance::Joint { (n.units * dim).saturating_mul(n.units * dim) } else { 0 });
            let numbers = layout.matrices.max(joint.max().unwrap_or(0));
            if numbers > MOST_NUMBERS {
                let advice = match layout.covariance() {
                    Covariance::Joint => "set `covariance` to `child` or `diag`, or select columns first",
                    Covariance::Child | Covariance::Shared => "set `covariance` to `diag`, or select columns first",
                    _ => "select columns first",
                };
                return Err(Error::Unfit(format!(
                    "{} covariance matrices of {} weight vectors of {dim} columns are too large: {advice}",
                    layout.covariance().text(),
                    layout.units,
                )));
            }
        }
        Ok(())
    }

    /// The states of all chains, for what needs them together.
    fn states(chains: &[Piece]) -> Result<Vec<State>> {
        chains.iter().map(|piece| Ok(saved_global::<Vb>(&piece.checkpoint)?)).collect()
    }
}

impl Fit for SoftmaxFit {
    fn program(&self) -> &dyn AnyProgram {
        &self.program
    }

    fn chains(&self) -> u32 {
        self.program.search.first().len() as u32
    }

    /// One sweep more than the ascent: the first one looks for its start.
    fn schedule(&self) -> Schedule {
        Schedule::Ascend { max_sweeps: self.settings.max_iter + 1 }
    }

    fn schema(&self) -> Result<Vec<u8>> {
        Ok(state::seal(SCHEMA, &self.schema)?)
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn posterior(&self, chains: &[Piece]) -> Result<Box<dyn Posterior>> {
        let states = Self::states(chains)?;
        Ok(Box::new(SoftmaxPosterior::chosen(&self.program, &self.schema, &self.settings, &states)?))
    }

    fn candidates(&self, chains: &[Piece]) -> Result<Vec<Box<dyn Posterior>>> {
        let states = Self::states(chains)?;
        let table = self.program.search.table(&states);
        table
            .iter()
            .map(|c| {
                let posterior = SoftmaxPosterior::new(&self.program, &self.schema, &self.settings, &states[c.chain], c.chain)?;
                Ok(Box::new(posterior) as Box<dyn Posterior>)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;
