//! Slack variables: the density `2C e^{-2Cb}` on `b > xi` has the total `e^{-2C xi}`, so with `b_n = xi_n + Exp(2C)` drawn for every row the
//! target is the prior restricted to `rho <= b_n` for all rows and siblings, and each number `eta_zd` is a normal on an interval.
//! For a row in z and siblings u, `eta_zd phi_nd >= eps0 - b_n + s_un - (s_zn - eta_zd phi_nd)`; for a row in another node v,
//! `eta_zd phi_nd <= b_n - eps0 + s_vn - (s_zn - eta_zd phi_nd)`. With the penalty `sum` every row, level and sibling has a b of its own.

use rand::Rng;
use rand_distr::{Distribution, Exp1};

use super::Penalty;
use super::groups::{Group, Groups};
use crate::Result;
use crate::dist::TruncatedNormal;

/// The bounds of a group: rows by siblings (the place of a row's own node is not read).
fn bounds<R: Rng + ?Sized>(groups: &Groups<'_>, group: &Group, of_rows: &[f64], rng: &mut R) -> Vec<f64> {
    let (siblings, n, margin) = (group.nodes.len(), group.rows.len(), &groups.margin);
    let mut found = vec![f64::INFINITY; n * siblings];
    for r in 0..n {
        for z in group.others(r) {
            found[r * siblings + z] = match margin.penalty {
                Penalty::Max => of_rows[group.rows[r]],
                Penalty::Sum => {
                    let rho = margin.margin - group.scores[group.own[r] * n + r] + group.scores[z * n + r];
                    let slack: f64 = Exp1.sample(rng);
                    rho.max(0.0) + slack / (2.0 * margin.separation)
                }
            };
        }
    }
    found
}

pub(super) fn step<R: Rng + ?Sized>(groups: &mut Groups<'_>, eta: &mut [f64], rng: &mut R) -> Result<()> {
    let (width, margin, phi) = (groups.phi.width, groups.margin, groups.phi);
    let of_rows: Vec<f64> = (0..groups.worst.len() / groups.levels.max(1))
        .map(|n| {
            let slack: f64 = Exp1.sample(rng);
            groups.charged(n) + slack / (2.0 * margin.separation)
        })
        .collect();
    for g in 0..groups.groups.len() {
        let limits = bounds(groups, &groups.groups[g], &of_rows, rng);
        let group = &mut groups.groups[g];
        let (siblings, n) = (group.nodes.len(), group.rows.len());
        for z in 0..siblings {
            // what a row's score at z may be; the scores of other nodes stay as they are
            let mut limit = vec![0.0; n];
            for r in 0..n {
                let score = |u: usize| group.scores[u * n + r];
                limit[r] = if group.own[r] == z {
                    group.others(r).map(|u| margin.margin - limits[r * siblings + u] + score(u)).fold(f64::NEG_INFINITY, f64::max)
                } else {
                    limits[r * siblings + z] - margin.margin + score(group.own[r])
                };
            }
            let at = group.nodes[z] as usize * width;
            for d in 0..width {
                let now = eta[at + d];
                let (mut low, mut high) = (f64::NEG_INFINITY, f64::INFINITY);
                for r in 0..n {
                    let slope = phi.row(group.rows[r])[d];
                    if slope == 0.0 {
                        continue;
                    }
                    let bound = now + (limit[r] - group.scores[z * n + r]) / slope;
                    if (group.own[r] == z) == (slope > 0.0) {
                        low = low.max(bound);
                    } else {
                        high = high.min(bound);
                    }
                }
                // rounding must not shut the present value out
                (low, high) = (low.min(now), high.max(now));
                if low >= high {
                    continue;
                }
                let new = TruncatedNormal::new(0.0, margin.spread, low, high)?.sample(rng);
                eta[at + d] = new;
                for r in 0..n {
                    group.scores[z * n + r] += (new - now) * phi.row(group.rows[r])[d];
                }
            }
        }
        groups.rescore(g, eta);
    }
    Ok(())
}
