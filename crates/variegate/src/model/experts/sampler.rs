//! What the samplers of a mixture of experts have in common, as checks and starts see them.

use super::point_prior::PointPrior;
use crate::run::Program;

/// A sampler whose state is a point of the mixture and the prior of points.
pub(super) trait Sampler: Program {
    /// A state at this point, under this prior.
    fn at(&self, point: Vec<f64>, point_prior: PointPrior) -> Self::Global;

    /// The point of a state.
    fn point(global: &Self::Global) -> &[f64];

    /// The prior of a state; it changes where hyperparameters are learned.
    fn point_prior(global: &Self::Global) -> &PointPrior;
}

#[cfg(test)]
mod tests;
