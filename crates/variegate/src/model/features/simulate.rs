//! Data from the prior: features, who uses them, and rows.

use serde_json::{Map, Value, json};

use super::Schema;
use super::generate::Unknowns;
use super::sampler::{Intercept, Learn, Sampler};
use super::settings::{SamplerKind, Settings};
use crate::check::Generative;
use crate::check::generative::draw_until;
use crate::model::{Simulation, Truth};
use crate::run::{Philox, Purpose, Stream, open01};
use crate::{Error, Result, settings};

settings! {
    /// What to simulate.
    pub(super) struct Request {
        /// Number of columns.
        columns: usize = 20, in whole(1, 100_000);
        /// Standard deviation of the noise; entries of features have 1.
        noise: f64 = 0.5, in number(0.0, 1e6);
        /// Draw again until there are as many features.
        least_features: usize = 3, in whole(0, 1000);
    }
}

/// Draws that have too few features are put back, at most this often.
const TRIES: u64 = 1000;

pub(super) fn simulate(settings: &Settings, rows: usize, request: &Request, seed: u64) -> Result<Simulation> {
    drawn(settings, rows, request, None, seed)
}

/// Rows that use the features of the truth with their probabilities. Other features, which no row of the truth used, stay out.
pub(super) fn simulate_more(settings: &Settings, rows: usize, request: &Request, truth: &Truth<'_>, seed: u64) -> Result<Simulation> {
    drawn(settings, rows, request, Some(truth), seed)
}

/// What governs features is known here, such that they stand out of the noise; the rest is as the settings say.
fn model(settings: &Settings, rows: usize, request: &Request) -> Sampler {
    let mut model = Schema::drawn(request.columns, rows as u64).sampler(settings);
    model.learn = Learn::default();
    model.kind = SamplerKind::Anchored;
    model.intercept = Intercept::Known(vec![0.0; request.columns]);
    model.hyper.noise = request.noise * request.noise;
    model.hyper.spread = 1.0;
    // lengths as those of Gaussian features
    model.hyper.rate = settings.magnitude_shape / (request.columns as f64).sqrt();
    model
}

fn drawn(settings: &Settings, rows: usize, request: &Request, truth: Option<&Truth<'_>>, seed: u64) -> Result<Simulation> {
    let model = model(settings, rows, request);
    let draw = |rng: &mut Philox| {
        let unknowns = match truth {
            None => model.prior(rng)?,
            Some(truth) => given(&model, truth, rng)?,
        };
        let data = model.data(&unknowns, &(), rng)?;
        Ok((unknowns, data))
    };
    let (unknowns, mut data) = match truth {
        Some(_) => draw(&mut Truth::stream(seed).rng())?,
        None => {
            let stream = Stream::new(seed, 0, Purpose::Simulate);
            let enough = |(unknowns, _): &(Unknowns, _)| unknowns.state.features.used() >= request.least_features;
            let Some((found, _)) = draw_until(stream, 0..=TRIES - 1, draw, enough)? else {
                return Err(Error::Unfit("no draw was made".into()));
            };
            found
        }
    };
    data.columns = (1..=request.columns).map(|m| format!("x{m}")).collect();
    let features = &unknowns.state.features;
    let used: Vec<usize> = match truth {
        None => features.in_use(),
        Some(_) => (0..features.len()).collect(),
    };
    let place = |k: u32| used.iter().position(|&u| u == k as usize);
    let mut told = Map::new();
    told.insert("features".into(), json!(used.iter().map(|&k| features.weight(k)).collect::<Vec<_>>()));
    told.insert("chances".into(), Value::from(used.iter().map(|&k| features.ln_on[k].exp()).collect::<Vec<f64>>()));
    told.insert("noise".into(), json!(request.noise));
    let codes: Vec<Vec<usize>> = unknowns.rows.iter().map(|row| row.iter().filter_map(|&k| place(k)).collect()).collect();
    told.insert("codes".into(), json!(codes));
    Ok(Simulation { data, truth: told })
}

/// The features of a truth, and further rows that use them.
fn given(model: &Sampler, truth: &Truth<'_>, rng: &mut Philox) -> Result<Unknowns> {
    let count = truth.count("features")?;
    let weights = truth.table("features", count, model.width)?;
    let chances = truth.numbers("chances", count)?;
    let mut state = model.empty_state();
    state.hyper.noise = truth.number("noise")?.powi(2);
    for (k, w) in weights.chunks_exact(model.width).enumerate() {
        let p = chances[k].clamp(0.0, 1.0);
        state.features.push(k as u64, (p.ln(), (-p).ln_1p()), 0, w, model.angular.as_ref().map(|_| 1.0));
    }
    let rows = (0..model.rows)
        .map(|_| {
            let used: Vec<u32> = (0..count).filter(|&k| open01(rng) < chances[k]).map(|k| k as u32).collect();
            used.iter().for_each(|&k| state.features.uses[k as usize] += 1);
            used
        })
        .collect();
    Ok(Unknowns { state, rows })
}
