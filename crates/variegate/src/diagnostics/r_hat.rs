//! Rank-normalised split R-hat: do the chains, and their halves, agree with one another?

use super::chains::{Table, mean, variance};

/// R-hat over the halves of all chains: about 1 when they agree, more when they do not (above 1.01 is a reason to worry).
///
/// ```text
/// R̂ = √( (N − 1)/N + B / (N W) ),      B/N the variance of the chain means, W the mean variance within chains,
/// ```
///
/// once of the rank-normalised draws (location) and once of their rank-normalised distances from the median (spread); the
/// larger of the two. NaN for fewer than 2 chains or 4 draws, for a NaN among the draws, and for draws that are all equal.
pub fn r_hat<C: AsRef<[f64]>>(chains: &[C]) -> f64 {
    let Some(table) = Table::new(chains, 2) else {
        return f64::NAN;
    };
    let split = table.split();
    let location = plain(&split.rank_normalised());
    let centre = split.median();
    let folded = split.map(|v| (v - centre).abs());
    // Infinite draws may have no distance from their median; then the ranks alone must do.
    let spread = if folded.values.iter().any(|v| v.is_nan()) { f64::NAN } else { plain(&folded.rank_normalised()) };
    if spread > location { spread } else { location }
}

fn plain(table: &Table) -> f64 {
    let draws = table.draws as f64;
    let means: Vec<f64> = (0..table.chains).map(|c| mean(table.chain(c))).collect();
    let variances: Vec<f64> = (0..table.chains).map(|c| variance(table.chain(c))).collect();
    let ratio = draws * variance(&means) / mean(&variances);
    ((ratio + draws - 1.0) / draws).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wave(centre: f64, height: f64) -> Vec<f64> {
        (0..100).map(|i| centre + height * f64::sin(2.3 * f64::from(i))).collect()
    }

    #[test]
    fn sees_location_spread_and_drift() {
        assert!(r_hat(&[wave(0.0, 1.0), wave(0.0, 1.0)]) < 1.01);
        assert!(r_hat(&[wave(0.0, 1.0), wave(1.0, 1.0)]) > 1.1);
        assert!(r_hat(&[wave(0.0, 1.0), wave(0.0, 4.0)]) > 1.1);
        let drift: Vec<f64> = (0..100).map(f64::from).collect();
        assert!(r_hat(&[drift.clone(), drift]) > 1.5);
    }

    #[test]
    fn unknown_where_there_is_nothing_to_compare() {
        assert!(r_hat(&[wave(0.0, 1.0)]).is_nan());
        assert!(r_hat(&[[3.0; 10], [3.0; 10]]).is_nan());
    }
}
