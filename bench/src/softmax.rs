//! The variational cycle of softmax against the matrix-product rate of the machine, both on one thread and in turns.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use variegate::model::family;
use variegate::run::{Engine, Shape, blocks, default_block_rows};

use crate::Options;
use crate::clock::{figures, least, seconds};
use crate::matmul::Square;

/// Floating-point operations of the products of one pass over n rows: a weighted Gram matrix (one triangle) and a quadratic form
/// (triangular) are n D² each, logits and linear statistics 2 n D S each. A joint covariance has S (S + 1) / 2 blocks of each kind,
/// one a class has S.
fn operations(rows: usize, dim: usize, classes: usize, joint: bool) -> f64 {
    let (n, d, s) = (rows as f64, dim as f64, classes as f64);
    let blocks = if joint { 0.5 * s * (s + 1.0) } else { s };
    2.0 * blocks * n * d * d + 4.0 * n * d * s
}

/// The most memory this process has held, where the system says so.
fn peak_bytes() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<usize>().ok().map(|kib| kib * 1024)
}

pub fn run(options: &Options) -> Result<Value> {
    let (rows, columns) = (options.get("rows", 100_000usize)?, options.get("columns", 50usize)?);
    let (classes, repeats) = (options.get("classes", 6usize)?, options.get("repeats", 20usize)?);
    let (bound, covariance) = (options.word("bound", "tilted"), options.word("covariance", "joint"));

    let settings = json!({ "bound": bound, "covariance": covariance });
    let model = family("softmax")?.configure(settings.as_object().context("settings")?)?;
    let request = json!({ "columns": columns, "classes": classes });
    let data = model.simulate(rows, request.as_object().context("request")?, 1)?.data;
    let fit = variegate::model::RunSettings::default().prepare(model.as_ref(), &data)?.fit;
    let block_rows = default_block_rows(columns);
    let blocks = blocks(&data, block_rows);
    let shape = Shape { rows, cols: columns, blocks: blocks.len() as u32, block_rows };

    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    let mut square = Square::new(1536);
    square.time();
    let mut chain = pool.install(|| fit.program().open(Engine::Threads(&blocks), shape, 1, 0, None))?;
    let (mut products, mut passes) = (Vec::new(), Vec::new());
    for _ in 0..repeats {
        products.push(square.time());
        let mut outcome = None;
        let time = seconds(|| outcome = Some(pool.install(|| chain.advance(false))));
        let report = outcome.context("no sweep was done")??;
        // a step that lowers the bound is undone and tried again with a smaller rate: each try is a pass
        let tries = report.extras.iter().find(|e| e.0 == "visits").map_or(1.0, |e| e.1);
        passes.push(time / tries);
    }
    // beside the data: blocks, statistics and buffers, whatever the number of rows
    let beside = peak_bytes().map(|peak| peak.saturating_sub(data.memory_bytes()));
    let gflops = operations(rows, columns + 1, classes, covariance == "joint") / least(&passes) / 1e9;
    let product_gflops = square.operations() / least(&products) / 1e9;
    Ok(json!({
        "benchmark": "softmax",
        "rows": rows,
        "columns": columns,
        "classes": classes,
        "bound": bound,
        "covariance": covariance,
        "seconds_per_pass": figures(&passes),
        "gflops": gflops,
        "product_gflops": product_gflops,
        "share": gflops / product_gflops,
        "data_bytes": data.memory_bytes(),
        "peak_beside_data_bytes": beside,
    }))
}
