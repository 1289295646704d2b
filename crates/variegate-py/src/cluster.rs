//! Rows that are elsewhere: what a worker holds and answers, and the way to workers through Python.

use numpy::PyReadonlyArray1;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use variegate::data::{Dataset, Header, Matrix, Target, TargetHeader};
use variegate::model::{Cluster, Task};
use variegate::run::{self, Shape, default_block_rows};
use variegate::{Error, Result};
use variegate_io::run_dir::Machine;

use crate::error::raise;
use crate::features::{Features, Outcomes, Sources, classes};

/// Rows of a block where the user does not say.
#[pyfunction]
pub fn usual_block_rows(columns: usize) -> usize {
    default_block_rows(columns)
}

/// What decides the last bits of matrix products on this machine: architecture, instruction sets, caches.
#[pyfunction]
pub fn machine() -> (String, Vec<String>, Vec<String>) {
    let Machine { architecture, instruction_sets, caches, .. } = Machine::here();
    (architecture, instruction_sets, caches)
}

/// Rows that are put together piece by piece, so that no more than one piece is there twice.
#[pyclass(frozen, module = "variegate._core")]
pub struct RowsBuilder {
    rows: Mutex<Option<Matrix<'static>>>,
}

#[pymethods]
impl RowsBuilder {
    #[new]
    fn new() -> Self {
        Self { rows: Mutex::new(None) }
    }

    /// Adds rows; all pieces have the same columns and are dense, or all are sparse.
    fn append(&self, x: Features<'_>) -> PyResult<()> {
        let piece = x.matrix()?;
        let mut rows = self.rows.lock().unwrap_or_else(|e| e.into_inner());
        *rows = Some(match rows.take() {
            None => piece.into_owned(),
            Some(before) => joined(before, piece)?,
        });
        Ok(())
    }

    /// Room for so many numbers in all, so that appending moves nothing.
    fn reserve(&self, numbers: usize) {
        if let Some(Matrix::Dense { values, .. }) = self.rows.lock().unwrap_or_else(|e| e.into_inner()).as_mut() {
            let values = values.to_mut();
            values.reserve_exact(numbers.saturating_sub(values.len()));
        }
    }

    /// All of them, with what is known of each. The builder is empty afterwards.
    #[pyo3(signature = (y=None, *, sources=None, weights=None, columns=Vec::new(), threads=0))]
    fn finish(
        &self,
        y: Option<Outcomes<'_>>,
        sources: Option<Sources<'_>>,
        weights: Option<PyReadonlyArray1<'_, f64>>,
        columns: Vec<String>,
        threads: usize,
    ) -> PyResult<HeldRows> {
        let x = self.rows.lock().unwrap_or_else(|e| e.into_inner()).take().ok_or_else(|| PyValueError::new_err("there are no rows"))?;
        let data = Dataset {
            x,
            columns,
            target: y.map_or(Ok(Target::None), |y| y.target())?,
            sources: sources.map(classes).transpose()?,
            weights: weights.map(|w| w.as_slice().map(<[f64]>::to_vec)).transpose()?,
        };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.map_err(|e| PyRuntimeError::new_err(format!("{threads} threads cannot be started: {e}")))?;
        Ok(HeldRows { data: Arc::new(data), pool: Arc::new(pool) })
    }
}

/// Rows under rows.
fn joined(above: Matrix<'static>, below: Matrix<'_>) -> PyResult<Matrix<'static>> {
    match (above, below) {
        (Matrix::Dense { rows, cols, values }, Matrix::Dense { rows: more, cols: wide, values: added }) if cols == wide => {
            let mut values = values.into_owned();
            values.extend_from_slice(&added);
            Ok(Matrix::Dense { rows: rows + more, cols, values: values.into() })
        }
        (
            Matrix::Csr { rows, cols, indptr, indices, values },
            Matrix::Csr { rows: more, cols: wide, indptr: ends, indices: places, values: added },
        ) if cols == wide => {
            let (mut indptr, mut indices, mut values) = (indptr.into_owned(), indices.into_owned(), values.into_owned());
            let (first, stored) = (ends.first().copied().unwrap_or(0), values.len());
            indptr.extend(ends.iter().skip(1).map(|end| end - first + stored));
            indices.extend_from_slice(&places);
            values.extend_from_slice(&added);
            Ok(Matrix::Csr { rows: rows + more, cols, indptr: indptr.into(), indices: indices.into(), values: values.into() })
        }
        (above, below) if above.cols() != below.cols() => {
            Err(PyValueError::new_err(format!("one part of the rows has {} columns, another {}", above.cols(), below.cols())))
        }
        _ => Err(PyValueError::new_err("one part of the rows is sparse, another is not")),
    }
}

/// Rows that a worker holds, and the threads that visit them.
#[pyclass(frozen, module = "variegate._core")]
pub struct HeldRows {
    data: Arc<Dataset<'static>>,
    pool: Arc<rayon::ThreadPool>,
}

#[pymethods]
impl HeldRows {
    /// Number of rows.
    #[getter]
    fn rows(&self) -> usize {
        self.data.rows()
    }

    /// A worker for a task; `first` and `end` are the blocks that these rows are, of all `rows` rows.
    fn worker(&self, py: Python<'_>, task: &[u8], first: u32, end: u32, rows: usize, block_rows: usize) -> PyResult<Worker> {
        let shape = shape(rows, self.data.x.cols(), block_rows);
        let made = py.detach(|| {
            let program = Task::from_bytes(task)?.program()?;
            run::Worker::new(program, self.data.clone(), first..end, shape)
        });
        Ok(Worker { inner: made.map_err(raise)?, pool: self.pool.clone() })
    }
}

fn shape(rows: usize, cols: usize, block_rows: usize) -> Shape {
    Shape { rows, cols, blocks: rows.div_ceil(block_rows) as u32, block_rows }
}

/// Answers calls about the rows it holds.
#[pyclass(frozen, module = "variegate._core")]
pub struct Worker {
    inner: run::Worker,
    pool: Arc<rayon::ThreadPool>,
}

#[pymethods]
impl Worker {
    /// The answer to a call.
    fn answer<'py>(&self, py: Python<'py>, call: &[u8]) -> Bound<'py, PyBytes> {
        let answer = py.detach(|| self.pool.install(|| self.inner.answer(call)));
        PyBytes::new(py, &answer)
    }
}

/// What `fit_elsewhere` is told of rows that are elsewhere.
#[derive(FromPyObject)]
pub struct Elsewhere {
    /// Opens workers for a task: `open(task) -> object with post(calls) and close()`.
    open: Py<PyAny>,
    /// Called when the user will not wait for answers any longer: `post` raises from then on.
    pub give_up: Py<PyAny>,
    /// First block of what is held together, and the one after its last.
    spans: Vec<(u32, u32)>,
    rows: usize,
    block_rows: usize,
    columns: Vec<String>,
    width: usize,
    sparse: bool,
    /// Names of the classes, the word `labels` and their names, or number of real outcomes.
    target: Option<TargetOf>,
    sources: Option<Vec<String>>,
    weighted: bool,
}

#[derive(FromPyObject)]
pub enum TargetOf {
    Real(usize),
    Classes(Vec<String>),
    Labels(String, Vec<String>),
}

/// Workers that Python reaches. What Python raises is kept aside and raised again when the fit has ended.
pub struct PythonCluster {
    open: Py<PyAny>,
    header: Header,
    shape: Shape,
    spans: Vec<Range<u32>>,
    raised: Mutex<Option<PyErr>>,
}

impl PythonCluster {
    pub fn new(told: Elsewhere) -> PyResult<Self> {
        let Elsewhere { open, give_up: _, spans, rows, block_rows, columns, width, sparse, target, sources, weighted } = told;
        let target = match target {
            None => TargetHeader::None,
            Some(TargetOf::Real(outcomes)) => TargetHeader::Real(outcomes),
            Some(TargetOf::Classes(names)) => TargetHeader::Classes(names),
            Some(TargetOf::Labels(word, names)) => {
                debug_assert_eq!(word, "labels");
                TargetHeader::Labels(names)
            }
        };
        let shape = shape(rows, width, block_rows.max(1));
        let spans: Vec<_> = spans.into_iter().map(|(first, end)| first..end).collect();
        let follow = spans.first().is_some_and(|s| s.start == 0) && spans.windows(2).all(|w| w[0].end == w[1].start);
        if !follow || spans.iter().any(Range::is_empty) || spans.last().is_none_or(|s| s.end != shape.blocks) {
            return Err(PyValueError::new_err(format!("spans {spans:?} are not all of {} blocks", shape.blocks)));
        }
        let header = Header { columns, width, sparse, target, sources, weighted };
        Ok(Self { open, header, shape, spans, raised: Mutex::new(None) })
    }

    /// What Python raised.
    pub fn exception(self) -> Option<PyErr> {
        self.raised.into_inner().unwrap_or_else(|e| e.into_inner())
    }

    fn aside(&self, error: PyErr) -> Error {
        let message = error.to_string();
        self.raised.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(error);
        Error::Elsewhere(message)
    }
}

impl Cluster for PythonCluster {
    fn header(&self) -> &Header {
        &self.header
    }

    fn shape(&self) -> Shape {
        self.shape
    }

    fn workers<'a>(&'a self, task: &Task) -> Result<Box<dyn run::Workers + 'a>> {
        let task = task.to_bytes()?;
        let opened = Python::attach(|py| self.open.call1(py, (PyBytes::new(py, &task),))).map_err(|e| self.aside(e))?;
        Ok(Box::new(PythonWorkers { cluster: self, opened }))
    }
}

struct PythonWorkers<'a> {
    cluster: &'a PythonCluster,
    opened: Py<PyAny>,
}

impl run::Workers for PythonWorkers<'_> {
    fn spans(&self) -> &[Range<u32>] {
        &self.cluster.spans
    }

    fn post(&self, calls: &[(usize, Arc<[u8]>)]) -> Result<Vec<Option<Vec<u8>>>> {
        let answers = Python::attach(|py| -> PyResult<Vec<Option<Vec<u8>>>> {
            // calls that are one here are one object there
            let mut made: Vec<(*const u8, Bound<'_, PyBytes>)> = Vec::new();
            let mut bytes = |call: &Arc<[u8]>| {
                let place = call.as_ptr();
                if let Some((_, known)) = made.iter().find(|m| m.0 == place) {
                    return known.clone();
                }
                let new = PyBytes::new(py, call);
                made.push((place, new.clone()));
                new
            };
            let calls: Vec<_> = calls.iter().map(|(span, call)| (*span, bytes(call))).collect();
            let answers: Vec<Option<Bound<'_, PyBytes>>> = self.opened.call_method1(py, "post", (calls,))?.extract(py)?;
            Ok(answers.into_iter().map(|answer| answer.map(|bytes| bytes.as_bytes().to_vec())).collect())
        });
        answers.map_err(|e| self.cluster.aside(e))
    }
}

impl Drop for PythonWorkers<'_> {
    fn drop(&mut self) {
        if let Err(error) = Python::attach(|py| self.opened.call_method0(py, "close")) {
            self.cluster.aside(error);
        }
    }
}
