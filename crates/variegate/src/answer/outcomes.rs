//! Real outcomes of rows.

use super::Predict;
use crate::data::Dataset;
use crate::{Error, Result};

/// A posterior that predicts real numbers of a row.
pub trait PredictOutcomes {
    /// How many.
    fn outcomes(&self) -> usize;
    /// The words that `method` may be; the first is the default.
    fn methods(&self) -> &'static [&'static str];
    /// Distribution of the outcomes of each row, with its quantiles at these levels. With outcomes in the data, also their log density.
    fn predict(&self, data: &Dataset<'_>, levels: &[f64], method: &str) -> Result<RealPrediction>;
    /// The same from chosen draws. What does not average over draws refuses to choose. An interval lies between
    /// two quantiles, and its level is refused here.
    fn predict_with(&self, data: &Dataset<'_>, levels: &[f64], how: &Predict<'_>) -> Result<RealPrediction> {
        how.refuse_draws("this model does not choose among its draws")?;
        self.predict(data, levels, how.method)
    }
}

/// Predictive distribution of real outcomes; all row-major with `outputs` numbers a row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RealPrediction {
    /// Mean of each outcome.
    pub mean: Vec<f64>,
    /// Its standard deviation; infinite where the distribution has none.
    pub deviation: Vec<f64>,
    /// Quantiles, one array a level.
    pub quantiles: Vec<Vec<f64>>,
    /// Log density of each row's outcomes, where the data have them.
    pub ln_density: Option<Vec<f64>>,
}

/// Refuses levels that are no probabilities between 0 and 1.
pub(crate) fn check_levels(levels: &[f64]) -> Result<()> {
    match levels.iter().find(|l| !(**l > 0.0 && **l < 1.0)) {
        None => Ok(()),
        Some(level) => Err(Error::setting("quantiles", level, "numbers between 0 and 1")),
    }
}
