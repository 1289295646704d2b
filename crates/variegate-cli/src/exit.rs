//! How the command ends: exit codes, and errors in words.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::error::Error as StdError;
use std::fmt;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use variegate::Error;
use variegate::data::DataError;
use variegate_io::read::{Cause, ReadError};

/// The exit codes, as `--help` lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// All is well.
    Success,
    /// It could not be done; the error says why.
    Failure,
    /// The command line does not make sense.
    Usage,
    /// The fit ended and is written, but its diagnostics speak against it.
    NotConverged,
    /// Ctrl-C (or a polite signal) stopped the run; it is saved.
    Stopped,
}

impl Exit {
    /// The number that the shell sees.
    pub fn code(self) -> ExitCode {
        ExitCode::from(match self {
            Exit::Success => 0,
            Exit::Failure => 1,
            Exit::Usage => 2,
            Exit::NotConverged => 3,
            Exit::Stopped => 130,
        })
    }
}

/// An error in how the command was called: exit code 2.
#[derive(Debug)]
pub struct Usage(pub String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for Usage {}

/// The user stopped something that goes on when its command is repeated: exit code 130.
#[derive(Debug)]
pub struct Halted(pub String);

impl fmt::Display for Halted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for Halted {}

/// Shows clap's message, which may be help that was asked for.
pub fn of_clap(message: &clap::Error) -> ExitCode {
    // a reader that went away is no reason to complain
    let _ = message.print();
    let of_models = matches!(message.get(ContextKind::Usage), Some(ContextValue::StyledStr(u)) if u.to_string().contains("<MODEL>"));
    if of_models && message.kind() == ErrorKind::InvalidSubcommand {
        let names: Vec<&str> = variegate::model::FAMILIES.iter().map(|f| f.name()).collect();
        eprintln!("The models are {}; `variegate models` tells what they are.", names.join(", "));
    }
    if message.use_stderr() { Exit::Usage.code() } else { Exit::Success.code() }
}

/// Says what went wrong.
pub fn of_error(error: &anyhow::Error) -> ExitCode {
    if is_broken_pipe(error) {
        return Exit::Success.code();
    }
    if let Some(halted) = error.downcast_ref::<Halted>() {
        // also when quiet: what was begun is not done
        eprintln!("{halted}");
        return Exit::Stopped.code();
    }
    say(Tone::Error, &sentence(error));
    let usage = error.chain().any(|e| {
        let library =
            matches!(e.downcast_ref::<Error>(), Some(Error::Setting { .. } | Error::UnknownSetting { .. } | Error::UnknownModel { .. }));
        e.is::<Usage>() || library
    });
    if usage { Exit::Usage.code() } else { Exit::Failure.code() }
}

/// Whether whoever read our output has gone (`variegate summary runs/a | head`), which is no failure.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|e| e.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe))
}

/// The chain of causes as one text. Messages that repeat their cause are shown once; what a library cannot know (the name of an
/// option) is added here.
fn sentence(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    let missing = |e: &ReadError| matches!(&e.cause, Cause::Open(io) if io.kind() == std::io::ErrorKind::NotFound);
    if error.chain().any(|e| e.downcast_ref::<ReadError>().is_some_and(missing)) {
        return format!("{text}\ncheck the path: relative ones begin in the present folder");
    }
    let hint = error.chain().find_map(|e| {
        let data = e.downcast_ref::<DataError>().or_else(|| match e.downcast_ref::<Error>() {
            Some(Error::Data(data)) => Some(data),
            _ => None,
        });
        data.and_then(hint)
    });
    match hint {
        Some(hint) => format!("{text}\n{hint}"),
        None => text,
    }
}

fn hint(error: &DataError) -> Option<&'static str> {
    match error {
        DataError::NoTarget => Some("name the column to predict with --target COLUMN"),
        DataError::NoSources => Some("name the column of groups with --sources COLUMN"),
        _ => None,
    }
}

/// How something is said on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// It failed.
    Error,
    /// It went on, but the user should know.
    Warning,
}

/// Writes an error or a warning, in colour where colour is wanted.
pub fn say(tone: Tone, text: &str) {
    let (word, colour) = match tone {
        Tone::Error => ("error", "1;31"),
        Tone::Warning => ("warning", "1;33"),
    };
    let mut stderr = std::io::stderr();
    let coloured = stderr.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let label = if coloured { format!("\x1b[{colour}m{word}:\x1b[0m") } else { format!("{word}:") };
    let _ = writeln!(stderr, "{label} {text}");
}

/// A panic is a defect of ours: say so, and where, instead of a raw message.
pub fn explain_panics() {
    std::panic::set_hook(Box::new(|info| {
        let what = info.payload();
        let what = what.downcast_ref::<&str>().map(ToString::to_string).or_else(|| what.downcast_ref::<String>().cloned());
        let place = info.location().map_or_else(String::new, |l| format!(" at {}:{}", l.file(), l.line()));
        say(
            Tone::Error,
            &format!(
                "variegate itself has failed{place}: {}\nThis is a defect of the program, not of your data. Please report it with the \
                 command that you ran; a run that was being written can be continued with `variegate resume`.",
                what.as_deref().unwrap_or("no message")
            ),
        );
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn causes_are_told_once_and_options_are_named() {
        let error: anyhow::Error = Error::from(DataError::NoTarget).into();
        let text = sentence(&error);
        assert_eq!(text.matches("learns from a target").count(), 1, "{text}");
        assert!(text.ends_with("--target COLUMN"), "{text}");
        let io = std::io::Error::new(std::io::ErrorKind::NotFound, "gone");
        let error = Err::<(), _>(io).context("could not read `a`").unwrap_err();
        assert_eq!(sentence(&error), "could not read `a`: gone");
    }
}
