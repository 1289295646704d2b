//! From settings and lent data to a fitted model.

use numpy::PyReadonlyArray1;
use pyo3::exceptions::{PyFileExistsError, PyKeyboardInterrupt};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::{Path, PathBuf};
use variegate::answer::Posterior;
use variegate::data::{Dataset, Target};
use variegate::model::{self, Model, RunSettings};
use variegate::run::Observer;

use crate::cluster::{Elsewhere, PythonCluster};
use crate::error::raise;
use crate::features::{Features, Outcomes, Sources, classes};
use crate::fitted::{FittedModel, Trace, trace_of};
use crate::folder::{self, FolderError, Keep, Place};
use crate::settings::{from_python, settings_to_python};
use crate::watch::Watch;

/// What a fit gives.
pub struct FitResult {
    pub posterior: Box<dyn Posterior>,
    pub traces: Vec<Trace>,
    pub seed: u64,
    pub warnings: Vec<String>,
}

/// Fits a model family.
///
/// `x` is a C-contiguous float64 matrix or a tuple (indptr, indices, values, n_columns) of uint64, uint32 and float64 arrays; `y` a tuple
/// of positions (uint32) and names of classes, a tuple of an int8 matrix (1 present, 0 absent, -1 unknown) and names of labels, or a float64
/// matrix of real outcomes, as the settings ask, or None for a model of the rows alone; `sources` a tuple of positions and names of the rows' sources. The interpreter is released during the fit; `progress` is called
/// a few times a second with a list of (chain, sweeps, total, warm_up, finished, objective, components). With `out` the run is kept in that folder, and gone on with if
/// it is there already; `free_seed` lets it keep its own seed then, and `class_type` and `source_type` (integer, real, boolean, text) say what
/// the run remembers labels as.
#[pyfunction]
#[pyo3(signature = (family, settings, x, y=None, *, sources=None, weights=None, columns=Vec::new(), seed=0, free_seed=false, threads=0,
                    block_rows=None, out=None, progress=None, class_type=None, source_type=None))]
pub fn fit(
    py: Python<'_>,
    family: &str,
    settings: &Bound<'_, PyDict>,
    x: Features<'_>,
    y: Option<Outcomes<'_>>,
    sources: Option<Sources<'_>>,
    weights: Option<PyReadonlyArray1<'_, f64>>,
    columns: Vec<String>,
    seed: u64,
    free_seed: bool,
    threads: usize,
    block_rows: Option<usize>,
    out: Option<PathBuf>,
    progress: Option<Py<PyAny>>,
    class_type: Option<&str>,
    source_type: Option<&str>,
) -> PyResult<FittedModel> {
    let given = from_python(settings)?;
    let model = model::family(family).and_then(|f| f.configure(&given)).map_err(raise)?;
    let data = Dataset {
        x: x.matrix()?,
        columns,
        target: y.map_or(Ok(Target::None), |y| y.target())?,
        sources: sources.map(classes).transpose()?,
        weights: weights.map(|w| w.as_slice().map(<[f64]>::to_vec)).transpose()?,
    };
    let run = RunSettings::default().seed(seed).threads(threads).block_rows(block_rows);
    let keep = out.as_deref().map(|path| Keep::new(path, free_seed, class_type, source_type));
    let mut watch = Watch::new(progress);
    let result = py.detach(|| fit_to(keep, model.as_ref(), Place::Here(&data), &run, &mut watch));
    ended(py, result, watch, out.as_deref())
}

/// The same for rows that are elsewhere: `rows` says where, of what kind they are and how they are cut; see `variegate._dask`.
#[pyfunction]
#[pyo3(signature = (family, settings, rows, *, seed=0, free_seed=false, out=None, progress=None, class_type=None, source_type=None))]
pub fn fit_elsewhere(
    py: Python<'_>,
    family: &str,
    settings: &Bound<'_, PyDict>,
    rows: Elsewhere,
    seed: u64,
    free_seed: bool,
    out: Option<PathBuf>,
    progress: Option<Py<PyAny>>,
    class_type: Option<&str>,
    source_type: Option<&str>,
) -> PyResult<FittedModel> {
    let given = from_python(settings)?;
    let model = model::family(family).and_then(|f| f.configure(&given)).map_err(raise)?;
    let keep = out.as_deref().map(|path| Keep::new(path, free_seed, class_type, source_type));
    let mut watch = Watch::new(progress).giving_up(rows.give_up.clone_ref(py));
    let cluster = PythonCluster::new(rows)?;
    let run = RunSettings::default().seed(seed);
    let result = py.detach(|| fit_to(keep, model.as_ref(), Place::Elsewhere(&cluster), &run, &mut watch));
    // what Python raised says more than that something was raised
    match (result, cluster.exception()) {
        (Err(_), Some(exception)) if !watch.interrupted() => Err(exception),
        (result, _) => ended(py, result, watch, out.as_deref()),
    }
}

/// Goes on from a fitted model with further rows, told as those of [`fit`]; with `sets`, labels that occur in no row are absent and not
/// unknown.
#[pyfunction]
#[pyo3(signature = (earlier, settings, x, y, *, sets=false, columns=Vec::new(), seed=0, threads=0, block_rows=None, progress=None))]
pub fn fit_more(
    py: Python<'_>,
    earlier: &FittedModel,
    settings: &Bound<'_, PyDict>,
    x: Features<'_>,
    y: Option<Outcomes<'_>>,
    sets: bool,
    columns: Vec<String>,
    seed: u64,
    threads: usize,
    block_rows: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<FittedModel> {
    let given = from_python(settings)?;
    let earlier = earlier.posterior();
    let model = model::family(earlier.origin().family).and_then(|f| f.configure(&given)).map_err(raise)?;
    let target = y.map_or(Ok(Target::None), |y| y.target())?;
    let data = model::arranged(Dataset { x: x.matrix()?, columns, target, sources: None, weights: None }, earlier, sets);
    let run = RunSettings::default().seed(seed).threads(threads).block_rows(block_rows);
    let mut watch = Watch::new(progress);
    let result = py.detach(|| {
        let fitted = model::fit_more(model.as_ref(), earlier, data, &run, &mut watch)?;
        let traces = fitted.kept.chains.iter().map(|c| trace_of(&c.trace)).collect();
        Ok(FitResult { posterior: fitted.posterior, traces, seed: run.seed, warnings: fitted.warnings })
    });
    ended(py, result, watch, None)
}

/// Fits in memory, or in a folder.
fn fit_to(
    keep: Option<Keep<'_>>,
    model: &dyn Model,
    place: Place<'_>,
    run: &RunSettings,
    observer: &mut dyn Observer,
) -> std::result::Result<FitResult, FolderError> {
    if let Some(keep) = keep {
        return keep.fit(model, place, run, observer);
    }
    let fitted = match place {
        Place::Here(data) => model::fit(model, data, run, observer)?,
        Place::Elsewhere(cluster) => model::fit_on(model, cluster, run, observer)?,
    };
    let traces = fitted.kept.chains.iter().map(|c| trace_of(&c.trace)).collect();
    Ok(FitResult { posterior: fitted.posterior, traces, seed: run.seed, warnings: fitted.warnings })
}

/// The fitted model, or why there is none.
fn ended(py: Python<'_>, result: std::result::Result<FitResult, FolderError>, watch: Watch, out: Option<&Path>) -> PyResult<FittedModel> {
    if let Some(exception) = watch.exception() {
        let kept: String = match out {
            None => "the fit was stopped and nothing of it is kept (give `out` a folder to be able to go on)".into(),
            Some(path) => {
                format!("the fit was stopped and saved in `{}`: `fit` again with the same data and settings goes on", path.display())
            }
        };
        // an interrupt has nothing of its own to say; what a progress callback raised stays as it is
        return Err(if exception.is_instance_of::<PyKeyboardInterrupt>(py) { PyKeyboardInterrupt::new_err(kept) } else { exception });
    }
    match result {
        Ok(result) => Ok(FittedModel::new(result)),
        Err(FolderError::Taken(message)) => Err(PyFileExistsError::new_err(message)),
        Err(FolderError::Other(error)) => Err(raise(error)),
    }
}

/// The fitted model of a run directory, its family, the settings it was fitted with, and the types of classes and sources, where it knows
/// them.
#[pyfunction]
pub fn read_run<'py>(
    py: Python<'py>,
    path: PathBuf,
) -> PyResult<(FittedModel, String, Bound<'py, PyDict>, (Option<&'static str>, Option<&'static str>))> {
    let (record, result) = py.detach(|| folder::read(&path)).map_err(raise)?;
    let settings = settings_to_python(py, &record.model)?;
    let types = (record.class_type.map(|t| t.name()), record.source_type.map(|t| t.name()));
    Ok((FittedModel::new(result), record.family, settings, types))
}
