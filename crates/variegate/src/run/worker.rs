//! What a worker does: it holds a span of blocks and answers calls, in bytes.

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use std::any::Any;
use std::collections::HashMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
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
    Visit { sweep: u64, visit: u32, chosen: Option<Vec<u32>>, ask: Told },
    /// Take note of an ask that others are told by.
    Learn(Model),
    /// The locals between two sweeps.
    Save,
    /// Forget the chain.
    Close,
    /// Take these locals (or the first ones) and the ask that others are told by, replay the visits of the log, and then answer the call.
    Rebuild { locals: Option<Vec<ByteBuf>>, model: Option<Model>, log: Vec<ByteBuf>, call: ByteBuf },
}

/// A long ask that was told in full, by its number, so that later ones which begin alike can be told by what is different.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Model {
    pub number: u64,
    pub ask: ByteBuf,
}

/// An ask, in bytes.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Told {
    /// In full, not to be told again by.
    Plain(ByteBuf),
    /// In full, as a model of those to come.
    Model(Model),
    /// Begins with so many bytes of the model of this number, then goes on like this.
    Like { number: u64, bytes: usize, rest: ByteBuf },
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    /// Answers of the largest nodes of the tree that are held: first block, end, and statistics where any of its blocks were asked.
    Nodes(Vec<(u32, u32, Option<ByteBuf>)>),
    /// Locals, one a block.
    Locals(Vec<ByteBuf>),
    /// It is done.
    Done,
    /// Nothing is known of this chain, or no longer.
    Unknown,
    /// What went wrong, and whether it is with the data.
    Failed { message: String, data: bool },
}

/// What is kept of a chain.
struct Kept<P: Program> {
    span: Span<P>,
    model: Option<Model>,
}

/// What a worker keeps of each chain of a program, by seed and number.
type Chains<P> = Mutex<HashMap<(u64, u32), Kept<P>>>;

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
        catch_unwind(AssertUnwindSafe(|| self.program.answer(self, call))).unwrap_or_else(|panic| {
            let said =
                panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given");
            to_bytes(&Reply::Failed {
                message: format!("a worker met an error of the program itself ({said}): please report it"),
                data: false,
            })
        })
    }
}

/// Nothing is kept yet.
pub(super) fn no_chains<P: Program>() -> Box<dyn Any + Send + Sync> {
    Box::new(Chains::<P>::default())
}

fn to_bytes(reply: &Reply) -> Vec<u8> {
    postcard::to_stdvec(reply).unwrap_or_default()
}

/// The reply to a call, in bytes.
pub(super) fn answer_bytes<P: Program>(program: &P, worker: &Worker, call: &[u8]) -> Vec<u8> {
    to_bytes(&answer(program, worker, call).unwrap_or_else(|error| {
        let data = matches!(error, Error::Data(_) | Error::Unfit(_) | Error::Parameter(_));
        Reply::Failed { message: error.to_string(), data }
    }))
}

fn answer<P: Program>(program: &P, worker: &Worker, bytes: &[u8]) -> Result<Reply> {
    let Some(chains) = worker.chains.downcast_ref::<Chains<P>>() else {
        return Err(Error::Elsewhere(format!("a worker of another program was asked for `{}`", P::NAME)));
    };
    let Call { seed, chain, request } = postcard::from_bytes(bytes).map_err(StateError::from)?;
    // a chain waits for its answer before it calls again: what it keeps is taken out meanwhile, so that others do not wait for it
    let taken = || chains.lock().unwrap_or_else(|e| e.into_inner()).remove(&(seed, chain));
    let put = |kept: Kept<P>| chains.lock().unwrap_or_else(|e| e.into_inner()).insert((seed, chain), kept);
    match request {
        Request::Rebuild { locals, model, log, call } => {
            let blocks = blocks_from(&worker.data, worker.shape.block_rows, worker.span.start);
            let span = match locals {
                None => Span::fresh(program, &blocks, seed, chain),
                Some(saved) => Span::load(saved.iter().map(|s| &s[..]))?,
            };
            put(Kept { span, model });
            for past in &log {
                answer(program, worker, past)?;
            }
            answer(program, worker, &call)
        }
        Request::Close => {
            taken();
            Ok(Reply::Done)
        }
        Request::Learn(model) => {
            let Some(kept) = taken() else { return Ok(Reply::Unknown) };
            put(Kept { model: Some(model), ..kept });
            Ok(Reply::Done)
        }
        Request::Save => {
            let Some(kept) = taken() else { return Ok(Reply::Unknown) };
            let locals = kept.span.save();
            put(kept);
            Ok(Reply::Locals(locals?.into_iter().map(ByteBuf::from).collect()))
        }
        Request::Visit { sweep, visit, chosen, ask } => {
            let Some(mut kept) = taken() else { return Ok(Reply::Unknown) };
            let Kept { span, model } = &mut kept;
            let joined;
            let ask: &[u8] = match ask {
                Told::Plain(ask) => {
                    joined = ask.into_vec();
                    &joined
                }
                Told::Model(ask) => &model.insert(ask).ask,
                Told::Like { number, bytes, rest } => match model {
                    Some(model) if model.number == number && bytes <= model.ask.len() => {
                        joined = [&model.ask[..bytes], &rest].concat();
                        &joined
                    }
                    _ => return Ok(Reply::Unknown),
                },
            };
            let blocks = blocks_from(&worker.data, worker.shape.block_rows, worker.span.start);
            let nodes = largest_nodes(worker.shape.blocks, &worker.span);
            let ask = postcard::from_bytes(ask).map_err(StateError::from)?;
            let stream = Stream::new(seed, chain, Purpose::Visit).sweep(sweep).visit(visit);
            let found = span.visit(program, &blocks, &nodes, &ask, chosen.as_deref(), stream)?;
            drop(ask);
            put(kept);
            let sealed = nodes.iter().zip(found).map(|(node, stats)| {
                let stats = stats.map(|s| postcard::to_stdvec(&s)).transpose().map_err(StateError::from)?;
                Ok((node.start, node.end, stats.map(ByteBuf::from)))
            });
            Ok(Reply::Nodes(sealed.collect::<Result<_>>()?))
        }
    }
}
