//! One pass of minibatches over sparse rows with many columns and labels: rows a second, beside the rate of sparse products, and memory.
//!
//! Rows are drawn here: every one belongs to one of `components` groups, has `nonzeros` columns, a share `own` of them among the 200 of its
//! group and the others by a law of 1/rank, and labels whose log-odds are those of its group plus some weights. `rows=1000000` is the full size.
//! On each number of threads a pass is run from the same start, and products of the same rows with a table of as many columns as
//! there are labels run in between, on one thread.

use anyhow::{Context, Result};
use rand_distr::{Distribution, StandardNormal};
use serde_json::{Value, json};
use variegate::data::design::PanelScratch;
use variegate::data::{Dataset, Design, LabelSets, Matrix, Target};
use variegate::model::{RunSettings, family};
use variegate::run::{Engine, Philox, Purpose, Shape, Stream, blocks, default_block_rows, open01};

use crate::Options;
use crate::clock::{least, seconds};

/// Columns that a group prefers.
const FAVOURED: usize = 200;
/// Columns that move a label.
const MOVING: usize = 50;
/// Rows of a product, so that a table is read often before the next.
const PRODUCT_ROWS: usize = 8192;

struct Sizes {
    rows: usize,
    columns: usize,
    nonzeros: usize,
    labels: usize,
    components: usize,
    /// Share of a row's columns that its group chooses.
    own: f64,
}

fn normal(rng: &mut Philox) -> f64 {
    StandardNormal.sample(rng)
}

fn below(n: usize, rng: &mut Philox) -> usize {
    ((open01(rng) * n as f64) as usize).min(n - 1)
}

/// A column by a law of 1/rank.
fn common(columns: usize, rng: &mut Philox) -> usize {
    (((columns as f64 + 1.0).powf(open01(rng))) as usize - 1).min(columns - 1)
}

/// The rows, in no more memory than they have in the end.
fn generate(s: &Sizes, rng: &mut Philox) -> Dataset<'static> {
    let favoured: Vec<usize> = (0..s.components * FAVOURED).map(|_| below(s.columns, rng)).collect();
    let patterns: Vec<f64> = (0..s.components * s.labels).map(|_| 1.5 * normal(rng) - 3.0).collect();
    // the labels that each column moves, and by how much
    let mut moved: Vec<Vec<(usize, f64)>> = vec![Vec::new(); s.columns];
    for c in 0..s.labels {
        (0..MOVING).for_each(|_| moved[common(s.columns, rng)].push((c, normal(rng))));
    }
    let mut indptr: Vec<usize> = Vec::with_capacity(s.rows + 1);
    let mut indices: Vec<u32> = Vec::with_capacity(s.rows * s.nonzeros);
    let mut values = Vec::with_capacity(s.rows * s.nonzeros);
    let mut y = Vec::with_capacity(s.rows * s.labels);
    let mut row: Vec<u32> = Vec::new();
    let mut odds = vec![0.0; s.labels];
    indptr.push(0);
    for _ in 0..s.rows {
        let k = below(s.components, rng);
        row.clear();
        while row.len() < s.nonzeros {
            let j = if open01(rng) < s.own { favoured[k * FAVOURED + below(FAVOURED, rng)] } else { common(s.columns, rng) } as u32;
            if !row.contains(&j) {
                row.push(j);
            }
        }
        row.sort_unstable();
        odds.copy_from_slice(&patterns[k * s.labels..(k + 1) * s.labels]);
        for &j in &row {
            moved[j as usize].iter().for_each(|&(c, w)| odds[c] += w);
            indices.push(j);
            values.push(1.0 + below(3, rng) as f64);
        }
        indptr.push(indices.len());
        y.extend(odds.iter().map(|f| i8::from(open01(rng) < 1.0 / (1.0 + (-f).exp()))));
    }
    let names = (0..s.labels).map(|c| format!("label {c}")).collect();
    let x = Matrix::Csr { rows: s.rows, cols: s.columns, indptr: indptr.into(), indices: indices.into(), values: values.into() };
    Dataset::new(x).with_target(Target::Labels(LabelSets { names, values: y }))
}

/// Operations of a row that are products of its entries with tables: features (log densities and sums, 2 nnz K each), means and variances of
/// its labels (4 nnz C), diagonal and linear term (4 nnz C), and four products with the precision (4 nnz C each). Everything else, the bounds of
/// its labels in each likely component above all, counts as time but not as operations.
fn operations(s: &Sizes, weights: bool) -> f64 {
    let (z, k, c) = (s.nonzeros as f64, s.components as f64, s.labels as f64);
    4.0 * z * k + if weights { 24.0 * z * c } else { 0.0 }
}

/// Seconds of products of so many rows with a table, and operations of them.
fn product(data: &Dataset<'_>, labels: usize) -> (f64, f64) {
    let (rows, columns) = (PRODUCT_ROWS.min(data.rows()), data.x.cols());
    let table: Vec<f64> = (0..labels * columns).map(|i| (i * 2_654_435_761 % 1000) as f64 / 500.0 - 1.0).collect();
    let (design, mut scratch) = (Design::identity(columns, false), PanelScratch::default());
    let mut out = vec![0.0; rows * labels];
    let x = data.x.slice(0..rows);
    let entries = x.stored() as f64;
    let time = seconds(|| design.panel(x, &mut scratch).mul_t(&table, labels, &mut out));
    (time, 2.0 * entries * labels as f64)
}

/// The most memory this process has held, where the system says so.
fn peak_bytes() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<usize>().ok().map(|kib| kib * 1024)
}

pub fn run(options: &Options) -> Result<Value> {
    let s = Sizes {
        rows: options.get("rows", 50_000)?,
        columns: options.get("columns", 10_000)?,
        nonzeros: options.get("nonzeros", 50)?,
        labels: options.get("labels", 100)?,
        components: options.get("components", 50)?,
        own: options.get("own", 0.3)?,
    };
    let threads: Vec<usize> = options.word("threads", "1,2").split(',').map(str::parse).collect::<std::result::Result<_, _>>()?;
    let repeats: usize = options.get("repeats", 1)?;
    let mut settings = json!({ "inference": "svi", "features": "multinomial", "components": s.components, "passes": repeats });
    let more: Value = serde_json::from_str(options.word("settings", "{}"))?;
    let all = settings.as_object_mut().context("settings")?;
    all.extend(more.as_object().cloned().context("`settings` must be an object")?);

    let data = generate(&s, &mut Stream::new(options.get("seed", 1)?, 0, Purpose::Simulate).rng());
    let model = family("labels")?.configure(all)?;
    let fit = RunSettings::default().prepare(model.as_ref(), &data)?.fit;
    let block_rows = options.get("block_rows", default_block_rows(s.columns))?;
    let blocks = blocks(&data, block_rows);
    let shape = Shape { rows: s.rows, cols: s.columns, blocks: blocks.len() as u32, block_rows };
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    let (mut products, mut operations_of_product) = (Vec::new(), 0.0);
    let mut found = Vec::new();
    for &threads in &threads {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
        let mut chain = None;
        let start = seconds(|| chain = Some(pool.install(|| fit.program().open(Engine::Threads(&blocks), shape, 1, 0, None))));
        let mut chain = chain.context("no start was made")??;
        let (mut passes, mut score) = (Vec::new(), f64::NAN);
        for _ in 0..repeats {
            for _ in 0..3 {
                let (time, operations) = one.install(|| product(&data, s.labels));
                products.push(time);
                operations_of_product = operations;
            }
            let mut outcome = None;
            passes.push(seconds(|| outcome = Some(pool.install(|| chain.advance(false)))));
            score = outcome.context("no pass was made")??.objective;
        }
        found.push((threads, start, passes, score));
    }
    let product_rate = operations_of_product / least(&products) / 1e9;
    let of_threads = |(threads, start, passes, score): &(usize, f64, Vec<f64>, f64)| {
        let rate = s.rows as f64 / least(passes);
        let gflops = operations(&s, true) * rate / 1e9;
        json!({
            "threads": threads,
            "start_seconds": start,
            "pass_seconds": passes,
            "rows_per_second": rate,
            "gflops": gflops,
            "share_of_products": gflops / product_rate / *threads as f64,
            "log_probability_of_labels": score,
        })
    };
    // the peak is that of all numbers of threads, products included
    let beside = peak_bytes().map(|peak| peak.saturating_sub(data.memory_bytes()));
    Ok(json!({
        "benchmark": "labels",
        "rows": s.rows,
        "columns": s.columns,
        "nonzeros": s.nonzeros,
        "labels": s.labels,
        "components": s.components,
        "settings": settings,
        "block_rows": block_rows,
        "product_gflops": product_rate,
        "runs": found.iter().map(of_threads).collect::<Vec<_>>(),
        "data_bytes": data.memory_bytes(),
        "peak_beside_data_bytes": beside,
    }))
}
