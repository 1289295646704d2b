//! Labels whose log odds add up from the row and its component, by variational Bayes.
//!
//! A label c of a row in component k is present with probability σ(b_kc + w_cᵀx̃). Weights and patterns β_c = (w_c, b_1c … b_Kc) of a
//! label have one normal factor N(m_c, V_c); the logistic likelihood is bounded by a quadratic form whose point of tangency
//! belongs to row, component and label, and is found afresh at each visit (`bound.rs`). Everything the factors need is then sums over rows:
//!
//! ```text
//! A_c = Σ_ik r λ x̃x̃ᵀ    B_c(:,k) = Σ_i r λ x̃    d_kc = Σ_i r λ    g_c = Σ_ik r κ x̃    h_kc = Σ_i r κ    e = Σ_ikc r e_ikc
//! V_c⁻¹ = [[A_c, B_c], [B_cᵀ, diag d_c]] + diag(E τ_w …, p_int, E τ_b …)         m_c = V_c (g_c; h_c)
//! ```
//!
//! over the rows in which the label is known. The derivation is in the book's chapter on `labels`. `rows.rs` holds what is done to rows,
//! `shared/` the form for many columns and labels that are known together, `rowwise/` the one without matrices, for minibatches.

mod history;
mod rows;
pub(crate) mod rowwise;
pub(crate) mod shared;
#[cfg(test)]
mod tests;

pub(crate) use rows::Scratch;
pub(crate) use rows::grams_add;
pub(crate) use rowwise::Rowwise;
pub(crate) use shared::SharedBohning;

use serde::{Deserialize, Serialize};

use super::bound::Bound;
use super::gamma_factor::{GammaFactor, Precision};
use super::normal_factor::{NormalFactor, diagonal, factor_of, form, trace_product};
use crate::data::design::packed_len;
use crate::linalg::{NotPositiveDefinite, dot};
use crate::parallel;
use crate::run::Sum;
use crate::{Error, Result, merge_fields};

/// What the normal factor of a label keeps of its covariance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Form {
    /// All of it.
    Full,
    /// That of the weights, and the variance of each pattern.
    Factorised,
    /// Variances alone.
    Diagonal,
}

/// Prior and bound of the labels' weights and patterns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Logit {
    /// Number of labels, C.
    pub(crate) labels: usize,
    /// Number of design columns; the bias, where there is one, is the last.
    pub(crate) dim: usize,
    /// Whether the last column is the bias.
    pub(crate) intercept: bool,
    /// Prior precision of the bias.
    pub(crate) bias_precision: f64,
    /// Prior precision of the other weights of a label.
    pub(crate) weight_precision: Precision,
    /// Prior precision of the patterns of a label.
    pub(crate) pattern_precision: Precision,
    /// How the logistic likelihood is bounded.
    pub(crate) bound: Bound,
    /// What is kept of the covariance.
    pub(crate) form: Form,
}

/// The factors of all labels. A label has P = dim + K coefficients: its weights, then its patterns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Factors {
    /// Number of components, K.
    pub(crate) components: usize,
    /// Means m_c (C×P).
    pub(crate) mean: Vec<f64>,
    /// Covariances V_c, packed (C × P(P+1)/2).
    pub(crate) covariance: Vec<f64>,
    /// ln |V_c|; −∞ before the first update.
    pub(crate) ln_det: Vec<f64>,
    /// q(τ_w) of each label.
    pub(crate) weight_precision: Vec<GammaFactor>,
    /// q(τ_b) of each label.
    pub(crate) pattern_precision: Vec<GammaFactor>,
    /// Labels of which the last update had to help the diagonal of the precision.
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
    /// Quadratic forms of the weights' covariances, packed (C × dim(dim+1)/2, see [`crate::data::design::pack_form`]).
    pub(crate) weight_forms: Vec<f64>,
    /// Covariances of weights with patterns (C×K×dim); empty where there are none.
    pub(crate) cross: Vec<f64>,
    /// Variances of the patterns (C×K).
    pub(crate) pattern_variances: Vec<f64>,
    /// Expected variance 1/E τ_b of the pattern of a component that no row has yet (C).
    pub(crate) new_variance: Vec<f64>,
}

/// Sums over rows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stats {
    /// A_c, packed (C × dim(dim+1)/2).
    pub(crate) gram: Sum<Vec<f64>>,
    /// B_c (C×K×dim).
    pub(crate) cross: Sum<Vec<f64>>,
    /// d_kc (C×K).
    pub(crate) mass: Sum<Vec<f64>>,
    /// g_c (C×dim).
    pub(crate) response: Sum<Vec<f64>>,
    /// h_kc (C×K).
    pub(crate) pattern_response: Sum<Vec<f64>>,
    /// e.
    pub(crate) offset: Sum<f64>,
}
merge_fields!(Stats, gram, cross, mass, response, pattern_response, offset);

impl Stats {
    pub(crate) fn reserve(&mut self, labels: usize, dim: usize, components: usize) {
        for (sums, len) in [
            (&mut self.gram.0, labels * packed_len(dim)),
            (&mut self.cross.0, labels * components * dim),
            (&mut self.mass.0, labels * components),
            (&mut self.response.0, labels * dim),
            (&mut self.pattern_response.0, labels * components),
        ] {
            if sums.is_empty() {
                sums.resize(len, 0.0);
            }
        }
    }

    /// (labels, components, dim), read off the lengths; none of sums over no rows.
    pub(crate) fn shape(&self) -> Option<(usize, usize, usize)> {
        let (gram, response) = (self.gram.0.len(), self.response.0.len());
        if response == 0 {
            return None;
        }
        // gram = C dim (dim + 1)/2 and response = C dim
        let dim = 2 * gram / response - 1;
        let labels = response / dim;
        Some((labels, self.mass.0.len() / labels, dim))
    }

    /// The tables that have components, with the numbers of a label and component in each.
    fn tables(&mut self, dim: usize) -> [(&mut Vec<f64>, usize); 3] {
        [(&mut self.cross.0, dim), (&mut self.mass.0, 1), (&mut self.pattern_response.0, 1)]
    }

    /// Component `order[k]` becomes component k; one that is not named is left out.
    pub(crate) fn permute(&mut self, order: &[usize]) {
        let Some((_, components, dim)) = self.shape() else { return };
        for (table, width) in self.tables(dim) {
            *table = permuted(table, order, components, width);
        }
    }

    /// Multiplies what belongs to each label.
    pub(crate) fn scale(&mut self, times: &[f64]) {
        for table in [&mut self.gram, &mut self.cross, &mut self.mass, &mut self.response, &mut self.pattern_response] {
            scale_labels(&mut table.0, times);
        }
    }

    /// Calls f(numbers of all components, numbers of each) for every label of every table that has components. Sums of two components may be
    /// added in all of them: they are then those of their rows in one component, at the points of tangency that they had.
    pub(crate) fn each_table(&mut self, f: &mut dyn FnMut(&mut [f64], usize)) {
        let Some((_, components, dim)) = self.shape() else { return };
        for (table, width) in self.tables(dim) {
            table.chunks_exact_mut((components * width).max(1)).for_each(|label| f(label, width));
        }
    }
}

/// Multiplies what belongs to each label, in a table that has one label after the other.
pub(crate) fn scale_labels(table: &mut [f64], times: &[f64]) {
    let width = table.len() / times.len().max(1);
    for (of_label, times) in table.chunks_exact_mut(width.max(1)).zip(times) {
        of_label.iter_mut().for_each(|v| *v *= times);
    }
}

/// A table of (label, component, width) with components in another order.
pub(crate) fn permuted(table: &[f64], order: &[usize], components: usize, width: usize) -> Vec<f64> {
    let of_label = |label: &[f64]| order.iter().flat_map(|&k| label[k * width..(k + 1) * width].to_vec()).collect::<Vec<_>>();
    table.chunks_exact((components * width).max(1)).flat_map(of_label).collect()
}

impl Factors {
    /// Number of coefficients of a label.
    fn width(&self, dim: usize) -> usize {
        dim + self.components
    }

    /// Component `order[k]` becomes component k; one that is not named is left out, and a number beyond the last is a new component, of
    /// mean and covariance 0 until the next update.
    pub(crate) fn permute(&mut self, order: &[usize]) {
        let dim = self.mean.len() / self.ln_det.len() - self.components;
        let (old, new) = (self.width(dim), dim + order.len());
        let source: Vec<Option<usize>> =
            (0..dim).map(Some).chain(order.iter().map(|&k| (k < self.components).then_some(dim + k))).collect();
        let mean = self.mean.chunks_exact(old).flat_map(|m| source.iter().map(|s| s.map_or(0.0, |s| m[s])).collect::<Vec<_>>()).collect();
        let mut covariance = Vec::with_capacity(self.ln_det.len() * packed_len(new));
        for v in self.covariance.chunks_exact(packed_len(old)) {
            for i in 0..new {
                covariance.extend((0..=i).map(|j| match (source[i], source[j]) {
                    (Some(a), Some(b)) => v[packed_len(a.max(b)) + a.min(b)],
                    _ => 0.0,
                }));
            }
        }
        (self.mean, self.covariance, self.components) = (mean, covariance, order.len());
    }
}

impl Logit {
    /// Before the first update: precisions as the prior has them, and no weights, so that rows take their bounds at 0.
    pub(crate) fn start(&self, components: usize) -> Factors {
        let (labels, width) = (self.labels, self.dim + components);
        Factors {
            components,
            mean: vec![0.0; labels * width],
            covariance: vec![0.0; labels * packed_len(width)],
            ln_det: vec![f64::NEG_INFINITY; labels],
            weight_precision: vec![self.weight_precision.start(); labels],
            pattern_precision: vec![self.pattern_precision.start(); labels],
            helped: 0,
        }
    }

    /// What rows need.
    pub(crate) fn view(&self, q: &Factors) -> View {
        let (dim, components, width) = (self.dim, q.components, q.width(self.dim));
        let (size, all) = (packed_len(dim), packed_len(width));
        let full = self.form == Form::Full;
        let mut view = View {
            components,
            weights: Vec::with_capacity(self.labels * dim),
            patterns: Vec::with_capacity(self.labels * components),
            weight_forms: Vec::with_capacity(self.labels * size),
            cross: Vec::with_capacity(if full { self.labels * components * dim } else { 0 }),
            pattern_variances: Vec::with_capacity(self.labels * components),
            new_variance: q.pattern_precision.iter().map(|&tau| 1.0 / self.pattern_precision.mean(tau)).collect(),
        };
        for (m, v) in q.mean.chunks_exact(width).zip(q.covariance.chunks_exact(all)) {
            view.weights.extend_from_slice(&m[..dim]);
            view.patterns.extend_from_slice(&m[dim..]);
            for i in 0..dim {
                view.weight_forms.extend(v[packed_len(i)..diagonal(i)].iter().map(|v| 2.0 * v));
                view.weight_forms.push(v[diagonal(i)]);
            }
            for i in dim..width {
                if full {
                    view.cross.extend_from_slice(&v[packed_len(i)..packed_len(i) + dim]);
                }
                view.pattern_variances.push(v[diagonal(i)]);
            }
        }
        view
    }

    /// The global step from sums: q(β_c) of each label given E τ, then q(τ). The number of components is that of the sums.
    pub(crate) fn update(&self, q: &mut Factors, stats: &Stats) -> Result<()> {
        self.update_about(&[], q, stats)
    }

    /// The same where the weights have a prior mean (dim numbers, or none for 0).
    pub(crate) fn update_about(&self, mean: &[f64], q: &mut Factors, stats: &Stats) -> Result<()> {
        let (dim, labels) = (self.dim, self.labels);
        let components = stats.mass.0.len() / labels.max(1);
        let width = dim + components;
        let of_label = |c: usize| {
            let mut precision = self.data_precision(stats, c, components);
            for i in 0..width {
                precision[diagonal(i)] += self.prior_precision(q, c, i);
            }
            let mut linear = stats.response.0[c * dim..(c + 1) * dim].to_vec();
            linear.extend_from_slice(&stats.pattern_response.0[c * components..(c + 1) * components]);
            linear.iter_mut().zip(mean).enumerate().for_each(|(i, (l, m))| *l += self.prior_precision(q, c, i) * m);
            self.factor(precision, &linear)
        };
        let found: Vec<std::result::Result<NormalFactor, NotPositiveDefinite>> = parallel::map_numbers(labels, of_label);
        q.components = components;
        q.mean.clear();
        q.covariance.clear();
        (q.ln_det, q.helped) = (Vec::with_capacity(labels), 0);
        for (c, found) in found.into_iter().enumerate() {
            let found = found.map_err(|e| not_definite(c, &e))?;
            let (weights, patterns) = self.squares(mean, &found.mean, &found.covariance);
            q.weight_precision[c] = self.weight_precision.posterior(self.columns(), weights.1);
            q.pattern_precision[c] = self.pattern_precision.posterior(components, patterns);
            q.mean.extend(found.mean);
            q.covariance.extend(found.covariance);
            q.ln_det.push(found.ln_det);
            q.helped += found.helped as usize;
        }
        Ok(())
    }

    /// The best normal factor of the form, given the precision and the linear term of the full one.
    fn factor(&self, precision: Vec<f64>, linear: &[f64]) -> std::result::Result<NormalFactor, NotPositiveDefinite> {
        let (dim, width) = (self.dim, linear.len());
        if self.form == Form::Full {
            return NormalFactor::new(&precision, linear);
        }
        // the mean is that of the full factor; a block of the precision, inverted, is the covariance of that block
        let (all, helped) = factor_of(width, &precision)?;
        let mut mean = linear.to_vec();
        all.solve(&mut mean);
        let mut covariance = vec![0.0; packed_len(width)];
        let mut ln_det = 0.0;
        let mut alone = 0..width;
        if self.form == Form::Factorised {
            let weights = NormalFactor::new(&precision[..packed_len(dim)], &linear[..dim])?;
            covariance[..packed_len(dim)].copy_from_slice(&weights.covariance);
            ln_det += weights.ln_det;
            alone.start = dim;
        }
        for i in alone {
            covariance[diagonal(i)] = 1.0 / precision[diagonal(i)];
            ln_det -= precision[diagonal(i)].ln();
        }
        Ok(NormalFactor { mean, covariance, ln_det, helped })
    }

    /// KL divergence of all factors from their priors.
    pub(crate) fn divergence(&self, q: &Factors) -> f64 {
        self.divergence_about(&[], q)
    }

    /// The same where the weights have a prior mean (dim numbers, or none for 0).
    pub(crate) fn divergence_about(&self, mean: &[f64], q: &Factors) -> f64 {
        let width = q.width(self.dim);
        let of_label = |c: usize| {
            let (m, v) = (&q.mean[c * width..(c + 1) * width], &q.covariance[c * packed_len(width)..(c + 1) * packed_len(width)]);
            let ((bias, weights), patterns) = self.squares(mean, m, v);
            let (tau_w, tau_b) = (q.weight_precision[c], q.pattern_precision[c]);
            let ln_prior = if self.intercept { self.bias_precision.ln() } else { 0.0 }
                + self.columns() as f64 * self.weight_precision.mean_ln(tau_w)
                + q.components as f64 * self.pattern_precision.mean_ln(tau_b);
            let forms =
                self.bias_precision * bias + self.weight_precision.mean(tau_w) * weights + self.pattern_precision.mean(tau_b) * patterns;
            0.5 * (forms - ln_prior - q.ln_det[c] - width as f64)
                + self.weight_precision.divergence(tau_w)
                + self.pattern_precision.divergence(tau_b)
        };
        (0..self.labels).map(of_label).sum()
    }

    /// The label part of the bound from sums: Σ r × terms at the points of tangency of the sums, under any factors of as many components.
    pub(crate) fn value(&self, q: &Factors, stats: &Stats) -> f64 {
        let (dim, components, width) = (self.dim, q.components, q.width(self.dim));
        let of_label = |c: usize| {
            let (m, v) = (&q.mean[c * width..(c + 1) * width], &q.covariance[c * packed_len(width)..(c + 1) * packed_len(width)]);
            let data = self.data_precision(stats, c, components);
            let linear = dot(&stats.response.0[c * dim..(c + 1) * dim], &m[..dim])
                + dot(&stats.pattern_response.0[c * components..(c + 1) * components], &m[dim..]);
            linear - 0.5 * (trace_product(&data, v, width) + form(&data, m))
        };
        stats.offset.0 + parallel::map_numbers(self.labels, of_label).iter().sum::<f64>()
    }

    /// [[A_c, B_c], [B_cᵀ, diag d_c]], packed.
    fn data_precision(&self, stats: &Stats, c: usize, components: usize) -> Vec<f64> {
        let (dim, size) = (self.dim, packed_len(self.dim));
        let mut data = Vec::with_capacity(packed_len(dim + components));
        data.extend_from_slice(&stats.gram.0[c * size..(c + 1) * size]);
        for k in 0..components {
            let at = c * components + k;
            data.extend_from_slice(&stats.cross.0[at * dim..(at + 1) * dim]);
            data.extend((0..k).map(|_| 0.0));
            data.push(stats.mass.0[at]);
        }
        data
    }

    /// E of the prior precision of coefficient i of a label.
    pub(crate) fn prior_precision(&self, q: &Factors, c: usize, i: usize) -> f64 {
        if i >= self.dim {
            self.pattern_precision.mean(q.pattern_precision[c])
        } else if i >= self.columns() {
            self.bias_precision
        } else {
            self.weight_precision.mean(q.weight_precision[c])
        }
    }

    /// Number of columns beside the bias.
    pub(crate) fn columns(&self) -> usize {
        self.dim - self.intercept as usize
    }

    /// Expected squared distances from the prior mean: ((that of the bias, the sum of the other weights'), the sum of the patterns').
    pub(crate) fn squares(&self, mean: &[f64], m: &[f64], v: &[f64]) -> ((f64, f64), f64) {
        let square = |i: usize| (m[i] - mean.get(i).unwrap_or(&0.0)).powi(2) + v[diagonal(i)];
        let columns = self.columns();
        (((columns..self.dim).map(square).sum(), (0..columns).map(square).sum()), (self.dim..m.len()).map(square).sum())
    }
}

/// The error of a label whose precision has no Cholesky factor.
pub(crate) fn not_definite(label: usize, e: &NotPositiveDefinite) -> Error {
    let detail = format!("label {label}: {e}; standardise the columns, or raise the prior precision");
    Error::Numerical { what: "the posterior of a label's weights", sweep: 0, detail }
}
