//! The file that keeps the cells of a cross-validation as they end: one line of JSON each, after a line that says of what they are.
//!
//! While the cells are being done it lies beside the folder of the run, which does not exist yet; when the run begins it moves inside.
//! A line that was cut by a crash is dropped, its cell done again.

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use variegate::select::{Axis, Cell};

/// Name of the file inside the folder of a run.
pub const FILE: &str = "cross-validation.jsonl";
const VERSION: u32 = 1;

/// Everything that the cells depend on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Version of this format.
    pub cross_validation: u32,
    /// Version of variegate that did it.
    pub variegate_version: String,
    /// Model family.
    pub family: String,
    /// Whether outcomes are real numbers.
    pub real: bool,
    /// Settings of every fit.
    pub settings: Map<String, Value>,
    /// Settings that vary.
    pub grid: Vec<Axis>,
    /// Number of folds.
    pub folds: usize,
    /// Seed of the folds and of every fit.
    pub seed: u64,
    /// Rows of a block, if they were given.
    pub block_rows: Option<usize>,
    /// The data.
    pub fingerprint: u64,
}

impl Header {
    /// The versions of today.
    pub fn versions() -> (u32, String) {
        (VERSION, env!("CARGO_PKG_VERSION").into())
    }

    /// What differs, in a word.
    fn difference(&self, other: &Self) -> Option<&'static str> {
        let pairs = [
            (self.cross_validation != other.cross_validation || self.variegate_version != other.variegate_version, "version of variegate"),
            (self.family != other.family, "model"),
            (self.fingerprint != other.fingerprint || self.real != other.real, "data"),
            (self.settings != other.settings, "settings"),
            (self.grid != other.grid, "grid"),
            (self.folds != other.folds, "number of folds"),
            (self.seed != other.seed, "seed"),
            (self.block_rows != other.block_rows, "block rows"),
        ];
        pairs.into_iter().find(|p| p.0).map(|p| p.1)
    }
}

/// The file, held by this process.
pub struct Journal {
    file: File,
    path: PathBuf,
    /// What the cells are of.
    pub header: Header,
    /// Cells that were there when it was opened.
    pub known: Vec<Cell>,
}

impl Journal {
    /// The file of a run that is to be in this folder.
    pub fn beside(out: &Path) -> Result<PathBuf> {
        let out = crate::files::absolute(out)?;
        let name = out.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(out.with_file_name(format!("{name}.{FILE}")))
    }

    /// Goes on with what the file holds, or begins it. `seed_given` is false where any seed will do: that of the file is taken then.
    /// Cells of something else are refused, or dropped with `replace`.
    pub fn open(path: &Path, mut header: Header, seed_given: bool, replace: bool) -> Result<Self> {
        let failed = || format!("could not write `{}`: check that you may write there", path.display());
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).with_context(failed)?;
        }
        let mut file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path).with_context(failed)?;
        if file.try_lock().is_err() {
            bail!("another process is writing `{}`: wait for it, or choose another folder with --out", path.display());
        }
        let (found, whole) = read(&mut file, path)?;
        let mut known = Vec::new();
        let mut keep = 0;
        if let Some((kept, cells)) = found {
            if !seed_given {
                header.seed = kept.seed;
            }
            match header.difference(&kept) {
                None => (known, keep) = (cells, whole),
                Some(_) if replace => {}
                Some(what) => bail!(
                    "`{}` holds another cross-validation, whose {what} differs: repeat its command to go on, choose another folder with \
                     --out, or drop it with --force",
                    path.display()
                ),
            }
        }
        file.set_len(keep).with_context(failed)?;
        file.seek(SeekFrom::End(0)).with_context(failed)?;
        let mut journal = Self { file, path: path.into(), header: header.clone(), known };
        if keep == 0 {
            journal.line(&header)?;
        }
        Ok(journal)
    }

    /// Keeps a cell.
    pub fn keep(&mut self, cell: &Cell) -> Result<()> {
        self.line(cell)
    }

    fn line<T: Serialize>(&mut self, value: &T) -> Result<()> {
        let text = serde_json::to_string(value)? + "\n";
        let failed = || format!("could not write `{}`: check that the disk is not full", self.path.display());
        self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_data()).with_context(failed)
    }

    /// Moves the file into the folder of its run.
    pub fn settle(self, run: &Path) -> Result<()> {
        let to = run.join(FILE);
        std::fs::rename(&self.path, &to).with_context(|| format!("could not move `{}` to `{}`", self.path.display(), to.display()))
    }

    /// What the folder of a run holds, if its run was chosen by cross-validation.
    pub fn of_run(run: &Path) -> Result<Option<(Header, Vec<Cell>)>> {
        let path = run.join(FILE);
        match File::open(&path) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e).with_context(|| format!("could not read `{}`", path.display())),
            Ok(mut file) => Ok(read(&mut file, &path)?.0),
        }
    }
}

/// What a file holds, and the length of its whole lines.
fn read(file: &mut File, path: &Path) -> Result<(Option<(Header, Vec<Cell>)>, u64)> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).with_context(|| format!("could not read `{}`", path.display()))?;
    let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    let mut lines = bytes[..whole].split(|b| *b == b'\n').filter(|l| !l.is_empty()).enumerate();
    let damaged = |line: usize| format!("line {} of `{}` is damaged: remove the file to begin anew", line + 1, path.display());
    let Some((_, first)) = lines.next() else { return Ok((None, 0)) };
    let header: Header = serde_json::from_slice(first).with_context(|| damaged(0))?;
    let cells = lines.map(|(at, line)| serde_json::from_slice(line).with_context(|| damaged(at))).collect::<Result<_>>()?;
    Ok((Some((header, cells)), whole as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use variegate::select::{CellResult, Held};

    fn header(seed: u64) -> Header {
        let (cross_validation, variegate_version) = Header::versions();
        let grid = vec![Axis { name: "a".into(), values: vec![json!(1.5), Value::Null] }];
        let family = "logistic".into();
        let (settings, folds, block_rows, fingerprint) = (Map::new(), 5, None, u64::MAX);
        Header { cross_validation, variegate_version, family, real: false, settings, grid, folds, seed, block_rows, fingerprint }
    }

    fn cell(fold: usize) -> Cell {
        let point = json!({ "a": 1.5 }).as_object().cloned().unwrap();
        let result = if fold == 1 {
            CellResult::Failed("why\nnot".into())
        } else {
            CellResult::Scored(Held { weight: 3.0, loss: 0.1 + 0.2, error: 1.0 / 3.0 })
        };
        Cell { point, fold, seconds: 0.25, result }
    }

    #[test]
    fn cells_survive_a_crash_and_go_into_their_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = Journal::beside(&folder.path().join("runs/a")).unwrap();
        assert!(path.ends_with("runs/a.cross-validation.jsonl"));
        let mut journal = Journal::open(&path, header(1), true, false).unwrap();
        assert!(Journal::open(&path, header(1), true, false).is_err_and(|e| e.to_string().contains("another process")));
        (0..3).for_each(|fold| journal.keep(&cell(fold)).unwrap());
        drop(journal);
        // cut in the middle of the last line
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 5]).unwrap();
        let mut journal = Journal::open(&path, header(9), false, false).unwrap();
        assert_eq!((journal.header.seed, &journal.known[..]), (1, &[cell(0), cell(1)][..]));
        journal.keep(&cell(2)).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), whole);
        let run = folder.path().join("runs/a");
        std::fs::create_dir(&run).unwrap();
        journal.settle(&run).unwrap();
        let (kept, cells) = Journal::of_run(&run).unwrap().unwrap();
        assert_eq!((kept, cells.len()), (header(1), 3));
        assert!(!path.exists());
        assert!(Journal::of_run(folder.path()).unwrap().is_none());
    }

    #[test]
    fn cells_of_something_else_are_refused_or_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j");
        Journal::open(&path, header(1), true, false).unwrap().keep(&cell(0)).unwrap();
        let refused = |h: Header| Journal::open(&path, h, true, false).err().unwrap().to_string();
        assert!(refused(header(2)).contains("whose seed differs"));
        assert!(refused(Header { folds: 3, ..header(1) }).contains("number of folds"));
        assert_eq!(Journal::open(&path, header(1), true, true).unwrap().known.len(), 1, "the same goes on, whatever may be replaced");
        assert!(Journal::open(&path, header(2), true, true).unwrap().known.is_empty());
        std::fs::write(&path, "{}\n").unwrap();
        assert!(refused(header(1)).contains("line 1 of"));
    }
}
