//! Geodesic Hamiltonian Monte Carlo: the default sampler, for every prior and any number of classes.
//!
//! A sweep is one trajectory on the product of the spheres of directions and the lines of everything else, with the experts' labels summed out,
//! then attempts to exchange neighbours in the order that the priors see (and signs, where a sphere is two points), then the hyperparameters.
//! Each leapfrog step asks the rows once. The gradient at the present point is carried from sweep to sweep, exchanged along
//! with the experts.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use super::draws;
use super::hyper::{self, Learning};
use super::law::Law;
use super::moves;
use super::sampler::Sampler;
use super::settings::Hyper;
use super::shape::Shape;
use super::starts;
use crate::Result;
use crate::data::Design;
use crate::infer::dual_averaging::DualAveraging;
use crate::infer::geodesic::{Manifold, transition};
use crate::model::gated::rows::{self, Likelihood};
use crate::prior::Scratch as PriorScratch;
use crate::run::{Block, Draws, Philox, Program, Report, Rows, Stream, Tick};

/// The sampler.
#[derive(Debug, Clone)]
pub struct Hmc {
    /// From raw rows to design rows.
    pub design: Design,
    /// Sizes of the mixture.
    pub shape: Shape,
    /// Prior of a point, with the hyperparameters chains begin with.
    pub law: Law,
    /// What happens to the hyperparameters.
    pub hyper: Hyper,
    /// Most leapfrog steps of a trajectory.
    pub max_steps: u32,
    /// Acceptance that the step size aims at.
    pub target_accept: f64,
}

/// State of the sampler between sweeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The point.
    pub point: Vec<f64>,
    /// The prior with the hyperparameters now.
    pub law: Law,
    /// Log likelihood of the point, and its gradient with respect to the weights; empty before the first sweep.
    pub ln_likelihood: f64,
    slopes: Vec<f64>,
    /// The step size.
    pub step: DualAveraging,
    /// What was learned of the hyperparameters.
    pub learning: Learning,
}

/// What the rows are told: the weights.
#[derive(Debug, Serialize, Deserialize)]
pub struct Ask<'a>(Cow<'a, [f64]>);

/// Step size that the search for one begins with.
const FIRST_STEP: f64 = 0.1;

impl Hmc {
    fn state(&self, point: Vec<f64>, law: Law) -> Result<State> {
        let step = DualAveraging::new(FIRST_STEP, self.target_accept)?;
        Ok(State { point, law, ln_likelihood: f64::NAN, slopes: Vec::new(), step, learning: Learning::default() })
    }

    /// Log likelihood of a point and its gradient with respect to the weights.
    fn ask(&self, rows: &mut dyn Rows<Self>, point: &[f64], buffers: &mut Buffers) -> Result<Likelihood> {
        self.shape.plain(point, &mut buffers.plain);
        self.shape.weights(&buffers.plain, &mut buffers.weights);
        rows.all(&Ask(Cow::Borrowed(&buffers.weights)))
    }

    /// Log density of a point from what the rows said of it, and its gradient.
    fn density(&self, law: &Law, point: &[f64], found: &Likelihood, gradient: &mut [f64], buffers: &mut Buffers) -> f64 {
        gradient.fill(0.0);
        self.shape.plain_gradient(&found.gradient.0, &mut buffers.slopes);
        self.shape.pull_back(point, &buffers.slopes, gradient);
        found.value.0 + law.gradient_add(&self.shape, point, gradient, &mut buffers.prior)
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
        for (sizes, intercepts, dim, share) in [
            (s.expert_sizes(), s.expert_intercepts(), s.expert_dim(), 1.0),
            (s.gate_sizes(), s.gate_intercepts(), s.inputs, 0.5),
        ] {
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
        step: f64,
        max_steps: u32,
        buffers: &mut Buffers,
        rng: &mut Philox,
    ) -> Result<crate::infer::geodesic::Outcome> {
        let spheres = self.spheres();
        let paces = self.paces();
        let manifold = Manifold { spheres: &spheres, len: self.shape.len(), paces: &paces };
        let here = Likelihood { value: crate::run::Sum(state.ln_likelihood), gradient: crate::run::Sum(std::mem::take(&mut state.slopes)) };
        let mut gradient = vec![0.0; self.shape.len()];
        let mut value = self.density(&state.law, &state.point, &here, &mut gradient, buffers);
        let mut last = None;
        let law = &state.law;
        let outcome = transition(
            manifold,
            &mut state.point,
            &mut value,
            &mut gradient,
            step,
            max_steps,
            |point: &[f64], gradient: &mut [f64]| {
                let found = self.ask(rows, point, buffers)?;
                let value = self.density(law, point, &found, gradient, buffers);
                last = Some(found);
                Ok(value)
            },
            rng,
        )?;
        let now = match last {
            Some(found) if outcome.accepted => found,
            _ => here,
        };
        (state.ln_likelihood, state.slopes) = (now.value.0, now.gradient.0);
        Ok(outcome)
    }

    /// A step size whose single leapfrog steps are accepted about half of the time: doubled or halved until that turns.
    fn first_step(&self, state: &mut State, rows: &mut dyn Rows<Self>, buffers: &mut Buffers, rng: &mut Philox) -> Result<()> {
        let mut step = FIRST_STEP;
        let mut before = None;
        for _ in 0..40 {
            let mut trial = state.clone();
            let accepted = self.trajectory(&mut trial, rows, step, 1, buffers, rng)?.accept_probability > 0.5;
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
    fn at(&self, point: Vec<f64>, law: Law) -> State {
        // the target was checked with the settings
        self.state(point, law).expect("a valid target acceptance")
    }

    fn point(state: &State) -> &[f64] {
        &state.point
    }

    fn law(state: &State) -> &Law {
        &state.law
    }
}

impl Program for Hmc {
    const NAME: &'static str = "experts/hmc";
    type Global = State;
    type Local = ();
    type Ask<'a> = Ask<'a>;
    type Stats = Likelihood;
    type Scratch = rows::Scratch;

    fn start(&self, rows: &mut dyn Rows<Self>, stream: Stream) -> Result<State> {
        let point = starts::start(&self.shape, self.law.intercept_sd, stream, &mut |weights, gradient| {
            let found = rows.all(&Ask(Cow::Borrowed(weights)))?;
            *gradient = found.gradient.0;
            Ok(found.value.0)
        })?;
        self.state(point, self.law.clone())
    }

    fn local(&self, _: &Block<'_>, _: Stream) {}

    fn sweep(&self, state: &mut State, rows: &mut dyn Rows<Self>, tick: Tick) -> Result<Report> {
        let mut rng = tick.stream.rng();
        let mut buffers = Buffers::default();
        if state.slopes.is_empty() {
            let found = self.ask(rows, &state.point, &mut buffers)?;
            (state.ln_likelihood, state.slopes) = (found.value.0, found.gradient.0);
        }
        if tick.warm_up && state.step.count() == 0 {
            self.first_step(state, rows, &mut buffers, &mut rng)?;
        }
        let step = if tick.warm_up { state.step.step() } else { state.step.final_step() };
        let outcome = self.trajectory(state, rows, step, self.max_steps, &mut buffers, &mut rng)?;
        if tick.warm_up {
            state.step.update(outcome.accept_probability);
        }
        let slopes = &mut state.slopes;
        let swapped = moves::swaps(&self.shape, &state.law, &mut state.point, &mut rng, |i| self.shape.exchange_weights(slopes, i, i + 1));
        if self.shape.inputs == 1 {
            self.flips(state, rows, &mut buffers, &mut rng)?;
        }
        hyper::update(self.hyper, &mut state.learning, &mut state.law, &self.shape, &state.point, tick.warm_up, &mut rng)?;
        let ln_prior = state.law.ln_density(&self.shape, &state.point);
        Ok(Report {
            objective: state.ln_likelihood + ln_prior,
            components: self.shape.experts as u32,
            converged: false,
            extras: vec![
                ("log_likelihood".into(), state.ln_likelihood),
                ("acceptance".into(), outcome.accept_probability),
                ("step".into(), step),
                ("divergent".into(), f64::from(u8::from(outcome.divergent))),
                ("swaps".into(), f64::from(swapped)),
            ],
        })
    }

    fn visit(&self, ask: &Ask<'_>, block: &Block<'_>, _: &mut (), scratch: &mut rows::Scratch, _: Stream) -> Result<Likelihood> {
        Ok(rows::likelihood(&self.design, &self.shape.gated(), &ask.0, block, |i| block.weight(i), scratch))
    }

    fn draw(&self, state: &State, out: &mut Draws) {
        let ln_prior = state.law.ln_density(&self.shape, &state.point);
        draws::keep(&self.shape, &state.point, &state.law, self.hyper, state.ln_likelihood, ln_prior, out);
    }
}

impl Hmc {
    /// Proposes the other sign of each direction that is one of two points.
    fn flips(&self, state: &mut State, rows: &mut dyn Rows<Self>, buffers: &mut Buffers, rng: &mut Philox) -> Result<()> {
        use rand::RngExt;
        let s = &self.shape;
        let mut places: Vec<usize> = Vec::new();
        if s.expert_dim() == 1 {
            places.extend(s.expert_directions());
        }
        places.extend(s.gate_directions());
        let mut now = state.ln_likelihood + state.law.directions(s, &state.point);
        for at in places {
            state.point[at] = -state.point[at];
            let found = self.ask(rows, &state.point, buffers)?;
            let then = found.value.0 + state.law.directions(s, &state.point);
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
