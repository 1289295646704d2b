//! What a fitted model says of itself: how many factors, who shares them, and how sure that is.

use super::draws::Draw;
use super::posterior::{FactorsPosterior, scales_of};
use super::settings::LikelihoodKind;
use crate::answer::{ColumnKind, Dim, DrawTable, Fact, Figure, NamedArray, Summary, SummaryTable};
use crate::diagnostics::{convergence, summarise};
use crate::linalg::dot;
use crate::prior::BetaProcess;

/// A source uses a factor if it does so in more than half of the draws…
const USED: f64 = 0.5;
/// …and the factor carries more than this of it: one row with a tiny weight does not make a factor shared.
const CARRIES: f64 = 0.005;
/// Names of columns that describe a factor.
const WORDS: usize = 4;

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
        let of_draws = |value: fn(&Draw) -> f64| Figure::estimate(&self.draws.iter().map(value).collect::<Vec<_>>());
        let word = match self.settings.likelihood {
            LikelihoodKind::Poisson => "counts",
            LikelihoodKind::Gaussian => "real numbers",
        };
        let rows = (0..sources).map(|j| (self.schema.sources[j].clone(), self.schema.rows[j] as f64)).collect();
        let mut facts = vec![
            Fact::text("model", format!("factors of {word}")),
            Fact::count("rows", self.schema.rows.iter().sum::<u64>() as usize),
            Fact::count("columns", self.schema.width),
            Fact::new("rows of each source", Figure::Numbers(rows)),
        ];
        facts.extend(DrawTable::facts(&self.lengths));
        facts.push(Fact::new("factors in a draw", of_draws(|d| d.atoms() as f64)));
        facts.push(Fact::count("factors in the reference draw", factors).remark("below"));
        if self.settings.learn_mass {
            facts.push(Fact::new("mass, learned", of_draws(|d| d.mass)));
        }
        if self.settings.learn_shape && self.settings.likelihood == LikelihoodKind::Poisson {
            facts.push(Fact::new("shape, learned", of_draws(|d| d.scales[0][0])).remark("the smaller the sparser"));
        }
        use ColumnKind::{Count, Number, Share};
        let mut columns = vec![("in draws".to_string(), Share), ("used by".to_string(), Count)];
        columns.extend(self.schema.sources.iter().map(|s| (format!("P({s})"), Share)));
        columns.extend(self.schema.sources.iter().map(|s| (format!("share of {s}"), Share)));
        let used = |f: usize| (0..sources).filter(|j| sharing[j * factors + f] > USED && mass[j * factors + f] > CARRIES).count() as f64;
        let mut table = SummaryTable::new("factors", columns);
        for f in 0..factors {
            let mut row = vec![presence[f], used(f)];
            row.extend((0..sources).map(|j| sharing[j * factors + f]));
            row.extend((0..sources).map(|j| mass[j * factors + f]));
            table.rows.push((self.described(&components, f), row));
        }
        let mut tables = vec![table];
        if sources > 1 {
            let mut shared = SummaryTable::new("shared factors", [("mean", Number), ("sd", Number), ("prior mean", Number)]);
            for (a, b) in (0..sources).flat_map(|a| (a + 1..sources).map(move |b| (a, b))) {
                let (mean, sd) = moments(&self.shared_draws(a, b));
                let name = format!("{} and {}", self.schema.sources[a], self.schema.sources[b]);
                shared.rows.push((name, vec![mean, sd, self.shared_prior(a, b)]));
            }
            tables.push(shared);
        }
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
        Summary { facts, tables, converged: verdict.converged, notes, ..Summary::default() }
    }

    pub(super) fn named_arrays(&self) -> Vec<NamedArray> {
        let (sources, n) = (self.sources_count(), self.draws.len());
        let pairs = |f: &dyn Fn(usize, usize) -> f64| (0..sources * sources).map(|at| f(at / sources, at % sources)).collect::<Vec<f64>>();
        let each = |f: &dyn Fn(&Draw) -> f64| self.draws.iter().map(f).collect::<Vec<f64>>();
        let factor = || Dim::named("factor", self.factor_names());
        let source = |name: &'static str| Dim::named(name, self.schema.sources.iter().cloned());
        let by_source = |name, values| NamedArray::new(name, vec![source("source"), factor()], values);
        let square = |name, values| NamedArray::new(name, vec![source("source"), source("other_source")], values);
        let draw = || Dim::counted("draw", n);
        let concentration = self.draws.iter().flat_map(|d| d.concentration.clone()).collect();
        let mut all = vec![
            NamedArray::new("components", vec![factor(), Dim::columns(&self.schema.columns, self.schema.width)], self.components()),
            by_source("sharing", self.sharing()),
            by_source("mass", self.mass()),
            by_source("usage", self.usage()),
            NamedArray::new("presence", vec![factor()], self.presence()),
            square("shared", pairs(&|a, b| moments(&self.shared_draws(a, b)).0)),
            square("shared_deviation", pairs(&|a, b| moments(&self.shared_draws(a, b)).1)),
            square("shared_prior", pairs(&|a, b| self.shared_prior(a, b))),
            NamedArray::draws("n_factors_draws", each(&|d| d.atoms() as f64)),
            NamedArray::draws("log_joint_draws", each(&|d| d.ln_joint)),
            NamedArray::draws("log_likelihood_draws", each(&|d| d.ln_likelihood)),
            NamedArray::draws("mass_draws", each(&|d| d.mass)),
            NamedArray::new("concentration_draws", vec![draw(), source("source")], concentration),
            NamedArray::chain_lengths(&self.lengths),
        ];
        for (which, scale) in scales_of(self.settings.likelihood).iter().enumerate() {
            let values = self.draws.iter().flat_map(|d| d.scales[which].clone()).collect();
            let along = if scale.len(sources) == sources { source("source") } else { Dim::counted("value", scale.len(sources)) };
            all.push(NamedArray::new(scale.array, vec![draw(), along], values));
        }
        all
    }
}
