//! Settings of a fit, and what each may be.

use super::TreeModel;
use super::components::{Family, Prior};
use super::margin::{EtaUpdate, Margin, Penalty};
use super::program::{Choose, Components, FeatureSource, Separation, TreeSampler};
use super::sampler::{PathMove, Rules, Theta};
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
    }
}

settings! {
    /// Settings of a fit.
    pub struct Settings {
        /// Levels below the root.
        depth: u64 = 3, in whole(1, 10), read by Simulate, Check;
        /// How readily rows open new nodes, one number for all levels.
        alpha: f64 = 0.35, in positive(), read by Simulate, Check;
        /// How closely the weights of a node follow those of its parent, one number for all levels.
        gamma: f64 = 1.0, in positive(), read by Simulate, Check;
        /// How many components the root has: larger, more.
        gamma0: f64 = 0.85, in positive(), read by Simulate, Check;
        /// Whether alpha, gamma and gamma0 are learned; they then begin as given.
        learn_concentrations: bool = false, in switch(), read by Check;
        /// Distribution of rows within a component.
        components: ComponentKind = ComponentKind::GaussianDiag, in word(ComponentKind::WORDS), read by Simulate, Check;
        /// Number of components of a finite mixture; nothing lets the data decide.
        n_components: Option<u64> = None, in whole_or_nothing(1, 65_535), read by Check;
        /// How strongly siblings are pulled apart; 0 leaves the margin out.
        separation: f64 = 0.0, in not_negative(), read by Check;
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
        /// How scores are redrawn (separation above 0).
        score_update: ScoreUpdateKind = ScoreUpdateKind::Ess, in word(ScoreUpdateKind::WORDS), read by Check;
        /// How rows choose their places.
        sampler: SamplerKind = SamplerKind::Auto, in word(SamplerKind::WORDS), read by Check;
        /// How a row's new path is proposed; prior is the paper's way, and slow.
        path_move: PathMoveKind = PathMoveKind::Gibbs, in word(PathMoveKind::WORDS), read by Check;
        /// Whether parameters of components are integrated out where rows choose one after the other.
        theta: ThetaKind = ThetaKind::Collapsed, in word(ThetaKind::WORDS), read by Check;
        /// Whether whole subtrees look for new parents.
        regraft: bool = true, in switch(), read by Check;
        /// Tries to split or merge components in a sweep; nothing takes 1, and 0 below 10 rows.
        split_merge: Option<u64> = None, in whole_or_nothing(0, 10_000), read by Check;
        sampling { n_chains: 4, n_warmup: 2000, n_draws: 1000, thin: 2 }
    }
}

/// Beyond so many rows `auto` lets them choose all at once.
const MANY_ROWS: usize = 20_000;
/// Below so many rows components are neither split nor merged, unless it is asked for.
const FEW_ROWS: usize = 10;

impl Settings {
    /// The model with these settings, if they are valid and go together.
    pub fn validate(self) -> Result<TreeModel> {
        self.check_ranges()?;
        refuse_meaningless(&self, &self.meaningless())?;
        if self.penalty == PenaltyKind::Sum && self.target == TargetKind::Calibrated {
            return Err(Error::setting("penalty", "sum", "max, unless `target` is stated: there is no calibration of the sum"));
        }
        if self.sampler == SamplerKind::Slice && self.separation > 0.0 {
            let allowed =
                "sequential or anchored with a `separation`: the margin depends on which nodes are occupied, which slices do not know";
            return Err(Error::setting("sampler", "slice", allowed));
        }
        Ok(TreeModel { settings: self })
    }

    /// Which settings others make meaningless.
    pub(super) fn meaningless(&self) -> [Meaningless; 3] {
        [
            (
                self.separation == 0.0,
                &["margin", "score_sd", "margin_scale", "margin_intercept", "target", "penalty", "score_update"],
                "left out where `separation` is 0",
            ),
            (self.n_components.is_some(), &["split_merge"], "left out with `n_components`: components of a finite mixture are never born"),
            (self.sampler == SamplerKind::Slice, &["path_move", "theta"], "left out where `sampler` is slice: no row moves by itself"),
        ]
    }

    /// The family of components.
    pub(super) fn family(&self) -> Family {
        match self.components {
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
        let depth = self.depth as usize;
        Concentrations { alpha: vec![self.alpha; depth], gamma: vec![self.gamma; depth], gamma0: self.gamma0 }
    }

    /// What a sweep does with so many rows.
    pub(super) fn rules(&self, rows: usize) -> Rules {
        let tries = self.split_merge.unwrap_or(u64::from(rows >= FEW_ROWS));
        Rules {
            path_move: if self.path_move == PathMoveKind::Prior { PathMove::Prior } else { PathMove::Gibbs },
            theta: if self.theta == ThetaKind::Explicit { Theta::Explicit } else { Theta::Collapsed },
            regraft: self.regraft,
            split_merges: if self.n_components.is_some() { 0 } else { tries as usize },
            learn: self.learn_concentrations,
            one_alpha: true,
            one_gamma: true,
        }
    }

    /// The margin's settings, if there is one.
    pub(super) fn charge(&self) -> Option<Margin> {
        let penalty = if self.penalty == PenaltyKind::Sum { Penalty::Sum } else { Penalty::Max };
        (self.separation > 0.0).then_some(Margin { separation: self.separation, margin: self.margin, spread: self.score_sd, penalty })
    }

    /// The sampler of so many rows with columns of these names.
    pub(super) fn program(&self, rows: usize, names: Vec<String>) -> TreeSampler {
        let choose = match self.sampler {
            SamplerKind::Sequential => Choose::InTurn,
            SamplerKind::Slice => Choose::Slices,
            SamplerKind::Anchored => Choose::Anchors,
            SamplerKind::Auto if rows > MANY_ROWS => Choose::Anchors,
            SamplerKind::Auto => Choose::InTurn,
        };
        let separation = self.charge().map(|margin| Separation {
            margin,
            calibrated: self.target == TargetKind::Calibrated,
            update: if self.score_update == ScoreUpdateKind::Slack { EtaUpdate::Slack } else { EtaUpdate::Ess },
            features: FeatureSource::Rows(self.margin_scale, self.margin_intercept),
            warm_up: self.n_warmup,
        });
        TreeSampler {
            choose,
            components: Components::Unbound { family: self.family(), prior: Prior::default(), names },
            rules: self.rules(rows),
            concentrations: self.concentrations(),
            finite: self.n_components.map(|n| n as usize),
            margin: separation,
        }
    }
}
