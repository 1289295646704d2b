//! Diversified mixtures of experts: a softmax gate over linear classifiers whose directions keep apart.
//!
//! z ~ Cat(softmax_k(η_k·x + c_k)); given z = k, y ~ Cat(softmax(V(Θ_k x + b_k))). The weights of an expert (and of a gate) are a
//! length times a direction; lengths are Gamma, and directions are coupled by a mutual angular chain or a determinant, so that no two
//! experts say the same. A Gaussian prior leaves them independent.
//!
//! | file | what it is |
//! |---|---|
//! | `settings.rs` | settings, their defaults, and what goes with what |
//! | `shape.rs` | coordinates, weights as rows see them, and the ways between |
//! | `law.rs` | the prior of a point |
//! | `../gated.rs` | rows of a gate over experts: likelihood, shares, derivatives |

pub mod settings;
pub mod shape;

pub use settings::Settings;
pub use shape::Shape;

use serde::{Deserialize, Serialize};

use crate::data::Design;

pub(crate) const NAME: &str = "experts";

/// What results depend on beside draws.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Schema {
    pub(crate) columns: Vec<String>,
    pub(crate) classes: Vec<String>,
    /// Number of rows of each class, weights counted.
    pub(crate) counts: Vec<f64>,
    pub(crate) design: Design,
    pub(crate) shape: Shape,
}
