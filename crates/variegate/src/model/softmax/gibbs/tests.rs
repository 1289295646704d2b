//! The sampler against integrated posteriors of tiny problems, the checks of a sampler on every kind of tree, and the fronts' promises.

use serde_json::{Map, Value, json};
use std::time::Duration;

use super::super::layout::Shape;
use super::super::leaf::LeafPrior;
use super::super::tree::{Coding, Gates, Outcome, Structure};
use super::super::{Bound, Precision, Settings, Softmax};
use super::check::Subject;
use super::*;
use crate::check::{CalibrationSettings, InvarianceSettings, JointSettings, calibration, joint_distribution, sweep_invariance};
use crate::data::{Classes, Dataset, Matrix, Target};
use crate::diagnostics::{mcse_mean, summarise};
use crate::model::{Family, Fitted, RunSettings, family, fit};
use crate::run::{Memory, Pace, Plan, Schedule, Unobserved, drive};

fn settings(pairs: &[(&str, Value)]) -> Map<String, Value> {
    pairs.iter().map(|(k, v)| (k.to_string(), v.clone())).collect()
}

fn shape(precision: Precision, gamma: (f64, f64), fixed: f64) -> Shape {
    Shape { bound: Bound::Tilted, covariance: None, precision, gamma, fixed, bias: None }
}

const LEAF: LeafPrior = LeafPrior { noise: (1.0, 1.0), slope: (1.0, 1.0), fixed_slope: None };

/// Draws of functions of a point, one list a chain.
fn sample(program: &Gibbs, data: &Dataset<'_>, draws: u64, seed: u64) -> Memory {
    let plan = Plan { seed, chains: 4, schedule: Schedule::Sample { warm_up: 200, draws, thin: 1 }, block_rows: 2 };
    let mut memory = Memory::default();
    let pace = Pace { threads: 0, commit_every: Duration::from_secs(60) };
    drive(program, data, &plan, pace, &mut memory, &mut Unobserved).unwrap();
    memory
}

/// |z| of the mean of a function of some named draws against its exact value.
fn z(memory: &Memory, name: &str, f: impl Fn(&[f64]) -> f64, exact: f64) -> f64 {
    let chains: Vec<Vec<f64>> = memory
        .chains
        .iter()
        .map(|c| {
            let table = &c.draws.scalars;
            let (at, width) = table.find(name).unwrap();
            table.values.chunks_exact(table.width()).map(|row| f(&row[at..at + width])).collect()
        })
        .collect();
    (summarise(&chains).mean - exact) / mcse_mean(&chains)
}

/// Five rows of one column, without a bias.
fn five() -> Dataset<'static> {
    let classes = Classes { codes: vec![0, 0, 1, 1, 1], names: vec!["a".into(), "b".into()] };
    Dataset::new(Matrix::dense(5, 1, vec![1.0, 2.0, -0.5, -1.5, 0.8])).with_target(Target::Classes(classes))
}

/// Moments by quadrature; eight comparisons, false alarm below 1e-3.
#[test]
fn moments_of_subclasses_agree_with_the_integrated_posterior() {
    let prior = shape(Precision::Fixed, (1.0, 1.0), 1.0);
    let design = || Design::identity(1, false);
    let classes = Outcome::Classes(2);
    let subclasses = Gibbs::new(design(), &Structure::Subclasses(vec![1, 2]), classes, Coding::Full, &prior, LEAF);
    let draws = sample(&subclasses, &five(), 10_000, 1);
    let cases: [(&str, fn(&[f64]) -> f64, f64); 4] = [
        ("w1", |w| w[0], 0.817555),
        ("w1²", |w| w[0] * w[0], 1.256533),
        ("w2 w3", |w| w[1] * w[2], 0.189515),
        ("w2²", |w| w[1] * w[1], 0.938751),
    ];
    for (name, f, exact) in cases {
        let z = z(&draws, "weights", f, exact);
        assert!(z.abs() < 4.0, "{name}: z = {z}");
    }
    // two classes: the log-odds have the law of a logistic regression with twice the prior variance
    let plain = Gibbs::new(design(), &Structure::Subclasses(vec![1, 1]), classes, Coding::Full, &prior, LEAF);
    let draws = sample(&plain, &five(), 10_000, 2);
    let (mean, variance) = (1.1205808, 0.6640599);
    for (name, f, exact) in [
        ("log-odds", &(|w: &[f64]| w[0] - w[1]) as &dyn Fn(&[f64]) -> f64, mean),
        ("their variance", &|w: &[f64]| (w[0] - w[1] - mean) * (w[0] - w[1] - mean), variance),
    ] {
        let z = z(&draws, "weights", f, exact);
        assert!(z.abs() < 4.0, "{name}: z = {z}");
    }
    // the same from a logistic node with half the precision
    let half = shape(Precision::Fixed, (1.0, 1.0), 0.5);
    let logistic = Gibbs::new(design(), &Structure::Subclasses(vec![1, 1]), classes, Coding::Logistic, &half, LEAF);
    let draws = sample(&logistic, &five(), 10_000, 3);
    for (name, f, exact) in [
        ("log-odds", &(|w: &[f64]| w[0]) as &dyn Fn(&[f64]) -> f64, mean),
        ("their variance", &|w: &[f64]| (w[0] - mean) * (w[0] - mean), variance),
    ] {
        let z = z(&draws, "weights", f, exact);
        assert!(z.abs() < 4.0, "logistic {name}: z = {z}");
    }
}

/// One expert with a given precision of slopes: a normal-gamma posterior in closed form.
#[test]
fn moments_of_one_expert_are_those_of_its_closed_form() {
    let x = vec![-1.5, -0.7, 0.1, 0.6, 1.4, 2.0];
    let y = vec![1.4, 0.9, 0.2, 0.5, 1.6, 1.9];
    let data = Dataset::new(Matrix::dense(6, 1, x)).with_target(Target::Real { width: 1, values: y });
    let leaf = LeafPrior { fixed_slope: Some(0.5), ..LEAF };
    let prior = shape(Precision::Node, (1.0, 1.0), 1.0);
    let program = Gibbs::new(Design::identity(1, true), &Structure::Experts(1), Outcome::Real(1), Coding::Full, &prior, leaf);
    let draws = sample(&program, &data, 5_000, 4);
    let (c, d) = (4.0, 2.1989973547);
    let zs = [
        z(&draws, "expert_weights", |w| w[0], 0.19191057),
        z(&draws, "expert_weights", |w| w[1], 0.94390306),
        z(&draws, "noise_precision", |t| t[0], c / d),
        z(&draws, "noise_precision", |t| 1.0 / t[0], d / (c - 1.0)),
    ];
    assert!(zs.iter().all(|z| z.abs() < 4.0), "{zs:?}");
}

fn subject(pairs: &[(&str, Value)], structure: Structure, outcome: Outcome) -> Subject {
    let settings: Settings = crate::model::resolve("softmax", &super::super::settings::table(), &settings(pairs)).unwrap();
    Subject::new(&settings, &structure, outcome)
}

/// A gate of two experts in logistic coding.
fn logistic_gate() -> Structure {
    Structure::Gates(Gates::Gate { coding: Some(Coding::Logistic), children: vec![Gates::Expert, Gates::Subclasses(vec![1, 2])] })
}

/// Trees, codings and groups of precisions, each with what it is there for.
fn subjects() -> Vec<Subject> {
    let two = Outcome::Classes(2);
    vec![
        subject(&[("precision", json!("child"))], Structure::Subclasses(vec![1, 2]), two),
        subject(&[], Structure::Experts(2), two),
        subject(&[("precision", json!("feature"))], Structure::Experts(2), Outcome::Real(2)),
        subject(&[("precision", json!("entry"), ), ("bias_precision", json!(1.0))], logistic_gate(), two),
        subject(&[("precision", json!("fixed")), ("slope_precision", json!(1.0))], Structure::Gates(Gates::Gate { coding: None, children: vec![Gates::Expert, Gates::Gate { coding: Some(Coding::Logistic), children: vec![Gates::Expert; 2] }] }), Outcome::Real(1)),
    ]
}

#[test]
fn one_sweep_leaves_the_joint_law_as_it_is() {
    let effort = InvarianceSettings { draws: 20_000, ..Default::default() };
    for (k, subject) in subjects().iter().enumerate() {
        let report = sweep_invariance(subject, &effort, 30 + k as u64, &mut |_| ()).unwrap();
        assert!(report.passed, "{report}");
    }
}

#[test]
fn two_ways_to_the_joint_law_agree() {
    let effort = JointSettings { chains: 64, steps: 200, exact_draws: 40_000, ..Default::default() };
    for (k, subject) in subjects().iter().enumerate() {
        let report = joint_distribution(subject, &effort, 40 + k as u64, &mut |_| ()).unwrap();
        assert!(report.passed, "{report}");
    }
}

#[test]
fn draws_from_the_programs_own_start_are_calibrated() {
    let effort = CalibrationSettings { data_sets: 160, draws: 15, bins: 8, warm_up: 50, max_thin: 100, ..Default::default() };
    for (k, subject) in subjects().into_iter().map(Subject::unordered).take(3).enumerate() {
        let report = calibration(&subject, &effort, 50 + k as u64, &mut |_| ()).unwrap();
        assert!(report.passed, "{report}");
    }
}
