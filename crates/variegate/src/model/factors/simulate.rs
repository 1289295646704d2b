//! Data from the prior: sources that use factors more or less, weights, counts or real numbers.

use serde_json::{Map, Value, json};

use super::gaussian::Hyper;
use super::likelihood::Likelihood;
use super::sampler::{Atoms, Sampler};
use super::settings::{LikelihoodKind, Settings};
use super::{Counts, Gaussian, Schema, sampler_of};
use crate::check::Generative;
use crate::check::generative::draw_until;
use crate::model::Simulation;
use crate::run::{Philox, Purpose, Stream};
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
    let sources = request.n_sources;
    let sizes = (0..sources).map(|j| ((rows + sources - 1 - j) / sources) as u64).collect();
    let schema = Schema::drawn(request.columns, sizes);
    match settings.likelihood {
        LikelihoodKind::Poisson => {
            let shape = settings.atom_shape;
            let fixed = super::counts::Scales { shape, atom: 0.1, weight: vec![0.5; sources], background: vec![0.1; sources] };
            draw(Counts { fixed: Some(fixed), ..schema.counts(settings) }, settings, &schema, request, seed)
        }
        LikelihoodKind::Gaussian => {
            let fixed = super::gaussian::Scales { atom: 1.0, weight: vec![1.0; sources], noise: vec![4.0; sources] };
            let Gaussian { centre, hyper } = schema.gaussian(settings);
            draw(Gaussian { centre, hyper: Hyper { fixed: Some(fixed), ..hyper } }, settings, &schema, request, seed)
        }
    }
}

fn draw<L: Likelihood>(likelihood: L, settings: &Settings, schema: &Schema, request: &Request, seed: u64) -> Result<Simulation> {
    let (concentration, known) = (request.concentration, None);
    let model = Sampler { mass_prior: known, concentration, concentration_prior: known, ..sampler_of(settings, schema, likelihood) };
    let draw = |rng: &mut Philox| {
        let unknowns = model.prior(rng)?;
        let data = model.data(&unknowns, &(), rng)?;
        Ok((unknowns.state.atoms, data))
    };
    let stream = Stream::new(seed, 0, Purpose::Simulate);
    let enough = |(atoms, _): &(Atoms, _)| atoms.len() >= request.least_factors;
    let Some(((atoms, mut data), _)) = draw_until(stream, 0..=TRIES - 1, draw, enough)? else {
        return Err(super::unfit("no draw was made"));
    };
    let width = request.columns;
    data.columns = (1..=width).map(|m| format!("x{m}")).collect();
    let mut truth = Map::new();
    truth.insert("factors".into(), json!(atoms.phi.chunks_exact(width).collect::<Vec<_>>()));
    truth.insert("uses".into(), json!((0..atoms.len()).map(|k| atoms.uses_of(k)).collect::<Vec<_>>()));
    truth.insert("weights".into(), Value::from(atoms.weight.clone()));
    Ok(Simulation { data, truth })
}
