//! Shares of experts are those of the rows, and idle experts are neither shown as diversity nor passed over.

use serde_json::{Value, json};

use super::posterior::{ExpertsPosterior, Way, WithoutShares};
use super::tests::{drawn, model, run, ways};
use super::{Experts, Family};
use crate::answer::{NamedArray, Posterior, Summary};
use crate::prior::angular::angles;
use crate::run::state;

fn is(given: &[(&str, Value)], prior: &str, inference: &str) -> bool {
    given[..2] == [("prior", json!(prior)), ("inference", json!(inference))]
}

fn array(posterior: &dyn Posterior, name: &str) -> NamedArray {
    posterior.arrays().into_iter().find(|a| a.name == name).unwrap_or_else(|| panic!("no array {name}"))
}

/// A single point has the shares that its responsibilities sum to, rows by their weights; every way has shares that sum to one.
#[test]
fn shares_are_those_of_the_rows() {
    let mut data = drawn(&[], 90, &[("columns", json!(3))]);
    data.weights = Some((0..90).map(|i| f64::from(i % 3)).collect());
    for mut given in ways() {
        given.iter_mut().for_each(|(name, value)| match *name {
            "n_chains" | "n_draws" => *value = json!(1),
            _ => {}
        });
        let posterior = run(&given, &data, 2).posterior;
        let shares = array(posterior.as_ref(), "shares").values;
        assert!(shares.len() == 3 && (shares.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{given:?}: {shares:?}");
        let sampled = given.iter().any(|(name, _)| *name == "n_draws");
        if !sampled && !given.contains(&("inference", json!("map"))) {
            continue; // not a single point
        }
        let found = posterior.responsibilities(&data).unwrap().share;
        let mut expected = [0.0; 3];
        for (i, row) in found.chunks(3).enumerate() {
            expected.iter_mut().zip(row).for_each(|(e, r)| *e += (i % 3) as f64 * r / 90.0);
        }
        if sampled {
            // labels of draws mean nothing: the largest first
            expected.sort_by(|a, b| b.total_cmp(a));
            assert_eq!(array(posterior.as_ref(), "shares_draws").values, shares);
        }
        assert!(shares.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-9), "{given:?}: {shares:?} but {expected:?}");
    }
}

fn names(summary: &Summary) -> Vec<&str> {
    summary.rows().iter().map(|(name, _)| name.as_str()).collect()
}

/// Angles are of experts in use, in degrees; idle ones are warned of, and where one is left there is no angle.
#[test]
fn idle_experts_are_no_diversity() {
    let data = drawn(&[], 90, &[("columns", json!(3))]);
    for given in ways().into_iter().filter(|given| !is(given, "gaussian", "vb")) {
        let fitted = run(&given, &data, 1).posterior;
        let mut posterior = ExpertsPosterior::read(&fitted.save().unwrap()).unwrap();
        assert_eq!(posterior.shares.len() % 3, 0);
        let draws = posterior.draws();
        let with = |posterior: &mut ExpertsPosterior, each: &dyn Fn(usize) -> [f64; 3]| {
            let count = if matches!(posterior.way, Way::Chains(_)) { draws } else { 1 };
            posterior.shares = (0..count).flat_map(each).collect();
            posterior.summary()
        };

        let all = with(&mut posterior, &|_| [0.5, 0.3, 0.2]);
        assert_eq!(all.warnings.len(), 0, "{given:?}: {:?}", all.notes);
        assert!(names(&all).contains(&"smallest angle of experts (°)"), "{given:?}");

        let two = with(&mut posterior, &|_| [0.7, 1e-5, 0.3 - 1e-5]);
        let said = &two.warnings;
        assert!(said.len() == 1 && said[0].contains("of 3 experts are idle") && said[0].contains("2 of 90"), "{said:?}");
        let (theta, _) = posterior.shape().plain_parts();
        let dim = posterior.shape().expert_dim();
        let angle = |i: usize| {
            let theta = &posterior.draw(i)[theta.clone()];
            angles(&[&theta[..dim], &theta[2 * dim..]].concat(), dim).signed[0].to_degrees()
        };
        let expected = (0..draws).map(angle).sum::<f64>() / draws as f64;
        let row = two.rows().iter().find(|(name, _)| name == "mean angle of experts (°)").unwrap();
        assert!((row.1[0] - expected).abs() < 1e-9, "{given:?}: {} but {expected}", row.1[0]);
        assert!(!names(&two).contains(&"smallest angle of experts (°)"), "one angle has no spread");
        assert!(!names(&two).iter().any(|name| name.contains("gates")), "two gates are opposite whatever the data say");

        let one = with(&mut posterior, &|_| [1e-5, 1.0 - 2e-5, 1e-5]);
        assert!(!names(&one).iter().any(|name| name.contains("angle")), "{:?}", names(&one));
        assert!(one.warnings.iter().all(|w| w.contains("no angle to show")), "{:?}", one.notes);
        let shares = &one.tables.iter().find(|t| t.name == "share of rows").unwrap().rows;
        let largest = if matches!(posterior.way, Way::Chains(_)) { 0 } else { 1 };
        assert!((shares[largest].1[0] - 0.99998).abs() < 1e-12, "{shares:?}");

        if matches!(posterior.way, Way::Chains(_)) {
            let mixed = with(&mut posterior, &|i| if i % 2 == 0 { [0.5, 0.3, 0.2] } else { [0.7, 1e-5, 0.3 - 1e-5] });
            let row = mixed.rows().iter().find(|(name, _)| name == "mean angle of gates (°)").unwrap();
            assert!(row.1[0].is_finite() && row.1[6].is_nan(), "of draws with three experts in use alone: {row:?}");
            let some = with(&mut posterior, &|i| if i % 2 == 0 { [0.6, 0.4 - 1e-5, 1e-5] } else { [1.0, 0.0, 0.0] });
            assert!(some.warnings.iter().all(|w| w.contains("In 50 % of the draws")), "{:?}", some.notes);
            let row = some.rows().iter().find(|(name, _)| name == "mean angle of experts (°)").unwrap();
            assert!(row.1[0].is_finite() && row.1[6].is_nan(), "{row:?}");
        } else {
            // weights where labels mean something: of the experts in use, in the user's units
            let table = one.tables.iter().find(|t| t.name == "weights of experts").unwrap();
            assert_eq!(table.headings().collect::<Vec<_>>(), ["expert 2"]);
            let coef = array(&posterior, "expert_coef").values;
            let column = posterior.schema.columns.first().cloned().unwrap_or_else(|| "x1".into());
            let row = table.rows.iter().find(|(name, _)| *name == column).unwrap();
            assert_eq!(row.1[0], coef[3]);
        }
    }
}

/// Posteriors that were saved before there were shares are read, and shown as they were.
#[test]
fn fits_without_shares_are_still_read() {
    let data = drawn(&[], 90, &[("columns", json!(3))]);
    let fitted = run(&ways()[0], &data, 1).posterior;
    let ExpertsPosterior { schema, settings, way, plain, centre, log_joint, log_likelihood, hyper, notes, .. } =
        ExpertsPosterior::read(&fitted.save().unwrap()).unwrap();
    let old = WithoutShares { schema, settings, way, plain, centre, log_joint, log_likelihood, hyper, notes };
    let saved = state::seal(state::Kind::new("experts posterior", &["0.1"]), &old).unwrap();
    let back = Experts.load(&saved).unwrap();
    assert_eq!(back.predict(&data, "").unwrap(), fitted.predict(&data, "").unwrap());
    let summary = back.summary();
    assert!(names(&summary).contains(&"mean angle of experts (°)") && summary.tables.len() == 1);
    assert!(back.arrays().iter().all(|a| a.name != "shares"));
}

#[test]
fn settings_in_use_are_those_that_are_read() {
    let used = |pairs: &[(&str, Value)]| model(pairs).settings_in_use();
    let has = |map: &serde_json::Map<String, Value>, names: &[&str]| names.iter().all(|n| map.contains_key(*n));
    let lacks = |map: &serde_json::Map<String, Value>, names: &[&str]| names.iter().all(|n| !map.contains_key(*n));
    let hmc = used(&[]);
    assert!(has(&hmc, &["experts", "kappa", "alpha1", "n_warmup", "metric"]) && lacks(&hmc, &["tau", "l2", "max_iter", "inner", "gamma"]));
    let vb = used(&[("inference", json!("vb"))]);
    assert!(has(&vb, &["gate_bound", "max_iter", "tol"]) && lacks(&vb, &["n_warmup", "n_draws", "metric", "l2", "tau"]));
    let tree = used(&[("inference", json!("vb")), ("prior", json!("gaussian"))]);
    assert!(has(&tree, &["tau", "max_iter"]) && lacks(&tree, &["tol", "gate_bound", "kappa", "n_draws"]));
}
