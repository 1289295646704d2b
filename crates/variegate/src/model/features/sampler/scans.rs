//! Every row's use of every feature, three ways: with owners, with a slice for each row, and with one slice for all.

use rand::Rng;
use std::borrow::Cow;

use super::ask::Question;
use super::weights::Totals;
use super::{BY_TAIL, Course};
use crate::model::features::state::State;
use crate::model::ranks::rank;
use crate::prior::ln_not;
use crate::run::{Which, open01};
use crate::{Error, Result};

/// Unused features that one sweep may add.
const MOST_UNUSED: usize = 100_000;

/// Ranks of a sweep, and the lowest among the rows that use each feature.
pub(in crate::model::features) struct Owners {
    salt: u64,
    lowest: Vec<u64>,
}

impl Course<'_> {
    /// Missing entries are drawn; each feature gets an owner, the row of lowest random rank among those that use it.
    pub(in crate::model::features) fn begin(&mut self, state: &State) -> Result<Owners> {
        let salt = self.rng.next_u64();
        let lowest = self.ask(state, Question::Begin { salt }, Which::All)?.owners.0;
        Ok(Owners { salt, lowest })
    }

    /// Every row's use of every feature, given who owns what; sums if they are wanted.
    pub(in crate::model::features) fn scan_owned(&mut self, state: &mut State, owners: Owners, sums: bool) -> Result<Totals> {
        let places = Self::told_places(state);
        let ln_odds: Vec<f64> = places.iter().map(|&k| state.features.ln_on[k] - state.features.ln_off[k]).collect();
        // a fresh order: neither who uses a feature nor how old it is may decide
        let salt = self.rng.next_u64();
        let mut order: Vec<u32> = (0..places.len() as u32).collect();
        order.sort_by_key(|&k| rank(salt, state.features.ids[places[k as usize]], 0));
        let kind = Question::ScanOwned {
            ln_odds: Cow::Owned(ln_odds),
            salt: owners.salt,
            owners: Cow::Owned(owners.lowest),
            order: Cow::Owned(order),
            pairs: self.sampler.pairs,
            sums,
        };
        let stats = self.ask(state, kind, Which::All)?;
        for (&k, &m) in places.iter().zip(&stats.uses.0) {
            state.features.uses[k] = m as u64;
        }
        Ok(Totals::new(stats.sums, places.len(), self.sampler))
    }

    /// Adds the features that nobody uses with a probability of use above a bound, and sorts all by it.
    pub(super) fn tail(&mut self, state: &mut State, from: f64, down_to: f64) -> Result<()> {
        let sampler = self.sampler;
        let mut y = from;
        for count in 0.. {
            match state.hyper.process.next_unused(y, down_to, sampler.rows, &mut self.rng) {
                None => break,
                Some(next) => y = next,
            }
            if count >= MOST_UNUSED {
                return Err(Error::Numerical {
                    what: "the list of unused features",
                    sweep: self.sweep,
                    detail: "it does not end; lower `mass`, or use the sampler `anchored`".into(),
                });
            }
            let id = self.new_name(BY_TAIL);
            sampler.append_unused(state, id, y, &mut self.rng)?;
        }
        state.features.sort();
        self.changed();
        Ok(())
    }

    /// Every row's use of the features that reach its slice.
    pub(in crate::model::features) fn scan_heights(&mut self, state: &mut State) -> Result<()> {
        let told = Self::told_places(state);
        let ln_on: Vec<f64> = told.iter().map(|&k| state.features.ln_on[k]).collect();
        let lowest = self.ask(state, Question::Heights { ln_on: Cow::Owned(ln_on) }, Which::All)?.lowest.0;
        self.tail(state, 0.0, lowest.first().copied().unwrap_or(0.0))?;
        let (ln_on, ln_odds, order) = by_name(state);
        let kind = Question::ScanHeights { ln_on: Cow::Owned(ln_on), ln_odds: Cow::Owned(ln_odds), order: Cow::Owned(order) };
        let stats = self.ask_of_all(state, kind, Which::All)?;
        // rows are next told of features in use alone
        self.changed();
        for (&k, &m) in state.features.by_name().iter().zip(&stats.uses.0) {
            state.features.uses[k] = m as u64;
        }
        Ok(())
    }

    /// Probabilities of use within the order that they have, then one slice for all and the features above it.
    pub(in crate::model::features) fn slice(&mut self, state: &mut State) -> Result<()> {
        let rows = self.sampler.rows;
        let process = state.hyper.process;
        let count = state.features.len();
        if count > 0 {
            let below = process.next_unused(state.features.ln_on[count - 1], f64::NEG_INFINITY, rows, &mut self.rng);
            for k in 0..count {
                let high = if k == 0 { 0.0 } else { state.features.ln_on[k - 1] };
                let low = if k + 1 < count { state.features.ln_on[k + 1] } else { below.unwrap_or(-700.0) };
                let y = process.step_between(state.features.ln_on[k], state.features.uses[k], rows, (low, high), &mut self.rng);
                state.features.ln_on[k] = y;
                state.features.ln_off[k] = ln_not(y);
            }
        }
        let last = state.features.ln_on.last().copied().unwrap_or(0.0);
        let height = last + open01(&mut self.rng).ln();
        self.tail(state, last, height)
    }

    /// The rows one after the other, under the slice that was drawn.
    pub(in crate::model::features) fn scan_counted(&mut self, state: &mut State) -> Result<()> {
        // blocks are asked one by one: all must have heard of changes
        self.settle(state)?;
        let (ln_on, ln_odds, order) = by_name(state);
        let places = state.features.by_name();
        let mut uses: Vec<u64> = places.iter().map(|&k| state.features.uses[k]).collect();
        for block in 0..self.rows.shape().blocks {
            let kind = Question::ScanCounted {
                ln_on: Cow::Borrowed(&ln_on),
                ln_odds: Cow::Borrowed(&ln_odds),
                order: Cow::Borrowed(&order),
                uses: Cow::Borrowed(&uses),
            };
            uses = self.ask_of_all(state, kind, Which::Some(&[block]))?.uses.0.iter().map(|&m| m as u64).collect();
        }
        places.iter().zip(uses).for_each(|(&k, m)| state.features.uses[k] = m);
        self.changed();
        Ok(())
    }

    /// Sums over rows for all features, also those that nobody uses; rows are asked about the others alone.
    pub(in crate::model::features) fn totals_of_all(&mut self, state: &mut State) -> Result<Totals> {
        self.changed();
        let told = self.totals(state)?;
        let mut all = told.unused(state.features.len());
        all.fill_from(&told, &Self::told_places(state));
        Ok(all)
    }
}

/// Logarithms of probabilities and log odds of all features by name, and the features by descending probability.
fn by_name(state: &State) -> (Vec<f64>, Vec<f64>, Vec<u32>) {
    let places = state.features.by_name();
    let ln_on: Vec<f64> = places.iter().map(|&k| state.features.ln_on[k]).collect();
    let ln_odds = places.iter().map(|&k| state.features.ln_on[k] - state.features.ln_off[k]).collect();
    let mut order: Vec<u32> = (0..places.len() as u32).collect();
    order.sort_by_key(|&at| places[at as usize]);
    (ln_on, ln_odds, order)
}
