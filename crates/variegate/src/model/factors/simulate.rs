//! Data from the prior: sources that use factors more or less, weights, counts or real numbers.

use serde_json::{Map, Value, json};

use super::gaussian::{Centre, Hyper};
use super::generate::{Governors, generate, mix};
use super::likelihood::Likelihood;
use super::settings::{LikelihoodKind, Settings};
use super::{Counts, Gaussian};
use crate::data::{Classes, Dataset, Matrix};
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

pub(super) fn simulate(settings: &Settings, rows: usize, request: &Request, seed: u64) -> Result<Simulation> {
    let sources = request.n_sources;
    match settings.likelihood {
        LikelihoodKind::Poisson => {
            let distribution = Counts {
                width: request.columns,
                sources,
                atom_shape: settings.atom_shape,
                shape_prior: None,
                weight_shape: settings.weight_shape,
                rate_prior: (settings.scale_shape, settings.scale_rate),
                background_prior: (settings.background_shape, settings.background_rate.unwrap_or(10.0)),
                background_start: 0.1,
                first_atom: None,
                fixed: Some(super::counts::Scales {
                    shape: settings.atom_shape,
                    atom: 0.1,
                    weight: vec![0.5; sources],
                    background: vec![0.1; sources],
                }),
            };
            draw(&distribution, settings, rows, request, seed)
        }
        LikelihoodKind::Gaussian => {
            let centre = Centre { columns: request.columns, means: vec![0.0; (sources + 1) * request.columns], scale: 1.0, missing: false };
            let fixed = super::gaussian::Scales { atom: 1.0, weight: vec![1.0; sources], noise: vec![4.0; sources] };
            let hyper = Hyper { shape: settings.scale_shape, rate: settings.scale_rate, fixed: Some(fixed) };
            draw(&Gaussian { centre, hyper }, settings, rows, request, seed)
        }
    }
}

fn draw<L: Likelihood>(distribution: &L, settings: &Settings, rows: usize, request: &Request, seed: u64) -> Result<Simulation> {
    let stream = Stream::new(seed, 0, Purpose::Simulate);
    let count = request.n_sources;
    let codes: Vec<u32> = (0..rows).map(|i| (i % count) as u32).collect();
    let mut sizes = vec![0u64; count];
    codes.iter().for_each(|&j| sizes[j as usize] += 1);
    let mut rng: Philox = stream.rng();
    let mut found = None;
    for attempt in 0..TRIES {
        rng = stream.item(attempt).rng();
        let governors = Governors { mass: settings.mass, concentration: vec![request.concentration; count] };
        let scales = distribution.prior_scales(&mut rng)?;
        let drawn = generate(distribution, &sizes, &codes, governors, scales, &mut rng)?;
        let enough = drawn.0.atoms.len() >= request.least_factors;
        found = Some(drawn);
        if enough {
            break;
        }
    }
    let Some((state, entries)) = found else { return Err(super::unfit("no draw was made")) };
    let width = distribution.width();
    let mut values = Vec::with_capacity(rows * width);
    for (list, &j) in entries.iter().zip(&codes) {
        values.extend(distribution.draw_row(&state.scales, j as usize, &mix(&state, list, width), &mut rng)?);
    }
    let mut data = Dataset::new(Matrix::dense(rows, width, values));
    data.columns = (1..=width).map(|m| format!("x{m}")).collect();
    let names: Vec<String> = (1..=count).map(|j| format!("s{j:0w$}", w = count.to_string().len())).collect();
    data.sources = Some(Classes { codes, names });
    let mut truth = Map::new();
    truth.insert("factors".into(), json!(state.atoms.phi.chunks_exact(width).collect::<Vec<_>>()));
    truth.insert("uses".into(), json!((0..state.atoms.len()).map(|k| state.atoms.uses_of(k)).collect::<Vec<_>>()));
    truth.insert("weights".into(), Value::from(state.atoms.weight.clone()));
    Ok(Simulation { data, truth })
}
