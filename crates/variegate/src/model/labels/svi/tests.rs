//! Steps against sweeps, passes against ascents, and streams.

use serde_json::{Map, Value, json};

use super::*;
use crate::answer::LabelRule;
use crate::data::{Dataset, LabelSets, Target, blocks};
use crate::model::labels::settings::Settings;
use crate::model::{RunSettings, Truth, family, fit, resolve};
use crate::run::{Merge, Unobserved};
use crate::score::LabelScores;

fn map(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

fn simulated(settings: &Value, request: Value, rows: usize, more: usize, seed: u64) -> (Dataset<'static>, Dataset<'static>) {
    let model = family("labels").unwrap().configure(&map(settings)).unwrap();
    let first = model.simulate(rows, &map(&request), seed).unwrap();
    let later = model.simulate_more(more, &map(&request), &Truth::new(&first.truth), seed + 1).unwrap();
    (first.data, later.data)
}

fn fitted(settings: &Value, data: &Dataset<'_>) -> crate::model::Fitted {
    let model = family("labels").unwrap().configure(&map(settings)).unwrap();
    fit(model.as_ref(), data, &RunSettings::default().seed(3).block_rows(64), &mut Unobserved).unwrap()
}

fn labels<'a>(data: &'a Dataset<'_>) -> &'a LabelSets {
    let Target::Labels(l) = &data.target else { panic!("no labels") };
    l
}

fn log_loss(posterior: &dyn crate::answer::Posterior, test: &Dataset<'_>) -> f64 {
    let predicted = posterior.predict_labels(test, &LabelRule::default()).unwrap();
    let truth = labels(test);
    LabelScores::of(&predicted, &truth.values, truth.names.len()).log_loss.unwrap()
}

/// A step with all rows and nothing kept of earlier ones is a sweep, for every coupling; and sums of minibatches, scaled, average to those of
/// all rows.
#[test]
fn a_step_with_all_rows_is_a_sweep() {
    for settings in [json!({}), json!({ "coupling": "and" }), json!({ "coupling": "cut" }), json!({ "features": "multinomial" })] {
        let (data, _) = simulated(&settings, json!({ "unknown": 0.2 }), 60, 1, 8);
        let mut given = map(&settings);
        given.insert("inference".into(), "svi".into());
        let s: Settings = resolve("labels", &given).unwrap();
        let survey = crate::run::survey(&data, &family("labels").unwrap().configure(&given).unwrap().questions(), Some(20)).unwrap();
        let schema = Schema::of(&survey, &s).unwrap().0;
        let program = Svi::new(&schema, &s, None).unwrap();
        assert!(!program.rowwise());
        let mixture = &program.mixture;
        let mut scratch = Scratch::default();
        let centres: Vec<f64> = {
            let gathered = blocks(&data, 60).iter().map(|b| mixture.gather(60, 1, b, &mut scratch)).next().unwrap();
            mixture.centres(&gathered, 4, &mut crate::dist::testing::rng(1))
        };
        let mut q = mixture.start(4);
        let view = mixture.labels.view(&q.labels);
        let mut sums = Sums::default();
        for block in blocks(&data, 20) {
            sums.merge(mixture.visit_with(&view, 4, &block, &mut scratch, |x, r| mixture.nearest(&centres, x, r)));
        }
        mixture.update(&mut q, &mut sums).unwrap();
        let view = mixture.view(&q);
        let parts: Vec<Sums> = blocks(&data, 20).iter().map(|b| mixture.visit(&view, b, &mut scratch)).collect();
        let whole = parts.iter().cloned().reduce(|mut a, b| { a.merge(b); a }).unwrap();
        let labels = program.rates.len();
        let mut state = State { q: q.clone(), stream: Stream::new(labels, 60), passes: 0, score: 0.0, seen: Default::default() };
        state.stream.sums = sums;
        program.absorb(&mut state, whole.clone(), (0.0, 1.0), &vec![(0.0, 1.0); labels]).unwrap();
        let mut swept = q.clone();
        mixture.update(&mut swept, &mut whole.clone()).unwrap();
        assert_eq!(state.q, swept, "{settings}");
        // thirds of the rows, three times each, are all of them three times
        let mut average = Sums::default();
        for mut part in parts {
            part.scale(3.0, &vec![3.0; labels]);
            average.merge(part);
        }
        average.scale(1.0 / 3.0, &vec![1.0 / 3.0; labels]);
        let mut averaged = q.clone();
        mixture.update(&mut averaged, &mut average).unwrap();
        for (a, b) in averaged.counts.iter().zip(&swept.counts) {
            assert!((a - b).abs() < 1e-9);
        }
        let near = |a: &super::super::label_part::LabelFactors, b: &super::super::label_part::LabelFactors| {
            let text = |f| serde_json::to_value(f).unwrap();
            numbers(&text(a)).iter().zip(&numbers(&text(b))).all(|(a, b)| (a - b).abs() <= 1e-8 * (1.0 + b.abs()))
        };
        assert!(near(&averaged.labels, &swept.labels), "{settings}");
    }
}

fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Number(n) => vec![n.as_f64().unwrap()],
        Value::Array(a) => a.iter().flat_map(numbers).collect(),
        Value::Object(o) => o.values().flat_map(numbers).collect(),
        _ => Vec::new(),
    }
}

/// New rows are predicted nearly as well as after an ascent over all rows, by every coupling and by rows instead of matrices.
#[test]
fn minibatches_predict_nearly_as_well_as_all_rows() {
    for more in [json!({}), json!({ "coupling": "and" }), json!({ "coupling": "cut" }), json!({ "covariance": "diagonal" })] {
        let mut simulate = map(&more);
        simulate.remove("covariance");
        let (train, test) = simulated(&Value::Object(simulate), json!({ "unknown": 0.1 }), 3_000, 1_000, 21);
        let mut svi = map(&more);
        svi.extend(map(&json!({ "inference": "svi", "components": 10, "passes": 8 })));
        let mut vb = map(&more);
        vb.extend(map(&json!({ "components": 10, "n_init": 1, "tol": 1e-5 })));
        let (svi, vb) = (fitted(&Value::Object(svi), &train), fitted(&Value::Object(vb), &train));
        let (a, b) = (log_loss(svi.posterior.as_ref(), &test), log_loss(vb.posterior.as_ref(), &test));
        assert!(a < b + 0.01, "{more}: {a} by minibatches, {b} by all rows");
    }
}

#[test]
fn zz_explore() {
    let (train, test) = simulated(&json!({}), json!({ "unknown": 0.1 }), 3_000, 1_000, 21);
    for more in [json!({"inference":"vb","n_init":1}), json!({"inference":"vb","n_init":4}),
        json!({"inference":"svi","passes":8}),json!({"inference":"svi","passes":40}),json!({"inference":"svi","passes":200}),
        json!({"inference":"svi","passes":40,"batch_rows":3000}), json!({"inference":"svi","passes":40,"step_delay":10}),
        json!({"inference":"svi","passes":8,"covariance":"diagonal"}), json!({"inference":"svi","passes":40,"covariance":"diagonal"})] {
        let mut s = map(&more); s.insert("components".into(), json!(10));
        let f = fitted(&Value::Object(s), &train);
        let n = f.posterior.arrays().into_iter().find(|a| a.name == "component_rows").unwrap().values;
        println!("{more} {:.4} {n:.0?}", log_loss(f.posterior.as_ref(), &test));
    }
}

/// With a share of earlier rows kept, every row counts as often as its age says.
#[test]
fn decay_counts_rows_by_their_age() {
    let (train, _) = simulated(&json!({}), json!({}), 640, 1, 5);
    let settings = json!({ "inference": "svi", "components": 5, "decay": 0.5, "batch_rows": 64 });
    let model = family("labels").unwrap().configure(&map(&settings)).unwrap();
    let found = fit(model.as_ref(), &train, &RunSettings::default().block_rows(64), &mut Unobserved).unwrap();
    let counts = found.posterior.arrays().into_iter().find(|a| a.name == "component_rows").unwrap().values;
    let expected: f64 = (0..10).map(|age| 64.0 * 0.5f64.powi(age)).sum();
    assert!((counts.iter().sum::<f64>() - expected).abs() < 1e-9 * expected);
}
