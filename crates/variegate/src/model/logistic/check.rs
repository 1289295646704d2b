//! The sampler as the checks see it: five points with one to three trials each, a bias and two columns, weights from
//! the prior, labels from the model.
//!
//! A sweep draws every ω afresh given the weights, so the weights alone are what it conditions on. Several trials at a point give
//! rows of weight 0 to 3, so that PG(b, c) is checked for each of these b.

use rand_distr::{Distribution, StandardNormal};

use super::Gibbs;
use super::gibbs::State;
use crate::Result;
use crate::check::{Checkable, Installed};
use crate::data::{Classes, Dataset, Design, Matrix, Target};
use crate::linalg::dot;
use crate::run::{Block, Philox, open01};
use crate::special::{log1p_exp, sigmoid};

const POINTS: usize = 5;
/// Prior precisions of the two columns and the bias; not all equal, so that a mixed-up order shows.
const PRECISION: [f64; 3] = [1.0, 2.0, 0.5];
const TRIALS: [f64; POINTS] = [1.0, 2.0, 1.0, 3.0, 1.0];

/// Subject of the checks.
pub struct Subject;

impl Subject {
    fn design() -> Design {
        Design::identity(2, true)
    }
}

/// Rows of the design, the bias last.
fn rows(data: &Dataset<'_>) -> Vec<[f64; 3]> {
    (0..data.rows())
        .map(|i| {
            let mut row = [0.0, 0.0, 1.0];
            data.x.view().for_row(i, |j, v| row[j] = v);
            row
        })
        .collect()
}

impl Checkable for Subject {
    type Program = Gibbs;
    type Unknowns = Vec<f64>;

    fn block_rows(&self) -> usize {
        2
    }

    fn prior(&self, rng: &mut Philox) -> Result<Vec<f64>> {
        Ok(PRECISION
            .iter()
            .map(|p| {
                let z: f64 = StandardNormal.sample(rng);
                z / p.sqrt()
            })
            .collect())
    }

    /// b trials on the same features become one row for the successes and one for the failures, weighted by their number.
    fn simulate(&self, weights: &Vec<f64>, rng: &mut Philox) -> Result<Dataset<'static>> {
        let (mut x, mut codes, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        for b in TRIALS {
            let row: [f64; 2] = [StandardNormal.sample(rng), StandardNormal.sample(rng)];
            let p = sigmoid(weights[2] + dot(&row, &weights[..2]));
            let successes = (0..b as u32).filter(|_| open01(rng) < p).count() as f64;
            for (code, count) in [(1, successes), (0, b - successes)] {
                x.extend(row);
                codes.push(code);
                counts.push(count);
            }
        }
        let names = vec!["no".into(), "yes".into()];
        let mut data = Dataset::new(Matrix::dense(2 * POINTS, 2, x)).with_target(Target::Classes(Classes { codes, names }));
        data.weights = Some(counts);
        Ok(data)
    }

    fn program(&self, _: &Dataset<'_>) -> Result<Gibbs> {
        Ok(Gibbs { design: Self::design(), precision: PRECISION.to_vec() })
    }

    fn install(&self, _: &Gibbs, weights: Vec<f64>, _: &[Block<'_>]) -> Result<Installed<Gibbs>> {
        Ok(Installed { global: State::at(weights), locals: None })
    }

    fn recover(&self, _: &Gibbs, state: &State, _: &[()]) -> Result<Vec<f64>> {
        Ok(state.weights.clone())
    }

    fn names(&self) -> Vec<String> {
        ["w1", "w2", "bias", "w1²", "w2²", "bias²", "w1·w2", "w1·bias", "w2·bias", "log likelihood", "score 1", "score 2", "score bias"]
            .map(String::from)
            .to_vec()
    }

    fn functions(&self, w: &Vec<f64>, data: &Dataset<'_>, out: &mut Vec<f64>) {
        out.extend([w[0], w[1], w[2], w[0] * w[0], w[1] * w[1], w[2] * w[2], w[0] * w[1], w[0] * w[2], w[1] * w[2]]);
        let Target::Classes(classes) = &data.target else { return };
        let (mut log_likelihood, mut score) = (0.0, [0.0; 3]);
        for (i, row) in rows(data).iter().enumerate() {
            let b = data.weights.as_ref().map_or(1.0, |w| w[i]);
            let (y, eta) = (classes.codes[i] as f64, dot(row, w));
            log_likelihood += b * (y * eta - log1p_exp(eta));
            for (s, v) in score.iter_mut().zip(row) {
                *s += b * (y - sigmoid(eta)) * v;
            }
        }
        out.push(log_likelihood);
        out.extend(score);
    }
}
