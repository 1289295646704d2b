//! What Hamiltonian and Metropolis samplers report of themselves: energies and acceptance rates.

use serde::{Deserialize, Serialize};

use super::chains::{mean, variance};

/// Energy Bayesian fraction of missing information, one a chain:  Σ (E_t − E_{t−1})² / (n−1)  over the variance of E.
///
/// Below 0.3 the momentum refreshes explore the energies too slowly and the tails are suspect. NaN for fewer than 2 draws, for a
/// NaN among them, and for constant energies.
pub fn e_bfmi<C: AsRef<[f64]>>(energies: &[C]) -> Vec<f64> {
    energies
        .iter()
        .map(|chain| {
            let chain = chain.as_ref();
            let steps: Vec<f64> = chain.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).collect();
            if steps.is_empty() { f64::NAN } else { mean(&steps) / variance(chain) }
        })
        .collect()
}

/// Acceptance probabilities, summarised.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Acceptance {
    /// Mean over all draws of all chains.
    pub mean: f64,
    /// Mean of each chain.
    pub per_chain: Vec<f64>,
    /// The lowest of these: a chain that is stuck shows here first.
    pub lowest_chain: f64,
}

/// Summarises acceptance probabilities (or 0/1 outcomes), one slice a chain; NaN where there are none.
pub fn acceptance<C: AsRef<[f64]>>(chains: &[C]) -> Acceptance {
    let per_chain: Vec<f64> = chains.iter().map(|c| mean(c.as_ref())).collect();
    let all: Vec<f64> = chains.iter().flat_map(|c| c.as_ref().iter().copied()).collect();
    let lowest = |low: f64, next: &f64| {
        if next.is_nan() || *next < low { *next } else { low }
    };
    let lowest_chain =
        if per_chain.iter().any(|m| m.is_nan()) || per_chain.is_empty() { f64::NAN } else { per_chain.iter().fold(f64::INFINITY, lowest) };
    Acceptance { mean: mean(&all), per_chain, lowest_chain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fraction_of_missing_information() {
        // Differences 1, 1, −2: mean square 2; variance of 0, 1, 2, 0 is 11/12.
        let got = e_bfmi(&[vec![0.0, 1.0, 2.0, 0.0], vec![1.0], vec![], vec![2.0, 2.0], vec![1.0, f64::NAN, 2.0]]);
        assert!((got[0] - 24.0 / 11.0).abs() < 1e-14);
        assert!(got[1..].iter().all(|v| v.is_nan()), "{got:?}");
    }

    #[test]
    fn acceptance_names_the_stuck_chain() {
        let got = acceptance(&[vec![1.0, 0.5], vec![0.0, 0.0, 0.0]]);
        assert_eq!(got, Acceptance { mean: 0.3, per_chain: vec![0.75, 0.0], lowest_chain: 0.0 });
        let none = acceptance::<Vec<f64>>(&[]);
        assert!(none.mean.is_nan() && none.lowest_chain.is_nan() && none.per_chain.is_empty());
        assert!(acceptance(&[vec![0.5], vec![]]).lowest_chain.is_nan());
    }
}
