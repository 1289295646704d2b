//! Data from the prior: standard normal columns, precisions and weights from the prior, labels from the model.

use rand_distr::{Distribution, Gamma, StandardNormal};
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};

use super::Settings;
use super::tilted::softmax;
use crate::data::{Classes, Dataset, Design, Matrix, Target};
use crate::linalg::dot;
use crate::model::{Kind, Setting, Simulation};
use crate::run::{Purpose, Stream, open01};
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

/// Weights from the prior, K×D, bias last.
pub(super) fn weights(settings: &Settings, classes: usize, design: &Design, stream: Stream) -> Result<Vec<f64>> {
    let mut rng = stream.rng();
    let shape = Gamma::new(settings.a0, 1.0).map_err(|e| Error::setting("a0", settings.a0, format!("a shape to draw from ({e})")))?;
    let precisions = settings.prior(classes, design).draw(|_, rate| shape.sample(&mut rng) / rate);
    let weights = precisions
        .iter()
        .map(|p| {
            let z: f64 = StandardNormal.sample(&mut rng);
            // a tiny shape draws precisions that underflow; their weights would not be finite
            z / p.max(1e-200).sqrt()
        })
        .collect();
    Ok(weights)
}

pub(super) fn simulate(settings: &Settings, rows: usize, request: &Request, seed: u64) -> Result<Simulation> {
    let (columns, classes) = (request.columns, request.classes);
    let design = Design::identity(columns, true);
    let stream = Stream::new(seed, 0, Purpose::Simulate);
    let weights = weights(settings, classes, &design, stream.item(0))?;
    let mut rng = stream.item(1).rng();
    let (mut values, mut codes) = (Vec::with_capacity(rows * columns), Vec::with_capacity(rows));
    let (mut row, mut z) = (vec![1.0; columns + 1], vec![0.0; classes]);
    for _ in 0..rows {
        for v in &mut row[..columns] {
            *v = StandardNormal.sample(&mut rng);
        }
        for (z, w) in z.iter_mut().zip(weights.chunks_exact(columns + 1)) {
            *z = dot(w, &row);
        }
        softmax(&mut z);
        let mut left = open01(&mut rng);
        let code = z.iter().position(|p| {
            left -= p;
            left < 0.0
        });
        codes.push(code.unwrap_or(classes - 1) as u32);
        values.extend_from_slice(&row[..columns]);
    }
    let names = (1..=classes).map(|c| format!("c{c}")).collect();
    let mut data = Dataset::new(Matrix::dense(rows, columns, values)).with_target(Target::Classes(Classes { codes, names }));
    data.columns = (0..columns).map(|j| format!("x{}", j + 1)).collect();
    let mut truth = Map::new();
    truth.insert("weights".into(), json!(weights.chunks_exact(columns + 1).map(|w| &w[..columns]).collect::<Vec<_>>()));
    truth.insert("intercepts".into(), json!(weights.chunks_exact(columns + 1).map(|w| w[columns]).collect::<Vec<_>>()));
    Ok(Simulation { data, truth })
}
