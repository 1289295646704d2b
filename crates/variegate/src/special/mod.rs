//! Special functions to double accuracy over their whole domain.
//!
//! Every function is tested against reference values computed in 60-digit arithmetic (`tools/special_tables.py`); the
//! largest errors found are in the book's chapter on special functions, and a test keeps that page honest.

mod bessel;
pub(crate) mod branchless;
#[rustfmt::skip] // generated, one row a line
pub(crate) mod coefficients;
mod gamma;
pub(crate) mod lanes;
mod logistic;
mod normal;
pub(crate) mod single;
mod unit;

#[cfg(test)]
mod accuracy;

pub use bessel::{bessel_ratio, ln_bessel_i, ln_bessel_i_scaled};
pub(crate) use bessel::{expansion, ln_bessel_series, series_suffices};
pub(crate) use gamma::stirling_correction;
pub use gamma::{digamma, ln_beta, ln_gamma, trigamma};
pub use logistic::{ln_sigmoid, log_sum_exp, log1p_exp, sigmoid};
pub use normal::{ln_norm_cdf, mills_ratio, norm_cdf};
pub(crate) use unit::unit_of;
