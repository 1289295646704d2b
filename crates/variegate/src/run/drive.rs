//! Drives the chains of a run: in rounds, so that progress, Ctrl-C and commits happen in one place, on the caller's thread.
//!
//! A round gives every unfinished chain a slice of time on the thread pool. How long a round is, and how often a commit comes,
//! changes nothing in the results.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

use super::{AnyProgram, Block, Chain, Draws, Kept, Piece, Report, Shape, Storage, blocks};
use crate::data::Dataset;
use crate::{Error, Result};

/// Far above any machine this runs on. Every thread takes memory, and a machine out of memory kills the process instead of saying so.
const MOST_THREADS: usize = 1024;

/// How long the chains run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// Markov chains: warm-up sweeps, then `draws` draws, each `thin` sweeps after the last.
    Sample {
        /// Sweeps before the first draw.
        warm_up: u64,
        /// Draws a chain.
        draws: u64,
        /// Sweeps a draw.
        thin: u64,
    },
    /// Ascent until the program says it has converged, or this many sweeps.
    Ascend {
        /// Most sweeps.
        max_sweeps: u64,
    },
}

impl Schedule {
    /// Sweeps of a chain, or the most it may take.
    pub fn sweeps(&self) -> u64 {
        match *self {
            Schedule::Sample { warm_up, draws, thin } => warm_up + draws * thin,
            Schedule::Ascend { max_sweeps } => max_sweeps,
        }
    }

    fn warm_up(&self) -> u64 {
        match *self {
            Schedule::Sample { warm_up, .. } => warm_up,
            Schedule::Ascend { .. } => 0,
        }
    }

    fn keeps(&self, sweep: u64) -> bool {
        match *self {
            Schedule::Sample { warm_up, thin, .. } => sweep > warm_up && (sweep - warm_up).is_multiple_of(thin),
            Schedule::Ascend { .. } => false,
        }
    }
}

/// All that decides the results of a run, apart from program and data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Seed of every random number.
    pub seed: u64,
    /// Chains of a sampler, or starts of an ascent.
    pub chains: u32,
    /// How long they run.
    pub schedule: Schedule,
    /// Rows of a block.
    pub block_rows: usize,
}

/// What decides only how fast a run is and how much a crash may lose.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Threads to use; 0 takes all there are.
    pub threads: usize,
    /// Time between two commits.
    pub commit_every: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { threads: 0, commit_every: Duration::from_secs(5) }
    }
}

/// Where one chain stands.
#[derive(Debug, Clone)]
pub struct ChainProgress {
    /// Number of the chain.
    pub chain: u32,
    /// Sweeps done.
    pub sweeps: u64,
    /// Sweeps when it is done, or the most it may take.
    pub total: u64,
    /// Whether the chain is still warming up.
    pub warm_up: bool,
    /// Whether it is done.
    pub finished: bool,
    /// Report of its last sweep.
    pub last: Option<Report>,
}

/// What an observer wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Go on.
    Continue,
    /// Save and return.
    Stop,
}

/// Watches a run from the caller's thread, a few times a second.
pub trait Observer {
    /// Called after every round.
    fn round(&mut self, chains: &[ChainProgress]) -> Next;
}

impl<F: FnMut(&[ChainProgress]) -> Next> Observer for F {
    fn round(&mut self, chains: &[ChainProgress]) -> Next {
        self(chains)
    }
}

/// An observer that never stops a run.
pub struct Unobserved;

impl Observer for Unobserved {
    fn round(&mut self, _: &[ChainProgress]) -> Next {
        Next::Continue
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Everything that was planned is done.
    Complete,
    /// The observer stopped it; it can be resumed.
    Stopped,
}

struct Slot<'a> {
    number: u32,
    chain: Option<Box<dyn Chain + 'a>>,
    draws: Draws,
    trace: Vec<(u64, Report)>,
    last: Option<Report>,
    finished: bool,
    error: Option<Error>,
}

/// Runs every chain to its end, or until the observer stops it, going on from whatever the storage has kept.
pub fn drive(
    program: &dyn AnyProgram,
    data: &Dataset<'_>,
    plan: &Plan,
    pace: Pace,
    storage: &mut dyn Storage,
    observer: &mut dyn Observer,
) -> Result<Ending> {
    if pace.threads > MOST_THREADS {
        return Err(Error::setting("threads", pace.threads, format!("at most {MOST_THREADS}, or 0 for all the machine has")));
    }
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(pace.threads)
        .build()
        .map_err(|e| Error::setting("threads", pace.threads, format!("a number of threads that can be started ({e})")))?;
    let blocks = blocks(data, plan.block_rows);
    let shape = Shape { rows: data.rows(), cols: data.x.cols(), blocks: blocks.len() as u32, block_rows: plan.block_rows };
    let kept = (0..plan.chains).map(|c| storage.kept(c)).collect::<Result<Vec<_>>>()?;
    let mut slots = pool.install(|| open(program, &blocks, shape, plan, kept))?;

    let mut last_commit = Instant::now();
    loop {
        pool.install(|| slots.par_iter_mut().for_each(|slot| turn(slot, &plan.schedule)));

        let failed = slots.iter_mut().find_map(|s| s.error.take());
        let progress: Vec<_> = slots.iter().map(|s| progress(s, &plan.schedule)).collect();
        let stop = observer.round(&progress) == Next::Stop;
        let done = slots.iter().all(|s| s.finished);
        if done || stop || failed.is_some() || last_commit.elapsed() >= pace.commit_every {
            commit(&mut slots, storage)?;
            last_commit = Instant::now();
        }
        if let Some(error) = failed {
            return Err(error);
        }
        if done {
            return Ok(Ending::Complete);
        }
        if stop {
            return Ok(Ending::Stopped);
        }
    }
}

fn open<'a>(
    program: &'a dyn AnyProgram,
    blocks: &'a [Block<'a>],
    shape: Shape,
    plan: &Plan,
    kept: Vec<Option<Kept>>,
) -> Result<Vec<Slot<'a>>> {
    kept.into_par_iter()
        .enumerate()
        .map(|(number, kept)| {
            let number = number as u32;
            let saved = kept.as_ref().map(|k| k.checkpoint.as_slice());
            // a chain that is done needs no engine, only its place in the progress
            let finished = kept.as_ref().is_some_and(|k| k.finished);
            let chain = if finished { None } else { Some(program.open(blocks, shape, plan.seed, number, saved)?) };
            let draws = Draws::starting_at(kept.as_ref().map_or(0, |k| k.draws));
            Ok(Slot { number, chain, draws, trace: Vec::new(), last: kept.and_then(|k| k.last), finished, error: None })
        })
        .collect()
}

/// Gives a chain its slice of time: at least one sweep, then as many as fit.
fn turn(slot: &mut Slot<'_>, schedule: &Schedule) {
    let Some(chain) = slot.chain.as_mut() else { return };
    let begin = Instant::now();
    let total = schedule.sweeps();
    while !slot.finished {
        if chain.sweeps() < total {
            let warm_up = chain.sweeps() < schedule.warm_up();
            match chain.advance(warm_up) {
                Ok(report) => {
                    slot.finished = report.converged;
                    slot.trace.push((chain.sweeps(), report.clone()));
                    slot.last = Some(report);
                    if schedule.keeps(chain.sweeps()) {
                        chain.keep(&mut slot.draws);
                    }
                }
                Err(error) => {
                    // the state may be half updated: this chain falls back to its last commit
                    slot.error = Some(error);
                    slot.chain = None;
                    return;
                }
            }
        }
        slot.finished |= chain.sweeps() >= total;
        if begin.elapsed() > Duration::from_millis(100) {
            return;
        }
    }
}

fn progress(slot: &Slot<'_>, schedule: &Schedule) -> ChainProgress {
    let total = schedule.sweeps();
    let sweeps = slot.chain.as_ref().map_or(total, |c| c.sweeps());
    ChainProgress {
        chain: slot.number,
        sweeps,
        total,
        warm_up: sweeps < schedule.warm_up(),
        finished: slot.finished,
        last: slot.last.clone(),
    }
}

fn commit(slots: &mut [Slot<'_>], storage: &mut dyn Storage) -> Result<()> {
    let mut pieces = Vec::new();
    for slot in slots {
        let Some(chain) = slot.chain.as_ref() else { continue };
        let next = slot.draws.first + slot.draws.count;
        pieces.push(Piece {
            chain: slot.number,
            sweeps: chain.sweeps(),
            draws: std::mem::replace(&mut slot.draws, Draws::starting_at(next)),
            trace: std::mem::take(&mut slot.trace),
            checkpoint: chain.save()?,
            finished: slot.finished,
        });
        if slot.finished {
            slot.chain = None;
        }
    }
    if pieces.is_empty() { Ok(()) } else { storage.commit(pieces) }
}
