//! Fits of data that were drawn from the model.

use serde_json::{Map, Value, json};

use crate::answer::{LabelPrediction, LabelRule};
use crate::check::Effort;
use crate::data::{Dataset, LabelSets, Target};
use crate::model::{Fitted, RunSettings, Truth, family, fit};
use crate::run::Unobserved;
use crate::score::LabelScores;

pub(super) fn map(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

pub(super) fn fitted(settings: Value, data: &Dataset<'_>) -> crate::Result<Fitted> {
    let model = family("labels")?.configure(&map(settings))?;
    fit(model.as_ref(), data, &RunSettings::default().seed(3).block_rows(64), &mut Unobserved)
}

pub(super) fn simulated(settings: &Value, request: Value, rows: usize, seed: u64) -> (Dataset<'static>, Dataset<'static>) {
    let model = family("labels").unwrap().configure(&map(settings.clone())).unwrap();
    let first = model.simulate(rows, &map(request.clone()), seed).unwrap();
    let mut whole = map(request);
    whole.insert("unknown".into(), json!(0.0));
    let more = model.simulate_more(500, &whole, &Truth::new(&first.truth), seed).unwrap();
    (first.data, more.data)
}

pub(super) fn labels<'a>(data: &'a Dataset<'_>) -> &'a LabelSets {
    let Target::Labels(l) = &data.target else { panic!("no labels") };
    l
}

/// The bound never falls, is the same from sums and from rows, and no change raises it at the end: for every coupling and kernel.
#[test]
fn the_variational_bound_is_one() {
    let kernels = ["multinomial", "bernoulli", "gaussian-diag", "gaussian-full"];
    let cases = kernels.map(|k| json!({ "features": k })).into_iter();
    let more = [
        json!({ "coupling": "and" }),
        json!({ "coupling": "and", "features": "multinomial" }),
        json!({ "coupling": "cut" }),
        json!({ "coupling": "cut", "classifier": "svm", "features": "multinomial" }),
        json!({ "covariance": "factorised" }),
        json!({ "covariance": "diagonal", "bound": "bohning" }),
        json!({ "coupling": "cut", "features": "bernoulli", "label_patterns": "multinomial", "combine": "product" }),
        json!({ "bound": "bohning" }),
        json!({ "concentration": 0.7, "feature_power": 0.3 }),
        json!({ "feature_power": null, "features": "multinomial" }),
        json!({ "inference": "svi" }),
        json!({ "inference": "svi", "covariance": "diagonal" }),
        json!({ "moves": "none" }),
        json!({ "inference": "memoized", "batches": 3 }),
        json!({ "inference": "memoized", "coupling": "and", "moves": "merge" }),
    ];
    for settings in cases.chain(more) {
        let model = family("labels").unwrap().configure(&map(settings.clone())).unwrap();
        let mut effort = Effort::quick();
        effort.calibration.data_sets = 40;
        for report in model.check(&effort, 5, &mut |_| {}).unwrap() {
            assert!(report.passed, "{settings}: {report:?}");
        }
    }
}

/// On data from the model, labels of new rows are told better than by their rates alone, by every coupling.
#[test]
fn new_rows_are_predicted() {
    for settings in [
        json!({}),
        json!({ "coupling": "and" }),
        json!({ "features": "multinomial" }),
        json!({ "bound": "bohning" }),
        json!({ "coupling": "cut" }),
        json!({ "coupling": "cut", "classifier": "svm", "combine": "mean" }),
    ] {
        let (train, test) = simulated(&settings, json!({ "unknown": 0.2 }), 400, 4);
        let found = fitted(settings.clone(), &train).unwrap();
        let truth = labels(&test);
        let width = truth.names.len();
        let predicted = found.posterior.predict_labels(&test, &LabelRule::default()).unwrap();
        let scores = LabelScores::of(&predicted, &truth.values, width);
        let known = &labels(&train).values;
        let rate = |c: usize| {
            let of = |v: i8| known.iter().skip(c).step_by(width).filter(|y| **y == v).count() as f64;
            (of(1) + 1.0) / (of(1) + of(0) + 2.0)
        };
        let rates: Vec<f64> = (0..width).map(rate).collect();
        let probability = rates.iter().copied().cycle().take(truth.values.len()).collect::<Vec<_>>();
        let base = LabelPrediction {
            score: probability.clone(),
            chosen: probability.iter().map(|p| *p >= 0.5).collect(),
            probability,
            novelty: vec![0.0; test.rows()],
        };
        let base = LabelScores::of(&base, &truth.values, width);
        // the hinge has no likelihood behind its probabilities
        let svm = settings["classifier"] == "svm";
        let of = |s: &LabelScores| if svm { s.hamming_loss } else { s.log_loss };
        let (ours, theirs) = (of(&scores).unwrap(), of(&base).unwrap());
        assert!(ours < 0.85 * theirs, "{settings}: {ours} against {theirs}");
    }
}

/// What is said of a row depends on that row alone, and rows far from all known ones are new.
#[test]
fn answers_depend_on_the_row_alone() {
    for settings in [json!({}), json!({ "coupling": "and" }), json!({ "coupling": "cut", "combine": "mean" })] {
        let (train, test) = simulated(&settings, json!({}), 150, 2);
        let posterior = fitted(settings, &train).unwrap().posterior;
        for rule in ["hamming", "cardinality", "subset"] {
            let how = LabelRule { rule, nonempty: true, given: false };
            let all = posterior.predict_labels(&test, &how).unwrap();
            let width = posterior.labels().len();
            for i in [0, 63, 64, 299] {
                let one = posterior.predict_labels(&test.subset(&[i]), &how).unwrap();
                assert_eq!(one.probability, all.probability[i * width..(i + 1) * width]);
                assert_eq!(one.chosen, all.chosen[i * width..(i + 1) * width]);
                assert_eq!(one.novelty, all.novelty[i..i + 1]);
                assert!(one.chosen.contains(&true));
            }
        }
        let columns = test.x.cols();
        let far = Dataset::new(crate::data::Matrix::dense(1, columns, vec![1e3; columns]));
        let far = Dataset { columns: train.columns.clone(), ..far };
        let novelty = posterior.predict_labels(&far, &LabelRule::default()).unwrap().novelty[0];
        assert!(novelty > 0.5, "{novelty}");
        let shares = posterior.responsibilities(&Dataset { target: Target::None, ..test.clone() }).unwrap();
        let width = shares.names.len();
        assert_eq!(shares.names.last().map(String::as_str), Some("unknown"));
        for row in shares.share.chunks_exact(width) {
            assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        }
        let saved = posterior.save().unwrap();
        let again = family("labels").unwrap().load(&saved).unwrap();
        let how = LabelRule::default();
        assert_eq!(again.predict_labels(&test, &how).unwrap(), posterior.predict_labels(&test, &how).unwrap());
    }
}

/// Labels that are known of a new row speak for its others where components tie them together.
#[test]
fn known_labels_inform_the_others() {
    // two kinds of rows that features cannot tell apart: all labels or none
    let n = 200;
    let x = crate::data::Matrix::dense(n, 1, (0..n).map(|i| (i % 7) as f64 - 3.0).collect::<Vec<_>>());
    let values: Vec<i8> = (0..n).flat_map(|i| [i8::from(i % 2 == 0); 4]).collect();
    let names = ["a", "b", "c", "d"].map(String::from).to_vec();
    let data = Dataset::new(x).with_target(Target::Labels(LabelSets { names, values }));
    let posterior = fitted(json!({ "feature_power": 0.1, "components": 4 }), &data).unwrap().posterior;
    let mut row = data.subset(&[0]);
    let Target::Labels(known) = &mut row.target else { panic!("no labels") };
    known.values = vec![1, -1, -1, -1];
    let plain = posterior.predict_labels(&row, &LabelRule::default()).unwrap();
    let told = posterior.predict_labels(&row, &LabelRule { given: true, ..LabelRule::default() }).unwrap();
    assert!((plain.probability[3] - 0.5).abs() < 0.1, "{:?}", plain.probability);
    assert!(told.probability[3] > 0.9, "{:?}", told.probability);
    assert_eq!(told.probability[0], 1.0, "what is known is not guessed");
}

/// Components that no row needs are left out, and the summary says what was found.
#[test]
fn idle_components_are_left_out() {
    let (train, _) = simulated(&json!({}), json!({ "columns": 4 }), 200, 9);
    let found = fitted(json!({ "components": 30 }), &train).unwrap();
    let summary = found.posterior.summary();
    assert!(summary.converged, "{:?}", summary.notes);
    let arrays = found.posterior.arrays();
    let weights = arrays.iter().find(|a| a.name == "weights").unwrap();
    assert!(weights.values.len() < 30, "{:?}", weights.values);
    assert!(weights.values.windows(2).all(|w| w[0] >= w[1] * 0.5));
    assert_eq!(summary.tables[0].rows[0].1.len(), 2 + 5);
}
