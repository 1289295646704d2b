//! What can go wrong, one variant a cause, each message saying what to do.

use thiserror::Error;

/// Result of everything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error that a person can act on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting has a value that is not allowed.
    #[error("setting `{name}` is {value}, but it must be {allowed}")]
    Setting {
        /// Name as users write it.
        name: String,
        /// The value given.
        value: String,
        /// What is allowed.
        allowed: String,
    },
    /// A setting that the model does not have.
    #[error("{family} has no setting `{name}`; it has {known}")]
    UnknownSetting {
        /// Model family.
        family: String,
        /// Name given.
        name: String,
        /// The settings there are.
        known: String,
    },
    /// A model family that does not exist.
    #[error("there is no model `{name}`; choose one of {known}")]
    UnknownModel {
        /// Name given.
        name: String,
        /// The families there are.
        known: String,
    },
    /// Something is wrong with the data.
    #[error(transparent)]
    Data(#[from] crate::data::DataError),
    /// A parameter of a distribution is out of range.
    #[error(transparent)]
    Parameter(#[from] crate::dist::ParamError),
    /// The data are sound but this model cannot take them as they are.
    #[error("{0}")]
    Unfit(String),
    /// Arithmetic broke down although the input was valid.
    #[error("{what} failed in sweep {sweep}: {detail}")]
    Numerical {
        /// The operation.
        what: &'static str,
        /// Sweep in which it happened; 0 is the start.
        sweep: u64,
        /// What was seen and what to try.
        detail: String,
    },
    /// The process has taken more memory than it may.
    #[error(
        "the run holds {held} of memory, more than the {most} that it may: what is done is kept, so raise the limit, or free memory, and go on; \
         fewer draws, chains or components take less"
    )]
    Memory {
        /// What it holds.
        held: String,
        /// What it may hold.
        most: String,
    },
    /// Saved bytes are not what they should be.
    #[error("{0}")]
    State(#[from] crate::run::StateError),
    /// Something went wrong where the blocks are; the message is that of the worker.
    #[error("{0}")]
    Elsewhere(String),
    /// Keeping the results failed; the message is the storage's own.
    #[error("{0}")]
    Storage(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// Shorthand for [`Error::Setting`].
    pub fn setting(name: &str, value: impl ToString, allowed: impl ToString) -> Self {
        Self::Setting { name: name.into(), value: value.to_string(), allowed: allowed.to_string() }
    }
}
