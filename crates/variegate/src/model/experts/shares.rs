//! Shares of the experts: how much of the rows each of them has.
//!
//! The share of an expert is Σ_n w_n r_nk / Σ_n w_n with r_nk the probability that it stands behind row n, given features and class. Samplers
//! write the shares of every draw to the trace, by the labels of that draw, and searches those of every sweep; the variational ascent has
//! them in its state.

use super::shape::Shape;
use crate::Result;
use crate::run::Report;

/// Sums of shares, from the rows where there is more than one expert.
pub(super) fn visit(shape: &Shape, ask: impl FnOnce() -> Result<Vec<f64>>) -> Result<Vec<f64>> {
    if shape.experts > 1 { ask() } else { Ok(vec![1.0]) }
}

/// The same of a sampler: none while it warms up, where no draw is kept.
pub(super) fn visit_draw(shape: &Shape, warm_up: bool, ask: impl FnOnce() -> Result<Vec<f64>>) -> Result<Vec<f64>> {
    if warm_up { Ok(Vec::new()) } else { visit(shape, ask) }
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
