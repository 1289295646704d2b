//! What draws say of new rows: each says it for itself, and probabilities are averaged. Weights never are.

use super::{Sampled, pattern_probabilities};
use crate::answer::evenly;
use crate::data::{Panel, X};
use crate::model::labels::classifier::{Loss, hinge_probability};
use crate::model::labels::expected_sigmoid::expected_sigmoid;
use crate::model::labels::gibbs::draws::Draw;
use crate::model::labels::inputs::InputScratch;
use crate::model::labels::kernel::{self, Predictive, Table};
use crate::model::labels::label_part::LabelPart;
use crate::model::labels::mixture::Mixture;
use crate::model::labels::settings::CombineKind;
use crate::model::labels::stage::{Answer, Told, combined, ln_of, normalise};
use crate::parallel;
use crate::special::sigmoid;

/// Components with a smaller share of a row say nothing of its labels.
const LEAST_SHARE: f64 = 1e-7;
/// Draws that sets of labels are judged by, at most: the components of all of them lie side by side.
const SET_DRAWS: usize = 32;

/// Draws made ready for new rows. After the components of the reference come all others that have rows, then those that have none.
pub(crate) struct DrawStage<'a> {
    mixture: &'a Mixture,
    sampled: &'a Sampled,
    ready: Vec<Ready>,
    /// Density of a row in a component without rows; a power has none, and is integrated row by row.
    pub(super) prior: Option<Predictive>,
    combine: CombineKind,
    /// Share of the rows with each label, for log-odds of patterns.
    rates: Vec<f64>,
    /// Draws that sets are judged by; none where nobody asks for sets.
    for_sets: Vec<usize>,
}

/// One draw.
struct Ready {
    table: Table,
    /// ln π of each component, that of all without rows last.
    ln_weights: Vec<f64>,
    /// Patterns: b of `logit` (K×C); else probabilities, those of a new component last ((K+1)×C).
    patterns: Vec<f64>,
    /// Which column of the shares each component belongs to.
    places: Vec<usize>,
}

/// What was found of a panel of rows, and buffers.
#[derive(Default)]
struct Room {
    kernel: kernel::Scratch,
    /// Log densities of features (rows × K of a draw).
    terms: Vec<f64>,
    /// The same in a component without rows (rows).
    ln_new: Vec<f64>,
    /// w'x̃ (rows × C).
    predictor: Vec<f64>,
    /// Shares of a row in the components of a draw, and probabilities of its labels in each of them ((K+1)×C).
    own: Vec<f64>,
    within: Vec<f64>,
    /// Probabilities by the classifiers alone (rows × C).
    alone: Vec<f64>,
    shares: Vec<f64>,
    probability: Vec<f64>,
    score: Vec<f64>,
    /// Of each row, shares of the components that sets are judged by, and probabilities of labels in each.
    sets: Vec<(Vec<f64>, Vec<f64>)>,
}

impl<'a> DrawStage<'a> {
    pub(crate) fn new(mixture: &'a Mixture, sampled: &'a Sampled, combine: CombineKind, rates: Vec<f64>, sets: bool) -> Self {
        let others = sampled.components();
        let new_patterns = match &mixture.labels {
            LabelPart::Logit(_) | LabelPart::Shared(_) | LabelPart::Rowwise(_) => Vec::new(),
            LabelPart::And(p) => vec![p.new_pattern(); rates.len()],
            LabelPart::Cut(p) => p.patterns.prior_probabilities(),
            LabelPart::InRowSpace(_) => unreachable!("draws are of all columns"),
        };
        let ready = |_, (draw, same): (&Draw, &Vec<Option<usize>>)| {
            let mut places = vec![others; draw.components()];
            same.iter().enumerate().for_each(|(column, place)| place.iter().for_each(|&k| places[k] = column));
            let patterns = match &mixture.labels {
                LabelPart::Logit(_) | LabelPart::Shared(_) | LabelPart::Rowwise(_) => draw.patterns.clone(),
                part => [pattern_probabilities(part, draw), new_patterns.clone()].concat(),
            };
            Ready {
                table: mixture.kernel.table_of(&draw.parameters, draw.components()),
                ln_weights: draw.ln_weights.iter().copied().chain([draw.ln_remaining]).collect(),
                patterns,
                places,
            }
        };
        let prior = (mixture.kernel.power() == 1.0).then(|| mixture.kernel.predictive(&[mixture.kernel.prior()]));
        Self {
            mixture,
            sampled,
            ready: parallel::map(sampled.draws.iter().zip(&sampled.same), ready),
            prior,
            combine,
            rates,
            for_sets: if sets { evenly(sampled.draws.len(), SET_DRAWS) } else { Vec::new() },
        }
    }

    /// Log densities of rows in a component whose parameters have the prior distribution.
    fn ln_new(&self, x: X<'_>, room: &mut Room) {
        room.ln_new.clear();
        room.ln_new.resize(x.rows(), 0.0);
        if let Some(prior) = &self.prior {
            return prior.evaluate(x, &mut room.ln_new, &mut room.kernel);
        }
        let kernel = &self.mixture.kernel;
        for (i, out) in room.ln_new.iter_mut().enumerate() {
            let mut stats = vec![0.0; kernel.size()];
            kernel.add(x.slice(i..i + 1), &[1.0], 1, &mut stats, &mut room.kernel);
            *out = kernel.ln_marginal(&stats).unwrap_or(f64::NEG_INFINITY);
        }
    }

    /// Probabilities of labels of a row with predictors f in component k of a draw; after the last comes one without rows.
    fn within(&self, draw: &Draw, ready: &Ready, k: usize, f: &[f64], out: &mut [f64]) {
        let patterns = ready.patterns.get(k * f.len()..(k + 1) * f.len()).unwrap_or(&[]);
        match &self.mixture.labels {
            LabelPart::Logit(_) | LabelPart::Shared(_) | LabelPart::Rowwise(_) if k < draw.components() => {
                out.iter_mut().zip(f).zip(patterns).for_each(|((o, f), b)| *o = sigmoid(f + b));
            }
            LabelPart::Logit(_) | LabelPart::Shared(_) | LabelPart::Rowwise(_) => {
                // b of such a component is normal with the precision of the draw
                out.iter_mut().zip(f).zip(&draw.pattern_precision).for_each(|((o, &f), tau)| *o = expected_sigmoid(f, 1.0 / tau));
            }
            LabelPart::And(_) => out.iter_mut().zip(f).zip(patterns).for_each(|((o, &f), p)| *o = p * sigmoid(f)),
            LabelPart::Cut(_) | LabelPart::InRowSpace(_) => out.copy_from_slice(patterns),
        }
        // where a row is too large for f64, weights say nothing of it
        out.iter_mut().filter(|p| p.is_nan()).for_each(|p| *p = 0.5);
    }

    /// Adds what a draw says of rows to the sums.
    fn add(&self, number: usize, x: X<'_>, panel: &mut Panel<'_>, known: &[i8], room: &mut Room) {
        let (draw, ready) = (&self.sampled.draws[number], &self.ready[number]);
        let (labels, components, columns) = (self.rates.len(), draw.components(), self.components());
        let Room { kernel, terms, ln_new, predictor, own, within, alone, shares, probability, sets, .. } = room;
        terms.clear();
        terms.resize(x.rows() * components, 0.0);
        ready.table.evaluate(x, terms, kernel);
        predictor.resize(x.rows() * labels, 0.0);
        panel.mul_t(&draw.weights, labels, predictor);
        within.resize((components + 1) * labels, 0.0);
        let for_sets = self.for_sets.contains(&number);
        for i in 0..x.rows() {
            let f = &predictor[i * labels..(i + 1) * labels];
            own.clear();
            own.extend(terms[i * components..(i + 1) * components].iter().chain([&ln_new[i]]).zip(&ready.ln_weights).map(|(t, w)| t + w));
            if !known.is_empty() {
                let y = &known[i * labels..(i + 1) * labels];
                for (k, (share, p)) in own.iter_mut().zip(within.chunks_exact_mut(labels)).enumerate() {
                    self.within(draw, ready, k, f, p);
                    *share += y.iter().zip(&*p).map(|(&y, &p)| ln_of(y, p)).sum::<f64>();
                }
            }
            normalise(own);
            let places = ready.places.iter().copied().chain([columns - 1]);
            for (k, ((&share, place), p)) in own.iter().zip(places).zip(within.chunks_exact_mut(labels)).enumerate() {
                shares[i * columns + place] += share;
                if share < LEAST_SHARE {
                    continue;
                }
                if known.is_empty() {
                    self.within(draw, ready, k, f, p);
                }
                probability[i * labels..(i + 1) * labels].iter_mut().zip(&*p).for_each(|(o, p)| *o += share * p);
                if for_sets {
                    sets[i].0.push(share / self.for_sets.len() as f64);
                    sets[i].1.extend_from_slice(p);
                }
            }
            if let LabelPart::Cut(cut) = &self.mixture.labels {
                let hinge = cut.classifier.loss != Loss::Logistic;
                for (o, &f) in alone[i * labels..(i + 1) * labels].iter_mut().zip(f) {
                    let p = if hinge { hinge_probability(f) } else { sigmoid(f) };
                    *o += if p.is_nan() { 0.5 } else { p };
                }
            }
        }
    }
}

impl Answer for DrawStage<'_> {
    fn components(&self) -> usize {
        self.sampled.components() + 2
    }

    fn panel(&self, x: X<'_>, known: &[i8]) -> Box<dyn Told> {
        let (rows, labels, draws) = (x.rows(), self.rates.len(), self.ready.len());
        let mut room = Room {
            alone: vec![0.0; rows * labels],
            shares: vec![0.0; rows * self.components()],
            probability: vec![0.0; rows * labels],
            sets: vec![Default::default(); rows],
            ..Room::default()
        };
        self.mixture.inputs.with(x, &mut InputScratch::default(), |x, panel| {
            self.ln_new(x, &mut room);
            (0..draws).for_each(|number| self.add(number, x, panel, known, &mut room));
        });
        let Room { shares, probability, alone, score, .. } = &mut room;
        shares.iter_mut().chain(&mut *probability).chain(&mut *alone).for_each(|v| *v /= draws as f64);
        if matches!(self.mixture.labels, LabelPart::Cut(_)) {
            // draws may be as sure as f64 can tell, and two of them of the opposite
            probability.iter_mut().chain(&mut *alone).for_each(|p| *p = p.clamp(f64::MIN_POSITIVE, 1.0 - f64::EPSILON));
            for (pattern, alone) in probability.chunks_exact_mut(labels).zip(alone.chunks_exact(labels)) {
                combined(self.combine, &self.rates, pattern, alone);
            }
        }
        score.clone_from(probability);
        // sums of shares may pass 1 by rounding, products by more
        probability.iter_mut().for_each(|p| *p = p.min(1.0));
        Box::new(room)
    }
}

impl Told for Room {
    fn shares(&self) -> &[f64] {
        &self.shares
    }

    fn probability(&self) -> &[f64] {
        &self.probability
    }

    fn score(&self) -> &[f64] {
        &self.score
    }

    fn components_of(&self, row: usize) -> (&[f64], &[f64]) {
        let (shares, within) = &self.sets[row];
        (shares, within)
    }
}
