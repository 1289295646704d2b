//! `variegate compare`: the structures that one or several runs have tried, with what speaks for and against each, and how well they
//! predict held-out rows, in all and by category.

use anyhow::{Context, Result, bail};
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint, value_parser};
use serde_json::{Value, json};
use std::path::PathBuf;
use variegate::answer::{Posterior, Selection};
use variegate_io::run_dir::RunDir;

use super::predict;
use crate::categories::{self, ByCategory};
use crate::data_file::DataFile;
use crate::exit::{Exit, Tone, say};
use crate::scores::{Scorable, Scores, leave_new_labels};
use crate::selection::{self, Row, Structures};
use crate::validation::Kept;
use crate::{files, options, output, tables, training};

const EXAMPLES: &str = "\
Examples:
  variegate compare runs/a
  variegate compare runs/a --test test.csv
  variegate compare runs/a runs/b --test test.csv --target label --json
  variegate compare runs/a runs/b --test test.csv --by section

* marks what each run has chosen, by the figure in the first column (larger is
better). Figures that do not fit the terminal are left out; a pipe and --json
get all of them. Runs of different models can be compared on held-out rows:
--by shows their accuracies with 95 % intervals, of two runs also their paired
difference.";

/// Settings that bounds depend on beside the model: those of runs that differ here cannot be compared.
const SAME: [&str; 4] = ["bound", "covariance", "precision", "class_weight"];

pub fn command() -> Command {
    let runs = Arg::new("runs")
        .value_name("RUN")
        .required(true)
        .num_args(1..)
        .action(ArgAction::Append)
        .value_parser(value_parser!(PathBuf))
        .value_hint(ValueHint::DirPath)
        .help("Folders of runs, as `fit` wrote them");
    let test = Arg::new("test")
        .long("test")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .value_hint(ValueHint::FilePath)
        .help("File of held-out rows with their target: each structure is scored on them");
    let with_test = |arg: Arg| arg.requires("test");
    Command::new("compare")
        .about("Compare the structures that runs have tried, and runs on held-out rows")
        .args([runs, test, with_test(predict::target()), with_test(categories::argument())])
        .args(files::format_arguments().map(with_test))
        .args([options::json(), options::quiet()])
        .after_help(EXAMPLES)
}

/// What a run has tried.
struct Tried {
    path: PathBuf,
    run: RunDir,
    /// The one that it chose.
    posterior: Box<dyn Posterior>,
    /// Nothing for a run that has tried one structure alone.
    selection: Option<Selection>,
    /// How its settings were chosen.
    validated: Option<Kept>,
    /// Of every structure, in the order of the selection; nothing without held-out rows.
    scores: Option<Vec<Scores>>,
}

pub fn run(matches: &ArgMatches) -> Result<Exit> {
    let (json, quiet) = (options::flag(matches, "json"), options::flag(matches, "quiet"));
    let paths: Vec<PathBuf> = matches.get_many::<PathBuf>("runs").map(|p| p.cloned().collect()).unwrap_or_default();
    let test = matches.get_one::<PathBuf>("test");
    let mut all = paths.into_iter().map(|p| Tried::open(p, test.is_some())).collect::<Result<Vec<_>>>()?;
    check_alike(&all, test.is_some())?;
    let mut by = None;
    if let Some(test) = test {
        let names = short_names(&all);
        let test = DataFile::of(test)?;
        for (tried, name) in all.iter_mut().zip(names) {
            tried.score(&test, matches, name, &mut by)?;
        }
    }
    let warnings = warnings(&all);
    // standard error comes first: who reads the table should know
    warnings.iter().for_each(|w| say(Tone::Warning, &tables::wrap(w, 80, "")));
    let best = if warnings.is_empty() { best(&all) } else { None };
    if json {
        let runs: Vec<Value> = all.iter().map(Tried::as_json).collect();
        let best = best.map(|(run, at)| json!({ "run": all[run].path, "structure": all[run].name(at) }));
        output::json(&json!({ "runs": runs, "best": best, "warnings": warnings, "by": by.as_ref().map(ByCategory::as_json) }))?;
        return Ok(Exit::Success);
    }
    let table = side_by_side(&all);
    let (mut text, left_out) = if table.headings.is_empty() { Default::default() } else { table.render(tables::stdout_width()) };
    for tried in &all {
        let run = if all.len() > 1 { format!("{}: ", tried.path.display()) } else { String::new() };
        if let Some(selection) = &tried.selection {
            text += &format!("\n{}.\n", tables::wrap(&format!("{run}{}", selection.reason.trim_end_matches('.')), 79, ""));
        }
        if let Some(validated) = &tried.validated {
            let gap = if text.is_empty() { "" } else { "\n" };
            let run = if run.is_empty() { run } else { format!("{run}\n") };
            text += &format!("{gap}{run}{}\n", validated.text().trim_end());
        }
    }
    if let Some(by) = &by {
        text += &format!("\n{}", by.render(tables::stdout_width()));
    }
    if let (Some((run, at)), true) = (best, all.len() > 1) {
        let (tried, name) = (&all[run], all[run].name(at));
        let criterion = tried.selection.as_ref().map_or("", |s| &s.criterion);
        let value = tried.value(at).map_or_else(String::new, |v| format!(": its {criterion} is {v:.3}"));
        text += &format!("\n{}.\n", tables::wrap(&format!("Best of all: {name} of {}{value}", tried.path.display()), 79, ""));
    }
    output::to_stdout(&text)?;
    if !quiet && !left_out.is_empty() {
        eprintln!("\n{}", tables::wrap(&format!("Columns omitted to fit the terminal (--json has all): {}", left_out.join(", ")), 80, ""));
    }
    Ok(Exit::Success)
}

impl Tried {
    /// Opens a run that has something to compare; with held-out rows every run has.
    fn open(path: PathBuf, test: bool) -> Result<Self> {
        let run = RunDir::read(&path)?;
        let posterior = training::posterior(&run).with_context(|| format!("`{}` cannot be compared", path.display()))?;
        let validated = Kept::of(&run)?;
        match posterior.selection() {
            None if test || validated.is_some() => Ok(Self { path, run, posterior, selection: None, validated, scores: None }),
            selection @ Some(_) => Ok(Self { path, run, posterior, selection, validated, scores: None }),
            None if run.status().complete => bail!(
                "`{}` is a run of `{}` by {}, which has no structures to compare: compare it on held-out rows with --test FILE",
                path.display(),
                run.record().family,
                run.record().program
            ),
            None => bail!("`{0}` has not fitted a structure to its end yet: go on with `variegate resume {0}`", path.display()),
        }
    }

    /// Scores every structure on held-out rows; by category the one that was chosen.
    fn score(&mut self, test: &DataFile, matches: &ArgMatches, name: String, by: &mut Option<ByCategory>) -> Result<()> {
        if !self.posterior.predicts() {
            bail!(
                "`{0}` is a run of `{1}`, which has no target to predict: score it with `variegate score {0} {2} --completion`",
                self.path.display(),
                self.posterior.family(),
                test.name()
            );
        }
        categories::check(matches, self.posterior.as_ref())?;
        let reader = files::recorded(&self.run);
        let mut data = files::read_prediction(test, self.posterior.as_ref(), reader, matches)?;
        let new_labels = leave_new_labels(&mut data, self.posterior.labels());
        let scorable = Scorable::of(&data, self.posterior.classes());
        for remark in scorable.remark.iter().chain(&new_labels) {
            say(Tone::Warning, &tables::wrap(&format!("`{}`: {remark}", self.path.display()), 80, ""));
        }
        if scorable.rows.as_ref().is_some_and(Vec::is_empty) {
            bail!("`{}` has no row that can be scored: give rows with their target", test.name());
        }
        data = scorable.subset(&data, self.posterior.classes()).unwrap_or(data);
        if let Some(categories) = categories::take(matches, &mut data) {
            if by.is_none() {
                *by = Some(ByCategory::new(&data, &categories, &test.name())?);
            }
            let found = self.posterior.predict(&data, "")?;
            by.iter_mut().for_each(|by| by.add(name.clone(), &found, self.posterior.classes(), &data));
        }
        let candidates = training::candidates(&self.run)?;
        let one = |posterior: &dyn Posterior| -> Result<Scores> {
            let scores = Scores::of(posterior, &data)?;
            scores.with_context(|| format!("`{}` has no target to score by: name its column with --target COLUMN", test.name()))
        };
        let scores = if candidates.is_empty() {
            vec![one(self.posterior.as_ref())?]
        } else {
            candidates.iter().map(|c| one(c.as_ref())).collect::<Result<_>>()?
        };
        let told = self.selection.as_ref().map_or(1, |s| s.rows.len());
        if scores.len() != told {
            bail!("`{}` tells of {told} structures and keeps {}", self.path.display(), scores.len());
        }
        self.scores = Some(scores);
        Ok(())
    }

    /// The figure that decides.
    fn value(&self, at: usize) -> Option<f64> {
        let selection = self.selection.as_ref()?;
        let column = selection.headings.iter().position(|h| *h == selection.criterion)?;
        selection.rows[at].1[column]
    }

    /// Name of a structure; a run that has one alone is called by its program.
    fn name(&self, at: usize) -> String {
        self.selection.as_ref().map_or_else(|| self.run.record().program.clone(), |s| s.rows[at].0.clone())
    }

    /// Its structures as a table.
    fn structures(&self) -> Structures {
        match &self.selection {
            Some(selection) => Structures::of(selection),
            None => {
                let only = Row { name: self.name(0), chosen: true, figures: Vec::new() };
                Structures { what: "structure", headings: Vec::new(), rows: vec![only] }
            }
        }
    }

    fn as_json(&self) -> Value {
        let mut value = match &self.selection {
            Some(selection) => selection::as_json(selection),
            None => json!({ "structures": [{ "structure": self.name(0), "chosen": true }] }),
        };
        value["cross_validation"] = json!(self.validated.as_ref().map(Kept::as_json));
        value["run"] = json!(self.path);
        for (i, scores) in self.scores.iter().flatten().enumerate() {
            value["structures"][i]["test"] = scores.as_json();
        }
        value
    }
}

/// Refuses runs whose figures have nothing to do with one another.
fn check_alike(all: &[Tried], test: bool) -> Result<()> {
    let Some((first, others)) = all.split_first() else { return Ok(()) };
    for other in others {
        let (a, b) = (first.path.display(), other.path.display());
        let (f, g) = (&first.run.record().family, &other.run.record().family);
        if f != g && !test {
            bail!("`{a}` is a run of `{f}` and `{b}` one of `{g}`: compare runs of different models on held-out rows with --test FILE");
        }
        let target = |t: &Tried| (t.posterior.classes().to_vec(), t.posterior.labels().to_vec(), t.posterior.outputs());
        if target(first) != target(other) {
            bail!("`{a}` and `{b}` were fitted to different targets: only runs that predict the same can be compared");
        }
    }
    Ok(())
}

/// Why bounds of these runs may not be compared.
fn warnings(all: &[Tried]) -> Vec<String> {
    let mut warnings = Vec::new();
    for tried in all.iter().filter(|t| !t.run.status().complete) {
        warnings.push(format!("{0} is not complete: go on with `variegate resume {0}`", tried.path.display()));
    }
    let Some(first) = all.first() else { return warnings };
    if !bounded(all) {
        return warnings;
    }
    for name in SAME {
        let setting = |t: &Tried| options::shown(t.run.record().model.get(name).unwrap_or(&Value::Null));
        if let Some(other) = all.iter().find(|t| setting(t) != setting(first)) {
            warnings.push(format!(
                "`{name}` is {} in {} and {} in {}: bounds of these runs cannot be compared with each other (held-out scores can)",
                setting(first),
                first.path.display(),
                setting(other),
                other.path.display()
            ));
        }
    }
    if let Some(other) = all.iter().find(|t| t.run.record().data.differs(&first.run.record().data)) {
        warnings.push(format!(
            "{} and {} were fitted to different data: their bounds can be compared only if the rows and their targets are the same",
            first.path.display(),
            other.path.display()
        ));
    }
    let criterion = |t: &Tried| t.selection.as_ref().map(|s| s.criterion.clone()).unwrap_or_default();
    if let Some(other) = all.iter().find(|t| criterion(t) != criterion(first)) {
        let (a, b) = (first.path.display(), other.path.display());
        warnings.push(format!("{a} chose by {} and {b} by {}", criterion(first), criterion(other)));
    }
    warnings
}

/// Whether the runs are of one family and each tells what decided: then there is a best of all.
fn bounded(all: &[Tried]) -> bool {
    let family = |t: &Tried| t.run.record().family.clone();
    all.iter().all(|t| t.selection.is_some() && family(t) == family(&all[0]))
}

/// The best structure of all runs by the figure that decides.
fn best(all: &[Tried]) -> Option<(usize, usize)> {
    if !bounded(all) {
        return None;
    }
    let count = |t: &Tried| t.selection.as_ref().map_or(0, |s| s.rows.len());
    let places = all.iter().enumerate().flat_map(|(run, t)| (0..count(t)).map(move |at| (run, at)));
    places
        .filter_map(|(run, at)| Some((run, at, all[run].value(at)?)))
        .fold(None, |best, (run, at, value)| match best {
            Some((_, _, known)) if known >= value => best,
            _ => Some((run, at, value)),
        })
        .map(|(run, at, _)| (run, at))
}

/// One table of all runs: what decides, the scores of held-out rows, all other figures.
fn side_by_side(all: &[Tried]) -> Structures {
    let mut out = Structures { what: "structure", headings: Vec::new(), rows: Vec::new() };
    let short = short_names(all);
    for (tried, run) in all.iter().zip(&short) {
        let own = tried.structures();
        let place = own.headings.len().min(1);
        let scores = |at: usize| tried.scores.as_ref().map(|s| s[at].figures());
        let mut headings = own.headings.clone();
        headings.splice(place..place, scores(0).iter().flatten().map(|(name, _)| format!("test {name}")));
        for heading in &headings {
            if !out.headings.contains(heading) {
                out.headings.push(heading.clone());
            }
        }
        for (at, row) in own.rows.into_iter().enumerate() {
            let mut figures = row.figures;
            figures.splice(place..place, scores(at).iter().flatten().map(|(_, value)| Some(*value)));
            let found = |heading: &String| headings.iter().position(|h| h == heading).and_then(|j| figures[j]);
            let name = if all.len() > 1 { format!("{run} {}", row.name) } else { row.name };
            out.rows.push(Row { name, chosen: row.chosen, figures: out.headings.iter().map(found).collect() });
        }
    }
    // headings that came later are not known of the first
    let wide = out.headings.len();
    out.rows.iter_mut().for_each(|r| r.figures.resize(wide, None));
    out
}

/// Names of folders where they differ, else whole paths.
fn short_names(all: &[Tried]) -> Vec<String> {
    let name = |t: &Tried| t.path.file_name().map_or_else(|| t.path.display().to_string(), |n| n.to_string_lossy().into_owned());
    let names: Vec<String> = all.iter().map(name).collect();
    let distinct = names.iter().enumerate().all(|(i, n)| !names[..i].contains(n));
    if distinct { names } else { all.iter().map(|t| t.path.display().to_string()).collect() }
}
