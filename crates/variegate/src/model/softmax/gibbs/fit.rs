//! The sampler bound to the schema of its data.

use super::super::policy::Policy;
use super::super::tree::Structure;
use super::super::{MOST_NUMBERS, SCHEMA, Schema, Settings};
use super::Gibbs;
use super::posterior::DrawsPosterior;
use crate::data::Dataset;
use crate::data::design::packed_len;
use crate::model::{Fit, Posterior};
use crate::run::{AnyProgram, Piece, Schedule, state};
use crate::{Error, Result};

/// A row of a larger weight would be as many trials in memory.
const LARGEST_WEIGHT: f64 = 1e6;

pub(in super::super) struct GibbsFit {
    settings: Settings,
    schema: Schema,
    structure: Structure,
    program: Gibbs,
    warnings: Vec<String>,
}

impl GibbsFit {
    pub(in super::super) fn new(settings: &Settings, schema: Schema, warnings: Vec<String>) -> Result<Self> {
        let outcome = schema.outcome();
        let structure = match settings.search(outcome)?.policy {
            Policy::All(mut structures) if structures.len() == 1 => structures.remove(0),
            _ => return Err(Error::setting("inference", "gibbs", "`vb` to search for a structure")),
        };
        let design = schema.design.clone();
        let shape = settings.shape(&design);
        let mut program = Gibbs::new(design, &structure, outcome, settings.coding, &shape, settings.leaf());
        program.y_mean.clone_from(&schema.y_mean);
        program.y_scale.clone_from(&schema.y_scale);
        Ok(Self { settings: settings.clone(), schema, structure, program, warnings })
    }

    /// Refuses weights that are no numbers of trials, and what would take gigabytes.
    pub(in super::super) fn check(&self, data: &Dataset<'_>) -> Result<()> {
        if let Some(row) = data.weights.iter().flatten().position(|w| w.fract() != 0.0 || *w > LARGEST_WEIGHT) {
            return Err(Error::Unfit(format!(
                "row {}: the weight must be a whole number of at most {LARGEST_WEIGHT} for inference `gibbs` (a row of weight 2 counts \
                 twice); use inference `vb` for other weights",
                row + 1
            )));
        }
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
}

impl Fit for GibbsFit {
    fn program(&self) -> &dyn AnyProgram {
        &self.program
    }

    fn chains(&self) -> u32 {
        self.settings.n_chains
    }

    fn schedule(&self) -> Schedule {
        let s = &self.settings;
        Schedule::Sample { warm_up: s.n_warmup, draws: s.n_draws, thin: s.thin }
    }

    fn schema(&self) -> Result<Vec<u8>> {
        Ok(state::seal(SCHEMA, &self.schema)?)
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn posterior(&self, chains: &[Piece]) -> Result<Box<dyn Posterior>> {
        Ok(Box::new(DrawsPosterior::new(&self.program, &self.schema, &self.settings, &self.structure, chains)?))
    }
}
