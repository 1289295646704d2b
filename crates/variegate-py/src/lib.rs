//! `variegate._core`: the Rust side of the Python package, as thin as it can be.
//!
//! Python checks and encodes what users give (`python/variegate`); here NumPy memory is lent to the library, the interpreter is
//! released while it works, and results go back as arrays. Nothing statistical happens on either side of this boundary.

mod cluster;
mod diagnostics;
mod error;
mod features;
mod fit;
mod fitted;
mod folder;
mod settings;
mod trees;
mod watch;

use pyo3::prelude::*;

#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::cluster::{HeldRows, RowsBuilder, Worker, machine, usual_block_rows};
    #[pymodule_export]
    use crate::diagnostics::{e_bfmi, ess_bulk, ess_mean, ess_tail, mcse_mean, mcse_quantile, mcse_sd, r_hat};
    #[pymodule_export]
    use crate::fit::{fit, fit_elsewhere, fit_more, read_run};
    #[pymodule_export]
    use crate::fitted::FittedModel;
    #[pymodule_export]
    use crate::settings::{families, family_info};
    #[pymodule_export]
    use crate::trees::{tree_co_occurrence, tree_labels, tree_linkage, tree_nodes, tree_place, tree_scores, tree_text};

    #[pymodule_export]
    #[allow(non_upper_case_globals)] // Python's name for it
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
