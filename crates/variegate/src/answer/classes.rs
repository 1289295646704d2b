//! Classes of rows.

use super::Predict;
use crate::Result;
use crate::data::Dataset;

/// A posterior that predicts the class of a row.
pub trait PredictClasses {
    /// Names of the classes.
    fn classes(&self) -> &[String];
    /// The words that `method` may be; the first is the default.
    fn methods(&self) -> &'static [&'static str];
    /// Class probabilities of each row. An empty method is the default.
    fn predict(&self, data: &Dataset<'_>, method: &str) -> Result<ClassProbabilities>;
    /// The same from chosen draws, and with intervals. What does not average over draws refuses both.
    fn predict_with(&self, data: &Dataset<'_>, how: &Predict<'_>) -> Result<ClassProbabilities> {
        how.refuse_draws("this model does not choose among its draws")?;
        self.predict(data, how.method)
    }
}

/// Class probabilities of some rows; all row-major with a number a row and class.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClassProbabilities {
    /// Rows sum to one.
    pub probability: Vec<f64>,
    /// Posterior standard deviation of each probability, where the method gives it.
    pub deviation: Option<Vec<f64>>,
    /// Equal-tailed posterior interval of each probability, where it was asked for.
    pub interval: Option<Interval>,
}

/// Ends of intervals.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Interval {
    /// Lower ends.
    pub lower: Vec<f64>,
    /// Upper ends.
    pub upper: Vec<f64>,
}

impl ClassProbabilities {
    /// Index of the most probable class of each row; the first of equals.
    pub fn best(&self, classes: usize) -> Vec<usize> {
        self.probability
            .chunks_exact(classes)
            .map(|p| p.iter().enumerate().fold(0, |best, (i, v)| if *v > p[best] { i } else { best }))
            .collect()
    }
}
