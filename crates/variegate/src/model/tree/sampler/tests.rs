//! Tests of the samplers: against the enumeration of all trees of a few rows, and kernel by kernel with exact draws.

mod enumeration;
mod exact;
mod fixed;
mod margin;
mod paper;
mod parallel;
mod start;

pub(in super::super) use enumeration::enumerate;

use super::super::components::{Columns, Family, Kernel, Matrix, Prior};
use super::super::state::{Concentrations, State};

/// Gaussian components of known covariance `noise I`, means around 0 with covariance `spread I`.
pub(in super::super) fn known(x: &[f64], cols: usize, noise: f64, spread: f64) -> Kernel {
    let prior = Prior {
        mean: Some(vec![0.0]),
        covariance: Some(Matrix::Multiple(noise)),
        mean_covariance: Some(Matrix::Multiple(spread)),
        ..Prior::default()
    };
    bind(Family::GaussianKnown, &prior, x, cols)
}

pub(in super::super) fn bind(family: Family, prior: &Prior, x: &[f64], cols: usize) -> Kernel {
    let names: Vec<String> = (0..cols).map(|d| format!("x{d}")).collect();
    Kernel::bind(family, prior, &Columns::of(family, x, &names).unwrap()).unwrap().0
}

pub(in super::super) fn concentrations(depth: usize, alpha: f64, gamma: f64, gamma0: f64) -> Concentrations {
    Concentrations { alpha: vec![alpha; depth], gamma: vec![gamma; depth], gamma0 }
}

/// Names and values of what the tests compare: nodes of each level, atoms, one path, who shares what.
pub(in super::super) fn summary(state: &State) -> Vec<f64> {
    let (arena, rows) = (&state.arena, state.leaf.len());
    let depth = arena.depth();
    let mut out: Vec<f64> = (1..=depth).map(|l| arena.at_level(l).len() as f64).collect();
    out.push(state.occupied_atoms() as f64);
    out.push(f64::from(u8::from(arena.at_level(depth).len() == 1)));
    for level in 1..=depth {
        for j in 0..rows {
            out.extend((0..j).map(|i| f64::from(arena.ancestor(state.leaf[i], level) == arena.ancestor(state.leaf[j], level))));
        }
    }
    for j in 0..rows {
        out.extend((0..j).map(|i| f64::from(state.atom[i] == state.atom[j])));
    }
    out
}
