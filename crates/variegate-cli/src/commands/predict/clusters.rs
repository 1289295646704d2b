//! Where rows go in a tree: the node of each level, how probable it is, and the shares of components.

use anyhow::{Context, Result};
use clap::ArgMatches;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write;
use variegate::answer::{PlacedRows, Responsibilities};
use variegate::data::Target;

use crate::commands::export;
use crate::exit::{Exit, Tone, say};
use crate::opened::Opened;
use crate::output::Destination;
use crate::{files, label_sets, options, output, tables};

/// Options that have no meaning here.
const OTHERS: [&str; 9] = ["quantiles", "rule", "nonempty", "given", "method", "interval", "predict-draws", "target", "by"];

pub(super) fn run(opened: &Opened, matches: &ArgMatches) -> Result<Exit> {
    label_sets::refuse(matches, &OTHERS, "were fitted to a target", opened.posterior.as_ref())?;
    let destination = Destination::of(matches)?;
    let file = files::data_file(matches)?;
    let mut data = opened.read(&file, matches)?;
    data.target = Target::None;
    let refused = || format!("cannot place the rows of `{}`", file.name());
    let which = export::tree_of(matches)?;
    let placed = opened.posterior.clusters()?.place(&data, which).with_context(refused)?;
    let shares = match options::flag(matches, "responsibilities") {
        true => Some(opened.posterior.responsibilities(&data).with_context(refused)?),
        false => None,
    };
    if placed.unknown > 0 {
        let cells = tables::count(placed.unknown, "cell has a code", "cells have codes");
        say(Tone::Warning, &tables::wrap(&format!("{cells} that the fit did not know; such cells count as missing"), 80, ""));
    }
    destination.table(|out| write_csv(out, &placed, shares.as_ref()))?;
    destination.say(|| format!("placed {}", tables::count(data.rows(), "row", "rows")));
    if destination.json {
        let mut value = json!({ "run": opened.run.path(), "rows": data.rows(), "out": destination.out, "levels": placed.levels });
        if destination.out.is_none() {
            value["placed"] = (0..data.rows()).map(|i| row_json(&placed, i)).collect();
            if let Some(shares) = &shares {
                let each: Vec<&[f64]> = shares.share.chunks(shares.names.len().max(1)).collect();
                value["responsibilities"] = json!({ "names": shares.names, "share": each });
            }
        }
        output::json(&value)?;
    }
    Ok(Exit::Success)
}

/// The node of a row at a level, or where it is new.
fn node(placed: &PlacedRows, row: usize, level: usize) -> String {
    match placed.path[row * placed.levels + level] {
        Some(node) => node.to_string(),
        None => format!("new below {}", placed.place[row]),
    }
}

/// `row,level_1,…,p_level_1,…`, then `share_NAME` of components: rows count from 1, nodes have the numbers of the tree.
fn write_csv(out: &mut dyn Write, placed: &PlacedRows, shares: Option<&Responsibilities>) -> Result<()> {
    let levels = placed.levels;
    let mut line = String::from("row");
    (1..=levels).for_each(|l| line += &format!(",level_{l}"));
    (1..=levels).for_each(|l| line += &format!(",p_level_{l}"));
    let names = shares.map_or(&[][..], |s| &s.names);
    names.iter().for_each(|name| line += &format!(",share_{}", output::csv_field(name)));
    writeln!(out, "{line}")?;
    for i in 0..placed.place.len() {
        line.clear();
        let _ = write!(line, "{}", i + 1);
        for level in 0..levels {
            let _ = write!(line, ",{}", node(placed, i, level));
        }
        for level in 1..=levels {
            let _ = write!(line, ",{}", placed.probability(i, level));
        }
        if let Some(shares) = shares {
            for v in &shares.share[i * names.len()..(i + 1) * names.len()] {
                let _ = write!(line, ",{v}");
            }
        }
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn row_json(placed: &PlacedRows, row: usize) -> Value {
    let levels = placed.levels;
    json!({
        "path": placed.path[row * levels..(row + 1) * levels],
        "probability": (1..=levels).map(|l| placed.probability(row, l)).collect::<Vec<_>>(),
        "new_below": placed.path[(row + 1) * levels - 1].is_none().then_some(placed.place[row]),
        "new": placed.new[row * levels..(row + 1) * levels],
        "through": placed.through[row * placed.nodes..(row + 1) * placed.nodes],
    })
}
