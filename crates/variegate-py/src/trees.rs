//! Trees of rows: what a fitted model that groups rows says of them and of others.

use numpy::{PyArray1, PyArrayDyn, PyArrayMethods, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::collections::BTreeMap;
use variegate::answer::{ClusterTree, WhichTree};
use variegate::data::Dataset;
use variegate::score;

use crate::error::raise;
use crate::features::Features;
use crate::fitted::{FittedModel, array};

fn tree_of(py: Python<'_>, model: &FittedModel, which: &str) -> PyResult<ClusterTree> {
    let which: WhichTree = which.parse().map_err(raise)?;
    py.detach(|| model.posterior().clusters().and_then(|c| c.tree(which))).map_err(raise)
}

/// A tree ("point", "binder" or "best"): `levels`, `loss` (None for a draw), names of `components`, and `nodes`, dictionaries with `id`,
/// `parent`, `level`, `rows`, `weights`, and `cohesion`, `separation` and `support` where these are known.
#[pyfunction]
#[pyo3(signature = (model, which="point"))]
pub fn tree_nodes<'py>(py: Python<'py>, model: &FittedModel, which: &str) -> PyResult<Bound<'py, PyDict>> {
    let tree = tree_of(py, model, which)?;
    let nodes = PyList::empty(py);
    for node in tree.nodes() {
        let one = PyDict::new(py);
        one.set_item("id", node.id)?;
        one.set_item("parent", node.parent)?;
        one.set_item("level", node.level)?;
        one.set_item("rows", PyArray1::from_vec(py, node.rows.iter().map(|&i| i as i64).collect()))?;
        one.set_item("weights", PyArray1::from_slice(py, node.weights))?;
        let known = node.credibility.map(|c| c.map(Some)).unwrap_or_default();
        for (name, value) in ["cohesion", "separation", "support"].into_iter().zip(known) {
            one.set_item(name, value)?;
        }
        nodes.append(one)?;
    }
    let out = PyDict::new(py);
    out.set_item("levels", tree.levels())?;
    out.set_item("loss", tree.loss)?;
    out.set_item("components", tree.components.clone())?;
    out.set_item("nodes", nodes)?;
    Ok(out)
}

/// A tree as text in the format "newick", "json", "dot" or "svg", with names of rows, or numbers from 1. With `merge` nodes without siblings are left
/// out.
#[pyfunction]
#[pyo3(signature = (model, which, format, names=None, merge=false))]
pub fn tree_text(
    py: Python<'_>,
    model: &FittedModel,
    which: &str,
    format: &str,
    names: Option<Vec<String>>,
    merge: bool,
) -> PyResult<String> {
    let mut tree = tree_of(py, model, which)?;
    if let Some(names) = names {
        tree = tree.named(names).map_err(raise)?;
    }
    if merge {
        tree = tree.merged();
    }
    tree.written(format).map_err(raise)
}

/// A tree as SciPy's linkage.
#[pyfunction]
#[pyo3(signature = (model, which="point"))]
pub fn tree_linkage<'py>(py: Python<'py>, model: &FittedModel, which: &str) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
    let linkage = tree_of(py, model, which)?.linkage();
    array(py, &[linkage.len(), 4], linkage.concat())
}

/// Number of the node of each row of the fit at each level.
#[pyfunction]
#[pyo3(signature = (model, which="point"))]
pub fn tree_labels<'py>(py: Python<'py>, model: &FittedModel, which: &str) -> PyResult<Bound<'py, PyArrayDyn<i64>>> {
    let tree = tree_of(py, model, which)?;
    let labels: Vec<i64> = tree.labels().into_iter().map(i64::from).collect();
    PyArray1::from_vec(py, labels).reshape(&[tree.names().len(), tree.levels()][..])
}

/// Probability that two rows of the fit share their node of a level (from 1).
#[pyfunction]
pub fn tree_co_occurrence<'py>(py: Python<'py>, model: &FittedModel, level: usize) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
    let (rows, found) = py
        .detach(|| {
            let clusters = model.posterior().clusters()?;
            Ok((clusters.rows(), clusters.co_occurrence(level)?))
        })
        .map_err(raise)?;
    array(py, &[rows, rows], found)
}

/// Where rows go: `place` (the lowest node of the tree on each path), `path` (node at each level, -1 where it is new), `through` (probability of
/// each node), `new` (probability at each level that the node is new), and how many codes were `unknown`.
#[pyfunction]
#[pyo3(signature = (model, x, which="point"))]
pub fn tree_place<'py>(py: Python<'py>, model: &FittedModel, x: Features<'_>, which: &str) -> PyResult<Bound<'py, PyDict>> {
    let data = model.named(Dataset::new(x.matrix()?));
    let which: WhichTree = which.parse().map_err(raise)?;
    let found = py.detach(|| model.posterior().clusters().and_then(|c| c.place(&data, which))).map_err(raise)?;
    let rows = data.rows();
    let path: Vec<i64> = found.path.iter().map(|node| node.map_or(-1, |z| z as i64)).collect();
    let out = PyDict::new(py);
    out.set_item("place", PyArray1::from_vec(py, found.place.iter().map(|&z| z as i64).collect()))?;
    out.set_item("path", PyArray1::from_vec(py, path).reshape(&[rows, found.levels][..])?)?;
    out.set_item("through", array(py, &[rows, found.nodes], found.through)?)?;
    out.set_item("new", array(py, &[rows, found.levels], found.new)?)?;
    out.set_item("unknown", found.unknown)?;
    Ok(out)
}

/// Scores of the tree of a fit by their names, each of the tree, of the draws on average, and the share of draws that have it. Distances need the
/// rows of the fit, F-measures and purity their classes (-1 where one is not known).
#[pyfunction]
#[pyo3(signature = (model, which="point", x=None, classes=None))]
pub fn tree_scores(
    py: Python<'_>,
    model: &FittedModel,
    which: &str,
    x: Option<Features<'_>>,
    classes: Option<PyReadonlyArray1<'_, i64>>,
) -> PyResult<BTreeMap<String, (f64, f64, f64)>> {
    let which: WhichTree = which.parse().map_err(raise)?;
    let data = x.as_ref().map(|x| x.matrix().map(|x| model.named(Dataset::new(x)))).transpose()?;
    let classes: Option<Vec<Option<u32>>> =
        classes.map(|c| Ok::<_, PyErr>(c.as_slice()?.iter().map(|&c| u32::try_from(c).ok()).collect())).transpose()?;
    let scores = py
        .detach(|| {
            let clusters = model.posterior().clusters()?;
            score::tree_scores(clusters, which, data.as_ref(), classes.as_deref())
        })
        .map_err(raise)?;
    Ok(scores.into_iter().map(|s| (s.name, (s.tree, s.mean, s.defined))).collect())
}
