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
//! | `vb.rs`, `maps.rs` | the program: sweeps, and when to stop; the same under several input maps |
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
mod maps;
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

pub use super::ClassWeight;
pub use bound::Bound;
pub use covariance::Covariance;
pub use criterion::Criterion;
pub use gibbs::posterior::DrawsPosterior;
pub use posterior::SoftmaxPosterior;
pub use precision::Precision;
pub use settings::{CovarianceChoice, Inference, Preset, Settings, Task};
pub use structure::GatesValue;
pub use tree::Coding;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::Arc;

use super::{Declared, Family, Fit, Model, Setting, Simulation, Truth, as_map, in_use, resolve, resolve_from};
use crate::answer::Posterior;
use crate::answer::{Fact, Figure};
use crate::check::{CheckReport, Effort, Progress};
use crate::data::survey::Spread;
use crate::data::{Design, InputMap, InputMaps, Needs, Questions, Scaling, Survey, TargetKind};
use crate::run::{Piece, Schedule, saved_global, state};
use crate::{Error, Result};
use job::State;
use layout::Layout;
use maps::Maps;
use policy::Policy;
use program::Vb;
use tree::{Emission, Structure};

const NAME: &str = "softmax";
const SCHEMA: state::Kind = state::Kind::new("softmax schema", &["0.1"]);
/// A schema, and the designs of further maps.
const MAPS: state::Kind = state::Kind::new("softmax schema of maps", &["0.1"]);
/// Numbers in the matrices of one statistic; a thread holds several of them.
const MOST_NUMBERS: usize = 25_000_000;
/// Weights of a plain softmax over the features of a map that is compared with others.
const MOST_MAPPED_WEIGHTS: usize = 2000;

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
        Settings::table()
    }

    fn simulate_settings(&self) -> Vec<Setting> {
        simulate::Request::table()
    }

    fn configure(&self, given: &Map<String, Value>) -> Result<Box<dyn Model>> {
        // the publication's choices are defaults, where the user made none
        let paper = given.get("preset").and_then(Value::as_str) == Some(Preset::Paper.word());
        let base = if paper { Settings::paper() } else { Settings::default() };
        Ok(Box::new(resolve_from(&base, NAME, given)?.validate()?))
    }

    fn load(&self, saved: &[u8]) -> Result<Box<dyn Posterior>> {
        if state::kind(saved)? == gibbs::posterior::SAVED.name {
            return Ok(Box::new(DrawsPosterior::load(saved)?));
        }
        Ok(Box::new(SoftmaxPosterior::load(saved)?))
    }
}

/// The family with valid settings, as [`Settings::validate`] makes it.
#[derive(Debug, Clone)]
pub struct SoftmaxModel {
    settings: Settings,
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

    /// Rows, classes and columns, as summaries show them.
    fn facts(&self) -> Vec<Fact> {
        let rows = if self.classes.is_empty() {
            Fact::number("rows", self.counts[0])
        } else {
            let counts = self.classes.iter().cloned().zip(self.counts.iter().copied()).collect();
            Fact::new("rows of each class", Figure::Numbers(counts))
        };
        vec![rows, Fact::count("columns", self.design.available()), Fact::count("columns used", self.design.kept.len())]
    }

    fn outcome(&self) -> Emission {
        if self.y_mean.is_empty() { Emission::Classes(self.classes.len()) } else { Emission::Real(self.y_mean.len()) }
    }
}

impl SoftmaxModel {
    fn scaling(&self) -> Scaling {
        let standardize = self.settings.standardize;
        Scaling { center: standardize, scale: standardize, intercept: true, drop_constant: true }
    }
}

impl Model for SoftmaxModel {
    fn family(&self) -> &'static dyn Family {
        &Softmax
    }

    fn settings(&self) -> Map<String, Value> {
        as_map(&self.settings)
    }

    fn settings_in_use(&self) -> Map<String, Value> {
        let mut used = in_use(&self.settings, &self.settings.meaningless());
        used.retain(|name, value| match name.as_str() {
            // one of them says what is fitted, if any does
            "subclasses" | "experts" | "gates" => !value.is_null(),
            "folds" => self.settings.deciding() == Criterion::Cv,
            _ => true,
        });
        // what decides, whether it was left to `auto` or named: a run begun when it was the default is the same run
        used.entry("criterion").and_modify(|criterion| *criterion = self.settings.deciding().word().into());
        used
    }

    /// Weights of classes are weights of rows, and count in the means and deviations of columns like those.
    fn questions(&self) -> Questions {
        let s = &self.settings;
        let classes = s.task == Task::Classification;
        Questions {
            columns: true,
            balanced: classes && s.class_weight == ClassWeight::Balanced,
            features: (s.input_map != InputMaps::One(InputMap::None)).then_some((s.input_map, self.scaling())),
            ..Questions::needing(Needs::target(if classes { TargetKind::Classes } else { TargetKind::Real }))
        }
    }

    fn prepare(&self, survey: &Survey) -> Result<Fit> {
        let s = &self.settings;
        let class_weight = survey.class_weight().to_vec();
        let counts = match s.task {
            Task::Regression => vec![survey.weight()],
            Task::Classification => {
                let counts = survey.class_counts()?;
                if class_weight.is_empty() { counts.to_vec() } else { vec![counts.iter().sum::<f64>() / counts.len() as f64; counts.len()] }
            }
        };
        let (mut designs, dropped) = match s.input_map {
            InputMaps::Auto => survey.designs(self.scaling()),
            InputMaps::One(_) => survey.design(self.scaling()).map(|(design, dropped)| (vec![design], dropped))?,
        };
        let mut warnings = survey.column_warnings(&dropped, s.standardize);
        if s.bound == Bound::Double && s.covariance.0 == Some(Covariance::Joint) {
            warnings.push(
                "with the double bound a joint covariance has no entries between classes: `child` gives the same fit and was used".into(),
            );
        }
        // a constant outcome keeps its scale
        let y_scale = |y: &Spread| y.deviation().filter(|sd| *sd > 1e-12 * (1.0 + y.mean().abs())).unwrap_or(1.0);
        let schema = Schema {
            columns: survey.header().columns.clone(),
            classes: survey.header().classes().to_vec(),
            counts,
            class_weight,
            y_mean: survey.outcomes().iter().map(Spread::mean).collect(),
            y_scale: survey.outcomes().iter().map(y_scale).collect(),
            design: designs.remove(0),
        };
        if s.inference == Inference::Gibbs {
            let bound = gibbs::fit::Sampling::new(s, schema, warnings)?;
            bound.check(survey)?;
            return bound.fit();
        }
        let bound = Ascent::new(s, schema, warnings)?;
        bound.check_size()?;
        if s.input_map != InputMaps::Auto {
            return bound.fit();
        }
        // maps that would take very long are not compared
        let vectors = bound.schema.classes.len().max(bound.schema.y_mean.len());
        designs.retain(|design| vectors * design.dim() <= MOST_MAPPED_WEIGHTS);
        bound.fit_maps(&designs)
    }

    fn reopen(&self, schema: &[u8]) -> Result<Fit> {
        if self.settings.input_map == InputMaps::Auto {
            let (schema, designs): (Schema, Vec<Design>) = state::unseal(MAPS, schema)?;
            return Ascent::new(&self.settings, schema, Vec::new())?.fit_maps(&designs);
        }
        let schema = state::unseal(SCHEMA, schema)?;
        if self.settings.inference == Inference::Gibbs {
            return gibbs::fit::Sampling::new(&self.settings, schema, Vec::new())?.fit();
        }
        Ascent::new(&self.settings, schema, Vec::new())?.fit()
    }

    fn simulate(&self, rows: usize, request: &Map<String, Value>, seed: u64) -> Result<Simulation> {
        let request = resolve("simulate softmax", request)?;
        simulate::simulate(&self.settings, rows, &request, seed)
    }

    fn simulate_more(&self, rows: usize, request: &Map<String, Value>, truth: &Truth<'_>, seed: u64) -> Result<Simulation> {
        let request = resolve("simulate softmax", request)?;
        simulate::simulate_more(&self.settings, rows, &request, truth, seed)
    }

    fn check(&self, effort: &Effort, seed: u64, progress: &mut dyn FnMut(Progress)) -> Result<Vec<CheckReport>> {
        if self.settings.inference == Inference::Gibbs {
            return gibbs::check::check(&self.settings, effort, seed, progress);
        }
        check::check(&self.settings, effort.calibration.data_sets / 10, seed, progress)
    }
}

/// Ascents of the bound, bound to the schema of their data.
struct Ascent {
    settings: Settings,
    schema: Schema,
    program: Vb,
    warnings: Vec<String>,
}

impl Ascent {
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

    /// The same ascents under another design.
    fn with_design(&self, design: Design) -> Result<Self> {
        Self::new(&self.settings, Schema { design, ..self.schema.clone() }, Vec::new())
    }

    /// The fit under this design and under others.
    fn fit_maps(self, designs: &[Design]) -> Result<Fit> {
        let sealed = state::seal(MAPS, &(&self.schema, designs))?;
        let others = designs.iter().map(|design| self.with_design(design.clone())).collect::<Result<Vec<_>>>()?;
        let schedule = Schedule::Ascend { max_sweeps: self.settings.max_iter + 1 };
        let Self { settings, schema, program, warnings } = self;
        let (schemas, programs): (Vec<Schema>, Vec<Vb>) =
            std::iter::once((schema, program)).chain(others.into_iter().map(|o| (o.schema, o.program))).unzip();
        let program = Arc::new(Maps::new(programs));
        let read = Arc::new((program.clone(), schemas, settings));
        let all = read.clone();
        let chosen = move |chains: &[Piece]| {
            let (maps, schemas, settings) = read.as_ref();
            Ok(Box::new(SoftmaxPosterior::chosen_map(maps, schemas, settings, &grouped(maps, chains)?)?) as Box<dyn Posterior>)
        };
        let fit = Fit::new(program.clone(), program.chains(), schedule, sealed, warnings, chosen);
        Ok(fit.comparing(move |chains| {
            let (maps, schemas, settings) = all.as_ref();
            let states = grouped(maps, chains)?;
            let of = |maps::Met { map, place, candidate }| {
                let state = &states.states[map][place];
                let posterior = SoftmaxPosterior::new(maps.program(map), &schemas[map], settings, state, candidate.chain)?;
                Ok(Box::new(posterior) as Box<dyn Posterior>)
            };
            maps.table(&states).into_iter().map(of).collect()
        }))
    }

    /// The states of all chains, for what needs them together.
    fn states(chains: &[Piece]) -> Result<Vec<State>> {
        chains.iter().map(|piece| Ok(saved_global::<Vb>(&piece.checkpoint)?)).collect()
    }

    fn fit(self) -> Result<Fit> {
        let Self { settings, schema, program, warnings } = self;
        let (sealed, chains) = (state::seal(SCHEMA, &schema)?, program.search.first().len() as u32);
        // one sweep more than the ascent: the first one looks for its start
        let schedule = Schedule::Ascend { max_sweeps: settings.max_iter + 1 };
        let read = Arc::new((program, schema, settings));
        let (program, all) = (Arc::new(read.0.clone()), read.clone());
        let one = move |chains: &[Piece]| {
            let (program, schema, settings) = read.as_ref();
            Ok(Box::new(SoftmaxPosterior::chosen(program, schema, settings, &Self::states(chains)?)?) as Box<dyn Posterior>)
        };
        let fit = Fit::new(program, chains, schedule, sealed, warnings, one);
        Ok(fit.comparing(move |chains| {
            let (program, schema, settings) = all.as_ref();
            let states = Self::states(chains)?;
            let posterior = |chain: usize| SoftmaxPosterior::new(program, schema, settings, &states[chain], chain);
            program.search.table(&states).iter().map(|c| Ok(Box::new(posterior(c.chain)?) as Box<dyn Posterior>)).collect()
        }))
    }
}

/// The states of all chains, by their maps.
fn grouped(maps: &Maps, chains: &[Piece]) -> Result<maps::Grouped> {
    maps.grouped(chains.iter().map(|piece| Ok(saved_global::<Maps>(&piece.checkpoint)?)))
}

#[cfg(test)]
mod tests;
