//! What is kept of a state as a draw, and how it is read back.

use serde::{Deserialize, Serialize};

use super::likelihood::{Likelihood, Scale};
use super::sampler::{Sampler, State};
use crate::run::{Draws, Piece};
use crate::{Error, Result};

/// One draw from the posterior: the atoms in use and what governs them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Draw {
    /// Log joint density.
    pub ln_joint: f64,
    /// Log likelihood.
    pub ln_likelihood: f64,
    /// Mass of the process.
    pub mass: f64,
    /// Concentration of each source.
    pub concentration: Vec<f64>,
    /// The kinds of scales, in the order of the likelihood's.
    pub scales: Vec<Vec<f64>>,
    /// φ, one atom after the other. Half the digits are far more than the posterior has.
    pub phi: Vec<f32>,
    /// Weight of each atom in the parent process.
    pub weight: Vec<f64>,
    /// Rows of each source that use each atom, one atom after the other.
    pub uses: Vec<u32>,
    /// How much of each source each atom carries, one atom after the other.
    pub carried: Vec<f64>,
}

impl Draw {
    /// Number of atoms.
    pub(super) fn atoms(&self) -> usize {
        self.weight.len()
    }

    /// φ with all the digits that calculations use.
    pub(super) fn wide_phi(&self) -> Vec<f64> {
        self.phi.iter().map(|&v| f64::from(v)).collect()
    }
}

/// Keeps the state at the end of the last scan.
pub(super) fn write<L: Likelihood>(sampler: &Sampler<L>, state: &State<L::Scales>, out: &mut Draws) {
    let Some(visited) = &state.visited else { return };
    let (width, sources, count) = (sampler.likelihood.width(), sampler.rows.len(), visited.atoms.len());
    out.scalar("log_joint", visited.ln_joint);
    out.scalar("log_likelihood", visited.ln_likelihood);
    out.scalar("n_factors", count as f64);
    out.scalar("n_shared", (0..count).filter(|&k| visited.atoms.uses_of(k).iter().filter(|n| **n > 0).count() > 1).count() as f64);
    out.scalar("mass", visited.mass);
    out.vector("concentration", &visited.concentration);
    for (scale, values) in L::SCALES.iter().zip(L::scale_values(&visited.scales)) {
        out.vector(scale.name, &values);
    }
    for k in 0..count {
        let uses: Vec<f64> = visited.atoms.uses_of(k).iter().map(|&n| f64::from(n)).collect();
        let carried: Vec<f64> = (0..sources).map(|j| visited.carried[j * count + k]).collect();
        out.component(
            k,
            &[
                ("weight", &[visited.atoms.weight[k]]),
                ("uses", &uses),
                ("carried", &carried),
                ("phi", &visited.atoms.phi[k * width..][..width]),
            ],
        );
    }
}

/// All draws of all chains, in order, and how many each chain has.
pub(super) fn read(chains: &[Piece], scales: &[Scale], sources: usize) -> Result<(Vec<Draw>, Vec<usize>)> {
    let (mut all, mut lengths) = (Vec::new(), Vec::new());
    for piece in chains {
        let (scalars, components) = (&piece.draws.scalars, &piece.draws.components);
        let missing = |name: &str| Error::Unfit(format!("the draws of chain {} have no column `{name}`", piece.chain));
        let number = |name: &str| scalars.column(name, 0).ok_or_else(|| missing(name));
        let vector =
            |name: &str, n: usize| (0..n).map(|i| scalars.column(name, i).ok_or_else(|| missing(name))).collect::<Result<Vec<_>>>();
        let (ln_joint, ln_likelihood, mass) = (number("log_joint")?, number("log_likelihood")?, number("mass")?);
        let concentration = vector("concentration", sources)?;
        let scale_columns = scales.iter().map(|s| vector(s.name, s.len(sources))).collect::<Result<Vec<_>>>()?;
        let first = all.len();
        for s in 0..ln_joint.len() {
            let at = |columns: &[Vec<f64>]| columns.iter().map(|c| c[s]).collect::<Vec<f64>>();
            all.push(Draw {
                ln_joint: ln_joint[s],
                ln_likelihood: ln_likelihood[s],
                mass: mass[s],
                concentration: at(&concentration),
                scales: scale_columns.iter().map(|columns| at(columns)).collect(),
                phi: Vec::new(),
                weight: Vec::new(),
                uses: Vec::new(),
                carried: Vec::new(),
            });
        }
        lengths.push(ln_joint.len());
        if components.rows() == 0 {
            continue;
        }
        let range = |name: &str| {
            let mut at = 0;
            for (column, width) in &components.columns {
                if column == name {
                    return Ok(at..at + width);
                }
                at += width;
            }
            Err(missing(name))
        };
        let (draw, weight, uses, carried, phi) = (range("draw")?, range("weight")?, range("uses")?, range("carried")?, range("phi")?);
        for row in components.values.chunks_exact(components.width()) {
            let s = (row[draw.start] as u64).checked_sub(piece.draws.first).map_or(usize::MAX, |s| s as usize);
            let Some(kept) = all.get_mut(first.saturating_add(s)) else { continue };
            kept.weight.push(row[weight.start]);
            kept.uses.extend(row[uses.clone()].iter().map(|&n| n as u32));
            kept.carried.extend_from_slice(&row[carried.clone()]);
            kept.phi.extend(row[phi.clone()].iter().map(|&v| (v as f32).clamp(f32::MIN, f32::MAX)));
        }
    }
    Ok((all, lengths))
}
