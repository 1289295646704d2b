//! What a block of rows does when it is asked.

use rand::Rng;

use super::ask::{Local, Scratch, Stats};
use super::label_model::{LabelModel, LabelSums, Point};
use super::{Gibbs, Means, OF_ROWS};
use crate::data::design::{packed_len, packed_rows};
use crate::data::{Block, Panel, TargetView, X};
use crate::dist::{PolyaGamma, draw_from_ln_weights};
use crate::model::labels::kernel::Table;
use crate::model::labels::vb::Seen;
use crate::run::{Least, Philox, Stream, open01};
use crate::special::{ln_sigmoid, sigmoid};
use crate::{Error, Result};

/// Label entries of a block, row-major.
fn labels_of<'a>(block: &Block<'a>) -> &'a [i8] {
    match block.y {
        TargetView::Labels(values) => values,
        _ => &[],
    }
}

fn too_large(block: &Block<'_>, row: usize) -> Error {
    let number = block.first_row + row as u64 + 1;
    Error::Unfit(format!("row {number}: its values are too large to compute with; standardise the columns"))
}

/// Writes (rows × k) ones where rows have their components.
fn indicate(z: &[u32], k: usize, out: &mut Vec<f64>) {
    out.clear();
    out.resize(z.len() * k, 0.0);
    z.iter().enumerate().for_each(|(i, &z)| out[i * k + z as usize] = 1.0);
}

impl Gibbs {
    /// Adds the statistics of features of rows with weights (rows × k).
    fn add_features(&self, x: X<'_>, k: usize, stats: &mut Stats, scratch: &mut Scratch) {
        let Scratch { inputs, kernel, terms, .. } = scratch;
        stats.features.0.resize(k * self.kernel.size(), 0.0);
        self.inputs.with_rows(x, &mut inputs.kernel, |x| self.kernel.add(x, terms, k, &mut stats.features.0, kernel));
    }

    /// Log densities of features, added to the terms (rows × k).
    fn densities(&self, table: &Table, x: X<'_>, scratch: &mut Scratch) {
        let Scratch { inputs, kernel, terms, .. } = scratch;
        terms.clear();
        terms.resize(x.rows() * table.components(), 0.0);
        self.inputs.with_rows(x, &mut inputs.kernel, |x| table.evaluate(x, terms, kernel));
    }

    /// Statistics of features of rows with these components.
    fn gather(&self, x: X<'_>, z: &[u32], k: usize, stats: &mut Stats, scratch: &mut Scratch) {
        indicate(z, k, &mut scratch.terms);
        self.add_features(x, k, stats, scratch);
        stats.counts.0.resize(k, 0.0);
        z.iter().for_each(|&z| stats.counts.0[z as usize] += 1.0);
    }

    /// Statistics of seed rows, one a component.
    pub(super) fn seeds(&self, rows: &[u64], block: &Block<'_>, scratch: &mut Scratch) -> Stats {
        let (k, mut stats) = (rows.len(), Stats { seen: Seen::of(block), ..Stats::default() });
        scratch.terms.clear();
        scratch.terms.resize(block.rows() * k, 0.0);
        for (c, row) in rows.iter().enumerate() {
            if let Some(i) = row.checked_sub(block.first_row).filter(|i| *i < block.rows() as u64) {
                scratch.terms[i as usize * k + c] = 1.0;
            }
        }
        self.add_features(block.x, k, &mut stats, scratch);
        stats
    }

    /// Each row goes to the component of highest density; of several as high, to any.
    pub(super) fn nearest(&self, table: &Table, block: &Block<'_>, local: &mut Local, scratch: &mut Scratch, rng: &mut Philox) -> Stats {
        let (k, mut stats) = (table.components(), Stats::default());
        self.densities(table, block.x, scratch);
        local.z.clear();
        for row in scratch.terms.chunks_exact(k) {
            let highest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let (mut chosen, mut ties) = (0, 0.0);
            for (c, _) in row.iter().enumerate().filter(|(_, v)| **v == highest) {
                ties += 1.0;
                if open01(rng) * ties < 1.0 {
                    chosen = c;
                }
            }
            local.z.push(chosen as u32);
        }
        let z = std::mem::take(&mut local.z);
        self.gather(block.x, &z, k, &mut stats, scratch);
        local.z = z;
        stats
    }

    /// New numbers, slices, and statistics with fresh auxiliary variables of labels.
    pub(super) fn slice(
        &self,
        numbers: &[u32],
        ln_weights: &[f64],
        point: &Point,
        block: &Block<'_>,
        local: &mut Local,
        scratch: &mut Scratch,
        stream: Stream,
    ) -> Result<Stats> {
        let rng = &mut stream.rng();
        let (k, mut stats) = (ln_weights.len(), Stats::default());
        local.z.iter_mut().for_each(|z| *z = numbers[*z as usize]);
        local.ln_slices.clear();
        local.ln_slices.extend(local.z.iter().map(|&z| open01(rng).ln() + ln_weights[z as usize]));
        stats.lowest = Least(vec![local.ln_slices.iter().copied().fold(f64::INFINITY, f64::min)]);
        self.gather(block.x, &local.z, k, &mut stats, scratch);
        let (labels, y) = (self.labels.labels(), labels_of(block));
        let Some(classifier) = self.labels.classifier() else {
            stats.labels.count(y, &local.z, k, labels, matches!(&self.labels, LabelModel::Patterns(p) if p.counts_absent()));
            if let Some(apart) = &self.apart {
                let mut panel = self.inputs.panel(block.x, &mut scratch.inputs.classifier);
                let streams = (stream, OF_ROWS);
                if self.means == Means::Matrices {
                    apart.add_draws(&point.weights, &mut panel, y, &[], &mut stats.apart, streams, &mut scratch.apart)?;
                } else {
                    stats.handed = apart.hand_over_draws(&point.weights, &mut panel, y, streams, &mut scratch.apart)?;
                }
            }
            return Ok(stats);
        };
        let dim = classifier.dim;
        stats.labels.resize(k, labels, dim, matches!(self.labels, LabelModel::Logit { .. }));
        let height = packed_rows(dim, labels);
        let mut first = 0;
        while first < block.rows() {
            let n = height.min(block.rows() - first);
            let Scratch { inputs, predictor, omega, kappa, masked, .. } = scratch;
            let mut panel = self.inputs.panel(block.x.slice(first..first + n), &mut inputs.classifier);
            predictor.resize(n * labels, f64::NAN);
            panel.mul_t(&point.weights, labels, predictor);
            for buffer in [&mut *omega, &mut *kappa] {
                buffer.clear();
                buffer.resize(n * labels, 0.0);
            }
            let (y, z) = (&y[first * labels..(first + n) * labels], &local.z[first..first + n]);
            for i in 0..n {
                let patterns = &point.patterns[z[i] as usize * labels..][..labels];
                for c in (0..labels).filter(|c| y[i * labels + c] >= 0) {
                    let at = i * labels + c;
                    let (present, of_sum) = (y[at] == 1, z[i] as usize * labels + c);
                    match self.labels {
                        LabelModel::Logit { .. } => {
                            let f = predictor[at] + patterns[c];
                            omega[at] = auxiliary(f, rng).ok_or_else(|| too_large(block, first + i))?;
                            kappa[at] = if present { 0.5 } else { -0.5 };
                            stats.labels.first.0[of_sum] += omega[at];
                            stats.labels.second.0[of_sum] += kappa[at];
                        }
                        _ => {
                            omega[at] = auxiliary(predictor[at], rng).ok_or_else(|| too_large(block, first + i))?;
                            let (a, h) = if present { (true, true) } else { causes(patterns[c], predictor[at], rng)? };
                            kappa[at] = if h { 0.5 } else { -0.5 };
                            let sum = if a { &mut stats.labels.first.0 } else { &mut stats.labels.second.0 };
                            sum[of_sum] += 1.0;
                        }
                    }
                }
            }
            panel.weighted_grams_add(omega, labels, &mut stats.labels.grams.0);
            panel.t_mul_add(kappa, labels, &mut stats.labels.linear.0);
            if matches!(self.labels, LabelModel::Logit { .. }) {
                add_crosses(&mut panel, omega, z, labels, &mut stats.labels.crosses.0, masked);
            }
            first += n;
        }
        Ok(stats)
    }

    /// New components above the slices, by densities alone: the slice has taken the place of π.
    pub(super) fn assign(
        &self,
        ln_weights: &[f64],
        table: &Table,
        point: &Point,
        block: &Block<'_>,
        local: &mut Local,
        scratch: &mut Scratch,
        rng: &mut Philox,
    ) -> Result<Stats> {
        let (n, k, labels, y) = (block.rows(), ln_weights.len(), self.labels.labels(), labels_of(block));
        let mut stats = Stats::default();
        stats.counts.0.resize(k, 0.0);
        stats.present.0.resize(k * labels, 0.0);
        stats.known.0.resize(k * labels, 0.0);
        self.densities(table, block.x, scratch);
        let Scratch { inputs, patterns, terms, predictor, row, .. } = scratch;
        let mut panel = self.inputs.panel(block.x, &mut inputs.classifier);
        match &self.labels {
            LabelModel::Patterns(model) => model.terms(&model.view_of(&point.patterns), &mut panel, y, terms, patterns),
            LabelModel::Logit { .. } | LabelModel::And { .. } => {
                predictor.resize(n * labels, f64::NAN);
                panel.mul_t(&point.weights, labels, predictor);
            }
        }
        for i in 0..n {
            let terms = &mut terms[i * k..(i + 1) * k];
            let y = &y[i * labels..(i + 1) * labels];
            for c in 0..k {
                if ln_weights[c] < local.ln_slices[i] {
                    terms[c] = f64::NEG_INFINITY;
                    continue;
                }
                let patterns = &point.patterns[c * labels..(c + 1) * labels];
                match self.labels {
                    LabelModel::Patterns(_) => {}
                    LabelModel::Logit { .. } => terms[c] += logit_term(y, &predictor[i * labels..(i + 1) * labels], patterns),
                    LabelModel::And { .. } => terms[c] += and_term(y, &predictor[i * labels..(i + 1) * labels], patterns),
                }
            }
            row.clear();
            row.extend_from_slice(terms);
            let z = draw_from_ln_weights(row, rng).map_err(|_| too_large(block, i))?;
            local.z[i] = z as u32;
            stats.counts.0[z] += 1.0;
            for (c, _) in y.iter().enumerate().filter(|(_, y)| **y >= 0) {
                stats.present.0[z * labels + c] += f64::from(y[c]);
                stats.known.0[z * labels + c] += 1.0;
            }
            stats.ln_likelihood.0 += terms[z];
        }
        Ok(stats)
    }
}

/// ω ~ PG(1, f), where f is a number.
fn auxiliary<R: Rng + ?Sized>(f: f64, rng: &mut R) -> Option<f64> {
    (f.abs() < 1e150).then(|| PolyaGamma::draw_1(f, rng))
}

/// (a, h) of an absent label: not both, given the log-odds of each.
fn causes<R: Rng + ?Sized>(psi: f64, f: f64, rng: &mut R) -> Result<(bool, bool)> {
    let mut weights = [ln_sigmoid(-psi) + ln_sigmoid(-f), ln_sigmoid(-psi) + ln_sigmoid(f), ln_sigmoid(psi) + ln_sigmoid(-f)];
    Ok([(false, false), (false, true), (true, false)][draw_from_ln_weights(&mut weights, rng)?])
}

/// Σ_c ln σ(±(b_c + w_c'x̃)) over known labels: one logarithm for many of them.
pub(super) fn logit_term(y: &[i8], predictor: &[f64], patterns: &[f64]) -> f64 {
    let (mut sum, mut product) = (0.0, 1.0f64);
    for ((&y, f), b) in y.iter().zip(predictor).zip(patterns) {
        if y < 0 {
            continue;
        }
        let f = if y == 1 { f + b } else { -(f + b) };
        // ln σ(f) = min(f, 0) − ln(1 + exp(−|f|)), and each factor is at most 2
        sum += f.min(0.0);
        product *= 1.0 + (-f.abs()).exp();
        if product > 1e100 {
            sum -= product.ln();
            product = 1.0;
        }
    }
    sum - product.ln()
}

/// Σ_c over known labels: ln(ψ σ) where present, ln(1 − ψ σ) where absent.
pub(super) fn and_term(y: &[i8], predictor: &[f64], patterns: &[f64]) -> f64 {
    let mut sum = 0.0;
    for ((&y, &f), &psi) in y.iter().zip(predictor).zip(patterns) {
        sum += match y {
            1 => ln_sigmoid(psi) + ln_sigmoid(f),
            // (1 − ψ) + ψ (1 − σ): nothing cancels
            0 => (sigmoid(-psi) + sigmoid(psi) * sigmoid(-f)).max(f64::MIN_POSITIVE).ln(),
            _ => 0.0,
        };
    }
    sum
}

/// out (K×C×D̃) += Σ ω x̃ over the rows of each component.
fn add_crosses(panel: &mut Panel<'_>, omega: &[f64], z: &[u32], labels: usize, out: &mut [f64], masked: &mut Vec<f64>) {
    let dim = panel.dim();
    if dim == 0 {
        return;
    }
    if let Some(rows) = panel.dense() {
        for ((row, omega), &z) in rows.chunks_exact(dim).zip(omega.chunks_exact(labels)).zip(z) {
            let own = &mut out[z as usize * labels * dim..][..labels * dim];
            for (out, &w) in own.chunks_exact_mut(dim).zip(omega) {
                if w != 0.0 {
                    out.iter_mut().zip(row).for_each(|(o, x)| *o += w * x);
                }
            }
        }
        return;
    }
    let mut present: Vec<u32> = z.to_vec();
    present.sort_unstable();
    present.dedup();
    for k in present {
        masked.clear();
        masked.extend(omega.chunks_exact(labels).zip(z).flat_map(|(w, &z)| w.iter().map(move |w| if z == k { *w } else { 0.0 })));
        panel.t_mul_add(masked, labels, &mut out[k as usize * labels * dim..][..labels * dim]);
    }
}

impl LabelSums {
    /// Zeros for k components.
    fn resize(&mut self, k: usize, labels: usize, dim: usize, crossed: bool) {
        self.grams.0.resize(labels * packed_len(dim), 0.0);
        self.linear.0.resize(labels * dim, 0.0);
        self.crosses.0.resize(if crossed { k * labels * dim } else { 0 }, 0.0);
        self.first.0.resize(k * labels, 0.0);
        self.second.0.resize(k * labels, 0.0);
    }

    /// Counts present and, where they matter, absent labels of components.
    fn count(&mut self, y: &[i8], z: &[u32], k: usize, labels: usize, absent: bool) {
        self.first.0.resize(k * labels, 0.0);
        self.second.0.resize(if absent { k * labels } else { 0 }, 0.0);
        for (y, &z) in y.chunks_exact(labels).zip(z) {
            for (c, &y) in y.iter().enumerate() {
                match y {
                    1 => self.first.0[z as usize * labels + c] += 1.0,
                    0 if absent => self.second.0[z as usize * labels + c] += 1.0,
                    _ => {}
                }
            }
        }
    }
}
