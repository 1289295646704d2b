//! Posteriors as they are saved, and what earlier versions held.

use serde::{Deserialize, Serialize};

use super::mixture::{Factors, Mixture};
use super::schema::Schema;
use super::settings::{BoundKind, ClassifierKind, CombineKind, Coupling, CovarianceKind, KernelKind, PatternKind, RowScaling, Settings};
use super::vb::Standing;
use crate::answer::SeenSets;
use crate::model::as_value;

/// Settings by their names: a setting that is new has its default in what was saved without it.
pub(super) mod by_name {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};

    use crate::model::labels::Settings;

    pub(crate) fn serialize<S: Serializer>(settings: &Settings, to: S) -> Result<S::Ok, S::Error> {
        serde_json::to_string(settings).map_err(ser::Error::custom)?.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Settings, D::Error> {
        serde_json::from_str(&String::deserialize(from)?).map_err(de::Error::custom)
    }
}

/// What version 1 of a posterior held: a variational one, and settings in their order.
#[derive(Deserialize)]
pub(super) struct First {
    pub(super) schema: Schema,
    pub(super) settings: FirstSettings,
    pub(super) mixture: Mixture,
    pub(super) q: Factors,
    pub(super) bound: f64,
    pub(super) bounds: Vec<f64>,
    pub(super) sweeps: u64,
    pub(super) standing: Standing,
    pub(super) seen: SeenSets,
}

/// The settings that there were.
#[derive(Serialize, Deserialize)]
pub(super) struct FirstSettings {
    coupling: Coupling,
    features: KernelKind,
    label_patterns: PatternKind,
    classifier: ClassifierKind,
    combine: CombineKind,
    components: u64,
    concentration: Option<f64>,
    concentration_shape: f64,
    concentration_rate: f64,
    feature_power: Option<f64>,
    prior_count: f64,
    rate_strength: f64,
    mean_strength: f64,
    feature_shape: f64,
    feature_rate: f64,
    scaling: RowScaling,
    bias_precision: f64,
    precision_shape: f64,
    precision_rate: f64,
    pattern_yes: f64,
    pattern_no: f64,
    label_strength: f64,
    label_count: f64,
    bound: BoundKind,
    covariance: CovarianceKind,
    label_memory: f64,
    n_init: u32,
    tol: f64,
    max_iter: u64,
}

impl From<FirstSettings> for Settings {
    fn from(first: FirstSettings) -> Self {
        // all others have their defaults
        serde_json::from_value(as_value(&first)).unwrap_or_default()
    }
}
