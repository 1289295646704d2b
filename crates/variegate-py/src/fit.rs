//! From settings and lent data to a fitted model.

use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use variegate::data::{Classes, Dataset, Target};
use variegate::model::{self, RunSettings};

use crate::error::raise;
use crate::features::Features;
use crate::fitted::{FittedModel, trace_of};
use crate::settings::from_python;
use crate::watch::Watch;

/// Fits a model family.
///
/// `x` is a C-contiguous float64 matrix or a tuple (indptr, indices, values, n_columns) of uint64, uint32 and float64 arrays; `codes`
/// are positions in `classes`. The interpreter is released during the fit; `progress` is called a few times a second with a list of
/// (chain, sweeps, total, warm_up, finished, objective, components).
#[pyfunction]
#[pyo3(signature = (family, settings, x, codes, classes, *, weights=None, columns=Vec::new(), seed=0, threads=0, block_rows=None, progress=None))]
pub fn fit(
    py: Python<'_>,
    family: &str,
    settings: &Bound<'_, PyDict>,
    x: Features<'_>,
    codes: PyReadonlyArray1<'_, u32>,
    classes: Vec<String>,
    weights: Option<PyReadonlyArray1<'_, f64>>,
    columns: Vec<String>,
    seed: u64,
    threads: usize,
    block_rows: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<FittedModel> {
    let given = from_python(settings)?;
    let model = model::family(family).and_then(|f| f.configure(&given)).map_err(raise)?;
    let classes = Classes { codes: codes.as_slice()?.to_vec(), names: classes };
    let data = Dataset {
        x: x.matrix()?,
        columns,
        target: Target::Classes(classes),
        sources: None,
        weights: weights.map(|w| w.as_slice().map(<[f64]>::to_vec)).transpose()?,
    };
    let run = RunSettings { seed, threads, block_rows, ..RunSettings::default() };
    let mut watch = Watch::new(progress);
    let fitted = py.detach(|| model::fit(model.as_ref(), &data, &run, &mut watch));
    if let Some(exception) = watch.exception(py, "the fit was stopped and nothing of it was kept; give `out` a folder to be able to go on") {
        return Err(exception);
    }
    let fitted = fitted.map_err(raise)?;
    Ok(FittedModel::new(fitted.posterior, fitted.kept.chains.iter().map(|c| trace_of(&c.trace)).collect(), seed, fitted.warnings))
}
