//! A commit: all or nothing, whenever the process dies.
//!
//! 1. New segments and states under names never used before: staged, brought to the disk, renamed.
//! 2. The folders are brought to the disk.
//! 3. The new manifest is staged, brought to the disk, and renamed over the old one: this instant is the commit.
//! 4. The run folder is brought to the disk.
//! 5. Only now what the new manifest no longer names is removed.
//!
//! Dying before 3 leaves the old run and some files that nobody names; dying after it leaves the new run and some such files.

use std::io::{self, Write};
use variegate::run::{Draws, Kept, Piece, Storage};

use super::manifest::{ChainEntry, FileEntry, MANIFEST, Manifest};
use super::segment::{SegmentReader, SegmentWriter, Values};
use super::tables::{self, Segment};
use super::{Result, RunDir, RunDirError, folder};

/// When small segments are put together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Folding {
    /// Number of small segments of a kind that calls for it.
    pub at: usize,
    /// Segments of at least this many bytes are left alone.
    pub large: u64,
    /// Numbers gathered in memory before a row group is written.
    pub group: usize,
}

impl Default for Folding {
    fn default() -> Self {
        Self { at: 50, large: 32 << 20, group: 1 << 21 }
    }
}

impl Storage for RunDir {
    fn chains(&self) -> u32 {
        self.manifest.chains.last().map_or(0, |c| c.chain + 1)
    }

    fn kept(&mut self, chain: u32) -> variegate::Result<Option<Kept>> {
        let Some(entry) = self.manifest.chain(chain).cloned() else { return Ok(None) };
        let checkpoint = self.checkpoint(chain)?.unwrap_or_default();
        Ok(Some(Kept { sweeps: entry.sweeps, checkpoint, draws: entry.draws, finished: entry.finished, last: entry.last }))
    }

    fn draws(&mut self) -> variegate::Result<Vec<Draws>> {
        Ok(RunDir::draws(self)?)
    }

    fn commit(&mut self, pieces: Vec<Piece>) -> variegate::Result<()> {
        self.fold()?;
        self.add(&pieces)?;
        Ok(())
    }
}

impl RunDir {
    /// Adds what the chains did.
    fn add(&mut self, pieces: &[Piece]) -> Result<()> {
        let mut next = self.next()?;
        self.check_numbers(pieces)?;
        for piece in pieces {
            self.check_follows(piece)?;
        }
        tables::extend_columns(&mut next.columns, pieces).map_err(|detail| self.unlike(detail))?;

        for kind in Segment::ALL {
            if kind.rows(pieces) == 0 {
                continue;
            }
            let name = kind.name(next.commits);
            let (fields, columns) = (kind.fields(&next.columns), &next.columns);
            let stamp = self.disk.write(&self.path.join(&name), |out| {
                let mut segment = SegmentWriter::new(out, fields).map_err(io::Error::other)?;
                segment.group(|number| kind.gather(number, columns, pieces)).map_err(io::Error::other)?;
                segment.close().map_err(io::Error::other)
            })?;
            next.files.push(folder::entry(&name, stamp));
        }
        for piece in pieces {
            let name = folder::checkpoint_name(piece.chain, next.commits);
            let stamp = self.disk.write(&self.path.join(&name), |out| out.write_all(&piece.checkpoint))?;
            let before = self.manifest.chain(piece.chain);
            let last = piece.trace.last().map(|t| t.1.clone()).or_else(|| before.and_then(|c| c.last.clone()));
            let entry = ChainEntry {
                chain: piece.chain,
                sweeps: piece.sweeps,
                draws: before.map_or(0, |c| c.draws) + piece.draws.count,
                finished: piece.finished,
                checkpoint: name.clone(),
                last,
            };
            next.files.retain(|f| before.is_none_or(|c| f.name != c.checkpoint));
            next.files.push(folder::entry(&name, stamp));
            next.chains.retain(|c| c.chain != piece.chain);
            next.chains.push(entry);
        }
        next.chains.sort_by_key(|c| c.chain);
        self.replace(next)
    }

    /// Puts many small segments into one, so that neither the folder nor the manifest grows with the length of the run.
    fn fold(&mut self) -> Result<()> {
        let mut next = self.next()?;
        for kind in Segment::ALL {
            let segments: Vec<FileEntry> = self.manifest.files.iter().filter(|f| kind.holds(&f.name)).cloned().collect();
            let small = segments.iter().rev().take_while(|f| f.bytes < self.folding.large).count();
            if small < self.folding.at {
                continue;
            }
            // the last ones only: the order of names then stays the order of rows
            let old = &segments[segments.len() - small..];
            let name = kind.name(next.commits);
            let stamp = self.write_folded(&name, kind, old)?;
            next.files.retain(|f| !old.contains(f));
            next.files.push(folder::entry(&name, stamp));
        }
        if next.files == self.manifest.files { Ok(()) } else { self.replace(next) }
    }

    fn write_folded(&self, name: &str, kind: Segment, old: &[FileEntry]) -> Result<super::disk::Stamp> {
        let fields = kind.fields(&self.manifest.columns);
        let mut unreadable = None;
        let written = self.disk.write(&self.path.join(name), |out| {
            let mut segment = SegmentWriter::new(out, fields.clone()).map_err(io::Error::other)?;
            let mut held: Vec<Values> = Vec::new();
            let mut numbers = 0;
            for entry in old {
                let file = folder::verified(&self.path, entry).map_err(|e| {
                    let text = io::Error::other(e.to_string());
                    unreadable = Some(e);
                    text
                })?;
                let reader = SegmentReader::new(file).map_err(io::Error::other)?;
                for group in 0..reader.groups() {
                    let (rows, values) = reader.group(group, &fields).map_err(io::Error::other)?;
                    numbers += values.iter().map(|v| if let Values::List(l) = v { l.len() } else { rows }).sum::<usize>();
                    if held.is_empty() {
                        held = values;
                    } else {
                        held.iter_mut().zip(values).for_each(|(h, v)| h.append(v));
                    }
                    if numbers >= self.folding.group {
                        flush(&mut segment, &mut held)?;
                        numbers = 0;
                    }
                }
            }
            if numbers > 0 {
                flush(&mut segment, &mut held)?;
            }
            segment.close().map_err(io::Error::other)
        });
        written.map_err(|e| unreadable.unwrap_or(e))
    }

    /// The manifest that the next commit begins with.
    pub(super) fn next(&self) -> Result<Manifest> {
        if self.lock.is_none() {
            return Err(self.unlike("the run was opened for reading only".into()));
        }
        Ok(Manifest { commits: self.manifest.commits + 1, ..self.manifest.clone() })
    }

    pub(super) fn unlike(&self, detail: String) -> RunDirError {
        RunDirError::Unlike { path: self.path.clone(), detail }
    }

    /// Draws must go on where the last commit ended, or a hole would stay unnoticed.
    fn check_follows(&self, piece: &Piece) -> Result<()> {
        let (draws, sweeps) = self.manifest.chain(piece.chain).map_or((0, 0), |c| (c.draws, c.sweeps));
        let sparse = !piece.draws.scalars.values.is_empty() && piece.draws.scalars.rows() as u64 != piece.draws.count;
        if piece.draws.first != draws || sparse {
            return Err(self.unlike(format!("draws of chain {} do not go on from draw {draws}", piece.chain)));
        }
        if piece.sweeps < sweeps || piece.trace.first().is_some_and(|t| t.0 != sweeps + 1) {
            return Err(self.unlike(format!("sweeps of chain {} do not go on from sweep {sweeps}", piece.chain)));
        }
        Ok(())
    }

    /// Chains beyond the plan must follow those that there are, without a gap.
    fn check_numbers(&self, pieces: &[Piece]) -> Result<()> {
        let there = self.manifest.numbers();
        let mut added: Vec<u32> = pieces.iter().map(|p| p.chain).filter(|c| *c >= there).collect();
        added.sort_unstable();
        match (there..).zip(added).find(|(next, chain)| next != chain) {
            Some((next, chain)) => Err(self.unlike(format!("chain {chain} cannot be added where chain {next} would be the next"))),
            None => Ok(()),
        }
    }

    /// Steps 2 to 5: makes a manifest whose files are written the one that counts.
    fn replace(&mut self, next: Manifest) -> Result<()> {
        let mut folders: Vec<&str> = Vec::new();
        for file in next.files.iter().filter(|f| self.manifest.file(&f.name).is_none()) {
            let folder = file.name.split('/').next().unwrap_or_default();
            if !folders.contains(&folder) {
                folders.push(folder);
            }
        }
        for name in folders {
            self.disk.sync_folder(&self.path.join(name))?;
        }
        let old = self.manifest.files.clone();
        self.publish(next)?;
        for file in old.iter().filter(|f| self.manifest.file(&f.name).is_none()) {
            // a leftover harms nothing, and the next opening tries again
            let _ = self.disk.remove(&self.path.join(&file.name));
        }
        Ok(())
    }

    /// Steps 3 and 4.
    pub(super) fn publish(&mut self, mut next: Manifest) -> Result<()> {
        let text = next.encode().map_err(|e| folder::unwritable(&self.path, MANIFEST, &e))?;
        let path = self.path.join(MANIFEST);
        self.disk.write(&path, |out| out.write_all(text.as_bytes()))?;
        self.manifest = next;
        self.disk.sync_folder(&self.path)
    }
}

fn flush<W: Write + Send>(segment: &mut SegmentWriter<W>, held: &mut Vec<Values>) -> io::Result<()> {
    let mut columns: Vec<Option<Values>> = std::mem::take(held).into_iter().map(Some).collect();
    segment.group(|i| columns[i].take().unwrap_or(Values::Bool(Vec::new()))).map_err(io::Error::other)
}
