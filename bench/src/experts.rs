//! Mixtures of experts: time of a pass over the rows, and effective draws a second of the samplers, chain by chain on one thread each.

use anyhow::{Context, Result};
use rayon::prelude::*;
use serde_json::{Map, Value, json};
use std::path::Path;
use std::time::Instant;
use variegate::answer::RowLikelihoods;
use variegate::data::Dataset;
use variegate::diagnostics::{ess_bulk, r_hat};
use variegate::model::experts::{ExpertsPosterior, Shape as Mixture};
use variegate::model::gated::forces::{self, Forces};
use variegate::model::gated::rows;
use variegate::model::{Prepared, RunSettings, family};
use variegate::run::{Draws, Engine, Piece, Report, Shape, blocks, default_block_rows};
use variegate_io::read::{ColumnSpec, ReadOptions, read};

use crate::Options;
use crate::clock::{figures, seconds};

pub fn data(options: &Options, key: &str) -> Result<Dataset<'static>> {
    let path = options.word(key, "");
    let target = (!path.ends_with(".svm")).then(|| ColumnSpec::column("y"));
    let data = read(Path::new(path), &ReadOptions { target, ..ReadOptions::default() })?;
    Ok(data)
}

pub fn run(options: &Options) -> Result<Value> {
    match options.word("work", "ess") {
        "pass" => pass(options),
        "vb" => crate::experts_vb::run(options),
        _ => ess(options),
    }
}

/// Seconds of one pass: log likelihood and its gradient over all rows, and the gradient in single precision.
fn pass(options: &Options) -> Result<Value> {
    let train = data(options, "train")?;
    let experts = options.get("experts", 30usize)?;
    let given = json!({ "experts": experts, "inference": "map", "prior": "gaussian" });
    let model = family("experts")?.configure(given.as_object().context("settings")?)?;
    let (mut design, _) = variegate::run::survey(&train, &model.questions(), None)?.design(Default::default())?;
    design.intercept = true;
    let shape = Mixture::new(experts, 2, design.kept.len(), true);
    let weights: Vec<f64> = (0..shape.vectors() * shape.dim()).map(|i| (i as f64).sin() * 0.3).collect();
    let blocks = blocks(&train, options.get("block", default_block_rows(train.x.cols()))?);
    let mut scratch = rows::Scratch::default();
    let gated = shape.gated();
    let mut value = 0.0;
    let times: Vec<f64> = (0..options.get("repeats", 20)?)
        .map(|_| {
            seconds(|| {
                value = blocks.iter().map(|b| rows::likelihood(&design, &gated, &weights, b, |_| 1.0, &mut scratch).value.0).sum();
            })
        })
        .collect();
    let forces = Forces::new(gated, &design).context("more than one expert")?;
    let (mut scratch, mut gradient) = (forces::Scratch::default(), Vec::new());
    let ones = blocks.iter().all(|b| forces::all_ones(b.x));
    let single: Vec<f64> = (0..options.get("repeats", 20)?)
        .map(|_| {
            seconds(|| {
                let packed = forces.pack(&design, &weights);
                let mut sums: Vec<f64> = Vec::new();
                for block in &blocks {
                    let found = forces.sums(&design, &packed, block, ones, &mut scratch);
                    sums.resize(found.len(), 0.0);
                    sums.iter_mut().zip(found).for_each(|(s, f)| *s += f);
                }
                gradient = forces.unpack(&design, &sums);
            })
        })
        .collect();
    Ok(json!({ "benchmark": "experts pass", "rows": train.rows(), "experts": experts, "value": value, "seconds": figures(&times),
               "forces": figures(&single), "force": gradient.iter().map(|g| g * g).sum::<f64>().sqrt() }))
}

/// Effective draws of the log likelihood and of predictions at held-out rows, for each second of sampling.
fn ess(options: &Options) -> Result<Value> {
    let (train, test) = (data(options, "train")?, data(options, "test")?);
    let mut given: Map<String, Value> = serde_json::from_str(options.word("settings", "{}"))?;
    let (warm_up, draws) = (options.get("warmup", 500u64)?, options.get("draws", 1000u64)?);
    let (chains, seed) = (options.get("chains", 2u32)?, options.get("seed", 1u64)?);
    for (name, value) in [("n_warmup", json!(warm_up)), ("n_draws", json!(draws)), ("n_chains", json!(chains))] {
        given.insert(name.into(), value);
    }
    let model = family("experts")?.configure(&given)?;
    let Prepared { fit, plan, .. } = RunSettings::default().prepare(model.as_ref(), &train)?;
    let block_rows = plan.block_rows;
    let cut = blocks(&train, block_rows);
    let shape = Shape { rows: train.rows(), cols: train.x.cols(), blocks: cut.len() as u32, block_rows };
    // each chain on one thread; on one thread in all they go one after the other, and times are those of one core
    let threads = options.get("threads", 1usize)?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    // seconds of each chain, of which three tenths at most are warm-up; 0 is as long as it takes
    let budget = options.get("seconds", 0.0f64)?;
    let begin = Instant::now();
    let run = |chain: u32| -> Result<(Piece, f64, f64)> {
        let begin = Instant::now();
        let mut open = fit.program().open(Engine::Threads(&cut), shape, seed, chain, None)?;
        let late = |share: f64| budget > 0.0 && begin.elapsed().as_secs_f64() > share * budget;
        for _ in 0..warm_up {
            open.advance(true)?;
            if late(0.3) {
                break;
            }
        }
        let warm_seconds = begin.elapsed().as_secs_f64();
        let mut kept = Draws::default();
        let mut trace = Vec::new();
        let begin_draws = Instant::now();
        for sweep in 1..=draws {
            if late(1.0) {
                break;
            }
            let report = open.advance(false)?;
            open.keep(&mut kept);
            trace.push((warm_up + sweep, report));
        }
        let piece = Piece { chain, sweeps: warm_up + draws, draws: kept, trace, checkpoint: open.save(true)?, finished: true };
        Ok((piece, warm_seconds, begin_draws.elapsed().as_secs_f64()))
    };
    let done: Vec<(Piece, f64, f64)> = pool.install(|| (0..chains).into_par_iter().map(run).collect::<Result<_>>())?;
    let wall_seconds = begin.elapsed().as_secs_f64();
    let (warm_seconds, draw_seconds): (f64, f64) = (done.iter().map(|d| d.1).sum(), done.iter().map(|d| d.2).sum());
    let mut pieces: Vec<Piece> = done.into_iter().map(|d| d.0).collect();
    // chains that a limit of time has cut are as long as the shortest
    let draws = pieces.iter().map(|p| p.trace.len()).min().unwrap_or(0) as u64;
    for piece in &mut pieces {
        let t = &mut piece.draws.scalars;
        let width = t.width();
        t.values.truncate(width * draws as usize);
        piece.trace.truncate(draws as usize);
    }
    // what every sweep says of itself, one line each
    let trace = options.word("trace", "");
    if !trace.is_empty() {
        let line =
            |p: &Piece, (sweep, report): &(u64, Report)| json!({ "chain": p.chain, "sweep": sweep, "extras": report.extras }).to_string();
        let lines: Vec<String> = pieces.iter().flat_map(|p| p.trace.iter().map(move |t| line(p, t))).collect();
        std::fs::write(trace, lines.join("\n"))?;
    }
    let posterior = fit.posterior(&pieces)?;
    let saved = posterior.save()?;
    let experts: ExpertsPosterior = ExpertsPosterior::read(&saved)?;
    let likelihood: Vec<Vec<f64>> = pieces.iter().filter_map(|p| p.draws.scalars.column("log_likelihood", 0)).collect();
    let rows = test.rows();
    // probability of the class each held-out row has, a draw after the other
    let ln = experts.row_likelihoods(&test)?.ln;
    let by_row: Vec<Vec<Vec<f64>>> = (0..rows)
        .map(|i| {
            (0..chains as usize).map(|c| (0..draws as usize).map(|d| ln[(c * draws as usize + d) * rows + i].exp()).collect()).collect()
        })
        .collect();
    let mut sizes: Vec<f64> = by_row.par_iter().map(|chains| ess_bulk(chains)).collect();
    sizes.sort_by(f64::total_cmp);
    let mut hats: Vec<f64> = by_row.par_iter().map(|chains| r_hat(chains)).collect();
    hats.sort_by(f64::total_cmp);
    let at = |values: &[f64], q: f64| values[((values.len() - 1) as f64 * q) as usize];
    let extras = |name: &str| -> f64 {
        let all: Vec<f64> =
            pieces.iter().flat_map(|p| &p.trace).filter_map(|(_, r)| r.extras.iter().find(|(n, _)| n == name).map(|(_, v)| *v)).collect();
        all.iter().sum::<f64>() / all.len().max(1) as f64
    };
    let of_likelihood = ess_bulk(&likelihood);
    Ok(json!({
        "benchmark": "experts", "settings": given, "rows": train.rows(), "columns": train.x.cols(),
        "threads": threads, "draws": draws, "wall_seconds": wall_seconds, "warm_seconds": warm_seconds, "draw_seconds": draw_seconds, "acceptance": extras("acceptance"), "step": extras("step"),
        "log_likelihood": { "mean": likelihood.iter().flatten().sum::<f64>() / (chains as f64 * draws as f64),
                            "ess": of_likelihood, "per_second": of_likelihood / draw_seconds, "r_hat": r_hat(&likelihood) },
        "predictions": { "ess_least": sizes[0], "ess_median": at(&sizes, 0.5), "least_per_second": sizes[0] / draw_seconds,
                         "median_per_second": at(&sizes, 0.5) / draw_seconds, "r_hat_worst": at(&hats, 1.0), "r_hat_99": at(&hats, 0.99),
                         "r_hat_90": at(&hats, 0.9), "r_hat_median": at(&hats, 0.5),
                         "share_below_1.05": hats.iter().filter(|r| **r < 1.05).count() as f64 / rows as f64 },
        "accuracy": by_row.iter().filter(|c| { let all: Vec<f64> = c.concat(); all.iter().sum::<f64>() / all.len() as f64 > 0.5 }).count() as f64 / rows as f64,
        "log_loss": -by_row.iter().map(|c| { let all: Vec<f64> = c.concat(); (all.iter().sum::<f64>() / all.len() as f64).ln() }).sum::<f64>() / rows as f64,
    }))
}
