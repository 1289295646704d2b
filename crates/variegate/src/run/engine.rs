//! Where blocks of rows are, and who visits them: the seam between chains and engines. A program knows nothing of it.

use std::ops::Range;
use std::sync::Arc;

use super::remote::Remote;
use super::span::Span;
use super::{Block, Program, Rows, Shape, Threads};
use crate::Result;

/// Where the blocks of a run are.
#[derive(Clone, Copy)]
pub enum Engine<'a> {
    /// Here, all of them; the threads of the current pool visit them.
    Threads(&'a [Block<'a>]),
    /// With workers, who are sent bytes.
    Workers(&'a dyn Workers),
}

impl<'a> From<&'a [Block<'a>]> for Engine<'a> {
    fn from(blocks: &'a [Block<'a>]) -> Self {
        Self::Threads(blocks)
    }
}

impl<'a> From<&'a Vec<Block<'a>>> for Engine<'a> {
    fn from(blocks: &'a Vec<Block<'a>>) -> Self {
        Self::Threads(blocks)
    }
}

/// Workers that hold spans of blocks ([`Worker`](super::Worker)), and the way to them.
///
/// What they answer is a function of what they were asked, so a span whose worker is lost is rebuilt by another from the last snapshot of its
/// locals and the calls since then, to the same bits. Implementations only carry bytes; when and what to rebuild is not their concern.
pub trait Workers: Send + Sync {
    /// The spans of blocks that are held together: ascending, and together all blocks.
    fn spans(&self) -> &[Range<u32>];

    /// Sends a call to each of these spans and waits for the answers, in the same order. There is no answer where a worker is gone; another
    /// one holds its blocks from then on, and knows of no chain. Called from several threads at once, one a chain. Calls that are one
    /// allocation are the same and may be large: they need to travel only once.
    fn post(&self, calls: &[(usize, Arc<[u8]>)]) -> Result<Vec<Option<Vec<u8>>>>;
}

/// The rows of a chain, on whatever engine.
pub(super) trait ChainRows<P: Program>: Rows<P> + Send {
    /// Begins a sweep: visits are numbered anew.
    fn begin(&mut self, sweep: u64) -> Result<()>;
    /// The locals between two sweeps, one a block.
    fn save(&mut self) -> Result<Vec<Vec<u8>>>;
}

impl<'a> Engine<'a> {
    /// The rows of a chain; saved locals come one a block, none are made afresh where the blocks are.
    pub(super) fn rows<P: Program>(
        self,
        program: &'a P,
        shape: Shape,
        seed: u64,
        chain: u32,
        saved: Option<Vec<Vec<u8>>>,
    ) -> Result<Box<dyn ChainRows<P> + 'a>> {
        Ok(match self {
            Self::Threads(blocks) => {
                let locals = saved.map(|saved| Span::<P>::load(saved.iter().map(Vec::as_slice))).transpose()?.map(|span| span.locals);
                Box::new(Threads::new(program, blocks, shape, seed, chain, locals))
            }
            Self::Workers(workers) => Box::new(Remote::new(workers, shape, seed, chain, saved)),
        })
    }
}
