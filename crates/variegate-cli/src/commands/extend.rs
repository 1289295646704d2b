//! `variegate extend`: more draws or chains of a run, to the same draws as a longer run from the start.

use anyhow::Result;
use clap::{Arg, ArgMatches, Command, value_parser};
use variegate::model;
use variegate::run::{Plan, Schedule};
use variegate_io::run_dir::RunDir;

use super::{resume, summary};
use crate::exit::{Exit, Usage};
use crate::{options, tables};

const EXAMPLES: &str = "\
The draws that are there stay as they are, and those that follow are the same,
to the last bit, as if the run had been asked for all of them from the start. A
run that was stopped goes on as well.

Examples:
  variegate extend runs/a --draws 5000
  variegate extend runs/a --draws 5000 --chains 8 --data moved/train.csv";

pub fn command() -> Command {
    let number = |name: &'static str, most: u64, help: &'static str| {
        Arg::new(name).long(name).value_name("N").value_parser(value_parser!(u64).range(1..=most)).help(help)
    };
    Command::new("extend")
        .about("Go on with a run to more draws or chains")
        .arg(summary::run_argument())
        .arg(number("draws", 100_000_000, "Draws of each chain when it is done, those that are there included"))
        .arg(number("chains", 1000, "Chains when it is done, those that are there included"))
        .arg(resume::data_argument())
        .args(options::pace())
        .args([options::json(), options::quiet()])
        .after_help(EXAMPLES)
}

pub fn run(matches: &ArgMatches) -> Result<Exit> {
    let mut run = RunDir::open(summary::run_of(matches))?;
    let record = run.record();
    let Schedule::Sample { draws, .. } = record.plan.schedule else {
        return Err(Usage(format!(
            "this run keeps no draws: `{}` climbs until it has converged, so there is nothing to extend; fit again, with a larger --max-iter \
             if it had not",
            record.program
        ))
        .into());
    };
    let [more, chains] = ["draws", "chains"].map(|name| matches.get_one::<u64>(name).copied());
    let wanted = (more.unwrap_or(draws), chains.unwrap_or(record.plan.chains.into()));
    let here = (draws, u64::from(record.plan.chains));
    if wanted == here || wanted.0 < here.0 || wanted.1 < here.1 {
        return Err(Usage(format!(
            "this run is planned for {} in each of {}: give a larger --draws or --chains, the number when it is done",
            tables::count(here.0 as usize, "draw", "draws"),
            tables::count(here.1 as usize, "chain", "chains"),
        ))
        .into());
    }
    let mut settings = record.model.clone();
    for (name, value) in model::EXTENDABLE.into_iter().zip([wanted.0, wanted.1]) {
        settings.insert(name.into(), value.into());
    }
    let configured = model::family(&record.family)?.configure(&settings)?;
    let fit = configured.reopen(&record.schema)?;
    let plan = Plan { chains: fit.chains(), schedule: fit.schedule(), ..record.plan };
    let settings = configured.settings();
    // the plan changes only when the data have been found: what cannot go on stays as it is
    let data = resume::read_again(&run, matches)?;
    run.extend(settings, plan)?;
    resume::go_on(run, &data, matches, "extending")
}
