//! Reusable inference algorithms that know nothing of any model.
//!
//! | file | what it is |
//! |---|---|
//! | [`assignment`] | the best pairing of two sets |
//! | [`lbfgs`] | limited-memory quasi-Newton minimisation of an objective that may fail |
//! | [`mod@slice`] | univariate slice sampling |
//! | [`elliptical_slice`] | slice sampling under a Gaussian base distribution, free of tuning |
//! | [`geodesic`] | Hamiltonian steps on products of spheres and lines |
//! | [`dual_averaging`] | step sizes that reach a target acceptance |
//! | [`robbins_monro`] | decreasing step-size schedules, and a proposal scale adapted by one |
//! | `k_means` | clusters of points, for starts |
//! | [`finite_difference`] | numerical gradients, to check analytic ones against |

pub mod assignment;
pub mod dual_averaging;
pub mod elliptical_slice;
pub mod finite_difference;
pub mod geodesic;
mod k_means;
pub mod lbfgs;
mod line_search;
pub mod robbins_monro;
pub mod slice;

pub(crate) use k_means::k_means;

use std::fmt;

use crate::{Error, Result};

/// `Ok` if `holds`, else an error that says what `name` must be.
pub(crate) fn require(holds: bool, name: &str, value: impl fmt::Display, allowed: &str) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::setting(name, value, allowed)) }
}
