//! Births and deaths of features at a place in their order.
//!
//! A few rows are drawn, whatever the state, and a place that no other row uses. If none of the rows uses it either, a feature is born there:
//! which of the rows use it, its length and its direction are proposed from what the rows leave unexplained. If the first row uses it, the
//! feature dies, and what the birth would have proposed weighs against it. A place that some of the rows use, but not the first, is left alone:
//! that was an attempt too.

use rand::seq::SliceRandom;
use rand_distr::{Distribution, StandardNormal};
use std::borrow::Cow;
use std::f64::consts::TAU;

use super::chain::draw_direction;
use super::length::ln_gain;
use super::{Angular, Ordered};
use crate::Result;
use crate::linalg::dot;
use crate::model::features::sampler::Course;
use crate::model::features::sampler::ask::{Change, Gathered, Question};
use crate::model::features::state::State;
use crate::model::ranks::different;
use crate::run::{Philox, Which, open01};
use crate::special::{ln_sigmoid, sigmoid};

/// Places after the last that other rows use, at which features may be born.
const EXTRA: usize = 2;
/// How sure a row may be of a new feature.
const SUREST: f64 = 30.0;

/// Which rows use a new feature, and how likely that was.
struct Column {
    on: Vec<bool>,
    ln_drawn: f64,
    /// Sum of what they leave for it.
    sum: Vec<f64>,
    count: f64,
}

/// Deals rows in turn to a feature that the first uses, or finds how likely it was that they are as given.
fn deal(residuals: &[Vec<f64>], given: Option<&[bool]>, noise: f64, variance: f64, rng: &mut Philox) -> Column {
    let ridge = noise / variance;
    let mut column = Column { on: vec![true], ln_drawn: 0.0, sum: residuals[0].clone(), count: 1.0 };
    for (i, residual) in residuals.iter().enumerate().skip(1) {
        let weight = 1.0 / (column.count + ridge);
        let spread = noise * (1.0 + weight);
        let with: f64 = residual.iter().zip(&column.sum).map(|(e, s)| (e - weight * s) * (e - weight * s)).sum();
        let width = residual.len() as f64;
        let lean =
            (-0.5 * width * (spread / noise).ln() - 0.5 * with / spread + 0.5 * dot(residual, residual) / noise).clamp(-SUREST, SUREST);
        let on = given.map_or_else(|| open01(rng) < sigmoid(lean), |given| given[i]);
        column.ln_drawn += ln_sigmoid(if on { lean } else { -lean });
        column.on.push(on);
        if on {
            column.sum.iter_mut().zip(residual).for_each(|(s, e)| *s += e);
            column.count += 1.0;
        }
    }
    column
}

impl Angular {
    /// One attempt among so many rows; whether a feature was born or died.
    pub(super) fn birth_or_death(&self, course: &mut Course<'_>, state: &mut State, ordered: &mut Ordered, group: usize) -> Result<bool> {
        let (rows, width) = (course.sampler.rows, course.sampler.width);
        if rows == 0 {
            return Ok(false);
        }
        let mut chosen = different(rows, group, &mut course.rng);
        chosen.shuffle(&mut course.rng);
        let mut sorted = chosen.clone();
        sorted.sort_unstable();
        ordered.forget(state);
        let told = state.features.in_use();
        let found = course.ask(state, Question::Rows { rows: Cow::Owned(sorted) }, Which::All)?.gathered.0;
        let members: Vec<Member> =
            chosen.iter().filter_map(|row| found.iter().find(|g| g.row == *row)).map(|g| Member::of(g, &told)).collect();
        let inside = |k: usize| members.iter().filter(|m| m.used.contains(&k)).count() as u64;
        let outside: Vec<bool> = (0..state.features.len()).map(|k| state.features.uses[k] > inside(k)).collect();
        let places = outside.iter().rposition(|o| *o).map_or(0, |k| k + 1) + EXTRA;
        ordered.extend(self, course, state, places)?;
        let candidates: Vec<usize> = (0..places).filter(|&k| !outside.get(k).copied().unwrap_or(false)).collect();
        let k = candidates[((open01(&mut course.rng) * candidates.len() as f64) as usize).min(candidates.len() - 1)];
        let given: Vec<bool> = members.iter().map(|m| m.used.contains(&k)).collect();
        let birth = !given.contains(&true);
        if !birth && !given[0] {
            ordered.forget(state);
            return Ok(false);
        }
        if birth && state.features.used() >= course.sampler.most {
            state.truncated = true;
            ordered.forget(state);
            return Ok(false);
        }
        let residuals: Vec<Vec<f64>> = members
            .iter()
            .map(|m| {
                let mut left: Vec<f64> = m.entries.iter().zip(&state.intercept).map(|(x, b)| x - b).collect();
                for &l in m.used.iter().filter(|&&l| l != k) {
                    left.iter_mut().zip(state.features.weight(l)).for_each(|(e, w)| *e -= w);
                }
                left
            })
            .collect();
        let (chain, lengths, hyper) = (self.chain(course.sampler, state), self.lengths(course.sampler, state), state.hyper);
        let last = (0..state.features.len()).rev().find(|&l| l != k && state.features.uses[l] > 0).map_or(0, |l| l + 1);
        let pull = chain.pull(&state.features.entries, k);
        let column = deal(&residuals, (!birth).then_some(&given), hyper.noise, self.variance(course.sampler, state), &mut course.rng);
        let (centre, deviation) = lengths.proposal(&pull, &column.sum, column.count, hyper.noise);
        // the feature, and the one that nobody uses in its place
        let here = (state.features.entries[k * width..][..width].to_vec(), state.features.lengths[k]);
        let ((u, r), (idle, idle_length)) = if birth {
            let z: f64 = StandardNormal.sample(&mut course.rng);
            let r = (centre + deviation * z).exp();
            let natural: Vec<f64> = pull.iter().zip(&column.sum).map(|(t, s)| t + r * s / hyper.noise).collect();
            ((draw_direction(&natural, &mut course.rng)?, r), here)
        } else {
            (here, (draw_direction(&pull, &mut course.rng)?, lengths.draw(&mut course.rng)?))
        };
        let y = r.ln();
        let ln_proposed = -0.5 * ((y - centre) / deviation).powi(2) - deviation.ln() - 0.5 * TAU.ln() - y;
        let ln_ratio = column.count * (state.features.ln_on[k] - state.features.ln_off[k])
            + ln_gain(&pull, &column.sum, r, column.count, hyper.noise)
            + lengths.ln_density(r)
            - ln_proposed
            - column.ln_drawn
            + chain.successors(&state.features.entries, k, &u, last)
            - chain.successors(&state.features.entries, k, &idle, last);
        let accepted = open01(&mut course.rng).ln() < if birth { ln_ratio } else { -ln_ratio };
        if accepted {
            let (entries, length) = if birth { (&u, r) } else { (&idle, idle_length) };
            state.features.entries[k * width..][..width].copy_from_slice(entries);
            state.features.lengths[k] = length;
            if birth {
                state.features.uses[k] = column.count as u64;
                let mut on: Vec<u64> = chosen.iter().zip(&column.on).filter(|(_, on)| **on).map(|(&row, _)| row).collect();
                on.sort_unstable();
                for (member, _) in members.iter().zip(&column.on).filter(|(_, on)| **on) {
                    ordered.totals.turn(k, &member.entries, &member.used, 1.0);
                }
                course.change(Change::Column { feature: state.features.ids[k], rows: on });
            } else {
                state.features.uses[k] = 0;
                ordered.totals.clear(k);
            }
            course.changed();
        }
        ordered.forget(state);
        Ok(accepted)
    }
}

/// A row of the attempt: its entries, and the places of the features that it uses.
struct Member {
    entries: Vec<f64>,
    used: Vec<usize>,
}

impl Member {
    fn of(gathered: &Gathered, told: &[usize]) -> Self {
        Self { entries: gathered.entries.clone(), used: gathered.used.iter().map(|&at| told[at as usize]).collect() }
    }
}
