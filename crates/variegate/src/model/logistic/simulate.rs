//! The model as a distribution, and data drawn from it: standard normal columns, weights from the prior, labels from the model.

use rand_distr::{Distribution, StandardNormal};
use serde_json::{Map, json};

use super::{Gibbs, Settings};
use crate::check::Generative;
use crate::check::generative::{draw_until, normal_features};
use crate::data::{Classes, Dataset, Design, Matrix, Target};
use crate::linalg::dot;
use crate::model::{Simulation, Truth};
use crate::run::{Philox, Purpose, Stream, open01};
use crate::special::sigmoid;
use crate::{Error, Result, settings};

settings! {
    /// What to simulate.
    pub(super) struct Request {
        /// Number of feature columns.
        columns: usize = 3, in whole(1, 5000);
    }
}

/// A draw of weights and labels with one class only could not be fitted, so it is put back, at most this often.
const TRIES: u64 = 1000;

/// Columns are taken as they are: the design of a simulation is the identity.
impl Generative for Gibbs {
    /// Weights of the design columns.
    type Unknowns = Vec<f64>;
    type Given = Matrix<'static>;

    fn prior(&self, rng: &mut Philox) -> Result<Vec<f64>> {
        let weight = |p: &f64| {
            let z: f64 = StandardNormal.sample(rng);
            z / p.sqrt()
        };
        Ok(self.precision.iter().map(weight).collect())
    }

    fn data(&self, weights: &Vec<f64>, x: &Matrix<'static>, rng: &mut Philox) -> Result<Dataset<'static>> {
        let (weights, bias) = parts(weights, x.cols());
        let codes = x.to_dense().chunks_exact(x.cols()).map(|row| u32::from(open01(rng) < sigmoid(bias + dot(row, weights)))).collect();
        let names = vec!["no".to_string(), "yes".to_string()];
        Ok(Dataset::new(x.clone()).with_target(Target::Classes(Classes { codes, names })))
    }
}

/// Weights of the columns, and the bias.
fn parts(weights: &[f64], columns: usize) -> (&[f64], f64) {
    (&weights[..columns], weights.get(columns).copied().unwrap_or(0.0))
}

pub(super) fn simulate(settings: &Settings, rows: usize, request: &Request, seed: u64) -> Result<Simulation> {
    let columns = request.columns;
    let model = settings.program(Design::identity(columns, settings.fit_intercept));
    let stream = Stream::new(seed, 0, Purpose::Simulate);
    let x = normal_features(rows, columns, &mut stream.item(0).rng());
    let draw = |rng: &mut Philox| {
        let weights = model.prior(rng)?;
        let data = model.data(&weights, &x, rng)?;
        Ok((weights, data))
    };
    let both = |(_, data): &(_, Dataset<'_>)| matches!(&data.target, Target::Classes(c) if c.codes.contains(&0) && c.codes.contains(&1));
    let Some(((weights, mut data), _)) = draw_until(stream, 1..=TRIES, draw, both)? else {
        return Err(Error::Unfit("nothing was drawn".into()));
    };
    data.columns = (0..columns).map(|j| format!("x{}", j + 1)).collect();
    let (coefficients, intercept) = parts(&weights, columns);
    let truth = Map::from_iter([("coefficients".to_string(), json!(coefficients)), ("intercept".to_string(), json!(intercept))]);
    Ok(Simulation { data, truth })
}

pub(super) fn simulate_more(settings: &Settings, rows: usize, request: &Request, truth: &Truth<'_>, seed: u64) -> Result<Simulation> {
    let columns = request.columns;
    let mut weights = truth.numbers("coefficients", columns)?;
    weights.push(truth.number("intercept")?);
    let model = settings.program(Design::identity(columns, settings.fit_intercept));
    let stream = Truth::stream(seed);
    let x = normal_features(rows, columns, &mut stream.item(0).rng());
    let mut data = model.data(&weights, &x, &mut stream.item(1).rng())?;
    data.columns = (0..columns).map(|j| format!("x{}", j + 1)).collect();
    Ok(Simulation { data, truth: truth.told() })
}
