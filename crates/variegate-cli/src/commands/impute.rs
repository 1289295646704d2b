//! `variegate impute`: rows with their missing entries filled in.

use anyhow::{Context, Result};
use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::json;
use std::fmt::Write as _;
use std::io::Write;
use variegate::answer::Imputed;
use variegate::data::Dataset;

use super::summary;
use crate::exit::Exit;
use crate::opened::Opened;
use crate::output::Destination;
use crate::{files, options, output, tables};

const EXAMPLES: &str = "\
Examples:
  variegate fit factors a.csv --likelihood gaussian --missing true --out runs/a
  variegate impute runs/a a.csv -o filled.csv
  variegate impute runs/a a.csv --entries -o imputed.csv

A missing entry is filled in by the mean of its posterior distribution;
--entries writes these entries alone, one a line, each with its standard
deviation.";

pub fn command() -> Command {
    let entries = "Write the imputed entries alone: row, column, mean and standard deviation";
    Command::new("impute")
        .about("Fill in missing entries of rows by a fitted model")
        .arg(summary::run_argument())
        .arg(files::file("File with the columns that the model was fitted to"))
        .arg(Arg::new("entries").long("entries").action(ArgAction::SetTrue).help(entries))
        .arg(files::sources())
        .args(files::format_arguments())
        .args(options::results("Where to write the rows, as CSV [default: standard output]"))
        .after_help(EXAMPLES)
}

pub fn run(matches: &ArgMatches) -> Result<Exit> {
    let destination = Destination::of(matches)?;
    let opened = Opened::of(matches, "imputed entries")?;
    let file = files::data_file(matches)?;
    // whether entries may be missing the posterior says with more words than a reader of files
    opened.posterior.impute(&Dataset::new(variegate::data::Matrix::dense(0, opened.posterior.width(), Vec::new())))?;
    let data = opened.read(&file, matches)?;
    let found = opened.posterior.impute(&data).with_context(|| format!("cannot impute `{}`", file.name()))?;
    let table = Table { names: names(opened.posterior.columns(), data.x.cols()), missing: missing(&data), found };
    destination.table(|file| if options::flag(matches, "entries") { table.write_entries(file) } else { table.write_rows(file) })?;
    let (rows, imputed) = (data.rows(), table.missing.len());
    destination.say(|| {
        let entries = tables::count(imputed, "entry", "entries");
        format!("imputed {entries} of {}", tables::count(rows, "row", "rows"))
    });
    match destination {
        Destination { json: false, .. } => {}
        Destination { out: Some(out), .. } => {
            output::json(&json!({ "run": opened.run.path(), "rows": rows, "imputed": imputed, "out": out }))?;
        }
        Destination { out: None, .. } => {
            let entries: Vec<_> = table.missing.iter().map(|&at| table.entry(at)).collect();
            output::json(&json!({ "run": opened.run.path(), "rows": rows, "columns": table.names, "imputed": entries }))?;
        }
    }
    Ok(Exit::Success)
}

/// Names of the columns, or x0, x1, …
fn names(known: &[String], width: usize) -> Vec<String> {
    (0..width).map(|j| known.get(j).cloned().unwrap_or_else(|| format!("x{j}"))).collect()
}

/// Places of the missing entries, row-major.
fn missing(data: &Dataset<'_>) -> Vec<usize> {
    let (x, width) = (data.x.view(), data.x.cols());
    let mut all = Vec::new();
    for i in 0..data.rows() {
        x.for_row(i, |j, v| all.extend(v.is_nan().then_some(i * width + j)));
    }
    all
}

struct Table {
    names: Vec<String>,
    missing: Vec<usize>,
    found: Imputed,
}

impl Table {
    fn entry(&self, at: usize) -> serde_json::Value {
        let (row, column) = (at / self.names.len() + 1, &self.names[at % self.names.len()]);
        json!({ "row": row, "column": column, "mean": self.found.values[at], "deviation": self.found.deviation[at] })
    }

    /// A header and the rows, every number to its last digit.
    fn write_rows(&self, out: &mut dyn Write) -> Result<()> {
        writeln!(out, "{}", self.names.iter().map(|n| output::csv_field(n).to_string()).collect::<Vec<_>>().join(","))?;
        let mut line = String::new();
        for row in self.found.values.chunks_exact(self.names.len()) {
            line.clear();
            for (j, v) in row.iter().enumerate() {
                let _ = if j == 0 { write!(line, "{v}") } else { write!(line, ",{v}") };
            }
            writeln!(out, "{line}")?;
        }
        Ok(())
    }

    /// `row,column,mean,deviation`; rows count from 1.
    fn write_entries(&self, out: &mut dyn Write) -> Result<()> {
        writeln!(out, "row,column,mean,deviation")?;
        let width = self.names.len();
        for &at in &self.missing {
            let (column, found) = (output::csv_field(&self.names[at % width]), &self.found);
            writeln!(out, "{},{column},{},{}", at / width + 1, found.values[at], found.deviation[at])?;
        }
        Ok(())
    }
}
