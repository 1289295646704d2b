//! `variegate update`: goes on from a fit with further rows, whose own rows are no longer needed.

use anyhow::{Context, Result, bail};
use clap::{Arg, ArgMatches, Command, value_parser};
use std::fs;
use std::path::{Path, PathBuf};
use variegate::model::{self, Prepared, RunSettings};
use variegate::run::Ending;
use variegate_io::run_dir::{DataReference, RunDir, RunRecord};

use super::{fit, summary};
use crate::data_file::DataFile;
use crate::exit::{Exit, Tone, say};
use crate::{files, options, tables, training};

const EXAMPLES: &str = "\
What was learned stays, and the further rows are learned from once. Labels that
are new are added. Only fits by minibatches can go on (`fit labels --inference
svi`). The run takes the place of the earlier one when it is done; stopped or
killed before, the earlier one is as it was.

Examples:
  variegate update runs/l more.svm
  variegate update runs/l march.csv --target 'label*' --out runs/march";

pub fn command() -> Command {
    Command::new("update")
        .about("Go on from a fit with further rows")
        .arg(summary::run_argument())
        .arg(Arg::new("file").value_name("DATA").value_parser(value_parser!(PathBuf)).required(true).help("File with the further rows"))
        .arg(
            Arg::new("target")
                .long("target")
                .visible_alias("labels")
                .value_name("COLUMN")
                .help("Columns of the targets, as `fit` takes them [default: those of the fit]"),
        )
        .args(files::format_arguments())
        .arg(options::out_folder("Folder of the new run [default: that of the earlier one, which it replaces]"))
        .arg(options::seed())
        .args(options::pace())
        .args([options::json(), options::quiet()])
        .after_help(EXAMPLES)
}

pub fn run(matches: &ArgMatches) -> Result<Exit> {
    let folder = summary::run_of(matches);
    let (json, quiet) = (options::flag(matches, "json"), options::flag(matches, "quiet"));
    // held to the end, so that nothing else writes there
    let earlier = RunDir::open(&folder)?;
    if !earlier.status().complete {
        bail!("`{0}` is not complete: go on with it first, `variegate resume {0}`", folder.display());
    }
    let posterior = training::posterior(&earlier)?;
    let record = earlier.record();
    let model = model::family(&record.family)?.configure(&record.model)?;
    let given = matches.get_one::<PathBuf>("file").context("name a file")?;
    let file = DataFile::of(given)?;
    let (data, reader, sets) = files::read_further(&file, posterior.as_ref(), files::recorded(&earlier), matches)?;
    let data = model::arranged(data, posterior.as_ref(), sets);
    if !quiet {
        eprintln!("read {}: {}", file.name(), files::describe(&data));
    }
    let (seed, pace) = (options::seed_of(matches), options::pace_of(matches));
    let settings = RunSettings::default().seed(seed).threads(pace.threads).block_rows(record.plan.block_rows);
    let Prepared { fit, plan, fingerprint } = settings.prepare_more(model.as_ref(), posterior.as_ref(), &data)?;
    for warning in fit.warnings() {
        say(Tone::Warning, &tables::wrap(&options::in_shell(warning, &record.family), 80, ""));
    }
    let reference = DataReference {
        path: if file.is_gone() { None } else { Some(files::absolute(given)?) },
        given: Some(given.clone()),
        reader: serde_json::to_value(&reader)?,
        rows: data.rows() as u64,
        columns: data.x.cols() as u64,
        ..DataReference::of(fingerprint)
    };
    let new = RunRecord::new(&record.family, fit.program().name(), model.settings(), plan, reference, fit.schema().to_vec())
        .with_labels(record.class_type, record.source_type);
    let out = matches.get_one::<PathBuf>("out");
    let place = match out {
        Some(out) => out.clone(),
        None => beside(&folder, "update"),
    };
    let mut run = RunDir::create(&place, &new, out.is_none())?;
    if !quiet {
        eprintln!("updating {} with seed {seed}", folder.display());
    }
    let end = training::train(&mut run, &fit, &data, pace, quiet)?;
    if end.ending == Ending::Stopped {
        drop(run);
        fs::remove_dir_all(&place).with_context(|| format!("`{}` could not be removed", place.display()))?;
        eprintln!("Stopped; `{}` is as it was.", folder.display());
        return Ok(Exit::Stopped);
    }
    if out.is_some() {
        return fit::report(&fit::finish(run, end, fit.warnings().to_vec())?, json, quiet);
    }
    drop((run, earlier));
    replace(&folder, &place)?;
    fit::report(&fit::finish(RunDir::read(&folder)?, end, fit.warnings().to_vec())?, json, quiet)
}

/// A folder beside another.
fn beside(folder: &Path, word: &str) -> PathBuf {
    let mut name = folder.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{word}"));
    folder.with_file_name(name)
}

/// Puts a folder in the place of another; at no time are both gone.
fn replace(folder: &Path, by: &Path) -> Result<()> {
    let old = beside(folder, "old");
    let place = || format!("`{}` could not take the place of `{}`: the new run is whole where it is", by.display(), folder.display());
    if old.exists() {
        fs::remove_dir_all(&old).with_context(place)?;
    }
    fs::rename(folder, &old).with_context(place)?;
    fs::rename(by, folder).with_context(place)?;
    fs::remove_dir_all(&old).with_context(|| format!("the earlier run is still in `{}` and can be removed", old.display()))
}
