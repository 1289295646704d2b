//! Odd data: a sensible answer, or a sentence that says what to do.

use serde_json::{Value, json};

use super::fits::{fitted, map};
use crate::answer::LabelRule;
use crate::data::{Dataset, LabelSets, Matrix, Target};

fn data(rows: usize, cols: usize, x: Vec<f64>, labels: usize, y: Vec<i8>) -> Dataset<'static> {
    let names = (0..labels).map(|c| format!("l{c}")).collect();
    Dataset::new(Matrix::dense(rows, cols, x)).with_target(Target::Labels(LabelSets { names, values: y }))
}

fn all_finite(settings: Value, data: &Dataset<'_>) {
    let found = fitted(settings.clone(), data).unwrap_or_else(|e| panic!("{settings}: {e}"));
    let predicted = found.posterior.predict_labels(data, &LabelRule::default()).unwrap();
    assert!(predicted.probability.iter().all(|p| (0.0..=1.0).contains(p)), "{settings}: {:?}", predicted.probability);
    assert!(predicted.novelty.iter().all(|p| (0.0..=1.0).contains(p)), "{settings}");
}

const COUPLINGS: [&str; 3] = ["logit", "and", "cut"];

/// An empty set is known: it lowers the label's probability, an unknown one does not.
#[test]
fn an_empty_set_is_not_an_unknown_one() {
    let x = vec![0.3; 12];
    let of = |fill: i8| {
        let y: Vec<i8> = (0..12).map(|i| if i < 4 { 1 } else { fill }).collect();
        let found = fitted(json!({}), &data(12, 1, x.clone(), 1, y)).unwrap();
        found.posterior.predict_labels(&data(1, 1, vec![0.3], 1, vec![-1]), &LabelRule::default()).unwrap().probability[0]
    };
    let (known, unknown) = (of(0), of(-1));
    assert!(known < 0.5 && unknown > 0.7, "{known} {unknown}");
}

#[test]
fn few_rows_and_idle_labels_have_answers() {
    for (coupling, draws) in COUPLINGS.into_iter().flat_map(|c| [(c, false), (c, true)]) {
        let with = |settings: Value| {
            let mut all = map(settings);
            all.insert("coupling".into(), json!(coupling));
            if draws {
                all.extend(map(json!({ "inference": "gibbs", "n_chains": 1, "n_warmup": 10, "n_draws": 5, "thin": 1 })));
            }
            Value::Object(all)
        };
        let settings = with(json!({}));
        all_finite(settings.clone(), &data(1, 2, vec![0.5, 1.5], 2, vec![1, 0]));
        // more columns than rows; a row whose labels are all unknown; labels never and always on; one never known
        let y = vec![0, 1, 1, -1, -1, -1, -1, -1, 0, 1, 0, -1];
        all_finite(settings.clone(), &data(3, 5, (0..15).map(|v| (v * v % 7) as f64 + 0.5).collect(), 4, y));
        // constant columns and repeated rows
        all_finite(settings.clone(), &data(6, 2, vec![1.0; 12], 1, vec![1, 0, 1, 0, 1, 0]));
        // perfect separation
        all_finite(settings.clone(), &data(8, 1, (0..8).map(|i| i as f64 - 3.5).collect(), 1, (0..8).map(|i| i8::from(i > 3)).collect()));
        // rows of zeros among counts
        let counts = vec![3.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 4.0, 1.0, 2.0, 2.0, 0.0];
        all_finite(with(json!({ "features": "multinomial" })), &data(4, 3, counts, 2, vec![1, 0, 0, 0, 0, 1, 1, 1]));
        // huge and tiny columns
        let sizes: Vec<f64> = (0..20).map(|i| if i % 2 == 0 { 1e150 * (i % 3) as f64 } else { 1e-150 * (i % 5) as f64 }).collect();
        all_finite(settings, &data(10, 2, sizes, 1, (0..10).map(|i| i8::from(i % 3 == 0)).collect()));
    }
}

#[test]
fn what_cannot_be_fitted_is_said() {
    let said = |settings: Value, data: &Dataset<'_>| match fitted(settings, data) {
        Err(e) => e.to_string(),
        Ok(_) => panic!("it was fitted"),
    };
    let plain = || data(4, 1, vec![0.0, 1.0, 2.0, 3.0], 1, vec![0, 1, 0, 1]);
    let negative = data(2, 1, vec![-1.5, 1.0], 1, vec![0, 1]);
    assert!(said(json!({ "features": "multinomial" }), &negative).contains("column `x0` has -1.5"));
    assert!(said(json!({ "features": "bernoulli" }), &plain()).contains("column `x0` has 3"));
    assert!(said(json!({}), &data(2, 1, vec![0.0, 1.0], 1, vec![-1, -1])).contains("no row has a known label"));
    let weighted = Dataset { weights: Some(vec![1.0; 4]), ..plain() };
    assert!(said(json!({}), &weighted).contains("takes no row weights"));
    let mixed = data(2, 1, vec![0.0, 1.0], 2, vec![1, -1, 0, 1]);
    let shares = json!({ "coupling": "cut", "label_patterns": "multinomial", "combine": "product" });
    assert!(said(shares, &mixed).contains("set it to bernoulli"));
    assert!(said(json!({ "coupling": "cut", "label_patterns": "multinomial" }), &plain()).contains("setting `combine`"));
    let classes = Dataset { target: Target::None, ..plain() };
    assert!(fitted(json!({}), &classes).is_err());
    let odd = data(1, 1, vec![0.0], 1, vec![2]);
    assert!(said(json!({}), &odd).contains("label"), "{}", said(json!({}), &odd));
}
