//! Shared factors: how soon known factors are found, and what a sweep costs.
//!
//! `task=found` (with `likelihood=poisson` or `gaussian`): generated data whose factors are known; for every seed the first sweep after
//! which all are found, one to one, with the right sharing. `task=speed`: sweeps over sparse counts of any size. `task=rows`: coordinates
//! and completions of rows that were not in the fit.

use anyhow::{Result, bail};
use rand_distr::{Distribution, Exp1, Poisson, StandardNormal};
use serde_json::{Map, Value, json};
use std::time::Instant;
use variegate::answer::Posterior;
use variegate::data::{Classes, Dataset, Matrix};
use variegate::dist::Gamma;
use variegate::infer::assignment::assign;
use variegate::linalg::dot;
use variegate::model::Model;
use variegate::model::factors::likelihood::Likelihood;
use variegate::model::factors::sampler::{Atoms, Local, Sampler, State};
use variegate::model::factors::{LikelihoodKind, Settings};
use variegate::run::{
    Block, Draws, Philox, Piece, Program, Purpose, Report, Shape, Stream, Threads, Tick, blocks, default_block_rows, open01, survey,
};

use crate::{Options, clock};

/// Data whose factors are known, and which sources use each.
struct Known {
    data: Dataset<'static>,
    factors: Vec<f64>,
    used: Vec<[bool; 2]>,
}

fn two_sources(rows: usize) -> Classes {
    Classes { codes: (0..2 * rows).map(|i| (i / rows) as u32).collect(), names: vec!["1".into(), "2".into()] }
}

/// Images of ten by ten: twelve bars, four of the first source, four of the second, four of both.
fn bars(rng: &mut Philox) -> Result<Known> {
    let (width, rows) = (100, 100);
    let mut factors = vec![0.0; 12 * width];
    for (f, factor) in factors.chunks_exact_mut(width).enumerate() {
        for i in 0..10 {
            factor[if f < 6 { (f + 2) * 10 + i } else { i * 10 + f - 4 }] = 1.0;
        }
    }
    let used: Vec<[bool; 2]> = (0..12).map(|f| [f % 6 != 2 && f % 6 != 3, f % 6 != 0 && f % 6 != 1]).collect();
    let mut values = Vec::with_capacity(2 * rows * width);
    for i in 0..2 * rows {
        let mut rate = vec![0.1; width];
        for (factor, used) in factors.chunks_exact(width).zip(&used) {
            if used[i / rows] && open01(rng) < 0.5 {
                let e: f64 = Exp1.sample(rng);
                rate.iter_mut().zip(factor).for_each(|(r, v)| *r += 2.0 * e * v);
            }
        }
        for r in rate {
            values.push(Poisson::new(r)?.sample(rng));
        }
    }
    let mut data = Dataset::new(Matrix::dense(2 * rows, width, values));
    data.sources = Some(two_sources(rows));
    Ok(Known { data, factors, used })
}

/// Rows of thirty numbers: eight factors, two of them of both sources, three of each alone.
fn normals(rng: &mut Philox) -> Known {
    let (width, rows) = (30, 100);
    let mut normal = || -> f64 { StandardNormal.sample(rng) };
    let factors: Vec<f64> = (0..8 * width).map(|_| normal()).collect();
    let used: Vec<[bool; 2]> = (0..8).map(|f| [f < 5, !(2..5).contains(&f)]).collect();
    let mut values = Vec::with_capacity(2 * rows * width);
    for i in 0..2 * rows {
        let mut mean = vec![0.0; width];
        for (factor, used) in factors.chunks_exact(width).zip(&used) {
            // a fair coin is the sign of a normal number
            let (coin, w) = (normal(), normal());
            if used[i / rows] && coin > 0.0 {
                mean.iter_mut().zip(factor).for_each(|(m, v)| *m += w * v);
            }
        }
        values.extend(mean.into_iter().map(|m| m + 0.5 * normal()));
    }
    let mut data = Dataset::new(Matrix::dense(2 * rows, width, values));
    data.sources = Some(two_sources(rows));
    Known { data, factors, used }
}

/// Smallest cosine of the known factors with those they are matched with, and how many of them have the right sources.
fn judge(known: &Known, atoms: &Atoms) -> (f64, usize) {
    let width = known.data.x.cols();
    let (n, k) = (known.used.len(), atoms.len());
    let cosine = |a: &[f64], b: &[f64]| (dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()).abs();
    let worth: Vec<f64> =
        known.factors.chunks_exact(width).flat_map(|f| atoms.phi.chunks_exact(width).map(move |a| cosine(f, a))).collect();
    let pairs = assign(&worth, n, k);
    let mut worst = 1.0f64;
    let mut right = 0;
    for (f, pair) in pairs.iter().enumerate() {
        worst = worst.min(pair.map_or(0.0, |p| worth[f * k + p]));
        right += usize::from(pair.is_some_and(|p| (0..2).all(|j| (atoms.uses_of(p)[j] > 0) == known.used[f][j])));
    }
    (worst, right)
}

/// Sweeps of one chain until everything is found.
fn search<L: Likelihood>(sampler: &Sampler<L>, known: &Known, seed: u64, sweeps: u64) -> Result<Value> {
    let block_rows = default_block_rows(known.data.x.cols());
    let cut = blocks(&known.data, block_rows);
    let shape = Shape { rows: known.data.rows(), cols: known.data.x.cols(), blocks: cut.len() as u32, block_rows };
    let begin = Instant::now();
    let mut rows = Threads::new(sampler, &cut, shape, seed, 0, None);
    let mut state = sampler.start(&mut rows, Stream::new(seed, 0, Purpose::Start))?;
    let (mut spent, mut found, mut found_seconds) = (begin.elapsed().as_secs_f64(), None, 0.0);
    let mut counts = Vec::new();
    let mut last = (0.0, 0);
    for sweep in 1..=sweeps {
        let begin = Instant::now();
        rows.begin(sweep);
        let stream = Stream::new(seed, 0, Purpose::Sweep).sweep(sweep);
        sampler.sweep(&mut state, &mut rows, Tick { stream, sweep, warm_up: true })?;
        spent += begin.elapsed().as_secs_f64();
        counts.push(state.atoms.len());
        last = judge(known, &state.atoms);
        if found.is_none() && last.0 > 0.9 && last.1 + 1 >= known.used.len() {
            found = Some(sweep);
            found_seconds = spent;
        }
    }
    // the second half: by then the chain should have settled
    let mut counts = counts.split_off(counts.len() / 2);
    counts.sort_unstable();
    let mode = counts.chunk_by(|a, b| a == b).max_by_key(|run| run.len()).map_or(0, |run| run[0]);
    Ok(json!({
        "seed": seed, "sweep": found, "seconds_to_find": found_seconds, "seconds": spent, "factors": state.atoms.len(),
        "mode": mode, "worst_cosine": last.0, "right_sharing": last.1,
    }))
}

fn found(options: &Options) -> Result<Value> {
    let gaussian = options.word("likelihood", "poisson") == "gaussian";
    let (first, seeds, sweeps) =
        (options.get("first", 1u64)?, options.get("seeds", 20u64)?, options.get("sweeps", if gaussian { 200 } else { 25 })?);
    let given: Map<String, Value> = serde_json::from_str(options.word("settings", "{}"))?;
    let mut all = Vec::new();
    for seed in first..first + seeds {
        let mut rng = Stream::new(seed, 0, Purpose::Simulate).rng();
        let mut settings = serde_json::to_value(Settings::default())?;
        if let Value::Object(map) = &mut settings {
            map.extend(given.clone());
            if gaussian {
                map.insert("likelihood".into(), "gaussian".into());
                map.insert("center".into(), false.into());
            }
        }
        let model = serde_json::from_value::<Settings>(settings)?.validate()?;
        all.push(if gaussian {
            let known = normals(&mut rng);
            search(&model.gaussian(&survey(&known.data, &model.questions(), None)?)?.0, &known, seed, sweeps)?
        } else {
            let known = bars(&mut rng)?;
            search(&model.counts(&survey(&known.data, &model.questions(), None)?)?.0, &known, seed, sweeps)?
        });
    }
    Ok(json!({ "runs": all }))
}

/// Rows made of known atoms: the data, φ, and the atoms of each row with their weights.
struct Made {
    data: Dataset<'static>,
    phi: Vec<f64>,
    lists: Vec<Vec<(u64, f64)>>,
}

impl Made {
    fn new(x: Matrix<'static>, phi: Vec<f64>, lists: Vec<Vec<(u64, f64)>>) -> Self {
        let mut data = Dataset::new(x);
        data.sources = Some(Classes { codes: (0..data.rows()).map(|i| (i % 2) as u32).collect(), names: vec!["1".into(), "2".into()] });
        Self { data, phi, lists }
    }

    /// These rows of it alone.
    fn subset(&self, rows: &[usize]) -> Self {
        Self { data: self.data.subset(rows), phi: self.phi.clone(), lists: rows.iter().map(|&i| self.lists[i].clone()).collect() }
    }

    /// Calls `f` after each of some sweeps that begin with the known atoms; gives their seconds.
    fn sweeps<L: Likelihood>(
        &self,
        sampler: &Sampler<L>,
        sweeps: u64,
        mut f: impl FnMut(&State<L::Scales>, u64, Report),
    ) -> Result<Vec<f64>> {
        let (n, width) = (self.data.rows(), self.data.x.cols());
        let block_rows = default_block_rows(width);
        let cut = blocks(&self.data, block_rows);
        let shape = Shape { rows: n, cols: width, blocks: cut.len() as u32, block_rows };
        let local = |rows: &[Vec<(u64, f64)>], block: &Block<'_>| {
            let mut local = Local { rows: rows.to_vec(), filled: sampler.likelihood.fill(block), ..Local::default() };
            if !local.filled.is_empty() {
                local.filled_at = vec![0];
                for i in 0..block.rows() {
                    let mut missing = 0;
                    block.x.for_row(i, |_, v| missing += u32::from(v.is_nan()));
                    local.filled_at.push(local.filled_at[i] + missing);
                }
            }
            local
        };
        let locals = self.lists.chunks(block_rows).zip(&cut).map(|(rows, block)| local(rows, block)).collect();
        let mut rows = Threads::new(sampler, &cut, shape, 1, 0, Some(locals));
        let mut state = sampler.start(&mut rows, Stream::new(1, 0, Purpose::Start))?;
        let atoms = self.phi.len() / width;
        let mut uses = vec![0u32; 2 * atoms];
        for (i, list) in self.lists.iter().enumerate() {
            list.iter().for_each(|e| uses[2 * e.0 as usize + i % 2] += 1);
        }
        state.atoms = Atoms { ids: (0..atoms as u64).collect(), phi: self.phi.clone(), weight: vec![0.5; atoms], uses };
        (1..=sweeps)
            .map(|sweep| {
                let begin = Instant::now();
                rows.begin(sweep);
                let stream = Stream::new(1, 0, Purpose::Sweep).sweep(sweep);
                let report = sampler.sweep(&mut state, &mut rows, Tick { stream, sweep, warm_up: false })?;
                let seconds = begin.elapsed().as_secs_f64();
                f(&state, sweep, report);
                Ok(seconds)
            })
            .collect()
    }
}

/// Some of the atoms, each at most once, ascending, with weights that follow from the atom.
fn some_atoms(atoms: usize, each: usize, rng: &mut Philox, mut weight: impl FnMut(usize, &mut Philox) -> f64) -> Vec<(u64, f64)> {
    let mut list: Vec<(u64, f64)> = Vec::new();
    while list.len() < each.min(atoms) {
        let k = (open01(rng) * atoms as f64) as usize;
        if list.iter().all(|e| e.0 != k as u64) {
            list.push((k as u64, weight(k, rng)));
        }
    }
    list.sort_unstable_by_key(|e| e.0);
    list
}

/// Sparse counts made of `atoms` factors, `each` of them in a row of so many words.
fn texts(n: usize, width: usize, atoms: usize, words: usize, each: usize) -> Result<Made> {
    let mut rng = Stream::new(1, 0, Purpose::Simulate).rng();
    // every factor weighs some columns, by a gamma distribution of small shape; words are drawn from the factors of a row
    let distribution = Gamma::new(0.1, 0.1)?;
    let phi: Vec<f64> = (0..atoms * width).map(|_| distribution.sample(&mut rng).max(1e-12)).collect();
    let sums: Vec<Vec<f64>> = phi
        .chunks_exact(width)
        .map(|a| {
            let mut total = 0.0;
            a.iter()
                .map(|v| {
                    total += v;
                    total
                })
                .collect()
        })
        .collect();
    let (mut indptr, mut indices, mut values) = (vec![0usize], Vec::new(), Vec::new());
    let mut lists = Vec::with_capacity(n);
    for _ in 0..n {
        let list = some_atoms(atoms, each, &mut rng, |k, _| words as f64 / each as f64 / sums[k][width - 1]);
        let mut columns: Vec<u32> = (0..words)
            .map(|w| {
                let cumulative = &sums[list[w % list.len()].0 as usize];
                let point = open01(&mut rng) * cumulative[width - 1];
                cumulative.partition_point(|&c| c <= point).min(width - 1) as u32
            })
            .collect();
        columns.sort_unstable();
        for run in columns.chunk_by(|a, b| a == b) {
            indices.push(run[0]);
            values.push(run.len() as f64);
        }
        indptr.push(indices.len());
        lists.push(list);
    }
    let x = Matrix::Csr { rows: n, cols: width, indptr: indptr.into(), indices: indices.into(), values: values.into() };
    Ok(Made::new(x, phi, lists))
}

/// Real numbers made of `atoms` factors and noise, one entry in `missing` missing (none at 0).
fn numbers(n: usize, width: usize, atoms: usize, each: usize, noise: f64, missing: usize) -> Made {
    let mut rng = Stream::new(1, 0, Purpose::Simulate).rng();
    let normal = |rng: &mut Philox| -> f64 { StandardNormal.sample(rng) };
    let phi: Vec<f64> = (0..atoms * width).map(|_| normal(&mut rng)).collect();
    let (mut values, mut lists) = (Vec::with_capacity(n * width), Vec::with_capacity(n));
    for _ in 0..n {
        let list = some_atoms(atoms, each, &mut rng, |_, rng| normal(rng));
        let mut x: Vec<f64> = (0..width).map(|_| noise * normal(&mut rng)).collect();
        for &(k, w) in &list {
            x.iter_mut().zip(&phi[k as usize * width..]).for_each(|(x, p)| *x += w * p);
        }
        if missing > 0 {
            x.iter_mut().for_each(|x| *x = if open01(&mut rng) < 1.0 / missing as f64 { f64::NAN } else { *x });
        }
        values.extend(x);
        lists.push(list);
    }
    Made::new(Matrix::dense(n, width, values), phi, lists)
}

/// Sweeps over sparse counts.
fn speed(options: &Options) -> Result<Value> {
    let (n, width, atoms) = (options.get("rows", 20_000usize)?, options.get("columns", 5_000usize)?, options.get("atoms", 50usize)?);
    let (sweeps, threads) = (options.get("sweeps", 3u64)?, options.get("threads", 1usize)?);
    let made = texts(n, width, atoms, options.get("words", 100)?, options.get("each", 5)?)?;
    let stored = match &made.data.x {
        Matrix::Csr { values, .. } => values.len(),
        Matrix::Dense { values, .. } => values.len(),
    };
    let settings = Settings::default().max_factors(Some(atoms as u64)).split_merge(Some(options.get("split_merge", 20u64)?));
    let model = settings.validate()?;
    let (sampler, _) = model.counts(&survey(&made.data, &model.questions(), None)?)?;
    let times = variegate_pool(threads)?.install(|| made.sweeps(&sampler, sweeps, |_, _, _| ()))?;
    Ok(json!({ "rows": n, "columns": width, "stored": stored, "atoms": atoms, "threads": threads, "seconds": clock::figures(&times) }))
}

/// The posterior of a few sweeps over `fit_rows` rows that begin with the known factors, and `rows` new rows.
pub fn settled(options: &Options) -> Result<(Box<dyn Posterior>, Dataset<'static>)> {
    let (n, fit_rows, atoms) = (options.get("rows", 500usize)?, options.get("fit_rows", 500usize)?, options.get("atoms", 53usize)?);
    let (each, draws, missing) = (options.get("each", 5usize)?, options.get("draws", 20u64)?, options.get("missing", 0usize)?);
    let gaussian = options.word("likelihood", "poisson") == "gaussian";
    let width = options.get("columns", if gaussian { 100 } else { 2000usize })?;
    let settings = Settings::default().max_factors(Some(atoms as u64)).n_chains(1).n_warmup(0).n_draws(draws).thin(1);
    let (made, settings) = if gaussian {
        let made = numbers(n + fit_rows, width, atoms, each, options.get("noise", 1.0)?, missing);
        (made, settings.likelihood(LikelihoodKind::Gaussian).center(false).missing(missing > 0))
    } else {
        (texts(n + fit_rows, width, atoms, options.get("words", 600)?, each)?, settings)
    };
    let seen = made.subset(&(0..fit_rows).collect::<Vec<_>>());
    let model = settings.validate()?;
    let surveyed = survey(&seen.data, &model.questions(), None)?;
    let (mut kept, mut trace) = (Draws::default(), Vec::new());
    if gaussian {
        let sampler = model.gaussian(&surveyed)?.0;
        // atoms of entries that are divided by their spread
        let seen = Made { phi: seen.phi.iter().map(|p| p / sampler.likelihood.centre.scale).collect(), ..seen };
        seen.sweeps(&sampler, draws, |state, sweep, report| {
            sampler.draw(state, &mut kept);
            kept.finish();
            trace.push((sweep, report));
        })?;
    } else {
        let sampler = model.counts(&surveyed)?.0;
        seen.sweeps(&sampler, draws, |state, sweep, report| {
            sampler.draw(state, &mut kept);
            kept.finish();
            trace.push((sweep, report));
        })?;
    }
    let piece = Piece { chain: 0, sweeps: draws, draws: kept, trace, checkpoint: Vec::new(), finished: true };
    let posterior = model.prepare(&surveyed)?.posterior(&[piece])?;
    Ok((posterior, made.data.subset(&(fit_rows..fit_rows + n).collect::<Vec<_>>())))
}

/// New rows: their coordinates, and for counts what the rest of them is expected to be.
fn new_rows(options: &Options) -> Result<Value> {
    let (posterior, data) = settled(options)?;
    let counts = options.word("likelihood", "poisson") == "poisson";
    let (repeats, threads) = (options.get("repeats", 3usize)?, options.get("threads", 1usize)?);
    let (mut transform, mut complete) = (Vec::new(), Vec::new());
    variegate_pool(threads)?.install(|| -> Result<()> {
        for _ in 0..repeats {
            let begin = Instant::now();
            posterior.transform(&data)?;
            transform.push(begin.elapsed().as_secs_f64());
            if counts {
                let begin = Instant::now();
                posterior.complete(&data, 0.5)?;
                complete.push(begin.elapsed().as_secs_f64());
            }
        }
        Ok(())
    })?;
    let mut out = json!({ "rows": data.rows(), "columns": data.x.cols(), "threads": threads, "transform": clock::figures(&transform) });
    if counts {
        out["complete"] = clock::figures(&complete);
    }
    Ok(out)
}

fn variegate_pool(threads: usize) -> Result<rayon::ThreadPool> {
    Ok(rayon::ThreadPoolBuilder::new().num_threads(threads).build()?)
}

pub fn run(options: &Options) -> Result<Value> {
    match options.word("task", "found") {
        "found" => found(options),
        "speed" => speed(options),
        "rows" => new_rows(options),
        other => bail!("there is no task `{other}`: choose found, speed or rows"),
    }
}
