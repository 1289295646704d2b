//! `variegate simulate`: data from a model's prior, and the truth beside it.

use anyhow::{Context, Result};
use clap::{Arg, ArgMatches, Command, value_parser};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use variegate::data::{Dataset, Target};
use variegate::model::{Family, Reader, Setting, defaults};
use variegate_io::write::write_csv;

use crate::exit::Exit;
use crate::{files, options, output};

/// Name of the target column in simulated files.
pub const TARGET: &str = "label";
/// Name of the column of sources in simulated files.
pub const SOURCES: &str = "source";

pub fn command() -> Command {
    let command = Command::new("simulate").about("Draw data from a model's prior, with the truth beside them").after_help(
        "Examples:\n  variegate simulate MODEL --rows 2000 --seed 1 -o d.csv    (the truth goes to d.truth.json)\n  \
         variegate simulate MODEL --rows 5 | column -s, -t",
    );
    options::families(command, |family, command| {
        let rows = Arg::new("rows")
            .long("rows")
            .allow_negative_numbers(true)
            .value_name("N")
            .value_parser(value_parser!(u64).range(1..=1_000_000_000))
            .default_value("1000")
            .help("Number of rows");
        let name = family.name();
        let columns = if options::unsupervised(family) { format!("--sources {SOURCES}") } else { format!("--target {TARGET}") };
        command
            .arg(rows)
            .args(options::settings(&family.simulate_settings()))
            .args(options::settings(&own_settings(family)))
            .arg(options::seed())
            .args([
                options::out_file("CSV file to write; the truth goes beside it, to NAME.truth.json [default: standard output]"),
                options::force("a file"),
                options::json().requires("out").help("Write one JSON object with what was written and the truth to standard output"),
                options::quiet(),
            ])
            .after_help(format!(
                "Examples:\n  variegate simulate {name} --rows 2000 --seed 1 -o d.csv\n  variegate fit {name} d.csv {columns}"
            ))
    })
}

/// Settings of the model itself that say what data are like.
fn own_settings(family: &dyn Family) -> Vec<Setting> {
    options::settings_read_by(family, Reader::Simulate)
}

pub fn run(matches: &ArgMatches) -> Result<Exit> {
    let (family, matches) = options::family_of(matches)?;
    let (json, quiet, force) = (options::flag(matches, "json"), options::flag(matches, "quiet"), options::flag(matches, "force"));
    let rows = matches.get_one::<u64>("rows").map_or(1000, |&n| n as usize);
    let seed = options::seed_of(matches);
    let request = options::given(matches, &family.simulate_settings());
    let out = matches.get_one::<PathBuf>("out");
    if let Some(out) = out {
        output::check_free(out, force)?;
        output::check_free(&truth_path(out), force)?;
    }
    let model = family.configure(&options::given(matches, &own_settings(family)))?;
    let simulation = model.simulate(rows, &request, seed)?;
    match out {
        Some(out) => {
            let truth = document(family, rows, seed, &request, &simulation.truth);
            write(out, force, &simulation.data, &truth)?;
            if json {
                let mut value = truth;
                value["out"] = json!(out);
                output::json(&value)?;
            }
            if !quiet {
                eprintln!(
                    "wrote {} ({}; seed {seed}) and the truth to {}",
                    out.display(),
                    files::describe(&simulation.data),
                    truth_path(out).display()
                );
            }
        }
        None => {
            let mut csv = Vec::new();
            write_csv(&mut csv, &simulation.data, target_name(&simulation.data))?;
            output::to_stdout(&String::from_utf8_lossy(&csv))?;
            if !quiet {
                eprintln!("seed {seed}; the truth is kept only with -o FILE");
            }
        }
    }
    Ok(Exit::Success)
}

fn truth_path(out: &Path) -> PathBuf {
    output::beside(out, "truth.json", "")
}

fn document(family: &dyn Family, rows: usize, seed: u64, request: &Map<String, Value>, truth: &Map<String, Value>) -> Value {
    let mut settings = defaults(&family.simulate_settings());
    settings.extend(request.clone());
    json!({ "model": family.name(), "rows": rows, "seed": seed, "settings": settings, "truth": truth })
}

fn target_name(data: &Dataset<'_>) -> &'static str {
    if matches!(data.target, Target::None) { "" } else { TARGET }
}

/// Writes data and truth.
fn write(out: &Path, force: bool, data: &Dataset<'_>, truth: &Value) -> Result<()> {
    write_data(out, force, data)?;
    output::to_file(&truth_path(out), force, |file| Ok(writeln!(file, "{truth:#}")?))
}

/// Writes data as CSV.
pub fn write_data(out: &Path, force: bool, data: &Dataset<'_>) -> Result<()> {
    output::to_file(out, force, |file| write_csv(file, data, target_name(data)).context("the data could not be written"))
}
