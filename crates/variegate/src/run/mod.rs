//! The engine room: programs, blocks, streams, chains, the driver, and where results are kept.

mod chain;
mod draws;
mod drive;
mod merge;
mod program;
mod slot;
pub mod state;
mod storage;
mod stream;
mod survey;
mod threads;

#[cfg(test)]
mod tests;

pub use crate::data::{Block, blocks};
pub use chain::{AnyProgram, Chain, Typed, saved_global};
pub use draws::{Draws, Table};
pub(crate) use drive::pool;
pub use drive::{ChainProgress, Ending, Next, Observer, Pace, Plan, Schedule, Unobserved, drive};
pub use merge::{List, Merge, Sum};
pub use program::{Program, Report, Rows, Shape, Tick, Which, default_block_rows};
pub use state::StateError;
pub use storage::{Kept, Memory, Piece, Storage};
pub(crate) use stream::{GOLDEN, scatter_bits};
pub use stream::{Philox, Purpose, Stream, open01};
pub use survey::{shape_of, survey};
pub use threads::Threads;
