//! What a sweep on workers sends and how long it takes, beside the same sweep on threads. Workers are in this process and speak bytes.

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use variegate::data::Dataset;
use variegate::model::{Prepared, RunSettings, family};
use variegate::run::{AnyProgram, Engine, Loopback, Plan, Results, Schedule, Unobserved, Workers, drive, drive_on, shape_of};

use crate::Options;

pub fn run(options: &Options) -> Result<Value> {
    let (name, rows): (_, usize) = (options.word("family", "logistic"), options.get("rows", 100_000)?);
    let (workers, sweeps): (u32, u64) = (options.get("workers", 4)?, options.get("sweeps", 10)?);
    let table = |key: &str| -> Result<Map<String, Value>> {
        let text = options.word(key, "{}");
        serde_json::from_str(text).with_context(|| format!("`{key}={text}` is no JSON object"))
    };
    let model = family(name)?.configure(&table("settings")?)?;
    let data = model.simulate(rows, &table("simulate")?, 1)?.data;
    let run = RunSettings::default().seed(1).threads(options.get("threads", 0)?);
    let Prepared { fit, plan, .. } = run.prepare(model.as_ref(), &data)?;
    // the start, with its own visits, is in both and leaves the difference
    let few = on_workers(fit.shared_program(), &data, &plan, &run, workers, 1 + sweeps / 5)?;
    let many = on_workers(fit.shared_program(), &data, &plan, &run, workers, 1 + sweeps / 5 + sweeps)?;
    let here = |sweeps| -> Result<f64> {
        let (plan, begin) = (of_length(&plan, sweeps), Instant::now());
        drive(fit.program(), &data, &plan, run.pace(), &mut Results::default(), &mut Unobserved)?;
        Ok(begin.elapsed().as_secs_f64())
    };
    let threads = here(1 + sweeps / 5 + sweeps)? - here(1 + sweeps / 5)?;
    // an ascent may arrive before
    let done = many.sweeps - few.sweeps;
    ensure!(done > 0.0, "both fits ended after {} sweeps: ask for fewer, or lower `tol`", few.sweeps);
    let a_sweep = |f: fn(&Cost) -> f64| (f(&many) - f(&few)) / done;
    Ok(json!({
        "family": name, "program": fit.program().name(), "rows": rows, "columns": data.x.cols(), "workers": workers, "sweeps": done,
        "calls": a_sweep(|c| c.calls) / f64::from(workers),
        "sent_bytes": a_sweep(|c| c.sent) / f64::from(workers),
        "received_bytes": a_sweep(|c| c.received) / f64::from(workers),
        "bytes_a_call": a_sweep(|c| c.sent + c.received) / a_sweep(|c| c.calls),
        "snapshot_bytes": a_sweep(|c| c.snapshots) / f64::from(workers),
        "seconds_on_workers": a_sweep(|c| c.seconds),
        "seconds_on_threads": threads / done,
        "settings": model.settings(),
    }))
}

/// Counts what is sent, and snapshots of what blocks keep apart from the rest: these grow with the rows, and are rare.
#[derive(Default)]
struct Traffic {
    calls: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
    snapshots: AtomicU64,
}

struct Counted<'a>(&'a Loopback, &'a Traffic);

/// A call that asks for a snapshot has nothing to say; every visit is longer.
const SAYS_NOTHING: usize = 12;

impl Workers for Counted<'_> {
    fn spans(&self) -> &[Range<u32>] {
        self.0.spans()
    }

    fn post(&self, calls: &[(usize, Arc<[u8]>)]) -> variegate::Result<Vec<Option<Vec<u8>>>> {
        let answers = self.0.post(calls)?;
        let of_answers = answers.iter().flatten().map(|a| a.len() as u64).sum();
        if calls.iter().all(|c| c.1.len() <= SAYS_NOTHING) {
            self.1.snapshots.fetch_add(of_answers, Ordering::Relaxed);
        } else {
            self.1.calls.fetch_add(calls.len() as u64, Ordering::Relaxed);
            self.1.sent.fetch_add(calls.iter().map(|c| c.1.len() as u64).sum(), Ordering::Relaxed);
            self.1.received.fetch_add(of_answers, Ordering::Relaxed);
        }
        Ok(answers)
    }
}

struct Cost {
    sweeps: f64,
    calls: f64,
    sent: f64,
    received: f64,
    snapshots: f64,
    seconds: f64,
}

/// One chain of so many sweeps.
fn of_length(plan: &Plan, sweeps: u64) -> Plan {
    let schedule = match plan.schedule {
        Schedule::Sample { .. } => Schedule::Sample { warm_up: sweeps, draws: 0, thin: 1 },
        Schedule::Ascend { .. } => Schedule::Ascend { max_sweeps: sweeps },
    };
    Plan { chains: 1, schedule, ..*plan }
}

fn on_workers(program: Arc<dyn AnyProgram>, data: &Dataset<'_>, plan: &Plan, run: &RunSettings, workers: u32, sweeps: u64) -> Result<Cost> {
    let shape = shape_of(data, Some(plan.block_rows))?;
    let cuts: Vec<u32> = (1..workers).map(|w| (u64::from(shape.blocks) * u64::from(w) / u64::from(workers)) as u32).collect();
    // at large nodes of the merge tree, as `DaskEngine` cuts
    let unit = (0..32).map(|bit| 1u32 << bit).take_while(|unit| unit * 8 * workers <= shape.blocks).last().unwrap_or(1);
    let cuts: Vec<u32> = cuts.iter().map(|cut| (cut + unit / 2) / unit * unit).collect();
    let there = Loopback::new(program.clone(), data, shape, &cuts)?;
    let begin = Instant::now();
    let plan = of_length(plan, sweeps);
    let mut kept = Results::default();
    let traffic = Traffic::default();
    drive_on(Engine::Workers(&Counted(&there, &traffic)), shape, &*program, &plan, run.pace(), &mut kept, &mut Unobserved)?;
    let sweeps = kept.0.chains[0].sweeps as f64;
    let of = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64;
    Ok(Cost {
        sweeps,
        calls: of(&traffic.calls),
        sent: of(&traffic.sent),
        received: of(&traffic.received),
        snapshots: of(&traffic.snapshots),
        seconds: begin.elapsed().as_secs_f64(),
    })
}
