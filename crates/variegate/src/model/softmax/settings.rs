//! Settings of the family: names, defaults, ranges, and what goes with what.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::SoftmaxModel;
use super::bound::Bound;
use super::covariance::Covariance;
use super::criterion::Criterion;
use super::layout::{SMALL, SMALL_IN_SEARCH, Shape};
use super::leaf::LeafPrior;
use super::policy::{Policy, Search};
use super::precision::Precision;
use super::structure::{EXPERTS, GATES, GatesValue, SUBCLASSES, Sizes};
use super::tree::{Coding, Emission, Structure};
use crate::data::{Design, InputMap, InputMaps};
use crate::model::{ClassWeight, Declared, Meaningless, SAMPLING, refuse_meaningless};
use crate::{Error, Result, settings, words};

words! {
    /// What is predicted.
    pub enum Task {
        /// One of several classes.
        Classification = "classification",
        /// Real numbers.
        Regression = "regression",
    }
}

words! {
    /// How the posterior is found.
    pub enum Inference {
        /// Variational ascent.
        Vb = "vb",
        /// Draws from the exact posterior.
        Gibbs = "gibbs",
        /// Penalised maximum likelihood.
        Map = "map",
    }
}

words! {
    /// Defaults that other settings start from.
    pub enum Preset {
        /// Ours.
        Best = "best",
        /// Those of the publication the models are from.
        Paper = "paper",
    }
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

settings! {
    /// Settings of a fit.
    pub struct Settings {
        /// What is predicted: a class, or real numbers.
        task: Task = Task::Classification, in word(Task::WORDS), read by Simulate, Check;
        /// Subclasses of each class: 3,2 or auto (greedy), compressive:5, all:5 to search; nothing is one each.
        subclasses: Option<String> = None, in text_or_nothing(SUBCLASSES, |t| Sizes::read(t).is_some()), read by Simulate, Check;
        /// Experts behind a gate: 4, or auto:6 (greedy), all:6 to search; nothing has no gate, or searches up to 5 for regression.
        experts: Option<String> = None, in text_or_nothing(EXPERTS, |t| Sizes::read(t).is_some_and(|s| s.of_experts())),
            read by Simulate, Check;
        /// Tree of gates over experts, for example ["expert", ["expert", "expert"]]; nothing leaves it out.
        gates: Option<GatesValue> = None, in nested(GATES, |v| GatesValue(v.clone()).read().is_some()), read by Simulate, Check;
        /// Variational Bayes, exact draws, or penalised maximum likelihood.
        inference: Inference = Inference::Vb, in word(Inference::WORDS), read by Check;
        /// Defaults of the others; paper is double, child, child, one ascent.
        preset: Preset = Preset::Best, in word(Preset::WORDS);
        /// Bound of the log-sum-exp; tilted is the tightest.
        bound: Bound = Bound::Tilted, in word(Bound::WORDS), read by Check;
        /// Weights of nodes with two children: two vectors, or one (with bound jj).
        coding: Coding = Coding::Full, in word(Coding::WORDS), read by Simulate, Check;
        /// Weights that may correlate: joint, child, diag, block:8, lowrank:10; auto goes by size.
        covariance: CovarianceChoice = CovarianceChoice(None), in text(COVARIANCE, |t| CovarianceChoice::read(t).is_some()), read by Check;
        /// Weights of a node that share a learned prior precision: all, of a child, of a column, none; or fixed.
        precision: Precision = Precision::Node, in word(Precision::WORDS), read by Simulate, Check;
        /// Prior precision of each weight where precision is fixed.
        prior_precision: f64 = 1.0, in positive(), read by Simulate, Check;
        /// Prior precision of the weights of gates where precision is fixed; nothing gives them that of the other weights.
        gate_precision: Option<f64> = None, in positive_or_nothing(), read by Simulate, Check;
        /// Shape of the Gamma prior of precisions.
        a0: f64 = 1.0, in positive(), read by Simulate, Check;
        /// Rate of the Gamma prior of precisions.
        b0: f64 = 1.0, in positive(), read by Simulate, Check;
        /// Fixed prior precision of the bias; nothing treats it like any other input.
        bias_precision: Option<f64> = None, in positive_or_nothing(), read by Simulate, Check;
        /// Regression: shape of the Gamma prior of noise precisions.
        noise_shape: f64 = 1.0, in positive(), read by Simulate, Check;
        /// Regression: rate of the Gamma prior of noise precisions, for outcomes of unit variance.
        noise_rate: f64 = 0.01, in positive(), read by Simulate, Check;
        /// Regression: shape of the Gamma prior of the precision of slopes.
        slope_shape: f64 = 1.0, in positive(), read by Simulate, Check;
        /// Regression: rate of the Gamma prior of the precision of slopes.
        slope_rate: f64 = 1.0, in positive(), read by Simulate, Check;
        /// Regression: precision of slopes if it is fixed; nothing learns it.
        slope_precision: Option<f64> = None, in positive_or_nothing(), read by Simulate, Check;
        /// Whether columns are centred and scaled to unit variance first.
        standardize: bool = true, in switch();
        /// Features made of the inputs: none, polynomial:3, fourier:100, fourier:100:0.6; auto compares several by the criterion.
        input_map: InputMaps = InputMaps::One(InputMap::None), in text(InputMaps::ALLOWED, |t| t.parse::<InputMaps>().is_ok());
        /// Balanced lets every class count the same in all.
        class_weight: ClassWeight = ClassWeight::None, in word(ClassWeight::WORDS);
        /// The fit ends when a sweep raises the bound by less than this.
        tol: f64 = 1e-3, in positive();
        /// Most sweeps of an ascent.
        max_iter: u64 = 600, in whole(1, 100_000_000);
        /// Penalty of squared weights in the search for starts, and of inference map.
        map_penalty: f64 = 1e-2, in positive(), read by Check;
        /// Starts of each structure, run in parallel.
        n_init: u32 = 10, in whole(1, 10_000);
        /// Ascents from the best starts.
        n_vb: u32 = 2, in whole(1, 10_000);
        /// Whether ascents begin at a high temperature, from random starts.
        anneal: bool = false, in switch();
        /// What decides between structures: the bound on the log evidence with their symmetries (elbo-sym), without (elbo), with sampled
        /// expectations (elbo-tight), as published (paper), the Bayesian information criterion, cross-validation, or rows left out one by one
        /// (loo). auto is cv for classes whose subclasses or experts are found by auto, unless n_init, n_vb, anneal or relevance is given, which
        /// searches by the bound have; else elbo-sym.
        criterion: Criterion = Criterion::Auto, in word(&["auto", "elbo-sym", "elbo", "elbo-tight", "paper", "bic", "cv", "loo"]);
        /// Generations of compressive search.
        generations: u32 = 2, in whole(1, 100);
        /// Compressive search drops subclasses with a smaller share of their class.
        relevance: f64 = 0.05, in number(0.0, 1.0);
        /// Folds of criterion cv.
        folds: u32 = 5, in whole(2, 1000);
        sampling { n_chains: 4, n_warmup: 500, n_draws: 1000, thin: 1 }
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
impl Settings {
    /// Which settings others make meaningless.
    pub(super) fn meaningless(&self) -> [Meaningless; 11] {
        let gibbs = self.inference == Inference::Gibbs;
        let subclasses = self.subclasses.as_deref().and_then(Sizes::read);
        let compressive = matches!(subclasses, Some(Sizes::Compressive(_)));
        let pruned = compressive || matches!(subclasses, Some(Sizes::Auto(_)));
        let fixed = self.precision == Precision::Fixed;
        [
            (gibbs, NOT_OF_GIBBS, "left out where `inference` is `gibbs`"),
            (!gibbs, SAMPLING, "left out unless `inference` is `gibbs`"),
            (self.inference == Inference::Map, NOT_OF_MAP, "left out where `inference` is `map`"),
            (fixed, &["a0", "b0"], "left out where `precision` is `fixed`"),
            (!fixed, &["prior_precision", "gate_precision"], "left out unless `precision` is `fixed`"),
            (
                self.task == Task::Classification,
                &["noise_shape", "noise_rate", "slope_shape", "slope_rate", "slope_precision"],
                "left out unless `task` is `regression`",
            ),
            (
                self.is_guided(),
                &["n_init", "n_vb", "anneal", "relevance"],
                "left out where `criterion` `cv` leads the search for a structure",
            ),
            (self.slope_precision.is_some(), &["slope_shape", "slope_rate"], "left out where `slope_precision` is given"),
            (self.experts.is_none() && self.gates.is_none(), &["gate_precision"], "left out where there are no gates"),
            (!compressive, &["generations"], "left out unless `subclasses` is searched by `compressive:N`"),
            (!pruned, &["relevance"], "left out unless `subclasses` is searched by `compressive:N` or `auto`"),
        ]
    }

    /// Whether components are split as long as that helps.
    fn splits(&self) -> bool {
        let auto = |text: &Option<String>| text.as_deref().and_then(Sizes::read).is_some_and(|s| matches!(s, Sizes::Auto(_)));
        let free = self.task == Task::Regression && self.experts.is_none() && self.gates.is_none();
        auto(&self.subclasses) || auto(&self.experts) || free
    }

    /// What decides between structures, `auto` being settled: of the criteria that were measured, held-out rows predict best and in the
    /// shortest time where classes are split.
    pub(super) fn deciding(&self) -> Criterion {
        let standard = Self::default();
        let by_bound = self.n_init != standard.n_init
            || self.n_vb != standard.n_vb
            || self.anneal != standard.anneal
            || self.relevance != standard.relevance
            || self.task == Task::Regression;
        match self.criterion {
            Criterion::Auto if self.splits() && !by_bound && self.inference == Inference::Vb => Criterion::Cv,
            Criterion::Auto => Criterion::ElboSym,
            given => given,
        }
    }

    /// Whether prediction of held-out rows leads a search by splits.
    fn is_guided(&self) -> bool {
        self.deciding() == Criterion::Cv && self.splits()
    }

    /// Every choice of the publication that the models are from.
    pub fn paper() -> Self {
        let child = CovarianceChoice(Some(Covariance::Child));
        Self { preset: Preset::Paper, bound: Bound::Double, covariance: child, precision: Precision::Child, n_vb: 1, ..Self::default() }
    }

    /// The model with these settings, if they are valid and go together.
    pub fn validate(self) -> Result<SoftmaxModel> {
        self.check_ranges()?;
        self.check()?;
        Ok(SoftmaxModel { settings: self })
    }

    /// What another setting makes meaningless must not be given.
    fn check(&self) -> Result<()> {
        let standard = Self::default();
        let refuse = |name: &str, value: String, allowed: &str| Err(Error::setting(name, value, allowed));
        // a criterion that `auto` leads to anyhow may be named; runs begun when it was the default name it
        let by_itself = Self { criterion: Criterion::Auto, ..self.clone() };
        let named = self.criterion == by_itself.deciding();
        refuse_meaningless(if named { &by_itself } else { self }, &self.meaningless())?;
        if self.deciding() != Criterion::Cv && self.folds != standard.folds {
            return refuse("folds", self.folds.to_string(), "left out unless `criterion` is `cv`, or is `auto` and leads to it");
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
            if self.input_map == InputMaps::Auto {
                return refuse("input_map", "auto".into(), "one map unless `inference` is `vb`, which compares several");
            }
            if self.anneal {
                return refuse("anneal", "true".into(), "false unless `inference` is `vb`");
            }
            let searches = |text: &Option<String>| text.as_deref().and_then(Sizes::read).is_some_and(|s| !matches!(s, Sizes::Given(_)));
            let all = |text: &Option<String>| text.as_deref().and_then(Sizes::read).is_some_and(|s| matches!(s, Sizes::All(_)));
            for (name, text) in [("subclasses", &self.subclasses), ("experts", &self.experts)] {
                let possible = self.inference == Inference::Map && self.deciding() == Criterion::Bic && all(text);
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
            joint_up_to: if self.is_guided() || self.input_map == InputMaps::Auto { SMALL_IN_SEARCH } else { SMALL },
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
            criterion: self.deciding(),
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
