//! Mixtures of experts by variational Bayes: time, sweeps and bounds of the ascents, on simulated rows or on a table.

use anyhow::Result;
use rand_distr::{Distribution, StandardNormal};
use serde_json::{Map, Value, json};
use std::time::Instant;
use variegate::data::{Classes, Dataset, Matrix, Target};
use variegate::model::{Prepared, RunSettings, family};
use variegate::run::{Memory, Purpose, Stream, Unobserved, drive};

use crate::Options;
use crate::experts::data;

/// Seconds of the processor that this process has used, where the system says so (in hundredths).
fn processor_seconds() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = status.rsplit_once(')')?.1.split_whitespace().collect();
    Some((fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?) / 100.0)
}

/// Rows like those of a picture: the colours of nine neighbouring points each, which differ little from one another. A class has some kinds of
/// rows, each with colours of its own.
fn simulated(rows: usize, columns: usize, classes: usize, seed: u64) -> Dataset<'static> {
    const KINDS: usize = 3;
    const POINTS: usize = 9;
    let mut rng = Stream::new(seed, 0, Purpose::Simulate).rng();
    let mut normal = || -> f64 { StandardNormal.sample(&mut rng) };
    let bands = columns.div_ceil(POINTS);
    let colours: Vec<f64> = (0..classes * KINDS * bands).map(|_| normal()).collect();
    let (mut x, mut codes) = (Vec::with_capacity(rows * columns), Vec::with_capacity(rows));
    for row in 0..rows {
        let kind = row % (classes * KINDS);
        codes.push((kind % classes) as u32);
        let own: Vec<f64> = colours[kind * bands..(kind + 1) * bands].iter().map(|c| c + 0.6 * normal()).collect();
        x.extend((0..columns).map(|c| own[c / POINTS] + 0.3 * normal()));
    }
    let names = (0..classes).map(|c| format!("class {c}")).collect();
    Dataset::new(Matrix::dense(rows, columns, x)).with_target(Target::Classes(Classes { codes, names }))
}

/// Rows to fit and rows to predict: tables, or simulated ones.
fn tables(options: &Options) -> Result<(Dataset<'static>, Dataset<'static>)> {
    if !options.word("train", "").is_empty() {
        return Ok((data(options, "train")?, data(options, if options.word("test", "").is_empty() { "train" } else { "test" })?));
    }
    let (rows, columns) = (options.get("rows", 4000usize)?, options.get("columns", 36usize)?);
    let all = simulated(2 * rows, columns, options.get("classes", 6usize)?, options.get("data_seed", 1u64)?);
    let half = |first: usize| all.subset(&(first..first + rows).collect::<Vec<_>>());
    Ok((half(0), half(rows)))
}

pub fn run(options: &Options) -> Result<Value> {
    let (train, test) = tables(options)?;
    let mut given: Map<String, Value> = serde_json::from_str(options.word("settings", "{}"))?;
    given.insert("inference".into(), json!("vb"));
    let model = family("experts")?.configure(&given)?;
    let run = RunSettings::default().seed(options.get("seed", 1u64)?).threads(options.get("threads", 1usize)?);
    let Prepared { fit, plan, .. } = run.prepare(model.as_ref(), &train)?;
    let mut kept = Memory::default();
    let (begin, before) = (Instant::now(), processor_seconds());
    drive(fit.program(), &train, &plan, run.pace(), &mut kept, &mut Unobserved)?;
    let (seconds, after) = (begin.elapsed().as_secs_f64(), processor_seconds());
    let posterior = fit.posterior(&kept.chains)?;
    let ascents: Vec<Value> = kept
        .chains
        .iter()
        .map(|c| {
            let path: Vec<f64> = c.trace.iter().map(|(_, r)| r.objective).collect();
            let at = |sweep: usize| path.get(sweep - 1).or(path.last()).copied();
            json!({ "sweeps": c.sweeps, "converged": c.trace.last().is_some_and(|(_, r)| r.converged), "bound": path.last(),
                    "refused": c.trace.iter().flat_map(|(_, r)| &r.extras).filter(|(n, v)| n == "refused" && *v > 0.0).count(),
                    "after": { "10": at(10), "30": at(30), "100": at(100), "300": at(300) } })
        })
        .collect();
    let Target::Classes(classes) = &test.target else { anyhow::bail!("no classes") };
    let k = posterior.classes().len();
    let predicted = posterior.predict(&test, "average")?;
    let loss: f64 = predicted.probability.chunks(k).zip(&classes.codes).map(|(p, c)| -p[*c as usize].max(1e-300).ln()).sum();
    Ok(json!({ "benchmark": "experts vb", "settings": given, "rows": train.rows(), "columns": train.x.cols(), "seconds": seconds,
               "processor_seconds": after.zip(before).map(|(a, b)| a - b), "ascents": ascents,
               "best": kept.chains.iter().filter_map(|c| c.trace.last().map(|(_, r)| r.objective)).fold(f64::NEG_INFINITY, f64::max),
               "log_loss": loss / test.rows() as f64 }))
}
