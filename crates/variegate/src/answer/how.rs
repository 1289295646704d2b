//! How predictions are made of a posterior: by which method, from how many draws, with intervals or without.

use std::str::FromStr;

use crate::{Error, Result};

/// What a prediction is asked for beside the rows. The default is what `predict` gives: the first method, enough draws, no intervals.
///
/// ```
/// use variegate::answer::{Predict, PredictDraws};
///
/// let how = Predict { draws: PredictDraws::Number(500), level: Some(0.9), ..Predict::default() };
/// assert_eq!(how.quantiles().unwrap(), Some((0.04999999999999999, 0.95)));
/// assert!(Predict { level: Some(90.0), ..how }.quantiles().is_err());
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Predict<'a> {
    /// One of the methods of the posterior; an empty word is the first of them.
    pub method: &'a str,
    /// Posterior draws to average over, where the method averages over draws.
    pub draws: PredictDraws,
    /// Posterior probability that intervals of class probabilities hold; nothing for no intervals.
    pub level: Option<f64>,
}

impl<'a> Predict<'a> {
    /// The default with this method.
    pub fn by(method: &'a str) -> Self {
        Self { method, ..Self::default() }
    }

    /// Levels of the quantiles that an equal-tailed interval lies between; an error if its level is no probability.
    pub fn quantiles(&self) -> Result<Option<(f64, f64)>> {
        match self.level {
            None => Ok(None),
            Some(level) if level > 0.0 && level < 1.0 => Ok(Some((0.5 * (1.0 - level), 0.5 * (1.0 + level)))),
            Some(level) => Err(Error::setting("level", level, "a number between 0 and 1")),
        }
    }

    /// Refuses numbers of draws and intervals: for what does not average over draws. `because` ends a sentence that says why.
    pub fn refuse_draws(&self, because: &str) -> Result<()> {
        self.draws.check()?;
        if self.draws != PredictDraws::Enough {
            return Err(Error::Unfit(format!("`predict_draws` chooses posterior draws, but {because}: leave it out")));
        }
        if self.quantiles()?.is_some() {
            return Err(Error::Unfit(format!("an interval of a probability is one over posterior draws, but {because}")));
        }
        Ok(())
    }
}

/// Posterior draws that a prediction averages over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PredictDraws {
    /// For each row as many, evenly spaced, as bring the Monte Carlo error of its class probabilities below 0.005; all for real outcomes
    /// and for intervals.
    #[default]
    Enough,
    /// All.
    All,
    /// So many, evenly spaced; all where there are no more.
    Number(usize),
}

impl PredictDraws {
    /// Refuses a prediction from no draw.
    pub(crate) fn check(self) -> Result<()> {
        match self {
            Self::Number(0) => Err(Error::setting("predict_draws", 0, ALLOWED)),
            _ => Ok(()),
        }
    }

    /// Numbers of the draws to use of so many, in rounds: a row that is known well enough after a round is left out of those that follow.
    pub(crate) fn rounds(self, draws: usize) -> Vec<Vec<usize>> {
        match self {
            Self::Number(n) if n < draws => vec![(0..n).map(|i| (2 * i + 1) * draws / (2 * n)).collect()],
            Self::Enough => {
                let mut step = 1;
                while draws / (2 * step) >= FIRST_ROUND {
                    step *= 2;
                }
                let mut rounds = vec![(0..draws).step_by(step).collect()];
                while step > 1 {
                    // those half-way between the ones before
                    rounds.push((step / 2..draws).step_by(step).collect());
                    step /= 2;
                }
                rounds
            }
            _ => vec![(0..draws).collect()],
        }
    }
}

const ALLOWED: &str = "`all`, or a whole number of at least 1";
/// Draws of the first round, at least: fewer would not tell how far they are from the mean of all.
const FIRST_ROUND: usize = 200;

impl FromStr for PredictDraws {
    type Err = Error;

    /// `all`, or a number of at least 1.
    fn from_str(text: &str) -> Result<Self> {
        match text.trim() {
            "all" => Ok(Self::All),
            number => match number.parse() {
                Ok(n) if n > 0 => Ok(Self::Number(n)),
                _ => Err(Error::setting("predict_draws", text, ALLOWED)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_evenly_spaced_and_together_all_draws() {
        let rounds = PredictDraws::Enough.rounds(4000);
        assert_eq!(rounds.iter().map(Vec::len).collect::<Vec<_>>(), [250, 250, 500, 1000, 2000]);
        let mut seen: Vec<usize> = Vec::new();
        for round in rounds {
            seen.extend(round);
            seen.sort_unstable();
            let gaps: Vec<usize> = seen.windows(2).map(|w| w[1] - w[0]).collect();
            assert!(gaps.iter().all(|g| *g == gaps[0]), "{gaps:?}");
        }
        assert_eq!(seen, (0..4000).collect::<Vec<_>>());
        assert_eq!(PredictDraws::Enough.rounds(399), PredictDraws::All.rounds(399));
        assert_eq!(PredictDraws::Number(4).rounds(20), [[2, 7, 12, 17]]);
        assert_eq!(PredictDraws::Number(21).rounds(20), PredictDraws::All.rounds(20));
    }

    #[test]
    fn words_are_read_and_nothing_else() {
        assert_eq!("all".parse::<PredictDraws>().unwrap(), PredictDraws::All);
        assert_eq!("300".parse::<PredictDraws>().unwrap(), PredictDraws::Number(300));
        for wrong in ["0", "-3", "many", "1.5"] {
            let said = wrong.parse::<PredictDraws>().unwrap_err().to_string();
            assert!(said.contains("predict_draws") && said.contains("`all`"), "{said}");
        }
        assert!(PredictDraws::Number(0).check().is_err());
    }
}
