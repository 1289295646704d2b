//! What is done to rows: the sum that the basis is made of, terms of responsibilities, sums, and probabilities of new rows.

use super::super::super::bound::{bohning, bohning_value};
use super::super::super::expected_sigmoid::expected_sigmoid;
use super::super::super::lanes::{LANES, in_lanes, load, store};
use super::super::super::normal_factor::diagonal;
use super::{Basis, Factors, SharedBohning, Stats, View, scale_columns};
use crate::data::Panel;
use crate::data::design::packed_len;
use crate::linalg::{self, wide};

/// Buffers, reused from block to block.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// x̃ᵀm_w (rows×C).
    pub(super) means: Vec<f64>,
    /// Of one label: r/4 or x̃ᵀ Σ_c V_wb,k (rows×K).
    shares: Vec<f64>,
    /// Σ_k r κ (rows×C).
    responses: Vec<f64>,
    /// Rows in the eigenvectors (rows×columns), and their squares.
    pub(super) turned: Vec<f64>,
    pub(super) squares: Vec<f64>,
    /// x̃ᵀ(A + τ)⁻¹x̃ without the bias (rows×C).
    pub(super) alone: Vec<f64>,
    /// Ẽᵀ diag(j) Uᵀx of one label (rows×border).
    pub(super) border: Vec<f64>,
}

impl SharedBohning {
    /// Packed out (dim(dim+1)/2) += X̃ᵀX̃/4 over the labelled rows: once, before the start.
    pub(crate) fn gram_add(&self, panel: &mut Panel<'_>, y: &[i8], out: &mut Vec<f64>) {
        out.resize(packed_len(self.prior.dim), 0.0);
        let weights: Vec<f64> = y.chunks_exact(self.prior.labels).map(|y| if y[0] >= 0 { 0.25 } else { 0.0 }).collect();
        panel.weighted_grams_add(&weights, 1, out);
    }

    /// out (rows×K) += Σ over the labels of labelled rows of the bound of E ln p(y_c | component k) at its best point, but for x̃ᵀV_ww x̃/8,
    /// which is the same for all components.
    pub(crate) fn terms(&self, view: &View, panel: &mut Panel<'_>, y: &[i8], out: &mut [f64], scratch: &mut Scratch) {
        let (labels, components, rows) = (self.prior.labels, view.components, panel.rows());
        let Scratch { means, shares, .. } = scratch;
        means.resize(rows * labels, 0.0);
        panel.mul_t(&view.weights, labels, means);
        shares.resize(rows * components, 0.0);
        panel.mul_t(&view.cross, components, shares);
        let (patterns, groups) = (in_lanes(&view.patterns, components), components.div_ceil(LANES));
        let mut sums = vec![[0.0; LANES]; groups];
        wide(
            #[inline(always)]
            || {
                let rows = out.chunks_exact_mut(components).zip(shares.chunks_exact(components)).zip(y.chunks_exact(labels));
                for (((out, cross), y), means) in rows.zip(means.chunks_exact(labels)) {
                    if y[0] < 0 {
                        continue;
                    }
                    load(out, &mut sums);
                    for ((&y, f), patterns) in y.iter().zip(means).zip(patterns.chunks_exact(groups)) {
                        let y = f64::from(y);
                        for (sum, b) in sums.iter_mut().zip(patterns) {
                            for lane in 0..LANES {
                                sum[lane] += bohning_value(y, f + b[lane], 0.0);
                            }
                        }
                    }
                    store(&sums, out);
                    for ((o, x), v) in out.iter_mut().zip(cross).zip(&view.pattern_variances) {
                        *o -= 0.125 * (2.0 * x + v);
                    }
                }
            },
        );
    }

    /// Adds what labelled rows with responsibilities r say, with the bounds tangent where this view puts them.
    pub(crate) fn add(&self, view: &View, panel: &mut Panel<'_>, y: &[i8], r: &[f64], stats: &mut Stats, scratch: &mut Scratch) {
        let (labels, components, dim, rows) = (self.prior.labels, view.components, self.prior.dim, panel.rows());
        stats.cross.0.resize(components * dim, 0.0);
        stats.mass.0.resize(components, 0.0);
        stats.response.0.resize(labels * dim, 0.0);
        stats.pattern_response.0.resize(labels * components, 0.0);
        let Scratch { means, shares, responses, .. } = scratch;
        means.resize(rows * labels, 0.0);
        panel.mul_t(&view.weights, labels, means);
        for (buffer, len) in [(&mut *shares, rows * components), (&mut *responses, rows * labels)] {
            buffer.clear();
            buffer.resize(len, 0.0);
        }
        let (mass, pattern_response) = (&mut stats.mass.0, &mut stats.pattern_response.0);
        let (patterns, groups) = (in_lanes(&view.patterns, components), components.div_ceil(LANES));
        let mut of_patterns = in_lanes(pattern_response, components);
        let [mut r_lanes, mut responses_lanes, mut offsets] = [(); 3].map(|()| vec![[0.0; LANES]; groups]);
        stats.offset.0 += wide(
            #[inline(always)]
            || {
                let mut offset = 0.0;
                let rows = shares.chunks_exact_mut(components).zip(r.chunks_exact(components)).zip(y.chunks_exact(labels));
                for (((shares, r), y), (means, responses)) in rows.zip(means.chunks_exact(labels).zip(responses.chunks_exact_mut(labels))) {
                    if y[0] < 0 {
                        continue;
                    }
                    for ((s, m), r) in shares.iter_mut().zip(mass.iter_mut()).zip(r) {
                        *s = 0.25 * r;
                        *m += 0.25 * r;
                    }
                    load(r, &mut r_lanes);
                    let labels = y.iter().zip(means).zip(responses.iter_mut());
                    let patterns = patterns.chunks_exact(groups).zip(of_patterns.chunks_exact_mut(groups));
                    for (((&y, f), response), (patterns, sums)) in labels.zip(patterns) {
                        let y = f64::from(y);
                        let found = responses_lanes.iter_mut().zip(offsets.iter_mut());
                        for (((b, sum), r), (to, offset)) in patterns.iter().zip(sums).zip(&r_lanes).zip(found) {
                            for lane in 0..LANES {
                                let tangent = bohning(y, f + b[lane]);
                                to[lane] = r[lane] * tangent.response;
                                offset[lane] = r[lane] * tangent.offset;
                                sum[lane] += to[lane];
                            }
                        }
                        // one after the other, so that no number of lanes changes the sums
                        let found = responses_lanes.as_flattened().iter().zip(offsets.as_flattened());
                        for (t, o) in found.take(components) {
                            *response += t;
                            offset += o;
                        }
                    }
                }
                offset
            },
        );
        for (sums, groups) in pattern_response.chunks_exact_mut(components).zip(of_patterns.chunks_exact(groups)) {
            store(groups, sums);
        }
        panel.t_mul_add(shares, components, &mut stats.cross.0);
        panel.t_mul_add(responses, labels, &mut stats.response.0);
    }

    /// x̃ᵀm_w of new rows, the rows in the eigenvectors, and x̃ᵀ(A + τ)⁻¹x̃ without the bias.
    pub(super) fn alone(&self, q: &Factors, basis: &Basis, panel: &mut Panel<'_>, scratch: &mut Scratch) {
        let (labels, rows, columns) = (self.prior.labels, panel.rows(), self.prior.columns());
        let Scratch { means, turned, squares, alone, .. } = scratch;
        means.resize(rows * labels, 0.0);
        panel.mul_t(&q.weights, labels, means);
        turned.resize(rows * columns, 0.0);
        alone.resize(rows * labels, 0.0);
        alone.fill(0.0);
        if columns > 0 {
            panel.mul_t(&basis.vectors, columns, turned);
            squares.clear();
            squares.extend(turned.iter().map(|v| v * v));
            let inverse = |&tau| basis.values.iter().map(move |l| 1.0 / (l + tau));
            let inverses: Vec<f64> = q.used_precision.iter().flat_map(inverse).collect();
            linalg::mul_t(squares, &inverses, alone, rows, columns, labels, false);
        }
    }

    /// Probabilities of the labels of new rows, out (rows×(K+1)×C): those of each component, and last those of a new component, whose
    /// patterns have their prior.
    pub(crate) fn probabilities(&self, q: &Factors, basis: &Basis, panel: &mut Panel<'_>, out: &mut [f64], scratch: &mut Scratch) {
        let (labels, components, rows) = (self.prior.labels, q.components, panel.rows());
        let (columns, bias) = (self.prior.columns(), self.bias());
        let size = bias + components;
        self.alone(q, basis, panel, scratch);
        let Scratch { means, turned, alone, border, .. } = scratch;
        let mut selected = vec![0.0; size];
        let mut solved = vec![0.0; size];
        border.resize(rows * size, 0.0);
        for c in 0..labels {
            let v = &q.border_covariance[c * packed_len(size)..(c + 1) * packed_len(size)];
            let patterns = &q.patterns[c * components..(c + 1) * components];
            let new_variance = 1.0 / self.prior.pattern_precision.mean(q.pattern_precision[c]);
            border.fill(0.0);
            if columns > 0 {
                let j: Vec<f64> = basis.values.iter().map(|l| 1.0 / (l + q.used_precision[c])).collect();
                linalg::mul_t(turned, &scale_columns(&q.turned, &j), border, rows, columns, size, false);
            }
            for (i, out) in out.chunks_exact_mut((components + 1) * labels).enumerate() {
                let (f, s2) = (means[i * labels + c], alone[i * labels + c]);
                // given the border, f has variance s2 and mean uᵀb̃ + const: u is the row's part in the border less what the weights take
                selected.iter_mut().zip(&border[i * size..]).for_each(|(u, b)| *u = -b);
                if bias > 0 {
                    selected[0] += 1.0;
                }
                for (a, o) in solved.iter_mut().enumerate() {
                    *o = (0..size).map(|b| v[packed_len(a.max(b)) + a.min(b)] * selected[b]).sum();
                }
                let base = s2 + linalg::dot(&selected, &solved);
                for k in 0..components {
                    let at = bias + k;
                    out[k * labels + c] = expected_sigmoid(f + patterns[k], base + 2.0 * solved[at] + v[diagonal(at)]);
                }
                out[components * labels + c] = expected_sigmoid(f, base + new_variance);
            }
        }
    }
}
