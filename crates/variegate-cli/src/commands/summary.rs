//! `variegate summary`: what a run is, how far it has come, and what it has found.

use anyhow::{Context, Result, bail};
use clap::{Arg, ArgMatches, Command, value_parser};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use variegate::answer::{ColumnKind, Posterior, Selection, Summary, SummaryColumn, SummaryTable};
use variegate_io::png::{feature_sheet, write_png};
use variegate_io::run_dir::{RunDir, Status};

use crate::data_file;
use crate::exit::Exit;
use crate::tables::{self, Table};
use crate::validation::Kept;
use crate::{options, output, selection, training};

const EXAMPLES: &str = "\
Examples:
  variegate summary runs/a
  variegate summary runs/a --json > summary.json
  variegate summary runs/f --shape 6x6 --picture features.png";

pub fn command() -> Command {
    Command::new("summary")
        .about("Show what a run has found, also while it is running")
        .args([run_argument(), options::json()])
        .args([
            Arg::new("shape")
                .long("shape")
                .value_name("ROWSxCOLUMNS")
                .value_parser(shape)
                .help("Draw features or factors as pictures of so many rows and columns of dots, such as 6x6 (PNG)")
                .help_heading("Pictures"),
            Arg::new("picture")
                .long("picture")
                .value_name("FILE")
                .requires("shape")
                .value_parser(value_parser!(PathBuf))
                .help("Where to write the pictures [default: the name of the run with .png]")
                .help_heading("Pictures"),
            options::force("a picture").requires("shape"),
        ])
        .after_help(EXAMPLES)
}

/// The folder of a run.
pub fn run_argument() -> Arg {
    Arg::new("run").value_name("DIR").required(true).value_parser(value_parser!(PathBuf)).help("Folder of a run, as `fit` wrote it")
}

/// The folder that was named.
pub fn run_of(matches: &ArgMatches) -> PathBuf {
    matches.get_one::<PathBuf>("run").cloned().unwrap_or_default()
}

pub fn run(matches: &ArgMatches) -> Result<Exit> {
    let run = RunDir::read(run_of(matches))?;
    let status = run.status();
    let found = match training::posterior(&run) {
        Ok(posterior) => {
            if let Some(&(rows, columns)) = matches.get_one::<(usize, usize)>("shape") {
                draw(posterior.as_ref(), rows, columns, &run, matches)?;
            }
            Ok((posterior.summary(), posterior.selection()))
        }
        Err(error) if status.complete => return Err(error),
        Err(error) => Err(error.to_string()),
    };
    if options::flag(matches, "json") {
        let (found, selection) = found.ok().unzip();
        output::json(&as_json(&run, found.as_ref(), selection.flatten().as_ref(), Kept::of(&run)?.as_ref()))?;
    } else {
        output::to_stdout(&as_text(&run, &status, &found, Kept::of(&run)?))?;
    }
    Ok(Exit::Success)
}

/// Rows and columns of a picture.
fn shape(text: &str) -> Result<(usize, usize), String> {
    let parts = text.split_once(['x', 'X', '×']).and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    parts.filter(|(a, b)| *a > 0 && *b > 0).ok_or_else(|| "it must be two whole numbers, such as 6x6".into())
}

/// Features or factors as pictures, in one file.
fn draw(posterior: &dyn Posterior, rows: usize, columns: usize, run: &RunDir, matches: &ArgMatches) -> Result<()> {
    let arrays = posterior.arrays();
    let drawn = arrays.iter().find(|a| a.name == "components" && a.dims.len() == 2);
    let Some(drawn) = drawn else { bail!("this fit has no features or factors to draw") };
    let width = drawn.dims[1].len;
    if rows.checked_mul(columns) != Some(width) {
        bail!(
            "a picture of {rows}x{columns} has {} dots, but there are {width} columns: choose another --shape",
            rows.saturating_mul(columns)
        );
    }
    if drawn.dims[0].len == 0 {
        bail!("this fit has found no features: there is nothing to draw");
    }
    let features: Vec<(String, Vec<f64>)> =
        drawn.dims[0].labels.iter().cloned().zip(drawn.values.chunks_exact(width).map(<[f64]>::to_vec)).collect();
    let given = matches.get_one::<PathBuf>("picture").cloned();
    let path = given.unwrap_or_else(|| PathBuf::from(run.path().file_name().unwrap_or_default()).with_extension("png"));
    output::check_free(&path, options::flag(matches, "force"))?;
    let (wide, high, dots) = feature_sheet(&features, rows, columns, 1);
    write_png(&path, wide, high, &dots).with_context(|| format!("could not write `{}`", path.display()))?;
    eprintln!("{} in {}, blue below and red above nothing", tables::count(features.len(), "picture", "pictures"), path.display());
    Ok(())
}

fn as_text(run: &RunDir, status: &Status, found: &Result<(Summary, Option<Selection>), String>, validated: Option<Kept>) -> String {
    let record = run.record();
    let path = run.path().display();
    let mut facts = vec![("run".to_string(), format!("{path}, {}", state(run, status)))];
    if let Some(data) = record.data.given.as_ref().or(record.data.path.as_ref()) {
        let rows = tables::count(record.data.rows as usize, "row", "rows");
        let columns = tables::count(record.data.columns as usize, "column", "columns");
        facts.push(("data".into(), format!("{} ({rows}, {columns})", data_file::shown(data))));
    }
    facts.push(("begun".into(), format!("{} with variegate {}", record.created_at, record.variegate_version)));
    // those that the fit has read: `--json` has all
    let settings: Vec<String> = record.settings_in_use().iter().map(|(name, value)| format!("{name}={}", options::shown(value))).collect();
    facts.push(("settings".into(), format!("seed={}, {}", record.plan.seed, settings.join(", "))));
    if let Ok((found, _)) = found {
        facts.extend(found.facts.iter().map(|f| (f.name.clone(), f.to_string())));
    }
    let wide = facts.iter().map(|f| f.0.chars().count()).max().unwrap_or(0) + 2;
    let mut text = String::new();
    for (name, value) in facts {
        let value = tables::wrap(&value, 80 - wide, "").replace('\n', &format!("\n{}", " ".repeat(wide)));
        text += &format!("{name:wide$}{value}\n");
    }
    if let Some(validated) = validated {
        text += &format!("\n{}", validated.text().trim_end_matches('\n'));
        text.push('\n');
    }
    match found {
        Ok((found, selection)) => {
            text += &format!("\n{}{}", selection::short(selection.as_ref(), &path.to_string()), table(found, None));
            let verdict = match (status.complete, found.converged) {
                (false, _) if status.running => "So far (the run goes on):",
                (false, _) => "So far (the run is not complete):",
                (true, true) => "Converged.",
                (true, false) => "Not converged.",
            };
            text += &format!("\n{verdict}\n");
            let warnings = found.warnings.iter().map(|w| format!("Warning: {w}"));
            for note in warnings.chain(found.notes.iter().cloned()) {
                text += &format!("{}\n", tables::wrap(&options::in_shell(&note, &record.family), 80, ""));
            }
        }
        Err(reason) => text += &format!("\nNothing to show yet: {reason}\n"),
    }
    if !status.complete && !status.running {
        text += &format!("\nGo on with: variegate resume {path}\n");
    }
    text
}

/// The tables of what was found; at most `rows` of the main one, which then stands alone.
pub fn table(found: &Summary, rows: Option<usize>) -> String {
    let shown = if rows.is_some() { 1 } else { usize::MAX };
    let filled = found.tables.iter().filter(|t| !t.rows.is_empty()).take(shown);
    let render = |(number, of): (usize, &SummaryTable)| {
        let name = if number == 0 { "" } else { of.name.as_str() };
        let mut table = Table::new(std::iter::once(name).chain(of.headings()));
        for (name, values) in of.rows.iter().take(rows.unwrap_or(usize::MAX)) {
            let cell = |(v, column): (&f64, &SummaryColumn)| match column.kind {
                ColumnKind::Count if v.fract() == 0.0 => format!("{v:.0}"),
                _ => tables::number(*v),
            };
            table.row(std::iter::once(name.clone()).chain(values.iter().zip(&of.columns).map(cell)));
        }
        table.render(tables::stdout_width())
    };
    filled.enumerate().map(render).collect::<Vec<_>>().join("\n")
}

/// How far a run has come: `1,500 of 6,000 sweeps`.
pub fn progress(run: &RunDir) -> String {
    let status = run.status();
    let done: u64 = status.chains.iter().map(|c| c.sweeps).sum();
    let total: u64 = status.chains.iter().map(|c| c.total).sum();
    let total = tables::count(total as usize, "sweep", "sweeps");
    format!("{} of {total}", tables::count(done as usize, "", "").trim_end())
}

fn state(run: &RunDir, status: &Status) -> String {
    match (status.complete, status.running) {
        (true, _) => "complete".into(),
        (false, true) => format!("running, {} saved", progress(run)),
        (false, false) => format!("stopped after {}", progress(run)),
    }
}

/// The same for machines. Numbers that JSON cannot hold are null.
pub fn as_json(run: &RunDir, found: Option<&Summary>, selection: Option<&Selection>, validated: Option<&Kept>) -> Value {
    let record = run.record();
    let status = run.status();
    let word = match (status.complete, status.running) {
        (true, _) => "complete",
        (false, true) => "running",
        (false, false) => "stopped",
    };
    let chains: Vec<Value> = status
        .chains
        .iter()
        .map(|c| {
            json!({
                "chain": c.chain,
                "sweeps": c.sweeps,
                "total": c.total,
                "draws": c.draws,
                "finished": c.finished,
                "objective": c.last.as_ref().map(|r| r.objective),
                "components": c.last.as_ref().map(|r| r.components),
            })
        })
        .collect();
    json!({
        "run": run.path(),
        "model": record.family,
        "program": record.program,
        "status": word,
        "seed": record.plan.seed,
        "settings": record.model,
        "data": {
            "path": record.data.path,
            "rows": record.data.rows,
            "columns": record.data.columns,
            "fingerprint": format!("{:016x}", record.data.fingerprint),
        },
        "created_at": record.created_at,
        "variegate_version": record.variegate_version,
        "chains": chains,
        "converged": found.filter(|_| status.complete).map(|f| f.converged),
        "facts": found.map(|f| f.facts.iter().map(|f| (f.name.clone(), f.value.as_json())).collect::<Map<_, _>>()),
        "table": found.and_then(|f| f.tables.first()).map(SummaryTable::as_json),
        "tables": found.map(|f| f.tables.iter().map(|t| (t.name.clone(), t.as_json())).collect::<Map<_, _>>()),
        "selection": selection.map(selection::as_json),
        "cross_validation": validated.map(Kept::as_json),
        "warnings": found.map(|f| &f.warnings),
        "notes": found.map(|f| &f.notes),
    })
}
