//! Hamiltonian Monte Carlo: the default sampler, for every prior and any number of classes.
//!
//! A sweep is one trajectory with the experts' labels summed out, on the product of the spheres of directions and the lines of everything
//! else (geodesic, metric `sphere`), or in flat coordinates preconditioned by the covariance of columns (`frame.rs`, metric `columns`);
//! then experts and gates move alone, which those that few rows ask need (`alone.rs`, with `mixes.rs` on the side of the rows); then
//! attempts to exchange neighbours in the order that the priors see (and signs, where a sphere is two points), then the hyperparameters.
//! Each leapfrog step asks the rows once, in flat coordinates for a gradient in single precision, which is all that a trajectory needs on its
//! way (`gated/forces.rs`). The gradient at the present point is carried from sweep to sweep, exchanged along with the experts.

mod alone;
mod frame;
mod mixes;

use rand::RngExt;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use super::draws;
use super::hyper::{self, Learning};
use super::moves;
use super::point_prior::PointPrior;
use super::sampler::Sampler;
use super::settings::{Hyper, Metric};
use super::shape::Shape;
use super::{shares, starts};
use crate::Result;
use crate::data::Design;
use crate::infer::dual_averaging::DualAveraging;
use crate::infer::geodesic::{Manifold, Pace, Trajectory, transition};
use crate::model::gated::forces::{self, Forces, Packed};
use crate::model::gated::rows::{self, Likelihood};
use crate::prior::Scratch as PriorScratch;
use crate::run::{Block, Draws, Philox, Program, Report, Rows, Stream, Sum, Tick};
use frame::{Frame, MOST_COLUMNS};
pub(super) use mixes::Local;
use mixes::{Tangent, Trial, Vector};

/// The sampler.
#[derive(Debug, Clone)]
pub(super) struct Hmc {
    /// From raw rows to design rows.
    pub design: Design,
    /// Sizes of the mixture.
    pub shape: Shape,
    /// Prior of a point, with the hyperparameters chains begin with.
    pub point_prior: PointPrior,
    /// What happens to the hyperparameters.
    pub hyper: Hyper,
    /// Most leapfrog steps of a trajectory.
    pub max_steps: u32,
    /// Acceptance that the step size aims at.
    pub target_accept: f64,
    /// In which coordinates trajectories run.
    pub metric: Metric,
    /// Sweeps of the warm-up in which coordinates are still learned; the step size needs the rest to itself.
    pub learn_until: u64,
}

/// State of the sampler between sweeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    /// The point.
    pub point: Vec<f64>,
    /// The prior with the hyperparameters now.
    pub point_prior: PointPrior,
    /// Log likelihood of the point, and its gradient with respect to the weights; empty before the first sweep.
    pub ln_likelihood: f64,
    slopes: Vec<f64>,
    /// The step size.
    pub step: DualAveraging,
    /// What was learned of the hyperparameters.
    pub learning: Learning,
    /// Flat coordinates; none before the first sweep, or where trajectories run on spheres.
    frame: Option<Frame>,
}

/// What the rows are asked.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Ask<'a> {
    /// Log likelihood and gradient at these weights.
    Likelihood(Cow<'a, [f64]>),
    /// The gradient in single precision, as it comes out.
    Forces(Cow<'a, Packed>),
    /// Log likelihood.
    Value(Cow<'a, [f64]>),
    /// Sums of the shares of the experts at these weights, in the place of the gradient.
    Shares(Cow<'a, [f64]>),
    /// Σ x̃x̃ᵀ (lower triangle), or for many columns its diagonal and then Σ x̃, in the place of the gradient; the number of rows
    /// in the place of the value. Weights count.
    Gram,
    /// Nothing, but to be ready for trials from a point.
    TakeApart {
        /// The point.
        point: Cow<'a, [f64]>,
        /// Vectors that will be moved,
        vectors: Cow<'a, [Vector]>,
        /// and for each what its direction may turn to.
        arrows: Cow<'a, [f64]>,
    },
    /// Log likelihoods under some trials of one weight vector, in the place of the gradient.
    Trials {
        /// The vector.
        of: Vector,
        /// What its direction turns to.
        tangent: Option<Tangent>,
        /// The trials.
        trials: Cow<'a, [Trial]>,
        /// What became of the vector that was asked about before.
        moved: Option<(Vector, Trial)>,
        /// Whether single precision will do.
        rough: bool,
    },
}

/// Buffers of a visit.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    rows: rows::Scratch,
    forces: forces::Scratch,
    products: Vec<f64>,
    class_scores: Vec<f64>,
}

/// Step size that the search for one begins with.
const FIRST_STEP: f64 = 0.1;
/// Most steps of a trajectory while flat coordinates are learned, which takes many sweeps.
const STEPS_WHILE_LEARNING: u32 = 30;
/// In flat coordinates a trajectory whose end was refused is tried once more with steps shorter by this factor. The coordinates are those
/// of the warm-up, and a chain may come to where they are too bold: without shorter steps it stays there for hundreds of sweeps.
const RETRY: f64 = 4.0;

impl Hmc {
    fn state(&self, point: Vec<f64>, point_prior: PointPrior) -> Result<State> {
        let step = DualAveraging::new(FIRST_STEP, self.target_accept)?;
        Ok(State { point, point_prior, ln_likelihood: f64::NAN, slopes: Vec::new(), step, learning: Learning::default(), frame: None })
    }

    /// Log likelihood of a point and its gradient with respect to the weights, as trajectories see it. Without `value` the likelihood
    /// may be left out.
    fn ask(&self, rows: &mut dyn Rows<Self>, point: &[f64], value: bool, buffers: &mut Buffers) -> Result<Likelihood> {
        self.shape.plain(point, &mut buffers.plain);
        self.shape.weights(&buffers.plain, &mut buffers.weights);
        let Some(forces) = self.forces() else { return rows.all(&Ask::Likelihood(Cow::Borrowed(&buffers.weights))) };
        let mut found = rows.all(&Ask::Forces(Cow::Owned(forces.pack(&self.design, &buffers.weights))))?;
        found.gradient.0 = forces.unpack(&self.design, &found.gradient.0);
        if value {
            found.value = rows.all(&Ask::Value(Cow::Borrowed(&buffers.weights)))?.value;
        }
        Ok(found)
    }

    /// Gradients in single precision, where they pay.
    fn forces(&self) -> Option<Forces> {
        (self.metric == Metric::Columns).then(|| Forces::new(self.shape.gated(), &self.design)).flatten()
    }

    /// Log density of a point from what the rows said of it, and its gradient.
    fn density(&self, point_prior: &PointPrior, point: &[f64], found: &Likelihood, gradient: &mut [f64], buffers: &mut Buffers) -> f64 {
        gradient.fill(0.0);
        self.shape.plain_gradient(&found.gradient.0, &mut buffers.slopes);
        self.shape.pull_back(point, &buffers.slopes, gradient);
        found.value.0 + point_prior.gradient_add(&self.shape, point, gradient, &mut buffers.prior)
    }

    /// Spheres of the manifold: where they begin, how many, in how many dimensions.
    fn spheres(&self) -> Vec<(usize, usize, usize)> {
        let s = &self.shape;
        [(s.expert_directions(), s.expert_dim()), (s.gate_directions(), s.inputs)]
            .into_iter()
            .filter(|(range, _)| !range.is_empty())
            .map(|(range, dim)| (range.start, range.len() / dim, dim))
            .collect()
    }

    /// How far a step goes in each coordinate. A direction in p dimensions moves at the speed √p, a number at the speed 1; lengths and intercepts
    /// would be left behind by the steps that directions allow. The shares of that speed were found by effective draws a second
    /// (`bench/`), with 20 and with 123 columns; gates bend more sharply than experts.
    fn paces(&self) -> Vec<f64> {
        let s = &self.shape;
        let mut out = vec![1.0; s.len()];
        for (sizes, intercepts, dim, share) in
            [(s.expert_sizes(), s.expert_intercepts(), s.expert_dim(), 1.0), (s.gate_sizes(), s.gate_intercepts(), s.inputs, 0.5)]
        {
            let speed = share * (dim as f64).sqrt();
            out[sizes].fill((0.5 * speed).max(1.0));
            out[intercepts].fill(speed.max(1.0));
        }
        out
    }

    /// One trajectory of at most so many steps; the point, its likelihood and slopes move along if it is accepted.
    fn trajectory(
        &self,
        state: &mut State,
        rows: &mut dyn Rows<Self>,
        pace: Pace,
        buffers: &mut Buffers,
        rng: &mut Philox,
    ) -> Result<Trajectory> {
        let here = Likelihood { value: Sum(state.ln_likelihood), gradient: Sum(std::mem::take(&mut state.slopes)) };
        let mut gradient = vec![0.0; self.shape.len()];
        let mut value = self.density(&state.point_prior, &state.point, &here, &mut gradient, buffers);
        let mut last = None;
        if let Some(frame) = &mut state.frame {
            frame.prepare(&self.shape, &state.point_prior)?;
        }
        let (point_prior, shape) = (&state.point_prior, &self.shape);
        let trajectory = match &state.frame {
            None => {
                let (spheres, paces) = (self.spheres(), self.paces());
                let manifold = Manifold { spheres: &spheres, len: shape.len(), paces: &paces };
                let target = |point: &[f64], gradient: &mut [f64], end: bool| {
                    let found = self.ask(rows, point, end, buffers)?;
                    let value = self.density(point_prior, point, &found, gradient, buffers);
                    last = Some(found);
                    Ok(value)
                };
                transition(manifold, &mut state.point, &mut value, &mut gradient, pace, target, rng)?
            }
            Some(frame) => {
                let mut flat = frame.enter(shape, &state.point, rng)?;
                let mut lengths = Vec::new();
                let mut point = frame.leave(shape, &flat, &mut lengths);
                value += frame.pull_back(shape, &point, &lengths, &mut gradient);
                let paces = frame.paces(shape);
                let manifold = Manifold { spheres: &[], len: shape.len(), paces: &paces };
                let target = |flat: &[f64], gradient: &mut [f64], end: bool| {
                    point = frame.leave(shape, flat, &mut lengths);
                    if lengths.iter().any(|l| *l < f64::MIN_POSITIVE) {
                        return Ok(f64::NEG_INFINITY);
                    }
                    let found = self.ask(rows, &point, end, buffers)?;
                    let value = self.density(point_prior, &point, &found, gradient, buffers);
                    last = Some(found);
                    Ok(value + frame.pull_back(shape, &point, &lengths, gradient))
                };
                let trajectory = transition(manifold, &mut flat, &mut value, &mut gradient, pace, target, rng)?;
                if trajectory.accepted {
                    state.point = frame.leave(shape, &flat, &mut lengths);
                }
                trajectory
            }
        };
        let now = match last {
            // the last that was asked about is where another trajectory ended
            Some(_) if trajectory.accepted && trajectory.retried => self.ask(rows, &state.point, true, buffers)?,
            Some(found) if trajectory.accepted => found,
            _ => here,
        };
        (state.ln_likelihood, state.slopes) = (now.value.0, now.gradient.0);
        Ok(trajectory)
    }

    /// A step size whose single leapfrog steps are accepted about half of the time: doubled or halved until that turns.
    fn first_step(&self, state: &mut State, rows: &mut dyn Rows<Self>, buffers: &mut Buffers, rng: &mut Philox) -> Result<()> {
        let mut step = FIRST_STEP;
        let mut before = None;
        for _ in 0..40 {
            let mut trial = state.clone();
            let pace = Pace { step, max_steps: 1, retry: None };
            let accepted = self.trajectory(&mut trial, rows, pace, buffers, rng)?.accept_probability > 0.5;
            if before.is_some_and(|b| b != accepted) {
                break;
            }
            before = Some(accepted);
            step *= if accepted { 2.0 } else { 0.5 };
        }
        state.step.restart(step)
    }
}

#[derive(Default)]
struct Buffers {
    plain: Vec<f64>,
    weights: Vec<f64>,
    slopes: Vec<f64>,
    prior: PriorScratch,
}

impl Sampler for Hmc {
    fn at(&self, point: Vec<f64>, point_prior: PointPrior) -> State {
        // the target was checked with the settings
        self.state(point, point_prior).expect("a valid target acceptance")
    }

    fn point(state: &State) -> &[f64] {
        &state.point
    }

    fn point_prior(state: &State) -> &PointPrior {
        &state.point_prior
    }
}

impl Program for Hmc {
    const NAME: &'static str = "experts/hmc";
    const RELEASES: &'static [&'static str] = &["0.1"];
    type Global = State;
    type Local = Local;
    type Ask<'a> = Ask<'a>;
    type Stats = Likelihood;
    type Scratch = Scratch;

    fn start(&self, rows: &mut dyn Rows<Self>, stream: Stream) -> Result<State> {
        let ln_likelihood = &mut |weights: &[f64]| rows.all(&Ask::Likelihood(Cow::Borrowed(weights)));
        let point = starts::start(&self.shape, self.point_prior.intercept_sd, stream, ln_likelihood)?;
        self.state(point, self.point_prior.clone())
    }

    fn local(&self, _: &Block<'_>, _: Stream) -> Local {
        Local::default()
    }

    fn sweep(&self, state: &mut State, rows: &mut dyn Rows<Self>, tick: Tick) -> Result<Report> {
        let mut rng = tick.stream.rng();
        let mut buffers = Buffers::default();
        self.look(state, rows, &mut buffers)?;
        if self.metric == Metric::Columns && state.frame.is_none() {
            let found = rows.all(&Ask::Gram)?;
            let squares = [
                self.point_prior.experts.size.mean_square(self.shape.expert_dim()),
                self.point_prior.gates.size.mean_square(self.shape.inputs),
            ];
            state.frame = Some(Frame::new(&self.shape, &found.gradient.0, found.value.0, squares)?);
        }
        if tick.warm_up && state.step.count() == 0 {
            self.first_step(state, rows, &mut buffers, &mut rng)?;
        }
        let step = if tick.warm_up { state.step.step() } else { state.step.final_step() };
        let mut pace = Pace { step, max_steps: self.max_steps, retry: None };
        if state.frame.is_some() {
            if tick.warm_up && tick.sweep <= self.learn_until {
                pace.max_steps = pace.max_steps.min(STEPS_WHILE_LEARNING);
            } else {
                pace.retry = Some(RETRY);
            }
        }
        let trajectory = self.trajectory(state, rows, pace, &mut buffers, &mut rng)?;
        if tick.warm_up {
            state.step.update(trajectory.accept_probability);
            self.learn(state, tick.sweep, &mut buffers)?;
        }
        let alone = self.alone(state, rows, self.metric.pace().1, &mut buffers, &mut rng)?;
        let (slopes, frame) = (&mut state.slopes, &mut state.frame);
        let swapped = moves::swaps(&self.shape, &state.point_prior, &mut state.point, &mut rng, |i| {
            self.shape.exchange_weights(slopes, i, i + 1);
            if let Some(frame) = frame {
                frame.exchange(i, i + 1);
            }
        });
        if self.shape.inputs == 1 && state.frame.is_none() {
            self.flips(state, rows, &mut buffers, &mut rng)?;
        }
        hyper::update(self.hyper, &mut state.learning, &mut state.point_prior, &self.shape, &state.point, tick.warm_up, &mut rng)?;
        let ln_prior = state.point_prior.ln_density(&self.shape, &state.point);
        self.shape.plain(&state.point, &mut buffers.plain);
        self.shape.weights(&buffers.plain, &mut buffers.weights);
        let sums =
            shares::visit_draw(&self.shape, tick.warm_up, || Ok(rows.all(&Ask::Shares(Cow::Borrowed(&buffers.weights)))?.gradient.0))?;
        Ok(Report {
            objective: state.ln_likelihood + ln_prior,
            components: self.shape.experts as u32,
            converged: false,
            extras: shares::with(
                &sums,
                vec![
                    ("log_likelihood".into(), state.ln_likelihood),
                    ("acceptance".into(), trajectory.accept_probability),
                    ("step".into(), step),
                    ("divergent".into(), f64::from(u8::from(trajectory.divergent && !trajectory.accepted))),
                    ("swaps".into(), f64::from(swapped)),
                    ("steps".into(), f64::from(trajectory.steps)),
                    ("moved".into(), f64::from(u8::from(trajectory.accepted))),
                    ("alone".into(), f64::from(u8::from(alone))),
                ],
            ),
        })
    }

    fn visit(&self, ask: &Ask<'_>, block: &Block<'_>, local: &mut Local, scratch: &mut Scratch, _: Stream) -> Result<Likelihood> {
        Ok(match ask {
            Ask::Likelihood(weights) => {
                rows::likelihood(&self.design, &self.shape.gated(), weights, block, |i| block.weight(i), &mut scratch.rows)
            }
            Ask::Forces(packed) => {
                let forces = self.forces().expect("only programs that have forces ask for them");
                let ones = *local.ones.get_or_insert_with(|| forces::all_ones(block.x));
                let sums = forces.sums(&self.design, packed, block, ones, &mut scratch.forces);
                Likelihood { value: Sum(0.0), gradient: Sum(sums) }
            }
            Ask::Value(weights) => {
                let value = rows::value(&self.design, &self.shape.gated(), weights, block, |i| block.weight(i), &mut scratch.rows);
                Likelihood { value: Sum(value), gradient: Sum::default() }
            }
            Ask::Shares(weights) => rows::shares(&self.design, &self.shape.gated(), weights, block, |i| block.weight(i), &mut scratch.rows),
            Ask::Gram => self.gram(block, &mut scratch.rows),
            Ask::TakeApart { point, vectors, arrows } => {
                self.take_apart(point, vectors, arrows, block, local, scratch);
                Likelihood::default()
            }
            Ask::Trials { of, tangent, trials, moved, rough } => {
                self.trials(*of, *tangent, trials, moved.as_ref(), *rough, block, local, scratch)
            }
        })
    }

    fn draw(&self, state: &State, out: &mut Draws) {
        let ln_prior = state.point_prior.ln_density(&self.shape, &state.point);
        draws::keep(&self.shape, &state.point, &state.point_prior, self.hyper, state.ln_likelihood, ln_prior, out);
    }
}

impl Hmc {
    /// Likelihood and gradient where a chain begins.
    fn look(&self, state: &mut State, rows: &mut dyn Rows<Self>, buffers: &mut Buffers) -> Result<()> {
        if state.slopes.is_empty() {
            let found = self.ask(rows, &state.point, true, buffers)?;
            (state.ln_likelihood, state.slopes) = (found.value.0, found.gradient.0);
        }
        Ok(())
    }

    /// What the flat coordinates are made of.
    fn gram(&self, block: &Block<'_>, scratch: &mut rows::Scratch) -> Likelihood {
        let d = self.shape.dim();
        let weights: Vec<f64> = (0..block.rows()).map(|i| block.weight(i)).collect();
        let mut panel = self.design.panel(block.x, &mut scratch.panel);
        let gram = if self.shape.inputs <= MOST_COLUMNS {
            let mut gram = vec![0.0; d * d];
            panel.weighted_gram_add(&weights, &mut gram);
            gram
        } else {
            let mut moments = vec![0.0; 2 * d];
            let (squares, sums) = moments.split_at_mut(d);
            panel.t_mul_add(&weights, 1, sums);
            panel.squares_add(&weights, squares);
            moments
        };
        Likelihood { value: Sum(weights.iter().sum()), gradient: Sum(gram) }
    }

    /// Measures the curvature where the chain is; at the end of a window the coordinates change, and the step size begins anew.
    fn learn(&self, state: &mut State, sweep: u64, buffers: &mut Buffers) -> Result<()> {
        if state.frame.is_none() || sweep > self.learn_until {
            return Ok(());
        }
        let here = Likelihood { value: Sum(state.ln_likelihood), gradient: Sum(state.slopes.clone()) };
        let mut gradient = vec![0.0; self.shape.len()];
        self.density(&state.point_prior, &state.point, &here, &mut gradient, buffers);
        // what binds directions to each other is known
        let (s, mut likelihood) = (&self.shape, vec![0.0; self.shape.len()]);
        s.pull_back(&state.point, &buffers.slopes, &mut likelihood);
        for range in [s.expert_directions(), s.gate_directions()] {
            gradient[range.clone()].copy_from_slice(&likelihood[range]);
        }
        if let Some(frame) = &mut state.frame
            && frame.learn(&self.shape, &state.point, &gradient, sweep)
        {
            state.step.restart(state.step.final_step())?;
        }
        Ok(())
    }

    /// Proposes the other sign of each direction that is one of two points.
    fn flips(&self, state: &mut State, rows: &mut dyn Rows<Self>, buffers: &mut Buffers, rng: &mut Philox) -> Result<()> {
        let s = &self.shape;
        let mut places: Vec<usize> = Vec::new();
        if s.expert_dim() == 1 {
            places.extend(s.expert_directions());
        }
        places.extend(s.gate_directions());
        let mut now = state.ln_likelihood + state.point_prior.directions(s, &state.point);
        for at in places {
            state.point[at] = -state.point[at];
            let found = self.ask(rows, &state.point, true, buffers)?;
            let then = found.value.0 + state.point_prior.directions(s, &state.point);
            if (1.0 - rng.random::<f64>()).ln() < then - now {
                now = then;
                (state.ln_likelihood, state.slopes) = (found.value.0, found.gradient.0);
            } else {
                state.point[at] = -state.point[at];
            }
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests;
