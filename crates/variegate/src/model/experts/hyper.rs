//! Hyperparameters that move: sampled under priors of their own, or chosen to maximise the likelihood.
//!
//! `sample`, once a sweep: rates α₂ ~ Gamma(2, 4) have the conditional Gamma(2 + Kα₁, 4 + Σg); shapes α₁ ~ Gamma(2, 1) are slice
//! sampled on their logarithm, with density 2l − e^l + K(α₁ ln α₂ − ln Γ(α₁)) + (α₁ − 1)Σ ln g; concentrations have ln κ ~ N(ln(P/2), 1),
//! P the dimension of the directions, and are slice sampled on it against the normalised density of the chain.
//!
//! `ml` is Monte Carlo EM within the warm-up: a round of 20 sweeps (each round a tenth longer than the one before) collects what the
//! complete-data likelihood depends on, then that is maximised exactly: over shape and rate of lengths, over where the first
//! direction points (the mean of its draws) and over the concentration. After the warm-up nothing moves. Note that where the
//! first direction points is learned from one vector: it says little.
//!
//! A Gaussian prior has nothing to learn, a determinantal one only its lengths: its normaliser is unknown as a function of the kernel.

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};

use super::law::{Law, Side, Size};
use super::settings::Hyper;
use super::shape::Shape;
use crate::dist::Gamma;
use crate::infer::slice::SliceSampler;
use crate::linalg::dot;
use crate::prior::{Directions, MAX_KAPPA, Pulls};
use crate::special::{digamma, ln_gamma, trigamma};
use crate::{Error, Result};

/// Shape and rate of the prior of a rate.
const RATE: (f64, f64) = (2.0, 4.0);
/// Shape and rate of the prior of a shape.
const SHAPE: (f64, f64) = (2.0, 1.0);
/// Sweeps of the first round, and the growth from round to round.
const ROUND: (f64, f64) = (20.0, 1.1);
/// Largest shape that is learned: lengths that are all but equal have no largest likelihood.
const MOST_SHAPE: f64 = 1e4;

/// What a round has collected so far.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Learning {
    /// Rounds that are over.
    rounds: u32,
    /// Sweeps of the present one.
    sweeps: u32,
    /// Of the experts, then of the gates.
    tallies: Vec<Tally>,
}

/// What the likelihood of the hyperparameters of one side depends on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Tally {
    /// Number of lengths, their sum and that of their logarithms.
    count: f64,
    sum: f64,
    ln_sum: f64,
    /// Sum of the first directions.
    first: Vec<f64>,
    /// What the concentration depends on, but for the first directions.
    pulls: Pulls,
}

/// One update at the end of a sweep.
pub fn update<R: Rng + ?Sized>(
    hyper: Hyper,
    learning: &mut Learning,
    law: &mut Law,
    shape: &Shape,
    point: &[f64],
    warm_up: bool,
    rng: &mut R,
) -> Result<()> {
    match hyper {
        Hyper::Fixed => Ok(()),
        Hyper::Sample => sample(law, shape, point, rng),
        Hyper::Ml if warm_up => {
            learning.learn(law, shape, point);
            Ok(())
        }
        Hyper::Ml => Ok(()),
    }
}

/// Both sides to change, with their dimension; one expert has no gates.
fn sides<'a>(law: &'a mut Law, shape: &Shape) -> Vec<(&'a mut Side, usize)> {
    let Law { experts, gates, .. } = law;
    let mut out = vec![(experts, shape.expert_dim())];
    if shape.gates() > 0 {
        out.push((gates, shape.inputs));
    }
    out
}

/// Places of the directions and of the lengths of both sides.
fn places(shape: &Shape) -> [(std::ops::Range<usize>, std::ops::Range<usize>); 2] {
    [(shape.expert_directions(), shape.expert_sizes()), (shape.gate_directions(), shape.gate_sizes())]
}

/// Mean of the prior of ln κ.
fn ln_kappa_mean(dim: usize) -> f64 {
    (0.5 * dim as f64).ln()
}

/// Draws hyperparameters from the priors that `sample` gives them, in place of those of the law.
pub fn sample_prior<R: Rng + ?Sized>(law: &mut Law, shape: &Shape, rng: &mut R) -> Result<()> {
    for (side, dim) in sides(law, shape) {
        if let Size::Gamma { shape, rate } = &mut side.size {
            *shape = Gamma::new(SHAPE.0, SHAPE.1)?.sample(rng);
            *rate = Gamma::new(RATE.0, RATE.1)?.sample(rng);
        }
        if let Directions::MutualAngular(chain) = &mut side.directions {
            let z: f64 = StandardNormal.sample(rng);
            chain.kappa = (ln_kappa_mean(dim) + z).exp().min(MAX_KAPPA);
        }
    }
    Ok(())
}

/// Draws every hyperparameter given the point and the others.
fn sample<R: Rng + ?Sized>(law: &mut Law, shape: &Shape, point: &[f64], rng: &mut R) -> Result<()> {
    for ((side, dim), (directions, sizes)) in sides(law, shape).into_iter().zip(places(shape)) {
        if let Size::Gamma { shape, rate } = &mut side.size {
            let sizes = &point[sizes];
            let (count, sum) = (sizes.len() as f64, sizes.iter().map(|u| u.exp()).sum::<f64>());
            *rate = Gamma::new(RATE.0 + count * *shape, RATE.1 + sum)?.sample(rng);
            *shape = sample_shape(*shape, *rate, count, sizes.iter().sum(), rng)?;
        }
        if let Directions::MutualAngular(chain) = &mut side.directions {
            let mut pulls = Pulls::new(dim);
            pulls.add(chain, &point[directions]);
            let mean = ln_kappa_mean(dim);
            let bounded = SliceSampler { upper: MAX_KAPPA.ln(), ..SliceSampler::default() };
            // a concentration of 0 has no logarithm: begin next to it
            let from = chain.kappa.max(f64::MIN_POSITIVE).ln();
            let density = |l: f64| pulls.ln_density(l.exp()) - 0.5 * (l - mean) * (l - mean);
            chain.kappa = bounded.step(from, density, rng).map_err(stuck)?.x.exp();
        }
    }
    Ok(())
}

/// One slice step of ln α₁ given the rate, and the number and the sum of logarithms of the lengths.
fn sample_shape<R: Rng + ?Sized>(shape: f64, rate: f64, count: f64, ln_sum: f64, rng: &mut R) -> Result<f64> {
    let density = |l: f64| {
        let a = l.exp();
        SHAPE.0 * l - SHAPE.1 * a + count * (a * rate.ln() - ln_gamma(a)) + (a - 1.0) * ln_sum
    };
    Ok(SliceSampler::default().step(shape.ln(), density, rng).map_err(stuck)?.x.exp())
}

fn stuck(error: crate::infer::slice::NoSlice) -> Error {
    Error::Unfit(format!("a hyperparameter cannot be sampled ({error}); set `hyper` to `fixed`"))
}

impl Learning {
    /// Takes in a point; at the end of a round the law moves to where its likelihood is largest.
    fn learn(&mut self, law: &mut Law, shape: &Shape, point: &[f64]) {
        let sides = sides(law, shape);
        if self.tallies.is_empty() {
            self.tallies = sides.iter().map(|(_, dim)| Tally::new(*dim)).collect();
        }
        for ((tally, (side, _)), (directions, sizes)) in self.tallies.iter_mut().zip(&sides).zip(places(shape)) {
            tally.add(side, &point[directions], &point[sizes]);
        }
        self.sweeps += 1;
        if f64::from(self.sweeps) < (ROUND.0 * ROUND.1.powi(self.rounds as i32)).floor() {
            return;
        }
        for (tally, (side, _)) in self.tallies.drain(..).zip(sides) {
            tally.maximise(side, self.sweeps);
        }
        (self.rounds, self.sweeps) = (self.rounds + 1, 0);
    }
}

impl Tally {
    fn new(dim: usize) -> Self {
        Self { count: 0.0, sum: 0.0, ln_sum: 0.0, first: vec![0.0; dim], pulls: Pulls::new(dim) }
    }

    fn add(&mut self, side: &Side, directions: &[f64], sizes: &[f64]) {
        self.count += sizes.len() as f64;
        self.sum += sizes.iter().map(|u| u.exp()).sum::<f64>();
        self.ln_sum += sizes.iter().sum::<f64>();
        if let Directions::MutualAngular(chain) = &side.directions {
            self.first.iter_mut().zip(directions).for_each(|(s, a)| *s += a);
            // where the first direction points is not known before the round is over
            self.pulls.add(&crate::prior::MutualAngular { first: None, ..chain.clone() }, directions);
        }
    }

    fn maximise(mut self, side: &mut Side, sweeps: u32) {
        if let Size::Gamma { shape, rate } = &mut side.size {
            (*shape, *rate) = most_likely_gamma(self.sum / self.count, self.ln_sum / self.count);
        }
        if let Directions::MutualAngular(chain) = &mut side.directions {
            let length = dot(&self.first, &self.first).sqrt();
            if length > 0.0 {
                self.first.iter_mut().for_each(|v| *v /= length);
                self.pulls.add_first(sweeps as usize, length);
                chain.first = Some(self.first);
            }
            chain.kappa = self.pulls.kappa();
        }
    }
}

/// Shape and rate of largest likelihood of a Gamma law, from the mean and the mean logarithm.
fn most_likely_gamma(mean: f64, mean_ln: f64) -> (f64, f64) {
    let gap = mean.ln() - mean_ln;
    let mut shape = (3.0 - gap + ((gap - 3.0) * (gap - 3.0) + 24.0 * gap).sqrt()) / (12.0 * gap);
    // rounding may leave no gap, or less than none, between equal lengths
    if !(gap > 0.0 && shape < MOST_SHAPE) {
        return (MOST_SHAPE, MOST_SHAPE / mean);
    }
    for _ in 0..100 {
        let step = (shape.ln() - digamma(shape) - gap) / (shape * shape * (1.0 / shape - trigamma(shape)));
        let next = 1.0 / (1.0 / shape + step);
        let done = (next - shape).abs() <= 1e-14 * shape;
        shape = next;
        if done {
            break;
        }
    }
    let shape = shape.min(MOST_SHAPE);
    (shape, shape / mean)
}
