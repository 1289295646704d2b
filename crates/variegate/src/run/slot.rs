//! The place of one chain in a run: waiting for its first turn, running, or done.

use std::time::{Duration, Instant};

use super::{AnyProgram, Chain, ChainProgress, Draws, Engine, Kept, Piece, Plan, Report, Shape};
use crate::{Error, Result};

/// What every chain of a run is made from.
#[derive(Clone, Copy)]
pub(super) struct Ground<'a> {
    pub program: &'a dyn AnyProgram,
    pub engine: Engine<'a>,
    pub shape: Shape,
    pub plan: &'a Plan,
    /// Whether chains are saved whole, so that they can be gone on with.
    pub whole: bool,
}

enum Stage<'a> {
    /// Opens at its first turn: at this state, or at the program's own start.
    Waiting(Option<Vec<u8>>),
    Running(Box<dyn Chain + 'a>),
    /// Its last state is here until it is committed; then the storage has it.
    Finished(Option<Vec<u8>>),
    /// The state may be half updated: this chain falls back to its last commit.
    Failed,
}

/// A chain, and what it did since the last commit.
pub(super) struct Slot<'a> {
    pub number: u32,
    stage: Stage<'a>,
    sweeps: u64,
    draws: Draws,
    trace: Vec<(u64, Report)>,
    last: Option<Report>,
    works_on: Option<String>,
    /// Whether it is in the closing stage of the run: all sweeps are done.
    closing: bool,
    /// There is something to commit.
    pub fresh: bool,
    pub error: Option<Error>,
}

impl<'a> Slot<'a> {
    /// A chain where it was kept, or before its start.
    pub(super) fn new(number: u32, kept: Option<Kept>) -> Self {
        let nothing = Kept { sweeps: 0, checkpoint: Vec::new(), draws: 0, finished: false, last: None };
        let begun = kept.is_some();
        let kept = kept.unwrap_or(nothing);
        let stage = match kept.finished {
            true => Stage::Finished(None),
            false => Stage::Waiting(begun.then_some(kept.checkpoint)),
        };
        let draws = Draws::starting_at(kept.draws);
        Self {
            number,
            stage,
            sweeps: kept.sweeps,
            draws,
            trace: Vec::new(),
            last: kept.last,
            works_on: None,
            closing: false,
            fresh: false,
            error: None,
        }
    }

    /// A chain of a further generation, at its sealed first state.
    pub(super) fn born(number: u32, sealed: Vec<u8>) -> Self {
        Self { stage: Stage::Waiting(Some(sealed)), fresh: true, ..Self::new(number, None) }
    }

    /// Begins the closing stage of the run from this sealed state.
    pub(super) fn close(&mut self, sealed: Vec<u8>) {
        (self.stage, self.closing, self.fresh) = (Stage::Waiting(Some(sealed)), true, true);
    }

    /// Draws since the last commit.
    pub(super) fn new_draws(&self) -> &Draws {
        &self.draws
    }

    pub(super) fn finished(&self) -> bool {
        matches!(self.stage, Stage::Finished(_))
    }

    /// Last state of a chain that has finished since the last commit.
    pub(super) fn sealed(&self) -> Option<&[u8]> {
        match &self.stage {
            Stage::Finished(sealed) => sealed.as_deref(),
            _ => None,
        }
    }

    /// Gives the chain its slice of time: at least one sweep, then as many as fit.
    pub(super) fn turn(&mut self, ground: &Ground<'a>, slice: Duration) {
        if let Err(error) = self.advance(ground, slice) {
            self.error = Some(error);
            self.stage = Stage::Failed;
        }
    }

    fn advance(&mut self, ground: &Ground<'a>, slice: Duration) -> Result<()> {
        let Ground { program, engine, shape, plan, whole } = *ground;
        if let Stage::Waiting(saved) = &self.stage {
            let chain = match (saved, self.closing) {
                (Some(saved), true) => program.open_closing(engine, shape, plan.seed, saved)?,
                _ => program.open(engine, shape, plan.seed, self.number, saved.as_deref())?,
            };
            self.works_on = chain.works_on();
            self.stage = Stage::Running(chain);
        }
        let Stage::Running(chain) = &mut self.stage else { return Ok(()) };
        let schedule = &plan.schedule;
        let begin = Instant::now();
        self.fresh = true;
        while self.closing {
            if chain.close()? {
                self.stage = Stage::Finished(Some(chain.save(whole)?));
                self.closing = false;
                return Ok(());
            }
            if begin.elapsed() > slice {
                return Ok(());
            }
        }
        loop {
            let mut finished = false;
            if chain.sweeps() < schedule.sweeps() {
                let report = chain.advance(chain.sweeps() < schedule.warm_up())?;
                self.sweeps = chain.sweeps();
                finished = report.converged;
                self.trace.push((self.sweeps, report.clone()));
                self.last = Some(report);
                if schedule.keeps(self.sweeps) {
                    chain.keep(&mut self.draws);
                }
            }
            if finished || self.sweeps >= schedule.sweeps() {
                // a chain that is done needs no engine
                self.stage = Stage::Finished(Some(chain.save(whole)?));
                return Ok(());
            }
            if begin.elapsed() > slice {
                return Ok(());
            }
        }
    }

    /// What there is to commit; the chain counts as committed from here on.
    pub(super) fn piece(&mut self, whole: bool) -> Result<Option<Piece>> {
        if !self.fresh {
            return Ok(None);
        }
        let checkpoint = match &mut self.stage {
            Stage::Waiting(sealed) => sealed.clone().unwrap_or_default(),
            Stage::Running(chain) => chain.save(whole)?,
            Stage::Finished(sealed) => sealed.take().unwrap_or_default(),
            Stage::Failed => return Ok(None),
        };
        self.fresh = false;
        let next = self.draws.first + self.draws.count;
        Ok(Some(Piece {
            chain: self.number,
            sweeps: self.sweeps,
            draws: std::mem::replace(&mut self.draws, Draws::starting_at(next)),
            trace: std::mem::take(&mut self.trace),
            checkpoint,
            finished: self.finished(),
        }))
    }

    pub(super) fn progress(&self, plan: &Plan) -> ChainProgress {
        ChainProgress {
            chain: self.number,
            sweeps: self.sweeps,
            total: plan.schedule.sweeps(),
            warm_up: self.sweeps < plan.schedule.warm_up(),
            finished: self.finished(),
            last: self.last.clone(),
            works_on: self.works_on.clone(),
        }
    }
}
