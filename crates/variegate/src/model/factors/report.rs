//! What a fitted model says of itself: how many factors, who shares them, and how sure that is.

use super::draws::Draw;
use super::posterior::{FactorsPosterior, scales_of};
use super::settings::LikelihoodKind;
use crate::diagnostics::{convergence, summarise};
use crate::linalg::dot;
use crate::model::{NamedArray, Summary};
use crate::prior::BetaProcess;

/// A source uses a factor if it does so in more than half of the draws…
const USED: f64 = 0.5;
/// …and the factor carries more than this of it: one row with a tiny weight does not make a factor shared.
const CARRIES: f64 = 0.005;
/// Names of columns that describe a factor.
const WORDS: usize = 4;
/// Sources that have columns of their own in the table.
const COLUMNS: usize = 6;

/// Mean and standard deviation.
fn moments(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (mean, (values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n).sqrt())
}

impl FactorsPosterior {
    fn sources_count(&self) -> usize {
        self.schema.rows.len()
    }

    /// Mean over the draws that have the factor, for each source (a row) and factor.
    fn over_draws(&self, value: impl Fn(&Draw, usize, usize) -> f64) -> Vec<f64> {
        let (sources, factors) = (self.sources_count(), self.factors());
        let mut out = vec![0.0; sources * factors];
        let mut found = vec![0.0; factors];
        for (draw, same) in self.draws.iter().zip(&self.same) {
            for (f, place) in same.iter().enumerate() {
                let Some((k, _)) = *place else { continue };
                found[f] += 1.0;
                (0..sources).for_each(|j| out[j * factors + f] += value(draw, j, k));
            }
        }
        out.iter_mut().enumerate().for_each(|(at, v)| *v /= f64::max(found[at % factors], 1.0));
        out
    }

    /// Probability that each source uses each factor, among the draws that have it.
    pub(super) fn sharing(&self) -> Vec<f64> {
        let sources = self.sources_count();
        self.over_draws(|d, j, k| f64::from(u8::from(d.uses[k * sources + j] > 0)))
    }

    /// Share of each source that each factor carries.
    pub(super) fn mass(&self) -> Vec<f64> {
        let sources = self.sources_count();
        self.over_draws(|d, j, k| {
            let all: f64 = d.carried.iter().skip(j).step_by(sources).sum();
            if all > 0.0 { d.carried[k * sources + j] / all } else { 0.0 }
        })
    }

    /// Share of the draws that have each factor.
    fn presence(&self) -> Vec<f64> {
        let n = self.draws.len() as f64;
        (0..self.factors()).map(|f| self.same.iter().filter(|s| s[f].is_some()).count() as f64 / n).collect()
    }

    /// Share of rows of each source that use each factor.
    fn usage(&self) -> Vec<f64> {
        let sources = self.sources_count();
        self.over_draws(
            |d, j, k| if self.schema.rows[j] == 0 { 0.0 } else { f64::from(d.uses[k * sources + j]) / self.schema.rows[j] as f64 },
        )
    }

    /// Factors, one a row: mean over the draws that have them, of sum one for counts and of length one otherwise.
    pub(super) fn components(&self) -> Vec<f64> {
        let (width, factors) = (self.schema.width, self.factors());
        let counts = self.settings.likelihood == LikelihoodKind::Poisson;
        let size = |phi: &[f64]| if counts { phi.iter().sum::<f64>() } else { dot(phi, phi).sqrt() };
        let mut out = vec![0.0; factors * width];
        for (draw, same) in self.draws.iter().zip(&self.same) {
            for (f, place) in same.iter().enumerate() {
                let Some((k, sign)) = *place else { continue };
                let phi: Vec<f64> = draw.phi[k * width..][..width].iter().map(|&v| f64::from(v)).collect();
                let size = size(&phi);
                if !(size > 0.0 && size.is_finite()) {
                    continue;
                }
                let scale = sign / size;
                out[f * width..][..width].iter_mut().zip(&phi).for_each(|(o, v)| *o += scale * v);
            }
        }
        for factor in out.chunks_exact_mut(width) {
            let size = size(factor);
            if size > 0.0 {
                factor.iter_mut().for_each(|v| *v /= size);
            }
        }
        out
    }

    /// Number of atoms that both sources use, in each draw.
    fn shared_draws(&self, a: usize, b: usize) -> Vec<f64> {
        let sources = self.sources_count();
        let count = |d: &Draw| (0..d.atoms()).filter(|k| d.uses[k * sources + a] > 0 && d.uses[k * sources + b] > 0).count() as f64;
        self.draws.iter().map(count).collect()
    }

    /// What the prior expects of that, at the masses and concentrations of the draws.
    fn shared_prior(&self, a: usize, b: usize) -> f64 {
        // a few draws do: the figure is there to be compared with, not to be exact
        let some: Vec<&Draw> = self.draws.iter().step_by(self.draws.len().div_ceil(20)).collect();
        let expected = |d: &&Draw| {
            let process = BetaProcess::new(&self.schema.rows, &d.concentration);
            d.mass
                * if a == b {
                    BetaProcess::new(&self.schema.rows[a..=a], &d.concentration[a..=a]).atoms()
                } else {
                    process.used_by_both(a, b)
                }
        };
        some.iter().map(expected).sum::<f64>() / some.len() as f64
    }

    /// What a factor is about: the columns it weighs most.
    fn described(&self, components: &[f64], f: usize) -> String {
        let width = self.schema.width;
        let factor = &components[f * width..][..width];
        let mut order: Vec<usize> = (0..width).collect();
        order.sort_by(|&a, &b| factor[b].abs().total_cmp(&factor[a].abs()));
        let name = |&m: &usize| self.schema.columns.get(m).cloned().unwrap_or_else(|| format!("x{m}"));
        format!("factor{} ({})", f + 1, order.iter().take(WORDS).map(name).collect::<Vec<_>>().join(", "))
    }

    pub(super) fn summarised(&self) -> Summary {
        let (sources, factors) = (self.sources_count(), self.factors());
        let (sharing, mass, presence, components) = (self.sharing(), self.mass(), self.presence(), self.components());
        let atoms: Vec<f64> = self.draws.iter().map(|d| d.atoms() as f64).collect();
        let (mean, sd) = moments(&atoms);
        let word = match self.settings.likelihood {
            LikelihoodKind::Poisson => "counts",
            LikelihoodKind::Gaussian => "real numbers",
        };
        let rows: u64 = self.schema.rows.iter().sum();
        let named = |j: usize| {
            let n = self.schema.rows[j];
            if n == 0 { format!("{} (no data)", self.schema.sources[j]) } else { format!("{} ({n})", self.schema.sources[j]) }
        };
        let mut facts = vec![
            ("model".to_string(), format!("factors of {word}: {rows} rows of {} columns", self.schema.width)),
            ("sources (rows)".to_string(), (0..sources).map(named).collect::<Vec<_>>().join(", ")),
            ("draws".to_string(), format!("{} from {} chain(s)", self.draws.len(), self.lengths.len())),
            ("factors".to_string(), format!("{mean:.2} ± {sd:.2} in a draw; {factors} in the reference draw, below")),
        ];
        let learned = |value: fn(&Draw) -> f64| {
            let (mean, sd) = moments(&self.draws.iter().map(value).collect::<Vec<_>>());
            format!("{mean:.3} ± {sd:.3}")
        };
        if self.settings.learn_mass {
            facts.push(("mass, learned".to_string(), learned(|d| d.mass)));
        }
        if self.settings.learn_shape && self.settings.likelihood == LikelihoodKind::Poisson {
            facts.push(("shape, learned".to_string(), format!("{} (the smaller the sparser)", learned(|d| d.scales[0][0]))));
        }
        for a in 0..sources.min(COLUMNS) {
            for b in a + 1..sources.min(COLUMNS) {
                let (mean, sd) = moments(&self.shared_draws(a, b));
                let what = format!("shared by {} and {}", self.schema.sources[a], self.schema.sources[b]);
                facts.push((what, format!("{mean:.2} ± {sd:.2} (prior {:.2})", self.shared_prior(a, b))));
            }
        }
        let shown = sources.min(COLUMNS);
        let mut headings = vec!["in draws".to_string(), "used by".to_string()];
        headings.extend((0..shown).map(|j| format!("P({})", self.schema.sources[j])));
        headings.extend((0..shown).map(|j| format!("share of {}", self.schema.sources[j])));
        let used = |f: usize| (0..sources).filter(|j| sharing[j * factors + f] > USED && mass[j * factors + f] > CARRIES).count() as f64;
        let table = (0..factors)
            .map(|f| {
                let mut row = vec![presence[f], used(f)];
                row.extend((0..shown).map(|j| sharing[j * factors + f]));
                row.extend((0..shown).map(|j| mass[j * factors + f]));
                (self.described(&components, f), row)
            })
            .collect();
        let by_chain = |f: fn(&super::posterior::Figures) -> &Vec<f64>| -> Vec<Vec<f64>> {
            // chains that are not finished may differ in length
            let n = self.figures.iter().map(|c| f(c).len()).min().unwrap_or(0);
            self.figures.iter().map(|c| f(c)[..n].to_vec()).collect()
        };
        let checked = [
            ("the log joint density", summarise(&by_chain(|f| &f.ln_joint))),
            ("the log likelihood", summarise(&by_chain(|f| &f.ln_likelihood))),
            ("the number of factors", summarise(&by_chain(|f| &f.atoms))),
        ];
        let verdict = convergence(checked.iter().map(|(n, s)| (*n, s)), self.lengths.len());
        let mut notes = verdict.sentences;
        if sources == 1 {
            notes.push(
                "There is one source, so nothing can be shared: name the column of groups with `sources` to see who shares what.".into(),
            );
        }
        Summary { facts, headings, rows: table, converged: verdict.converged, notes }
    }

    pub(super) fn named_arrays(&self) -> Vec<NamedArray> {
        let (sources, factors, width) = (self.sources_count(), self.factors(), self.schema.width);
        let pairs = |f: &dyn Fn(usize, usize) -> f64| (0..sources * sources).map(|at| f(at / sources, at % sources)).collect::<Vec<f64>>();
        let by_source = vec![sources, factors];
        let square = vec![sources, sources];
        let n = self.draws.len();
        let each = |f: &dyn Fn(&Draw) -> f64| self.draws.iter().map(f).collect::<Vec<f64>>();
        let mut all = vec![
            NamedArray { name: "components", shape: vec![factors, width], values: self.components() },
            NamedArray { name: "sharing", shape: by_source.clone(), values: self.sharing() },
            NamedArray { name: "mass", shape: by_source.clone(), values: self.mass() },
            NamedArray { name: "usage", shape: by_source, values: self.usage() },
            NamedArray { name: "presence", shape: vec![factors], values: self.presence() },
            NamedArray { name: "shared", shape: square.clone(), values: pairs(&|a, b| moments(&self.shared_draws(a, b)).0) },
            NamedArray { name: "shared_deviation", shape: square.clone(), values: pairs(&|a, b| moments(&self.shared_draws(a, b)).1) },
            NamedArray { name: "shared_prior", shape: square, values: pairs(&|a, b| self.shared_prior(a, b)) },
            NamedArray { name: "n_factors_draws", shape: vec![n], values: each(&|d| d.atoms() as f64) },
            NamedArray { name: "log_joint_draws", shape: vec![n], values: each(&|d| d.ln_joint) },
            NamedArray { name: "log_likelihood_draws", shape: vec![n], values: each(&|d| d.ln_likelihood) },
            NamedArray { name: "mass_draws", shape: vec![n], values: each(&|d| d.mass) },
            NamedArray {
                name: "concentration_draws",
                shape: vec![n, sources],
                values: self.draws.iter().flat_map(|d| d.concentration.clone()).collect(),
            },
            NamedArray { name: "chain_lengths", shape: vec![self.lengths.len()], values: self.lengths.iter().map(|&l| l as f64).collect() },
        ];
        for (which, scale) in scales_of(self.settings.likelihood).iter().enumerate() {
            let values = self.draws.iter().flat_map(|d| d.scales[which].clone()).collect();
            all.push(NamedArray { name: scale.array, shape: vec![n, scale.len(sources)], values });
        }
        all
    }
}
