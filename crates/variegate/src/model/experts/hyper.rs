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

use super::point_prior::{PointPrior, Side, Size};
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
pub(super) struct Learning {
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
pub(super) fn update<R: Rng + ?Sized>(
    hyper: Hyper,
    learning: &mut Learning,
    point_prior: &mut PointPrior,
    shape: &Shape,
    point: &[f64],
    warm_up: bool,
    rng: &mut R,
) -> Result<()> {
    match hyper {
        Hyper::Fixed => Ok(()),
        Hyper::Sample => sample(point_prior, shape, point, rng),
        Hyper::Ml if warm_up => {
            learning.learn(point_prior, shape, point);
            Ok(())
        }
        Hyper::Ml => Ok(()),
    }
}

/// Both sides to change, with their dimension; one expert has no gates.
fn sides<'a>(point_prior: &'a mut PointPrior, shape: &Shape) -> Vec<(&'a mut Side, usize)> {
    let PointPrior { experts, gates, .. } = point_prior;
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

/// Draws hyperparameters from the priors that `sample` gives them, in place of those it has.
pub(super) fn sample_prior<R: Rng + ?Sized>(point_prior: &mut PointPrior, shape: &Shape, rng: &mut R) -> Result<()> {
    for (side, dim) in sides(point_prior, shape) {
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
fn sample<R: Rng + ?Sized>(point_prior: &mut PointPrior, shape: &Shape, point: &[f64], rng: &mut R) -> Result<()> {
    for ((side, dim), (directions, sizes)) in sides(point_prior, shape).into_iter().zip(places(shape)) {
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
    /// Takes in a point; at the end of a round the prior moves to where its likelihood is largest.
    fn learn(&mut self, point_prior: &mut PointPrior, shape: &Shape, point: &[f64]) {
        let sides = sides(point_prior, shape);
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

/// Shape and rate of largest likelihood of a Gamma distribution, from the mean and the mean logarithm.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{InvarianceSettings, one_step_invariance};
    use crate::prior::{AngularKind, Determinantal, MutualAngular};
    use crate::run::{Philox, Purpose, Stream};

    fn point_prior(directions: &Directions) -> PointPrior {
        let side = |shape, rate| Side { directions: directions.clone(), size: Size::Gamma { shape, rate } };
        PointPrior { experts: side(2.0, 0.5), gates: side(1.5, 1.0), intercept_sd: 1.0 }
    }

    fn chain(kind: AngularKind) -> Directions {
        Directions::MutualAngular(MutualAngular { kind, kappa: 3.0, first: None })
    }

    fn rng(seed: u64) -> Philox {
        Stream::new(seed, 0, Purpose::Check).rng()
    }

    /// Values computed apart from this code, and lengths that are all the same.
    #[test]
    fn gamma_of_largest_likelihood() {
        let (shape, rate) = most_likely_gamma(3.0, 0.9);
        assert!((shape - 2.672402309).abs() < 1e-9 && (rate - 0.890800770).abs() < 1e-9, "{shape} {rate}");
        assert_eq!(most_likely_gamma(2.0, 2f64.ln()), (1e4, 5e3));
        assert_eq!(most_likely_gamma(2.0, 2f64.ln() + 1e-17), (1e4, 5e3));
    }

    /// A round ends where the likelihood of its points is largest: no other hyperparameters give them more.
    #[test]
    fn rounds_maximise_and_then_stop() {
        for kind in [AngularKind::One, AngularKind::Two] {
            let (shape, mut rng) = (Shape::new(4, 3, 2, false), rng(1));
            let truth = point_prior(&chain(kind));
            let (mut point_prior, mut learning) = (truth.clone(), Learning::default());
            let mut learn = |point_prior: &mut PointPrior, warm_up: bool, rng: &mut Philox| {
                let point = truth.sample(&shape, rng).unwrap();
                update(Hyper::Ml, &mut learning, point_prior, &shape, &point, warm_up, rng).unwrap();
                // as after a stop
                learning = postcard::from_bytes(&postcard::to_stdvec(&learning).unwrap()).unwrap();
                point
            };
            let mut points = Vec::new();
            for sweep in 1..=20 + 22 + 24 {
                let before = point_prior.clone();
                points.push(learn(&mut point_prior, true, &mut rng));
                assert_eq!(point_prior != before, [20, 42, 66].contains(&sweep), "{sweep}");
                if point_prior == before {
                    continue;
                }
                let ln = |point_prior: &PointPrior| -> f64 { points.iter().map(|p| point_prior.ln_density(&shape, p)).sum() };
                let best = ln(&point_prior);
                for step in [-0.01, 0.01] {
                    for what in 0..8 {
                        let mut other = point_prior.clone();
                        let side = if what % 2 == 0 { &mut other.experts } else { &mut other.gates };
                        let (Size::Gamma { shape, rate }, Directions::MutualAngular(chain)) = (&mut side.size, &mut side.directions) else {
                            panic!()
                        };
                        match what / 2 {
                            0 => *shape *= 1.0 + step,
                            1 => *rate *= 1.0 + step,
                            2 => chain.kappa *= 1.0 + step,
                            _ => {
                                let first = chain.first.as_mut().unwrap();
                                (first[0], first[1]) = (first[0] - step * first[1], first[1] + step * first[0]);
                                let length = dot(first, first).sqrt();
                                first.iter_mut().for_each(|v| *v /= length);
                            }
                        }
                        assert!(ln(&other) < best, "{kind:?} {what} {step}");
                    }
                }
                points.clear();
            }
            let learned = point_prior.clone();
            (0..100).for_each(|_| drop(learn(&mut point_prior, false, &mut rng)));
            assert_eq!(point_prior, learned);
        }
        // nothing to learn of Gaussian weights, and lengths alone under a determinant
        let (shape, mut rng) = (Shape::new(2, 2, 2, false), rng(2));
        let determinant = point_prior(&Directions::Determinantal(Determinantal { length: 0.7 }));
        let gaussian = Side { directions: Directions::Uniform, size: Size::Gaussian { sd: 1.0 } };
        for (start, moves) in [(determinant, true), (PointPrior { experts: gaussian.clone(), gates: gaussian, intercept_sd: 1.0 }, false)] {
            for hyper in [Hyper::Ml, Hyper::Sample] {
                let (mut point_prior, mut learning) = (start.clone(), Learning::default());
                for _ in 0..20 {
                    let point = start.sample(&shape, &mut rng).unwrap();
                    update(hyper, &mut learning, &mut point_prior, &shape, &point, true, &mut rng).unwrap();
                }
                assert_eq!((point_prior != start, &point_prior.experts.directions), (moves, &start.experts.directions));
            }
        }
    }

    /// Hyperparameters and points from their joint distribution in, one step, the same distribution out; false alarms once in 10⁴ runs for each prior.
    #[test]
    fn sampling_leaves_the_joint_distribution_as_it_is() {
        let effort = InvarianceSettings { draws: 30_000, false_alarm_rate: 1e-4 };
        let shape = Shape::new(3, 2, 3, false);
        let names =
            ["ln a1", "ln a2", "ln k", "ln o1", "ln o2", "ln gk", "squares", "a1 u", "a2 g", "k cos", "k cos'", "cos", "a1 a2", "tanh u"];
        let functions = |(point_prior, point): &(PointPrior, Vec<f64>), out: &mut Vec<f64>| {
            let mut product = [0.0; 2];
            for (i, side) in [&point_prior.experts, &point_prior.gates].into_iter().enumerate() {
                let (Size::Gamma { shape, rate }, Directions::MutualAngular(chain)) = (side.size, &side.directions) else { return };
                out.extend([shape.ln(), rate.ln(), chain.kappa.ln()]);
                product[i] = chain.kappa.ln();
            }
            let u = &point[shape.expert_sizes()];
            let a = &point[shape.expert_directions()];
            let e = &point[shape.gate_directions()];
            let (ln_shape, ln_rate) = (out[0], out[1]);
            out.push(out[..6].iter().map(|v| v * v).sum());
            out.push(ln_shape * u[0].tanh());
            out.push(ln_rate * u[1].tanh());
            out.push(product[0] * dot(&a[..3], &a[3..6]));
            out.push(product[1] * dot(&e[3..6], &e[6..9]));
            out.push(dot(&a[..3], &a[6..9]));
            out.push(ln_shape * ln_rate);
            out.push(u[2].tanh());
        };
        for (seed, kind) in [AngularKind::One, AngularKind::Two].into_iter().enumerate() {
            let start = point_prior(&chain(kind));
            let exact = |rng: &mut Philox| -> Result<(PointPrior, Vec<f64>)> {
                let mut point_prior = start.clone();
                sample_prior(&mut point_prior, &shape, rng)?;
                let point = point_prior.sample(&shape, rng)?;
                Ok((point_prior, point))
            };
            let step = |(mut point_prior, point): (PointPrior, Vec<f64>), rng: &mut Philox| {
                update(Hyper::Sample, &mut Learning::default(), &mut point_prior, &shape, &point, false, rng)?;
                Ok((point_prior, point))
            };
            let report = one_step_invariance("hyper", &effort, &names, functions, &mut rng(seed as u64), exact, step).unwrap();
            assert!(report.passed, "{report}");
        }
    }
}
