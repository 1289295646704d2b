//! Rows that NumPy and SciPy lend, without a copy of any value, where they come from, and what is to be predicted of them.

use numpy::{PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use variegate::data::{Classes, Dataset, LabelSets, Matrix, Target};

/// Features as Python hands them over: a C-contiguous matrix, or the parts of a CSR matrix (row offsets, columns, values, number
/// of columns).
#[derive(FromPyObject)]
pub enum Features<'py> {
    Dense(PyReadonlyArray2<'py, f64>),
    Sparse(PyReadonlyArray1<'py, usize>, PyReadonlyArray1<'py, u32>, PyReadonlyArray1<'py, f64>, usize),
}

impl Features<'_> {
    /// The same memory as a matrix of the library. While it is borrowed the interpreter may be released; a program that writes
    /// into the array from another thread meanwhile gets the results it deserves.
    pub fn matrix(&self) -> PyResult<Matrix<'_>> {
        Ok(match self {
            Self::Dense(x) => {
                if !x.is_c_contiguous() {
                    return Err(PyValueError::new_err("the matrix must be C-contiguous (`numpy.ascontiguousarray`)"));
                }
                Matrix::Dense { rows: x.shape()[0], cols: x.shape()[1], values: x.as_slice()?.into() }
            }
            Self::Sparse(indptr, indices, values, cols) => Matrix::Csr {
                rows: indptr.len().saturating_sub(1),
                cols: *cols,
                indptr: indptr.as_slice()?.into(),
                indices: indices.as_slice()?.into(),
                values: values.as_slice()?.into(),
            },
        })
    }
}

/// Sources of rows as Python hands them over: positions and names.
pub type Sources<'py> = (PyReadonlyArray1<'py, u32>, Vec<String>);

/// Rows with their sources, as far as these are known.
pub fn with_sources<'a>(x: &'a Features<'_>, sources: Option<Sources<'_>>) -> PyResult<Dataset<'a>> {
    Ok(Dataset { sources: sources.map(classes).transpose()?, ..Dataset::new(x.matrix()?) })
}

/// A copy of positions and names, as the library keeps it.
pub fn classes((codes, names): Sources<'_>) -> PyResult<Classes> {
    Ok(Classes { codes: codes.as_slice()?.to_vec(), names })
}

/// Targets as Python hands them over: positions of classes and their names, a C-contiguous matrix of label entries (1 present, 0 absent,
/// -1 unknown) and the names of the labels, or a C-contiguous matrix of real outcomes; one row a row.
#[derive(FromPyObject)]
pub enum Outcomes<'py> {
    Classes(PyReadonlyArray1<'py, u32>, Vec<String>),
    Labels(PyReadonlyArray2<'py, i8>, Vec<String>),
    Real(PyReadonlyArray2<'py, f64>),
}

impl Outcomes<'_> {
    /// A copy, as the library keeps it.
    pub fn target(&self) -> PyResult<Target> {
        Ok(match self {
            Self::Classes(codes, names) => Target::Classes(Classes { codes: codes.as_slice()?.to_vec(), names: names.clone() }),
            Self::Labels(entries, names) => {
                if !entries.is_c_contiguous() || entries.shape()[1] != names.len() {
                    return Err(PyValueError::new_err("labels must be C-contiguous, with a name for each column"));
                }
                Target::Labels(LabelSets { names: names.clone(), values: entries.as_slice()?.to_vec() })
            }
            Self::Real(y) => {
                if !y.is_c_contiguous() {
                    return Err(PyValueError::new_err("outcomes must be C-contiguous (`numpy.ascontiguousarray`)"));
                }
                Target::Real { width: y.shape()[1], values: y.as_slice()?.to_vec() }
            }
        })
    }
}
