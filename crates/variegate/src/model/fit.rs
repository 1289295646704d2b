//! A model bound to the schema of its data, and the shortest way from settings and data to a posterior.

use std::sync::Arc;
use std::time::Duration;

use super::Model;
use crate::Result;
use crate::answer::Posterior;
use crate::data::{Dataset, LabelSets, Survey, Target};
use crate::run::{AnyProgram, Ending, Memory, Observer, Pace, Piece, Plan, Schedule, drive, pool, shape_of, survey};

type Read = Box<dyn Fn(&[Piece]) -> Result<Box<dyn Posterior>> + Send + Sync>;
type ReadAll = Box<dyn Fn(&[Piece]) -> Result<Vec<Box<dyn Posterior>>> + Send + Sync>;

/// A model bound to the schema of its data: ready to run, and able to read what a run has kept.
pub struct Fit {
    program: Arc<dyn AnyProgram>,
    chains: u32,
    schedule: Schedule,
    schema: Vec<u8>,
    warnings: Vec<String>,
    read: Read,
    read_all: Option<ReadAll>,
}

impl Fit {
    /// A program over so many chains (or starts), the sealed schema of its data, what the user should know of them, and how a posterior
    /// is read from all that was kept of every chain. Reading works on unfinished chains where that makes sense.
    pub fn new(
        program: Arc<dyn AnyProgram>,
        chains: u32,
        schedule: Schedule,
        schema: Vec<u8>,
        warnings: Vec<String>,
        read: impl Fn(&[Piece]) -> Result<Box<dyn Posterior>> + Send + Sync + 'static,
    ) -> Self {
        Self { program, chains, schedule, schema, warnings, read: Box::new(read), read_all: None }
    }

    /// The same, where several structures are compared: how the posterior of each of them is read, in the order of the selection.
    pub fn comparing(mut self, read_all: impl Fn(&[Piece]) -> Result<Vec<Box<dyn Posterior>>> + Send + Sync + 'static) -> Self {
        self.read_all = Some(Box::new(read_all));
        self
    }

    /// What the driver runs.
    pub fn program(&self) -> &dyn AnyProgram {
        self.program.as_ref()
    }

    /// The same, to be shared with whoever holds rows.
    pub fn shared_program(&self) -> Arc<dyn AnyProgram> {
        self.program.clone()
    }

    /// Number of chains, or of starts.
    pub fn chains(&self) -> u32 {
        self.chains
    }

    /// How long they run.
    pub fn schedule(&self) -> Schedule {
        self.schedule
    }

    /// Everything about the data that results depend on (names, classes, scaling), sealed.
    pub fn schema(&self) -> &[u8] {
        &self.schema
    }

    /// What a user should know before the fit: dropped columns, doubtful scales…
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The posterior, from everything that was kept of every chain.
    pub fn posterior(&self, chains: &[Piece]) -> Result<Box<dyn Posterior>> {
        (self.read)(chains)
    }

    /// The posterior of every structure that was compared, in the order of the selection; empty if there is one alone.
    pub fn candidates(&self, chains: &[Piece]) -> Result<Vec<Box<dyn Posterior>>> {
        self.read_all.as_ref().map_or(Ok(Vec::new()), |read| read(chains))
    }
}

/// Settings that say how long a sampler runs: of a run that is kept they may be raised, and it goes on to the same draws as one that
/// had them from the start.
pub const EXTENDABLE: [&str; 2] = ["n_draws", "n_chains"];

/// What a run needs to know beside model and data.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct RunSettings {
    /// Seed of every random number.
    pub seed: u64,
    /// Threads; 0 takes all there are.
    pub threads: usize,
    /// Rows of a block; `None` chooses by the number of columns.
    pub block_rows: Option<usize>,
    /// Time between two commits.
    pub commit_every: Duration,
}

impl Default for RunSettings {
    fn default() -> Self {
        Self { seed: 0, threads: 0, block_rows: None, commit_every: Pace::default().commit_every }
    }
}

/// A model that has looked at its data.
pub struct Prepared {
    /// The model, bound to them.
    pub fit: Fit,
    /// All that decides the results.
    pub plan: Plan,
    /// Fingerprint of the data.
    pub fingerprint: u64,
}

impl RunSettings {
    /// With this seed.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// With so many threads; 0 takes all there are.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// With blocks of so many rows; `None` chooses by the number of columns.
    pub fn block_rows(mut self, block_rows: impl Into<Option<usize>>) -> Self {
        self.block_rows = block_rows.into();
        self
    }

    /// With so much time between two commits.
    pub fn commit_every(mut self, time: Duration) -> Self {
        self.commit_every = time;
        self
    }

    /// Asks data that are here what a model wants to know, binds it to them and plans the run.
    pub fn prepare(&self, model: &dyn Model, data: &Dataset<'_>) -> Result<Prepared> {
        self.bind(model, data, |found| model.prepare(found))
    }

    /// The same for further rows, on top of an earlier fit. The data must be [`arranged`].
    pub fn prepare_more(&self, model: &dyn Model, earlier: &dyn Posterior, data: &Dataset<'_>) -> Result<Prepared> {
        let earlier = earlier.save()?;
        self.bind(model, data, |found| model.prepare_more(&earlier, found))
    }

    fn bind(&self, model: &dyn Model, data: &Dataset<'_>, with: impl FnOnce(&Survey) -> Result<Fit>) -> Result<Prepared> {
        let found = pool(self.threads)?.install(|| survey(data, &model.questions(), self.block_rows))?;
        let fit = with(&found)?;
        let block_rows = shape_of(data, self.block_rows)?.block_rows;
        let plan = Plan { seed: self.seed, chains: fit.chains(), schedule: fit.schedule(), block_rows };
        Ok(Prepared { fit, plan, fingerprint: found.fingerprint() })
    }

    /// The pace of a run.
    pub fn pace(&self) -> Pace {
        Pace { threads: self.threads, commit_every: self.commit_every, ..Pace::default() }
    }
}

#[cfg(test)]
impl dyn Model + '_ {
    /// The model bound to data that are here.
    pub(crate) fn bind(&self, data: &Dataset<'_>) -> Result<Fit> {
        Ok(RunSettings::default().prepare(self, data)?.fit)
    }
}

/// What came out of a fit that is kept in memory.
pub struct Fitted {
    /// The posterior.
    pub posterior: Box<dyn Posterior>,
    /// Draws, traces and final states.
    pub kept: Memory,
    /// Whether it was stopped early.
    pub ending: Ending,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// Fits in memory: the shortest way from settings and data to a posterior.
pub fn fit(model: &dyn Model, data: &Dataset<'_>, run: &RunSettings, observer: &mut dyn Observer) -> Result<Fitted> {
    drive_here(run.prepare(model, data)?, data, run, observer)
}

/// Goes on from an earlier fit with further rows, which must be [`arranged`]: what it has learned stays, and its own rows are not needed.
pub fn fit_more(
    model: &dyn Model,
    earlier: &dyn Posterior,
    data: Dataset<'_>,
    run: &RunSettings,
    observer: &mut dyn Observer,
) -> Result<Fitted> {
    drive_here(run.prepare_more(model, earlier, &data)?, &data, run, observer)
}

/// Rows with their labels in the order of an earlier fit, new ones last. Labels that the rows lack are unknown; where labels were told as
/// `sets`, they are absent in rows that know any.
pub fn arranged<'a>(mut data: Dataset<'a>, earlier: &dyn Posterior, sets: bool) -> Dataset<'a> {
    if let Target::Labels(LabelSets { names, values }) = &data.target {
        let known = earlier.labels();
        let new = names.iter().filter(|name| !known.contains(name));
        let all: Vec<String> = known.iter().chain(new).cloned().collect();
        let places: Vec<Option<usize>> = all.iter().map(|name| names.iter().position(|n| n == name)).collect();
        let row = |row: &[i8]| {
            let lacking = if sets && row.iter().any(|y| *y >= 0) { 0 } else { -1 };
            places.iter().map(|at| at.map_or(lacking, |at| row[at])).collect::<Vec<i8>>()
        };
        let values = values.chunks_exact(names.len().max(1)).flat_map(row).collect();
        data.target = Target::Labels(LabelSets { names: all, values });
    }
    data
}

fn drive_here(prepared: Prepared, data: &Dataset<'_>, run: &RunSettings, observer: &mut dyn Observer) -> Result<Fitted> {
    let Prepared { fit, plan, .. } = prepared;
    let mut kept = Memory::default();
    let ending = drive(fit.program(), data, &plan, run.pace(), &mut kept, observer)?;
    let posterior = fit.posterior(&kept.chains)?;
    Ok(Fitted { posterior, kept, ending, warnings: fit.warnings().to_vec() })
}
