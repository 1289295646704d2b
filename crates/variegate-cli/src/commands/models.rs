//! `variegate models`: what can be fitted, and the settings of each.

use anyhow::Result;
use clap::{Arg, ArgMatches, Command};
use serde_json::{Value, json};
use std::fmt::Write;
use variegate::model::{FAMILIES, Family, Setting, family};

use crate::exit::Exit;
use crate::tables::{self, Table};
use crate::{options, output};

const EXAMPLES: &str = "\
Examples:
  variegate models
  variegate models logistic
  variegate models --json";

pub fn command() -> Command {
    let name = Arg::new("name").value_name("MODEL").help("Show the settings of this model");
    Command::new("models").about("List the models, or the settings of one").args([name, options::json()]).after_help(EXAMPLES)
}

pub fn run(matches: &ArgMatches) -> Result<Exit> {
    let json = options::flag(matches, "json");
    match matches.get_one::<String>("name") {
        Some(name) => {
            let family = family(name)?;
            if json { output::json(&as_json(family))? } else { output::to_stdout(&details(family))? }
        }
        None if json => output::json(&json!({ "models": FAMILIES.iter().map(|f| as_json(*f)).collect::<Vec<_>>() }))?,
        None => {
            let mut table = Table::new(["model", "what it is"]).prose();
            for family in FAMILIES {
                table.row([family.name(), family.title()]);
            }
            output::to_stdout(&table.render(tables::stdout_width()))?;
            eprintln!("\nSettings of one: variegate models MODEL. Its options: variegate fit MODEL --help");
        }
    }
    Ok(Exit::Success)
}

fn details(family: &dyn Family) -> String {
    let width = tables::stdout_width().unwrap_or(80);
    let mut text = format!("{}: {}\n\n{}\n\n", family.name(), family.title(), tables::wrap(family.about(), width, ""));
    for setting in family.settings() {
        let default = options::shown(&setting.default);
        let head = format!("--{} ({}; default {default})", setting.option(), options::allowed(&setting));
        let _ = writeln!(text, "{}\n    {}", tables::wrap(&head, width, "    "), tables::wrap(&options::help(&setting), width - 4, "    "));
    }
    text
}

fn as_json(family: &dyn Family) -> Value {
    let list = |table: Vec<Setting>| -> Vec<Value> {
        table
            .iter()
            .map(|s| {
                json!({
                    "name": s.name,
                    "option": format!("--{}", s.option()),
                    "allowed": s.kind.allowed(),
                    "default": s.default,
                    "help": s.help,
                })
            })
            .collect()
    };
    json!({
        "model": family.name(),
        "title": family.title(),
        "about": family.about(),
        "settings": list(family.settings()),
        "simulate": list(family.simulate_settings()),
    })
}
