//! A data file as it was named on the command line: `-` is standard input.

use anyhow::{Context, Result};
use std::fs::File;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use variegate_io::read::ReadError;

/// The word for standard input and standard output.
pub const STANDARD: &str = "-";

/// A file to read. What comes through a pipe can be read once only and not in any order, so it is copied first, to a file that goes with
/// this.
pub struct DataFile {
    given: PathBuf,
    copy: Option<PathBuf>,
}

impl DataFile {
    /// The file of this name.
    pub fn of(given: &Path) -> Result<Self> {
        let standard = given == Path::new(STANDARD);
        let piped = given.metadata().is_ok_and(|m| !m.is_file() && !m.is_dir());
        if !standard && !piped {
            return Ok(Self { given: given.into(), copy: None });
        }
        let name = format!(".variegate-{}-{:08x}", std::process::id(), fresh());
        let copy = std::env::temp_dir().join(name);
        // from here on the copy is removed whatever happens
        let file = Self { given: given.into(), copy: Some(copy.clone()) };
        let failed = || format!("could not keep {} in `{}`", file.name(), copy.display());
        let mut to = File::options().write(true).create_new(true).open(&copy).with_context(failed)?;
        if standard {
            let mut from = io::stdin().lock();
            if from.is_terminal() {
                eprintln!("reading standard input; end it with Ctrl-D");
            }
            io::copy(&mut from, &mut to).with_context(failed)?;
        } else {
            io::copy(&mut File::open(given).with_context(failed)?, &mut to).with_context(failed)?;
        }
        Ok(file)
    }

    /// Where it can be read.
    pub fn path(&self) -> &Path {
        self.copy.as_deref().unwrap_or(&self.given)
    }

    /// As it was named.
    pub fn given(&self) -> &Path {
        &self.given
    }

    /// Whether it will be gone.
    pub fn is_gone(&self) -> bool {
        self.copy.is_some()
    }

    /// What messages call it.
    pub fn name(&self) -> String {
        shown(&self.given)
    }

    /// An error that names it as the user did.
    pub fn named<T>(&self, outcome: Result<T, ReadError>) -> Result<T, ReadError> {
        outcome.map_err(|error| match &self.copy {
            Some(copy) if error.path == *copy => ReadError { path: self.name().into(), ..error },
            _ => error,
        })
    }
}

impl Drop for DataFile {
    fn drop(&mut self) {
        if let Some(copy) = &self.copy {
            // a copy that is left behind in the folder for such things harms nobody
            let _ = std::fs::remove_file(copy);
        }
    }
}

/// The name of a file in messages.
pub fn shown(path: &Path) -> String {
    if path == Path::new(STANDARD) { "standard input".into() } else { path.display().to_string() }
}

fn fresh() -> u32 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish() as u32
}
