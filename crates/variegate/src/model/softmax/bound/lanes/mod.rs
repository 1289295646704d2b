//! Bounds of many rows at once: the searches of `tilted.rs` and `double.rs` with a row in each lane of the vector instructions.
//!
//! Numbers of the rows of a group lie next to each other, and every loop over them is plain arithmetic without branches. No lane looks at
//! another, and a lane that is done keeps its result while others go on, so that a row gives the same bits alone and in any company. A lane
//! whose search leaves the straight path (a step that must be shortened, a covariance that is none) is handed back unsolved.

mod double;
#[cfg(test)]
mod tests;
mod tilted;

pub(crate) use double::Double;
pub(crate) use tilted::{Spread, Tilted};
