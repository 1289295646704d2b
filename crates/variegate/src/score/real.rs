//! Scores of predicted real outcomes.

use crate::answer::RealPrediction;
use crate::data::Target;

/// How real outcomes of some rows were predicted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RealScore {
    /// Number of rows.
    pub rows: usize,
    /// Mean over rows and outcomes of the squared distance from the mean.
    pub squared_error: f64,
    /// Mean over rows of the log density.
    pub ln_density: f64,
}

impl RealScore {
    /// Compares with the outcomes, if there are as many as are predicted. Each row counts as its weight says; without weights, once.
    pub fn of(predicted: &RealPrediction, truth: &Target, weights: Option<&[f64]>) -> Option<Self> {
        let (Target::Real { width, values }, Some(density)) = (truth, &predicted.ln_density) else { return None };
        let rows = density.len();
        if rows == 0 || values.len() != predicted.mean.len() {
            return None;
        }
        let weight = |row: usize| weights.map_or(1.0, |w| w[row]);
        let total: f64 = (0..rows).map(weight).sum();
        let pairs = values.iter().zip(&predicted.mean).enumerate();
        let square: f64 = pairs.map(|(i, (y, m))| weight(i / width) * (y - m).powi(2)).sum();
        let density: f64 = density.iter().enumerate().map(|(i, d)| weight(i) * d).sum();
        Some(Self { rows, squared_error: square / (total * *width as f64), ln_density: density / total })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_over_rows_and_outcomes() {
        let found = RealPrediction { mean: vec![1.0, 2.0], ln_density: Some(vec![-1.0, -3.0]), ..RealPrediction::default() };
        let truth = Target::Real { width: 1, values: vec![1.0, 4.0] };
        assert_eq!(RealScore::of(&found, &truth, None), Some(RealScore { rows: 2, squared_error: 2.0, ln_density: -2.0 }));
        let weighed = RealScore::of(&found, &truth, Some(&[3.0, 1.0]));
        assert_eq!(weighed, Some(RealScore { rows: 2, squared_error: 1.0, ln_density: -1.5 }));
        assert_eq!(RealScore::of(&found, &Target::None, None), None);
        let other = Target::Real { width: 2, values: vec![0.0; 4] };
        assert_eq!(RealScore::of(&found, &other, None), None);
    }
}
