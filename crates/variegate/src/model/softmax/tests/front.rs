//! The promises that every front relies on, and hostile input.

use serde_json::json;

use super::*;
use crate::data::Dataset;
use crate::data::Target;
use crate::model::{Fitted, RunSettings, family, fit};
use crate::run::{Memory, Pace, Plan, Unobserved, drive};

fn model(pairs: &[(&str, Value)]) -> Box<dyn Model> {
    family("softmax").unwrap().configure(&settings(pairs)).unwrap()
}

fn run(model: &dyn Model, data: &Dataset<'_>) -> Fitted {
    fit(model, data, &RunSettings::default(), &mut Unobserved).unwrap()
}

#[test]
fn threads_and_stops_change_no_bit() {
    let data = model(&[]).simulate(700, &settings(&[("columns", json!(4)), ("classes", json!(3))]), 5).unwrap().data;
    for covariance in ["joint", "child"] {
        let model = model(&[("covariance", json!(covariance)), ("tol", json!(1e-9))]);
        let with = |threads| {
            let run = RunSettings { threads, block_rows: Some(64), ..RunSettings::default() };
            fit(model.as_ref(), &data, &run, &mut Unobserved).unwrap().kept.chains[0].clone()
        };
        let one = with(1);
        assert!(one.sweeps > 3);
        for threads in [2, 7] {
            let other = with(threads);
            assert_eq!(one.checkpoint, other.checkpoint);
            assert_eq!(one.trace, other.trace);
        }
        let crate::model::Prepared { fit: prepared, plan, .. } =
            RunSettings::default().block_rows(64).prepare(model.as_ref(), &data).unwrap();
        for stop in 1..one.sweeps.min(4) {
            let mut memory = Memory::default();
            let short = Plan { schedule: Schedule::Ascend { max_sweeps: stop }, ..plan };
            drive(prepared.program(), &data, &short, Pace::default(), &mut memory, &mut Unobserved).unwrap();
            let unfinished = prepared.posterior(&memory.chains).unwrap().summary();
            assert!(!unfinished.converged && unfinished.notes[0].contains("max_iter"), "{:?}", unfinished.notes);
            memory.chains[0].finished = false;
            drive(prepared.program(), &data, &plan, Pace::default(), &mut memory, &mut Unobserved).unwrap();
            assert_eq!(memory.chains[0].checkpoint, one.checkpoint);
            assert_eq!(memory.chains[0].trace, one.trace);
        }
    }
}

#[test]
fn predictions_depend_on_the_row_alone() {
    for (columns, classes, covariance) in [(40, 3, "child"), (5, 7, "joint"), (3, 2, "joint")] {
        let model = model(&[("covariance", json!(covariance)), ("max_iter", json!(4))]);
        let data = model.simulate(300, &settings(&[("columns", json!(columns)), ("classes", json!(classes))]), 3).unwrap().data;
        let fitted = run(model.as_ref(), &data);
        for method in fitted.posterior.methods() {
            let all = fitted.posterior.predict(&data, method).unwrap();
            assert_eq!(all.deviation.is_some(), *method == "mc");
            assert!(all.probability.chunks(classes).all(|p| (p.iter().sum::<f64>() - 1.0).abs() < 1e-12 && p.iter().all(|p| *p >= 0.0)));
            for chosen in [vec![17usize], (0..300).rev().collect(), (5..70).collect(), vec![299, 0, 150]] {
                let some = fitted.posterior.predict(&data.subset(&chosen), method).unwrap();
                for (k, &i) in chosen.iter().enumerate() {
                    for c in 0..classes {
                        assert_eq!(some.probability[k * classes + c].to_bits(), all.probability[i * classes + c].to_bits(), "row {i}");
                    }
                }
            }
        }
        let back = Softmax.load(&fitted.posterior.save().unwrap()).unwrap();
        assert_eq!(back.predict(&data, "mc").unwrap(), fitted.posterior.predict(&data, "mc").unwrap());
        assert_eq!(back.summary(), fitted.posterior.summary());
        let reopened = model.reopen(model.bind(&data).unwrap().schema()).unwrap();
        assert_eq!(reopened.posterior(&fitted.kept.chains).unwrap().arrays(), fitted.posterior.arrays());
    }
}

/// Plug-in probabilities from the reported coefficients are those of `map`: the units are the user's.
#[test]
fn coefficients_are_in_the_units_of_the_columns() {
    let x: Vec<f64> = pseudo(60 * 3, 6).chunks(3).flat_map(|r| [1e3 + 50.0 * r[0], 4.0, 1e-3 * r[1]]).collect();
    let codes: Vec<u32> = x.chunks(3).enumerate().map(|(i, r)| ((r[0] > 1e3) as u32 + (r[2] > 0.0) as u32 + i as u32 / 50) % 3).collect();
    let data = Dataset::new(Matrix::dense(60, 3, x.clone())).with_target(classes(&codes, 3));
    for covariance in ["joint", "child"] {
        let fitted = run(model(&[("covariance", json!(covariance))]).as_ref(), &data);
        assert!(fitted.warnings[0].contains("x1"), "{:?}", fitted.warnings);
        let arrays = fitted.posterior.arrays();
        let get = |name: &str| arrays.iter().find(|a| a.name == name).unwrap();
        assert_eq!(get("coef").shape(), [3, 3]);
        assert!((0..3).all(|c| get("coef").values[c * 3 + 1] == 0.0 && get("coef_sd").values[c * 3 + 1] == 0.0));
        let p = fitted.posterior.predict(&data, "map").unwrap();
        for (row, p) in x.chunks(3).zip(p.probability.chunks(3)) {
            let mut z: Vec<f64> =
                (0..3).map(|c| get("intercept").values[c] + (0..3).map(|j| get("coef").values[c * 3 + j] * row[j]).sum::<f64>()).collect();
            bound::tilted::softmax(&mut z);
            assert!(z.iter().zip(p).all(|(a, b)| (a - b).abs() < 1e-9));
        }
        let summary = fitted.posterior.summary();
        assert!(summary.converged, "{:?}", summary.notes);
        assert_eq!(summary.rows().len(), 9);
        // the table has the same numbers: first column, class by class
        for c in 0..3 {
            assert!((summary.rows()[c].1[0] - get("coef").values[c * 3]).abs() < 1e-12);
            assert!((summary.rows()[c].1[1] - get("coef_sd").values[c * 3]).abs() < 1e-12);
        }
    }
}

/// Two plain classes have one row of coefficients, the log-odds of the second, as the summary and logistic regression have.
#[test]
fn two_classes_have_one_row_of_log_odds() {
    let x = pseudo(80 * 2, 9);
    let codes: Vec<u32> = x.chunks(2).enumerate().map(|(i, r)| u32::from(r[0] - 0.5 * r[1] > 0.2) ^ u32::from(i % 7 == 0)).collect();
    let data = Dataset::new(Matrix::dense(80, 2, x.clone())).with_target(classes(&codes, 2));
    for coding in ["full", "logistic"] {
        let fitted = run(model(&[("coding", json!(coding))]).as_ref(), &data);
        let arrays = fitted.posterior.arrays();
        let get = |name: &str| arrays.iter().find(|a| a.name == name).unwrap();
        assert_eq!((get("coef").shape(), get("intercept_sd").shape()), (vec![1, 2], vec![1]), "{coding}");
        let p = fitted.posterior.predict(&data, "map").unwrap();
        for (row, p) in x.chunks(2).zip(p.probability.chunks(2)) {
            let odds = get("intercept").values[0] + crate::linalg::dot(&get("coef").values, row);
            assert!(((p[1] / p[0]).ln() - odds).abs() < 1e-9, "{coding}");
        }
        let summary = fitted.posterior.summary();
        assert_eq!((summary.rows()[1].1[0], summary.rows()[1].1[1]), (get("coef").values[1], get("coef_sd").values[1]));
    }
}

/// The sd of a reported contrast against draws of all weights from q.
#[test]
fn reported_deviations_are_those_of_the_weights() {
    let data = model(&[]).simulate(80, &settings(&[]), 2).unwrap().data;
    let fitted = run(model(&[("covariance", json!("joint"))]).as_ref(), &data);
    let state = saved_global::<Vb>(&fitted.kept.chains[0].checkpoint).unwrap();
    let design = Design::fit(&data.x, None, Scaling::default()).0;
    let sigma = super::oracles::whole_covariance(node(&state));
    // the intercept of the first class against the mean of the three, as one linear function of the nine weights
    let along = [-design.mean[0] / design.scale[0], -design.mean[1] / design.scale[1], 1.0];
    let l: Vec<f64> = (0..9).map(|k| (if k / 3 == 0 { 2.0 / 3.0 } else { -1.0 / 3.0 }) * along[k % 3]).collect();
    let variance: f64 = (0..81).map(|k| l[k / 9] * l[k % 9] * sigma[k]).sum();
    let arrays = fitted.posterior.arrays();
    let reported = arrays.iter().find(|a| a.name == "intercept_sd").unwrap().values[0];
    assert!((reported - variance.sqrt()).abs() < 1e-10 * reported, "{reported} {}", variance.sqrt());
}

#[test]
fn hostile_data_give_a_finite_fit() {
    let check = |name: &str, data: &Dataset<'_>, pairs: &[(&str, Value)]| {
        let fitted = run(model(pairs).as_ref(), data);
        let trace: Vec<f64> = fitted.kept.chains[0].trace.iter().map(|t| t.1.objective).collect();
        assert!(trace.iter().all(|l| l.is_finite()), "{name}: {trace:?}");
        for method in fitted.posterior.methods() {
            assert!(fitted.posterior.predict(data, method).unwrap().probability.iter().all(|p| p.is_finite()), "{name} {method}");
        }
        fitted
    };
    let make = |x: Vec<f64>, cols: usize, codes: &[u32], names: usize| {
        Dataset::new(Matrix::dense(codes.len(), cols, x)).with_target(classes(codes, names))
    };
    for bound in ["tilted", "double"] {
        for covariance in ["joint", "child"] {
            let with = [("bound", json!(bound)), ("covariance", json!(covariance))];
            let line: Vec<f64> = (0..40).map(|i| i as f64 - 19.5).collect();
            let halves: Vec<u32> = (0..40).map(|i| (i >= 20) as u32).collect();
            check("separable", &make(line.clone(), 1, &halves, 2), &with);
            let doubled: Vec<f64> = line.iter().flat_map(|v| [*v, *v, 2.0 * v]).collect();
            check("duplicated columns", &make(doubled, 3, &halves, 2), &with);
            check("more columns than rows", &make(pseudo(6 * 20, 3), 20, &[0, 1, 2, 0, 1, 2], 3), &with);
            let mut lonely = halves.clone();
            lonely[7] = 2;
            check("a class with one row", &make(line.clone(), 1, &lonely, 3), &with);
            check("two rows", &make(vec![1.0, 2.0], 1, &[0, 1], 2), &with);
            check("only constant columns", &make(vec![3.0; 4], 1, &[0, 1, 1, 1], 2), &with);
            let raw = [with[0].clone(), with[1].clone(), ("standardize", json!(false))];
            let huge: Vec<f64> = line.iter().map(|v| v * 1e4).collect();
            let fitted = check("logits beyond 700", &make(huge, 1, &halves, 2), &raw);
            assert!(fitted.warnings.iter().any(|w| w.contains("standard deviation")), "{:?}", fitted.warnings);
            let zeros: Vec<f64> = line.iter().map(|v| if *v < 0.0 { 0.0 } else { *v }).collect();
            check("rows of zeros", &make(zeros, 1, &halves, 2), &raw);
        }
    }
    let absurd = make((0..40).map(|i| (i as f64 - 19.5) * 1e200).collect(), 1, &(0..40).map(|i| i % 2).collect::<Vec<u32>>(), 2);
    let error = fit(model(&[("standardize", json!(false))]).as_ref(), &absurd, &RunSettings::default(), &mut Unobserved).err().unwrap();
    assert!(error.to_string().contains("standardise"), "{error}");
    check("absurd but standardised", &absurd, &[]);
}

#[test]
fn a_bound_that_is_not_finite_ends_the_fit_at_the_last_good_state() {
    let data = five(&[0, 0, 1, 1, 1], 2);
    for bound in [Bound::Tilted, Bound::Double] {
        let p = program(&Settings { bound, ..Settings::default() }, 2, Design::identity(1, false));
        climb(&p, &data, 1, |chain, _| {
            let before = chain.global.clone();
            chain.global.stats.gradient.0[0] = f64::INFINITY;
            let report = chain.advance(false).unwrap();
            assert!(report.converged && report.objective == before.bound);
            assert_eq!(chain.global.standing, job::Standing::Numerical);
            assert_eq!(chain.global.q, before.q);
            let schema = Schema {
                columns: vec![],
                classes: vec!["a".into(), "b".into()],
                counts: vec![2.0, 3.0],
                class_weight: vec![],
                y_mean: vec![],
                y_scale: vec![],
                design: p.design.clone(),
            };
            let summary = SoftmaxPosterior::new(&p, &schema, &Settings::default(), &chain.global, 0).unwrap().summary();
            assert!(!summary.converged && summary.notes[0].contains("numerical"));
        });
    }
}

#[test]
fn two_moons_are_learned_and_uncertainty_counts() {
    // two bent classes: a linear boundary gets most of it, and probabilities from few rows are less sure than plug-in ones
    let noise = pseudo(400, 12);
    let x: Vec<f64> = (0..200)
        .flat_map(|i| {
            let t = std::f64::consts::PI * (i / 2) as f64 / 100.0;
            let (a, b) = if i % 2 == 0 { (t.cos(), t.sin()) } else { (1.0 - t.cos(), 0.5 - t.sin()) };
            [a + 0.3 * noise[2 * i], b + 0.3 * noise[2 * i + 1]]
        })
        .collect();
    let codes: Vec<u32> = (0..200).map(|i| i % 2).collect();
    let data = Dataset::new(Matrix::dense(200, 2, x)).with_target(classes(&codes, 2));
    let fitted = run(model(&[]).as_ref(), &data);
    let p = fitted.posterior.predict(&data, "").unwrap();
    let right = p.best(2).iter().zip(&codes).filter(|(a, b)| **a == **b as usize).count();
    assert!(right > 160, "{right} of 200");
    let plug_in = fitted.posterior.predict(&data, "map").unwrap();
    let surer = |p: &[f64]| p.chunks(2).map(|p| p[0].max(p[1])).sum::<f64>();
    assert!(surer(&p.probability) < surer(&plug_in.probability));
    let mc = fitted.posterior.predict(&data, "mc").unwrap();
    for (a, b) in mc.probability.iter().zip(&p.probability) {
        assert!((a - b).abs() < 0.02, "{a} {b}");
    }
}

#[test]
fn bad_settings_and_data_say_what_is_wrong() {
    let say = |pairs: &[(&str, Value)]| family("softmax").unwrap().configure(&settings(pairs)).err().unwrap().to_string();
    assert!(say(&[("bound", json!("loose"))]).contains("tilted, double, jj, bohning"));
    assert!(say(&[("tol", json!(0.0))]).contains("above 0"));
    assert!(say(&[("prior_precision", json!(2.0))]).contains("fixed"));
    assert!(say(&[("a0", json!(2.0)), ("precision", json!("fixed"))]).contains("fixed"));
    let standard = model(&[]);
    let mut data = five(&[0, 0, 1, 1, 1], 3);
    assert!(standard.bind(&data).err().unwrap().to_string().contains("`k2` has no row"));
    data.target = Target::None;
    assert!(standard.bind(&data).is_err());
    let wide = Dataset::new(Matrix::dense(2, 6000, vec![0.5; 12000].iter().enumerate().map(|(i, v)| v * i as f64).collect::<Vec<_>>()))
        .with_target(classes(&[0, 1], 2));
    let error = model(&[("covariance", json!("child"))]).bind(&wide).err().unwrap().to_string();
    assert!(error.contains("`diag`"), "{error}");
    assert!(standard.bind(&wide).is_ok());
    let joint = model(&[("covariance", json!("joint")), ("bound", json!("double"))]).bind(&five(&[0, 0, 1, 1, 1], 2)).unwrap();
    assert!(joint.warnings()[0].contains("child"));
}

#[test]
fn simulated_data_can_be_fitted_and_the_check_passes() {
    for (pairs, seed) in
        [(vec![], 1), (vec![("precision", json!("fixed")), ("prior_precision", json!(0.5))], 2), (vec![("bound", json!("double"))], 3)]
    {
        let model = model(&pairs);
        let made = model.simulate(200, &settings(&[]), seed).unwrap();
        assert_eq!((made.data.rows(), made.data.x.cols()), (200, 2));
        assert_eq!(made.truth["weights"].as_array().unwrap().len(), 3);
        run(model.as_ref(), &made.data);
    }
    for (bound, covariance) in [(Bound::Tilted, JOINT), (Bound::Tilted, CHILD), (Bound::Double, AUTO)] {
        for precision in [Precision::Node, Precision::Child, Precision::Feature, Precision::Entry, Precision::Fixed] {
            let s = Settings { bound, covariance, precision, ..Settings::default() };
            for report in check::check(&s, 3, 11, &mut |_| {}).unwrap() {
                assert!(report.passed, "{bound:?} {covariance:?} {precision:?}: {report}");
            }
        }
    }
}
