//! Running a fit into its run directory, and reading results back from one: shared by `fit`, `resume`, `demo`, `predict`, `summary` and `compare`.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::time::Instant;
use variegate::answer::Posterior;
use variegate::data::Dataset;
use variegate::model::{self, Fit};
use variegate::run::{Ending, Pace, Piece, drive};
use variegate_io::run_dir::RunDir;

use crate::progress::Watch;

/// How a fit ended.
pub struct TrainingEnd {
    /// Whether it was stopped early.
    pub ending: Ending,
    /// Time it took, in this process.
    pub seconds: f64,
}

/// Runs a fit to its end or until Ctrl-C; everything it does is kept in the run directory.
pub fn train(run: &mut RunDir, fit: &Fit, data: &Dataset<'_>, pace: Pace, quiet: bool) -> Result<TrainingEnd> {
    let begin = Instant::now();
    let plan = run.record().plan;
    let name = run.record().family.clone();
    let mut watch = Watch::new(&name, quiet, plan.schedule)?;
    let ending = drive(fit.program(), data, &plan, pace, run, &mut watch)?;
    Ok(TrainingEnd { ending, seconds: begin.elapsed().as_secs_f64() })
}

/// The model of a run, bound to the schema of its data.
pub fn reopen(run: &RunDir) -> Result<Fit> {
    let record = run.record();
    let place = || format!("`{}` cannot be used by this version of variegate", run.path().display());
    let model = model::family(&record.family).and_then(|f| f.configure(&record.model)).with_context(place)?;
    model.reopen(&record.schema).with_context(place)
}

/// The posterior, from all that a run has kept; the error of a run that has nothing to show yet says so.
pub fn posterior(run: &RunDir) -> Result<Box<dyn Posterior>> {
    let fit = reopen(run)?;
    Ok(fit.posterior(&begun(run)?)?)
}

/// The posterior of every structure that a run has compared, in the order of its selection; empty if there is one alone.
pub fn candidates(run: &RunDir) -> Result<Vec<Box<dyn Posterior>>> {
    Ok(reopen(run)?.candidates(&begun(run)?)?)
}

/// Everything that was kept; an error if nothing was.
fn begun(run: &RunDir) -> Result<Vec<Piece>> {
    let pieces = run.pieces()?;
    if pieces.is_empty() {
        let path = run.path().display();
        if run.status().running {
            anyhow::bail!(
                "`{path}` is running and has saved nothing yet: look again in a few seconds (--checkpoint-seconds of the fit says how \
                 often it saves)"
            );
        }
        anyhow::bail!("`{path}` was stopped before its first checkpoint: go on with `variegate resume {path}`");
    }
    Ok(pieces)
}

/// The first of `runs/NAME-1`, `runs/NAME-2`, … that is free.
pub fn next_free(name: &str) -> PathBuf {
    let free = |n: &u32| Path::new("runs").join(format!("{name}-{n}")).symlink_metadata().is_err();
    let number = (1..u32::MAX).find(free).unwrap_or(u32::MAX);
    Path::new("runs").join(format!("{name}-{number}"))
}
