//! Is the bound of linear classifiers what it is said to be, and does the ascent climb to its top?
//!
//! Small data sets are drawn from the prior of the model as it is set. What is asked: the bound never falls from sweep to sweep; the bound from
//! sums is the one that rows give; and no change of the weights' factors raises it, coordinate by coordinate. Everything is deterministic: no
//! false alarms.

use rand::Rng;

use super::ascent::{Ascent, Named, Scratch};
use super::classifier::Loss;
use super::logit::{Factors, Stats};
use crate::Result;
use crate::check::{CheckReport, Comparison, Progress};
use crate::data::design::packed_len;
use crate::data::{Dataset, blocks};
use crate::run::{Chain, Merge, Philox, Purpose, Shape, Stream, Typed};

const BLOCK_ROWS: usize = 7;
/// The ascent is followed for so many sweeps.
const SWEEPS: u64 = 60;
/// An ascent to a point must have come near it before nothing raises its value.
const POINT_SWEEPS: u64 = 1000;
/// Size of the changes that must not raise the bound.
const CHANGE: f64 = 1e-3;
/// That of a point, of which what is still missing must not hide what a wrong slope would gain.
const POINT_CHANGE: f64 = 1e-2;

/// Largest violations seen, relative to the bound.
#[derive(Debug, Default)]
struct Seen {
    fall: f64,
    difference: f64,
    gain: f64,
}

/// Runs the check on so many data sets, each drawn by `data`.
pub(crate) fn check<F: Named>(
    program: &Ascent<F>,
    data_sets: u64,
    seed: u64,
    progress: &mut dyn FnMut(Progress),
    data: impl Fn(&mut Philox) -> Result<Dataset<'static>>,
) -> Result<Vec<CheckReport>> {
    let mut seen = Seen::default();
    let data_sets = data_sets.max(1);
    for number in 0..data_sets {
        let mut rng = Stream::new(seed, 0, Purpose::Check).item(number).rng();
        let data = data(&mut rng)?;
        one(program, &data, rng.next_u64(), &mut seen)?;
        progress(Progress { check: "variational bound", done: (number + 1) as f64 / data_sets as f64 });
    }
    let point = program.classifier.loss == Loss::HingePoint;
    let mut comparisons =
        vec![Comparison::at_most("decrease of the bound", seen.fall, 1e-9, "largest relative decrease of the bound in a sweep")];
    if point {
        // the maximum has a kink, at which curvatures are beyond all bounds: sums say nothing there, but rows do
        comparisons.push(Comparison::at_most("gain from perturbation", seen.gain, 2e-5, "gain by a change of the final weights, relative"));
    } else {
        comparisons.push(Comparison::at_most(
            "bound from sums and from rows",
            seen.difference,
            1e-9,
            "largest relative difference between the two",
        ));
        comparisons.push(Comparison::at_most(
            "gain from perturbation",
            seen.gain,
            1e-12,
            "gain by a change of means or covariances, relative",
        ));
    }
    Ok(vec![CheckReport {
        check: "variational bound".into(),
        subject: F::NAME.into(),
        replicates: data_sets,
        false_alarm_rate: 0.0,
        passed: comparisons.iter().all(|c| c.passed),
        comparisons,
    }])
}

fn one<F: Named>(program: &Ascent<F>, data: &Dataset<'_>, seed: u64, seen: &mut Seen) -> Result<()> {
    let rows = data.rows();
    let shape = Shape { rows, cols: data.x.cols(), blocks: rows.div_ceil(BLOCK_ROWS) as u32, block_rows: BLOCK_ROWS };
    let cut = blocks(data, BLOCK_ROWS);
    let mut chain = Typed::start(program, &cut, shape, seed, 0)?;
    let mut last = f64::NEG_INFINITY;
    let classifier = &program.classifier;
    let point = classifier.loss == Loss::HingePoint;
    while chain.sweeps() < if point { POINT_SWEEPS } else { SWEEPS } {
        let bound = chain.advance(false)?.objective;
        seen.fall = seen.fall.max((last - bound) / bound.abs());
        last = bound;
    }
    let q = &chain.global.q;
    let (sums, terms) = from_rows(program, q, data);
    let at_rows = terms - classifier.divergence(q);
    if point {
        for other in changed(program, q) {
            let value = from_rows(program, &other, data).1 - classifier.divergence(&other);
            seen.gain = seen.gain.max((value - at_rows) / at_rows.abs());
        }
        return Ok(());
    }
    let of = |q: &Factors| classifier.value(q, &sums) - classifier.divergence(q);
    seen.difference = seen.difference.max(((of(q) - at_rows) / at_rows).abs());
    let mut best = q.clone();
    classifier.update(&mut best, &sums)?;
    let mut before = best.clone();
    // the factor of the weights is the best one given the precisions that it was found with
    before.weight_precision.clone_from(&q.weight_precision);
    let top = of(&before);
    for other in changed(program, &before) {
        seen.gain = seen.gain.max((of(&other) - top) / top.abs());
    }
    Ok(())
}

/// The factors with one mean or all of a covariance changed, up and down.
fn changed<F: Named>(program: &Ascent<F>, q: &Factors) -> Vec<Factors> {
    let (dim, size) = (program.classifier.prior.dim, packed_len(program.classifier.prior.dim));
    let mut all = Vec::new();
    let size_of_change = if program.classifier.loss == Loss::HingePoint { POINT_CHANGE } else { CHANGE };
    for change in [size_of_change, -size_of_change] {
        for at in 0..q.mean.len() {
            let mut other = q.clone();
            other.mean[at] += change;
            all.push(other);
        }
        for c in 0..q.ln_det.len() {
            let mut other = q.clone();
            other.covariance[c * size..(c + 1) * size].iter_mut().for_each(|v| *v *= 1.0 + change);
            other.ln_det[c] += dim as f64 * change.ln_1p();
            all.push(other);
        }
    }
    all
}

/// Sums of the rows under factors, and their terms at the best points.
fn from_rows<F: Named>(program: &Ascent<F>, q: &Factors, data: &Dataset<'_>) -> (Stats, f64) {
    let view = program.classifier.view(q);
    let (mut scratch, mut sums, mut terms) = (Scratch::default(), Stats::default(), 0.0);
    for block in blocks(data, BLOCK_ROWS) {
        let (s, t) = program.of_block(&view, &[], &block, &mut scratch);
        sums.merge(s);
        terms += t;
    }
    (sums, terms)
}
