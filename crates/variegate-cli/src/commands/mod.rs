//! The commands, one a file: each has its options with examples, and what it does.

mod check;
mod compare;
mod completions;
mod demo;
pub mod export;
mod extend;
mod fit;
mod grid;
mod impute;
mod models;
pub mod predict;
mod resume;
mod retrieve;
mod score;
mod simulate;
pub mod summary;
mod transform;
mod update;

use anyhow::Result;
use clap::{ArgMatches, Command};

use crate::exit::{Exit, Usage};

const EXAMPLES: &str = "\
Examples:
  variegate demo
  variegate simulate logistic --rows 2000 --seed 1 -o train.csv
  variegate fit logistic train.csv --target label --out runs/a
  variegate predict runs/a test.csv -o pred.csv
  variegate summary runs/a

Exit codes: 0 success, 1 failure, 2 wrong usage, 3 fitted but not converged (the
results are written), 130 stopped by Ctrl-C (saved; `variegate resume` goes on).";

/// The whole command line.
pub fn root() -> Command {
    Command::new("variegate")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Bayesian latent-variable models whose components must differ from one another")
        .after_help(EXAMPLES)
        .max_term_width(80)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([
            fit::command(),
            grid::command(),
            resume::command(),
            extend::command(),
            update::command(),
            predict::command(),
            transform::command(),
            impute::command(),
            score::command(),
            retrieve::command(),
            export::command(),
            summary::command(),
            compare::command(),
            simulate::command(),
            check::command(),
            models::command(),
            demo::command(),
            completions::command(),
        ])
}

/// Does what was asked.
pub fn run(matches: &ArgMatches) -> Result<Exit> {
    match matches.subcommand() {
        Some(("fit", m)) => fit::run(m),
        Some(("grid", m)) => grid::run(m),
        Some(("resume", m)) => resume::run(m),
        Some(("extend", m)) => extend::run(m),
        Some(("update", m)) => update::run(m),
        Some(("predict", m)) => predict::run(m),
        Some(("transform", m)) => transform::run(m),
        Some(("impute", m)) => impute::run(m),
        Some(("score", m)) => score::run(m),
        Some(("retrieve", m)) => retrieve::run(m),
        Some(("export", m)) => export::run(m),
        Some(("summary", m)) => summary::run(m),
        Some(("compare", m)) => compare::run(m),
        Some(("simulate", m)) => simulate::run(m),
        Some(("check", m)) => check::run(m),
        Some(("models", m)) => models::run(m),
        Some(("demo", m)) => demo::run(m),
        Some(("completions", m)) => completions::run(m),
        _ => Err(Usage("name a command; `variegate --help` lists them".into()).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is broken into lines already is not broken again at 80 columns, and examples are one line each.
    #[test]
    fn footers_are_wrapped_once() {
        let mut left = vec![root()];
        while let Some(command) = left.pop() {
            let footer = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for paragraph in footer.split("\n\n").filter(|p| p.contains('\n')) {
                for line in paragraph.lines() {
                    assert!(line.chars().count() <= 80, "{}: {line}", command.get_name());
                }
            }
            left.extend(command.get_subcommands().cloned());
        }
    }
}
