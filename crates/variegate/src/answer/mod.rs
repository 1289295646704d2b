//! What fitted models answer.
//!
//! A [`Posterior`] tells where it comes from and what it found. What else it can be asked are capabilities, each a small trait of its own
//! that it has or has not ([`Answers`]). Fronts ask for a capability and know no family; a family never mentions one that it lacks.
//!
//! | file | capability |
//! |---|---|
//! | `classes.rs`, `outcomes.rs` | classes and real outcomes of rows |
//! | `label_sets.rs`, `decide.rs` | sets of labels of rows, and the rules that choose them |
//! | `likelihoods.rs` | log likelihood of rows under each draw |
//! | `components.rs` | hidden components of rows |
//! | `clusters.rs` | trees of rows, and where new rows go in them |
//! | `rows.rs` | coordinates (and back), probabilities, completions, missing entries and neighbours of rows |
//! | `selection.rs` | structures that were compared |
//! | `ask.rs` | asking for one of them, with one error for those that are not there |
//! | `summary.rs`, `arrays.rs` | what every posterior says of itself: figures, tables, arrays |
//! | `draws.rs` | reading the draws of chains back, and the table that judges them |
//! | `how.rs` | how predictions are made: method, draws, intervals |
//! | `panels.rs`, `class_draws.rs` | rows of a prediction, and averages over draws |

mod arrays;
mod ask;
mod class_draws;
mod classes;
mod clusters;
mod components;
mod decide;
mod draws;
mod how;
mod label_sets;
mod likelihoods;
mod outcomes;
mod panels;
mod rows;
mod selection;
mod summary;

pub use arrays::{Dim, NamedArray};
pub use class_draws::{ClassDraws, DrawScores, average, chosen, ln_likelihoods};
pub(crate) use class_draws::{Scored, TARGET_ERROR, for_scores, gather, panels_at_once, spread};
pub use classes::{ClassProbabilities, Interval, PredictClasses};
pub use clusters::{ClusterNode, ClusterRows, ClusterTree, PlacedRows, WhichTree};
pub use components::{HiddenComponents, Responsibilities, SharedComponents};
pub use decide::{SeenSets, SubsetRule, micro_f1_threshold};
pub(crate) use draws::evenly;
pub use draws::{DrawTable, KeptDraws};
pub use how::{Predict, PredictDraws};
pub use label_sets::{LabelPrediction, LabelRule, PredictLabels, known_labels};
pub use likelihoods::{RowLikelihood, RowLikelihoods, known_classes};
pub(crate) use outcomes::check_levels;
pub use outcomes::{PredictOutcomes, RealPrediction};
pub(crate) use panels::choose_word;
pub use panels::{PREDICT_PANEL, check_new_rows, check_prediction_rows, choose_method, for_panels, for_panels_parallel};
pub use rows::{
    CompleteRows, Coordinates, HeldOut, HeldOutEffort, ImputeRows, Imputed, Neighbours, PlaceRows, RebuildRows, Rebuilt, RowDensity,
};
pub use selection::{Chosen, Selection};
pub use summary::{ColumnKind, Fact, Figure, Summary, SummaryColumn, SummaryTable};

use crate::Result;

/// A fitted model. It needs no training data, and what it says of a row depends on that row alone.
pub trait Posterior: Send + Sync {
    /// Its family, and the rows it was fitted on.
    fn origin(&self) -> Origin<'_>;
    /// What else it can be asked.
    fn answers(&self) -> Answers<'_>;
    /// What was found, and how sure it is.
    fn summary(&self) -> Summary;
    /// Named arrays of the posterior: coefficients, covariances, draws.
    fn arrays(&self) -> Vec<NamedArray>;
    /// All of it, sealed.
    fn save(&self) -> Result<Vec<u8>>;
}

/// Where a fitted model comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Origin<'a> {
    /// Name of its family.
    pub family: &'static str,
    /// Names of the columns; empty if they had none.
    pub columns: &'a [String],
    /// Number of columns.
    pub width: usize,
    /// Names of the sources; empty if rows had none.
    pub sources: &'a [String],
}

/// The capabilities of a posterior: those that it has. `Answers { classes: Some(self), ..Answers::default() }` stays true when there are more.
#[derive(Clone, Copy, Default)]
pub struct Answers<'a> {
    /// Classes of rows.
    pub classes: Option<&'a dyn PredictClasses>,
    /// Real outcomes of rows.
    pub outcomes: Option<&'a dyn PredictOutcomes>,
    /// Sets of labels of rows.
    pub label_sets: Option<&'a dyn PredictLabels>,
    /// Log likelihood of rows under each draw.
    pub likelihoods: Option<&'a dyn RowLikelihoods>,
    /// Hidden components of rows.
    pub components: Option<&'a dyn HiddenComponents>,
    /// Rows that share a hidden component.
    pub pairs: Option<&'a dyn SharedComponents>,
    /// Trees of rows.
    pub clusters: Option<&'a dyn ClusterRows>,
    /// Coordinates of rows.
    pub coordinates: Option<&'a dyn PlaceRows>,
    /// Rows from their coordinates.
    pub rebuilding: Option<&'a dyn RebuildRows>,
    /// Probabilities of rows.
    pub density: Option<&'a dyn RowDensity>,
    /// Completions of rows.
    pub completion: Option<&'a dyn CompleteRows>,
    /// Missing entries of rows.
    pub imputation: Option<&'a dyn ImputeRows>,
    /// Rows that are alike.
    pub neighbours: Option<&'a dyn Neighbours>,
    /// Structures that were compared.
    pub chosen: Option<&'a dyn Chosen>,
}
