//! A fitted model as Python holds it.

use numpy::{PyArray1, PyArrayDyn, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use std::sync::OnceLock;
use variegate::answer::{Figure, HeldOutEffort, LabelRule, Posterior, Predict, PredictDraws, Summary, known_labels};
use variegate::data::{DataError, Dataset, Matrix, Target};
use variegate::model;
use variegate::run::Report;
use variegate::score::{LabelScores, completion};

use crate::error::raise;
use crate::features::{Features, Outcomes, Sources, with_sources};
use crate::fit::FitResult;

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
    pub fn new(result: FitResult) -> Self {
        let FitResult { posterior, traces, seed, warnings } = result;
        Self { posterior, traces, seed, warnings, summary: OnceLock::new() }
    }

    /// What was found.
    pub fn posterior(&self) -> &dyn Posterior {
        self.posterior.as_ref()
    }

    /// Rows under the names of the columns of the fit, so that an error names the column as its user does.
    pub fn named<'a>(&self, mut data: Dataset<'a>) -> Dataset<'a> {
        if data.x.cols() == self.posterior.columns().len() {
            data.columns = self.posterior.columns().to_vec();
        }
        data
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

    /// Class probabilities, one row a row of `x`, their posterior standard deviations where the method gives them, and with a `level` the
    /// ends of their intervals along a last axis. `draws` is a number or "all"; None takes enough.
    #[pyo3(signature = (x, method="", draws=None, level=None))]
    fn predict<'py>(
        &self,
        py: Python<'py>,
        x: Features<'_>,
        method: &str,
        draws: Option<&str>,
        level: Option<f64>,
    ) -> PyResult<Predicted<'py>> {
        let data = self.named(Dataset::new(x.matrix()?));
        let (rows, classes) = (data.rows(), self.posterior.classes().len());
        let how = Predict { method, draws: predict_draws(draws)?, level };
        let found = py.detach(|| self.posterior.predict_with(&data, &how)).map_err(raise)?;
        let shape = [rows, classes];
        let ends = found.interval.map(|i| i.lower.iter().zip(&i.upper).flat_map(|(l, u)| [*l, *u]).collect());
        Ok((
            array(py, &shape, found.probability)?,
            found.deviation.map(|d| array(py, &shape, d)).transpose()?,
            ends.map(|e| array(py, &[rows, classes, 2], e)).transpose()?,
        ))
    }

    /// Log likelihood of the outcomes of each row under each draw, one draw a row, chain after chain; and the draws of each chain.
    fn row_likelihoods<'py>(
        &self,
        py: Python<'py>,
        x: Features<'_>,
        y: Outcomes<'_>,
    ) -> PyResult<(Bound<'py, PyArrayDyn<f64>>, Vec<usize>)> {
        let data = self.named(with_target(x.matrix()?, Some(y))?);
        let found = py.detach(|| self.posterior.row_likelihoods(&data)).map_err(raise)?;
        let draws = found.lengths.iter().sum();
        Ok((array(py, &[draws, data.rows()], found.ln)?, found.lengths))
    }

    /// Number of real outcomes that are predicted; 0 for a classifier.
    #[getter]
    fn outputs(&self) -> usize {
        self.posterior.outputs()
    }

    /// Distribution of real outcomes: `mean` and `deviation`, one row a row of `x`, `quantiles`, one such array a level, and with `y`
    /// the log density of each row (`ln_density`, else None).
    #[pyo3(signature = (x, levels, method="", y=None, draws=None))]
    fn predict_real<'py>(
        &self,
        py: Python<'py>,
        x: Features<'_>,
        levels: Vec<f64>,
        method: &str,
        y: Option<Outcomes<'_>>,
        draws: Option<&str>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let data = self.named(with_target(x.matrix()?, y)?);
        let shape = [data.rows(), self.posterior.outputs()];
        let how = Predict { method, draws: predict_draws(draws)?, level: None };
        let found = py.detach(|| self.posterior.predict_real_with(&data, &levels, &how)).map_err(raise)?;
        let quantiles = PyList::empty(py);
        for values in found.quantiles {
            quantiles.append(array(py, &shape, values)?)?;
        }
        let out = PyDict::new(py);
        out.set_item("mean", array(py, &shape, found.mean)?)?;
        out.set_item("deviation", array(py, &shape, found.deviation)?)?;
        out.set_item("quantiles", quantiles)?;
        out.set_item("ln_density", found.ln_density.map(|d| PyArray1::from_vec(py, d)))?;
        Ok(out)
    }

    /// Names of the labels of which a set is predicted; none where no sets are.
    #[getter]
    fn labels(&self) -> Vec<String> {
        self.posterior.labels().to_vec()
    }

    /// Words that `rule` of `predict_labels` may be; the first is the default.
    #[getter]
    fn rules(&self) -> Vec<&str> {
        self.posterior.rules().to_vec()
    }

    /// Sets of labels: `probability`, `score` (what labels are ranked by) and `chosen`, one row a row of `x`, and `novelty`, one number a
    /// row. Labels that `y` knows of a row inform its others.
    #[pyo3(signature = (x, rule="", nonempty=false, y=None))]
    fn predict_labels<'py>(
        &self,
        py: Python<'py>,
        x: Features<'_>,
        rule: &str,
        nonempty: bool,
        y: Option<Outcomes<'_>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let how = LabelRule { rule, nonempty, given: y.is_some() };
        let data = self.named(with_target(x.matrix()?, y)?);
        let shape = [data.rows(), self.posterior.labels().len()];
        let found = py.detach(|| self.posterior.predict_labels(&data, &how)).map_err(raise)?;
        let out = PyDict::new(py);
        out.set_item("probability", array(py, &shape, found.probability)?)?;
        out.set_item("score", array(py, &shape, found.score)?)?;
        out.set_item("chosen", PyArray1::from_vec(py, found.chosen).reshape(&shape[..])?)?;
        out.set_item("novelty", PyArray1::from_vec(py, found.novelty))?;
        Ok(out)
    }

    /// How well sets of labels of rows are predicted: every score by its name, None where these rows do not define it, with `rows`,
    /// `known_rows` and `known_entries`.
    #[pyo3(signature = (x, y, rule="", nonempty=false))]
    fn label_scores<'py>(
        &self,
        py: Python<'py>,
        x: Features<'_>,
        y: Outcomes<'_>,
        rule: &str,
        nonempty: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let data = self.named(with_target(x.matrix()?, Some(y))?);
        let labels = self.posterior.labels();
        let how = LabelRule { rule, nonempty, given: false };
        let scored = py.detach(|| {
            let found = self.posterior.predict_labels(&data, &how)?;
            Ok(LabelScores::of(&found, &known_labels(&data, labels)?, labels.len()))
        });
        let scores: LabelScores = scored.map_err(raise)?;
        let out = PyDict::new(py);
        for (name, figure) in scores.figures() {
            out.set_item(name, figure)?;
        }
        for (name, count) in [("rows", scores.rows), ("known_rows", scores.known_rows), ("known_entries", scores.known_entries)] {
            out.set_item(name, count)?;
        }
        Ok(out)
    }

    /// Names of hidden components, and their shares in each row: given the row, or with `y` given its outcome too.
    #[pyo3(signature = (x, y=None))]
    fn responsibilities<'py>(
        &self,
        py: Python<'py>,
        x: Features<'_>,
        y: Option<Outcomes<'_>>,
    ) -> PyResult<(Vec<String>, Bound<'py, PyArrayDyn<f64>>)> {
        let data = self.named(with_target(x.matrix()?, y)?);
        let found = py.detach(|| self.posterior.responsibilities(&data)).map_err(raise)?;
        let shape = [data.rows(), found.names.len()];
        Ok((found.names, array(py, &shape, found.share)?))
    }

    /// Probability that two rows come from the same hidden component, for all pairs of rows.
    fn together<'py>(&self, py: Python<'py>, x: Features<'_>) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
        let data = self.named(Dataset::new(x.matrix()?));
        let found = py.detach(|| self.posterior.together(&data)).map_err(raise)?;
        array(py, &[data.rows(), data.rows()], found)
    }

    /// Names of the sources; empty if rows had none.
    #[getter]
    fn sources(&self) -> Vec<String> {
        self.posterior.sources().to_vec()
    }

    /// Names of factors, and the coordinates of each row in their space.
    #[pyo3(signature = (x, sources=None))]
    fn transform<'py>(
        &self,
        py: Python<'py>,
        x: Features<'_>,
        sources: Option<Sources<'_>>,
    ) -> PyResult<(Vec<String>, Bound<'py, PyArrayDyn<f64>>)> {
        let data = self.named(with_sources(&x, sources)?);
        let found = py.detach(|| self.posterior.transform(&data)).map_err(raise)?;
        let shape = [data.rows(), found.names.len()];
        Ok((found.names, array(py, &shape, found.values)?))
    }

    /// Log probability of held-out rows: `ln_probability`, `error` and `effective` of each, and `joint` of all together.
    #[pyo3(signature = (x, sources=None, *, temperatures=10, runs=4, draws=20))]
    fn held_out<'py>(
        &self,
        py: Python<'py>,
        x: Features<'_>,
        sources: Option<Sources<'_>>,
        temperatures: usize,
        runs: usize,
        draws: usize,
    ) -> PyResult<Bound<'py, PyDict>> {
        let data = self.named(with_sources(&x, sources)?);
        let effort = HeldOutEffort { temperatures, runs, draws };
        let found = py.detach(|| effort.check().and_then(|()| self.posterior.held_out(&data, &effort))).map_err(raise)?;
        let out = PyDict::new(py);
        out.set_item("ln_probability", PyArray1::from_vec(py, found.ln_probability))?;
        out.set_item("error", PyArray1::from_vec(py, found.error))?;
        out.set_item("effective", PyArray1::from_vec(py, found.effective))?;
        out.set_item("joint", found.joint)?;
        Ok(out)
    }

    /// Rows with their missing entries filled in, and the standard deviations of these; 0 elsewhere.
    #[pyo3(signature = (x, sources=None))]
    fn impute<'py>(
        &self,
        py: Python<'py>,
        x: Features<'_>,
        sources: Option<Sources<'_>>,
    ) -> PyResult<(Bound<'py, PyArrayDyn<f64>>, Bound<'py, PyArrayDyn<f64>>)> {
        let data = self.named(with_sources(&x, sources)?);
        let found = py.detach(|| self.posterior.impute(&data)).map_err(raise)?;
        let shape = [data.rows(), data.x.cols()];
        Ok((array(py, &shape, found.values)?, array(py, &shape, found.deviation)?))
    }

    /// Rows as the model sees them: the mean over the draws, and by the likeliest code under the draw that stands for all.
    fn reconstruct<'py>(&self, py: Python<'py>, x: Features<'_>) -> PyResult<(Bound<'py, PyArrayDyn<f64>>, Bound<'py, PyArrayDyn<f64>>)> {
        let data = self.named(Dataset::new(x.matrix()?));
        let found = py.detach(|| self.posterior.reconstruct(&data)).map_err(raise)?;
        let shape = [data.rows(), data.x.cols()];
        Ok((array(py, &shape, found.mean)?, array(py, &shape, found.likeliest)?))
    }

    /// Rows that have these codes, one row of codes a row.
    fn rebuild<'py>(&self, py: Python<'py>, codes: PyReadonlyArray2<'_, f64>) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
        let rows = codes.shape()[0];
        let values = codes.as_slice()?;
        let found = py.detach(|| self.posterior.rebuild(values)).map_err(raise)?;
        array(py, &[rows, self.posterior.width()], found)
    }

    /// Distribution over columns of what is still to come of each row, of which a share `exposure` was seen.
    #[pyo3(signature = (x, exposure, sources=None))]
    fn complete<'py>(
        &self,
        py: Python<'py>,
        x: Features<'_>,
        exposure: f64,
        sources: Option<Sources<'_>>,
    ) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
        let data = self.named(with_sources(&x, sources)?);
        let found = py.detach(|| self.posterior.complete(&data, exposure)).map_err(raise)?;
        array(py, &[data.rows(), data.x.cols()], found)
    }

    /// Document completion: counts that were held back of each row, and their log probability.
    #[pyo3(signature = (x, seed, sources=None))]
    fn completion<'py>(
        &self,
        py: Python<'py>,
        x: Features<'_>,
        seed: u64,
        sources: Option<Sources<'_>>,
    ) -> PyResult<(Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>)> {
        let data = self.named(with_sources(&x, sources)?);
        let found = py.detach(|| completion(self.posterior.as_ref(), &data, seed)).map_err(raise)?;
        Ok((PyArray1::from_vec(py, found.held), PyArray1::from_vec(py, found.ln_probability)))
    }

    /// Places and similarities of the `most` rows of `among` that are most like each query, best first.
    #[pyo3(signature = (queries, among, most, query_sources=None, among_sources=None))]
    fn retrieve<'py>(
        &self,
        py: Python<'py>,
        queries: Features<'_>,
        among: Features<'_>,
        most: usize,
        query_sources: Option<Sources<'_>>,
        among_sources: Option<Sources<'_>>,
    ) -> PyResult<(Bound<'py, PyArrayDyn<i64>>, Bound<'py, PyArrayDyn<f64>>)> {
        let (queries, among) = (with_sources(&queries, query_sources)?, with_sources(&among, among_sources)?);
        let (queries, among) = (self.named(queries), self.named(among));
        let most = most.min(among.rows());
        let found = py.detach(|| self.posterior.retrieve(&queries, &among, most)).map_err(raise)?;
        let shape = [queries.rows(), most];
        let places = found.iter().flatten().map(|f| f.0 as i64).collect();
        let likeness = found.iter().flatten().map(|f| f.1).collect();
        Ok((PyArray1::from_vec(py, places).reshape(&shape[..])?, array(py, &shape, likeness)?))
    }

    /// The structures that were compared, or None: `headings`, `rows` (name and figures, None where unknown), `chosen` (its place),
    /// `criterion`, `reason`.
    fn selection<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(selection) = py.detach(|| self.posterior.selection()) else { return Ok(None) };
        let out = PyDict::new(py);
        out.set_item("headings", selection.headings)?;
        out.set_item("rows", selection.rows)?;
        out.set_item("chosen", selection.chosen)?;
        out.set_item("criterion", selection.criterion)?;
        out.set_item("reason", selection.reason)?;
        Ok(Some(out))
    }

    /// What was found: `facts` (name, value and remark), `tables` (name, headings, rows of a name and numbers), `converged`, `warnings`, `notes`.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let summary = py.detach(|| self.summary.get_or_init(|| self.posterior.summary()));
        let out = PyDict::new(py);
        let facts = PyList::empty(py);
        for fact in &summary.facts {
            facts.append((&fact.name, figure(py, &fact.value)?, &fact.remark, fact.value.to_string()))?;
        }
        out.set_item("facts", facts)?;
        let tables = summary.tables.iter().map(|t| (t.name.clone(), t.headings().map(String::from).collect(), t.rows.clone()));
        out.set_item("tables", tables.collect::<Vec<(String, Vec<String>, Vec<(String, Vec<f64>)>)>>())?;
        out.set_item("converged", summary.converged)?;
        out.set_item("warnings", summary.warnings.clone())?;
        out.set_item("notes", summary.notes.clone())?;
        Ok(out)
    }

    /// Named arrays of the posterior.
    fn arrays<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let out = PyDict::new(py);
        for a in py.detach(|| self.posterior.arrays()) {
            out.set_item(a.name, array(py, &a.shape(), a.values)?)?;
        }
        Ok(out)
    }

    /// Dimensions of the named arrays: for each array a list of pairs of a name and of the labels along it, empty where entries are counted.
    fn dims<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let out = PyDict::new(py);
        for a in py.detach(|| self.posterior.arrays()) {
            out.set_item(a.name, a.dims.into_iter().map(|d| (d.name, d.labels)).collect::<Vec<_>>())?;
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
        Ok(Self::new(FitResult { posterior, traces, seed, warnings }))
    }

    fn __repr__(&self) -> String {
        let predicted = match self.posterior.outputs() {
            0 if !self.posterior.predicts() && self.posterior.sources().is_empty() => "no target".to_string(),
            0 if !self.posterior.predicts() => format!("{} sources", self.posterior.sources().len()),
            0 if !self.posterior.labels().is_empty() => format!("{} labels", self.posterior.labels().len()),
            0 => format!("{} classes", self.posterior.classes().len()),
            outputs => format!("{outputs} outcomes"),
        };
        format!("<FittedModel: {}, {} columns, {predicted}>", self.family(), self.width())
    }
}

/// Probabilities, deviations and ends of intervals.
type Predicted<'py> = (Bound<'py, PyArrayDyn<f64>>, Option<Bound<'py, PyArrayDyn<f64>>>, Option<Bound<'py, PyArrayDyn<f64>>>);

/// Draws to average over.
fn predict_draws(given: Option<&str>) -> PyResult<PredictDraws> {
    given.map_or(Ok(PredictDraws::Enough), |text| text.parse().map_err(raise))
}

/// Rows, with what is known of their outcomes.
fn with_target<'a>(x: Matrix<'a>, y: Option<Outcomes<'_>>) -> PyResult<Dataset<'a>> {
    let data = Dataset::new(x);
    let Some(y) = y else { return Ok(data) };
    let target = y.target()?;
    let found = match &target {
        Target::Classes(c) => c.len(),
        Target::Real { width, values } => values.len() / width.max(&1),
        Target::Labels(l) => l.values.len() / l.names.len().max(1),
        Target::None => 0,
    };
    if found != data.rows() {
        return Err(raise(DataError::Length { what: "y", rows: data.rows(), found }.into()));
    }
    if let Target::Classes(c) = &target
        && c.codes.iter().any(|&code| code as usize >= c.names.len())
    {
        return Err(PyValueError::new_err("a class of `y` has no name"));
    }
    Ok(data.with_target(target))
}

/// A figure as a number, a dictionary of numbers, or a text.
fn figure<'py>(py: Python<'py>, figure: &Figure) -> PyResult<Bound<'py, PyAny>> {
    let numbers = |all: &[(String, f64)]| -> PyResult<Bound<'py, PyAny>> {
        let out = PyDict::new(py);
        all.iter().try_for_each(|(name, x)| out.set_item(name, x))?;
        Ok(out.into_any())
    };
    Ok(match figure {
        Figure::Count(n) => n.into_pyobject(py)?.into_any(),
        Figure::Number(x) => x.into_pyobject(py)?.into_any(),
        Figure::Estimate { mean, sd } => numbers(&[("mean".into(), *mean), ("sd".into(), *sd)])?,
        Figure::Numbers(all) | Figure::Shares(all) => numbers(all)?,
        other => other.to_string().into_pyobject(py)?.into_any(),
    })
}

/// A NumPy array that takes over the values.
pub fn array<'py>(py: Python<'py>, shape: &[usize], values: Vec<f64>) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
    PyArray1::from_vec(py, values).reshape(shape)
}
