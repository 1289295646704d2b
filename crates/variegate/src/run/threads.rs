//! The engine for this machine: blocks are visited by the threads of the current rayon pool.
//!
//! Visit and merge happen in one recursion along a fixed binary tree over block numbers, so the answer has the same bits for any
//! number of threads and no more than a few statistics are alive at a time.

use rayon::prelude::*;
use std::sync::Mutex;

use super::{Block, Merge, Program, Purpose, Rows, Shape, Stream, Which};
use crate::Result;

/// Rows on this machine.
pub struct Threads<'a, P: Program> {
    program: &'a P,
    blocks: &'a [Block<'a>],
    /// Local state, one a block.
    pub locals: Vec<P::Local>,
    shape: Shape,
    scratch: Mutex<Vec<P::Scratch>>,
    stream: Stream,
    visits: u32,
}

impl<'a, P: Program> Threads<'a, P> {
    /// Sets up the rows of a chain, with fresh locals unless saved ones are given.
    pub fn new(program: &'a P, blocks: &'a [Block<'a>], shape: Shape, seed: u64, chain: u32, saved: Option<Vec<P::Local>>) -> Self {
        let stream = Stream::new(seed, chain, Purpose::Local);
        let locals = saved.unwrap_or_else(|| blocks.par_iter().map(|b| program.local(b, stream.block(b.number))).collect());
        Self { program, blocks, locals, shape, scratch: Mutex::new(Vec::new()), stream, visits: 0 }
    }

    /// Begins a sweep: visits are numbered anew.
    pub fn begin(&mut self, sweep: u64) {
        self.stream = self.stream.purpose(Purpose::Visit).sweep(sweep);
        self.visits = 0;
    }
}

/// Where the tree over [lo, hi) splits: at the highest bit in which the first and the last number differ.
pub(super) fn split(lo: u32, hi: u32) -> u32 {
    let bit = 31 - (lo ^ (hi - 1)).leading_zeros();
    ((hi - 1) >> bit) << bit
}

struct Visit<'v, 'a, P: Program> {
    program: &'v P,
    ask: &'v P::Ask<'a>,
    blocks: &'v [Block<'v>],
    scratch: &'v Mutex<Vec<P::Scratch>>,
    stream: Stream,
}

impl<P: Program> Visit<'_, '_, P> {
    fn leaf(&self, number: u32, local: &mut P::Local) -> Result<P::Stats> {
        let pooled = self.scratch.lock().unwrap_or_else(|e| e.into_inner()).pop();
        let mut scratch = pooled.unwrap_or_default();
        let block = &self.blocks[number as usize];
        let stats = self.program.visit(self.ask, block, local, &mut scratch, self.stream.block(number));
        self.scratch.lock().unwrap_or_else(|e| e.into_inner()).push(scratch);
        stats
    }

    /// Blocks lo..hi, whose locals are given; `chosen` are the numbers asked for among them, or all.
    fn tree(&self, lo: u32, hi: u32, locals: &mut [P::Local], chosen: Option<&[u32]>) -> Result<Option<P::Stats>> {
        if lo == hi || chosen.is_some_and(<[u32]>::is_empty) {
            return Ok(None);
        }
        if hi - lo == 1 {
            return self.leaf(lo, &mut locals[0]).map(Some);
        }
        let mid = split(lo, hi);
        let (left_locals, right_locals) = locals.split_at_mut((mid - lo) as usize);
        let (left_chosen, right_chosen) = match chosen {
            None => (None, None),
            Some(c) => {
                let (l, r) = c.split_at(c.partition_point(|&b| b < mid));
                (Some(l), Some(r))
            }
        };
        let (left, right) = rayon::join(|| self.tree(lo, mid, left_locals, left_chosen), || self.tree(mid, hi, right_locals, right_chosen));
        Ok(match (left?, right?) {
            (Some(mut l), Some(r)) => {
                l.merge(r);
                Some(l)
            }
            (l, r) => l.or(r),
        })
    }
}

impl<P: Program> Rows<P> for Threads<'_, P> {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn visit(&mut self, ask: &P::Ask<'_>, which: Which<'_>) -> Result<P::Stats> {
        let visit =
            Visit { program: self.program, ask, blocks: self.blocks, scratch: &self.scratch, stream: self.stream.visit(self.visits) };
        self.visits += 1;
        let chosen = match which {
            Which::All => None,
            Which::Some(c) => {
                debug_assert!(c.windows(2).all(|w| w[0] < w[1]));
                Some(c)
            }
        };
        Ok(visit.tree(0, self.shape.blocks, &mut self.locals, chosen)?.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn tree_splits_at_aligned_numbers() {
        assert_eq!(split(0, 2), 1);
        assert_eq!(split(0, 79), 64);
        assert_eq!(split(64, 79), 72);
        assert_eq!(split(5, 7), 6);
        assert_eq!(split(6, 8), 7);
        // a worker that holds an aligned run holds a whole node
        assert_eq!(split(0, 128), 64);
        assert_eq!(split(64, 128), 96);
    }
}
