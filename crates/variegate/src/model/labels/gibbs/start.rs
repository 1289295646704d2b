//! Where a chain begins: a few rows drawn at random are the seeds of components, and rows go to the nearest a few times over.

use rand::RngExt;
use std::borrow::Cow;

use super::ask::Ask;
use super::{Gibbs, State};
use crate::Result;
use crate::run::{Rows, Stream};

/// How often rows go to the nearest component before the first sweep.
const ROUNDS: usize = 5;

pub(super) fn start(sampler: &Gibbs, rows: &mut dyn Rows<Gibbs>, stream: Stream) -> Result<State> {
    let mut rng = stream.rng();
    let total = rows.shape().rows as u64;
    let components = (sampler.seeds.max(1) as u64).min(total.max(1));
    // distinct rows, by a partial shuffle that keeps only what was moved
    let mut seeds: Vec<u64> = Vec::with_capacity(components as usize);
    let mut moved = std::collections::BTreeMap::new();
    for i in 0..components {
        let j = rng.random_range(i..total.max(1));
        seeds.push(*moved.get(&j).unwrap_or(&j));
        let here = *moved.get(&i).unwrap_or(&i);
        moved.insert(j, here);
    }
    let stats = rows.all(&Ask::Seeds(Cow::Borrowed(&seeds)))?;
    let (mut features, seen) = (stats.features.0, stats.seen.0);
    let mut counts = Vec::new();
    for _ in 0..ROUNDS {
        let factors = sampler.kernel.posteriors(&features, components as usize)?;
        let stats = rows.all(&Ask::Nearest(Cow::Owned(sampler.kernel.expected(&factors))))?;
        features = stats.features.0;
        counts = stats.counts.0.iter().map(|n| *n as u64).collect();
    }
    let mut point = sampler.labels.start(components as usize);
    if let Some(apart) = &sampler.apart {
        let prior = &apart.prior;
        point.weights = vec![0.0; prior.labels * prior.dim];
        point.weight_precision = vec![prior.weight_precision.mean(prior.weight_precision.start()); prior.labels];
    }
    Ok(State { alpha: sampler.alpha.mean(), counts, point, seen, ..State::default() })
}
