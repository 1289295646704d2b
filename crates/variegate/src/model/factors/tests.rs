//! The family as users meet it: what it finds, what it promises, and what it refuses.

use serde_json::{Map, Value, json};

use super::*;
use crate::answer::HeldOutEffort;
use crate::data::Dataset;
use crate::data::{Classes, Matrix};
use crate::model::{Fitted, RunSettings, family, fit};
use crate::run::Unobserved;

fn settings(pairs: &[(&str, Value)]) -> Map<String, Value> {
    pairs.iter().map(|(k, v)| (k.to_string(), v.clone())).collect()
}

fn short(more: &[(&str, Value)]) -> Map<String, Value> {
    let mut all = settings(&[("n_chains", json!(1)), ("n_warmup", json!(30)), ("n_draws", json!(6)), ("thin", json!(2))]);
    all.extend(settings(more));
    all
}

fn fitted(data: &Dataset<'_>, more: &[(&str, Value)], run: &RunSettings) -> Fitted {
    let model = family("factors").unwrap().configure(&short(more)).unwrap();
    fit(model.as_ref(), data, run, &mut Unobserved).unwrap()
}

fn simulated(rows: usize, more: &[(&str, Value)]) -> Dataset<'static> {
    let model = family("factors").unwrap().configure(&settings(more)).unwrap();
    model.simulate(rows, &settings(&[("columns", json!(12)), ("n_sources", json!(3))]), 5).unwrap().data
}

fn arrays(f: &Fitted) -> std::collections::HashMap<&'static str, (Vec<usize>, Vec<f64>)> {
    f.posterior.arrays().into_iter().map(|a| (a.name, (a.shape(), a.values))).collect()
}

#[test]
fn any_number_of_threads_and_a_reader_of_draws_give_the_same_bits() {
    let variants = [("poisson", "parallel", 9), ("poisson", "rowslice", 1), ("poisson", "slice", 4)];
    let of_reals = ["parallel", "rowslice", "slice"].map(|sampler| ("gaussian", sampler, 1));
    for (likelihood, sampler, first) in variants.into_iter().chain(of_reals) {
        let more = [("likelihood", json!(likelihood)), ("sampler", json!(sampler)), ("start_factors", json!(first))];
        let more = &more[..if first > 1 { 3 } else { 2 }];
        let data = simulated(60, &more[..1]);
        let run = |threads| {
            let run = RunSettings { seed: 9, threads, block_rows: Some(16), ..RunSettings::default() };
            let kept = fitted(&data, more, &run).kept;
            kept.chains.iter().flat_map(|c| c.draws.components.values.iter().map(|v| v.to_bits())).collect::<Vec<_>>()
        };
        let one = run(1);
        assert_eq!(one, run(2), "{likelihood} {sampler}");
        assert_eq!(one, run(3), "{likelihood} {sampler}");
    }
}

#[test]
fn real_numbers_are_not_seeded() {
    let refused = family("factors").unwrap().configure(&settings(&[("likelihood", json!("gaussian")), ("start_factors", json!(5))]));
    assert!(refused.err().unwrap().to_string().contains("`start_factors`"));
}

#[test]
fn new_rows_have_the_same_answers_on_any_number_of_threads() {
    for likelihood in ["poisson", "gaussian"] {
        let more = [("likelihood", json!(likelihood)), ("missing", json!(likelihood == "gaussian"))];
        let mut data = simulated(150, &more[..1]);
        if let (Matrix::Dense { values, .. }, "gaussian") = (&mut data.x, likelihood) {
            values.to_mut().iter_mut().step_by(11).for_each(|v| *v = f64::NAN);
        }
        let f = fitted(&data, if likelihood == "gaussian" { &more } else { &more[..1] }, &RunSettings::default());
        let answers = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let mut all = f.posterior.transform(&data).unwrap().values;
                all.extend(match likelihood {
                    "poisson" => f.posterior.complete(&data, 0.5).unwrap(),
                    _ => f.posterior.impute(&data).unwrap().values,
                });
                all.into_iter().map(f64::to_bits).collect::<Vec<_>>()
            })
        };
        let one = answers(1);
        assert!(one == answers(2) && one == answers(5), "{likelihood}");
    }
}

#[test]
fn what_is_said_of_a_row_depends_on_it_alone() {
    for likelihood in ["poisson", "gaussian"] {
        let more = [("likelihood", json!(likelihood))];
        let data = simulated(150, &more);
        let f = fitted(&data, &more, &RunSettings::default());
        let posterior = f.posterior.as_ref();
        let all = posterior.transform(&data).unwrap();
        let k = all.names.len();
        let effort = HeldOutEffort { temperatures: 4, runs: 2, draws: 3 };
        let some: Vec<usize> = vec![149, 3, 70];
        let part = data.subset(&some);
        let (coordinates, scores) = (posterior.transform(&part).unwrap(), posterior.held_out(&part, &effort).unwrap());
        let whole = posterior.held_out(&data, &effort).unwrap();
        for (at, &i) in some.iter().enumerate() {
            assert_eq!(coordinates.values[at * k..][..k], all.values[i * k..][..k], "{likelihood}, row {i}");
            assert_eq!(scores.ln_probability[at].to_bits(), whole.ln_probability[i].to_bits());
        }
        // a row is most like itself
        for (at, found) in posterior.retrieve(&part, &data, 4).unwrap().into_iter().enumerate() {
            assert_eq!(found.len(), 4);
            assert!(found.windows(2).all(|w| w[0].1 >= w[1].1));
            assert!(found[0].1 == 0.0 || found.iter().any(|f| f.0 == some[at]) || (found[0].1 - found[3].1).abs() < 1e-9);
        }
        let saved = posterior.save().unwrap();
        let back = family("factors").unwrap().load(&saved).unwrap();
        assert_eq!(back.transform(&part).unwrap(), coordinates);
        if likelihood == "poisson" {
            let completed = posterior.complete(&part, 0.5).unwrap();
            assert!(completed.chunks(12).all(|p| (p.iter().sum::<f64>() - 1.0).abs() < 1e-9 && p.iter().all(|v| *v > 0.0)));
            assert_eq!(completed[..12], posterior.complete(&data.subset(&[149]), 0.5).unwrap()[..]);
        } else {
            assert!(posterior.complete(&part, 0.5).err().unwrap().to_string().contains("cannot complete rows"));
        }
    }
}

#[test]
fn sources_unseen_and_sources_without_rows() {
    let mut data = simulated(90, &[]);
    if let Some(sources) = &mut data.sources {
        sources.names.push("s4".into());
    }
    let f = fitted(&data, &[], &RunSettings::default());
    let a = arrays(&f);
    let factors = a["components"].0[0];
    assert_eq!(a["sharing"].0, [4, factors]);
    assert!(a["sharing"].1[3 * factors..].iter().all(|v| *v == 0.0));
    assert!(f.posterior.summary().facts.iter().any(|f| f.to_string().contains("s4 0")));
    let mut other = data.subset(&[0, 1, 2]);
    other.sources = Some(Classes { codes: vec![0, 0, 0], names: vec!["elsewhere".into()] });
    let placed = f.posterior.transform(&other).unwrap();
    assert!(placed.values.iter().all(|v| v.is_finite() && *v >= 0.0));
    // without sources rows are of a source that was not seen
    other.sources = None;
    assert_eq!(f.posterior.transform(&other).unwrap(), placed);
}

#[test]
fn hostile_rows_are_refused_in_words_or_have_a_defined_result() {
    let refuse = |more: &[(&str, Value)], rows: usize, cols: usize, values: Vec<f64>| {
        let model = family("factors").unwrap().configure(&settings(more)).unwrap();
        model.bind(&Dataset::new(Matrix::dense(rows, cols, values))).err().map(|e| e.to_string())
    };
    let gaussian = [("likelihood", json!("gaussian"))];
    assert!(refuse(&[], 2, 2, vec![1.0, 0.5, 2.0, 3.0]).unwrap().contains("row 1"));
    assert!(refuse(&[], 2, 2, vec![1.0, 1.0, -2.0, 3.0]).unwrap().contains("row 2"));
    assert!(refuse(&[], 2, 2, vec![1.0, 1.0, 1e12, 3.0]).unwrap().contains("at most"));
    assert!(refuse(&[], 2, 2, vec![1.0, 1.0, f64::NAN, 3.0]).unwrap().contains("row 2"));
    assert!(refuse(&gaussian, 2, 2, vec![1.0, f64::NAN, 2.0, 3.0]).is_some());
    assert!(refuse(&gaussian, 2, 2, vec![1.0, 2.0, 1.0, 2.0]).unwrap().contains("no variation"));
    let mut weighted = simulated(10, &[]);
    weighted.weights = Some(vec![2.0; 10]);
    let model = Settings::default().validate().unwrap();
    assert!((&model as &dyn crate::model::Model).bind(&weighted).err().unwrap().to_string().contains("weigh"));
    // nothing but zeros, one row, rows of zeros among others, one column
    for (rows, cols, values) in [
        (3, 2, vec![0.0; 6]),
        (1, 3, vec![2.0, 0.0, 5.0]),
        (4, 2, vec![0.0, 0.0, 3.0, 1.0, 0.0, 0.0, 9.0, 0.0]),
        (3, 1, vec![1e6, 0.0, 2.0]),
    ] {
        let data = Dataset::new(Matrix::dense(rows, cols, values));
        for sampler in ["parallel", "rowslice", "slice"] {
            let f = fitted(&data, &[("sampler", json!(sampler))], &RunSettings::default());
            assert!(f.posterior.transform(&data).unwrap().values.iter().all(|v| v.is_finite()));
            assert_eq!(f.posterior.complete(&data, 1.0).unwrap().len(), rows * cols);
            assert!(!f.posterior.summary().facts.is_empty());
        }
    }
    let one = fitted(
        &Dataset::new(Matrix::dense(1, 2, vec![1.5, -3.0])),
        &[("likelihood", json!("gaussian")), ("center", json!(false))],
        &RunSettings::default(),
    );
    assert!(one.posterior.summary().notes.iter().any(|n| n.contains("one source")));
}

#[test]
fn missing_entries_are_drawn_with_the_rest() {
    let more = [("likelihood", json!("gaussian"))];
    let mut data = simulated(80, &more);
    if let Matrix::Dense { values, .. } = &mut data.x {
        values.to_mut().iter_mut().step_by(7).for_each(|v| *v = f64::NAN);
    }
    let f = fitted(&data, &[("likelihood", json!("gaussian")), ("missing", json!(true))], &RunSettings::default());
    let all = f.posterior.transform(&data).unwrap();
    let k = all.names.len();
    assert!(all.values.iter().all(|v| v.is_finite()));
    assert_eq!(f.posterior.transform(&data.subset(&[17])).unwrap().values[..], all.values[17 * k..][..k]);
    // of what was observed of each row
    let held = f.posterior.held_out(&data, &HeldOutEffort::default()).unwrap();
    assert!(held.ln_probability.len() == data.rows() && held.ln_probability.iter().all(|v| v.is_finite()));
}

#[test]
fn settings_that_mean_nothing_are_refused() {
    let say = |pairs: &[(&str, Value)]| family("factors").unwrap().configure(&settings(pairs)).err().unwrap().to_string();
    assert!(say(&[("likelihood", json!("gaussian")), ("atom_shape", json!(0.5))]).contains("poisson alone"));
    assert!(say(&[("center", json!(false))]).contains("gaussian alone"));
    assert!(say(&[("sampler", json!("slice")), ("birth_rows", json!(5.0))]).contains("parallel alone"));
    assert!(say(&[("mass", json!(0.0))]).contains("mass"));
}
