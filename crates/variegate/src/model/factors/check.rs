//! The samplers as the checks see them: a few rows of one to three sources, two columns, everything from the prior.
//!
//! A sweep conditions on all there is (atoms, who uses them, weights, scales, concentrations, mass), so all of it is drawn and handed over.

use super::counts::Counts;
use super::gaussian::Gaussian;
use super::generate::{Unknowns, mix};
use super::likelihood::Likelihood;
use super::sampler::{Kind, Local, Sampler, State};
use super::settings::{LikelihoodKind, Settings};
use super::{Schema, sampler_of};
use crate::Result;
use crate::check::{CalibrationSettings, CheckReport, Checkable, Effort, Installed, Progress};
use crate::data::Dataset;
use crate::run::{Block, Philox};

/// Columns of the tiny data.
const COLUMNS: usize = 2;

/// Runs the three checks of the sampler that is set, on two sources.
pub(super) fn check(settings: &Settings, effort: &Effort, seed: u64, progress: &mut dyn FnMut(Progress)) -> Result<Vec<CheckReport>> {
    // numbers of factors change slowly where there is little else to learn from: fewer draws, further apart
    let calibration = CalibrationSettings { draws: 15, bins: 8, max_thin: 1000, ..effort.calibration.clone() };
    let effort = &Effort { calibration, ..effort.clone() };
    match settings.likelihood {
        LikelihoodKind::Poisson => crate::check::check(&Subject::counts(settings, vec![2, 3]), effort, seed, progress),
        LikelihoodKind::Gaussian => crate::check::check(&Subject::gaussian(settings, vec![2, 3]), effort, seed, progress),
    }
}

/// Subject of the checks.
pub(super) struct Subject<L> {
    /// The sampler.
    pub program: Sampler<L>,
}

impl Subject<Counts> {
    /// The sampler of counts that is set, with so many rows of each source.
    pub(super) fn counts(settings: &Settings, rows: Vec<u64>) -> Self {
        let schema = Schema::drawn(COLUMNS, rows);
        Self::new(settings, &schema, schema.counts(settings))
    }
}

impl Subject<Gaussian> {
    /// The same for real numbers.
    pub(super) fn gaussian(settings: &Settings, rows: Vec<u64>) -> Self {
        let schema = Schema::drawn(COLUMNS, rows);
        Self::new(settings, &schema, schema.gaussian(settings))
    }
}

impl<L: Likelihood> Subject<L> {
    fn new(settings: &Settings, schema: &Schema, likelihood: L) -> Self {
        Self { program: Sampler { most_atoms: usize::MAX, ..sampler_of(settings, schema, likelihood) } }
    }
}

/// Numbers of a row of a data set.
fn values_of(data: &Dataset<'_>, i: usize) -> Vec<f64> {
    let mut x = vec![0.0; data.x.cols()];
    data.x.view().for_row(i, |m, v| x[m] = v);
    x
}

impl<L: Likelihood> Checkable for Subject<L> {
    type Program = Sampler<L>;
    type Model = Sampler<L>;

    fn title(&self) -> String {
        let words = match self.program.kind {
            Kind::Parallel => "parallel",
            Kind::RowSlice => "rowslice",
            Kind::Slice => "slice",
        };
        format!("{} by {words}, {} source(s)", L::NAME, self.program.rows.len())
    }

    fn block_rows(&self) -> usize {
        2
    }

    fn model(&self) -> &Sampler<L> {
        &self.program
    }

    fn program(&self) -> &Sampler<L> {
        &self.program
    }

    fn given(&self, _: &mut Philox) {}

    fn install(&self, unknowns: Unknowns<L::Scales>, blocks: &[Block<'_>]) -> Result<Installed<Sampler<L>>> {
        let mut rows = unknowns.rows.into_iter();
        let locals = blocks
            .iter()
            .map(|block| Local {
                rows: rows.by_ref().take(block.rows()).collect(),
                filled: self.program.likelihood.fill(block),
                ..Local::default()
            })
            .collect();
        Ok(Installed { global: unknowns.state, locals: Some(locals) })
    }

    fn recover(&self, global: &State<L::Scales>, locals: &[Local]) -> Result<Unknowns<L::Scales>> {
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
        Ok(Unknowns { state, rows, chances: Vec::new() })
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
            "ln likelihood / 10",
            "ln(1+|x|)",
            "|Σ φw| of row 1",
            "ln(1+|x|) × ln(1+ones)",
            "largest w",
        ]
        .map(String::from)
        .to_vec();
        if self.program.mass_prior.is_some() {
            names.extend(["ln mass", "ln(1+atoms) × ln mass"].map(String::from));
        }
        if self.program.concentration_prior.is_some() {
            names.extend(["ln concentration 1", "ln(1+atoms) × ln concentration 1"].map(String::from));
        }
        for scale in L::SCALES {
            names.extend((0..scale.len(self.program.rows.len())).map(|j| format!("ln {} {}", scale.name, j + 1)));
            names.push(format!("ln {} 1 × Σ ln(1+|w|)", scale.name));
            names.push(format!("ln {} 1 × Σ ln(1+|φ|)", scale.name));
            names.push(format!("(ln {} 1)²", scale.name));
        }
        names
    }

    fn functions(&self, unknowns: &Unknowns<L::Scales>, data: &Dataset<'_>, out: &mut Vec<f64>) {
        let (likelihood, state) = (&self.program.likelihood, &unknowns.state);
        let (sources, width) = (self.program.sources(), likelihood.width());
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
            ln_likelihood += likelihood.ln_density(&state.scales, sources[i] as usize, &mean, &x);
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
            ln_likelihood / 10.0,
            x_sum,
            first.iter().map(|&v| soft(v)).sum(),
            x_sum * ones.ln_1p(),
            unknowns.rows.iter().flatten().fold(0.0, |m, e| soft(e.1).max(m)),
        ]);
        if self.program.mass_prior.is_some() {
            out.extend([state.mass.ln(), atoms.ln_1p() * state.mass.ln()]);
        }
        if self.program.concentration_prior.is_some() {
            let ln = state.concentration[0].ln();
            out.extend([ln, atoms.ln_1p() * ln]);
        }
        for values in L::scale_values(&state.scales) {
            out.extend(values.iter().map(|v| v.ln()));
            out.extend([values[0].ln() * weights, values[0].ln() * phi, values[0].ln().powi(2)]);
        }
    }
}
