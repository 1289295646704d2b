//! `variegate check`: tests that a model's inference does what it claims.

use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::json;
use variegate::check::{CheckReport, Effort};
use variegate::model::Reader;

use crate::exit::Exit;
use crate::progress::Share;
use crate::tables::{self, Table};
use crate::{options, output};

pub fn command() -> Command {
    let command = Command::new("check").about("Test that a model's inference does what it claims").after_help(
        "Examples:\n  variegate check MODEL --quick\n  variegate check MODEL --seed 2 --json\n\nWhat is checked is the program that a fit \
         with the same settings would run. Exit code 1 if a check fails. A right \
         program fails a check only with the stated false-alarm rate: repeat with another --seed before believing it.",
    );
    options::families(command, |family, command| {
        let quick = Arg::new("quick").long("quick").action(ArgAction::SetTrue).help("Under a minute; the full check sees smaller errors");
        let name = family.name();
        command
            .args(options::settings(&options::settings_read_by(family, Reader::Check)))
            .args([quick, options::seed().help("Seed of every random number [default: 1]"), options::json(), options::quiet()])
            .after_help(format!("Examples:\n  variegate check {name} --quick\n  variegate check {name} --seed 2"))
    })
}

pub fn run(matches: &ArgMatches) -> Result<Exit> {
    let (family, matches) = options::family_of(matches)?;
    let (json, quiet, quick) = (options::flag(matches, "json"), options::flag(matches, "quiet"), options::flag(matches, "quick"));
    let seed = matches.get_one::<u64>("seed").copied().unwrap_or(1);
    if !quiet {
        let effort = if quick { "quick" } else { "full; --quick takes under a minute" };
        eprintln!("checking {} ({effort}), seed {seed}", family.name());
    }
    let effort = if quick { Effort::quick() } else { Effort::full() };
    let share = Share::new(family.name(), quiet);
    let given = options::given(matches, &options::settings_read_by(family, Reader::Check));
    let reports = family.configure(&given)?.check(&effort, seed, &mut |p| share.at(p.check, p.done))?;
    drop(share);
    let passed = reports.iter().all(|r| r.passed);
    if json {
        output::json(&json!({ "model": family.name(), "seed": seed, "quick": quick, "passed": passed, "checks": reports }))?;
    } else {
        let text: Vec<String> = reports.iter().map(shown).collect();
        output::to_stdout(&text.join("\n"))?;
    }
    if !quiet {
        let verdict = if passed {
            "All checks passed."
        } else {
            "A check FAILED: repeat it with another --seed; if it fails again, please report it."
        };
        eprintln!("\n{verdict}");
    }
    Ok(if passed { Exit::Success } else { Exit::Failure })
}

/// One check: its verdict, and a line a comparison.
fn shown(report: &CheckReport) -> String {
    let verdict = if report.passed { "passed" } else { "FAILED" };
    let chance = match report.false_alarm_rate {
        0.0 => "deterministic".to_string(),
        rate => format!("false-alarm rate {rate}"),
    };
    let head = format!("{} of {}: {verdict} ({} replicates, {chance})", report.check, report.subject, report.replicates);
    let mut table = Table::new(["", "expected", "observed", "statistic", "p-value", ""]);
    for c in &report.comparisons {
        let verdict = if c.passed { "ok" } else { "FAILED" };
        let numbers = [c.expected, c.observed, c.statistic, c.p_value].map(tables::number);
        table.row(std::iter::once(c.name.clone()).chain(numbers).chain([verdict.to_string()]));
    }
    let mut text = format!("{}\n{}", tables::wrap(&head, 80, "  "), table.render(tables::stdout_width()));
    for c in report.failures() {
        text += &format!("{}\n", tables::wrap(&c.meaning, 80, "  "));
    }
    text
}
