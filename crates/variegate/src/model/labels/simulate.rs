//! Data from the prior: components with their features and label patterns, classifiers, and rows.

use serde_json::{Map, Value, json};

use super::generate::{Generator, World};
use super::schema::Schema;
use super::settings::{KernelKind, Settings};
use crate::check::generative::draw_until;
use crate::data::{Dataset, Target};
use crate::model::{Simulation, Truth};
use crate::run::{Philox, Purpose, Stream};
use crate::{Error, Result, settings};

settings! {
    /// What to simulate.
    pub(super) struct Request {
        /// Number of columns.
        columns: usize = 10, in whole(1, 100_000);
        /// Number of labels.
        labels: usize = 5, in whole(1, 10_000);
        /// Words of each row (multinomial).
        words: usize = 50, in whole(1, 1_000_000);
        /// Share of the label entries that are unknown.
        unknown: f64 = 0.0, in number(-f64::MIN_POSITIVE, 0.99);
        /// Draw again until as many components have rows.
        least_components: usize = 2, in whole(1, 1000);
    }
}

/// Draws that have too few components, or a label that no row has, are put back, at most this often.
const TRIES: u64 = 1000;

pub(super) fn simulate(settings: &Settings, rows: usize, request: &Request, seed: u64) -> Result<Simulation> {
    let generator = generator(settings, request)?;
    let draw = |rng: &mut Philox| {
        let world = generator.world(rng)?;
        let (data, members) = generator.rows(&world, rows, request.unknown, rng)?;
        Ok((world, data, members))
    };
    let complete = |(_, data, members): &(World, Dataset<'static>, Vec<usize>)| {
        let mut distinct = members.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let Target::Labels(l) = &data.target else { return false };
        let has = |c: usize, v: i8| l.values.iter().skip(c).step_by(request.labels).any(|y| *y == v);
        distinct.len() >= request.least_components.min(rows) && (rows < 20 || (0..request.labels).all(|c| has(c, 0) && has(c, 1)))
    };
    let stream = Stream::new(seed, 0, Purpose::Simulate);
    let Some(((world, data, members), _)) = draw_until(stream, 0..=TRIES - 1, draw, complete)? else {
        return Err(Error::Unfit("no draw was made".into()));
    };
    Ok(told(&generator, &world, data, &members))
}

pub(super) fn simulate_more(settings: &Settings, rows: usize, request: &Request, truth: &Truth<'_>, seed: u64) -> Result<Simulation> {
    let generator = generator(settings, request)?;
    let count = truth.count("weights")?;
    truth.same("coupling", settings.coupling.word())?;
    truth.same("features", generator.kernel.word())?;
    let world = World {
        weights: truth.numbers("weights", count)?,
        components: truth.table("components", count, generator.mixture.kernel.parameters())?,
        coefficients: truth.table("coefficients", request.labels, request.columns + 1)?,
        patterns: truth.table("patterns", count, request.labels)?,
    };
    let (data, members) = generator.rows(&world, rows, request.unknown, &mut Truth::stream(seed).rng())?;
    Ok(told(&generator, &world, data, &members))
}

/// The model of rows that are taken as they are.
fn generator(settings: &Settings, request: &Request) -> Result<Generator> {
    let kernel = if settings.features == KernelKind::Auto { KernelKind::GaussianDiag } else { settings.features };
    let labels = (1..=request.labels).map(|c| format!("label{c}")).collect();
    let schema = Schema::drawn(request.columns, labels, kernel);
    // a power is not a distribution that can be drawn from
    let exact = Settings { feature_power: Some(1.0), ..settings.clone() };
    Ok(Generator { mixture: schema.mixture(&exact)?, kernel, words: request.words, labels: request.labels })
}

fn told(generator: &Generator, world: &World, mut data: Dataset<'static>, members: &[usize]) -> Simulation {
    let width = generator.mixture.kernel.width();
    let size = generator.mixture.kernel.parameters();
    data.columns = (1..=width).map(|j| format!("x{j}")).collect();
    let rows = |values: &[f64], width: usize| json!(values.chunks_exact(width).collect::<Vec<_>>());
    let mut truth = Map::new();
    truth.insert("coupling".into(), Value::from(generator.coupling()));
    truth.insert("features".into(), Value::from(generator.kernel.word()));
    truth.insert("weights".into(), json!(world.weights));
    truth.insert("components".into(), rows(&world.components, size));
    truth.insert("coefficients".into(), rows(&world.coefficients, width + 1));
    truth.insert("patterns".into(), rows(&world.patterns, generator.labels));
    truth.insert("members".into(), json!(members));
    Simulation { data, truth }
}
