//! How good predictions are where the truth is known.

use serde_json::{Value, json};
use variegate::data::{Dataset, Target};
use variegate::model::{ClassProbabilities, RealPrediction};

use crate::tables;

/// Scores over some rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scores {
    /// Of classes.
    Classes {
        /// Number of rows.
        rows: usize,
        /// Share of rows whose most probable class is the true one.
        accuracy: f64,
        /// Mean of -ln p of the true class.
        log_loss: f64,
    },
    /// Of real outcomes.
    Real {
        /// Number of rows.
        rows: usize,
        /// Mean over rows and outcomes of the squared distance from the mean.
        squared_error: f64,
        /// Mean over rows of the log density.
        ln_density: f64,
    },
}

impl Scores {
    /// Compares with the classes in the data, if they have any.
    pub fn of_classes(predicted: &ClassProbabilities, data: &Dataset<'_>, classes: usize) -> Option<Self> {
        let Target::Classes(truth) = &data.target else { return None };
        let rows = truth.len();
        if rows == 0 {
            return None;
        }
        let right = predicted.best(classes).iter().zip(&truth.codes).filter(|(b, t)| **b == **t as usize).count();
        let loss: f64 = truth.codes.iter().enumerate().map(|(i, &t)| -predicted.probability[i * classes + t as usize].ln()).sum();
        Some(Self::Classes { rows, accuracy: right as f64 / rows as f64, log_loss: loss / rows as f64 })
    }

    /// Compares with the outcomes in the data, if they have as many as are predicted.
    pub fn of_real(predicted: &RealPrediction, data: &Dataset<'_>) -> Option<Self> {
        let (Target::Real { values, .. }, Some(density)) = (&data.target, &predicted.ln_density) else { return None };
        let rows = density.len();
        if rows == 0 || values.len() != predicted.mean.len() {
            return None;
        }
        let square: f64 = values.iter().zip(&predicted.mean).map(|(y, m)| (y - m).powi(2)).sum();
        Some(Self::Real { rows, squared_error: square / values.len() as f64, ln_density: density.iter().sum::<f64>() / rows as f64 })
    }

    /// Names and values, as tables show them.
    pub fn figures(&self) -> [(&'static str, f64); 2] {
        match *self {
            Self::Classes { accuracy, log_loss, .. } => [("log-loss", log_loss), ("error", 1.0 - accuracy)],
            Self::Real { squared_error, ln_density, .. } => [("squared error", squared_error), ("log density", ln_density)],
        }
    }

    /// In one line.
    pub fn line(&self) -> String {
        match *self {
            Self::Classes { rows, accuracy, log_loss } => {
                format!("accuracy {accuracy:.4}, log loss {} over {}", tables::number(log_loss), tables::count(rows, "row", "rows"))
            }
            Self::Real { rows, squared_error, ln_density } => format!(
                "mean squared error {}, mean log density {} over {}",
                tables::number(squared_error),
                tables::number(ln_density),
                tables::count(rows, "row", "rows")
            ),
        }
    }

    /// For machines.
    pub fn as_json(&self) -> Value {
        match *self {
            Self::Classes { rows, accuracy, log_loss } => json!({ "rows": rows, "accuracy": accuracy, "log_loss": log_loss }),
            Self::Real { rows, squared_error, ln_density } => {
                json!({ "rows": rows, "squared_error": squared_error, "log_density": ln_density })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use variegate::data::{Classes, Matrix};

    #[test]
    fn scores_are_means_over_rows() {
        let x = || Matrix::Dense { rows: 2, cols: 1, values: vec![0.0; 2].into() };
        let data = Dataset::new(x()).with_target(Target::Classes(Classes { codes: vec![0, 1], names: vec!["a".into(), "b".into()] }));
        let p = ClassProbabilities { probability: vec![0.5, 0.5, 0.75, 0.25], deviation: None };
        let found = Scores::of_classes(&p, &data, 2).unwrap();
        assert_eq!(found, Scores::Classes { rows: 2, accuracy: 0.5, log_loss: -(0.125f64.ln()) / 2.0 });
        let real = RealPrediction { mean: vec![1.0, 2.0], ln_density: Some(vec![-1.0, -3.0]), ..RealPrediction::default() };
        assert_eq!(Scores::of_real(&real, &data), None);
        let data = Dataset::new(x()).with_target(Target::Real { width: 1, values: vec![1.0, 4.0] });
        assert_eq!(Scores::of_real(&real, &data), Some(Scores::Real { rows: 2, squared_error: 2.0, ln_density: -2.0 }));
    }
}
