//! `variegate fit`: fits a model to a data file and keeps everything in a run directory.

use anyhow::Result;
use clap::{Arg, ArgMatches, Command};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use variegate::answer::{Posterior, Summary};
use variegate::data::{Dataset, TargetKind};
use variegate::model::{Family, Prepared, RunSettings};
use variegate::run::{Ending, Pace};
use variegate_io::read::{Cause, ReadError, ReadOptions};
use variegate_io::run_dir::{DataReference, RunDir, RunRecord};

use super::summary;
use crate::data_file::{DataFile, STANDARD};
use crate::exit::{Exit, Tone, Usage, say};
use crate::journal::Header;
use crate::training::{self, TrainingEnd};
use crate::validation::{self, Choice, Kept};
use crate::{files, options, output, selection, tables};

const EXAMPLES: &str = "\
Examples:
  variegate fit MODEL train.csv --target label --out runs/a
  variegate fit MODEL train.parquet --target label --ignore id,name --seed 7
  variegate fit MODEL train.svm.gz --threads 2 --json --quiet > fit.json

Settings and their defaults: variegate fit MODEL --help";

/// Options that make sense only with something to predict.
const NEED_TARGET: [&str; 3] = ["target", "cv", "grid"];

pub fn command() -> Command {
    let command = Command::new("fit").about("Fit a model to a data file").after_help(EXAMPLES);
    options::families(command, |family, command| {
        let out = "Folder of the run [default: the first free of runs/MODEL-1, runs/MODEL-2, …]";
        let more = validation::arguments().into_iter();
        let more = more.chain([options::out_folder(out), options::force("a run"), options::json(), options::quiet()]);
        with_arguments(family, command, more).after_help(examples(family))
    })
}

/// A command that fits a model, with the options that every such command has and more.
pub fn with_arguments(family: &dyn Family, command: Command, more: impl IntoIterator<Item = Arg>) -> Command {
    let (target, settings) = (options::target_of(family), family.settings());
    // a setting of the family's own goes before what data have of that name
    let own = |id: &str| settings.iter().any(|s| s.name == id);
    let start_labels = options::takes_start_labels(family).then(files::start_labels);
    command
        .args(files::arguments().into_iter().filter(|arg| !own(arg.get_id().as_str())))
        .args(start_labels)
        .args(options::settings(&settings))
        .args([options::seed(), options::block_rows()])
        .args(options::pace())
        .args(more)
        .mut_args(|arg| match (target, arg.get_id().as_str()) {
            // a model of rows alone refuses these with words of its own
            (None, id) if NEED_TARGET.contains(&id) && !own(id) => arg.hide(true),
            (Some(TargetKind::Labels), "target") => arg.visible_alias("labels"),
            _ => arg,
        })
}

/// Examples with a setting of the family's own.
fn examples(family: &dyn Family) -> String {
    let name = family.name();
    let own = family.settings().first().map_or_else(String::new, |s| format!(" --{} {}", s.option(), options::shown(&s.default)));
    let columns = options::example_columns(family);
    format!(
        "{}\n\nExamples:\n  variegate fit {name} train.csv{columns} --out runs/a\n  \
         variegate fit {name} train.csv{columns} --seed 7{own}",
        family.about()
    )
}

pub fn run(matches: &ArgMatches) -> Result<Exit> {
    let (family, matches) = options::family_of(matches)?;
    let quiet = options::flag(matches, "quiet");
    let chosen = matches.get_one::<PathBuf>("out").cloned();
    if chosen.as_deref() == Some(Path::new(STANDARD)) {
        return Err(Usage("a run is a folder and cannot go to standard output: name a folder with --out".into()).into());
    }
    let (reader, mut settings) = (files::read_options(matches)?, options::given(matches, &family.settings()));
    options::begin_with_labels(family, &mut settings, files::column(matches, files::START_LABELS)?.is_some())?;
    let request = FitRequest {
        family,
        choice: validation::choice(matches, family, &settings)?,
        settings,
        data: matches.get_one::<PathBuf>("data").cloned().unwrap_or_default(),
        reader,
        out: chosen.unwrap_or_else(|| training::next_free(family.name())),
        force: options::flag(matches, "force"),
        seed: options::seed_of(matches),
        block_rows: matches.get_one::<u64>("block-rows").map(|&n| n as usize),
        pace: options::pace_of(matches),
        quiet,
    };
    let json = options::flag(matches, "json");
    let done = request.fit(!json)?;
    report(&done, json, quiet)
}

/// Everything that a fit needs to know.
pub struct FitRequest {
    pub family: &'static dyn Family,
    pub settings: Map<String, Value>,
    pub data: PathBuf,
    pub reader: ReadOptions,
    pub out: PathBuf,
    pub force: bool,
    pub seed: u64,
    pub block_rows: Option<usize>,
    pub pace: Pace,
    pub quiet: bool,
    /// Settings that are to be chosen by cross-validation first.
    pub choice: Option<Choice>,
}

/// A run that has ended, with what it found.
pub struct Finished {
    pub run: RunDir,
    pub end: TrainingEnd,
    /// Nothing where the run was stopped before there was anything to show.
    pub posterior: Option<Box<dyn Posterior>>,
    pub warnings: Vec<String>,
}

impl FitRequest {
    /// Reads, checks, chooses settings if asked to, runs. What can be refused early is refused before the data are read. With `tables`
    /// the table of a cross-validation is written to standard output as soon as it is there.
    pub fn fit(mut self, tables: bool) -> Result<Finished> {
        let mut model = match &self.choice {
            None => self.family.configure(&self.settings)?,
            Some(choice) => validation::first_model(choice, self.family, &self.settings)?,
        };
        if model.target().is_none() {
            self.refuse_target(model.start_labels())?;
        }
        RunDir::check_vacant(&self.out, self.force)?;
        let target_kind = model.target().unwrap_or(TargetKind::Classes);
        let open_target = model.start_labels();
        let reader = ReadOptions { target_kind, open_target, missing: model.missing(), ..self.reader.clone() };
        let file = DataFile::of(&self.data)?;
        let (data, reader) = files::read_training(&file, &reader).map_err(|error| advise(self.family, error))?;
        if !self.quiet {
            eprintln!("read {}: {}", file.name(), files::describe(&data));
            files::remarks(&self.reader, &reader).iter().for_each(|text| eprintln!("{}", tables::wrap(text, 80, "")));
        }
        let mut journal = None;
        if let Some(choice) = &self.choice {
            let header = self.header(choice, data.fingerprint(), model.target() == Some(TargetKind::Real));
            let chosen = validation::choose(choice, header, &data, &self.out, self.force, self.pace.threads, self.quiet)?;
            if tables {
                output::to_stdout(&chosen.table.text())?;
            }
            self.settings.extend(chosen.settings);
            self.seed = chosen.seed;
            model = self.family.configure(&self.settings)?;
            journal = Some(chosen.journal);
        }
        let settings = RunSettings::default().seed(self.seed).threads(self.pace.threads).block_rows(self.block_rows);
        let Prepared { fit, plan, fingerprint } = settings.commit_every(self.pace.commit_every).prepare(model.as_ref(), &data)?;
        for warning in fit.warnings() {
            say(Tone::Warning, &tables::wrap(&options::in_shell(warning, self.family.name()), 80, ""));
        }
        let reference = reference(&file, &reader, &data, fingerprint)?;
        let record = RunRecord::new(self.family.name(), fit.program().name(), model.settings(), plan, reference, fit.schema().to_vec());
        let mut run = RunDir::create(&self.out, &record, self.force)?;
        if let Some(journal) = journal {
            journal.settle(&self.out)?;
        }
        if !self.quiet {
            eprintln!("fitting {} into {}, seed {}", self.family.name(), self.out.display(), self.seed);
        }
        let end = training::train(&mut run, &fit, &data, self.pace, self.quiet)?;
        let warnings = fit.warnings().to_vec();
        finish(run, end, warnings)
    }

    /// Refuses what a model of rows alone has no use for; it may begin with labels.
    fn refuse_target(&self, labelled: bool) -> Result<()> {
        let name = self.family.name();
        if !labelled {
            refuse_target(self.family, &self.reader)?;
        }
        if self.choice.is_some() {
            return Err(Usage(format!(
                "`{name}` has no target, so cross-validation cannot choose its settings: leave --cv out, fit with each of them and \
                 compare the runs on held-out rows with `variegate score`"
            ))
            .into());
        }
        Ok(())
    }

    /// What a cross-validation of this request is of.
    fn header(&self, choice: &Choice, fingerprint: u64, real: bool) -> Header {
        let (cross_validation, variegate_version) = Header::versions();
        Header {
            cross_validation,
            variegate_version,
            family: self.family.name().into(),
            real,
            settings: self.settings.clone(),
            grid: choice.grid.clone(),
            folds: choice.folds,
            seed: self.seed,
            block_rows: self.block_rows,
            fingerprint,
        }
    }
}

/// Adds what the family offers where a value is missing; of counts none may be.
pub fn advise(family: &dyn Family, error: anyhow::Error) -> anyhow::Error {
    let missing = error.downcast_ref::<ReadError>().is_some_and(|e| matches!(e.cause, Cause::Missing { .. }));
    let settings = family.settings();
    let has = |name: &str| settings.iter().any(|s| s.name == name);
    if missing && has("missing") && !has("likelihood") {
        return anyhow::anyhow!("{error}; or have missing values drawn with the rest: --missing true");
    }
    error
}

/// Refuses a target that a model of rows alone was given.
pub fn refuse_target(family: &dyn Family, reader: &ReadOptions) -> Result<()> {
    if reader.target.is_none() {
        return Ok(());
    }
    Err(Usage(format!(
        "`{}` is fitted to the rows alone and predicts nothing: leave --target out (--ignore COLUMN leaves a column out of the features, \
         --sources COLUMN says where each row comes from)",
        family.name()
    ))
    .into())
}

/// What a run remembers of its data.
pub fn reference(file: &DataFile, reader: &ReadOptions, data: &Dataset<'_>, fingerprint: u64) -> Result<DataReference> {
    Ok(DataReference {
        // what came through a pipe is nowhere
        path: if file.is_gone() { None } else { Some(files::absolute(file.given())?) },
        given: Some(file.given().to_path_buf()),
        reader: serde_json::to_value(reader)?,
        rows: data.rows() as u64,
        columns: data.x.cols() as u64,
        ..DataReference::of(fingerprint)
    })
}

/// Reads back what a run has found.
pub fn finish(run: RunDir, end: TrainingEnd, warnings: Vec<String>) -> Result<Finished> {
    let posterior = match (training::posterior(&run), end.ending) {
        (Ok(posterior), _) => Some(posterior),
        // stopped so early that there is nothing to show
        (Err(_), Ending::Stopped) => None,
        (Err(error), Ending::Complete) => return Err(error),
    };
    Ok(Finished { run, end, posterior, warnings })
}

/// Rows of the table that `fit` shows; `summary` shows all.
const SHORT: usize = 12;

/// What the short table leaves out, and how to see it; nothing where it is all.
fn left_out(found: &Summary, path: &str) -> String {
    let rows = found.rows().len().saturating_sub(SHORT);
    let others = found.tables.iter().filter(|t| !t.rows.is_empty()).skip(1).map(|t| format!("the table of {}", t.name));
    let more = (rows > 0).then(|| tables::count(rows, "more row", "more rows"));
    let all: Vec<String> = more.into_iter().chain(others).collect();
    if all.is_empty() { String::new() } else { format!("… and {}: variegate summary {path}\n", all.join(" and ")) }
}

/// Says what was found, where it is and what to do next.
pub fn report(done: &Finished, json: bool, quiet: bool) -> Result<Exit> {
    let Finished { run, end, posterior, warnings } = done;
    let found = posterior.as_ref().map(|p| p.summary());
    let selection = posterior.as_ref().and_then(|p| p.selection());
    let path = run.path().display();
    let stopped = end.ending == Ending::Stopped;
    if json {
        let mut value = summary::as_json(run, found.as_ref(), selection.as_ref(), Kept::of(run)?.as_ref());
        if let Value::Object(map) = &mut value {
            map.insert("warnings".into(), json!(warnings.iter().chain(found.iter().flat_map(|f| &f.warnings)).collect::<Vec<_>>()));
            map.insert("seconds".into(), json!(end.seconds));
        }
        output::json(&value)?;
    } else if let Some(found) = &found {
        let structures = selection::short(selection.as_ref(), &path.to_string());
        output::to_stdout(&(structures + &summary::table(found, Some(SHORT)) + &left_out(found, &path.to_string())))?;
    }
    if stopped {
        // also when quiet: what was begun is not done
        eprintln!("Stopped and saved in {path} after {}. Go on with:\n  variegate resume {path}", summary::progress(run));
        return Ok(Exit::Stopped);
    }
    let converged = found.as_ref().is_none_or(|f| f.converged);
    let shown = |text: &String| tables::wrap(&options::in_shell(text, &run.record().family), 80, "");
    found.iter().flat_map(|f| &f.warnings).for_each(|w| say(Tone::Warning, &shown(w)));
    let notes = found.iter().flat_map(|f| &f.notes).map(shown);
    if !converged {
        let text = notes.collect::<Vec<_>>().join("\n");
        say(Tone::Warning, &format!("the fit is written, but it has not converged (exit code 3):\n{text}"));
    } else if !quiet {
        notes.for_each(|n| eprintln!("{n}"));
    }
    if !quiet && end.seconds > 0.0 {
        eprintln!("\nDone in {}. Everything is in {path}. Next:", tables::duration(end.seconds));
        match posterior {
            Some(posterior) if posterior.answers().clusters.is_some() => {
                eprintln!(
                    "  variegate summary {path}\n  variegate export {path} --format svg -o tree.svg\n  variegate predict {path} DATA"
                );
            }
            Some(posterior) if !posterior.predicts() => {
                eprintln!("  variegate summary {path}\n  variegate transform {path} DATA -o coordinates.csv");
            }
            _ => eprintln!("  variegate summary {path}\n  variegate predict {path} DATA -o pred.csv"),
        }
    }
    Ok(if converged { Exit::Success } else { Exit::NotConverged })
}
