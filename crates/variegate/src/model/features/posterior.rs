//! A fitted model: codes, densities and completions of new rows, rows from codes, and which rows are alike.

use serde::{Deserialize, Serialize};

use super::draws::{Draw, read};
use super::settings::{InterceptKind, Settings};
use super::stage::{Code, Stage, Want};
use super::{NAME, Schema};
use crate::answer::{
    Answers, Coordinates, HeldOut, HeldOutEffort, ImputeRows, Imputed, KeptDraws, NamedArray, Neighbours, Origin, PREDICT_PANEL, PlaceRows,
    Posterior, RebuildRows, Rebuilt, RowDensity, Summary, check_new_rows, evenly, for_panels_parallel,
};
use crate::data::{Dataset, Needs};
use crate::model::matching::{Signs, same_components};
use crate::parallel;
use crate::run::{Piece, state};
use crate::{Error, Result};

const SAVED: state::Kind = state::Kind::new("features posterior", &["0.1"]);
/// Stored draws that new rows are coded by, at most.
const DRAWS: usize = 20;
/// Features less alike than this (cosine) are not the same.
const ALIKE: f64 = 0.7;

/// Draws, and what they mean.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FeaturesPosterior {
    pub(super) schema: Schema,
    pub(super) settings: Settings,
    pub(super) draws: Vec<Draw>,
    /// Draws of each chain.
    pub(super) lengths: Vec<usize>,
    /// Figures of every sweep after the warm-up, one chain after the other: the chains are judged by them.
    pub(super) figures: Vec<Figures>,
    /// The draw whose features stand for those of all.
    pub(super) reference: usize,
    /// For each draw, which of its features are those of the reference, those that most rows use first.
    pub(super) same: Vec<Vec<Option<usize>>>,
}

/// Figures of the sweeps of one chain.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Figures {
    pub(super) ln_joint: Vec<f64>,
    pub(super) ln_likelihood: Vec<f64>,
    pub(super) features: Vec<f64>,
    pub(super) noise: Vec<f64>,
}

fn figures(piece: &Piece, warm_up: u64) -> Figures {
    let mut out = Figures::default();
    for (_, report) in piece.trace.iter().filter(|t| t.0 > warm_up) {
        let extra = |name: &str| report.extras.iter().find(|e| e.0 == name).map_or(f64::NAN, |e| e.1);
        out.ln_joint.push(report.objective);
        out.features.push(f64::from(report.components));
        out.ln_likelihood.push(extra("log_likelihood"));
        out.noise.push(extra("noise"));
    }
    out
}

impl FeaturesPosterior {
    pub(super) fn new(schema: &Schema, settings: &Settings, chains: &[Piece]) -> Result<Self> {
        let (mut draws, lengths) = read(chains, schema.width)?;
        KeptDraws::of(chains)?;
        // independent features and their opposites are as likely; directions that point away from one another are not
        if settings.intercept == InterceptKind::Sample && !settings.angular() {
            draws = draws.into_iter().map(|d| d.turned(schema.rows)).collect();
        }
        let figures = chains.iter().map(|c| figures(c, settings.n_warmup)).collect();
        let better = |best: usize, i: usize| if draws[i].ln_joint > draws[best].ln_joint { i } else { best };
        let reference = (0..draws.len()).fold(0, better);
        let mut out = Self { schema: schema.clone(), settings: settings.clone(), draws, lengths, figures, reference, same: Vec::new() };
        let of = &out.draws[reference];
        let mut order: Vec<usize> = (0..of.count()).collect();
        order.sort_by_key(|&k| std::cmp::Reverse(of.uses[k]));
        let width = schema.width;
        let first: Vec<f64> = order.iter().flat_map(|&k| &of.weights[k * width..][..width]).map(|&v| f64::from(v)).collect();
        let same = |d: &Draw| same_components(&first, &d.wide_weights(), width, ALIKE, Signs::Fixed);
        out.same = parallel::map(&out.draws, |_, d| same(d).into_iter().map(|found| found.map(|(k, _)| k)).collect());
        Ok(out)
    }

    pub(super) fn load(saved: &[u8]) -> Result<Self> {
        Ok(state::unseal(SAVED, saved)?)
    }

    /// Number of features of the draw that stands for all.
    pub fn features(&self) -> usize {
        self.draws[self.reference].count()
    }

    pub(super) fn feature_names(&self) -> Vec<String> {
        (1..=self.features()).map(|k| format!("feature{k}")).collect()
    }

    /// Checks rows that are not those of the fit. Entries of theirs may be missing.
    fn check(&self, data: &Dataset<'_>) -> Result<()> {
        check_new_rows(data, self.schema.width, &self.schema.columns, Needs { missing: true, ..Needs::FEATURES })
    }

    /// Codes of all rows by some draws, each turned into what is wanted of it: draw by draw, row by row.
    fn codes<T: Send + Clone>(
        &self,
        data: &Dataset<'_>,
        draws: &[usize],
        want: Want,
        turn: impl Fn(&Stage, usize, Code) -> T + Sync,
    ) -> Vec<Vec<T>> {
        let (panels, per_unit) = (data.rows().div_ceil(PREDICT_PANEL), 1.0 / self.schema.scale);
        // draws and rows at once: a few rows keep all threads busy too
        let work = |_, &draw: &usize| {
            let stage = Stage::new(&self.draws[draw], draw as u32, data.x.is_sparse());
            let parts = for_panels_parallel(data.x.view(), vec![Vec::new(); panels], |_, first, count, x| {
                let codes = stage.codes(x, count, per_unit, want).into_iter();
                codes.enumerate().map(|(i, code)| turn(&stage, first + i, code)).collect::<Vec<T>>()
            });
            parts.into_iter().flatten().collect::<Vec<T>>()
        };
        parallel::map(draws, work)
    }

    /// Probability that each row uses each feature of the reference: the mean over the draws that have it.
    fn mean_codes(&self, data: &Dataset<'_>) -> Vec<f64> {
        let (features, draws) = (self.features(), evenly(self.draws.len(), DRAWS));
        let all = self.codes(data, &draws, Want::default(), |_, _, code| code.on);
        let mut out = vec![0.0; data.rows() * features];
        let mut found = vec![0.0; features];
        for (draw, rows) in draws.iter().zip(all) {
            for (f, place) in self.same[*draw].iter().enumerate() {
                let Some(k) = *place else { continue };
                found[f] += 1.0;
                out.iter_mut().skip(f).step_by(features).zip(&rows).for_each(|(o, on)| *o += on[k]);
            }
        }
        for row in out.chunks_exact_mut(features.max(1)) {
            row.iter_mut().zip(&found).filter(|(_, n)| **n > 0.0).for_each(|(v, n)| *v /= n);
        }
        out
    }

    /// Features in units of the data, one a row: mean over the draws that have them.
    pub(super) fn components(&self) -> Vec<f64> {
        let (width, features) = (self.schema.width, self.features());
        let mut out = vec![0.0; features * width];
        let mut found = vec![0.0; features];
        for (draw, same) in self.draws.iter().zip(&self.same) {
            for (f, place) in same.iter().enumerate() {
                let Some(k) = *place else { continue };
                found[f] += 1.0;
                out[f * width..][..width].iter_mut().zip(&draw.weights[k * width..][..width]).for_each(|(o, &v)| *o += f64::from(v));
            }
        }
        for (feature, n) in out.chunks_exact_mut(width.max(1)).zip(&found) {
            feature.iter_mut().for_each(|v| *v *= self.schema.scale / f64::max(*n, 1.0));
        }
        out
    }

    /// What is added to every row, in units of the data: mean over the draws.
    pub(super) fn intercept(&self) -> Vec<f64> {
        let mut out = vec![0.0; self.schema.width];
        for draw in &self.draws {
            out.iter_mut().zip(&draw.intercept).for_each(|(o, b)| *o += b * self.schema.scale / self.draws.len() as f64);
        }
        out
    }
}

impl PlaceRows for FeaturesPosterior {
    fn transform(&self, data: &Dataset<'_>) -> Result<Coordinates> {
        self.check(data)?;
        Ok(Coordinates { names: self.feature_names(), values: self.mean_codes(data) })
    }
}

impl RebuildRows for FeaturesPosterior {
    fn reconstruct(&self, data: &Dataset<'_>) -> Result<Rebuilt> {
        self.check(data)?;
        let (draws, scale) = (evenly(self.draws.len(), DRAWS), self.schema.scale);
        let all = self.codes(data, &draws, Want::default(), |stage, _, code| stage.fit(|k| code.on[k]));
        let mut mean = vec![0.0; data.rows() * self.schema.width];
        for rows in &all {
            mean.iter_mut().zip(rows.iter().flatten()).for_each(|(m, v)| *m += v * scale / draws.len() as f64);
        }
        let best =
            self.codes(data, &[self.reference], Want::default(), |stage, _, code| stage.fit(|k| f64::from(u8::from(code.best_has(k)))));
        Ok(Rebuilt { mean, likeliest: best.concat().into_iter().flatten().map(|v| v * scale).collect() })
    }

    fn rebuild(&self, coordinates: &[f64]) -> Result<Vec<f64>> {
        let (features, width) = (self.features(), self.schema.width);
        if features > 0 && !coordinates.len().is_multiple_of(features) {
            return Err(Error::Unfit(format!("codes must have {features} columns, one a feature")));
        }
        if let Some(at) = coordinates.iter().position(|v| !v.is_finite()) {
            return Err(Error::Unfit(format!("row {}, feature {}: the code is not a finite number", at / features + 1, at % features + 1)));
        }
        let (intercept, components) = (self.intercept(), self.components());
        let n = coordinates.len().checked_div(features).unwrap_or(0);
        let mut out: Vec<f64> = (0..n).flat_map(|_| intercept.iter().copied()).collect();
        if n > 0 {
            crate::linalg::mul(coordinates, &components, &mut out, n, features, width, true);
        }
        Ok(out)
    }
}

impl RowDensity for FeaturesPosterior {
    fn counts(&self) -> bool {
        false
    }

    fn held_out(&self, data: &Dataset<'_>, effort: &HeldOutEffort) -> Result<HeldOut> {
        effort.check()?;
        self.check(data)?;
        let want = Want { density: Some((effort.temperatures, effort.runs)), both: false };
        let weights = self.codes(data, &evenly(self.draws.len(), effort.draws), want, |_, _, code| code.ln_density);
        // densities are on the scale of the data, and those of the entries that were observed
        let ln_unit = self.schema.scale.ln();
        let unit: Vec<f64> = (0..data.rows())
            .map(|i| {
                let mut observed = self.schema.width as f64;
                data.x.view().for_row(i, |_, v| observed -= f64::from(u8::from(v.is_nan())));
                -observed * ln_unit
            })
            .collect();
        Ok(HeldOut::of_weights(&weights, &unit))
    }
}

impl ImputeRows for FeaturesPosterior {
    fn takes_missing(&self) -> bool {
        true
    }

    fn impute(&self, data: &Dataset<'_>) -> Result<Imputed> {
        self.check(data)?;
        let (draws, width, scale) = (evenly(self.draws.len(), DRAWS), self.schema.width, self.schema.scale);
        let mut missing: Vec<Vec<usize>> = vec![Vec::new(); data.rows()];
        for (i, places) in missing.iter_mut().enumerate() {
            data.x.view().for_row(i, |j, v| {
                if v.is_nan() {
                    places.push(j);
                }
            });
        }
        let moments = |stage: &Stage, i: usize, code: Code| -> Vec<(f64, f64)> {
            if missing[i].is_empty() {
                return Vec::new();
            }
            let fit = stage.fit(|k| code.on[k]);
            let variances = stage.variances(&code, &missing[i]);
            missing[i].iter().zip(variances).map(|(&j, v)| (fit[j], fit[j] * fit[j] + v + stage.noise())).collect()
        };
        let all = self.codes(data, &draws, Want { both: true, density: None }, moments);
        let mut found = Imputed { values: data.x.to_dense(), deviation: vec![0.0; data.rows() * width] };
        let times = draws.len() as f64;
        for (i, places) in missing.iter().enumerate() {
            for (at, &j) in places.iter().enumerate() {
                let (first, second) = all.iter().fold((0.0, 0.0), |(a, b), rows| (a + rows[i][at].0 / times, b + rows[i][at].1 / times));
                found.values[i * width + j] = scale * first;
                found.deviation[i * width + j] = scale * (second - first * first).max(0.0).sqrt();
            }
        }
        Ok(found)
    }
}

impl Neighbours for FeaturesPosterior {
    /// Similarity is minus the Euclidean distance of mean codes.
    fn retrieve(&self, queries: &Dataset<'_>, among: &Dataset<'_>, most: usize) -> Result<Vec<Vec<(usize, f64)>>> {
        self.check(queries)?;
        self.check(among)?;
        let (features, from, to) = (self.features(), self.mean_codes(queries), self.mean_codes(among));
        let row = |codes: &[f64], i: usize| -> Vec<f64> { codes[i * features..][..features].to_vec() };
        let find = |i: usize| {
            let own = row(&from, i);
            let mut all: Vec<(usize, f64)> = (0..among.rows())
                .map(|j| {
                    let square: f64 = own.iter().zip(&to[j * features..][..features]).map(|(a, b)| (a - b) * (a - b)).sum();
                    (j, -square.sqrt())
                })
                .collect();
            all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            all.truncate(most);
            all
        };
        Ok(parallel::map_numbers(queries.rows(), find))
    }
}

impl Posterior for FeaturesPosterior {
    fn origin(&self) -> Origin<'_> {
        Origin { family: NAME, columns: &self.schema.columns, width: self.schema.width, sources: &[] }
    }

    fn answers(&self) -> Answers<'_> {
        Answers {
            coordinates: Some(self),
            rebuilding: Some(self),
            density: Some(self),
            imputation: Some(self),
            neighbours: Some(self),
            ..Answers::default()
        }
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
