//! The coupling of [`Logit`] with Böhning's bound, where a row has either all labels or none.
//!
//! Böhning's curvature is ¼ for every row, so that A = X̃ᵀX̃/4 over the labelled rows never changes and B and d are the same for all
//! labels. With U diag(l) Uᵀ the eigen-decomposition of A without its bias, made once ([`Basis`]), and the border b̃ = (bias, patterns) of a
//! label taken out, no label needs a matrix of columns by columns: with E (columns × border) the data's precision of weights and border,
//! Ẽ = UᵀE, j = 1/(l + E τ_w), M and n the border's own precision and linear term, and g that of the weights,
//!
//! ```text
//! S = M − Ẽᵀ diag(j) Ẽ     V_b̃ = S⁻¹     m_b̃ = S⁻¹(n − Ẽᵀ diag(j) Uᵀg)     m_w = U diag(j)(Uᵀg − Ẽ m_b̃)     V_wb̃ = −U diag(j) Ẽ S⁻¹
//! ```
//!
//! x̃ᵀV_ww x̃ is the same for all components of a row and drops out of responsibilities: rows leave it out, and the bound loses
//! [`SharedBohning::left_out`]. `rows.rs` holds what is done to rows, `alone.rs` the same of weights without patterns.

mod alone;
mod basis;
mod rows;

pub(crate) use basis::Basis;
pub(crate) use rows::Scratch;

use serde::{Deserialize, Serialize};

use super::super::gamma_factor::GammaFactor;
use super::super::normal_factor::{diagonal, factor_of, form, pack, trace_product};
use super::{Logit, not_definite};
use crate::data::design::packed_len;
use crate::linalg::{self, dot};
use crate::parallel;
use crate::run::Sum;
use crate::{Result, merge_fields};

/// Labels whose covariances are summed one after the other; the sums of groups are then added in their order.
const GROUP: usize = 8;

/// The prior of [`Logit`]; its bound and form are not read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SharedBohning {
    /// The prior.
    pub(crate) prior: Logit,
}

/// The factors of all labels. The border of a label is its bias, where there is one, and its patterns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Factors {
    /// Number of components, K.
    pub(crate) components: usize,
    /// Means of the weights (C×dim).
    pub(crate) weights: Vec<f64>,
    /// Means of the patterns (C×K).
    pub(crate) patterns: Vec<f64>,
    /// Ẽᵀ (border×columns) of the last update.
    pub(crate) turned: Vec<f64>,
    /// S⁻¹ of each label, packed (C × border(border+1)/2).
    pub(crate) border_covariance: Vec<f64>,
    /// E τ_w of each label that its covariance was made with.
    pub(crate) used_precision: Vec<f64>,
    /// tr V_ww of each label, without the bias.
    pub(crate) weight_trace: Vec<f64>,
    /// ln |V_c|; −∞ before the first update.
    pub(crate) ln_det: Vec<f64>,
    /// Σ_c V_wb,k (K×dim).
    pub(crate) cross: Vec<f64>,
    /// Σ_c V_bb,kk (K).
    pub(crate) pattern_variances: Vec<f64>,
    /// Σ_c tr(V_ww A).
    pub(crate) form_trace: f64,
    /// q(τ_w) of each label.
    pub(crate) weight_precision: Vec<GammaFactor>,
    /// q(τ_b) of each label.
    pub(crate) pattern_precision: Vec<GammaFactor>,
    /// Labels of which the last update had to help the diagonal of S.
    pub(crate) helped: usize,
}

/// What rows need of the factors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct View {
    /// Number of components, K.
    pub(crate) components: usize,
    /// Means of the weights (C×dim).
    pub(crate) weights: Vec<f64>,
    /// Means of the patterns (C×K).
    pub(crate) patterns: Vec<f64>,
    /// Σ_c V_wb,k (K×dim).
    pub(crate) cross: Vec<f64>,
    /// Σ_c V_bb,kk (K).
    pub(crate) pattern_variances: Vec<f64>,
}

/// Sums over labelled rows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stats {
    /// B = Σ_i r x̃/4 (K×dim); without patterns Σ_i x̃/4 (dim), for the bias.
    pub(crate) cross: Sum<Vec<f64>>,
    /// d = Σ_i r/4 (K); without patterns a quarter of the rows (1).
    pub(crate) mass: Sum<Vec<f64>>,
    /// g_c (C×dim).
    pub(crate) response: Sum<Vec<f64>>,
    /// h_kc (C×K).
    pub(crate) pattern_response: Sum<Vec<f64>>,
    /// e.
    pub(crate) offset: Sum<f64>,
}
merge_fields!(Stats, cross, mass, response, pattern_response, offset);

impl Stats {
    /// Number of components that have patterns.
    fn components(&self) -> usize {
        if self.pattern_response.0.is_empty() { 0 } else { self.mass.0.len() }
    }

    /// Component `order[k]` becomes component k; one that is not named is left out.
    pub(crate) fn permute(&mut self, order: &[usize]) {
        let components = self.components();
        if components == 0 {
            return;
        }
        let dim = self.cross.0.len() / components;
        self.cross.0 = super::permuted(&self.cross.0, order, components, dim);
        self.mass.0 = super::permuted(&self.mass.0, order, components, 1);
        self.pattern_response.0 = super::permuted(&self.pattern_response.0, order, components, 1);
    }

    /// Calls f(numbers of all components, numbers of each) for every table that has components, label by label where labels come first.
    pub(crate) fn each_table(&mut self, f: &mut dyn FnMut(&mut [f64], usize)) {
        let components = self.components();
        if components == 0 {
            return;
        }
        let dim = self.cross.0.len() / components;
        f(&mut self.cross.0, dim);
        f(&mut self.mass.0, 1);
        self.pattern_response.0.chunks_exact_mut(components).for_each(|label| f(label, 1));
    }
}

impl Factors {
    /// Component `order[k]` becomes component k; one that is not named is left out. What the bound needs beyond the means is right again
    /// after the next update only, unless all components are named.
    pub(crate) fn permute(&mut self, order: &[usize]) {
        let (labels, old) = (self.ln_det.len(), self.components);
        let dim = self.weights.len() / labels;
        let bias = border_of(&self.border_covariance, labels) - old;
        let columns = self.turned.len() / (bias + old);
        let source: Vec<usize> = (0..bias).chain(order.iter().map(|k| bias + k)).collect();
        self.patterns = super::permuted(&self.patterns, order, old, 1);
        self.cross = super::permuted(&self.cross, order, old, dim);
        self.pattern_variances = super::permuted(&self.pattern_variances, order, old, 1);
        self.turned = super::permuted(&self.turned, &source, bias + old, columns);
        let mut covariance = Vec::with_capacity(labels * packed_len(source.len()));
        for v in self.border_covariance.chunks_exact(packed_len(bias + old)) {
            for (i, &a) in source.iter().enumerate() {
                covariance.extend(source[..=i].iter().map(|&b| v[packed_len(a.max(b)) + a.min(b)]));
            }
        }
        (self.border_covariance, self.components) = (covariance, order.len());
    }
}

/// Size of the border, from the length of the packed covariances of all labels.
fn border_of(packed: &[f64], labels: usize) -> usize {
    let each = packed.len() / labels;
    (0..).find(|&n| packed_len(n) >= each).unwrap_or(0)
}

/// What an update finds for a label.
struct Label {
    /// Uᵀm_w.
    turned_mean: Vec<f64>,
    border_mean: Vec<f64>,
    border_covariance: Vec<f64>,
    weight_trace: f64,
    form_trace: f64,
    ln_det: f64,
    helped: bool,
}

impl SharedBohning {
    /// Before the first update: precisions as the prior has them, and no weights, so that rows take their bounds at 0.
    pub(crate) fn start(&self, components: usize) -> Factors {
        let Logit { labels, dim, .. } = self.prior;
        let border = self.bias() + components;
        Factors {
            components,
            weights: vec![0.0; labels * dim],
            patterns: vec![0.0; labels * components],
            turned: vec![0.0; border * self.prior.columns()],
            border_covariance: vec![0.0; labels * packed_len(border)],
            used_precision: vec![f64::INFINITY; labels],
            weight_trace: vec![0.0; labels],
            ln_det: vec![f64::NEG_INFINITY; labels],
            cross: vec![0.0; components * dim],
            pattern_variances: vec![0.0; components],
            form_trace: 0.0,
            weight_precision: vec![self.prior.weight_precision.start(); labels],
            pattern_precision: vec![self.prior.pattern_precision.start(); labels],
            helped: 0,
        }
    }

    /// What rows need.
    pub(crate) fn view(&self, q: &Factors) -> View {
        View {
            components: q.components,
            weights: q.weights.clone(),
            patterns: q.patterns.clone(),
            cross: q.cross.clone(),
            pattern_variances: q.pattern_variances.clone(),
        }
    }

    /// Entries of the border before the patterns.
    fn bias(&self) -> usize {
        self.prior.intercept as usize
    }

    /// The data's precision of the border, packed, and Ẽᵀ (border×columns).
    fn border(&self, stats: &Stats, basis: &Basis) -> (Vec<f64>, Vec<f64>) {
        let (dim, bias, components) = (self.prior.dim, self.bias(), stats.components());
        let size = bias + components;
        let mut rows = vec![0.0; size * dim];
        let mut data = vec![0.0; packed_len(size)];
        if components == 0 && bias > 0 {
            rows.copy_from_slice(&stats.cross.0);
            data[0] = stats.mass.0[0];
            return (data, basis.turn(&rows, size));
        }
        for (k, (b, &d)) in stats.cross.0.chunks_exact(dim).zip(&stats.mass.0).enumerate() {
            let at = bias + k;
            rows[at * dim..(at + 1) * dim].copy_from_slice(b);
            data[diagonal(at)] = d;
            if bias > 0 {
                // responsibilities add up to 1: the bias sees the sum over components
                rows[..dim].iter_mut().zip(b).for_each(|(r, b)| *r += b);
                data[packed_len(at)] = d;
                data[0] += d;
            }
        }
        (data, basis.turn(&rows, size))
    }

    /// The global step from sums: q(β_c) of each label given E τ, then q(τ). The number of components is that of the sums.
    pub(crate) fn update(&self, q: &mut Factors, stats: &Stats, basis: &Basis) -> Result<()> {
        let prior = &self.prior;
        let (labels, dim, columns, bias, components) = (prior.labels, prior.dim, prior.columns(), self.bias(), stats.components());
        let size = bias + components;
        let (data, turned) = self.border(stats, basis);
        let turned_response = basis.turn(&stats.response.0, labels);
        let of_group = |group: usize| {
            // Σ_c S⁻¹Ẽᵀ diag(j) over the labels of the group
            let mut sum = vec![0.0; size * columns];
            let mut found = Vec::with_capacity(GROUP);
            for c in group * GROUP..((group + 1) * GROUP).min(labels) {
                let mut linear = stats.response.0[c * dim + columns..(c + 1) * dim].to_vec();
                linear.extend_from_slice(&stats.pattern_response.0[c * components..(c + 1) * components]);
                let response = &turned_response[c * columns..(c + 1) * columns];
                found.push(self.label(q, c, basis, &data, &turned, response, &linear, &mut sum)?);
            }
            Ok((found, sum))
        };
        let groups: Vec<Result<(Vec<Label>, Vec<f64>)>> = parallel::map_numbers(labels.div_ceil(GROUP), of_group);
        let mut turned_means = Vec::with_capacity(labels * columns);
        let mut sum = vec![0.0; size * columns];
        let mut border_sum = vec![0.0; packed_len(size)];
        q.components = components;
        q.patterns.clear();
        q.border_covariance.clear();
        (q.form_trace, q.helped) = (0.0, 0);
        let mut bias_means = Vec::with_capacity(labels);
        let mut c = 0;
        for group in groups {
            let (found, of_group) = group?;
            sum.iter_mut().zip(&of_group).for_each(|(s, v)| *s += v);
            for label in found {
                border_sum.iter_mut().zip(&label.border_covariance).for_each(|(s, v)| *s += v);
                q.used_precision[c] = prior.weight_precision.mean(q.weight_precision[c]);
                (q.weight_trace[c], q.ln_det[c]) = (label.weight_trace, label.ln_det);
                q.form_trace += label.form_trace;
                q.helped += label.helped as usize;
                let weights = dot(&label.turned_mean, &label.turned_mean) + label.weight_trace;
                let square = |i: usize| label.border_mean[i] * label.border_mean[i] + label.border_covariance[diagonal(i)];
                q.weight_precision[c] = prior.weight_precision.posterior(columns, weights);
                q.pattern_precision[c] = prior.pattern_precision.posterior(components, (bias..size).map(square).sum());
                turned_means.extend(label.turned_mean);
                bias_means.extend_from_slice(&label.border_mean[..bias]);
                q.patterns.extend_from_slice(&label.border_mean[bias..]);
                q.border_covariance.extend(label.border_covariance);
                c += 1;
            }
        }
        q.weights = basis.turn_back(&turned_means, labels);
        for (w, bias) in q.weights.chunks_exact_mut(dim).zip(&bias_means) {
            w[dim - 1] = *bias;
        }
        sum.iter_mut().for_each(|v| *v = -*v);
        q.cross = basis.turn_back(&sum[bias * columns..], components);
        q.pattern_variances = (bias..size).map(|i| border_sum[diagonal(i)]).collect();
        if bias > 0 {
            for (k, cross) in q.cross.chunks_exact_mut(dim).enumerate() {
                cross[dim - 1] = border_sum[packed_len(bias + k)];
            }
        }
        q.turned = turned;
        Ok(())
    }

    /// The factor of a label; S⁻¹Ẽᵀ diag(j) is added to `sum`.
    fn label(
        &self,
        q: &Factors,
        c: usize,
        basis: &Basis,
        data: &[f64],
        turned: &[f64],
        response: &[f64],
        linear: &[f64],
        sum: &mut [f64],
    ) -> Result<Label> {
        let prior = &self.prior;
        let (columns, bias, size) = (prior.columns(), self.bias(), linear.len());
        let tau = prior.weight_precision.mean(q.weight_precision[c]);
        let j: Vec<f64> = basis.values.iter().map(|l| 1.0 / (l + tau)).collect();
        let scaled = scale_columns(turned, &j);
        // what the weights take: Ẽᵀ diag(j) Ẽ
        let mut taken = vec![0.0; size * size];
        linalg::mul_t(&scaled, turned, &mut taken, size, columns, size, false);
        let taken = pack(&taken, size);
        let mut precision: Vec<f64> = data.iter().zip(&taken).map(|(d, t)| d - t).collect();
        for i in 0..size {
            precision[diagonal(i)] += if i < bias { prior.bias_precision } else { prior.pattern_precision.mean(q.pattern_precision[c]) };
        }
        let (factor, helped) = factor_of(size, &precision).map_err(|e| not_definite(c, &e))?;
        let mut border_mean: Vec<f64> = linear
            .iter()
            .zip(scaled.chunks_exact(columns.max(1)).chain(std::iter::repeat(&[][..])))
            .map(|(n, e)| n - dot(e, response))
            .collect();
        factor.solve(&mut border_mean);
        let mut turned_mean = response.to_vec();
        for (m, e) in border_mean.iter().zip(turned.chunks_exact(columns.max(1))) {
            turned_mean.iter_mut().zip(e).for_each(|(t, e)| *t -= m * e);
        }
        turned_mean.iter_mut().zip(&j).for_each(|(t, j)| *t *= j);
        let full = factor.inverse();
        let border_covariance = pack(&full, size);
        linalg::mul(&full, &scaled, sum, size, size, columns, true);
        // V_ww = U (diag(j) + diag(j) Ẽ S⁻¹ Ẽᵀ diag(j)) Uᵀ
        let mut squares = vec![0.0; size * size];
        linalg::mul_t(&scaled, &scaled, &mut squares, size, columns, size, false);
        let weight_trace = j.iter().sum::<f64>() + trace_product(&pack(&squares, size), &border_covariance, size);
        let form_trace = self.form_trace(basis, data, turned, &scaled, &j, &border_covariance);
        let ln_det = j.iter().map(|j| j.ln()).sum::<f64>() - factor.ln_det();
        Ok(Label { turned_mean, border_mean, border_covariance, weight_trace, form_trace, ln_det, helped })
    }

    /// tr(V_ww A) of a label, the bias included.
    fn form_trace(&self, basis: &Basis, data: &[f64], turned: &[f64], scaled: &[f64], j: &[f64], covariance: &[f64]) -> f64 {
        let columns = j.len();
        let size = border_of(covariance, 1);
        let stretched = scale_columns(scaled, &basis.values);
        let mut inner = vec![0.0; size * size];
        linalg::mul_t(&stretched, scaled, &mut inner, size, columns, size, false);
        let mut trace = dot(&basis.values, j) + trace_product(&pack(&inner, size), covariance, size);
        if self.prior.intercept {
            // A of columns with the bias is the first row of Ẽᵀ, and V of them −diag(j) Ẽ S⁻¹'s first column
            let first = &turned[..columns];
            let with_bias: f64 = (0..size).map(|i| covariance[packed_len(i)] * dot(first, &scaled[i * columns..(i + 1) * columns])).sum();
            trace += data[0] * covariance[0] - 2.0 * with_bias;
        }
        trace
    }

    /// What the terms of all labelled rows leave out of the bound: Σ_c tr(V_ww A)/2, for rows of which `basis` was made.
    pub(crate) fn left_out(&self, q: &Factors) -> f64 {
        0.5 * q.form_trace
    }

    /// KL divergence of all factors from their priors.
    pub(crate) fn divergence(&self, q: &Factors) -> f64 {
        let prior = &self.prior;
        let (dim, columns, bias, components) = (prior.dim, prior.columns(), self.bias(), q.components);
        let size = bias + components;
        let of_label = |c: usize| {
            let w = &q.weights[c * dim..(c + 1) * dim];
            let v = &q.border_covariance[c * packed_len(size)..(c + 1) * packed_len(size)];
            let patterns = &q.patterns[c * components..(c + 1) * components];
            let (tau_w, tau_b) = (q.weight_precision[c], q.pattern_precision[c]);
            let squares = dot(&w[..columns], &w[..columns]) + q.weight_trace[c];
            let pattern_squares = dot(patterns, patterns) + (bias..size).map(|i| v[diagonal(i)]).sum::<f64>();
            let (bias_square, ln_bias) =
                if prior.intercept { (w[dim - 1] * w[dim - 1] + v[0], prior.bias_precision.ln()) } else { (0.0, 0.0) };
            let forms = prior.bias_precision * bias_square
                + prior.weight_precision.mean(tau_w) * squares
                + prior.pattern_precision.mean(tau_b) * pattern_squares;
            let ln_prior = ln_bias
                + columns as f64 * prior.weight_precision.mean_ln(tau_w)
                + components as f64 * prior.pattern_precision.mean_ln(tau_b);
            0.5 * (forms - ln_prior - q.ln_det[c] - (dim + components) as f64)
                + prior.weight_precision.divergence(tau_w)
                + prior.pattern_precision.divergence(tau_b)
        };
        (0..prior.labels).map(of_label).sum()
    }

    /// The label part of the bound from sums, under any factors of as many components.
    pub(crate) fn value(&self, q: &Factors, stats: &Stats, basis: &Basis) -> f64 {
        let prior = &self.prior;
        let (labels, dim, columns, bias, components) = (prior.labels, prior.dim, prior.columns(), self.bias(), q.components);
        let size = bias + components;
        let (data, turned) = self.border(stats, basis);
        let means = basis.turn(&q.weights, labels);
        let of_label = |c: usize| {
            let w = &q.weights[c * dim..(c + 1) * dim];
            let mut border = w[columns..].to_vec();
            border.extend_from_slice(&q.patterns[c * components..(c + 1) * components]);
            let linear = dot(&stats.response.0[c * dim..(c + 1) * dim], w)
                + dot(&stats.pattern_response.0[c * components..(c + 1) * components], &border[bias..]);
            let t = &means[c * columns..(c + 1) * columns];
            let squares: f64 = t.iter().zip(&basis.values).map(|(t, l)| l * t * t).sum();
            let across: f64 = (0..size).map(|i| border[i] * dot(&turned[i * columns..(i + 1) * columns], t)).sum();
            let of_means = squares + 2.0 * across + form(&data, &border);
            // the same of the covariance
            let v = &q.border_covariance[c * packed_len(size)..(c + 1) * packed_len(size)];
            let j: Vec<f64> = basis.values.iter().map(|l| 1.0 / (l + q.used_precision[c])).collect();
            let scaled = scale_columns(&q.turned, &j);
            let stretched = scale_columns(&scaled, &basis.values);
            // Ẽ_oldᵀ diag(j²l) Ẽ_old − 2 Ẽᵀ diag(j) Ẽ_old, of which only the symmetric part meets S⁻¹
            let mut inner = vec![0.0; size * size];
            linalg::mul_t(&stretched, &scaled, &mut inner, size, columns, size, false);
            let mut across = vec![0.0; size * size];
            linalg::mul_t(&turned, &scaled, &mut across, size, columns, size, false);
            for a in 0..size {
                for b in 0..=a {
                    inner[a * size + b] -= across[a * size + b] + across[b * size + a];
                }
            }
            let mut inner = pack(&inner, size);
            inner.iter_mut().zip(&data).for_each(|(i, d)| *i += d);
            linear - 0.5 * (of_means + dot(&basis.values, &j) + trace_product(&inner, v, size))
        };
        stats.offset.0 + parallel::map_numbers(labels, of_label).iter().sum::<f64>()
    }
}

/// A (rows × columns) diag(by).
fn scale_columns(a: &[f64], by: &[f64]) -> Vec<f64> {
    if by.is_empty() {
        return Vec::new();
    }
    a.chunks_exact(by.len()).flat_map(|row| row.iter().zip(by).map(|(v, s)| v * s)).collect()
}
