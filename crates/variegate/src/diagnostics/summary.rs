//! One scalar quantity, summarised: estimates, their Monte Carlo errors and the diagnostics.

use serde::{Deserialize, Serialize};

use super::chains::{mean, sorted_quantile};
use super::{ess_bulk, ess_tail, mcse_mean, mcse_sd, r_hat};
use crate::special::unit_of;

/// Estimates and diagnostics of one quantity over all chains.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Posterior mean.
    pub mean: f64,
    /// Posterior standard deviation (divisor n − 1).
    pub sd: f64,
    /// Monte Carlo standard error of the mean.
    pub mcse_mean: f64,
    /// Monte Carlo standard error of the standard deviation.
    pub mcse_sd: f64,
    /// 5 % quantile.
    pub q5: f64,
    /// Median.
    pub q50: f64,
    /// 95 % quantile.
    pub q95: f64,
    /// Effective sample size for the centre.
    pub ess_bulk: f64,
    /// Effective sample size for the 5 % and 95 % quantiles.
    pub ess_tail: f64,
    /// Rank-normalised split R-hat.
    pub r_hat: f64,
}

/// Summarises the draws of one quantity, one slice a chain. What cannot be computed is NaN.
pub fn summarise<C: AsRef<[f64]>>(chains: &[C]) -> Summary {
    let mut all: Vec<f64> = chains.iter().flat_map(|c| c.as_ref().iter().copied()).collect();
    let constant = all.iter().all(|v| *v == all[0]);
    let centre = if constant && !all.is_empty() { all[0] } else { mean(&all) };
    let unit = unit_of(all.iter().copied());
    let squares: f64 = all.iter().map(|v| (v - centre) / unit).map(|v| v * v).sum();
    let sd = unit * (squares / (all.len() as f64 - 1.0)).sqrt();
    let unknown = all.iter().any(|v| v.is_nan());
    all.sort_by(f64::total_cmp);
    let quantile = |p: f64| {
        if unknown { f64::NAN } else { sorted_quantile(&all, p) }
    };
    Summary {
        mean: centre,
        sd: if all.len() < 2 { f64::NAN } else { sd },
        mcse_mean: mcse_mean(chains),
        mcse_sd: mcse_sd(chains),
        q5: quantile(0.05),
        q50: quantile(0.5),
        q95: quantile(0.95),
        ess_bulk: ess_bulk(chains),
        ess_tail: ess_tail(chains),
        r_hat: r_hat(chains),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns of extreme scale have a deviation: that of the same draws at scale 1, to the bit.
    #[test]
    fn extreme_scales_keep_their_deviation() {
        let draws: Vec<f64> = (0..40).map(|i| ((i * 29) % 31) as f64 - 7.0).collect();
        let plain = summarise(&[&draws[..20], &draws[20..]]);
        for unit in [2f64.powi(-700), 2f64.powi(700)] {
            let scaled: Vec<f64> = draws.iter().map(|v| v * unit).collect();
            let found = summarise(&[&scaled[..20], &scaled[20..]]);
            assert_eq!((found.sd, found.mcse_mean, found.mcse_sd), (plain.sd * unit, plain.mcse_mean * unit, plain.mcse_sd * unit));
            assert_eq!((found.ess_bulk, found.r_hat), (plain.ess_bulk, plain.r_hat));
        }
    }

    #[test]
    fn few_or_no_draws_do_not_panic() {
        let none = summarise::<Vec<f64>>(&[]);
        assert!(none.mean.is_nan() && none.sd.is_nan() && none.q50.is_nan() && none.r_hat.is_nan());
        let one = summarise(&[[2.5]]);
        assert_eq!((one.mean, one.q5, one.q95), (2.5, 2.5, 2.5));
        assert!(one.sd.is_nan() && one.ess_bulk.is_nan());
        let broken = summarise(&[[1.0, f64::NAN, 2.0, 3.0, 4.0]]);
        assert!(broken.mean.is_nan() && broken.q50.is_nan() && broken.ess_tail.is_nan());
    }

    #[test]
    fn constants_are_exact() {
        let summary = summarise(&[[0.1; 7], [0.1; 7]]);
        assert_eq!((summary.mean, summary.sd, summary.mcse_mean), (0.1, 0.0, 0.0));
        assert_eq!((summary.ess_bulk, summary.ess_tail), (12.0, 12.0));
        assert!(summary.r_hat.is_nan() && summary.mcse_sd.is_nan());
    }
}
