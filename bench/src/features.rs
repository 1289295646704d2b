//! Latent features: whether the shapes of block images are found, and what a sweep costs.
//!
//! `task=found`: block images (6 by 6, four shapes, noise of deviation 0.5) of `rows` rows; for each of `seeds` seeds from `first` on, whether
//! every shape has a feature of cosine above 0.9, and whether exactly four features are used by more than 5 % of the rows, all of cosine above
//! 0.95. `task=speed`: sweeps of generated rows (`rows`, `columns`, `count` features) beside products of matrices of that size, in turns.

use anyhow::{Result, bail};
use rand_distr::{Distribution, StandardNormal};
use serde_json::{Value, json};
use std::time::Instant;
use variegate::data::{Dataset, Matrix};
use variegate::linalg::{dot, mul_t};
use variegate::model::features::sampler::Sampler;
use variegate::model::features::{InterceptKind, PriorKind, Settings};
use variegate::model::{Model, RunSettings, fit};
use variegate::run::{Philox, Program, Purpose, Shape, Stream, Threads, Tick, Unobserved, blocks, default_block_rows, open01, survey};

use crate::Options;

/// The shapes, three rows of three each, by quadrant.
const SHAPES: [[u8; 9]; 4] =
    [[0, 1, 0, 1, 1, 1, 0, 1, 0], [1, 1, 1, 1, 0, 1, 1, 1, 1], [1, 0, 0, 1, 1, 0, 1, 1, 1], [1, 1, 1, 0, 1, 0, 0, 1, 0]];

fn shapes() -> Vec<[f64; 36]> {
    let place = |quadrant: usize, at: usize| (quadrant / 2 * 3 + at / 3) * 6 + quadrant % 2 * 3 + at % 3;
    let mut all = vec![[0.0; 36]; 4];
    for (q, shape) in SHAPES.iter().enumerate() {
        shape.iter().enumerate().for_each(|(at, &on)| all[q][place(q, at)] = f64::from(on));
    }
    all
}

fn images(rows: usize, rng: &mut Philox) -> Dataset<'static> {
    let shapes = shapes();
    let mut values = Vec::with_capacity(rows * 36);
    for _ in 0..rows {
        let mut row = [0.0; 36];
        for shape in &shapes {
            if open01(rng) < 0.5 {
                row.iter_mut().zip(shape).for_each(|(r, s)| *r += s);
            }
        }
        values.extend(row.iter().map(|r| {
            let z: f64 = StandardNormal.sample(rng);
            r + 0.5 * z
        }));
    }
    Dataset::new(Matrix::dense(rows, 36, values))
}

pub fn run(options: &Options) -> Result<Value> {
    match options.word("task", "found") {
        "found" => found(options),
        "speed" => speed(options),
        other => bail!("`task={other}` is neither found nor speed"),
    }
}

fn prior(options: &Options) -> Result<PriorKind> {
    Ok(match options.word("prior", "ibp") {
        "ibp" => PriorKind::Ibp,
        "pitman-yor" => PriorKind::PitmanYor,
        "mutual-angular" => PriorKind::MutualAngular,
        other => bail!("there is no prior `{other}`"),
    })
}

fn found(options: &Options) -> Result<Value> {
    let (rows, seeds, first) = (options.get("rows", 1000)?, options.get("seeds", 20u64)?, options.get("first", 1u64)?);
    let settings = Settings::default()
        .prior(prior(options)?)
        .intercept(InterceptKind::None)
        .n_chains(1)
        .n_warmup(options.get("warmup", 20)?)
        .n_draws(options.get("draws", 10)?)
        .thin(1)
        .restarts(options.get("restarts", 4)?);
    let model = settings.validate()?;
    let mut each = Vec::new();
    let (mut all, mut exact, mut seconds) = (0, 0, 0.0);
    for seed in first..first + seeds {
        let data = images(rows, &mut Stream::new(seed, 0, Purpose::Simulate).rng());
        let begin = Instant::now();
        let fitted = fit(&model, &data, &RunSettings::default().seed(seed), &mut Unobserved)?;
        seconds += begin.elapsed().as_secs_f64();
        let arrays = fitted.posterior.arrays();
        let array = |name: &str| arrays.iter().find(|a| a.name == name).map(|a| a.values.clone()).unwrap_or_default();
        let (components, usage) = (array("components"), array("usage"));
        let cosine = |a: &[f64], b: &[f64]| dot(a, b) / (dot(a, a) * dot(b, b)).sqrt();
        let best: Vec<f64> = shapes().iter().map(|s| components.chunks_exact(36).map(|w| cosine(w, s)).fold(-1.0, f64::max)).collect();
        let big: Vec<&[f64]> = components.chunks_exact(36).zip(&usage).filter(|(_, u)| **u > 0.05).map(|(w, _)| w).collect();
        let matched = big.iter().all(|w| shapes().iter().any(|s| cosine(w, s) > 0.95)) && best.iter().all(|c| *c > 0.95);
        let (a, b) = (best.iter().all(|c| *c > 0.9), matched && big.len() == 4);
        all += u64::from(a);
        exact += u64::from(b);
        each.push(json!({ "seed": seed, "cosines": best, "big": big.len(), "all": a, "exactly": b }));
    }
    Ok(
        json!({ "rows": rows, "seeds": seeds, "all_shapes": all, "exactly_four": exact, "seconds_each": seconds / seeds as f64, "each": each }),
    )
}

fn speed(options: &Options) -> Result<Value> {
    let (rows, columns, count): (usize, usize, usize) =
        (options.get("rows", 10_000)?, options.get("columns", 1_000)?, options.get("count", 100)?);
    let (sweeps, threads) = (options.get("sweeps", 10u64)?, options.get("threads", 1usize)?);
    let chance: f64 = options.get("chance", 0.1)?;
    let mut rng = Stream::new(options.get("seed", 1)?, 0, Purpose::Simulate).rng();
    let normal = |rng: &mut Philox| -> f64 { StandardNormal.sample(rng) };
    let weights: Vec<f64> = (0..count * columns).map(|_| normal(&mut rng)).collect();
    let mut values = vec![0.0; rows * columns];
    for row in values.chunks_exact_mut(columns) {
        for w in weights.chunks_exact(columns) {
            if open01(&mut rng) < chance {
                row.iter_mut().zip(w).for_each(|(r, w)| *r += w);
            }
        }
        row.iter_mut().for_each(|r| *r += 0.5 * normal(&mut rng));
    }
    let data = Dataset::new(Matrix::dense(rows, columns, values));
    let settings =
        Settings::default().prior(prior(options)?).intercept(InterceptKind::None).start(variegate::model::features::StartKind::Empty);
    let settings = settings.max_features(Some(100_000)).split_merge(options.get("split_merge", 10)?);
    let model = settings.validate()?;
    let found = survey(&data, &model.questions(), None)?;
    let (sampler, _) = model.sampler(&found)?;
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()?
        .install(|| time(&sampler, &data, &weights, chance, sweeps, options.word("births", "all") == "one"))
}

/// Sweeps from a state that has the true features, beside products of the same size.
fn time(sampler: &Sampler, data: &Dataset<'_>, weights: &[f64], chance: f64, sweeps: u64, single: bool) -> Result<Value> {
    let (rows, columns) = (data.rows(), data.x.cols());
    let block_rows = default_block_rows(columns);
    let blocks = blocks(data, block_rows);
    let shape = Shape { rows, cols: columns, blocks: blocks.len() as u32, block_rows };
    let mut engine = Threads::new(sampler, &blocks, shape, 1, 0, None);
    let mut state = sampler.seeded(&mut engine, weights, chance, Stream::new(1, 0, Purpose::Start))?;
    let count = state.features.len();
    let x = data.x.to_dense();
    let mut out = vec![0.0; block_rows * count.max(1)];
    let (mut sweep_seconds, mut product_seconds) = (Vec::new(), Vec::new());
    for sweep in 1..=sweeps {
        engine.begin(sweep);
        let begin = Instant::now();
        let stream = Stream::new(1, 0, Purpose::Sweep).sweep(sweep);
        sampler.sweep(&mut state, &mut engine, Tick { stream, sweep, warm_up: single })?;
        sweep_seconds.push(begin.elapsed().as_secs_f64());
        // 2 N D K operations, on one thread
        let begin = Instant::now();
        for block in x.chunks_exact(block_rows * columns) {
            mul_t(block, weights, &mut out[..block_rows * weights.len() / columns], block_rows, columns, weights.len() / columns, false);
        }
        product_seconds.push(begin.elapsed().as_secs_f64());
    }
    let median = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let (sweep, product) = (median(&mut sweep_seconds), median(&mut product_seconds));
    Ok(json!({
        "rows": rows,
        "columns": columns,
        "features_at_start": count,
        "features": state.features.used(),
        "seconds_a_sweep": sweep,
        "sweeps_a_second": 1.0 / sweep,
        "seconds_of_two_products": 2.0 * product,
        "share_of_the_product_rate": 2.0 * product / sweep,
    }))
}
