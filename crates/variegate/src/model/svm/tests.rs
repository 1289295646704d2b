//! Known posteriors of two coefficients, odd data, and the fronts' promises.

use serde_json::{Value, json};

use super::*;
use crate::answer::{NamedArray, Predict};
use crate::check::InvarianceSettings;
use crate::data::{Classes, Dataset, Matrix, Target};
use crate::diagnostics::{mcse_mean, summarise};
use crate::model::linear::testing::{HINGE_MOMENTS, settings, six_rows};
use crate::model::{Fitted, RunSettings, family, fit};
use crate::run::Unobserved;

/// The prior of the known posteriors.
fn known(inference: &str, more: &[(&str, Value)]) -> Box<dyn Model> {
    let prior =
        [("inference", json!(inference)), ("standardize", json!(false)), ("prior_precision", json!(1.0)), ("bias_precision", json!(0.25))];
    model(&[&prior[..], more].concat())
}

fn model(pairs: &[(&str, Value)]) -> Box<dyn Model> {
    family("svm").unwrap().configure(&settings(pairs)).unwrap()
}

fn run(model: &dyn Model, data: &Dataset<'_>, seed: u64) -> Fitted {
    fit(model, data, &RunSettings::default().seed(seed), &mut Unobserved).unwrap()
}

fn array(fitted: &Fitted, name: &str) -> NamedArray {
    fitted.posterior.arrays().into_iter().find(|a| a.name == name).unwrap_or_else(|| panic!("no array {name}"))
}

fn classes(x: Matrix<'static>, codes: Vec<u32>, names: usize) -> Dataset<'static> {
    let names = (0..names).map(|c| format!("c{c}")).collect();
    Dataset::new(x).with_target(Target::Classes(Classes { codes, names }))
}

/// An ascent to the last digit.
fn long() -> Vec<(&'static str, Value)> {
    vec![("tol", json!(1e-15)), ("max_iter", json!(3000))]
}

#[test]
fn variational_posterior_of_two_coefficients() {
    let fitted = run(known("vb", &long()).as_ref(), &six_rows(), 1);
    let (mean, v) = (array(&fitted, "weight_mean").values, array(&fitted, "weight_covariance").values);
    let bound = array(&fitted, "elbo").values[0];
    let found = [bound, mean[1], mean[0], v[3], v[0], v[1]];
    let want = [-13.23282781, -0.07501614, 0.70575965, 0.14292733, 0.12633831, 0.00665512];
    assert!(found.iter().zip(want).all(|(f, w)| (f - w).abs() < 1.1e-8), "{found:?}");
    // a lower bound on the log of the integrated pseudo-posterior, and variances far too small
    assert!(bound < -12.49651213 && v[3] < 0.5 * HINGE_MOMENTS[2]);
    let summary = fitted.posterior.summary();
    let said = |words: &str| summary.notes.iter().any(|n| n.contains(words));
    assert!(summary.converged && said("far too small") && said("pseudo-likelihood"));
    let trace = &fitted.kept.chains[0].trace;
    assert!(trace.len() > 20 && trace.windows(2).all(|w| w[1].1.objective >= w[0].1.objective - 1e-12 * w[0].1.objective.abs()));
}

#[test]
fn maximum_of_two_coefficients() {
    let fitted = run(known("map", &long()).as_ref(), &six_rows(), 1);
    let (slope, bias) = (array(&fitted, "coef").values[0], array(&fitted, "intercept").values[0]);
    assert!((slope - 20.0 / 27.0).abs() < 1e-6 && (bias + 1.0 / 9.0).abs() < 1e-6, "{slope} {bias}");
    // the prior's constant ½ ln |P₀| is part of the objective
    let objective = array(&fitted, "objective").values[0];
    assert!((objective - 0.5 * 0.25f64.ln() + 9.90552126).abs() < 1e-6, "{objective}");
    assert!(fitted.posterior.summary().rows().iter().all(|(_, numbers)| numbers.len() == 1));
}

#[test]
fn draws_have_the_moments_of_the_integrated_posterior() {
    let fitted = run(known("gibbs", &[("n_draws", json!(10_000)), ("n_warmup", json!(200))]).as_ref(), &six_rows(), 5);
    let column = |j: usize| -> Vec<Vec<f64>> { fitted.kept.chains.iter().map(|c| c.draws.scalars.column("weights", j).unwrap()).collect() };
    let (slope, bias) = (column(0), column(1));
    let map = |f: &dyn Fn(f64, f64) -> f64| -> Vec<Vec<f64>> {
        bias.iter().zip(&slope).map(|(b, s)| b.iter().zip(s).map(|(&b, &s)| f(b, s)).collect()).collect()
    };
    let [mb, ms, vb, vs, cov] = HINGE_MOMENTS;
    let cases: [(&str, Vec<Vec<f64>>, f64); 5] = [
        ("mean bias", map(&|b, _| b), mb),
        ("mean slope", map(&|_, s| s), ms),
        ("var bias", map(&|b, _| (b - mb) * (b - mb)), vb),
        ("var slope", map(&|_, s| (s - ms) * (s - ms)), vs),
        ("cov", map(&|b, s| (b - mb) * (s - ms)), cov),
    ];
    for (name, draws, exact) in cases {
        let z = (summarise(&draws).mean - exact) / mcse_mean(&draws);
        assert!(z.abs() < 4.0, "{name}: z = {z}"); // five comparisons: false alarm below 4e-4
    }
}

/// Log density that is kept with a draw: prior and pseudo-likelihood at its own weights.
#[test]
fn draws_know_their_density() {
    let fitted = run(known("gibbs", &[("n_draws", json!(5)), ("n_warmup", json!(3))]).as_ref(), &six_rows(), 5);
    let (coef, intercept) = (array(&fitted, "coef_draws").values, array(&fitted, "intercept_draws").values);
    let x = six_rows().x.to_dense().to_vec();
    for (at, log_joint) in array(&fitted, "log_joint_draws").values.into_iter().enumerate() {
        let (w, b) = (coef[at], intercept[at]);
        let hinge = |(i, x): (usize, &f64)| -2.0 * (1.0 - if [2, 4, 5].contains(&i) { b + w * x } else { -b - w * x }).max(0.0);
        let prior = -0.5 * (w * w + 0.25 * b * b - 0.25f64.ln()) - std::f64::consts::TAU.ln();
        let want = x.iter().enumerate().map(hinge).sum::<f64>() + prior;
        assert!((log_joint - want).abs() < 1e-10, "{log_joint} {want}");
    }
}

/// Probabilities are the classes' shares, averaged over draws one by one, and made to sum to one for more than two classes.
#[test]
fn probabilities_are_averaged_shares() {
    let share = |f: f64| {
        let [on, off] = [f, -f].map(|f: f64| (-2.0 * (1.0 - f).max(0.0)).exp());
        on / (on + off)
    };
    for classes_count in [2usize, 3] {
        for inference in ["gibbs", "vb", "map"] {
            let mut pairs = vec![("inference", json!(inference))];
            if inference == "gibbs" {
                pairs.extend([("n_draws", json!(30)), ("n_warmup", json!(10)), ("n_chains", json!(2))]);
            }
            let model = model(&pairs);
            let request = settings(&[("classes", json!(classes_count)), ("columns", json!(2))]);
            let data = model.simulate(80, &request, 4).unwrap().data;
            let fitted = run(model.as_ref(), &data, 2);
            let found = fitted.posterior.predict(&data, "").unwrap();
            assert!(found.probability.chunks(classes_count).all(|p| (p.iter().sum::<f64>() - 1.0).abs() < 1e-12));
            let draws = if inference == "gibbs" { "coef_draws" } else { "coef" };
            let coef = array(&fitted, draws).values;
            let intercept = array(&fitted, &draws.replace("coef", "intercept")).values;
            let count = if classes_count == 2 { 1 } else { 3 };
            let x = data.x.to_dense();
            for (row, p) in x.chunks(2).zip(found.probability.chunks(classes_count)) {
                let mut want = vec![0.0; classes_count];
                let all = intercept.len() / count;
                for draw in 0..all {
                    let f = |c: usize| {
                        let at = draw * count + c;
                        intercept[at] + coef[2 * at] * row[0] + coef[2 * at + 1] * row[1]
                    };
                    let shares: Vec<f64> =
                        if count == 1 { vec![share(-f(0)), share(f(0))] } else { (0..count).map(|c| share(f(c))).collect() };
                    let total: f64 = shares.iter().sum();
                    want.iter_mut().zip(shares).for_each(|(w, s)| *w += s / total / all as f64);
                }
                assert!(p.iter().zip(&want).all(|(p, w)| (p - w).abs() < 1e-9), "{inference} {classes_count}: {p:?} {want:?}");
            }
        }
    }
}

#[test]
fn decision_values_are_linear() {
    let data = six_rows();
    for inference in ["gibbs", "vb", "map"] {
        let more: &[(&str, Value)] = if inference == "gibbs" { &[("n_draws", json!(20)), ("n_warmup", json!(5))] } else { &[] };
        let fitted = run(known(inference, more).as_ref(), &data, 1);
        let (slope, bias) = (array(&fitted, "coef").values[0], array(&fitted, "intercept").values[0]);
        let saved = fitted.posterior.save().unwrap();
        let values = match inference {
            "gibbs" => DrawsPosterior::load(&saved).unwrap().decision_values(&data).unwrap(),
            _ => SvmPosterior::load(&saved).unwrap().decision_values(&data).unwrap(),
        };
        assert!(values.iter().zip(data.x.to_dense().iter()).all(|(f, x)| (f - bias - slope * x).abs() < 1e-12), "{inference}");
        let back = Svm.load(&saved).unwrap();
        assert_eq!(back.predict(&data, "").unwrap(), fitted.posterior.predict(&data, "").unwrap());
        assert_eq!(back.summary(), fitted.posterior.summary());
    }
}

/// A row of weight 0 is no row, one of weight 2 is there twice as a point estimate sees it, and balanced classes are weights of rows.
#[test]
fn weights_of_rows_and_classes() {
    let weighted = |weights: &[f64]| Dataset { weights: Some(weights.to_vec()), ..six_rows() };
    let coef = |data: &Dataset<'_>, inference: &str, more: &[(&str, Value)]| {
        let fitted = run(known(inference, &[&long()[..], more].concat()).as_ref(), data, 1);
        [array(&fitted, "coef").values[0], array(&fitted, "intercept").values[0]]
    };
    let near = |a: [f64; 2], b: [f64; 2]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6);
    let (some, chosen) = (weighted(&[1.0, 1.0, 0.0, 1.0, 1.0, 1.0]), six_rows().subset(&[0, 1, 3, 4, 5]));
    for inference in ["vb", "map"] {
        assert!(near(coef(&some, inference, &[]), coef(&chosen, inference, &[])), "{inference}");
    }
    let (twice, repeated) = (weighted(&[2.0, 1.0, 1.0, 1.0, 1.0, 1.0]), six_rows().subset(&[0, 0, 1, 2, 3, 4, 5]));
    assert!(near(coef(&twice, "map", &[]), coef(&repeated, "map", &[])));
    // two rows of the first class and three of the second: 5/4 and 5/6
    let balanced = coef(&chosen.subset(&[0, 2, 1, 3, 4]).subset(&[0, 1, 3, 4]), "vb", &[("class_weight", json!("balanced"))]);
    let by_hand = Dataset { weights: Some(vec![1.0; 4]), ..chosen.subset(&[0, 2, 1, 3, 4]).subset(&[0, 1, 3, 4]) };
    assert!(near(balanced, coef(&by_hand, "vb", &[])), "two of each: balanced changes nothing");
    let three = six_rows().subset(&[0, 1, 3, 4]);
    let hand = Dataset { weights: Some(vec![2.0 / 3.0, 2.0 / 3.0, 2.0 / 3.0, 2.0]), ..three.clone() };
    assert!(near(coef(&three, "vb", &[("class_weight", json!("balanced"))]), coef(&hand, "vb", &[])));
    let mean = |data: &Dataset<'_>| {
        let fitted = run(known("gibbs", &[("n_draws", json!(4000))]).as_ref(), data, 3);
        fitted.kept.chains.iter().map(|c| c.draws.scalars.column("weights", 0).unwrap()).collect::<Vec<_>>()
    };
    let (a, b) = (mean(&some), mean(&chosen));
    let z = (summarise(&a).mean - summarise(&b).mean) / mcse_mean(&a).hypot(mcse_mean(&b));
    assert!(z.abs() < 4.0, "z = {z}");
}

/// Classes that a line parts, fewer rows than columns, constant columns, and no column of use: finite, and right about the rows.
#[test]
fn odd_data() {
    let parted = classes(
        Matrix::dense(8, 1, (0..8).map(|i| if i < 4 { -1.0 - i as f64 } else { i as f64 }).collect::<Vec<_>>()),
        vec![0, 0, 0, 0, 1, 1, 1, 1],
        2,
    );
    let wide: Vec<f64> = (0..5 * 20).map(|i| f64::from((i * 7919 % 127) as u8) / 16.0 - 4.0).collect();
    let wide = classes(Matrix::dense(5, 20, wide), vec![0, 1, 0, 1, 1], 2);
    let same = classes(Matrix::dense(4, 2, vec![3.0; 8]), vec![0, 1, 1, 1], 2);
    let three = classes(Matrix::dense(6, 1, vec![-3.0, -2.5, 0.0, 0.1, 2.9, 3.2]), vec![0, 0, 1, 1, 2, 2], 3);
    for inference in ["gibbs", "vb", "map"] {
        let short: &[(&str, Value)] = if inference == "gibbs" { &[("n_draws", json!(200)), ("n_warmup", json!(200))] } else { &[] };
        let model = model(&[&[("inference", json!(inference))], short].concat());
        for (name, data) in [("parted", &parted), ("wide", &wide), ("same", &same), ("three", &three)] {
            let fitted = run(model.as_ref(), data, 1);
            let count = fitted.posterior.classes().len();
            let found = fitted.posterior.predict(data, "").unwrap();
            assert!(found.probability.iter().all(|p| p.is_finite()), "{inference} {name}");
            assert!(fitted.posterior.arrays().iter().all(|a| a.values.iter().all(|v| v.is_finite())), "{inference} {name}");
            let Target::Classes(truth) = &data.target else { unreachable!() };
            let hits = found.best(count).iter().zip(&truth.codes).filter(|(a, b)| **a == **b as usize).count();
            assert!(hits >= if name == "same" { 3 } else { data.rows() - 2 }, "{inference} {name}: {hits}");
        }
    }
}

/// With the settings one does not give an ascent comes to its end.
#[test]
fn ascents_converge_by_default() {
    for inference in ["vb", "map"] {
        for (seed, classes) in [(1, 2), (2, 2), (3, 3)] {
            let model = model(&[("inference", json!(inference))]);
            let data = model.simulate(300, &settings(&[("classes", json!(classes))]), seed).unwrap().data;
            let summary = run(model.as_ref(), &data, 1).posterior.summary();
            assert!(summary.converged, "{inference}, seed {seed}: {:?} {:?}", summary.facts, summary.notes);
        }
    }
}

#[test]
fn bad_settings_and_data_say_what_is_wrong() {
    let say = |pairs: &[(&str, Value)]| family("svm").unwrap().configure(&settings(pairs)).err().unwrap().to_string();
    assert!(say(&[("inference", json!("vb")), ("n_draws", json!(5))]).contains("n_draws"));
    assert!(say(&[("tol", json!(1e-3))]).contains("gibbs"));
    assert!(say(&[("prior_precision", json!(1.0)), ("precision_shape", json!(2.0))]).contains("prior_precision"));
    assert!(say(&[("inference", json!("hmc"))]).contains("gibbs"));
    let standard = model(&[]);
    let one = classes(Matrix::dense(2, 1, vec![0.0, 1.0]), vec![0, 0], 1);
    assert!(standard.bind(&one).err().unwrap().to_string().contains("two"));
    let empty = classes(Matrix::dense(2, 1, vec![0.0, 1.0]), vec![0, 0], 2);
    let said = standard.bind(&empty).err().unwrap().to_string();
    assert!(said.contains("c1") || said.contains("two classes"), "{said}");
    for inference in ["vb", "map"] {
        let fitted = run(known(inference, &[]).as_ref(), &six_rows(), 1);
        let how = Predict { level: Some(0.9), ..Predict::default() };
        assert!(fitted.posterior.predict_with(&six_rows(), &how).err().unwrap().to_string().contains("gibbs"));
        assert!(fitted.posterior.predict(&six_rows(), "average").err().unwrap().to_string().contains("plug-in"));
    }
}

#[test]
fn every_check_passes() {
    let quick = Effort::quick();
    let effort = Effort { invariance: InvarianceSettings { draws: 20_000, ..quick.invariance.clone() }, ..quick };
    for pairs in [
        vec![],
        vec![("prior_precision", json!(0.7)), ("bias_precision", json!(0.3))],
        vec![("fit_intercept", json!(false))],
        vec![("inference", json!("vb"))],
        vec![("inference", json!("vb")), ("prior_precision", json!(2.0))],
        vec![("inference", json!("map"))],
        vec![("inference", json!("map")), ("fit_intercept", json!(false)), ("prior_precision", json!(0.1))],
    ] {
        for report in model(&pairs).check(&effort, 20, &mut |_| {}).unwrap() {
            assert!(report.passed, "{pairs:?}: {report}");
        }
    }
}

/// A prior that exact draws cannot come from is said to be one.
#[test]
fn a_wide_prior_cannot_be_checked_by_rejection() {
    let effort = Effort { invariance: InvarianceSettings { draws: 3, ..Default::default() }, ..Effort::quick() };
    let said = model(&[("bias_precision", json!(1e-24))]).check(&effort, 1, &mut |_| {}).unwrap_err().to_string();
    assert!(said.contains("bias_precision"), "{said}");
}

#[test]
fn any_number_of_threads_gives_the_same_draws() {
    let given = [("n_draws", json!(10)), ("n_warmup", json!(3)), ("n_chains", json!(3))];
    for classes in [2, 4] {
        let model = model(&given);
        let data = model.simulate(600, &settings(&[("columns", json!(5)), ("classes", json!(classes))]), 3).unwrap().data;
        let run = |threads| {
            let run = RunSettings { seed: 9, threads, block_rows: Some(64), ..RunSettings::default() };
            let kept = fit(model.as_ref(), &data, &run, &mut Unobserved).unwrap().kept;
            kept.chains.iter().flat_map(|c| c.draws.scalars.values.iter().map(|v| v.to_bits())).collect::<Vec<_>>()
        };
        let one = run(1);
        let count = if classes == 2 { 1 } else { 4 };
        assert_eq!(one.len(), 3 * 10 * (1 + count * 7)); // log density; five weights, bias and precision of each classifier
        assert_eq!(one, run(4));
    }
}

/// Further rows come from the same truth, and a fit finds it.
#[test]
fn simulated_rows_are_learned() {
    let model = model(&[("prior_precision", json!(0.5)), ("bias_precision", json!(1.0)), ("inference", json!("vb"))]);
    for classes in [2usize, 3] {
        let request = settings(&[("classes", json!(classes)), ("columns", json!(2))]);
        let simulated = model.simulate(400, &request, 6).unwrap();
        let more = model.simulate_more(400, &request, &Truth::new(&simulated.truth), 7).unwrap();
        assert_eq!(more.truth, simulated.truth);
        let fitted = run(model.as_ref(), &simulated.data, 1);
        let Target::Classes(truth) = &more.data.target else { unreachable!() };
        let best = fitted.posterior.predict(&more.data, "").unwrap().best(classes);
        let hits = best.iter().zip(&truth.codes).filter(|(a, b)| **a == **b as usize).count();
        assert!(hits > 240, "{classes} classes: {hits} of 400");
    }
}

/// More columns than rows: the ascent and the maximum find weights in the space of the rows.
#[test]
fn many_columns_are_fitted_in_the_space_of_the_rows() {
    let (rows, columns) = (24, 5_500);
    let entry = |i: usize, j: usize| if (i * 31 + j * 17).is_multiple_of(7) { 0.5 + ((i * 13 + j * 5) % 11) as f64 } else { 0.0 };
    let x = Matrix::dense(rows, columns, (0..rows * columns).map(|at| entry(at / columns, at % columns)).collect::<Vec<_>>());
    let data = classes(x, (0..rows as u32).map(|i| i % 7 / 3).collect(), 3);
    for inference in ["vb", "map"] {
        let fitted = run(model(&[("inference", json!(inference))]).as_ref(), &data, 1);
        assert_eq!(array(&fitted, "coef").values.len(), 3 * columns);
        let back = Svm.load(&fitted.posterior.save().unwrap()).unwrap();
        let (here, there) = (fitted.posterior.predict(&data, "").unwrap(), back.predict(&data, "").unwrap());
        assert_eq!(here, there);
        let most = |i: usize| (0..3).max_by(|a, b| here.probability[3 * i + a].total_cmp(&here.probability[3 * i + b])).unwrap();
        let right = (0..rows).filter(|&i| most(i) == i % 7 / 3).count();
        assert!(right > 20, "{inference}: {right} of {rows}");
    }
}
