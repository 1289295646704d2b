//! `variegate completions`: completion scripts for shells.

use anyhow::Result;
use clap::{Arg, ArgMatches, Command, value_parser};
use clap_complete::Shell;

use crate::exit::Exit;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  variegate completions bash >> ~/.bash_completion
  variegate completions zsh > \"${fpath[1]}/_variegate\"
  variegate completions fish > ~/.config/fish/completions/variegate.fish";

pub fn command() -> Command {
    let shell = Arg::new("shell").value_name("SHELL").required(true).value_parser(value_parser!(Shell)).help("The shell");
    Command::new("completions").about("Write a completion script for a shell to standard output").arg(shell).after_help(EXAMPLES)
}

pub fn run(matches: &ArgMatches) -> Result<Exit> {
    if let Some(shell) = matches.get_one::<Shell>("shell") {
        let mut script = Vec::new();
        clap_complete::generate(*shell, &mut super::root(), "variegate", &mut script);
        output::to_stdout(&String::from_utf8_lossy(&script))?;
    }
    Ok(Exit::Success)
}
