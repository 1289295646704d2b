//! The commit record of a run: `manifest.json` names every file that counts, with its length and checksum. What it does not name
//! does not exist.
//!
//! The first field is the CRC-32 of the whole text with the checksum's own eight digits as zeros; this rule, `format` and
//! `format_version` stay for ever, so that any version can tell a damaged file from a newer one.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use variegate::run::Report;

use super::{Result, RunDirError, RunRecord};

/// Name of the file.
pub(super) const MANIFEST: &str = "manifest.json";
/// Version of the run format that this build writes. Every version from 1 on stays readable.
pub const RUN_FORMAT_VERSION: u32 = 1;
const FORMAT: &str = "variegate-run";
const NO_SUM: &str = "00000000";
const HEAD: &str = "{\n  \"checksum\": \"";

/// Everything that a run directory is at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub checksum: String,
    pub format: String,
    pub format_version: u32,
    /// Tells this run from another one at the same place.
    pub id: String,
    pub run: RunRecord,
    /// Number of commits so far; the files of commit n carry n in their names.
    pub commits: u64,
    /// Columns of the tables of draws, known from the first draw on.
    pub columns: Columns,
    /// Chains that have been committed, ascending.
    pub chains: Vec<ChainEntry>,
    pub files: Vec<FileEntry>,
}

/// Name and width of each column, as in [`variegate::run::Table`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Columns {
    pub scalars: Vec<(String, usize)>,
    pub components: Vec<(String, usize)>,
    /// Named figures of the trace.
    pub extras: Vec<String>,
}

/// Where one chain stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ChainEntry {
    pub chain: u32,
    pub sweeps: u64,
    pub draws: u64,
    pub finished: bool,
    pub checkpoint: String,
    #[serde(with = "report")]
    pub last: Option<Report>,
}

/// A file that belongs to the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileEntry {
    /// Path inside the run, with `/`.
    pub name: String,
    pub bytes: u64,
    #[serde(with = "digits")]
    pub crc32: u32,
}

impl Manifest {
    pub fn new(run: RunRecord) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            checksum: NO_SUM.into(),
            format: FORMAT.into(),
            format_version: RUN_FORMAT_VERSION,
            id: format!("{:x}-{:x}", now.map_or(0, |d| d.as_nanos()), std::process::id()),
            run,
            commits: 0,
            columns: Columns::default(),
            chains: Vec::new(),
            files: Vec::new(),
        }
    }

    pub fn file(&self, name: &str) -> Option<&FileEntry> {
        self.files.iter().find(|f| f.name == name)
    }

    /// Number of chains: those of the plan, whether they have begun or not, and those that the program added.
    pub fn numbers(&self) -> u32 {
        self.run.plan.chains.max(self.chains.last().map_or(0, |c| c.chain + 1))
    }

    pub fn chain(&self, chain: u32) -> Option<&ChainEntry> {
        self.chains.iter().find(|c| c.chain == chain)
    }

    /// The text of the file; sets the checksum.
    pub fn encode(&mut self) -> std::result::Result<String, serde_json::Error> {
        self.checksum = NO_SUM.into();
        let mut text = serde_json::to_string_pretty(self)? + "\n";
        self.checksum = format!("{:08x}", crc32fast::hash(text.as_bytes()));
        text.replace_range(HEAD.len()..HEAD.len() + NO_SUM.len(), &self.checksum);
        Ok(text)
    }

    /// Reads the file `folder/manifest.json`.
    pub fn load(folder: &Path) -> Result<Self> {
        let file = folder.join(MANIFEST);
        match std::fs::read(&file) {
            Ok(bytes) => Self::decode(folder, &bytes),
            Err(e) if matches!(e.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
                let detail = match folder.try_exists() {
                    Ok(false) => "there is nothing at this path",
                    _ => "it has no manifest.json",
                };
                Err(RunDirError::NotARun { path: folder.into(), detail: format!("{detail}; give the folder that `--out` named") })
            }
            Err(e) => Err(RunDirError::io("read", &file)(e)),
        }
    }

    fn decode(folder: &Path, bytes: &[u8]) -> Result<Self> {
        let file = folder.join(MANIFEST);
        if !is_ours(bytes) {
            let detail = "its manifest.json is not one of variegate's, or damaged at its beginning".into();
            return Err(RunDirError::NotARun { path: folder.into(), detail });
        }
        let sum = HEAD.len()..HEAD.len() + NO_SUM.len();
        let mut plain = bytes.to_vec();
        plain[sum.clone()].copy_from_slice(NO_SUM.as_bytes());
        if bytes[sum] != *format!("{:08x}", crc32fast::hash(&plain)).as_bytes() {
            return Err(RunDirError::damaged(&file, "its checksum does not match"));
        }
        #[derive(Deserialize)]
        struct Version {
            format_version: u32,
        }
        let contents = |e: serde_json::Error| RunDirError::damaged(&file, format!("it cannot be read ({e})"));
        let Version { format_version } = serde_json::from_slice(bytes).map_err(contents)?;
        if format_version > RUN_FORMAT_VERSION {
            return Err(RunDirError::Newer { path: folder.into(), found: format_version, known: RUN_FORMAT_VERSION });
        }
        serde_json::from_slice(bytes).map_err(contents)
    }
}

/// Whether these are the bytes of a manifest of ours, whole or damaged: told from the first lines, so that a stranger's file of the
/// same name is never taken for one.
pub(super) fn is_ours(bytes: &[u8]) -> bool {
    let middle = format!("\",\n  \"format\": \"{FORMAT}\"");
    let rest = HEAD.len() + NO_SUM.len();
    bytes.starts_with(HEAD.as_bytes()) && bytes.get(rest..).is_some_and(|b| b.starts_with(middle.as_bytes()))
}

mod digits {
    use super::*;

    pub fn serialize<S: Serializer>(value: &u32, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(&format!("{value:08x}"))
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<u32, D::Error> {
        u32::from_str_radix(&String::deserialize(from)?, 16).map_err(serde::de::Error::custom)
    }
}

/// Reports in JSON: numbers where JSON has them, `"NaN"`, `"inf"` and `"-inf"` where it has not.
mod report {
    use super::*;

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Figure {
        Number(f64),
        Word(String),
    }

    #[derive(Serialize, Deserialize)]
    struct Written {
        objective: Figure,
        components: u32,
        converged: bool,
        extras: Vec<(String, Figure)>,
    }

    fn put(x: f64) -> Figure {
        if x.is_finite() { Figure::Number(x) } else { Figure::Word(x.to_string()) }
    }

    fn get<E: serde::de::Error>(figure: Figure) -> Result<f64, E> {
        match figure {
            Figure::Number(x) => Ok(x),
            Figure::Word(w) => w.parse().map_err(E::custom),
        }
    }

    pub fn serialize<S: Serializer>(value: &Option<Report>, out: S) -> Result<S::Ok, S::Error> {
        let written = value.as_ref().map(|r| Written {
            objective: put(r.objective),
            components: r.components,
            converged: r.converged,
            extras: r.extras.iter().map(|(n, x)| (n.clone(), put(*x))).collect(),
        });
        written.serialize(out)
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Option<Report>, D::Error> {
        let Some(w) = Option::<Written>::deserialize(from)? else { return Ok(None) };
        let extras = w.extras.into_iter().map(|(n, x)| Ok((n, get(x)?))).collect::<Result<_, D::Error>>()?;
        Ok(Some(Report { objective: get(w.objective)?, components: w.components, converged: w.converged, extras }))
    }
}
