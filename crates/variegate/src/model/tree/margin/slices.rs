//! Elliptical slices: all eta of a group of siblings move together on an ellipse through them and a draw from the prior, to a point
//! whose charge is above a level drawn below the present one. Scores are linear in eta and so lie on an ellipse of their own: moved
//! along, they need no products with features.

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

use super::groups::Groups;
use crate::infer::elliptical_slice;
use crate::linalg::dot;

/// Passes over all groups.
const PASSES: usize = 2;

pub(super) fn step<R: Rng + ?Sized>(groups: &mut Groups<'_>, eta: &mut [f64], rng: &mut R) {
    let (width, margin, phi) = (groups.phi.width, groups.margin, groups.phi);
    for _ in 0..PASSES {
        for g in 0..groups.groups.len() {
            let group = &groups.groups[g];
            let elsewhere: Vec<f64> = group.rows.iter().map(|&n| groups.elsewhere(n, group.level)).collect();
            let size = group.nodes.len() * width;
            let mut point: Vec<f64> = group.nodes.iter().flat_map(|&z| &eta[z as usize * width..][..width]).copied().collect();
            let mut draw: Vec<f64> = (0..size)
                .map(|_| {
                    let z: f64 = StandardNormal.sample(rng);
                    margin.spread * z
                })
                .collect();
            for z in 0..group.nodes.len() {
                let own = &draw[z * width..(z + 1) * width];
                let scores: Vec<f64> = group.rows.iter().map(|&n| dot(own, phi.row(n))).collect();
                draw.extend(scores);
            }
            point.extend(&group.scores);
            let ln_reg = |point: &[f64]| {
                let charge = |r: usize| elsewhere[r].max(group.violation(&margin, &point[size..], r));
                -2.0 * margin.separation * (0..group.rows.len()).map(charge).sum::<f64>()
            };
            let now = ln_reg(&point);
            let zero = vec![0.0; point.len()];
            elliptical_slice::step(&mut point, &zero, &draw, now, ln_reg, rng);
            for (i, &node) in group.nodes.iter().enumerate() {
                eta[node as usize * width..][..width].copy_from_slice(&point[i * width..(i + 1) * width]);
            }
            groups.rescore(g, eta);
        }
    }
}
