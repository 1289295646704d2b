//! Atoms, their uses and data from the prior: what checks and simulated data begin with.

use rand::seq::SliceRandom;

use super::likelihood::Likelihood;
use super::sampler::{Atoms, State};
use crate::Result;
use crate::dist::Beta;
use crate::run::{Philox, open01};
use crate::special::sigmoid;

/// Sticks below this are left out: the chance that any row uses one is the number of rows times the mass times this.
const SHORTEST: f64 = 1e-7;

/// What governs the process.
#[derive(Debug, Clone, PartialEq)]
pub struct Governors {
    /// Mass τ.
    pub mass: f64,
    /// Concentration of each source.
    pub concentration: Vec<f64>,
}

/// A state from the prior, and the entries of every row; names of atoms say nothing of their weights.
pub fn generate<L: Likelihood>(
    likelihood: &L,
    rows: &[u64],
    sources: &[u32],
    governors: Governors,
    scales: L::Scales,
    rng: &mut Philox,
) -> Result<(State<L::Scales>, Vec<Vec<(u64, f64)>>)> {
    let Governors { mass, concentration } = governors;
    // weight, and the rows that use it
    let mut found: Vec<(f64, Vec<usize>)> = Vec::new();
    let mut b = 1.0f64;
    loop {
        b *= open01(rng).powf(1.0 / mass);
        if b < SHORTEST {
            break;
        }
        let mut chances = Vec::with_capacity(rows.len());
        for a in &concentration {
            chances.push(sigmoid(Beta::new((a * b).max(1e-300), (a * (1.0 - b)).max(1e-300))?.sample_logit(rng)));
        }
        let users: Vec<usize> = (0..sources.len()).filter(|&i| open01(rng) < chances[sources[i] as usize]).collect();
        if !users.is_empty() {
            found.push((b, users));
        }
    }
    found.shuffle(rng);
    let mut atoms = Atoms::default();
    let mut entries = vec![Vec::new(); sources.len()];
    for (id, (b, users)) in found.into_iter().enumerate() {
        let mut uses = vec![0; rows.len()];
        for &i in &users {
            uses[sources[i] as usize] += 1;
            entries[i].push((id as u64, likelihood.prior_weight(&scales, sources[i] as usize, rng)?));
        }
        atoms.push(id as u64, &likelihood.prior_atom(&scales, rng)?, b, &uses);
    }
    Ok((State { atoms, concentration, mass, scales, factors: Vec::new(), visited: None }, entries))
}

/// Σ φ w of a row.
pub fn mix<S>(state: &State<S>, entries: &[(u64, f64)], width: usize) -> Vec<f64> {
    let mut out = vec![0.0; width];
    for &(id, w) in entries {
        if let Ok(k) = state.atoms.ids.binary_search(&id) {
            out.iter_mut().zip(&state.atoms.phi[k * width..]).for_each(|(o, v)| *o += v * w);
        }
    }
    out
}
