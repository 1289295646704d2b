//! The sampler against the integrated posterior of a tiny problem, and the fronts' promises.

use serde_json::json;

use super::*;
use crate::check::{InvarianceSettings, sweep_invariance};
use crate::data::Dataset;
use crate::data::Target;
use crate::data::{Classes, Matrix};
use crate::diagnostics::{mcse_mean, summarise};
use crate::model::linear::testing::{settings, six_rows};
use crate::model::{RunSettings, family, fit};
use crate::run::Unobserved;

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
    let fitted = fit(model.as_ref(), &six_rows(), &RunSettings { seed: 5, ..RunSettings::default() }, &mut Unobserved).unwrap();
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
    let mut weighted = six_rows();
    weighted.weights = Some(vec![2.0, 1.0, 0.0, 3.0, 1.0, 1.0]);
    let chosen = [0, 0, 1, 3, 3, 3, 4, 5];
    let mut repeated = six_rows().subset(&chosen);
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
    let mut three = six_rows();
    three.target = Target::Classes(Classes { codes: vec![0, 1, 2, 0, 1, 2], names: vec!["a".into(), "b".into(), "c".into()] });
    assert!(model.bind(&three).err().unwrap().to_string().contains("softmax"));
    let mut half = six_rows();
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

fn vb(pairs: &[(&str, Value)]) -> Box<dyn Model> {
    let own = [("inference", json!("vb"))];
    family("logistic").unwrap().configure(&settings(&[&own[..], pairs].concat())).unwrap()
}

fn array(posterior: &dyn Posterior, name: &str) -> Vec<f64> {
    posterior.arrays().into_iter().find(|a| a.name == name).unwrap_or_else(|| panic!("no array {name}")).values
}

#[test]
fn variational_posterior_of_two_coefficients() {
    let prior = [("standardize", json!(false)), ("bias_precision", json!(0.25)), ("tol", json!(1e-15)), ("max_iter", json!(3000))];
    let fitted = fit(vb(&prior).as_ref(), &six_rows(), &RunSettings::default(), &mut Unobserved).unwrap();
    let of = |name: &str| array(fitted.posterior.as_ref(), name);
    let (mean, v, bound) = (of("weight_mean"), of("weight_covariance"), of("elbo")[0]);
    let found = [bound, mean[1], mean[0], v[3], v[0], v[1]];
    let want = [-5.36584738, 0.01429140, 0.37333129, 0.61624959, 0.46666411, 0.01786424];
    assert!(found.iter().zip(want).all(|(f, w)| (f - w).abs() < 1.1e-8), "{found:?}");
    assert!(bound < -5.30092174, "above the log evidence");
    let trace = &fitted.kept.chains[0].trace;
    assert!(trace.len() > 5 && trace.windows(2).all(|w| w[1].1.objective >= w[0].1.objective - 1e-12));
    assert!(fitted.posterior.summary().converged);
    // probabilities are integrals of σ over the normal posterior of the score
    let new = Dataset::new(Matrix::dense(1, 1, vec![2.0]));
    let (f, s2) = (mean[1] + 2.0 * mean[0], v[3] + 4.0 * v[1] + 4.0 * v[0]);
    let normal = |z: f64| crate::special::sigmoid(f + s2.sqrt() * z) * (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt();
    let want = crate::dist::quadrature::integrate(&normal, -9.0, 9.0);
    let found = fitted.posterior.predict(&new, "").unwrap();
    assert!((found.probability[1] - want).abs() < 1e-5, "{found:?} {want}");
    assert!((fitted.posterior.predict(&new, "plug-in").unwrap().probability[1] - crate::special::sigmoid(f)).abs() < 1e-14);
    let how = crate::answer::Predict { level: Some(0.9), ..Default::default() };
    let ends = fitted.posterior.predict_with(&new, &how).unwrap().interval.unwrap();
    let z = 1.6448536269514722 * s2.sqrt();
    let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
    assert!(near(ends.lower[1], crate::special::sigmoid(f - z)) && near(ends.upper[1], crate::special::sigmoid(f + z)));
    assert!(near(ends.lower[0], 1.0 - ends.upper[1]) && near(ends.upper[0], 1.0 - ends.lower[1]));
    let back = Logistic.load(&fitted.posterior.save().unwrap()).unwrap();
    assert_eq!((back.predict(&new, "").unwrap(), back.summary()), (found, fitted.posterior.summary()));
}

/// Coefficients are in the units of the columns, whatever the columns were scaled by, with the deviations of the same linear functions.
#[test]
fn variational_coefficients_are_in_the_units_of_the_columns() {
    let raw = six_rows();
    let moved = Dataset { x: Matrix::dense(6, 1, raw.x.to_dense().iter().map(|x| 100.0 + 7.0 * x).collect::<Vec<f64>>()), ..raw.clone() };
    let fitted = |data: &Dataset<'_>| fit(vb(&[]).as_ref(), data, &RunSettings::default(), &mut Unobserved).unwrap().posterior;
    let (a, b) = (fitted(&raw), fitted(&moved));
    let of = |p: &dyn Posterior, name: &str| array(p, name)[0];
    assert!((of(a.as_ref(), "coef") / of(b.as_ref(), "coef") - 7.0).abs() < 1e-9);
    assert!((of(a.as_ref(), "coef_sd") / of(b.as_ref(), "coef_sd") - 7.0).abs() < 1e-9);
    let at_zero = of(b.as_ref(), "intercept") + 100.0 * of(b.as_ref(), "coef");
    assert!((of(a.as_ref(), "intercept") - at_zero).abs() < 1e-9);
    // the deviation of b − 100/7 w by the covariance of the design weights
    let v = array(b.as_ref(), "weight_covariance");
    let design = crate::data::Design::fit(&moved.x, None, crate::data::Scaling::default()).0;
    let shift = design.mean[0] / design.scale[0];
    let variance = v[3] - 2.0 * shift * v[1] + shift * shift * v[0];
    assert!((of(b.as_ref(), "intercept_sd").powi(2) / variance - 1.0).abs() < 1e-9);
}

/// Rows of any weight, of none, classes that a line parts, and more columns than rows.
#[test]
fn variational_fits_of_odd_data() {
    let run = |data: &Dataset<'_>| fit(vb(&[]).as_ref(), data, &RunSettings::default(), &mut Unobserved).unwrap().posterior;
    let some = Dataset { weights: Some(vec![0.5, 1.5, 0.0, 1.0, 1.0, 1.0]), ..six_rows() };
    let fewer = Dataset { weights: Some(vec![0.5, 1.5, 1.0, 1.0, 1.0]), ..six_rows().subset(&[0, 1, 3, 4, 5]) };
    let (a, b) = (array(run(&some).as_ref(), "coef")[0], array(run(&fewer).as_ref(), "coef")[0]);
    assert!((a - b).abs() < 1e-6, "{a} {b}");
    let names = vec!["a".to_string(), "b".to_string()];
    let of = |x: Matrix<'static>, codes: Vec<u32>| Dataset::new(x).with_target(Target::Classes(Classes { codes, names: names.clone() }));
    let parted = of(Matrix::dense(6, 1, vec![-3.0, -2.0, -1.0, 1.0, 2.0, 3.0]), vec![0, 0, 0, 1, 1, 1]);
    let wide = of(Matrix::dense(4, 12, (0..48).map(|i| f64::from((i * 37 % 11) as u8) - 5.0).collect::<Vec<_>>()), vec![0, 1, 1, 0]);
    for data in [parted, wide] {
        let posterior = run(&data);
        let Target::Classes(truth) = &data.target else { unreachable!() };
        let best = posterior.predict(&data, "").unwrap().best(2);
        assert!(best.iter().zip(&truth.codes).all(|(a, b)| *a == *b as usize), "{best:?}");
    }
    let say = |pairs: &[(&str, Value)]| family("logistic").unwrap().configure(&settings(pairs)).err().unwrap().to_string();
    assert!(say(&[("inference", json!("vb")), ("n_draws", json!(5))]).contains("gibbs"));
    assert!(say(&[("tol", json!(0.1))]).contains("gibbs"));
}

#[test]
fn the_ascent_passes_its_check() {
    for pairs in [vec![], vec![("fit_intercept", json!(false)), ("prior_precision", json!(0.01))]] {
        for report in vb(&pairs).check(&Effort::quick(), 20, &mut |_| {}).unwrap() {
            assert!(report.passed, "{report}");
        }
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

/// More columns than rows: by default weights are found in the space of the rows, also where a matrix of all columns would be too large.
#[test]
fn many_columns_are_fitted_in_the_space_of_the_rows() {
    for (columns, whole) in [(300, true), (6_000, false)] {
        let rows = 24;
        let entry = |i: usize, j: usize| if (i * 31 + j * 17).is_multiple_of(7) { 0.5 + ((i * 13 + j * 5) % 11) as f64 } else { 0.0 };
        let x = Matrix::dense(rows, columns, (0..rows * columns).map(|at| entry(at / columns, at % columns)).collect::<Vec<_>>());
        let classes = Classes { codes: (0..rows as u32).map(|i| i % 7 / 4).collect(), names: vec!["a".into(), "b".into()] };
        let data = Dataset::new(x).with_target(Target::Classes(classes));
        let fitted = fit(vb(&[]).as_ref(), &data, &RunSettings::default(), &mut Unobserved).unwrap();
        let arrays = fitted.posterior.arrays();
        let len = |name: &str| arrays.iter().find(|a| a.name == name).map(|a| a.values.len());
        assert_eq!((len("coef"), len("coef_sd"), len("weight_mean")), (Some(columns), Some(columns), Some(columns + 1)));
        assert_eq!(len("weight_covariance"), whole.then_some((columns + 1) * (columns + 1)));
        let saved = fitted.posterior.save().unwrap();
        assert!(saved.len() < 30 * rows * columns, "{} bytes", saved.len());
        let (here, back) = (fitted.posterior.predict(&data, "").unwrap(), Logistic.load(&saved).unwrap().predict(&data, "").unwrap());
        assert_eq!(here, back);
        let right = (0..rows).filter(|&i| (here.probability[2 * i + 1] > 0.5) == (i % 7 / 4 == 1)).count();
        assert!(right > 20, "{right} of {rows}");
    }
}
