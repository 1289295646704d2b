//! A run that is asked about new rows: what `transform`, `score` and `retrieve` begin with.

use anyhow::Result;
use clap::ArgMatches;
use variegate::answer::Posterior;
use variegate::data::Dataset;
use variegate_io::run_dir::RunDir;

use crate::commands::predict::warn_incomplete;
use crate::commands::summary::run_of;
use crate::data_file::DataFile;
use crate::files::{self, Rows};
use crate::training;

/// A run and what it has found.
pub struct Opened {
    pub run: RunDir,
    pub posterior: Box<dyn Posterior>,
}

impl Opened {
    /// Opens the run that was named; `what` is said of it where it is not complete.
    pub fn of(matches: &ArgMatches, what: &str) -> Result<Self> {
        let run = RunDir::read(run_of(matches))?;
        let posterior = training::posterior(&run)?;
        warn_incomplete(&run, what);
        Ok(Self { run, posterior })
    }

    /// Rows of a file, with their sources where they are known.
    pub fn read(&self, file: &DataFile, matches: &ArgMatches) -> Result<Dataset<'static>> {
        self.read_as(file, &Rows { options: ["sources", "label"], format: Some(matches) }, matches)
    }

    /// Rows of a file, told by other options.
    pub fn read_as(&self, file: &DataFile, rows: &Rows<'_>, matches: &ArgMatches) -> Result<Dataset<'static>> {
        files::read_rows(file, self.posterior.as_ref(), files::recorded(&self.run), rows, matches)
    }
}
