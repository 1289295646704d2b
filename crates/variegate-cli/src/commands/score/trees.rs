//! How good the tree of a fit is: over its own rows, or for rows that were put on it.

use anyhow::{Result, bail};
use clap::ArgMatches;
use serde_json::{Map, Value, json};
use variegate::data::{Classes, Dataset, Target};
use variegate::score::{TreeScore, path_scores, tree_scores};

use crate::commands::export;
use crate::data_file::DataFile;
use crate::exit::Exit;
use crate::files::Rows;
use crate::opened::Opened;
use crate::tables::{self, Table};
use crate::{options, output};

const NOTE: &str = "AID is the mean squared distance of two rows of a node (aid_zero counts nodes of one row as 0), aid_ratio its ratio to that of two \
    rows anywhere; AOD is the squared distance of the means of two siblings, aod_ratio its ratio to what random labels give. Both reward \
    splitting: do not choose a model by them.";
const CLASSES: &str = " F and purity compare the tree with the classes of rows; 1 is best.";

/// The class of each row; none where it is not known.
pub fn known(classes: &Classes) -> Vec<Option<u32>> {
    classes.codes.iter().map(|&c| (!classes.names[c as usize].is_empty()).then_some(c)).collect()
}

/// Scores over the rows of the fit, with their classes where these were named.
pub(super) fn of_fit(opened: &Opened, matches: &ArgMatches) -> Result<Exit> {
    let clusters = opened.posterior.clusters()?;
    let (path, rows) = export::data_of(opened)?;
    let data = opened.read_as(&DataFile::of(&path)?, &Rows { options: ["sources", "label"], format: None }, matches)?;
    if data.rows() as u64 != rows {
        bail!("`{}` has {} rows now, and had {rows} at the fit: restore it", path.display(), data.rows());
    }
    let classes = match &data.target {
        Target::Classes(classes) => Some(known(classes)),
        _ => None,
    };
    let scores = tree_scores(clusters, export::tree_of(matches)?, Some(&data), classes.as_deref())?;
    if options::flag(matches, "json") {
        let number = |v: f64| if v.is_finite() { json!(v) } else { Value::Null };
        let each: Map<String, Value> = scores
            .iter()
            .map(|s| (s.name.clone(), json!({ "tree": number(s.tree), "mean": number(s.mean), "defined": s.defined })))
            .collect();
        output::json(&json!({ "run": opened.run.path(), "rows": data.rows(), "classes": classes.is_some(), "scores": each }))?;
        return Ok(Exit::Success);
    }
    let mut table = Table::new(["", "tree", "mean of draws", "defined in"]);
    for TreeScore { name, tree, mean, defined } in &scores {
        table.row([name.clone(), tables::number(*tree), tables::number(*mean), format!("{:.0} %", 100.0 * defined)]);
    }
    let note = [NOTE, if classes.is_some() { CLASSES } else { "" }].concat();
    output::to_stdout(&format!("{}\n{}\n", table.render(tables::stdout_width()), tables::wrap(&note, 80, "")))?;
    if classes.is_none() && !options::flag(matches, "quiet") {
        eprintln!("no F-measure and purity: name the classes of rows with --labels COLUMN or --labels FILE:COLUMN");
    }
    Ok(Exit::Success)
}

/// F-measures and purity of rows that are not of the fit, by the paths they are put on: rows on new branches below one node count as one
/// node.
pub(super) fn of_rows(opened: &Opened, data: &Dataset<'_>, matches: &ArgMatches) -> Result<Option<Vec<(String, f64)>>> {
    let Target::Classes(classes) = &data.target else { return Ok(None) };
    let placed = opened.posterior.clusters()?.place(&Dataset { target: Target::None, ..data.clone() }, export::tree_of(matches)?)?;
    let labels: Vec<u32> = placed.path.iter().map(|node| node.map_or(u32::MAX, |z| z as u32)).collect();
    Ok(Some(path_scores(&labels, placed.levels, &known(classes))))
}

/// The same as a table.
pub(super) fn text(scores: &[(String, f64)]) -> String {
    let mut table = Table::new(["classes on the tree", ""]);
    scores.iter().for_each(|(name, value)| table.row([name.clone(), tables::number(*value)]));
    table.render(tables::stdout_width())
}
