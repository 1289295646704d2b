//! Fits that are kept in a folder (`out`), the same kind of run that the command line writes.
//!
//! A folder that holds the same fit already (same family, settings, plan and data) is gone on with, so that calling `fit` again after
//! an interrupt resumes it, and a finished one is read. One that differs in having fewer draws or chains is gone on with too. Any other
//! run there is left alone, with an error.

use std::path::Path;
use variegate::answer::Posterior;
use variegate::data::Dataset;
use variegate::model::{Cluster, EXTENDABLE, Fit, Model, Prepared, RunSettings, family};
use variegate::run::{Observer, Plan, drive};
use variegate_io::run_dir::{DataReference, LabelType, RunDir, RunDirError, RunRecord};

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

/// Where the rows of a fit are.
#[derive(Clone, Copy)]
pub enum Place<'a> {
    Here(&'a Dataset<'a>),
    Elsewhere(&'a dyn Cluster),
}

impl Place<'_> {
    /// Rows and columns.
    fn size(self) -> (usize, usize) {
        match self {
            Self::Here(data) => (data.rows(), data.x.cols()),
            Self::Elsewhere(cluster) => (cluster.shape().rows, cluster.shape().cols),
        }
    }

    /// Whether a run is of these rows, whose fingerprint is known.
    fn is_of(self, found: &DataReference, asked: &DataReference) -> bool {
        match self {
            // an earlier release may have made the fingerprint otherwise
            Self::Here(data) => found.is_of(data),
            Self::Elsewhere(_) => (found.fingerprint_version, found.fingerprint) == (asked.fingerprint_version, asked.fingerprint),
        }
    }
}

/// A folder that keeps a fit.
#[derive(Clone, Copy)]
pub struct Keep<'a> {
    path: &'a Path,
    /// Whether a run found there may keep its own seed.
    free_seed: bool,
    /// What classes and sources are in Python.
    labels: (Option<LabelType>, Option<LabelType>),
}

impl<'a> Keep<'a> {
    /// Types of labels are given by their names; a name that is not known is none.
    pub fn new(path: &'a Path, free_seed: bool, class_type: Option<&str>, source_type: Option<&str>) -> Self {
        Self { path, free_seed, labels: (class_type.and_then(LabelType::from_name), source_type.and_then(LabelType::from_name)) }
    }

    /// Fits in the folder, beginning or going on.
    pub fn fit(
        self,
        model: &dyn Model,
        place: Place<'_>,
        run: &RunSettings,
        observer: &mut dyn Observer,
    ) -> std::result::Result<FitResult, FolderError> {
        let Self { path, free_seed, labels } = self;
        let mut prepared = match place {
            Place::Here(data) => run.prepare(model, data),
            Place::Elsewhere(cluster) => run.prepare_on(model, cluster),
        }?;
        let Prepared { fit, plan, fingerprint } = &mut prepared;
        let (rows, columns) = place.size();
        let reference = DataReference { rows: rows as u64, columns: columns as u64, ..DataReference::of(*fingerprint) };
        let record = RunRecord::new(model.family().name(), fit.program().name(), model.settings(), *plan, reference, fit.schema().to_vec())
            .with_labels(labels.0, labels.1);
        let mut folder = match RunDir::read(path) {
            Ok(found) => {
                if free_seed {
                    plan.seed = found.record().plan.seed;
                }
                if let Some(difference) = difference(found.record(), &record, plan, place) {
                    return Err(FolderError::Taken(format!(
                        "`{}` holds another run ({difference}): choose another `out`, or remove that folder",
                        path.display()
                    )));
                }
                let mut folder = RunDir::open(path)?;
                if folder.record().plan != *plan {
                    folder.extend(record.model.clone(), *plan)?;
                }
                folder
            }
            Err(RunDirError::NotARun { .. }) => RunDir::create(path, &record, false)?,
            Err(error) => return Err(error.into()),
        };
        match place {
            Place::Here(data) => drive(prepared.fit.program(), data, &prepared.plan, run.pace(), &mut folder, observer),
            Place::Elsewhere(cluster) => run.drive_on(model, &prepared, cluster, &mut folder, observer),
        }?;
        Ok(result(&prepared.fit, &folder, prepared.fit.warnings().to_vec())?)
    }
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
fn difference(found: &RunRecord, asked: &RunRecord, plan: &Plan, place: Place<'_>) -> Option<String> {
    if found.family != asked.family || found.program != asked.program {
        return Some(format!("a `{}` fit", found.family));
    }
    let (used_there, used_here) = (found.settings_in_use(), asked.settings_in_use());
    for name in used_here.keys().chain(used_there.keys()) {
        let [there, value] = [&used_there, &used_here].map(|used| used.get(name).unwrap_or(&serde_json::Value::Null));
        let longer = EXTENDABLE.contains(&name.as_str()) && plan.extends(&Plan { seed: plan.seed, ..found.plan });
        if there != value && !longer {
            return Some(format!("`{name}` is {there} there and {value} here"));
        }
    }
    if found.plan.seed != plan.seed {
        return Some(format!("its seed is {}, here it is {}", found.plan.seed, plan.seed));
    }
    if !plan.extends(&found.plan) {
        return Some("it is planned otherwise, for example in its `block_rows`".into());
    }
    (!place.is_of(&found.data, &asked.data)).then(|| "of other data".into())
}
