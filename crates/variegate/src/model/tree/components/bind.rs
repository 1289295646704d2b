//! From what a user said and what the columns are to a kernel: defaults, checks, and warnings.
//!
//! Defaults: `gaussian-diag` column means, k0 = 0.1, a0 = 2, b0 = 0.25 variance; `gaussian-full` column means, k0 = 0.1, df0 = D + 3,
//! Psi0 = 0.5 diag(variance); `gaussian-tied` column means, S0 = diag(variance), a_s = 2, b_s = 0.25 mean variance; `gaussian-known`
//! mu0 = 0, S = S0 = I; `bernoulli` m = 0.9 mean + 0.05; `categorical` 0.9 share + 0.1/J; `multinomial` 0.9 share + 0.1/D; s learned;
//! `poisson` a = 1, b = 1/max(mean, 1/N). Where variances make the prior, columns that do not vary are left out rather than given a
//! floor: any floor either adds to the evidence for splits or swamps columns that vary little.

use super::cells::refuse_missing;
use super::codes::Codes;
use super::diagonal::Diagonal;
use super::fixed::{Basis, Fixed};
use super::full::Full;
use super::multinomial::Multinomial;
use super::poisson::Poisson;
use super::{Columns, Family, Kernel, Likelihood, Matrix, Prior};
use crate::linalg::Cholesky;
use crate::{Error, Result};

/// Where the strength and the variance begin; both are drawn in the first sweep.
const FIRST_STRENGTH: f64 = 1.0;

impl Kernel {
    /// The family bound to columns, and what the user should be told.
    pub(crate) fn bind(family: Family, prior: &Prior, columns: &Columns) -> Result<(Self, Vec<String>)> {
        prior.belongs(family)?;
        let mut said = Vec::new();
        let likelihood = match family {
            Family::GaussianDiag => Likelihood::Diagonal(diagonal(prior, columns, &mut said)?),
            Family::GaussianFull => Likelihood::Full(full(prior, columns, &mut said)?),
            Family::GaussianTied => Likelihood::Fixed(tied(prior, columns, &mut said)?),
            Family::GaussianKnown => Likelihood::Fixed(known(prior, columns, &mut said)?),
            Family::Bernoulli | Family::Categorical => Likelihood::Codes(codes(family, prior, columns)?),
            Family::Poisson => Likelihood::Poisson(poisson(prior, columns)?),
            Family::Multinomial => Likelihood::Multinomial(multinomial(prior, columns)?),
        };
        let learned = matches!(likelihood, Likelihood::Codes(_) | Likelihood::Multinomial(_)) && prior.strength.is_none();
        let kernel = Self { family, tau: 1.0, learned, likelihood };
        match columns.missing {
            Some((row, d)) if !kernel.admits_missing() => Err(refuse_missing(family, row, &columns.names[d])),
            _ => Ok((kernel, said)),
        }
    }
}

fn positive(name: &str, value: f64) -> Result<f64> {
    if value > 0.0 && value.is_finite() { Ok(value) } else { Err(Error::setting(name, value, "positive and finite")) }
}

/// One number for all columns, or one each; `default` fills in what is not given.
fn per_column(name: &str, given: Option<&Vec<f64>>, dim: usize, default: impl Fn(usize) -> f64) -> Result<Vec<f64>> {
    match given.map(Vec::as_slice) {
        None => Ok((0..dim).map(default).collect()),
        Some([one]) => Ok(vec![*one; dim]),
        Some(all) if all.len() == dim => Ok(all.to_vec()),
        Some(all) => {
            Err(Error::setting(name, format!("{} numbers", all.len()), format!("one number, or one for each of the {dim} columns")))
        }
    }
}

fn all_positive(name: &str, values: &[f64]) -> Result<()> {
    values.iter().try_for_each(|v| positive(name, *v).map(|_| ()))
}

/// Prior means; 0 for a column without observed cells.
fn means(prior: &Prior, columns: &Columns) -> Result<Vec<f64>> {
    let own = |d: usize| if columns.mean[d].is_nan() { 0.0 } else { columns.mean[d] };
    let means = per_column("prior_mean", prior.mean.as_ref(), columns.mean.len(), own)?;
    match means.iter().find(|m| !m.is_finite()) {
        Some(bad) => Err(Error::setting("prior_mean", bad, "finite")),
        None => Ok(means),
    }
}

/// Columns that vary; the others are left out, and named.
fn varying(columns: &Columns, said: &mut Vec<String>) -> Vec<usize> {
    let (used, left_out): (Vec<usize>, Vec<usize>) = (0..columns.mean.len()).partition(|&d| columns.varies(d));
    if !left_out.is_empty() {
        const SHOWN: usize = 5;
        let mut names: Vec<String> = left_out.iter().take(SHOWN).map(|&d| format!("`{}`", columns.names[d])).collect();
        if left_out.len() > SHOWN {
            names.push(format!("{} more", left_out.len() - SHOWN));
        }
        said.push(format!(
            "columns without observed cells or with a single value say nothing of groups and are left out: {}; a prior of your own keeps them",
            names.join(", ")
        ));
    }
    used
}

fn diagonal(prior: &Prior, columns: &Columns, said: &mut Vec<String>) -> Result<Diagonal> {
    let dim = columns.mean.len();
    let mut centre = means(prior, columns)?;
    let strength = positive("mean_strength", prior.mean_strength.unwrap_or(0.1))?;
    let shape = positive("precision_shape", prior.precision_shape.unwrap_or(2.0))?;
    let rate = if prior.precision_rate.is_some() {
        let rate = per_column("precision_rate", prior.precision_rate.as_ref(), dim, |_| 0.0)?;
        all_positive("precision_rate", &rate)?;
        rate
    } else {
        let used = varying(columns, said);
        let mut rate = vec![0.0; dim];
        used.iter().for_each(|&d| rate[d] = 0.25 * columns.variance[d]);
        (0..dim).filter(|&d| rate[d] == 0.0).for_each(|d| centre[d] = columns.mean[d]);
        rate
    };
    Ok(Diagonal { centre, strength, shape, rate })
}

fn full(prior: &Prior, columns: &Columns, said: &mut Vec<String>) -> Result<Full> {
    let dim = columns.mean.len();
    let mut centre = means(prior, columns)?;
    let strength = positive("mean_strength", prior.mean_strength.unwrap_or(0.1))?;
    let (used, scatter) = match &prior.scatter {
        Some(given) => {
            given.diagonal("scatter", dim)?;
            ((0..dim).collect(), given.whole(dim))
        }
        None => {
            let used = varying(columns, said);
            (0..dim).filter(|d| !used.contains(d)).for_each(|d| centre[d] = columns.mean[d]);
            let diagonal = used.iter().map(|&d| 0.5 * columns.variance[d]).collect();
            let scatter = Matrix::Diagonal(diagonal).whole(used.len());
            (used, scatter)
        }
    };
    let d = used.len() as f64;
    let freedom = prior.freedom.unwrap_or(d + 3.0);
    if !(freedom > d - 1.0 && freedom.is_finite()) {
        return Err(Error::setting("freedom", freedom, format!("above the number of columns less 1, {}", d - 1.0)));
    }
    if used.len() > columns.rows {
        said.push(format!(
            "there are more columns ({}) than rows ({}): covariances come mostly from the prior; consider `gaussian-diag` or fewer columns",
            used.len(),
            columns.rows
        ));
    }
    Full::new(centre, used, strength, freedom, scatter)
}

fn tied(prior: &Prior, columns: &Columns, said: &mut Vec<String>) -> Result<Fixed> {
    let dim = columns.mean.len();
    let mut centre = means(prior, columns)?;
    let (used, mut between, basis) = match &prior.mean_covariance {
        Some(given) => {
            let used: Vec<usize> = (0..dim).collect();
            match given.diagonal("mean_variance", dim)? {
                Some(diagonal) => (used, diagonal, None),
                None => {
                    let (basis, values) = Basis::turn(&given.whole(dim), dim)?;
                    (used, values, Some(basis))
                }
            }
        }
        None => (varying(columns, said), columns.variance.clone(), None),
    };
    (0..dim).filter(|d| !used.contains(d)).for_each(|d| {
        centre[d] = columns.mean[d];
        between[d] = 0.0;
    });
    let shape = positive("variance_shape", prior.variance_shape.unwrap_or(2.0))?;
    let observed: Vec<f64> = used.iter().map(|&d| columns.variance[d]).filter(|v| !v.is_nan()).collect();
    let average = observed.iter().sum::<f64>() / observed.len() as f64;
    let rate = match prior.variance_rate {
        Some(rate) => positive("variance_rate", rate)?,
        None if used.is_empty() => 1.0, // nothing has a variance
        None if average > 0.0 => 0.25 * average,
        None => return Err(Error::Unfit("no column varies, so there is no default for the shared variance: set `variance_rate`".into())),
    };
    let mut within = vec![0.0; dim];
    used.iter().for_each(|&d| within[d] = rate / shape);
    Ok(Fixed { centre, within, between, basis, shared: Some((shape, rate)) })
}

fn known(prior: &Prior, columns: &Columns, said: &mut Vec<String>) -> Result<Fixed> {
    let dim = columns.mean.len();
    let centre = match prior.mean {
        Some(_) => means(prior, columns)?,
        None => vec![0.0; dim],
    };
    let within = prior.covariance.clone().unwrap_or(Matrix::Multiple(1.0));
    let between = prior.mean_covariance.clone().unwrap_or(Matrix::Multiple(1.0));
    let diagonals = (within.diagonal("variance", dim)?, between.diagonal("mean_variance", dim)?);
    let whole = within.whole(dim);
    let spread: f64 = columns.variance.iter().filter(|v| !v.is_nan()).sum();
    let ratio = spread / (0..dim).map(|d| whole[d * dim + d]).sum::<f64>();
    if !(0.01..=1e4).contains(&ratio) && columns.rows > 1 {
        said.push(format!(
            "the columns' variances sum to {ratio:.2e} times `variance`: scale the columns, or set `variance` and `mean_variance`"
        ));
    }
    if let (Some(within), Some(between)) = diagonals {
        return Ok(Fixed { centre, within, between, basis: None, shared: None });
    }
    let factor =
        Cholesky::new(dim, &whole).map_err(|_| Error::setting("variance", "not positive definite", "a positive definite matrix"))?;
    let (basis, between) = Basis::whiten(&factor, &between.whole(dim), dim)?;
    Ok(Fixed { centre, within: vec![1.0; dim], between, basis: Some(basis), shared: None })
}

fn strength(prior: &Prior) -> Result<f64> {
    positive("prior_strength", prior.strength.unwrap_or(FIRST_STRENGTH))
}

fn codes(family: Family, prior: &Prior, columns: &Columns) -> Result<Codes> {
    let dim = columns.mean.len();
    if family == Family::Bernoulli {
        let own = |d: usize| if columns.mean[d].is_nan() { 0.5 } else { 0.9 * columns.mean[d] + 0.05 };
        let ones = per_column("base", prior.base.as_ref(), dim, own)?;
        if let Some(bad) = ones.iter().find(|m| !(**m > 0.0 && **m < 1.0)) {
            return Err(Error::setting("base", bad, "between 0 and 1"));
        }
        let base = ones.iter().flat_map(|m| [1.0 - m, *m]).collect();
        return Ok(Codes { strength: strength(prior)?, base, starts: (0..=dim).map(|d| 2 * d).collect() });
    }
    let seen = |d: usize| columns.codes[d].len().max(1);
    let numbers: Vec<usize> = match &prior.categories {
        None => (0..dim).map(seen).collect(),
        Some(given) if given.len() == dim => given.clone(),
        Some(given) => {
            return Err(Error::setting("categories", format!("{} numbers", given.len()), format!("one for each of the {dim} columns")));
        }
    };
    if let Some(d) = (0..dim).find(|&d| numbers[d] < seen(d)) {
        let what = format!("{} for column `{}`", numbers[d], columns.names[d]);
        return Err(Error::setting("categories", what, format!("at least {}: the largest code and 1", seen(d))));
    }
    let mut starts = vec![0];
    numbers.iter().for_each(|j| starts.push(starts[starts.len() - 1] + j));
    let total = starts[dim];
    let base = match &prior.base {
        None => {
            let of = |d: usize| {
                let (j, seen, n) = (numbers[d], &columns.codes[d], columns.observed[d]);
                let share = move |code: usize| if n > 0.0 { seen.get(code).map_or(0.0, |c| c / n) } else { 1.0 / j as f64 };
                (0..j).map(move |code| 0.9 * share(code) + 0.1 / j as f64)
            };
            (0..dim).flat_map(of).collect()
        }
        Some(given) if given.len() == total => given.clone(),
        Some(given) => {
            let what = format!("{} numbers", given.len());
            return Err(Error::setting("base", what, format!("one for each code of each column, {total} in all")));
        }
    };
    for d in 0..dim {
        let own = &base[starts[d]..starts[d + 1]];
        let sum: f64 = own.iter().sum();
        if own.iter().any(|m| m.is_nan() || *m <= 0.0) || (sum - 1.0).abs() > 1e-9 {
            let what = format!("summing to {sum} in column `{}`", columns.names[d]);
            return Err(Error::setting("base", what, "positive, with sum 1 in each column"));
        }
    }
    Ok(Codes { strength: strength(prior)?, base, starts })
}

fn poisson(prior: &Prior, columns: &Columns) -> Result<Poisson> {
    let dim = columns.mean.len();
    let least = 1.0 / columns.rows as f64;
    let shape = per_column("rate_shape", prior.rate_shape.as_ref(), dim, |_| 1.0)?;
    // max() leaves NaN, of a column without observed cells, out
    let rate = per_column("rate_rate", prior.rate_rate.as_ref(), dim, |d| 1.0 / columns.mean[d].max(least))?;
    all_positive("rate_shape", &shape)?;
    all_positive("rate_rate", &rate)?;
    Ok(Poisson { shape, rate })
}

fn multinomial(prior: &Prior, columns: &Columns) -> Result<Multinomial> {
    let dim = columns.mean.len();
    let total: f64 = columns.mean.iter().sum();
    let share = |d: usize| if total > 0.0 { columns.mean[d] / total } else { 1.0 / dim as f64 };
    let base = per_column("base", prior.base.as_ref(), dim, |d| 0.9 * share(d) + 0.1 / dim as f64)?;
    let sum: f64 = base.iter().sum();
    // NaN comes of missing cells, which are refused with their place
    if columns.missing.is_none() && (base.iter().any(|m| m.is_nan() || *m <= 0.0) || (sum - 1.0).abs() > 1e-9) {
        return Err(Error::setting("base", format!("summing to {sum}"), "positive, with sum 1"));
    }
    Ok(Multinomial { strength: strength(prior)?, base })
}
