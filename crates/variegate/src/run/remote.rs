//! The rows of a chain that are with workers: asks become calls, answers are merged, and lost spans are rebuilt.

use serde_bytes::ByteBuf;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::engine::{ChainRows, Workers};
use super::span::gather;
use super::worker::{Call, Model, Reply, Request, Told};
use super::{Program, Rows, Shape, Which};
use crate::run::StateError;
use crate::{Error, Result};

/// How often one call may find its worker gone.
const MOST_LOSSES: usize = 20;
/// Calls since the last snapshot are kept to be replayed where a worker is lost. A snapshot of the locals follows between two sweeps, once
/// they took this long to answer, or so many times as long as the last snapshot took; or once they are so many bytes, or so many times as
/// many as the last snapshot had. Neither the time nor the traffic of snapshots then counts, and results depend on none of it.
const REPLAY: Duration = Duration::from_secs(60);
const REPLAYS: u32 = 20;
const LOG_BYTES: usize = 64 << 20;
const LOGS: usize = 4;
/// Asks from this length on are told by what is different from an earlier one, where at least half of them is as it was.
const LONG_ASK: usize = 16 << 10;

/// With how many bytes both begin.
fn alike(a: &[u8], b: &[u8]) -> usize {
    const STEP: usize = 4096;
    let steps = a.chunks_exact(STEP).zip(b.chunks_exact(STEP)).take_while(|(a, b)| a == b).count() * STEP;
    steps + a[steps..].iter().zip(&b[steps..]).take_while(|(a, b)| a == b).count()
}

/// Rows with workers.
pub(super) struct Remote<'a, P: Program> {
    workers: &'a dyn Workers,
    shape: Shape,
    seed: u64,
    chain: u32,
    sweep: u64,
    visits: u32,
    /// Locals when the log began, one a block; none while they are as [`Program::local`] makes them.
    snapshot: Option<Vec<ByteBuf>>,
    /// What the last snapshot cost.
    snapshot_took: Duration,
    /// Visits since then, and how long they took.
    log: Vec<Arc<[u8]>>,
    log_took: Duration,
    /// The ask that others are told by: now, and when the log began.
    model: Option<Model>,
    log_model: Option<Model>,
    /// Spans that know of this chain, as far as one can tell from here. An earlier chain of the same number may have left something behind.
    opened: Vec<bool>,
    /// Number of the last model that each span was told.
    told: Vec<Option<u64>>,
    program: PhantomData<fn(P)>,
}

impl<'a, P: Program> Remote<'a, P> {
    pub(super) fn new(workers: &'a dyn Workers, shape: Shape, seed: u64, chain: u32, snapshot: Option<Vec<Vec<u8>>>) -> Self {
        Self {
            workers,
            shape,
            seed,
            chain,
            sweep: 0,
            visits: 0,
            snapshot: snapshot.map(|locals| locals.into_iter().map(ByteBuf::from).collect()),
            snapshot_took: Duration::ZERO,
            log: Vec::new(),
            log_took: Duration::ZERO,
            model: None,
            log_model: None,
            opened: vec![false; workers.spans().len()],
            told: vec![None; workers.spans().len()],
            program: PhantomData,
        }
    }

    /// Blocks that keep nothing need neither snapshots nor a log.
    fn keeps_nothing() -> bool {
        size_of::<P::Local>() == 0
    }

    fn call(&self, request: Request) -> Result<Arc<[u8]>> {
        Ok(postcard::to_stdvec(&Call { seed: self.seed, chain: self.chain, request }).map_err(StateError::from)?.into())
    }

    /// What a worker that knows nothing of the chain must be told before it can answer.
    fn rebuilding(&self, span: &Range<u32>, call: &[u8]) -> Result<Arc<[u8]>> {
        let locals = self.snapshot.as_ref().map(|all| all[span.start as usize..span.end as usize].to_vec());
        let log = self.log.iter().map(|past| ByteBuf::from(past.to_vec())).collect();
        self.call(Request::Rebuild { locals, model: self.log_model.clone(), log, call: ByteBuf::from(call) })
    }

    /// An ask by what is different from the model, or as the model of those to come.
    fn tell(&mut self, ask: Vec<u8>) -> Told {
        if ask.len() < LONG_ASK {
            return Told::Plain(ask.into());
        }
        if let Some(model) = &self.model {
            let bytes = alike(&ask, &model.ask);
            if bytes >= ask.len() / 2 {
                return Told::Like { number: model.number, bytes, rest: ask[bytes..].to_vec().into() };
            }
        }
        let model = Model { number: (self.sweep << 32) + u64::from(self.visits), ask: ask.into() };
        self.model = Some(model.clone());
        Told::Model(model)
    }

    /// Sees to it that these spans know the model which an ask needs: a visit to some blocks leaves others without it.
    fn teach(&mut self, asked: &[usize], ask: &Told) -> Result<()> {
        let number = match ask {
            Told::Plain(_) => return Ok(()),
            Told::Model(model) => model.number,
            Told::Like { number, .. } => {
                let behind: Vec<usize> = asked.iter().copied().filter(|&s| self.opened[s] && self.told[s] != Some(*number)).collect();
                if let Some(model) = self.model.clone().filter(|_| !behind.is_empty()) {
                    let call = self.call(Request::Learn(model))?;
                    self.post(&behind, &call)?;
                }
                *number
            }
        };
        asked.iter().for_each(|&span| self.told[span] = Some(number));
        Ok(())
    }

    /// The replies of these spans to a call, in their order.
    fn post(&mut self, asked: &[usize], call: &Arc<[u8]>) -> Result<Vec<Reply>> {
        let workers = self.workers;
        let mut replies: Vec<Option<Reply>> = asked.iter().map(|_| None).collect();
        for _ in 0..MOST_LOSSES {
            let open: Vec<usize> = (0..asked.len()).filter(|&i| replies[i].is_none()).collect();
            if open.is_empty() {
                break;
            }
            let of = |&i: &usize| {
                let span = asked[i];
                Ok((span, if self.opened[span] { call.clone() } else { self.rebuilding(&workers.spans()[span], call)? }))
            };
            let calls = open.iter().map(of).collect::<Result<Vec<_>>>()?;
            for (i, answer) in open.into_iter().zip(workers.post(&calls)?) {
                let reply = answer.map(|bytes| postcard::from_bytes(&bytes)).transpose().map_err(StateError::from)?;
                replies[i] = reply.filter(|reply| !matches!(reply, Reply::Unknown));
                let (span, known) = (asked[i], replies[i].is_some());
                if known && !self.opened[span] {
                    // it was told everything
                    self.told[span] = self.model.as_ref().map(|model| model.number);
                }
                self.opened[span] = known;
            }
        }
        let told = |(reply, span): (Option<Reply>, &usize)| match reply {
            Some(Reply::Failed { message, data: true }) => Err(Error::Unfit(message)),
            Some(Reply::Failed { message, data: false }) => Err(Error::Elsewhere(message)),
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
        let begin = Instant::now();
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
        self.snapshot_took = begin.elapsed();
        self.log.clear();
        self.log_took = Duration::ZERO;
        self.log_model = self.model.clone();
        Ok(())
    }

    /// Whether it would take too long, or too many bytes, to rebuild a span from the log.
    fn log_is_long(&self) -> bool {
        let kept: usize = self.snapshot.iter().flatten().map(|local| local.len()).sum();
        self.log_took > REPLAY.max(REPLAYS * self.snapshot_took)
            || self.log.iter().map(|c| c.len()).sum::<usize>() > LOG_BYTES.max(LOGS * kept)
    }
}

impl<P: Program> Rows<P> for Remote<'_, P> {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn visit(&mut self, ask: &P::Ask<'_>, which: Which<'_>) -> Result<P::Stats> {
        let begin = Instant::now();
        let chosen = which.chosen();
        let holds =
            |span: &Range<u32>| chosen.is_none_or(|c| c[c.partition_point(|&b| b < span.start)..].first().is_some_and(|&b| b < span.end));
        let asked: Vec<usize> = self.workers.spans().iter().enumerate().filter(|(_, span)| holds(span)).map(|(i, _)| i).collect();
        let ask = self.tell(postcard::to_stdvec(ask).map_err(StateError::from)?);
        self.teach(&asked, &ask)?;
        let call = self.call(Request::Visit { sweep: self.sweep, visit: self.visits, chosen: chosen.map(<[u32]>::to_vec), ask })?;
        self.visits += 1;
        let mut answers = Vec::new();
        for reply in self.post(&asked, &call)? {
            let Reply::Nodes(nodes) = reply else { continue };
            for (start, end, stats) in nodes {
                let stats = stats.map(|bytes| postcard::from_bytes(&bytes)).transpose().map_err(StateError::from)?;
                answers.push((start..end, stats));
            }
        }
        if Self::keeps_nothing() {
            self.log_model = self.model.clone();
        } else {
            self.log.push(call);
            self.log_took += begin.elapsed();
        }
        Ok(gather(self.shape.blocks, answers).unwrap_or_default())
    }
}

impl<P: Program> ChainRows<P> for Remote<'_, P> {
    fn begin(&mut self, sweep: u64) -> Result<()> {
        if self.log_is_long() {
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
        Ok(self.snapshot.iter().flatten().map(|local| local.to_vec()).collect())
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
