//! What results depend on beside the draws: sources, columns, and how entries are scaled.

use serde::{Deserialize, Serialize};

use super::counts::Counts;
use super::gaussian::{Centre, Gaussian, Hyper};
use super::settings::{LikelihoodKind, Settings};
use super::unfit;
use crate::Result;
use crate::data::Survey;

/// Counts beyond this make one wonder.
const LARGE: f64 = 1e7;
/// Counts beyond this are refused: the work of a birth grows with the root of a count.
const LARGEST: f64 = 1e8;
/// What is added to the column means of the first factor.
const ABOVE_NOTHING: f64 = 1e-3;

/// The data as results depend on them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Schema {
    pub(super) columns: Vec<String>,
    pub(super) width: usize,
    pub(super) sources: Vec<String>,
    /// Rows of each source.
    pub(super) rows: Vec<u64>,
    /// Mean of each column over all rows.
    means: Vec<f64>,
    /// From raw entries to those that are modelled; counts stay as they are.
    centre: Option<Centre>,
}

impl Schema {
    /// What results depend on, and what a user should know of the data.
    pub(super) fn of(survey: &Survey, settings: &Settings) -> Result<(Self, Vec<String>)> {
        let counts = settings.likelihood == LikelihoodKind::Poisson;
        let header = survey.header();
        if header.weighted {
            return Err(unfit("factors does not weigh rows: leave the weights out, or repeat rows"));
        }
        if survey.rows() > u64::from(u32::MAX) {
            return Err(unfit("factors takes at most 4294967295 rows"));
        }
        let sources = header.sources.clone().unwrap_or_else(|| vec!["all".to_string()]);
        let (means, largest) = (survey.column_means(), survey.largest_entry());
        let mut warnings = Vec::new();
        if counts && means.iter().all(|&m| m == 0.0) {
            warnings.push("every count is zero: there is nothing to learn from these rows".to_string());
        }
        if counts && largest > LARGEST {
            return Err(unfit(format!(
                "the largest count is {largest}, and factors takes counts of at most {LARGEST}: divide all counts, or fit with `likelihood` gaussian"
            )));
        }
        if counts && largest > LARGE {
            warnings.push(format!("the largest count is {largest:.0}: consider dividing all counts, or likelihood gaussian"));
        }
        let centre = (!counts).then(|| centre(survey, settings, &means)).transpose()?;
        let rows = survey.source_rows().to_vec();
        Ok((Self { columns: header.columns.clone(), width: header.width, sources, rows, means, centre }, warnings))
    }

    /// That of data which are to be drawn: entries as they are, counts of mean 1.
    pub(super) fn drawn(width: usize, rows: Vec<u64>) -> Self {
        let sources = rows.iter().map(|_| String::new()).collect();
        Self { columns: Vec::new(), width, sources, rows, means: vec![1.0; width], centre: None }
    }

    /// The Poisson likelihood of these data.
    pub(super) fn counts(&self, s: &Settings) -> Counts {
        let rows: u64 = self.rows.iter().sum();
        let cells = rows as f64 * self.width as f64;
        let mean = (self.means.iter().sum::<f64>() / self.width as f64).max(1.0 / cells);
        Counts {
            width: self.width,
            sources: self.rows.len(),
            atom_shape: s.atom_shape,
            shape_prior: s.learn_shape.then_some((1.0, 1.0 / s.atom_shape)),
            weight_shape: s.weight_shape,
            rate_prior: (s.scale_shape, s.scale_rate),
            background_prior: (s.background_shape, s.background_rate.unwrap_or(10.0 / mean)),
            background_start: 0.1 * mean,
            first_atom: Some(self.means.iter().map(|m| m + ABOVE_NOTHING).collect()),
            fixed: None,
        }
    }

    /// The Gaussian likelihood of these data.
    pub(super) fn gaussian(&self, s: &Settings) -> Gaussian {
        let plain = || Centre { columns: self.width, means: vec![0.0; (self.rows.len() + 1) * self.width], scale: 1.0, missing: s.missing };
        Gaussian {
            centre: self.centre.clone().unwrap_or_else(plain),
            hyper: Hyper { shape: s.scale_shape, rate: s.scale_rate, fixed: None },
        }
    }

    /// What one unit of the modelled entries is in those of the data.
    pub(super) fn unit(&self) -> f64 {
        self.centre.as_ref().map_or(1.0, |c| c.scale)
    }

    /// Beyond so many factors there are no births.
    pub(super) fn most_atoms(&self, asked: Option<u64>) -> usize {
        let rows: u64 = self.rows.iter().sum();
        let by_size = (4.0 * (rows as f64 * self.width as f64).sqrt()).min(2000.0) as usize;
        asked.map_or(by_size.max(10), |most| most as usize)
    }
}

/// Means to take off and what to divide by, for real numbers.
fn centre(survey: &Survey, settings: &Settings, overall: &[f64]) -> Result<Centre> {
    let mut means = survey.source_means();
    means.extend_from_slice(overall);
    let scale = (survey.squares() / survey.entries().max(1.0)).sqrt();
    if !(scale.is_finite() && scale > 0.0) {
        let what = if settings.center { "every column is constant within its source" } else { "every entry is the same" };
        return Err(unfit(format!("the rows have no variation ({what}): there are no factors to find")));
    }
    if !settings.center {
        means.fill(0.0);
    }
    Ok(Centre { columns: survey.header().width, means, scale, missing: settings.missing })
}
