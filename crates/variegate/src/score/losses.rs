//! What held-out rows say, added up row by row and fold by fold.

use serde::{Deserialize, Serialize};

/// Sums over rows that a fit did not see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Losses {
    /// Σ w ln p of the true class, or of the log density.
    pub ln_likelihood: f64,
    /// Σ w of the rows whose most probable class is wrong; Σ w of squared errors for real outcomes.
    pub errors: f64,
    /// Σ w.
    pub weight: f64,
}

impl Losses {
    /// One more row.
    pub fn add(&mut self, weight: f64, ln_likelihood: f64, error: f64) {
        self.ln_likelihood += weight * ln_likelihood;
        self.errors += weight * error;
        self.weight += weight;
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
}
