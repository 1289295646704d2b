//! Exact sampling of the mixture and its labels: components without end, looked at above a slice of each row.
//!
//! State between sweeps: the component z_i of every row, α, and the parameters of labels. A sweep draws, in this order:
//!
//! 1. sticks v_k ~ Beta(1 + n_k, α + n_{>k}) up to the last occupied component, α given them, and a few sticks from the prior
//!    (`line.rs`);
//! 2. exchanges of numbers of components, which keep large ones in front (`line.rs`);
//! 3. at the rows, a slice ln u_i = ln U + ln π_{z_i} each, and the auxiliary variables of labels given the parameters that the
//!    last sweep left: ω ~ PG(1, f) and, in `and`, which of the two coins made a label absent. Rows report the lowest slice and sums
//!    (`rows.rs`);
//! 4. sticks from the prior until less is left than the lowest slice: no row looks further;
//! 5. φ_k given its rows, from the prior without rows; (w_c, b_c) jointly, or w_c and ψ; then their precisions (`classifier.rs`);
//! 6. at the rows, z_i among the components above its slice, by densities alone, auxiliary variables summed out.
//!
//! In `cut` the classifiers are a posterior of their own, whose chain goes along: auxiliary variables in step 3, weights and precisions
//! in step 5. Neither chain looks at the other.
//!
//! Rows are independent given what they are asked, in both visits. Random numbers belong to blocks, components and labels, never to
//! threads.

pub(crate) mod ask;
pub(crate) mod check;
mod classifier;
pub(crate) mod draws;
pub(crate) mod generate;
mod label_model;
mod line;
mod rows;
mod start;

#[cfg(test)]
mod tests;

pub(crate) use classifier::Classifier;
pub(crate) use label_model::{LabelModel, Point};

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use super::classifier::{self as apart, Means};
use super::inputs::Inputs;
use super::kernel::Kernel;
use super::label_part::LabelPart;
use super::logit::Logit;
use super::mixture::Mixture;
use super::sticks::Concentration;
use crate::Result;
use crate::answer::SeenSets;
use crate::parallel;
use crate::run::{Block, Draws, Program, Report, Rows, Stream, Tick};
use crate::special::ln_gamma;
use ask::{Ask, Local, Scratch, Stats};
use line::Line;

/// The sampler.
#[derive(Debug, Clone)]
pub(crate) struct Gibbs {
    /// What kernel and classifiers see of a row.
    pub(crate) inputs: Inputs,
    /// Features within a component.
    pub(crate) kernel: Kernel,
    /// Labels within a component.
    pub(crate) labels: LabelModel,
    /// Classifiers that are fitted apart from the components.
    pub(crate) apart: Option<apart::Classifier>,
    /// How their weights are drawn.
    pub(crate) means: Means,
    /// Concentration of the components' weights.
    pub(crate) alpha: Concentration,
    /// Components that a chain begins with.
    pub(crate) seeds: usize,
    /// Components that a sweep may hold.
    pub(crate) most: usize,
}

/// Components that a sweep may hold as a rule.
pub(crate) const MOST: usize = 20_000;

/// State between sweeps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    /// α.
    pub(crate) alpha: f64,
    /// Rows of each component that the last sweep held.
    pub(crate) counts: Vec<u64>,
    /// Parameters of labels.
    pub(crate) point: Point,
    /// Parameters of features, component by component: see [`Kernel::draw`].
    pub(crate) parameters: Vec<f64>,
    /// ln π of the components.
    pub(crate) ln_weights: Vec<f64>,
    /// Logarithm of the weight of all others.
    pub(crate) ln_remaining: f64,
    /// Log density of features and labels given components and parameters, multinomial coefficients of features left out.
    pub(crate) ln_likelihood: f64,
    /// Rows of each component that have each label, and those that know it (K×C).
    pub(crate) present: Vec<f64>,
    pub(crate) known: Vec<f64>,
    /// Sets of labels of the rows that know all of theirs.
    pub(crate) seen: SeenSets,
}

/// Streams of a sweep: each component has its own for features, each label for its parameters.
const OF_COMPONENTS: u64 = 1 << 40;
const OF_LABELS: u64 = 2 << 40;
/// Streams of a block: each row has its own for classifiers that are fitted apart.
const OF_ROWS: u64 = 1 << 40;
/// Parameters from which on threads are worth waking.
const WORTH_THREADS: usize = 1 << 15;

impl Gibbs {
    /// The sampler of the model of a variational fit, whose chains begin with so many components.
    pub(crate) fn of(mixture: Mixture, seeds: usize) -> Self {
        let Mixture { inputs, kernel, labels, concentration } = mixture;
        let logit = |prior: &Logit| LabelModel::Logit { classifier: Classifier::of(prior), patterns: prior.pattern_precision };
        let (labels, apart) = match labels {
            LabelPart::Logit(p) => (logit(&p), None),
            LabelPart::Shared(p) => (logit(&p.prior), None),
            LabelPart::Rowwise(p) => (logit(&p.prior), None),
            LabelPart::And(p) => (LabelModel::And { classifier: Classifier::of(&p.weights), psi: p.pattern_prior }, None),
            LabelPart::Cut(p) => (LabelModel::Patterns(p.patterns), Some(p.classifier)),
            LabelPart::InRowSpace(_) => unreachable!("draws are of all columns"),
        };
        Self { inputs, kernel, labels, apart, means: Means::Matrices, alpha: concentration, seeds, most: MOST }
    }

    /// The same for so many rows: classifiers that are fitted apart take the cheapest way to draw their weights.
    pub(crate) fn for_rows(mut self, rows: usize) -> Self {
        self.means = self.apart.as_ref().map_or(Means::Matrices, |apart| Means::of(rows, apart.prior.dim));
        self
    }

    /// New weights of the classifiers that are fitted apart, given what rows said of the scales of their terms, and new precisions. Gives the
    /// largest residual of draws that are not exact.
    fn draw_apart(&self, point: &mut Point, stats: &Stats, sweep: u64, stream: Stream) -> Result<f64> {
        let Some(apart) = &self.apart else { return Ok(0.0) };
        let mut residual = 0.0;
        point.weights = if self.means == Means::Matrices {
            apart.draw(&stats.apart, &point.weight_precision, stream.visit(1))?
        } else {
            let drawn = apart.draw_by_rows(&stats.handed, &point.weight_precision, self.means, sweep, stream.visit(1))?;
            residual = drawn.1;
            drawn.0
        };
        point.weight_precision = apart.draw_precisions(&point.weights, stream.visit(2))?;
        Ok(residual)
    }

    /// Parameters of the features of so many components, given their statistics; those beyond have no rows.
    fn draw_features(&self, stats: &[f64], held: usize, stream: Stream) -> Result<Vec<f64>> {
        let size = self.kernel.size();
        let prior = self.kernel.prior();
        let component = |k: usize| -> Result<Vec<f64>> {
            let mut out = Vec::with_capacity(self.kernel.parameters());
            let mut rng = stream.item(OF_COMPONENTS + k as u64).rng();
            match stats.get(k * size..(k + 1) * size) {
                Some(own) => self.kernel.draw(&self.kernel.posterior(own)?, &mut rng, &mut out)?,
                None => self.kernel.draw(&prior, &mut rng, &mut out)?,
            }
            Ok(out)
        };
        let drawn: Result<Vec<Vec<f64>>> = if held * self.kernel.parameters() >= WORTH_THREADS {
            parallel::map_numbers(held, component).into_iter().collect()
        } else {
            (0..held).map(component).collect()
        };
        Ok(drawn?.concat())
    }

    /// ln p(z | α) of the partition, weights integrated out.
    fn ln_partition(&self, state: &State) -> f64 {
        let total: u64 = state.counts.iter().sum();
        let sizes = state.counts.iter().filter(|n| **n > 0);
        let parts: f64 = sizes.map(|&n| state.alpha.ln() + ln_gamma(n as f64)).sum();
        parts + ln_gamma(state.alpha) - ln_gamma(state.alpha + total as f64)
    }

    /// What is told as the objective: log density of features, labels and partition given the parameters.
    fn ln_joint(&self, state: &State) -> f64 {
        state.ln_likelihood + self.ln_partition(state)
    }
}

impl State {
    /// Components with rows.
    pub(crate) fn occupied(&self) -> usize {
        self.counts.iter().filter(|n| **n > 0).count()
    }
}

impl Program for Gibbs {
    const NAME: &'static str = "labels/gibbs";
    const RELEASES: &'static [&'static str] = &["0.1"];
    type Global = State;
    type Local = Local;
    type Ask<'a> = Ask<'a>;
    type Stats = Stats;
    type Scratch = Scratch;

    fn start(&self, rows: &mut dyn Rows<Self>, stream: Stream) -> Result<State> {
        start::start(self, rows, stream)
    }

    fn local(&self, block: &Block<'_>, _: Stream) -> Local {
        Local { z: vec![0; block.rows()], ln_slices: Vec::new() }
    }

    fn sweep(&self, state: &mut State, rows: &mut dyn Rows<Self>, tick: Tick) -> Result<Report> {
        let mut rng = tick.stream.rng();
        let mut line = Line::draw(&state.counts, &mut state.alpha, self.alpha, &mut rng)?;
        line.exchange(&mut rng);
        let occupied: Vec<usize> = (0..line.len()).filter(|&k| line.counts[k] > 0).collect();

        state.point.permute(&line.order, self.labels.labels());
        let mut numbers = vec![0; line.len().max(state.counts.len())];
        line.order.iter().enumerate().for_each(|(new, &old)| numbers[old] = new as u32);
        let ask =
            Ask::Slice { numbers: Cow::Owned(numbers), ln_weights: Cow::Owned(line.ln_weights().0), point: Cow::Borrowed(&state.point) };
        let stats = rows.all(&ask)?;

        let lowest = stats.lowest.0.first().copied().unwrap_or(0.0);
        line.extend(state.alpha, lowest, self.most, tick.sweep, &mut rng)?;
        (state.ln_weights, state.ln_remaining) = line.ln_weights();
        let held = line.len();
        state.parameters = self.draw_features(&stats.features.0, held, tick.stream)?;
        let helped = self.labels.draw(&mut state.point, &stats.labels, &occupied, held, tick.sweep, tick.stream)?;
        let residual = self.draw_apart(&mut state.point, &stats, tick.sweep, tick.stream)?;

        let ask = Ask::Assign {
            ln_weights: Cow::Borrowed(&state.ln_weights),
            table: Cow::Owned(self.kernel.table_of(&state.parameters, held)),
            point: Cow::Borrowed(&state.point),
        };
        let stats = rows.all(&ask)?;
        state.counts = stats.counts.0.iter().map(|n| *n as u64).collect();
        state.ln_likelihood = stats.ln_likelihood.0;
        (state.present, state.known) = (stats.present.0, stats.known.0);
        let extras = [("held", held as f64), ("alpha", state.alpha), ("helped_matrices", helped as f64)];
        let residual = (self.means == Means::Gradients).then_some(("residual", residual));
        let extras = extras.into_iter().chain(residual).map(|(name, value)| (name.to_string(), value)).collect();
        Ok(Report { objective: self.ln_joint(state), components: state.occupied() as u32, converged: false, extras })
    }

    fn visit(&self, ask: &Ask<'_>, block: &Block<'_>, local: &mut Local, scratch: &mut Scratch, stream: Stream) -> Result<Stats> {
        let mut rng = stream.rng();
        match ask {
            Ask::Seeds(rows) => Ok(self.seeds(rows, block, scratch)),
            Ask::Nearest(table) => Ok(self.nearest(table, block, local, scratch, &mut rng)),
            Ask::Slice { numbers, ln_weights, point } => self.slice(numbers, ln_weights, point, block, local, scratch, stream),
            Ask::Assign { ln_weights, table, point } => self.assign(ln_weights, table, point, block, local, scratch, &mut rng),
        }
    }

    fn draw(&self, state: &State, out: &mut Draws) {
        draws::write(self, state, out);
    }
}
