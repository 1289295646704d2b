//! The rows of a chain that are with workers: asks become calls, answers are merged, and lost spans are rebuilt.

use std::marker::PhantomData;
use std::ops::Range;

use super::engine::{ChainRows, Workers};
use super::span::gather;
use super::worker::{Call, Reply, Request};
use super::{Program, Rows, Shape, Which};
use crate::run::StateError;
use crate::{Error, Result};

/// How often one call may find its worker gone.
const MOST_LOSSES: usize = 20;
/// Calls since the last snapshot, and their bytes, that are kept to be replayed; then locals are fetched between two sweeps. Where locals are
/// large, more calls are kept for each snapshot.
const LOG_CALLS: usize = 500;
const LOG_BYTES: usize = 4 << 20;

/// Rows with workers.
pub(super) struct Remote<'a, P: Program> {
    workers: &'a dyn Workers,
    shape: Shape,
    seed: u64,
    chain: u32,
    sweep: u64,
    visits: u32,
    /// Locals when the log began, one a block; none while they are as [`Program::local`] makes them.
    snapshot: Option<Vec<Vec<u8>>>,
    /// Visits since then.
    log: Vec<Vec<u8>>,
    /// Spans that know of this chain, as far as one can tell from here. An earlier chain of the same number may have left something behind.
    opened: Vec<bool>,
    program: PhantomData<fn(P)>,
}

impl<'a, P: Program> Remote<'a, P> {
    pub(super) fn new(workers: &'a dyn Workers, shape: Shape, seed: u64, chain: u32, snapshot: Option<Vec<Vec<u8>>>) -> Self {
        let opened = vec![false; workers.spans().len()];
        Self { workers, shape, seed, chain, sweep: 0, visits: 0, snapshot, log: Vec::new(), opened, program: PhantomData }
    }

    /// Blocks that keep nothing need neither snapshots nor a log.
    fn keeps_nothing() -> bool {
        size_of::<P::Local>() == 0
    }

    fn call(&self, request: Request) -> Result<Vec<u8>> {
        Ok(postcard::to_stdvec(&Call { seed: self.seed, chain: self.chain, request }).map_err(StateError::from)?)
    }

    /// What a worker that knows nothing of the chain must be told before it can answer.
    fn rebuilding(&self, span: &Range<u32>, call: &[u8]) -> Result<Vec<u8>> {
        let locals = self.snapshot.as_ref().map(|all| all[span.start as usize..span.end as usize].to_vec());
        self.call(Request::Rebuild { locals, log: self.log.clone(), call: call.to_vec() })
    }

    /// The replies of these spans to a call, in their order.
    fn post(&mut self, asked: &[usize], call: &[u8]) -> Result<Vec<Reply>> {
        let workers = self.workers;
        let mut replies: Vec<Option<Reply>> = asked.iter().map(|_| None).collect();
        for _ in 0..MOST_LOSSES {
            let open: Vec<usize> = (0..asked.len()).filter(|&i| replies[i].is_none()).collect();
            if open.is_empty() {
                break;
            }
            let of = |&i: &usize| {
                let span = asked[i];
                Ok((span, if self.opened[span] { call.to_vec() } else { self.rebuilding(&workers.spans()[span], call)? }))
            };
            let calls = open.iter().map(of).collect::<Result<Vec<_>>>()?;
            for (i, answer) in open.into_iter().zip(workers.post(&calls)?) {
                let reply = answer.map(|bytes| postcard::from_bytes(&bytes)).transpose().map_err(StateError::from)?;
                replies[i] = reply.filter(|reply| !matches!(reply, Reply::Unknown));
                self.opened[asked[i]] = replies[i].is_some();
            }
        }
        let told = |(reply, span): (Option<Reply>, &usize)| match reply {
            Some(Reply::Failed(message)) => Err(Error::Elsewhere(message)),
            Some(reply) => Ok(reply),
            None => {
                let Range { start, end } = workers.spans()[*span];
                Err(Error::Elsewhere(format!(
                    "blocks {} to {end} were lost {MOST_LOSSES} times in one visit: look at the logs of the workers, most of all for memory",
                    start + 1
                )))
            }
        };
        replies.into_iter().zip(asked).map(told).collect()
    }

    /// The locals of all blocks, which become the snapshot.
    fn snapshot(&mut self) -> Result<()> {
        let all: Vec<usize> = (0..self.workers.spans().len()).collect();
        let mut locals = Vec::with_capacity(self.shape.blocks as usize);
        let call = self.call(Request::Save)?;
        for reply in self.post(&all, &call)? {
            if let Reply::Locals(some) = reply {
                locals.extend(some);
            }
        }
        if locals.len() != self.shape.blocks as usize {
            return Err(StateError::Contents("workers saved another number of blocks".into()).into());
        }
        self.snapshot = Some(locals);
        self.log.clear();
        Ok(())
    }
}

impl<P: Program> Rows<P> for Remote<'_, P> {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn visit(&mut self, ask: &P::Ask<'_>, which: Which<'_>) -> Result<P::Stats> {
        let chosen = which.chosen();
        let ask = postcard::to_stdvec(ask).map_err(StateError::from)?;
        let call = self.call(Request::Visit { sweep: self.sweep, visit: self.visits, chosen: chosen.map(<[u32]>::to_vec), ask })?;
        self.visits += 1;
        let holds =
            |span: &Range<u32>| chosen.is_none_or(|c| c[c.partition_point(|&b| b < span.start)..].first().is_some_and(|&b| b < span.end));
        let asked: Vec<usize> = self.workers.spans().iter().enumerate().filter(|(_, span)| holds(span)).map(|(i, _)| i).collect();
        let mut answers = Vec::new();
        for reply in self.post(&asked, &call)? {
            let Reply::Nodes(nodes) = reply else { continue };
            for (start, end, stats) in nodes {
                let stats = stats.map(|bytes| postcard::from_bytes(&bytes)).transpose().map_err(StateError::from)?;
                answers.push((start..end, stats));
            }
        }
        if !Self::keeps_nothing() {
            self.log.push(call);
        }
        Ok(gather(self.shape.blocks, answers).unwrap_or_default())
    }
}

impl<P: Program> ChainRows<P> for Remote<'_, P> {
    fn begin(&mut self, sweep: u64) -> Result<()> {
        let kept: usize = self.snapshot.iter().flatten().map(Vec::len).sum();
        if self.log.len() > LOG_CALLS || self.log.iter().map(Vec::len).sum::<usize>() > LOG_BYTES.max(4 * kept) {
            self.snapshot()?;
        }
        (self.sweep, self.visits) = (sweep, 0);
        Ok(())
    }

    fn save(&mut self) -> Result<Vec<Vec<u8>>> {
        if Self::keeps_nothing() {
            return Ok(vec![Vec::new(); self.shape.blocks as usize]);
        }
        if self.snapshot.is_none() || !self.log.is_empty() {
            self.snapshot()?;
        }
        Ok(self.snapshot.clone().unwrap_or_default())
    }
}

impl<P: Program> Drop for Remote<'_, P> {
    /// Workers need not keep what nobody asks for any more.
    fn drop(&mut self) {
        let opened = (0..self.opened.len()).filter(|&span| self.opened[span]);
        if let Ok(call) = self.call(Request::Close) {
            let calls: Vec<_> = opened.map(|span| (span, call.clone())).collect();
            let _ = self.workers.post(&calls);
        }
    }
}
