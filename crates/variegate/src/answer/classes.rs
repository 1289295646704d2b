//! Classes of rows.

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
}

/// Class probabilities of some rows.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassProbabilities {
    /// Row-major, one number a row and class; rows sum to one.
    pub probability: Vec<f64>,
    /// Posterior standard deviation of each probability, where the method gives it.
    pub deviation: Option<Vec<f64>>,
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
