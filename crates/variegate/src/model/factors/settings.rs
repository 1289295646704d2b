//! Settings of a fit, and what each may be.

use super::FactorsModel;
use super::sampler::Kind as SamplerKind;
use crate::model::{Declared, Meaningless, refuse_meaningless};
use crate::{Result, settings, words};

words! {
    /// The distribution of the data.
    pub enum LikelihoodKind {
        /// Counts.
        Poisson = "poisson",
        /// Real numbers.
        Gaussian = "gaussian",
    }
}

settings! {
    /// Settings of a fit.
    pub struct Settings {
        /// Distribution of the data: counts (poisson) or real numbers (gaussian).
        likelihood: LikelihoodKind = LikelihoodKind::Poisson, in word(LikelihoodKind::WORDS), read by Simulate, Check;
        /// How the posterior is sampled; slice is the paper's, corrected.
        sampler: SamplerKind = SamplerKind::Parallel, in word(SamplerKind::WORDS), read by Check;
        /// Factors of a row that the prior expects; with learn_mass the mean of its prior.
        mass: f64 = 1.0, in number(0.0, 100.0), read by Simulate, Check;
        /// Whether the mass is learned.
        learn_mass: bool = false, in switch(), read by Check;
        /// Shape of the Gamma prior of each source's concentration (large: sources use factors alike).
        concentration_shape: f64 = 1.0, in number(0.0, 1e6), read by Check;
        /// Rate of the Gamma prior of each source's concentration.
        concentration_rate: f64 = 1.0, in number(0.0, 1e6), read by Check;
        /// Shape of the entries of factors of counts; below 1 they are sparse; with learn_shape the mean of its prior.
        atom_shape: f64 = 0.3, in number(0.0, 1e3), read by Simulate, Check;
        /// Whether the shape of the entries is learned: text wants far sparser factors than most other counts (poisson).
        learn_shape: bool = true, in switch(), read by Check;
        /// Shape of the weights of factors of counts.
        weight_shape: f64 = 1.0, in number(0.0, 1e3), read by Simulate, Check;
        /// Shape of the Gamma priors of rates (poisson) or precisions (gaussian).
        scale_shape: f64 = 1.0, in number(0.0, 1e6), read by Check;
        /// Rate of the Gamma priors of rates (poisson) or precisions (gaussian).
        scale_rate: f64 = 1.0, in number(0.0, 1e6), read by Check;
        /// Shape of the Gamma prior of each source's background rate (poisson).
        background_shape: f64 = 1.0, in number(0.0, 1e6), read by Check;
        /// Rate of the Gamma prior of each source's background rate (poisson); nothing takes ten over the mean count.
        background_rate: Option<f64> = None, in number_or_nothing(0.0, 1e12), read by Check;
        /// Whether the mean of each column in each source is taken off first (gaussian).
        center: bool = true, in switch();
        /// Whether entries may be missing (NaN), to be drawn with the rest (gaussian).
        missing: bool = false, in switch();
        /// Attempts to split or merge factors in a sweep; nothing takes 20 for counts, 60 for real numbers.
        split_merge: Option<u64> = None, in whole_or_nothing(0, 100_000), read by Check;
        /// Rows that propose births or deaths of factors in a sweep, on average (parallel); nothing takes 60 for counts, 200 for
        /// real numbers.
        birth_rows: Option<f64> = None, in number_or_nothing(0.0, 1e9), read by Check;
        /// Most factors; nothing takes four times the root of rows times columns, at most 2000.
        max_factors: Option<u64> = None, in whole_or_nothing(1, 100_000);
        /// Factors that a fit of counts begins with: one that all rows use, or as many as this seeded from rows (poisson).
        start_factors: u64 = 1, in whole(1, 2000);
        sampling { n_chains: 2, n_warmup: 200, n_draws: 100, thin: 5 }
    }
}

impl Settings {
    /// Attempts to split or merge in a sweep.
    pub fn split_merge_attempts(&self) -> usize {
        let usual = if self.likelihood == LikelihoodKind::Gaussian { 60 } else { 20 };
        self.split_merge.unwrap_or(usual) as usize
    }

    /// Rows that propose births or deaths of factors in a sweep. Those of real numbers cost little.
    pub fn birth_rows_expected(&self) -> f64 {
        self.birth_rows.unwrap_or(if self.likelihood == LikelihoodKind::Gaussian { 200.0 } else { 60.0 })
    }

    /// The model with these settings, if they are valid and go together.
    pub fn validate(self) -> Result<FactorsModel> {
        self.check_ranges()?;
        self.check()?;
        Ok(FactorsModel { settings: self })
    }

    /// Which settings others make meaningless.
    pub(super) fn meaningless(&self) -> [Meaningless; 3] {
        let (gaussian, parallel) = (self.likelihood == LikelihoodKind::Gaussian, self.sampler == SamplerKind::Parallel);
        [
            (
                gaussian,
                &["atom_shape", "learn_shape", "weight_shape", "background_shape", "background_rate", "start_factors"],
                "left out: it is for `likelihood` poisson alone",
            ),
            (!gaussian, &["center", "missing"], "left out: it is for `likelihood` gaussian alone"),
            (!parallel, &["birth_rows"], "left out: it is for `sampler` parallel alone"),
        ]
    }

    /// Refuses settings that others make meaningless.
    fn check(&self) -> Result<()> {
        refuse_meaningless(self, &self.meaningless())
    }
}
