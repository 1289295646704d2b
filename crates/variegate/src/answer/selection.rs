//! Structures that a fit has compared.

use serde::{Deserialize, Serialize};

/// A posterior that was chosen among structures.
pub trait Chosen {
    /// The structures, if there is anything to compare yet.
    fn selection(&self) -> Option<Selection>;
}

/// Structures that were compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Selection {
    /// Headings of the figures.
    pub headings: Vec<String>,
    /// One structure a row: its name, and figures that may not be known.
    pub rows: Vec<(String, Vec<Option<f64>>)>,
    /// Place of the one that was chosen.
    pub chosen: usize,
    /// Heading of the figure that decided.
    pub criterion: String,
    /// Why, in a sentence.
    pub reason: String,
}
