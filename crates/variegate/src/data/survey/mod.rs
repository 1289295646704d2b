//! All that a model may know of the data before it runs: counts, ranges, moments, missing entries, a few rows, the fingerprint.
//!
//! A model says what it asks ([`Questions`]); rows answer block by block, and the answers are merged along the tree of blocks into one
//! [`Survey`], so that it is the same wherever the rows are. `run::survey` does the asking.
//!
//! | file | what it is |
//! |---|---|
//! | `spread.rs` | mean, deviation and range of columns |
//! | `sources.rs` | sums and missing entries of columns, source by source |
//! | `probes.rs` | a few rows, chosen by chance |
//! | `tally.rs` | all of it together, for one block or several |

mod probes;
mod sources;
mod spread;
mod tally;

pub use spread::Spread;
pub(crate) use tally::Tally;

use serde::{Deserialize, Serialize};

use super::design::{Mapped, Moments};
use super::validate::{Counts, LabelCounts};
use super::{Design, Header, InputMaps, Matrix, Needs, Scaling};
use crate::{Error, Result};
use probes::Probes;
use sources::SourceColumns;

/// Weights of rows that count trials must be whole and at most this.
const MOST_TRIALS: f64 = 1e6;

/// What a model asks of its data before it is bound to them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Questions {
    /// What the data must have, and what may be missing.
    pub needs: Needs,
    /// Mean, deviation and range of each column.
    pub columns: bool,
    /// Whether the rows of every class are to weigh the same in all, also in those.
    pub balanced: bool,
    /// Mean, deviation and range of the features that maps make of the scaled columns.
    pub features: Option<(InputMaps, Scaling)>,
    /// Sums and missing entries of each column in each source.
    pub by_source: Option<Around>,
    /// Some rows, at most so many.
    pub probes: usize,
}

/// What the spread of all entries is measured around.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Around {
    /// Nothing: it is not measured.
    Nothing,
    /// The mean of all entries.
    Mean,
    /// The mean of each column in each source.
    ColumnMeans,
}

impl Questions {
    /// Asks for nothing but clean data of a kind.
    pub fn needing(needs: Needs) -> Self {
        Self { needs, ..Self::default() }
    }
}

/// What rows said.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Survey {
    header: Header,
    counts: Counts,
    fingerprint: u64,
    /// First row, from 1, whose weight is no whole number.
    not_whole: Option<u64>,
    fractions: bool,
    columns: Vec<Spread>,
    class_weight: Vec<f64>,
    outcomes: Vec<Spread>,
    features: Vec<(Mapped, Moments, Scaling)>,
    sources: SourceColumns,
    /// Sum of squares of all entries around what was asked for.
    squares: f64,
    probes: Probes,
}

impl Survey {
    /// What the first round of answers says; further rounds add to it.
    pub(crate) fn new(header: Header, questions: &Questions, tally: Tally) -> Result<Self> {
        tally.counts.finish(&header, questions.needs)?;
        let fingerprint = header.fingerprint(tally.counts.rows, tally.digest);
        let mut survey = Self {
            header,
            counts: tally.counts,
            fingerprint,
            not_whole: tally.not_whole,
            fractions: tally.fractions,
            columns: tally.columns,
            class_weight: Vec::new(),
            outcomes: tally.outcomes,
            features: Vec::new(),
            sources: tally.sources,
            squares: 0.0,
            probes: tally.probes,
        };
        if questions.balanced {
            let counts = survey.class_counts()?;
            let each = counts.iter().sum::<f64>() / counts.len() as f64;
            survey.class_weight = counts.iter().map(|n| each / n).collect();
        }
        Ok(survey)
    }

    pub(crate) fn set_columns(&mut self, columns: Vec<Spread>) {
        self.columns = columns;
    }

    pub(crate) fn add_features(&mut self, mapped: Mapped, moments: Moments, scaling: Scaling) {
        self.features.push((mapped, moments, scaling));
    }

    pub(crate) fn set_squares(&mut self, squares: f64) {
        self.squares = squares;
    }

    /// Names and kinds of what rows have.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Number of rows.
    pub fn rows(&self) -> u64 {
        self.counts.rows
    }

    /// Weight of all rows.
    pub fn weight(&self) -> f64 {
        self.counts.weight
    }

    /// Fingerprint of the data.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Mean, deviation and range of each column, where they were asked for.
    pub fn columns(&self) -> &[Spread] {
        &self.columns
    }

    /// Weight of the rows of each class; every class must have some.
    pub fn class_counts(&self) -> Result<&[f64]> {
        let counts = &self.counts.classes;
        match counts.iter().position(|&n| n == 0.0) {
            None => Ok(counts),
            Some(empty) => Err(Error::Unfit(format!(
                "class `{}` has no row of positive weight: leave it out of the list of classes",
                self.header.classes()[empty]
            ))),
        }
    }

    /// How often each label is present, absent and unknown.
    pub fn labels(&self) -> &LabelCounts {
        &self.counts.labels
    }

    /// Whether any feature is no whole number.
    pub fn fractions(&self) -> bool {
        self.fractions
    }

    /// Factor of the weight of the rows of each class where classes are to count the same; else empty.
    pub fn class_weight(&self) -> &[f64] {
        &self.class_weight
    }

    /// Mean, deviation and range of each real outcome.
    pub fn outcomes(&self) -> &[Spread] {
        &self.outcomes
    }

    /// Refuses weights that cannot be numbers of trials; `family` is the one that needs them, `otherwise` what to do instead.
    pub fn check_whole_weights(&self, family: &str, otherwise: &str) -> Result<()> {
        match self.not_whole {
            None => Ok(()),
            Some(row) => Err(Error::Unfit(format!(
                "row {row}: the weight must be a whole number of at most {MOST_TRIALS} for {family} (a row of weight 2 counts twice); {otherwise}"
            ))),
        }
    }

    /// The design of the columns, or of the features that were asked for, and the raw columns left out as constant.
    pub fn design(&self, scaling: Scaling) -> Result<(Design, Vec<usize>)> {
        match self.features.first() {
            None => Ok(Design::of_columns(&self.columns, scaling)),
            Some((mapped, moments, options)) => {
                let (_, dropped) = Design::of_columns(&self.columns, *options);
                Ok((Design::of_features(mapped.clone(), moments.clone(), scaling)?, dropped))
            }
        }
    }

    /// The designs to choose from where several maps were asked for: the columns themselves, then each map whose features can be computed.
    /// Raw columns left out as constant are those of the first.
    pub fn designs(&self, scaling: Scaling) -> (Vec<Design>, Vec<usize>) {
        let (columns, dropped) = Design::of_columns(&self.columns, scaling);
        let measured = self.features.iter();
        let features = measured.filter_map(|(mapped, moments, _)| Design::of_features(mapped.clone(), moments.clone(), scaling).ok());
        (std::iter::once(columns).chain(features).collect(), dropped)
    }

    /// Rows of each source.
    pub fn source_rows(&self) -> &[u64] {
        &self.sources.rows
    }

    /// Sum of the entries of each column in each source (one a row), where they were asked for.
    pub fn source_sums(&self) -> Vec<f64> {
        self.sources.sums(self.header.width)
    }

    /// Missing entries of each column in each source (one a row).
    pub fn source_missing(&self) -> Vec<u64> {
        self.sources.missing(self.header.width)
    }

    /// Mean of each column over all rows that have it (0 where none does).
    pub fn column_means(&self) -> Vec<f64> {
        let (width, sums, missing) = (self.header.width, self.source_sums(), self.source_missing());
        (0..width)
            .map(|m| {
                let seen = self.rows() - missing.iter().skip(m).step_by(width).sum::<u64>();
                if seen == 0 { 0.0 } else { sums.iter().skip(m).step_by(width).sum::<f64>() / seen as f64 }
            })
            .collect()
    }

    /// Mean of each column in each source (one a row); that over all rows where a source never has the column.
    pub fn source_means(&self) -> Vec<f64> {
        let (width, sums, missing, overall) = (self.header.width, self.source_sums(), self.source_missing(), self.column_means());
        (0..sums.len())
            .map(|at| {
                let seen = self.sources.rows[at / width] - missing[at];
                if seen == 0 { overall[at % width] } else { sums[at] / seen as f64 }
            })
            .collect()
    }

    /// Number of entries that are not missing.
    pub fn entries(&self) -> f64 {
        let missing: u64 = self.source_missing().iter().sum();
        (self.rows() as usize * self.header.width) as f64 - missing as f64
    }

    /// What squares are taken around; none if they were not asked for.
    pub(crate) fn means_around(&self, around: Around) -> Option<Vec<f64>> {
        match around {
            Around::Nothing => None,
            Around::Mean => Some(vec![self.source_sums().iter().sum::<f64>() / self.entries().max(1.0)]),
            Around::ColumnMeans => Some(self.source_means()),
        }
    }

    /// Largest entry of all, or 0.
    pub fn largest_entry(&self) -> f64 {
        self.sources.largest
    }

    /// Sum of squares of all entries around the means that were asked for.
    pub fn squares(&self) -> f64 {
        self.squares
    }

    /// Some rows, chosen by chance, as they are stored.
    pub fn probes(&self) -> impl Iterator<Item = Matrix<'static>> + '_ {
        self.probes.rows(self.header.sparse, self.header.width)
    }

    /// Warnings on columns left out as constant; where columns are taken as they are, on scales that no prior suits; and on classes that look
    /// like measurements.
    pub fn column_warnings(&self, dropped: &[usize], standardized: bool) -> Vec<String> {
        let names = |which: &[usize]| preview(&which.iter().map(|&j| self.header.column_name(j)).collect::<Vec<_>>());
        let mut warnings = Vec::new();
        if !dropped.is_empty() {
            warnings.push(format!("left out {} constant column(s): {}", dropped.len(), names(dropped)));
        }
        if !standardized {
            let odd = |c: &Spread| c.deviation().is_some_and(|sd| !(1e-3..=1e3).contains(&sd));
            let odd: Vec<usize> = self.columns.iter().enumerate().filter(|(_, c)| odd(c)).map(|(j, _)| j).collect();
            if !odd.is_empty() {
                warnings.push(format!("a standard deviation below 0.001 or above 1000 without `standardize`: {}", names(&odd)));
            }
        }
        if let Some(count) = measured(self.header.classes()) {
            warnings.push(format!(
                "the target has {count} different numbers, and each is fitted as a class of its own: if they are measured quantities, fit a \
                 regression (softmax with `task` regression)"
            ));
        }
        warnings
    }

    /// Names of constant columns, at most five of them, and how many there are.
    pub fn constant_columns(&self) -> (usize, String) {
        let constant = self.columns.iter().enumerate().filter(|(_, c)| c.deviation().is_none());
        let names: Vec<String> = constant.map(|(j, _)| self.header.column_name(j)).collect();
        (names.len(), preview(&names))
    }
}

/// How many classes there are, if they are many and all of them numbers, not only whole ones.
fn measured(classes: &[String]) -> Option<usize> {
    const MANY: usize = 20;
    let number = |name: &String| name.parse::<f64>().ok().filter(|v| v.is_finite());
    let values: Vec<f64> = if classes.len() > MANY { classes.iter().map_while(number).collect() } else { Vec::new() };
    (!values.is_empty() && values.len() == classes.len() && values.iter().any(|v| v.fract() != 0.0)).then_some(values.len())
}

/// At most five names, then how many more.
pub(crate) fn preview(names: &[String]) -> String {
    let shown = names.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > 5 { format!("{shown} and {} more", names.len() - 5) } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_classes_are_told_from_labels() {
        let names = |n: usize, step: f64| (0..n).map(|i| (i as f64 * step).to_string()).collect::<Vec<_>>();
        assert_eq!(measured(&names(60, 0.37)), Some(60));
        assert_eq!(measured(&names(60, 1.0)), None, "whole numbers are names");
        assert_eq!(measured(&names(10, 0.5)), None, "grades in halves are few");
        let mut mixed = names(60, 0.37);
        mixed.push("other".into());
        assert_eq!(measured(&mixed), None);
    }
}
