//! `variegate demo`: every model once and a search for structure, from simulated data to predictions of rows it has not seen.

use anyhow::{Context, Result, bail};
use clap::{ArgMatches, Command};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use variegate::answer::{HeldOutEffort, LabelRule, Posterior};
use variegate::data::{Dataset, Target, TargetKind, split};
use variegate::model::{FAMILIES, Family, family};
use variegate::run::{Ending, Purpose, Stream};
use variegate::score::completion;
use variegate_io::read::{ColumnSpec, ReadOptions};

use super::{fit, simulate};
use crate::data_file::DataFile;
use crate::exit::Exit;
use crate::scores::Scores;
use crate::tables::{self, Table};
use crate::{files, options, output, training};

const ROWS: usize = 2000;
const HELD_OUT: f64 = 0.25;

pub fn command() -> Command {
    let out = "Folder for data and runs [default: the first free of runs/demo-1, runs/demo-2, …]";
    Command::new("demo")
        .about("Generate data, fit every model to them and show what was found")
        .args([
            options::seed().help("Seed of every random number [default: 1]"),
            options::out_folder(out),
            options::json(),
            options::quiet(),
        ])
        .after_help("Examples:\n  variegate demo\n  variegate demo --out try/demo --seed 3")
}

pub fn run(matches: &ArgMatches) -> Result<Exit> {
    let (json, quiet) = (options::flag(matches, "json"), options::flag(matches, "quiet"));
    let seed = matches.get_one::<u64>("seed").copied().unwrap_or(1);
    let folder = matches.get_one::<PathBuf>("out").cloned().unwrap_or_else(|| training::next_free("demo"));
    if std::fs::read_dir(&folder).is_ok_and(|mut inside| inside.next().is_some()) {
        bail!("`{}` is not empty: choose another folder with --out", folder.display());
    }
    let data = folder.join("data");
    std::fs::create_dir_all(&data).with_context(|| format!("could not make the folder `{}`: choose another with --out", data.display()))?;
    let mut found = Vec::new();
    for job in jobs()? {
        match one(&job, &folder, seed, quiet)? {
            Some(one) => found.push(one),
            None => {
                eprintln!("Stopped. What is done is in {}", folder.display());
                return Ok(Exit::Stopped);
            }
        }
    }
    if json {
        let models: Vec<Value> = found.iter().map(Found::as_json).collect();
        output::json(&json!({ "out": folder, "seed": seed, "models": models }))?;
    } else {
        output::to_stdout(&shown(&found))?;
    }
    if !quiet {
        let first = found.first().map_or_else(String::new, |f| f.run.display().to_string());
        eprintln!("\nData are in {}, the runs beside them. Look at one with:", data.display());
        eprintln!("  variegate summary {first}");
        if let Some(searched) = found.iter().find(|f| f.structure.is_some()) {
            eprintln!("  variegate compare {}", searched.run.display());
        }
    }
    // how many factors there are takes longer to agree on than a demonstration has time for: the table says so, and that is all
    let judged = |f: &&Found| matches!(f.scores, Held::Classes { .. } | Held::Labels { .. });
    Ok(if found.iter().filter(judged).all(|f| f.converged) { Exit::Success } else { Exit::NotConverged })
}

/// Something to show.
struct Job {
    family: &'static dyn Family,
    /// Name of its files and its run.
    name: String,
    /// Settings of the model that the data are from.
    truth: Map<String, Value>,
    /// What `simulate` is told.
    data: Map<String, Value>,
    /// Settings of the fit.
    fit: Map<String, Value>,
}

/// Every family as it is, and a search for the structure.
fn jobs() -> Result<Vec<Job>> {
    let map = |value: Value| value.as_object().cloned().unwrap_or_default();
    let plain = |family: &&'static dyn Family| Job {
        family: *family,
        name: family.name().to_string(),
        truth: Map::new(),
        data: Map::new(),
        fit: family.quick_settings(),
    };
    let mut all: Vec<Job> = FAMILIES.iter().map(plain).collect();
    all.push(Job {
        family: family("softmax")?,
        name: "softmax-subclasses".into(),
        // wide weights: a class of two parts on both sides of the other
        truth: map(json!({ "subclasses": "2,1", "precision": "fixed", "prior_precision": 0.05 })),
        data: map(json!({ "columns": 2, "classes": 2 })),
        fit: map(json!({ "subclasses": "auto:3", "n_init": 4 })),
    });
    Ok(all)
}

/// What the demonstration found of one job.
struct Found {
    family: &'static str,
    name: String,
    run: PathBuf,
    train: usize,
    held_out: usize,
    scores: Held,
    /// Structure that was chosen, where several were compared.
    structure: Option<String>,
    /// Names, true values and estimates, where the model tells them.
    weights: Vec<(String, f64, f64)>,
    converged: bool,
    seconds: f64,
}

/// How held-out rows were predicted.
#[derive(Clone, Copy)]
enum Held {
    /// Their classes; guessing always says the most frequent one.
    Classes { accuracy: f64, log_loss: f64, guessing: f64 },
    /// Their sets of labels; guessing gives each label the log loss of its share in the rows of the fit.
    Labels { micro_f1: f64, hamming: f64, log_loss: f64, guessing: f64 },
    /// The halves of them that were not shown; guessing gives each column its share in the rows of the fit.
    Rows { perplexity: f64, guessing: f64 },
    /// Their log density; guessing takes columns as independent and Gaussian, as in the rows of the fit.
    Density { ln_density: f64, guessing: f64 },
}

/// Simulates, sets rows aside, fits the rest, predicts those; nothing if the user stopped it.
fn one(job: &Job, folder: &Path, seed: u64, quiet: bool) -> Result<Option<Found>> {
    let (family, name) = (job.family, &job.name);
    let simulation = family.configure(&job.truth)?.simulate(ROWS, &job.data, seed)?;
    let mut rng = Stream::new(seed, 0, Purpose::Split).rng();
    let strata = match (&simulation.data.target, &simulation.data.sources) {
        (Target::Classes(classes), _) => Some(&classes.codes),
        (Target::None, sources) => sources.as_ref().map(|s| &s.codes),
        (Target::Labels(_), _) => None,
        _ => bail!("{name} simulates real outcomes: the demonstration cannot show it"),
    };
    let parts = split::train_test(ROWS, HELD_OUT, strata.map(Vec::as_slice), &mut rng)?;
    let path = |part: &str| folder.join("data").join(format!("{name}-{part}.csv"));
    simulate::write_data(&path("train"), false, &simulation.data.subset(&parts.train))?;
    simulate::write_data(&path("test"), false, &simulation.data.subset(&parts.test))?;
    if !quiet {
        eprintln!("{name}: {} simulated, {} of them held out", tables::count(ROWS, "row", "rows"), parts.test.len());
    }

    let target = match &simulation.data.target {
        Target::Classes(_) => Some(ColumnSpec::column(simulate::TARGET)),
        Target::Labels(labels) => Some(ColumnSpec::Columns(labels.names.clone())),
        _ => None,
    };
    let sources = simulation.data.sources.as_ref().map(|_| ColumnSpec::column(simulate::SOURCES));
    let reader = ReadOptions { target, sources, ..ReadOptions::default() };
    let request = fit::FitRequest {
        family,
        settings: job.fit.clone(),
        data: path("train"),
        reader: reader.clone(),
        out: folder.join(name),
        force: false,
        seed,
        block_rows: None,
        pace: variegate::run::Pace::default(),
        quiet,
        choice: None,
    };
    let done = request.fit(false)?;
    let (Some(posterior), Ending::Complete) = (done.posterior, done.end.ending) else { return Ok(None) };
    let scores = if !posterior.labels().is_empty() {
        let known_classes = Some(posterior.labels().to_vec());
        let reader = ReadOptions { known_classes, target_kind: TargetKind::Labels, ..reader };
        let (test, _) = files::read_training(&DataFile::of(&path("test"))?, &reader)?;
        let (train, _) = files::read_training(&DataFile::of(&path("train"))?, &reader)?;
        let found = posterior.predict_labels(&test, &LabelRule::default())?;
        let Some(Scores::Labels(scores)) = Scores::of_labels(&found, &test, posterior.labels()) else {
            bail!("the held-out rows have no labels")
        };
        let [micro_f1, hamming, log_loss] = [scores.micro_f1, scores.hamming_loss, scores.log_loss].map(|s| s.unwrap_or(f64::NAN));
        Held::Labels { micro_f1, hamming, log_loss, guessing: by_rates(&train, &test) }
    } else if posterior.predicts() {
        let reader = ReadOptions { known_classes: Some(posterior.classes().to_vec()), ..reader };
        let (test, _) = files::read_training(&DataFile::of(&path("test"))?, &reader)?;
        let predicted = posterior.predict(&test, "")?;
        let scores = Scores::of_classes(&predicted, &test, posterior.classes());
        let Some(Scores::Classes(tally)) = scores else { bail!("the held-out rows have no classes") };
        Held::Classes { accuracy: tally.accuracy(), log_loss: tally.log_loss(), guessing: guessing(&test) }
    } else {
        let (test, _) = files::read_training(&DataFile::of(&path("test"))?, &reader)?;
        let (train, _) = files::read_training(&DataFile::of(&path("train"))?, &reader)?;
        if posterior.answers().completion.is_some() {
            Held::Rows { perplexity: completion(posterior.as_ref(), &test, seed)?.perplexity(), guessing: by_shares(&train, &test) }
        } else {
            let ln_density = posterior.held_out(&test, &HeldOutEffort::default())?.mean();
            Held::Density { ln_density, guessing: by_moments(&train, &test) }
        }
    };
    let compared = posterior.selection().filter(|s| s.rows.len() > 1);
    Ok(Some(Found {
        family: family.name(),
        name: name.clone(),
        run: done.run.path().to_path_buf(),
        train: parts.train.len(),
        held_out: parts.test.len(),
        scores,
        structure: compared.map(|s| s.rows[s.chosen].0.clone()),
        weights: weights(posterior.as_ref(), &simulation.truth),
        converged: posterior.summary().converged,
        seconds: done.end.seconds,
    }))
}

fn guessing(data: &Dataset<'_>) -> f64 {
    match &data.target {
        Target::Classes(c) => c.counts().into_iter().max().unwrap_or(0) as f64 / c.len().max(1) as f64,
        _ => 0.0,
    }
}

/// Log loss of an entry where each label has its share in other rows, with one more of each kind so that nothing is impossible.
fn by_rates(train: &Dataset<'_>, test: &Dataset<'_>) -> f64 {
    let (Target::Labels(seen), Target::Labels(held)) = (&train.target, &test.target) else { return f64::NAN };
    let width = seen.names.len().max(1);
    let count = |c: usize, value: i8| 1.0 + seen.values.iter().skip(c).step_by(width).filter(|v| **v == value).count() as f64;
    let rates: Vec<f64> = (0..width).map(|c| count(c, 1) / (count(c, 1) + count(c, 0))).collect();
    let known = || held.values.iter().enumerate().filter(|(_, v)| **v >= 0);
    let loss = |(at, v): (usize, &i8)| -(if *v == 1 { rates[at % width] } else { 1.0 - rates[at % width] }).ln();
    known().map(loss).sum::<f64>() / known().count() as f64
}

/// Perplexity of counts where each column has its share in other rows, with one more of everything so that nothing is impossible.
fn by_shares(train: &Dataset<'_>, test: &Dataset<'_>) -> f64 {
    let totals = |data: &Dataset<'_>, more: f64| {
        let (x, mut sums) = (data.x.view(), vec![more; data.x.cols()]);
        (0..data.rows()).for_each(|i| x.for_row(i, |j, v| sums[j] += v));
        sums
    };
    let (seen, held) = (totals(train, 1.0), totals(test, 0.0));
    let (all, words) = (seen.iter().sum::<f64>(), held.iter().sum::<f64>());
    (-held.iter().zip(&seen).map(|(x, s)| x * (s / all).ln()).sum::<f64>() / words).exp()
}

/// Mean log density of rows whose columns are independent and Gaussian, with the means and variances of other rows.
fn by_moments(train: &Dataset<'_>, test: &Dataset<'_>) -> f64 {
    let (width, rows) = (train.x.cols(), train.rows() as f64);
    let (seen, held) = (train.x.to_dense(), test.x.to_dense());
    let total: f64 = (0..width)
        .map(|j| {
            let column = || seen.iter().skip(j).step_by(width);
            let mean = column().sum::<f64>() / rows;
            let variance = column().map(|v| (v - mean) * (v - mean)).sum::<f64>() / rows;
            let squares: f64 = held.iter().skip(j).step_by(width).map(|v| (v - mean) * (v - mean)).sum();
            -0.5 * (test.rows() as f64 * (std::f64::consts::TAU * variance).ln() + squares / variance)
        })
        .sum();
    total / test.rows() as f64
}

/// True and estimated coefficients, class by class. Where every class has its own, only their differences are determined by the
/// data, so both are shown relative to the mean of the classes.
fn weights(posterior: &dyn Posterior, truth: &Map<String, Value>) -> Vec<(String, f64, f64)> {
    let mut truths = Vec::new();
    flatten(truth.get("coefficients").or_else(|| truth.get("weights")).unwrap_or(&Value::Null), &mut truths);
    let arrays = posterior.arrays();
    let Some(found) = arrays.iter().find(|a| a.name == "coef").filter(|a| a.values.len() == truths.len()) else { return Vec::new() };
    let width = posterior.width().max(1);
    let each = posterior.classes().len() * width == truths.len();
    let mut found = found.values.clone();
    if each {
        centre(&mut truths, width);
        centre(&mut found, width);
    }
    let column = |j: usize| posterior.columns().get(j % width).cloned().unwrap_or_else(|| format!("x{}", j % width));
    let name = |j: usize| if each { format!("{}: {}", posterior.classes()[j / width], column(j)) } else { column(j) };
    truths.into_iter().zip(found).enumerate().map(|(j, (truth, found))| (name(j), truth, found)).collect()
}

/// Subtracts the mean over the rows from each of `width` columns.
fn centre(values: &mut [f64], width: usize) {
    let rows = values.len() / width;
    for j in 0..width {
        let mean = values.iter().skip(j).step_by(width).sum::<f64>() / rows as f64;
        values.iter_mut().skip(j).step_by(width).for_each(|v| *v -= mean);
    }
}

fn flatten(value: &Value, out: &mut Vec<f64>) {
    match value {
        Value::Array(list) => list.iter().for_each(|v| flatten(v, out)),
        other => out.extend(other.as_f64()),
    }
}

fn shown(found: &[Found]) -> String {
    let verdict = |f: &Found| [if f.converged { "yes" } else { "no" }.to_string(), format!("{:.1}", f.seconds)];
    let begin = |f: &Found| [f.name.clone(), f.train.to_string(), f.held_out.to_string()];
    let mut classes = Table::new(["model", "rows", "held out", "accuracy", "guessing", "log loss", "converged", "seconds"]);
    let mut labels = Table::new(["model", "rows", "held out", "micro F1", "Hamming", "log loss", "guessing", "converged", "seconds"]);
    let mut rows = Table::new(["model", "rows", "held out", "perplexity", "guessing", "converged", "seconds"]);
    let mut densities = Table::new(["model", "rows", "held out", "ln p a row", "guessing", "converged", "seconds"]);
    for f in found {
        match f.scores {
            Held::Classes { accuracy, log_loss, guessing } => {
                let figures = [accuracy, guessing, log_loss].map(|v| format!("{v:.3}"));
                classes.row(begin(f).into_iter().chain(figures).chain(verdict(f)));
            }
            Held::Labels { micro_f1, hamming, log_loss, guessing } => {
                let figures = [micro_f1, hamming, log_loss, guessing].map(|v| format!("{v:.3}"));
                labels.row(begin(f).into_iter().chain(figures).chain(verdict(f)));
            }
            Held::Rows { perplexity, guessing } => {
                let figures = [perplexity, guessing].map(tables::number);
                rows.row(begin(f).into_iter().chain(figures).chain(verdict(f)));
            }
            Held::Density { ln_density, guessing } => {
                let figures = [ln_density, guessing].map(tables::number);
                densities.row(begin(f).into_iter().chain(figures).chain(verdict(f)));
            }
        }
    }
    let mut text = classes.render(tables::stdout_width());
    for (table, any) in [
        (labels, found.iter().any(|f| matches!(f.scores, Held::Labels { .. }))),
        (rows, found.iter().any(|f| matches!(f.scores, Held::Rows { .. }))),
        (densities, found.iter().any(|f| matches!(f.scores, Held::Density { .. }))),
    ] {
        if any {
            text += &format!("\n{}", table.render(tables::stdout_width()));
        }
    }
    for (f, structure) in found.iter().filter_map(|f| Some((f, f.structure.as_ref()?))) {
        text += &format!("\n{}: chose the subclasses {structure}\n", f.name);
    }
    for f in found.iter().filter(|f| !f.weights.is_empty()) {
        let mut table = Table::new([f.name.as_str(), "truth", "found"]);
        for (name, truth, estimate) in &f.weights {
            table.row([name.clone(), tables::number(*truth), tables::number(*estimate)]);
        }
        text += &format!("\n{}", table.render(tables::stdout_width()));
    }
    text
}

impl Found {
    fn as_json(&self) -> Value {
        let weights: Vec<Value> =
            self.weights.iter().map(|(name, truth, found)| json!({ "name": name, "truth": truth, "found": found })).collect();
        let mut value = json!({
            "model": self.family,
            "name": self.name,
            "structure": self.structure,
            "run": self.run,
            "rows": self.train,
            "held_out": self.held_out,
            "converged": self.converged,
            "seconds": self.seconds,
            "weights": weights,
        });
        match self.scores {
            Held::Classes { accuracy, log_loss, guessing } => {
                value["accuracy"] = json!(accuracy);
                value["guessing"] = json!(guessing);
                value["log_loss"] = json!(log_loss);
            }
            Held::Labels { micro_f1, hamming, log_loss, guessing } => {
                value["micro_f1"] = json!(micro_f1);
                value["hamming_loss"] = json!(hamming);
                value["log_loss"] = json!(log_loss);
                value["guessing"] = json!(guessing);
            }
            Held::Rows { perplexity, guessing } => {
                value["perplexity"] = json!(perplexity);
                value["guessing"] = json!(guessing);
            }
            Held::Density { ln_density, guessing } => {
                value["ln_density"] = json!(ln_density);
                value["guessing"] = json!(guessing);
            }
        }
        value
    }
}
