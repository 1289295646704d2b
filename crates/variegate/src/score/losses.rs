//! What held-out rows say, added up row by row and fold by fold.

use serde::{Deserialize, Serialize};

use super::label_sets::entry_loss;
use crate::answer::LabelPrediction;

/// Sums over rows that a fit did not see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Losses {
    /// Σ w ln p of the true class, of what is true of a label, or of the log density.
    pub ln_likelihood: f64,
    /// Σ w of the rows whose most probable class is wrong, or of the entries of labels that are; Σ w of squared errors for real outcomes.
    pub errors: f64,
    /// Σ w, of rows or of known entries of labels.
    pub weight: f64,
}

impl Losses {
    /// One more row.
    pub fn add(&mut self, weight: f64, ln_likelihood: f64, error: f64) {
        self.ln_likelihood += weight * ln_likelihood;
        self.errors += weight * error;
        self.weight += weight;
    }

    /// Every known entry (1 present, 0 absent, -1 unknown) of sets of labels; it weighs as much as its row.
    pub fn of_labels(predicted: &LabelPrediction, truth: &[i8], labels: usize, weights: Option<&[f64]>) -> Self {
        let mut all = Self::default();
        for (at, y) in truth.iter().enumerate().filter(|(_, y)| **y >= 0) {
            let (present, weight) = (*y == 1, weights.map_or(1.0, |w| w[at / labels.max(1)]));
            all.add(weight, -entry_loss(predicted.probability[at], present), f64::from(predicted.chosen[at] != present));
        }
        all
    }

    /// Two parts together.
    pub fn plus(self, other: Self) -> Self {
        Self {
            ln_likelihood: self.ln_likelihood + other.ln_likelihood,
            errors: self.errors + other.errors,
            weight: self.weight + other.weight,
        }
    }

    /// Mean log likelihood of a row.
    pub fn mean_ln_likelihood(&self) -> f64 {
        self.ln_likelihood / self.weight
    }

    /// Share of wrong rows, or mean squared error.
    pub fn mean_error(&self) -> f64 {
        self.errors / self.weight
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_of_two_is_a_row_that_comes_twice() {
        let (mut one, mut two) = (Losses::default(), Losses::default());
        one.add(2.0, -0.5, 1.0);
        (0..2).for_each(|_| two.add(1.0, -0.5, 1.0));
        assert_eq!(one, two);
        let mut other = Losses::default();
        other.add(2.0, -1.5, 0.0);
        let both = one.plus(other);
        assert_eq!((both.mean_ln_likelihood(), both.mean_error(), both.weight), (-1.0, 0.5, 4.0));
    }

    #[test]
    fn entries_of_labels_weigh_as_their_rows() {
        let p = vec![0.5, 0.25, 0.25, 0.75];
        let found = LabelPrediction { chosen: vec![true, false, false, true], score: p.clone(), probability: p, novelty: Vec::new() };
        let all = Losses::of_labels(&found, &[1, -1, 1, 1], 2, Some(&[1.0, 3.0]));
        assert_eq!((all.weight, all.errors), (7.0, 3.0));
        assert!((all.ln_likelihood - (0.5f64.ln() + 3.0 * (0.25f64.ln() + 0.75f64.ln()))).abs() < 1e-12);
        let plain = Losses::of_labels(&found, &[1, -1, 1, 1], 2, None);
        assert_eq!((plain.weight, plain.mean_error()), (3.0, 1.0 / 3.0));
    }
}
