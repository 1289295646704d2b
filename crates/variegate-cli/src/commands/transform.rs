//! `variegate transform`: where rows lie among the factors or features of a fitted model.

use anyhow::{Context, Result};
use clap::{ArgMatches, Command};
use serde_json::json;
use std::fmt::Write as _;
use std::io::Write;
use variegate::answer::Coordinates;

use super::summary;
use crate::exit::Exit;
use crate::opened::Opened;
use crate::output::Destination;
use crate::{files, options, output, tables};

const EXAMPLES: &str = "\
Examples:
  variegate transform runs/a new.csv -o coordinates.csv
  variegate transform runs/a new.mtx --sources sections.csv:section | head
  variegate transform runs/a new.csv --json > coordinates.json

Columns are found by their names; others are left out. A source that the fit
has not seen, and rows without one, are rows of a new source.";

pub fn command() -> Command {
    Command::new("transform")
        .about("Tell where rows lie among the factors or features of a fitted model")
        .arg(summary::run_argument())
        .arg(files::file("File with the columns that the model was fitted to"))
        .arg(files::sources())
        .args(files::format_arguments())
        .args(options::results("Where to write coordinates, as CSV [default: standard output]"))
        .after_help(EXAMPLES)
}

pub fn run(matches: &ArgMatches) -> Result<Exit> {
    let destination = Destination::of(matches)?;
    let opened = Opened::of(matches, "coordinates")?;
    let file = files::data_file(matches)?;
    let data = opened.read(&file, matches)?;
    let rows = data.rows();
    let found = opened.posterior.transform(&data).with_context(|| format!("cannot transform `{}`", file.name()))?;
    destination.table(|file| write_csv(file, rows, &found))?;
    destination.say(|| {
        let features = found.names.first().is_some_and(|name| name.starts_with("feature"));
        let (one, many) = if features { ("feature", "features") } else { ("factor", "factors") };
        format!("placed {} among {}", tables::count(rows, "row", "rows"), tables::count(found.names.len(), one, many))
    });
    match destination {
        Destination { json: false, .. } => {}
        Destination { out: Some(out), .. } => {
            output::json(&json!({ "run": opened.run.path(), "rows": rows, "out": out, "names": found.names }))?;
        }
        Destination { out: None, .. } => {
            let coordinates: Vec<_> = (0..rows).map(|i| json!(row(&found, i))).collect();
            output::json(&json!({ "run": opened.run.path(), "names": found.names, "coordinates": coordinates }))?;
        }
    }
    Ok(Exit::Success)
}

/// Coordinates of a row; none where there is no factor.
fn row(found: &Coordinates, i: usize) -> &[f64] {
    let width = found.names.len();
    &found.values[i * width..(i + 1) * width]
}

/// `row,NAME…`: rows count from 1, numbers are written to the last digit.
fn write_csv(out: &mut dyn Write, rows: usize, found: &Coordinates) -> Result<()> {
    let mut line = String::from("row");
    for name in &found.names {
        let _ = write!(line, ",{}", output::csv_field(name));
    }
    writeln!(out, "{line}")?;
    for i in 0..rows {
        line.clear();
        let _ = write!(line, "{}", i + 1);
        for v in row(found, i) {
            let _ = write!(line, ",{v}");
        }
        writeln!(out, "{line}")?;
    }
    Ok(())
}
