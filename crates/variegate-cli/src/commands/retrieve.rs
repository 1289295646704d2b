//! `variegate retrieve`: rows that are most like others, in the space of a model's factors.

use anyhow::{Context, Result, bail};
use clap::{Arg, ArgMatches, Command, ValueHint, value_parser};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use variegate::data::{Classes, Dataset, Target};
use variegate::score::{Ranking, Retrieval};
use variegate_io::read::ColumnSpec;

use super::summary;
use crate::data_file::{DataFile, STANDARD};
use crate::exit::{Exit, Tone, Usage, say};
use crate::files::Rows;
use crate::opened::Opened;
use crate::output::Destination;
use crate::{files, options, output, tables};

const EXAMPLES: &str = "\
Examples:
  variegate retrieve runs/a queries.csv -k 10 -o found.csv
  variegate retrieve runs/a queries.csv --among library.csv --label topic
  variegate retrieve runs/a queries.csv -k all --json > found.json

Without --among the rows of the fit are searched. Where both sides have labels
(or, without --label, sources), rows that share the query's are relevant, and
mean average precision and the precision among the first 1, 5, 10, … rows are
told on standard error. Rows that are searched for among themselves find
themselves first.";

pub fn command() -> Command {
    let option = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help).help_heading("Data")
    };
    Command::new("retrieve")
        .about("Find the rows that are most like others")
        .arg(summary::run_argument())
        .arg(files::file("File of queries, with the columns that the model was fitted to").value_name("QUERY"))
        .args([
            Arg::new("among")
                .long("among")
                .value_name("DATA")
                .value_parser(value_parser!(PathBuf))
                .value_hint(ValueHint::FilePath)
                .help("File of the rows to search [default: that of the fit]"),
            Arg::new("most")
                .short('k')
                .long("most")
                .value_name("N")
                .allow_negative_numbers(true)
                .value_parser(most)
                .default_value("100")
                .help("Rows to find for each query, or `all`; precision is told of these"),
            option("label", "COLUMN", "Column that says which rows are relevant: those that share it; FILE:COLUMN for queries alone"),
            option("among-label", "COLUMN", "The same for the rows that are searched, if different [default: --label]"),
            files::sources(),
            option("among-sources", "COLUMN", "The same of the rows that are searched [default: that of the fit]"),
        ])
        .args(files::format_arguments())
        .args(options::results("Where to write what was found, as CSV [default: standard output]"))
        .after_help(EXAMPLES)
}

fn most(text: &str) -> Result<usize, String> {
    match text {
        "all" => Ok(usize::MAX),
        _ => text.parse().ok().filter(|n| *n > 0).ok_or_else(|| "it must be a whole number of at least 1, or `all`".into()),
    }
}

pub fn run(matches: &ArgMatches) -> Result<Exit> {
    let destination = Destination::of(matches)?;
    let both = ["data", "among"].map(|name| matches.get_one::<PathBuf>(name));
    if both.iter().all(|path| path.is_some_and(|p| p == Path::new(STANDARD))) {
        return Err(Usage("the queries and the rows to search cannot both be standard input: give one of them as a file".into()).into());
    }
    let label = label_of_searched(matches)?;
    let opened = Opened::of(matches, "neighbours")?;
    let file = files::data_file(matches)?;
    let queries = opened.read(&file, matches)?;
    let (among, place) = searched(&opened, label, matches)?;
    let most = matches.get_one::<usize>("most").copied().unwrap_or(100).min(among.rows());
    let found = opened
        .posterior
        .retrieve(&queries, &among, most)
        .with_context(|| format!("cannot search for the rows of `{}` in `{}`", file.name(), place.display()))?;
    let scores = relevance(&queries, &among, matches).map(|(by, a, b)| (by, Retrieval::of(&rankings(&found, a, b))));
    destination.table(|file| write_csv(file, &found))?;
    destination.say(|| {
        let rows = tables::count(among.rows(), "row", "rows");
        format!("searched {rows} for {}", tables::count(queries.rows(), "query", "queries"))
    });
    let Destination { out, json, quiet, .. } = destination;
    if json {
        let mut value = json!({ "run": opened.run.path(), "queries": queries.rows(), "among": place, "rows": among.rows(), "out": out });
        value["scores"] = json!(scores.as_ref().map(|(by, s)| json!({
            "relevant_by": by,
            "queries": s.queries,
            "most": most,
            "mean_average_precision": s.mean_average_precision,
            "precision": s.precision,
        })));
        if out.is_none() {
            let each = |list: &Vec<(usize, f64)>| {
                json!({
                    "rows": list.iter().map(|f| f.0 + 1).collect::<Vec<_>>(), "similarity": list.iter().map(|f| f.1).collect::<Vec<_>>(),
                })
            };
            value["found"] = json!(found.iter().map(each).collect::<Vec<_>>());
        }
        output::json(&value)?;
    }
    if !quiet && !json {
        match &scores {
            Some((by, scores)) => eprintln!("{}", tables::wrap(&told(by, scores, most == among.rows()), 80, "")),
            None => eprintln!("no precision is told: name the column of labels of both files with --label COLUMN"),
        }
    }
    Ok(Exit::Success)
}

/// The option that gives the labels of the rows to search.
fn label_of_searched(matches: &ArgMatches) -> Result<&'static str> {
    match (matches.get_one::<String>("among-label"), matches.get_one::<String>("label")) {
        (Some(_), _) => Ok("among-label"),
        (None, Some(label)) if matches!(label.parse(), Ok(ColumnSpec::File { .. })) => {
            let text = "--label names a file, which belongs to the queries: name that of the rows to search with --among-label";
            Err(Usage(text.into()).into())
        }
        _ => Ok("label"),
    }
}

/// The rows to search, and their file.
fn searched(opened: &Opened, label: &'static str, matches: &ArgMatches) -> Result<(Dataset<'static>, PathBuf)> {
    let mut rows = Rows { options: ["among-sources", label], format: Some(matches) };
    if let Some(path) = matches.get_one::<PathBuf>("among") {
        return Ok((opened.read_as(&DataFile::of(path)?, &rows, matches)?, path.clone()));
    }
    let record = &opened.run.record().data;
    let Some(path) = &record.path else {
        bail!("the data of this run were not in a file: give a file of rows to search with --among FILE");
    };
    if !path.exists() {
        bail!("`{}`, which this run was fitted to, is not there any more: give the rows to search with --among FILE", path.display());
    }
    rows.format = None;
    let data = opened.read_as(&DataFile::of(path)?, &rows, matches)?;
    if data.rows() as u64 != record.rows {
        let now = tables::count(data.rows(), "row", "rows");
        say(Tone::Warning, &format!("`{}` has {now} now, at the fit it had {}: those of now are searched", path.display(), record.rows));
    }
    let given = record.given.clone();
    Ok((data, given.unwrap_or_else(|| path.clone())))
}

/// What makes rows relevant, of queries and of the rows that are searched: labels where they were asked for, else sources.
fn relevance<'d>(
    queries: &'d Dataset<'_>,
    among: &'d Dataset<'_>,
    matches: &ArgMatches,
) -> Option<(&'static str, &'d Classes, &'d Classes)> {
    if matches.get_one::<String>("label").is_none() {
        return Some(("source", queries.sources.as_ref()?, among.sources.as_ref()?));
    }
    match (&queries.target, &among.target) {
        (Target::Classes(a), Target::Classes(b)) => Some(("label", a, b)),
        _ => None,
    }
}

/// Which of the rows that were found are relevant.
fn rankings(found: &[Vec<(usize, f64)>], queries: &Classes, among: &Classes) -> Vec<Ranking> {
    let counts = among.counts();
    let code = |name: &str| among.names.iter().position(|n| n == name).map(|c| c as u32);
    let codes: Vec<Option<u32>> = queries.names.iter().map(|n| code(n)).collect();
    let one = |(query, list): (usize, &Vec<(usize, f64)>)| match codes[queries.codes[query] as usize] {
        None => Ranking { relevant: vec![false; list.len()], total: 0 },
        Some(code) => Ranking { relevant: list.iter().map(|(row, _)| among.codes[*row] == code).collect(), total: counts[code as usize] },
    };
    found.iter().enumerate().map(one).collect()
}

/// The scores in words.
fn told(by: &str, scores: &Retrieval, whole: bool) -> String {
    if scores.queries == 0 {
        return format!("no query has a row of the same {by} to find");
    }
    let longest = scores.precision.len();
    let over = if whole { String::new() } else { format!(" over the first {longest}") };
    let at: Vec<String> = scores.milestones().iter().map(|&n| format!("{:.3} at {n}", scores.precision[n - 1])).collect();
    format!(
        "mean average precision{over} {:.4}, precision {} ({}, relevant by {by})",
        scores.mean_average_precision,
        at.join(", "),
        tables::count(scores.queries, "query", "queries")
    )
}

/// `query,rank,row,similarity`: all count from 1.
fn write_csv(out: &mut dyn Write, found: &[Vec<(usize, f64)>]) -> Result<()> {
    writeln!(out, "query,rank,row,similarity")?;
    for (query, list) in found.iter().enumerate() {
        for (rank, (row, similarity)) in list.iter().enumerate() {
            writeln!(out, "{},{},{},{similarity}", query + 1, rank + 1, row + 1)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_relevant_by_the_names_of_their_classes() {
        let queries = Classes::encode(["b", "c", "new"]);
        let among = Classes::encode(["a", "b", "b", "c"]);
        let found = vec![vec![(1, 0.9), (0, 0.5), (2, 0.1)], vec![(0, 1.0)], vec![(3, 1.0)]];
        let ranks = rankings(&found, &queries, &among);
        assert_eq!(ranks[0], Ranking { relevant: vec![true, false, true], total: 2 });
        assert_eq!(ranks[1], Ranking { relevant: vec![false], total: 1 });
        assert_eq!(ranks[2].total, 0);
        let scores = Retrieval::of(&ranks);
        assert_eq!(scores.queries, 2);
        assert!(told("source", &scores, false).starts_with("mean average precision over the first 3 0.4167, precision 0.500 at 1"));
    }
}
