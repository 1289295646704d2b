//! Where results go: standard output, or a new file that replaces nothing unless told to.

use anyhow::{Context, Result, bail};
use clap::ArgMatches;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::data_file::STANDARD;
use crate::options;

/// Writes to standard output. A reader that went away gives an error that ends the command quietly.
pub fn to_stdout(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Writes one JSON object to standard output.
pub fn json(value: &serde_json::Value) -> Result<()> {
    to_stdout(&format!("{value:#}\n"))
}

/// Refuses a file that exists, unless it may be replaced: to be called before the work that fills it.
pub fn check_free(path: &Path, force: bool) -> Result<()> {
    if path.is_dir() {
        bail!("`{}` is a folder: give the name of a file with -o", path.display());
    }
    if !force && path.symlink_metadata().is_ok_and(|m| m.is_file()) {
        bail!("`{}` exists already: choose another name with -o, or replace it with --force", path.display());
    }
    Ok(())
}

/// Where a table goes and what else is said: what [`options::results`] was told.
pub struct Destination<'m> {
    /// The file, if not standard output.
    pub out: Option<&'m PathBuf>,
    /// Whether one JSON object is written instead.
    pub json: bool,
    /// Whether nothing but results is said.
    pub quiet: bool,
    force: bool,
}

impl<'m> Destination<'m> {
    /// What was told; a file that exists is refused before any work.
    pub fn of(matches: &'m ArgMatches) -> Result<Self> {
        let [json, quiet, force] = ["json", "quiet", "force"].map(|name| options::flag(matches, name));
        let out = options::out_of(matches);
        out.map_or(Ok(()), |out| check_free(out, force))?;
        Ok(Self { out, json, quiet, force })
    }

    /// Writes the table: to the file, or to standard output unless a JSON object goes there.
    pub fn table(&self, fill: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
        match self.out {
            Some(out) => to_file(out, self.force, fill),
            None if self.json => Ok(()),
            None => {
                let mut csv = Vec::new();
                fill(&mut csv)?;
                to_stdout(&String::from_utf8_lossy(&csv))
            }
        }
    }

    /// Says what is in the file now, where there is one and someone reads.
    pub fn say(&self, done: impl FnOnce() -> String) {
        if let (Some(out), false, false) = (self.out, self.json, self.quiet) {
            eprintln!("{} into {}", done(), out.display());
        }
    }
}

/// Writes a file under a temporary name and gives it its own name when it is whole; devices, pipes and standard output (`-`) are written
/// directly.
pub fn to_file(path: &Path, force: bool, fill: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    if path == Path::new(STANDARD) {
        let mut out = BufWriter::new(std::io::stdout().lock());
        return fill(&mut out).and_then(|()| Ok(out.flush()?));
    }
    check_free(path, force)?;
    let failed = || format!("could not write `{}`: check that the folder exists and that you may write there", path.display());
    let special = path.metadata().is_ok_and(|m| !m.is_file());
    let to = if special { path.to_path_buf() } else { beside(path, "", ".tmp") };
    let mut file = BufWriter::new(File::create(&to).with_context(failed)?);
    let done = fill(&mut file).and_then(|()| file.flush().map_err(Into::into)).with_context(failed);
    if special {
        return done;
    }
    done.and_then(|()| std::fs::rename(&to, path).with_context(failed)).inspect_err(|_| {
        // half a file helps nobody, and the error is already known
        let _ = std::fs::remove_file(&to);
    })
}

/// A name in the same folder: `d.csv` with extension `truth.json` is `d.truth.json`; with a suffix `.tmp` it is `.d.csv.tmp`.
pub fn beside(path: &Path, extension: &str, suffix: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if !suffix.is_empty() {
        return path.with_file_name(format!(".{name}{suffix}"));
    }
    let stem = name.strip_suffix(".gz").unwrap_or(&name);
    let stem = stem.rsplit_once('.').map_or(stem, |(stem, _)| stem);
    path.with_file_name(format!("{stem}.{extension}"))
}

/// A field of a CSV file, quoted where it must be.
pub fn csv_field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) || text.trim() != text {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beside_a_file() {
        assert_eq!(beside(Path::new("a/d.csv"), "truth.json", ""), Path::new("a/d.truth.json"));
        assert_eq!(beside(Path::new("d.csv.gz"), "truth.json", ""), Path::new("d.truth.json"));
        assert_eq!(beside(Path::new("d"), "truth.json", ""), Path::new("d.truth.json"));
        assert_eq!(beside(Path::new("a/d.csv"), "", ".tmp"), Path::new("a/.d.csv.tmp"));
    }

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        assert_eq!(csv_field("plain"), "plain");
        assert_eq!(csv_field("a,b"), "\"a,b\"");
        assert_eq!(csv_field("say \"hi\""), "\"say \"\"hi\"\"\"");
        assert_eq!(csv_field(" x"), "\" x\"");
    }

    #[test]
    fn nothing_is_replaced_and_nothing_half_written_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("d.csv");
        to_file(&path, false, |f| Ok(f.write_all(b"one")?)).unwrap();
        assert!(to_file(&path, false, |f| Ok(f.write_all(b"two")?)).unwrap_err().to_string().contains("--force"));
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        assert!(to_file(&path, true, |_| bail!("no")).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        to_file(&path, true, |f| Ok(f.write_all(b"two")?)).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
