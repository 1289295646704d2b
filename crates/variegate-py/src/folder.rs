//! Fits that are kept in a folder (`out`), the same kind of run that the command line writes.
//!
//! A folder that holds the same fit already (same family, settings, plan and data) is gone on with, so that calling `fit` again after
//! an interrupt resumes it, and a finished one is read. Any other run there is left alone, with an error.

use std::path::Path;
use variegate::answer::Posterior;
use variegate::data::Dataset;
use variegate::model::{Fit, Model, Prepared, RunSettings, family};
use variegate::run::{Observer, Plan, drive};
use variegate_io::run_dir::{DataReference, RunDir, RunDirError, RunRecord};

use crate::fit::FitResult;
use crate::fitted::trace_of;

/// Why a fit in a folder failed.
pub enum FolderError {
    /// The folder holds another run.
    Taken(String),
    /// The library or the disk said no.
    Other(variegate::Error),
}

impl<E: Into<variegate::Error>> From<E> for FolderError {
    fn from(error: E) -> Self {
        Self::Other(error.into())
    }
}

/// Fits in a folder, beginning or going on. With `free_seed`, a run found there may keep its own seed.
pub fn fit_in(
    path: &Path,
    model: &dyn Model,
    data: &Dataset<'_>,
    run: &RunSettings,
    free_seed: bool,
    observer: &mut dyn Observer,
) -> std::result::Result<FitResult, FolderError> {
    let Prepared { fit, mut plan, fingerprint } = run.prepare(model, data)?;
    let reference = DataReference { rows: data.rows() as u64, columns: data.x.cols() as u64, ..DataReference::of(fingerprint) };
    let record = RunRecord::new(model.family().name(), fit.program().name(), model.settings(), plan, reference, fit.schema().to_vec());
    let mut folder = match RunDir::read(path) {
        Ok(found) => {
            if free_seed {
                plan.seed = found.record().plan.seed;
            }
            if let Some(difference) = difference(found.record(), &record, &plan, data) {
                return Err(FolderError::Taken(format!(
                    "`{}` holds another run ({difference}): choose another `out`, or remove that folder",
                    path.display()
                )));
            }
            RunDir::open(path)?
        }
        Err(RunDirError::NotARun { .. }) => RunDir::create(path, &record, false)?,
        Err(error) => return Err(error.into()),
    };
    drive(fit.program(), data, &plan, run.pace(), &mut folder, observer)?;
    Ok(result(&fit, &folder, fit.warnings().to_vec())?)
}

/// What was fitted in a folder, and with which settings.
pub fn read(path: &Path) -> std::result::Result<(RunRecord, FitResult), variegate::Error> {
    let folder = RunDir::read(path)?;
    let record = folder.record().clone();
    let fit = family(&record.family)?.configure(&record.model)?.reopen(&record.schema)?;
    let result = result(&fit, &folder, Vec::new())?;
    Ok((record, result))
}

fn result(fit: &Fit, folder: &RunDir, warnings: Vec<String>) -> std::result::Result<FitResult, variegate::Error> {
    let pieces = folder.pieces()?;
    let posterior: Box<dyn Posterior> = fit.posterior(&pieces)?;
    Ok(FitResult { posterior, traces: pieces.iter().map(|p| trace_of(&p.trace)).collect(), seed: folder.record().plan.seed, warnings })
}

/// The first thing in which a run differs from what is asked for.
fn difference(found: &RunRecord, asked: &RunRecord, plan: &Plan, data: &Dataset<'_>) -> Option<String> {
    if found.family != asked.family || found.program != asked.program {
        return Some(format!("a `{}` fit", found.family));
    }
    for (name, value) in &asked.model {
        let there = found.model.get(name).unwrap_or(&serde_json::Value::Null);
        if there != value {
            return Some(format!("`{name}` is {there} there and {value} here"));
        }
    }
    if found.plan.seed != plan.seed {
        return Some(format!("its seed is {}, here it is {}", found.plan.seed, plan.seed));
    }
    if found.plan != *plan {
        return Some("it is planned otherwise, for example in its `block_rows`".into());
    }
    (!found.data.is_of(data)).then(|| "of other data".into())
}
