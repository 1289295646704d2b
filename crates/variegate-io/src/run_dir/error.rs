//! What can go wrong with a run directory. Every message names the file and says what to do.

use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Result of everything that touches a run directory.
pub type Result<T, E = RunDirError> = std::result::Result<T, E>;

/// An error of a run directory that a person can act on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunDirError {
    /// There is nothing at the path, or something that is not a run.
    #[error("`{}` is not a run: {detail}", path.display())]
    NotARun {
        /// The folder.
        path: PathBuf,
        /// What is there instead, and what to do.
        detail: String,
    },
    /// A new run would go where a run is already.
    #[error("`{0}` already holds a run: use `--force` to replace it, or `variegate resume {0}` to go on with it", path.display())]
    Exists {
        /// The folder.
        path: PathBuf,
    },
    /// A new run would go among files that are not ours.
    #[error("`{}` holds `{found}`, which is not part of a run: choose another folder with `--out` (nothing there was touched)", path.display())]
    Occupied {
        /// The folder.
        path: PathBuf,
        /// One of the things found.
        found: String,
    },
    /// Another process writes this run.
    #[error("`{}` is being written by another process: wait until it ends, or stop it", path.display())]
    Locked {
        /// The folder.
        path: PathBuf,
    },
    /// A file is not as it was written.
    #[error("`{}` was altered or damaged: {what}. {}", file.display(), advice(file))]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What does not fit.
        what: String,
    },
    /// Written by a later version.
    #[error("`{}` was written in run format {found}, but this build reads up to {known}: install a newer variegate", path.display())]
    Newer {
        /// The folder.
        path: PathBuf,
        /// Version found.
        found: u32,
        /// Newest version that this build reads.
        known: u32,
    },
    /// The run at this path became another one while it was being read.
    #[error("`{}` was replaced by another run while it was being read: try again", path.display())]
    Replaced {
        /// The folder.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("could not {action} `{}`: {source}. {}", file.display(), hint(action, source))]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What is to be kept does not continue what has been kept.
    #[error("cannot keep these results in `{}`: {detail}", path.display())]
    Unlike {
        /// The folder.
        path: PathBuf,
        /// What does not fit.
        detail: String,
    },
}

impl RunDirError {
    /// Shorthand for [`RunDirError::Io`], to be used with `map_err`.
    pub(super) fn io(action: &'static str, file: &Path) -> impl FnOnce(io::Error) -> Self {
        let file = file.to_path_buf();
        move |source| Self::Io { action, file, source }
    }

    /// Shorthand for [`RunDirError::Damaged`].
    pub(super) fn damaged(file: &Path, what: impl ToString) -> Self {
        Self::Damaged { file: file.to_path_buf(), what: what.to_string() }
    }
}

impl From<RunDirError> for variegate::Error {
    fn from(error: RunDirError) -> Self {
        variegate::Error::Storage(Box::new(error))
    }
}

/// What is tried before there is a run.
pub(super) const BEGIN: &str = "make the folder";

fn advice(file: &Path) -> &'static str {
    if file.file_name().is_some_and(|n| n == super::SETTINGS) {
        "The settings of a run cannot be changed afterwards: undo the change, or fit again with other settings"
    } else {
        "Restore it from a copy, or fit again (`--force` replaces this run)"
    }
}

fn hint(action: &str, error: &io::Error) -> &'static str {
    match error.kind() {
        // before there is a run nothing can be restored or resumed
        _ if action == BEGIN => "Check the path and that you may write there, or choose another folder with `--out`",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "Free some space, then `variegate resume`: what was saved before is intact"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "Check that you may write there, or choose another folder with `--out`"
        }
        io::ErrorKind::NotFound => "Restore it from a copy, or fit again (`--force` replaces this run)",
        io::ErrorKind::Unsupported => "This file system cannot do it: choose a folder on a local disk with `--out`",
        _ => "What was saved before is intact: `variegate resume` goes on from there once the cause is gone",
    }
}
