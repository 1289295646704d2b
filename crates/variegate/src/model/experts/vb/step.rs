//! From what the rows say of q to the next one.

use super::component::{self, Curvature, Evidence, Prior};
use super::factor::Factor;
use super::fit::Fit;
use super::rows::Stats;
use super::side::Side;
use super::{State, Vb, sphere};
use crate::data::design::packed_len;
use crate::model::experts::settings::GateBound;
use crate::parallel;

/// Turns that all components take between two visits: directions pull at each other, which costs no visit.
const PASSES: usize = 5;
/// Numbers of Gram matrices that are kept unpacked during a step: 128 MB.
const MOST_UNPACKED: usize = 16_000_000;
/// Curvature of a gate where a step may be bold, as a part of ½: this many times the mean of π(1 − π). At 2 it is that of the gate alone, at 4
/// that of two gates which move against each other; the ascent was fastest in between.
const BOLD: f64 = 3.0;
/// The least part: a gate that is never open would have none.
const LEAST_BOLD: f64 = 1e-4;

impl Vb {
    /// The next step from a fit, given what the rows said of it: every component at its best in turn. Where the gate's bound has a fixed
    /// curvature, also a bold one that takes it as it is near by, which may fall.
    pub(super) fn step(&self, fit: &Fit, stats: &Stats, state: &State) -> (Fit, Option<Fit>) {
        let nothing;
        let stats = if stats.linear.0.is_empty() {
            // no rows: the step goes to the prior
            nothing = self.no_rows();
            &nothing
        } else {
            stats
        };
        let (k, j, d) = (self.shape.experts, self.shape.rows(), self.shape.dim());
        let (experts, gates) = stats.linear.0.split_at(k * j * d);
        let (reward, gate_reward) = self.regularised.as_ref().map_or((0.0, 0.0), |r| (r.experts, r.gates));
        let (shares, most) = match self.gate_bound {
            GateBound::Bohning => ((1.0 / k as f64, 1.0 - 1.0 / k as f64), 0.5),
            GateBound::Bouchard => ((0.0, 1.0), 0.25),
        };
        let update = |side: &Side, linear: &[f64], first, shares, most, reward, bold| {
            let mut next = side.clone();
            self.update_side(&mut next, linear, stats, state, first, shares, most, reward, bold);
            if self.learn {
                next.learn();
            }
            next
        };
        let dares = !state.gram.is_empty() && stats.weight.0 > 0.0;
        let gate = |bold| update(&fit.gates, gates, k, shares, most, gate_reward, bold);
        let (experts, (gates, bold)) = parallel::both(
            || update(&fit.experts, experts, 0, (0.0, 1.0), 0.25, reward, false),
            || (gate(false), dares.then(|| gate(true))),
        );
        let bold = bold.map(|gates| Fit { experts: experts.clone(), gates });
        (Fit { experts, gates }, bold)
    }

    /// One update of every component of a side, each given the others as they are now.
    fn update_side(
        &self,
        side: &mut Side,
        linear: &[f64],
        stats: &Stats,
        state: &State,
        first: usize,
        (mean_share, spread_share): (f64, f64),
        most: f64,
        reward: f64,
        bold: bool,
    ) {
        let (p, d, curved) = (self.shape.inputs, self.shape.dim(), self.curved());
        let count = side.factors.len();
        if count == 0 {
            return;
        }
        let width = linear.len() / count;
        let prior =
            Prior { inputs: p, width: d, shape: side.shape, rate: side.rate, precision: 1.0 / (self.intercept_sd * self.intercept_sd) };
        // of the curvature ½ of the gates' mean scores only a part θ: linear and quadratic term change together
        let (mut flatter, mut thetas) = (Vec::new(), vec![1.0; count]);
        if bold {
            for (k, factor) in side.factors.iter().enumerate() {
                thetas[k] = (BOLD * stats.open.0[k] / stats.weight.0).clamp(LEAST_BOLD, 1.0);
                flatter.extend(flattened(&linear[k * width..(k + 1) * width], &state.gram, factor, d, 1.0 - thetas[k]));
            }
        }
        let linear = if bold { &flatter[..] } else { linear };
        let mut means = side.means();
        // unpacking strides through all Gram matrices: once a step, where there is room for all of them
        let curves = if self.grams { curved.saturating_sub(first).min(count) } else { 0 };
        let kept = if curves * d * d <= MOST_UNPACKED { curves } else { curves.min(1) };
        let mut own = vec![0.0; kept * d * d];
        for pass in 0..if self.grams { PASSES } else { 1 } {
            for k in 0..count {
                let at = first + k;
                let curvature = if !self.grams {
                    // vectors of all components before this one
                    let from = first * self.shape.rows() * d + k * width;
                    Curvature::Along {
                        along: &stats.along.0[from..from + width],
                        sums: &stats.sums.0[at * d..(at + 1) * d],
                        trace: stats.traces.0[at],
                        square: stats.squares.0[at],
                        // R ⪯ max w Σ xxᵀ, and no eigenvalue exceeds the trace
                        most: (most * state.most).min(stats.traces.0[at]),
                    }
                } else if at < curved {
                    let place = if kept == curves { k } else { 0 };
                    let own = &mut own[place * d * d..(place + 1) * d * d];
                    if pass == 0 || kept < curves {
                        unpack(&stats.grams.0, d, curved, at, 1.0, own);
                    }
                    Curvature::Whole(own)
                } else {
                    Curvature::Whole(&state.gram)
                };
                let evidence = Evidence {
                    linear: &linear[k * width..(k + 1) * width],
                    curvature,
                    mean_share: mean_share - (1.0 - thetas[k]),
                    spread_share,
                };
                let pull = side.pull(&means, k);
                if let (Some(rewards), true) = (&self.regularised, reward > 0.0) {
                    let mut directions = side.directions();
                    let dim = side.dim;
                    let mut gradient = vec![0.0; directions.len()];
                    let mut scratch = crate::prior::Scratch::default();
                    let mut value = |direction: &[f64], out: Option<&mut [f64]>| {
                        let place = k * dim..(k + 1) * dim;
                        directions[place.clone()].copy_from_slice(direction);
                        let Some(out) = out else { return reward * rewards.angular.smoothed(&directions, dim) };
                        gradient.fill(0.0);
                        let value = rewards.angular.smoothed_gradient_add(&directions, dim, reward, &mut gradient, &mut scratch);
                        sphere::add(out, 1.0, &gradient[place]);
                        reward * value
                    };
                    component::update(&mut side.factors[k], &evidence, &prior, &pull, Some(&mut value));
                } else {
                    component::update(&mut side.factors[k], &evidence, &prior, &pull, None);
                }
                let a = side.factors[k].moments().along.mean;
                means[k * side.dim..(k + 1) * side.dim].iter_mut().zip(&side.factors[k].direction).for_each(|(m, v)| *m = a * v);
            }
            // without a chain and rewards components do not know of each other
            if side.kappa == 0.0 && reward == 0.0 && pass > 0 {
                break;
            }
        }
    }
}

/// Σ g x̃ with a part of its curvature taken away: less that part of R times the mean weights.
fn flattened(linear: &[f64], gram: &[f64], factor: &Factor, d: usize, part: f64) -> Vec<f64> {
    let m = factor.moments();
    let scale = m.size * m.along.mean;
    let mean: Vec<f64> = factor.direction.iter().map(|a| scale * a).chain(factor.intercepts.iter().copied()).collect();
    let mut image = vec![0.0; d];
    sphere::symmetric_product(gram, d, &mean, &mut image);
    linear.iter().zip(&image).map(|(a, r)| a - part * r).collect()
}

/// Both triangles of component c of paired Gram matrices, times a factor.
pub(super) fn unpack(grams: &[f64], d: usize, components: usize, c: usize, factor: f64, out: &mut [f64]) {
    for i in 0..d {
        for j in 0..=i {
            let v = factor * grams.get((packed_len(i) + j) * components + c).copied().unwrap_or(0.0);
            out[i * d + j] = v;
            out[j * d + i] = v;
        }
    }
}
