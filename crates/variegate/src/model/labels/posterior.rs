//! What a fit says of new rows, and of itself.

use serde::{Deserialize, Serialize};

use super::gibbs::{self, Gibbs};
use super::mixture::{Factors, Mixture};
use super::sampled::{self, DrawStage, Sampled};
use super::saved::{self, First};
use super::schema::Schema;
use super::settings::{Coupling, PatternKind, Settings};
use super::stage::{Answer, Stage, Told};
use super::vb::{Standing, State};
use super::{NAME, report, svi};
use crate::answer::{
    Answers, HiddenComponents, KeptDraws, LabelPrediction, LabelRule, NamedArray, Origin, PREDICT_PANEL, Posterior, PredictLabels,
    Responsibilities, SeenSets, SubsetRule, Summary, check_prediction_rows, for_panels_parallel, known_labels,
};
use crate::data::{Dataset, Survey, Target};
use crate::run::{Piece, saved_global, state};
use crate::{Error, Result};

const SAVED: state::Kind = state::Kind::new("labels posterior", &["0.1", "0.1"]);
const RULES: &[&str] = &["hamming", "micro-f1", "cardinality", "subset"];
/// Patterns that are shares of labels give no probability of a set.
const RULES_OF_SHARES: &[&str] = &["hamming", "micro-f1", "cardinality"];

/// The posterior of a fit: variational, or draws.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LabelsPosterior {
    pub(super) schema: Schema,
    #[serde(with = "saved::by_name")]
    pub(super) settings: Settings,
    pub(super) mixture: Mixture,
    seen: SeenSets,
    found: Found,
}

/// What was found of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Found {
    /// The best of several ascents.
    Ascended(Box<Ascended>),
    /// Draws.
    Sampled(Sampled),
}

/// A variational posterior.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Ascended {
    pub(super) q: Factors,
    pub(super) bound: f64,
    /// Bounds that the starts reached.
    pub(super) bounds: Vec<f64>,
    pub(super) sweeps: u64,
    pub(super) standing: Standing,
    /// Where a fit by minibatches ended, so that it can go on.
    pub(super) stream: Option<Streamed>,
}

/// What minibatches left behind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Streamed {
    pub(super) stream: svi::Stream,
    /// Mean log probability of labels before their rows were used.
    pub(super) score: f64,
}

impl LabelsPosterior {
    /// The best of several ascents.
    pub(super) fn best(schema: &Schema, settings: &Settings, states: Vec<State>) -> Result<Self> {
        let bounds: Vec<f64> = states.iter().map(|s| s.bound).collect();
        let best = states.into_iter().reduce(|best, next| if next.bound > best.bound { next } else { best });
        let Some(State { q, bound, sweeps, standing, seen, .. }) = best else {
            return Err(Error::Unfit("the run has not made its first sweep yet: resume it".into()));
        };
        let found = Found::Ascended(Box::new(Ascended { q, bound, bounds, sweeps, standing, stream: None }));
        Ok(Self { schema: schema.clone(), settings: settings.clone(), mixture: schema.mixture(settings)?, seen, found })
    }

    /// Draws of chains.
    pub(super) fn drawn(schema: &Schema, settings: &Settings, chains: &[Piece]) -> Result<Self> {
        let kept = KeptDraws::of(chains)?;
        let (draws, lengths) = gibbs::draws::read(kept.chains())?;
        let seen = saved_global::<Gibbs>(&kept.chains()[0].checkpoint)?.seen;
        let mixture = schema.mixture(settings)?;
        let found = Found::Sampled(Sampled::new(&mixture, schema.means.iter().sum(), draws, lengths));
        Ok(Self { schema: schema.clone(), settings: settings.clone(), mixture, seen, found })
    }

    /// Where minibatches led.
    pub(super) fn streamed(schema: &Schema, settings: &Settings, state: Option<svi::State>, wanted: u64) -> Result<Self> {
        let Some(svi::State { q, stream, passes, score, seen }) = state else {
            return Err(Error::Unfit("the run has not made its first pass yet: resume it".into()));
        };
        let standing = if passes >= wanted { Standing::Converged } else { Standing::Rising };
        let stream = Some(Streamed { stream, score });
        let found = Found::Ascended(Box::new(Ascended { q, bound: f64::NAN, bounds: Vec::new(), sweeps: passes, standing, stream }));
        Ok(Self { schema: schema.clone(), settings: settings.clone(), mixture: schema.mixture(settings)?, seen, found })
    }

    /// The data and the state that further rows begin with, and what the user should know of these rows.
    pub(super) fn with_more(self, survey: &Survey, settings: &Settings) -> Result<(Schema, svi::State, Vec<String>)> {
        let further = match self.found {
            Found::Ascended(found) => {
                let Ascended { q, stream, .. } = *found;
                stream.map(|left| (q, left.stream))
            }
            Found::Sampled(_) => None,
        };
        let Some((q, stream)) = further else {
            return Err(Error::Unfit(
                "this fit needs all of its rows at every sweep and cannot go on with further ones: fit with `inference` svi, which can"
                    .into(),
            ));
        };
        let (schema, warnings) = self.schema.with_more(survey, settings)?;
        let mut state = svi::State { q, stream, passes: 0, score: f64::NAN, seen: self.seen };
        state.add_labels(&schema.mixture(settings)?, settings.history, schema.labels.len())?;
        Ok((schema, state, warnings))
    }

    pub(super) fn load(saved: &[u8]) -> Result<Self> {
        Ok(state::unseal_older(SAVED, saved, |older| match older.version {
            1 => Ok(older.decode::<First>()?.into()),
            _ => Err(older.refused()),
        })?)
    }

    /// Lower bound on the log evidence; NaN of draws and of a fit by minibatches, which have none.
    pub fn elbo(&self) -> f64 {
        match &self.found {
            Found::Ascended(found) => found.bound,
            Found::Sampled(_) => f64::NAN,
        }
    }

    /// What answers panels of rows. Whether sets are asked for matters to draws, which keep more for them.
    fn answer(&self, sets: bool) -> Box<dyn Answer + '_> {
        let (mixture, combine, rates) = (&self.mixture, self.settings.combine, self.schema.label_rates());
        match &self.found {
            Found::Ascended(found) => Box::new(Stage::new(mixture, &found.q, combine, rates)),
            Found::Sampled(found) => Box::new(DrawStage::new(mixture, found, combine, rates, sets)),
        }
    }

    /// Calls `f(rows, what was found)` for every panel of rows and gives back its answers in order.
    fn for_rows<T: Send>(
        &self,
        data: &Dataset<'_>,
        known: &[i8],
        answer: &dyn Answer,
        f: impl Fn(usize, &dyn Told) -> T + Sync,
    ) -> Result<Vec<T>> {
        check_prediction_rows(data, self.schema.width, &self.schema.columns)?;
        let labels = self.schema.labels.len();
        let states = (0..data.rows().div_ceil(PREDICT_PANEL)).map(|_| None).collect();
        let found = for_panels_parallel(data.x.view(), states, |_: Option<T>, first, count, x| {
            let mut of_panel = Vec::new();
            if !known.is_empty() {
                of_panel.extend_from_slice(&known[first * labels..(first + count) * labels]);
                of_panel.resize(x.rows() * labels, -1);
            }
            Some(f(count, answer.panel(x, &of_panel).as_ref()))
        });
        Ok(found.into_iter().flatten().collect())
    }
}

impl From<First> for LabelsPosterior {
    fn from(first: First) -> Self {
        let First { schema, settings, mixture, q, bound, bounds, sweeps, standing, seen } = first;
        let found = Found::Ascended(Box::new(Ascended { q, bound, bounds, sweeps, standing, stream: None }));
        Self { schema, settings: settings.into(), mixture, seen, found }
    }
}

impl Posterior for LabelsPosterior {
    fn origin(&self) -> Origin<'_> {
        Origin { family: NAME, columns: &self.schema.columns, width: self.schema.width, sources: &[] }
    }

    fn answers(&self) -> Answers<'_> {
        Answers { label_sets: Some(self), components: Some(self), ..Answers::default() }
    }

    fn summary(&self) -> Summary {
        match &self.found {
            Found::Ascended(found) => report::summary(self, found),
            Found::Sampled(found) => sampled::summary(self, found),
        }
    }

    fn arrays(&self) -> Vec<NamedArray> {
        match &self.found {
            Found::Ascended(found) => report::arrays(self, found),
            Found::Sampled(found) => sampled::arrays(self, found),
        }
    }

    fn save(&self) -> Result<Vec<u8>> {
        Ok(state::seal(SAVED, self)?)
    }
}

impl PredictLabels for LabelsPosterior {
    fn labels(&self) -> &[String] {
        &self.schema.labels
    }

    fn rules(&self) -> &'static [&'static str] {
        if self.shares() { RULES_OF_SHARES } else { RULES }
    }

    fn predict(&self, data: &Dataset<'_>, how: &LabelRule<'_>) -> Result<LabelPrediction> {
        let rule = how.word(self.rules())?;
        let labels = self.schema.labels.len();
        let known = if how.given { known_labels(data, &self.schema.labels)? } else { Vec::new() };
        if how.given && self.shares() {
            return Err(Error::Unfit("known labels of new rows say nothing to `label_patterns` multinomial: leave them out".into()));
        }
        let answer = self.answer(rule == "subset");
        let components = answer.components();
        let parts = self.for_rows(data, &known, answer.as_ref(), |count, told| {
            let mut part = LabelPrediction {
                probability: told.probability()[..count * labels].to_vec(),
                score: told.score()[..count * labels].to_vec(),
                chosen: vec![false; count * labels],
                novelty: told.shares().chunks_exact(components).take(count).map(|s| s[components - 1]).collect(),
            };
            if rule == "subset" {
                let mut subset = SubsetRule::default();
                for (row, chosen) in part.chosen.chunks_exact_mut(labels).enumerate() {
                    let (shares, within) = told.components_of(row);
                    subset.choose(shares, within, &self.seen, chosen);
                }
            }
            part
        })?;
        let mut all = LabelPrediction::default();
        for part in parts {
            all.probability.extend(part.probability);
            all.score.extend(part.score);
            all.chosen.extend(part.chosen);
            all.novelty.extend(part.novelty);
        }
        all.decide(rule, labels);
        // what is known is not guessed
        for (at, &y) in known.iter().enumerate().filter(|(_, y)| **y >= 0) {
            (all.probability[at], all.score[at], all.chosen[at]) = (f64::from(y), f64::from(y), y == 1);
        }
        if how.nonempty {
            all.fill_empty(labels);
        }
        Ok(all)
    }
}

impl LabelsPosterior {
    /// Whether patterns are shares of labels and no probabilities.
    fn shares(&self) -> bool {
        self.settings.coupling == Coupling::Cut && self.settings.label_patterns == PatternKind::Multinomial
    }

    /// Names of the components, that of rows like none of the known ones last. Draws have others that are not those of the reference.
    pub(super) fn component_names(&self) -> Vec<String> {
        let (components, others) = match &self.found {
            Found::Ascended(found) => (found.q.components(), None),
            Found::Sampled(found) => (found.components(), Some("others".to_string())),
        };
        (1..=components).map(|k| format!("component {k}")).chain(others).chain(["unknown".to_string()]).collect()
    }
}

impl HiddenComponents for LabelsPosterior {
    fn responsibilities(&self, data: &Dataset<'_>) -> Result<Responsibilities> {
        let told = matches!(data.target, Target::Labels(_)) && !self.shares();
        let known = if told { known_labels(data, &self.schema.labels)? } else { Vec::new() };
        let answer = self.answer(false);
        let components = answer.components();
        let parts = self.for_rows(data, &known, answer.as_ref(), |count, told| told.shares()[..count * components].to_vec())?;
        Ok(Responsibilities { names: self.component_names(), share: parts.concat() })
    }
}
