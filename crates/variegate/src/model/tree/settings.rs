//! Settings of a fit, and what each may be.

use super::TreeModel;
use super::components::{Family, Matrix, Prior};
use super::labels::Label;
use super::margin::{EtaUpdate, Margin, Penalty};
use super::numbers::{Numbers, Pull};
use super::program::{Choose, Components, FeatureSource, Separation, TreeSampler};
use super::sampler::{OwnMargin, PathMove, Rules, Start, Theta};
use super::state::Concentrations;
use crate::model::{Declared, Meaningless, refuse_meaningless};
use crate::{Error, Result, settings, words};

words! {
    /// The distribution of rows within a component.
    pub enum ComponentKind {
        /// Real numbers, a variance a column and component.
        GaussianDiag = "gaussian-diag",
        /// Real numbers, a covariance matrix a component.
        GaussianFull = "gaussian-full",
        /// Real numbers, one variance for all.
        GaussianTied = "gaussian-tied",
        /// Real numbers of unit covariance around means from a standard normal.
        GaussianKnown = "gaussian-known",
        /// 0 or 1.
        Bernoulli = "bernoulli",
        /// Codes 0, 1, 2, and so on.
        Categorical = "categorical",
        /// Counts, a rate a column.
        Poisson = "poisson",
        /// Counts, proportions of a row's total.
        Multinomial = "multinomial",
    }
}

words! {
    /// Which distribution the margin makes.
    pub enum TargetKind {
        /// Charges over what a classifier that knows nothing is charged.
        Calibrated = "calibrated",
        /// Charges as they are.
        Stated = "stated",
    }
}

words! {
    /// Which violations of the margin a row is charged for.
    pub enum PenaltyKind {
        /// The largest.
        Max = "max",
        /// All of them.
        Sum = "sum",
    }
}

words! {
    /// Which sampler.
    pub enum SamplerKind {
        /// Rows one after the other up to 20,000 of them, between anchors beyond.
        Auto = "auto",
        /// Rows one after the other.
        Sequential = "sequential",
        /// Rows all at once, among what is above a slice.
        Slice = "slice",
        /// Rows all at once, between anchors.
        Anchored = "anchored",
        /// The paper's sweep: approximate.
        Paper = "paper",
    }
}

words! {
    /// How a row's new path is proposed.
    pub enum PathMoveKind {
        /// From its conditional distribution.
        Gibbs = "gibbs",
        /// From the prior.
        Prior = "prior",
    }
}

words! {
    /// What densities of rows are given.
    pub enum ThetaKind {
        /// The other rows of a component.
        Collapsed = "collapsed",
        /// Drawn parameters.
        Explicit = "explicit",
    }
}

words! {
    /// How scores of nodes are redrawn.
    pub enum ScoreUpdateKind {
        /// By elliptical slices.
        Ess = "ess",
        /// By slack variables.
        Slack = "slack",
        /// By the paper's mixture of normals.
        Paper = "paper",
    }
}

words! {
    /// How a row's own margin enters its move under the paper's sampler.
    pub enum OwnMarginKind {
        /// Given the scale of the mixture of normals.
        Scales = "scales",
        /// As it is.
        Marginal = "marginal",
    }
}

words! {
    /// Where chains begin.
    pub enum StartKind {
        /// Rows are placed one after the other.
        Sequential = "sequential",
        /// A draw from the prior.
        Prior = "prior",
        /// One path and one component.
        Single = "single",
        /// Ward's tree of clusters.
        Ward = "ward",
        /// Labels that are given with the rows.
        Labels = "labels",
    }
}

const LEVELS: &str = "a finite number above 0, or one for each level with commas between them";
const MEANS: &str = "a finite number, or one for each column with commas between them";
const COLUMNS: &str = "a finite number above 0, or one for each column with commas between them";

settings! {
    /// Settings of a fit.
    pub struct Settings {
        /// Levels below the root.
        depth: u64 = 3, in whole(1, 10), read by Simulate, Check;
        /// How readily rows open new nodes: one number for all levels, or one for each from the root down (0.35,0.2,0.1).
        alpha: Numbers = Numbers(vec![0.35]), in number_or_text(LEVELS, Numbers::positive), read by Simulate, Check;
        /// How closely the weights of a node follow those of its parent: one number for all levels, or one for each.
        gamma: Numbers = Numbers(vec![1.0]), in number_or_text(LEVELS, Numbers::positive), read by Simulate, Check;
        /// How many components the root has: larger, more.
        gamma0: f64 = 0.85, in positive(), read by Simulate, Check;
        /// Whether alpha, gamma and gamma0 are learned; they then begin as given, those of levels apart where several are.
        learn_concentrations: bool = false, in switch(), read by Check;
        /// Shape of the gamma prior of each of them (learn_concentrations).
        concentration_shape: f64 = 1.0, in positive(), read by Check;
        /// Rate of that prior (learn_concentrations).
        concentration_rate: f64 = 1.0, in positive(), read by Check;
        /// Distribution of rows within a component.
        likelihood: ComponentKind = ComponentKind::GaussianDiag, in word(ComponentKind::WORDS), read by Simulate, Check;
        /// Number of principal components that stand for the columns, which are centred but not scaled; nothing takes the columns themselves
        /// (gaussian likelihoods).
        pca: Option<u64> = None, in whole_or_nothing(1, 4096);
        /// Prior mean of components, one number or one for each column; nothing takes the means of the columns, 0 for gaussian-known
        /// (gaussian likelihoods).
        prior_mean: Option<Numbers> = None, in number_or_text_or_nothing(MEANS, Numbers::finite);
        /// How many rows the prior mean is worth; nothing takes 0.1 (gaussian-diag, gaussian-full).
        mean_strength: Option<f64> = None, in positive_or_nothing();
        /// Shape of the gamma prior of precisions; nothing takes 2 (gaussian-diag).
        precision_shape: Option<f64> = None, in positive_or_nothing();
        /// Rate of that prior, one number or one for each column; nothing takes a quarter of the columns' variances (gaussian-diag).
        precision_rate: Option<Numbers> = None, in number_or_text_or_nothing(COLUMNS, Numbers::positive);
        /// Degrees of freedom of the inverse Wishart prior; nothing takes the number of columns and 3 (gaussian-full).
        freedom: Option<f64> = None, in positive_or_nothing();
        /// Diagonal of the scale matrix of that prior, one number or one for each column; nothing takes half the columns' variances
        /// (gaussian-full).
        scatter: Option<Numbers> = None, in number_or_text_or_nothing(COLUMNS, Numbers::positive);
        /// Variance of rows within a component, one number or one for each column; nothing takes 1 (gaussian-known).
        variance: Option<Numbers> = None, in number_or_text_or_nothing(COLUMNS, Numbers::positive);
        /// Prior variance of the means of components, one number or one for each column; nothing takes 1 (gaussian-known) or the columns'
        /// variances (gaussian-tied).
        mean_variance: Option<Numbers> = None, in number_or_text_or_nothing(COLUMNS, Numbers::positive);
        /// Shape of the inverse gamma prior of the shared variance; nothing takes 2 (gaussian-tied).
        variance_shape: Option<f64> = None, in positive_or_nothing();
        /// Scale of that prior; nothing takes a quarter of the columns' mean variance (gaussian-tied).
        variance_rate: Option<f64> = None, in positive_or_nothing();
        /// Prior means of proportions, if nothing those in the data, drawn a tenth towards equal ones: of 1 in each column (bernoulli), of
        /// each code of each column (categorical), of each column (multinomial).
        base: Option<Numbers> = None, in number_or_text_or_nothing("numbers above 0 with commas between them", Numbers::positive);
        /// How many rows these means are worth; nothing learns it (bernoulli, categorical, multinomial).
        prior_strength: Option<f64> = None, in positive_or_nothing();
        /// Shape of the gamma prior of rates, one number or one for each column; nothing takes 1 (poisson).
        rate_shape: Option<Numbers> = None, in number_or_text_or_nothing(COLUMNS, Numbers::positive);
        /// Rate of that prior, one number or one for each column; nothing takes 1 over the columns' means (poisson).
        rate_rate: Option<Numbers> = None, in number_or_text_or_nothing(COLUMNS, Numbers::positive);
        /// Number of components of a finite mixture; nothing lets the data decide.
        n_components: Option<u64> = None, in whole_or_nothing(1, 65_535), read by Check;
        /// How strongly siblings are pulled apart; 0 leaves the margin out, auto takes 10 over the number of rows, 0.3 at most (0.01 where
        /// target is stated).
        separation: Pull = Pull::Fixed(0.0), in number_or_text("a finite number of at least 0, or auto", Pull::admits), read by Check;
        /// Margin between the scores of siblings (separation above 0).
        margin: f64 = 1.0, in not_negative(), read by Check;
        /// Standard deviation of the scores of nodes (separation above 0).
        score_sd: f64 = 1.0, in positive(), read by Check;
        /// Root mean squared norm to which features of rows are scaled for the margin; nothing leaves them as they are (separation above 0).
        margin_scale: Option<f64> = Some(3.0), in positive_or_nothing();
        /// Whether nodes have intercepts in their scores (separation above 0).
        margin_intercept: bool = false, in switch();
        /// Whether charges are compared with those of a classifier that knows nothing (separation above 0).
        target: TargetKind = TargetKind::Calibrated, in word(TargetKind::WORDS), read by Check;
        /// Which violations of the margin count (separation above 0).
        penalty: PenaltyKind = PenaltyKind::Max, in word(PenaltyKind::WORDS), read by Check;
        /// How scores are redrawn; paper is exact only where penalty is sum, or no row has more than one sibling to be told from
        /// (separation above 0).
        score_update: ScoreUpdateKind = ScoreUpdateKind::Ess, in word(ScoreUpdateKind::WORDS), read by Check;
        /// How rows choose their places; paper is the paper's sweep, which is approximate, and there to reproduce its figures.
        sampler: SamplerKind = SamplerKind::Auto, in word(SamplerKind::WORDS), read by Check;
        /// How a row's own margin enters its move (sampler paper, separation above 0).
        own_margin: OwnMarginKind = OwnMarginKind::Scales, in word(OwnMarginKind::WORDS), read by Check;
        /// How a row's new path is proposed; prior is the paper's way, and slow.
        path_move: PathMoveKind = PathMoveKind::Gibbs, in word(PathMoveKind::WORDS), read by Check;
        /// Whether parameters of components are integrated out where rows choose one after the other.
        theta: ThetaKind = ThetaKind::Collapsed, in word(ThetaKind::WORDS), read by Check;
        /// Whether whole subtrees look for new parents.
        regraft: bool = true, in switch(), read by Check;
        /// Tries to split or merge components in a sweep; nothing takes 1, and 0 below 10 rows.
        split_merge: Option<u64> = None, in whole_or_nothing(0, 10_000), read by Check;
        /// Number of temperatures of parallel tempering, at which the likelihood has powers from 1 down to 0.2; 1 is none. A sweep takes as many
        /// times as long: for chains that disagree.
        temperatures: u64 = 1, in whole(1, 32);
        /// Where chains begin; ward is Ward's tree of clusters by k-means, labels are clusters that are given with the rows.
        start: StartKind = StartKind::Sequential, in word(StartKind::WORDS);
        /// Sweeps of one chain with the tree of least loss held fixed, once all draws are taken: they give its nodes their weights and new rows
        /// their probabilities; 0 leaves them out.
        node_sweeps: u64 = 500, in whole(0, 1_000_000);
        sampling { n_chains: 4, n_warmup: 2000, n_draws: 1000, thin: 2 }
    }
}

/// Beyond so many rows `auto` lets them choose all at once.
const MANY_ROWS: usize = 20_000;
/// Below so many rows components are neither split nor merged, unless it is asked for.
const FEW_ROWS: usize = 10;
/// Fewer siblings than this to be expected are told of.
const FEW_NODES: f64 = 0.1;

impl Settings {
    /// The model with these settings, if they are valid and go together.
    pub fn validate(self) -> Result<TreeModel> {
        self.check_ranges()?;
        refuse_meaningless(&self, &self.meaningless())?;
        if self.penalty == PenaltyKind::Sum && self.target == TargetKind::Calibrated {
            return Err(Error::setting("penalty", "sum", "max, unless `target` is stated: there is no calibration of the sum"));
        }
        for (name, given) in [("alpha", &self.alpha), ("gamma", &self.gamma)] {
            if given.0.len() != 1 && given.0.len() as u64 != self.depth {
                let allowed = format!("one number for all levels, or {}: one for each of the levels that `depth` says", self.depth);
                return Err(Error::setting(name, given.shown(), allowed));
            }
        }
        if self.sampler == SamplerKind::Paper && !self.separation.is_none() {
            if self.target == TargetKind::Calibrated {
                return Err(Error::setting("target", "calibrated", "stated where `sampler` is paper: the paper knows no calibration"));
            }
            if self.penalty == PenaltyKind::Sum {
                return Err(Error::setting("penalty", "sum", "max where `sampler` is paper: the paper charges the largest violation"));
            }
        }
        if self.sampler == SamplerKind::Slice && !self.separation.is_none() {
            let allowed =
                "sequential or anchored with a `separation`: the margin depends on which nodes are occupied, which slices do not know";
            return Err(Error::setting("sampler", "slice", allowed));
        }
        Ok(TreeModel { settings: self })
    }

    /// Which settings others make meaningless.
    pub(super) fn meaningless(&self) -> [Meaningless; 16] {
        use ComponentKind::{Bernoulli, Categorical, GaussianDiag, GaussianFull, GaussianKnown, GaussianTied, Multinomial, Poisson};
        let not = |likelihoods: &[ComponentKind]| !likelihoods.contains(&self.likelihood);
        let paper = self.sampler == SamplerKind::Paper;
        [
            (
                self.separation.is_none(),
                &["margin", "score_sd", "margin_scale", "margin_intercept", "target", "penalty", "score_update", "own_margin"],
                "left out where `separation` is 0",
            ),
            (
                !self.family().is_gaussian(),
                &["pca"],
                "left out unless `likelihood` is a Gaussian one: principal components are real numbers",
            ),
            (self.n_components.is_some(), &["split_merge"], "left out with `n_components`: components of a finite mixture are never born"),
            (self.sampler == SamplerKind::Slice, &["path_move", "theta"], "left out where `sampler` is slice: no row moves by itself"),
            (!paper, &["own_margin"], "left out unless `sampler` is paper: the margins of all rows enter"),
            (
                paper,
                &["n_components", "learn_concentrations", "score_update", "path_move", "theta", "regraft", "split_merge", "temperatures"],
                "left out where `sampler` is paper: its sweep has one way of its own",
            ),
            (!self.learn_concentrations, &["concentration_shape", "concentration_rate"], "left out unless `learn_concentrations` is true"),
            (
                not(&[GaussianDiag, GaussianFull, GaussianTied, GaussianKnown]),
                &["prior_mean"],
                "left out unless `likelihood` is one of the gaussian ones",
            ),
            (not(&[GaussianDiag, GaussianFull]), &["mean_strength"], "left out unless `likelihood` is gaussian-diag or gaussian-full"),
            (not(&[GaussianDiag]), &["precision_shape", "precision_rate"], "left out unless `likelihood` is gaussian-diag"),
            (not(&[GaussianFull]), &["freedom", "scatter"], "left out unless `likelihood` is gaussian-full"),
            (not(&[GaussianKnown]), &["variance"], "left out unless `likelihood` is gaussian-known"),
            (not(&[GaussianKnown, GaussianTied]), &["mean_variance"], "left out unless `likelihood` is gaussian-known or gaussian-tied"),
            (not(&[GaussianTied]), &["variance_shape", "variance_rate"], "left out unless `likelihood` is gaussian-tied"),
            (
                not(&[Bernoulli, Categorical, Multinomial]),
                &["base", "prior_strength"],
                "left out unless `likelihood` is bernoulli, categorical or multinomial",
            ),
            (not(&[Poisson]), &["rate_shape", "rate_rate"], "left out unless `likelihood` is poisson"),
        ]
    }

    /// The family of components.
    pub(super) fn family(&self) -> Family {
        match self.likelihood {
            ComponentKind::GaussianDiag => Family::GaussianDiag,
            ComponentKind::GaussianFull => Family::GaussianFull,
            ComponentKind::GaussianTied => Family::GaussianTied,
            ComponentKind::GaussianKnown => Family::GaussianKnown,
            ComponentKind::Bernoulli => Family::Bernoulli,
            ComponentKind::Categorical => Family::Categorical,
            ComponentKind::Poisson => Family::Poisson,
            ComponentKind::Multinomial => Family::Multinomial,
        }
    }

    /// Concentrations, level by level.
    pub(super) fn concentrations(&self) -> Concentrations {
        let levels = |given: &Numbers| (0..self.depth as usize).map(|l| given.0[l.min(given.0.len() - 1)]).collect();
        Concentrations { alpha: levels(&self.alpha), gamma: levels(&self.gamma), gamma0: self.gamma0 }
    }

    /// What is given of the prior of components.
    fn prior(&self) -> Prior {
        let numbers = |given: &Option<Numbers>| given.as_ref().map(|all| all.0.clone());
        let matrix = |given: &Option<Numbers>| {
            given.as_ref().map(|all| if let [one] = all.0[..] { Matrix::Multiple(one) } else { Matrix::Diagonal(all.0.clone()) })
        };
        Prior {
            mean: numbers(&self.prior_mean),
            mean_strength: self.mean_strength,
            precision_shape: self.precision_shape,
            precision_rate: numbers(&self.precision_rate),
            freedom: self.freedom,
            scatter: matrix(&self.scatter),
            covariance: matrix(&self.variance),
            mean_covariance: matrix(&self.mean_variance),
            variance_shape: self.variance_shape,
            variance_rate: self.variance_rate,
            base: numbers(&self.base),
            strength: self.prior_strength,
            categories: None,
            rate_shape: numbers(&self.rate_shape),
            rate_rate: numbers(&self.rate_rate),
        }
    }

    /// What a sweep does with so many rows.
    pub(super) fn rules(&self, rows: usize) -> Rules {
        let tries = self.split_merge.unwrap_or(u64::from(rows >= FEW_ROWS));
        let paper = (self.sampler == SamplerKind::Paper).then_some(if self.own_margin == OwnMarginKind::Marginal {
            OwnMargin::Marginal
        } else {
            OwnMargin::Scales
        });
        Rules {
            path_move: if self.path_move == PathMoveKind::Prior { PathMove::Prior } else { PathMove::Gibbs },
            theta: if self.theta == ThetaKind::Explicit || paper.is_some() { Theta::Explicit } else { Theta::Collapsed },
            regraft: self.regraft,
            split_merges: if self.n_components.is_some() || paper.is_some() { 0 } else { tries as usize },
            learn: self.learn_concentrations,
            prior: (self.concentration_shape, self.concentration_rate),
            one_alpha: self.alpha.0.len() == 1,
            one_gamma: self.gamma.0.len() == 1,
            start: match self.start {
                StartKind::Sequential => Start::Sequential,
                StartKind::Prior => Start::Prior,
                StartKind::Single => Start::Single,
                StartKind::Ward => Start::Ward,
                // of rows without a label
                StartKind::Labels => Start::Sequential,
            },
            paper,
        }
    }

    /// The margin's settings for so many rows, if there is one.
    pub(super) fn charge(&self, rows: usize) -> Option<Margin> {
        let penalty = if self.penalty == PenaltyKind::Sum { Penalty::Sum } else { Penalty::Max };
        let separation = match self.separation {
            Pull::Fixed(c) => c,
            Pull::Auto if self.target == TargetKind::Stated => 0.01,
            // the margin is a sum over rows: 2 C N stays near 20
            Pull::Auto => (10.0 / rows as f64).min(0.3),
        };
        (!self.separation.is_none()).then_some(Margin { separation, margin: self.margin, spread: self.score_sd, penalty })
    }

    /// How results are not of the exact posterior, if they are not; `crowded` where some row had more than one sibling to be told from.
    pub(super) fn approximate(&self, crowded: bool) -> Option<&'static str> {
        if self.sampler == SamplerKind::Paper {
            return Some(
                "the sampler `paper` is approximate: its draws are not of the posterior of the model; the other samplers are exact",
            );
        }
        let frozen = self.score_update == ScoreUpdateKind::Paper && self.penalty == PenaltyKind::Max;
        (frozen && crowded).then_some(
            "scores were redrawn in the paper's way, which is approximate where a row has more than one sibling to be told from, as here: \
             `score_update` ess and slack are exact",
        )
    }

    /// What there is to say where rows would hardly ever part under the prior.
    pub(super) fn shallow(&self, rows: usize) -> Option<String> {
        // about as many nodes beyond the first are expected below a node of all rows
        let more = self.concentrations().alpha.into_iter().fold(0.0, f64::max) * (rows as f64).ln();
        (!self.learn_concentrations && self.depth > 1 && rows > 1 && more < FEW_NODES).then(|| {
            format!(
                "with this `alpha` and {rows} rows hardly any node has siblings ({more:.2} more expected below the root): the {} levels \
                 are mostly chains of single nodes; take a smaller `depth`, a larger `alpha`, or learn it",
                self.depth
            )
        })
    }

    /// The sampler of so many rows with columns of these names, which begin on the paths of these labels where
    /// they have any.
    pub(super) fn program(&self, rows: usize, names: Vec<String>, labels: Vec<Label>) -> TreeSampler {
        let choose = match self.sampler {
            SamplerKind::Sequential | SamplerKind::Paper => Choose::InTurn,
            SamplerKind::Slice => Choose::Slices,
            SamplerKind::Anchored => Choose::Anchors,
            SamplerKind::Auto if rows > MANY_ROWS => Choose::Anchors,
            SamplerKind::Auto => Choose::InTurn,
        };
        let separation = self.charge(rows).map(|margin| Separation {
            margin,
            calibrated: self.target == TargetKind::Calibrated,
            update: match self.score_update {
                _ if self.sampler == SamplerKind::Paper => EtaUpdate::Paper,
                ScoreUpdateKind::Ess => EtaUpdate::Ess,
                ScoreUpdateKind::Slack => EtaUpdate::Slack,
                ScoreUpdateKind::Paper => EtaUpdate::Paper,
            },
            features: FeatureSource::Rows(self.margin_scale, self.margin_intercept),
            warm_up: self.n_warmup,
        });
        TreeSampler {
            choose,
            components: Components::Unbound { family: self.family(), prior: self.prior(), names },
            rules: self.rules(rows),
            concentrations: self.concentrations(),
            finite: self.n_components.map(|n| n as usize),
            margin: separation,
            pca: self.pca.map(|count| count as usize),
            temperatures: self.temperatures as usize,
            labels,
            node_sweeps: self.node_sweeps,
        }
    }
}
