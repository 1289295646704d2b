//! Reusable inference algorithms that know nothing of any model.
//!
//! | file | what it is |
//! |---|---|
//! | [`lbfgs`] | limited-memory quasi-Newton minimisation of an objective that may fail |
//! | [`slice`] | univariate slice sampling |
//! | [`dual_averaging`] | step sizes that reach a target acceptance |
//! | [`robbins_monro`] | decreasing step-size schedules, and a proposal scale adapted by one |
//! | [`finite_difference`] | numerical gradients, to check analytic ones against |

pub mod dual_averaging;
pub mod finite_difference;
pub mod lbfgs;
mod line_search;
pub mod robbins_monro;
pub mod slice;

use std::fmt;

/// A setting of an algorithm that is outside what the algorithm allows.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{setting} is {value}, but {allowed}")]
pub struct InvalidSetting {
    /// Name of the setting, as users know it.
    pub setting: &'static str,
    /// The value that was given, as text.
    pub value: String,
    /// What would have been allowed, as the end of a sentence ("it must be positive").
    pub allowed: &'static str,
}

impl InvalidSetting {
    /// Refuses `value` for `setting`; `allowed` reads like "it must be positive".
    pub fn new(setting: &'static str, value: impl fmt::Display, allowed: &'static str) -> Self {
        Self { setting, value: value.to_string(), allowed }
    }
}

/// `Ok` if `holds`, else the refusal of `value` for `setting`.
pub(crate) fn require(holds: bool, setting: &'static str, value: impl fmt::Display, allowed: &'static str) -> Result<(), InvalidSetting> {
    if holds { Ok(()) } else { Err(InvalidSetting::new(setting, value, allowed)) }
}
