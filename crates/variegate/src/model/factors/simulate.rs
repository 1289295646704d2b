//! Data from the prior: sources that use factors more or less, weights, counts or real numbers.

use serde_json::{Map, Value, json};

use super::gaussian::Hyper;
use super::generate::Unknowns;
use super::likelihood::Likelihood;
use super::sampler::{Atoms, Sampler, State};
use super::settings::{LikelihoodKind, Settings};
use super::{Counts, Gaussian, Schema, sampler_of};
use crate::check::Generative;
use crate::check::generative::draw_until;
use crate::model::{Simulation, Truth};
use crate::run::{Philox, Purpose, Stream, open01};
use crate::{Result, settings};

settings! {
    /// What to simulate.
    pub(super) struct Request {
        /// Number of columns.
        columns: usize = 20, in whole(1, 100_000);
        /// Number of sources, of equal size as far as rows go.
        n_sources: usize = 2, in whole(1, 1000);
        /// How alike sources are in their use of factors.
        concentration: f64 = 2.0, in number(0.0, 1e6);
        /// Draw again until there are as many factors.
        least_factors: usize = 3, in whole(0, 1000);
    }
}

/// Draws that have too few factors are put back, at most this often.
const TRIES: u64 = 1000;

/// Rates and precisions are known here, such that factors stand out of the noise; the rest is as the settings say.
pub(super) fn simulate(settings: &Settings, rows: usize, request: &Request, seed: u64) -> Result<Simulation> {
    drawn(settings, rows, request, None, seed)
}

/// Rows that use the factors of the truth, with the chances of their sources. Other factors, which no row of the truth used, stay out.
pub(super) fn simulate_more(settings: &Settings, rows: usize, request: &Request, truth: &Truth<'_>, seed: u64) -> Result<Simulation> {
    drawn(settings, rows, request, Some(truth), seed)
}

fn drawn(settings: &Settings, rows: usize, request: &Request, truth: Option<&Truth<'_>>, seed: u64) -> Result<Simulation> {
    let sources = request.n_sources;
    let sizes = (0..sources).map(|j| ((rows + sources - 1 - j) / sources) as u64).collect();
    let schema = Schema::drawn(request.columns, sizes);
    match settings.likelihood {
        LikelihoodKind::Poisson => {
            let shape = settings.atom_shape;
            let fixed = super::counts::Scales { shape, atom: 0.1, weight: vec![0.5; sources], background: vec![0.1; sources] };
            draw(Counts { fixed: Some(fixed), ..schema.counts(settings) }, settings, &schema, request, truth, seed)
        }
        LikelihoodKind::Gaussian => {
            let fixed = super::gaussian::Scales { atom: 1.0, weight: vec![1.0; sources], noise: vec![4.0; sources] };
            let Gaussian { centre, hyper } = schema.gaussian(settings);
            draw(Gaussian { centre, hyper: Hyper { fixed: Some(fixed), ..hyper } }, settings, &schema, request, truth, seed)
        }
    }
}

fn draw<L: Likelihood>(
    likelihood: L,
    settings: &Settings,
    schema: &Schema,
    request: &Request,
    truth: Option<&Truth<'_>>,
    seed: u64,
) -> Result<Simulation> {
    let (concentration, known) = (request.concentration, None);
    let model = Sampler { mass_prior: known, concentration, concentration_prior: known, ..sampler_of(settings, schema, likelihood) };
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
            let enough = |(unknowns, _): &(Unknowns<_>, _)| unknowns.state.atoms.len() >= request.least_factors;
            let Some((found, _)) = draw_until(stream, 0..=TRIES - 1, draw, enough)? else {
                return Err(super::unfit("no draw was made"));
            };
            found
        }
    };
    let width = request.columns;
    data.columns = (1..=width).map(|m| format!("x{m}")).collect();
    let Unknowns { state: State { atoms, .. }, chances, .. } = unknowns;
    let mut truth = Map::new();
    truth.insert("factors".into(), json!(atoms.phi.chunks_exact(width).collect::<Vec<_>>()));
    truth.insert("uses".into(), json!((0..atoms.len()).map(|k| atoms.uses_of(k)).collect::<Vec<_>>()));
    truth.insert("chances".into(), json!(chances.chunks_exact(request.n_sources).collect::<Vec<_>>()));
    truth.insert("weights".into(), Value::from(atoms.weight.clone()));
    Ok(Simulation { data, truth })
}

/// The factors of a truth, and further rows that use them.
fn given<L: Likelihood>(model: &Sampler<L>, truth: &Truth<'_>, rng: &mut Philox) -> Result<Unknowns<L::Scales>> {
    let (count, sources) = (truth.count("factors")?, model.rows.len());
    let phi = truth.table("factors", count, model.likelihood.width())?;
    let chances = truth.table("chances", count, sources)?;
    let weights = truth.numbers("weights", count)?;
    let scales = model.likelihood.prior_scales(rng)?;
    let of_rows = model.sources();
    let mut rows = vec![Vec::new(); of_rows.len()];
    let mut uses = vec![0; count * sources];
    for (entries, &source) in rows.iter_mut().zip(&of_rows) {
        for k in 0..count {
            let at = k * sources + source as usize;
            if open01(rng) < chances[at] {
                uses[at] += 1;
                entries.push((k as u64, model.likelihood.prior_weight(&scales, source as usize, rng)?));
            }
        }
    }
    let mut atoms = Atoms::default();
    for (k, phi) in phi.chunks_exact(model.likelihood.width()).enumerate() {
        atoms.push(k as u64, phi, weights[k], &uses[k * sources..(k + 1) * sources]);
    }
    let concentration = vec![model.concentration; sources];
    let state = State { atoms, concentration, mass: model.mass, scales, factors: Vec::new(), visited: None };
    Ok(Unknowns { state, rows, chances })
}
