//! The model as a distribution: what governs the process, atoms and who uses them from the prior, rows given those.

use rand::seq::SliceRandom;
use rand_distr::Distribution;

use super::likelihood::Likelihood;
use super::sampler::{Atoms, Sampler, State};
use crate::Result;
use crate::check::Generative;
use crate::data::{Classes, Dataset, Matrix};
use crate::dist::{Beta, Gamma};
use crate::run::{Philox, open01};
use crate::special::sigmoid;

/// Sticks below this are left out: the chance that any row uses one is the number of rows times the mass times this.
const SHORTEST: f64 = 1e-7;

/// All that a sweep conditions on.
pub struct Unknowns<S> {
    /// What every row sees.
    pub state: State<S>,
    /// Atoms and weights of every row.
    pub rows: Vec<Vec<(u64, f64)>>,
    /// Chance of each source to use each atom, one atom after the other, where it was drawn: sweeps do without.
    pub chances: Vec<f64>,
}

impl<L> Sampler<L> {
    /// Source of each row: mixed, so that blocks hold several.
    pub fn sources(&self) -> Vec<u32> {
        let mut left = self.rows.clone();
        let mut out = Vec::new();
        while left.iter().any(|&n| n > 0) {
            for (j, n) in left.iter_mut().enumerate().filter(|(_, n)| **n > 0) {
                *n -= 1;
                out.push(j as u32);
            }
        }
        out
    }
}

impl<L: Likelihood> Generative for Sampler<L> {
    type Unknowns = Unknowns<L::Scales>;
    type Given = ();

    /// Names of atoms say nothing of their weights.
    fn prior(&self, rng: &mut Philox) -> Result<Unknowns<L::Scales>> {
        let known_or = |known: f64, prior: Option<(f64, f64)>, rng: &mut Philox| -> Result<f64> {
            Ok(match prior {
                Some((shape, rate)) => Gamma::new(shape, rate)?.sample(rng),
                None => known,
            })
        };
        let mass = known_or(self.mass, self.mass_prior, rng)?;
        let concentration: Vec<f64> =
            self.rows.iter().map(|_| known_or(self.concentration, self.concentration_prior, rng)).collect::<Result<_>>()?;
        let scales = self.likelihood.prior_scales(rng)?;
        let sources = self.sources();
        // weight, chances, and the rows that use it
        let mut found: Vec<(f64, Vec<f64>, Vec<usize>)> = Vec::new();
        let mut b = 1.0f64;
        loop {
            b *= open01(rng).powf(1.0 / mass);
            if b < SHORTEST {
                break;
            }
            let mut chances = Vec::with_capacity(concentration.len());
            for a in &concentration {
                chances.push(sigmoid(Beta::new((a * b).max(1e-300), (a * (1.0 - b)).max(1e-300))?.sample_logit(rng)));
            }
            let users: Vec<usize> = (0..sources.len()).filter(|&i| open01(rng) < chances[sources[i] as usize]).collect();
            if !users.is_empty() {
                found.push((b, chances, users));
            }
        }
        found.shuffle(rng);
        let mut atoms = Atoms::default();
        let mut rows = vec![Vec::new(); sources.len()];
        let mut kept = Vec::new();
        for (id, (b, chances, users)) in found.into_iter().enumerate() {
            let mut uses = vec![0; self.rows.len()];
            for &i in &users {
                uses[sources[i] as usize] += 1;
                rows[i].push((id as u64, self.likelihood.prior_weight(&scales, sources[i] as usize, rng)?));
            }
            atoms.push(id as u64, &self.likelihood.prior_atom(&scales, rng)?, b, &uses);
            kept.extend(chances);
        }
        let state = State { atoms, concentration, mass, scales, factors: Vec::new(), visited: None };
        Ok(Unknowns { state, rows, chances: kept })
    }

    fn data(&self, unknowns: &Unknowns<L::Scales>, _: &(), rng: &mut Philox) -> Result<Dataset<'static>> {
        let (sources, width) = (self.sources(), self.likelihood.width());
        let mut values = Vec::with_capacity(sources.len() * width);
        for (entries, &j) in unknowns.rows.iter().zip(&sources) {
            let mean = mix(&unknowns.state, entries, width);
            values.extend(self.likelihood.draw_row(&unknowns.state.scales, j as usize, &mean, rng)?);
        }
        let mut data = Dataset::new(Matrix::dense(sources.len(), width, values));
        let count = self.rows.len();
        let names = (1..=count).map(|j| format!("s{j:0w$}", w = count.to_string().len())).collect();
        data.sources = Some(Classes { codes: sources, names });
        Ok(data)
    }
}

/// Σ φ w of a row.
pub(super) fn mix<S>(state: &State<S>, entries: &[(u64, f64)], width: usize) -> Vec<f64> {
    let mut out = vec![0.0; width];
    for &(id, w) in entries {
        if let Ok(k) = state.atoms.ids.binary_search(&id) {
            out.iter_mut().zip(&state.atoms.phi[k * width..]).for_each(|(o, v)| *o += v * w);
        }
    }
    out
}
