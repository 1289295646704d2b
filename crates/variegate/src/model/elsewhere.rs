//! Fits of data that are elsewhere: what workers are told to run, and the way from settings to a posterior without seeing a row.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use super::{Fitted, Model, Prepared, RunSettings, family};
use crate::data::{Header, Questions};
use crate::run::{AnyProgram, Ending, Engine, Observer, Plan, Results, Shape, StateError, Storage, Workers, drive_on, survey_on, surveyor};
use crate::{Error, Result};

/// What a worker is to run. It travels as bytes, and the program is made where the blocks are.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Task {
    /// Answers the questions of a model.
    Survey {
        /// Names and kinds of what rows have.
        header: Header,
        /// The questions.
        questions: Questions,
    },
    /// A fit.
    Fit {
        /// Name of the family.
        family: String,
        /// Its settings, as JSON.
        settings: String,
        /// The sealed schema of the data.
        schema: Vec<u8>,
    },
}

impl Task {
    /// The task of a fit.
    pub fn of(model: &dyn Model, prepared: &Prepared) -> Result<Self> {
        let settings = serde_json::to_string(&model.settings()).map_err(|e| Error::Elsewhere(e.to_string()))?;
        Ok(Self::Fit { family: model.family().name().into(), settings, schema: prepared.fit.schema().to_vec() })
    }

    /// The program.
    pub fn program(&self) -> Result<Arc<dyn AnyProgram>> {
        Ok(match self {
            Self::Survey { header, questions } => surveyor(header, questions),
            Self::Fit { family: name, settings, schema } => {
                let settings = serde_json::from_str(settings).map_err(|e| Error::Elsewhere(e.to_string()))?;
                family(name)?.configure(&settings)?.reopen(schema)?.shared_program()
            }
        })
    }

    /// In bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        Ok(postcard::to_stdvec(self).map_err(StateError::from)?)
    }

    /// From bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Ok(postcard::from_bytes(bytes).map_err(StateError::from)?)
    }
}

/// Data that are elsewhere, and whoever holds them.
pub trait Cluster: Sync {
    /// Names and kinds of what rows have.
    fn header(&self) -> &Header;
    /// Size of the data, and how they are cut.
    fn shape(&self) -> Shape;
    /// Workers for a task, over all blocks.
    fn workers<'a>(&'a self, task: &Task) -> Result<Box<dyn Workers + 'a>>;
}

impl RunSettings {
    /// Asks data that are elsewhere what a model wants to know, binds it to them and plans the run. Rows of a block are as they are cut there.
    pub fn prepare_on(&self, model: &dyn Model, cluster: &dyn Cluster) -> Result<Prepared> {
        let (header, questions, shape) = (cluster.header(), model.questions(), cluster.shape());
        header.check(questions.needs)?;
        let workers = cluster.workers(&Task::Survey { header: header.clone(), questions })?;
        let found = survey_on(Engine::Workers(&*workers), shape, header, &questions)?;
        let fit = model.prepare(&found)?;
        let plan = Plan { seed: self.seed, chains: fit.chains(), schedule: fit.schedule(), block_rows: shape.block_rows };
        Ok(Prepared { fit, plan, fingerprint: found.fingerprint() })
    }

    /// Runs a prepared fit where its data are, going on from whatever the storage has kept.
    pub fn drive_on(
        &self,
        model: &dyn Model,
        prepared: &Prepared,
        cluster: &dyn Cluster,
        storage: &mut dyn Storage,
        observer: &mut dyn Observer,
    ) -> Result<Ending> {
        let workers = cluster.workers(&Task::of(model, prepared)?)?;
        let engine = Engine::Workers(&*workers);
        drive_on(engine, cluster.shape(), prepared.fit.program(), &prepared.plan, self.pace(), storage, observer)
    }
}

/// Fits data that are elsewhere, and keeps the results in memory; they cannot be gone on with.
pub fn fit_on(model: &dyn Model, cluster: &dyn Cluster, run: &RunSettings, observer: &mut dyn Observer) -> Result<Fitted> {
    let prepared = run.prepare_on(model, cluster)?;
    let mut results = Results::default();
    let ending = run.drive_on(model, &prepared, cluster, &mut results, observer)?;
    let kept = results.0;
    let posterior = prepared.fit.posterior(&kept.chains)?;
    Ok(Fitted { posterior, kept, ending, warnings: prepared.fit.warnings().to_vec() })
}
