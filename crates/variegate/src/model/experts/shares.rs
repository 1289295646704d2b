//! Shares of the experts: how much of the rows each of them has, and which of them are in use.
//!
//! The share of an expert is Σ_n w_n r_nk / Σ_n w_n with r_nk the probability that it stands behind row n, given features and class. Samplers
//! and searches write the shares of every sweep to the trace, by the labels of that sweep; the variational ascent has them in its state.

use super::shape::Shape;
use crate::Result;
use crate::model::short_number;
use crate::run::Report;

/// An expert with a smaller share than this is idle,
const IDLE: f64 = 1e-3;
/// and so is one with fewer rows.
const FEWEST_ROWS: f64 = 2.0;

/// Sums of shares, from the rows where there is more than one expert.
pub(super) fn visit(shape: &Shape, ask: impl FnOnce() -> Result<Vec<f64>>) -> Result<Vec<f64>> {
    if shape.experts > 1 { ask() } else { Ok(vec![1.0]) }
}

/// Figures of a sweep with the shares of its experts.
pub(super) fn with(sums: &[f64], mut extras: Vec<(String, f64)>) -> Vec<(String, f64)> {
    extras.extend(normalised(sums).into_iter().enumerate().map(|(k, share)| (format!("share_{}", k + 1), share)));
    extras
}

/// Shares of so many experts that a sweep has written; nothing where it has not, as earlier versions did not.
pub(super) fn of(report: &Report, experts: usize) -> Option<Vec<f64>> {
    let mut found = vec![f64::NAN; experts];
    for (name, share) in &report.extras {
        let k = name.strip_prefix("share_").and_then(|k| k.parse::<usize>().ok());
        if let Some(place) = k.and_then(|k| found.get_mut(k.wrapping_sub(1))) {
            *place = *share;
        }
    }
    found.iter().all(|v| v.is_finite()).then_some(found)
}

/// Shares that sum to one.
pub(super) fn normalised(sums: &[f64]) -> Vec<f64> {
    let total: f64 = sums.iter().sum();
    sums.iter().map(|s| s / total).collect()
}

/// A warning that so many experts are idle; the number may be a mean.
pub(in crate::model) fn idle_warning(idle: &str, experts: usize, rows: f64) -> String {
    let least = least(rows);
    format!(
        "Warning: {idle} of {experts} experts are idle: they have less than {} % of the rows each ({:.0} of {rows:.0}), and where they lie is \
         the prior's choice and not the data's.",
        short_number((1e4 * least).round() / 100.0),
        least * rows
    )
}

/// What to do about idle experts.
pub(in crate::model) const FEWER: &str = " Choose fewer `experts`, and compare the numbers on held-out rows.";

/// The share that an expert in use has at least, for so many rows.
pub(in crate::model) fn least(rows: f64) -> f64 {
    IDLE.max(FEWEST_ROWS / rows)
}
