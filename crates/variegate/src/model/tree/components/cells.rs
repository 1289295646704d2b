//! What rows may hold, and what is known of their columns before a fit: counts, means, variances and ranges of observed cells.

use super::{Family, Kernel, Likelihood};
use crate::data::DataError;
use crate::{Error, Result};

/// Most codes of a categorical column: more of them are no categories.
const MOST_CODES: f64 = 65_536.0;

/// Moments of the observed cells of each column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Columns {
    /// Number of rows.
    pub(crate) rows: usize,
    /// Names, for messages.
    pub(crate) names: Vec<String>,
    /// Observed cells.
    pub(crate) observed: Vec<f64>,
    /// Mean; NaN without observed cells.
    pub(crate) mean: Vec<f64>,
    /// Variance, divided by the number of observed cells.
    pub(crate) variance: Vec<f64>,
    /// Smallest and largest value.
    pub(crate) range: Vec<(f64, f64)>,
    /// How often each code was seen (`categorical` only).
    pub(crate) codes: Vec<Vec<f64>>,
    /// The first missing cell: row and column, from 0.
    pub(crate) missing: Option<(usize, usize)>,
}

impl Columns {
    /// Of rows one after the other; refuses cells that the family cannot have (NaN is missing).
    pub(crate) fn of(family: Family, x: &[f64], names: &[String]) -> Result<Self> {
        let dim = names.len();
        if dim == 0 {
            return Err(DataError::NoColumns.into());
        }
        if x.is_empty() {
            return Err(DataError::NoRows.into());
        }
        let rows = x.len() / dim;
        let mut missing = None;
        for (n, row) in x.chunks_exact(dim).enumerate() {
            for (d, &value) in row.iter().enumerate() {
                cell(family, value, n, &names[d])?;
                if value.is_nan() && missing.is_none() {
                    missing = Some((n, d));
                }
            }
        }
        let mut all = Self {
            rows,
            names: names.to_vec(),
            observed: Vec::new(),
            mean: Vec::new(),
            variance: Vec::new(),
            range: Vec::new(),
            codes: vec![Vec::new(); dim],
            missing,
        };
        for d in 0..dim {
            let column = || x.iter().skip(d).step_by(dim).copied().filter(|v| !v.is_nan());
            let n = column().count() as f64;
            let origin = column().next().unwrap_or(f64::NAN);
            // about the first value: a large mean costs no digits
            let mean = column().map(|v| v - origin).sum::<f64>() / n + origin;
            let offset = column().map(|v| v - mean).sum::<f64>() / n;
            all.observed.push(n);
            all.mean.push(mean);
            all.variance.push(column().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n - offset * offset);
            all.range.push(column().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v))));
            if family == Family::Categorical && n > 0.0 {
                let mut seen = vec![0.0; all.range[d].1 as usize + 1];
                column().for_each(|v| seen[v as usize] += 1.0);
                all.codes[d] = seen;
            }
        }
        Ok(all)
    }

    /// Whether a column tells rows apart; one without observed cells does not.
    pub(crate) fn varies(&self, d: usize) -> bool {
        let (low, high) = self.range[d];
        high - low > 1e-12 * low.abs().max(high.abs()) && self.variance[d] > 0.0
    }
}

/// Refuses a value that the family cannot have; rows count from 1 in the message.
fn cell(family: Family, value: f64, row: usize, column: &str) -> Result<()> {
    let (row, column) = (row + 1, column.to_string());
    if value.is_infinite() {
        return Err(DataError::NotFinite { row, column, value }.into());
    }
    if value.is_nan() || family.is_gaussian() {
        return Ok(());
    }
    match family {
        Family::Bernoulli if value != 0.0 && value != 1.0 => Err(Error::Unfit(format!(
            "row {row}, column `{column}`: {value} is neither 0 nor 1; the family `bernoulli` is for answers yes or no, so code them, or take another family"
        ))),
        Family::Categorical if !(value >= 0.0 && value.fract() == 0.0 && value < MOST_CODES) => Err(Error::Unfit(format!(
            "row {row}, column `{column}`: {value} is no code; the family `categorical` takes 0, 1, 2, ... (below {MOST_CODES}), so number the categories"
        ))),
        Family::Poisson | Family::Multinomial if value < 0.0 => Err(DataError::NegativeCount { row, column, value }.into()),
        Family::Poisson | Family::Multinomial if value.fract() != 0.0 => Err(DataError::FractionalCount { row, column, value }.into()),
        _ => Ok(()),
    }
}

/// The message for a missing cell that cannot be.
pub(super) fn refuse_missing(family: Family, row: usize, column: &str) -> Error {
    let instead = match family {
        Family::Multinomial => "`poisson`",
        Family::GaussianKnown | Family::GaussianTied => "diagonal matrices, or `gaussian-diag`",
        _ => "`gaussian-diag`",
    };
    Error::Unfit(format!(
        "row {}, column `{column}`: the value is missing; the family `{}` needs all cells of a row, so fill it in, drop the row, or take {instead}",
        row + 1,
        family.name()
    ))
}

impl Kernel {
    /// Whether rows may have missing cells.
    pub(crate) fn admits_missing(&self) -> bool {
        match &self.likelihood {
            Likelihood::Full(_) | Likelihood::Multinomial(_) => false,
            Likelihood::Fixed(fixed) => fixed.basis.is_none(),
            Likelihood::Diagonal(_) | Likelihood::Codes(_) | Likelihood::Poisson(_) => true,
        }
    }

    /// Refuses a new row that is not of the kind the kernel was bound to; `index` counts from 0. Gives back how many codes the fit did
    /// not know: they count as missing.
    pub(crate) fn check_row(&self, row: &[f64], index: usize, names: &[String]) -> Result<usize> {
        if row.len() != names.len() {
            return Err(DataError::ColumnCount { expected: names.len(), found: row.len() }.into());
        }
        let mut unknown = 0;
        for (d, &value) in row.iter().enumerate() {
            cell(self.family, value, index, &names[d])?;
            if value.is_nan() && !self.admits_missing() {
                return Err(refuse_missing(self.family, index, &names[d]));
            }
            if let Likelihood::Codes(codes) = &self.likelihood {
                unknown += usize::from(codes.unknown(d, value));
            }
        }
        Ok(unknown)
    }
}
