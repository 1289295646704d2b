//! Data from the prior: standard normal columns, weights from the prior, labels from the model, both classes present.

use rand_distr::{Distribution, StandardNormal};
use serde_json::{Map, json};

use super::Settings;
use crate::data::{Classes, Dataset, Design, Matrix, Target};
use crate::linalg::dot;
use crate::model::Simulation;
use crate::run::{Purpose, Stream, open01};
use crate::special::sigmoid;
use crate::{Result, settings};

settings! {
    /// What to simulate.
    pub(super) struct Request {
        /// Number of feature columns.
        columns: usize = 3, in whole(1, 5000);
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
