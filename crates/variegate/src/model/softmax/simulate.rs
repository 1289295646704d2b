//! Data from the prior: standard normal columns, precisions and weights from the prior, labels from the model.

use rand_distr::{Distribution, Gamma, StandardNormal};
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};

use super::Settings;
use super::tilted::softmax;
use crate::data::{Classes, Dataset, Design, Matrix, Target};
use crate::linalg::dot;
use crate::model::{Kind, Setting, Simulation};
use crate::run::{Philox, Purpose, Stream, open01};
use crate::{Error, Result};

pub(super) const SETTINGS: [Setting; 2] = [
    Setting { name: "columns", kind: Kind::Integer { least: 1, most: 5000 }, help: "Number of feature columns" },
    Setting { name: "classes", kind: Kind::Integer { least: 2, most: 1000 }, help: "Number of classes" },
];

/// What to simulate.
#[derive(Debug, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Request {
    columns: usize,
    classes: usize,
}

impl Default for Request {
    fn default() -> Self {
        Self { columns: 2, classes: 3 }
    }
}

/// Weights from the prior, K×D.
pub(super) fn draw_weights(settings: &Settings, classes: usize, design: &Design, rng: &mut Philox) -> Result<Vec<f64>> {
    let shape = Gamma::new(settings.a0, 1.0).map_err(|e| Error::setting("a0", settings.a0, format!("a shape to draw from ({e})")))?;
    let precisions = settings.prior(classes, design).draw(|rate| shape.sample(rng) / rate);
    Ok(precisions
        .iter()
        .map(|p| {
            let z: f64 = StandardNormal.sample(rng);
            // a small shape draws precisions that underflow; their weights would not be finite
            z / p.clamp(1e-200, 1e200).sqrt()
        })
        .collect())
}

/// A class of a row; weights have one entry more than the row where there is a bias.
pub(super) fn draw_class(weights: &[f64], row: &[f64], classes: usize, rng: &mut Philox) -> u32 {
    let mut z: Vec<f64> = weights.chunks_exact(weights.len() / classes).map(|w| dot(row, w) + w.get(row.len()).unwrap_or(&0.0)).collect();
    softmax(&mut z);
    let mut left = open01(rng);
    let found = z.iter().position(|p| {
        left -= p;
        left < 0.0
    });
    found.unwrap_or(classes - 1) as u32
}

/// A draw of weights and labels without a row of every class could not be fitted, so it is put back: up to a thousand times, less
/// often for large data.
fn tries(rows: usize, columns: usize, classes: usize) -> u64 {
    (100_000_000 / (rows * (columns + 1) * classes).max(1)).clamp(20, 1000) as u64
}

pub(super) fn simulate(settings: &Settings, rows: usize, request: &Request, seed: u64) -> Result<Simulation> {
    let (columns, classes) = (request.columns, request.classes);
    let design = Design::identity(columns, true);
    let stream = Stream::new(seed, 0, Purpose::Simulate);
    let mut rng = stream.item(0).rng();
    let values: Vec<f64> = (0..rows * columns).map(|_| StandardNormal.sample(&mut rng)).collect();
    let (mut weights, mut codes) = (Vec::new(), Vec::new());
    for attempt in 1..=tries(rows, columns, classes) {
        let mut rng = stream.item(attempt).rng();
        weights = draw_weights(settings, classes, &design, &mut rng)?;
        codes = values.chunks_exact(columns).map(|row| draw_class(&weights, row, classes, &mut rng)).collect::<Vec<u32>>();
        if rows < classes || (0..classes as u32).all(|c| codes.contains(&c)) {
            break;
        }
    }
    let names = (1..=classes).map(|c| format!("c{c}")).collect();
    let mut data = Dataset::new(Matrix::dense(rows, columns, values)).with_target(Target::Classes(Classes { codes, names }));
    data.columns = (0..columns).map(|j| format!("x{}", j + 1)).collect();
    let mut truth = Map::new();
    truth.insert("weights".into(), json!(weights.chunks_exact(columns + 1).map(|w| &w[..columns]).collect::<Vec<_>>()));
    truth.insert("intercepts".into(), json!(weights.chunks_exact(columns + 1).map(|w| w[columns]).collect::<Vec<_>>()));
    Ok(Simulation { data, truth })
}
