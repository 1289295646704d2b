//! Convergence diagnostics of Markov chains, in the definitions of Vehtari et al. (2021) as ArviZ computes them.
//!
//! Draws of one scalar quantity are given as chains: a slice with one slice of draws a chain, all of the same length
//! (`&[Vec<f64>]` or `&[&[f64]]`). Fewer than 4 draws, chains of different lengths and draws with a NaN in them give NaN, not an
//! error: a diagnostic that cannot be computed is unknown.
//!
//! | file | what it is |
//! |---|---|
//! | [`r_hat()`] | rank-normalised split R-hat |
//! | [`ess`] | effective sample sizes: bulk, tail, mean, sd, quantile |
//! | [`mcse`] | Monte Carlo standard errors of mean, sd and quantiles |
//! | [`energy`] | E-BFMI of Hamiltonian samplers, acceptance rates |
//! | [`psis`] | leave-one-out predictive density by Pareto-smoothed importance sampling |
//! | [`summary`] | all of it for one quantity |
//! | [`convergence()`] | the verdict in words |
//!
//! ```
//! use variegate::diagnostics::{convergence, summarise};
//!
//! // Two chains that sit in different places.
//! let wave = |centre: f64| (0..200).map(|i| centre + f64::sin(2.3 * f64::from(i))).collect::<Vec<_>>();
//! let summary = summarise(&[wave(0.0), wave(5.0)]);
//! assert!(summary.r_hat > 1.5);
//! let verdict = convergence([("mean", &summary)], 2);
//! assert!(!verdict.converged && verdict.sentences[0].contains("R-hat"));
//! ```

mod autocovariance;
mod beta_quantile;
mod chains;
mod convergence;
pub mod energy;
pub mod ess;
pub mod mcse;
pub mod normal_quantile;
pub mod psis;
mod r_hat;
pub mod summary;

pub(crate) use beta_quantile::beta_cdf;
pub(crate) use chains::sorted_quantile;
pub use chains::{by_chain, quantile};
pub use convergence::{Convergence, ESS_PER_CHAIN, R_HAT_LIMIT, convergence};
pub use energy::{Acceptance, acceptance, e_bfmi};
pub use ess::{ess_bulk, ess_mean, ess_quantile, ess_sd, ess_tail};
pub use mcse::{mcse_mean, mcse_quantile, mcse_sd};
pub use psis::{K_LIMIT, Loo, RowLoo};
pub use r_hat::r_hat;
pub use summary::{Summary, summarise};

#[cfg(test)]
mod reference_tests;
