//! `variegate predict`: class probabilities of new rows.

use anyhow::{Context, Result};
use clap::{Arg, ArgMatches, Command};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;
use variegate::data::{Dataset, Target};
use variegate::model::{ClassProbabilities, Posterior};
use variegate_io::read::ReadOptions;
use variegate_io::run_dir::RunDir;

use super::summary;
use crate::exit::{Exit, Tone, say};
use crate::{files, options, output, tables, training};

const EXAMPLES: &str = "\
Examples:
  variegate predict runs/a test.csv -o pred.csv
  variegate predict runs/a test.csv | head
  variegate predict runs/a test.csv --json > pred.json

Columns are found by their names; others are left out. Where the file also has the
target, accuracy and log loss are told on standard error.";

pub fn command() -> Command {
    let method = Arg::new("method").long("method").value_name("WORD").help(
        "How probabilities are made of the posterior; each model has its own words and the first is the default (a wrong one lists them)",
    );
    let target = Arg::new("target")
        .long("target")
        .value_name("COLUMN")
        .help("Column with the true class, for the scores [default: that of the fit, where the file has it]")
        .help_heading("Data");
    Command::new("predict")
        .about("Predict new rows with a fitted model")
        .arg(summary::run_argument())
        .arg(files::file("File with the columns that the model was fitted to"))
        .arg(method)
        .arg(target)
        .args(files::format_arguments())
        .args([
            options::out_file("Where to write predictions, as CSV [default: standard output]"),
            options::force("a file"),
            options::json(),
            options::quiet(),
        ])
        .after_help(EXAMPLES)
}

pub fn run(matches: &ArgMatches) -> Result<Exit> {
    let (json, quiet, force) = (options::flag(matches, "json"), options::flag(matches, "quiet"), options::flag(matches, "force"));
    let out = matches.get_one::<PathBuf>("out");
    if let Some(out) = out {
        output::check_free(out, force)?;
    }
    let run = RunDir::read(summary::run_of(matches))?;
    let posterior = training::posterior(&run)?;
    if !run.status().complete {
        say(Tone::Warning, &format!("the run is not complete ({}): predictions are those of the draws so far", summary::progress(&run)));
    }
    // data from memory leave no options behind
    let reader: ReadOptions = serde_json::from_value(run.record().data.reader.clone()).unwrap_or_default();
    let path = matches.get_one::<PathBuf>("data").cloned().unwrap_or_default();
    let data = files::read_prediction(&path, posterior.as_ref(), reader, matches)?;
    let method = matches.get_one::<String>("method").map_or("", String::as_str);
    let predicted = posterior.predict(&data, method).with_context(|| format!("cannot predict `{}`", path.display()))?;
    let scores = Scores::of(&predicted, &data, posterior.classes().len());

    let table = || Predictions { posterior: posterior.as_ref(), predicted: &predicted };
    if let Some(out) = out {
        output::to_file(out, force, |file| table().write_csv(file))?;
    }
    match (out, json) {
        (Some(out), true) => output::json(&json!({
            "run": run.path(), "rows": data.rows(), "out": out, "classes": posterior.classes(), "scores": scores.as_ref().map(Scores::as_json),
        }))?,
        (Some(out), false) if !quiet => eprintln!("predicted {} into {}", tables::count(data.rows(), "row", "rows"), out.display()),
        (None, true) => output::json(&table().as_json(scores.as_ref()))?,
        (None, false) => {
            let mut csv = Vec::new();
            table().write_csv(&mut csv)?;
            output::to_stdout(&String::from_utf8_lossy(&csv))?;
        }
        _ => {}
    }
    if let (Some(scores), false) = (&scores, quiet) {
        eprintln!(
            "accuracy {:.4}, log loss {} over {}",
            scores.accuracy,
            tables::number(scores.log_loss),
            tables::count(scores.rows, "row", "rows")
        );
    }
    Ok(Exit::Success)
}

struct Predictions<'a> {
    posterior: &'a dyn Posterior,
    predicted: &'a ClassProbabilities,
}

impl Predictions<'_> {
    /// `row,prediction,p_a,p_b,sd_a,sd_b`: rows count from 1, numbers are written to the last digit.
    fn write_csv(&self, out: &mut dyn Write) -> Result<()> {
        let classes = self.posterior.classes();
        let k = classes.len();
        let mut line = String::from("row,prediction");
        let prefixes = if self.predicted.deviation.is_some() { &["p_", "sd_"][..] } else { &["p_"] };
        for prefix in prefixes {
            for class in classes {
                let _ = write!(line, ",{}", output::csv_field(&format!("{prefix}{class}")));
            }
        }
        writeln!(out, "{line}")?;
        for (i, best) in self.predicted.best(k).into_iter().enumerate() {
            line.clear();
            let _ = write!(line, "{},{}", i + 1, output::csv_field(&classes[best]));
            let rows = std::iter::once(&self.predicted.probability).chain(&self.predicted.deviation);
            for value in rows.flat_map(|all| &all[i * k..(i + 1) * k]) {
                let _ = write!(line, ",{value}");
            }
            writeln!(out, "{line}")?;
        }
        Ok(())
    }

    fn as_json(&self, scores: Option<&Scores>) -> Value {
        let classes = self.posterior.classes();
        let rows = |values: &Vec<f64>| values.chunks(classes.len()).map(|row| json!(row)).collect::<Vec<_>>();
        let best = self.predicted.best(classes.len());
        json!({
            "classes": classes,
            "prediction": best.iter().map(|&b| &classes[b]).collect::<Vec<_>>(),
            "probability": rows(&self.predicted.probability),
            "deviation": self.predicted.deviation.as_ref().map(rows),
            "scores": scores.map(Scores::as_json),
        })
    }
}

/// How good predictions are where the truth is known.
pub struct Scores {
    pub rows: usize,
    pub accuracy: f64,
    pub log_loss: f64,
}

impl Scores {
    /// Compares with the classes in the data, if they have any.
    pub fn of(predicted: &ClassProbabilities, data: &Dataset<'_>, classes: usize) -> Option<Self> {
        let Target::Classes(truth) = &data.target else { return None };
        let rows = truth.len();
        if rows == 0 {
            return None;
        }
        let right = predicted.best(classes).iter().zip(&truth.codes).filter(|(b, t)| **b == **t as usize).count();
        let loss: f64 = truth.codes.iter().enumerate().map(|(i, &t)| -predicted.probability[i * classes + t as usize].ln()).sum();
        Some(Self { rows, accuracy: right as f64 / rows as f64, log_loss: loss / rows as f64 })
    }

    fn as_json(&self) -> Value {
        json!({ "rows": self.rows, "accuracy": self.accuracy, "log_loss": self.log_loss })
    }
}
