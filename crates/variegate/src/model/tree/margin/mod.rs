//! The large-margin term: siblings of a tree are to be told apart by linear scores of the rows.
//!
//! Every node below the root has `eta_z ~ N(0, nu0^2 I)`, a row features `phi_n`. Against a sibling z of its node v at level l it violates
//! the margin by `rho = eps0 - (eta_v - eta_z)' phi_n`. With `xi_n = max(0, largest rho)`, 0 without siblings, the posterior is
//! multiplied by `exp(-2 C xi_n)` (target `stated`), over `r_n`, what a classifier that knows nothing would be charged (`calibrated`).
//! With the penalty `sum` (stated only) every violation counts: `exp(-2 C sum max(0, rho))`.
//!
//! | file | what it is |
//! |---|---|
//! | `features.rs` | phi of training rows and of new ones |
//! | `calibration.rs` | r_n by quadrature |
//! | `groups.rs` | siblings with the rows below them, their scores and violations |
//! | `slices.rs`, `slack.rs`, `paper.rs` | three ways to redraw eta given the tree |

mod calibration;
mod features;
mod groups;
mod paper;
mod slack;
mod slices;

#[cfg(test)]
mod tests;

pub(crate) use calibration::Calibration;
pub(crate) use features::Features;
pub(crate) use paper::draw_inverse_scale;

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};

use super::arena::Arena;
use crate::Result;
use groups::Groups;

/// Which violations of a row count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) enum Penalty {
    /// The largest.
    #[default]
    Max,
    /// All of them.
    Sum,
}

/// How scores are redrawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) enum EtaUpdate {
    /// Elliptical slices of whole groups of siblings; exact.
    #[default]
    Ess,
    /// Slack variables and truncated normals, number by number; exact.
    Slack,
    /// The mixture of normals of the paper; exact for [`Penalty::Sum`], an approximation for [`Penalty::Max`].
    Paper,
}

/// The settings of the margin.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Margin {
    /// C.
    pub(crate) separation: f64,
    /// eps0.
    pub(crate) margin: f64,
    /// nu0.
    pub(crate) spread: f64,
    /// Which violations count.
    pub(crate) penalty: Penalty,
}

/// Rows as the margin sees them: features one row after the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Phi<'a> {
    values: &'a [f64],
    width: usize,
}

impl<'a> Phi<'a> {
    pub(crate) fn new(values: &'a [f64], width: usize) -> Self {
        Self { values, width }
    }

    fn row(&self, n: usize) -> &'a [f64] {
        &self.values[n * self.width..][..self.width]
    }
}

impl Margin {
    /// What one row is charged for: its largest violation, or the sum of all; `nodes` are those of its path from level 1, `eta` the scores
    /// of all nodes one after the other.
    pub(crate) fn violation(&self, arena: &Arena, eta: &[f64], path: impl Iterator<Item = u32>, phi: &[f64]) -> f64 {
        let score = |z: u32| crate::linalg::dot(&eta[z as usize * phi.len()..][..phi.len()], phi);
        let mut total = 0.0f64;
        for node in path {
            let own = score(node);
            for sibling in arena.children(arena.parent(node)).filter(|&z| z != node) {
                let rho = self.margin - own + score(sibling);
                total = match self.penalty {
                    Penalty::Max => total.max(rho),
                    Penalty::Sum => total + rho.max(0.0),
                };
            }
        }
        total
    }

    /// Redraws the scores of all nodes below the root, given the tree; `leaves` has the leaf of each row, `eta` room for every node.
    pub(crate) fn step<R: Rng + ?Sized>(
        &self,
        update: EtaUpdate,
        arena: &Arena,
        leaves: &[u32],
        phi: Phi<'_>,
        eta: &mut [f64],
        rng: &mut R,
    ) -> Result<()> {
        for &node in arena.by_first_row(leaves).iter().skip(1).flatten() {
            if arena.n_children(arena.parent(node)) == 1 {
                // nobody to be told from
                for v in &mut eta[node as usize * phi.width..][..phi.width] {
                    let z: f64 = StandardNormal.sample(rng);
                    *v = self.spread * z;
                }
            }
        }
        let mut groups = Groups::new(*self, arena, leaves, phi, eta);
        match update {
            // without a charge the slices are the prior
            EtaUpdate::Ess => slices::step(&mut groups, eta, rng),
            EtaUpdate::Slack => slack::step(&mut groups, eta, rng)?,
            EtaUpdate::Paper => paper::step(&mut groups, arena, leaves, eta, rng)?,
        }
        Ok(())
    }
}
