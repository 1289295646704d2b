//! What families that are fitted to rows alone say of them: coordinates, probabilities, completions and neighbours.

use crate::{Error, Result};

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
    /// Temperatures between prior and posterior of a row.
    pub temperatures: usize,
    /// Independent annealed runs of each row and draw.
    pub runs: usize,
    /// Stored draws to average over, at most, evenly spaced.
    pub draws: usize,
}

impl Default for HeldOutEffort {
    fn default() -> Self {
        Self { temperatures: 50, runs: 20, draws: 20 }
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
    /// Mean log probability of a row; NaN without rows.
    pub fn mean(&self) -> f64 {
        self.ln_probability.iter().sum::<f64>() / self.ln_probability.len() as f64
    }

    /// Monte Carlo standard error of the mean. Rows are annealed on their own, so their errors are independent.
    pub fn error_of_mean(&self) -> f64 {
        self.error.iter().map(|e| e * e).sum::<f64>().sqrt() / self.error.len() as f64
    }
}

/// The answer of a family that has no factors to a question about them.
pub(super) fn has_no_factors(family: &str, asked: &str) -> Error {
    Error::Unfit(format!("`{family}` predicts a target and has no factors, so there is no {asked}: use predict"))
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
