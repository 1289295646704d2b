//! A span of blocks, what it keeps of one chain, and how it is visited: the work that every engine does alike.
//!
//! Visit and merge happen in one recursion along a fixed binary tree over block numbers, so the answer has the same bits for any number of
//! threads and of workers, and no more than a few statistics are alive at a time.

use std::ops::Range;
use std::sync::Mutex;

use super::state::StateError;
use super::{Block, Merge, Program, Purpose, Stream};
use crate::Result;
use crate::parallel;

/// What a span of blocks keeps of a chain.
pub(super) struct Span<P: Program> {
    /// Local state, one a block.
    pub locals: Vec<P::Local>,
    scratch: Mutex<Vec<P::Scratch>>,
}

impl<P: Program> Span<P> {
    pub(super) fn new(locals: Vec<P::Local>) -> Self {
        Self { locals, scratch: Mutex::new(Vec::new()) }
    }

    /// With the first locals of a chain.
    pub(super) fn fresh(program: &P, blocks: &[Block<'_>], seed: u64, chain: u32) -> Self {
        let stream = Stream::new(seed, chain, Purpose::Local);
        Self::new(parallel::map(blocks, |_, b| program.local(b, stream.block(b.number))))
    }

    /// With saved locals, one a block.
    pub(super) fn load<'s>(saved: impl Iterator<Item = &'s [u8]>) -> Result<Self, StateError> {
        Ok(Self::new(saved.map(postcard::from_bytes).collect::<Result<_, _>>()?))
    }

    /// The locals, each by itself, so that a block can move alone.
    pub(super) fn save(&self) -> Result<Vec<Vec<u8>>, StateError> {
        Ok(self.locals.iter().map(postcard::to_stdvec).collect::<Result<_, _>>()?)
    }

    /// Merged answers of nodes of the tree, which lie within the blocks given and ascend; `chosen` are the numbers asked for, or all. The
    /// error of the lowest block wins.
    pub(super) fn visit(
        &mut self,
        program: &P,
        blocks: &[Block<'_>],
        nodes: &[Range<u32>],
        ask: &P::Ask<'_>,
        chosen: Option<&[u32]>,
        stream: Stream,
    ) -> Result<Vec<Option<P::Stats>>> {
        let Some(first) = blocks.first().map(|b| b.number) else { return Ok(Vec::new()) };
        let visit = Visit { program, ask, blocks, first, scratch: &self.scratch, stream };
        let mut rest = &mut self.locals[..];
        let mut taken = first;
        let mut tasks = Vec::with_capacity(nodes.len());
        for node in nodes {
            let (here, after) = std::mem::take(&mut rest).split_at_mut((node.end - taken) as usize);
            tasks.push((node, &mut here[(node.start - taken) as usize..]));
            (rest, taken) = (after, node.end);
        }
        let answer = |_, (node, locals): (&Range<u32>, &mut [P::Local])| visit.tree(node.start, node.end, locals, within(chosen, node));
        match <[_; 1]>::try_from(tasks) {
            Ok([whole]) => Ok(vec![answer(0, whole)?]),
            // all of them are visited, whatever fails: which error wins depends on no thread
            Err(tasks) => parallel::map(tasks, answer).into_iter().collect(),
        }
    }
}

/// The numbers among these that lie in a node.
fn within<'c>(chosen: Option<&'c [u32]>, node: &Range<u32>) -> Option<&'c [u32]> {
    chosen.map(|c| &c[c.partition_point(|&b| b < node.start)..c.partition_point(|&b| b < node.end)])
}

/// Where the tree over [lo, hi) splits: at the highest bit in which the first and the last number differ.
fn split(lo: u32, hi: u32) -> u32 {
    let bit = 31 - (lo ^ (hi - 1)).leading_zeros();
    ((hi - 1) >> bit) << bit
}

/// The largest nodes of the tree over so many blocks that lie within a span: what whoever holds it can merge.
pub(super) fn largest_nodes(blocks: u32, span: &Range<u32>) -> Vec<Range<u32>> {
    fn add(node: Range<u32>, span: &Range<u32>, out: &mut Vec<Range<u32>>) {
        if node.start.max(span.start) >= node.end.min(span.end) {
            return;
        }
        if span.start <= node.start && node.end <= span.end {
            return out.push(node);
        }
        let mid = split(node.start, node.end);
        add(node.start..mid, span, out);
        add(mid..node.end, span, out);
    }
    let mut out = Vec::new();
    add(0..blocks, span, &mut out);
    out
}

/// Merges answers of nodes, which ascend, to that of all blocks: the upper part of the tree.
pub(super) fn gather<S: Merge>(blocks: u32, answers: Vec<(Range<u32>, Option<S>)>) -> Option<S> {
    fn merged<S: Merge>(node: Range<u32>, rest: &mut std::iter::Peekable<std::vec::IntoIter<(Range<u32>, Option<S>)>>) -> Option<S> {
        let next = rest.peek().map(|(range, _)| range.clone()).filter(|range| range.start < node.end)?;
        if next == node {
            return rest.next().and_then(|(_, stats)| stats);
        }
        let mid = split(node.start, node.end);
        let left = merged(node.start..mid, rest);
        join(left, merged(mid..node.end, rest))
    }
    merged(0..blocks, &mut answers.into_iter().peekable())
}

/// Two answers as one, where blocks that were not asked have none.
fn join<S: Merge>(left: Option<S>, right: Option<S>) -> Option<S> {
    match (left, right) {
        (Some(mut l), Some(r)) => {
            l.merge(r);
            Some(l)
        }
        (l, r) => l.or(r),
    }
}

struct Visit<'v, 'a, P: Program> {
    program: &'v P,
    ask: &'v P::Ask<'a>,
    blocks: &'v [Block<'v>],
    /// Number of the first block.
    first: u32,
    scratch: &'v Mutex<Vec<P::Scratch>>,
    stream: Stream,
}

impl<P: Program> Visit<'_, '_, P> {
    fn leaf(&self, number: u32, local: &mut P::Local) -> Result<P::Stats> {
        let pooled = self.scratch.lock().unwrap_or_else(|e| e.into_inner()).pop();
        let mut scratch = pooled.unwrap_or_default();
        let block = &self.blocks[(number - self.first) as usize];
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
        let (left_chosen, right_chosen) = (within(chosen, &(lo..mid)), within(chosen, &(mid..hi)));
        let (left, right) =
            parallel::both(|| self.tree(lo, mid, left_locals, left_chosen), || self.tree(mid, hi, right_locals, right_chosen));
        Ok(join(left?, right?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::List;

    #[test]
    fn tree_splits_at_aligned_numbers() {
        assert_eq!(split(0, 2), 1);
        assert_eq!(split(0, 79), 64);
        assert_eq!(split(64, 79), 72);
        assert_eq!(split(5, 7), 6);
        assert_eq!(split(6, 8), 7);
        // a worker that holds an aligned span holds a whole node
        assert_eq!(split(0, 128), 64);
        assert_eq!(split(64, 128), 96);
    }

    /// Spans send few nodes, and all of them together are every block once and in order.
    #[test]
    fn nodes_of_spans_make_up_the_tree() {
        for blocks in [1u32, 2, 7, 64, 79, 200] {
            for cuts in [vec![], vec![blocks / 3], vec![blocks / 2, blocks / 2 + 1], vec![1.min(blocks), blocks - 1]] {
                let ends: Vec<u32> = [&[0], &cuts[..], &[blocks]].concat();
                let mut answers = Vec::new();
                for span in ends.windows(2).filter(|w| w[0] < w[1]).map(|w| w[0]..w[1]) {
                    let nodes = largest_nodes(blocks, &span);
                    assert!(nodes.len() <= 2 * 8, "{nodes:?}");
                    // odd blocks were not asked
                    let answer = |node: &Range<u32>| {
                        let asked: Vec<u32> = node.clone().filter(|b| b % 2 == 0).collect();
                        (node.clone(), (!asked.is_empty()).then_some(List(asked)))
                    };
                    answers.extend(nodes.iter().map(answer));
                }
                assert_eq!(gather(blocks, answers).unwrap().0, (0..blocks).filter(|b| b % 2 == 0).collect::<Vec<_>>());
            }
        }
        assert_eq!(gather::<List<u32>>(9, Vec::new()), None);
        assert_eq!(largest_nodes(128, &(64..128)), std::slice::from_ref(&(64..128)));
    }
}
