//! Splits of a feature in two and merges of two in one, with entries and probabilities of use integrated out.
//!
//! Two rows are drawn, whatever the state, and one feature of each. If it is the same, it is split between them: the other rows that use it
//! are dealt to two sides by how well these predict them. If they are two, they are merged (unless a row uses both), and the chance that a
//! split would have dealt the rows as they are weighs against it. Every row keeps its number of features, so the choice of rows and features
//! is as likely before as after.
//!
//! As for `factors`, a *core* of few rows is dealt one after the other; if a feature has many more, the rest is dealt where the rows are, each
//! row by itself given the sides that the core made. The core is decided by a fresh hash of row numbers and by how many rows use the
//! feature (or one of the two), which is the same before and after the move.

use rand::Rng;
use rand::seq::SliceRandom;
use rand_distr::{Distribution, StandardNormal};
use std::borrow::Cow;
use std::collections::BTreeMap;

use super::ask::{Change, Holder, Question, Side};
use super::{BY_SPLIT, Course};
use crate::linalg::{distance_long, dot_long};
use crate::model::features::state::{Hyper, State};
use crate::model::ranks::{Part, ln_side, pairs, rows_of};
use crate::run::{Merge, Philox, Which, open01};
use crate::special::sigmoid;
use crate::{Error, Result};

/// How sure a row may be of its side.
const SUREST: f64 = 50.0;

/// How much a row leans to the second side: log odds.
pub(super) fn lean(sides: &[Side; 2], residual: &[f64], noise: f64, ridge: f64) -> f64 {
    let width = residual.len() as f64;
    let ln_predictive = |side: &Side| {
        let weight = 1.0 / (side.count + ridge);
        let variance = noise * (1.0 + weight);
        side.count.ln() - 0.5 * width * variance.ln() - 0.5 * distance_long(residual, &side.sum, weight) / variance
    };
    (ln_predictive(&sides[1]) - ln_predictive(&sides[0])).clamp(-SUREST, SUREST)
}

impl Side {
    /// Logarithm of how much better a common feature explains the rows than none.
    fn ln_gain(&self, hyper: &Hyper) -> f64 {
        let (noise, spread, m) = (hyper.noise, hyper.spread, self.count);
        let square = dot_long(&self.sum, &self.sum);
        -0.5 * self.sum.len() as f64 * (m * spread / noise).ln_1p() + spread * square / (2.0 * noise * (noise + m * spread))
    }

    /// A draw of that feature.
    fn draw(&self, hyper: &Hyper, rng: &mut Philox) -> Vec<f64> {
        let precision = self.count + hyper.noise / hyper.spread;
        let sd = (hyper.noise / precision).sqrt();
        self.sum
            .iter()
            .map(|s| {
                let z: f64 = StandardNormal.sample(rng);
                s / precision + sd * z
            })
            .collect()
    }
}

/// Rows on two sides.
#[derive(Default)]
struct Deal {
    sides: [Side; 2],
    /// Rows of the core on the second side.
    rows: Vec<u64>,
    /// Others there that are on a list.
    listed: Vec<u64>,
    /// Log probability of having been dealt so.
    ln_dealt: f64,
}

impl Deal {
    fn take(&mut self, holder: &Holder, to: usize) {
        self.sides[to].add(&holder.residual);
        if to == 1 {
            self.rows.push(holder.row);
        }
    }

    /// Both sides together.
    fn all(&self) -> Side {
        let mut all = self.sides[0].clone();
        all.merge(self.sides[1].clone());
        all
    }

    /// Log acceptance ratio of the split.
    fn ln_ratio(&self, hyper: &Hyper, rows: u64) -> f64 {
        let all = self.all();
        let part = |side: &Side| hyper.process.ln_pattern(side.count as u64, rows) + side.ln_gain(hyper);
        part(&self.sides[0]) + part(&self.sides[1]) - part(&all) - self.ln_dealt
    }
}

impl Course<'_> {
    /// All attempts of a sweep; gives the number of splits and merges that were accepted. How many are tried does not depend on the state,
    /// and one that finds nothing to do has been tried.
    pub(in crate::model::features) fn split_merge(&mut self, state: &mut State) -> Result<(u64, u64)> {
        let (sampler, width) = (self.sampler, self.sampler.width);
        let (total, attempts) = (sampler.rows, sampler.split_merge);
        if total < 2 || attempts == 0 {
            return Ok((0, 0));
        }
        let pairs = pairs(total, attempts, &mut self.rng);
        let chosen = rows_of(&pairs);
        let found = self.ask(state, Question::Lists { rows: Cow::Owned(chosen) }, Which::All)?.lists.0;
        // by name: places change
        let named = |list: Vec<u32>| list.into_iter().map(|k| state.features.ids[k as usize]).collect();
        let mut lists: BTreeMap<u64, Vec<u64>> = found.into_iter().map(|(row, list)| (row, named(list))).collect();
        let mut accepted = (0, 0);
        for (first, second) in pairs {
            let picks = [open01(&mut self.rng), open01(&mut self.rng)];
            let pick = |row: u64, u: f64| {
                let list = lists.get(&row)?;
                list.get((u * list.len() as f64) as usize).copied()
            };
            let (Some(a), Some(b)) = (pick(first, picks[0]), pick(second, picks[1])) else { continue };
            let place = |id: u64| state.features.ids.binary_search(&id).ok();
            let (Some(at), Some(bt)) = (place(a), place(b)) else { continue };
            if a == b {
                if state.features.len() >= sampler.most {
                    state.truncated = true;
                    continue;
                }
                let listed = lists.iter().filter(|(_, ids)| ids.contains(&a)).map(|(&row, _)| row).collect();
                let Some(deal) = self.deal(state, &[at as u32], (first, second), listed)? else { continue };
                if open01(&mut self.rng).ln() < deal.ln_ratio(&state.hyper, total) {
                    let id = self.new_name(BY_SPLIT);
                    let [zero, one] = &deal.sides;
                    state.features.entries[at * width..][..width].copy_from_slice(&zero.draw(&state.hyper, &mut self.rng));
                    state.features.uses[at] = zero.count as u64;
                    let entries = one.draw(&state.hyper, &mut self.rng);
                    state.features.push(id, (0.0, 0.0), one.count as u64, &entries, None);
                    for row in deal.rows.iter().chain(&deal.listed) {
                        lists.get_mut(row).into_iter().for_each(|list| exchange(list, a, id));
                    }
                    self.change(Change::Exchange { from: a, to: id, rows: Some(deal.rows) });
                    self.changed();
                    accepted.0 += 1;
                }
            } else {
                let Some(deal) = self.deal(state, &[at as u32, bt as u32], (first, second), Vec::new())? else { continue };
                if open01(&mut self.rng).ln() < -deal.ln_ratio(&state.hyper, total) {
                    let all = deal.all();
                    state.features.entries[at * width..][..width].copy_from_slice(&all.draw(&state.hyper, &mut self.rng));
                    state.features.uses[at] = all.count as u64;
                    lists.values_mut().for_each(|list| exchange(list, b, a));
                    self.change(Change::Exchange { from: b, to: a, rows: None });
                    let kept: Vec<usize> = (0..state.features.len()).filter(|&k| k != bt).collect();
                    state.features.keep(&kept);
                    self.changed();
                    accepted.1 += 1;
                }
            }
        }
        Ok(accepted)
    }

    /// Deals the rows of a feature to two sides, or finds how likely it was that those of two features are as they are; none if a row uses both.
    fn deal(&mut self, state: &State, features: &[u32], first: (u64, u64), listed: Vec<u64>) -> Result<Option<Deal>> {
        let users: u64 = features.iter().map(|&k| state.features.uses[k as usize]).sum();
        let core = self.sampler.core as u64;
        let mut part = Part { first, salt: 0, from: 0, to: Part::END };
        if users > core {
            part.salt = self.rng.next_u64();
            part.to = ((core as f64 / users as f64 * Part::END as f64) as u64).max(1);
        }
        let stats = self.ask(state, Question::Holders { features: Cow::Borrowed(features), part }, Which::All)?;
        if stats.both.0 > 0 {
            return Ok(None);
        }
        let (noise, ridge) = (state.hyper.noise, state.hyper.noise / state.hyper.spread);
        let (holders, given) = (stats.holders.0, features.len() == 2);
        let find = |row: u64| holders.iter().position(|h| h.row == row);
        let (Some(zero), Some(one)) = (find(first.0), find(first.1)) else {
            return Err(Error::Unfit("a row does not use the feature that it was said to use".into()));
        };
        let mut deal = Deal::default();
        deal.take(&holders[zero], 0);
        deal.take(&holders[one], 1);
        let mut order: Vec<usize> = (0..holders.len()).filter(|&i| i != zero && i != one).collect();
        order.shuffle(&mut self.rng);
        for i in order {
            let d = lean(&deal.sides, &holders[i].residual, noise, ridge);
            let to = if given { holders[i].which as usize } else { usize::from(open01(&mut self.rng) < sigmoid(d)) };
            deal.ln_dealt += ln_side(d, to);
            deal.take(&holders[i], to);
        }
        deal.rows.sort_unstable();
        if part.to < Part::END {
            let question = Question::Rest {
                features: Cow::Borrowed(features),
                part: Part { from: part.to, to: Part::END, ..part },
                listed: Cow::Borrowed(&listed),
                sides: Cow::Borrowed(&deal.sides),
                ridge,
            };
            let rest = self.ask(state, question, Which::All)?;
            let [zero, one] = rest.sides;
            deal.sides[0].merge(zero);
            deal.sides[1].merge(one);
            deal.ln_dealt += rest.ln_dealt.0;
            deal.listed.extend(rest.listed.0);
        }
        Ok(Some(deal))
    }
}

/// A row exchanges a feature for another in its list, if it uses it.
fn exchange(list: &mut [u64], from: u64, to: u64) {
    if let Some(id) = list.iter_mut().find(|id| **id == from) {
        *id = to;
    }
}
