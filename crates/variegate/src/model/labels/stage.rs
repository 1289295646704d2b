//! What a fit says of new rows: the component that each may be from, and the labels that follow.

use super::inputs::InputScratch;
use super::kernel::{self, Predictive, Table};
use super::label_part::{LabelFactors, LabelPart, LabelView};
use super::logit::{rowwise, shared};
use super::mixture::{Factors, Mixture};
use super::patterns::{self, Patterns};
use super::settings::CombineKind;
use super::{and, cut, logit};
use crate::data::{Panel, X};
use crate::special::{log_sum_exp, sigmoid};

/// Components with a smaller share of a row say nothing of its labels.
const LEAST_SHARE: f64 = 1e-9;

/// What answers panels of new rows: a variational posterior, or draws.
pub(crate) trait Answer: Sync {
    /// Columns of the shares; the last is that of rows which are like none of those known.
    fn components(&self) -> usize;
    /// Shares and labels of rows. Labels that are known of them (row-major; empty if none are) speak for components too.
    fn panel(&self, x: X<'_>, known: &[i8]) -> Box<dyn Told>;
}

/// What was found of a panel of rows.
pub(crate) trait Told {
    /// Shares of components (rows × components).
    fn shares(&self) -> &[f64];
    /// Probabilities of labels (rows × C).
    fn probability(&self) -> &[f64];
    /// What labels are ranked by (rows × C).
    fn score(&self) -> &[f64];
    /// What sets of labels of a row are judged by: shares of components, and probabilities of labels in each of them.
    fn components_of(&self, row: usize) -> (&[f64], &[f64]);
}

/// A variational posterior made ready for new rows. The component after the last is that of rows which are like none of those known.
pub(crate) struct Stage<'a> {
    mixture: &'a Mixture,
    /// ln E π_k, the remaining weight last; under a power E ln π_k.
    ln_weights: Vec<f64>,
    density: Density,
    labels: LabelView,
    factors: &'a LabelFactors,
    combine: CombineKind,
    /// Share of the rows with each label, for log-odds of patterns.
    rates: Vec<f64>,
}

/// Density of a row in each component.
enum Density {
    Predictive(Predictive),
    Expected(Table),
}

/// Buffers of a panel of rows, and what was found of them.
#[derive(Default)]
pub(crate) struct Room {
    inputs: InputScratch,
    kernel: kernel::Scratch,
    logit: logit::Scratch,
    shared: shared::Scratch,
    rowwise: rowwise::Scratch,
    and: and::Scratch,
    cut: cut::Scratch,
    and_by_rows: and::RowScratch,
    cut_by_rows: cut::RowScratch,
    and_shared: and::SharedScratch,
    cut_shared: cut::SharedScratch,
    /// Shares of components (rows × (K+1)).
    shares: Vec<f64>,
    /// Probabilities of labels in each component (rows × (K+1) × C).
    within: Vec<f64>,
    /// Probabilities by the classifiers alone (rows × C).
    alone: Vec<f64>,
    /// Probabilities of labels (rows × C).
    pub(crate) probability: Vec<f64>,
    /// What labels are ranked by (rows × C).
    score: Vec<f64>,
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
        let components = self.within.len() / self.probability.len().max(1);
        let width = self.within.len() * components / self.shares.len().max(1);
        (&self.shares[row * components..(row + 1) * components], &self.within[row * width..(row + 1) * width])
    }
}

impl Room {
    /// Where a row is too large for f64, weights say nothing of it.
    fn without_nan(&mut self) {
        self.within.iter_mut().chain(&mut self.alone).filter(|p| p.is_nan()).for_each(|p| *p = 0.5);
    }

    /// Probabilities within components: those of patterns (C×K; of a new component `new`) times those of the classifiers.
    fn multiply(&mut self, patterns: &[f64], new: f64, components: usize, labels: usize) {
        let known = components - 1;
        for (within, alone) in self.within.chunks_exact_mut(components * labels).zip(self.alone.chunks_exact(labels)) {
            for (k, within) in within.chunks_exact_mut(labels).enumerate() {
                for c in 0..labels {
                    let pattern = if k < known { patterns[c * known + k] } else { new };
                    within[c] = pattern * alone[c];
                }
            }
        }
    }

    /// Probabilities within components: those of patterns, whatever the row.
    fn copy(&mut self, part: &Patterns, q: &patterns::Factors) {
        let mut all = part.probabilities(q);
        all.extend(part.prior_probabilities());
        self.within.chunks_exact_mut(all.len().max(1)).for_each(|within| within.copy_from_slice(&all));
    }
}

impl Answer for Stage<'_> {
    fn components(&self) -> usize {
        self.ln_weights.len()
    }

    fn panel(&self, x: X<'_>, known: &[i8]) -> Box<dyn Told> {
        let mut room = Room::default();
        self.rows(x, known, &mut room);
        Box::new(room)
    }
}

impl<'a> Stage<'a> {
    pub(crate) fn new(mixture: &'a Mixture, q: &'a Factors, combine: CombineKind, rates: Vec<f64>) -> Self {
        let mut components = q.components.clone();
        components.push(mixture.kernel.prior());
        let tempered = mixture.kernel.power() != 1.0;
        let mut ln_weights = if tempered { q.sticks.ln_weights() } else { q.sticks.ln_mean_weights() };
        ln_weights.push(if tempered { q.sticks.ln_remaining() } else { q.sticks.ln_mean_remaining() });
        let density = if tempered {
            Density::Expected(mixture.kernel.expected(&components))
        } else {
            Density::Predictive(mixture.kernel.predictive(&components))
        };
        Self { mixture, ln_weights, density, labels: mixture.labels.view(&q.labels), factors: &q.labels, combine, rates }
    }

    fn labels(&self) -> usize {
        self.rates.len()
    }

    pub(crate) fn rows(&self, x: X<'_>, known: &[i8], room: &mut Room) {
        let (labels, components) = (self.labels(), self.components());
        let mut inputs = std::mem::take(&mut room.inputs);
        self.mixture.inputs.with(x, &mut inputs, |x, panel| {
            self.densities(x, room);
            self.within(panel, room, 0.0);
        });
        room.inputs = inputs;
        room.without_nan();
        if !known.is_empty() {
            let rows = room.shares.chunks_exact_mut(components).zip(room.within.chunks_exact(components * labels));
            for ((shares, within), y) in rows.zip(known.chunks_exact(labels)) {
                for (share, p) in shares.iter_mut().zip(within.chunks_exact(labels)) {
                    *share += y.iter().zip(p).map(|(&y, &p)| ln_of(y, p)).sum::<f64>();
                }
            }
        }
        room.shares.chunks_exact_mut(components).for_each(normalise);
        self.combine(room);
    }

    /// Probabilities of the labels of rows, all of them unknown, to the same bits; labels in components that say nothing of them are not looked at.
    pub(crate) fn probabilities(&self, x: X<'_>, room: &mut Room) {
        let mut inputs = std::mem::take(&mut room.inputs);
        self.mixture.inputs.with(x, &mut inputs, |x, panel| {
            self.densities(x, room);
            room.shares.chunks_exact_mut(self.components()).for_each(normalise);
            self.within(panel, room, LEAST_SHARE);
        });
        room.inputs = inputs;
        room.without_nan();
        self.combine(room);
    }

    /// Log weights of components with the densities of rows: logarithms of shares but for their sum.
    fn densities(&self, x: X<'_>, room: &mut Room) {
        room.shares.clear();
        (0..x.rows()).for_each(|_| room.shares.extend_from_slice(&self.ln_weights));
        match &self.density {
            Density::Predictive(p) => p.evaluate(x, &mut room.shares, &mut room.kernel),
            Density::Expected(t) => t.evaluate(x, &mut room.shares, &mut room.kernel),
        }
    }

    /// Probabilities of labels within each component; those of shares below `least` may be left 0.
    fn within(&self, panel: &mut Panel<'_>, room: &mut Room, least: f64) {
        let (labels, components, rows) = (self.labels(), self.components(), panel.rows());
        room.within.clear();
        room.within.resize(rows * components * labels, 0.0);
        room.alone.clear();
        room.alone.resize(rows * labels, 0.0);
        self.within_part((&self.mixture.labels, &self.labels, self.factors), panel, room, least);
    }

    /// The same of a coupling, into room that is all 0.
    fn within_part(&self, of: (&LabelPart, &LabelView, &LabelFactors), panel: &mut Panel<'_>, room: &mut Room, least: f64) {
        let (labels, components) = (self.labels(), self.components());
        match of {
            (LabelPart::InRowSpace(p), LabelView::InRowSpace(v), LabelFactors::InRowSpace(q)) => {
                if let (q, Some(space)) = &**q {
                    space.with_new(panel, |panel| self.within_part((&p.0, &v.0, q), panel, room, least));
                }
            }
            (LabelPart::Logit(p), LabelView::Logit(v), _) => p.probabilities(v, panel, &mut room.within, &mut room.logit),
            (LabelPart::Shared(p), _, LabelFactors::Shared(q)) => {
                if let (q, Some(basis)) = &**q {
                    p.probabilities(q, basis, panel, &mut room.within, &mut room.shared);
                }
            }
            (LabelPart::Rowwise(p), LabelView::Rowwise(v), _) => {
                let shares = &room.shares;
                // logarithms of shares are no shares yet: then all are asked for
                let likely = |i: usize, k: usize| least == 0.0 || shares[i * components + k] >= least;
                p.probabilities(v, panel, &mut room.within, likely, &mut room.rowwise);
            }
            (LabelPart::And(p), LabelView::And(v), _) => {
                p.classifier_probabilities(v, panel, &mut room.alone, &mut room.and);
                room.multiply(&v.patterns, p.new_pattern(), components, labels);
            }
            (LabelPart::And(p), LabelView::AndByRows(v), _) => {
                p.classifier_probabilities_by_rows(v, panel, &mut room.alone, &mut room.and_by_rows);
                room.multiply(&v.patterns, p.new_pattern(), components, labels);
            }
            (LabelPart::Cut(p), LabelView::Cut(v), LabelFactors::Cut(q)) => {
                p.classifier_probabilities(v, panel, &mut room.alone, &mut room.cut);
                room.copy(&p.patterns, &q.patterns);
            }
            (LabelPart::And(p), LabelView::AndShared(v), LabelFactors::AndShared(q)) => {
                if let (q, Some(basis)) = &**q {
                    p.classifier_probabilities_shared(q, basis, panel, &mut room.alone, &mut room.and_shared);
                }
                room.multiply(&v.patterns, p.new_pattern(), components, labels);
            }
            (LabelPart::Cut(p), _, LabelFactors::CutShared(q)) => {
                if let (q, Some(basis)) = &**q {
                    p.classifier_probabilities_shared(q, basis, panel, &mut room.alone, &mut room.cut_shared);
                }
                room.copy(&p.patterns, &q.0.patterns);
            }
            (LabelPart::Cut(p), LabelView::CutByRows(v), LabelFactors::CutByRows(q)) => {
                p.classifier_probabilities_by_rows(v, panel, &mut room.alone, &mut room.cut_by_rows);
                room.copy(&p.patterns, &q.patterns);
            }
            _ => unreachable!("a view belongs to the coupling that made it"),
        }
    }

    /// Probabilities of labels, all components together.
    fn combine(&self, room: &mut Room) {
        let (labels, components) = (self.labels(), self.components());
        let rows = room.shares.len() / components;
        room.probability.clear();
        room.probability.resize(rows * labels, 0.0);
        let each = room.shares.chunks_exact(components).zip(room.within.chunks_exact(components * labels));
        for ((shares, within), out) in each.zip(room.probability.chunks_exact_mut(labels)) {
            for (share, p) in shares.iter().zip(within.chunks_exact(labels)).filter(|(s, _)| **s >= LEAST_SHARE) {
                out.iter_mut().zip(p).for_each(|(o, p)| *o += share * p);
            }
        }
        room.score.clear();
        if matches!(self.mixture.labels.coupling(), LabelPart::Cut(_)) {
            for (pattern, alone) in room.probability.chunks_exact_mut(labels).zip(room.alone.chunks_exact(labels)) {
                combined(self.combine, &self.rates, pattern, alone);
            }
            room.score.extend_from_slice(&room.probability);
            room.probability.iter_mut().for_each(|p| *p = p.min(1.0));
        } else {
            // sums of shares may pass 1 by rounding
            room.probability.iter_mut().for_each(|p| *p = p.min(1.0));
            room.score.extend_from_slice(&room.probability);
        }
    }
}

/// Makes shares of logarithms.
pub(crate) fn normalise(shares: &mut [f64]) {
    let all = log_sum_exp(shares);
    if all.is_finite() {
        shares.iter_mut().for_each(|s| *s = (*s - all).exp());
    } else {
        // too far from everything for f64: like none of the known ones
        shares.fill(0.0);
        shares.iter_mut().next_back().into_iter().for_each(|s| *s = 1.0);
    }
}

/// Patterns and classifiers, which were fitted apart, put together for a row: the patterns become what labels are ranked by.
pub(crate) fn combined(how: CombineKind, rates: &[f64], pattern: &mut [f64], alone: &[f64]) {
    match how {
        CombineKind::Mean => pattern.iter_mut().zip(alone).for_each(|(p, a)| *p = 0.5 * (*p + a)),
        CombineKind::LogOdds => {
            let logit = |p: f64| p.ln() - (-p).ln_1p();
            for ((p, &a), &rate) in pattern.iter_mut().zip(alone).zip(rates) {
                *p = sigmoid(logit(a) + logit(*p) - logit(rate));
            }
        }
        CombineKind::Product => {
            let all: f64 = pattern.iter().zip(alone).map(|(p, a)| *p * a).sum();
            let expected: f64 = alone.iter().sum();
            let times = if all > 0.0 { expected / all } else { 0.0 };
            pattern.iter_mut().zip(alone).for_each(|(p, a)| *p *= a * times);
        }
    }
}

/// Log probability of a label that is present, absent or unknown.
pub(crate) fn ln_of(y: i8, p: f64) -> f64 {
    match y {
        1 => p.max(f64::MIN_POSITIVE).ln(),
        0 => (1.0 - p).max(f64::MIN_POSITIVE).ln(),
        _ => 0.0,
    }
}
