//! Scores of predicted classes, row by row and summed up.

use super::interval::wilson;
use crate::answer::ClassProbabilities;
use crate::data::Classes;

/// How one row was predicted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassScore {
    /// Whether the most probable class is the true one.
    pub right: bool,
    /// −ln p of the true class. A probability below the smallest normal double counts as that, so that one row that was thought
    /// impossible costs 708 and leaves the mean finite.
    pub log_loss: f64,
    /// Σ_c (p_c − 1[c is true])², from 0 to 2.
    pub brier: f64,
}

impl ClassScore {
    /// The score of probabilities where this class is true; `None` is a class that none of them is of.
    pub fn of(p: &[f64], class: Option<usize>) -> Self {
        let known = class.map_or(0.0, |c| p[c]);
        let square: f64 = p.iter().map(|p| p * p).sum();
        // the first of equals
        let best = p.iter().enumerate().fold(0, |best, (c, v)| if *v > p[best] { c } else { best });
        Self { right: class == Some(best), log_loss: -known.max(f64::MIN_POSITIVE).ln(), brier: (square - 2.0 * known + 1.0).max(0.0) }
    }
}

/// Scores of each row. `classes` are the names of the predicted classes; the truth may name others, which have probability 0.
pub fn score_classes(predicted: &ClassProbabilities, classes: &[String], truth: &Classes) -> Vec<ClassScore> {
    let place: Vec<Option<usize>> = truth.names.iter().map(|name| classes.iter().position(|c| c == name)).collect();
    let rows = predicted.probability.chunks_exact(classes.len()).zip(&truth.codes);
    rows.map(|(p, &code)| ClassScore::of(p, place.get(code as usize).copied().flatten())).collect()
}

/// Scores of some rows together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Tally {
    /// Number of rows.
    pub rows: usize,
    /// Rows whose most probable class is the true one.
    pub right: usize,
    /// Sum of log losses.
    log_loss: f64,
    /// Sum of Brier scores.
    brier: f64,
}

impl Tally {
    /// The scores of these rows.
    pub fn of<'a>(rows: impl IntoIterator<Item = &'a ClassScore>) -> Self {
        rows.into_iter().fold(Self::default(), |mut all, row| {
            all.add(row);
            all
        })
    }

    fn add(&mut self, row: &ClassScore) {
        self.rows += 1;
        self.right += usize::from(row.right);
        self.log_loss += row.log_loss;
        self.brier += row.brier;
    }

    /// Share of rows whose most probable class is the true one; NaN without rows, like every mean here.
    pub fn accuracy(&self) -> f64 {
        self.right as f64 / self.rows as f64
    }

    /// Wilson's 95 % interval of the accuracy.
    pub fn interval(&self) -> (f64, f64) {
        wilson(self.right, self.rows)
    }

    /// Mean of −ln p of the true class.
    pub fn log_loss(&self) -> f64 {
        self.log_loss / self.rows as f64
    }

    /// Mean Brier score.
    pub fn brier(&self) -> f64 {
        self.brier / self.rows as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|s| s.to_string()).collect()
    }

    fn sample() -> Vec<ClassScore> {
        let p = vec![0.5, 0.5, 0.75, 0.25, 0.0, 1.0];
        let truth = Classes { codes: vec![0, 1, 0], names: names(&["a", "b"]) };
        score_classes(&ClassProbabilities { probability: p, ..ClassProbabilities::default() }, &names(&["a", "b"]), &truth)
    }

    #[test]
    fn scores_of_rows_and_their_means() {
        let rows = sample();
        assert_eq!(rows[0], ClassScore { right: true, log_loss: -(0.5f64.ln()), brier: 0.5 });
        assert_eq!(rows[1], ClassScore { right: false, log_loss: -(0.25f64.ln()), brier: 2.0 * 0.75 * 0.75 });
        assert!(!rows[2].right && rows[2].log_loss > 708.0 && rows[2].log_loss.is_finite());
        assert_eq!(rows[2].brier, 2.0);
        let all = Tally::of(&rows[..2]);
        assert_eq!((all.rows, all.right, all.accuracy()), (2, 1, 0.5));
        assert!((all.log_loss() + 0.125f64.ln() / 2.0).abs() < 1e-15);
        assert_eq!(all.brier(), 0.8125);
    }

    /// A class that the fit has never seen is wrong and impossible; the order of names does not matter.
    #[test]
    fn classes_are_matched_by_name() {
        let p = ClassProbabilities { probability: vec![0.9, 0.1, 0.2, 0.8], ..ClassProbabilities::default() };
        let truth = Classes { codes: vec![1, 0], names: names(&["new", "b"]) };
        let rows = score_classes(&p, &names(&["b", "c"]), &truth);
        assert!(rows[0].right && !rows[1].right);
        assert!(rows[1].log_loss > 700.0);
    }
}
