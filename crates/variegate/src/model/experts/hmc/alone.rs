//! Moves of one weight vector at a time, for what trajectories are slow at.
//!
//! The step of a trajectory is that of the stiffest expert, the one that most rows ask. An expert that few rows ask could go much
//! farther: its intercept through the whole prior, where a trajectory moves it by hundredths. Here it does. The intercept, the length
//! and the direction of a gate or an expert move along a line, a ray or a great circle: of points a distance δ apart, one of which is where
//! it is (which one is random), one is chosen by its density. Such points look the same from each of them, so that the posterior stays
//! as it is whatever δ is; δ is drawn anew each time, over scales, and nothing need be tuned. With many rows, points are chosen by
//! likelihoods in single precision, and a round of all moves is accepted or refused by exact ones.

use rand::RngExt;
use rand_distr::{Distribution, StandardNormal};
use std::borrow::Cow;

use super::mixes::{Tangent, Trial, Vector};
use super::{Ask, Buffers, Hmc, State};
use crate::Result;
use crate::linalg::dot;
use crate::model::experts::point_prior::Side;
use crate::prior::{Coupled, normalise};
use crate::run::{Philox, Rows, open01};
use crate::special::log_sum_exp;

/// Points to choose from.
const POINTS: usize = 8;
/// Distances between points are between these: of intercepts, logarithms of lengths, angles.
const INTERCEPTS: (f64, f64) = (0.02, 4.0);
const LENGTHS: (f64, f64) = (0.02, 1.0);
const ANGLES: (f64, f64) = (0.005, 1.5);

/// What of a vector is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Move {
    Intercepts,
    Length,
    Direction,
}

/// Distances from where a vector is, one of which is zero.
fn distances(scales: (f64, f64), rng: &mut Philox) -> [f64; POINTS] {
    let step = (scales.0.ln() + rng.random::<f64>() * (scales.1 / scales.0).ln()).exp();
    let here = rng.random_range(0..POINTS) as f64;
    std::array::from_fn(|i| (i as f64 - here) * step)
}

/// One of some points by the logarithms of their densities; those that are no numbers are never chosen.
fn choose(ln_densities: &[f64], rng: &mut Philox) -> Option<usize> {
    let known: Vec<f64> = ln_densities.iter().map(|v| if v.is_nan() { f64::NEG_INFINITY } else { *v }).collect();
    let total = log_sum_exp(&known);
    let mut left = open01(rng);
    let mut last = None;
    for (i, v) in known.iter().enumerate().filter(|_| total.is_finite()) {
        let share = (v - total).exp();
        if share > 0.0 {
            last = Some(i);
            left -= share;
            if left < 0.0 {
                break;
            }
        }
    }
    last
}

/// What became of the vector that was moved last, and by how much the log likelihoods that were chosen by have grown.
#[derive(Debug, Default)]
struct Round {
    moved: Option<(Vector, Trial)>,
    gain: f64,
}

impl Hmc {
    /// Moves the weight vectors of a share of the experts, and of their gates, chosen at random. True if the point is another.
    pub(super) fn alone(
        &self,
        state: &mut State,
        rows: &mut dyn Rows<Self>,
        share: f64,
        buffers: &mut Buffers,
        rng: &mut Philox,
    ) -> Result<bool> {
        let moved = self.round(state, rows, share, buffers, rng)?;
        if moved {
            // where there are forces, the likelihood is known already
            let exact = self.forces().is_none();
            let found = self.ask(rows, &state.point, exact, buffers)?;
            if exact {
                state.ln_likelihood = found.value.0;
            }
            state.slopes = found.gradient.0;
        }
        Ok(moved)
    }

    /// The moves themselves. The likelihood and the gradient that are kept are not those of the point then, but for the likelihood where
    /// there are forces.
    ///
    /// Where points are chosen by rounded likelihoods, exact ones decide about the whole round, at its end. Every choice leaves the density
    /// that it was by as it is, and the order of a round is as likely as the reverse, so that the round is a proposal: its ratio
    /// is that of the densities on the way, which `Round` adds up.
    fn round(&self, state: &mut State, rows: &mut dyn Rows<Self>, share: f64, buffers: &mut Buffers, rng: &mut Philox) -> Result<bool> {
        let experts = self.shape.gates();
        let count = ((share * experts as f64 + rng.random::<f64>()) as usize).min(experts);
        if count == 0 {
            return Ok(false);
        }
        let rounded = self.forces().is_some();
        let (point, ln_likelihood) = (state.point.clone(), state.ln_likelihood);
        let point_prior = state.point_prior.clone();
        let sides = [&point_prior.experts, &point_prior.gates];
        let mut chains: Vec<Coupled> = point_prior
            .sides(&self.shape)
            .into_iter()
            .map(|(side, places, _, dim)| Coupled::new(&side.directions, &state.point[places], dim))
            .collect();
        let mut labels: Vec<usize> = (0..experts).collect();
        for i in 0..count {
            labels.swap(i, rng.random_range(i..experts));
        }
        let (mut moves, mut order) = ([Move::Intercepts, Move::Length, Move::Direction], [true, false]);
        if rounded && rng.random::<bool>() {
            moves.reverse();
            order.reverse();
        }
        let vectors: Vec<Vector> = labels[..count].iter().flat_map(|&k| order.map(|gate| Vector { gate, k })).collect();
        let dim = |of: &Vector| self.shape.places(of.gate, of.k).direction.len();
        let arrows: Vec<f64> = (0..vectors.iter().map(dim).sum()).map(|_| StandardNormal.sample(rng)).collect();
        rows.all(&Ask::TakeApart { point: Cow::Borrowed(&state.point), vectors: Cow::Borrowed(&vectors), arrows: Cow::Borrowed(&arrows) })?;
        let (mut round, mut rest, mut place) = (Round::default(), &arrows[..], 0);
        for of in vectors {
            let (arrow, later) = rest.split_at(dim(&of));
            for what in moves {
                let (side, chain) = (sides[usize::from(of.gate)], &mut chains[usize::from(of.gate)]);
                self.move_vector(of, what, (place, arrow), state, side, chain, &mut round, rows, rng)?;
            }
            rest = later;
            place += arrow.len() / self.shape.inputs;
        }
        if rounded {
            self.shape.plain(&state.point, &mut buffers.plain);
            self.shape.weights(&buffers.plain, &mut buffers.weights);
            state.ln_likelihood = rows.all(&Ask::Value(Cow::Borrowed(&buffers.weights)))?.value.0;
            // nothing that is no number is accepted
            let accepted = open01(rng).ln() < (state.ln_likelihood - ln_likelihood) - round.gain;
            if !accepted {
                (state.point, state.ln_likelihood) = (point, ln_likelihood);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Moves the intercepts, the length or the direction of a vector. An arrow, and its place among those that rows know of, shows a direction where to turn.
    fn move_vector(
        &self,
        of: Vector,
        what: Move,
        (place, arrow): (usize, &[f64]),
        state: &mut State,
        side: &Side,
        chain: &mut Coupled,
        round: &mut Round,
        rows: &mut dyn Rows<Self>,
        rng: &mut Philox,
    ) -> Result<()> {
        let places = self.shape.places(of.gate, of.k);
        let dim = places.direction.len();
        let (size, intercepts) = (state.point[places.size], state.point[places.intercepts.clone()].to_vec());
        let length = size.exp();
        let same = Trial { along: length, across: 0.0, intercepts: intercepts.clone() };
        // what the prior says of each trial
        let (mut tangent, mut towards, mut line) = (None, Vec::new(), Vec::new());
        let steps;
        let choices: Vec<(Trial, f64)> = match what {
            Move::Intercepts if !intercepts.is_empty() => {
                line = intercepts.iter().map(|_| StandardNormal.sample(rng)).collect();
                normalise(&mut line);
                steps = distances(INTERCEPTS, rng);
                let precision = state.point_prior.intercept_sd.powi(2).recip();
                let trial = |step: f64| {
                    let intercepts: Vec<f64> = intercepts.iter().zip(&line).map(|(b, l)| b + step * l).collect();
                    let ln = -0.5 * precision * dot(&intercepts, &intercepts);
                    (Trial { intercepts, ..same.clone() }, ln)
                };
                steps.into_iter().map(trial).collect()
            }
            Move::Length => {
                steps = distances(LENGTHS, rng);
                let trial = |step: f64| (Trial { along: (size + step).exp(), ..same.clone() }, side.size.ln_density(size + step, dim).0);
                steps.into_iter().map(trial).collect()
            }
            Move::Direction if dim > 1 => {
                let direction = &state.point[places.direction.clone()];
                let along = dot(direction, arrow);
                towards = arrow.iter().zip(direction).map(|(z, a)| z - along * a).collect();
                let length_across = normalise(&mut towards);
                tangent = Some(Tangent { arrow: place, along, length: length_across });
                steps = distances(ANGLES, rng);
                let trial = |step: f64| {
                    let (sin, cos) = step.sin_cos();
                    let turned = turn(direction, &towards, step);
                    (Trial { along: length * cos, across: length * sin, ..same.clone() }, chain.propose(of.k, &turned))
                };
                steps.into_iter().map(trial).collect()
            }
            _ => return Ok(()),
        };
        let (trials, ln_prior): (Vec<Trial>, Vec<f64>) = choices.into_iter().unzip();
        // an expert with several rows is looked at exactly
        let rough = self.forces().is_some() && (of.gate || self.shape.rows() == 1);
        let ask = Ask::Trials { of, tangent, trials: Cow::Borrowed(&trials), moved: round.moved.take(), rough };
        let found = rows.all(&ask)?.gradient.0;
        let ln: Vec<f64> = found.iter().zip(&ln_prior).map(|(l, p)| l + p).collect();
        let Some(at) = choose(&ln, rng) else { return Ok(()) };
        if steps[at] == 0.0 {
            return Ok(());
        }
        round.gain += found[at] - steps.iter().zip(&found).find(|(s, _)| **s == 0.0).map_or(f64::NAN, |(_, here)| *here);
        match what {
            Move::Intercepts => state.point[places.intercepts].iter_mut().zip(&line).for_each(|(b, l)| *b += steps[at] * l),
            Move::Length => state.point[places.size] += steps[at],
            Move::Direction => {
                let turned = turn(&state.point[places.direction.clone()], &towards, steps[at]);
                chain.accept(of.k, &turned);
                state.point[places.direction].copy_from_slice(&turned);
            }
        }
        round.moved = Some((of, trials[at].clone()));
        Ok(())
    }
}

/// A direction turned by an angle towards a tangent.
fn turn(direction: &[f64], tangent: &[f64], angle: f64) -> Vec<f64> {
    let (sin, cos) = angle.sin_cos();
    let mut out: Vec<f64> = direction.iter().zip(tangent).map(|(a, t)| cos * a + sin * t).collect();
    normalise(&mut out);
    out
}
