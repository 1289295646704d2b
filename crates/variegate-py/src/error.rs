//! Errors as Python knows them: what the user gave is a `ValueError`, files are an `OSError`, memory is a `MemoryError`, the rest a `RuntimeError`.

use pyo3::exceptions::{PyMemoryError, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use variegate::Error;

/// The Python exception of a library error, with the library's own words.
pub fn raise(error: Error) -> PyErr {
    let message = error.to_string();
    match error {
        Error::Setting { .. }
        | Error::UnknownSetting { .. }
        | Error::UnknownModel { .. }
        | Error::Data(_)
        | Error::Parameter(_)
        | Error::Unfit(_)
        | Error::State(_) => PyValueError::new_err(message),
        Error::Memory { .. } => PyMemoryError::new_err(message),
        Error::Storage(_) => PyOSError::new_err(message),
        _ => PyRuntimeError::new_err(message),
    }
}
