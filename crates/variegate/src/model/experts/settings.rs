//! Settings of the experts: their defaults, and what goes with what.

use serde::{Deserialize, Serialize};

use crate::model::{Kind, Meaningless, SAMPLING, Setting, refuse_meaningless};
use crate::{Error, Result};

/// What couples the experts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Prior {
    /// Independent Gaussian weights.
    Gaussian,
    /// A chain of von Mises-Fisher directions, each away from the sum of those before it, the more so the longer that is (type II).
    MutualAngular,
    /// The same with one concentration whatever the length (type I).
    #[serde(rename = "mutual-angular-1")]
    MutualAngularOne,
    /// Directions with density ∝ det of their kernel matrix.
    Determinantal,
}

/// How the model is fitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Inference {
    /// Geodesic Hamiltonian Monte Carlo with the labels summed out.
    Hmc,
    /// Polya-Gamma Gibbs with elliptical slices.
    Gibbs,
    /// Random-walk Metropolis, component by component.
    Mh,
    /// Variational Bayes.
    Vb,
    /// Posterior regularisation: variational Bayes with a reward for large angles between mean directions.
    Pr,
    /// Penalised maximum likelihood.
    Map,
}

/// Where intercepts live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Intercept {
    /// Beside the direction, with a prior of their own.
    Separate,
    /// Inside the direction, as the weight of a column of ones.
    Augment,
    /// There are none.
    None,
}

/// What is done to columns first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// `Standard` for dense rows, `Maxabs` for sparse ones.
    Auto,
    /// Centre and divide by the standard deviation.
    Standard,
    /// Centre and divide by the largest absolute value.
    Maxabs,
    /// Take columns as they are.
    None,
}

/// What happens to the hyperparameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hyper {
    /// They stay as they are set.
    Fixed,
    /// They are chosen to maximise the likelihood: by Monte Carlo EM in a sampler's warm-up, by the bound in `vb`.
    Ml,
    /// They have priors of their own and are sampled.
    Sample,
}

/// In which coordinates trajectories of `hmc` run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    /// `Columns` for 30 inputs or more and a hundred times as many rows, else `Sphere`: near the origin flat coordinates bend, which many
    /// dimensions keep away from, and the columns matter the more the more rows there are.
    Auto,
    /// Flat ones that know how columns hang together.
    Columns,
    /// Along great circles of the spheres of directions.
    Sphere,
}

/// Bound of the log-sum-exp of the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GateBound {
    /// One quadratic with fixed curvature.
    Bohning,
    /// A product of logistic bounds, with a parameter a row.
    Bouchard,
}

/// Settings of a fit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Number of experts K.
    pub experts: u32,
    /// What couples them.
    pub prior: Prior,
    /// How they are fitted.
    pub inference: Inference,
    /// Concentration κ of the experts' directions; `None` is half their dimension.
    pub kappa: Option<f64>,
    /// Concentration of the gates' directions; `None` is half their dimension.
    pub gate_kappa: Option<f64>,
    /// Shape and rate of the Gamma prior of the experts' lengths.
    pub alpha1: f64,
    /// Its rate.
    pub alpha2: f64,
    /// Shape of the Gamma prior of the gates' lengths.
    pub omega1: f64,
    /// Its rate.
    pub omega2: f64,
    /// Standard deviation of Gaussian weights; `None` gives experts the mean square length of the Gamma prior.
    pub tau: Option<f64>,
    /// Standard deviation of intercepts.
    pub tau0: f64,
    /// Length scale of the determinantal kernel.
    pub ell: f64,
    /// Penalty of squared weights in `map`.
    pub l2: f64,
    /// Reward λ₁ of the angles between experts, in `map` and `pr`.
    pub diversity: f64,
    /// Reward λ₂ of the angles between gates.
    pub gate_diversity: f64,
    /// Weight γ of the variance of the angles.
    pub gamma: f64,
    /// Smoothing δ of the angles while they are maximised.
    pub delta: f64,
    /// Where intercepts live.
    pub intercept: Intercept,
    /// What is done to columns first.
    pub scale: Scale,
    /// What happens to the hyperparameters.
    pub hyper: Hyper,
    /// Bound of the gate in `vb` and `pr`.
    pub gate_bound: GateBound,
    /// Most leapfrog steps of a trajectory; `None` is 100 in flat coordinates and 30 on spheres.
    pub max_steps: Option<u32>,
    /// Acceptance that the step size of `hmc` aims at.
    pub target_accept: f64,
    /// Coordinates of the trajectories of `hmc`.
    pub metric: Metric,
    /// Updates of each expert within a sweep of `gibbs`.
    pub inner: u32,
    /// Ascents (`vb`, `pr`, `map`) from different starts.
    pub n_init: u32,
    /// Most sweeps of an ascent.
    pub max_iter: u64,
    /// An ascent ends when a sweep raises its objective by less than this for each row; `None` is 1e-6 for `map`, 1e-5 for `vb` and `pr`, whose last
    /// sweeps are many and move no prediction.
    pub tol: Option<f64>,
    /// Independent chains.
    pub n_chains: u32,
    /// Sweeps before the first draw.
    pub n_warmup: u64,
    /// Draws of each chain.
    pub n_draws: u64,
    /// Sweeps a draw.
    pub thin: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            experts: 5,
            prior: Prior::MutualAngular,
            inference: Inference::Hmc,
            kappa: None,
            gate_kappa: None,
            alpha1: 2.0,
            alpha2: 0.5,
            omega1: 2.0,
            omega2: 0.5,
            tau: None,
            tau0: 5.0,
            ell: 0.7,
            l2: 1.0,
            diversity: 1.0,
            gate_diversity: 1.0,
            gamma: 1.0,
            delta: 1e-2,
            intercept: Intercept::Separate,
            scale: Scale::Auto,
            hyper: Hyper::Fixed,
            gate_bound: GateBound::Bohning,
            max_steps: None,
            target_accept: 0.8,
            metric: Metric::Auto,
            inner: 3,
            n_init: 5,
            max_iter: 1000,
            tol: None,
            n_chains: 4,
            n_warmup: 500,
            n_draws: 1000,
            thin: 1,
        }
    }
}

/// Largest concentration: beyond it directions are points to double accuracy.
const MOST_KAPPA: f64 = 1e6;

/// The table of settings.
pub fn table() -> Vec<Setting> {
    let positive = Kind::Number { above: 0.0, most: f64::MAX };
    // just below zero, so that zero itself is allowed
    let none_or_more = |most: f64| Kind::Number { above: -f64::MIN_POSITIVE, most };
    let kappa = Kind::OptionalNumber { above: -f64::MIN_POSITIVE, most: MOST_KAPPA };
    let setting = |name: &'static str, kind: Kind, help: &'static str| Setting { name, kind, help };
    let mut all = vec![
        setting("experts", Kind::Integer { least: 1, most: 10_000 }, "Number of experts behind the gate"),
        setting(
            "prior",
            Kind::Word(&["gaussian", "mutual-angular", "mutual-angular-1", "determinantal"]),
            "What keeps experts apart: a chain of directions (type II or I) or a determinant; gaussian does not",
        ),
        setting(
            "inference",
            Kind::Word(&["hmc", "gibbs", "mh", "vb", "pr", "map"]),
            "Exact draws (hmc is the fastest), variational Bayes, posterior regularisation, or penalised maximum likelihood",
        ),
        setting("kappa", kappa, "How strongly experts keep apart; nothing is half their dimension, 0 lets them be"),
        setting("gate_kappa", kappa, "The same for the gates"),
        setting("alpha1", positive, "Shape of the Gamma prior of the lengths of experts' weights"),
        setting("alpha2", positive, "Its rate"),
        setting("omega1", positive, "Shape of the Gamma prior of the lengths of the gates' weights"),
        setting("omega2", positive, "Its rate"),
        setting(
            "tau",
            Kind::OptionalNumber { above: 0.0, most: f64::MAX },
            "Standard deviation of weights under prior gaussian; nothing gives them the mean square length of the Gamma priors",
        ),
        setting("tau0", positive, "Standard deviation of intercepts"),
        setting("ell", positive, "Length scale of the determinantal kernel, in units of the sphere"),
        setting("l2", positive, "Inference map: penalty of squared weights"),
        setting("diversity", none_or_more(f64::MAX), "Inference map and pr: reward of large angles between experts"),
        setting("gate_diversity", none_or_more(f64::MAX), "The same for the gates"),
        setting("gamma", none_or_more(f64::MAX), "Weight of the variance of the angles in that reward"),
        setting("delta", Kind::Number { above: 0.0, most: 1.0 }, "Smoothing of the angles while the reward is maximised"),
        setting(
            "intercept",
            Kind::Word(&["separate", "augment", "none"]),
            "Intercepts beside the direction, inside it as a column of ones, or none",
        ),
        setting("scale", Kind::Word(&["auto", "standard", "maxabs", "none"]), "Scaling of columns; auto is maxabs for sparse rows"),
        setting("hyper", Kind::Word(&["fixed", "ml", "sample"]), "Hyperparameters stay, maximise the likelihood, or are sampled"),
        setting("gate_bound", Kind::Word(&["bohning", "bouchard"]), "Inference vb and pr: bound of the gate; bohning is the tighter"),
        setting(
            "max_steps",
            Kind::OptionalInteger { least: 1, most: 10_000 },
            "Inference hmc: most leapfrog steps of a trajectory; nothing is 100 under metric columns, 30 under sphere",
        ),
        setting("target_accept", Kind::Number { above: 0.0, most: 0.999 }, "Inference hmc: acceptance the step size aims at"),
        setting(
            "metric",
            Kind::Word(&["auto", "columns", "sphere"]),
            "Inference hmc: trajectories in coordinates that know how columns hang together, or along great circles; auto goes by size",
        ),
        setting("inner", Kind::Integer { least: 1, most: 1000 }, "Inference gibbs: updates of each expert within a sweep"),
        setting("n_init", Kind::Integer { least: 1, most: 10_000 }, "Ascents of vb, pr and map from different starts"),
        setting("max_iter", Kind::Integer { least: 1, most: 100_000_000 }, "Most sweeps of an ascent"),
        setting(
            "tol",
            Kind::OptionalNumber { above: 0.0, most: f64::MAX },
            "An ascent ends when a sweep gains less than this for each row; nothing is 1e-6 for map, 1e-5 for vb and pr",
        ),
    ];
    all.extend(SAMPLING);
    all
}

impl Metric {
    /// `Auto` decided, for so many inputs and rows.
    pub fn decide(self, inputs: usize, rows: f64) -> Self {
        match self {
            Metric::Auto if inputs >= 30 && rows >= 100.0 * inputs as f64 => Metric::Columns,
            Metric::Auto => Metric::Sphere,
            chosen => chosen,
        }
    }

    /// Most steps of a trajectory, and the share of the experts that are moved alone after it. Which few rows have an expert to themselves
    /// changes by these moves above all, so that with many rows all experts are moved, and trajectories are long enough for that to be a
    /// fifth of the cost; with few rows both would cost more than they give (`bench/RESULTS.md`).
    pub fn pace(self) -> (u32, f64) {
        if self == Metric::Columns { (100, 1.0) } else { (30, 1.0 / 6.0) }
    }
}

impl Settings {
    /// Whether the fit draws from the posterior.
    pub fn samples(&self) -> bool {
        matches!(self.inference, Inference::Hmc | Inference::Gibbs | Inference::Mh)
    }

    /// What ends an ascent.
    pub fn tolerance(&self) -> f64 {
        self.tol.unwrap_or(if self.inference == Inference::Map { 1e-6 } else { 1e-5 })
    }

    /// Which settings others make meaningless.
    fn meaningless(&self) -> Vec<Meaningless> {
        use Inference::{Gibbs, Hmc, Map, Pr, Vb};
        let (inference, prior) = (self.inference, self.prior);
        let angular = matches!(prior, Prior::MutualAngular | Prior::MutualAngularOne);
        let gaussian = prior == Prior::Gaussian;
        let chained = angular && !matches!(inference, Map | Pr);
        let one = self.experts == 1;
        vec![
            (!chained, &["kappa", "gate_kappa"], "left out unless `prior` is mutual-angular and `inference` is not `map` or `pr`"),
            (
                one,
                &["gate_kappa", "omega1", "omega2", "gate_diversity", "gate_bound"],
                "left out where there is one expert, which has no gate",
            ),
            (gaussian || inference == Map, &["alpha1", "alpha2", "omega1", "omega2"], "left out where weights have a Gaussian prior"),
            (!gaussian || inference == Map, &["tau"], "left out unless `prior` is `gaussian` (`map` has `l2`)"),
            (prior != Prior::Determinantal, &["ell"], "left out unless `prior` is `determinantal`"),
            (inference != Map, &["l2"], "left out unless `inference` is `map`"),
            (
                !(inference == Pr || inference == Map && angular),
                &["diversity", "gate_diversity", "gamma", "delta"],
                "left out unless `inference` is `pr`, or `map` with prior `mutual-angular`",
            ),
            (gaussian || inference == Map, &["hyper"], "`fixed` where weights have a Gaussian prior"),
            (!matches!(inference, Vb | Pr), &["gate_bound"], "left out unless `inference` is `vb` or `pr`"),
            (inference != Hmc, &["max_steps", "target_accept", "metric"], "left out unless `inference` is `hmc`"),
            (inference != Gibbs, &["inner"], "left out unless `inference` is `gibbs`"),
            (self.samples(), &["n_init", "max_iter", "tol"], "left out unless `inference` is `vb`, `pr` or `map`"),
            (!self.samples(), &["n_chains", "n_warmup", "n_draws", "thin"], "left out unless `inference` is `hmc`, `gibbs` or `mh`"),
            (self.intercept == Intercept::None, &["tau0"], "left out where there are no intercepts"),
        ]
    }

    /// What goes with what; what another setting makes meaningless must not be given.
    pub fn validate(&self) -> Result<()> {
        refuse_meaningless(self, &self.meaningless())?;
        let refuse = |name: &str, value: &str, allowed: &str| Err(Error::setting(name, value, allowed));
        match (self.inference, self.prior) {
            (Inference::Vb, Prior::MutualAngularOne | Prior::Determinantal) => {
                refuse("inference", "vb", "`hmc` for this prior: the bound of `vb` needs `mutual-angular` (type II) or `gaussian`")
            }
            (Inference::Pr, prior) if prior != Prior::MutualAngular => {
                refuse("prior", as_word(&prior).as_str(), "left at its default with `pr`, whose reward of angles takes the prior's place")
            }
            (Inference::Map, Prior::MutualAngularOne | Prior::Determinantal) => refuse(
                "prior",
                as_word(&self.prior).as_str(),
                "`gaussian` (squared weights) or `mutual-angular` (and a reward of angles) with `map`",
            ),
            (Inference::Mh, Prior::Gaussian) => refuse("inference", "mh", "`hmc` or `gibbs` with prior `gaussian`"),
            (Inference::Vb | Inference::Pr, _) if self.hyper == Hyper::Sample => {
                refuse("hyper", "sample", "`fixed` or `ml` in `vb` and `pr`")
            }
            _ => Ok(()),
        }
    }
}

/// A setting's value as users write it.
pub fn as_word<T: Serialize>(value: &T) -> String {
    serde_json::to_value(value).ok().and_then(|v| v.as_str().map(str::to_string)).unwrap_or_default()
}
