//! Rows that NumPy and SciPy lend: no value is copied.

use numpy::{PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use variegate::data::Matrix;

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
