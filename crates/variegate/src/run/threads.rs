//! The engine for this machine: blocks are visited by the threads of the current rayon pool, typed, nothing serialised.

use super::engine::ChainRows;
use super::span::Span;
use super::{Block, Program, Purpose, Rows, Shape, Stream, Which};
use crate::Result;

/// Rows on this machine.
pub struct Threads<'a, P: Program> {
    program: &'a P,
    blocks: &'a [Block<'a>],
    span: Span<P>,
    shape: Shape,
    stream: Stream,
    visits: u32,
}

impl<'a, P: Program> Threads<'a, P> {
    /// Sets up the rows of a chain, with fresh locals unless saved ones are given.
    pub fn new(program: &'a P, blocks: &'a [Block<'a>], shape: Shape, seed: u64, chain: u32, saved: Option<Vec<P::Local>>) -> Self {
        let span = saved.map_or_else(|| Span::fresh(program, blocks, seed, chain), Span::new);
        Self { program, blocks, span, shape, stream: Stream::new(seed, chain, Purpose::Visit), visits: 0 }
    }

    /// Begins a sweep: visits are numbered anew.
    pub fn begin(&mut self, sweep: u64) {
        self.stream = self.stream.sweep(sweep);
        self.visits = 0;
    }

    /// Local state, one a block.
    pub fn locals(&self) -> &[P::Local] {
        &self.span.locals
    }
}

impl<P: Program> Rows<P> for Threads<'_, P> {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn visit(&mut self, ask: &P::Ask<'_>, which: Which<'_>) -> Result<P::Stats> {
        let stream = self.stream.visit(self.visits);
        self.visits += 1;
        let all = 0..self.shape.blocks;
        let answers = self.span.visit(self.program, self.blocks, std::slice::from_ref(&all), ask, which.chosen(), stream)?;
        Ok(answers.into_iter().next().flatten().unwrap_or_default())
    }
}

impl<P: Program> ChainRows<P> for Threads<'_, P> {
    fn begin(&mut self, sweep: u64) -> Result<()> {
        Threads::begin(self, sweep);
        Ok(())
    }

    fn save(&mut self) -> Result<Vec<Vec<u8>>> {
        Ok(self.span.save()?)
    }
}
