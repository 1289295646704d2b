//! `variegate export`: the tree of a fitted model as a file for other programs, or as a picture.

use anyhow::{Context, Result, bail};
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint, value_parser};
use std::path::{Path, PathBuf};
use variegate::answer::{ClusterTree, WhichTree};
use variegate::data::Target;

use super::summary;
use crate::data_file::DataFile;
use crate::exit::Exit;
use crate::files::Rows;
use crate::opened::Opened;
use crate::output::Destination;
use crate::{options, tables};

const EXAMPLES: &str = "\
Examples:
  variegate export runs/t --format svg -o tree.svg
  variegate export runs/t --format newick --names animals.txt
  variegate export runs/t --format json --label name | head
  variegate export runs/t --format dot | dot -Tpdf > tree.pdf

Nodes are numbered as in `variegate summary` and in what `variegate predict`
writes; the root is 0. --merge leaves nodes without siblings out, and the others
then have other numbers.";

pub fn command() -> Command {
    let option = |name: &'static str| Arg::new(name).long(name);
    Command::new("export")
        .about("Write the tree of a fitted model as Newick, JSON, DOT or SVG")
        .arg(summary::run_argument())
        .args([
            option("format")
                .value_name("WORD")
                .value_parser(clap::builder::PossibleValuesParser::new(ClusterTree::FORMATS))
                .default_value(ClusterTree::FORMATS[0])
                .help("What is written"),
            tree(),
            option("merge").action(ArgAction::SetTrue).help("Merge nodes without siblings into the node above"),
            option("label")
                .value_name("COLUMN")
                .conflicts_with("names")
                .help("Column of the data of the fit with the name of each row; FILE:COLUMN takes it from another file"),
            option("names")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .value_hint(ValueHint::FilePath)
                .help("Text file with the name of each row of the fit, one a line [default: rows are numbered from 1]"),
            options::out_file("Where to write the tree [default: standard output]"),
            options::force("a file"),
            options::quiet(),
        ])
        .after_help(EXAMPLES)
}

/// `--tree`.
pub fn tree() -> Arg {
    Arg::new("tree")
        .long("tree")
        .value_name("WORD")
        .value_parser(clap::builder::PossibleValuesParser::new(WhichTree::WORDS))
        .default_value(WhichTree::WORDS[0])
        .help("Which tree of rows: the one of least expected loss (point: variation of information, binder: pairs) or the best draw")
        .help_heading("Trees of rows")
}

/// The tree that was asked for.
pub fn tree_of(matches: &ArgMatches) -> Result<WhichTree> {
    Ok(matches.get_one::<String>("tree").map_or("", String::as_str).parse()?)
}

pub fn run(matches: &ArgMatches) -> Result<Exit> {
    let destination = Destination::of(matches)?;
    let opened = Opened::of(matches, "trees")?;
    let mut tree = opened.posterior.clusters()?.tree(tree_of(matches)?)?;
    if let Some(names) = names(&opened, matches)? {
        tree = tree.named(names).context("cannot name the rows")?;
    }
    let (rows, nodes) = (tree.names().len(), tree.nodes().count() - 1);
    if options::flag(matches, "merge") {
        tree = tree.merged();
    }
    let text = tree.written(matches.get_one::<String>("format").map_or("", String::as_str))?;
    destination.table(|file| Ok(file.write_all(text.as_bytes())?))?;
    destination.say(|| format!("wrote a tree of {} and {}", tables::count(rows, "row", "rows"), tables::count(nodes, "node", "nodes")));
    Ok(Exit::Success)
}

/// Names of the rows of the fit, where they were asked for.
fn names(opened: &Opened, matches: &ArgMatches) -> Result<Option<Vec<String>>> {
    if let Some(path) = matches.get_one::<PathBuf>("names") {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("could not read `{}`: give a text file with a name a line", path.display()))?;
        return Ok(Some(text.lines().map(|line| line.trim_end_matches('\r').to_string()).collect()));
    }
    if matches.get_one::<String>("label").is_none() {
        return Ok(None);
    }
    let (file, _) = data_of(opened)?;
    let rows = Rows { options: ["sources", "label"], format: None };
    let data = opened.read_as(&DataFile::of(&file)?, &rows, matches)?;
    let Target::Classes(names) = &data.target else { bail!("the rows of `{}` have no names", file.display()) };
    Ok(Some(names.codes.iter().map(|&c| names.names[c as usize].clone()).collect()))
}

/// The file of the fit, and how many rows it had.
pub fn data_of(opened: &Opened) -> Result<(PathBuf, u64)> {
    let record = &opened.run.record().data;
    let Some(path) = &record.path else {
        bail!("the data of this run were not in a file, so nothing can be read of its rows");
    };
    if !Path::new(path).exists() {
        bail!("`{}`, which this run was fitted to, is not there any more: put it back to read something of its rows", path.display());
    }
    Ok((path.clone(), record.rows))
}
