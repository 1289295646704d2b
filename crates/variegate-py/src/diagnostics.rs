//! Convergence diagnostics of draws given as a (chain, draw) array.

use numpy::{PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use variegate::diagnostics as d;

fn chains<'a>(draws: &'a PyReadonlyArray2<'_, f64>) -> PyResult<Vec<&'a [f64]>> {
    let n = draws.shape()[1];
    if !draws.is_c_contiguous() || n == 0 {
        return Err(PyValueError::new_err("draws must be a C-contiguous (chain, draw) array with at least one draw"));
    }
    Ok(draws.as_slice()?.chunks_exact(n).collect())
}

macro_rules! diagnostic {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[pyfunction]
        pub fn $name(draws: PyReadonlyArray2<'_, f64>) -> PyResult<f64> {
            Ok(d::$name(&chains(&draws)?))
        }
    };
}

diagnostic! {
    /// Rank-normalised split R-hat.
    r_hat
}
diagnostic! {
    /// Effective sample size of the bulk.
    ess_bulk
}
diagnostic! {
    /// Effective sample size of the tails.
    ess_tail
}
diagnostic! {
    /// Effective sample size of the mean.
    ess_mean
}
diagnostic! {
    /// Monte Carlo standard error of the mean.
    mcse_mean
}
diagnostic! {
    /// Monte Carlo standard error of the standard deviation.
    mcse_sd
}

/// Monte Carlo standard error of the quantile at probability `p`.
#[pyfunction]
pub fn mcse_quantile(draws: PyReadonlyArray2<'_, f64>, p: f64) -> PyResult<f64> {
    Ok(d::mcse_quantile(&chains(&draws)?, p))
}

/// Energy Bayesian fraction of missing information of each chain.
#[pyfunction]
pub fn e_bfmi(energy: PyReadonlyArray2<'_, f64>) -> PyResult<Vec<f64>> {
    Ok(d::e_bfmi(&chains(&energy)?))
}
