//! The families of components and what a user may say of their priors.

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// What the cells of a row are, and how atoms differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) enum Family {
    /// Real numbers of a given covariance.
    GaussianKnown,
    /// Real numbers, a variance a column and atom.
    #[default]
    GaussianDiag,
    /// Real numbers, a covariance matrix an atom.
    GaussianFull,
    /// Real numbers, one variance for all columns and atoms.
    GaussianTied,
    /// 0 or 1.
    Bernoulli,
    /// Codes 0, 1, 2, ...
    Categorical,
    /// Counts, a rate a column.
    Poisson,
    /// Counts, proportions of a row's total.
    Multinomial,
}

impl Family {
    /// All of them, the default first.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 8] = [
        Self::GaussianDiag,
        Self::GaussianFull,
        Self::GaussianTied,
        Self::GaussianKnown,
        Self::Bernoulli,
        Self::Categorical,
        Self::Poisson,
        Self::Multinomial,
    ];

    /// Name in settings.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::GaussianKnown => "gaussian-known",
            Self::GaussianDiag => "gaussian-diag",
            Self::GaussianFull => "gaussian-full",
            Self::GaussianTied => "gaussian-tied",
            Self::Bernoulli => "bernoulli",
            Self::Categorical => "categorical",
            Self::Poisson => "poisson",
            Self::Multinomial => "multinomial",
        }
    }

    /// The family of this name.
    #[cfg(test)]
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|f| f.name() == name)
    }

    /// Whether cells are real numbers.
    pub(crate) fn is_gaussian(self) -> bool {
        matches!(self, Self::GaussianKnown | Self::GaussianDiag | Self::GaussianFull | Self::GaussianTied)
    }
}

/// A symmetric matrix, as short as it can be said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Matrix {
    /// A multiple of the identity.
    Multiple(f64),
    /// A diagonal.
    Diagonal(Vec<f64>),
    /// All of it, row by row.
    Full(Vec<f64>),
}

impl Matrix {
    /// Its diagonal if it has nothing else. Checks size, symmetry and positive numbers on the diagonal.
    pub(super) fn diagonal(&self, name: &str, dim: usize) -> Result<Option<Vec<f64>>> {
        let wrong = |value: String| {
            Error::setting(name, value, format!("a positive number, {dim} of them, or a positive definite {dim} x {dim} matrix"))
        };
        let diagonal = match self {
            Self::Multiple(v) => vec![*v; dim],
            Self::Diagonal(v) => v.clone(),
            Self::Full(v) if v.len() == dim * dim => (0..dim).map(|i| v[i * dim + i]).collect(),
            Self::Full(v) => return Err(wrong(format!("{} numbers", v.len()))),
        };
        if diagonal.len() != dim {
            return Err(wrong(format!("{} numbers", diagonal.len())));
        }
        if let Some(bad) = diagonal.iter().find(|v| !(**v > 0.0 && v.is_finite())) {
            return Err(wrong(format!("a matrix with {bad} on its diagonal")));
        }
        let Self::Full(v) = self else { return Ok(Some(diagonal)) };
        let mut off = false;
        for i in 0..dim {
            for j in 0..i {
                let (a, b) = (v[i * dim + j], v[j * dim + i]);
                if !(a.is_finite() && b.is_finite() && (a - b).abs() <= 1e-9 * (diagonal[i] * diagonal[j]).sqrt()) {
                    return Err(wrong(format!("not symmetric ({a} and {b} in rows {} and {})", i + 1, j + 1)));
                }
                off |= a != 0.0 || b != 0.0;
            }
        }
        Ok((!off).then_some(diagonal))
    }

    /// All of it, row by row.
    pub(super) fn whole(&self, dim: usize) -> Vec<f64> {
        let of = |diagonal: &dyn Fn(usize) -> f64| {
            (0..dim * dim).map(|at| if at / dim == at % dim { diagonal(at % dim) } else { 0.0 }).collect()
        };
        match self {
            Self::Multiple(v) => of(&|_| *v),
            Self::Diagonal(v) => of(&|i| v[i]),
            Self::Full(v) => v.clone(),
        }
    }
}

/// The prior of an atom, as far as a user fixes it; the rest comes from the columns (`bind.rs`).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Prior {
    /// Means m0 or mu0 of Gaussian families; one number for all columns or one each.
    pub(crate) mean: Option<Vec<f64>>,
    /// k0: how many rows the prior mean is worth (`gaussian-diag`, `gaussian-full`).
    pub(crate) mean_strength: Option<f64>,
    /// a0 of precisions (`gaussian-diag`).
    pub(crate) precision_shape: Option<f64>,
    /// b0 of precisions, one or one a column (`gaussian-diag`).
    pub(crate) precision_rate: Option<Vec<f64>>,
    /// df0 (`gaussian-full`).
    pub(crate) freedom: Option<f64>,
    /// Psi0 (`gaussian-full`).
    pub(crate) scatter: Option<Matrix>,
    /// S (`gaussian-known`).
    pub(crate) covariance: Option<Matrix>,
    /// S0 (`gaussian-known`, `gaussian-tied`).
    pub(crate) mean_covariance: Option<Matrix>,
    /// a_s of the shared variance (`gaussian-tied`).
    pub(crate) variance_shape: Option<f64>,
    /// b_s of the shared variance (`gaussian-tied`).
    pub(crate) variance_rate: Option<f64>,
    /// m: probabilities of 1 (`bernoulli`), of the codes of all columns one after the other (`categorical`), proportions (`multinomial`).
    pub(crate) base: Option<Vec<f64>>,
    /// s; learned if not given (`bernoulli`, `categorical`, `multinomial`).
    pub(crate) strength: Option<f64>,
    /// J: number of codes of each column (`categorical`).
    pub(crate) categories: Option<Vec<usize>>,
    /// a of rates, one or one a column (`poisson`).
    pub(crate) rate_shape: Option<Vec<f64>>,
    /// b of rates, one or one a column (`poisson`).
    pub(crate) rate_rate: Option<Vec<f64>>,
}

impl Prior {
    /// Refuses what the family does not read.
    pub(super) fn belongs(&self, family: Family) -> Result<()> {
        use Family::{Bernoulli, Categorical, GaussianDiag, GaussianFull, GaussianKnown, GaussianTied, Multinomial, Poisson};
        let gaussian: &[Family] = &[GaussianDiag, GaussianFull, GaussianTied, GaussianKnown];
        let given: [(&str, bool, &[Family]); 15] = [
            ("prior_mean", self.mean.is_some(), gaussian),
            ("mean_strength", self.mean_strength.is_some(), &[GaussianDiag, GaussianFull]),
            ("precision_shape", self.precision_shape.is_some(), &[GaussianDiag]),
            ("precision_rate", self.precision_rate.is_some(), &[GaussianDiag]),
            ("freedom", self.freedom.is_some(), &[GaussianFull]),
            ("scatter", self.scatter.is_some(), &[GaussianFull]),
            ("variance", self.covariance.is_some(), &[GaussianKnown]),
            ("mean_variance", self.mean_covariance.is_some(), &[GaussianKnown, GaussianTied]),
            ("variance_shape", self.variance_shape.is_some(), &[GaussianTied]),
            ("variance_rate", self.variance_rate.is_some(), &[GaussianTied]),
            ("base", self.base.is_some(), &[Bernoulli, Categorical, Multinomial]),
            ("prior_strength", self.strength.is_some(), &[Bernoulli, Categorical, Multinomial]),
            ("categories", self.categories.is_some(), &[Categorical]),
            ("rate_shape", self.rate_shape.is_some(), &[Poisson]),
            ("rate_rate", self.rate_rate.is_some(), &[Poisson]),
        ];
        match given.iter().find(|(_, given, readers)| *given && !readers.contains(&family)) {
            Some((name, _, readers)) => {
                let readers: Vec<&str> = readers.iter().map(|f| f.name()).collect();
                Err(Error::setting(
                    name,
                    "given",
                    format!("left out: the family `{}` does not read it, only {}", family.name(), readers.join(", ")),
                ))
            }
            None => Ok(()),
        }
    }
}
