//! Is the bound what it is said to be, and does the ascent climb to its top?
//!
//! Small data sets are drawn from the prior of the model as it is set, with some labels unknown. What is asked: the bound never falls from sweep
//! to sweep; the bound from sums is the one that rows give; and at the end no change of the weights of labels or of sticks raises
//! it. Everything is deterministic: no false alarms.

use rand::Rng;

use super::generate::Generator;
use super::label_part::LabelFactors;
use super::memoized::Memoized;
use super::mixture::{Factors, Scratch, Sums};
use super::schema::Schema;
use super::settings::{InferenceKind, KernelKind, Settings};
use super::stage::{Room, Stage};
use super::svi::Svi;
use super::vb::{State, Vb};
use crate::Result;
use crate::check::{CheckReport, Comparison, Progress};
use crate::data::{Dataset, blocks};
use crate::run::{Chain, Merge, Program, Purpose, Shape, Stream, Typed};

const ROWS: usize = 30;
const BLOCK_ROWS: usize = 7;
const COLUMNS: usize = 3;
const LABELS: usize = 3;
const WORDS: usize = 12;
const UNKNOWN: f64 = 0.2;
const COMPONENTS: u64 = 5;
/// The ascent is followed for so many sweeps after the last change of components, and for so many at most.
const SWEEPS: u64 = 60;
const MOST_SWEEPS: u64 = 400;
/// Size of the changes that must not raise the bound.
const CHANGE: f64 = 1e-3;

/// Largest violations seen, relative to the bound.
#[derive(Debug, Default)]
struct Seen {
    fall: f64,
    difference: f64,
    gain: f64,
    step: f64,
}

/// Runs the check on so many data sets.
pub(super) fn check(settings: &Settings, data_sets: u64, seed: u64, progress: &mut dyn FnMut(Progress)) -> Result<Vec<CheckReport>> {
    let mut seen = Seen::default();
    let data_sets = data_sets.max(1);
    // minibatches climb the same bound, of which they see parts
    let whole = Settings { inference: InferenceKind::Vb, ..settings.clone() };
    for number in 0..data_sets {
        one(settings, &whole, Stream::new(seed, 0, Purpose::Check).item(number), &mut seen)?;
        progress(Progress { check: "variational bound", done: (number + 1) as f64 / data_sets as f64 });
    }
    let mut comparisons = vec![
        Comparison::at_most("decrease of the bound", seen.fall, 1e-9, "largest relative decrease of the bound in a sweep"),
        Comparison::at_most("bound from sums and from rows", seen.difference, 1e-9, "largest relative difference between the two"),
        // an ascent that is not quite done leaves a little
        Comparison::at_most("gain from perturbation", seen.gain, 1e-7, "gain by a change of the final weights or sticks, relative"),
    ];
    if settings.inference == InferenceKind::Svi {
        let meaning = "largest difference of a label's probability after steps with all rows and after sweeps with the same tangents";
        comparisons.push(Comparison::at_most("steps and sweeps", seen.step, 1e-6, meaning));
    }
    Ok(vec![CheckReport {
        check: "variational bound".into(),
        subject: format!("labels {}", settings.coupling.word()),
        replicates: data_sets,
        false_alarm_rate: 0.0,
        passed: comparisons.iter().all(|c| c.passed),
        comparisons,
    }])
}

/// The ascent of small data that are drawn from the prior.
fn program(settings: &Settings) -> Result<(Vb, Generator)> {
    let kernel = if settings.features == KernelKind::Auto { KernelKind::GaussianDiag } else { settings.features };
    let names = (1..=LABELS).map(|c| c.to_string()).collect();
    let schema = Schema::drawn(COLUMNS, names, kernel);
    let exact = Settings { feature_power: Some(1.0), ..settings.clone() };
    let generator = Generator { mixture: schema.mixture(&exact)?, kernel, words: WORDS, labels: LABELS };
    let components = settings.components.min(COMPONENTS) as usize;
    let vb = Vb::new(schema.mixture(settings)?, settings);
    Ok((Vb { components, tol: 1e-12, max_sweeps: MOST_SWEEPS, ..vb }, generator))
}

/// Where an ascent ends, and how much the bound fell in its worst sweep, relative to itself.
fn climb<P: Program>(program: &P, data: &Dataset<'_>, seed: u64, of: impl Fn(&P::Global) -> &State) -> Result<(Factors, f64)> {
    let shape = Shape { rows: ROWS, cols: COLUMNS, blocks: ROWS.div_ceil(BLOCK_ROWS) as u32, block_rows: BLOCK_ROWS };
    let cut = blocks(data, BLOCK_ROWS);
    let mut chain = Typed::start(program, &cut, shape, seed, 0)?;
    let (mut last, mut fall) = (of(&chain.global).bound, 0.0f64);
    // an ascent that has just changed its components is not at its top yet
    let (mut same, mut components) = (0, 0);
    while same < SWEEPS && chain.sweeps() < MOST_SWEEPS {
        let report = chain.advance(false)?;
        fall = fall.max((last - report.objective) / last.abs());
        last = report.objective;
        same = if report.components == components { same + 1 } else { 1 };
        components = report.components;
    }
    Ok((of(&chain.global).q.clone(), fall))
}

fn one(settings: &Settings, whole: &Settings, stream: Stream, seen: &mut Seen) -> Result<()> {
    let (program, generator) = program(whole)?;
    let mut rng = stream.rng();
    let world = generator.world(&mut rng)?;
    // patterns that are shares of labels need every label of a row or none
    let unknown = if program.mixture.labels.needs_whole_rows() { 0.0 } else { UNKNOWN };
    let (data, _) = generator.rows(&world, ROWS, unknown, &mut rng)?;
    let (q, fall) = if settings.inference == InferenceKind::Memoized {
        let memoized = Memoized { vb: program.clone(), batches: settings.batches as usize };
        climb(&memoized, &data, rng.next_u64(), |state| &state.ascent)?
    } else {
        climb(&program, &data, rng.next_u64(), |state| state)?
    };
    seen.fall = seen.fall.max(fall);
    let mixture = &program.mixture;
    let rows = |q: &Factors| from_rows(&program, q, &data);
    let (from_rows, mut sums) = rows(&q);
    let at_rows = mixture.bound(&q, &sums);
    seen.difference = seen.difference.max(((from_rows - at_rows) / at_rows).abs());
    let mut best = q.clone();
    mixture.update(&mut best, &mut sums)?;
    let top = mixture.bound(&best, &sums);
    for (number, sign) in [(0, 1.0), (0, -1.0), (1, 1.0), (1, -1.0)] {
        let mut other = best.clone();
        if number == 0 {
            other.sticks.first.iter_mut().for_each(|a| *a *= 1.0 + sign * CHANGE);
        } else {
            let mean = match &mut other.labels {
                LabelFactors::InRowSpace(q) => &mut q.0.weights_mut().mean,
                LabelFactors::Logit(q) => &mut q.mean,
                LabelFactors::Shared(q) => &mut q.0.weights,
                LabelFactors::AndShared(q) => &mut q.0.weights.weights,
                LabelFactors::CutShared(q) => &mut q.0.weights.weights,
                LabelFactors::And(q) => &mut q.weights.mean,
                LabelFactors::Cut(q) => &mut q.weights.mean,
                // has no bound
                LabelFactors::Rowwise(_) | LabelFactors::AndByRows(_) | LabelFactors::CutByRows(_) => continue,
            };
            mean.iter_mut().for_each(|m| *m += sign * CHANGE);
        }
        seen.gain = seen.gain.max((mixture.bound(&other, &sums) - top) / top.abs());
    }
    if settings.inference == InferenceKind::Svi {
        seen.step = seen.step.max(step_and_sweep(settings, whole, &data)?);
    }
    Ok(())
}

/// How far probabilities of labels are apart after steps with all rows, at the tangents of the start, and after global steps of sweeps.
fn step_and_sweep(settings: &Settings, whole: &Settings, data: &Dataset<'_>) -> Result<f64> {
    const STEPS: usize = 200;
    let names = (1..=LABELS).map(|c| c.to_string()).collect();
    let kernel = if settings.features == KernelKind::Auto { KernelKind::GaussianDiag } else { settings.features };
    let schema = Schema::drawn(COLUMNS, names, kernel);
    let program = Svi::new(&schema, settings, None)?;
    let mut probabilities = Vec::new();
    for mixture in [&schema.mixture(whole)?, &program.mixture] {
        let mut q = mixture.start(2);
        let view = mixture.labels.view(&q.labels);
        let (mut sums, mut scratch) = (Sums::default(), Scratch::default());
        for block in blocks(data, BLOCK_ROWS) {
            let shares = |x: crate::data::X<'_>, r: &mut [f64]| {
                (0..x.rows()).for_each(|i| r[2 * i..2 * i + 2].copy_from_slice(if i % 3 == 0 { &[0.8, 0.2] } else { &[0.3, 0.7] }));
            };
            sums.merge(mixture.visit_with(&view, 2, &block, &mut scratch, shares));
        }
        (sums.labels.rowwise.step, sums.labels.rowwise.steps) = ((0.0, 1.0), vec![(0.0, 1.0); LABELS]);
        for _ in 0..STEPS {
            mixture.update(&mut q, &mut sums)?;
        }
        let mut room = Room::default();
        Stage::new(mixture, &q, settings.combine, schema.label_rates()).rows(data.x.view(), &[], &mut room);
        probabilities.push(room.probability);
    }
    let apart = probabilities[0].iter().zip(&probabilities[1]).map(|(a, b)| (a - b).abs());
    Ok(apart.fold(0.0, f64::max))
}

/// The bound right after the local step, as rows give it, and their sums.
fn from_rows(program: &Vb, q: &Factors, data: &Dataset<'_>) -> (f64, Sums) {
    let view = program.mixture.view(q);
    let mut scratch = Scratch::default();
    let mut sums = Sums::default();
    for block in blocks(data, BLOCK_ROWS) {
        sums.merge(program.mixture.visit(&view, &block, &mut scratch));
    }
    (program.mixture.bound_of_rows(q, &sums), sums)
}
