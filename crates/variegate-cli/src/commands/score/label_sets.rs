//! How well sets of labels of new rows are chosen, ranked and weighed.

use anyhow::{Context, Result, bail};
use clap::ArgMatches;
use serde_json::json;
use std::io::Write;
use std::path::Path;
use variegate::answer::{LabelPrediction, known_labels};
use variegate::score::LabelScores;

use crate::data_file::STANDARD;
use crate::exit::{Exit, Tone, Usage, say};
use crate::opened::Opened;
use crate::scores::{labels_json, leave_new_labels};
use crate::tables::{self, Table};
use crate::{files, label_sets, output};

/// What models of rows alone are told.
const NOT_HERE: [&str; 10] =
    ["completion", "perplexity", "sources", "label", "among", "among-label", "temperatures", "runs", "draws", "seed"];

/// What each score says.
const MEANINGS: [(&str, &str); 12] = [
    ("hamming_loss", "share of entries (a row and a label) that are wrong"),
    ("subset_accuracy", "share of rows whose set is exactly right"),
    ("example_f1", "mean F1 of a row"),
    ("jaccard", "mean share of labels in both sets among those in either"),
    ("micro_f1", "F1 of all entries together"),
    ("macro_f1", "mean F1 of a label"),
    ("ranking_loss", "share of pairs of a true and a false label in wrong order"),
    ("one_error", "share of rows whose top label is wrong"),
    ("coverage", "labels to go down the ranking until all true ones are found"),
    ("average_precision", "mean share of true labels among those ranked as high as one"),
    ("log_loss", "mean of -ln p of an entry"),
    ("calibration_error", "distance of probabilities and shares, in ten bins"),
];

pub(super) fn run(opened: &Opened, matches: &ArgMatches) -> Result<Exit> {
    let posterior = opened.posterior.as_ref();
    label_sets::refuse(matches, &NOT_HERE, "were fitted to rows alone", posterior)?;
    let destination = output::Destination::of(matches)?;
    let to_stdout = matches.get_one::<std::path::PathBuf>("out").is_some_and(|out| out == Path::new(STANDARD));
    if destination.json && to_stdout {
        return Err(Usage("--json and -o - both go to standard output: leave one of them out".into()).into());
    }
    let file = files::data_file(matches)?;
    let mut data = files::read_prediction(&file, posterior, files::recorded(&opened.run), matches)?;
    let remark = leave_new_labels(&mut data, posterior.labels());
    let refused = || format!("cannot score `{}`", file.name());
    let rule = label_sets::rule(matches);
    let found = posterior.predict_labels(&data, &rule).with_context(refused)?;
    let labels = posterior.labels();
    let Ok(truth) = known_labels(&data, labels) else {
        bail!("`{}` has no labels to score by: name their columns with --target COLUMN,…", file.name());
    };
    let scores = LabelScores::of(&found, &truth, labels.len());
    if scores.known_entries == 0 {
        bail!("`{}` has no label that is known: give rows with their labels", file.name());
    }
    if let Some(remark) = remark {
        say(Tone::Warning, &tables::wrap(&remark, 80, ""));
    }
    let word = rule.word(posterior.rules())?;
    if destination.out.is_some() || to_stdout {
        destination.table(|out| write_csv(out, &found, &truth, labels.len()))?;
    }
    if destination.json {
        let mut value =
            json!({ "run": opened.run.path(), "score": "labels", "rule": word, "nonempty": rule.nonempty, "out": destination.out });
        if let (Some(into), Some(all)) = (value.as_object_mut(), labels_json(&scores).as_object()) {
            into.extend(all.clone());
        }
        output::json(&value)?;
        return Ok(Exit::Success);
    }
    let text = text(&scores, word);
    if to_stdout {
        eprint!("{text}")
    } else {
        output::to_stdout(&text)?
    }
    destination.say(|| "wrote the figures of each row".into());
    Ok(Exit::Success)
}

fn text(scores: &LabelScores, rule: &str) -> String {
    let mut table = Table::new(["", "score", "what it is"]).prose();
    for ((name, value), (_, meaning)) in scores.figures().into_iter().zip(MEANINGS) {
        table.row([name.replace('_', " "), value.map_or_else(|| "-".into(), tables::number), meaning.into()]);
    }
    let whole = match scores.known_rows {
        all if all == scores.rows => String::new(),
        known => format!(
            " Labels are all known of {}, and only these count where rows are scored; elsewhere {} count.",
            tables::count(known, "row", "rows"),
            tables::count(scores.known_entries, "known entry", "known entries")
        ),
    };
    let note = format!("Over {}, labels chosen by the rule `{rule}`.{whole}", tables::count(scores.rows, "row", "rows"));
    format!("{}\n{}\n", table.render(tables::stdout_width()), tables::wrap(&note, 80, ""))
}

/// `row` and the scores that one row has; empty where it has none.
fn write_csv(out: &mut dyn Write, found: &LabelPrediction, truth: &[i8], labels: usize) -> Result<()> {
    const OF_A_ROW: [&str; 9] = [
        "hamming_loss",
        "subset_accuracy",
        "example_f1",
        "jaccard",
        "ranking_loss",
        "one_error",
        "coverage",
        "average_precision",
        "log_loss",
    ];
    writeln!(out, "row,{}", OF_A_ROW.join(","))?;
    for (i, truth) in truth.chunks_exact(labels.max(1)).enumerate() {
        let at = i * labels..(i + 1) * labels;
        let row = LabelPrediction {
            probability: found.probability[at.clone()].to_vec(),
            score: found.score[at.clone()].to_vec(),
            chosen: found.chosen[at].to_vec(),
            novelty: Vec::new(),
        };
        let figures = LabelScores::of(&row, truth, labels).figures();
        let cell = |name: &&str| figures.iter().find(|f| f.0 == *name).and_then(|f| f.1).map_or_else(String::new, |v| v.to_string());
        writeln!(out, "{},{}", i + 1, OF_A_ROW.iter().map(cell).collect::<Vec<_>>().join(","))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_score_is_explained_and_told_a_row() {
        let p = vec![0.75, 0.25, 0.75, 0.25];
        let found = LabelPrediction { probability: p.clone(), score: p, chosen: vec![true, false, true, false], novelty: vec![0.0; 2] };
        let scores = LabelScores::of(&found, &[1, 0, 0, -1], 2);
        assert_eq!(scores.figures().map(|f| f.0), MEANINGS.map(|m| m.0));
        let told = text(&scores, "hamming");
        assert!(told.contains("hamming loss") && told.contains("all known of 1 row") && told.contains("3 known entries"), "{told}");
        let mut csv = Vec::new();
        write_csv(&mut csv, &found, &[1, 0, 0, -1], 2).unwrap();
        let csv = String::from_utf8(csv).unwrap();
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines[1].split(',').take(4).collect::<Vec<_>>(), ["1", "0", "1", "1"]);
        // of a row that is not known as a whole, entries alone count
        assert_eq!(lines[2].split(',').take(3).collect::<Vec<_>>(), ["2", "1", ""]);
    }
}
