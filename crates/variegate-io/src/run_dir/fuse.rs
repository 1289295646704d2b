//! For tests: dies before the n-th operation on the disk, as if killed or as if the power had gone.
//!
//! A kill leaves every operation done so far. A power cut may undo any operation whose file or folder was not brought to the disk
//! since: unsynced contents are cut, unsynced renames, creations and removals are taken back, each by the toss of a coin.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::disk::{Step, staged};

/// How the process ends.
#[derive(Debug, Clone, Copy)]
pub(super) enum Death {
    Kill,
    /// The coin tosses come from this seed.
    PowerCut(u64),
    /// Not a death: the disk is full from here on until it is freed.
    Full,
}

#[derive(Debug, Clone)]
pub(super) struct Fuse(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    left: usize,
    death: Death,
    blown: bool,
    pending: Vec<Pending>,
}

/// An operation that a power cut may undo.
#[derive(Debug)]
enum Pending {
    Contents(PathBuf),
    Created(PathBuf),
    Renamed { path: PathBuf, before: Option<Vec<u8>>, contents: Vec<u8> },
    Removed { path: PathBuf, contents: Vec<u8> },
}

impl Fuse {
    pub fn new(operations: usize, death: Death) -> Self {
        Self(Arc::new(Mutex::new(State { left: operations, death, blown: false, pending: Vec::new() })))
    }

    pub fn blown(&self) -> bool {
        self.0.lock().unwrap().blown
    }

    pub fn before(&self, step: Step, path: &Path) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        if matches!(state.death, Death::Full) && matches!(step, Step::Remove) {
            return Ok(()); // room can be given back on a full disk
        }
        if !state.blown && state.left > 0 {
            state.left -= 1;
            state.note(step, path);
            return Ok(());
        }
        if !state.blown {
            state.blown = true;
            if let Death::PowerCut(seed) = state.death {
                state.lose(seed);
            }
        }
        Err(match state.death {
            Death::Full => io::ErrorKind::StorageFull.into(),
            _ => io::Error::other("dead"),
        })
    }
}

impl State {
    fn note(&mut self, step: Step, path: &Path) {
        match step {
            Step::Create => self.pending.extend([Pending::Created(path.into()), Pending::Contents(path.into())]),
            Step::Write => {}
            Step::Sync => self.pending.retain(|p| !matches!(p, Pending::Contents(c) if c == path)),
            Step::Publish => {
                let temporary = staged(path);
                self.pending.retain(|p| !matches!(p, Pending::Created(c) if *c == temporary));
                for p in &mut self.pending {
                    if let Pending::Contents(c) = p
                        && *c == temporary
                    {
                        *c = path.into();
                    }
                }
                let contents = fs::read(&temporary).unwrap();
                self.pending.push(Pending::Renamed { path: path.into(), before: fs::read(path).ok(), contents });
            }
            Step::SyncFolder => self.pending.retain(|p| match p {
                Pending::Contents(_) => true,
                Pending::Created(f) | Pending::Renamed { path: f, .. } | Pending::Removed { path: f, .. } => f.parent() != Some(path),
            }),
            Step::Remove => {
                if let Ok(contents) = fs::read(path) {
                    self.pending.push(Pending::Removed { path: path.into(), contents });
                }
            }
        }
    }

    fn lose(&mut self, mut seed: u64) {
        for pending in self.pending.drain(..).rev() {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            if seed >> 63 == 0 {
                continue;
            }
            match pending {
                Pending::Contents(path) => {
                    if let Ok(bytes) = fs::read(&path) {
                        fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
                    }
                }
                Pending::Created(path) => {
                    let _ = fs::remove_file(path);
                }
                Pending::Renamed { path, before, contents } => {
                    fs::write(staged(&path), contents).unwrap();
                    match before {
                        Some(bytes) => fs::write(&path, bytes).unwrap(),
                        None => {
                            let _ = fs::remove_file(&path);
                        }
                    }
                }
                Pending::Removed { path, contents } => {
                    if !path.exists() {
                        fs::write(&path, contents).unwrap();
                    }
                }
            }
        }
    }
}
