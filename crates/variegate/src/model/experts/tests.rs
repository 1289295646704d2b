//! The family as fronts see it: every way of fitting from settings to predictions, and how they agree with each other.

use serde_json::{Map, Value, json};

use super::*;
use crate::data::Dataset;
use crate::data::{Classes, Matrix, Target};
use crate::diagnostics::{mcse_mean, summarise};
use crate::model::{Fitted, RunSettings, family, fit};
use crate::run::{Memory, Unobserved};

pub(super) fn settings(pairs: &[(&str, Value)]) -> Map<String, Value> {
    pairs.iter().map(|(name, value)| (name.to_string(), value.clone())).collect()
}

pub(super) fn model(pairs: &[(&str, Value)]) -> Box<dyn Model> {
    family("experts").unwrap().configure(&settings(pairs)).unwrap()
}

fn refused(pairs: &[(&str, Value)]) -> String {
    family("experts").unwrap().configure(&settings(pairs)).err().expect("refused").to_string()
}

pub(super) fn drawn(pairs: &[(&str, Value)], rows: usize, request: &[(&str, Value)]) -> Dataset<'static> {
    model(pairs).simulate(rows, &settings(request), 3).unwrap().data
}

pub(super) fn run(pairs: &[(&str, Value)], data: &Dataset<'_>, threads: usize) -> Fitted {
    let settings = RunSettings { seed: 5, threads, block_rows: Some(32), ..RunSettings::default() };
    fit(model(pairs).as_ref(), data, &settings, &mut Unobserved).unwrap()
}

/// Every pair of prior and inference that goes together, as short as can be.
pub(super) fn ways() -> Vec<Vec<(&'static str, Value)>> {
    let mut out = Vec::new();
    for prior in ["gaussian", "mutual-angular", "mutual-angular-1", "determinantal"] {
        for inference in ["hmc", "gibbs", "mh", "vb", "pr", "map"] {
            let mut given = vec![("prior", json!(prior)), ("inference", json!(inference)), ("experts", json!(3))];
            match inference {
                "hmc" | "gibbs" | "mh" => given.extend([("n_chains", json!(2)), ("n_warmup", json!(12)), ("n_draws", json!(8))]),
                _ => given.extend([("n_init", json!(2)), ("max_iter", json!(15))]),
            }
            if family("experts").unwrap().configure(&settings(&given)).is_ok() {
                out.push(given);
            }
        }
    }
    out
}

#[test]
fn priors_and_inferences_go_together_as_the_table_says() {
    let found: Vec<(String, String)> =
        ways().iter().map(|given| (given[0].1.as_str().unwrap().to_string(), given[1].1.as_str().unwrap().to_string())).collect();
    let has = |prior: &str, inference: &str| found.contains(&(prior.into(), inference.into()));
    assert!(["hmc", "gibbs", "vb", "map"].iter().all(|i| has("gaussian", i)) && !has("gaussian", "mh") && !has("gaussian", "pr"));
    assert!(["hmc", "gibbs", "mh", "vb", "pr", "map"].iter().all(|i| has("mutual-angular", i)));
    for prior in ["mutual-angular-1", "determinantal"] {
        assert!(["hmc", "gibbs", "mh"].iter().all(|i| has(prior, i)) && !["vb", "pr", "map"].iter().any(|i| has(prior, i)));
    }
}

/// The same bits on any number of threads, saved and loaded, row by row and together; probabilities, shares and pairs are what they say.
#[test]
fn every_way_fits_predicts_and_keeps_its_word() {
    let data = drawn(&[], 90, &[("columns", json!(3))]);
    for given in ways() {
        let one = run(&given, &data, 1);
        let two = run(&given, &data, 2);
        let bits = |kept: &Memory| -> Vec<Vec<u8>> { kept.chains.iter().map(|c| c.checkpoint.clone()).collect() };
        assert_eq!(bits(&one.kept), bits(&two.kept), "{given:?}");
        let posterior = &one.posterior;
        let all = posterior.predict(&data, "").unwrap();
        assert!(all.probability.chunks(2).all(|p| (p[0] + p[1] - 1.0).abs() < 1e-12 && p[0] >= 0.0), "{given:?}");
        for chosen in [vec![7usize], (0..90).rev().collect()] {
            let some = posterior.predict(&data.subset(&chosen), "").unwrap();
            for (at, &i) in chosen.iter().enumerate() {
                assert_eq!(some.probability[2 * at..2 * at + 2], all.probability[2 * i..2 * i + 2], "{given:?}");
            }
        }
        let back = Experts.load(&posterior.save().unwrap()).unwrap();
        assert_eq!(back.predict(&data, "").unwrap(), all, "{given:?}");
        let bound = RunSettings::default().block_rows(32).prepare(model(&given).as_ref(), &data).unwrap().fit;
        let reopened = model(&given).reopen(bound.schema()).unwrap();
        assert_eq!(reopened.posterior(&one.kept.chains).unwrap().save().unwrap(), posterior.save().unwrap(), "{given:?}");
        let shares = posterior.responsibilities(&data).unwrap();
        assert!(shares.share.chunks(3).all(|s| (s.iter().sum::<f64>() - 1.0).abs() < 1e-9), "{given:?}");
        assert!(posterior.summary().facts.len() > 2 && !posterior.arrays().is_empty());
        if given[..2] != [("prior", json!("gaussian")), ("inference", json!("vb"))] {
            let pairs = posterior.together(&data.subset(&[0, 1, 2, 3])).unwrap();
            assert!((0..4).all(|i| (0..4).all(|j| pairs[4 * i + j] == pairs[4 * j + i] && pairs[4 * i + j] <= 1.0 + 1e-12)));
        }
    }
}

/// Rows of any number of classes, sparse or dense, with and without intercepts.
#[test]
fn classes_sparse_rows_and_intercepts() {
    let data = drawn(&[], 80, &[("classes", json!(3)), ("columns", json!(3))]);
    let dense = data.x.to_dense();
    let (mut indptr, mut indices, mut values) = (vec![0usize], Vec::new(), Vec::new());
    for row in dense.chunks(3) {
        for (j, v) in row.iter().enumerate() {
            indices.push(j as u32);
            values.push(*v);
        }
        indptr.push(values.len());
    }
    let mut sparse = data.clone();
    sparse.x = Matrix::Csr { rows: 80, cols: 3, indptr: indptr.into(), indices: indices.into(), values: values.into() };
    for inference in ["hmc", "mh", "vb", "pr", "map"] {
        for intercept in ["separate", "augment", "none"] {
            let mut given =
                vec![("inference", json!(inference)), ("intercept", json!(intercept)), ("experts", json!(2)), ("scale", json!("maxabs"))];
            match inference {
                "hmc" | "mh" => given.extend([("n_chains", json!(1)), ("n_warmup", json!(5)), ("n_draws", json!(4))]),
                _ => given.extend([("n_init", json!(1)), ("max_iter", json!(5))]),
            }
            let (a, b) = (run(&given, &data, 2), run(&given, &sparse, 2));
            let (p, q) = (a.posterior.predict(&data, "").unwrap(), b.posterior.predict(&sparse, "").unwrap());
            // rounding grows along a trajectory, but little in so few steps; the hundred quasi-Newton steps of a start let it grow more
            let allowed = if matches!(inference, "hmc" | "mh") { 1e-5 } else { 1e-3 };
            let worst = p.probability.iter().zip(&q.probability).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(worst < allowed, "{given:?}: {worst}");
        }
    }
}

#[test]
fn settings_without_a_meaning_are_refused_by_name() {
    for (pairs, name) in [
        (vec![("inference", json!("map")), ("kappa", json!(2.0))], "kappa"),
        (vec![("prior", json!("gaussian")), ("alpha1", json!(3.0))], "alpha1"),
        (vec![("tau", json!(3.0))], "tau"),
        (vec![("ell", json!(0.5))], "ell"),
        (vec![("l2", json!(0.5))], "l2"),
        (vec![("diversity", json!(0.5))], "diversity"),
        (vec![("inference", json!("gibbs")), ("max_steps", json!(5))], "max_steps"),
        (vec![("inner", json!(5))], "inner"),
        (vec![("inference", json!("vb")), ("n_draws", json!(5))], "n_draws"),
        (vec![("inference", json!("vb")), ("prior", json!("determinantal"))], "inference"),
        (vec![("inference", json!("pr")), ("prior", json!("gaussian"))], "prior"),
        (vec![("inference", json!("vb")), ("hyper", json!("sample"))], "hyper"),
        (vec![("experts", json!(1)), ("omega1", json!(3.0))], "omega1"),
        (vec![("kappa", json!(-1.0))], "kappa"),
        (vec![("kappa", json!(1e7))], "kappa"),
        (vec![("experts", json!(0))], "experts"),
    ] {
        let said = refused(&pairs);
        assert!(said.contains(&format!("`{name}`")), "{said}");
    }
    // kappa of zero is allowed: directions are then independent
    assert!(family("experts").unwrap().configure(&settings(&[("kappa", json!(0)), ("gate_kappa", json!(0.0))])).is_ok());
}

#[test]
fn data_that_cannot_be_fitted_are_refused() {
    let classes = |codes: Vec<u32>, names: usize| Target::Classes(Classes { codes, names: (0..names).map(|c| c.to_string()).collect() });
    let x = || Matrix::dense(4, 1, vec![0.1, -0.3, 2.0, 0.5]);
    let three = Dataset::new(x()).with_target(classes(vec![0, 1, 2, 1], 3));
    let said = model(&[("inference", json!("gibbs"))]).bind(&three).err().unwrap().to_string();
    assert!(said.contains("hmc"), "{said}");
    let one = Dataset::new(x()).with_target(classes(vec![0; 4], 1));
    assert!(model(&[]).bind(&one).is_err());
    let mut weighted = Dataset::new(x()).with_target(classes(vec![0, 1, 0, 1], 2));
    weighted.weights = Some(vec![0.0, 1.0, 0.0, 1.0]);
    let said = model(&[]).bind(&weighted).err().unwrap().to_string();
    assert!(said.contains("at least two classes"), "{said}");
    let mut three = three;
    three.weights = Some(vec![1.0, 1.0, 0.0, 1.0]);
    let said = model(&[]).bind(&three).err().unwrap().to_string();
    assert!(said.contains("class `2`"), "{said}");
}

/// Separable classes, duplicated and constant columns, a row of zeros, more experts than rows: finite everywhere.
#[test]
fn hostile_rows_stay_finite() {
    let x = vec![1.0, 1.0, 0.0, 7.0, 2.0, 2.0, 0.0, 7.0, -1.0, -1.0, 0.0, 7.0, -2.0, -2.0, 1e6, 7.0, 0.0, 0.0, 0.0, 7.0];
    let target = Target::Classes(Classes { codes: vec![1, 1, 0, 0, 1], names: vec!["no".into(), "yes".into()] });
    let data = Dataset::new(Matrix::dense(5, 4, x)).with_target(target);
    for mut given in ways() {
        given[2].1 = json!(7);
        let fitted = run(&given, &data, 1);
        assert!(fitted.posterior.predict(&data, "").unwrap().probability.iter().all(|p| p.is_finite()), "{given:?}");
        if given[..2] != [("prior", json!("gaussian")), ("inference", json!("vb"))] {
            assert!(fitted.warnings.iter().any(|w| w.contains("constant")) && fitted.warnings.iter().any(|w| w.contains("experts for")));
        }
    }
}

/// One expert under a Gaussian prior is Bayesian logistic regression, whichever family draws it.
#[test]
fn one_gaussian_expert_is_logistic_regression() {
    let data = drawn(&[("experts", json!(1))], 60, &[("columns", json!(2))]);
    let common = [("n_chains", json!(4)), ("n_warmup", json!(200)), ("n_draws", json!(1500))];
    let logistic = family("logistic")
        .unwrap()
        .configure(&settings(&[&common[..], &[("prior_precision", json!(0.25)), ("bias_precision", json!(0.04))]].concat()))
        .unwrap();
    let reference = fit(logistic.as_ref(), &data, &RunSettings::default(), &mut Unobserved).unwrap();
    let draws_of = |fitted: &Fitted, name: &str, at: usize, width: usize| -> Vec<Vec<f64>> {
        let all = fitted.posterior.arrays().into_iter().find(|a| a.name == name).unwrap().values;
        let column: Vec<f64> = all.into_iter().skip(at).step_by(width).collect();
        column.chunks(1500).map(<[f64]>::to_vec).collect()
    };
    for inference in ["hmc", "gibbs"] {
        let given =
            [&common[..], &[("experts", json!(1)), ("prior", json!("gaussian")), ("inference", json!(inference)), ("tau", json!(2.0))]]
                .concat();
        let found = run(&given, &data, 2);
        for j in 0..2 {
            let (a, b) = (draws_of(&reference, "coef_draws", j, 2), draws_of(&found, "expert_coef_draws", j, 2));
            let z = (summarise(&a).mean - summarise(&b).mean) / mcse_mean(&a).hypot(mcse_mean(&b));
            assert!(z.abs() < 4.5, "{inference}, column {j}: z = {z}");
            let (a, b): (Vec<Vec<f64>>, Vec<Vec<f64>>) =
                [a, b].map(|c| c.into_iter().map(|c| c.into_iter().map(|v| v * v).collect()).collect()).into();
            let z = (summarise(&a).mean - summarise(&b).mean) / mcse_mean(&a).hypot(mcse_mean(&b));
            assert!(z.abs() < 4.5, "{inference}, square of column {j}: z = {z}");
        }
    }
}

/// A concentration of zero is a uniform distribution of directions: the two types of chain and the determinantal distribution of a short length agree.
#[test]
fn without_concentration_priors_are_one() {
    let shape = Shape::new(4, 2, 3, true);
    let point_prior = |pairs: &[(&str, Value)]| {
        let settings: Settings = resolve(NAME, &settings(pairs)).unwrap();
        point_prior::PointPrior::new(&settings, &shape)
    };
    let point_priors = [
        point_prior(&[("kappa", json!(0)), ("gate_kappa", json!(0))]),
        point_prior(&[("prior", json!("mutual-angular-1")), ("kappa", json!(0)), ("gate_kappa", json!(0))]),
        point_prior(&[("prior", json!("determinantal")), ("ell", json!(0.01))]),
    ];
    let mut rng = crate::run::Stream::new(4, 0, crate::run::Purpose::Check).rng();
    for _ in 0..20 {
        let point = point_priors[0].sample(&shape, &mut rng).unwrap();
        let values = point_priors.each_ref().map(|point_prior| point_prior.ln_density(&shape, &point));
        assert!(values.iter().all(|v| (v - values[0]).abs() < 1e-9), "{values:?}");
    }
}

/// The bound of the tree engine under the same Gaussian prior is below the log evidence of the same rows, by quadrature.
#[test]
fn gaussian_weights_by_variational_bayes_are_the_tree_engine() {
    let target = Target::Classes(Classes { codes: vec![1, 0, 0, 1, 1], names: vec!["0".into(), "1".into()] });
    let data = Dataset::new(Matrix::dense(5, 1, vec![1.0, 0.5, -1.0, 2.0, -0.5])).with_target(target);
    let given = [
        ("experts", json!(2)),
        ("prior", json!("gaussian")),
        ("inference", json!("vb")),
        ("tau", json!(2.0)),
        // as good as none: the rows of the reference have no intercepts
        ("tau0", json!(1e-6)),
        ("scale", json!("none")),
    ];
    let fitted = run(&given, &data, 1);
    let bound = fitted.posterior.arrays().into_iter().find(|a| a.name == "elbo").unwrap().values[0];
    // the evidence, and the bound that Böhning's and the logistic bound reach together
    assert!(bound < -3.666658 && bound > -6.1569853 - 1e-4, "{bound}");
    assert_eq!(fitted.posterior.family(), "softmax");
    assert!(refused(&[("prior", json!("gaussian")), ("inference", json!("vb")), ("intercept", json!("none"))]).contains("intercept"));
}
