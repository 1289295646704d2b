//! The samplers as the checks see them: a few rows of one to three sources, two columns, everything from the prior.
//!
//! A sweep conditions on all there is (atoms, who uses them, weights, scales, concentrations, mass), so all of it is drawn and handed over.

use rand_distr::Distribution;

use super::generate::{Governors, generate, mix};
use super::likelihood::Likelihood;
use super::sampler::{Kind, Local, Sampler, State};
use crate::Result;
use crate::check::{Checkable, Installed};
use crate::data::{Classes, Dataset, Matrix};
use crate::dist::Gamma;
use crate::run::{Block, Philox};

/// Shape and rate of the priors of mass and concentrations.
const GOVERNORS: (f64, f64) = (3.0, 3.0);

/// Subject of the checks.
pub struct Subject<L> {
    /// The distribution of the data, with priors that have enough moments.
    pub likelihood: L,
    /// Which sampler.
    pub kind: Kind,
    /// Rows of each source.
    pub rows: Vec<u64>,
    /// Attempts to split or merge.
    pub split_merge: usize,
    /// Rows that may bear or lose atoms.
    pub birth_rows: f64,
    /// Mass and concentrations are known.
    pub governors: Option<Governors>,
}

/// All that a sweep conditions on.
pub struct Unknowns<S> {
    /// What every row sees.
    pub state: State<S>,
    /// Atoms and weights of every row.
    pub rows: Vec<Vec<(u64, f64)>>,
}

impl<L: Likelihood + Clone> Subject<L> {
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

/// Numbers of a row of a data set.
fn values_of(data: &Dataset<'_>, i: usize) -> Vec<f64> {
    let mut x = vec![0.0; data.x.cols()];
    data.x.view().for_row(i, |m, v| x[m] = v);
    x
}

impl<L: Likelihood + Clone> Checkable for Subject<L> {
    type Program = Sampler<L>;
    type Unknowns = Unknowns<L::Scales>;

    fn title(&self) -> String {
        let words = match self.kind {
            Kind::Parallel => "parallel",
            Kind::RowSlice => "rowslice",
            Kind::Slice => "slice",
        };
        format!("{} by {words}, {} source(s)", L::NAME, self.rows.len())
    }

    fn block_rows(&self) -> usize {
        2
    }

    fn prior(&self, rng: &mut Philox) -> Result<Unknowns<L::Scales>> {
        let governors = match &self.governors {
            Some(known) => known.clone(),
            None => {
                let distribution = Gamma::new(GOVERNORS.0, GOVERNORS.1)?;
                Governors { mass: distribution.sample(rng), concentration: self.rows.iter().map(|_| distribution.sample(rng)).collect() }
            }
        };
        let scales = self.likelihood.prior_scales(rng)?;
        let (state, rows) = generate(&self.likelihood, &self.rows, &self.sources(), governors, scales, rng)?;
        Ok(Unknowns { state, rows })
    }

    fn simulate(&self, unknowns: &Unknowns<L::Scales>, rng: &mut Philox) -> Result<Dataset<'static>> {
        let (sources, width) = (self.sources(), self.likelihood.width());
        let mut values = Vec::with_capacity(sources.len() * width);
        for (entries, &j) in unknowns.rows.iter().zip(&sources) {
            let mean = mix(&unknowns.state, entries, width);
            values.extend(self.likelihood.draw_row(&unknowns.state.scales, j as usize, &mean, rng)?);
        }
        let mut data = Dataset::new(Matrix::dense(sources.len(), width, values));
        data.sources = Some(Classes { codes: sources, names: (0..self.rows.len()).map(|j| j.to_string()).collect() });
        Ok(data)
    }

    fn program(&self, _: &Dataset<'_>) -> Result<Sampler<L>> {
        let known = self.governors.is_some();
        Ok(Sampler {
            likelihood: self.likelihood.clone(),
            kind: self.kind,
            rows: self.rows.clone(),
            mass: 1.0,
            mass_prior: (!known).then_some(GOVERNORS),
            concentration: 1.0,
            concentration_prior: (!known).then_some(GOVERNORS),
            split_merge: self.split_merge,
            birth_rows: self.birth_rows,
            most_atoms: usize::MAX,
            shape_from: 0,
            pairs: true,
        })
    }

    fn install(&self, program: &Sampler<L>, unknowns: Unknowns<L::Scales>, blocks: &[Block<'_>]) -> Result<Installed<Sampler<L>>> {
        let mut rows = unknowns.rows.into_iter();
        let locals = blocks
            .iter()
            .map(|block| Local {
                rows: rows.by_ref().take(block.rows()).collect(),
                filled: program.likelihood.fill(block),
                ..Local::default()
            })
            .collect();
        Ok(Installed { global: unknowns.state, locals: Some(locals) })
    }

    fn recover(&self, _: &Sampler<L>, global: &State<L::Scales>, locals: &[Local]) -> Result<Unknowns<L::Scales>> {
        let mut state = global.clone();
        let mut rows: Vec<Vec<(u64, f64)>> = locals.iter().flat_map(|l| l.rows.clone()).collect();
        for (id, w) in rows.iter_mut().flatten() {
            if let (Ok(k), false) = (state.atoms.ids.binary_search(id), state.factors.is_empty()) {
                *w /= state.factors[k];
            }
        }
        state.factors.clear();
        // names begin anew with each installed state, or those of the next sweep would meet those of this one
        for (id, _) in rows.iter_mut().flatten() {
            *id = state.atoms.ids.binary_search(id).map_or(u64::MAX, |k| k as u64);
        }
        state.atoms.ids = (0..state.atoms.len() as u64).collect();
        state.visited = None;
        Ok(Unknowns { state, rows })
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = [
            "atoms",
            "no atoms",
            "ones",
            "shared",
            "private",
            "in row 1",
            "weights of row 1",
            "Σ ln(1+|w|)",
            "Σ ln(1+|φ|)",
            "Σ b",
            "ln mass",
            "ln(1+atoms) × ln mass",
            "ln concentration 1",
            "ln(1+atoms) × ln concentration 1",
            "ln likelihood / 10",
            "ln(1+|x|)",
            "|Σ φw| of row 1",
            "ln(1+|x|) × ln(1+ones)",
            "largest w",
        ]
        .map(String::from)
        .to_vec();
        for scale in L::SCALES {
            names.extend((0..scale.len(self.rows.len())).map(|j| format!("ln {} {}", scale.name, j + 1)));
            names.push(format!("ln {} 1 × Σ ln(1+|w|)", scale.name));
            names.push(format!("ln {} 1 × Σ ln(1+|φ|)", scale.name));
            names.push(format!("(ln {} 1)²", scale.name));
        }
        names
    }

    fn functions(&self, unknowns: &Unknowns<L::Scales>, data: &Dataset<'_>, out: &mut Vec<f64>) {
        let (state, sources, width) = (&unknowns.state, self.sources(), self.likelihood.width());
        let atoms = state.atoms.len() as f64;
        let total = |k: usize| state.atoms.uses_of(k).iter().sum::<u32>();
        let ones: f64 = (0..state.atoms.len()).map(|k| f64::from(total(k))).sum();
        let shared = (0..state.atoms.len()).filter(|&k| state.atoms.uses_of(k).iter().filter(|n| **n > 0).count() > 1).count() as f64;
        let soft = |v: f64| v.abs().ln_1p();
        let weights: f64 = unknowns.rows.iter().flatten().map(|e| soft(e.1)).sum();
        let phi: f64 = state.atoms.phi.iter().map(|&v| soft(v)).sum();
        let mut ln_likelihood = 0.0;
        let mut x_sum = 0.0;
        for (i, entries) in unknowns.rows.iter().enumerate() {
            let (mean, x) = (mix(state, entries, width), values_of(data, i));
            ln_likelihood += self.likelihood.ln_density(&state.scales, sources[i] as usize, &mean, &x);
            x_sum += x.iter().map(|&v| soft(v)).sum::<f64>();
        }
        let first = mix(state, &unknowns.rows[0], width);
        out.extend([
            atoms,
            f64::from(u8::from(atoms == 0.0)),
            ones,
            shared,
            (0..state.atoms.len()).filter(|&k| total(k) == 1).count() as f64,
            unknowns.rows[0].len() as f64,
            unknowns.rows[0].iter().map(|e| soft(e.1)).sum(),
            weights,
            phi,
            state.atoms.weight.iter().sum(),
            state.mass.ln(),
            atoms.ln_1p() * state.mass.ln(),
            state.concentration[0].ln(),
            atoms.ln_1p() * state.concentration[0].ln(),
            ln_likelihood / 10.0,
            x_sum,
            first.iter().map(|&v| soft(v)).sum(),
            x_sum * ones.ln_1p(),
            unknowns.rows.iter().flatten().fold(0.0, |m, e| soft(e.1).max(m)),
        ]);
        for values in L::scale_values(&state.scales) {
            out.extend(values.iter().map(|v| v.ln()));
            out.extend([values[0].ln() * weights, values[0].ln() * phi, values[0].ln().powi(2)]);
        }
    }
}

impl Subject<super::counts::Counts> {
    /// Counts of two columns.
    pub fn small_counts(kind: Kind, rows: Vec<u64>) -> Self {
        let likelihood = super::counts::Counts {
            width: 2,
            sources: rows.len(),
            atom_shape: 0.7,
            shape_prior: Some((6.0, 8.0)),
            weight_shape: 1.5,
            rate_prior: (5.0, 5.0),
            background_prior: (3.0, 10.0),
            background_start: 0.3,
            first_atom: Some(vec![1.0, 0.5]),
            fixed: None,
        };
        let birth_rows = rows.iter().sum::<u64>() as f64;
        Self { likelihood, kind, rows, split_merge: 3, birth_rows, governors: None }
    }
}

impl Subject<super::gaussian::Gaussian> {
    /// Real numbers of two columns.
    pub fn small_gaussian(kind: Kind, rows: Vec<u64>) -> Self {
        let centre = super::gaussian::Centre { columns: 2, means: vec![0.0; 2 * (rows.len() + 1)], scale: 1.0, missing: false };
        let hyper = super::gaussian::Hyper { shape: 4.0, rate: 4.0, fixed: None };
        let likelihood = super::gaussian::Gaussian { centre, hyper };
        let birth_rows = rows.iter().sum::<u64>() as f64;
        Self { likelihood, kind, rows, split_merge: 3, birth_rows, governors: None }
    }
}
