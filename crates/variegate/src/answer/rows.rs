//! What models of rows alone say of rows: coordinates and back, probabilities, completions, missing entries and neighbours.

use crate::data::Dataset;
use crate::special::log_sum_exp;
use crate::{Error, Result};

/// A posterior that places rows in a space of factors or features.
pub trait PlaceRows {
    /// Coordinates of each row.
    fn transform(&self, data: &Dataset<'_>) -> Result<Coordinates>;
}

/// A posterior that tells how probable rows are.
pub trait RowDensity {
    /// Whether rows are counts, whose probabilities are no densities.
    fn counts(&self) -> bool;
    /// Log probability of each held-out row, averaged over draws; of what was observed of it, where entries may be missing.
    fn held_out(&self, data: &Dataset<'_>, effort: &HeldOutEffort) -> Result<HeldOut>;
}

/// A posterior that says what is still to come of rows of which a part was seen.
pub trait CompleteRows {
    /// Distribution over columns of the rest of each row, given the part of it that was seen, which is a share `exposure` of the whole
    /// (n×M, row-major; rows sum to one).
    fn complete(&self, data: &Dataset<'_>, exposure: f64) -> Result<Vec<f64>>;
}

/// A posterior that fills in missing entries.
pub trait ImputeRows {
    /// Whether rows that are asked about may have missing entries.
    fn takes_missing(&self) -> bool;
    /// The rows with their missing entries (NaN) filled in.
    fn impute(&self, data: &Dataset<'_>) -> Result<Imputed>;
}

/// Rows without gaps.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Imputed {
    /// Row-major: observed entries as they are, missing ones by the mean of their posterior distribution.
    pub values: Vec<f64>,
    /// The standard deviation of that distribution; 0 where the entry was observed.
    pub deviation: Vec<f64>,
}

/// A posterior that builds rows from their coordinates.
pub trait RebuildRows {
    /// Rows as the model sees them, given themselves.
    fn reconstruct(&self, data: &Dataset<'_>) -> Result<Rebuilt>;
    /// Rows of these coordinates (row-major, one number a row and coordinate).
    fn rebuild(&self, coordinates: &[f64]) -> Result<Vec<f64>>;
}

/// Rows as a model sees them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rebuilt {
    /// Row-major: what is expected of each entry, on average over the posterior.
    pub mean: Vec<f64>,
    /// What the likeliest code of the row gives, under the draw whose components stand for all.
    pub likeliest: Vec<f64>,
}

/// A posterior that tells which rows are alike.
pub trait Neighbours {
    /// The rows of `among` that are most like each query, best first: place and similarity. Of equals the first comes first.
    fn retrieve(&self, queries: &Dataset<'_>, among: &Dataset<'_>, most: usize) -> Result<Vec<Vec<(usize, f64)>>>;
}

/// Places of rows in a space of factors.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Coordinates {
    /// Name of each factor.
    pub names: Vec<String>,
    /// Row-major, one number a row and factor.
    pub values: Vec<f64>,
}

/// How much work goes into the probability of held-out rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldOutEffort {
    /// Temperatures between the distribution a row begins at and its posterior.
    pub temperatures: usize,
    /// Independent annealed runs of each row and draw.
    pub runs: usize,
    /// Stored draws to average over, at most, evenly spaced.
    pub draws: usize,
}

impl Default for HeldOutEffort {
    fn default() -> Self {
        Self { temperatures: 10, runs: 4, draws: 20 }
    }
}

impl HeldOutEffort {
    /// Refuses an effort of nothing.
    pub fn check(&self) -> Result<()> {
        for (name, value) in [("temperatures", self.temperatures), ("runs", self.runs), ("draws", self.draws)] {
            if value == 0 {
                return Err(Error::setting(name, 0, "a whole number of at least 1"));
            }
        }
        Ok(())
    }
}

/// Probability of held-out rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HeldOut {
    /// Log probability of each row: the logarithm of its mean over the draws.
    pub ln_probability: Vec<f64>,
    /// Monte Carlo standard error of each.
    pub error: Vec<f64>,
    /// Effective number of annealed runs behind each.
    pub effective: Vec<f64>,
    /// Log probability of all rows together: the logarithm of the mean over the draws of the product over the rows.
    pub joint: f64,
}

impl HeldOut {
    /// From the log weights of each draw, row and run, whose means estimate the probability of the row under the draw up to a factor `e^unit` of
    /// its own.
    pub(crate) fn of_weights(weights: &[Vec<Vec<f64>>], unit: &[f64]) -> Self {
        let ln_mean_exp = |values: &[f64]| log_sum_exp(values) - (values.len() as f64).ln();
        let by_draw: Vec<Vec<f64>> =
            weights.iter().map(|draw| draw.iter().zip(unit).map(|(w, unit)| ln_mean_exp(w) + unit).collect()).collect();
        let mut found = Self::default();
        for i in 0..unit.len() {
            let rows: Vec<f64> = by_draw.iter().map(|d| d[i]).collect();
            let mean = ln_mean_exp(&rows);
            let relative: Vec<f64> = rows.iter().map(|v| (v - mean).exp()).collect();
            let l = relative.len() as f64;
            let spread = relative.iter().map(|r| (r - 1.0) * (r - 1.0)).sum::<f64>() / (l - 1.0);
            found.error.push((spread / l).sqrt());
            let all = || weights.iter().flat_map(|draw| draw[i].iter().copied());
            let top = all().fold(f64::NEG_INFINITY, f64::max);
            let (sum, square) = all().map(|w| (w - top).exp()).fold((0.0, 0.0), |(s, q), v| (s + v, q + v * v));
            found.effective.push(sum * sum / square);
            found.ln_probability.push(mean);
        }
        let products: Vec<f64> = by_draw.iter().map(|d| d.iter().sum()).collect();
        found.joint = ln_mean_exp(&products);
        found
    }

    /// Mean log probability of a row; NaN without rows.
    pub fn mean(&self) -> f64 {
        self.ln_probability.iter().sum::<f64>() / self.ln_probability.len() as f64
    }

    /// Monte Carlo standard error of the mean. Rows are annealed on their own, so their errors are independent.
    pub fn error_of_mean(&self) -> f64 {
        self.error.iter().map(|e| e * e).sum::<f64>().sqrt() / self.error.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_rows_add_up_as_those_of_independent_figures() {
        let found = HeldOut { ln_probability: vec![-1.0, -3.0], error: vec![0.3, 0.4], effective: vec![5.0, 6.0], joint: -4.5 };
        assert_eq!(found.mean(), -2.0);
        assert!((found.error_of_mean() - 0.25).abs() < 1e-15);
        assert!(HeldOut::default().mean().is_nan());
    }

    #[test]
    fn no_effort_is_refused_by_name() {
        assert!(HeldOutEffort::default().check().is_ok());
        let none = HeldOutEffort { runs: 0, ..HeldOutEffort::default() };
        assert!(none.check().unwrap_err().to_string().contains("`runs` is 0"));
    }
}
