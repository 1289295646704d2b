//! Chores of the repository: `cargo xtask setup | test | lint`.
//!
//! Everything they need beside the Rust toolchain goes into `.venv` in the checkout; nothing outside it is changed.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::Instant;

const HELP: &str = "\
Usage: cargo xtask COMMAND

Commands:
  setup         make .venv and install what the Python side needs
  test          run all tests, Rust and Python (sets up first)
  test quick    the same without long statistics (tests named long_…), for daily work
  test rust     only the Rust tests
  test python   only the Python tests
  lint          check formatting, lints and documentation of Rust, and Python (sets up first)";

const REQUIREMENTS: &str = "python/requirements-dev.txt";

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let task: fn(&Path) -> Result<(), String> = match words[..] {
        ["setup"] => setup,
        ["test"] => test,
        ["test", "quick"] => test_quick,
        ["test", "rust"] => test_rust,
        ["test", "python"] => test_python,
        ["lint"] => lint,
        ["help" | "--help" | "-h"] => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{HELP}");
            return ExitCode::from(2);
        }
    };
    let begin = Instant::now();
    match task(&root()) {
        Ok(()) => {
            println!("xtask {}: done in {:.0} s", words.join(" "), begin.elapsed().as_secs_f64());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("xtask {}: {error}", words.join(" "));
            ExitCode::FAILURE
        }
    }
}

/// The checkout.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Makes the virtual environment and fills it, unless it holds what the list asks for already.
fn setup(root: &Path) -> Result<(), String> {
    let wanted = fs::read_to_string(root.join(REQUIREMENTS)).map_err(|e| format!("cannot read {REQUIREMENTS}: {e}"))?;
    let stamp = root.join(".venv").join("installed.txt");
    if tool(root, "python").exists() && fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    if !tool(root, "python").exists() {
        let python = ["python3", "python"].into_iter().find(|p| recent(p)).ok_or("Python 3.11 or newer is needed: install it first")?;
        run(root, python, &["-m", "venv", ".venv"])?;
    }
    run(root, tool(root, "python"), &["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", REQUIREMENTS])?;
    fs::write(&stamp, wanted).map_err(|e| format!("cannot write {}: {e}", stamp.display()))
}

fn recent(python: &str) -> bool {
    let mut ask = Command::new(python);
    ask.args(["-c", "import sys, venv; sys.exit(sys.version_info < (3, 11))"]).stderr(Stdio::null());
    ask.status().is_ok_and(|s| s.success())
}

/// A program of the virtual environment.
fn tool(root: &Path, name: &str) -> PathBuf {
    let folder = if cfg!(windows) { "Scripts" } else { "bin" };
    root.join(".venv").join(folder).join(format!("{name}{}", env::consts::EXE_SUFFIX))
}

fn test(root: &Path) -> Result<(), String> {
    // Rust first: it needs nothing but the toolchain
    let rust = test_rust(root);
    let python = test_python(root);
    rust.and(python)
}

/// Formulas, invariants and fronts: what statistics of minutes show is left to the whole.
fn test_quick(root: &Path) -> Result<(), String> {
    let rust = cargo(root, &["test", "--workspace", "--no-fail-fast", "--", "--skip", "long_"]);
    let python = python_tests(root, &["-k", "not long_"]);
    rust.and(python)
}

fn test_rust(root: &Path) -> Result<(), String> {
    // always the whole workspace: one set of features, so that nothing is built twice
    cargo(root, &["test", "--workspace", "--no-fail-fast"])
}

fn test_python(root: &Path) -> Result<(), String> {
    python_tests(root, &[])
}

fn python_tests(root: &Path, which: &[&str]) -> Result<(), String> {
    setup(root)?;
    run(root, tool(root, "maturin"), &["develop", "--quiet"])?;
    run(root, tool(root, "python"), &[&["-m", "pytest", "-q", "--durations=10", "python/tests"], which].concat())
}

fn lint(root: &Path) -> Result<(), String> {
    // packages are fetched while cargo works
    let (rust, ready) = thread::scope(|scope| {
        let ready = scope.spawn(|| setup(root));
        let rust = [
            cargo(root, &["fmt", "--all", "--check"]),
            cargo(root, &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
            cargo(root, &["--config", "build.rustdocflags=['-D', 'warnings']", "doc", "--workspace", "--no-deps"]),
        ];
        (rust, ready.join().unwrap_or_else(|_| Err("setting up Python failed".into())))
    });
    let ruff = tool(root, "ruff");
    let python = ready.and_then(|()| {
        // both, so that one run shows everything there is to mend
        let checks = [run(root, &ruff, &["check", "."]), run(root, &ruff, &["format", "--check", "."])];
        checks.into_iter().collect()
    });
    rust.into_iter().chain([python]).collect()
}

fn cargo(root: &Path, arguments: &[&str]) -> Result<(), String> {
    run(root, env::var_os("CARGO").unwrap_or_else(|| "cargo".into()), arguments)
}

/// Runs a program in the checkout and shows what it runs. The environment counts as active, as maturin expects.
fn run(root: &Path, program: impl AsRef<Path>, arguments: &[&str]) -> Result<(), String> {
    let program = program.as_ref();
    let shown = program.strip_prefix(root).unwrap_or(program).display().to_string() + " " + &arguments.join(" ");
    eprintln!("+ {shown}");
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root).env("VIRTUAL_ENV", root.join(".venv")).env_remove("PYTHONHOME");
    let status = command.status().map_err(|e| format!("cannot start `{shown}`: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{shown}` failed ({status})")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// Features of every crate, as `cargo tree` lists them.
    fn features(root: &Path, which: &[&str]) -> BTreeMap<String, BTreeSet<String>> {
        let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let how = ["--prefix", "none", "--format", "{p} {f}"];
        let output = Command::new(program).arg("tree").args(which).args(how).current_dir(root).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for line in String::from_utf8(output.stdout).unwrap().lines() {
            let mut words = line.trim_end_matches("(*)").split_whitespace();
            let (Some(name), Some(version)) = (words.next(), words.next()) else { continue };
            found.entry(format!("{name} {version}")).or_default().insert(words.collect::<Vec<_>>().join(" "));
        }
        found
    }

    /// The Python module alone is built with the features that the tests gave its dependencies: else the library is built twice, which takes
    /// longer than all tests of Python.
    #[test]
    fn the_python_module_reuses_what_the_tests_have_built() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let all = features(root, &["--workspace"]);
        let alone = features(root, &["--package", "variegate-py", "--edges", "no-dev"]);
        assert!(alone.len() > 50);
        for (name, features) in alone {
            assert_eq!(features, all[&name], "{name}: name the features that are missing in crates/variegate-py/Cargo.toml");
        }
    }
}
