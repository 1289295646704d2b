//! What governs the use of atoms: their weights in the parent process, concentrations, mass, and the probabilities of use.

use rand_distr::Distribution;

use super::super::likelihood::Likelihood;
use super::{Sampler, State};
use crate::dist::{Beta, Gamma};
use crate::infer::slice::SliceSampler;
use crate::prior::BetaProcess;
use crate::run::Philox;
use crate::{Error, Result};

/// Log concentrations stay within these bounds.
const LOWEST: f64 = -30.0;
const HIGHEST: f64 = 12.0;

/// Weights of the atoms in use (exactly: births, splits and merges have integrated them out), concentrations and mass; the
/// probabilities of use, the unused atoms and the slices are integrated out.
pub(super) fn draw<L: Likelihood>(sampler: &Sampler<L>, state: &mut State<L::Scales>, rng: &mut Philox) -> Result<()> {
    let mut process = BetaProcess::new(&sampler.rows, &state.concentration);
    for k in 0..state.atoms.len() {
        state.atoms.weight[k] = process.draw_weight(state.atoms.uses_of(k), rng);
    }
    if let Some((shape, rate)) = sampler.concentration_prior {
        let slice = SliceSampler { width: 1.5, lower: LOWEST, upper: HIGHEST, ..SliceSampler::default() };
        for j in 0..sampler.rows.len() {
            let atoms = &state.atoms;
            let density = |y: f64| {
                let value = y.exp();
                let used: f64 = (0..atoms.len()).map(|k| process.ln_counts_given(j, value, atoms.weight[k], atoms.uses_of(k)[j])).sum();
                // the last term is the probability that the infinitely many other atoms are not used
                shape * y - rate * value + used - state.mass * process.atoms_with(j, value)
            };
            let y = state.concentration[j].ln().clamp(LOWEST, HIGHEST);
            let step = slice.step(y, density, rng).map_err(|e| Error::Unfit(format!("the concentration of source {}: {e}", j + 1)))?;
            state.concentration[j] = step.x.exp();
            process.set_concentration(j, state.concentration[j]);
        }
    }
    if let Some((shape, rate)) = sampler.mass_prior {
        state.mass = Gamma::new(shape + state.atoms.len() as f64, rate + process.atoms())?.sample(rng).max(1e-300);
    }
    Ok(())
}

/// Log odds that a row of each source uses each atom, one source a row, from their distribution given weights and uses.
pub(super) fn ln_odds<S>(rows: &[u64], state: &State<S>, rng: &mut Philox) -> Result<Vec<f64>> {
    let atoms = &state.atoms;
    let mut out = Vec::with_capacity(rows.len() * atoms.len());
    for (j, &n) in rows.iter().enumerate() {
        for k in 0..atoms.len() {
            let (a, b, uses) = (state.concentration[j], atoms.weight[k], atoms.uses_of(k)[j] as f64);
            let yes = (a * b + uses).max(1e-300);
            let no = (a * (1.0 - b) + n as f64 - uses).max(1e-300);
            out.push(Beta::new(yes, no)?.sample_logit(rng));
        }
    }
    Ok(out)
}

/// Places of the atoms, the largest weight first: an order that does not depend on who uses them.
pub(super) fn descending(weight: &[f64]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..weight.len() as u32).collect();
    order.sort_by(|&a, &b| weight[b as usize].total_cmp(&weight[a as usize]));
    order
}
