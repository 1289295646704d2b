//! Experts without rows: from which share on an expert is in use, and what to say of those that are not.

use super::short_number;

/// An expert with a smaller share than this is idle,
const IDLE: f64 = 1e-3;
/// and so is one with fewer rows.
const FEWEST_ROWS: f64 = 2.0;

/// The share that an expert in use has at least, for so many rows.
pub(super) fn least_share(rows: f64) -> f64 {
    IDLE.max(FEWEST_ROWS / rows)
}

/// A warning that so many experts are idle, which may be a mean, with what more there is to say of it.
pub(super) fn warning(idle: &str, experts: usize, rows: f64, more: &str) -> String {
    let least = least_share(rows);
    format!(
        "{idle} of {experts} experts are idle: they have less than {} % of the rows each ({:.0} of {rows:.0}), and where they lie is the \
         prior's choice and not the data's.{more} Choose fewer `experts`, and compare the numbers on held-out rows.",
        short_number((1e4 * least).round() / 100.0),
        least * rows
    )
}
