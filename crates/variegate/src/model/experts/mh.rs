//! Random-walk Metropolis, one component at a time, with the labels summed out: the sampler of the literature, kept to compare with.
//!
//! For every expert, then for every gate: a direction a' ~ vMF(a, κ') (symmetric), or −a in one dimension; a length g' ~ N(g, s²) redrawn until
//! positive, whose log acceptance ratio has ln Φ(g/s) − ln Φ(g'/s) beside the density with respect to dg; intercepts b' ~ N(b, s²). Hyperparameters and
//! exchanges of neighbouring labels follow. κ' = P/δ²; δ and s are shared by the experts, and by the gates, and follow an acceptance of 0.3 in the
//! warm-up only.
//!
//! A proposal changes one column of scores. Blocks keep the products x·a of all directions, the exponentials of gate scores and the probability of
//! each row's class under each expert (`columns.rs`), so that a proposal costs one product with the rows (a direction) or none, and O(NK) sums.

mod columns;

#[cfg(test)]
mod tests;

use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use super::draws;
use super::hyper::{self, Learning};
use super::moves::{self, accepted};
use super::point_prior::{PointPrior, Side};
use super::sampler::Sampler;
use super::settings::Hyper;
use super::shape::Shape;
use super::{shares, starts};
use crate::Result;
use crate::data::Design;
use crate::dist::VonMisesFisher;
use crate::infer::robbins_monro::{Rates, ScaleAdapter};
use crate::linalg::dot;
use crate::model::gated::rows::{self, Likelihood};
use crate::prior::{Coupled, normalise};
use crate::run::{Block, Draws, Philox, Program, Report, Rows, Stream, Tick};
use crate::special::ln_norm_cdf;
pub(super) use columns::{Local, Scratch};

/// Acceptance that the scales aim at.
const TARGET: f64 = 0.3;
/// First δ of directions, and first s of lengths and intercepts.
const FIRST: [f64; 3] = [0.5, 1.0, 1.0];
/// Largest concentration of a proposal: beyond it nothing moves.
const MOST_KAPPA: f64 = 1e12;

/// The sampler.
#[derive(Debug, Clone)]
pub(super) struct Mh {
    /// From raw rows to design rows.
    pub design: Design,
    /// Sizes of the mixture.
    pub shape: Shape,
    /// Prior of a point, with the hyperparameters chains begin with.
    pub point_prior: PointPrior,
    /// What happens to the hyperparameters.
    pub hyper: Hyper,
}

/// State of the sampler between sweeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    /// The point.
    pub point: Vec<f64>,
    /// The prior with the hyperparameters now.
    pub point_prior: PointPrior,
    /// What was learned of the hyperparameters.
    pub learning: Learning,
    /// Log likelihood of the point; NaN before the first sweep.
    pub ln_likelihood: f64,
    /// Scales of directions, lengths and intercepts: of the experts, then of the gates.
    scales: [[ScaleAdapter; 3]; 2],
    /// What the blocks have not heard yet.
    news: News,
}

/// What happened since the blocks were last asked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct News {
    /// Whether the change they were asked about was accepted.
    accepted: bool,
    /// Lower labels of the neighbours that were exchanged, in order.
    exchanged: Vec<u32>,
}

/// What the rows are asked.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Ask<'a> {
    /// The gradient of the likelihood of these weights, to find a start.
    Slopes(Cow<'a, [f64]>),
    /// Sums of the shares of the experts at these weights, in the place of the gradient.
    Shares(Cow<'a, [f64]>),
    /// The likelihood of the point after a change, if any.
    Change {
        /// The point without it.
        point: Cow<'a, [f64]>,
        /// What happened before.
        news: News,
        /// The change.
        change: Option<Change<'a>>,
    },
}

/// A weight vector that is proposed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Change<'a> {
    /// Whether it is a gate's.
    gate: bool,
    /// Whose it is.
    k: usize,
    /// A new direction, if that is what is proposed.
    direction: Option<Cow<'a, [f64]>>,
    /// Logarithm of its length.
    size: f64,
    /// Its intercepts.
    intercepts: Cow<'a, [f64]>,
}

impl Mh {
    /// Log likelihood after a change.
    fn ask(&self, state: &mut State, rows: &mut dyn Rows<Self>, change: Option<Change<'_>>) -> Result<f64> {
        let news = std::mem::take(&mut state.news);
        Ok(rows.all(&Ask::Change { point: Cow::Borrowed(&state.point), news, change })?.value.0)
    }

    /// Proposes a change, with what is to be added to the gain in log likelihood. Gives back the probability that it was accepted
    /// with, and whether it was.
    fn propose(
        &self,
        state: &mut State,
        rows: &mut dyn Rows<Self>,
        change: Change<'_>,
        ln_other: f64,
        rng: &mut Philox,
    ) -> Result<(f64, bool)> {
        // rows need not be asked about what the prior excludes
        if ln_other.is_nan() || ln_other == f64::NEG_INFINITY {
            return Ok((0.0, false));
        }
        let places = self.shape.places(change.gate, change.k);
        let there = self.ask(state, rows, Some(change.clone()))?;
        let ln_ratio = there - state.ln_likelihood + ln_other;
        let taken = accepted(ln_ratio, rng);
        if taken {
            state.ln_likelihood = there;
            state.news.accepted = true;
            if let Some(direction) = &change.direction {
                state.point[places.direction].copy_from_slice(direction);
            }
            state.point[places.size] = change.size;
            state.point[places.intercepts].copy_from_slice(&change.intercepts);
        }
        Ok((ln_ratio.exp().min(1.0), taken))
    }

    /// Moves the weight vectors of one side; gives back the mean acceptance of directions, lengths and intercepts.
    fn move_side(&self, state: &mut State, rows: &mut dyn Rows<Self>, gate: bool, warm_up: bool, rng: &mut Philox) -> Result<[f64; 3]> {
        let places = if gate { self.shape.gate_directions() } else { self.shape.expert_directions() };
        let (side, dim) =
            if gate { (&state.point_prior.gates, self.shape.inputs) } else { (&state.point_prior.experts, self.shape.expert_dim()) };
        let side = side.clone();
        let mut directions = Coupled::new(&side.directions, &state.point[places.clone()], dim);
        let (count, kinds) = (places.len() / dim, if self.shape.bias { 3 } else { 2 });
        let mut means = [0.0; 3];
        for k in 0..count {
            for (kind, mean) in means.iter_mut().enumerate().take(kinds) {
                let probability = match kind {
                    0 => self.move_direction(state, rows, gate, k, &mut directions, rng)?,
                    1 => self.move_length(state, rows, gate, k, &side, rng)?,
                    _ => self.move_intercepts(state, rows, gate, k, rng)?,
                };
                *mean += probability / count as f64;
                if warm_up {
                    state.scales[usize::from(gate)][kind].update(probability);
                }
            }
        }
        Ok(means)
    }

    /// The change that leaves a weight vector as it is.
    fn same<'a>(&self, state: &State, gate: bool, k: usize) -> Change<'a> {
        let places = self.shape.places(gate, k);
        Change { gate, k, direction: None, size: state.point[places.size], intercepts: Cow::Owned(state.point[places.intercepts].to_vec()) }
    }

    fn move_direction(
        &self,
        state: &mut State,
        rows: &mut dyn Rows<Self>,
        gate: bool,
        k: usize,
        directions: &mut Coupled,
        rng: &mut Philox,
    ) -> Result<f64> {
        let now = &state.point[self.shape.places(gate, k).direction];
        let mut proposed = now.to_vec();
        if now.len() == 1 {
            proposed[0] = -proposed[0];
        } else {
            let step = state.scales[usize::from(gate)][0].scale();
            let kappa = (now.len() as f64 / (step * step)).min(MOST_KAPPA);
            VonMisesFisher::new(now, kappa)?.sample_into(rng, &mut proposed);
            normalise(&mut proposed);
        }
        let gain = directions.propose(k, &proposed) - directions.ln_density();
        let change = Change { direction: Some(Cow::Borrowed(&proposed)), ..self.same(state, gate, k) };
        let (probability, taken) = self.propose(state, rows, change, gain, rng)?;
        if taken {
            directions.accept(k, &proposed);
        }
        Ok(probability)
    }

    fn move_length(
        &self,
        state: &mut State,
        rows: &mut dyn Rows<Self>,
        gate: bool,
        k: usize,
        side: &Side,
        rng: &mut Philox,
    ) -> Result<f64> {
        let now = self.same(state, gate, k);
        let s = state.scales[usize::from(gate)][1].scale();
        let proposed = positive_normal(now.size.exp(), s, rng).ln();
        let dim = self.shape.places(gate, k).direction.len();
        let gain = ln_length_ratio(side, dim, now.size, proposed, s);
        Ok(self.propose(state, rows, Change { size: proposed, ..now }, gain, rng)?.0)
    }

    fn move_intercepts(&self, state: &mut State, rows: &mut dyn Rows<Self>, gate: bool, k: usize, rng: &mut Philox) -> Result<f64> {
        let now = self.same(state, gate, k);
        let s = state.scales[usize::from(gate)][2].scale();
        let proposed: Vec<f64> = now.intercepts.iter().map(|b| b + s * normal(rng)).collect();
        let gain = 0.5 * (dot(&now.intercepts, &now.intercepts) - dot(&proposed, &proposed)) / state.point_prior.intercept_sd.powi(2);
        Ok(self.propose(state, rows, Change { intercepts: proposed.into(), ..now }, gain, rng)?.0)
    }
}

/// What the prior and the proposal add to the log acceptance ratio of a length: ln p(g') − ln p(g) with respect to dg, and the ratio of
/// the parts of N(g, s²) and of N(g', s²) that are positive. Lengths are given by their logarithms.
fn ln_length_ratio(side: &Side, dim: usize, now: f64, proposed: f64, s: f64) -> f64 {
    let ln_density = |u: f64| side.size.ln_density(u, dim).0 - u;
    ln_density(proposed) - ln_density(now) + ln_norm_cdf(now.exp() / s) - ln_norm_cdf(proposed.exp() / s)
}

/// N(mean, s²) given that it is positive, for a positive mean.
fn positive_normal(mean: f64, s: f64, rng: &mut Philox) -> f64 {
    loop {
        let x = mean + s * normal(rng);
        if x > 0.0 {
            return x;
        }
    }
}

fn normal(rng: &mut Philox) -> f64 {
    StandardNormal.sample(rng)
}

impl Sampler for Mh {
    fn at(&self, point: Vec<f64>, point_prior: PointPrior) -> State {
        let scales = || FIRST.map(|scale| ScaleAdapter::new(scale, TARGET, Rates::default()).expect("constants are in range"));
        State {
            point,
            point_prior,
            learning: Learning::default(),
            ln_likelihood: f64::NAN,
            scales: [scales(), scales()],
            news: News::default(),
        }
    }

    fn point(state: &State) -> &[f64] {
        &state.point
    }

    fn point_prior(state: &State) -> &PointPrior {
        &state.point_prior
    }
}

impl Program for Mh {
    const NAME: &'static str = "experts/mh";
    const RELEASES: &'static [&'static str] = &["0.1"];
    type Global = State;
    type Local = Local;
    type Ask<'a> = Ask<'a>;
    type Stats = Likelihood;
    type Scratch = Scratch;

    fn start(&self, rows: &mut dyn Rows<Self>, stream: Stream) -> Result<State> {
        let ln_likelihood = &mut |weights: &[f64]| rows.all(&Ask::Slopes(Cow::Borrowed(weights)));
        let point = starts::start(&self.shape, self.point_prior.intercept_sd, stream, ln_likelihood)?;
        Ok(self.at(point, self.point_prior.clone()))
    }

    fn local(&self, _: &Block<'_>, _: Stream) -> Local {
        Local::default()
    }

    fn sweep(&self, state: &mut State, rows: &mut dyn Rows<Self>, tick: Tick) -> Result<Report> {
        let mut rng = tick.stream.rng();
        if state.ln_likelihood.is_nan() {
            state.ln_likelihood = self.ask(state, rows, None)?;
        }
        let mut extras = Vec::new();
        let sides: &[(bool, &str)] = if self.shape.gates() > 0 { &[(false, "expert"), (true, "gate")] } else { &[(false, "expert")] };
        for (gate, name) in sides {
            let acceptance = self.move_side(state, rows, *gate, tick.warm_up, &mut rng)?;
            let kinds = if self.shape.bias { 3 } else { 2 };
            for (kind, acceptance) in ["directions", "lengths", "intercepts"].into_iter().zip(acceptance).take(kinds) {
                extras.push((format!("acceptance_{name}_{kind}"), acceptance));
            }
        }
        hyper::update(self.hyper, &mut state.learning, &mut state.point_prior, &self.shape, &state.point, tick.warm_up, &mut rng)?;
        let exchanged = &mut state.news.exchanged;
        let swaps = moves::swaps(&self.shape, &state.point_prior, &mut state.point, &mut rng, |i| exchanged.push(i as u32));
        extras.push(("log_likelihood".into(), state.ln_likelihood));
        extras.push(("swaps".into(), f64::from(swaps)));
        let (mut plain, mut weights) = (Vec::new(), Vec::new());
        self.shape.plain(&state.point, &mut plain);
        self.shape.weights(&plain, &mut weights);
        let sums = shares::visit_draw(&self.shape, tick.warm_up, || Ok(rows.all(&Ask::Shares(Cow::Borrowed(&weights)))?.gradient.0))?;
        let extras = shares::with(&sums, extras);
        let objective = state.ln_likelihood + state.point_prior.ln_density(&self.shape, &state.point);
        Ok(Report { objective, components: self.shape.experts as u32, converged: false, extras })
    }

    fn visit(&self, ask: &Ask<'_>, block: &Block<'_>, local: &mut Local, scratch: &mut Scratch, _: Stream) -> Result<Likelihood> {
        match ask {
            Ask::Slopes(weights) => {
                Ok(rows::likelihood(&self.design, &self.shape.gated(), weights, block, |i| block.weight(i), &mut scratch.rows))
            }
            Ask::Shares(weights) => {
                Ok(rows::shares(&self.design, &self.shape.gated(), weights, block, |i| block.weight(i), &mut scratch.rows))
            }
            Ask::Change { point, news, change } => {
                self.hear(point, news, block, local, scratch)?;
                Ok(self.change(point, change.as_ref(), block, local, scratch))
            }
        }
    }

    fn draw(&self, state: &State, out: &mut Draws) {
        let ln_prior = state.point_prior.ln_density(&self.shape, &state.point);
        draws::keep(&self.shape, &state.point, &state.point_prior, self.hyper, state.ln_likelihood, ln_prior, out);
    }
}
