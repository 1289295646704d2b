//! Which structures a run fits, from how many starts, and what decides between them.

use serde::{Deserialize, Serialize};

use super::criterion::Criterion;
use super::tree::Structure;

/// How structures are searched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Policy {
    /// All of these, each from its own starts; one alone is the common case.
    All(Vec<Structure>),
    /// Uniform numbers of subclasses up to `largest`, compressed for so many generations.
    Compressive {
        /// Number of classes.
        classes: usize,
        /// Largest uniform number.
        largest: usize,
        /// Generations, the uniform one included.
        generations: u32,
        /// A subclass with a smaller share of its class is irrelevant.
        relevance: f64,
    },
    /// Splits and deletions of subclasses from one a class on.
    GreedySubclasses {
        /// Number of classes.
        classes: usize,
        /// Most subclasses of a class.
        most: usize,
        /// A subclass with a smaller share of its class is irrelevant.
        relevance: f64,
    },
    /// Splits and deletions of experts from one on.
    GreedyExperts {
        /// Most experts.
        most: usize,
    },
}

/// A search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Search {
    /// Which structures.
    pub(crate) policy: Policy,
    /// Starts of each structure.
    pub(crate) starts: u32,
    /// Ascents from the best of them.
    pub(crate) ascents: u32,
    /// What decides.
    pub(crate) criterion: Criterion,
    /// Folds of cross-validation.
    pub(crate) folds: u32,
    /// Most sweeps of an ascent; 0 stops at the maximum of the likelihood.
    pub(crate) max_iter: u64,
    /// Whether ascents are annealed: then every start has its own.
    pub(crate) anneal: bool,
}

impl Search {
    /// Whether more than one structure is compared, so that all criteria are worth their price.
    pub(crate) fn compares(&self) -> bool {
        !matches!(&self.policy, Policy::All(structures) if structures.len() == 1)
    }

    /// Whether nothing can follow from the first generation: one fit of one structure.
    pub(crate) fn is_over_at_once(&self) -> bool {
        let alone = matches!(&self.policy, Policy::All(structures) if structures.iter().all(Structure::is_concave));
        alone && self.criterion != Criterion::Cv
    }

    /// Whether prediction of held-out rows leads the search, from structure to structure.
    pub(crate) fn is_guided(&self) -> bool {
        self.splits() && self.criterion == Criterion::Cv
    }

    /// Whether there is one structure, and nothing to choose.
    pub(crate) fn is_one(&self) -> bool {
        matches!(&self.policy, Policy::All(structures) if structures.len() == 1)
    }

    /// Whether components are split, so that fits must say along which axes.
    pub(crate) fn splits(&self) -> bool {
        matches!(self.policy, Policy::GreedySubclasses { .. } | Policy::GreedyExperts { .. })
    }
}
