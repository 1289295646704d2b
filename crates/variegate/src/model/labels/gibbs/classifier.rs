//! Weights of labels, drawn jointly with the patterns of components where these are log-odds too.

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};

use super::OF_LABELS;
use super::label_model::{LabelModel, LabelSums, Point, draw_precision, normal};
use crate::data::design::packed_len;
use crate::dist::Beta;
use crate::linalg::{Cholesky, dot};
use crate::model::labels::gamma_factor::Precision;
use crate::model::labels::logit::Logit;
use crate::model::labels::patterns::{self, Patterns};
use crate::parallel;
use crate::run::Stream;
use crate::{Error, Result};

/// One linear predictor a label, w_c'x̃.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Classifier {
    /// Number of labels.
    pub(crate) labels: usize,
    /// Numbers of x̃; the bias, where there is one, comes last.
    pub(crate) dim: usize,
    /// Whether there is a bias.
    pub(crate) intercept: bool,
    /// Prior precision of the bias.
    pub(crate) bias_precision: f64,
    /// Precision of the other weights of a label.
    pub(crate) weight_precision: Precision,
}

/// Operations of a draw from which on threads are worth waking.
const WORTH_THREADS: usize = 1 << 18;

/// What was drawn for a label: weights, patterns of all components, and the two precisions.
struct OfLabel {
    weights: Vec<f64>,
    patterns: Vec<f64>,
    precisions: (f64, f64),
    /// Whether the diagonal of the precision matrix had to be helped.
    helped: bool,
}

impl Classifier {
    /// Those with the priors of a variational fit.
    pub(super) fn of(prior: &Logit) -> Self {
        Self {
            labels: prior.labels,
            dim: prior.dim,
            intercept: prior.intercept,
            bias_precision: prior.bias_precision,
            weight_precision: prior.weight_precision,
        }
    }

    /// Prior precision of each weight of a label.
    pub(crate) fn precisions(&self, tau: f64) -> Vec<f64> {
        let mut out = vec![tau; self.dim];
        if let (true, Some(last)) = (self.intercept, out.last_mut()) {
            *last = self.bias_precision;
        }
        out
    }

    /// Weights that share a precision, and the sum of their squares.
    fn squares(&self, weights: &[f64]) -> (usize, f64) {
        let own = &weights[..self.dim - usize::from(self.intercept)];
        (own.len(), dot(own, own))
    }

    /// A draw of (w_c, b_kc of these components) from N(Q⁻¹h, Q⁻¹), Q = [[A + P, B], [B', diag(d + τ)]], and whether Q had to be helped.
    fn draw<R: Rng + ?Sized>(
        &self,
        c: usize,
        sums: &LabelSums,
        tau: f64,
        components: &[usize],
        pattern_tau: f64,
        sweep: u64,
        rng: &mut R,
    ) -> Result<(Vec<f64>, bool)> {
        let (labels, dim) = (self.labels, self.dim);
        let size = dim + components.len();
        let mut q = vec![0.0; size * size];
        let gram = &sums.grams.0[c * packed_len(dim)..(c + 1) * packed_len(dim)];
        for (i, precision) in self.precisions(tau).into_iter().enumerate() {
            q[i * size..=i * size + i].copy_from_slice(&gram[packed_len(i)..=packed_len(i) + i]);
            q[i * size + i] += precision;
        }
        let mut linear = sums.linear.0[c * dim..(c + 1) * dim].to_vec();
        for (row, &k) in (dim..).zip(components) {
            let at = k * labels + c;
            q[row * size..row * size + dim].copy_from_slice(&sums.crosses.0[at * dim..(at + 1) * dim]);
            q[row * size + row] = sums.first.0[at] + pattern_tau;
            linear.push(sums.second.0[at]);
        }
        let (factor, jitter) = Cholesky::with_jitter(size, &q).map_err(|e| Error::Numerical {
            what: "the Gaussian draw of the weights",
            sweep,
            detail: format!("label {}: {e}; standardise the columns", c + 1),
        })?;
        // L⁻ᵀ(L⁻¹h + ε)
        factor.solve_lower(&mut linear);
        linear.iter_mut().for_each(|v| {
            let z: f64 = StandardNormal.sample(rng);
            *v += z;
        });
        factor.solve_upper(&mut linear);
        Ok((linear, jitter > 0.0))
    }
}

impl LabelModel {
    /// New parameters given sums over rows, for `held` components of which these have rows. Each label has a stream of its own among
    /// those of the sweep. Says for how many labels a precision matrix was only just not positive definite and had to be helped.
    pub(super) fn draw(
        &self,
        point: &mut Point,
        sums: &LabelSums,
        occupied: &[usize],
        held: usize,
        sweep: u64,
        stream: Stream,
    ) -> Result<usize> {
        let labels = self.labels();
        match self {
            Self::Patterns(patterns) => {
                point.patterns = draw_patterns(patterns, sums, held, &mut stream.item(OF_LABELS).rng())?;
                return Ok(0);
            }
            Self::Logit { .. } => {}
            Self::And { psi, .. } => {
                let mut rng = stream.item(OF_LABELS).rng();
                point.patterns.clear();
                for at in 0..held * labels {
                    let (a, b) = (sums.first.0.get(at).unwrap_or(&0.0), sums.second.0.get(at).unwrap_or(&0.0));
                    point.patterns.push(Beta::new(psi.0 + a, psi.1 + b)?.sample_logit(&mut rng));
                }
            }
        }
        let work = labels * (self.classifier().map_or(0, |c| c.dim) + occupied.len()).pow(2);
        let of_label = |c: usize| self.draw_label(c, point, sums, occupied, held, sweep, stream.item(OF_LABELS + 1 + c as u64));
        let drawn: Vec<Result<OfLabel>> =
            if work >= WORTH_THREADS { parallel::map_numbers(labels, of_label) } else { (0..labels).map(of_label).collect() };
        point.weights.clear();
        point.weight_precision.clear();
        if matches!(self, Self::Logit { .. }) {
            point.patterns = vec![0.0; held * labels];
            point.pattern_precision.clear();
        }
        let mut all_helped = 0;
        for (c, drawn) in drawn.into_iter().enumerate() {
            let OfLabel { weights, patterns, precisions, helped } = drawn?;
            all_helped += usize::from(helped);
            point.weights.extend(weights);
            point.weight_precision.push(precisions.0);
            if matches!(self, Self::Logit { .. }) {
                patterns.iter().enumerate().for_each(|(k, b)| point.patterns[k * labels + c] = *b);
                point.pattern_precision.push(precisions.1);
            }
        }
        Ok(all_helped)
    }

    fn draw_label(
        &self,
        c: usize,
        point: &Point,
        sums: &LabelSums,
        occupied: &[usize],
        held: usize,
        sweep: u64,
        stream: Stream,
    ) -> Result<OfLabel> {
        let mut rng = stream.rng();
        let none = OfLabel { weights: Vec::new(), patterns: Vec::new(), precisions: (f64::NAN, f64::NAN), helped: false };
        match self {
            Self::Patterns(_) => Ok(none),
            Self::Logit { classifier, patterns } => {
                let tau = (point.weight_precision[c], point.pattern_precision[c]);
                let (mut weights, helped) = classifier.draw(c, sums, tau.0, occupied, tau.1, sweep, &mut rng)?;
                let own = weights.split_off(classifier.dim);
                // a component without rows has its patterns from the prior: all of them belong to what their precision is drawn from
                let mut all: Vec<f64> = (0..held).map(|_| normal(tau.1, &mut rng)).collect();
                occupied.iter().zip(own).for_each(|(&k, b)| all[k] = b);
                let (count, squares) = classifier.squares(&weights);
                let weight_precision = draw_precision(classifier.weight_precision, count, squares, &mut rng)?;
                let pattern_precision = draw_precision(*patterns, held, dot(&all, &all), &mut rng)?;
                Ok(OfLabel { weights, patterns: all, precisions: (weight_precision, pattern_precision), helped })
            }
            Self::And { classifier, .. } => {
                let (weights, helped) = classifier.draw(c, sums, point.weight_precision[c], &[], 0.0, sweep, &mut rng)?;
                let (count, squares) = classifier.squares(&weights);
                let precision = draw_precision(classifier.weight_precision, count, squares, &mut rng)?;
                Ok(OfLabel { weights, precisions: (precision, f64::NAN), helped, ..none })
            }
        }
    }
}

/// Patterns of so many components; those beyond the sums come from the prior.
fn draw_patterns<R: Rng + ?Sized>(model: &Patterns, sums: &LabelSums, held: usize, rng: &mut R) -> Result<Vec<f64>> {
    let mut stats = patterns::Stats { present: sums.first.clone(), absent: sums.second.clone(), ..patterns::Stats::default() };
    stats.present.0.resize(held * model.labels(), 0.0);
    if !stats.absent.0.is_empty() {
        stats.absent.0.resize(held * model.labels(), 0.0);
    }
    let mut q = model.start(held);
    model.update(&mut q, &stats)?;
    model.draw(&q, rng)
}
