//! Checks that a sampler samples what it claims to: library functions, used by the tests and by `variegate check`.
//!
//! | file | what it asks |
//! |---|---|
//! | [`invariance`] | exact draws in, one step, the same distribution out? The sharpest question |
//! | [`joint`] | does a chain that alternates data and sweeps keep to the prior? Sees what only shows after many sweeps |
//! | [`mod@calibration`] | is the truth ranked uniformly among the draws? Tests the whole way from start and warm-up to draws |
//! | [`generative`] | the joint distribution of a model, for the checks and for `simulate` |
//! | [`suite`] | all of them on one subject, quick or thorough |
//! | [`report`] | what they hand back: named comparisons, each with its verdict in words |
//!
//! To be checked, a sampler needs two small implementations: [`Generative`], which draws unknowns from the prior and data given them
//! (`simulate` draws from it too), and [`Checkable`], which says how unknowns get into and out of the program, and which functions of
//! them to compare. A model that has them is checked with one call, here with little evidence:
//!
//! ```
//! use variegate::check::{CalibrationSettings, Effort, InvarianceSettings, JointSettings};
//! use variegate::prelude::*;
//!
//! # fn main() -> Result<()> {
//! let effort = Effort {
//!     invariance: InvarianceSettings { draws: 500, ..Default::default() },
//!     joint: JointSettings { chains: 16, steps: 20, exact_draws: 500, ..Default::default() },
//!     calibration: CalibrationSettings { data_sets: 100, ..Default::default() },
//! };
//! let model = logistic::Settings::default().prior_precision(2.0).validate()?;
//! for report in model.check(&effort, 1, &mut |_| {})? {
//!     assert!(report.passed, "{report}");
//! }
//! # Ok(())
//! # }
//! ```

pub mod calibration;
pub mod generative;
pub mod invariance;
pub mod joint;
mod moments;
pub mod report;
mod subject;
pub mod suite;
mod tail;

#[cfg(test)]
mod tests;

pub use calibration::{CalibrationSettings, calibration};
pub use generative::Generative;
pub use invariance::{InvarianceSettings, one_step_invariance, sweep_invariance};
pub use joint::{JointSettings, joint_distribution};
pub use report::{CheckReport, Comparison};
pub use subject::{Checkable, Installed, UnknownsOf};
pub use suite::{Effort, Progress, check, check_ranked};
