//! Beginning, opening and verifying a run directory: who may write, what belongs to the run, what is left over.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Seek, Write};
use std::path::Path;
use std::time::Duration;
use variegate::run::Plan;

use super::commit::Folding;
use super::disk::{self, Disk, Stamp, staged};
use super::error::BEGIN;
use super::manifest::{self, FileEntry, MANIFEST, Manifest};
use super::tables::Segment;
use super::{LOCK, Result, RunDir, RunDirError, RunRecord, SCHEMA, SETTINGS, read_all};

const FOLDERS: [&str; 3] = ["draws", "trace", "checkpoints"];
const CHECKPOINTS: &str = "checkpoints";

impl RunDir {
    /// Whether [`create`](RunDir::create) would accept this path; changes nothing. To be asked before a long reading of data.
    pub fn check_vacant(path: impl AsRef<Path>, replace: bool) -> Result<()> {
        inspect(path.as_ref(), replace).map(|_| ())
    }

    /// Begins a run in a folder that is new, empty, or (with `replace`) holds a run, which is then gone. A run that is replaced stays
    /// whole until the new one is; files that are not a run's are never touched.
    pub fn create(path: impl AsRef<Path>, record: &RunRecord, replace: bool) -> Result<RunDir> {
        Self::create_with(path.as_ref(), record, replace, Disk::default())
    }

    pub(super) fn create_with(path: &Path, record: &RunRecord, replace: bool, disk: Disk) -> Result<RunDir> {
        inspect(path, replace)?;
        fs::create_dir_all(path).map_err(RunDirError::io(BEGIN, path))?;
        let lock = take_lock(path)?;
        // between the first look and the lock someone else may have begun a run here
        inspect(path, replace)?;
        make_folders(path)?;

        let mut run =
            RunDir { path: path.into(), manifest: Manifest::new(record.clone()), lock: Some(lock), disk, folding: Folding::default() };
        let text = record.settings_toml().map_err(|e| unwritable(path, SETTINGS, &e))?;
        // the settings and the schema keep their names from run to run: they are staged, named by the new manifest, and only then
        // take the places of the old ones; whoever comes after a crash in between finds them staged
        for (name, bytes) in [(SETTINGS, text.as_bytes()), (SCHEMA, &record.schema)] {
            let stamp = run.disk.stage(&path.join(name), |out| out.write_all(bytes))?;
            run.manifest.files.push(entry(name, stamp));
        }
        run.disk.sync_folder(path)?;
        let manifest = run.manifest.clone();
        run.publish(manifest)?;
        run.settle()?;
        run.sweep_out();
        if let Some(parent) = path.canonicalize().ok().as_deref().and_then(Path::parent) {
            // the folder's own name; a parent that may not be read is not a reason to fail
            let _ = run.disk.sync_folder(parent);
        }
        Ok(run)
    }

    /// Opens a run to go on with it: takes the lock, verifies every file, and removes what an interrupted commit left over.
    pub fn open(path: impl AsRef<Path>) -> Result<RunDir> {
        Self::open_with(path.as_ref(), Disk::default())
    }

    pub(super) fn open_with(path: &Path, disk: Disk) -> Result<RunDir> {
        Manifest::load(path)?;
        let lock = take_lock(path)?;
        let mut run = RunDir { path: path.into(), manifest: Manifest::load(path)?, lock: Some(lock), disk, folding: Folding::default() };
        run.verify()?;
        // what copies or stores a run may leave empty folders out
        make_folders(path)?;
        run.settle()?;
        run.sweep_out();
        Ok(run)
    }

    /// Plans a run anew, for more draws or chains; nothing that is kept changes. Chains that had come to the end of the old plan go on
    /// when the run is driven again. A crash leaves the old plan or the new one.
    pub fn extend(&mut self, model: serde_json::Map<String, serde_json::Value>, plan: Plan) -> Result<()> {
        let mut next = self.next()?;
        if !plan.extends(&next.run.plan) {
            return Err(self.unlike("the run cannot go on under another plan than its own with more draws or chains".into()));
        }
        next.run.model = model;
        next.run.plan = plan;
        for chain in &mut next.chains {
            chain.finished &= chain.sweeps >= plan.schedule.sweeps();
        }
        let text = next.run.settings_toml().map_err(|e| unwritable(&self.path, SETTINGS, &e))?;
        // staged and then published, as at the beginning of a run
        let stamp = self.disk.stage(&self.path.join(SETTINGS), |out| out.write_all(text.as_bytes()))?;
        self.disk.sync_folder(&self.path)?;
        let place = next.files.iter_mut().find(|f| f.name == SETTINGS);
        let named = place.ok_or_else(|| RunDirError::damaged(&self.path.join(MANIFEST), "it names no settings"))?;
        *named = entry(SETTINGS, stamp);
        self.publish(next)?;
        self.settle()
    }

    /// Opens a run to look at it. Nothing is changed; another process may go on writing it.
    pub fn read(path: impl AsRef<Path>) -> Result<RunDir> {
        let path = path.as_ref();
        loop {
            let manifest = Manifest::load(path)?;
            let checksum = manifest.checksum.clone();
            let mut run = RunDir { path: path.into(), manifest, lock: None, disk: Disk::default(), folding: Folding::default() };
            match run.verify() {
                Ok(()) => return Ok(run),
                // a commit went by: look again
                Err(_) if Manifest::load(path)?.checksum != checksum => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Checks every file that the manifest names, and takes in the schema.
    fn verify(&mut self) -> Result<()> {
        for entry in &self.manifest.files {
            verified(&self.path, entry)?;
        }
        let schema = self.manifest.file(SCHEMA).ok_or_else(|| RunDirError::damaged(&self.path.join(MANIFEST), "it names no schema"))?;
        self.manifest.run.schema = bytes(&self.path, schema)?;
        Ok(())
    }

    /// Gives their names to files that were staged for this manifest.
    fn settle(&self) -> Result<()> {
        let mut moved = false;
        for name in [SETTINGS, SCHEMA] {
            let path = self.path.join(name);
            if self.manifest.file(name).is_some_and(|entry| fits(&staged(&path), entry) && !fits(&path, entry)) {
                self.disk.publish(&path)?;
                moved = true;
            }
        }
        if moved { self.disk.sync_folder(&self.path) } else { Ok(()) }
    }

    /// Removes files of a run's own naming that the manifest does not name. They are leftovers: failing to remove one harms nothing.
    fn sweep_out(&self) {
        for folder in [""].into_iter().chain(FOLDERS) {
            for name in names(&self.path.join(folder)).unwrap_or_default() {
                let inside = if folder.is_empty() { name } else { format!("{folder}/{name}") };
                if is_own(&inside) && self.manifest.file(&inside).is_none() {
                    let _ = self.disk.remove(&self.path.join(inside));
                }
            }
        }
    }
}

pub(super) fn entry(name: &str, stamp: Stamp) -> FileEntry {
    FileEntry { name: name.into(), bytes: stamp.bytes, crc32: stamp.crc32 }
}

pub(super) fn unwritable(path: &Path, name: &str, error: &dyn std::fmt::Display) -> RunDirError {
    RunDirError::Unlike { path: path.into(), detail: format!("{name} cannot express them ({error})") }
}

/// Makes those folders of a run that are not there.
fn make_folders(path: &Path) -> Result<()> {
    for folder in FOLDERS.map(|name| path.join(name)) {
        if !folder.is_dir() {
            fs::create_dir(&folder).map_err(RunDirError::io(BEGIN, &folder))?;
        }
    }
    Ok(())
}

/// Looks whether a run may begin here.
fn inspect(path: &Path, replace: bool) -> Result<()> {
    let found = match names(path) {
        Ok(found) => found,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
            return Err(RunDirError::NotARun {
                path: path.into(),
                detail: "it is a file, or would lie in one; choose another folder with `--out`".into(),
            });
        }
        Err(e) => return Err(RunDirError::io("look into", path)(e)),
    };
    if found.iter().any(|n| n == MANIFEST) && fs::read(path.join(MANIFEST)).is_ok_and(|bytes| manifest::is_ours(&bytes)) {
        return match Manifest::load(path) {
            _ if !replace => Err(RunDirError::Exists { path: path.into() }),
            // what a newer version keeps there is not known here
            Err(newer @ RunDirError::Newer { .. }) => Err(newer),
            _ => Ok(()),
        };
    }
    // a beginning that never came to its first manifest leaves a lock, staged files and empty folders
    let stranger = found.into_iter().find(|name| {
        let empty = || names(&path.join(name)).is_ok_and(|inside| inside.is_empty());
        !(name == LOCK || is_staged(name) || FOLDERS.contains(&name.as_str()) && empty())
    });
    stranger.map_or(Ok(()), |found| Err(RunDirError::Occupied { path: path.into(), found }))
}

fn names(folder: &Path) -> io::Result<Vec<String>> {
    let mut all = fs::read_dir(folder)?.map(|e| Ok(e?.file_name().to_string_lossy().into_owned())).collect::<io::Result<Vec<_>>>()?;
    all.sort();
    Ok(all)
}

/// Staged files of the run folder itself.
fn is_staged(name: &str) -> bool {
    [MANIFEST, SETTINGS, SCHEMA].iter().any(|n| staged(Path::new(n)) == Path::new(name))
}

/// Whether a path inside the run has the name of a file that commits write and later drop, or of its staging.
fn is_own(inside: &str) -> bool {
    let Some((folder, name)) = inside.split_once('/') else { return is_staged(inside) };
    let name = name.strip_prefix('.').and_then(|n| n.strip_suffix(".tmp")).unwrap_or(name);
    let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
    let numbered = |t: &str, end: &str| t.strip_prefix('-').and_then(|t| t.strip_suffix(end)).is_some_and(|n| n.len() >= 6 && digits(n));
    if folder == CHECKPOINTS {
        let Some(rest) = name.strip_prefix('c') else { return false };
        return rest.find('-').is_some_and(|dash| digits(&rest[..dash]) && numbered(&rest[dash..], ".bin"));
    }
    Segment::ALL.iter().any(|s| s.stem().0 == folder && name.strip_prefix(s.stem().1).is_some_and(|rest| numbered(rest, ".parquet")))
}

/// Name of the state of a chain that commit `number` writes.
pub(super) fn checkpoint_name(chain: u32, number: u64) -> String {
    format!("{CHECKPOINTS}/c{chain}-{number:06}.bin")
}

fn take_lock(path: &Path) -> Result<File> {
    let name = path.join(LOCK);
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&name).map_err(RunDirError::io("open", &name))?;
    // someone who asks whether the run is going on holds it for an instant
    for wait in [5, 20, 75, 0] {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(wait)),
            Err(TryLockError::Error(e)) => return Err(RunDirError::io("lock", &name)(e)),
        }
    }
    Err(RunDirError::Locked { path: path.into() })
}

/// Whether another process holds the lock.
pub(super) fn is_locked(path: &Path) -> bool {
    File::open(path.join(LOCK)).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

fn fits(path: &Path, entry: &FileEntry) -> bool {
    let look = || disk::stamp(&mut File::open(path)?);
    look().is_ok_and(|s| s == Stamp { bytes: entry.bytes, crc32: entry.crc32 })
}

/// Opens a file of the manifest after checking that it is as it was written.
pub(super) fn verified(folder: &Path, entry: &FileEntry) -> Result<File> {
    let path = folder.join(&entry.name);
    let first = check(&path, &path, entry);
    if first.is_err() && (entry.name == SETTINGS || entry.name == SCHEMA) {
        // it may still be staged, or have got its name just now
        return check(&staged(&path), &path, entry).or_else(|_| check(&path, &path, entry));
    }
    first
}

fn check(path: &Path, named: &Path, entry: &FileEntry) -> Result<File> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(RunDirError::damaged(named, "it is missing")),
        Err(e) => return Err(RunDirError::io("read", named)(e)),
    };
    let found = disk::stamp(&mut file).map_err(RunDirError::io("read", named))?;
    if found.bytes != entry.bytes {
        let what = format!("it has {} bytes, but {} were written", found.bytes, entry.bytes);
        return Err(RunDirError::damaged(named, what));
    }
    if found.crc32 != entry.crc32 {
        return Err(RunDirError::damaged(named, "its checksum does not match"));
    }
    file.rewind().map_err(RunDirError::io("read", named))?;
    Ok(file)
}

/// The bytes of a file of the manifest, checked.
pub(super) fn bytes(folder: &Path, entry: &FileEntry) -> Result<Vec<u8>> {
    read_all(verified(folder, entry)?, &folder.join(&entry.name))
}
