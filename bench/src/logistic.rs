//! Gibbs sweeps of logistic regression on several numbers of threads, taken in turns so that a busy moment hits all alike.

use anyhow::Result;
use serde_json::{Map, Value, json};
use variegate::model::family;
use variegate::run::{Engine, Shape, blocks, default_block_rows};

use crate::Options;
use crate::clock::{figures, least, median, seconds};

pub fn run(options: &Options) -> Result<Value> {
    let (rows, columns) = (options.get("rows", 100_000usize)?, options.get("columns", 50usize)?);
    let (repeats, sweeps) = (options.get("repeats", 40usize)?, options.get("sweeps", 2usize)?);
    let threads: Vec<usize> = options.word("threads", "1,2").split(',').map(str::parse).collect::<Result<_, _>>()?;

    let model = family("logistic")?.configure(&Map::new())?;
    let request = json!({ "columns": columns }).as_object().cloned().unwrap_or_default();
    let data = model.simulate(rows, &request, 1)?.data;
    let fit = variegate::model::RunSettings::default().prepare(model.as_ref(), &data)?.fit;
    let block_rows = default_block_rows(columns);
    let blocks = blocks(&data, block_rows);
    let shape = Shape { rows, cols: columns, blocks: blocks.len() as u32, block_rows };

    let mut lanes = Vec::new();
    for &t in &threads {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(t).build()?;
        let mut chain = pool.install(|| fit.program().open(Engine::Threads(&blocks), shape, 1, 0, None))?;
        // the first sweeps start far from the posterior and fill the buffers
        pool.install(|| (0..5).try_for_each(|_| chain.advance(true).map(|_| ())))?;
        lanes.push((pool, chain, Vec::new()));
    }
    for _ in 0..repeats {
        for (pool, chain, times) in &mut lanes {
            let mut outcome = Ok(());
            let time = seconds(|| outcome = pool.install(|| (0..sweeps).try_for_each(|_| chain.advance(false).map(|_| ()))));
            outcome?;
            times.push(time / sweeps as f64);
        }
    }
    let speed: Vec<Value> = threads
        .iter()
        .zip(&lanes)
        .map(|(t, lane)| {
            let times = &lane.2;
            json!({
                "threads": t,
                "seconds_per_sweep": figures(times),
                "sweeps_per_second": 1.0 / least(times),
                "gain_by_least": least(&lanes[0].2) / least(times),
                "gain_by_median": median(&lanes[0].2) / median(times),
            })
        })
        .collect();
    Ok(json!({ "benchmark": "logistic", "rows": rows, "columns": columns, "block_rows": block_rows, "lanes": speed }))
}
