//! A fitted model as Python holds it.

use numpy::{PyArray1, PyArrayDyn, PyArrayMethods, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use std::sync::OnceLock;
use variegate::data::Dataset;
use variegate::model::{self, Posterior, Summary};
use variegate::run::Report;

use crate::error::raise;
use crate::features::Features;
use crate::fit::Outcome;

/// Named figures of every sweep of a chain: `sweep`, `objective`, and what else the program reports.
pub type Trace = Vec<(String, Vec<f64>)>;

/// The columns of a trace. Every sweep of a program reports the same figures; one that is missing is NaN.
pub fn trace_of(sweeps: &[(u64, Report)]) -> Trace {
    let mut columns: Trace = vec![
        ("sweep".into(), sweeps.iter().map(|s| s.0 as f64).collect()),
        ("objective".into(), sweeps.iter().map(|s| s.1.objective).collect()),
    ];
    for (name, _) in sweeps.last().map_or(&[][..], |s| &s.1.extras) {
        let figure = |r: &Report| r.extras.iter().find(|e| e.0 == *name).map_or(f64::NAN, |e| e.1);
        columns.push((name.clone(), sweeps.iter().map(|s| figure(&s.1)).collect()));
    }
    columns
}

/// A fitted model: predicts, summarises, and knows the way it came.
#[pyclass(frozen, module = "variegate._core")]
pub struct FittedModel {
    posterior: Box<dyn Posterior>,
    traces: Vec<Trace>,
    /// Seed of the fit.
    #[pyo3(get)]
    seed: u64,
    /// What the user should know about data and fit.
    #[pyo3(get)]
    warnings: Vec<String>,
    summary: OnceLock<Summary>,
}

impl FittedModel {
    pub fn new(outcome: Outcome) -> Self {
        let Outcome { posterior, traces, seed, warnings } = outcome;
        Self { posterior, traces, seed, warnings, summary: OnceLock::new() }
    }
}

#[pymethods]
impl FittedModel {
    /// Name of the model family.
    #[getter]
    fn family(&self) -> &str {
        self.posterior.family()
    }

    /// Names of the classes.
    #[getter]
    fn classes(&self) -> Vec<String> {
        self.posterior.classes().to_vec()
    }

    /// Names of the columns; empty if they had none.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.posterior.columns().to_vec()
    }

    /// Number of columns.
    #[getter]
    fn width(&self) -> usize {
        self.posterior.width()
    }

    /// Words that `method` of `predict` may be; the first is the default.
    #[getter]
    fn methods(&self) -> Vec<&str> {
        self.posterior.methods().to_vec()
    }

    /// Class probabilities, one row a row of `x`, and their posterior standard deviations where the method gives them.
    #[pyo3(signature = (x, method=""))]
    fn predict<'py>(
        &self,
        py: Python<'py>,
        x: Features<'_>,
        method: &str,
    ) -> PyResult<(Bound<'py, PyArrayDyn<f64>>, Option<Bound<'py, PyArrayDyn<f64>>>)> {
        let data = Dataset::new(x.matrix()?);
        let shape = [data.rows(), self.posterior.classes().len()];
        let found = py.detach(|| self.posterior.predict(&data, method)).map_err(raise)?;
        Ok((array(py, &shape, found.probability)?, found.deviation.map(|d| array(py, &shape, d)).transpose()?))
    }

    /// What was found: `facts` (pairs), `headings`, `rows` (name and numbers), `converged`, `notes`.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let summary = py.detach(|| self.summary.get_or_init(|| self.posterior.summary()));
        let out = PyDict::new(py);
        out.set_item("facts", summary.facts.clone())?;
        out.set_item("headings", summary.headings.clone())?;
        out.set_item("rows", summary.rows.clone())?;
        out.set_item("converged", summary.converged)?;
        out.set_item("notes", summary.notes.clone())?;
        Ok(out)
    }

    /// Named arrays of the posterior.
    fn arrays<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let out = PyDict::new(py);
        for a in py.detach(|| self.posterior.arrays()) {
            out.set_item(a.name, array(py, &a.shape, a.values)?)?;
        }
        Ok(out)
    }

    /// One dictionary a chain: `sweep`, `objective`, and what else the program reports of every sweep.
    fn trace<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let chains = PyList::empty(py);
        for trace in &self.traces {
            let columns = PyDict::new(py);
            for (name, values) in trace {
                columns.set_item(name, PyArray1::from_slice(py, values))?;
            }
            chains.append(columns)?;
        }
        Ok(chains)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let posterior = py.detach(|| self.posterior.save()).map_err(raise)?;
        let parts = (self.family(), PyBytes::new(py, &posterior), self.trace(py)?, self.seed, self.warnings.clone());
        Ok((py.get_type::<Self>().getattr("_restore")?, parts.into_pyobject(py)?))
    }

    /// The counterpart of pickling.
    #[staticmethod]
    fn _restore(
        py: Python<'_>,
        family: &str,
        posterior: &[u8],
        trace: Vec<Bound<'_, PyDict>>,
        seed: u64,
        warnings: Vec<String>,
    ) -> PyResult<Self> {
        let column = |name: Bound<'_, PyAny>, values: Bound<'_, PyAny>| -> PyResult<(String, Vec<f64>)> {
            Ok((name.extract()?, values.extract::<PyReadonlyArray1<'_, f64>>()?.as_slice()?.to_vec()))
        };
        let traces = trace.iter().map(|c| c.iter().map(|(n, v)| column(n, v)).collect()).collect::<PyResult<_>>()?;
        let posterior = py.detach(|| model::family(family).and_then(|f| f.load(posterior))).map_err(raise)?;
        Ok(Self::new(Outcome { posterior, traces, seed, warnings }))
    }

    fn __repr__(&self) -> String {
        format!("<FittedModel: {}, {} columns, {} classes>", self.family(), self.width(), self.posterior.classes().len())
    }
}

/// A NumPy array that takes over the values.
fn array<'py>(py: Python<'py>, shape: &[usize], values: Vec<f64>) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
    PyArray1::from_vec(py, values).reshape(shape)
}
