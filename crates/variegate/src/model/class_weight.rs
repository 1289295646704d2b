//! Weights of classes, for every classifier whose rows may have any weight.

use crate::words;

words! {
    /// Weights of classes.
    pub enum ClassWeight {
        /// Every row counts as it is.
        None = "none",
        /// Classes count the same in all.
        Balanced = "balanced",
    }
}
