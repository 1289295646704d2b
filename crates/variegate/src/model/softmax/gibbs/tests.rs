//! The sampler against integrated posteriors of tiny problems, the checks of a sampler on every kind of tree, and the fronts' promises.

use serde_json::{Map, Value, json};
use std::time::Duration;

use super::super::layout::Shape;
use super::super::leaf::LeafPrior;
use super::super::tree::{Coding, Emission, Gates, Structure};
use super::super::{Bound, Precision, Settings, Softmax};
use super::check::Subject;
use super::*;
use crate::check::{CalibrationSettings, Effort, InvarianceSettings, JointSettings, calibration, joint_distribution, sweep_invariance};
use crate::data::{Classes, Dataset, Matrix, Target};
use crate::diagnostics::{mcse_mean, summarise};
use crate::model::{Family, Fitted, Model, Prepared, RunSettings, family, fit};
use crate::run::{Memory, Pace, Plan, Schedule, Unobserved, drive};

fn settings(pairs: &[(&str, Value)]) -> Map<String, Value> {
    pairs.iter().map(|(k, v)| (k.to_string(), v.clone())).collect()
}

fn shape(precision: Precision, gamma: (f64, f64), fixed: f64) -> Shape {
    Shape { bound: Bound::Tilted, covariance: None, precision, gamma, fixed, fixed_gates: None, bias: None, joint_up_to: 512 }
}

const LEAF: LeafPrior = LeafPrior { noise: (1.0, 1.0), slope: (1.0, 1.0), fixed_slope: None };

/// Draws of functions of a point, one list a chain.
fn sample(program: &Gibbs, data: &Dataset<'_>, draws: u64, seed: u64) -> Memory {
    let plan = Plan { seed, chains: 4, schedule: Schedule::Sample { warm_up: 200, draws, thin: 1 }, block_rows: 2 };
    let mut memory = Memory::default();
    let pace = Pace { threads: 0, commit_every: Duration::from_secs(60), ..Pace::default() };
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
    let classes = Emission::Classes(2);
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
    // two classes: the log-odds have the distribution of a logistic regression with twice the prior variance
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
    let program = Gibbs::new(Design::identity(1, true), &Structure::Experts(1), Emission::Real(1), Coding::Full, &prior, leaf);
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

fn subject(pairs: &[(&str, Value)], structure: Structure, outcome: Emission) -> Subject {
    let settings: Settings = crate::model::resolve("softmax", &settings(pairs)).unwrap();
    // priors under which few sweeps are enough to judge a sampler by
    let (gammas, half) = (3.0, 0.5);
    let settings = Settings {
        a0: gammas,
        b0: gammas,
        prior_precision: 1.5,
        bias_precision: settings.bias_precision.map(|_| half),
        noise_shape: gammas,
        noise_rate: 2.0,
        slope_shape: gammas,
        slope_rate: gammas,
        slope_precision: settings.slope_precision.map(|_| half),
        ..settings
    };
    Subject::new(&settings, &structure, outcome)
}

/// A gate of two experts in logistic coding.
fn logistic_gate() -> Structure {
    Structure::Gates(Gates::Gate { coding: Some(Coding::Logistic), children: vec![Gates::Expert, Gates::Subclasses(vec![1, 2])] })
}

/// Trees, codings and groups of precisions, each with what it is there for.
fn subjects() -> Vec<Subject> {
    let two = Emission::Classes(2);
    vec![
        subject(&[("precision", json!("child"))], Structure::Subclasses(vec![1, 2]), two),
        subject(&[], Structure::Experts(2), two),
        subject(&[("precision", json!("feature"))], Structure::Experts(2), Emission::Real(2)),
        subject(&[("precision", json!("entry")), ("bias_precision", json!(1.0))], logistic_gate(), two),
        subject(
            &[("precision", json!("fixed")), ("slope_precision", json!(1.0))],
            Structure::Gates(Gates::Gate {
                coding: None,
                children: vec![Gates::Expert, Gates::Gate { coding: Some(Coding::Logistic), children: vec![Gates::Expert; 2] }],
            }),
            Emission::Real(1),
        ),
    ]
}

#[test]
fn one_sweep_leaves_the_joint_distribution_as_it_is() {
    let effort = InvarianceSettings { draws: 20_000, ..Default::default() };
    for (k, subject) in subjects().iter().enumerate() {
        let report = sweep_invariance(subject, &effort, 30 + k as u64, &mut |_| ()).unwrap();
        assert!(report.passed, "{report}");
    }
}

#[test]
fn two_ways_to_the_joint_distribution_agree() {
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

/// The three checks as `check` of the family runs them, on the smallest tree.
#[test]
fn the_family_checks_its_sampler() {
    let effort = Effort {
        invariance: InvarianceSettings { draws: 2_000, ..Default::default() },
        joint: JointSettings { chains: 16, steps: 40, exact_draws: 2_000, ..Default::default() },
        calibration: CalibrationSettings { data_sets: 40, draws: 7, bins: 8, warm_up: 20, ..Default::default() },
    };
    let reports = model(&[("coding", json!("logistic")), ("subclasses", json!("1,1"))]).check(&effort, 7, &mut |_| ()).unwrap();
    assert_eq!(reports.len(), 3);
    for report in reports {
        assert!(report.passed && report.subject.contains("softmax/gibbs [1,1]"), "{report}");
    }
}

/// What is checked is what is set: the tree, the priors of precisions, and those that are given.
#[test]
fn settings_reach_the_check() {
    let moment = |pairs: &[(&str, Value)], structure, outcome, name: &str| {
        let settings: Settings = crate::model::resolve("softmax", &settings(pairs)).unwrap();
        let effort = InvarianceSettings { draws: 1_000, ..Default::default() };
        let report = sweep_invariance(&Subject::new(&settings, &structure, outcome), &effort, 1, &mut |_| ()).unwrap();
        report.comparisons.iter().find(|c| c.name == name).map(|c| c.expected)
    };
    let classes = |pairs: &[(&str, Value)], name: &str| moment(pairs, Structure::Subclasses(vec![1, 1]), Emission::Classes(2), name);
    let rate = |b0: f64| classes(&[("b0", json!(b0))], "ln alpha[0]").unwrap();
    assert!((rate(0.5) - rate(5.0) - 10.0f64.ln()).abs() < 1e-9, "{} and {}", rate(0.5), rate(5.0));
    let likelihood = |p: f64| classes(&[("precision", json!("fixed")), ("prior_precision", json!(p))], "log likelihood").unwrap();
    assert!(likelihood(0.01) > likelihood(10.0) + 1.0, "large weights say more of classes: {} and {}", likelihood(0.01), likelihood(10.0));
    assert_eq!(classes(&[("precision", json!("fixed"))], "ln alpha[0]"), None);
    let noise = |rate: f64| moment(&[("noise_rate", json!(rate))], Structure::Experts(2), Emission::Real(1), "ln tau[0]").unwrap();
    assert!((noise(0.01) - noise(1.0) - 100.0f64.ln()).abs() < 1e-9, "{} and {}", noise(0.01), noise(1.0));
}

fn model(pairs: &[(&str, Value)]) -> Box<dyn Model> {
    let mut given = settings(&[("inference", json!("gibbs"))]);
    given.extend(settings(pairs));
    family("softmax").unwrap().configure(&given).unwrap()
}

fn run(pairs: &[(&str, Value)], data: &Dataset<'_>, seed: u64) -> Fitted {
    fit(model(pairs).as_ref(), data, &RunSettings { seed, ..RunSettings::default() }, &mut Unobserved).unwrap()
}

/// Settings of a short run, and others.
fn short(others: &[(&'static str, Value)]) -> Vec<(&'static str, Value)> {
    [&[("n_warmup", json!(20)), ("n_draws", json!(60))], others].concat()
}

/// Data that a structure was drawn from.
fn drawn(pairs: &[(&str, Value)], rows: usize, request: &[(&str, Value)]) -> Dataset<'static> {
    model(pairs).simulate(rows, &settings(request), 3).unwrap().data
}

#[test]
fn whole_weights_are_repeated_rows_in_distribution() {
    let mut weighted = five();
    weighted.weights = Some(vec![2.0, 1.0, 0.0, 3.0, 1.0]);
    let mut repeated = five().subset(&[0, 0, 1, 3, 3, 3, 4]);
    repeated.weights = None;
    let given = [("standardize", json!(false)), ("subclasses", json!("2,1")), ("precision", json!("fixed")), ("n_draws", json!(4000))];
    let likelihood = |data: &Dataset<'_>, seed| -> Vec<Vec<f64>> {
        run(&given, data, seed).kept.chains.iter().map(|c| c.draws.scalars.column("log_likelihood", 0).unwrap()).collect()
    };
    let (a, b) = (likelihood(&weighted, 1), likelihood(&repeated, 2));
    let z = (summarise(&a).mean - summarise(&b).mean) / mcse_mean(&a).hypot(mcse_mean(&b));
    assert!(z.abs() < 4.0, "z = {z}");
}

#[test]
fn any_number_of_threads_and_any_stop_give_the_same_draws() {
    for (pairs, request) in [
        (vec![("experts", json!("2"))], vec![("classes", json!(2))]),
        (vec![("task", json!("regression")), ("experts", json!("3"))], vec![]),
    ] {
        let data = drawn(&pairs, 300, &request);
        let pairs = [pairs, vec![("n_draws", json!(8)), ("n_warmup", json!(3)), ("n_chains", json!(2))]].concat();
        let model = model(&pairs);
        let bits =
            |kept: &Memory| -> Vec<u64> { kept.chains.iter().flat_map(|c| c.draws.scalars.values.iter().map(|v| v.to_bits())).collect() };
        let at = |threads| RunSettings { seed: 9, threads, block_rows: Some(32), ..RunSettings::default() };
        let one = fit(model.as_ref(), &data, &at(1), &mut Unobserved).unwrap().kept;
        for threads in [2, 4] {
            assert_eq!(bits(&one), bits(&fit(model.as_ref(), &data, &at(threads), &mut Unobserved).unwrap().kept));
        }
        let Prepared { fit, plan, .. } = at(2).prepare(model.as_ref(), &data).unwrap();
        let pace = Pace { threads: 2, commit_every: Duration::ZERO, ..Pace::default() };
        let mut memory = Memory::default();
        let begun = Plan { schedule: Schedule::Ascend { max_sweeps: 3 }, ..plan };
        drive(fit.program(), &data, &begun, pace, &mut memory, &mut Unobserved).unwrap();
        memory.chains.iter_mut().for_each(|c| c.finished = false);
        drive(fit.program(), &data, &plan, pace, &mut memory, &mut Unobserved).unwrap();
        assert_eq!(bits(&one), bits(&memory));
        assert!(one.chains.iter().zip(&memory.chains).all(|(a, b)| a.checkpoint == b.checkpoint));
    }
}

#[test]
fn predictions_depend_on_the_row_alone_and_survive_saving() {
    let given = short(&[("subclasses", json!("1,2,1"))]);
    let data = drawn(&given, 150, &[("columns", json!(4))]);
    let fitted = run(&given, &data, 5);
    let all = fitted.posterior.predict(&data, "").unwrap();
    assert!(all.probability.chunks(3).all(|p| (p.iter().sum::<f64>() - 1.0).abs() < 1e-12));
    let spread = all.deviation.as_ref().unwrap();
    assert!(spread.iter().all(|s| (0.0..0.5).contains(s)) && spread.iter().any(|s| *s > 0.01));
    for chosen in [vec![17usize], (0..150).rev().collect(), (5..70).collect()] {
        let some = fitted.posterior.predict(&data.subset(&chosen), "average").unwrap();
        for (k, &i) in chosen.iter().enumerate() {
            assert_eq!(some.probability[3 * k..3 * k + 3], all.probability[3 * i..3 * i + 3], "row {i}");
        }
    }
    let saved = fitted.posterior.save().unwrap();
    let back = Softmax.load(&saved).unwrap();
    assert_eq!(back.predict(&data, "").unwrap(), all);
    let reopened = model(&given).reopen(model(&given).bind(&data).unwrap().schema()).unwrap();
    assert_eq!(reopened.posterior(&fitted.kept.chains).unwrap().save().unwrap(), saved);
    let error = back.responsibilities(&data).unwrap_err().to_string();
    assert!(error.contains("change places"), "{error}");
    assert!(back.predict(&data, "mc").is_err() && back.predict_real(&data, &[], "").is_err());
    let summary = fitted.posterior.summary();
    assert!(summary.rows().iter().any(|(n, _)| n == "share of c2, 2 from above"), "{:?}", summary.rows());
}

/// Means and densities of real outcomes are averages over the draws, whose log densities are those of the model.
#[test]
fn predictions_average_over_draws() {
    let given = short(&[("task", json!("regression")), ("experts", json!("2")), ("standardize", json!(false)), ("n_chains", json!(2))]);
    let data = drawn(&given, 80, &[("columns", json!(1))]);
    let fitted = run(&given, &data, 6);
    let (Target::Real { values: y, .. }, x) = (&data.target, data.x.to_dense()) else { panic!() };
    let (mean, sd) = moments_of(y);
    let mut expected = vec![(0.0, 0.0); 80];
    let mut draws = 0.0;
    for chain in &fitted.kept.chains {
        let table = &chain.draws.scalars;
        let of = |name: &str| table.find(name).unwrap().0;
        let (w, e, t) = (of("weights"), of("expert_weights"), of("noise_precision"));
        for row in table.values.chunks_exact(table.width()) {
            draws += 1.0;
            let mut log_likelihood = 0.0;
            for (i, out) in expected.iter_mut().enumerate() {
                let line = |at: usize| row[at] * x[i] + row[at + 1];
                let odds = (line(w) - line(w + 2)).exp();
                let before = out.1;
                for (k, share) in [odds / (1.0 + odds), 1.0 / (1.0 + odds)].into_iter().enumerate() {
                    let (at, spread) = (mean + sd * line(e + 2 * k), sd / row[t + k].sqrt());
                    let u = (y[i] - at) / spread;
                    out.0 += share * at;
                    out.1 += share * (-0.5 * u * u).exp() / (spread * (2.0 * PI).sqrt());
                }
                log_likelihood += (out.1 - before).ln();
            }
            // Gamma(1, 1) on the precisions of weights and slopes, Gamma(1, 0.01) on those of the noise
            let normal = |v: f64, precision: f64| 0.5 * ((precision / (2.0 * PI)).ln() - precision * v * v);
            let (alpha, kappa) = (row[of("alpha")], of("slope_precision"));
            let mut joint = log_likelihood - alpha + row[w..w + 4].iter().map(|v| normal(*v, alpha)).sum::<f64>();
            for k in 0..2 {
                joint += 0.01f64.ln() - 0.01 * row[t + k] - row[kappa + k];
                joint += row[e + 2 * k..e + 2 * k + 2].iter().map(|v| normal(*v, row[t + k] * row[kappa + k])).sum::<f64>();
            }
            assert!((row[of("log_likelihood")] - log_likelihood).abs() < 1e-6 * (1.0 + log_likelihood.abs()));
            assert!((row[of("log_joint")] - joint).abs() < 1e-6 * (1.0 + joint.abs()));
        }
    }
    let levels = [0.025, 0.5, 0.9];
    let real = fitted.posterior.predict_real(&data, &levels, "").unwrap();
    let density = real.ln_density.as_ref().unwrap();
    for (i, (m, d)) in expected.iter().enumerate() {
        assert!((real.mean[i] - m / draws).abs() < 1e-9 * (1.0 + m.abs()), "{i}");
        assert!((density[i] - (d / draws).ln()).abs() < 1e-9, "{i}");
        assert!(real.quantiles[0][i] < real.quantiles[1][i] && real.quantiles[1][i] < real.quantiles[2][i]);
    }
    let inside = (0..80).filter(|i| y[*i] < real.quantiles[2][*i]).count();
    assert!(inside > 60, "{inside} of 80 below their 90 % quantile");
    let saved = Softmax.load(&fitted.posterior.save().unwrap()).unwrap();
    assert_eq!(saved.predict_real(&data, &levels, "").unwrap(), real);
    let names: Vec<&str> = saved.arrays().iter().map(|a| a.name).collect();
    assert_eq!(
        names,
        ["shares_draws", "components_draws", "alpha_draws", "noise_draws", "log_joint_draws", "log_likelihood_draws", "chain_lengths"]
    );
}

fn moments_of(y: &[f64]) -> (f64, f64) {
    let n = y.len() as f64;
    let mean = y.iter().sum::<f64>() / n;
    (mean, (y.iter().map(|y| (y - mean) * (y - mean)).sum::<f64>() / n).sqrt())
}

/// Plain softmax is reported by coefficients; the log joint density of the draws is that of the model.
#[test]
fn plain_softmax_reports_log_odds() {
    let given = short(&[("precision", json!("fixed")), ("n_chains", json!(1))]);
    let data = drawn(&given, 60, &[("columns", json!(2)), ("classes", json!(2))]);
    let fitted = run(&given, &data, 8);
    let summary = fitted.posterior.summary();
    let names: Vec<&str> = summary.rows().iter().map(|(n, _)| n.as_str()).collect();
    assert_eq!(names, ["log joint density", "log likelihood", "x1", "x2", "(intercept)"]);
    assert!(summary.fact("table").is_some_and(|t| t.to_string().contains("log-odds of `c2` against `c1`")));
    let arrays = fitted.posterior.arrays();
    let get = |name: &str| arrays.iter().find(|a| a.name == name).unwrap();
    assert_eq!((get("coef_draws").shape(), get("intercept_draws").shape()), (vec![60, 1, 2], vec![60, 1]));
    let slope = get("coef_draws").values.chunks(2).map(|c| c[0]).sum::<f64>() / 60.0;
    assert!((slope - summary.rows()[2].1[0]).abs() < 1e-12);
    // log-odds of a row by coefficients in its own units, and the log likelihood from them
    let (x, Target::Classes(classes)) = (data.x.to_dense(), &data.target) else { panic!() };
    let (coef, intercept) = (&get("coef_draws").values[..2], get("intercept_draws").values[0]);
    let log_likelihood: f64 = (0..60)
        .map(|i| {
            let odds = intercept + (0..2).map(|j| coef[j] * x[2 * i + j]).sum::<f64>();
            crate::special::ln_sigmoid(if classes.codes[i] == 1 { odds } else { -odds })
        })
        .sum();
    let table = &fitted.kept.chains[0].draws.scalars;
    assert!((table.column("log_likelihood", 0).unwrap()[0] - log_likelihood).abs() < 1e-9);
    let (at, width) = table.find("weights").unwrap();
    let prior: f64 = table.values[at..at + width].iter().map(|w| -0.5 * ((2.0 * PI).ln() + w * w)).sum();
    assert!((table.column("log_joint", 0).unwrap()[0] - log_likelihood - prior).abs() < 1e-9);
    let shares = fitted.posterior.responsibilities(&data).unwrap();
    assert!(shares.names == ["c1", "c2"] && (0..60).all(|i| shares.share[2 * i + classes.codes[i] as usize] == 1.0));
}

#[test]
fn settings_of_the_other_inference_are_refused_by_name() {
    let say = |pairs: &[(&str, Value)]| match family("softmax").unwrap().configure(&settings(pairs)) {
        Err(error) => error.to_string(),
        Ok(_) => String::new(),
    };
    for (name, value) in [
        ("bound", json!("double")),
        ("covariance", json!("child")),
        ("preset", json!("paper")),
        ("tol", json!(0.5)),
        ("max_iter", json!(3)),
        ("n_init", json!(2)),
        ("n_vb", json!(1)),
        ("anneal", json!(true)),
        ("criterion", json!("bic")),
        ("class_weight", json!("balanced")),
        ("map_penalty", json!(1.0)),
        ("generations", json!(1)),
        ("relevance", json!(0.5)),
        ("folds", json!(3)),
    ] {
        let message = say(&[("inference", json!("gibbs")), (name, value)]);
        assert!(message.contains(&format!("`{name}`")) && message.contains("`inference` is `gibbs`"), "{name}: {message}");
    }
    for (name, value) in [("n_chains", json!(2)), ("n_warmup", json!(2)), ("n_draws", json!(2)), ("thin", json!(2))] {
        for inference in ["vb", "map"] {
            let message = say(&[("inference", json!(inference)), (name, value.clone())]);
            assert!(message.contains(&format!("`{name}`")) && message.contains("unless `inference` is `gibbs`"), "{name}: {message}");
        }
        assert_eq!(say(&[("inference", json!("gibbs")), (name, value)]), "");
    }
    assert!(say(&[("inference", json!("gibbs")), ("subclasses", json!("auto"))]).contains("subclasses"));
    let mut half = five();
    half.weights = Some(vec![1.0, 1.5, 1.0, 1.0, 1.0]);
    let error = model(&[]).bind(&half).err().unwrap().to_string();
    assert!(error.contains("row 2") && error.contains("whole number"), "{error}");
}
