//! The sampler bound to the schema of its data.

use std::sync::Arc;

use super::super::policy::Policy;
use super::super::tree::{Emission, Structure};
use super::super::{MOST_NUMBERS, SCHEMA, Schema, Settings};
use super::Gibbs;
use super::posterior::DrawsPosterior;
use crate::answer::Posterior;
use crate::data::Survey;
use crate::data::design::packed_len;
use crate::model::Fit;
use crate::run::{Piece, Schedule, state};
use crate::{Error, Result};

/// The one structure that is set.
pub(super) fn structure_of(settings: &Settings, outcome: Emission) -> Result<Structure> {
    match settings.search(outcome)?.policy {
        Policy::All(mut structures) if structures.len() == 1 => Ok(structures.remove(0)),
        _ => Err(Error::setting("inference", "gibbs", "`vb` to search for a structure")),
    }
}

/// The sampler of a structure with these settings.
pub(super) fn program_of(settings: &Settings, schema: &Schema, structure: &Structure) -> Gibbs {
    let design = schema.design.clone();
    let shape = settings.shape(&design);
    let mut program = Gibbs::new(design, structure, schema.outcome(), settings.coding, &shape, settings.leaf());
    program.y_mean.clone_from(&schema.y_mean);
    program.y_scale.clone_from(&schema.y_scale);
    program
}

/// The sampler with all that it is bound to.
pub(in super::super) struct Sampling {
    settings: Settings,
    schema: Schema,
    structure: Structure,
    program: Gibbs,
    warnings: Vec<String>,
}

impl Sampling {
    pub(in super::super) fn new(settings: &Settings, schema: Schema, warnings: Vec<String>) -> Result<Self> {
        let structure = structure_of(settings, schema.outcome())?;
        let program = program_of(settings, &schema, &structure);
        Ok(Self { settings: settings.clone(), schema, structure, program, warnings })
    }

    /// Refuses weights that are no numbers of trials, and what would take gigabytes.
    pub(in super::super) fn check(&self, survey: &Survey) -> Result<()> {
        survey.check_whole_weights("inference `gibbs`", "use inference `vb` for other weights")?;
        let layout = &self.program.layout;
        let matrices = layout.nodes.len() + layout.gaussians();
        if matrices.saturating_mul(packed_len(layout.dim)) > MOST_NUMBERS {
            return Err(Error::Unfit(format!(
                "inference `gibbs` holds {matrices} matrices of {0} by {0} numbers for each thread, which is too large: select columns first",
                layout.dim
            )));
        }
        Ok(())
    }

    pub(in super::super) fn fit(self) -> Result<Fit> {
        let Self { settings, schema, structure, program, warnings } = self;
        let schedule = Schedule::Sample { warm_up: settings.n_warmup, draws: settings.n_draws, thin: settings.thin };
        let (sealed, chains, program) = (state::seal(SCHEMA, &schema)?, settings.n_chains, Arc::new(program));
        let sampler = program.clone();
        let read = move |chains: &[Piece]| {
            Ok(Box::new(DrawsPosterior::new(&sampler, &schema, &settings, &structure, chains)?) as Box<dyn Posterior>)
        };
        Ok(Fit::new(program, chains, schedule, sealed, warnings, read))
    }
}
