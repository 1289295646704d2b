//! What is done to rows: terms of responsibilities, sums, and what new rows need.

use super::super::bound::{Tangent, jaakkola_jordan};
use super::super::expected_sigmoid::expected_sigmoid;
use super::super::lanes::{LANES, Lanes, in_lanes, load, store};
use super::super::logit::grams_add;
use super::{And, Stats, View};
use crate::data::Panel;
use crate::linalg::wide;
use crate::special::branchless::{exp, ln_1p};

/// Buffers, reused from block to block.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    weights: super::logit::Scratch,
    /// Σ_k r λ (rows×C).
    curvatures: Vec<f64>,
    /// Σ_k r (E h − ½) (rows×C).
    responses: Vec<f64>,
}

/// q(a, h) of an absent label: ln of its normaliser over e^{l₀+H₀}, E a, E h.
#[inline(always)]
fn absent(mean: f64, ln_odds: f64) -> (f64, f64, f64) {
    let top = mean.max(ln_odds).max(0.0);
    let (neither, h, a) = (exp(-top), exp(mean - top), exp(ln_odds - top));
    let sum = neither + h + a;
    // the largest of the three is 1
    (top + ln_1p(sum - 1.0), a / sum, h / sum)
}

impl And {
    /// out (rows×K) += Σ over the known labels of the bound of E ln p(y_c | component k), at its best q(a, h | k) and ξ.
    pub(crate) fn terms(&self, view: &View, panel: &mut Panel<'_>, y: &[i8], out: &mut [f64], scratch: &mut Scratch) {
        self.weights.moments(&view.weights, panel, &mut scratch.weights);
        self.terms_at(view, scratch.weights.found(), y, out);
    }

    /// The same, given means and variances of w_cᵀx̃ (rows×C each).
    pub(super) fn terms_at<W>(&self, view: &View<W>, (means, spreads): (&[f64], &[f64]), y: &[i8], out: &mut [f64]) {
        let (labels, components) = (self.weights.labels, view.components);
        let [present, not_present] = [&view.ln_present, &view.ln_absent].map(|table| in_lanes(table, components));
        let groups = components.div_ceil(LANES);
        let mut sums = vec![[0.0; LANES]; groups];
        wide(
            #[inline(always)]
            || {
                for (i, out) in out.chunks_exact_mut(components).enumerate() {
                    load(out, &mut sums);
                    for c in 0..labels {
                        let at = i * labels + c;
                        if y[at] < 0 {
                            continue;
                        }
                        let (f, l1, l0) = (means[at], of_label(&present, c, groups), of_label(&not_present, c, groups));
                        let ln_cosh = super::super::bound::ln_2cosh_half(f * f + spreads[at]);
                        let h1 = 0.5 * f - ln_cosh;
                        let h0 = -0.5 * f - ln_cosh;
                        for ((sum, l1), l0) in sums.iter_mut().zip(l1).zip(l0) {
                            if y[at] > 0 {
                                (0..LANES).for_each(|lane| sum[lane] += l1[lane] + h1);
                            } else {
                                for lane in 0..LANES {
                                    sum[lane] += l0[lane] + h0 + absent(f, l1[lane] - l0[lane]).0;
                                }
                            }
                        }
                    }
                    store(&sums, out);
                }
            },
        );
    }

    /// Adds what rows with responsibilities r say, with q(a, h | k) and ξ as this view has them.
    pub(crate) fn add(&self, view: &View, panel: &mut Panel<'_>, y: &[i8], r: &[f64], stats: &mut Stats, scratch: &mut Scratch) {
        let labels = self.weights.labels;
        self.weights.moments(&view.weights, panel, &mut scratch.weights);
        stats.weights.reserve(labels, self.weights.dim, 0);
        let Scratch { weights, curvatures, responses } = scratch;
        self.add_at(view, weights.found(), y, r, stats, (curvatures, responses), |f, s2| jaakkola_jordan(1.0, f * f + s2));
        grams_add(panel, curvatures, labels, &mut stats.weights.gram.0);
        panel.t_mul_add(responses, labels, &mut stats.weights.response.0);
    }

    /// Adds what rows say of patterns, and finds curvatures and linear terms of the weights (rows×C each), given means and variances of w_cᵀx̃
    /// and the bound of a label that is present at them.
    pub(super) fn add_at<W>(
        &self,
        view: &View<W>,
        (means, spreads): (&[f64], &[f64]),
        y: &[i8],
        r: &[f64],
        stats: &mut Stats,
        (curvatures, responses): (&mut Vec<f64>, &mut Vec<f64>),
        tangent: impl Fn(f64, f64) -> Tangent,
    ) {
        let (labels, components) = (self.weights.labels, view.components);
        for sums in [&mut stats.present.0, &mut stats.absent.0] {
            sums.resize(labels * components, 0.0);
        }
        for buffer in [&mut *curvatures, &mut *responses] {
            buffer.clear();
            buffer.resize(y.len(), 0.0);
        }
        let groups = components.div_ceil(LANES);
        let [ln_present, ln_absent] = [&view.ln_present, &view.ln_absent].map(|table| in_lanes(table, components));
        let [mut present, mut not_present] = [&stats.present.0, &stats.absent.0].map(|table| in_lanes(table, components));
        let [mut shares, mut ons, mut entropies] = [(); 3].map(|()| vec![[0.0; LANES]; groups]);
        let (offset, entropy) = wide(
            #[inline(always)]
            || {
                let (mut offset, mut entropy) = (0.0, 0.0);
                for (i, r) in r.chunks_exact(components).enumerate() {
                    let all: f64 = r.iter().sum();
                    load(r, &mut shares);
                    for c in 0..labels {
                        let at = i * labels + c;
                        if y[at] < 0 {
                            continue;
                        }
                        let f = means[at];
                        let Tangent { curvature, response, offset: e } = tangent(f, spreads[at]);
                        let here = c * groups..(c + 1) * groups;
                        let (s1, s0) = (&mut present[here.clone()], &mut not_present[here]);
                        let mut on = all;
                        if y[at] > 0 {
                            s1.iter_mut().zip(&shares).for_each(|(s, r)| (0..LANES).for_each(|lane| s[lane] += r[lane]));
                        } else {
                            on = 0.0;
                            let (l1, l0) = (of_label(&ln_present, c, groups), of_label(&ln_absent, c, groups));
                            for k in 0..groups {
                                for lane in 0..LANES {
                                    let (ln_odds, r) = (l1[k][lane] - l0[k][lane], shares[k][lane]);
                                    let (ln_total, a, h) = absent(f, ln_odds);
                                    s1[k][lane] += r * a;
                                    s0[k][lane] += r * (1.0 - a);
                                    ons[k][lane] = r * h;
                                    entropies[k][lane] = r * (ln_total - h * f - a * ln_odds);
                                }
                            }
                            // one after the other, so that no number of lanes changes the sums
                            for (h, e) in ons.as_flattened().iter().zip(entropies.as_flattened()).take(components) {
                                on += h;
                                entropy += e;
                            }
                        }
                        offset += all * e;
                        curvatures[at] = all * curvature;
                        // with h = 0 instead of 1 the response is 1 less
                        responses[at] = on - (1.0 - response) * all;
                    }
                }
                (offset, entropy)
            },
        );
        for (sums, found) in [(&mut stats.present.0, &present), (&mut stats.absent.0, &not_present)] {
            for (sums, groups) in sums.chunks_exact_mut(components).zip(found.chunks_exact(groups)) {
                store(groups, sums);
            }
        }
        stats.weights.offset.0 += offset;
        stats.entropy.0 += entropy;
    }

    /// E σ(w_cᵀx̃) of new rows, out (rows×C). With r_k of a row and E ψ_kc ([`View::patterns`]; the prior's mean for a new component), a
    /// label is present with probability (Σ_k r_k E ψ_kc) E σ.
    pub(crate) fn classifier_probabilities(&self, view: &View, panel: &mut Panel<'_>, out: &mut [f64], scratch: &mut Scratch) {
        self.weights.moments(&view.weights, panel, &mut scratch.weights);
        expected_sigmoids(scratch.weights.found(), out);
    }

    /// The prior's mean of a pattern: that of a component which no row has yet.
    pub(crate) fn new_pattern(&self) -> f64 {
        self.pattern_prior.0 / (self.pattern_prior.0 + self.pattern_prior.1)
    }
}

/// E σ(f) of normal f, given means and variances.
pub(super) fn expected_sigmoids((means, spreads): (&[f64], &[f64]), out: &mut [f64]) {
    for ((o, &f), &s2) in out.iter_mut().zip(means).zip(spreads) {
        *o = expected_sigmoid(f, s2);
    }
}

/// The groups of components of a label in a table of them.
#[inline(always)]
fn of_label(table: &[Lanes], c: usize, groups: usize) -> &[Lanes] {
    &table[c * groups..(c + 1) * groups]
}
