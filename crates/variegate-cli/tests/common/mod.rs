//! What the tests of the command share: calling it, small data, and the draws of a run to the last bit.
#![allow(dead_code)] // not every test file uses all of it

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use variegate::data::Target;
use variegate::model::{FAMILIES, Family};
use variegate_io::run_dir::RunDir;

/// A folder to work in, with the command at hand.
pub struct Desk {
    pub folder: tempfile::TempDir,
}

/// What a call gave.
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Desk {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The command with these words, separated by spaces, to be run in the folder.
    pub fn command(&self, words: &str) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("variegate"));
        command.args(words.split_whitespace()).current_dir(self.folder.path()).env_remove("NO_COLOR");
        command
    }

    pub fn call(&self, words: &str) -> Said {
        Said::of(self.command(words).output().unwrap())
    }

    /// Calls and expects success.
    pub fn good(&self, words: &str) -> Said {
        let said = self.call(words);
        assert_eq!(said.code, 0, "`{words}` failed:\n{}", said.err);
        said
    }

    /// Calls a fit or its resumption, of which nobody asks that it converges.
    pub fn fitted(&self, words: &str) -> Said {
        let said = self.call(words);
        assert!(matches!(said.code, 0 | 3), "`{words}` failed:\n{}", said.err);
        said
    }

    /// Calls and expects this exit code and these words on standard error, and no trace of a panic or of debugging.
    pub fn bad(&self, words: &str, code: i32, expected: &[&str]) {
        let said = self.call(words);
        assert_eq!(said.code, code, "`{words}`:\n{}\n{}", said.out, said.err);
        for part in expected {
            assert!(said.err.contains(part), "`{words}` should say `{part}`:\n{}", said.err);
        }
        assert!(said.out.is_empty(), "`{words}` wrote to standard output:\n{}", said.out);
        for never in ["panicked", "RUST_BACKTRACE", "variegate itself", "Some(", "Err(", "{ "] {
            assert!(!said.err.contains(never), "`{words}` says `{never}`:\n{}", said.err);
        }
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    pub fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }
}

impl Said {
    pub fn of(output: Output) -> Self {
        use std::string::String as S;
        let code = output.status.code().unwrap_or(-1);
        Self { code, out: S::from_utf8(output.stdout).unwrap(), err: S::from_utf8(output.stderr).unwrap() }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {}", self.out))
    }
}

/// Options that make a fit of this family short.
pub fn short(family: &dyn Family) -> String {
    let table = family.settings();
    let has = |name: &str| table.iter().any(|s| s.name == name);
    let samples = !table.iter().any(|s| s.name == "inference" && ["hmc", "gibbs", "mh"].iter().all(|w| s.default != *w));
    let mut options = String::new();
    // rows alone take many sweeps a draw, of which these tests need few
    let draws = if unsupervised(family) { " --draws 30 --thin 1" } else { " --draws 300" };
    for (name, option) in [("n_chains", " --chains 2"), ("n_warmup", " --warmup 100"), ("n_draws", draws)] {
        // a family that samples only where `inference` says so refuses them elsewhere
        if has(name) && samples {
            options += option;
        }
    }
    options
}

/// Every family, by name.
pub fn families() -> impl Iterator<Item = &'static dyn Family> {
    FAMILIES.iter().copied()
}

/// Whether a family is fitted to rows alone.
pub fn unsupervised(family: &dyn Family) -> bool {
    family.configure(&Default::default()).unwrap().target().is_none()
}

/// How the columns of simulated data are told to `fit`.
pub fn columns(family: &dyn Family) -> &'static str {
    let simulated = family.configure(&Default::default()).unwrap().simulate(10, &Default::default(), 1).unwrap();
    match (unsupervised(family), simulated.data.sources) {
        (false, _) if matches!(simulated.data.target, Target::Labels(_)) => "--target label1,label2,label3,label4,label5",
        (false, _) => "--target label",
        (true, Some(_)) => "--sources source",
        (true, None) => "",
    }
}

/// Everything that a run has computed, to the last bit: names and bits of draws, and the states of the chains.
#[derive(PartialEq, Eq)]
pub struct Kept {
    pub names: Vec<Vec<String>>,
    pub draws: Vec<Vec<u64>>,
    pub objectives: Vec<Vec<(u64, u64)>>,
    pub states: Vec<Option<Vec<u8>>>,
}

/// Reads all of a run that must be complete.
pub fn kept(path: &Path) -> Kept {
    let run = RunDir::read(path).unwrap();
    assert!(run.status().complete, "{} is not complete", path.display());
    let draws = run.draws().unwrap();
    let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    Kept {
        names: draws.iter().map(|d| d.scalars.flat_names()).collect(),
        draws: draws.iter().map(|d| [bits(&d.scalars.values), bits(&d.components.values)].concat()).collect(),
        objectives: run.trace().unwrap().iter().map(|c| c.iter().map(|(s, r)| (*s, r.objective.to_bits())).collect()).collect(),
        states: run.checkpoints().unwrap(),
    }
}

/// Fails with words, not with a megabyte of numbers.
pub fn assert_same(a: &Kept, b: &Kept, what: &str) {
    assert_eq!(a.names, b.names, "{what}: names of draws");
    assert!(a.draws == b.draws, "{what}: draws differ");
    assert!(a.objectives == b.objectives, "{what}: traces differ");
    assert!(a.states == b.states, "{what}: final states differ");
}
