//! `variegate simulate`: data from a model's prior with the truth beside it, and further rows from such a truth.

use anyhow::{Context, Result, bail};
use clap::{Arg, ArgMatches, Command, ValueHint, value_parser};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use variegate::data::{Dataset, Target};
use variegate::model::{Family, Reader, Setting, Truth, defaults};
use variegate_io::write::write_csv;

use crate::exit::{Exit, Usage};
use crate::{files, options, output};

/// Name of the target column in simulated files.
pub const TARGET: &str = "label";
/// Name of the column of sources in simulated files.
pub const SOURCES: &str = "source";

pub fn command() -> Command {
    let command = Command::new("simulate").about("Draw data from a model's prior, with the truth beside them").after_help(
        "Examples:\n  variegate simulate MODEL --rows 2000 --seed 1 -o d.csv    (and d.truth.json)\n  \
         variegate simulate MODEL --rows 500 --truth d.truth.json -o test.csv\n  \
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
        let columns = options::example_columns(family);
        let truth = Arg::new("truth")
            .long("truth")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .value_hint(ValueHint::FilePath)
            .help("Draw further rows from this truth, that of data simulated before, instead of a new one (the settings are its own)");
        command
            .args([rows, truth])
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
                "Examples:\n  variegate simulate {name} --rows 2000 --seed 1 -o d.csv\n  variegate simulate {name} --rows 500 --truth d.truth.json -o test.csv\n  variegate fit {name} d.csv{columns}"
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
    let out = options::out_of(matches);
    if let Some(out) = out {
        output::check_free(out, force)?;
        output::check_free(&truth_path(out), force)?;
    }
    let mut request = options::given(matches, &family.simulate_settings());
    let mut own = options::given(matches, &own_settings(family));
    let earlier = matches.get_one::<PathBuf>("truth").map(|path| Earlier::read(path, family)).transpose()?;
    if let Some(earlier) = &earlier {
        if let Some(name) = request.keys().chain(own.keys()).next() {
            let option = family.simulate_settings().iter().chain(&own_settings(family)).find(|s| s.name == name).map(Setting::option);
            return Err(Usage(format!("--{} is told by --truth: leave it out", option.unwrap_or_default())).into());
        }
        request = earlier.of(&family.simulate_settings());
        own = earlier.of(&own_settings(family));
    }
    let model = family.configure(&own)?;
    let simulation = match &earlier {
        None => model.simulate(rows, &request, seed)?,
        Some(earlier) => model.simulate_more(rows, &request, &Truth::new(&earlier.truth), seed)?,
    };
    let mut settings = defaults(&family.simulate_settings());
    settings.extend(request);
    let own = own_settings(family);
    settings.extend(model.settings().into_iter().filter(|(name, _)| own.iter().any(|s| s.name == name)));
    match out {
        Some(out) => {
            let truth = document(family, rows, seed, &settings, &simulation.truth);
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

/// A truth that an earlier simulation wrote, with the settings that it had.
#[derive(Deserialize)]
struct Earlier {
    model: String,
    settings: Map<String, Value>,
    truth: Map<String, Value>,
}

impl Earlier {
    fn read(path: &Path, family: &dyn Family) -> Result<Self> {
        let shown = path.display();
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("`{shown}` cannot be read: give the NAME.truth.json that `variegate simulate -o NAME.csv` wrote"))?;
        let earlier: Self = serde_json::from_str(&text)
            .with_context(|| format!("`{shown}` is not a truth: give the NAME.truth.json that `variegate simulate -o NAME.csv` wrote"))?;
        if earlier.model != family.name() {
            bail!("`{shown}` is a truth of `{0}`: draw from it with `variegate simulate {0}`", earlier.model);
        }
        let (request, own) = (family.simulate_settings(), own_settings(family));
        if let Some(name) = earlier.settings.keys().find(|k| !request.iter().chain(&own).any(|s| s.name == *k)) {
            bail!("`{shown}` has a setting `{name}`, which `simulate {}` does not have: it was written by another version", family.name());
        }
        Ok(earlier)
    }

    /// Those of its settings that a table has.
    fn of(&self, table: &[Setting]) -> Map<String, Value> {
        let known = self.settings.iter().filter(|(name, _)| table.iter().any(|s| s.name == *name));
        known.map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}

fn truth_path(out: &Path) -> PathBuf {
    output::beside(out, "truth.json", "")
}

fn document(family: &dyn Family, rows: usize, seed: u64, settings: &Map<String, Value>, truth: &Map<String, Value>) -> Value {
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
