//! Running a fit into its run directory, and reading results back from one: shared by `fit`, `resume`, `demo`, `predict`, `summary` and `compare`.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::time::Instant;
use variegate::Error;
use variegate::data::Dataset;
use variegate::model::{self, Fit, Posterior};
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
pub fn train(run: &mut RunDir, fit: &dyn Fit, data: &Dataset<'_>, pace: Pace, quiet: bool) -> Result<TrainingEnd> {
    let begin = Instant::now();
    let plan = run.record().plan;
    let name = run.record().family.clone();
    let mut watch = Watch::new(&name, quiet)?;
    let ending = drive(fit.program(), data, &plan, pace, run, &mut watch)?;
    Ok(TrainingEnd { ending, seconds: begin.elapsed().as_secs_f64() })
}

/// The model of a run, bound to the schema of its data.
pub fn reopen(run: &RunDir) -> Result<Box<dyn Fit>> {
    let record = run.record();
    let place = || format!("`{}` cannot be used by this version of variegate", run.path().display());
    let model = model::family(&record.family).and_then(|f| f.configure(&record.model)).with_context(place)?;
    model.reopen(&record.schema).with_context(place)
}

/// The posterior, from all that a run has kept; the error of a run that has nothing to show yet says so.
pub fn posterior(run: &RunDir) -> Result<Box<dyn Posterior>> {
    let fit = reopen(run)?;
    Ok(fit.posterior(&pieces(run)?)?)
}

/// The posterior of every structure that a run has compared, in the order of its selection; empty if there is one alone.
pub fn candidates(run: &RunDir) -> Result<Vec<Box<dyn Posterior>>> {
    Ok(reopen(run)?.candidates(&pieces(run)?)?)
}

/// Everything that was kept of every chain that has begun.
fn pieces(run: &RunDir) -> Result<Vec<Piece>> {
    let status = run.status();
    let draws = run.draws()?;
    let trace = run.trace()?;
    let mut all = Vec::new();
    for ((chain, draws), trace) in status.chains.iter().zip(draws).zip(trace) {
        let Some(checkpoint) = run.checkpoint(chain.chain)? else { continue };
        all.push(Piece { chain: chain.chain, sweeps: chain.sweeps, draws, trace, checkpoint, finished: chain.finished });
    }
    if all.is_empty() {
        return Err(Error::Unfit("the run was stopped before its first checkpoint: resume it".into()).into());
    }
    Ok(all)
}

/// The first of `runs/NAME-1`, `runs/NAME-2`, … that is free.
pub fn next_free(name: &str) -> PathBuf {
    let free = |n: &u32| Path::new("runs").join(format!("{name}-{n}")).symlink_metadata().is_err();
    let number = (1..u32::MAX).find(free).unwrap_or(u32::MAX);
    Path::new("runs").join(format!("{name}-{number}"))
}
