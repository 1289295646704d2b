//! The engine room: programs, blocks, streams, chains, the driver, and where results are kept.
//!
//! A program is a sweep that asks blocks of rows and merges what they report. This one finds the mean of a column by steps of Newton's
//! method, on any number of threads and to the same bits:
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use variegate::data::{Dataset, Matrix};
//! use variegate::run::*;
//! use variegate::{Result, merge_fields};
//!
//! struct Mean;
//!
//! #[derive(Default, Serialize, Deserialize)]
//! struct Stats {
//!     rows: Sum<f64>,
//!     residual: Sum<f64>,
//! }
//! merge_fields!(Stats, rows, residual);
//!
//! impl Program for Mean {
//!     const NAME: &'static str = "toy/mean";
//!     const RELEASES: &'static [&'static str] = &["0.1"];
//!     type Global = f64;
//!     type Local = ();
//!     type Ask<'a> = f64;
//!     type Stats = Stats;
//!     type Scratch = ();
//!
//!     fn start(&self, _: &mut dyn Rows<Self>, _: Stream) -> Result<f64> {
//!         Ok(0.0)
//!     }
//!     fn local(&self, _: &Block<'_>, _: Stream) {}
//!     fn sweep(&self, mean: &mut f64, rows: &mut dyn Rows<Self>, _: Tick) -> Result<Report> {
//!         let found = rows.all(mean)?;
//!         *mean += found.residual.0 / found.rows.0;
//!         let off = found.residual.0.abs();
//!         Ok(Report { objective: -off, converged: off < 1e-9, ..Report::default() })
//!     }
//!     fn visit(&self, mean: &f64, block: &Block<'_>, _: &mut (), _: &mut (), _: Stream) -> Result<Stats> {
//!         let mut stats = Stats::default();
//!         for i in 0..block.rows() {
//!             block.x.for_row(i, |_, value| stats.residual.0 += value - mean);
//!             stats.rows.0 += 1.0;
//!         }
//!         Ok(stats)
//!     }
//!     fn draw(&self, mean: &f64, out: &mut Draws) {
//!         out.scalar("mean", *mean);
//!     }
//! }
//!
//! # fn main() -> Result<()> {
//! let data = Dataset::new(Matrix::dense(1000, 1, (0..1000).map(f64::from).collect::<Vec<_>>()));
//! let plan = Plan { seed: 1, chains: 1, schedule: Schedule::Ascend { max_sweeps: 10 }, block_rows: 100 };
//! let mut kept = Memory::default();
//! drive(&Mean, &data, &plan, Pace::default(), &mut kept, &mut Unobserved)?;
//! assert_eq!(saved_global::<Mean>(&kept.chains[0].checkpoint)?, 499.5);
//! # Ok(())
//! # }
//! ```

mod chain;
mod draws;
mod drive;
mod engine;
mod loopback;
mod memory;
mod merge;
mod program;
mod remote;
mod slot;
mod span;
pub mod state;
mod storage;
mod stream;
mod survey;
mod threads;
mod worker;

#[cfg(test)]
mod tests;

pub use crate::data::{Block, blocks};
pub use chain::{AnyProgram, Chain, Typed, saved_global};
pub use draws::{Draws, Table};
pub(crate) use drive::pool;
pub use drive::{ChainProgress, Ending, Next, Observer, Pace, Plan, Schedule, Unobserved, drive, drive_on};
pub use engine::{Engine, Workers};
pub use loopback::Loopback;
pub use memory::memory_allowed;
pub use merge::{Least, List, Merge, Sum};
pub use program::{Program, Report, Rows, Shape, Tick, Which, default_block_rows};
pub use state::StateError;
pub use storage::{Kept, Memory, Piece, Results, Storage};
pub(crate) use stream::{GOLDEN, scatter_bits};
pub use stream::{Philox, Purpose, Stream, open01};
pub use survey::{shape_of, survey, survey_on, surveyor};
pub use threads::Threads;
pub use worker::Worker;
