//! What every row sees: the features, what governs them, and what is added to all rows.

use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};

use super::sampler::Sampler;
use crate::Result;
use crate::infer::dual_averaging::DualAveraging;
use crate::linalg::dot;
use crate::prior::StableBeta;
use crate::run::Philox;

/// Numbers that govern features and noise. Those that a model has no use for stay where they are.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Hyper {
    /// Mass, concentration and discount of the process.
    pub process: StableBeta,
    /// Variance of the noise.
    pub noise: f64,
    /// Variance of the entries of features.
    pub spread: f64,
    /// Rate of the gamma distribution of their lengths.
    pub rate: f64,
    /// How strongly directions point away from one another.
    pub kappa: f64,
}

/// Features: those in use ascending by name, or, where the model has an order, by descending probability of use, with those that nobody uses
/// between them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Features {
    /// A name that is never used again.
    pub ids: Vec<u64>,
    /// Logarithm of the probability of use of each.
    pub ln_on: Vec<f64>,
    /// Logarithm of its complement.
    pub ln_off: Vec<f64>,
    /// How many rows use it.
    pub uses: Vec<u64>,
    /// Entries, one feature after the other; unit vectors where the model has directions.
    pub entries: Vec<f64>,
    /// Lengths, where the model has directions.
    pub lengths: Vec<f64>,
}

impl Features {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Number of columns.
    fn width(&self) -> usize {
        self.entries.len() / self.len().max(1)
    }

    /// What a feature adds to a row that uses it.
    pub fn weight(&self, k: usize) -> Vec<f64> {
        let width = self.width();
        let length = self.lengths.get(k).copied().unwrap_or(1.0);
        self.entries[k * width..][..width].iter().map(|v| v * length).collect()
    }

    /// What the features at these places add, one after the other.
    pub fn weights(&self, places: &[usize]) -> Vec<f64> {
        places.iter().flat_map(|&k| self.weight(k)).collect()
    }

    /// Appends one.
    pub fn push(&mut self, id: u64, (ln_on, ln_off): (f64, f64), uses: u64, entries: &[f64], length: Option<f64>) {
        self.ids.push(id);
        self.ln_on.push(ln_on);
        self.ln_off.push(ln_off);
        self.uses.push(uses);
        self.entries.extend_from_slice(entries);
        self.lengths.extend(length);
    }

    /// Those at these places, in this order.
    pub fn keep(&mut self, places: &[usize]) {
        fn pick<T: Copy>(values: &mut Vec<T>, each: usize, places: &[usize]) {
            if !values.is_empty() {
                *values = places.iter().flat_map(|&k| &values[k * each..][..each]).copied().collect();
            }
        }
        let width = self.width();
        pick(&mut self.entries, width, places);
        pick(&mut self.ids, 1, places);
        pick(&mut self.ln_on, 1, places);
        pick(&mut self.ln_off, 1, places);
        pick(&mut self.uses, 1, places);
        pick(&mut self.lengths, 1, places);
    }

    /// Places of those that some row uses, ascending by name: what rows are told.
    pub fn in_use(&self) -> Vec<usize> {
        let mut places: Vec<usize> = (0..self.len()).filter(|&k| self.uses[k] > 0).collect();
        places.sort_by_key(|&k| self.ids[k]);
        places
    }

    /// Places of all, ascending by name.
    pub fn by_name(&self) -> Vec<usize> {
        let mut places: Vec<usize> = (0..self.len()).collect();
        places.sort_by_key(|&k| self.ids[k]);
        places
    }

    /// Drops those that nobody uses.
    pub fn drop_unused(&mut self) {
        let places = self.in_use();
        self.keep(&places);
    }

    /// Drops those after the last that some row uses.
    pub fn forget(&mut self) {
        let last = self.uses.iter().rposition(|&n| n > 0).map_or(0, |k| k + 1);
        self.keep(&(0..last).collect::<Vec<_>>());
    }

    /// By descending probability of use.
    pub fn sort(&mut self) {
        let mut places: Vec<usize> = (0..self.len()).collect();
        places.sort_by(|&a, &b| self.ln_on[b].total_cmp(&self.ln_on[a]).then(self.ids[a].cmp(&self.ids[b])));
        self.keep(&places);
    }

    /// How many some row uses.
    pub fn used(&self) -> usize {
        self.uses.iter().filter(|n| **n > 0).count()
    }

    /// Sum of squares of all entries.
    pub fn squares(&self) -> f64 {
        if self.lengths.is_empty() { dot(&self.entries, &self.entries) } else { self.lengths.iter().map(|r| r * r).sum() }
    }
}

/// State between sweeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The features.
    pub features: Features,
    /// What governs them.
    pub hyper: Hyper,
    /// What is added to every row.
    pub intercept: Vec<f64>,
    /// Length of the steps of trajectories, while they are learned.
    pub step: Option<DualAveraging>,
    /// Whether births were refused because there are too many features.
    pub truncated: bool,
    /// Figures of the state.
    pub figures: Figures,
}

/// What is told of a state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Log joint density, unused features (and, where features have no order, probabilities of use) integrated out.
    pub ln_joint: f64,
    /// Log likelihood.
    pub ln_likelihood: f64,
    /// Log joint density with features and intercept integrated out too, where that is known; 0 elsewhere.
    pub ln_marginal: f64,
}

impl Sampler {
    /// Entries of a new feature that is independent of the others.
    pub(super) fn prior_entries(&self, hyper: &Hyper, rng: &mut Philox) -> Vec<f64> {
        let sd = hyper.spread.sqrt();
        (0..self.width)
            .map(|_| {
                let z: f64 = StandardNormal.sample(rng);
                sd * z
            })
            .collect()
    }

    /// Draws the probabilities of use of all features that rows use.
    pub(super) fn draw_chances(&self, state: &mut State, rng: &mut Philox) -> Result<()> {
        for k in 0..state.features.len() {
            let (on, off) = state.hyper.process.sample_used(state.features.uses[k], self.rows, rng)?;
            state.features.ln_on[k] = on;
            state.features.ln_off[k] = off;
        }
        Ok(())
    }
}
