//! Splits of an atom in two and merges of two in one, with the atoms integrated out.
//!
//! Two rows are drawn, whatever the state, and one atom of each. If it is the same, it is split between them: the other rows that use
//! it are dealt one after the other, each by how well it is predicted by those that were dealt before. If they are two, they are merged
//! (unless a row uses both), and the chance that a split would have dealt the rows as they are weighs against it.

use rand::seq::SliceRandom;
use std::borrow::Cow;
use std::collections::BTreeMap;

use super::super::likelihood::{Likelihood, Side};
use super::{Course, Holder, Question, SPLIT, SWEEP, State};
use crate::Result;
use crate::prior::BetaProcess;
use crate::run::open01;
use crate::special::{ln_sigmoid, sigmoid};

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
        let mut below = |n: u64| ((open01(&mut self.rng) * n as f64) as u64).min(n - 1);
        let pairs: Vec<(u64, u64)> = (0..attempts)
            .map(|_| {
                let (a, b) = (below(total), below(total - 1));
                (a, if b >= a { b + 1 } else { b })
            })
            .collect();
        let mut chosen: Vec<u64> = pairs.iter().flat_map(|&(a, b)| [a, b]).collect();
        chosen.sort_unstable();
        chosen.dedup();
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
            if a == b {
                if state.atoms.len() >= self.sampler.most_atoms {
                    continue;
                }
                let holders = self.ask(state, true, Question::Holders { atoms: Cow::Owned(vec![at as u32]) })?.holders.0;
                let Some(deal) = self.deal(state, holders, (first, second), false) else { continue };
                let ln_ratio = deal.ln_ratio(&process, state.mass);
                if open01(&mut self.rng).ln() < ln_ratio {
                    let id = self.sweep << SWEEP | SPLIT | attempt as u64;
                    let width = self.sampler.likelihood.width();
                    state.atoms.phi[at * width..][..width].copy_from_slice(&deal.sides[0].draw(&mut self.rng)?);
                    let sources = self.sampler.rows.len();
                    state.atoms.uses[at * sources..][..sources].copy_from_slice(&deal.uses[0]);
                    let phi = deal.sides[1].draw(&mut self.rng)?;
                    state.atoms.push(id, &phi, 0.0, &deal.uses[1]);
                    self.exchange(&mut lists, deal.rows[1].iter().map(|&row| (row, a, id)));
                    self.view = None;
                    accepted.0 += 1;
                }
            } else {
                if self.ask(state, false, Question::Both { atoms: (at as u32, bt as u32) })?.both.0 > 0 {
                    continue;
                }
                let holders = self.ask(state, true, Question::Holders { atoms: Cow::Owned(vec![at as u32, bt as u32]) })?.holders.0;
                let Some(deal) = self.deal(state, holders, (first, second), true) else { continue };
                let ln_ratio = deal.ln_ratio(&process, state.mass);
                if open01(&mut self.rng).ln() < -ln_ratio {
                    let width = self.sampler.likelihood.width();
                    state.atoms.phi[at * width..][..width].copy_from_slice(&deal.all.draw(&mut self.rng)?);
                    let sources = self.sampler.rows.len();
                    for (j, n) in state.atoms.uses[at * sources..][..sources].iter_mut().enumerate() {
                        *n = deal.uses[0][j] + deal.uses[1][j];
                    }
                    self.exchange(&mut lists, deal.rows[1].iter().map(|&row| (row, b, a)));
                    let kept: Vec<usize> = (0..state.atoms.len()).filter(|&k| k != bt).collect();
                    state.atoms.keep(&kept);
                    self.view = None;
                    accepted.1 += 1;
                }
            }
        }
        Ok(accepted)
    }

    /// Notes that rows exchange an atom for another.
    fn exchange(&mut self, lists: &mut BTreeMap<u64, Vec<u64>>, moved: impl Iterator<Item = (u64, u64, u64)>) {
        for (row, from, to) in moved {
            if let Some(list) = lists.get_mut(&row) {
                list.iter_mut().filter(|id| **id == from).for_each(|id| *id = to);
                list.sort_unstable();
            }
            self.moved.push((row, from, to));
        }
    }

    /// Deals the rows to two sides, or finds how likely it was that they are as they are.
    fn deal(
        &mut self,
        state: &State<L::Scales>,
        holders: Vec<Holder<L::Contribution>>,
        (first, second): (u64, u64),
        given: bool,
    ) -> Option<Deal<L::Side>> {
        let likelihood = &self.sampler.likelihood;
        let sources = self.sampler.rows.len();
        let side = || likelihood.side(&state.scales);
        let mut deal = Deal {
            sides: [side(), side()],
            all: side(),
            uses: [vec![0; sources], vec![0; sources]],
            rows: [vec![], vec![]],
            ln_dealt: 0.0,
        };
        let take = |deal: &mut Deal<L::Side>, holder: &Holder<L::Contribution>, to: usize| {
            deal.sides[to].add(&holder.contribution);
            deal.uses[to][holder.source as usize] += 1;
            deal.rows[to].push(holder.row);
        };
        let find = |row: u64| holders.iter().position(|h| h.row == row);
        let (zero, one) = (find(first)?, find(second)?);
        take(&mut deal, &holders[zero], 0);
        take(&mut deal, &holders[one], 1);
        let mut order: Vec<usize> = (0..holders.len()).filter(|&i| i != zero && i != one).collect();
        order.shuffle(&mut self.rng);
        for i in order {
            let row = &holders[i].contribution;
            let d = (deal.sides[1].ln_predictive(row) - deal.sides[0].ln_predictive(row)).clamp(-SUREST, SUREST);
            let to =
                if given { usize::from(holders[i].which != holders[zero].which) } else { usize::from(open01(&mut self.rng) < sigmoid(d)) };
            deal.ln_dealt += ln_sigmoid(if to == 1 { d } else { -d });
            take(&mut deal, &holders[i], to);
        }
        holders.iter().for_each(|h| deal.all.add(&h.contribution));
        deal.rows.iter_mut().for_each(|r| r.sort_unstable());
        Some(deal)
    }
}

/// Rows on two sides.
struct Deal<S> {
    sides: [S; 2],
    all: S,
    uses: [Vec<u32>; 2],
    rows: [Vec<u64>; 2],
    /// Log probability of having been dealt so.
    ln_dealt: f64,
}

impl<S: Side> Deal<S> {
    /// Log acceptance ratio of the split.
    fn ln_ratio(&self, process: &BetaProcess, mass: f64) -> f64 {
        let both: Vec<u32> = self.uses[0].iter().zip(&self.uses[1]).map(|(a, b)| a + b).collect();
        let patterns = process.ln_pattern(&self.uses[0]) + process.ln_pattern(&self.uses[1]) - process.ln_pattern(&both);
        let marginals = self.sides[0].ln_marginal() + self.sides[1].ln_marginal() - self.all.ln_marginal();
        mass.ln() + patterns + marginals - self.ln_dealt
    }
}
