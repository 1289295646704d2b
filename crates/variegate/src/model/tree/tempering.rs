//! Parallel tempering: several states of one chain, each under a power `tau` of the likelihood and of the margin, that are swapped.
//!
//! Rung r of R samples `prior * (prod_n f(x_n | theta) * Reg)^tau_r` with `tau_r = 0.2^((r - 1)/(R - 1))`: rung 1 the posterior, the others what is
//! flatter and mixes better. After each sweep of all of them neighbours a, b swap their states with probability
//! `min(1, exp((tau_a - tau_b) (E_b - E_a)))`, `E = sum_n ln f(x_n | theta) + ln Reg`: pairs (1, 2), (3, 4), .. and (2, 3), (4, 5), .. in turn.
//! The product of the distributions of all rungs is kept, so rung 1 is the posterior still; it alone is stored as draws.

use serde::{Deserialize, Serialize};

use super::draws::Figures;
use super::program::Chain;
use super::state::State;
use crate::run::{Philox, open01};

/// The power of the hottest rung.
const LEAST: f64 = 0.2;

/// Powers of so many rungs, from 1 down.
pub(crate) fn powers(rungs: usize) -> Vec<f64> {
    (0..rungs).map(|r| if r == 0 { 1.0 } else { LEAST.powf(r as f64 / (rungs - 1) as f64) }).collect()
}

/// The state of a rung above the first, with what belongs to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rung {
    pub(crate) state: State,
    /// What its atoms share: strength or variance.
    pub(crate) shared: Option<f64>,
    pub(crate) figures: Figures,
}

/// How often a swap of the states of two neighbours was tried and accepted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Swaps {
    pub(crate) tried: u64,
    pub(crate) accepted: u64,
}

impl Swaps {
    /// Takes in those of another chain.
    pub(crate) fn add(&mut self, other: Self) {
        self.tried += other.tried;
        self.accepted += other.accepted;
    }

    /// Share that was accepted; NaN where nothing was tried.
    pub(crate) fn rate(self) -> f64 {
        self.accepted as f64 / self.tried as f64
    }
}

/// The log of the ratio with which the states of two rungs, of these powers and E, are swapped.
pub(super) fn ln_ratio(powers: [f64; 2], energies: [f64; 2]) -> f64 {
    (powers[0] - powers[1]) * (energies[1] - energies[0])
}

impl Chain {
    /// Number of rungs.
    pub(crate) fn rungs(&self) -> usize {
        self.hot.len() + 1
    }

    /// Swaps the state of the first rung with that of another one (counted from 0), whatever their densities: also to put that rung to work.
    pub(super) fn exchange(&mut self, rung: usize) {
        let Some(other) = rung.checked_sub(1).and_then(|r| self.hot.get_mut(r)) else { return };
        std::mem::swap(&mut self.state, &mut other.state);
        std::mem::swap(&mut self.figures, &mut other.figures);
        let own = self.kernel.shared();
        if let Some(shared) = other.shared {
            self.kernel.set_shared(shared);
        }
        other.shared = own;
    }

    /// Tries to swap the states of neighbours, those of the first and the second rung in sweeps of odd numbers; `energies` are the E of all
    /// rungs. Gives back how many pairs were swapped, and counts them if it is to.
    pub(super) fn swap_neighbours(&mut self, energies: &[f64], sweep: u64, count: bool, rng: &mut Philox) -> usize {
        let powers = powers(self.rungs());
        self.swaps.resize(self.hot.len(), Swaps::default());
        let mut swapped = 0;
        for a in (usize::from(sweep.is_multiple_of(2))..self.hot.len()).step_by(2) {
            let accepted = open01(rng).ln() < ln_ratio([powers[a], powers[a + 1]], [energies[a], energies[a + 1]]);
            if accepted {
                match a {
                    0 => self.exchange(1),
                    _ => self.hot.swap(a - 1, a),
                }
                swapped += 1;
            }
            if count {
                self.swaps[a].tried += 1;
                self.swaps[a].accepted += u64::from(accepted);
            }
        }
        swapped
    }
}

#[cfg(test)]
mod tests;
