//! The `variegate` command: a thin front over the library. Results go to standard output, everything else to standard error.

mod categories;
mod commands;
mod data_file;
mod exit;
mod files;
mod journal;
mod label_sets;
mod opened;
mod options;
mod output;
mod progress;
mod scores;
mod selection;
mod tables;
mod training;
mod validation;

use std::panic::AssertUnwindSafe;
use std::process::ExitCode;

fn main() -> ExitCode {
    exit::explain_panics();
    let matches = match commands::root().try_get_matches() {
        Ok(matches) => matches,
        Err(help) => return exit::of_clap(&help),
    };
    let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| commands::run(&matches)));
    match outcome {
        Ok(Ok(exit)) => exit.code(),
        Ok(Err(error)) => exit::of_error(&error),
        // the hook has said what happened
        Err(_) => exit::Exit::Failure.code(),
    }
}
