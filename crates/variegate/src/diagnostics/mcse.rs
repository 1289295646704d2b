//! Monte Carlo standard errors: how far an estimate from the draws may be from its value under the target.

use super::beta_quantile::beta_quantile;
use super::chains::Table;
use super::ess::{ess, ess_quantile};

/// Of the mean: sd / √ESS(mean).
pub fn mcse_mean<C: AsRef<[f64]>>(chains: &[C]) -> f64 {
    Table::new(chains, 1).map_or(f64::NAN, |table| {
        let squares = table.squared_deviations();
        let variance = squares.values.iter().sum::<f64>() / (squares.values.len() as f64 - 1.0);
        table.unit * (variance / ess(&table.split())).sqrt()
    })
}

/// Of the standard deviation, by the delta method: with c = (x − x̄)²,  √( (E c² − (E c)²) / (4 ESS(c) E c) ).
/// NaN for constant draws.
pub fn mcse_sd<C: AsRef<[f64]>>(chains: &[C]) -> f64 {
    Table::new(chains, 1).map_or(f64::NAN, |table| {
        let squares = table.squared_deviations();
        let mean = squares.mean();
        let variance = squares.map(|c| c * c).mean() - mean * mean;
        table.unit * (variance / ess(&squares.split()) / mean / 4.0).sqrt()
    })
}

// Φ(−1) and Φ(1), rounded as in the reference implementations.
const ONE_SIGMA: [f64; 2] = [0.1586553, 0.8413447];

/// Of the quantile at probability `p`: half the distance between the order statistics one standard error to either side.
/// NaN unless p lies in [0, 1].
pub fn mcse_quantile<C: AsRef<[f64]>>(chains: &[C], p: f64) -> f64 {
    let size = ess_quantile(chains, p);
    let Some(table) = Table::new(chains, 1).filter(|_| size.is_finite()) else {
        return f64::NAN;
    };
    let sorted = table.sorted();
    let n = sorted.len() as f64;
    let [low, high] = ONE_SIGMA.map(|q| beta_quantile(q, size * p + 1.0, size * (1.0 - p) + 1.0) * n - 1.0);
    let low = sorted[low.max(0.0).floor() as usize];
    let high = sorted[high.min(n - 1.0).ceil().max(0.0) as usize];
    0.5 * (high - low) * table.unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_size_that_repetition_shows() {
        use rand::rngs::SmallRng;
        use rand::{RngExt, SeedableRng};
        use rand_distr::StandardNormal;
        // 400 times 2 chains of 500 sticky draws: z-scores of the three estimates must have standard deviation about 1.
        let mut rng = SmallRng::seed_from_u64(2);
        let a: f64 = 0.6;
        let sd = (1.0 - a * a).powf(-0.5);
        let mut squares = [0.0; 3];
        let repeats = 400;
        for _ in 0..repeats {
            let chains: Vec<Vec<f64>> = (0..2)
                .map(|_| {
                    let mut x = sd * rng.sample::<f64, _>(StandardNormal);
                    let mut step = || {
                        x = a * x + rng.sample::<f64, _>(StandardNormal);
                        x
                    };
                    (0..500).map(|_| step()).collect()
                })
                .collect();
            let summary = super::super::summarise(&chains);
            squares[0] += (summary.mean / summary.mcse_mean).powi(2);
            squares[1] += ((summary.sd - sd) / summary.mcse_sd).powi(2);
            squares[2] += ((summary.q95 - 1.6448536269514722 * sd) / mcse_quantile(&chains, 0.95)).powi(2);
        }
        for (which, sum) in squares.iter().enumerate() {
            // χ² with 400 degrees of freedom, 4.5 standard deviations, and 15 % for the noise of the estimated errors.
            let ratio = sum / f64::from(repeats);
            assert!((0.6..1.5).contains(&ratio), "estimate {which}: {ratio}");
        }
    }

    #[test]
    fn nonsense_probabilities_are_unknown() {
        let chain = [[1.0, 2.0, 3.0, 4.0, 5.0, 1.0]];
        for p in [-0.1, 1.1, f64::NAN] {
            assert!(mcse_quantile(&chain, p).is_nan());
        }
    }
}
