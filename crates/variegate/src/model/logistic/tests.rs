//! The sampler against the integrated posterior of a tiny problem, and the fronts' promises.

use serde_json::{Map, json};

use super::*;
use crate::check::{InvarianceSettings, sweep_invariance};
use crate::data::Dataset;
use crate::data::Target;
use crate::data::{Classes, Matrix};
use crate::diagnostics::{mcse_mean, summarise};
use crate::model::{RunSettings, family, fit};
use crate::run::Unobserved;

fn settings(pairs: &[(&str, Value)]) -> Map<String, Value> {
    pairs.iter().map(|(k, v)| (k.to_string(), v.clone())).collect()
}

/// Six rows, a bias and one column; prior precisions (1/4, 1). Moments by two-dimensional quadrature.
fn tiny() -> Dataset<'static> {
    let x = vec![-1.2, -0.4, 0.1, 0.7, 1.5, -0.9];
    let classes = Classes { codes: vec![0, 0, 1, 0, 1, 1], names: vec!["0".into(), "1".into()] };
    Dataset::new(Matrix::dense(6, 1, x)).with_target(Target::Classes(classes))
}

#[test]
fn moments_agree_with_the_integrated_posterior() {
    let given = settings(&[
        ("standardize", json!(false)),
        ("prior_precision", json!(1.0)),
        ("bias_precision", json!(0.25)),
        ("n_draws", json!(10_000)),
        ("n_warmup", json!(100)),
    ]);
    let model = family("logistic").unwrap().configure(&given).unwrap();
    let fitted = fit(model.as_ref(), &tiny(), &RunSettings { seed: 5, ..RunSettings::default() }, &mut Unobserved).unwrap();
    let column = |j: usize| -> Vec<Vec<f64>> { fitted.kept.chains.iter().map(|c| c.draws.scalars.column("weights", j).unwrap()).collect() };
    let (slope, bias) = (column(0), column(1));
    let map = |f: &dyn Fn(f64, f64) -> f64| -> Vec<Vec<f64>> {
        bias.iter().zip(&slope).map(|(b, s)| b.iter().zip(s).map(|(&b, &s)| f(b, s)).collect()).collect()
    };
    let (mb, ms) = (0.01803091, 0.40473653);
    let cases: [(&str, Vec<Vec<f64>>, f64); 5] = [
        ("mean bias", map(&|b, _| b), mb),
        ("mean slope", map(&|_, s| s), ms),
        ("var bias", map(&|b, _| (b - mb) * (b - mb)), 0.69719672),
        ("var slope", map(&|_, s| (s - ms) * (s - ms)), 0.51237081),
        ("cov", map(&|b, s| (b - mb) * (s - ms)), 0.02418444),
    ];
    for (name, draws, exact) in cases {
        let z = (summarise(&draws).mean - exact) / mcse_mean(&draws);
        assert!(z.abs() < 4.0, "{name}: z = {z}"); // five comparisons: false alarm below 4e-4
    }
}

#[test]
fn whole_weights_are_repeated_rows_in_distribution() {
    // the same posterior, so means agree within Monte Carlo error
    let mut weighted = tiny();
    weighted.weights = Some(vec![2.0, 1.0, 0.0, 3.0, 1.0, 1.0]);
    let chosen = [0, 0, 1, 3, 3, 3, 4, 5];
    let mut repeated = tiny().subset(&chosen);
    repeated.weights = None;
    let given = settings(&[("standardize", json!(false)), ("n_draws", json!(4000))]);
    let model = family("logistic").unwrap().configure(&given).unwrap();
    let draws = |data: &Dataset<'_>, seed| -> Vec<Vec<f64>> {
        let fitted = fit(model.as_ref(), data, &RunSettings { seed, ..RunSettings::default() }, &mut Unobserved).unwrap();
        fitted.kept.chains.iter().map(|c| c.draws.scalars.column("weights", 0).unwrap()).collect()
    };
    let (a, b) = (draws(&weighted, 1), draws(&repeated, 2));
    let z = (summarise(&a).mean - summarise(&b).mean) / mcse_mean(&a).hypot(mcse_mean(&b));
    assert!(z.abs() < 4.0, "z = {z}");
}

#[test]
fn predictions_depend_on_the_row_alone() {
    let model = family("logistic").unwrap().configure(&settings(&[("n_draws", json!(50)), ("n_warmup", json!(20))])).unwrap();
    let columns = settings(&[("columns", json!(40))]);
    let data = model.simulate(300, &columns, 3).unwrap().data;
    let fitted = fit(model.as_ref(), &data, &RunSettings::default(), &mut Unobserved).unwrap();
    for method in fitted.posterior.methods() {
        let all = fitted.posterior.predict(&data, method).unwrap();
        assert!(all.probability.chunks(2).all(|p| (p[0] + p[1] - 1.0).abs() < 1e-12));
        for chosen in [vec![17usize], (0..300).rev().collect(), (5..70).collect(), vec![299, 0, 150]] {
            let some = fitted.posterior.predict(&data.subset(&chosen), method).unwrap();
            for (k, &i) in chosen.iter().enumerate() {
                assert_eq!(some.probability[2 * k + 1].to_bits(), all.probability[2 * i + 1].to_bits(), "row {i}");
            }
        }
    }
    let saved = fitted.posterior.save().unwrap();
    let back = Logistic.load(&saved).unwrap();
    assert_eq!(back.predict(&data, "").unwrap(), fitted.posterior.predict(&data, "").unwrap());
}

#[test]
fn bad_settings_and_data_say_what_is_wrong() {
    let say = |pairs: &[(&str, Value)]| family("logistic").unwrap().configure(&settings(pairs)).err().unwrap().to_string();
    assert!(say(&[("n_draws", json!(0))]).contains("n_draws"));
    assert!(say(&[("prior_precision", json!("high"))]).contains("finite number above 0"));
    assert!(say(&[("drawz", json!(1))]).contains("n_draws"));
    let model = family("logistic").unwrap().configure(&Map::new()).unwrap();
    let mut three = tiny();
    three.target = Target::Classes(Classes { codes: vec![0, 1, 2, 0, 1, 2], names: vec!["a".into(), "b".into(), "c".into()] });
    assert!(model.bind(&three).err().unwrap().to_string().contains("softmax"));
    let mut half = tiny();
    half.weights = Some(vec![0.5; 6]);
    assert!(model.bind(&half).err().unwrap().to_string().contains("row 1"));
}

#[test]
fn the_table_of_settings_is_the_settings() {
    for f in crate::model::FAMILIES {
        let defaults = crate::model::defaults(&f.settings());
        assert_eq!(f.configure(&defaults).unwrap().settings(), defaults);
    }
}

#[test]
fn the_sampler_passes_every_check() {
    let model = family("logistic").unwrap().configure(&Map::new()).unwrap();
    for report in model.check(&Effort::quick(), 20, &mut |_| {}).unwrap() {
        assert!(report.passed, "{report}");
    }
}

/// What is checked is what is set: precisions show in the second moments, and without an intercept there is nothing to say of a bias.
#[test]
fn settings_reach_the_check() {
    let moment = |settings: &Settings, name: &str| {
        let effort = InvarianceSettings { draws: 2_000, ..Default::default() };
        let report = sweep_invariance(&check::Subject::new(settings), &effort, 1, &mut |_| ()).unwrap();
        report.comparisons.iter().find(|c| c.name == name).map(|c| c.expected)
    };
    let tight = Settings { prior_precision: 4.0, bias_precision: Some(16.0), ..Settings::default() };
    for (name, variance) in [("w1·w1", 0.25), ("w2·w2", 0.25), ("bias·bias", 0.0625)] {
        let found = moment(&tight, name).unwrap();
        // the mean of 2000 squares, five standard deviations
        assert!((found / variance - 1.0).abs() < 5.0 * (2.0f64 / 2_000.0).sqrt(), "{name}: {found} for {variance}");
    }
    assert_eq!(moment(&Settings { fit_intercept: false, ..Settings::default() }, "bias"), None);
}

#[test]
fn any_number_of_threads_gives_the_same_draws() {
    let given = settings(&[("n_draws", json!(20)), ("n_warmup", json!(5)), ("n_chains", json!(3))]);
    let model = family("logistic").unwrap().configure(&given).unwrap();
    let data = model.simulate(1000, &settings(&[("columns", json!(7))]), 3).unwrap().data;
    let run = |threads| {
        let run = RunSettings { seed: 9, threads, block_rows: Some(64), ..RunSettings::default() };
        let kept = fit(model.as_ref(), &data, &run, &mut Unobserved).unwrap().kept;
        kept.chains.iter().flat_map(|c| c.draws.scalars.values.iter().map(|v| v.to_bits())).collect::<Vec<_>>()
    };
    let one = run(1);
    assert_eq!(one.len(), 3 * 20 * 9); // log joint, seven weights, bias
    assert_eq!(one, run(2));
    assert_eq!(one, run(4));
}
