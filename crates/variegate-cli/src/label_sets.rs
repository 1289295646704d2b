//! Sets of labels on the command line: how they are chosen, and how they are written.

use anyhow::Result;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches};
use variegate::answer::{LabelPrediction, LabelRule, Posterior};

use crate::exit::Usage;
use crate::options;

/// Between the labels of a set in a table.
const BETWEEN: &str = ";";
const HEADING: &str = "Sets of labels";

/// `--rule` and `--nonempty`.
pub fn arguments() -> [Arg; 2] {
    [
        Arg::new("rule")
            .long("rule")
            .value_name("WORD")
            .help(
                "How labels are chosen: hamming (at least as likely as not), micro-f1 (one threshold for all rows), subset (the likeliest \
                 set) or cardinality (as many as are expected) [default: the first that the model has]",
            )
            .help_heading(HEADING),
        Arg::new("nonempty")
            .long("nonempty")
            .action(ArgAction::SetTrue)
            .help("Give rows without a label the one that is ranked first")
            .help_heading(HEADING),
    ]
}

/// `--given`.
pub fn given() -> Arg {
    Arg::new("given")
        .long("given")
        .action(ArgAction::SetTrue)
        .help("Let labels that the file knows of a row inform its others; then nothing is scored")
        .help_heading(HEADING)
}

/// The rule that was asked for.
pub fn rule(matches: &ArgMatches) -> LabelRule<'_> {
    LabelRule {
        rule: matches.get_one::<String>("rule").map_or("", String::as_str),
        nonempty: options::flag(matches, "nonempty"),
        given: options::flag(matches, "given"),
    }
}

/// Refuses those of these options that were given, which a run of another kind has no use for; `only` says what they are for.
pub fn refuse(matches: &ArgMatches, names: &[&str], only: &str, posterior: &dyn Posterior) -> Result<()> {
    let typed = |name: &&&str| matches.value_source(name) == Some(ValueSource::CommandLine);
    match names.iter().find(typed) {
        None => Ok(()),
        Some(name) => Err(Usage(format!("--{name} is for runs that {only}; this one {}", predicts(posterior))).into()),
    }
}

/// What a posterior predicts, in words that end a sentence.
fn predicts(posterior: &dyn Posterior) -> &'static str {
    match (posterior.outputs(), posterior.labels(), posterior.predicts()) {
        (0, [], true) => "predicts classes",
        (0, [], false) => "was fitted to rows alone",
        (0, _, _) => "predicts sets of labels",
        _ => "predicts real outcomes",
    }
}

/// Names of the labels that were chosen for each row.
pub fn chosen<'a>(found: &LabelPrediction, labels: &'a [String]) -> Vec<Vec<&'a str>> {
    let row = |chosen: &[bool]| labels.iter().zip(chosen).filter(|(_, c)| **c).map(|(l, _)| l.as_str()).collect();
    found.chosen.chunks_exact(labels.len().max(1)).map(row).collect()
}

/// The same as text, a set after the other.
pub fn written(found: &LabelPrediction, labels: &[String]) -> Vec<String> {
    chosen(found, labels).into_iter().map(|set| set.join(BETWEEN)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_written_with_their_names() {
        let labels = ["sea", "sun", "town"].map(String::from);
        let found = LabelPrediction { chosen: vec![true, false, true, false, false, false], ..LabelPrediction::default() };
        assert_eq!(written(&found, &labels), ["sea;town", ""]);
    }

    #[test]
    fn rules_are_read() {
        let command = clap::Command::new("t").args(arguments()).arg(given());
        let matches = command.get_matches_from(["t", "--rule", "subset", "--nonempty"]);
        assert_eq!(rule(&matches), LabelRule { rule: "subset", nonempty: true, given: false });
    }
}
