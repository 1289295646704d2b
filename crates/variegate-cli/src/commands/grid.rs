//! `variegate grid`: fits every combination of some settings, each as a run of its own, and tells what they found side by side.
//!
//! A combination is an ordinary run in a folder named by its values, so every other command works on it. What is complete is not done
//! again: a grid that was stopped or killed goes on when its command is repeated, and one that is asked for more values does the new ones.

mod figures;
mod fits;

use anyhow::{Result, bail};
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint, value_parser};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use variegate::data::{Dataset, Target, TargetKind};
use variegate::model::Family;
use variegate::run::Ending;
use variegate::select::points;
use variegate_io::read::{ColumnSpec, ReadOptions};
use variegate_io::run_dir::RunDir;

use self::figures::{Asked, Found};
use self::fits::{Combination, Fits, Read};
use super::{fit, score};
use crate::data_file::{DataFile, STANDARD};
use crate::exit::{Exit, Halted, Tone, Usage, say};
use crate::tables::{self, Table};
use crate::{files, options, output, training, validation};

/// The table that the folder of a grid holds.
const FILE: &str = "grid.csv";

const EXAMPLES: &str = "\
Examples:
  variegate grid MODEL train.csv --vary SETTING=A,B --out runs/g
  variegate grid MODEL train.csv --vary SETTING=A,B --vary OTHER=C,D --seed 1
  variegate grid MODEL train.csv --vary SETTING=A,B --test test.csv --json

Every combination is a run in a folder of its own, named by its values, on which
`summary`, `predict`, `score` and `resume` work. The same command goes on after
Ctrl-C or a crash, and does what is new where more values are asked for.
Settings and their defaults: variegate grid MODEL --help";

pub fn command() -> Command {
    let command = Command::new("grid").about("Fit every combination of some settings, and compare what they find").after_help(EXAMPLES);
    options::families(command, |family, command| {
        let vary = Arg::new("vary")
            .long("vary")
            .value_name("SETTING=A,B,…")
            .action(ArgAction::Append)
            .required(true)
            .help("Values that a setting takes in turn (may be repeated; values that hold commas are separated by `;`)")
            .help_heading("Grid");
        let test = Arg::new("test")
            .long("test")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .value_hint(ValueHint::FilePath)
            .help("File of held-out rows: every fit is scored on them")
            .help_heading("Grid");
        let label = Arg::new("label")
            .long("labels")
            .visible_alias("label")
            .value_name("COLUMN")
            .help("Column with the class of each row, which no fit sees: how well what was found keeps classes apart; FILE:COLUMN takes it from another file")
            .help_heading("Grid");
        // where rows have a target there is no other class
        let label = options::target_of(family).is_none().then_some(label);
        let out = "Folder of the grid; what it holds goes on [default: the first free of runs/MODEL-grid-1, …]";
        let output = [options::out_folder(out), options::force("a run of other settings or data"), options::json(), options::quiet()];
        fit::with_arguments(family, command, [vary, test].into_iter().chain(label).chain(output)).after_help(examples(family))
    })
}

/// Examples with settings of the family's own.
fn examples(family: &dyn Family) -> String {
    let call = format!("variegate grid {} train.csv{}", family.name(), options::example_columns(family));
    let settings = family.settings();
    let numbers = settings.iter().filter_map(|s| Some((s, s.default.as_f64().filter(|v| *v > 0.0 && s.kind.admits(&json!(2.0 * v)))?)));
    let lines =
        numbers.map(|(s, v)| format!("{call} --vary {}={},{}", s.option(), options::shown(&s.default), options::shown(&json!(2.0 * v))));
    let own = lines.into_iter().find(|line| line.len() <= 78).map_or_else(String::new, |line| format!("\n  {line}"));
    format!("{}\n\nExamples:{own}\n  {call} --vary SETTING=A,B --json", family.about())
}

pub fn run(matches: &ArgMatches) -> Result<Exit> {
    let (family, matches) = options::family_of(matches)?;
    let [json, quiet, force] = ["json", "quiet", "force"].map(|name| options::flag(matches, name));
    let mut given = options::given(matches, &family.settings());
    options::begin_with_labels(family, &mut given, files::column(matches, files::START_LABELS)?.is_some())?;
    let axes = validation::axes(matches, "vary", family, &given)?;
    let chosen = matches.get_one::<PathBuf>("out").cloned();
    if chosen.as_deref() == Some(Path::new(STANDARD)) {
        return Err(Usage("a grid is a folder and cannot go to standard output: name a folder with --out".into()).into());
    }
    let out = chosen.unwrap_or_else(|| training::next_free(&format!("{}-grid", family.name())));
    if RunDir::read(&out).is_ok() {
        bail!("`{}` is a run: give the folder of a grid, or another one, with --out", out.display());
    }
    let test = matches.get_one::<PathBuf>("test").map(|path| DataFile::of(path)).transpose()?;
    if let Some(test) = test.as_ref().filter(|t| !t.path().exists()) {
        bail!("`{}`, the file of held-out rows, is not there: check the path of --test", test.name());
    }

    let mut combinations: Vec<Combination> = points(&axes).into_iter().map(|values| Combination::new(values, &given, &out)).collect();
    let file = files::data_file(matches)?;
    let data = read(family, &mut combinations, &file, matches, quiet)?;
    let classes = classes(&file, matches, family)?;
    if let (Some(classes), Some(read)) = (&classes, data.first())
        && classes.len() != read.data.rows()
    {
        bail!("--labels has {}, but the data have {}", rows(classes.len()), rows(read.data.rows()));
    }
    let seed = matches.get_one::<u64>("seed").copied().or_else(|| combinations.iter().find_map(Combination::seed));
    let fits = Fits {
        family,
        combinations,
        data,
        file,
        seed: seed.unwrap_or_else(|| options::seed_of(matches)),
        block_rows: matches.get_one::<u64>("block-rows").map(|&n| n as usize),
        pace: options::pace_of(matches),
        force,
        quiet,
    };
    if !quiet {
        let fits_count = tables::count(fits.combinations.len(), "combination", "combinations");
        eprintln!("fitting {fits_count} of {} into {}, seed {}", family.name(), out.display(), fits.seed);
    }
    let ended = fits.run()?;
    if ended.iter().any(|e| matches!(e, Ok(Ending::Stopped))) {
        let done = ended.iter().filter(|e| matches!(e, Ok(Ending::Complete))).count();
        let text = format!(
            "Stopped and saved in {} after {done} of {}: the same command goes on{}.",
            out.display(),
            tables::count(ended.len(), "combination", "combinations"),
            if matches.get_one::<PathBuf>("out").is_none() { format!(" with --out {}", out.display()) } else { String::new() }
        );
        return Err(Halted(text).into());
    }
    let asked = Asked { classes: classes.as_deref(), test: test.as_ref(), matches };
    gather(&fits, ended, &asked, &out, json)
}

/// `3 rows`.
fn rows(n: usize) -> String {
    tables::count(n, "row", "rows")
}

/// Reads the data as the models of the combinations want them; those whose settings make no sense together are told.
fn read(
    family: &'static dyn Family,
    combinations: &mut [Combination],
    file: &DataFile,
    matches: &ArgMatches,
    quiet: bool,
) -> Result<Vec<Read>> {
    let mut reader = files::read_options(matches)?;
    if let Some(ColumnSpec::Columns(names)) = files::column(matches, "label")? {
        // what fits are judged by they do not see
        reader.ignore.extend(names.into_iter().filter(|n| !reader.ignore.contains(n)).collect::<Vec<_>>());
    }
    let mut all: Vec<Read> = Vec::new();
    let mut refused = None;
    for combination in combinations.iter_mut() {
        let model = match family.configure(&combination.settings) {
            Ok(model) => model,
            Err(why) => {
                let name = validation::shown(&combination.values);
                say(
                    Tone::Warning,
                    &tables::wrap(&format!("{name} is left out: {}", options::in_shell(&why.to_string(), family.name())), 80, ""),
                );
                combination.refused = Some(why.to_string());
                refused = refused.or(Some(why));
                continue;
            }
        };
        if model.target().is_none() && !model.start_labels() {
            fit::refuse_target(family, &reader)?;
        }
        let wanted = (model.target().unwrap_or(TargetKind::Classes), model.missing(), model.start_labels());
        if let Some(at) = all.iter().position(|read| read.wanted == wanted) {
            combination.data = at;
            continue;
        }
        let options = ReadOptions { target_kind: wanted.0, missing: wanted.1, open_target: wanted.2, ..reader.clone() };
        let (data, found) = files::read_training(file, &options).map_err(|error| fit::advise(family, error))?;
        if !quiet && all.is_empty() {
            eprintln!("read {}: {}", file.name(), files::describe(&data));
            files::remarks(&reader, &found).iter().for_each(|text| eprintln!("{}", tables::wrap(text, 80, "")));
        }
        combination.data = all.len();
        all.push(Read { wanted, data, reader: found });
    }
    match refused {
        Some(why) if all.is_empty() => Err(why.into()),
        _ => Ok(all),
    }
}

/// The class of each row, where `--labels` names them; none where one is not known.
fn classes(file: &DataFile, matches: &ArgMatches, family: &dyn Family) -> Result<Option<Vec<Option<u32>>>> {
    let Some(label) = files::column(matches, "label")? else { return Ok(None) };
    let mut reader = files::read_options(matches)?;
    if let ColumnSpec::Columns(names) = &label {
        reader.ignore.retain(|name| !names.contains(name));
    }
    let reader = ReadOptions { target: Some(label), target_kind: TargetKind::Classes, open_target: true, missing: true, ..reader };
    let (data, _) = files::read_training(file, &reader).map_err(|error| fit::advise(family, error))?;
    match &data.target {
        Target::Classes(classes) => Ok(Some(score::trees::known(classes))),
        _ => bail!("--labels names no column of classes"),
    }
}

/// Reads back what the runs found, and tells it: as a table in the folder, and on standard output.
fn gather(fits: &Fits, ended: Vec<Result<Ending>>, asked: &Asked<'_>, out: &Path, json: bool) -> Result<Exit> {
    let mut all = Vec::new();
    let (mut warnings, mut failed) = (Vec::new(), None);
    for (combination, ended) in fits.combinations.iter().zip(ended) {
        let name = validation::shown(&combination.values);
        let outcome = match (&combination.refused, ended) {
            (Some(why), _) => Err(why.clone()),
            (None, Err(why)) => {
                warnings.push(format!("{name} failed: {why:#}"));
                let text = format!("{why:#}");
                failed = failed.or(Some(why));
                Err(text)
            }
            (None, Ok(_)) => {
                let plain = Dataset { target: Target::None, ..fits.data[combination.data].data.clone() };
                let found = Found::of(&combination.path, &plain, asked)?;
                warnings.extend(found.warnings.iter().map(|w| format!("{name}: {}", options::in_shell(w, fits.family.name()))));
                Ok(found)
            }
        };
        all.push((combination, outcome));
    }
    if all.iter().all(|(_, outcome)| outcome.is_err())
        && let Some(why) = failed
    {
        return Err(why);
    }
    let names = figures::names(all.iter().filter_map(|(_, found)| found.as_ref().ok()));
    output::to_file(&out.join(FILE), true, |file| Ok(file.write_all(csv(&all, &names).as_bytes())?))?;
    warnings.iter().for_each(|w| say(Tone::Warning, &tables::wrap(w, 80, "")));
    let unsure: Vec<String> = all
        .iter()
        .filter(|(_, found)| found.as_ref().is_ok_and(|f| !f.converged))
        .map(|(combination, _)| validation::shown(&combination.values))
        .collect();
    if json {
        output::json(&as_json(fits, &all, out, &warnings))?;
    } else {
        output::to_stdout(&text(&all, &names))?;
    }
    if !unsure.is_empty() {
        let text = format!(
            "{} not converged (exit code 3): {}; `variegate summary` tells why",
            tables::count(unsure.len(), "combination has", "combinations have"),
            unsure.join("; ")
        );
        say(Tone::Warning, &tables::wrap(&text, 80, ""));
    }
    if !fits.quiet {
        eprintln!("all figures are in {}", out.join(FILE).display());
    }
    Ok(match (failed, unsure.is_empty()) {
        (Some(_), _) => Exit::Failure,
        (None, true) => Exit::Success,
        (None, false) => Exit::NotConverged,
    })
}

/// A combination, and what was found or why it was not.
type Outcome<'g> = (&'g Combination, Result<Found, String>);

/// The table of the folder: what varies, what was found, where the run is.
fn csv(all: &[Outcome<'_>], names: &[String]) -> String {
    let varied = all.first().map(|(c, _)| c.values.keys().cloned().collect::<Vec<_>>()).unwrap_or_default();
    let line = |cells: Vec<String>| cells.iter().map(|c| output::csv_field(c)).collect::<Vec<_>>().join(",") + "\n";
    let headings = varied.into_iter().chain(["converged".into()]).chain(names.iter().cloned()).chain(["run".into(), "failure".into()]);
    let mut text = line(headings.collect());
    for (combination, found) in all {
        let mut cells: Vec<String> = combination.values.values().map(options::shown).collect();
        cells.push(found.as_ref().map_or_else(|_| String::new(), |f| f.converged.to_string()));
        let number = |name: &String| found.as_ref().ok()?.value(name).filter(|v| v.is_finite()).map(|v| v.to_string());
        cells.extend(names.iter().map(|name| number(name).unwrap_or_default()));
        cells.extend([combination.name.clone(), found.as_ref().err().cloned().unwrap_or_default()]);
        text += &line(cells);
    }
    text
}

/// The same for people: the figures that differ, those that a reader looks at first.
fn text(all: &[Outcome<'_>], names: &[String]) -> String {
    let value = |found: &Result<Found, String>, name: &str| found.as_ref().ok().and_then(|f| f.value(name));
    let told = |name: &&String| {
        let mut there = all.iter().filter_map(|(_, found)| found.as_ref().ok());
        let aside = there.clone().any(|f| f.is_aside(name));
        let first = there.next().and_then(|f| f.value(name)).map(f64::to_bits);
        !aside && (all.len() < 3 || there.any(|f| f.value(name).map(f64::to_bits) != first))
    };
    let shown: Vec<&String> = names.iter().filter(told).collect();
    let mut table = Table::new(std::iter::once("settings".to_string()).chain(shown.iter().map(|n| n.to_string())));
    for (combination, found) in all {
        let cell = |name: &&String| value(found, name).map_or_else(|| "-".into(), tables::number);
        table.row(std::iter::once(validation::shown(&combination.values)).chain(shown.iter().map(cell)));
    }
    table.render(tables::stdout_width())
}

/// The same for machines.
fn as_json(fits: &Fits, all: &[Outcome<'_>], out: &Path, warnings: &[String]) -> Value {
    let combination = |(combination, found): &Outcome<'_>| {
        let figures = found.as_ref().ok().map(Found::as_json);
        json!({
            "settings": combination.values,
            "run": combination.path,
            "converged": found.as_ref().ok().map(|f| f.converged),
            "figures": figures,
            "failure": found.as_ref().err(),
        })
    };
    let vary = all.first().map(|(c, _)| c.values.keys().cloned().collect::<Vec<_>>());
    json!({
        "grid": out,
        "model": fits.family.name(),
        "seed": fits.seed,
        "vary": vary,
        "combinations": all.iter().map(combination).collect::<Vec<_>>(),
        "warnings": warnings,
    })
}
