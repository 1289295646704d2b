//! What results depend on beside the draws: sources, columns, and how entries are scaled.

use serde::{Deserialize, Serialize};

use super::counts::Counts;
use super::gaussian::{Centre, Gaussian, Hyper};
use super::settings::{LikelihoodKind, Settings};
use super::unfit;
use crate::Result;
use crate::data::{Dataset, Needs};

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
    /// Checks the data, and tells what a user should know of them.
    pub(super) fn of(data: &Dataset<'_>, settings: &Settings) -> Result<(Self, Vec<String>)> {
        let counts = settings.likelihood == LikelihoodKind::Poisson;
        data.check(Needs { counts, missing: settings.missing, ..Needs::FEATURES })?;
        if data.weights.is_some() {
            return Err(unfit("factors does not weigh rows: leave the weights out, or repeat rows"));
        }
        if data.rows() > u32::MAX as usize {
            return Err(unfit("factors takes at most 4294967295 rows"));
        }
        let (sources, codes) = match &data.sources {
            Some(given) => (given.names.clone(), given.codes.clone()),
            None => (vec!["all".to_string()], vec![0; data.rows()]),
        };
        let (width, x) = (data.x.cols(), data.x.view());
        let mut rows = vec![0u64; sources.len()];
        codes.iter().for_each(|&j| rows[j as usize] += 1);
        // sums and numbers of what is there, by source and column
        let (mut sums, mut missing) = (vec![0.0; sources.len() * width], vec![0u64; sources.len() * width]);
        let mut largest = 0.0f64;
        for (i, &j) in codes.iter().enumerate() {
            let at = j as usize * width;
            x.for_row(i, |m, v| {
                if v.is_nan() {
                    missing[at + m] += 1;
                } else {
                    sums[at + m] += v;
                    largest = largest.max(v);
                }
            });
        }
        let total = |values: &[f64], m: usize| values.iter().skip(m).step_by(width).sum::<f64>();
        let seen = |m: usize| data.rows() as u64 - missing.iter().skip(m).step_by(width).sum::<u64>();
        let means: Vec<f64> = (0..width).map(|m| if seen(m) == 0 { 0.0 } else { total(&sums, m) / seen(m) as f64 }).collect();
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
        let centre = (!counts).then(|| centre(data, settings, &codes, &rows, &sums, &missing, &means)).transpose()?;
        Ok((Self { columns: data.columns.clone(), width, sources, rows, means, centre }, warnings))
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
fn centre(
    data: &Dataset<'_>,
    settings: &Settings,
    codes: &[u32],
    rows: &[u64],
    sums: &[f64],
    missing: &[u64],
    overall: &[f64],
) -> Result<Centre> {
    let (width, x) = (data.x.cols(), data.x.view());
    let mut means = Vec::with_capacity((rows.len() + 1) * width);
    for (j, &n) in rows.iter().enumerate() {
        for m in 0..width {
            let seen = n - missing[j * width + m];
            // a source that never has the column says nothing of its mean
            means.push(if seen == 0 { overall[m] } else { sums[j * width + m] / seen as f64 });
        }
    }
    means.extend_from_slice(overall);
    let all_missing: u64 = missing.iter().sum();
    let entries = (data.rows() * width) as f64 - all_missing as f64;
    // without centring the spread is still that around the mean of all entries
    let grand = sums.iter().sum::<f64>() / entries.max(1.0);
    let mut square = 0.0;
    let mut row = vec![0.0; width];
    for (i, &j) in codes.iter().enumerate() {
        row.fill(0.0);
        x.for_row(i, |m, v| row[m] = v);
        for (m, v) in row.iter().enumerate().filter(|(_, v)| !v.is_nan()) {
            let from = if settings.center { means[j as usize * width + m] } else { grand };
            square += (v - from) * (v - from);
        }
    }
    let scale = (square / entries.max(1.0)).sqrt();
    if !(scale.is_finite() && scale > 0.0) {
        let what = if settings.center { "every column is constant within its source" } else { "every entry is the same" };
        return Err(unfit(format!("the rows have no variation ({what}): there are no factors to find")));
    }
    if !settings.center {
        means.fill(0.0);
    }
    Ok(Centre { columns: width, means, scale, missing: settings.missing })
}
