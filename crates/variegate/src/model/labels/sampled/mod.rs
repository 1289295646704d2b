//! Draws as a posterior: what all of them say, and which of their components are the same.
//!
//! Numbers of components mean nothing from one draw to another, and there are not always as many. One draw is the reference: among those
//! with the commonest number of components the one of the highest log joint density. Components of the others are paired with its own,
//! one to one: two are alike if each would take in a row that is like the mean of the other. What has no pair says nothing of the
//! components of the reference; predictions of labels need no pairs at all.

mod report;
mod stage;

pub(super) use report::{arrays, summary};
pub(super) use stage::DrawStage;

use serde::{Deserialize, Serialize};

use super::gibbs::draws::Draw;
use super::kernel::{Kernel, Scratch, Table};
use super::label_part::LabelPart;
use super::mixture::Mixture;
use super::patterns::Patterns;
use crate::data::X;
use crate::infer::assignment::assign;
use crate::parallel;
use crate::special::{log_sum_exp, sigmoid};

/// Components that are less alike than this are not the same.
const ALIKE: f64 = 0.3;

/// Draws of all chains.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sampled {
    pub(crate) draws: Vec<Draw>,
    /// Draws of each chain.
    pub(crate) lengths: Vec<usize>,
    /// The draw whose components stand for those of all.
    pub(crate) reference: usize,
    /// For each draw, which of its components are those of the reference, these in order of falling numbers of rows.
    pub(crate) same: Vec<Vec<Option<usize>>>,
}

impl Sampled {
    /// Pairs the components of draws. A row of counts sums to `total` on average.
    pub(crate) fn new(mixture: &Mixture, total: f64, draws: Vec<Draw>, lengths: Vec<usize>) -> Self {
        let reference = reference(&draws);
        let own = &draws[reference];
        let mut order: Vec<usize> = (0..own.components()).collect();
        order.sort_by_key(|&k| std::cmp::Reverse(own.rows[k]));
        let first = Side::new(mixture, total, own);
        let pair = |_, draw: &Draw| {
            let pairs = first.pairs(&Side::new(mixture, total, draw));
            order.iter().map(|&k| pairs[k]).collect()
        };
        let same = parallel::map(&draws, pair);
        Self { draws, lengths, reference, same }
    }

    /// Components of the reference.
    pub(crate) fn components(&self) -> usize {
        self.draws[self.reference].components()
    }

    /// A number of each draw.
    fn each(&self, f: impl Fn(&Draw) -> f64) -> Vec<f64> {
        self.draws.iter().map(f).collect()
    }

    /// Share of the draws that have a component.
    fn presence(&self, k: usize) -> f64 {
        self.same.iter().filter(|s| s[k].is_some()).count() as f64 / self.draws.len() as f64
    }

    /// Mean of a number of a component over the draws that have it.
    fn mean_of(&self, k: usize, f: impl Fn(&Draw, usize) -> f64) -> f64 {
        let found = self.draws.iter().zip(&self.same).filter_map(|(draw, same)| same[k].map(|place| f(draw, place)));
        let (sum, count) = found.fold((0.0, 0.0), |(sum, count), v| (sum + v, count + 1.0));
        sum / count
    }
}

/// Among the draws with the commonest number of components the one of the highest log joint density, the first of equals.
fn reference(draws: &[Draw]) -> usize {
    let most = draws.iter().map(Draw::components).max().unwrap_or(0);
    let mut times = vec![0usize; most + 1];
    draws.iter().for_each(|d| times[d.components()] += 1);
    let mode = (0..=most).fold(0, |best, k| if times[k] > times[best] { k } else { best });
    let better = |best: Option<usize>, i: usize| match best {
        Some(b) if draws[b].ln_joint >= draws[i].ln_joint => Some(b),
        _ => Some(i),
    };
    (0..draws.len()).filter(|&i| draws[i].components() == mode).fold(None, better).unwrap_or(0)
}

/// What the patterns of a draw are as probabilities of a row of average inputs (K×C); shares of labels where they are such.
fn pattern_probabilities(part: &LabelPart, draw: &Draw) -> Vec<f64> {
    let labels = draw.patterns.len() / draw.components().max(1);
    let dim = draw.weights.len() / labels.max(1);
    let probability = |(at, &pattern): (usize, &f64)| match part.coupling() {
        LabelPart::Logit(_) | LabelPart::Shared(_) | LabelPart::Rowwise(_) => sigmoid(pattern + bias(draw, at % labels, dim)),
        LabelPart::Cut(cut) if matches!(cut.patterns, Patterns::Multinomial { .. }) => pattern.exp(),
        LabelPart::And(_) | LabelPart::Cut(_) | LabelPart::InRowSpace(_) => sigmoid(pattern),
    };
    draw.patterns.iter().enumerate().map(probability).collect()
}

/// The bias of a label, which comes last among its weights.
fn bias(draw: &Draw, label: usize, dim: usize) -> f64 {
    draw.weights[(label + 1) * dim - 1]
}

/// A draw as others are compared with it.
struct Side {
    components: usize,
    /// Mean row of each component.
    means: Vec<f64>,
    width: usize,
    /// Its probabilities of labels (K×C).
    labels: Vec<f64>,
    table: Table,
}

impl Side {
    fn new(mixture: &Mixture, total: f64, draw: &Draw) -> Self {
        let (kernel, components) = (&mixture.kernel, draw.components());
        let times = if matches!(kernel, Kernel::Multinomial(_)) { total } else { 1.0 };
        let parameters = (0..components).map(|k| &draw.parameters[k * kernel.parameters()..(k + 1) * kernel.parameters()]);
        let means = parameters.flat_map(|p| kernel.mean_of(p)).map(|m| m * times).collect();
        let table = kernel.table_of(&draw.parameters, components);
        Self { components, means, width: kernel.width(), labels: pattern_probabilities(&mixture.labels, draw), table }
    }

    /// How much a row like the mean of each component here would belong to each component there (K×K'); shares of a row sum to one.
    fn shares_in(&self, there: &Self) -> Vec<f64> {
        let mut out = vec![0.0; self.components * there.components];
        let rows = X::Dense { rows: self.components, cols: self.width, values: &self.means };
        there.table.evaluate(rows, &mut out, &mut Scratch::default());
        let labels = self.labels.len() / self.components.max(1);
        for (row, p) in out.chunks_exact_mut(there.components.max(1)).zip(self.labels.chunks_exact(labels.max(1))) {
            for (term, q) in row.iter_mut().zip(there.labels.chunks_exact(labels.max(1))) {
                let ln = |v: f64| v.max(f64::MIN_POSITIVE).ln();
                *term += p.iter().zip(q).map(|(&p, &q)| p * ln(q) + (1.0 - p) * ln(1.0 - q)).sum::<f64>();
            }
            let all = log_sum_exp(row);
            row.iter_mut().for_each(|v| *v = if all.is_finite() { (*v - all).exp() } else { 0.0 });
        }
        out
    }

    /// For each component here the one there that it is, if there is one.
    fn pairs(&self, there: &Self) -> Vec<Option<usize>> {
        let (k, other) = (self.components, there.components);
        let (to, from) = (self.shares_in(there), there.shares_in(self));
        let worth: Vec<f64> = (0..k * other).map(|at| (to[at] * from[at % other * k + at / other]).sqrt()).collect();
        let found = assign(&worth, k, other);
        found.into_iter().enumerate().map(|(i, j)| j.filter(|j| worth[i * other + j] >= ALIKE)).collect()
    }
}

#[cfg(test)]
mod tests;
