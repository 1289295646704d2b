//! `--cv` and `--grid`: settings chosen by cross-validation, before the fit that is kept.

use anyhow::{Result, anyhow, bail};
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};
use variegate::Error;
use variegate::data::Dataset;
use variegate::model::Family;
use variegate::select::{Axis, Cell, Grid, Point, Table, cross_validate, points};
use variegate_io::run_dir::RunDir;

use crate::exit::{Halted, Usage};
use crate::journal::{Header, Journal};
use crate::progress::{self, Share};
use crate::selection::{Row, Structures};
use crate::{options, tables};

const HEADING: &str = "Cross-validation";
/// Time between two lines where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(60);

/// `--cv` and `--grid`.
pub fn arguments() -> [Arg; 2] {
    [
        Arg::new("cv")
            .long("cv")
            .value_name("K")
            .allow_negative_numbers(true)
            .value_parser(value_parser!(u64).range(2..=1_000_000))
            .help("Choose the settings of --grid by the log loss on K folds, then fit all rows; an interrupted choice goes on")
            .help_heading(HEADING),
        Arg::new("grid")
            .long("grid")
            .value_name("SETTING=A,B,…")
            .action(ArgAction::Append)
            .requires("cv")
            .help("Values of a setting to choose from (may be repeated; values that hold commas are separated by `;`)")
            .help_heading(HEADING),
    ]
}

/// What to choose from, and how.
pub struct Choice {
    /// Number of folds.
    pub folds: usize,
    /// Settings that vary.
    pub grid: Vec<Axis>,
    /// Whether the user gave the seed.
    pub seed_given: bool,
}

/// The choice that was asked for, if one was. `given` are the settings that the command line fixes.
pub fn choice(matches: &ArgMatches, family: &dyn Family, given: &Map<String, Value>) -> Result<Option<Choice>> {
    let Some(&folds) = matches.get_one::<u64>("cv") else { return Ok(None) };
    let grid = axes(matches, "grid", family, given)?;
    let seed_given = matches.get_one::<u64>("seed").is_some();
    Ok(Some(Choice { folds: folds as usize, grid, seed_given }))
}

/// The settings that an option says vary; none of them may be given too.
pub fn axes(matches: &ArgMatches, option: &str, family: &dyn Family, given: &Map<String, Value>) -> Result<Vec<Axis>> {
    let mut all: Vec<Axis> = Vec::new();
    for text in matches.get_many::<String>(option).into_iter().flatten() {
        let axis = axis(text, option, family)?;
        if given.contains_key(&axis.name) {
            return Err(Usage(format!("`{}` is given and varied by --{option}: leave one of them out", axis.name)).into());
        }
        if all.iter().any(|a| a.name == axis.name) {
            return Err(Usage(format!("--{option} names `{}` twice: give all its values at once", axis.name)).into());
        }
        all.push(axis);
    }
    Ok(all)
}

/// Reads `SETTING=A,B`: the setting as its option or as its key, each value by its kind.
fn axis(text: &str, option: &str, family: &dyn Family) -> Result<Axis> {
    let Some((name, list)) = text.split_once('=') else {
        return Err(Usage(format!("--{option} {text} names no values: write SETTING=A,B")).into());
    };
    let table = family.settings();
    let name = name.trim();
    let Some(setting) = table.iter().find(|s| s.name == name || s.option() == name) else {
        let known = table.iter().map(|s| s.name).collect::<Vec<_>>().join(", ");
        return Err(Error::UnknownSetting { family: family.name().into(), name: name.into(), known }.into());
    };
    let mut values = Vec::new();
    for word in list.split(if list.contains(';') { ';' } else { ',' }).map(str::trim) {
        let refused = |why: String| match why.strip_prefix(options::MUST_BE) {
            Some(allowed) => anyhow::Error::from(Error::setting(setting.name, word, allowed)),
            None => Usage(format!("--{option} {}={word}: {why}", setting.name)).into(),
        };
        let value = options::value_of(setting, word).map_err(refused)?;
        if values.contains(&value) {
            return Err(Usage(format!("--{option} {text} names {word} twice")).into());
        }
        values.push(value);
    }
    Ok(Axis { name: setting.name.into(), values })
}

/// What was chosen, and from what.
pub struct Chosen {
    /// The settings that won, to be put over those that were given.
    pub settings: Map<String, Value>,
    /// The seed of it all.
    pub seed: u64,
    /// The cells, to go into the run.
    pub journal: Journal,
    /// The table.
    pub table: Kept,
}

/// Does the cells that are not done yet and chooses.
pub fn choose(
    choice: &Choice,
    header: Header,
    data: &Dataset<'_>,
    out: &std::path::Path,
    force: bool,
    threads: usize,
    quiet: bool,
) -> Result<Chosen> {
    let mut journal = Journal::open(&Journal::beside(out)?, header, choice.seed_given, force)?;
    let header = journal.header.clone();
    let family = variegate::model::family(&header.family)?;
    let total = points(&header.grid).len() * header.folds;
    let known = std::mem::take(&mut journal.known);
    let mut done = known.len();
    if !quiet {
        let before = if done > 0 { format!(", {done} of them done before") } else { String::new() };
        eprintln!("cross-validation: {}, seed {}{before}", tables::count(total, "fit", "fits"), header.seed);
    }
    progress::catch_signals()?;
    let bar = Share::new("cross-validation", quiet);
    let mut last = Instant::now();
    let grid = Grid {
        family,
        settings: &header.settings,
        axes: &header.grid,
        folds: header.folds,
        seed: header.seed,
        block_rows: header.block_rows,
        threads,
    };
    let mut each = |cell: &Cell| {
        journal.keep(cell).map_err(|e| Error::Storage(e.into()))?;
        done += 1;
        bar.at("fits", done as f64 / total as f64);
        if !quiet && !bar.shown() && last.elapsed() >= LINE_EVERY {
            last = Instant::now();
            eprintln!("cross-validation: {done} of {total} fits");
        }
        Ok(())
    };
    let cells = cross_validate(&grid, data, known, &mut each, &progress::stopping)?;
    drop(bar);
    if cells.len() < total {
        let text =
            format!("Stopped after {} of {total} fits of the cross-validation, which are kept: the same command goes on.", cells.len());
        return Err(Halted(text).into());
    }
    let table = Kept::new(&header, &cells);
    let Some(best) = table.table.best else {
        let why = table.table.points.iter().find_map(|p| p.failure.clone()).unwrap_or_default();
        bail!("every point of the grid failed; the first said: {why}");
    };
    Ok(Chosen { settings: table.table.points[best].settings.clone(), seed: header.seed, journal, table })
}

/// A finished cross-validation, as it is shown.
pub struct Kept {
    real: bool,
    folds: usize,
    table: Table,
}

impl Kept {
    fn new(header: &Header, cells: &[Cell]) -> Self {
        Self { real: header.real, folds: header.folds, table: Table::of(&header.grid, header.folds, cells) }
    }

    /// That of a run, if it has one. A file that a run before it left behind does not count.
    pub fn of(run: &RunDir) -> Result<Option<Self>> {
        let Some((header, cells)) = Journal::of_run(run.path())? else { return Ok(None) };
        let record = run.record();
        let same = header.family == record.family && header.fingerprint == record.data.fingerprint && header.seed == record.plan.seed;
        Ok(same.then(|| Self::new(&header, &cells)))
    }

    fn headings(&self) -> [&'static str; 4] {
        if self.real { ["-log density", "se", "squared error", "seconds"] } else { ["log-loss", "se", "error", "seconds"] }
    }

    /// The table with what its columns are, and why points failed.
    pub fn text(&self) -> String {
        let row = |(at, point): (usize, &Point)| Row {
            name: shown(&point.settings),
            chosen: self.table.best == Some(at),
            figures: vec![
                point.scores.map(|s| s.loss),
                point.scores.map(|s| s.standard_error),
                point.scores.map(|s| s.error),
                Some(point.seconds),
            ],
        };
        let rows = self.table.points.iter().enumerate().map(row).collect();
        let all = Structures { what: "settings", headings: self.headings().map(String::from).to_vec(), rows };
        let (mut text, _) = all.render(tables::stdout_width());
        let about = format!(
            "Cross-validation on {} folds: means over held-out rows; se is the standard error over folds; * is the best.",
            self.folds
        );
        text += &format!("{}\n", tables::wrap(&about, 80, ""));
        for point in &self.table.points {
            if let Some(why) = &point.failure {
                text += &format!("{}\n", tables::wrap(&format!("{} failed: {why}", shown(&point.settings)), 80, "  "));
            }
        }
        text + "\n"
    }

    /// The same for machines.
    pub fn as_json(&self) -> Value {
        let [loss, _, error, _] = if self.real { ["neg_log_density", "", "squared_error", ""] } else { ["log_loss", "", "error", ""] };
        let point = |point: &Point| {
            json!({
                "settings": point.settings,
                loss: point.scores.map(|s| s.loss),
                "standard_error": point.scores.map(|s| s.standard_error),
                error: point.scores.map(|s| s.error),
                "seconds": point.seconds,
                "failure": point.failure,
            })
        };
        json!({
            "folds": self.folds,
            "best": self.table.best.map(|at| &self.table.points[at].settings),
            "points": self.table.points.iter().map(point).collect::<Vec<_>>(),
        })
    }
}

/// A point in a few words: `kappa=1 experts=5`.
pub fn shown(point: &Map<String, Value>) -> String {
    if point.is_empty() {
        return "as given".into();
    }
    point.iter().map(|(name, value)| format!("{name}={}", options::shown(value))).collect::<Vec<_>>().join(" ")
}

/// The model of the first point that makes sense: it tells how the data are to be read. None makes sense: why the first does not.
pub fn first_model(choice: &Choice, family: &dyn Family, given: &Map<String, Value>) -> Result<Box<dyn variegate::model::Model>> {
    let mut first = None;
    for point in points(&choice.grid) {
        let mut settings = given.clone();
        settings.extend(point);
        match family.configure(&settings) {
            Ok(model) => return Ok(model),
            Err(why) => first = first.or(Some(why)),
        }
    }
    Err(first.map_or_else(|| anyhow!("the grid has no points"), Into::into))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_are_read_by_the_kinds_of_settings() {
        let family = variegate::model::family("softmax").unwrap();
        let values = |text: &str| axis(text, "grid", family).map(|a| (a.name, a.values));
        assert_eq!(values("prior-precision=0.5,2").unwrap(), ("prior_precision".into(), vec![json!(0.5), json!(2.0)]));
        assert_eq!(values("n_init=1, 2").unwrap(), ("n_init".into(), vec![json!(1), json!(2)]));
        assert_eq!(values("init=3").unwrap().0, "n_init");
        assert_eq!(values("bound=tilted,jj").unwrap().1, [json!("tilted"), json!("jj")]);
        assert_eq!(values("standardize=true,false").unwrap().1, [json!(true), json!(false)]);
        assert_eq!(values("subclasses=1,2;2,1").unwrap().1, [json!("1,2"), json!("2,1")]);
        assert_eq!(values("bias-precision=none,1").unwrap().1, [Value::Null, json!(1.0)]);
        for (bad, says) in [
            ("kappa", "names no values"),
            ("nope=1", "no setting `nope`"),
            ("n_init=0", "`n_init` is 0"),
            ("n_init=", "`n_init` is "),
            ("bound=x", "one of tilted"),
            ("standardize=yes", "true or false"),
            ("n_init=1,1", "twice"),
        ] {
            let said = values(bad).unwrap_err().to_string();
            assert!(said.contains(says), "{bad}: {said}");
        }
    }
}
