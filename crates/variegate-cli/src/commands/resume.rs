//! `variegate resume`: goes on with a run that was stopped or killed, to the same draws as if it had never stopped.

use anyhow::{Context, Result, bail};
use clap::{Arg, ArgMatches, Command, value_parser};
use std::path::{Path, PathBuf};
use variegate::data::Dataset;
use variegate::model;
use variegate::run::Ending;
use variegate_io::read::ReadOptions;
use variegate_io::run_dir::{DataReference, Machine, RunDir};

use super::{fit, summary};
use crate::data_file::DataFile;
use crate::exit::{Exit, Tone, say};
use crate::training::TrainingEnd;
use crate::{files, options, training};

const EXAMPLES: &str = "\
The data are read again and compared with those of the run. The draws are the
same, to the last bit, as if the run had never stopped.

Examples:
  variegate resume runs/a
  variegate resume runs/a --data moved/train.csv --threads 4";

pub fn command() -> Command {
    Command::new("resume")
        .about("Go on with a run that was stopped or killed")
        .arg(summary::run_argument())
        .arg(data_argument())
        .args(options::pace())
        .args([options::json(), options::quiet()])
        .after_help(EXAMPLES)
}

pub fn run(matches: &ArgMatches) -> Result<Exit> {
    let folder = summary::run_of(matches);
    let (json, quiet) = (options::flag(matches, "json"), options::flag(matches, "quiet"));
    let run = RunDir::open(&folder)?;
    if run.status().complete {
        if !quiet {
            eprintln!("{} is complete: there is nothing left to do. Its results:", folder.display());
        }
        let done = fit::finish(run, TrainingEnd { ending: Ending::Complete, seconds: 0.0 }, Vec::new())?;
        return fit::report(&done, json, quiet);
    }
    let data = read_again(&run, matches)?;
    go_on(run, &data, matches, "resuming")
}

/// The option that says where data are now.
pub fn data_argument() -> Arg {
    Arg::new("data")
        .long("data")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help("Where the data are now, if they were moved [default: where they were]")
}

/// The data of a run, read again and compared.
pub fn read_again(run: &RunDir, matches: &ArgMatches) -> Result<Dataset<'static>> {
    let reference = &run.record().data;
    let moved = matches.get_one::<PathBuf>("data");
    let Some(path) = moved.or(reference.path.as_ref()).cloned() else {
        bail!("the data of this run were not in a file: save the same data to one and give it with --data FILE");
    };
    let mut reader: ReadOptions = serde_json::from_value(reference.reader.clone())
        .context("the run does not say how its data are to be read: fit again with the same settings and --seed")?;
    // of labels that chains begin with some may not be known
    let record = run.record();
    reader.open_target = model::family(&record.family).and_then(|f| f.configure(&record.model)).is_ok_and(|m| m.start_labels());
    if moved.is_none() && !path.exists() {
        bail!("`{}`, which this run was fitted to, is not there any more: give its new place with --data FILE", path.display());
    }
    let (data, _) = files::read_training(&DataFile::of(&path)?, &reader)?;
    compare(&data, &path, reference, moved.is_some())?;
    Ok(data)
}

/// Goes on with a run to the end of its plan, and says what was found.
pub fn go_on(mut run: RunDir, data: &Dataset<'_>, matches: &ArgMatches, doing: &str) -> Result<Exit> {
    let (json, quiet) = (options::flag(matches, "json"), options::flag(matches, "quiet"));
    let fit = training::reopen(&run)?;
    if run.record().machine != Machine::here() {
        say(Tone::Warning, "this is another kind of CPU than the one that began this run: the last bits of further draws may differ");
    }
    if !quiet {
        eprintln!("{doing} {} after {}", run.path().display(), summary::progress(&run));
    }
    let end = training::train(&mut run, &fit, data, options::pace_of(matches), quiet)?;
    fit::report(&fit::finish(run, end, Vec::new())?, json, quiet)
}

/// Refuses data that are not those of the run.
fn compare(data: &Dataset<'_>, path: &Path, recorded: &DataReference, given: bool) -> Result<()> {
    if recorded.is_of(data) {
        return Ok(());
    }
    let (rows, columns) = (data.rows() as u64, data.x.cols() as u64);
    let difference = if (rows, columns) == (recorded.rows, recorded.columns) {
        "the shape is the same, but values, labels or names are not".to_string()
    } else {
        format!("it has {rows} rows and {columns} columns, the run had {} and {}", recorded.rows, recorded.columns)
    };
    let advice = if given { "give the file that the run was fitted to" } else { "restore it, or give an unchanged copy with --data FILE" };
    let what = if given { "does not hold the data of this run" } else { "has changed since this run was begun" };
    bail!("`{}` {what}: {difference}; {advice}, or fit the new data into another folder", path.display())
}
