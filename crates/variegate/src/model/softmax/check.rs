//! Is the bound a bound, and does the ascent climb to its top?
//!
//! Small data sets are drawn from the prior of the model as it is set: two classes with one column and no bias, so that the log evidence is a
//! one- or two-dimensional integral, and the structure that was asked for (two subclasses of a class where it is to be searched
//! for) with two columns and a bias for the rest. Everything is deterministic: no false alarms. What is asked: the bound
//! never falls from sweep to sweep; it stays below the log evidence; at the end no change of means, covariances or precisions raises it;
//! the gradient behind the start is that of its objective.

use std::f64::consts::PI;

use super::factors::Factors;
use super::job::{Job, Role, SEARCH_ITERATIONS, Standing, Start, State};
use super::map::Objective;
use super::policy::Policy;
use super::program::Vb;
use super::settings::{Settings, Task};
use super::simulate::Joint;
use super::structure::Sizes;
use super::tree::{Coding, Emission, Gates, Structure};
use super::{Ascent, Bound, Precision, Schema};
use crate::Result;
use crate::check::generative::normal_features;
use crate::check::{CheckReport, Comparison, Generative, Progress};
use crate::data::{Design, Target};
use crate::infer::finite_difference::check_gradient;
use crate::run::{Chain, Purpose, Shape, Stream, Typed, blocks};
use crate::special::{ln_gamma, log_sum_exp, log1p_exp};

const ROWS: usize = 8;
/// The ascent is followed for so many sweeps at most.
const SWEEPS: u64 = 400;

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
    // annealing and searches change where an ascent begins, not what it is
    let settings = &Settings { anneal: false, class_weight: super::ClassWeight::None, ..settings.clone() };
    let (structure, outcome) = structure(settings)?;
    let tiny = Settings { task: Task::Classification, ..settings.clone() };
    for number in 0..data_sets {
        let stream = Stream::new(seed, 0, Purpose::Check).item(number);
        let plain = Structure::Subclasses(vec![1, 1]);
        one(&tiny, &plain, Emission::Classes(2), Design::identity(1, false), stream.block(0), &mut seen)?;
        one(settings, &structure, outcome, Design::identity(2, true), stream.block(1), &mut seen)?;
        progress(Progress { check: "variational bound", done: (number + 1) as f64 / data_sets as f64 });
    }
    let comparisons = vec![
        Comparison::at_most("decrease of the bound", seen.fall, 1e-9, "largest relative decrease of the bound in a sweep"),
        Comparison::at_most("bound above the log evidence", seen.above_evidence, 1e-6, "excess of the bound over the log evidence"),
        Comparison::at_most(
            "gain from perturbation",
            seen.gain_elsewhere,
            1e-7,
            "gain by a change of the final means, covariances or precisions, relative",
        ),
        Comparison::at_most("gradient of the start", seen.gradient, 1e-6, "difference to a numerical gradient, relative"),
    ];
    let passed = comparisons.iter().all(|c| c.passed);
    let subject = format!("softmax {}, {} bound", structure.describe(), settings.bound.word());
    Ok(vec![CheckReport {
        check: "variational bound".into(),
        subject,
        replicates: 2 * data_sets,
        false_alarm_rate: 0.0,
        passed,
        comparisons,
    }])
}

/// The structure that is checked: the one that is set, or a small one where it is to be searched for.
pub(super) fn structure(settings: &Settings) -> Result<(Structure, Emission)> {
    let lists = |gates: &Gates| -> Option<usize> {
        fn first(gates: &Gates) -> Option<usize> {
            match gates {
                Gates::Expert => None,
                Gates::Subclasses(sizes) => Some(sizes.len()),
                Gates::Gate { children, .. } => children.iter().find_map(first),
            }
        }
        first(gates)
    };
    let binary = settings.bound == Bound::Jj;
    let classes = match (&settings.subclasses, &settings.gates) {
        (Some(text), _) => match Sizes::read(text) {
            Some(Sizes::Given(sizes)) if sizes.len() > 1 => sizes.len(),
            _ => 3,
        },
        (_, Some(value)) => value.read().as_ref().and_then(lists).unwrap_or(3),
        _ => 3,
    };
    let outcome = if settings.task == Task::Regression { Emission::Real(1) } else { Emission::Classes(if binary { 2 } else { classes }) };
    let policy = settings.search(outcome)?.policy;
    let structure = match (policy, outcome) {
        (Policy::All(structures), _) if structures.len() == 1 => structures[0].clone(),
        (Policy::GreedyExperts { .. }, _) => Structure::Experts(2),
        (_, Emission::Classes(2)) if binary => Structure::Subclasses(vec![1, 1]),
        (_, Emission::Classes(classes)) => Structure::Subclasses((0..classes).map(|c| 1 + usize::from(c == 0)).collect()),
        (_, Emission::Real(_)) => Structure::Experts(2),
    };
    Ok((structure, outcome))
}

/// The schema of data that are drawn: columns and outcomes as they are.
pub(super) fn schema(outcome: Emission, design: Design, counts: Vec<f64>) -> Schema {
    let (classes, outputs) = match outcome {
        Emission::Classes(classes) => (classes, 0),
        Emission::Real(outputs) => (0, outputs),
    };
    Schema {
        columns: Vec::new(),
        classes: (0..classes).map(|c| c.to_string()).collect(),
        counts,
        class_weight: Vec::new(),
        y_mean: vec![0.0; outputs],
        y_scale: vec![1.0; outputs],
        design,
    }
}

/// A program over data of its own, without standardisation.
pub(super) fn program(settings: &Settings, outcome: Emission, design: Design, counts: Vec<f64>) -> Result<Vb> {
    Ascent::program_of(settings, &schema(outcome, design, counts))
}

/// The job of fitting one structure from one start.
pub(super) fn job(structure: &Structure, sweeps: u64) -> Job {
    Job {
        structure: structure.clone(),
        role: Role::Fit,
        generation: 1,
        start: if structure.is_concave() { Start::Zero } else { Start::Random(0) },
        search: SEARCH_ITERATIONS,
        ascent: sweeps,
        fold: None,
        score: false,
    }
}

fn one(settings: &Settings, structure: &Structure, outcome: Emission, design: Design, stream: Stream, seen: &mut Seen) -> Result<()> {
    let mut rng = stream.rng();
    let columns = design.kept.len();
    let model = Joint::of(settings, structure, outcome, &design);
    let x = normal_features(ROWS, columns, &mut rng);
    let data = model.data(&model.prior(&mut rng)?, &x, &mut rng)?;
    let (evidence, counts) = match &data.target {
        Target::Classes(classes) => {
            let evidence = (design.dim() == 1).then(|| log_evidence(settings, &x.to_dense(), &classes.codes));
            let count = |c: usize| classes.codes.iter().filter(|k| **k as usize == c).count() as f64;
            (evidence, (0..classes.names.len()).map(count).collect())
        }
        _ => (None, vec![ROWS as f64]),
    };
    let program = Vb { tol: f64::MIN_POSITIVE, ..program(settings, outcome, design, counts)? };

    let blocks = blocks(&data, 3);
    let shape = Shape { rows: ROWS, cols: columns, blocks: blocks.len() as u32, block_rows: 3 };
    let mut chain = Typed::at(&program, &blocks, shape, 0, 0, State::new(&program, job(structure, SWEEPS)))?;
    let mut last = chain.advance(false)?.objective;
    while !chain.global.done() {
        let bound = chain.advance(false)?.objective;
        seen.fall = seen.fall.max((last - bound) / (1.0 + bound.abs()));
        last = bound;
    }
    if let Some(evidence) = evidence {
        seen.above_evidence = seen.above_evidence.max(last - evidence);
    }
    let top = chain.global.clone();
    let layout = program.layout(&top.tree);
    if top.standing != Standing::Running {
        for q in neighbours(&program, &top) {
            if let Ok(moments) = q.moments(&layout, &top.basis, 1.0) {
                let (bound, _) = program.evaluate(&layout, &top, &q, &moments, chain.rows())?;
                seen.gain_elsewhere = seen.gain_elsewhere.max((bound - top.bound) / (1.0 + top.bound.abs()));
            }
        }
    }
    let at: Vec<f64> = top.parameters(&program).iter().map(|m| 0.5 * m.clamp(-5.0, 5.0) + 0.1).collect();
    let objective = Objective { program: &program, tree: &top.tree, fold: None, penalty: program.map_penalty };
    let mut gradient = vec![0.0; at.len()];
    objective.value(chain.rows(), &at, &mut gradient)?;
    let value = |w: &[f64]| objective.value(chain.rows(), w, &mut vec![0.0; w.len()]).unwrap_or(f64::NAN);
    seen.gradient = seen.gradient.max(check_gradient(value, &at, &gradient).relative_error);
    Ok(())
}

/// Factors beside the last ones: each mean moved by a twentieth of its deviation, covariances and rates scaled.
fn neighbours(program: &Vb, top: &State) -> Vec<Factors> {
    let Some(q) = &top.q else { return Vec::new() };
    let layout = program.layout(&top.tree);
    let Ok(moments) = q.moments(&layout, &top.basis, 1.0) else { return Vec::new() };
    let mut out = Vec::new();
    let mut push = |change: &dyn Fn(&mut Factors)| {
        let mut other = q.clone();
        change(&mut other);
        out.push(other);
    };
    for sign in [-1.0, 1.0] {
        for (v, moments) in moments.nodes.iter().enumerate() {
            for (j, variance) in moments.variance.iter().enumerate() {
                push(&|f| f.nodes[v].mean[j] += sign * 0.05 * variance.sqrt());
            }
            push(&|f| f.nodes[v].precision.iter_mut().for_each(|p| *p *= 1.0 + sign * 0.05));
            for g in 0..q.nodes[v].rates.len() {
                push(&|f| f.nodes[v].rates[g] *= 1.0 + sign * 0.05);
            }
        }
        for l in 0..q.leaves.len() {
            for j in 0..q.leaves[l].mean.len() {
                push(&|f| f.leaves[l].mean[j] += sign * 0.05 * f.leaves[l].rates[0].sqrt() / f.leaves[l].shape.sqrt());
            }
            push(&|f| f.leaves[l].precision.iter_mut().for_each(|p| *p *= 1.0 + sign * 0.05));
            push(&|f| f.leaves[l].rates[0] *= 1.0 + sign * 0.05);
            push(&|f| f.leaves[l].shape *= 1.0 + sign * 0.05);
            push(&|f| f.leaves[l].slope.1 *= 1.0 + sign * 0.05);
        }
    }
    out
}

/// ln ∫ p(y | w₁, w₂) p(w₁, w₂): two classes, one column, no bias; w₂ = 0 for a logistic node. The trapezoidal rule after w = sinh(sinh t), which tames the heavy tails
/// that a learned precision gives the prior; good to 1e-6, since far out the ridge of equal weights is narrower than a step.
fn log_evidence(settings: &Settings, x: &[f64], codes: &[u32]) -> f64 {
    let (a, b) = (settings.a0, settings.b0);
    // ln of ∫ Π N(w; 0, 1/α) Gamma(α; a, b) dα for a group of `size` weights
    let student = |size: f64, squares: f64| {
        ln_gamma(a + 0.5 * size) - ln_gamma(a) - 0.5 * size * (2.0 * PI * b).ln() - (a + 0.5 * size) * (0.5 * squares / b).ln_1p()
    };
    let logistic = settings.coding == Coding::Logistic;
    let log_prior = |u: f64, v: f64| match settings.precision {
        Precision::Fixed if logistic => 0.5 * (settings.prior_precision / (2.0 * PI)).ln() - 0.5 * settings.prior_precision * u * u,
        _ if logistic => student(1.0, u * u),
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
    let none = [(0.0, 0.0)];
    let second: &[(f64, f64)] = if logistic { &none } else { &points };
    let mut terms = Vec::with_capacity(points.len() * second.len());
    for &(u, lu) in &points {
        for &(v, lv) in second {
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
