//! Data from the prior: standard normal columns, weights from the prior, labels from the model, both classes present.

use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};

use super::Settings;
use crate::Result;
use crate::data::{Classes, Dataset, Design, Matrix, Target};
use crate::linalg::dot;
use crate::model::{Kind, Setting, Simulation};
use crate::run::{Purpose, Stream, open01};
use crate::special::sigmoid;

pub(super) const SETTINGS: [Setting; 1] =
    [Setting { name: "columns", kind: Kind::Integer { least: 1, most: 5000 }, help: "Number of feature columns" }];

/// What to simulate.
#[derive(Debug, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Request {
    columns: usize,
}

impl Default for Request {
    fn default() -> Self {
        Self { columns: 3 }
    }
}

/// A draw of weights and labels with one class only could not be fitted, so it is put back, at most this often.
const TRIES: u64 = 1000;

pub(super) fn simulate(settings: &Settings, rows: usize, request: &Request, seed: u64) -> Result<Simulation> {
    let columns = request.columns;
    let design = Design::identity(columns, settings.fit_intercept);
    let stream = Stream::new(seed, 0, Purpose::Simulate);
    let mut rng = stream.item(0).rng();
    let values: Vec<f64> = (0..rows * columns).map(|_| StandardNormal.sample(&mut rng)).collect();
    let (mut weights, mut codes) = (Vec::new(), Vec::new());
    for attempt in 1..=TRIES {
        let mut rng = stream.item(attempt).rng();
        weights = settings
            .precisions(&design)
            .iter()
            .map(|p| {
                let z: f64 = StandardNormal.sample(&mut rng);
                z / p.sqrt()
            })
            .collect();
        let bias = if settings.fit_intercept { weights[columns] } else { 0.0 };
        codes = values.chunks_exact(columns).map(|row| (open01(&mut rng) < sigmoid(bias + dot(row, &weights[..columns]))) as u32).collect();
        if codes.contains(&0) && codes.contains(&1) {
            break;
        }
    }
    let bias = if settings.fit_intercept { weights[columns] } else { 0.0 };
    let names = vec!["no".to_string(), "yes".to_string()];
    let mut data = Dataset::new(Matrix::dense(rows, columns, values)).with_target(Target::Classes(Classes { codes, names }));
    data.columns = (0..columns).map(|j| format!("x{}", j + 1)).collect();
    let mut truth = Map::new();
    truth.insert("coefficients".into(), json!(&weights[..columns]));
    truth.insert("intercept".into(), json!(bias));
    Ok(Simulation { data, truth })
}
