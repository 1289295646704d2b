//! Input maps compared: which is chosen, by what, and that a chosen fit is that of its map alone.

use serde_json::json;

use super::super::job::Standing;
use super::super::maps::MapState;
use super::search::{corners, errors, run};
use super::*;
use crate::model::Fitted;

/// Names of the maps in the table, the chosen one, and the criterion of each.
fn table(fitted: &Fitted) -> (Vec<String>, String, Vec<f64>) {
    let selection = fitted.posterior.selection().unwrap();
    let map = |name: &str| name.split("input map ").nth(1).unwrap().to_string();
    let column = selection.headings.iter().position(|h| *h == selection.criterion).unwrap();
    let names: Vec<String> = selection.rows.iter().map(|r| map(&r.0)).collect();
    let chosen = names[selection.chosen].clone();
    (names, chosen, selection.rows.iter().map(|r| r.1[column].unwrap()).collect())
}

fn states(fitted: &Fitted) -> Vec<MapState> {
    fitted.kept.chains.iter().map(|c| saved_global::<Maps>(&c.checkpoint).unwrap()).collect()
}

fn elbo(fitted: &Fitted) -> f64 {
    fitted.posterior.arrays().iter().find(|a| a.name == "elbo").unwrap().values[0]
}

/// Rows of one column in seven stripes of two classes.
fn stripes(rows: usize) -> Dataset<'static> {
    let x: Vec<f64> = (0..rows).map(|i| 7.0 * i as f64 / rows as f64).collect();
    let codes: Vec<u32> = x.iter().map(|x| *x as u32 % 2).collect();
    Dataset::new(Matrix::dense(rows, 1, x)).with_target(classes(&codes, 2))
}

#[test]
fn the_criterion_chooses_the_map() {
    let data = corners(120, 1.5);
    for pairs in [vec![], vec![("criterion", json!("cv")), ("folds", json!(2))]] {
        let fitted = run(&[pairs.clone(), vec![("input_map", json!("auto"))]].concat(), &data);
        let (names, chosen, values) = table(&fitted);
        assert!(names.contains(&"none".to_string()) && chosen != "none" && errors(&fitted, &data) <= 2, "{names:?} {chosen}");
        let best = values.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b));
        assert_eq!(names[values.iter().position(|v| *v == best).unwrap()], chosen, "{pairs:?}: {values:?}");
        assert!(fitted.posterior.summary().converged, "{pairs:?}");
        let loaded = Softmax.load(&fitted.posterior.save().unwrap()).unwrap();
        assert_eq!(loaded.predict(&data, "").unwrap(), fitted.posterior.predict(&data, "").unwrap());
        assert_eq!(loaded.selection().unwrap().rows, fitted.posterior.selection().unwrap().rows);
    }
    // a straight boundary needs none
    let x = pseudo(120, 5);
    let codes: Vec<u32> = x.chunks(2).zip(pseudo(60, 6)).map(|(x, e)| u32::from(x[0] + 0.3 * e > 0.0)).collect();
    let straight = Dataset::new(Matrix::dense(60, 2, x)).with_target(classes(&codes, 2));
    assert_eq!(table(&run(&[("input_map", json!("auto"))], &straight)).1, "none");
}

/// The chosen fit is that of its map alone, brought to the end of its ascent.
#[test]
fn the_chosen_fit_is_that_of_its_map() {
    let data = stripes(140);
    let exactly = [("covariance", json!("child")), ("tol", json!(1e-7))];
    let fitted = run(&[&exactly[..], &[("input_map", json!("auto"))]].concat(), &data);
    let alone = run(&[&exactly[..], &[("input_map", json!(table(&fitted).1))]].concat(), &data);
    assert_eq!(elbo(&fitted), elbo(&alone));
    assert_eq!(fitted.posterior.predict(&data, "").unwrap(), alone.posterior.predict(&data, "").unwrap());
    let states = states(&fitted);
    let last = states.last().unwrap();
    let of_map: Vec<&MapState> = states.iter().filter(|s| s.map == last.map).collect();
    assert_eq!(of_map.len(), 2, "a look, and its end");
    assert_eq!((of_map[0].state.ascents, of_map[0].state.standing), (60, Standing::Running));
    assert!(of_map[1].state.ascents > 60 && of_map[1].state.bound > of_map[0].state.bound);
    // the others were looked at
    assert!(states.iter().all(|s| s.map == 0 || s.map == last.map || s.state.ascents <= 60));
}

/// More features are tried where few of the same kind are best, and nowhere else.
#[test]
fn more_features_are_tried_where_some_are_best() {
    let data = stripes(140);
    let fitted = run(&[("input_map", json!("auto"))], &data);
    let (names, chosen, values) = table(&fitted);
    assert!(chosen.starts_with("fourier:"), "{names:?} {values:?}");
    let fine: Vec<&String> = names.iter().filter(|n| n.starts_with("fourier:300:")).collect();
    let coarse = |name: &str| name.starts_with("fourier:100:");
    let best = (0..names.len()).filter(|i| coarse(&names[*i])).max_by(|a, b| values[*a].total_cmp(&values[*b])).unwrap();
    assert_eq!(fine, [&names[best].replace(":100:", ":300:")], "{names:?}");
    assert!(errors(&fitted, &data) <= 8, "{}", errors(&fitted, &data));
    let near = run(&[("input_map", json!("auto"))], &corners(120, 1.5));
    let (names, chosen, _) = table(&near);
    assert!(chosen == "polynomial:2" && names.iter().all(|n| !n.starts_with("fourier:300:")), "{chosen} {names:?}");
}

/// A search by splits goes on under the inputs and under the best map alone, from fits that have come to their end.
#[test]
fn splits_go_on_under_the_inputs_and_the_best_map() {
    let data = corners(120, 1.8);
    for pairs in [vec![("n_init", json!(2))], vec![("criterion", json!("cv")), ("folds", json!(2))]] {
        let search = [("subclasses", json!("auto:2")), ("input_map", json!("auto"))];
        let fitted = run(&[&pairs[..], &search[..]].concat(), &data);
        let states = states(&fitted);
        let split = |s: &&MapState| s.state.tree.leaves.len() > 2;
        let mut maps: Vec<usize> = states.iter().filter(split).map(|s| s.map).collect();
        maps.sort_unstable();
        maps.dedup();
        assert!(maps.len() == 2 && maps[0] == 0, "{maps:?}");
        let first = states.iter().position(|s| s.map != 0 && split(&s)).unwrap();
        assert!(
            pairs[0].0 == "criterion" || states[..first].iter().any(|s| s.map == maps[1] && s.state.standing != Standing::Running),
            "splits began before their fit had ended"
        );
        assert!(errors(&fitted, &data) <= 4, "{}", errors(&fitted, &data));
    }
}

/// Maps that would take very long are left out; so are products of many inputs.
#[test]
fn large_maps_are_left_out() {
    let (rows, columns) = (40, 30);
    let codes: Vec<u32> = (0..rows as u32).map(|i| i % 10).collect();
    let data = Dataset::new(Matrix::dense(rows, columns, pseudo(rows * columns, 7))).with_target(classes(&codes, 10));
    let (names, _, _) = table(&run(&[("input_map", json!("auto")), ("max_iter", json!(2))], &data));
    assert_eq!(names.iter().filter(|n| n.starts_with("fourier:100:")).count(), 3);
    assert_eq!(names.len(), 4, "{names:?}");
}

#[test]
fn maps_of_real_outcomes() {
    let x: Vec<f64> = (0..60).map(|i| i as f64 / 30.0 - 1.0).collect();
    let y: Vec<f64> = x.iter().zip(pseudo(60, 3)).map(|(x, e)| 3.0 * x * x + 0.1 * e).collect();
    let data = Dataset::new(Matrix::dense(60, 1, x)).with_target(Target::Real { width: 1, values: y.clone() });
    let settings = [("task", json!("regression")), ("experts", json!("1")), ("input_map", json!("auto"))];
    let fitted = run(&settings, &data);
    assert_ne!(table(&fitted).1, "none");
    let p = fitted.posterior.predict_real(&data, &[], "").unwrap();
    assert!(p.mean.iter().zip(&y).all(|(m, y)| (m - y).abs() < 0.3));
}
