//! Where results go while a run goes on.

use super::{Draws, Report};
use crate::Result;

/// What one chain did since the last commit, and its state at the end of it.
#[derive(Debug, Clone)]
pub struct Piece {
    /// Number of the chain.
    pub chain: u32,
    /// Sweeps done so far.
    pub sweeps: u64,
    /// New draws.
    pub draws: Draws,
    /// New sweeps: number and report.
    pub trace: Vec<(u64, Report)>,
    /// The sealed state after the last of these sweeps.
    pub checkpoint: Vec<u8>,
    /// Whether the chain is done.
    pub finished: bool,
}

/// What is kept of a chain from earlier: where it goes on.
#[derive(Debug, Clone)]
pub struct Kept {
    /// Sweeps done so far.
    pub sweeps: u64,
    /// The sealed state.
    pub checkpoint: Vec<u8>,
    /// Draws kept so far.
    pub draws: u64,
    /// Whether the chain is done.
    pub finished: bool,
    /// The last report of the chain, where it has swept at all.
    pub last: Option<Report>,
}

/// Keeps draws, traces and states. A commit is all or nothing.
pub trait Storage: Send {
    /// Number of chains that may be kept: one more than the highest number among them.
    fn chains(&self) -> u32;
    /// What is kept of a chain.
    fn kept(&mut self, chain: u32) -> Result<Option<Kept>>;
    /// All draws that are kept, one entry a chain.
    fn draws(&mut self) -> Result<Vec<Draws>>;
    /// Keeps what the chains did, in one step.
    fn commit(&mut self, pieces: Vec<Piece>) -> Result<()>;
    /// Whether chains are to go on from here some day. If not, what blocks of rows keep need not leave them.
    fn for_resuming(&self) -> bool {
        true
    }
}

/// Keeps results in memory, and not what only a resumption would need.
#[derive(Debug, Clone, Default)]
pub struct Results(
    /// The results.
    pub Memory,
);

impl Storage for Results {
    fn chains(&self) -> u32 {
        self.0.chains()
    }

    fn kept(&mut self, chain: u32) -> Result<Option<Kept>> {
        self.0.kept(chain)
    }

    fn draws(&mut self) -> Result<Vec<Draws>> {
        self.0.draws()
    }

    fn commit(&mut self, pieces: Vec<Piece>) -> Result<()> {
        self.0.commit(pieces)
    }

    fn for_resuming(&self) -> bool {
        false
    }
}

/// Keeps everything in memory, one entry a chain.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    /// What was kept, by ascending number of the chain.
    pub chains: Vec<Piece>,
}

impl Storage for Memory {
    fn chains(&self) -> u32 {
        self.chains.last().map_or(0, |c| c.chain + 1)
    }

    fn kept(&mut self, chain: u32) -> Result<Option<Kept>> {
        Ok(self.chains.iter().find(|c| c.chain == chain).map(|c| Kept {
            sweeps: c.sweeps,
            checkpoint: c.checkpoint.clone(),
            draws: c.draws.count,
            finished: c.finished,
            last: c.trace.last().map(|t| t.1.clone()),
        }))
    }

    fn draws(&mut self) -> Result<Vec<Draws>> {
        let mut all = vec![Draws::default(); Storage::chains(self) as usize];
        self.chains.iter().for_each(|c| all[c.chain as usize].clone_from(&c.draws));
        Ok(all)
    }

    fn commit(&mut self, pieces: Vec<Piece>) -> Result<()> {
        for piece in pieces {
            match self.chains.iter_mut().find(|c| c.chain == piece.chain) {
                None => self.chains.push(piece),
                Some(kept) => {
                    kept.sweeps = piece.sweeps;
                    kept.draws.append(&piece.draws);
                    kept.trace.extend(piece.trace);
                    kept.checkpoint = piece.checkpoint;
                    kept.finished = piece.finished;
                }
            }
        }
        self.chains.sort_by_key(|c| c.chain);
        Ok(())
    }
}
