//! The one shape of every fit: a program asks blocks of rows, and they report additive statistics.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Draws, Merge, Stream};
use crate::Result;
use crate::data::Block;

/// A model together with one inference algorithm.
///
/// Between two sweeps, (global, locals, number of sweeps) is the whole state; that is what a checkpoint holds. Whatever must
/// survive the end of a sweep therefore lives in `Global` or `Local`, never in the program, and scratch is never state.
pub trait Program: Sized + Send + Sync + 'static {
    /// Name of the program as checkpoints carry it, for example `logistic/gibbs`.
    const NAME: &'static str;
    /// The release that first wrote each version of the saved state, from version 1 on. Whoever changes what `Global` or `Local` hold adds
    /// one; see [`Kind`](super::state::Kind).
    const RELEASES: &'static [&'static str];
    /// What every row sees.
    type Global: Serialize + DeserializeOwned + Send + Sync;
    /// What a block of rows keeps between visits. It is saved between two sweeps; fields that live only within a sweep are
    /// `#[serde(skip)]`, and must be what they were once the visits of the sweep are repeated from its start: so a lost worker is rebuilt.
    type Local: Serialize + DeserializeOwned + Send;
    /// What the rows are asked to do in one visit, with all they need for it. Several kinds of question are one enum.
    type Ask<'a>: Serialize + Deserialize<'a> + Sync;
    /// What the rows report; `Default` is the identity of the merge.
    type Stats: Serialize + DeserializeOwned + Merge + Default + Send;
    /// Buffers of a thread, reused from block to block.
    type Scratch: Default + Send;

    /// The first global state; may visit the rows.
    fn start(&self, rows: &mut dyn Rows<Self>, stream: Stream) -> Result<Self::Global>;

    /// The first local state of a block.
    fn local(&self, block: &Block<'_>, stream: Stream) -> Self::Local;

    /// One sweep: asks the rows as often as it needs and updates the global state.
    fn sweep(&self, global: &mut Self::Global, rows: &mut dyn Rows<Self>, tick: Tick) -> Result<Report>;

    /// One visit to one block. Pure but for `local`.
    fn visit(
        &self,
        ask: &Self::Ask<'_>,
        block: &Block<'_>,
        local: &mut Self::Local,
        scratch: &mut Self::Scratch,
        stream: Stream,
    ) -> Result<Self::Stats>;

    /// Writes what is kept of the present state as a draw.
    fn draw(&self, global: &Self::Global, out: &mut Draws);

    /// What a chain in this state works on, in two or three words for those who watch, where chains differ in that. It stays the same as long
    /// as the chain runs.
    fn works_on(&self, global: &Self::Global) -> Option<String> {
        let _ = global;
        None
    }

    /// The global state from the bytes that an earlier version of the saved state held, where it can be converted; else it is refused. Locals
    /// stay as they are.
    fn convert(version: u16, global: &[u8]) -> Option<Self::Global> {
        let _ = (version, global);
        None
    }

    /// The next generation: global states that further chains begin with, once every chain of the run has finished. None, and the run is
    /// complete.
    ///
    /// `finished` gives the global states of all chains so far, in order of their numbers; each is read and decoded as it is asked for.
    /// The new chains take the next numbers, the first of which is `stream.chain()`. Their locals come from [`Program::local`]; nothing
    /// else is done at their start, all work waits for their first sweep. Must be a pure function of its arguments.
    fn offspring(&self, finished: &mut dyn Iterator<Item = Result<Self::Global>>, stream: Stream) -> Result<Vec<Self::Global>> {
        let _ = (finished, stream);
        Ok(Vec::new())
    }

    /// The closing stage of a run: what is left to do once all draws are taken, in the light of all of them. None, and nothing is.
    ///
    /// It is done by chain 0, from the global state that is given back here; [`Program::close`] then does it step by step, and what comes of it
    /// stays in the global state. `lengths` has the number of draws of each chain, `first` reads the state of chain 0, and `draws` those of
    /// all chains. A run that is gone on with has its closing stage again: a chain that sweeps further forgets it.
    ///
    /// Asked again where a run was stopped in this stage, and once it is over; so the state must tell both. Programs whose blocks keep
    /// something between visits have no closing stage: blocks begin with [`Program::local`] in it. Must be a pure function of its arguments.
    fn closing(
        &self,
        lengths: &[u64],
        first: &mut dyn FnMut() -> Result<Self::Global>,
        draws: &mut dyn FnMut() -> Result<Vec<Draws>>,
    ) -> Result<Option<Self::Global>> {
        let _ = (lengths, first, draws);
        Ok(None)
    }

    /// One step of the closing stage, which `stream` belongs to; true with the last one. A step makes its own place in the stream.
    fn close(&self, global: &mut Self::Global, rows: &mut dyn Rows<Self>, stream: Stream) -> Result<bool> {
        let _ = (global, rows, stream);
        Ok(true)
    }
}

/// The rows as a sweep sees them: somewhere, in blocks, answering questions.
pub trait Rows<P: Program> {
    /// All that a sweep may know of the data.
    fn shape(&self) -> Shape;

    /// Asks some blocks and returns their merged answer. The error of the lowest block number wins.
    fn visit(&mut self, ask: &P::Ask<'_>, which: Which<'_>) -> Result<P::Stats>;

    /// Asks every block.
    fn all(&mut self, ask: &P::Ask<'_>) -> Result<P::Stats> {
        self.visit(ask, Which::All)
    }
}

/// Which blocks a visit goes to.
#[derive(Debug, Clone, Copy)]
pub enum Which<'a> {
    /// Every block.
    All,
    /// These blocks, ascending and without repetition.
    Some(&'a [u32]),
}

impl<'a> Which<'a> {
    /// The numbers that are asked, unless it is all of them.
    pub(super) fn chosen(self) -> Option<&'a [u32]> {
        match self {
            Self::All => None,
            Self::Some(chosen) => {
                debug_assert!(chosen.windows(2).all(|w| w[0] < w[1]));
                Some(chosen)
            }
        }
    }
}

/// Size of the data and how they are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Number of rows.
    pub rows: usize,
    /// Number of raw columns.
    pub cols: usize,
    /// Number of blocks.
    pub blocks: u32,
    /// Rows of a block; the last may have fewer.
    pub block_rows: usize,
}

/// When a sweep happens.
#[derive(Debug, Clone, Copy)]
pub struct Tick {
    /// Random stream of the sweep itself.
    pub stream: Stream,
    /// Number of the sweep, from 1.
    pub sweep: u64,
    /// Whether the sweep belongs to the warm-up, in which a sampler may still adapt.
    pub warm_up: bool,
}

/// What a sweep tells the driver.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Log joint density of a sampler, or the objective of an ascent method.
    pub objective: f64,
    /// Number of components in use.
    pub components: u32,
    /// An ascent method has converged; samplers never say so.
    pub converged: bool,
    /// Named figures of the sweep, for the trace: acceptance, step size, energy…
    pub extras: Vec<(String, f64)>,
}

/// Rows of a block unless the user says otherwise: products like panels that stay in the second-level cache.
pub fn default_block_rows(cols: usize) -> usize {
    if cols < 1000 { 512 } else { 256 }
}
