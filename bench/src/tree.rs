//! Cluster trees: what a sweep of many rows costs, and how soon a chain forgets who shares a node.
//!
//! `task=speed`: rows drawn here (`rows`, `columns`) from 80 leaves that mix 3 of `components` normal components each; sweeps of the sampler `anchored`
//! on 1 and 2 threads, in turns, from the same start, and the time of a draw that is kept. `task=mixing`: a stand-in of the animals of the paper
//! (33 rows of 8 classes in 3 groups, 7 columns with the variances of their principal components) and the paper's settings; the autocorrelation time
//! of "two rows share their node of level 1" over all pairs that are neither always nor never together, by paths from their conditional
//! distribution with subtrees that move, and by the paper's paths from the prior. `data=FILE pca=7` takes the rows of a file instead.

use anyhow::{Context, Result, bail};
use rand_distr::{Distribution, StandardNormal};
use serde_json::{Value, json};
use variegate::data::{Dataset, Matrix};
use variegate::diagnostics::ess_mean;
use variegate::model::tree::{ComponentKind, PathMoveKind, SamplerKind, Settings};
use variegate::model::{Model, RunSettings, fit};
use variegate::run::{Chain, Draws, Engine, Philox, Purpose, Shape, Stream, Unobserved, blocks, default_block_rows, open01};

use crate::Options;
use crate::clock::{least, median, seconds};

/// Leaves of the generated tree.
const LEAVES: usize = 80;
/// Components of a leaf.
const MIXED: usize = 3;
/// Variances of the first seven principal components of the animals.
const VARIANCES: [f64; 7] = [3.56, 2.24, 1.74, 1.53, 1.03, 0.79, 0.58];
/// Classes of the stand-in: rows of each, and the group that they belong to.
const CLASSES: [(usize, usize); 8] = [(6, 0), (5, 0), (4, 0), (5, 1), (4, 1), (4, 2), (3, 2), (2, 2)];

fn normal(rng: &mut Philox) -> f64 {
    StandardNormal.sample(rng)
}

fn below(n: usize, rng: &mut Philox) -> usize {
    ((open01(rng) * n as f64) as usize).min(n - 1)
}

pub fn run(options: &Options) -> Result<Value> {
    match options.word("task", "speed") {
        "speed" => speed(options),
        "mixing" => mixing(options),
        other => bail!("`task={other}` is neither speed nor mixing"),
    }
}

/// Leaves near each other mix components with numbers near each other.
fn generate(rows: usize, columns: usize, components: usize, rng: &mut Philox) -> Dataset<'static> {
    let centres: Vec<f64> = (0..components * columns).map(|_| 4.0 * normal(rng)).collect();
    let mut x = Vec::with_capacity(rows * columns);
    for _ in 0..rows {
        let leaf = below(LEAVES, rng);
        let k = (leaf * components / LEAVES + below(MIXED, rng)) % components;
        x.extend(centres[k * columns..(k + 1) * columns].iter().map(|c| c + normal(rng)));
    }
    Dataset::new(Matrix::dense(rows, columns, x))
}

fn speed(options: &Options) -> Result<Value> {
    let (rows, columns): (usize, usize) = (options.get("rows", 100_000)?, options.get("columns", 20)?);
    let components = options.get("components", 50)?;
    let (sweeps, forgotten) = (options.get("sweeps", 20)?, options.get("forgotten", 10)?);
    let sampler = match options.word("sampler", "anchored") {
        "anchored" => SamplerKind::Anchored,
        "slice" => SamplerKind::Slice,
        "sequential" => SamplerKind::Sequential,
        other => bail!("there is no sampler `{other}`"),
    };
    let threads: Vec<usize> = options.word("threads", "1,2").split(',').map(str::parse).collect::<std::result::Result<_, _>>()?;
    let data = generate(rows, columns, components, &mut Stream::new(options.get("seed", 1)?, 0, Purpose::Simulate).rng());
    let settings = Settings::default()
        .sampler(sampler)
        .alpha(options.get("alpha", 0.35f64)?.into())
        .separation(options.get("separation", 0f64)?.into());
    // under the default a chain begins with too few components, and takes long to split them
    let settings = settings.gamma0(options.get("gamma0", 50.0)?);
    let model = settings.validate()?;
    let fit = RunSettings::default().prepare(&model as &dyn Model, &data)?.fit;
    let block_rows = options.get("block_rows", default_block_rows(columns))?;
    let blocks = blocks(&data, block_rows);
    let shape = Shape { rows, cols: columns, blocks: blocks.len() as u32, block_rows };

    // one chain for each number of threads, all making the same draws, one sweep each in turns
    let mut chains: Vec<(rayon::ThreadPool, Box<dyn Chain + '_>, Vec<f64>)> = Vec::new();
    let mut start = Vec::new();
    for &threads in &threads {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
        let mut chain = None;
        start.push(seconds(|| chain = Some(pool.install(|| fit.program().open(Engine::Threads(&blocks), shape, 1, 0, None)))));
        chains.push((pool, chain.context("no start was made")??, Vec::new()));
    }
    let (mut keeping, mut last) = (Vec::new(), Vec::new());
    for sweep in 0..forgotten + sweeps {
        last.clear();
        for (pool, chain, times) in &mut chains {
            let mut report = None;
            let time = seconds(|| report = Some(pool.install(|| chain.advance(false))));
            last.push(report.context("no sweep was made")??);
            if sweep >= forgotten {
                times.push(time);
            }
        }
        if sweep >= forgotten {
            let mut draws = Draws::default();
            keeping.push(seconds(|| chains[0].1.keep(&mut draws)));
        }
    }
    let same = last.windows(2).all(|pair| pair[0].objective.to_bits() == pair[1].objective.to_bits());
    let found = last.first().context("no threads were given")?;
    let nodes: f64 = found.extras.iter().filter(|(name, _)| name.starts_with("nodes_")).map(|(_, n)| n).sum();
    let each: Vec<Value> = threads
        .iter()
        .zip(&chains)
        .map(|(threads, (_, _, times))| json!({ "threads": threads, "sweeps_a_second": 1.0 / least(times), "median_seconds": median(times), "seconds": times }))
        .collect();
    // of neighbours in time, so that a busy machine hits both
    let ratios: Vec<f64> = match &chains[..] {
        [(_, _, one), (_, _, two), ..] => one.iter().zip(two).map(|(a, b)| a / b).collect(),
        _ => Vec::new(),
    };
    Ok(json!({
        "benchmark": "tree",
        "rows": rows,
        "columns": columns,
        "components": found.components,
        "nodes": nodes,
        "start_seconds": start,
        "runs": each,
        "median_ratio_of_the_first_two": if ratios.is_empty() { Value::Null } else { json!(median(&ratios)) },
        "seconds_of_a_kept_draw": median(&keeping),
        "same_draws": same,
    }))
}

/// The stand-in: groups, classes in them, rows around the centres of their classes, and at last every column with its variance.
fn animals(rng: &mut Philox) -> Vec<f64> {
    let groups: Vec<[f64; 7]> = (0..3).map(|_| std::array::from_fn(|_| normal(rng))).collect();
    let mut rows: Vec<[f64; 7]> = Vec::new();
    for (count, group) in CLASSES {
        let centre: [f64; 7] = std::array::from_fn(|d| groups[group][d] + 0.7 * normal(rng));
        rows.extend((0..count).map(|_| std::array::from_fn(|d| centre[d] + 0.5 * normal(rng))));
    }
    let n = rows.len() as f64;
    for d in 0..7 {
        let mean = rows.iter().map(|r| r[d]).sum::<f64>() / n;
        let variance = rows.iter().map(|r| (r[d] - mean).powi(2)).sum::<f64>() / n;
        rows.iter_mut().for_each(|r| r[d] = (r[d] - mean) * (VARIANCES[d] / variance).sqrt());
    }
    rows.concat()
}

/// Rows of a file of numbers, one a line with commas between, and their number of columns.
fn table(path: &str) -> Result<(Vec<f64>, usize)> {
    let text = std::fs::read_to_string(path).with_context(|| format!("`{path}` cannot be read"))?;
    let number = |word: &str| word.trim().parse::<f64>().with_context(|| format!("`{path}`: `{word}` is no number"));
    let columns = text.lines().next().map_or(0, |line| line.split(',').count());
    let x = text.lines().flat_map(|line| line.split(',')).map(number).collect::<Result<Vec<_>>>()?;
    if columns == 0 || x.len() % columns != 0 {
        bail!("`{path}` has lines of different lengths, or none");
    }
    Ok((x, columns))
}

fn mixing(options: &Options) -> Result<Value> {
    let (sweeps, warm_up) = (options.get("sweeps", 20_000)?, options.get("warmup", 2_000)?);
    let (x, columns) = match options.word("data", "") {
        "" => (animals(&mut Stream::new(options.get("seed", 1)?, 0, Purpose::Simulate).rng()), 7),
        path => table(path)?,
    };
    let rows = x.len() / columns;
    let data = Dataset::new(Matrix::dense(rows, columns, x));
    let pca = Some(options.get("pca", 0)?).filter(|count| *count > 0);
    let plain = || {
        let settings = Settings::default().likelihood(ComponentKind::GaussianKnown).pca(pca);
        settings.n_chains(1).n_warmup(warm_up).n_draws(sweeps).thin(1)
    };
    let arms = [
        ("gibbs, regraft", plain()),
        ("gibbs", plain().regraft(false)),
        ("prior", plain().path_move(PathMoveKind::Prior).regraft(false).split_merge(Some(0))),
    ];
    let mut each = Vec::new();
    let mut times: Vec<Vec<Option<f64>>> = Vec::new();
    for (name, settings) in arms {
        let mut fitted = None;
        let run = RunSettings::default().seed(options.get("chain", 1)?).threads(1);
        let time = seconds(|| fitted = Some(settings.validate().and_then(|model| fit(&model, &data, &run, &mut Unobserved))));
        let posterior = fitted.context("nothing was fitted")??.posterior;
        let draws = posterior.answers().clusters.context("no tree was fitted")?.sampled(usize::MAX);
        let levels = draws[0].len() / rows;
        let mut of_pairs = Vec::new();
        for j in 0..rows {
            for i in 0..j {
                let together: Vec<f64> = draws.iter().map(|d| f64::from(u8::from(d[i * levels] == d[j * levels]))).collect();
                let share = together.iter().sum::<f64>() / together.len() as f64;
                let telling = (0.1..=0.9).contains(&share);
                of_pairs.push(telling.then(|| together.len() as f64 / ess_mean(&[together])));
            }
        }
        let all: Vec<f64> = of_pairs.iter().copied().flatten().collect();
        each.push(json!({
            "paths": name,
            "seconds": time,
            "pairs": all.len(),
            "median_time": median(&all),
            "longest_time": all.iter().copied().fold(0.0, f64::max),
        }));
        times.push(of_pairs);
    }
    let ratio = |slow: &[Option<f64>], quick: &[Option<f64>]| {
        let both: Vec<f64> = slow.iter().zip(quick).filter_map(|(s, q)| Some((*s)? / (*q)?)).collect();
        median(&both)
    };
    Ok(json!({
        "benchmark": "tree",
        "rows": rows,
        "sweeps": sweeps,
        "arms": each,
        "prior_over_gibbs_with_regraft": ratio(&times[2], &times[0]),
        "prior_over_gibbs": ratio(&times[2], &times[1]),
    }))
}
