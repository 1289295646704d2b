//! Splits of an atom in two and merges of two in one, with the atoms integrated out.
//!
//! Two rows are drawn, whatever the state, and one atom of each. If it is the same, it is split between them: the other rows that use
//! it are dealt to two sides by how well these predict them. If they are two, they are merged (unless a row uses both), and the chance
//! that a split would have dealt the rows as they are weighs against it.
//!
//! A *core* of few rows is dealt one after the other, each given those before. If an atom has many more, the rest is dealt where the rows
//! are, each row by itself given the sides that the core made, so that nothing is sent that grows with the rows. Which rows are the
//! core is decided by a fresh hash of their numbers and by how many rows use the atom (or one of the two), which is the same before and
//! after the move: the core and its order have the same distribution in both directions. Given them, the probability of a whole
//! allocation is that of the core times one factor for each other row, and the move is exact. Auxiliary counts are drawn row by row given
//! the state, so it makes no difference that those of the rest are drawn after the core was dealt.

use rand::Rng;
use rand::seq::SliceRandom;
use std::borrow::Cow;
use std::collections::BTreeMap;

use super::super::likelihood::{Likelihood, Side};
use super::{Course, Exchange, Holder, Question, Rest, SPLIT, SWEEP, State};
use crate::model::ranks::{Part, ln_side, pairs, rows_of};
use crate::prior::BetaProcess;
use crate::run::open01;
use crate::special::sigmoid;
use crate::{Error, Result};

/// How sure a row may be of its side.
const SUREST: f64 = 12.0;

impl<L: Likelihood> Course<'_, L> {
    /// All attempts of a sweep; gives the number of splits and merges that were accepted. How many are tried does not depend on the state,
    /// and one that finds nothing to do has been tried.
    pub(super) fn split_merge(&mut self, state: &mut State<L::Scales>) -> Result<(u64, u64)> {
        let total: u64 = self.sampler.rows.iter().sum();
        let attempts = self.sampler.split_merge;
        if total < 2 || attempts == 0 {
            return Ok((0, 0));
        }
        let pairs = pairs(total, attempts, &mut self.rng);
        let chosen = rows_of(&pairs);
        let mut lists: BTreeMap<u64, Vec<u64>> =
            self.ask(state, false, Question::Lists { chosen: Cow::Owned(chosen) })?.lists.0.into_iter().collect();
        let process = BetaProcess::new(&self.sampler.rows, &state.concentration);
        let mut accepted = (0, 0);
        for (attempt, (first, second)) in pairs.into_iter().enumerate() {
            let picks = [open01(&mut self.rng), open01(&mut self.rng)];
            let pick = |row: u64, u: f64| {
                let list = lists.get(&row)?;
                list.get((u * list.len() as f64) as usize).copied()
            };
            let (Some(a), Some(b)) = (pick(first, picks[0]), pick(second, picks[1])) else { continue };
            let (Some(at), Some(bt)) = (state.atoms.place(a), state.atoms.place(b)) else { continue };
            let sources = self.sampler.rows.len();
            let width = self.sampler.likelihood.width();
            if a == b {
                if state.atoms.len() >= self.sampler.most_atoms {
                    continue;
                }
                let listed = lists.iter().filter(|(_, ids)| ids.binary_search(&a).is_ok()).map(|(&row, _)| row).collect();
                let deal = self.deal(state, vec![at as u32], (first, second), listed)?;
                let ln_ratio = deal.ln_ratio(&process, state.mass);
                if open01(&mut self.rng).ln() < ln_ratio {
                    let id = self.sweep << SWEEP | SPLIT | attempt as u64;
                    state.atoms.phi[at * width..][..width].copy_from_slice(&deal.sides[0].draw(&mut self.rng)?);
                    state.atoms.uses[at * sources..][..sources].copy_from_slice(&deal.uses[0]);
                    let phi = deal.sides[1].draw(&mut self.rng)?;
                    state.atoms.push(id, &phi, 0.0, &deal.uses[1]);
                    for row in deal.rows.iter().chain(&deal.listed) {
                        lists.get_mut(row).into_iter().for_each(|list| exchange(list, a, id));
                    }
                    self.tell(Exchange { from: a, to: id, rows: Some(deal.rows) });
                    accepted.0 += 1;
                }
            } else {
                if self.ask(state, false, Question::Both { atoms: (at as u32, bt as u32) })?.both.0 > 0 {
                    continue;
                }
                let deal = self.deal(state, vec![at as u32, bt as u32], (first, second), Vec::new())?;
                let ln_ratio = deal.ln_ratio(&process, state.mass);
                if open01(&mut self.rng).ln() < -ln_ratio {
                    state.atoms.phi[at * width..][..width].copy_from_slice(&deal.all.draw(&mut self.rng)?);
                    for (j, n) in state.atoms.uses[at * sources..][..sources].iter_mut().enumerate() {
                        *n = deal.uses[0][j] + deal.uses[1][j];
                    }
                    lists.values_mut().for_each(|list| exchange(list, b, a));
                    self.tell(Exchange { from: b, to: a, rows: None });
                    let kept: Vec<usize> = (0..state.atoms.len()).filter(|&k| k != bt).collect();
                    state.atoms.keep(&kept);
                    accepted.1 += 1;
                }
            }
        }
        Ok(accepted)
    }

    /// Rows hear of an exchange with the next question, whatever it is.
    fn tell(&mut self, exchange: Exchange) {
        debug_assert!(self.moved.is_none());
        self.moved = Some(exchange);
        self.view = None;
    }

    /// Deals the rows of an atom to two sides, or finds how likely it was that those of two atoms are as they are.
    fn deal(&mut self, state: &mut State<L::Scales>, atoms: Vec<u32>, first: (u64, u64), listed: Vec<u64>) -> Result<Deal<L::Side>> {
        let sources = self.sampler.rows.len();
        let users: u64 = atoms.iter().flat_map(|&k| state.atoms.uses_of(k as usize)).map(|&n| u64::from(n)).sum();
        let mut part = Part { first, salt: 0, from: 0, to: Part::END };
        if users > self.sampler.core as u64 {
            part.salt = self.rng.next_u64();
            part.to = ((self.sampler.core as f64 / users as f64 * Part::END as f64) as u64).max(1);
        }
        let holders = self.ask(state, true, Question::Holders { atoms: Cow::Borrowed(&atoms), part })?.holders.0;
        let side = || self.sampler.likelihood.side(&state.scales);
        let mut deal = Deal {
            sides: [side(), side()],
            all: side(),
            uses: [vec![0; sources], vec![0; sources]],
            rows: Vec::new(),
            listed: Vec::new(),
            ln_dealt: 0.0,
        };
        let find = |row: u64| holders.iter().position(|h| h.row == row);
        let (Some(zero), Some(one)) = (find(first.0), find(first.1)) else {
            return Err(Error::Unfit("a row does not use the factor that it was said to use".into()));
        };
        deal.take(&holders[zero], 0);
        deal.take(&holders[one], 1);
        let mut order: Vec<usize> = (0..holders.len()).filter(|&i| i != zero && i != one).collect();
        order.shuffle(&mut self.rng);
        for i in order {
            let d = lean(&deal.sides, &holders[i].contribution);
            let given = atoms.len() == 2;
            let to = if given { holders[i].which as usize } else { usize::from(open01(&mut self.rng) < sigmoid(d)) };
            deal.ln_dealt += ln_side(d, to);
            deal.take(&holders[i], to);
        }
        holders.iter().for_each(|h| deal.all.add(&h.contribution));
        deal.rows.sort_unstable();
        if part.to < Part::END {
            let part = Part { from: part.to, to: Part::END, ..part };
            let question =
                Question::Rest { atoms: Cow::Borrowed(&atoms), part, listed: Cow::Borrowed(&listed), sides: Cow::Borrowed(&deal.sides) };
            if let Some(rest) = self.ask(state, true, question)?.rest {
                deal.take_all(rest);
            }
        }
        Ok(deal)
    }
}

/// A row exchanges an atom for another in its list, if it uses it.
fn exchange(list: &mut [u64], from: u64, to: u64) {
    if let Ok(at) = list.binary_search(&from) {
        list[at] = to;
        list.sort_unstable();
    }
}

/// How much a row leans to the second side: log odds.
pub(super) fn lean<S: Side>(sides: &[S; 2], row: &S::Contribution) -> f64 {
    (sides[1].ln_predictive(row) - sides[0].ln_predictive(row)).clamp(-SUREST, SUREST)
}

/// Rows on two sides.
struct Deal<S> {
    sides: [S; 2],
    all: S,
    uses: [Vec<u32>; 2],
    /// Rows of the core on the second side.
    rows: Vec<u64>,
    /// Others there that are on a list.
    listed: Vec<u64>,
    /// Log probability of having been dealt so.
    ln_dealt: f64,
}

impl<S: Side> Deal<S> {
    /// Takes in a row of the core.
    fn take(&mut self, holder: &Holder<S::Contribution>, to: usize) {
        self.sides[to].add(&holder.contribution);
        self.uses[to][holder.source as usize] += 1;
        if to == 1 {
            self.rows.push(holder.row);
        }
    }

    /// Takes in rows that were dealt together.
    fn take_all(&mut self, rest: Rest<S>)
    where
        S: Clone,
    {
        for (to, sums) in rest.sides.into_iter().enumerate() {
            self.sides[to].merge(sums.clone());
            self.all.merge(sums);
        }
        let sources = self.uses[0].len();
        for (at, n) in rest.uses.0.into_iter().enumerate() {
            self.uses[at / sources][at % sources] += n as u32;
        }
        self.ln_dealt += rest.ln_dealt.0;
        self.listed.extend(rest.listed.0);
    }

    /// Log acceptance ratio of the split.
    fn ln_ratio(&self, process: &BetaProcess, mass: f64) -> f64 {
        let both: Vec<u32> = self.uses[0].iter().zip(&self.uses[1]).map(|(a, b)| a + b).collect();
        let patterns = process.ln_pattern(&self.uses[0]) + process.ln_pattern(&self.uses[1]) - process.ln_pattern(&both);
        let marginals = self.sides[0].ln_marginal() + self.sides[1].ln_marginal() - self.all.ln_marginal();
        mass.ln() + patterns + marginals - self.ln_dealt
    }
}
