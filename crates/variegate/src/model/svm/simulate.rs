//! Data by the classes' shares of the pseudo-likelihood: standard normal columns, weights from the prior, classes by [`hinge_probability`].
//!
//! The hinge is no distribution of classes; its shares are the distribution that predictions speak of, and that is what is drawn from.

use rand_distr::{Distribution, StandardNormal};
use serde_json::{Map, json};

use super::Settings;
use super::gibbs::Point;
use crate::check::generative::{draw_until, normal_features};
use crate::data::{Classes, Dataset, Matrix, Target};
use crate::linalg::dot;
use crate::model::linear::classifier::hinge_probability;
use crate::model::{Simulation, Truth};
use crate::run::{Philox, Purpose, Stream, open01};
use crate::{Error, Result, settings};

settings! {
    /// What to simulate.
    pub(super) struct Request {
        /// Number of feature columns.
        columns: usize = 3, in whole(1, 5000);
        /// Number of classes.
        classes: usize = 2, in whole(2, 1000);
    }
}

/// A draw of classes of which one has no row could not be fitted, so it is put back, at most this often.
const TRIES: u64 = 1000;
/// Precisions stay within these: a small shape draws some that underflow, and their weights would not be finite.
const PRECISIONS: (f64, f64) = (1e-200, 1e200);

/// Weights of so many classifiers from the prior, and their precisions.
pub(super) fn prior(settings: &Settings, columns: usize, classifiers: usize, rng: &mut Philox) -> Result<Point> {
    let (mut weights, mut precision) = (Vec::new(), Vec::new());
    for _ in 0..classifiers {
        let tau = settings.precision().draw(rng)?.clamp(PRECISIONS.0, PRECISIONS.1);
        let mut normal = |p: f64| {
            let z: f64 = StandardNormal.sample(rng);
            z / p.sqrt()
        };
        weights.extend((0..columns).map(|_| normal(tau)));
        if settings.fit_intercept {
            weights.push(normal(settings.bias_precision));
        }
        precision.push(tau);
    }
    Ok(Point { weights, precision })
}

/// Classes of rows given the weights of the classifiers (the bias last where there is one).
pub(super) fn classes(weights: &[f64], x: &Matrix<'_>, classes: usize, rng: &mut Philox) -> Dataset<'static> {
    let (columns, count) = (x.cols(), if classes == 2 { 1 } else { classes });
    let dim = weights.len() / count;
    let draw = |row: &[f64]| {
        let score = |w: &[f64]| dot(row, &w[..columns]) + w[columns..].iter().sum::<f64>();
        let share = |w: &[f64]| hinge_probability(score(w));
        if classes == 2 {
            return u32::from(open01(rng) < share(weights));
        }
        let shares: Vec<f64> = weights.chunks_exact(dim).map(share).collect();
        let mut left = open01(rng) * shares.iter().sum::<f64>();
        let passed = shares.iter().take_while(|p| {
            left -= **p;
            left >= 0.0
        });
        (passed.count() as u32).min(classes as u32 - 1)
    };
    let codes = x.to_dense().chunks_exact(columns).map(draw).collect();
    let names =
        if classes == 2 { vec!["no".to_string(), "yes".to_string()] } else { (1..=classes).map(|c| format!("class {c}")).collect() };
    let x = Matrix::dense(x.rows(), columns, x.to_dense());
    Dataset::new(x).with_target(Target::Classes(Classes { codes, names }))
}

pub(super) fn simulate(settings: &Settings, rows: usize, request: &Request, seed: u64) -> Result<Simulation> {
    let (columns, count) = (request.columns, classifiers(request));
    let stream = Stream::new(seed, 0, Purpose::Simulate);
    let x = normal_features(rows, columns, &mut stream.item(0).rng());
    let draw = |rng: &mut Philox| {
        let point = prior(settings, columns, count, rng)?;
        let data = classes(&point.weights, &x, request.classes, rng);
        Ok((point, data))
    };
    let each = |(_, data): &(_, Dataset<'_>)| matches!(&data.target, Target::Classes(c) if (0..request.classes as u32).all(|k| c.codes.contains(&k)));
    let Some(((point, data), _)) = draw_until(stream, 1..=TRIES, draw, each)? else {
        return Err(Error::Unfit("nothing was drawn".into()));
    };
    let dim = columns + usize::from(settings.fit_intercept);
    let coefficients: Vec<&[f64]> = point.weights.chunks_exact(dim).map(|w| &w[..columns]).collect();
    let intercepts: Vec<f64> = point.weights.chunks_exact(dim).map(|w| w[columns..].iter().sum()).collect();
    let truth = [("coefficients", json!(coefficients)), ("intercepts", json!(intercepts)), ("precisions", json!(point.precision))];
    Ok(Simulation { data: named(data), truth: Map::from_iter(truth.map(|(name, value)| (name.to_string(), value))) })
}

pub(super) fn simulate_more(_: &Settings, rows: usize, request: &Request, truth: &Truth<'_>, seed: u64) -> Result<Simulation> {
    let (columns, count) = (request.columns, classifiers(request));
    let coefficients = truth.table("coefficients", count, columns)?;
    let intercepts = truth.numbers("intercepts", count)?;
    let weights: Vec<f64> = coefficients.chunks_exact(columns).zip(intercepts).flat_map(|(w, b)| w.iter().copied().chain([b])).collect();
    let stream = Truth::stream(seed);
    let x = normal_features(rows, columns, &mut stream.item(0).rng());
    let data = classes(&weights, &x, request.classes, &mut stream.item(1).rng());
    Ok(Simulation { data: named(data), truth: truth.told() })
}

fn classifiers(request: &Request) -> usize {
    if request.classes == 2 { 1 } else { request.classes }
}

fn named(mut data: Dataset<'static>) -> Dataset<'static> {
    data.columns = (0..data.x.cols()).map(|j| format!("x{}", j + 1)).collect();
    data
}
