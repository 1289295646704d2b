//! Settings of a fit, and what each may be.

use super::FeaturesModel;
use crate::model::{Declared, Meaningless, refuse_meaningless};
use crate::{Error, Result, settings, words};

words! {
    /// The distribution of features and of their use.
    pub enum PriorKind {
        /// Indian buffet process, independent Gaussian features.
        Ibp = "ibp",
        /// Stable-beta process, whose uses follow a power law, independent Gaussian features.
        PitmanYor = "pitman-yor",
        /// Indian buffet process, directions that point away from one another.
        MutualAngular = "mutual-angular",
    }
}

words! {
    /// Which sampler.
    pub enum SamplerKind {
        /// Rows in parallel, births in small groups of rows with features integrated out.
        Anchored = "anchored",
        /// Rows in parallel, each with a slice of its own.
        RowSlice = "rowslice",
        /// One slice, rows one after the other.
        Slice = "slice",
    }
}

words! {
    /// What is added to every row.
    pub enum InterceptKind {
        /// A vector that is learned.
        Sample = "sample",
        /// The means of the columns.
        Mean = "mean",
        /// Nothing.
        None = "none",
    }
}

words! {
    /// The distribution of the lengths of features.
    pub enum MagnitudeKind {
        /// Gamma.
        Gamma = "gamma",
        /// That of the length of a Gaussian vector.
        Chi = "chi",
    }
}

words! {
    /// How directions are drawn.
    pub enum DirectionKind {
        /// By kappa and the number of columns.
        Auto = "auto",
        /// From a von Mises-Fisher distribution, with a Metropolis test.
        Vmf = "vmf",
        /// By geodesic Hamiltonian trajectories.
        Hmc = "hmc",
    }
}

words! {
    /// What a chain begins with.
    pub enum StartKind {
        /// The best of several short chains on a few rows.
        Grown = "grown",
        /// No features.
        Empty = "empty",
    }
}

settings! {
    /// Settings of a fit.
    pub struct Settings {
        /// Distribution of features and of their use.
        prior: PriorKind = PriorKind::Ibp, in word(PriorKind::WORDS), read by Simulate, Check;
        /// How the posterior is sampled; slice is the paper's, corrected.
        sampler: SamplerKind = SamplerKind::Anchored, in word(SamplerKind::WORDS), read by Check;
        /// Features of a row that the prior expects; with learn_mass the mean of its prior.
        mass: f64 = 1.0, in number(0.0, 1e4), read by Simulate, Check;
        /// Whether the mass is learned.
        learn_mass: bool = true, in switch(), read by Check;
        /// Concentration of the stable-beta process (pitman-yor); with learn_concentration where it starts.
        concentration: f64 = 1.0, in number(-1.0, 1e4), read by Simulate, Check;
        /// Whether the concentration is learned (pitman-yor).
        learn_concentration: bool = false, in switch(), read by Check;
        /// Discount of the stable-beta process (pitman-yor), below 1; nothing learns it.
        discount: Option<f64> = None, in not_negative_or_nothing(0.999_999), read by Simulate, Check;
        /// Variance of the noise, in squared units of the data; nothing learns it.
        noise_variance: Option<f64> = None, in positive_or_nothing(), read by Check;
        /// Variance of the entries of features, in squared units of the data; nothing learns it.
        feature_variance: Option<f64> = None, in positive_or_nothing(), read by Check;
        /// Distribution of the lengths of features (mutual-angular): with chi and kappa 0 the model is that of ibp.
        magnitude: MagnitudeKind = MagnitudeKind::Gamma, in word(MagnitudeKind::WORDS), read by Simulate, Check;
        /// Shape of the gamma distribution of lengths (mutual-angular); its rate is learned.
        magnitude_shape: f64 = 4.0, in number(0.0, 1e6), read by Simulate, Check;
        /// How strongly directions point away from one another (mutual-angular); nothing takes a sixth of the number of columns.
        kappa: Option<f64> = None, in not_negative_or_nothing(1e6), read by Simulate, Check;
        /// Whether kappa is learned (mutual-angular).
        learn_kappa: bool = false, in switch(), read by Check;
        /// What is added to every row: a vector that is learned (sample), the column means (mean) or none.
        intercept: InterceptKind = InterceptKind::Sample, in word(InterceptKind::WORDS), read by Check;
        /// Whether all entries are divided by their common standard deviation first.
        scale: bool = true, in switch();
        /// Whether entries may be missing (NaN), to be drawn with the rest.
        missing: bool = false, in switch();
        /// Rows among which features are born and die together (anchored); nothing takes 16, and 8 for mutual-angular.
        birth_rows: Option<u64> = None, in whole_or_nothing(1, 1000), read by Check;
        /// Attempts of births and deaths in a sweep (mutual-angular): half of them with birth_rows, half in one row.
        births: u64 = 4, in whole(0, 10_000), read by Check;
        /// Attempts to split or merge features in a sweep (ibp, pitman-yor).
        split_merge: u64 = 10, in whole(0, 100_000), read by Check;
        /// Attempts to tell a feature that contains another apart from it, in a sweep (ibp, pitman-yor).
        shear: u64 = 1, in whole(0, 100_000), read by Check;
        /// Attempts to turn a feature inside out, in a sweep (ibp, pitman-yor, intercept sample).
        complement: u64 = 1, in whole(0, 100_000), read by Check;
        /// Joint updates of two features of each row, in a sweep (anchored).
        pairs: u64 = 0, in whole(0, 1000), read by Check;
        /// How directions are drawn (mutual-angular).
        direction: DirectionKind = DirectionKind::Auto, in word(DirectionKind::WORDS), read by Check;
        /// What a chain begins with: the best of short chains on a few rows (grown), or no features (empty).
        start: StartKind = StartKind::Grown, in word(StartKind::WORDS);
        /// Short chains to choose from (grown).
        restarts: u64 = 8, in whole(1, 1000);
        /// Rows of the short chains, at most (grown).
        start_rows: u64 = 200, in whole(1, 1_000_000);
        /// Sweeps of each short chain (grown).
        start_sweeps: u64 = 100, in whole(1, 1_000_000);
        /// Most features; nothing takes the number of rows, but at least 100 and at most 1000.
        max_features: Option<u64> = None, in whole_or_nothing(1, 100_000);
        sampling { n_chains: 2, n_warmup: 50, n_draws: 100, thin: 5 }
    }
}

/// Beyond this discount slices have no end.
pub(super) const MOST_DISCOUNT: f64 = 0.45;

impl Settings {
    pub(super) fn angular(&self) -> bool {
        self.prior == PriorKind::MutualAngular
    }

    /// The model with these settings, if they are valid and go together.
    pub fn validate(self) -> Result<FeaturesModel> {
        self.check_ranges()?;
        refuse_meaningless(&self, &self.meaningless())?;
        if self.angular() && self.sampler == SamplerKind::RowSlice {
            return Err(Error::setting(
                "sampler",
                "rowslice",
                "anchored or slice with `prior` mutual-angular: its features have an order, which rows with slices of their own do not see",
            ));
        }
        if let (Some(d), true) = (self.discount, self.sampler != SamplerKind::Anchored)
            && d >= 0.5
        {
            return Err(Error::setting(
                "discount",
                d,
                "below 0.5 with this `sampler`, or unused features have no end: use `sampler` anchored",
            ));
        }
        if self.concentration <= -self.discount.unwrap_or(0.0) {
            let allowed = "above minus the discount, and above 0 where that is learned";
            return Err(Error::setting("concentration", self.concentration, allowed));
        }
        Ok(FeaturesModel { settings: self })
    }

    /// Which settings others make meaningless.
    pub(super) fn meaningless(&self) -> [Meaningless; 8] {
        let (angular, anchored) = (self.angular(), self.sampler == SamplerKind::Anchored);
        [
            (
                self.prior != PriorKind::PitmanYor,
                &["concentration", "learn_concentration", "discount"],
                "left out: it is for `prior` pitman-yor alone",
            ),
            (
                !angular,
                &["magnitude", "magnitude_shape", "kappa", "learn_kappa", "direction", "births"],
                "left out: it is for `prior` mutual-angular alone",
            ),
            (angular, &["split_merge", "shear", "complement"], "left out: with `prior` mutual-angular there is no such move"),
            (
                angular && self.magnitude == MagnitudeKind::Gamma,
                &["feature_variance"],
                "left out: lengths of features are gamma; it is for `magnitude` chi",
            ),
            (angular && self.magnitude == MagnitudeKind::Chi, &["magnitude_shape"], "left out: it is for `magnitude` gamma alone"),
            (
                !anchored,
                &["split_merge", "shear", "complement", "pairs", "births", "birth_rows"],
                "left out: it is for `sampler` anchored alone",
            ),
            (self.intercept != InterceptKind::Sample, &["complement"], "left out: it is for `intercept` sample alone"),
            (self.start == StartKind::Empty, &["restarts", "start_rows", "start_sweeps"], "left out: it is for `start` grown alone"),
        ]
    }

    /// Rows among which features are born and die together.
    pub(super) fn birth_group(&self) -> usize {
        self.birth_rows.unwrap_or(if self.angular() { 8 } else { 16 }) as usize
    }
}
