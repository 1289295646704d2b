//! Fits by exact draws, from settings to answers.

use serde_json::{Value, json};
use std::path::Path;

use super::fits::{fitted, labels, map, simulated};
use crate::answer::{LabelPrediction, LabelRule, Posterior};
use crate::check::Effort;
use crate::data::{Dataset, Matrix, Target};
use crate::model::labels::LabelsPosterior;
use crate::model::{as_value, family};

/// A few draws.
fn brief(settings: Value) -> Value {
    let mut all = map(json!({ "inference": "gibbs", "components": 5, "n_chains": 2, "n_warmup": 60, "n_draws": 30, "thin": 1 }));
    all.extend(map(settings));
    Value::Object(all)
}

fn predicted(posterior: &dyn Posterior, data: &Dataset<'_>, rule: &str, given: bool) -> LabelPrediction {
    posterior.predict_labels(data, &LabelRule { rule, nonempty: false, given }).unwrap()
}

/// Every coupling and every kernel has answers to every question, and the same ones once it was saved.
#[test]
fn every_coupling_and_kernel_answers() {
    let cases = [
        json!({ "features": "gaussian-diag" }),
        json!({ "features": "gaussian-full", "feature_power": 0.5 }),
        json!({ "features": "multinomial", "coupling": "and" }),
        json!({ "features": "bernoulli", "coupling": "and", "concentration": 0.8 }),
        json!({ "features": "gaussian-diag", "coupling": "cut" }),
        json!({ "features": "bernoulli", "coupling": "cut", "classifier": "svm", "combine": "mean" }),
        json!({ "features": "multinomial", "coupling": "cut", "label_patterns": "multinomial", "combine": "product", "feature_power": null }),
    ];
    for case in cases {
        let shares = case["label_patterns"] == "multinomial";
        let drawn = json!({ "coupling": case["coupling"].as_str().unwrap_or("logit"), "features": case["features"] });
        let request = json!({ "columns": 3, "labels": 3, "unknown": if shares { 0.0 } else { 0.2 } });
        let (train, test) = simulated(&drawn, request, 60, 12);
        let found = fitted(brief(case.clone()), &train).unwrap_or_else(|e| panic!("{case}: {e}"));
        let posterior = found.posterior.as_ref();
        let again = family("labels").unwrap().load(&posterior.save().unwrap()).unwrap();
        for rule in posterior.rules() {
            let p = predicted(posterior, &test, rule, false);
            assert!(p.probability.iter().chain(&p.novelty).all(|p| (0.0..=1.0).contains(p)), "{case} {rule}");
            assert_eq!(p, predicted(again.as_ref(), &test, rule, false), "{case} {rule}");
        }
        assert_eq!(posterior.rules().contains(&"subset"), !shares);
        if !shares {
            let told = predicted(posterior, &test, "", true);
            let known = &labels(&test).values;
            assert!(told.probability.iter().zip(known).all(|(p, y)| *p == f64::from(*y)), "{case}");
        }
        let found = posterior.responsibilities(&Dataset { target: Target::None, ..test.clone() }).unwrap();
        let names: Vec<&str> = found.names.iter().map(String::as_str).collect();
        assert!(names.ends_with(&["others", "unknown"]), "{names:?}");
        for row in found.share.chunks_exact(names.len()) {
            assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{case}: {row:?}");
        }
        let summary = posterior.summary();
        let tables: Vec<&str> = summary.tables.iter().map(|t| t.name.as_str()).collect();
        assert_eq!(tables, ["components", "labels", "parameters", "labels that go together"]);
        assert_eq!(summary.tables[0].rows.len() + 2, names.len());
        assert!(summary.notes.iter().any(|n| n.contains("found again")), "{:?}", summary.notes);
        assert_eq!(!summary.warnings.is_empty(), case.get("feature_power").is_some(), "{case}: {:?}", summary.warnings);
        // rates that nobody knows are not numbers, and equal nothing
        assert_eq!(format!("{:?}", again.summary()), format!("{summary:?}"));
        let arrays = posterior.arrays();
        let named = |name: &str| arrays.iter().find(|a| a.name == name).unwrap_or_else(|| panic!("{case}: no {name}"));
        assert_eq!(named("coefficients_draws").shape(), [60, 3, 3]);
        assert_eq!(named("n_components_draws").shape(), [60]);
        assert_eq!(named("chain_lengths").values, [30.0, 30.0]);
        assert!(arrays.iter().filter(|a| a.name != "label_rates").all(|a| a.values.iter().all(|v| v.is_finite())), "{case}");
        assert_eq!(again.arrays().len(), arrays.len());
    }
}

/// What a row is said to have depends on that row alone.
#[test]
fn rows_are_answered_one_by_one() {
    let (train, test) = simulated(&json!({}), json!({ "columns": 3, "labels": 2 }), 50, 4);
    let posterior = fitted(brief(json!({})), &train).unwrap().posterior;
    let all = predicted(posterior.as_ref(), &test, "subset", false);
    for i in [0, 63, 64, 130] {
        let one = predicted(posterior.as_ref(), &test.subset(&[i]), "subset", false);
        assert_eq!(
            (&one.probability[..], &one.chosen[..], one.novelty[0]),
            (&all.probability[2 * i..][..2], &all.chosen[2 * i..][..2], all.novelty[i])
        );
    }
}

/// On data of well separated components both ways of inference say much the same: variational posteriors are a little too sure.
#[test]
fn draws_and_factors_agree() {
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for i in 0..240usize {
        let (kind, step) = (i % 3, (i / 3) as f64);
        // three kinds of rows far apart, each with a pattern of its own; the last label goes by the second column
        let (a, b) = ((step * 0.7).sin(), (step * 1.3).cos());
        x.extend([[6.0, 0.0], [-6.0, 0.0], [0.0, 8.0]][kind].iter().zip([a, b]).map(|(m, e)| m + e));
        y.extend([[1, 0], [0, 1], [1, 1]][kind].map(|v: i8| if i % 11 == 0 { 1 - v } else { v }));
        y.push(i8::from(b > 0.2));
    }
    let names = ["a", "b", "c"].map(String::from).to_vec();
    let target = Target::Labels(crate::data::LabelSets { names, values: y });
    let data = Dataset::new(Matrix::dense(240, 2, x)).with_target(target);
    for coupling in ["logit", "and", "cut"] {
        // splits would follow the arcs that rows of a kind lie on, which the few draws here do not
        let vb = fitted(json!({ "coupling": coupling, "components": 6, "moves": "none" }), &data).unwrap().posterior;
        let settings = json!({ "coupling": coupling, "components": 6, "n_warmup": 300, "n_draws": 200, "thin": 2 });
        let gibbs = fitted(brief(settings), &data).unwrap().posterior;
        let (vb, gibbs) = (predicted(vb.as_ref(), &data, "", false), predicted(gibbs.as_ref(), &data, "", false));
        let apart = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).sum::<f64>() / a.len() as f64;
        assert!(apart(&vb.probability, &gibbs.probability) < 0.02, "{coupling}");
        assert!(apart(&vb.novelty, &gibbs.novelty) < 0.02, "{coupling}");
    }
}

/// Known labels of a new row speak for the others.
#[test]
fn known_labels_inform_the_others() {
    // two kinds of rows that features cannot tell apart: all labels or none
    let n = 120;
    let x = Matrix::dense(n, 1, (0..n).map(|i| (i % 7) as f64 - 3.0).collect::<Vec<_>>());
    let values: Vec<i8> = (0..n).flat_map(|i| [i8::from(i % 2 == 0); 4]).collect();
    let names = ["a", "b", "c", "d"].map(String::from).to_vec();
    let data = Dataset::new(x).with_target(Target::Labels(crate::data::LabelSets { names, values }));
    let posterior = fitted(brief(json!({ "n_warmup": 200 })), &data).unwrap().posterior;
    let mut row = data.subset(&[0]);
    let Target::Labels(known) = &mut row.target else { panic!("no labels") };
    known.values = vec![1, -1, -1, -1];
    let (plain, told) = (predicted(posterior.as_ref(), &row, "", false), predicted(posterior.as_ref(), &row, "", true));
    assert!((plain.probability[3] - 0.5).abs() < 0.15, "{:?}", plain.probability);
    assert!(told.probability[3] > 0.9, "{:?}", told.probability);
}

/// What only one way of inference has is refused by the other.
#[test]
fn settings_go_with_their_inference() {
    let said = |settings: Value| match family("labels").unwrap().configure(&map(settings)) {
        Ok(_) => panic!("it was taken"),
        Err(e) => e.to_string(),
    };
    for (name, value) in [("n_chains", json!(2)), ("n_warmup", json!(3)), ("n_draws", json!(4)), ("thin", json!(9))] {
        let told = said(json!({ name: value }));
        assert!(told.contains(name) && told.contains("gibbs"), "{told}");
    }
    let idle = [("n_init", json!(2)), ("tol", json!(0.1)), ("max_iter", json!(3)), ("bound", json!("jj")), ("label_memory", json!(1.0))];
    for (name, value) in idle.into_iter().chain([("covariance", json!("diagonal"))]) {
        let told = said(json!({ "inference": "gibbs", name: value }));
        assert!(told.contains(name) && told.contains("gibbs"), "{told}");
    }
    let model = family("labels").unwrap().configure(&map(json!({ "inference": "gibbs" }))).unwrap();
    let used = model.settings_in_use();
    assert!(used.contains_key("n_draws") && !used.contains_key("tol"), "{}", as_value(&used));
}

/// Posteriors that version 0.1 saved, before there were draws, stay readable and say what they said.
#[test]
fn earlier_posteriors_stay_readable() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../variegate-io/tests/golden/runs/0.1");
    for case in ["labels-vb-logit", "labels-vb-bohning", "labels-vb-and", "labels-vb-cut"] {
        let read = |file: &str| std::fs::read(folder.join(case).join(file)).unwrap();
        let posterior = family("labels").unwrap().load(&read("posterior.bin")).unwrap();
        let settings = LabelsPosterior::load(&read("posterior.bin")).unwrap().settings;
        assert_eq!((settings.components, settings.max_iter, settings.n_draws), (4, 400, 250));
        let table = |file: &str| {
            let text = String::from_utf8(read(file)).unwrap();
            text.lines().skip(1).map(|l| l.split(',').map(|v| v.parse().unwrap_or(f64::NAN)).collect()).collect::<Vec<Vec<f64>>>()
        };
        let rows = table("data.csv");
        let x: Vec<f64> = rows.iter().flat_map(|r| r[..3].to_vec()).collect();
        let columns = ["a", "b", "c"].map(String::from).to_vec();
        let data = Dataset { columns, ..Dataset::new(Matrix::dense(rows.len(), 3, x)) };
        let told = predicted(posterior.as_ref(), &data, "", false);
        for (i, row) in table("answers.csv").iter().enumerate() {
            let [.., first, second, novelty] = row[..] else { panic!("{row:?}") };
            let close = |a: f64, b: f64| (a - b).abs() < 1e-6;
            let p = &told.probability[2 * i..];
            assert!(close(p[0], first) && close(p[1], second) && close(told.novelty[i], novelty), "{case} {i}: {row:?}");
        }
        // and are saved as the present version
        let again = family("labels").unwrap().load(&posterior.save().unwrap()).unwrap();
        assert_eq!(predicted(again.as_ref(), &data, "", false), told);
    }
}

/// The checks of a sampler, as a user asks for them: every coupling, with priors under which it forgets fast.
#[test]
fn long_checks_of_the_sampler_pass() {
    let mut effort = Effort::quick();
    effort.invariance.draws = 4_000;
    (effort.joint.chains, effort.joint.steps, effort.joint.exact_draws) = (32, 60, 4_000);
    effort.calibration.data_sets = 40;
    let strong = json!({ "bias_precision": 0.5, "precision_shape": 3.0, "precision_rate": 3.0, "concentration_shape": 3.0 });
    let kernel = json!({ "features": "gaussian-diag", "mean_strength": 1.0, "feature_shape": 4.0, "feature_rate": 3.0 });
    let couplings =
        [kernel, json!({ "coupling": "and", "features": "bernoulli" }), json!({ "coupling": "cut", "features": "multinomial" })];
    for settings in couplings {
        let mut all = map(settings.clone());
        all.extend(map(strong.clone()));
        all.insert("inference".into(), json!("gibbs"));
        let model = family("labels").unwrap().configure(&all).unwrap();
        let reports = model.check(&effort, 5, &mut |_| {}).unwrap_or_else(|e| panic!("{settings}: {e}"));
        assert_eq!(reports.len(), 3);
        for report in reports {
            assert!(report.passed, "{settings}: {report}");
        }
    }
}
