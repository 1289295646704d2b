//! How good predictions are where the truth is known: accuracy, log loss, Brier score, squared error and log density, in all, by
//! category, and of two fits on the same rows; how good chosen, ranked and weighed sets of labels are; and how good models of rows alone
//! are: at completing and rebuilding rows, at finding rows that are alike, at keeping rows of a class together, and at growing trees of them.
//!
//! With classes everything begins with one [`ClassScore`] a row; what is said of many rows is a [`Tally`] of them, so that a score by category is
//! made of the very figures that the score in all is made of.

mod classes;
mod clusters;
mod completion;
mod distances;
mod groups;
mod interval;
mod label_sets;
mod losses;
mod nearest;
mod paired;
mod real;
mod rebuilding;
mod retrieval;
mod tree_scores;
mod trees;

pub use classes::{ClassScore, Tally, score_classes};
pub use clusters::{KMeans, clustering_accuracy, k_means, normalized_mutual_information};
pub use completion::{Completion, SEEN, completion};
pub use groups::Group;
pub use interval::{Z95, wilson};
pub use label_sets::LabelScores;
pub use losses::Losses;
pub use nearest::{ClassPrecision, precision_by_class};
pub use paired::Paired;
pub use real::RealScore;
pub use rebuilding::{RebuildErrors, rebuild_errors};
pub use retrieval::{Ranking, Retrieval};
pub use tree_scores::{TreeScore, path_scores, tree_scores};
pub use trees::{NodeDistances, dendrogram_purity, level_f_measures, node_distances};
