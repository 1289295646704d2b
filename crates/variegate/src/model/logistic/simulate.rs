//! Data from the prior: standard normal columns, weights from the prior, labels from the model.

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

pub(super) fn simulate(settings: &Settings, rows: usize, request: &Request, seed: u64) -> Result<Simulation> {
    let design = Design::identity(request.columns, settings.fit_intercept);
    let stream = Stream::new(seed, 0, Purpose::Simulate);
    let mut rng = stream.item(0).rng();
    let weights: Vec<f64> = settings
        .precisions(&design)
        .iter()
        .map(|p| {
            let z: f64 = StandardNormal.sample(&mut rng);
            z / p.sqrt()
        })
        .collect();
    let (mut values, mut codes) = (Vec::with_capacity(rows * request.columns), Vec::with_capacity(rows));
    let mut rng = stream.item(1).rng();
    let bias = if settings.fit_intercept { weights[request.columns] } else { 0.0 };
    for _ in 0..rows {
        let row: Vec<f64> = (0..request.columns).map(|_| StandardNormal.sample(&mut rng)).collect();
        codes.push((open01(&mut rng) < sigmoid(bias + dot(&row, &weights[..request.columns]))) as u32);
        values.extend(row);
    }
    let names = vec!["no".to_string(), "yes".to_string()];
    let mut data = Dataset::new(Matrix::dense(rows, request.columns, values)).with_target(Target::Classes(Classes { codes, names }));
    data.columns = (0..request.columns).map(|j| format!("x{}", j + 1)).collect();
    let mut truth = Map::new();
    truth.insert("coefficients".into(), json!(&weights[..request.columns]));
    truth.insert("intercept".into(), json!(bias));
    Ok(Simulation { data, truth })
}
