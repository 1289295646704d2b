//! A fitted model: coordinates, probabilities and completions of new rows, and which rows are alike.

use serde::{Deserialize, Serialize};

use super::draws::{Draw, read};
use super::guests::Guests;
use super::likelihood::{Likelihood, Scale};
use super::sampler::Kind as SamplerKind;
use super::settings::{LikelihoodKind, Settings};
use super::stage::Stage;
use super::{NAME, Schema};
use crate::answer::{
    Answers, CompleteRows, Coordinates, HeldOut, HeldOutEffort, ImputeRows, Imputed, KeptDraws, NamedArray, Neighbours, Origin,
    PREDICT_PANEL, PlaceRows, Posterior, RowDensity, Summary, check_new_rows, evenly, for_panels_parallel,
};
use crate::data::{Dataset, Needs, X};
use crate::model::matching::{Signs, same_components};
use crate::parallel;
use crate::run::{Piece, state};
use crate::{Error, Result};

const SAVED: state::Kind = state::Kind::new("factors posterior", &["0.1", "0.1"]);
/// Atoms less alike than this (cosine) are not the same.
const ALIKE: f64 = 0.8;
/// Stored draws that new rows are placed by, at most.
pub(super) const DRAWS: usize = 20;

/// Draws, and what they mean.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FactorsPosterior {
    pub(super) schema: Schema,
    pub(super) settings: Settings,
    pub(super) draws: Vec<Draw>,
    /// Draws of each chain.
    pub(super) lengths: Vec<usize>,
    /// Figures of every sweep after the warm-up, one chain after the other: the chains are judged by them.
    pub(super) figures: Vec<Figures>,
    /// The draw whose factors stand for those of all.
    pub(super) reference: usize,
    /// For each draw, which of its atoms are those of the reference, and their signs.
    pub(super) same: Vec<Vec<Option<(usize, f64)>>>,
}

/// The posterior as version 1 kept it.
#[derive(Deserialize)]
struct First {
    schema: Schema,
    settings: FirstSettings,
    draws: Vec<Draw>,
    lengths: Vec<usize>,
    figures: Vec<Figures>,
    reference: usize,
    same: Vec<Vec<Option<(usize, f64)>>>,
}

/// Settings before a fit could begin with many factors.
#[derive(Deserialize)]
struct FirstSettings {
    likelihood: LikelihoodKind,
    sampler: SamplerKind,
    mass: f64,
    learn_mass: bool,
    concentration_shape: f64,
    concentration_rate: f64,
    atom_shape: f64,
    learn_shape: bool,
    weight_shape: f64,
    scale_shape: f64,
    scale_rate: f64,
    background_shape: f64,
    background_rate: Option<f64>,
    center: bool,
    missing: bool,
    split_merge: Option<u64>,
    birth_rows: Option<f64>,
    max_factors: Option<u64>,
    n_chains: u32,
    n_warmup: u64,
    n_draws: u64,
    thin: u64,
}

impl From<First> for FactorsPosterior {
    fn from(First { schema, settings, draws, lengths, figures, reference, same }: First) -> Self {
        Self { schema, settings: settings.into(), draws, lengths, figures, reference, same }
    }
}

impl From<FirstSettings> for Settings {
    fn from(first: FirstSettings) -> Self {
        Self {
            likelihood: first.likelihood,
            sampler: first.sampler,
            mass: first.mass,
            learn_mass: first.learn_mass,
            concentration_shape: first.concentration_shape,
            concentration_rate: first.concentration_rate,
            atom_shape: first.atom_shape,
            learn_shape: first.learn_shape,
            weight_shape: first.weight_shape,
            scale_shape: first.scale_shape,
            scale_rate: first.scale_rate,
            background_shape: first.background_shape,
            background_rate: first.background_rate,
            center: first.center,
            missing: first.missing,
            split_merge: first.split_merge,
            birth_rows: first.birth_rows,
            max_factors: first.max_factors,
            n_chains: first.n_chains,
            n_warmup: first.n_warmup,
            n_draws: first.n_draws,
            thin: first.thin,
            start_factors: 1,
        }
    }
}

/// Figures of the sweeps of one chain.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Figures {
    pub(super) ln_joint: Vec<f64>,
    pub(super) ln_likelihood: Vec<f64>,
    pub(super) atoms: Vec<f64>,
}

/// Does the same for either likelihood.
macro_rules! with_likelihood {
    ($self:expr, $likelihood:ident => $body:expr) => {
        match $self.settings.likelihood {
            LikelihoodKind::Poisson => {
                let $likelihood = &$self.schema.counts(&$self.settings);
                $body
            }
            LikelihoodKind::Gaussian => {
                let $likelihood = &$self.schema.gaussian(&$self.settings);
                $body
            }
        }
    };
}

/// The kinds of scales of a likelihood.
pub(super) fn scales_of(kind: LikelihoodKind) -> &'static [Scale] {
    match kind {
        LikelihoodKind::Poisson => super::counts::Counts::SCALES,
        LikelihoodKind::Gaussian => super::gaussian::Gaussian::SCALES,
    }
}

impl FactorsPosterior {
    pub(super) fn new(schema: &Schema, settings: &Settings, chains: &[Piece]) -> Result<Self> {
        let (draws, lengths) = read(chains, scales_of(settings.likelihood), schema.rows.len())?;
        KeptDraws::of(chains)?;
        let figures = chains.iter().map(|c| figures(c, settings.n_warmup)).collect();
        // among the draws with the commonest number of factors the one of largest log joint density
        let most = draws.iter().map(Draw::atoms).max().unwrap_or(0);
        let mut times = vec![0usize; most + 1];
        draws.iter().for_each(|d| times[d.atoms()] += 1);
        let mode = (0..=most).fold(0, |best, k| if times[k] > times[best] { k } else { best });
        let better = |best: Option<usize>, i: usize| match best {
            Some(b) if draws[b].ln_joint >= draws[i].ln_joint => Some(b),
            _ => Some(i),
        };
        let reference = (0..draws.len()).filter(|&i| draws[i].atoms() == mode).fold(None, better).unwrap_or(0);
        let mut out = Self { schema: schema.clone(), settings: settings.clone(), draws, lengths, figures, reference, same: Vec::new() };
        let (width, first) = (out.schema.width, out.draws[reference].wide_phi());
        out.same = parallel::map(&out.draws, |_, d| same_components(&first, &d.wide_phi(), width, ALIKE, Signs::Free));
        // the order of atoms means nothing: those that carry most come first
        let carried = out.mass();
        let count = out.draws[reference].atoms();
        let total = |k: usize| (0..out.schema.rows.len()).map(|j| carried[j * count + k] * out.schema.rows[j] as f64).sum::<f64>();
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by(|&a, &b| total(b).total_cmp(&total(a)));
        for same in &mut out.same {
            *same = order.iter().map(|&k| same[k]).collect();
        }
        Ok(out)
    }

    pub(super) fn load(saved: &[u8]) -> Result<Self> {
        Ok(state::unseal_older(SAVED, saved, |older| match older.version {
            1 => Ok(older.decode::<First>()?.into()),
            _ => Err(older.refused()),
        })?)
    }

    pub(super) fn factor_names(&self) -> Vec<String> {
        (1..=self.factors()).map(|k| format!("factor{k}")).collect()
    }

    /// Number of factors.
    pub fn factors(&self) -> usize {
        self.draws[self.reference].atoms()
    }

    /// Source of each row as the fit knows it; one that was not seen has the number after the last.
    pub(super) fn sources_of(&self, data: &Dataset<'_>) -> Vec<u32> {
        let unseen = self.schema.sources.len() as u32;
        match &data.sources {
            None if unseen == 1 => vec![0; data.rows()],
            None => vec![unseen; data.rows()],
            Some(given) => {
                let place = |name: &String| self.schema.sources.iter().position(|s| s == name).map_or(unseen, |j| j as u32);
                let places: Vec<u32> = given.names.iter().map(place).collect();
                given.codes.iter().map(|&c| places[c as usize]).collect()
            }
        }
    }

    /// Checks rows that are not those of the fit.
    fn check(&self, data: &Dataset<'_>, missing: bool) -> Result<()> {
        let counts = self.settings.likelihood == LikelihoodKind::Poisson;
        let needs = Needs { counts, missing: missing && self.settings.missing, ..Needs::FEATURES };
        check_new_rows(data, self.schema.width, &self.schema.columns, needs)
    }

    /// Draws for new rows to be placed by, which find the atoms of their own where the likelihood knows how.
    pub(super) fn stages<L: Likelihood>(&self, likelihood: &L, sources: &[u32], most: usize) -> Result<Vec<(usize, Stage<L>)>> {
        self.stages_that(L::OWN, likelihood, sources, most)
    }

    fn stages_that<L: Likelihood>(&self, find: bool, likelihood: &L, sources: &[u32], most: usize) -> Result<Vec<(usize, Stage<L>)>> {
        let unseen = sources.contains(&(self.schema.sources.len() as u32));
        let make = |i: usize| Ok((i, Stage::new(likelihood, &self.draws[i], &self.schema.rows, i as u32, unseen, find)?));
        evenly(self.draws.len(), most).into_iter().map(make).collect()
    }

    /// Calls `f(state, panel, sources)` for panels of rows in parallel, each with a state, and gives the states back in order.
    pub(super) fn panels<T: Send>(
        &self,
        data: &Dataset<'_>,
        sources: &[u32],
        states: Vec<T>,
        f: impl Fn(&mut T, X<'_>, &[u32]) -> Result<()> + Sync,
    ) -> Result<Vec<T>> {
        let states = states.into_iter().map(|state| (state, Ok(()))).collect();
        let work = |(mut state, _): (T, Result<()>), first: usize, count: usize, x: X<'_>| {
            let done = f(&mut state, x, &sources[first..first + count]);
            (state, done)
        };
        for_panels_parallel(data.x.view(), states, work).into_iter().map(|(state, done)| done.map(|()| state)).collect()
    }

    /// Mean coordinates of each row by one draw, in its own atoms.
    fn coordinates<L: Likelihood>(&self, likelihood: &L, stage: &Stage<L>, sizes: &[f64], guests: &mut Guests<'_>) -> Result<Vec<f64>> {
        let count = stage.count;
        let mut own = guests
            .visit(likelihood, stage, L::SCANS, count, |out, ln_odds, row| likelihood.add_expected(stage.view(), ln_odds, row, out))?;
        for row in own.chunks_exact_mut(count.max(1)) {
            row.iter_mut().zip(sizes).for_each(|(v, size)| *v *= size / L::SCANS as f64);
        }
        Ok(own)
    }

    /// How large the atoms of a stage are; those that nobody used count as 1.
    pub(super) fn sizes<L: Likelihood>(&self, likelihood: &L, draw: usize, count: usize) -> Vec<f64> {
        let phi = self.draws[draw].wide_phi();
        let mut sizes: Vec<f64> = phi.chunks_exact(self.schema.width).map(|a| likelihood.size(a) * self.schema.unit()).collect();
        sizes.resize(count, 1.0);
        sizes
    }

    fn transform_with<L: Likelihood>(&self, likelihood: &L, data: &Dataset<'_>) -> Result<Vec<f64>> {
        let sources = self.sources_of(data);
        let stages = self.stages(likelihood, &sources, DRAWS)?;
        let mut guests = Guests::new(self, data, &sources, 1.0);
        let factors = self.factors();
        let mut out = vec![0.0; data.rows() * factors];
        // a factor that a draw does not have says nothing of the row there: the mean is over the draws that have it
        let mut found = vec![0.0; factors];
        for (draw, stage) in &stages {
            let sizes = self.sizes(likelihood, *draw, stage.count);
            let own = self.coordinates(likelihood, stage, &sizes, &mut guests)?;
            for (f, same) in self.same[*draw].iter().enumerate() {
                let Some((k, sign)) = *same else { continue };
                found[f] += 1.0;
                out.iter_mut().skip(f).step_by(factors).zip(own.iter().skip(k).step_by(stage.count)).for_each(|(o, v)| *o += sign * v);
            }
        }
        for row in out.chunks_exact_mut(factors.max(1)) {
            row.iter_mut().zip(&found).filter(|(_, n)| **n > 0.0).for_each(|(v, n)| *v /= n);
        }
        Ok(out)
    }

    fn held_out_with<L: Likelihood>(&self, likelihood: &L, data: &Dataset<'_>, effort: &HeldOutEffort) -> Result<HeldOut> {
        let (sources, n) = (self.sources_of(data), data.rows());
        // the probability of a row averages over the atoms that nobody used: they come from their prior
        let stages = self.stages_that(false, likelihood, &sources, effort.draws)?;
        // densities are on the scale of the data, and those of the entries that were observed
        let ln_unit = if self.settings.likelihood == LikelihoodKind::Gaussian { self.schema.unit().ln() } else { 0.0 };
        let unit: Vec<f64> = (0..n)
            .map(|i| {
                let mut observed = self.schema.width as f64;
                data.x.view().for_row(i, |_, v| observed -= f64::from(u8::from(v.is_nan())));
                -observed * ln_unit
            })
            .collect();
        // draws and rows at once: a few rows keep all threads busy too
        let annealed = |_, (_, stage): &(usize, Stage<L>)| -> Result<Vec<Vec<f64>>> {
            let parts =
                self.panels(data, &sources, vec![Vec::new(); n.div_ceil(PREDICT_PANEL)], |out: &mut Vec<Vec<f64>>, x, sources| {
                    *out = stage.anneal(likelihood, x, sources, effort.temperatures, effort.runs)?;
                    Ok(())
                })?;
            Ok(parts.concat())
        };
        let weights: Vec<Vec<Vec<f64>>> = parallel::map(&stages, annealed).into_iter().collect::<Result<_>>()?;
        Ok(HeldOut::of_weights(&weights, &unit))
    }

    fn retrieve_with<L: Likelihood>(
        &self,
        likelihood: &L,
        queries: &Dataset<'_>,
        among: &Dataset<'_>,
        most: usize,
    ) -> Result<Vec<Vec<(usize, f64)>>> {
        let (from, to) = (self.sources_of(queries), self.sources_of(among));
        let both: Vec<u32> = from.iter().chain(&to).copied().collect();
        let (n, m) = (queries.rows(), among.rows());
        let mut alike = vec![0.0; n * m];
        let stages = self.stages(likelihood, &both, DRAWS)?;
        let (mut asking, mut asked) = (Guests::new(self, queries, &from, 1.0), Guests::new(self, among, &to, 1.0));
        for (draw, stage) in &stages {
            let sizes = self.sizes(likelihood, *draw, stage.count);
            let unit = |guests: &mut Guests<'_>| -> Result<Vec<f64>> {
                let mut h = self.coordinates(likelihood, stage, &sizes, guests)?;
                for row in h.chunks_exact_mut(stage.count.max(1)) {
                    let length = crate::linalg::dot(row, row).sqrt();
                    if length > 0.0 {
                        row.iter_mut().for_each(|v| *v /= length);
                    }
                }
                Ok(h)
            };
            let (q, a) = (unit(&mut asking)?, unit(&mut asked)?);
            if stage.count > 0 {
                crate::linalg::mul_t(&q, &a, &mut alike, n, stage.count, m, true);
            }
        }
        let rank = |row: &[f64]| {
            let mut order: Vec<usize> = (0..m).collect();
            order.sort_by(|&a, &b| row[b].total_cmp(&row[a]).then(a.cmp(&b)));
            order.truncate(most);
            order.into_iter().map(|i| (i, row[i] / stages.len() as f64)).collect()
        };
        Ok(if m == 0 { vec![Vec::new(); n] } else { alike.chunks_exact(m).map(rank).collect() })
    }
}

/// Figures of the sweeps after the warm-up.
fn figures(piece: &Piece, warm_up: u64) -> Figures {
    let mut out = Figures::default();
    for (_, report) in piece.trace.iter().filter(|t| t.0 > warm_up) {
        out.ln_joint.push(report.objective);
        out.atoms.push(f64::from(report.components));
        out.ln_likelihood.push(report.extras.iter().find(|e| e.0 == "log_likelihood").map_or(f64::NAN, |e| e.1));
    }
    out
}

impl PlaceRows for FactorsPosterior {
    fn transform(&self, data: &Dataset<'_>) -> Result<Coordinates> {
        self.check(data, true)?;
        let values = with_likelihood!(self, l => self.transform_with(l, data))?;
        Ok(Coordinates { names: self.factor_names(), values })
    }
}

impl RowDensity for FactorsPosterior {
    fn counts(&self) -> bool {
        self.settings.likelihood == LikelihoodKind::Poisson
    }

    fn held_out(&self, data: &Dataset<'_>, effort: &HeldOutEffort) -> Result<HeldOut> {
        effort.check()?;
        self.check(data, true)?;
        with_likelihood!(self, l => self.held_out_with(l, data, effort))
    }
}

impl CompleteRows for FactorsPosterior {
    fn complete(&self, data: &Dataset<'_>, exposure: f64) -> Result<Vec<f64>> {
        if !(exposure > 0.0 && exposure <= 1.0) {
            return Err(Error::setting("exposure", exposure, "a number above 0 and at most 1"));
        }
        self.check(data, false)?;
        self.completed(data, exposure)
    }
}

impl ImputeRows for FactorsPosterior {
    fn takes_missing(&self) -> bool {
        self.settings.missing
    }

    fn impute(&self, data: &Dataset<'_>) -> Result<Imputed> {
        if !self.settings.missing {
            return Err(super::unfit(
                "this fit takes every entry as known: fit with `missing` true (and `likelihood` gaussian) to have missing entries imputed",
            ));
        }
        self.check(data, true)?;
        self.imputed(data)
    }
}

impl Neighbours for FactorsPosterior {
    fn retrieve(&self, queries: &Dataset<'_>, among: &Dataset<'_>, most: usize) -> Result<Vec<Vec<(usize, f64)>>> {
        self.check(queries, true)?;
        self.check(among, true)?;
        with_likelihood!(self, l => self.retrieve_with(l, queries, among, most))
    }
}

impl Posterior for FactorsPosterior {
    fn origin(&self) -> Origin<'_> {
        Origin { family: NAME, columns: &self.schema.columns, width: self.schema.width, sources: &self.schema.sources }
    }

    /// Only counts can be completed, and only real numbers can be missing.
    fn answers(&self) -> Answers<'_> {
        let completion = self.counts().then_some(self as &dyn CompleteRows);
        let imputation = (!self.counts()).then_some(self as &dyn ImputeRows);
        Answers { coordinates: Some(self), density: Some(self), completion, imputation, neighbours: Some(self), ..Answers::default() }
    }

    fn summary(&self) -> Summary {
        self.summarised()
    }

    fn arrays(&self) -> Vec<NamedArray> {
        self.named_arrays()
    }

    fn save(&self) -> Result<Vec<u8>> {
        Ok(state::seal(SAVED, self)?)
    }
}
