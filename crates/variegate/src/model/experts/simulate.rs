//! Data from the prior: standard normal columns, weights from the prior, experts and classes from the mixture.

use rand_distr::{Distribution, StandardNormal};
use serde_json::{Map, json};

use super::point_prior::PointPrior;
use super::settings::{Intercept, Settings};
use super::shape::Shape;
use crate::data::{Classes, Dataset, Matrix, Target};
use crate::linalg::dot;
use crate::model::Simulation;
use crate::run::{Philox, Purpose, Stream, open01};
use crate::{Error, Result, settings};

settings! {
    /// What to simulate.
    pub(super) struct Request {
        /// Number of feature columns.
        columns: usize = 4, in whole(1, 5000);
        /// Number of classes.
        classes: usize = 2, in whole(2, 1000);
    }
}

/// Weights are drawn anew until every class occurs; so often at most.
const TRIES: u64 = 1000;

/// An index with these probabilities.
fn choose(probability: &[f64], rng: &mut Philox) -> usize {
    let mut left = open01(rng);
    let found = probability.iter().position(|p| {
        left -= p;
        left < 0.0
    });
    found.unwrap_or(probability.len() - 1)
}

/// Expert and class of a design row under weights as rows multiply them.
pub(super) fn outcome(shape: &Shape, weights: &[f64], row: &[f64], rng: &mut Philox) -> (usize, u32) {
    let gated = shape.gated();
    let scores: Vec<f64> = weights.chunks_exact(row.len()).map(|w| dot(w, row)).collect();
    let (mut gates, mut classes) = (vec![0.0; shape.experts], vec![0.0; shape.experts * shape.classes]);
    gated.probabilities(&scores, &mut gates, &mut classes);
    let expert = choose(&gates, rng);
    (expert, choose(&classes[expert * shape.classes..(expert + 1) * shape.classes], rng) as u32)
}

pub(super) fn simulate(settings: &Settings, rows: usize, request: &Request, seed: u64) -> Result<Simulation> {
    if rows < request.classes {
        return Err(Error::setting("rows", rows, format!("at least {}, one a class", request.classes)));
    }
    let columns = request.columns;
    let ones = settings.intercept != Intercept::None;
    let augmented = settings.intercept == Intercept::Augment;
    let shape = Shape::new(settings.experts as usize, request.classes, columns + usize::from(augmented), ones && !augmented);
    let point_prior = PointPrior::new(settings, &shape);
    let stream = Stream::new(seed, 0, Purpose::Simulate);
    let mut rng = stream.rng();
    let x: Vec<f64> = (0..rows * columns).map(|_| StandardNormal.sample(&mut rng)).collect();
    for attempt in 1..=TRIES {
        let mut rng = stream.item(attempt).rng();
        let point = point_prior.sample(&shape, &mut rng)?;
        let (mut plain, mut weights) = (Vec::new(), Vec::new());
        shape.plain(&point, &mut plain);
        shape.weights(&plain, &mut weights);
        let (mut experts, mut codes) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
        let mut row = vec![1.0; columns + usize::from(ones)];
        for x in x.chunks_exact(columns) {
            row[..columns].copy_from_slice(x);
            let (expert, class) = outcome(&shape, &weights, &row, &mut rng);
            experts.push(expert);
            codes.push(class);
        }
        let names: Vec<String> = (0..request.classes).map(|c| format!("c{}", c + 1)).collect();
        if (0..request.classes as u32).any(|c| !codes.contains(&c)) {
            continue;
        }
        let dim = row.len();
        let vectors: Vec<&[f64]> = weights.chunks_exact(dim).collect();
        let (gates, of_experts) = vectors.split_at(shape.gates());
        let units = of_experts.len() / shape.experts;
        let truth = Map::from_iter([
            ("gates".to_string(), json!(gates)),
            ("experts".to_string(), json!(of_experts.chunks(units).collect::<Vec<_>>())),
            ("expert_of_row".to_string(), json!(experts)),
        ]);
        let mut data = Dataset::new(Matrix::dense(rows, columns, x)).with_target(Target::Classes(Classes { codes, names }));
        data.columns = (1..=columns).map(|j| format!("x{j}")).collect();
        return Ok(Simulation { data, truth });
    }
    Err(Error::Unfit(format!("{TRIES} draws from the prior left a class without rows: ask for more rows or fewer classes")))
}
