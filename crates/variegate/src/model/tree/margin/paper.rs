//! The mixture of normals: `exp(-2C max(0, rho)) = int_0^inf (2 pi l)^{-1/2} exp(-(l + C rho)^2/(2 l)) dl`, so that given the scales l
//! every eta is normal. `1/l ~ InverseGaussian(1/|C rho|, 1)`, chi-squared with one degree for `C rho` near 0. For node z
//! the precision is `I/nu0^2 + C^2 sum phi phi'/l` over all constraints that z is part of, and the linear term is
//! `sum (C + C^2 (eps0 + eta_u' phi)/l) phi` over those of rows in z against a sibling u, less
//! `sum (C + C^2 (eps0 - eta_v' phi)/l) phi` over those of rows in v against z.
//!
//! With the penalty `sum` every row, level and sibling is a constraint, and this is exact. With `max`, as in the paper, each row has one,
//! its largest, held fixed: an approximation where a row has more than one, since other eta would have other largest ones.

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

use super::super::arena::Arena;
use super::Penalty;
use super::groups::Groups;
use crate::dist::{InverseGaussian, MultivariateNormal};
use crate::linalg::{Cholesky, dot};
use crate::{Error, Result};

/// Row n in node `own`, against node `other`, with 1/l.
struct Constraint {
    n: usize,
    own: u32,
    other: u32,
    inverse: f64,
}

/// 1/l given C rho.
pub(crate) fn draw_inverse_scale<R: Rng + ?Sized>(charged: f64, rng: &mut R) -> Result<f64> {
    let size = charged.abs();
    if size < 1e-10 {
        let z: f64 = StandardNormal.sample(rng);
        return Ok(1.0 / (z * z).max(f64::MIN_POSITIVE));
    }
    Ok(InverseGaussian::new(1.0 / size, 1.0)?.sample(rng))
}

fn constraints<R: Rng + ?Sized>(groups: &Groups<'_>, rng: &mut R) -> Result<Vec<Constraint>> {
    let margin = &groups.margin;
    let rows = groups.worst.len() / groups.levels.max(1);
    // by row, level and sibling
    let mut all: Vec<Vec<(f64, u32, u32)>> = vec![Vec::new(); rows];
    for group in &groups.groups {
        let n = group.rows.len();
        for r in 0..n {
            for z in group.others(r) {
                let rho = margin.margin - group.scores[group.own[r] * n + r] + group.scores[z * n + r];
                all[group.rows[r]].push((rho, group.nodes[group.own[r]], group.nodes[z]));
            }
        }
    }
    let mut found = Vec::new();
    for (n, mut own) in all.into_iter().enumerate() {
        if margin.penalty == Penalty::Max {
            let largest = own.iter().copied().reduce(|a, b| if b.0 > a.0 { b } else { a });
            own = largest.into_iter().collect();
        }
        for (rho, own, other) in own {
            found.push(Constraint { n, own, other, inverse: draw_inverse_scale(margin.separation * rho, rng)? });
        }
    }
    Ok(found)
}

pub(super) fn step<R: Rng + ?Sized>(groups: &mut Groups<'_>, arena: &Arena, leaves: &[u32], eta: &mut [f64], rng: &mut R) -> Result<()> {
    let (width, margin, phi) = (groups.phi.width, groups.margin, groups.phi);
    let constraints = constraints(groups, rng)?;
    let (c, eps) = (margin.separation, margin.margin);
    let mut of: Vec<Vec<usize>> = vec![Vec::new(); arena.slots()];
    for (i, k) in constraints.iter().enumerate() {
        of[k.own as usize].push(i);
        of[k.other as usize].push(i);
    }
    for &node in arena.by_first_row(leaves).iter().skip(1).flatten() {
        if arena.n_children(arena.parent(node)) < 2 {
            continue;
        }
        let mut precision = vec![0.0; width * width];
        (0..width).for_each(|d| precision[d * width + d] = margin.spread.powi(-2));
        let mut linear = vec![0.0; width];
        for k in of[node as usize].iter().map(|&i| &constraints[i]) {
            let features = phi.row(k.n);
            let score = |z: u32| dot(&eta[z as usize * width..][..width], features);
            let pull = match k.own == node {
                true => c + c * c * (eps + score(k.other)) * k.inverse,
                false => -(c + c * c * (eps - score(k.own)) * k.inverse),
            };
            for i in 0..width {
                linear[i] += pull * features[i];
                (0..=i).for_each(|j| precision[i * width + j] += c * c * k.inverse * features[i] * features[j]);
            }
        }
        let factor = Cholesky::with_jitter(width, &precision).map_err(|e| Error::Numerical {
            what: "the precision of a node's scores",
            sweep: 0,
            detail: format!("{e}: scale the columns, or use another update of scores"),
        })?;
        MultivariateNormal::from_linear_term(linear, factor.0).sample_into(rng, &mut eta[node as usize * width..][..width]);
    }
    Ok(())
}
