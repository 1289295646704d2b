//! What a fit is worth: the criteria by which structures are compared.
//!
//! | criterion | what it is |
//! |---|---|
//! | `elbo` | L, a lower bound on the log evidence |
//! | `elbo-sym` | L + ln Sym_eff: the bound of the mixture over relabelled copies of q (`symmetry.rs`) |
//! | `elbo-tight` | L with the bounds of the log-sum-exp replaced by sampled expectations (`pass/tight.rs`) |
//! | `paper` | L − ln Sym, as published; the sign is wrong |
//! | `bic` | ln L̂ − ½k ln N + ln Sym at the maximum of the likelihood |
//! | `cv` | minus the mean log loss on held-out folds |
//! | `loo` | the mean log density of a row under the posterior of the others, by importance sampling from q (`pass/loo.rs`) |
//! | `auto` | `cv` where components are split as long as that helps, `elbo-sym` elsewhere: `settings.rs` |
//!
//! Bounds compare structures only under the same `bound`, `covariance` and `precision`.

use serde::{Deserialize, Serialize};

use crate::score::Losses;

/// What decides between structures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Criterion {
    /// L.
    Elbo,
    /// L + ln Sym_eff.
    ElboSym,
    /// L with sampled expectations.
    ElboTight,
    /// L − ln Sym.
    Paper,
    /// Bayesian information criterion, with + ln Sym.
    Bic,
    /// Minus the log loss of cross-validation.
    Cv,
    /// Mean log density of a row that is left out.
    Loo,
    /// One of the others, by what is searched; searches have one of the others.
    Auto,
}

impl Criterion {
    /// Whether it takes visits of its own.
    pub(crate) fn needs_rows(self) -> bool {
        matches!(self, Criterion::ElboTight | Criterion::Bic)
    }

    /// The word users write.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Criterion::Elbo => "elbo",
            Criterion::ElboSym => "elbo-sym",
            Criterion::ElboTight => "elbo-tight",
            Criterion::Paper => "paper",
            Criterion::Bic => "bic",
            Criterion::Cv => "cv",
            Criterion::Loo => "loo",
            Criterion::Auto => "auto",
        }
    }
}

/// The direction in which the rows of a component vary most, in design columns without the bias.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Axis {
    /// Mean of its rows.
    pub(crate) mean: Vec<f64>,
    /// Unit vector.
    pub(crate) direction: Vec<f64>,
    /// Standard deviation along it.
    pub(crate) deviation: f64,
}

/// Everything that is known of a finished job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Scores {
    /// L; `NaN` for a fit without one.
    pub(crate) elbo: f64,
    /// ln Sym.
    pub(crate) ln_symmetries: f64,
    /// ln Sym_eff, and whether it is exact up to sampling.
    pub(crate) ln_effective: f64,
    /// Whether `ln_effective` is a lower value of it only.
    pub(crate) effective_is_low: bool,
    /// The sampled bound and its standard error.
    pub(crate) tight: Option<(f64, f64)>,
    /// Maximum of the log likelihood, and BIC.
    pub(crate) bic: Option<(f64, f64)>,
    /// Total share of each subclass or expert.
    pub(crate) shares: Vec<f64>,
    /// Where each could be split.
    pub(crate) axes: Vec<Axis>,
    /// What held-out rows say: of folds, or each row left out alone (then without errors).
    pub(crate) held_out: Option<Losses>,
}

impl Scores {
    /// The value of a criterion: larger is better.
    pub(crate) fn get(&self, criterion: Criterion) -> Option<f64> {
        let finite = |v: f64| v.is_finite().then_some(v);
        match criterion {
            Criterion::Elbo => finite(self.elbo),
            Criterion::ElboSym => finite(self.elbo + self.ln_effective),
            Criterion::ElboTight => self.tight.map(|t| t.0),
            Criterion::Paper => finite(self.elbo - self.ln_symmetries),
            Criterion::Bic => self.bic.map(|b| b.1),
            Criterion::Cv | Criterion::Loo => self.held_out.map(|h| h.mean_ln_likelihood()).filter(|v| v.is_finite()),
            Criterion::Auto => None,
        }
    }
}
