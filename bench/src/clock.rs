//! Times of repetitions. The smallest says what the code can do, the median what it did on this machine at this hour.

use serde_json::{Value, json};
use std::time::Instant;

/// Seconds that `work` takes.
pub fn seconds(work: impl FnOnce()) -> f64 {
    let begin = Instant::now();
    work();
    begin.elapsed().as_secs_f64()
}

/// Smallest of some times.
pub fn least(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::INFINITY, f64::min)
}

/// Median of some times.
pub fn median(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { 0.5 * (sorted[half - 1] + sorted[half]) }
}

/// Both, for the report.
pub fn figures(times: &[f64]) -> Value {
    json!({ "least": least(times), "median": median(times), "times": times })
}
