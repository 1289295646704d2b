//! Kernels alone and chains on small data, for the tests.

use super::check::Subject;
use super::generate::Unknowns;
use super::sampler::{Course, Sampler};
use super::state::State;
use crate::Result;
use crate::check::invariance::{InvarianceSettings, one_step_invariance};
use crate::check::{Checkable, Generative, Installed};
use crate::data::Dataset;
use crate::run::{Program, Purpose, Shape, Stream, Threads, Tick, blocks};
use rand::Rng;

/// Rows of a block.
const BLOCK: usize = 2;

/// Exact draws of everything in, one step, the same distribution out.
pub(super) fn kernel(name: &str, sampler: Sampler, draws: u64, step: impl Fn(&mut Course<'_>, &mut State) -> Result<()>) {
    let subject = Subject { program: sampler };
    let names = subject.names();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut rng = Stream::new(7, 0, Purpose::Check).rng();
    let settings = InvarianceSettings { draws, false_alarm_rate: 1e-4 };
    let report = one_step_invariance::<(Unknowns, Dataset<'static>), _, crate::Error>(
        name,
        &settings,
        &names,
        |(unknowns, data), out| subject.functions(unknowns, data, out),
        &mut rng,
        |rng| {
            let unknowns = subject.program.prior(rng)?;
            let data = subject.program.data(&unknowns, &(), rng)?;
            Ok((unknowns, data))
        },
        |(unknowns, data), rng| {
            let blocks = blocks(&data, BLOCK);
            let shape = Shape { rows: data.rows(), cols: data.x.cols(), blocks: blocks.len() as u32, block_rows: BLOCK };
            let Installed { mut global, locals } = subject.install(unknowns, &blocks)?;
            let seed = rng.next_u64();
            let mut rows = Threads::new(&subject.program, &blocks, shape, seed, 0, locals);
            rows.begin(1);
            let stream = Stream::new(seed, 0, Purpose::Sweep).sweep(1).rng();
            let mut course = Course::new(&subject.program, &mut rows, stream, 1);
            step(&mut course, &mut global)?;
            course.settle(&global)?;
            let unknowns = subject.recover(&global, rows.locals())?;
            Ok((unknowns, data))
        },
    )
    .unwrap();
    assert!(report.passed, "{name}: {report}");
}

/// The mean of independent numbers must be this, within four standard errors.
pub(super) fn assert_mean(name: &str, values: &[f64], told: f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let error = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n * (n - 1.0))).sqrt();
    assert!((mean - told).abs() < 4.0 * error + 1e-6, "{name}: {mean} ± {error} for {told}");
}

/// Means of figures over a chain on given rows must be these, within four standard errors of batch means.
pub(super) fn chain(
    name: &str,
    sampler: &Sampler,
    data: &Dataset<'_>,
    sweeps: u64,
    told: &[f64],
    figures: impl Fn(&State, &[Vec<u32>]) -> Vec<f64>,
) {
    let blocks = blocks(data, BLOCK);
    let shape = Shape { rows: data.rows(), cols: data.x.cols(), blocks: blocks.len() as u32, block_rows: BLOCK };
    let mut rows = Threads::new(sampler, &blocks, shape, 11, 0, None);
    let mut state = sampler.start(&mut rows, Stream::new(11, 0, Purpose::Start)).unwrap();
    let (burn, batches) = (sweeps / 20, 50);
    let each = sweeps / batches;
    let mut means = vec![vec![0.0; told.len()]; batches as usize];
    for sweep in 1..=burn + each * batches {
        rows.begin(sweep);
        let stream = Stream::new(11, 0, Purpose::Sweep).sweep(sweep);
        // both schedules of births are exact
        sampler.sweep(&mut state, &mut rows, Tick { stream, sweep, warm_up: sweep % 3 == 0 }).unwrap();
        if sweep > burn {
            let mut codes = Vec::new();
            for local in rows.locals() {
                let mut own = local.codes.clone();
                own.arrange(&state.features.ids);
                codes.extend((0..own.rows()).map(|i| own.used(i)));
            }
            let batch = &mut means[((sweep - burn - 1) / each) as usize];
            batch.iter_mut().zip(figures(&state, &codes)).for_each(|(m, v)| *m += v / each as f64);
        }
    }
    for (at, &told) in told.iter().enumerate() {
        let batches: Vec<f64> = means.iter().map(|m| m[at]).collect();
        assert_mean(&format!("{name}, figure {at}"), &batches, told);
    }
}
