//! The few operations that change the disk, each of which may be the last one before the lights go out.
//!
//! A file is staged (`.name.tmp`, written and brought to the disk), then published (renamed): no file ever has its name before it is
//! whole. In tests a fuse can blow before any single operation.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{Result, RunDirError};

/// Does the operations; in tests it can be made to die before any of them.
#[derive(Debug, Default)]
pub(super) struct Disk {
    #[cfg(test)]
    pub fuse: Option<super::fuse::Fuse>,
}

/// Which operation comes next; only tests look at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Create,
    Write,
    Sync,
    Publish,
    SyncFolder,
    Remove,
}

/// Length and checksum of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub bytes: u64,
    pub crc32: u32,
}

/// Where a file is staged.
pub(super) fn staged(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.tmp"))
}

/// A file being written; knows its stamp, and the error of the system that stopped it.
pub(super) struct Ink<'a> {
    file: File,
    hasher: crc32fast::Hasher,
    bytes: u64,
    failed: Option<io::Error>,
    disk: &'a Disk,
    path: &'a Path,
}

impl Write for Ink<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let outcome = match self.disk.before(Step::Write, self.path) {
            Ok(()) => self.file.write(buffer),
            Err(e) => {
                // what a kill leaves of a write is anything up to the whole
                let _ = self.file.write(&buffer[..buffer.len() / 2]);
                Err(e)
            }
        };
        match outcome {
            Ok(n) => {
                self.hasher.update(&buffer[..n]);
                self.bytes += n as u64;
                Ok(n)
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Err(e),
            Err(e) => {
                // libraries above wrap errors: the kind is kept here for the message
                let copy = io::Error::new(e.kind(), e.to_string());
                self.failed.get_or_insert(e);
                Err(copy)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Disk {
    #[cfg(test)]
    fn before(&self, step: Step, path: &Path) -> io::Result<()> {
        self.fuse.as_ref().map_or(Ok(()), |f| f.before(step, path))
    }

    #[cfg(not(test))]
    fn before(&self, _: Step, _: &Path) -> io::Result<()> {
        Ok(())
    }

    /// Writes the temporary file of `path` and brings it to the disk.
    pub fn stage(&self, path: &Path, fill: impl FnOnce(&mut Ink<'_>) -> io::Result<()>) -> Result<Stamp> {
        let temporary = staged(path);
        let fail = RunDirError::io("write", path);
        let begin = self.before(Step::Create, &temporary).and_then(|()| File::create(&temporary));
        let file = match begin {
            Ok(file) => file,
            Err(e) => return Err(fail(e)),
        };
        let mut ink = Ink { file, hasher: crc32fast::Hasher::new(), bytes: 0, failed: None, disk: self, path: &temporary };
        let done = fill(&mut ink).map_err(|e| ink.failed.take().unwrap_or(e));
        let done = done.and_then(|()| self.before(Step::Sync, &temporary)).and_then(|()| ink.file.sync_all());
        match done {
            Ok(()) => Ok(Stamp { bytes: ink.bytes, crc32: ink.hasher.finalize() }),
            Err(e) => {
                // half a file would only take room that is missing already; nothing names it
                let _ = self.remove(&temporary);
                Err(fail(e))
            }
        }
    }

    /// Gives a staged file its name.
    pub fn publish(&self, path: &Path) -> Result<()> {
        self.before(Step::Publish, path).and_then(|()| fs::rename(staged(path), path)).map_err(RunDirError::io("write", path))
    }

    /// Stages and publishes.
    pub fn write(&self, path: &Path, fill: impl FnOnce(&mut Ink<'_>) -> io::Result<()>) -> Result<Stamp> {
        let stamp = self.stage(path, fill)?;
        self.publish(path).inspect_err(|_| {
            let _ = self.remove(&staged(path));
        })?;
        Ok(stamp)
    }

    /// Makes the names in a folder last.
    pub fn sync_folder(&self, path: &Path) -> Result<()> {
        let sync = || {
            self.before(Step::SyncFolder, path)?;
            // only Unix can open a folder; elsewhere the file system is trusted
            if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) }
        };
        sync().map_err(RunDirError::io("write", path))
    }

    /// Removes a file that is no longer needed.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        self.before(Step::Remove, path).and_then(|()| fs::remove_file(path))
    }
}

/// Length and checksum of a file as it is, read in pieces.
pub(super) fn stamp(file: &mut File) -> io::Result<Stamp> {
    use std::io::{Read, Seek};
    let (mut hasher, mut bytes) = (crc32fast::Hasher::new(), 0);
    let mut buffer = vec![0; 1 << 16];
    file.rewind()?;
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(Stamp { bytes, crc32: hasher.finalize() }),
            Ok(n) => {
                hasher.update(&buffer[..n]);
                bytes += n as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}
