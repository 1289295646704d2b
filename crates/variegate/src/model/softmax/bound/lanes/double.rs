//! The `double` bound of a group of rows: the search for γ of `double.rs`, and what follows from it.

use super::super::double::{FLAT, MOST_STEPS, SETTLED, SMALL, STEP, bracket};
use crate::linalg;
use crate::special::branchless::{exp, ln_1p};
use crate::special::lanes::{LANES, Lane, any, each};

/// Results of the search.
#[derive(Debug, Default)]
pub(crate) struct Double {
    /// Φ.
    pub(crate) phi: Lane,
    /// ∂Φ/∂m of each child.
    pub(crate) slope: Vec<Lane>,
    /// Curvature of each child.
    pub(crate) curvature: Vec<Lane>,
}

impl Double {
    /// Φ, slopes and curvatures of logits with means m and variances v.
    pub(crate) fn solve(&mut self, m: &[Lane], v: &[Lane]) {
        self.slope.resize(m.len(), [0.0; LANES]);
        self.curvature.resize(m.len(), [0.0; LANES]);
        linalg::wide(
            #[inline(always)]
            || {
                let gamma = gamma(m, v);
                self.phi = results(&gamma, m, v, &mut self.slope, &mut self.curvature);
            },
        );
    }
}

/// Newton, with bisection whenever a step leaves the bracket or does not halve.
#[inline(always)]
fn gamma(m: &[Lane], v: &[Lane]) -> Lane {
    let (mut low, mut gamma, mut widest) = ([f64::INFINITY; LANES], [f64::NEG_INFINITY; LANES], [0.0; LANES]);
    for (m, v) in m.iter().zip(v) {
        low = each(|l| if m[l] < low[l] { m[l] } else { low[l] });
        gamma = each(|l| if m[l] > gamma[l] { m[l] } else { gamma[l] });
        widest = each(|l| if v[l] > widest[l] { v[l] } else { widest[l] });
    }
    let (scale, least) = bracket(m.len());
    let mut high = each(|l| {
        let above = (scale * widest[l]).sqrt();
        gamma[l] + if above > least { above } else { least }
    });
    let mut last = each(|l| high[l] - low[l]);
    let mut open = [1.0; LANES];
    let flat = FLAT * m.len() as f64;
    for _ in 0..MOST_STEPS {
        let (first, second) = derivatives(&gamma, m, v);
        high = each(|l| if first[l] > 0.0 { gamma[l] } else { high[l] });
        low = each(|l| if first[l] > 0.0 { low[l] } else { gamma[l] });
        let newton = each(|l| gamma[l] - first[l] / second[l]);
        let taken = each(|l| {
            let inside = (newton[l] >= low[l]) & (newton[l] <= high[l]);
            if inside & ((newton[l] - gamma[l]).abs() <= 0.5 * last[l]) { 1.0 } else { 0.0 }
        });
        let next = each(|l| if taken[l] > 0.0 { newton[l] } else { 0.5 * (low[l] + high[l]) });
        last = each(|l| (next[l] - gamma[l]).abs());
        // where the bound is flat, or not a number, γ stays
        open = each(|l| if first[l].abs() > flat { open[l] } else { 0.0 });
        gamma = each(|l| if open[l] > 0.0 { next[l] } else { gamma[l] });
        open = each(|l| {
            let settled = (last[l] <= STEP * (1.0 + gamma[l].abs())) | ((taken[l] > 0.0) & (last[l] <= SETTLED));
            if settled { 0.0 } else { open[l] }
        });
        if !any(&open) {
            break;
        }
    }
    gamma
}

/// First and second derivative of the bound in γ, with λ(ξ) and λ'(ξ)/ξ of `double.rs`. One division a child: with r = 1/(ξ(1+e)) both
/// 1/ξ and 1/(1+e) are products.
#[inline(always)]
fn derivatives(gamma: &Lane, m: &[Lane], v: &[Lane]) -> (Lane, Lane) {
    let (mut first, mut second) = ([1.0 - 0.5 * m.len() as f64; LANES], [0.0; LANES]);
    for (m, v) in m.iter().zip(v) {
        let away = each(|l| gamma[l] - m[l]);
        let xi = each(|l| (away[l] * away[l] + v[l]).sqrt());
        let e = each(|l| exp(-xi[l]));
        let r = each(|l| 1.0 / (xi[l] * (1.0 + e[l])));
        let value = each(|l| {
            let square = xi[l] * xi[l];
            let series = 0.125 - square * (1.0 / 96.0) + square * square * (1.0 / 960.0);
            let plain = 0.25 * (1.0 - e[l]) * r[l];
            if xi[l] < SMALL { series } else { plain }
        });
        let slope = each(|l| {
            let (inverse, half) = (r[l] * (1.0 + e[l]), r[l] * xi[l]);
            let plain = (0.5 * e[l] * half * half - value[l]) * (inverse * inverse);
            let series = xi[l] * xi[l] * (1.0 / 240.0) - 1.0 / 48.0;
            if xi[l] < SMALL { series } else { plain }
        });
        first = each(|l| first[l] + 2.0 * value[l] * away[l]);
        second = each(|l| second[l] + 2.0 * (value[l] + slope[l] * (away[l] * away[l])));
    }
    (first, second)
}

#[inline(always)]
fn results(gamma: &Lane, m: &[Lane], v: &[Lane], slope: &mut [Lane], curvature: &mut [Lane]) -> Lane {
    let mut phi = *gamma;
    for (((m, v), slope), curvature) in m.iter().zip(v).zip(slope).zip(curvature) {
        let away = each(|l| m[l] - gamma[l]);
        let xi = each(|l| (away[l] * away[l] + v[l]).sqrt());
        let e = each(|l| exp(-xi[l]));
        let k = each(|l| {
            let square = xi[l] * xi[l];
            let series = 0.25 - square * (1.0 / 48.0) + square * square * (1.0 / 480.0);
            let plain = 0.5 * (1.0 - e[l]) / (xi[l] * (1.0 + e[l]));
            if xi[l] < SMALL { series } else { plain }
        });
        // NaN would not survive the integers in the logarithm
        let ln = each(|l| ln_1p(if e[l] <= 1.0 { e[l] } else { 0.0 }));
        phi = each(|l| phi[l] + (0.5 * (away[l] + xi[l]) + ln[l]));
        *slope = each(|l| 0.5 + k[l] * away[l]);
        *curvature = k;
    }
    phi
}
