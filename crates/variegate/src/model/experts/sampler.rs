//! What the samplers of a mixture of experts have in common, as checks and starts see them.

use super::law::Law;
use crate::run::Program;

/// A sampler whose state is a point of the mixture and the law it has before any row is seen.
pub trait Sampler: Program {
    /// A state at this point, under this law.
    fn at(&self, point: Vec<f64>, law: Law) -> Self::Global;

    /// The point of a state.
    fn point(global: &Self::Global) -> &[f64];

    /// The law of a state; it changes where hyperparameters are learned.
    fn law(global: &Self::Global) -> &Law;
}

#[cfg(test)]
mod tests;
