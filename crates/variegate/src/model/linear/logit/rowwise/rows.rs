//! What is done to rows: terms of responsibilities, what a minibatch hands over, and probabilities of new rows.

use super::super::super::expected_sigmoid::expected_sigmoid;
use super::{Chunk, LANES, Lanes, Rowwise, Stats, View};
use crate::data::Panel;
use crate::linalg::wide;
use crate::model::linear::bound::{curvature_given, ln_2cosh_half_given};
use crate::special::branchless::exp;

/// A component that is e⁻⁴⁰ times as likely as the best has no share that f64 could see beside it.
const FAR: f64 = 40.0;

/// Buffers, reused from block to block.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// Entries of the rows.
    pub(super) ends: Vec<u32>,
    pub(super) columns: Vec<u32>,
    pub(super) values: Vec<f64>,
    /// Mean and variance of x̃ᵀw of each row and group.
    pub(super) linear: Vec<[Lanes; 2]>,
    /// Half the sign of the labels of a group's lanes, 0 where unknown; row after row.
    signs: Vec<Lanes>,
    /// λ of each row's components, where [`Rowwise::terms`] has found them: row and component of each, and then group after group.
    pairs: Vec<(u32, u32)>,
    curvature: Vec<Lanes>,
    /// Whether the curvatures belong to the rows at hand.
    fresh: bool,
    order: Vec<u32>,
    /// Means and variances of x̃ᵀw (rows×C each), where a row's labels are asked for one by one.
    pub(super) means: Vec<f64>,
    pub(super) spreads: Vec<f64>,
}

impl Rowwise {
    /// out (rows×K) += Σ over the known labels of the bound of E ln p(y_c | component k). Components whose features alone make them
    /// far less likely than another become impossible: terms of labels are never above 0.
    pub(crate) fn terms(&self, view: &View, panel: &mut Panel<'_>, y: &[i8], out: &mut [f64], scratch: &mut Scratch) {
        let (groups, components) = (view.groups.len(), view.components);
        self.read(view, panel, y, scratch);
        let Scratch { linear, signs, pairs, curvature, order, .. } = scratch;
        pairs.clear();
        curvature.clear();
        for (i, out) in out.chunks_exact_mut(components).enumerate() {
            order.clear();
            order.extend(0..components as u32);
            order.sort_by(|a, b| out[*b as usize].total_cmp(&out[*a as usize]));
            let mut best = f64::NEG_INFINITY;
            for &k in order.iter() {
                let l = &mut out[k as usize];
                // NaN goes on, so that it is seen
                if *l < best - FAR {
                    *l = f64::NEG_INFINITY;
                    continue;
                }
                let from = curvature.len();
                curvature.resize(from + groups, [0.0; LANES]);
                *l += tangents(view, k as usize, &linear[i * groups..], &signs[i * groups..], &mut curvature[from..]);
                pairs.push((i as u32, k));
                best = best.max(*l);
            }
        }
        scratch.fresh = true;
    }

    /// Hands over rows with responsibilities r, with the bounds tangent where this view puts them.
    pub(crate) fn add(&self, view: &View, panel: &mut Panel<'_>, y: &[i8], r: &[f64], stats: &mut Stats, scratch: &mut Scratch) {
        let (groups, components) = (view.groups.len(), view.components);
        if !std::mem::take(&mut scratch.fresh) {
            self.read(view, panel, y, scratch);
            let Scratch { linear, signs, pairs, curvature, .. } = scratch;
            pairs.clear();
            curvature.clear();
            for (at, _) in r.iter().enumerate().filter(|(_, r)| **r > 0.0) {
                let (i, k) = (at / components, at % components);
                let from = curvature.len();
                curvature.resize(from + groups, [0.0; LANES]);
                tangents(view, k, &linear[i * groups..], &signs[i * groups..], &mut curvature[from..]);
                pairs.push((i as u32, k as u32));
            }
        }
        let mut chunk = Chunk {
            ends: scratch.ends.clone(),
            columns: scratch.columns.clone(),
            values: scratch.values.clone(),
            y: y.to_vec(),
            ..Chunk::default()
        };
        let share = |&(i, k): &(u32, u32)| r[i as usize * components + k as usize];
        let kept: Vec<usize> = (0..scratch.pairs.len()).filter(|&at| share(&scratch.pairs[at]) > 0.0).collect();
        chunk.component_ends.resize(panel.rows(), 0);
        for &at in &kept {
            let pair = &scratch.pairs[at];
            chunk.component_ends[pair.0 as usize] += 1;
            chunk.of_component.push(pair.1);
            chunk.share.push(share(pair));
        }
        let mut end = 0;
        for e in &mut chunk.component_ends {
            end += *e;
            *e = end;
        }
        chunk.weight.reserve(kept.len() * groups);
        for group in 0..groups {
            for (&at, r) in kept.iter().zip(&chunk.share) {
                chunk.weight.push(scratch.curvature[at * groups + group].map(|l| r * l));
            }
        }
        stats.squares.0.resize(self.prior.dim, 0.0);
        panel.squares_add(&vec![1.0; panel.rows()], &mut stats.squares.0);
        stats.chunks.push(chunk);
    }

    /// Probabilities of the labels of new rows, out (rows×(K+1)×C): those of each component, and last those of a new component, whose
    /// patterns have their prior. Components of a row that are not `likely` are left out.
    pub(crate) fn probabilities(
        &self,
        view: &View,
        panel: &mut Panel<'_>,
        out: &mut [f64],
        likely: impl Fn(usize, usize) -> bool,
        scratch: &mut Scratch,
    ) {
        let (labels, components, groups) = (self.prior.labels, view.components, view.groups.len());
        self.read(view, panel, &[], scratch);
        for (i, out) in out.chunks_exact_mut((components + 1) * labels).enumerate() {
            for (k, out) in out.chunks_exact_mut(labels).enumerate().filter(|(k, _)| likely(i, *k)) {
                for (c, out) in out.iter_mut().enumerate() {
                    let (group, lane) = (&view.groups[c / LANES], c % LANES);
                    let [f, s2] = &scratch.linear[i * groups + c / LANES];
                    let (b, v) = group.patterns.get(k).map_or((0.0, view.new_variance[c]), |[b, v]| (b[lane], v[lane]));
                    *out = expected_sigmoid(f[lane] + b, s2[lane] + v);
                }
            }
        }
    }

    /// Entries, labels and moments of x̃ᵀw of all rows.
    pub(super) fn read(&self, view: &View, panel: &mut Panel<'_>, y: &[i8], scratch: &mut Scratch) {
        let (labels, rows, groups) = (self.prior.labels, panel.rows(), view.groups.len());
        let Scratch { ends, columns, values, linear, signs, fresh, .. } = scratch;
        *fresh = false;
        ends.clear();
        columns.clear();
        values.clear();
        for i in 0..rows {
            panel.for_entries(i, |j, v| {
                columns.push(j as u32);
                values.push(v);
            });
            ends.push(columns.len() as u32);
        }
        linear.clear();
        linear.resize(rows * groups, [[0.0; LANES]; 2]);
        let bias = self.prior.dim - 1;
        wide(
            #[inline(always)]
            || {
                for (g, group) in view.groups.iter().enumerate() {
                    let mut from = 0;
                    for (i, &end) in ends.iter().enumerate() {
                        let [mut mean, mut variance] = group.weights[bias];
                        for (&j, &x) in columns[from..end as usize].iter().zip(&values[from..end as usize]) {
                            let [m, v] = &group.weights[j as usize];
                            for c in 0..LANES {
                                mean[c] += x * m[c];
                                variance[c] += x * x * v[c];
                            }
                        }
                        linear[i * groups + g] = [mean, variance];
                        from = end as usize;
                    }
                }
            },
        );
        signs.clear();
        if y.is_empty() {
            return;
        }
        signs.resize(rows * groups, [0.0; LANES]);
        for (i, y) in y.chunks_exact(labels).enumerate() {
            for (c, &y) in y.iter().enumerate().filter(|(_, y)| **y >= 0) {
                signs[i * groups + c / LANES][c % LANES] = f64::from(y) - 0.5;
            }
        }
    }
}

/// The bound of the known labels of a row in component k, and λ of each.
fn tangents(view: &View, k: usize, linear: &[[Lanes; 2]], signs: &[Lanes], curvature: &mut [Lanes]) -> f64 {
    wide(
        #[inline(always)]
        || {
            let mut sum = [0.0; LANES];
            for (((group, [f, s2]), sign), out) in view.groups.iter().zip(linear).zip(signs).zip(curvature) {
                let [b, v] = &group.patterns[k];
                for c in 0..LANES {
                    let mean = f[c] + b[c];
                    let xi = (mean * mean + s2[c] + v[c]).sqrt();
                    let e = exp(-xi);
                    let known = if sign[c] == 0.0 { 0.0 } else { 1.0 };
                    sum[c] += sign[c] * mean - known * ln_2cosh_half_given(xi, e);
                    out[c] = known * curvature_given(xi, e);
                }
            }
            sum.iter().sum()
        },
    )
}
