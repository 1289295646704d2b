//! What is done to rows: terms of responsibilities, sums, and probabilities of new rows, label by label.

use super::super::bound::{Bound, bohning, bohning_value, jaakkola_jordan, ln_2cosh_half};
use super::super::expected_sigmoid::expected_sigmoid;
use super::{Logit, Stats, View};
use crate::data::Panel;
use crate::data::design::packed_len;
use crate::linalg::wide;

/// Buffers, reused from block to block.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// x̃ᵀm_w (rows×C).
    means: Vec<f64>,
    /// x̃ᵀV_ww x̃ (rows×C).
    spreads: Vec<f64>,
    /// x̃ᵀV_wb,k of one label (rows×K).
    cross: Vec<f64>,
    /// r λ of one label (rows×K).
    weights: Vec<f64>,
    /// Σ_k r λ (rows×C).
    curvatures: Vec<f64>,
    /// Σ_k r κ (rows×C).
    responses: Vec<f64>,
}

impl Scratch {
    /// x̃ᵀm_w and x̃ᵀV_ww x̃ (rows×C each), as [`Logit::moments`] found them.
    pub(crate) fn found(&self) -> (&[f64], &[f64]) {
        (&self.means, &self.spreads)
    }
}

impl Logit {
    /// out (rows×K) += Σ over the known labels of the bound of E ln p(y_c | component k), at its best point of tangency.
    pub(crate) fn terms(&self, view: &View, panel: &mut Panel<'_>, y: &[i8], out: &mut [f64], scratch: &mut Scratch) {
        let (labels, components) = (self.labels, view.components);
        self.moments(view, panel, scratch);
        for c in 0..labels {
            if !any_known(y, c, labels) {
                continue;
            }
            self.cross_of(view, c, panel, &mut scratch.cross);
            let Scratch { means, spreads, cross, .. } = &*scratch;
            let label = LabelRows { labels, c, y, means, spreads, cross, view };
            match self.bound {
                Bound::JaakkolaJordan => label.each(out, components, |y, f, s2, o| *o += (y - 0.5) * f - ln_2cosh_half(f * f + s2)),
                Bound::Bohning => label.each(out, components, |y, f, s2, o| *o += bohning_value(y, f, s2)),
            }
        }
    }

    /// Adds what rows with responsibilities r say, with the bounds tangent where this view puts them.
    pub(crate) fn add(&self, view: &View, panel: &mut Panel<'_>, y: &[i8], r: &[f64], stats: &mut Stats, scratch: &mut Scratch) {
        let (labels, components, dim, rows) = (self.labels, view.components, self.dim, panel.rows());
        stats.reserve(labels, dim, components);
        self.moments(view, panel, scratch);
        for buffer in [&mut scratch.curvatures, &mut scratch.responses] {
            buffer.clear();
            buffer.resize(rows * labels, 0.0);
        }
        for c in 0..labels {
            if !any_known(y, c, labels) {
                continue;
            }
            self.cross_of(view, c, panel, &mut scratch.cross);
            let Scratch { means, spreads, cross, weights, curvatures, responses } = &mut *scratch;
            weights.clear();
            weights.resize(rows * components, 0.0);
            let label = LabelRows { labels, c, y, means, spreads, cross, view };
            let of_components = c * components..(c + 1) * components;
            let sums = LabelSums {
                weights,
                curvatures,
                responses,
                mass: &mut stats.mass.0[of_components.clone()],
                pattern_response: &mut stats.pattern_response.0[of_components.clone()],
            };
            stats.offset.0 += match self.bound {
                Bound::JaakkolaJordan => label.sum(r, sums, |y, f, s2| jaakkola_jordan(y, f * f + s2)),
                Bound::Bohning => label.sum(r, sums, |y, f, _| bohning(y, f)),
            };
            panel.t_mul_add(&scratch.weights, components, &mut stats.cross.0[of_components.start * dim..of_components.end * dim]);
        }
        grams_add(panel, &scratch.curvatures, labels, &mut stats.gram.0);
        panel.t_mul_add(&scratch.responses, labels, &mut stats.response.0);
    }

    /// Probabilities of the labels of new rows, out (rows×(K+1)×C): those of each component, and last those of a new component, whose
    /// patterns have their prior.
    pub(crate) fn probabilities(&self, view: &View, panel: &mut Panel<'_>, out: &mut [f64], scratch: &mut Scratch) {
        let (labels, components) = (self.labels, view.components);
        self.moments(view, panel, scratch);
        for c in 0..labels {
            self.cross_of(view, c, panel, &mut scratch.cross);
            let patterns = &view.patterns[c * components..(c + 1) * components];
            let variances = &view.pattern_variances[c * components..(c + 1) * components];
            for (i, out) in out.chunks_exact_mut((components + 1) * labels).enumerate() {
                let (f, s2) = (scratch.means[i * labels + c], scratch.spreads[i * labels + c]);
                for k in 0..components {
                    let cross = scratch.cross.get(i * components + k).map_or(0.0, |v| 2.0 * v);
                    out[k * labels + c] = expected_sigmoid(f + patterns[k], s2 + cross + variances[k]);
                }
                out[components * labels + c] = expected_sigmoid(f, s2 + view.new_variance[c]);
            }
        }
    }

    /// x̃ᵀm_w and x̃ᵀV_ww x̃ of all labels.
    pub(crate) fn moments(&self, view: &View, panel: &mut Panel<'_>, scratch: &mut Scratch) {
        let len = panel.rows() * self.labels;
        scratch.means.resize(len, 0.0);
        scratch.spreads.resize(len, 0.0);
        panel.mul_t(&view.weights, self.labels, &mut scratch.means);
        // Böhning's points need no variances, but its values do
        panel.quadratics(&view.weight_forms, self.labels, &mut scratch.spreads);
    }

    /// x̃ᵀV_wb,k of a label, zeros where the form has none.
    fn cross_of(&self, view: &View, c: usize, panel: &mut Panel<'_>, out: &mut Vec<f64>) {
        let (components, dim) = (view.components, self.dim);
        out.resize(panel.rows() * components, 0.0);
        if view.cross.is_empty() {
            out.fill(0.0);
        } else {
            panel.mul_t(&view.cross[c * components * dim..(c + 1) * components * dim], components, out);
        }
    }
}

/// Packed out (C × dim(dim+1)/2) += Σ_i c_ic x̃x̃ᵀ for weights c (rows×C) ≥ 0.
pub(crate) fn grams_add(panel: &mut Panel<'_>, c: &[f64], labels: usize, out: &mut [f64]) {
    if panel.dense().is_some() {
        panel.weighted_grams_add(c, labels, out);
        return;
    }
    // the matrices of wide sparse rows fit no cache together: one after the other
    let mut column = Vec::with_capacity(panel.rows());
    for (label, out) in out.chunks_exact_mut(packed_len(panel.dim())).enumerate() {
        column.clear();
        column.extend(c.iter().skip(label).step_by(labels));
        if column.iter().any(|c| *c != 0.0) {
            panel.weighted_grams_add(&column, 1, out);
        }
    }
}

/// Whether any row knows the label.
fn any_known(y: &[i8], c: usize, labels: usize) -> bool {
    y[c..].iter().step_by(labels).any(|&y| y >= 0)
}

/// A label of a run of rows.
struct LabelRows<'a> {
    labels: usize,
    c: usize,
    y: &'a [i8],
    means: &'a [f64],
    spreads: &'a [f64],
    cross: &'a [f64],
    view: &'a View,
}

/// Where the sums of a label go.
struct LabelSums<'a> {
    weights: &'a mut [f64],
    curvatures: &'a mut [f64],
    responses: &'a mut [f64],
    mass: &'a mut [f64],
    pattern_response: &'a mut [f64],
}

impl LabelRows<'_> {
    /// (known label, mean and variance of x̃ᵀw) of row i.
    #[inline(always)]
    fn row(&self, i: usize) -> Option<(f64, f64, f64)> {
        let at = i * self.labels + self.c;
        (self.y[at] >= 0).then(|| (f64::from(self.y[at]), self.means[at], self.spreads[at]))
    }

    /// Calls f(y, F, s², out) for each component of each row that knows the label.
    #[inline(always)]
    fn each(&self, out: &mut [f64], components: usize, f: impl Fn(f64, f64, f64, &mut f64)) {
        let patterns = &self.view.patterns[self.c * components..(self.c + 1) * components];
        let variances = &self.view.pattern_variances[self.c * components..(self.c + 1) * components];
        wide(
            #[inline(always)]
            || {
                for (i, (out, cross)) in out.chunks_exact_mut(components).zip(self.cross.chunks_exact(components)).enumerate() {
                    let Some((y, mean, spread)) = self.row(i) else { continue };
                    for (((o, b), v), x) in out.iter_mut().zip(patterns).zip(variances).zip(cross) {
                        f(y, mean + b, spread + 2.0 * x + v, o);
                    }
                }
            },
        );
    }

    /// Sums over rows of the bound's parts; the offset is returned.
    #[inline(always)]
    fn sum(&self, r: &[f64], sums: LabelSums<'_>, tangent: impl Fn(f64, f64, f64) -> super::super::bound::Tangent) -> f64 {
        let components = sums.mass.len();
        let patterns = &self.view.patterns[self.c * components..(self.c + 1) * components];
        let variances = &self.view.pattern_variances[self.c * components..(self.c + 1) * components];
        let LabelSums { weights, curvatures, responses, mass, pattern_response } = sums;
        wide(
            #[inline(always)]
            || {
                let mut offset = 0.0;
                let rows = weights.chunks_exact_mut(components).zip(r.chunks_exact(components)).zip(self.cross.chunks_exact(components));
                for (i, ((weights, r), cross)) in rows.enumerate() {
                    let Some((y, mean, spread)) = self.row(i) else { continue };
                    let (mut curvature, mut response) = (0.0, 0.0);
                    for k in 0..components {
                        let t = tangent(y, mean + patterns[k], spread + 2.0 * cross[k] + variances[k]);
                        weights[k] = r[k] * t.curvature;
                        mass[k] += weights[k];
                        pattern_response[k] += r[k] * t.response;
                        curvature += weights[k];
                        response += r[k] * t.response;
                        offset += r[k] * t.offset;
                    }
                    curvatures[i * self.labels + self.c] = curvature;
                    responses[i * self.labels + self.c] = response;
                }
                offset
            },
        )
    }
}
