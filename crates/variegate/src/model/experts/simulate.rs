//! The mixture as a distribution, and data drawn from it: standard normal columns, weights from the prior, experts and classes from the mixture.

use serde_json::{Map, json};

use super::hyper;
use super::point_prior::PointPrior;
use super::settings::{Hyper, Intercept, Settings};
use super::shape::Shape;
use crate::check::Generative;
use crate::check::generative::{draw_until, normal_features};
use crate::data::{Classes, Dataset, Matrix, Target};
use crate::linalg::dot;
use crate::model::{Simulation, Truth};
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
fn outcome(shape: &Shape, weights: &[f64], row: &[f64], rng: &mut Philox) -> (usize, u32) {
    let gated = shape.gated();
    let scores: Vec<f64> = weights.chunks_exact(row.len()).map(|w| dot(w, row)).collect();
    let (mut gates, mut classes) = (vec![0.0; shape.experts], vec![0.0; shape.experts * shape.classes]);
    gated.probabilities(&scores, &mut gates, &mut classes);
    let expert = choose(&gates, rng);
    (expert, choose(&classes[expert * shape.classes..(expert + 1) * shape.classes], rng) as u32)
}

/// The mixture as a distribution.
#[derive(Debug, Clone)]
pub(super) struct Mixture {
    pub(super) shape: Shape,
    pub(super) point_prior: PointPrior,
    hyper: Hyper,
}

/// What is drawn for the rows.
struct Outcomes {
    experts: Vec<usize>,
    codes: Vec<u32>,
}

impl Mixture {
    /// The mixture that is set, over so many columns and classes.
    pub(super) fn new(settings: &Settings, columns: usize, classes: usize) -> Self {
        let (ones, augmented) = (settings.intercept != Intercept::None, settings.intercept == Intercept::Augment);
        let shape = Shape::new(settings.experts as usize, classes, columns + usize::from(augmented), ones && !augmented);
        let point_prior = PointPrior::new(settings, &shape);
        // what `ml` does to hyperparameters is a matter of fitting: there is no prior to draw them from
        let hyper = if settings.hyper == Hyper::Sample { Hyper::Sample } else { Hyper::Fixed };
        Self { shape, point_prior, hyper }
    }

    /// Weights of a point as rows multiply them.
    pub(super) fn weights(&self, point: &[f64]) -> Vec<f64> {
        let (mut plain, mut weights) = (Vec::new(), Vec::new());
        self.shape.plain(point, &mut plain);
        self.shape.weights(&plain, &mut weights);
        weights
    }

    /// Experts and classes of the rows.
    fn outcomes(&self, point: &[f64], x: &Matrix<'_>, rng: &mut Philox) -> Outcomes {
        self.outcomes_of(&self.weights(point), x, rng)
    }

    /// The same of weights as rows multiply them.
    fn outcomes_of(&self, weights: &[f64], x: &Matrix<'_>, rng: &mut Philox) -> Outcomes {
        let (mut experts, mut codes) = (Vec::with_capacity(x.rows()), Vec::with_capacity(x.rows()));
        let mut row = vec![1.0; self.shape.dim()];
        for x in x.to_dense().chunks_exact(x.cols()) {
            row[..x.len()].copy_from_slice(x);
            let (expert, class) = outcome(&self.shape, weights, &row, rng);
            experts.push(expert);
            codes.push(class);
        }
        Outcomes { experts, codes }
    }

    fn dataset(&self, x: Matrix<'static>, codes: Vec<u32>) -> Dataset<'static> {
        let names = (1..=self.shape.classes).map(|c| format!("c{c}")).collect();
        Dataset::new(x).with_target(Target::Classes(Classes { codes, names }))
    }
}

impl Generative for Mixture {
    /// A point, and the distribution it was drawn from.
    type Unknowns = (Vec<f64>, PointPrior);
    type Given = Matrix<'static>;

    fn prior(&self, rng: &mut Philox) -> Result<(Vec<f64>, PointPrior)> {
        let mut point_prior = self.point_prior.clone();
        if self.hyper == Hyper::Sample {
            hyper::sample_prior(&mut point_prior, &self.shape, rng)?;
        }
        Ok((point_prior.sample(&self.shape, rng)?, point_prior))
    }

    fn data(&self, (point, _): &(Vec<f64>, PointPrior), x: &Matrix<'static>, rng: &mut Philox) -> Result<Dataset<'static>> {
        Ok(self.dataset(x.clone(), self.outcomes(point, x, rng).codes))
    }
}

/// Hyperparameters are as set.
pub(super) fn simulate(settings: &Settings, rows: usize, request: &Request, seed: u64) -> Result<Simulation> {
    if rows < request.classes {
        return Err(Error::setting("rows", rows, format!("at least {}, one a class", request.classes)));
    }
    let columns = request.columns;
    let model = Mixture { hyper: Hyper::Fixed, ..Mixture::new(settings, columns, request.classes) };
    let stream = Stream::new(seed, 0, Purpose::Simulate);
    let x = normal_features(rows, columns, &mut stream.rng());
    let draw = |rng: &mut Philox| {
        let (point, _) = model.prior(rng)?;
        let outcomes = model.outcomes(&point, &x, rng);
        Ok((point, outcomes))
    };
    let all = |(_, o): &(_, Outcomes)| (0..request.classes as u32).all(|c| o.codes.contains(&c));
    let Some(((point, outcomes), true)) = draw_until(stream, 1..=TRIES, draw, all)? else {
        return Err(Error::Unfit(format!("{TRIES} draws from the prior left a class without rows: ask for more rows or fewer classes")));
    };
    Ok(told(&model, &model.weights(&point), x, outcomes))
}

pub(super) fn simulate_more(settings: &Settings, rows: usize, request: &Request, truth: &Truth<'_>, seed: u64) -> Result<Simulation> {
    let columns = request.columns;
    let model = Mixture::new(settings, columns, request.classes);
    let (dim, gates, experts) = (model.shape.dim(), model.shape.gates(), model.shape.experts);
    let units = (model.shape.vectors() - gates) / experts;
    let mut weights = truth.table("gates", gates, dim)?;
    weights.extend(truth.tables("experts", experts, units, dim)?);
    let stream = Truth::stream(seed);
    let x = normal_features(rows, columns, &mut stream.item(0).rng());
    let outcomes = model.outcomes_of(&weights, &x, &mut stream.item(1).rng());
    Ok(told(&model, &weights, x, outcomes))
}

fn told(model: &Mixture, weights: &[f64], x: Matrix<'static>, outcomes: Outcomes) -> Simulation {
    let columns = x.cols();
    let vectors: Vec<&[f64]> = weights.chunks_exact(model.shape.dim()).collect();
    let (gates, of_experts) = vectors.split_at(model.shape.gates());
    let units = of_experts.len() / model.shape.experts;
    let truth = Map::from_iter([
        ("gates".to_string(), json!(gates)),
        ("experts".to_string(), json!(of_experts.chunks(units).collect::<Vec<_>>())),
        ("expert_of_row".to_string(), json!(outcomes.experts)),
    ]);
    let mut data = model.dataset(x, outcomes.codes);
    data.columns = (1..=columns).map(|j| format!("x{j}")).collect();
    Simulation { data, truth }
}
