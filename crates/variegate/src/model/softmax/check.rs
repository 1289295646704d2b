//! Is the bound a bound, and does the ascent climb to its top?
//!
//! Small data sets are drawn from the prior of the model as it is set: two classes with one column and no bias, so that the log evidence is a
//! two-dimensional integral, and three classes with two columns and a bias for the rest. Everything is deterministic: no
//! false alarms. What is asked: the bound never falls from sweep to sweep; it stays below the log evidence; at the end no change of
//! means, covariances or precisions raises it; the gradient behind the start is that of its objective.

use rand_distr::{Distribution, StandardNormal};
use std::f64::consts::PI;

use super::node::Node;
use super::simulate::{draw_class, draw_weights};
use super::vb::{Outcome, State};
use super::{Precision, Settings, SoftmaxFit, Vb, map};
use crate::Result;
use crate::check::{CheckReport, Comparison, Progress};
use crate::data::{Classes, Dataset, Design, Matrix, Target};
use crate::infer::finite_difference::check_gradient;
use crate::run::{Chain, Purpose, Shape, Stream, Typed, blocks};
use crate::special::{ln_gamma, log_sum_exp, log1p_exp};

const ROWS: usize = 8;
/// The ascent is followed for so many sweeps at most.
const SWEEPS: usize = 400;

/// Largest violations seen.
#[derive(Debug, Default)]
struct Seen {
    fall: f64,
    above_evidence: f64,
    gain_elsewhere: f64,
    gradient: f64,
}

/// Runs the check on so many data sets of either kind.
pub(super) fn check(settings: &Settings, data_sets: u64, seed: u64, progress: &mut dyn FnMut(Progress)) -> Result<Vec<CheckReport>> {
    let mut seen = Seen { above_evidence: f64::NEG_INFINITY, gain_elsewhere: f64::NEG_INFINITY, ..Seen::default() };
    let data_sets = data_sets.max(1);
    for number in 0..data_sets {
        let stream = Stream::new(seed, 0, Purpose::Check).item(number);
        one(settings, 2, Design::identity(1, false), stream.block(0), &mut seen)?;
        one(settings, 3, Design::identity(2, true), stream.block(1), &mut seen)?;
        progress(Progress { check: "variational bound", done: (number + 1) as f64 / data_sets as f64 });
    }
    let comparison = |name: &str, worst: f64, allowed: f64, claim: &str| {
        let passed = worst <= allowed;
        let verdict = if passed { "as it must be" } else { "which must not be" };
        Comparison {
            name: name.to_string(),
            expected: 0.0,
            observed: worst,
            statistic: worst / allowed,
            p_value: f64::from(passed),
            passed,
            meaning: format!("{claim}: at most {worst:.2e} (allowed {allowed:.0e}), {verdict}"),
        }
    };
    let comparisons = vec![
        comparison("fall in a sweep", seen.fall, 1e-9, "fall of the bound in a sweep, relative"),
        comparison("bound above the log evidence", seen.above_evidence, 1e-6, "excess of the bound over the log evidence"),
        comparison(
            "gain beside the end",
            seen.gain_elsewhere,
            1e-7,
            "gain by a change of the final means, covariances or precisions, relative",
        ),
        comparison("gradient of the start", seen.gradient, 1e-6, "difference to a numerical gradient, relative"),
    ];
    let passed = comparisons.iter().all(|c| c.passed);
    let subject = format!("softmax, {} bound", settings.bound.word());
    Ok(vec![CheckReport {
        check: "variational bound".into(),
        subject,
        replicates: 2 * data_sets,
        false_alarm_rate: 0.0,
        passed,
        comparisons,
    }])
}

fn one(settings: &Settings, classes: usize, design: Design, stream: Stream, seen: &mut Seen) -> Result<()> {
    let mut rng = stream.rng();
    let columns = design.kept.len();
    let x: Vec<f64> = (0..ROWS * columns).map(|_| StandardNormal.sample(&mut rng)).collect();
    let weights = draw_weights(settings, classes, &design, &mut rng)?;
    let codes: Vec<u32> = x.chunks_exact(columns).map(|row| draw_class(&weights, row, classes, &mut rng)).collect();
    let names = (0..classes).map(|c| c.to_string()).collect();
    let evidence = (design.dim() == 1).then(|| log_evidence(settings, &x, &codes));
    let data = Dataset::new(Matrix::dense(ROWS, columns, x)).with_target(Target::Classes(Classes { codes, names }));
    let program = Vb { tol: f64::MIN_POSITIVE, ..SoftmaxFit::program_of(settings, classes, &design) };

    let blocks = blocks(&data, 3);
    let shape = Shape { rows: ROWS, cols: columns, blocks: blocks.len() as u32, block_rows: 3 };
    let mut chain = Typed::start(&program, &blocks, shape, 0, 0)?;
    let mut last = chain.global.bound;
    for _ in 0..SWEEPS {
        let bound = chain.advance(false)?.objective;
        seen.fall = seen.fall.max((last - bound) / (1.0 + bound.abs()));
        last = bound;
        if chain.global.outcome == Outcome::NoStepLeft || chain.global.outcome == Outcome::Numerical {
            break;
        }
    }
    if let Some(evidence) = evidence {
        seen.above_evidence = seen.above_evidence.max(last - evidence);
    }
    let top = chain.global.clone();
    for node in neighbours(&top) {
        if let Ok(moments) = node.moments() {
            let (bound, _) = program.evaluate(&node, &moments, chain.rows())?;
            seen.gain_elsewhere = seen.gain_elsewhere.max((bound - top.bound) / (1.0 + top.bound.abs()));
        }
    }
    let at: Vec<f64> = top.node.mean.iter().map(|m| 0.5 * m + 0.1).collect();
    let mut gradient = vec![0.0; at.len()];
    map::objective(&program, chain.rows(), &at, &mut gradient)?;
    let value = |w: &[f64]| map::objective(&program, chain.rows(), w, &mut vec![0.0; w.len()]).unwrap_or(f64::NAN);
    seen.gradient = seen.gradient.max(check_gradient(value, &at, &gradient).relative_error);
    Ok(())
}

/// Nodes beside the last one: each mean moved by a twentieth of its deviation, covariances and rates scaled.
fn neighbours(top: &State) -> Vec<Node> {
    let Ok(moments) = top.node.moments() else { return Vec::new() };
    let mut out = Vec::new();
    for sign in [-1.0, 1.0] {
        for (j, v) in moments.variance.iter().enumerate() {
            let mut node = top.node.clone();
            node.mean[j] += sign * 0.05 * v.sqrt();
            out.push(node);
        }
        let mut node = top.node.clone();
        node.precision.iter_mut().for_each(|p| *p *= 1.0 + sign * 0.05);
        out.push(node);
        for g in 0..top.node.rates.len() {
            let mut node = top.node.clone();
            node.rates[g] *= 1.0 + sign * 0.05;
            out.push(node);
        }
    }
    out
}

/// ln ∫ p(y | w₁, w₂) p(w₁, w₂): two classes, one column, no bias. The trapezoidal rule after w = sinh(sinh t), which tames the heavy tails
/// that a learned precision gives the prior; good to 1e-6, since far out the ridge of equal weights is narrower than a step.
fn log_evidence(settings: &Settings, x: &[f64], codes: &[u32]) -> f64 {
    let (a, b) = (settings.a0, settings.b0);
    // ln of ∫ Π N(w; 0, 1/α) Gamma(α; a, b) dα for a group of `size` weights
    let student = |size: f64, squares: f64| {
        ln_gamma(a + 0.5 * size) - ln_gamma(a) - 0.5 * size * (2.0 * PI * b).ln() - (a + 0.5 * size) * (0.5 * squares / b).ln_1p()
    };
    let log_prior = |u: f64, v: f64| match settings.precision {
        Precision::Node | Precision::Feature => student(2.0, u * u + v * v),
        Precision::Child | Precision::Entry => student(1.0, u * u) + student(1.0, v * v),
        Precision::Fixed => {
            let alpha = settings.prior_precision;
            (alpha / (2.0 * PI)).ln() - 0.5 * alpha * (u * u + v * v)
        }
    };
    let scale = if settings.precision == Precision::Fixed { settings.prior_precision.powf(-0.5) } else { (b / a).sqrt() };
    let (half, step) = (160i32, 0.025f64);
    let points: Vec<(f64, f64)> = (-half..=half)
        .map(|i| {
            let t = f64::from(i) * step;
            let s = t.sinh();
            (scale * (1.5 * s).sinh(), (1.5 * scale * (1.5 * s).cosh() * t.cosh() * step).ln())
        })
        .collect();
    let mut terms = Vec::with_capacity(points.len() * points.len());
    for &(u, lu) in &points {
        for &(v, lv) in &points {
            let mut sum = log_prior(u, v) + lu + lv;
            if sum < -80.0 {
                continue;
            }
            for (x, &code) in x.iter().zip(codes) {
                let z = (u - v) * x;
                sum -= log1p_exp(if code == 0 { -z } else { z });
            }
            terms.push(sum);
        }
    }
    log_sum_exp(&terms)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values from adaptive quadrature.
    #[test]
    fn the_log_evidence_is_integrated_right() {
        let (x, codes) = ([1.0, 2.0, -0.5, -1.5, 0.8], [0, 0, 1, 1, 1]);
        let fixed = Settings { precision: Precision::Fixed, ..Settings::default() };
        assert!((log_evidence(&fixed, &x, &codes) - -3.1211518661).abs() < 1e-8);
        let child = Settings { precision: Precision::Child, ..Settings::default() };
        assert!((log_evidence(&child, &x, &codes) - -3.261474479).abs() < 1e-6, "{}", log_evidence(&child, &x, &codes));
    }
}
