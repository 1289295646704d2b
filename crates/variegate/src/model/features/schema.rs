//! What results depend on beside the draws: columns, and how entries are scaled.

use serde::{Deserialize, Serialize};

use super::angular::Angular;
use super::sampler::{Intercept, Learn, Sampler};
use super::settings::{InterceptKind, MOST_DISCOUNT, MagnitudeKind, PriorKind, SamplerKind, Settings, StartKind};
use super::start::Grown;
use super::state::Hyper;
use crate::data::Survey;
use crate::prior::StableBeta;
use crate::{Error, Result};

/// Rows of a feature that are dealt one after the other when it is split or merged.
const CORE: usize = 256;
/// Shape and scale of the priors of variances.
const VARIANCE: (f64, f64) = (1.0, 0.1);

/// The data as results depend on them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Schema {
    pub(super) columns: Vec<String>,
    pub(super) width: usize,
    pub(super) rows: u64,
    pub(super) sparse: bool,
    /// What one unit of the model is in the data.
    pub(super) scale: f64,
    /// Variance of all entries, in units of the model.
    pub(super) variance: f64,
    /// Mean of each column, in units of the model.
    pub(super) means: Vec<f64>,
}

impl Schema {
    /// What results depend on, and what a user should know of the data.
    pub(super) fn of(survey: &Survey, settings: &Settings) -> Result<(Self, Vec<String>)> {
        let header = survey.header();
        let unfit = |message: String| Err(Error::Unfit(message));
        if header.weighted {
            return unfit("features does not weigh rows: leave the weights out, or repeat rows".into());
        }
        if header.sources.is_some() {
            return unfit("features does not tell sources apart: leave them out, or fit the family `factors`".into());
        }
        if survey.rows() > u64::from(u32::MAX) {
            return unfit("features takes at most 4294967295 rows".into());
        }
        let mut warnings = Vec::new();
        if settings.missing {
            let missing = survey.source_missing();
            let never: Vec<usize> =
                (0..header.width).filter(|&j| missing.iter().skip(j).step_by(header.width).sum::<u64>() == survey.rows()).collect();
            if let Some(&j) = never.first() {
                return unfit(format!("column {} has no observed entry: leave it out", header.column_name(j)));
            }
        }
        let deviation = (survey.squares() / survey.entries().max(1.0)).sqrt();
        let mut scale = 1.0;
        let mut variance = deviation * deviation;
        if !(deviation > 0.0 && deviation.is_finite()) {
            warnings.push("all entries are the same: there is no variation to find features in".to_string());
            variance = 1.0;
        } else if settings.scale {
            scale = deviation;
            variance = 1.0;
        }
        let means = survey.column_means().iter().map(|m| m / scale).collect();
        let schema = Self {
            columns: header.columns.clone(),
            width: header.width,
            rows: survey.rows(),
            sparse: header.sparse,
            scale,
            variance,
            means,
        };
        Ok((schema, warnings))
    }

    /// That of data which are to be drawn.
    pub(super) fn drawn(width: usize, rows: u64) -> Self {
        Self { columns: Vec::new(), width, rows, sparse: false, scale: 1.0, variance: 1.0, means: vec![0.0; width] }
    }

    /// The sampler of these data.
    pub(super) fn sampler(&self, s: &Settings) -> Sampler {
        let (width, angular) = (self.width as f64, s.angular());
        let square = self.scale * self.scale;
        let chi = angular && s.magnitude == MagnitudeKind::Chi;
        let most_discount = if s.sampler == SamplerKind::Anchored { 1.0 } else { MOST_DISCOUNT };
        let pitman_yor = s.prior == PriorKind::PitmanYor;
        let discount = if pitman_yor { s.discount.unwrap_or(0.1) } else { 0.0 };
        let kappa = s.kappa.unwrap_or(width / 6.0);
        let hyper = Hyper {
            process: StableBeta { mass: s.mass, concentration: if pitman_yor { s.concentration } else { 1.0 }, discount },
            noise: s.noise_variance.map_or(0.25 * self.variance, |v| v / square),
            spread: s.feature_variance.map_or(0.5 * self.variance, |v| v / square),
            rate: s.magnitude_shape / (0.5 * width * self.variance).sqrt(),
            kappa,
        };
        let learn = Learn {
            mass: s.learn_mass.then_some((1.0, 1.0 / s.mass)),
            level: (pitman_yor && s.learn_concentration).then_some((2.0, 1.0)),
            discount: (pitman_yor && s.discount.is_none()).then_some(most_discount),
            noise: s.noise_variance.is_none().then_some(VARIANCE),
            spread: ((!angular || chi) && s.feature_variance.is_none()).then_some(VARIANCE),
            rate: (angular && !chi).then_some((1.0, 1.0)),
            kappa: (angular && s.learn_kappa).then_some((3.0, 18.0 / width)),
        };
        let intercept = match s.intercept {
            InterceptKind::Sample => Intercept::Learned { variance: 4.0 * self.variance, start: self.means.clone() },
            InterceptKind::Mean => Intercept::Known(self.means.clone()),
            InterceptKind::None => Intercept::Known(vec![0.0; self.width]),
        };
        let most = s.max_features.unwrap_or(self.rows.clamp(100, 1000)) as usize;
        Sampler {
            kind: s.sampler,
            angular: angular.then_some(Angular {
                magnitude: s.magnitude,
                shape: s.magnitude_shape,
                direction: s.direction,
                births: s.births as usize,
            }),
            rows: self.rows,
            width: self.width,
            sparse: self.sparse,
            scale: self.scale,
            intercept,
            hyper,
            learn,
            group: s.birth_group(),
            split_merge: s.split_merge as usize,
            core: CORE,
            shear: s.shear as usize,
            complement: if s.intercept == InterceptKind::Sample { s.complement as usize } else { 0 },
            pairs: s.pairs as u32,
            most,
            start: (s.start == StartKind::Grown).then_some(Grown {
                rows: s.start_rows as usize,
                sweeps: s.start_sweeps,
                restarts: s.restarts,
            }),
        }
    }
}
