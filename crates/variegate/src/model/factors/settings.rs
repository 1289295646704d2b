//! Settings of a fit, and what each may be.

use serde::{Deserialize, Serialize};

use super::sampler::Kind as SamplerKind;
use crate::Result;
use crate::model::{Kind, SAMPLING, Setting, refuse_meaningless};

/// The distribution of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LikelihoodKind {
    /// Counts.
    Poisson,
    /// Real numbers.
    Gaussian,
}

/// Settings of a fit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The distribution of the data.
    pub likelihood: LikelihoodKind,
    /// The sampler; all sample the same posterior.
    pub sampler: SamplerKind,
    /// Expected number of factors of a row under the prior; with `learn_mass` the mean of its prior.
    pub mass: f64,
    /// Whether the mass is learned.
    pub learn_mass: bool,
    /// Shape of the prior of each source's concentration.
    pub concentration_shape: f64,
    /// Its rate.
    pub concentration_rate: f64,
    /// Shape of the entries of factors of counts: below 1 they are sparse. With `learn_shape` the mean of its prior.
    pub atom_shape: f64,
    /// Whether that shape is learned.
    pub learn_shape: bool,
    /// Shape of the weights of factors of counts.
    pub weight_shape: f64,
    /// Shape of the prior of rates or precisions.
    pub scale_shape: f64,
    /// Its rate.
    pub scale_rate: f64,
    /// Shape of the prior of background rates.
    pub background_shape: f64,
    /// Its rate; none takes ten over the mean count.
    pub background_rate: Option<f64>,
    /// Whether the mean of each column in each source is taken off first.
    pub center: bool,
    /// Whether entries may be missing.
    pub missing: bool,
    /// Attempts to split or merge factors in a sweep; none takes 20 for counts and 60 for real numbers.
    pub split_merge: Option<u64>,
    /// Rows that may bear or lose a factor of their own in a sweep, on average; none takes 60 for counts and 200 for real numbers.
    pub birth_rows: Option<f64>,
    /// Most factors; none chooses by the size of the data.
    pub max_factors: Option<u64>,
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
            likelihood: LikelihoodKind::Poisson,
            sampler: SamplerKind::Parallel,
            mass: 1.0,
            learn_mass: false,
            concentration_shape: 1.0,
            concentration_rate: 1.0,
            atom_shape: 0.3,
            learn_shape: true,
            weight_shape: 1.0,
            scale_shape: 1.0,
            scale_rate: 1.0,
            background_shape: 1.0,
            background_rate: None,
            center: true,
            missing: false,
            split_merge: None,
            birth_rows: None,
            max_factors: None,
            n_chains: 2,
            n_warmup: 200,
            n_draws: 100,
            thin: 5,
        }
    }
}

const POSITIVE: Kind = Kind::Number { above: 0.0, most: 1e6 };

/// The table that every front reads.
pub(super) fn table() -> Vec<Setting> {
    let setting = |name, kind, help| Setting { name, kind, help };
    let mut all = vec![
        setting(
            "likelihood",
            Kind::Word(&["poisson", "gaussian"]),
            "Distribution of the data: counts (poisson) or real numbers (gaussian)",
        ),
        setting("sampler", Kind::Word(&["parallel", "rowslice", "slice"]), "How the posterior is sampled; slice is the paper's, corrected"),
        setting(
            "mass",
            Kind::Number { above: 0.0, most: 100.0 },
            "Factors of a row that the prior expects; with learn_mass the mean of its prior",
        ),
        setting("learn_mass", Kind::Switch, "Whether the mass is learned"),
        setting("concentration_shape", POSITIVE, "Shape of the prior of each source's concentration (large: sources use factors alike)"),
        setting("concentration_rate", POSITIVE, "Rate of that prior"),
        setting(
            "atom_shape",
            Kind::Number { above: 0.0, most: 1e3 },
            "Shape of the entries of factors of counts; below 1 they are sparse; with learn_shape the mean of its prior",
        ),
        setting(
            "learn_shape",
            Kind::Switch,
            "Whether that shape is learned: text wants far sparser factors than most other counts (poisson)",
        ),
        setting("weight_shape", Kind::Number { above: 0.0, most: 1e3 }, "Shape of the weights of factors of counts"),
        setting("scale_shape", POSITIVE, "Shape of the prior of rates or precisions"),
        setting("scale_rate", POSITIVE, "Rate of that prior"),
        setting("background_shape", POSITIVE, "Shape of the prior of each source's background rate"),
        setting(
            "background_rate",
            Kind::OptionalNumber { above: 0.0, most: 1e12 },
            "Rate of that prior; nothing takes ten over the mean count",
        ),
        setting("center", Kind::Switch, "Whether the mean of each column in each source is taken off first (gaussian)"),
        setting("missing", Kind::Switch, "Whether entries may be missing (NaN), to be drawn with the rest (gaussian)"),
        setting(
            "split_merge",
            Kind::OptionalInteger { least: 0, most: 100_000 },
            "Attempts to split or merge factors in a sweep; nothing takes 20 for counts, 60 for real numbers",
        ),
        setting(
            "birth_rows",
            Kind::OptionalNumber { above: 0.0, most: 1e9 },
            "Rows that may bear or lose a factor of their own in a sweep, on average (parallel); nothing takes 60 for counts, 200 for real numbers",
        ),
        setting(
            "max_factors",
            Kind::OptionalInteger { least: 1, most: 100_000 },
            "Most factors; nothing takes four times the root of rows times columns, at most 2000",
        ),
    ];
    all.extend(SAMPLING);
    all
}

impl Settings {
    /// Attempts to split or merge in a sweep.
    pub fn split_merge_attempts(&self) -> usize {
        let usual = if self.likelihood == LikelihoodKind::Gaussian { 60 } else { 20 };
        self.split_merge.unwrap_or(usual) as usize
    }

    /// Rows that may bear or lose a factor of their own in a sweep. Those of real numbers cost little.
    pub fn birth_rows_expected(&self) -> f64 {
        self.birth_rows.unwrap_or(if self.likelihood == LikelihoodKind::Gaussian { 200.0 } else { 60.0 })
    }

    /// Refuses settings that others make meaningless.
    pub(super) fn check(&self) -> Result<()> {
        let (gaussian, parallel) = (self.likelihood == LikelihoodKind::Gaussian, self.sampler == SamplerKind::Parallel);
        refuse_meaningless(
            self,
            &[
                (
                    gaussian,
                    &["atom_shape", "learn_shape", "weight_shape", "background_shape", "background_rate"],
                    "left out: it is for `likelihood` poisson alone",
                ),
                (!gaussian, &["center", "missing"], "left out: it is for `likelihood` gaussian alone"),
                (!parallel, &["birth_rows"], "left out: it is for `sampler` parallel alone"),
            ],
        )
    }
}
