//! What a worker does: it holds a span of blocks and answers calls, in bytes.

use serde::{Deserialize, Serialize};
use std::any::Any;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use super::span::{Span, largest_nodes};
use super::state::StateError;
use super::{AnyProgram, Program, Purpose, Shape, Stream};
use crate::data::{Dataset, blocks_from};
use crate::{Error, Result};

/// A request of a chain.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Call {
    pub seed: u64,
    pub chain: u32,
    pub request: Request,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    /// Visit these blocks, or all that are held.
    Visit { sweep: u64, visit: u32, chosen: Option<Vec<u32>>, ask: Vec<u8> },
    /// The locals between two sweeps.
    Save,
    /// Forget the chain.
    Close,
    /// Take these locals (or the first ones), replay the visits of the log, and then answer the call.
    Rebuild { locals: Option<Vec<Vec<u8>>>, log: Vec<Vec<u8>>, call: Vec<u8> },
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    /// Answers of the largest nodes of the tree that are held: first block, end, and statistics where any of its blocks were asked.
    Nodes(Vec<(u32, u32, Option<Vec<u8>>)>),
    /// Locals, one a block.
    Locals(Vec<Vec<u8>>),
    /// Nothing is known of this chain, or no longer.
    Unknown,
    /// What went wrong.
    Failed(String),
}

/// What a worker keeps of each chain of a program, by seed and number.
type Chains<P> = Mutex<HashMap<(u64, u32), Span<P>>>;

/// A span of blocks of the data, and what they keep of each chain of a program.
pub struct Worker {
    program: Arc<dyn AnyProgram>,
    data: Arc<Dataset<'static>>,
    span: Range<u32>,
    shape: Shape,
    chains: Box<dyn Any + Send + Sync>,
}

impl Worker {
    /// Takes the rows of a span of blocks; `shape` is that of all data.
    pub fn new(program: Arc<dyn AnyProgram>, data: Arc<Dataset<'static>>, span: Range<u32>, shape: Shape) -> Result<Self> {
        let begin = span.start as usize * shape.block_rows;
        let end = (span.end as usize * shape.block_rows).min(shape.rows);
        if span.end > shape.blocks || end < begin || data.rows() != end - begin {
            let expected = end.saturating_sub(begin);
            return Err(Error::Elsewhere(format!(
                "blocks {} to {} have {expected} rows, but a worker was given {}",
                span.start + 1,
                span.end,
                data.rows()
            )));
        }
        let chains = program.no_chains();
        Ok(Self { program, data, span, shape, chains })
    }

    /// Answers a call. What goes wrong is part of the answer.
    pub fn answer(&self, call: &[u8]) -> Vec<u8> {
        self.program.answer(self, call)
    }
}

/// Nothing is kept yet.
pub(super) fn no_chains<P: Program>() -> Box<dyn Any + Send + Sync> {
    Box::new(Chains::<P>::default())
}

/// The reply to a call, in bytes.
pub(super) fn answer_bytes<P: Program>(program: &P, worker: &Worker, call: &[u8]) -> Vec<u8> {
    let reply = answer(program, worker, call).unwrap_or_else(|error| Reply::Failed(error.to_string()));
    postcard::to_stdvec(&reply).unwrap_or_default()
}

fn answer<P: Program>(program: &P, worker: &Worker, bytes: &[u8]) -> Result<Reply> {
    let Some(chains) = worker.chains.downcast_ref::<Chains<P>>() else {
        return Err(Error::Elsewhere(format!("a worker of another program was asked for `{}`", P::NAME)));
    };
    let Call { seed, chain, request } = postcard::from_bytes(bytes).map_err(StateError::from)?;
    // a chain waits for its answer before it calls again: what it keeps is taken out meanwhile, so that others do not wait for it
    let taken = || chains.lock().unwrap_or_else(|e| e.into_inner()).remove(&(seed, chain));
    let put = |span: Span<P>| chains.lock().unwrap_or_else(|e| e.into_inner()).insert((seed, chain), span);
    match request {
        Request::Rebuild { locals, log, call } => {
            let blocks = blocks_from(&worker.data, worker.shape.block_rows, worker.span.start);
            put(match locals {
                None => Span::fresh(program, &blocks, seed, chain),
                Some(saved) => Span::load(&saved)?,
            });
            for past in &log {
                answer(program, worker, past)?;
            }
            answer(program, worker, &call)
        }
        Request::Close => {
            taken();
            Ok(Reply::Unknown)
        }
        Request::Save => {
            let Some(span) = taken() else { return Ok(Reply::Unknown) };
            let locals = span.save();
            put(span);
            Ok(Reply::Locals(locals?))
        }
        Request::Visit { sweep, visit, chosen, ask } => {
            let Some(mut span) = taken() else { return Ok(Reply::Unknown) };
            let blocks = blocks_from(&worker.data, worker.shape.block_rows, worker.span.start);
            let nodes = largest_nodes(worker.shape.blocks, &worker.span);
            let ask = postcard::from_bytes(&ask).map_err(StateError::from)?;
            let stream = Stream::new(seed, chain, Purpose::Visit).sweep(sweep).visit(visit);
            let found = span.visit(program, &blocks, &nodes, &ask, chosen.as_deref(), stream)?;
            put(span);
            let sealed = nodes.iter().zip(found).map(|(node, stats)| {
                let stats = stats.map(|s| postcard::to_stdvec(&s)).transpose().map_err(StateError::from)?;
                Ok((node.start, node.end, stats))
            });
            Ok(Reply::Nodes(sealed.collect::<Result<_>>()?))
        }
    }
}
