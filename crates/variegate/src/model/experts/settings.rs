//! Settings of the experts: their defaults, and what goes with what.

use super::ExpertsModel;
use super::tree::TreeModel;
use crate::model::{Declared, Meaningless, SAMPLING, refuse_meaningless};
use crate::{Error, Result, settings, words};

words! {
    /// What couples the experts.
    pub enum Prior {
        /// Independent Gaussian weights.
        Gaussian = "gaussian",
        /// A chain of von Mises-Fisher directions, each away from the sum of those before it, the more so the longer that is (type II).
        MutualAngular = "mutual-angular",
        /// The same with one concentration whatever the length (type I).
        MutualAngularOne = "mutual-angular-1",
        /// Directions with density ∝ det of their kernel matrix.
        Determinantal = "determinantal",
    }
}

words! {
    /// How the model is fitted.
    pub enum Inference {
        /// Geodesic Hamiltonian Monte Carlo with the labels summed out.
        Hmc = "hmc",
        /// Polya-Gamma Gibbs with elliptical slices.
        Gibbs = "gibbs",
        /// Random-walk Metropolis, component by component.
        Mh = "mh",
        /// Variational Bayes.
        Vb = "vb",
        /// Posterior regularisation: variational Bayes with a reward for large angles between mean directions.
        Pr = "pr",
        /// Penalised maximum likelihood.
        Map = "map",
    }
}

words! {
    /// Where intercepts live.
    pub enum Intercept {
        /// Beside the direction, with a prior of their own.
        Separate = "separate",
        /// Inside the direction, as the weight of a column of ones.
        Augment = "augment",
        /// There are none.
        None = "none",
    }
}

words! {
    /// What is done to columns first.
    pub enum Scale {
        /// `Standard` for dense rows, `Maxabs` for sparse ones.
        Auto = "auto",
        /// Centre and divide by the standard deviation.
        Standard = "standard",
        /// Centre and divide by the largest absolute value.
        Maxabs = "maxabs",
        /// Take columns as they are.
        None = "none",
    }
}

words! {
    /// What happens to the hyperparameters.
    pub enum Hyper {
        /// They stay as they are set.
        Fixed = "fixed",
        /// They are chosen to maximise the likelihood: by Monte Carlo EM in a sampler's warm-up, by the bound in `vb`.
        Ml = "ml",
        /// They have priors of their own and are sampled.
        Sample = "sample",
    }
}

words! {
    /// In which coordinates trajectories of `hmc` run.
    pub enum Metric {
        /// `Columns` for 30 inputs or more and a hundred times as many rows, else `Sphere`: near the origin flat coordinates bend, which many
        /// dimensions keep away from, and the columns matter the more the more rows there are.
        Auto = "auto",
        /// Flat ones, preconditioned by the covariance of columns.
        Columns = "columns",
        /// Along great circles of the spheres of directions.
        Sphere = "sphere",
    }
}

words! {
    /// Bound of the log-sum-exp of the gate.
    pub enum GateBound {
        /// One quadratic with fixed curvature.
        Bohning = "bohning",
        /// A product of logistic bounds, with a parameter a row.
        Bouchard = "bouchard",
    }
}

/// Largest concentration: beyond it directions are points to double accuracy.
const MOST_KAPPA: f64 = 1e6;

settings! {
    /// Settings of a fit.
    pub struct Settings {
        /// Number of experts behind the gate.
        experts: u32 = 5, in whole(1, 10_000), read by Simulate, Check;
        /// Repulsive prior of the directions: mutual angular (type II or I) or determinantal; gaussian has no repulsion.
        prior: Prior = Prior::MutualAngular, in word(Prior::WORDS), read by Simulate, Check;
        /// Exact draws (hmc is the fastest), variational Bayes, posterior regularisation, or penalised maximum likelihood.
        inference: Inference = Inference::Hmc, in word(Inference::WORDS), read by Check;
        /// Concentration of the experts' directions, how strongly they repel each other; nothing is half their dimension, 0 is no repulsion.
        kappa: Option<f64> = None, in not_negative_or_nothing(MOST_KAPPA), read by Simulate, Check;
        /// Concentration of the gates' directions, how strongly they repel each other; nothing is half their dimension, 0 is no repulsion.
        gate_kappa: Option<f64> = None, in not_negative_or_nothing(MOST_KAPPA), read by Simulate, Check;
        /// Shape of the Gamma prior of the lengths of experts' weights.
        alpha1: f64 = 2.0, in positive(), read by Simulate, Check;
        /// Rate of the Gamma prior of the lengths of experts' weights.
        alpha2: f64 = 0.5, in positive(), read by Simulate, Check;
        /// Shape of the Gamma prior of the lengths of the gates' weights.
        omega1: f64 = 2.0, in positive(), read by Simulate, Check;
        /// Rate of the Gamma prior of the lengths of the gates' weights.
        omega2: f64 = 0.5, in positive(), read by Simulate, Check;
        /// Standard deviation of weights under prior gaussian; nothing gives them the mean square length of the Gamma priors.
        tau: Option<f64> = None, in positive_or_nothing(), read by Simulate, Check;
        /// Standard deviation of intercepts.
        tau0: f64 = 5.0, in positive(), read by Simulate, Check;
        /// Length scale of the determinantal kernel, in units of the sphere.
        ell: f64 = 0.7, in positive(), read by Simulate, Check;
        /// Inference map: penalty of squared weights.
        l2: f64 = 1.0, in positive();
        /// Inference map and pr: reward of large angles between experts.
        diversity: f64 = 1.0, in not_negative();
        /// Inference map and pr: reward of large angles between gates.
        gate_diversity: f64 = 1.0, in not_negative();
        /// Inference map and pr: weight of the variance of the angles in their reward.
        gamma: f64 = 1.0, in not_negative();
        /// Inference map and pr: smoothing of the angles while their reward is maximised.
        delta: f64 = 1e-2, in number(0.0, 1.0);
        /// Intercepts beside the direction, inside it as a column of ones, or none.
        intercept: Intercept = Intercept::Separate, in word(Intercept::WORDS), read by Simulate, Check;
        /// Scaling of columns; auto is maxabs for sparse rows.
        scale: Scale = Scale::Auto, in word(Scale::WORDS);
        /// Hyperparameters stay, maximise the likelihood, or are sampled.
        hyper: Hyper = Hyper::Fixed, in word(Hyper::WORDS), read by Check;
        /// Inference vb and pr: bound of the gate; bohning is the tighter.
        gate_bound: GateBound = GateBound::Bohning, in word(GateBound::WORDS);
        /// Inference hmc: most leapfrog steps of a trajectory; nothing is 100 under metric columns, 30 under sphere.
        max_steps: Option<u32> = None, in whole_or_nothing(1, 10_000), read by Check;
        /// Inference hmc: acceptance the step size aims at.
        target_accept: f64 = 0.8, in number(0.0, 0.999), read by Check;
        /// Inference hmc: trajectories preconditioned by the covariance of columns (columns), or along great circles (sphere); auto goes by size.
        metric: Metric = Metric::Auto, in word(Metric::WORDS), read by Check;
        /// Inference gibbs: updates of each expert within a sweep.
        inner: u32 = 3, in whole(1, 1000), read by Check;
        /// Ascents of vb, pr and map from different starts.
        n_init: u32 = 5, in whole(1, 10_000);
        /// Most sweeps of an ascent.
        max_iter: u64 = 1000, in whole(1, 100_000_000);
        /// An ascent ends when a sweep gains less than this for each row; nothing is 1e-6 for map, 1e-5 for vb and pr.
        tol: Option<f64> = None, in positive_or_nothing();
        sampling { n_chains: 4, n_warmup: 500, n_draws: 1000, thin: 1 }
    }
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
    pub(super) fn meaningless(&self) -> Vec<Meaningless> {
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
            (!self.samples(), SAMPLING, "left out unless `inference` is `hmc`, `gibbs` or `mh`"),
            (self.intercept == Intercept::None, &["tau0"], "left out where there are no intercepts"),
        ]
    }

    /// The model with these settings, if they are valid and go together.
    pub fn validate(self) -> Result<ExpertsModel> {
        self.check_ranges()?;
        self.check()?;
        let tree = (self.prior == Prior::Gaussian && self.inference == Inference::Vb).then(|| TreeModel::new(self.clone())).transpose()?;
        Ok(ExpertsModel { settings: self, tree })
    }

    /// What goes with what; what another setting makes meaningless must not be given.
    fn check(&self) -> Result<()> {
        refuse_meaningless(self, &self.meaningless())?;
        let refuse = |name: &str, value: &str, allowed: &str| Err(Error::setting(name, value, allowed));
        match (self.inference, self.prior) {
            (Inference::Vb, Prior::MutualAngularOne | Prior::Determinantal) => {
                refuse("inference", "vb", "`hmc` for this prior: the bound of `vb` needs `mutual-angular` (type II) or `gaussian`")
            }
            (Inference::Pr, prior) if prior != Prior::MutualAngular => {
                refuse("prior", prior.word(), "left at its default with `pr`, whose reward of angles takes the prior's place")
            }
            (Inference::Map, Prior::MutualAngularOne | Prior::Determinantal) => {
                refuse("prior", self.prior.word(), "`gaussian` (squared weights) or `mutual-angular` (and a reward of angles) with `map`")
            }
            (Inference::Mh, Prior::Gaussian) => refuse("inference", "mh", "`hmc` or `gibbs` with prior `gaussian`"),
            (Inference::Vb | Inference::Pr, _) if self.hyper == Hyper::Sample => {
                refuse("hyper", "sample", "`fixed` or `ml` in `vb` and `pr`")
            }
            _ => Ok(()),
        }
    }
}
