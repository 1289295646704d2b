//! The model as a distribution: what governs the process, features and who uses them from the prior, rows given those.

use rand_distr::{Distribution, Poisson, StandardNormal};

use super::sampler::{Intercept, Sampler};
use super::settings::SamplerKind;
use super::state::{Features, State};
use crate::Result;
use crate::check::Generative;
use crate::data::{Dataset, Matrix};
use crate::run::{Philox, open01};

/// All that a sweep conditions on.
#[derive(Debug, Clone)]
pub struct Unknowns {
    /// What every row sees.
    pub state: State,
    /// Places of the features that each row uses.
    pub rows: Vec<Vec<u32>>,
}

impl Sampler {
    /// Whether a state holds all features down to the last that is used, in their order.
    pub(super) fn ordered(&self) -> bool {
        self.angular.is_some() || self.kind == SamplerKind::Slice
    }

    /// Features with these chances of use, used as given, and those that nobody uses where states hold them; entries from the prior.
    fn furnish(&self, state: &mut State, uses: &[u64], rng: &mut Philox) -> Result<Vec<usize>> {
        let process = state.hyper.process;
        let chances = uses.iter().map(|&m| process.sample_used(m, self.rows, rng)).collect::<Result<Vec<_>>>()?;
        let mut places: Vec<(f64, Option<usize>)> = chances.iter().enumerate().map(|(k, c)| (c.0, Some(k))).collect();
        if self.ordered() {
            let least = chances.iter().fold(0.0, |m: f64, c| m.min(c.0));
            let mut y = 0.0;
            while let Some(next) = process.next_unused(y, least, self.rows, rng) {
                y = next;
                places.push((y, None));
            }
            places.sort_by(|a, b| b.0.total_cmp(&a.0));
        }
        state.features = Features::default();
        // where each used feature came to be
        let mut at = vec![0; uses.len()];
        for (id, (y, used)) in places.into_iter().enumerate() {
            self.append_unused(state, id as u64, y, rng)?;
            if let Some(k) = used {
                at[k] = id;
                state.features.uses[id] = uses[k];
                state.features.ln_off[id] = chances[k].1;
            }
        }
        Ok(at)
    }
}

impl Generative for Sampler {
    type Unknowns = Unknowns;
    type Given = ();

    fn prior(&self, rng: &mut Philox) -> Result<Unknowns> {
        let mut state = self.empty_state();
        if let Some(angular) = &self.angular {
            angular.begin(&mut state)?;
        }
        state.hyper = self.learn.draw(&self.hyper, rng)?;
        let process = state.hyper.process;
        let mut uses: Vec<u64> = Vec::new();
        let mut rows: Vec<Vec<u32>> = Vec::new();
        for n in 0..self.rows {
            let mut own = Vec::new();
            for (k, m) in uses.iter_mut().enumerate() {
                if open01(rng) < process.next_row(*m, n) {
                    *m += 1;
                    own.push(k as u32);
                }
            }
            let rate = process.new_columns(n);
            let new = if rate > 0.0 { Poisson::new(rate).map_or(0.0, |p| p.sample(rng)) as u64 } else { 0 };
            for _ in 0..new {
                own.push(uses.len() as u32);
                uses.push(1);
            }
            rows.push(own);
        }
        let at = self.furnish(&mut state, &uses, rng)?;
        for row in &mut rows {
            row.iter_mut().for_each(|k| *k = at[*k as usize] as u32);
            row.sort_unstable();
        }
        if let Intercept::Learned { variance, .. } = self.intercept {
            state.intercept = normals(self.width, variance, rng);
        }
        Ok(Unknowns { state, rows })
    }

    fn data(&self, unknowns: &Unknowns, _: &(), rng: &mut Philox) -> Result<Dataset<'static>> {
        let mut values = Vec::with_capacity(unknowns.rows.len() * self.width);
        for used in &unknowns.rows {
            let mut row = normals(self.width, unknowns.state.hyper.noise, rng);
            row.iter_mut().zip(mean(&unknowns.state, used)).for_each(|(x, m)| *x = (*x + m) * self.scale);
            values.extend(row);
        }
        Ok(Dataset::new(Matrix::dense(unknowns.rows.len(), self.width, values)))
    }
}

/// So many Gaussian numbers.
fn normals(count: usize, variance: f64, rng: &mut Philox) -> Vec<f64> {
    let sd = variance.sqrt();
    (0..count)
        .map(|_| {
            let z: f64 = StandardNormal.sample(rng);
            sd * z
        })
        .collect()
}

/// What is expected of a row that uses these features.
pub(super) fn mean(state: &State, used: &[u32]) -> Vec<f64> {
    let mut out = state.intercept.clone();
    for &k in used {
        out.iter_mut().zip(state.features.weight(k as usize)).for_each(|(o, w)| *o += w);
    }
    out
}
