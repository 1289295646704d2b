//! `variegate predict`: class probabilities, distributions of real outcomes, or sets of labels, of new rows.

use anyhow::{Context, Result, bail};
use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use variegate::answer::{
    ClassProbabilities, LabelPrediction, LabelRule, Posterior, Predict, PredictDraws, RealPrediction, Responsibilities,
};
use variegate::data::{Dataset, Target};
use variegate_io::read::{ColumnSpec, ReadOptions};
use variegate_io::run_dir::RunDir;

use super::summary;
use crate::categories::{self, ByCategory};
use crate::data_file::STANDARD;
use crate::exit::{Exit, Tone, Usage, say};
use crate::opened::Opened;
use crate::scores::{Scorable, Scores, leave_new_labels};
use crate::{files, label_sets, options, output, tables, training};

mod clusters;

const EXAMPLES: &str = "\
Examples:
  variegate predict runs/a test.csv -o pred.csv
  variegate predict runs/a test.csv | head
  variegate predict runs/a test.csv --json > pred.json
  variegate predict runs/a test.csv --interval 0.9 -o pred.csv
  variegate predict runs/regression test.csv --quantiles 0.1,0.9
  variegate predict runs/a test.csv --by section -o pred.csv
  variegate predict runs/labels test.csv --rule micro-f1 --nonempty
  variegate predict runs/tree new.csv --responsibilities

Columns are found by their names; others are left out. Where the file also has
the target, scores are told on standard error; --by adds a table of them, on
standard output if the predictions go to a file.

--interval 0.9 adds lower_CLASS and upper_CLASS: with posterior probability 0.9
the probability of the class lies between them. For real outcomes lower and
upper are where the outcome itself lies.

Probabilities are averaged over posterior draws: for each row over as many,
evenly spaced, as bring their Monte Carlo error below 0.005; intervals and real
outcomes take all. --predict-draws says how many instead.

Of sets of labels the column `labels` has those that were chosen, separated by
semicolons, p_LABEL the probability of each, and `novelty` how sure it is that
the row is like none of the fit.

Of a tree of rows level_1, level_2, … are the nodes that the row passes through,
`new below 3` where it opens a branch below node 3, and p_level_1, … how
probable they are; `variegate export` shows the tree.";

pub fn command() -> Command {
    let method = Arg::new("method").long("method").value_name("WORD").help(
        "How predictions are made of the posterior; each model has its own words and the first is the default (a wrong one lists them)",
    );
    let quantiles = Arg::new("quantiles")
        .long("quantiles")
        .value_name("X,…")
        .value_delimiter(',')
        .value_parser(level)
        .default_value("0.05,0.5,0.95")
        .help("Quantiles of real outcomes to write");
    let interval = Arg::new("interval")
        .long("interval")
        .value_name("X")
        .value_parser(level)
        .help("Also write equal-tailed intervals that hold with this probability, such as 0.9");
    let draws = Arg::new("predict-draws")
        .long("predict-draws")
        .value_name("N")
        .value_parser(|text: &str| text.parse::<PredictDraws>().map_err(|e| e.to_string()))
        .help("Posterior draws to average over, evenly spaced, or `all` [default: enough for an error below 0.005]");
    let responsibilities = Arg::new("responsibilities")
        .long("responsibilities")
        .action(ArgAction::SetTrue)
        .help("Also write the share of each hidden component (subclass, expert, path)");
    let by_out = Arg::new("by-out")
        .long("by-out")
        .value_name("FILE")
        .value_parser(clap::value_parser!(PathBuf))
        .requires("by")
        .help("Write the table of --by there, as CSV")
        .help_heading("Output");
    Command::new("predict")
        .about("Predict new rows with a fitted model")
        .arg(summary::run_argument())
        .arg(files::file("File with the columns that the model was fitted to"))
        .args([method, quantiles, interval, draws, responsibilities])
        .args(label_sets::arguments())
        .arg(label_sets::given())
        .arg(super::export::tree())
        .args([target(), categories::argument()])
        .args(files::format_arguments())
        .args([
            options::out_file("Where to write predictions, as CSV [default: standard output]"),
            by_out,
            options::force("a file"),
            options::json(),
            options::quiet(),
        ])
        .after_help(EXAMPLES)
}

/// `--target` of rows whose truth is known.
pub fn target() -> Arg {
    Arg::new("target")
        .long("target")
        .value_name("COLUMN")
        .help("Column with the truth, for the scores [default: that of the fit, where the file has it]")
        .help_heading("Data")
}

fn level(text: &str) -> Result<f64, String> {
    let value = text.trim().parse::<f64>().ok().filter(|v| *v > 0.0 && *v < 1.0);
    value.ok_or_else(|| "it must be a number between 0 and 1".to_string())
}

pub fn run(matches: &ArgMatches) -> Result<Exit> {
    let (json, quiet, force) = (options::flag(matches, "json"), options::flag(matches, "quiet"), options::flag(matches, "force"));
    let out = options::out_of(matches);
    let by_out = matches.get_one::<PathBuf>("by-out");
    if out.is_none() && by_out.is_some_and(|path| path == Path::new(STANDARD)) {
        return Err(Usage("predictions and --by-out - both go to standard output: write one of them to a file".into()).into());
    }
    for path in out.into_iter().chain(by_out) {
        output::check_free(path, force)?;
    }
    let run = RunDir::read(summary::run_of(matches))?;
    let posterior = training::posterior(&run)?;
    if posterior.answers().clusters.is_some() {
        warn_incomplete(&run, "predictions");
        return clusters::run(&Opened { run, posterior }, matches);
    }
    label_sets::refuse(matches, &["tree"], "group rows into a tree", posterior.as_ref())?;
    if !posterior.predicts() {
        let path = run.path().display();
        bail!(
            "`{}` was fitted to rows alone and has no target to predict: `variegate transform {path} DATA` tells where rows lie among its \
             factors, `variegate score {path} DATA` how probable they are",
            posterior.family()
        );
    }
    let refuse = |names: &[&str], only: &str| label_sets::refuse(matches, names, only, posterior.as_ref());
    if posterior.outputs() == 0 {
        refuse(&["quantiles"], "were fitted to real outcomes")?;
    }
    if posterior.labels().is_empty() {
        refuse(&["rule", "nonempty", "given"], "predict sets of labels")?;
    } else {
        refuse(&["method", "interval", "predict-draws"], "predict classes or real outcomes")?;
    }
    categories::check(matches, posterior.as_ref())?;
    warn_incomplete(&run, "predictions");
    let reader = files::recorded(&run);
    let file = files::data_file(matches)?;
    let outcomes = outcome_names(posterior.outputs(), &reader);
    let mut data = files::read_prediction(&file, posterior.as_ref(), reader, matches)?;
    let how = Predict {
        method: matches.get_one::<String>("method").map_or("", String::as_str),
        draws: matches.get_one::<PredictDraws>("predict-draws").copied().unwrap_or_default(),
        level: matches.get_one::<f64>("interval").copied(),
    };
    let rule = label_sets::rule(matches);
    let levels: Vec<f64> = matches.get_many::<f64>("quantiles").map(|l| l.copied().collect()).unwrap_or_default();
    let refused = || format!("cannot predict `{}`", file.name());
    let categories = categories::take(matches, &mut data);
    if rule.given && matches!(data.target, Target::None) {
        bail!("`{}` has no labels that could inform others: name their columns with --target COLUMN,…", file.name());
    }
    let new_labels = leave_new_labels(&mut data, posterior.labels());
    let scorable = Scorable::of(&data, posterior.classes());
    let subset = scorable.subset(&data, posterior.classes());
    if subset.is_some() {
        // a truth that cannot be scored is not shown to the model either
        data.target = Target::None;
    }
    let scored = subset.as_ref().unwrap_or(&data);
    let (values, mut scores) = predict(posterior.as_ref(), &data, outcomes.clone(), levels, &how, &rule).with_context(refused)?;
    // of the rows that can be scored, where they are not all
    let mut again = None;
    if let Some(rows) = scorable.rows.as_ref().filter(|rows| !rows.is_empty()) {
        let found = predict(posterior.as_ref(), scored, outcomes, Vec::new(), &how, &rule).with_context(refused)?;
        scores = found.1;
        again = Some((found.0, rows));
    }
    let by = match (&values, &categories) {
        (Values::Classes(found), Some((name, categories))) => {
            let (found, categories) = match &again {
                Some((Values::Classes(found), rows)) => (found, categories.take(rows)),
                _ => (found, categories.clone()),
            };
            let mut by = ByCategory::new(scored, &(name.clone(), categories), &file.name())?;
            by.add(run.path().display().to_string(), found, posterior.classes(), scored);
            Some(by)
        }
        _ => None,
    };
    if let (Some(by), Some(to)) = (&by, by_out) {
        output::to_file(to, force, |file| by.write_csv(file))?;
    }
    let shares = match options::flag(matches, "responsibilities") {
        false => None,
        true => {
            // what is not known of new rows may not decide where they belong
            if !rule.given {
                data.target = Target::None;
            }
            Some(posterior.responsibilities(&data).with_context(refused)?)
        }
    };
    let table = Predictions { posterior: posterior.as_ref(), values, shares, rule: &rule };
    if let Some(out) = out {
        output::to_file(out, force, |file| table.write_csv(file))?;
    }
    match (out, json) {
        (Some(out), true) => {
            let mut value = json!({
                "run": run.path(), "rows": data.rows(), "out": out, "classes": posterior.classes(), "scores": scores.map(|s| s.as_json()),
                "by": by.as_ref().map(ByCategory::as_json),
            });
            if !posterior.labels().is_empty() {
                value["labels"] = json!(posterior.labels());
            }
            output::json(&value)?
        }
        (Some(out), false) if !quiet => eprintln!("predicted {} into {}", tables::count(data.rows(), "row", "rows"), out.display()),
        (None, true) => {
            let mut value = table.as_json(scores);
            value["by"] = json!(by.as_ref().map(ByCategory::as_json));
            output::json(&value)?;
        }
        (None, false) => {
            let mut csv = Vec::new();
            table.write_csv(&mut csv)?;
            output::to_stdout(&String::from_utf8_lossy(&csv))?;
        }
        _ => {}
    }
    if let (Some(scores), false) = (&scores, quiet) {
        eprintln!("{}", scores.line());
    }
    for remark in scorable.remark.iter().chain(&new_labels) {
        say(Tone::Warning, &tables::wrap(remark, 80, ""));
    }
    match by {
        Some(by) if out.is_some() && !json && by_out.is_none_or(|path| path != Path::new(STANDARD)) => {
            output::to_stdout(&by.render(tables::stdout_width()))?
        }
        Some(by) if out.is_none() && !json && !quiet => eprint!("{}", by.render(Some(80))),
        _ => {}
    }
    Ok(Exit::Success)
}

/// Says that a run is not complete, where it is not.
pub fn warn_incomplete(run: &RunDir, what: &str) {
    let status = run.status();
    if !status.complete {
        let state = if status.running { "is still running" } else { "is not complete" };
        say(Tone::Warning, &format!("the run {state} ({} saved): {what} are those of what there is so far", summary::progress(run)));
    }
}

/// What is predicted of rows.
enum Values {
    Classes(ClassProbabilities),
    /// The two quantiles after those of `levels` are the ends of intervals, where they were asked for.
    Real {
        outcomes: Vec<String>,
        levels: Vec<f64>,
        found: RealPrediction,
    },
    Labels(LabelPrediction),
}

fn predict(
    posterior: &dyn Posterior,
    data: &Dataset<'_>,
    outcomes: Vec<String>,
    levels: Vec<f64>,
    how: &Predict<'_>,
    rule: &LabelRule<'_>,
) -> Result<(Values, Option<Scores>)> {
    if !posterior.labels().is_empty() {
        let found = posterior.predict_labels(data, rule)?;
        // what was given cannot be scored
        let scores = if rule.given { None } else { Scores::of_labels(&found, data, posterior.labels()) };
        return Ok((Values::Labels(found), scores));
    }
    if posterior.outputs() > 0 {
        let ends = how.quantiles()?.map(|(lower, upper)| [lower, upper]);
        let all: Vec<f64> = levels.iter().chain(ends.iter().flatten()).copied().collect();
        let found = posterior.predict_real_with(data, &all, &Predict { level: None, ..*how })?;
        let scores = Scores::of_real(&found, data);
        return Ok((Values::Real { outcomes, levels, found }, scores));
    }
    let found = posterior.predict_with(data, how)?;
    let scores = Scores::of_classes(&found, data, posterior.classes());
    Ok((Values::Classes(found), scores))
}

/// Names of real outcomes: those of the columns of the fit where they are known, else numbers.
fn outcome_names(outputs: usize, fitted: &ReadOptions) -> Vec<String> {
    match &fitted.target {
        Some(ColumnSpec::Columns(names) | ColumnSpec::File { columns: names, .. })
            if names.len() == outputs && !names.iter().any(|n| n.contains('*')) =>
        {
            names.clone()
        }
        _ => (1..=outputs).map(|q| q.to_string()).collect(),
    }
}

struct Predictions<'a> {
    posterior: &'a dyn Posterior,
    values: Values,
    shares: Option<Responsibilities>,
    rule: &'a LabelRule<'a>,
}

/// A column of a matrix that is kept row by row.
struct Column<'a> {
    name: String,
    values: &'a [f64],
    at: usize,
    width: usize,
}

impl Predictions<'_> {
    /// `row,prediction,p_a,p_b,sd_a,sd_b` or `row,mean,sd,q0.05,q0.5,q0.95` (with `_NAME` where there are several outcomes), then with
    /// intervals `lower_a,lower_b,upper_a,upper_b` or `lower,upper`; or `row,labels,p_a,p_b,novelty`, with `score_a,score_b` before
    /// `novelty` where labels are not ranked by their probabilities. Then `share_NAME` of hidden components: rows count from 1, numbers are
    /// written to the last digit.
    fn write_csv(&self, out: &mut dyn Write) -> Result<()> {
        let (classes, labels) = (self.posterior.classes(), self.posterior.labels());
        let (heading, words) = match &self.values {
            Values::Classes(found) => {
                ("row,prediction", Some(found.best(classes.len()).into_iter().map(|best| output::csv_field(&classes[best])).collect()))
            }
            Values::Labels(found) => {
                let sets = label_sets::written(found, labels);
                ("row,labels", Some(sets.iter().map(|set| output::csv_field(set)).collect::<Vec<_>>()))
            }
            Values::Real { .. } => ("row", None),
        };
        let columns = self.columns();
        let mut line = String::from(heading);
        for column in &columns {
            let _ = write!(line, ",{}", output::csv_field(&column.name));
        }
        writeln!(out, "{line}")?;
        let rows = columns.first().map_or(0, |c| c.values.len() / c.width);
        for i in 0..rows {
            line.clear();
            let _ = write!(line, "{}", i + 1);
            if let Some(words) = &words {
                let _ = write!(line, ",{}", words[i]);
            }
            for c in &columns {
                let _ = write!(line, ",{}", c.values[i * c.width + c.at]);
            }
            writeln!(out, "{line}")?;
        }
        Ok(())
    }

    fn columns(&self) -> Vec<Column<'_>> {
        let mut all = Vec::new();
        fn add<'b>(all: &mut Vec<Column<'b>>, names: &[String], name: impl Fn(&String) -> String, values: &'b [f64]) {
            let width = names.len();
            all.extend(names.iter().enumerate().map(|(at, n)| Column { name: name(n), values, at, width }));
        }
        match &self.values {
            Values::Classes(found) => {
                let classes = self.posterior.classes();
                add(&mut all, classes, |c| format!("p_{c}"), &found.probability);
                if let Some(deviation) = &found.deviation {
                    add(&mut all, classes, |c| format!("sd_{c}"), deviation);
                }
                if let Some(interval) = &found.interval {
                    add(&mut all, classes, |c| format!("lower_{c}"), &interval.lower);
                    add(&mut all, classes, |c| format!("upper_{c}"), &interval.upper);
                }
            }
            Values::Real { outcomes, levels, found } => {
                // one outcome needs no name
                let named = |what: String| move |n: &String| if outcomes.len() == 1 { what.clone() } else { format!("{what}_{n}") };
                add(&mut all, outcomes, named("mean".into()), &found.mean);
                add(&mut all, outcomes, named("sd".into()), &found.deviation);
                for (level, quantiles) in levels.iter().zip(&found.quantiles) {
                    add(&mut all, outcomes, named(format!("q{level}")), quantiles);
                }
                for (end, quantiles) in ["lower", "upper"].iter().zip(&found.quantiles[levels.len()..]) {
                    add(&mut all, outcomes, named((*end).into()), quantiles);
                }
            }
            Values::Labels(found) => {
                let labels = self.posterior.labels();
                add(&mut all, labels, |l| format!("p_{l}"), &found.probability);
                if found.score != found.probability {
                    add(&mut all, labels, |l| format!("score_{l}"), &found.score);
                }
                all.push(Column { name: "novelty".into(), values: &found.novelty, at: 0, width: 1 });
            }
        }
        if let Some(shares) = &self.shares {
            add(&mut all, &shares.names, |n| format!("share_{n}"), &shares.share);
        }
        all
    }

    fn as_json(&self, scores: Option<Scores>) -> Value {
        let rows = |values: &[f64], width: usize| values.chunks(width.max(1)).map(|row| json!(row)).collect::<Vec<_>>();
        let mut value = match &self.values {
            Values::Classes(found) => {
                let classes = self.posterior.classes();
                let best = found.best(classes.len());
                let ends = |values: &[f64]| rows(values, classes.len());
                json!({
                    "classes": classes,
                    "prediction": best.iter().map(|&b| &classes[b]).collect::<Vec<_>>(),
                    "probability": rows(&found.probability, classes.len()),
                    "deviation": found.deviation.as_ref().map(|d| rows(d, classes.len())),
                    "interval": found.interval.as_ref().map(|i| json!({ "lower": ends(&i.lower), "upper": ends(&i.upper) })),
                })
            }
            Values::Real { outcomes, levels, found } => {
                let width = outcomes.len();
                let quantiles: Map<String, Value> =
                    levels.iter().zip(&found.quantiles).map(|(l, q)| (l.to_string(), json!(rows(q, width)))).collect();
                json!({
                    "outcomes": outcomes,
                    "mean": rows(&found.mean, width),
                    "deviation": rows(&found.deviation, width),
                    "quantiles": quantiles,
                    "interval": match &found.quantiles[levels.len()..] {
                        [lower, upper] => json!({ "lower": rows(lower, width), "upper": rows(upper, width) }),
                        _ => Value::Null,
                    },
                })
            }
            Values::Labels(found) => {
                let labels = self.posterior.labels();
                json!({
                    "labels": labels,
                    "rule": self.rule.word(self.posterior.rules()).ok(),
                    "nonempty": self.rule.nonempty,
                    "prediction": label_sets::chosen(found, labels),
                    "probability": rows(&found.probability, labels.len()),
                    "score": (found.score != found.probability).then(|| rows(&found.score, labels.len())),
                    "novelty": found.novelty,
                })
            }
        };
        if let Some(shares) = &self.shares {
            value["responsibilities"] = json!({ "names": shares.names, "share": rows(&shares.share, shares.names.len()) });
        }
        value["scores"] = json!(scores.map(|s| s.as_json()));
        value
    }
}
