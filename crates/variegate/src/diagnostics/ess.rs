//! Effective sample size: how many independent draws would estimate a quantity as well as the chains do.
//!
//! With M chains of N draws, W the mean within-chain variance, V̂⁺ the pooled one and c_t the mean autocovariance,
//!
//! ```text
//! ρ_t = 1 − (W − c_t) / V̂⁺,      τ = −1 + 2 Σ_t ρ_t,      ESS = M N / τ,
//! ```
//!
//! the sum cut where ρ_{2k} + ρ_{2k+1} turns negative and made monotone before (Geyer's initial monotone sequence). τ is at least
//! 1 / log₁₀(M N), which bounds the gain of antithetic chains. Chains are split in half first, so that drift counts
//! against them. Draws that are all equal count in full.

use super::autocovariance::mean_autocovariance;
use super::chains::{Table, sorted_quantile, variance};

/// For the centre of the distribution: from rank-normalised draws. The one to look at first.
pub fn ess_bulk<C: AsRef<[f64]>>(chains: &[C]) -> f64 {
    Table::new(chains, 1).map_or(f64::NAN, |t| ess(&t.split().rank_normalised()))
}

/// For the tails: the smaller of the sizes for the 5 % and the 95 % quantile.
pub fn ess_tail<C: AsRef<[f64]>>(chains: &[C]) -> f64 {
    Table::new(chains, 1).map_or(f64::NAN, |table| {
        let sorted = table.sorted();
        let [low, high] = [0.05, 0.95].map(|p| below(&table, sorted_quantile(&sorted, p)));
        low.min(high)
    })
}

/// For the mean.
pub fn ess_mean<C: AsRef<[f64]>>(chains: &[C]) -> f64 {
    Table::new(chains, 1).map_or(f64::NAN, |t| ess(&t.split()))
}

/// For the standard deviation.
pub fn ess_sd<C: AsRef<[f64]>>(chains: &[C]) -> f64 {
    Table::new(chains, 1).map_or(f64::NAN, |t| ess(&t.squared_deviations().split()))
}

/// For the quantile at probability `p`; NaN unless p lies in [0, 1].
pub fn ess_quantile<C: AsRef<[f64]>>(chains: &[C], p: f64) -> f64 {
    if !(0.0..=1.0).contains(&p) {
        return f64::NAN;
    }
    Table::new(chains, 1).map_or(f64::NAN, |table| below(&table, sorted_quantile(&table.sorted(), p)))
}

/// For the share of draws at or below `cut`.
fn below(table: &Table, cut: f64) -> f64 {
    ess(&table.map(|v| f64::from(v <= cut)).split())
}

/// Differences below this count as none: the number of decimal digits that a double always keeps.
const RESOLUTION: f64 = 1e-15;

/// The size for chains that are split and transformed already.
pub(super) fn ess(table: &Table) -> f64 {
    let (lowest, highest) = table.values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(*v), high.max(*v)));
    let total = (table.chains * table.draws) as f64;
    if highest - lowest < RESOLUTION {
        return total;
    }
    let n = table.draws;
    let draws = n as f64;
    let autocovariance = mean_autocovariance(table);
    let within = autocovariance[0] * draws / (draws - 1.0);
    let mut pooled = within * (draws - 1.0) / draws;
    if table.chains > 1 {
        let means: Vec<f64> = (0..table.chains).map(|c| super::chains::mean(table.chain(c))).collect();
        pooled += variance(&means);
    }
    let rho_at = |lag: usize| 1.0 - (within - autocovariance[lag]) / pooled;

    let mut rho = vec![0.0; n];
    let (mut even, mut odd) = (1.0, rho_at(1));
    (rho[0], rho[1]) = (even, odd);
    // Initial positive sequence: pairs of lags while their sum stays positive.
    let mut t = 1;
    while t + 3 < n && even + odd > 0.0 {
        (even, odd) = (rho_at(t + 1), rho_at(t + 2));
        if even + odd >= 0.0 {
            (rho[t + 1], rho[t + 2]) = (even, odd);
        }
        t += 2;
    }
    // The pair at lags (tail, tail + 1) is the last one looked at; its even lag may still count once.
    let tail = t - 1;
    if even > 0.0 {
        rho[tail] = even;
    }
    // Initial monotone sequence: no pair may exceed the one before it.
    let mut t = 1;
    while t + 3 <= tail {
        let before = rho[t - 1] + rho[t];
        if rho[t + 1] + rho[t + 2] > before {
            (rho[t + 1], rho[t + 2]) = (0.5 * before, 0.5 * before);
        }
        t += 2;
    }
    if rho.iter().any(|r| r.is_nan()) {
        return f64::NAN;
    }
    let tau = -1.0 + 2.0 * rho[..tail].iter().sum::<f64>() + rho[tail];
    total / tau.max(1.0 / total.log10())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn independent_and_sticky_draws() {
        use rand::rngs::SmallRng;
        use rand::{RngExt, SeedableRng};
        let mut rng = SmallRng::seed_from_u64(1);
        let chains: Vec<Vec<f64>> = (0..4).map(|_| (0..2_500).map(|_| rng.random()).collect()).collect();
        for size in [ess_bulk(&chains), ess_tail(&chains), ess_mean(&chains), ess_quantile(&chains, 0.3)] {
            assert!((8_000.0..12_500.0).contains(&size), "{size}");
        }
        // An AR(1) chain with coefficient a has τ = (1 + a) / (1 − a).
        let sticky: Vec<Vec<f64>> = (0..4)
            .map(|_| {
                let mut x = 0.0;
                (0..10_000)
                    .map(|_| {
                        x = 0.8 * x + rng.sample::<f64, _>(rand_distr::StandardNormal);
                        x
                    })
                    .collect()
            })
            .collect();
        let size = ess_mean(&sticky);
        assert!((size / (40_000.0 / 9.0) - 1.0).abs() < 0.15, "{size}");
    }

    #[test]
    fn nonsense_probabilities_are_unknown() {
        let chain = [[1.0, 2.0, 3.0, 4.0, 5.0, 1.0]];
        for p in [-0.1, 1.1, f64::NAN] {
            assert!(ess_quantile(&chain, p).is_nan());
        }
    }
}
