//! A run on disk: settings, draws, traces and states, so that it can be stopped anywhere, also by `kill -9` or a power cut, and
//! resumed to the same bits.
//!
//! ```text
//! settings.toml                        what was asked, for people
//! manifest.json                        the commit record: every file with length and checksum, and where each chain stands
//! schema.bin                           sealed description of columns and classes
//! draws/scalars-000004.parquet         draws that commit 4 added: chain, draw, one column a number
//! draws/components-000004.parquet      the same for models whose number of components changes: chain, draw, component, …
//! trace/trace-000004.parquet           every sweep: chain, sweep, objective, components, converged, …
//! checkpoints/c0-000004.bin            state of chain 0 after commit 4
//! lock                                 held by the process that writes
//! ```
//!
//! A commit writes new files only, and becomes real at one instant: when the new manifest takes the place of the old one. The
//! order of writes is told in `commit.rs`. [`RunDir::create`] begins a run, [`RunDir::open`] goes on with one, and
//! [`RunDir::read`] looks at one without touching it, also while it is being written.

mod commit;
mod disk;
mod error;
mod folder;
#[cfg(test)]
mod fuse;
mod manifest;
mod record;
mod segment;
mod tables;
#[cfg(test)]
mod tests;

pub use error::{Result, RunDirError};
pub use manifest::RUN_FORMAT_VERSION;
pub use record::{DataReference, LabelType, Machine, RunRecord};

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use variegate::run::{Draws, Piece, Report, Table};

use commit::Folding;
use disk::Disk;
use manifest::{FileEntry, Manifest};
use segment::SegmentReader;
use tables::Segment;

const SETTINGS: &str = "settings.toml";
const SCHEMA: &str = "schema.bin";
const LOCK: &str = "lock";

/// A run directory: open for writing ([`create`](RunDir::create), [`open`](RunDir::open)) or for reading only
/// ([`read`](RunDir::read)).
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    manifest: Manifest,
    /// Held while this may write.
    lock: Option<File>,
    disk: Disk,
    folding: Folding,
}

/// How far a run has come.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    /// Every chain is done.
    pub complete: bool,
    /// A process is writing the run now.
    pub running: bool,
    /// Each chain: those of the plan, and those that the program added.
    pub chains: Vec<ChainStatus>,
}

/// How far a chain has come.
#[derive(Debug, Clone, PartialEq)]
pub struct ChainStatus {
    /// Number of the chain.
    pub chain: u32,
    /// Sweeps done and saved.
    pub sweeps: u64,
    /// Sweeps when it is done, or the most it may take.
    pub total: u64,
    /// Draws kept.
    pub draws: u64,
    /// Whether it is done.
    pub finished: bool,
    /// Report of its last sweep.
    pub last: Option<Report>,
}

impl RunDir {
    /// Where the run is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the run is.
    pub fn record(&self) -> &RunRecord {
        &self.manifest.run
    }

    /// How far it has come.
    pub fn status(&self) -> Status {
        let plan = &self.manifest.run.plan;
        let chains: Vec<_> = (0..self.manifest.numbers())
            .map(|chain| {
                let kept = self.manifest.chain(chain);
                ChainStatus {
                    chain,
                    sweeps: kept.map_or(0, |c| c.sweeps),
                    total: plan.schedule.sweeps(),
                    draws: kept.map_or(0, |c| c.draws),
                    finished: kept.is_some_and(|c| c.finished),
                    last: kept.and_then(|c| c.last.clone()),
                }
            })
            .collect();
        let running = self.lock.is_none() && folder::is_locked(&self.path);
        Status { complete: chains.iter().all(|c| c.finished), running, chains }
    }

    /// All draws, one entry a chain, in order.
    pub fn draws(&self) -> Result<Vec<Draws>> {
        let kept = self.per_chain(|c| c.draws);
        self.steady(|manifest| {
            let columns = &manifest.columns;
            let mut all: Vec<Draws> = kept.iter().map(|n| Draws { count: *n, ..Draws::default() }).collect();
            for kind in [Segment::Scalars, Segment::Components] {
                let fields = kind.fields(columns);
                self.each_group(manifest, kind, &fields, |values| tables::scatter(kind, columns, &values, &kept, &mut all))?;
            }
            let finish = |table: &mut Table, columns: &Vec<(String, usize)>| {
                if !table.values.is_empty() {
                    table.columns.clone_from(columns);
                }
            };
            let width: usize = columns.scalars.iter().map(|c| c.1).sum();
            for (chain, draws) in all.iter_mut().enumerate() {
                if draws.scalars.values.len() != draws.count as usize * width {
                    return Err(RunDirError::damaged(&self.path, format!("draws of chain {chain} are missing")));
                }
                finish(&mut draws.scalars, &columns.scalars);
                finish(&mut draws.components, &columns.components);
            }
            Ok(all)
        })
    }

    /// All sweeps, one entry a chain: number and report.
    pub fn trace(&self) -> Result<Vec<Vec<(u64, Report)>>> {
        let kept = self.per_chain(|c| c.sweeps);
        self.steady(|manifest| {
            let mut all = vec![Vec::new(); kept.len()];
            let fields = Segment::Trace.fields(&manifest.columns);
            self.each_group(manifest, Segment::Trace, &fields, |values| {
                tables::scatter_trace(&manifest.columns, &values, &kept, &mut all)
            })?;
            Ok(all)
        })
    }

    /// The last sealed state of a chain; nothing before its first commit. While another process writes, the newest there is.
    pub fn checkpoint(&self, chain: u32) -> Result<Option<Vec<u8>>> {
        self.steady(|manifest| {
            let entry = manifest.chain(chain).and_then(|c| manifest.file(&c.checkpoint));
            entry.map(|entry| self.bytes(entry)).transpose()
        })
    }

    /// The last sealed state of every chain.
    pub fn checkpoints(&self) -> Result<Vec<Option<Vec<u8>>>> {
        (0..self.manifest.numbers()).map(|chain| self.checkpoint(chain)).collect()
    }

    /// Everything that is kept of every chain that has been committed: what a posterior is made of.
    pub fn pieces(&self) -> Result<Vec<Piece>> {
        let (draws, trace) = (self.draws()?, self.trace()?);
        let mut pieces = Vec::new();
        for ((chain, draws), trace) in (0..).zip(draws).zip(trace) {
            if let Some(entry) = self.manifest.chain(chain) {
                let checkpoint = self.checkpoint(chain)?.unwrap_or_default();
                pieces.push(Piece { chain, sweeps: entry.sweeps, draws, trace, checkpoint, finished: entry.finished });
            }
        }
        Ok(pieces)
    }

    fn per_chain(&self, figure: impl Fn(&manifest::ChainEntry) -> u64) -> Vec<u64> {
        (0..self.manifest.numbers()).map(|c| self.manifest.chain(c).map_or(0, &figure)).collect()
    }

    /// Reads from the files of the manifest. Another process may fold segments and drop old states meanwhile: an error counts only
    /// if the manifest on disk is still the same, else the newer one is tried.
    fn steady<T>(&self, mut attempt: impl FnMut(&Manifest) -> Result<T>) -> Result<T> {
        let mut manifest = self.manifest.clone();
        loop {
            let error = match attempt(&manifest) {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            let now = if self.lock.is_some() { return Err(error) } else { Manifest::load(&self.path)? };
            if now.checksum == manifest.checksum {
                return Err(error);
            }
            if now.id != manifest.id {
                return Err(RunDirError::Replaced { path: self.path.clone() });
            }
            manifest = now;
        }
    }

    fn each_group(
        &self,
        manifest: &Manifest,
        kind: Segment,
        fields: &[segment::Field],
        mut take: impl FnMut(Vec<segment::Values>) -> Result<(), String>,
    ) -> Result<()> {
        for entry in manifest.files.iter().filter(|f| kind.holds(&f.name)) {
            let path = self.path.join(&entry.name);
            let contents = |e: &dyn std::fmt::Display| RunDirError::damaged(&path, format!("its contents do not decode ({e})"));
            let reader = SegmentReader::new(folder::verified(&self.path, entry)?).map_err(|e| contents(&e))?;
            for group in 0..reader.groups() {
                let (_, values) = reader.group(group, fields).map_err(|e| contents(&e))?;
                take(values).map_err(|e| contents(&e))?;
            }
        }
        Ok(())
    }

    fn bytes(&self, entry: &FileEntry) -> Result<Vec<u8>> {
        folder::bytes(&self.path, entry)
    }
}

/// Reads a whole file that has been verified.
fn read_all(mut file: File, path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(RunDirError::io("read", path))?;
    Ok(bytes)
}
