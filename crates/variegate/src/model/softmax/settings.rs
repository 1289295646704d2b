//! Settings of the family: names, defaults, ranges, and what goes with what.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::bound::Bound;
use super::covariance::Covariance;
use super::criterion::Criterion;
use super::layout::Shape;
use super::leaf::LeafPrior;
use super::policy::{Policy, Search};
use super::precision::Precision;
use super::structure::{EXPERTS, GATES, GatesValue, SUBCLASSES, Sizes};
use super::tree::{Coding, Emission, Structure};
use crate::data::{Design, InputMap};
use crate::model::{Kind, Meaningless, SAMPLING, Setting, refuse_meaningless};
use crate::{Error, Result};

/// What is predicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Task {
    /// One of several classes.
    Classification,
    /// Real numbers.
    Regression,
}

/// How the posterior is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Inference {
    /// Variational ascent.
    Vb,
    /// Draws from the exact posterior.
    Gibbs,
    /// Penalised maximum likelihood.
    Map,
}

/// Defaults that other settings start from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// Ours.
    Best,
    /// Those of the publication the models are from.
    Paper,
}

/// Weights of classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClassWeight {
    /// Every row counts as it is.
    None,
    /// Classes count the same in all.
    Balanced,
}

/// Covariance as users ask for it; `None` is `auto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CovarianceChoice(pub Option<Covariance>);

/// What `covariance` may be.
const COVARIANCE: &str = "auto, joint, child, diag, block:WIDTH or lowrank:RANK";

impl CovarianceChoice {
    /// Reads it.
    pub fn read(text: &str) -> Option<Self> {
        let number = |text: &str| text.parse::<usize>().ok().filter(|n| *n >= 1);
        Some(Self(match text.split_once(':') {
            None => match text {
                "auto" => None,
                "joint" => Some(Covariance::Joint),
                "child" => Some(Covariance::Child),
                "diag" => Some(Covariance::Blocks(1)),
                _ => return None,
            },
            Some(("block", width)) => Some(Covariance::Blocks(number(width)?)),
            Some(("lowrank", rank)) => Some(Covariance::LowRank(number(rank)?)),
            Some(_) => return None,
        }))
    }

    /// Writes it.
    pub fn text(self) -> String {
        self.0.map_or_else(|| "auto".into(), Covariance::text)
    }
}

impl Serialize for CovarianceChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text())
    }
}

impl<'de> Deserialize<'de> for CovarianceChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::read(&text).ok_or_else(|| serde::de::Error::custom(format!("`{text}` is not {COVARIANCE}")))
    }
}

/// Settings of a fit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// What is predicted.
    pub task: Task,
    /// Numbers of subclasses.
    pub subclasses: Option<String>,
    /// Number of experts.
    pub experts: Option<String>,
    /// Tree of gates.
    pub gates: Option<GatesValue>,
    /// How the posterior is found.
    pub inference: Inference,
    /// Defaults that other settings start from.
    pub preset: Preset,
    /// Bound of the log-sum-exp.
    pub bound: Bound,
    /// Coding of nodes with two children.
    pub coding: Coding,
    /// Which weights may correlate under the posterior.
    pub covariance: CovarianceChoice,
    /// Which weights share a prior precision.
    pub precision: Precision,
    /// The prior precision where `precision` is `fixed`.
    pub prior_precision: f64,
    /// That of gates; `None` is the same.
    pub gate_precision: Option<f64>,
    /// Shape of the prior of precisions.
    pub a0: f64,
    /// Rate of the prior of precisions.
    pub b0: f64,
    /// Prior precision of the bias; `None` treats it like any other input.
    pub bias_precision: Option<f64>,
    /// c₀ of regression: shape of the prior of noise precisions.
    pub noise_shape: f64,
    /// d₀: its rate.
    pub noise_rate: f64,
    /// e₀ of regression: shape of the prior of the precision of slopes.
    pub slope_shape: f64,
    /// f₀: its rate.
    pub slope_rate: f64,
    /// The precision of slopes itself, where it is given.
    pub slope_precision: Option<f64>,
    /// Whether columns are centred and scaled to unit variance first.
    pub standardize: bool,
    /// Map of the inputs.
    pub input_map: InputMap,
    /// Weights of classes.
    pub class_weight: ClassWeight,
    /// Ascent ends when a sweep gains less than this.
    pub tol: f64,
    /// Most sweeps.
    pub max_iter: u64,
    /// Penalty of squared weights in the search for starts.
    pub map_penalty: f64,
    /// Starts of a structure.
    pub n_init: u32,
    /// Ascents from the best of them.
    pub n_vb: u32,
    /// Whether ascents are annealed.
    pub anneal: bool,
    /// What decides between structures.
    pub criterion: Criterion,
    /// Generations of compressive search.
    pub generations: u32,
    /// Share of its class below which a subclass is irrelevant.
    pub relevance: f64,
    /// Folds of cross-validation.
    pub folds: u32,
    /// Chains of the sampler.
    pub n_chains: u32,
    /// Its warm-up.
    pub n_warmup: u64,
    /// Its draws.
    pub n_draws: u64,
    /// Its thinning.
    pub thin: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            task: Task::Classification,
            subclasses: None,
            experts: None,
            gates: None,
            inference: Inference::Vb,
            preset: Preset::Best,
            bound: Bound::Tilted,
            coding: Coding::Full,
            covariance: CovarianceChoice(None),
            precision: Precision::Node,
            prior_precision: 1.0,
            gate_precision: None,
            a0: 1.0,
            b0: 1.0,
            bias_precision: None,
            noise_shape: 1.0,
            noise_rate: 0.01,
            slope_shape: 1.0,
            slope_rate: 1.0,
            slope_precision: None,
            standardize: true,
            input_map: InputMap::None,
            class_weight: ClassWeight::None,
            tol: 1e-3,
            max_iter: 600,
            map_penalty: 1e-2,
            n_init: 10,
            n_vb: 2,
            anneal: false,
            criterion: Criterion::ElboSym,
            generations: 2,
            relevance: 0.05,
            folds: 5,
            n_chains: 4,
            n_warmup: 500,
            n_draws: 1000,
            thin: 1,
        }
    }
}

/// Settings of ascents and of the search for structures, which mean nothing to the sampler.
const NOT_OF_GIBBS: &[&str] = &[
    "preset",
    "bound",
    "covariance",
    "class_weight",
    "tol",
    "max_iter",
    "map_penalty",
    "n_init",
    "n_vb",
    "anneal",
    "criterion",
    "generations",
    "relevance",
    "folds",
];
/// Settings of the variational fit alone, beside those of its starts and of the coding.
const NOT_OF_MAP: &[&str] =
    &["tol", "max_iter", "n_vb", "covariance", "precision", "prior_precision", "gate_precision", "a0", "b0", "bias_precision"];
/// Settings of the sampler alone.
const OF_GIBBS: &[&str] = &["n_chains", "n_warmup", "n_draws", "thin"];

/// The table of settings.
pub fn table() -> Vec<Setting> {
    let positive = Kind::Number { above: 0.0, most: f64::MAX };
    let optional = Kind::OptionalNumber { above: 0.0, most: f64::MAX };
    let text = |form: &'static str, admits: fn(&str) -> bool, optional: bool| Kind::Text { form, admits, optional };
    let setting = |name: &'static str, kind: Kind, help: &'static str| Setting { name, kind, help };
    let mut all = vec![
        setting("task", Kind::Word(&["classification", "regression"]), "What is predicted: a class, or real numbers"),
        setting(
            "subclasses",
            text(SUBCLASSES, |t| Sizes::read(t).is_some(), true),
            "Subclasses of each class: 3,2 or auto (greedy), compressive:5, all:5 to search; nothing is one each",
        ),
        setting(
            "experts",
            text(EXPERTS, |t| Sizes::read(t).is_some_and(|s| s.of_experts()), true),
            "Experts behind a gate: 4, or auto:6 (greedy), all:6 to search; nothing is one",
        ),
        setting(
            "gates",
            Kind::Nested { form: GATES, admits: |v| GatesValue(v.clone()).read().is_some() },
            "Tree of gates over experts, for example [\"expert\", [\"expert\", \"expert\"]]; nothing leaves it out",
        ),
        setting("inference", Kind::Word(&["vb", "gibbs", "map"]), "Variational Bayes, exact draws, or penalised maximum likelihood"),
        setting("preset", Kind::Word(&["best", "paper"]), "Defaults of the others; paper is double, child, child, one ascent"),
        setting("bound", Kind::Word(&["tilted", "double", "jj", "bohning"]), "Bound of the log-sum-exp; tilted is the tightest"),
        setting("coding", Kind::Word(&["full", "logistic"]), "Weights of nodes with two children: two vectors, or one (with bound jj)"),
        setting(
            "covariance",
            text(COVARIANCE, |t| CovarianceChoice::read(t).is_some(), false),
            "Weights that may correlate: joint, child, diag, block:8, lowrank:10; auto goes by size",
        ),
        setting(
            "precision",
            Kind::Word(&["node", "child", "feature", "entry", "fixed"]),
            "Weights of a node that share a learned prior precision: all, of a child, of a column, none; or fixed",
        ),
        setting("prior_precision", positive, "Prior precision of each weight where precision is fixed"),
        setting("gate_precision", optional, "That of the weights of gates, where it is another"),
        setting("a0", positive, "Shape of the Gamma prior of precisions"),
        setting("b0", positive, "Rate of the Gamma prior of precisions"),
        setting("bias_precision", optional, "Fixed prior precision of the bias; nothing treats it like any other input"),
        setting("noise_shape", positive, "Regression: shape of the Gamma prior of noise precisions"),
        setting("noise_rate", positive, "Regression: its rate, for outcomes of unit variance"),
        setting("slope_shape", positive, "Regression: shape of the Gamma prior of the precision of slopes"),
        setting("slope_rate", positive, "Regression: its rate"),
        setting("slope_precision", optional, "Regression: precision of slopes if it is fixed; nothing learns it"),
        setting("standardize", Kind::Switch, "Whether columns are centred and scaled first"),
        setting(
            "input_map",
            text(InputMap::ALLOWED, |t| t.parse::<InputMap>().is_ok(), false),
            "Features made of the inputs: none, polynomial:3, fourier:100, fourier:100:0.6",
        ),
        setting("class_weight", Kind::Word(&["none", "balanced"]), "Balanced lets every class count the same in all"),
        setting("tol", positive, "The fit ends when a sweep raises the bound by less than this"),
        setting("max_iter", Kind::Integer { least: 1, most: 100_000_000 }, "Most sweeps of an ascent"),
        setting("map_penalty", positive, "Penalty of squared weights in the search for starts, and of inference map"),
        setting("n_init", Kind::Integer { least: 1, most: 10_000 }, "Starts of each structure, run in parallel"),
        setting("n_vb", Kind::Integer { least: 1, most: 10_000 }, "Ascents from the best starts"),
        setting("anneal", Kind::Switch, "Whether ascents begin at a high temperature, from random starts"),
        setting(
            "criterion",
            Kind::Word(&["elbo-sym", "elbo", "elbo-tight", "paper", "bic", "cv"]),
            "What decides between structures; see the book",
        ),
        setting("generations", Kind::Integer { least: 1, most: 100 }, "Generations of compressive search"),
        setting(
            "relevance",
            Kind::Number { above: 0.0, most: 1.0 },
            "Compressive search drops subclasses with a smaller share of their class",
        ),
        setting("folds", Kind::Integer { least: 2, most: 1000 }, "Folds of criterion cv"),
    ];
    all.extend(SAMPLING);
    all
}

impl Settings {
    /// Which settings others make meaningless.
    fn meaningless(&self) -> [Meaningless; 10] {
        let gibbs = self.inference == Inference::Gibbs;
        let subclasses = self.subclasses.as_deref().and_then(Sizes::read);
        let compressive = matches!(subclasses, Some(Sizes::Compressive(_)));
        let pruned = compressive || matches!(subclasses, Some(Sizes::Auto(_)));
        let fixed = self.precision == Precision::Fixed;
        [
            (gibbs, NOT_OF_GIBBS, "left out where `inference` is `gibbs`"),
            (!gibbs, OF_GIBBS, "left out unless `inference` is `gibbs`"),
            (self.inference == Inference::Map, NOT_OF_MAP, "left out where `inference` is `map`"),
            (fixed, &["a0", "b0"], "left out where `precision` is `fixed`"),
            (!fixed, &["prior_precision", "gate_precision"], "left out unless `precision` is `fixed`"),
            (
                self.task == Task::Classification,
                &["noise_shape", "noise_rate", "slope_shape", "slope_rate", "slope_precision"],
                "left out unless `task` is `regression`",
            ),
            (self.slope_precision.is_some(), &["slope_shape", "slope_rate"], "left out where `slope_precision` is given"),
            (self.experts.is_none() && self.gates.is_none(), &["gate_precision"], "left out where there are no gates"),
            (!compressive, &["generations"], "left out unless `subclasses` is searched by `compressive:N`"),
            (!pruned, &["relevance"], "left out unless `subclasses` is searched by `compressive:N` or `auto`"),
        ]
    }

    /// What another setting makes meaningless must not be given.
    pub fn validate(&self) -> Result<()> {
        let standard = Self::default();
        let refuse = |name: &str, value: String, allowed: &str| Err(Error::setting(name, value, allowed));
        refuse_meaningless(self, &self.meaningless())?;
        if self.criterion != Criterion::Cv && self.folds != standard.folds {
            return refuse("folds", self.folds.to_string(), "left out unless `criterion` is `cv`");
        }
        let structures = [("subclasses", self.subclasses.is_some()), ("experts", self.experts.is_some()), ("gates", self.gates.is_some())];
        let given: Vec<&str> = structures.iter().filter(|(_, given)| *given).map(|(name, _)| *name).collect();
        if given.len() > 1 {
            return refuse(given[1], "given".into(), &format!("left out where `{}` is given", given[0]));
        }
        if self.task == Task::Regression {
            if self.subclasses.is_some() {
                return refuse("subclasses", self.subclasses.clone().unwrap_or_default(), "left out for regression: use `experts`");
            }
            if self.class_weight != ClassWeight::None {
                return refuse("class_weight", "balanced".into(), "`none` for regression");
            }
            if self.anneal {
                return refuse("anneal", "true".into(), "false for regression");
            }
        }
        let narrow = matches!(self.covariance.0, Some(Covariance::Blocks(_) | Covariance::LowRank(_)));
        if self.bound == Bound::Bohning {
            if self.covariance.0.is_some() {
                return refuse("covariance", self.covariance.text(), "`auto` with bound `bohning`, which shares one covariance");
            }
            if !matches!(self.precision, Precision::Node | Precision::Fixed) || self.bias_precision.is_some() {
                return refuse(
                    "precision",
                    self.precision.word().into(),
                    "`node` or `fixed` with bound `bohning`, and no `bias_precision`",
                );
            }
        }
        if self.bound == Bound::Jj && narrow {
            return refuse("covariance", self.covariance.text(), "`joint` or `child` with bound `jj`");
        }
        if self.coding == Coding::Logistic && narrow {
            return refuse("covariance", self.covariance.text(), "`joint` or `child` with coding `logistic`");
        }
        if matches!(self.covariance.0, Some(Covariance::LowRank(_)))
            && (matches!(self.precision, Precision::Feature | Precision::Entry) || self.bias_precision.is_some())
        {
            return refuse("covariance", self.covariance.text(), "another form where precisions differ between columns");
        }
        if self.inference != Inference::Vb {
            if self.anneal {
                return refuse("anneal", "true".into(), "false unless `inference` is `vb`");
            }
            let searches = |text: &Option<String>| text.as_deref().and_then(Sizes::read).is_some_and(|s| !matches!(s, Sizes::Given(_)));
            let all = |text: &Option<String>| text.as_deref().and_then(Sizes::read).is_some_and(|s| matches!(s, Sizes::All(_)));
            for (name, text) in [("subclasses", &self.subclasses), ("experts", &self.experts)] {
                let possible = self.inference == Inference::Map && self.criterion == Criterion::Bic && all(text);
                if searches(text) && !possible {
                    let allowed = "a number unless `inference` is `vb` (`map` can search all:N by criterion `bic`)";
                    return refuse(name, text.clone().unwrap_or_default(), allowed);
                }
            }
        }
        if self.task == Task::Regression && self.experts.is_none() && self.gates.is_none() && self.inference != Inference::Vb {
            return refuse("experts", "nothing".into(), "a number: only inference `vb` searches for one");
        }
        Ok(())
    }

    /// Bound, covariance and prior of nodes.
    pub(crate) fn shape(&self, design: &Design) -> Shape {
        Shape {
            bound: self.bound,
            covariance: self.covariance.0,
            precision: self.precision,
            gamma: (self.a0, self.b0),
            fixed: self.prior_precision,
            fixed_gates: self.gate_precision,
            bias: self.bias_precision.filter(|_| design.intercept),
        }
    }

    /// Prior of Gaussian leaves.
    pub(crate) fn leaf(&self) -> LeafPrior {
        LeafPrior {
            noise: (self.noise_shape, self.noise_rate),
            slope: (self.slope_shape, self.slope_rate),
            fixed_slope: self.slope_precision,
        }
    }

    /// Which structures are fitted.
    pub(crate) fn search(&self, outcome: Emission) -> Result<Search> {
        let sizes = |text: &str| Sizes::read(text).unwrap_or(Sizes::Given(vec![1]));
        let policy = match (outcome, &self.subclasses, &self.experts, &self.gates) {
            (Emission::Classes(classes), Some(text), ..) => sizes(text)
                .subclasses(classes, self.generations, self.relevance)
                .map_err(|allowed| Error::setting("subclasses", text, allowed))?,
            (_, _, Some(text), _) => sizes(text).experts(),
            (_, _, _, Some(value)) => {
                let gates = value.read().ok_or_else(|| Error::setting("gates", &value.0, GATES))?;
                if let (Emission::Classes(classes), Err(found)) = (outcome, check_subclasses(&gates, outcome)) {
                    return Err(Error::setting("gates", found, format!("a tree whose `subclasses` name {classes} numbers, one a class")));
                }
                Policy::All(vec![Structure::Gates(gates)])
            }
            (Emission::Classes(classes), ..) => Policy::All(vec![Structure::Subclasses(vec![1; classes])]),
            // the number of experts is what the user of a regression wants to know
            (Emission::Real(_), ..) => Policy::GreedyExperts { most: 5 },
        };
        Ok(Search {
            policy,
            starts: self.n_init,
            ascents: self.n_vb,
            criterion: self.criterion,
            folds: self.folds,
            max_iter: if self.inference == Inference::Map { 0 } else { self.max_iter },
            anneal: self.anneal,
        })
    }
}

fn check_subclasses(gates: &super::tree::Gates, outcome: Emission) -> std::result::Result<(), String> {
    use super::tree::Gates;
    match (gates, outcome) {
        (Gates::Gate { children, .. }, _) => children.iter().try_for_each(|c| check_subclasses(c, outcome)),
        (Gates::Subclasses(sizes), Emission::Classes(classes)) if sizes.len() != classes => Err(format!("{} numbers", sizes.len())),
        _ => Ok(()),
    }
}
