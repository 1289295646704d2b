//! Drives the chains of a run: in rounds, so that progress, Ctrl-C and commits happen in one place, on the caller's thread.
//!
//! A round gives every unfinished chain a slice of time on the thread pool. How long a round is, and how often a commit comes,
//! changes nothing in the results. Of many chains only so many run at once: the others wait, and cost neither memory nor commits.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

use super::memory::{memory_allowed, resident, shown};
use super::slot::{Ground, Slot};
use super::{AnyProgram, Draws, Engine, Report, Shape, Storage, blocks};
use crate::data::Dataset;
use crate::parallel;
use crate::{Error, Result};

/// Far above any machine this runs on. Every thread takes memory, and a machine out of memory kills the process instead of saying so.
const MOST_THREADS: usize = 1024;

/// How often an observer is called while a round waits for workers.
const WATCH: Duration = Duration::from_millis(50);

/// Commits that take long are rarer: so many times as long lies between them.
const COMMITS: u32 = 20;

/// Chains that run at once where there are fewer threads. Every one of them is saved at every commit.
const AT_ONCE: usize = 16;

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

    pub(super) fn warm_up(&self) -> u64 {
        match *self {
            Schedule::Sample { warm_up, .. } => warm_up,
            Schedule::Ascend { .. } => 0,
        }
    }

    pub(super) fn keeps(&self, sweep: u64) -> bool {
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
    /// Chains of a sampler, or starts of an ascent. A program may add further ones when all have finished.
    pub chains: u32,
    /// How long they run.
    pub schedule: Schedule,
    /// Rows of a block.
    pub block_rows: usize,
}

impl Plan {
    /// Whether a run that goes on under this plan from where `earlier` ended gives what this plan gives from the start: the same chains
    /// and draws, or more of them.
    pub fn extends(&self, earlier: &Self) -> bool {
        let longer = match (self.schedule, earlier.schedule) {
            (Schedule::Sample { warm_up, draws, thin }, Schedule::Sample { warm_up: before, draws: fewer, thin: thinned }) => {
                (warm_up, thin) == (before, thinned) && draws >= fewer
            }
            _ => false,
        };
        self == earlier || longer && self.chains >= earlier.chains && (self.seed, self.block_rows) == (earlier.seed, earlier.block_rows)
    }
}

/// What decides only how fast a run is and how much a crash may lose.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Threads to use; 0 takes all there are.
    pub threads: usize,
    /// Time between two commits, at least; more where a commit takes long.
    pub commit_every: Duration,
    /// Bytes of memory beyond which a run commits what it has and stops; nothing for any.
    pub memory: Option<u64>,
}

impl Default for Pace {
    fn default() -> Self {
        Self { threads: 0, commit_every: Duration::from_secs(5), memory: memory_allowed() }
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
    /// What it works on, since it was begun or gone on with, where chains differ in that: the structure that is tried.
    pub works_on: Option<String>,
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
    /// Called after every round. All chains are finished only when the run is complete, or about to fail: a further generation shows
    /// from the round on in which the one before it ended.
    fn round(&mut self, chains: &[ChainProgress]) -> Next;

    /// Called while a round waits for workers elsewhere, which may take long.
    fn waiting(&mut self) {}
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

/// So many threads; 0 takes all there are.
pub(crate) fn pool(threads: usize) -> Result<rayon::ThreadPool> {
    if threads > MOST_THREADS {
        return Err(Error::setting("threads", threads, format!("at most {MOST_THREADS}, or 0 for all the machine has")));
    }
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(|e| Error::setting("threads", threads, format!("a number of threads that can be started ({e})")))
}

/// Runs every chain to its end, or until the observer stops it, going on from whatever the storage has kept.
///
/// The plan's chains are the first generation. When every chain has finished, the program is asked for further ones
/// ([`Program::offspring`](super::Program::offspring)); their first states go into the same commit as the last states of those before
/// them. So a run is complete, in memory and on disk, when every chain that is kept has finished, and at no other moment. Where the program
/// has a closing stage ([`Program::closing`](super::Program::closing)), chain 0 is not finished before it is over.
pub fn drive(
    program: &dyn AnyProgram,
    data: &Dataset<'_>,
    plan: &Plan,
    pace: Pace,
    storage: &mut dyn Storage,
    observer: &mut dyn Observer,
) -> Result<Ending> {
    let blocks = blocks(data, plan.block_rows);
    let shape = Shape { rows: data.rows(), cols: data.x.cols(), blocks: blocks.len() as u32, block_rows: plan.block_rows };
    drive_on(Engine::Threads(&blocks), shape, program, plan, pace, storage, observer)
}

/// The same on any engine, for data of this shape, which are cut as the plan says.
pub fn drive_on(
    engine: Engine<'_>,
    shape: Shape,
    program: &dyn AnyProgram,
    plan: &Plan,
    pace: Pace,
    storage: &mut dyn Storage,
    observer: &mut dyn Observer,
) -> Result<Ending> {
    let pool = pool(pace.threads)?;
    let ground = Ground { program, engine, shape, plan, whole: storage.for_resuming() };
    let chains = plan.chains.max(storage.chains());
    let mut slots = (0..chains).map(|c| Ok(Slot::new(c, storage.kept(c)?))).collect::<Result<Vec<_>>>()?;

    let (mut last_commit, mut took) = (Instant::now(), Duration::ZERO);
    loop {
        round(&pool, &mut slots, &ground, observer);

        let mut failed = slots.iter_mut().find_map(|s| s.error.take());
        if let (None, Some(most), Some(held)) = (&failed, pace.memory, resident())
            && held > most
            && !slots.iter().all(Slot::finished)
        {
            failed = Some(Error::Memory { held: shown(held), most: shown(most) });
        }
        let mut due = failed.is_some() || last_commit.elapsed() >= pace.commit_every.max(COMMITS * took);
        // a run that was complete when it was opened has nothing new, and is asked for nothing
        if slots.iter().all(Slot::finished) && slots.iter().any(|s| s.fresh) {
            due = true;
            let sealed: Vec<_> = slots.iter().map(Slot::sealed).collect();
            let new: Vec<_> = slots.iter().map(Slot::new_draws).collect();
            let next = pool.install(|| match offspring(&sealed, &ground, storage) {
                Ok(born) if born.is_empty() => Ok((born, closing(sealed[0], &new, &ground, storage)?)),
                born => Ok((born?, None)),
            });
            match next {
                Ok((born, last_stage)) => {
                    slots.extend(born);
                    if let Some(sealed) = last_stage {
                        slots[0].close(sealed);
                        // all draws are kept, whatever becomes of the stage, and a run that is stopped in every round comes on all the same
                        commit(&mut slots, &ground, storage)?;
                        continue;
                    }
                }
                Err(error) => {
                    failed = Some(error);
                    // were all of them committed, the run would be complete; the last one falls back to its last commit instead
                    slots.iter_mut().rfind(|s| s.fresh).into_iter().for_each(|s| s.fresh = false);
                }
            }
        }
        let progress: Vec<_> = slots.iter().map(|s| s.progress(plan)).collect();
        let stop = observer.round(&progress) == Next::Stop;
        if due || stop {
            let begin = Instant::now();
            commit(&mut slots, &ground, storage)?;
            (last_commit, took) = (Instant::now(), begin.elapsed());
        }
        if let Some(error) = failed {
            return Err(error);
        }
        if slots.iter().all(Slot::finished) {
            return Ok(Ending::Complete);
        }
        if stop {
            return Ok(Ending::Stopped);
        }
    }
}

/// Keeps what chains did since they were kept last.
fn commit(slots: &mut [Slot<'_>], ground: &Ground<'_>, storage: &mut dyn Storage) -> Result<()> {
    let pieces = slots.iter_mut().filter_map(|s| s.piece(ground.whole).transpose()).collect::<Result<Vec<_>>>()?;
    if pieces.is_empty() { Ok(()) } else { storage.commit(pieces) }
}

/// Gives the first chains that are not done a turn each, together about a tenth of a second.
fn round<'a>(pool: &rayon::ThreadPool, slots: &mut [Slot<'a>], ground: &Ground<'a>, observer: &mut dyn Observer) {
    let threads = pool.current_num_threads();
    let turns: Vec<_> = slots.iter_mut().filter(|s| !s.finished()).take(threads.max(AT_ONCE)).collect();
    let slice = Duration::from_millis(100);
    match ground.engine {
        Engine::Threads(_) => {
            let slice = slice.mul_f64(threads as f64 / turns.len().max(threads) as f64);
            pool.install(|| parallel::map(turns, |_, slot| slot.turn(ground, slice)));
        }
        // a chain that waits for an answer holds no thread of the pool
        Engine::Workers(_) => {
            let (caller, running) = (&std::thread::current(), &AtomicUsize::new(turns.len()));
            std::thread::scope(|scope| {
                for slot in turns {
                    scope.spawn(move || {
                        let _leaving = Leaving { running, caller };
                        slot.turn(ground, slice);
                    });
                }
                while running.load(Ordering::Acquire) > 0 {
                    std::thread::park_timeout(WATCH);
                    observer.waiting();
                }
            });
        }
    }
}

/// Tells the caller that a thread has come to its end, whichever.
struct Leaving<'t> {
    running: &'t AtomicUsize,
    caller: &'t Thread,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.running.fetch_sub(1, Ordering::Release);
        self.caller.unpark();
    }
}

/// The next generation, at its first states; none where the run is complete. The states that are not given are those the storage has.
fn offspring<'a>(given: &[Option<&[u8]>], ground: &Ground<'a>, storage: &mut dyn Storage) -> Result<Vec<Slot<'a>>> {
    let Ground { program, shape, plan, .. } = *ground;
    let first = given.len() as u32;
    let mut finished = (0..).zip(given).map(|(chain, given)| match *given {
        Some(sealed) => Ok(Cow::Borrowed(sealed)),
        None => Ok(Cow::Owned(storage.kept(chain)?.map(|k| k.checkpoint).unwrap_or_default())),
    });
    let born = program.offspring(shape, plan.seed, first, &mut finished)?;
    Ok((first..).zip(born).map(|(number, sealed)| Slot::born(number, sealed)).collect())
}

/// The state in which chain 0 begins the closing stage of the run, if there is one that is not over. `last` is its state where that is not kept yet,
/// and `new` are the draws of all chains since their last commits.
fn closing(last: Option<&[u8]>, new: &[&Draws], ground: &Ground<'_>, storage: &mut dyn Storage) -> Result<Option<Vec<u8>>> {
    let Ground { program, shape, plan, .. } = *ground;
    let lengths: Vec<u64> = new.iter().map(|new| new.first + new.count).collect();
    let storage = RefCell::new(storage);
    let mut first = || match last {
        Some(sealed) => Ok(sealed.to_vec()),
        None => Ok(storage.borrow_mut().kept(0)?.map(|k| k.checkpoint).unwrap_or_default()),
    };
    let mut draws = || {
        let mut all = storage.borrow_mut().draws()?;
        all.resize_with(new.len(), Draws::default);
        all.iter_mut().zip(new).for_each(|(all, new)| all.append(new));
        Ok(all)
    };
    program.closing(shape, plan.seed, &lengths, &mut first, &mut draws)
}
