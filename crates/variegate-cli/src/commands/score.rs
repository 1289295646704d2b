//! `variegate score`: how probable held-out rows are under a model of rows alone, and how well it completes them; or how well sets of
//! labels are predicted.

use anyhow::{Context, Result};
use clap::parser::ValueSource::CommandLine;
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command, ValueHint, value_parser};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use variegate::answer::{HeldOut, HeldOutEffort};
use variegate::data::Dataset;
use variegate::score::{Completion, RebuildErrors, completion, rebuild_errors};

use super::summary;
use crate::data_file::STANDARD;
use crate::exit::{Exit, Usage};
use crate::opened::Opened;
use crate::tables::{self, Table};
use crate::{files, label_sets as sets, options, output};

mod label_sets;
mod labelled;
pub mod trees;

const EXAMPLES: &str = "\
Examples:
  variegate score runs/a test.csv
  variegate score runs/a test.csv --completion --seed 3 -o rows.csv
  variegate score runs/a test.csv --perplexity --runs 50 --json
  variegate score runs/a test.csv --labels kind --among train.csv
  variegate score runs/labels test.csv --rule micro-f1 --json
  variegate score runs/tree --labels classes.csv:class

--completion shows half of each row's counts to the model and scores what it
predicts of the other half: any model of counts can be compared by it, and it is
fast. --perplexity is the log probability of whole rows, by annealed importance
sampling. Counts are scored by the first unless told otherwise, real numbers by
the second (of what was observed of a row, where entries may be missing).

A model that predicts sets of labels is scored by what it chooses, by how it
ranks labels and by its probabilities; --target names the columns of labels,
where they are others than at the fit.

A tree of rows is scored without DATA: how tight its nodes are, how far siblings
lie apart and, with --labels, how well it keeps classes together. With DATA the
log probability of these rows is told, and how well their classes are kept
together where they are put on the tree.";

/// What the probability of counts is not.
const BAG: &str = "This is the probability of a bag of counts. A topic model's perplexity is that of a sequence of words, which is another \
    thing: the two cannot be compared. --completion can be compared.";
/// What a density is not.
const DENSITY: &str = "These are log densities in the units of the columns: they compare models of the same columns, and nothing else.";

/// What the probability of a row is that is not made of real numbers.
const PROBABILITY: &str = "These are log probabilities of whole rows: they compare models of the same columns, and nothing else.";

/// What squared errors say.
const REBUILT: &str = "Only the first of them is smaller for a better model: rows that are rebuilt from themselves come out the closer the more \
    features there are. Column means and principal components are those of the rows that are scored.";

pub fn command() -> Command {
    let figure = |name: &'static str, help: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    let effort = HeldOutEffort::default();
    let number = |name: &'static str, default: usize, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name("N")
            .allow_negative_numbers(true)
            .value_parser(value_parser!(u64).range(1..=1_000_000))
            .default_value(default.to_string())
            .help(help)
            .help_heading("Effort of --perplexity")
    };
    let column = |id: &'static str, long: &'static str, help: &'static str| {
        Arg::new(id).long(long).value_name("COLUMN").help(help).help_heading("Data")
    };
    Command::new("score")
        .about("Tell how well a model of rows alone, or of sets of labels, predicts rows it has not seen")
        .arg(summary::run_argument())
        .arg(files::file("File with the columns that the model was fitted to; a tree is scored without").required(false))
        .args([
            figure("completion", "Perplexity of the half of each row that was not shown [default for counts]"),
            figure("perplexity", "Log probability of whole rows, averaged over the draws (log PPD) [default for real numbers]"),
        ])
        .group(ArgGroup::new("figure").args(["completion", "perplexity"]))
        .args(sets::arguments())
        .arg(super::export::tree())
        .args([files::sources(), super::predict::target()])
        .args([
            column("label", "labels", "Column with the class of each row: how well coordinates keep classes apart is told too")
                .visible_alias("label"),
            Arg::new("among")
                .long("among")
                .value_name("DATA")
                .requires("label")
                .value_parser(value_parser!(PathBuf))
                .value_hint(ValueHint::FilePath)
                .help("File of other rows: among the 100 nearest of them, how many have the class of the row")
                .help_heading("Data"),
            column("among-label", "among-labels", "The column of classes there, if different [default: --labels]")
                .visible_alias("among-label")
                .requires("among"),
        ])
        .args(files::format_arguments())
        .args([
            number("temperatures", effort.temperatures, "Temperatures between where a row begins and its posterior"),
            number("runs", effort.runs, "Annealed runs of each row and draw"),
            number("draws", effort.draws, "Draws of the run to average over, at most"),
        ])
        .arg(
            options::seed()
                .help("Seed of the halves of rows that are held back; the same one splits a file alike for every run [default: 0]"),
        )
        .args(options::results("Where to write the figures of each row, as CSV"))
        .after_help(EXAMPLES)
}

pub fn run(matches: &ArgMatches) -> Result<Exit> {
    let (json, quiet, force) = (options::flag(matches, "json"), options::flag(matches, "quiet"), options::flag(matches, "force"));
    let out = matches.get_one::<PathBuf>("out");
    if let Some(out) = out {
        output::check_free(out, force)?;
    }
    let opened = Opened::of(matches, "scores")?;
    let posterior = opened.posterior.as_ref();
    if !posterior.labels().is_empty() {
        return label_sets::run(&opened, matches);
    }
    sets::refuse(matches, &["rule", "nonempty", "target"], "predict sets of labels", posterior)?;
    let grouped = posterior.answers().clusters.is_some();
    if !grouped {
        sets::refuse(matches, &["tree"], "group rows into a tree", posterior)?;
    } else if matches.get_one::<PathBuf>("data").is_none() {
        let of_rows = ["out", "among", "completion", "perplexity"];
        if let Some(name) = of_rows.into_iter().find(|name| matches.value_source(name) == Some(CommandLine)) {
            return Err(Usage(format!("--{name} needs a file of rows: name it after the run")).into());
        }
        return trees::of_fit(&opened, matches);
    }
    if matches.get_one::<PathBuf>("data").is_none() {
        return Err(Usage("name the file of the rows that are to be scored: variegate score RUN DATA".into()).into());
    }
    let real = posterior.answers().density.is_some_and(|d| !d.counts());
    if (real || grouped) && options::flag(matches, "completion") {
        let but = if real { "was fitted to real numbers" } else { "completes no rows" };
        let text = format!("--completion splits counts in halves, but this run {but}: score it with --perplexity");
        return Err(Usage(text).into());
    }
    let file = files::data_file(matches)?;
    let data = opened.read(&file, matches)?;
    let refused = || format!("cannot score `{}`", file.name());
    let found = if options::flag(matches, "completion") || !real && !grouped && !options::flag(matches, "perplexity") {
        let seed = matches.get_one::<u64>("seed").copied().unwrap_or(0);
        Found::Completion { seed, columns: data.x.cols(), found: completion(posterior, &data, seed).with_context(refused)? }
    } else {
        let number = |name: &str| matches.get_one::<u64>(name).map_or(1, |&n| n as usize);
        // a closed form costs little: all draws, unless told otherwise
        let all = grouped && matches.value_source("draws") != Some(CommandLine);
        let draws = if all { usize::MAX } else { number("draws") };
        let effort = HeldOutEffort { temperatures: number("temperatures"), runs: number("runs"), draws };
        let note = match (real, grouped) {
            (true, _) => DENSITY,
            (false, true) => PROBABILITY,
            (false, false) => BAG,
        };
        let seed = matches.get_one::<u64>("seed").copied().unwrap_or(0);
        let errors = posterior.answers().rebuilding.map(|_| rebuild_errors(posterior, &data, seed)).transpose().with_context(refused)?;
        Found::HeldOut { note, found: posterior.held_out(&data, &effort).with_context(refused)?, errors }
    };
    let on_tree = if grouped { trees::of_rows(&opened, &data, matches)? } else { None };
    let kept_apart = if grouped { None } else { labelled::scores(&opened, &data, matches)? };
    let groups = groups(&data);
    if json && out.is_some_and(|out| out == Path::new(STANDARD)) {
        return Err(Usage("--json and -o - both go to standard output: leave one of them out".into()).into());
    }
    if let Some(out) = out {
        output::to_file(out, force, |file| found.write_csv(file, &data))?;
    }
    if json {
        let mut value = json!({ "run": opened.run.path(), "rows": data.rows(), "out": out });
        found.fill_json(&mut value, &groups, out.is_none());
        if let Some(scores) = &kept_apart {
            value["labels"] = scores.as_json();
        }
        if let Some(scores) = &on_tree {
            value["tree"] = scores.iter().map(|(name, v)| (name.clone(), json!(v))).collect::<serde_json::Map<_, _>>().into();
        }
        output::json(&value)?;
        return Ok(Exit::Success);
    }
    let tree = on_tree.as_ref().map_or_else(String::new, |scores| format!("\n{}", trees::text(scores)));
    let text = || found.text(&groups) + &tree + &kept_apart.as_ref().map_or_else(String::new, |scores| format!("\n{}", scores.text()));
    // what goes to standard output is one thing
    match out {
        Some(out) if out == Path::new(STANDARD) => {
            eprint!("{}", text());
            return Ok(Exit::Success);
        }
        _ => output::to_stdout(&text())?,
    }
    if let (Some(out), false) = (out, quiet) {
        eprintln!("the figures of each row are in {}", out.display());
    }
    Ok(Exit::Success)
}

/// All rows, and those of each source where there are several.
fn groups(data: &Dataset<'_>) -> Vec<(String, Vec<usize>)> {
    let mut all = vec![("all".to_string(), (0..data.rows()).collect::<Vec<_>>())];
    if let Some(sources) = data.sources.as_ref().filter(|s| s.names.len() > 1) {
        for (code, name) in sources.names.iter().enumerate() {
            let rows: Vec<usize> = (0..data.rows()).filter(|&i| sources.codes[i] as usize == code).collect();
            all.push((name.clone(), rows));
        }
    }
    all
}

/// What was found of held-out rows.
enum Found {
    Completion { seed: u64, columns: usize, found: Completion },
    HeldOut { note: &'static str, found: HeldOut, errors: Option<RebuildErrors> },
}

/// The figures of `held_out` for some of the rows.
fn part(found: &HeldOut, rows: &[usize]) -> HeldOut {
    let pick = |values: &[f64]| rows.iter().map(|&i| values[i]).collect();
    HeldOut { ln_probability: pick(&found.ln_probability), error: pick(&found.error), effective: pick(&found.effective), joint: f64::NAN }
}

/// Squared errors of an entry: what they are of, their names for machines, and their values.
fn figures_of(errors: &RebuildErrors) -> Vec<(&'static str, &'static str, f64)> {
    let mut all = vec![
        ("half of a row from the other half", "l2_heldout", errors.half),
        ("row rebuilt from itself", "l2_reconstruction", errors.reconstruction),
        ("row rebuilt from its likeliest code", "l2_map", errors.likeliest),
        ("column means of these rows", "column_means", errors.means),
    ];
    all.extend(errors.components.map(|v| ("as many principal components of them", "principal_components", v)));
    all
}

/// The middle one of some figures, or the mean of the two in the middle; NaN without any.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n => 0.5 * (sorted[(n - 1) / 2] + sorted[n / 2]),
    }
}

fn fewest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NAN, f64::min)
}

impl Found {
    fn text(&self, groups: &[(String, Vec<usize>)]) -> String {
        match self {
            Self::Completion { seed, columns, found } => {
                let mut table = Table::new(["", "perplexity", "held-out words", "rows"]);
                for (name, rows) in groups {
                    let words: f64 = rows.iter().map(|&i| found.held[i]).sum();
                    let perplexity = tables::number(found.perplexity_of(rows.iter().copied()));
                    table.row([name.clone(), perplexity, words.to_string(), rows.len().to_string()]);
                }
                let note = format!(
                    "Document completion: half of each row's counts was shown (seed {seed}), the other half was to be predicted. Guessing \
                     among {} would have perplexity {columns}.",
                    tables::count(*columns, "column", "columns")
                );
                format!("{}\n{}\n", table.render(tables::stdout_width()), tables::wrap(&note, 80, ""))
            }
            Self::HeldOut { note, found, errors } => {
                let mut table = Table::new(["", "-ln p a row", "MC error", "effective runs", "fewest", "rows"]);
                for (name, rows) in groups {
                    let part = part(found, rows);
                    table.row([
                        name.clone(),
                        tables::number(-part.mean()),
                        tables::number(part.error_of_mean()),
                        tables::number(median(&part.effective)),
                        tables::number(fewest(&part.effective)),
                        rows.len().to_string(),
                    ]);
                }
                let joint = format!(
                    "Mean of -ln p of a row in nats, each p averaged over the draws, with its Monte Carlo error; effective runs are the \
                     median and the fewest of the rows. All rows jointly (the mean over draws of their product): ln p = {}.",
                    tables::number(found.joint)
                );
                let table = table.render(tables::stdout_width());
                let mut text = format!("{table}\n{}\n{}\n", tables::wrap(&joint, 80, ""), tables::wrap(note, 80, ""));
                if let Some(errors) = errors {
                    let mut table = Table::new(["squared error", "of an entry", "of a row"]);
                    for (name, _, value) in figures_of(errors) {
                        table.row([name.to_string(), tables::number(value), tables::number(value * errors.columns as f64)]);
                    }
                    text += &format!("\n{}\n{}\n", table.render(tables::stdout_width()), tables::wrap(REBUILT, 80, ""));
                }
                text
            }
        }
    }

    /// Adds the figures, those of each row only if asked for.
    fn fill_json(&self, value: &mut Value, groups: &[(String, Vec<usize>)], each: bool) {
        let sources = |figures: &dyn Fn(&[usize]) -> Value| {
            groups[1..].iter().map(|(name, rows)| (name.clone(), figures(rows))).collect::<serde_json::Map<_, _>>()
        };
        match self {
            Self::Completion { seed, columns, found } => {
                let figures = |rows: &[usize]| {
                    let words: f64 = rows.iter().map(|&i| found.held[i]).sum();
                    json!({ "perplexity": found.perplexity_of(rows.iter().copied()), "held_out_words": words, "rows": rows.len() })
                };
                value["score"] = json!("completion");
                value["seed"] = json!(seed);
                value["columns"] = json!(columns);
                value["perplexity"] = json!(found.perplexity());
                value["held_out_words"] = json!(found.words());
                value["sources"] = json!(sources(&figures));
                if each {
                    value["each"] = json!({
                        "held_out_words": found.held, "ln_probability": found.ln_probability, "perplexity": found.per_row(),
                    });
                }
            }
            Self::HeldOut { note, found, errors } => {
                let figures = |rows: &[usize]| {
                    let part = part(found, rows);
                    json!({
                        "log_ppd": -part.mean(),
                        "error": part.error_of_mean(),
                        "effective_runs": median(&part.effective),
                        "fewest_effective_runs": fewest(&part.effective),
                        "rows": rows.len(),
                    })
                };
                if let (Value::Object(into), Value::Object(all)) = (&mut *value, figures(&groups[0].1)) {
                    into.extend(all);
                }
                value["score"] = json!("held-out");
                value["joint_ln_probability"] = json!(found.joint);
                value["sources"] = json!(sources(&figures));
                value["note"] = json!(note);
                if let Some(errors) = errors {
                    let figures = figures_of(errors).into_iter().map(|(_, key, v)| (key.to_string(), json!(v)));
                    value["squared_error"] = Value::Object(figures.collect());
                }
                if each {
                    value["each"] = json!({
                        "ln_probability": found.ln_probability, "error": found.error, "effective_runs": found.effective,
                    });
                }
            }
        }
    }

    /// `row,held_out_words,ln_probability,perplexity` or `row,ln_probability,error,effective_runs`, with `source` after `row` where rows
    /// have sources.
    fn write_csv(&self, out: &mut dyn Write, data: &Dataset<'_>) -> Result<()> {
        let source = if data.sources.is_some() { ",source" } else { "" };
        let perplexity = match self {
            Self::Completion { found, .. } => {
                writeln!(out, "row{source},held_out_words,ln_probability,perplexity")?;
                found.per_row()
            }
            Self::HeldOut { .. } => {
                writeln!(out, "row{source},ln_probability,error,effective_runs")?;
                Vec::new()
            }
        };
        for i in 0..data.rows() {
            let source = data.sources.as_ref().map_or_else(String::new, |s| format!(",{}", output::csv_field(s.name(i))));
            match self {
                Self::Completion { found, .. } => {
                    // nothing can be said of a row of which nothing was held back
                    let perplexity = if perplexity[i].is_nan() { String::new() } else { perplexity[i].to_string() };
                    writeln!(out, "{}{source},{},{},{perplexity}", i + 1, found.held[i], found.ln_probability[i])?;
                }
                Self::HeldOut { found, .. } => {
                    writeln!(out, "{}{source},{},{},{}", i + 1, found.ln_probability[i], found.error[i], found.effective[i])?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn middles_and_ends() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0]), 2.5);
        assert!(median(&[]).is_nan() && fewest(&[]).is_nan());
        assert_eq!(fewest(&[3.0, 1.0]), 1.0);
    }
}
