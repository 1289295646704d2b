//! Scores by category (`--by`): accuracy of one run, or of several side by side, in all, for each class and for each category.

use anyhow::{Context, Result, bail};
use clap::{Arg, ArgMatches};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use variegate::answer::{ClassProbabilities, Posterior};
use variegate::data::{Classes, Dataset, Target};
use variegate::score::{ClassScore, Group, score_classes};

use crate::exit::Usage;
use crate::output::csv_field;
use crate::scores::tally_json;
use crate::tables::{self, Table};

/// `--by`.
pub fn argument() -> Arg {
    Arg::new("by")
        .long("by")
        .value_name("COLUMN")
        .help("Also tell the accuracy for each value of this column, which is no feature; FILE:COLUMN takes it from another file")
        .help_heading("Data")
}

/// Refuses `--by` where there are no classes to be right about.
pub fn check(matches: &ArgMatches, posterior: &dyn Posterior) -> Result<()> {
    if matches.get_one::<String>("by").is_some() && posterior.classes().is_empty() {
        let fitted = if posterior.outputs() > 0 { "real outcomes" } else { "sets of labels" };
        return Err(Usage(format!("--by is for runs that predict classes; this one was fitted to {fitted}")).into());
    }
    Ok(())
}

/// Takes the categories that `--by` named out of the data, with their name.
pub fn take(matches: &ArgMatches, data: &mut Dataset<'_>) -> Option<(String, Classes)> {
    let name = matches.get_one::<String>("by")?;
    // of `FILE:COLUMN` and `FILE` the last part tells what it is
    let short = name.rsplit_once(':').map_or(name.as_str(), |(_, column)| column);
    let short = Path::new(short).file_name().map_or_else(|| short.to_string(), |n| n.to_string_lossy().into_owned());
    Some((short, data.sources.take()?))
}

/// Scores of one or several runs on the same rows, by group.
pub struct ByCategory {
    groups: Vec<Group>,
    /// Name of each run and the scores of its rows.
    runs: Vec<(String, Vec<ClassScore>)>,
}

impl ByCategory {
    /// Groups rows by their truth and category; the runs are added.
    pub fn new(data: &Dataset<'_>, by: &(String, Classes), file: &str) -> Result<Self> {
        let Target::Classes(truth) = &data.target else {
            bail!("`{file}` has no target to score by: name its column with --target COLUMN");
        };
        Ok(Self { groups: Group::all(truth, Some((&by.0, &by.1))), runs: Vec::new() })
    }

    /// Adds what a run predicts of the rows.
    pub fn add(&mut self, name: String, found: &ClassProbabilities, classes: &[String], data: &Dataset<'_>) {
        if let Target::Classes(truth) = &data.target {
            self.runs.push((name, score_classes(found, classes, truth)));
        }
    }

    /// The two runs to compare, if there are two.
    fn pair(&self) -> Option<(&[ClassScore], &[ClassScore])> {
        match &self.runs[..] {
            [(_, a), (_, b)] => Some((a, b)),
            _ => None,
        }
    }

    /// One group a line: its rows, the accuracy of each run with its 95 % interval, and the log loss (of one run) or the difference (of
    /// two).
    pub fn render(&self, width: Option<usize>) -> String {
        let one = self.runs.len() == 1;
        let mut headings = vec![String::new(), "rows".into()];
        for (name, _) in &self.runs {
            headings.push(if one { "accuracy".into() } else { name.clone() });
            headings.push("95 %".into());
        }
        if one {
            headings.extend(["log loss".into(), "brier".into()]);
        }
        if self.pair().is_some() {
            headings.extend(["difference".into(), "95 %".into()]);
        }
        let mut table = Table::new(headings);
        for group in &self.groups {
            let mut cells = vec![format!("{} {}", group.of, group.value).trim_end().to_string(), group.rows.len().to_string()];
            for (_, scores) in &self.runs {
                let tally = group.tally(scores);
                let (low, high) = tally.interval();
                cells.extend([format!("{:.3}", tally.accuracy()), format!("{low:.3} {high:.3}")]);
                if one {
                    cells.extend([tables::number(tally.log_loss()), tables::number(tally.brier())]);
                }
            }
            if let Some((a, b)) = self.pair() {
                let paired = group.paired(a, b);
                let (low, high) = paired.interval();
                cells.extend([format!("{:+.3}", paired.difference()), format!("{low:+.3} {high:+.3}")]);
            }
            table.row(cells);
        }
        table.render(width)
    }

    /// `of,value,rows,accuracy,low,high,log_loss,brier`, of the first run.
    pub fn write_csv(&self, out: &mut dyn Write) -> Result<()> {
        let (_, scores) = self.runs.first().context("there is nothing to write")?;
        writeln!(out, "of,value,rows,accuracy,low,high,log_loss,brier")?;
        for group in &self.groups {
            let tally = group.tally(scores);
            let (low, high) = tally.interval();
            writeln!(
                out,
                "{},{},{},{},{low},{high},{},{}",
                csv_field(&group.of),
                csv_field(&group.value),
                tally.rows,
                tally.accuracy(),
                tally.log_loss(),
                tally.brier()
            )?;
        }
        Ok(())
    }

    /// The same for machines.
    pub fn as_json(&self) -> Value {
        let group = |group: &Group| {
            let runs: Vec<Value> = self
                .runs
                .iter()
                .map(|(name, scores)| {
                    let mut value = tally_json(&group.tally(scores));
                    value["run"] = json!(name);
                    value
                })
                .collect();
            let difference = self.pair().map(|(a, b)| {
                let paired = group.paired(a, b);
                let (low, high) = paired.interval();
                json!({
                    "accuracy": paired.difference(),
                    "interval": [low, high],
                    "only_first": paired.only_first,
                    "only_second": paired.only_second,
                })
            });
            json!({ "of": group.of, "value": group.value, "rows": group.rows.len(), "runs": runs, "difference": difference })
        };
        self.groups.iter().map(group).collect()
    }
}
