//! The order of things in a sweep. It is not free: whatever integrates probabilities of use out comes before they are drawn again, and
//! whatever integrates features out before these are.

use rand::{Rng, RngExt};
use std::borrow::Cow;

use super::ask::{Groups, Question};
use super::{Course, Totals};
use crate::Result;
use crate::model::features::settings::SamplerKind;
use crate::model::features::state::State;
use crate::run::Which;

type Extras = Vec<(String, f64)>;

/// Beyond so many features those in use are drawn together, and the others by themselves: together takes the square of their number in
/// memory.
const MOST_TOGETHER: usize = 1000;

/// One sweep; the figures of the state are set.
pub(super) fn sweep(course: &mut Course<'_>, state: &mut State, warm_up: bool) -> Result<Extras> {
    if let Some(angular) = &course.sampler.angular {
        return angular.sweep(course, state, warm_up);
    }
    match course.sampler.kind {
        SamplerKind::Anchored => anchored(course, state, warm_up),
        SamplerKind::RowSlice => row_slice(course, state),
        SamplerKind::Slice => slice(course, state),
    }
}

fn anchored(course: &mut Course<'_>, state: &mut State, warm_up: bool) -> Result<Extras> {
    let sampler = course.sampler;
    let owners = course.begin(state)?;
    course.scan_owned(state, owners, false)?;
    let mut sheared = 0;
    for _ in 0..sampler.shear {
        sheared += u64::from(course.shear(state)?);
    }
    let turned = (0..sampler.complement).filter(|_| course.complement(state)).count();
    let (splits, merges) = course.split_merge(state)?;
    course.groups(state, warm_up)?;
    let totals = course.totals(state)?;
    let ln_marginal = course.draw_weights(state, &totals)?;
    learn(course, state, &totals, ln_marginal)?;
    sampler.draw_chances(state, &mut course.rng)?;
    let named = |name: &str, count: f64| (name.to_string(), count);
    Ok(vec![
        named("splits", splits as f64),
        named("merges", merges as f64),
        named("shears", sheared as f64),
        named("complements", turned as f64),
    ])
}

fn row_slice(course: &mut Course<'_>, state: &mut State) -> Result<Extras> {
    course.begin(state)?;
    course.scan_heights(state)?;
    state.features.drop_unused();
    let totals = course.totals(state)?;
    let ln_marginal = course.draw_weights(state, &totals)?;
    learn(course, state, &totals, ln_marginal)?;
    course.sampler.draw_chances(state, &mut course.rng)?;
    Ok(Vec::new())
}

fn slice(course: &mut Course<'_>, state: &mut State) -> Result<Extras> {
    let sampler = course.sampler;
    course.begin(state)?;
    course.slice(state)?;
    course.scan_counted(state)?;
    state.features.forget();
    let (totals, ln_marginal) = if state.features.len() > MOST_TOGETHER {
        course.draw_weights_apart(state)?
    } else {
        let totals = course.totals_of_all(state)?;
        let ln_marginal = course.draw_weights(state, &totals)?;
        (totals, ln_marginal)
    };
    sampler.learn_mass_of_prefix(state, &mut course.rng)?;
    learn_rest(course, state, &totals, ln_marginal)?;
    if sampler.learn.discount.is_some() || sampler.learn.level.is_some() {
        // unused features are no part of what the shape of the process is learned from: they are dropped and drawn again
        state.features.drop_unused();
        sampler.learn_shape(state, &mut course.rng);
        sampler.draw_chances(state, &mut course.rng)?;
        course.fill(state)?;
    }
    Ok(Vec::new())
}

/// What governs features given them, and the figures of the state. Totals are in the order of the features, or of those in use alone.
fn learn(course: &mut Course<'_>, state: &mut State, totals: &Totals, ln_marginal: f64) -> Result<()> {
    course.sampler.learn_mass(state, &mut course.rng)?;
    learn_rest(course, state, totals, ln_marginal)?;
    course.sampler.learn_shape(state, &mut course.rng);
    Ok(())
}

fn learn_rest(course: &mut Course<'_>, state: &mut State, totals: &Totals, ln_marginal: f64) -> Result<()> {
    let sampler = course.sampler;
    let entries = if totals.count() == state.features.len() {
        state.features.entries.clone()
    } else {
        state.features.weights(&state.features.in_use())
    };
    let unexplained = course.unexplained(state, totals, &entries)?;
    // before the numbers change that features were integrated out with
    let columns = state.hyper.process.ln_columns(state.features.uses.iter().copied().filter(|&m| m > 0), sampler.rows);
    state.figures.ln_marginal = ln_marginal + columns + sampler.learn.ln_density(&state.hyper);
    sampler.learn_noise(state, unexplained, &mut course.rng)?;
    sampler.learn_spread(state, &mut course.rng)?;
    course.changed();
    state.figures.ln_likelihood = sampler.ln_likelihood(state, unexplained);
    state.figures.ln_joint = course.ln_joint(state, state.figures.ln_likelihood);
    Ok(())
}

impl Course<'_> {
    /// Births and deaths in groups of rows: one group in the warm-up, all later. Features that are new have no entries yet.
    pub(in crate::model::features) fn groups(&mut self, state: &mut State, single: bool) -> Result<()> {
        let sampler = self.sampler;
        if sampler.rows == 0 {
            return Ok(());
        }
        self.settle(state)?;
        let process = &state.hyper.process;
        let groups = Groups {
            uses: Cow::Owned(state.features.uses.clone()),
            size: sampler.group as u32,
            single,
            rows: sampler.rows,
            discount: process.discount,
            level: process.concentration + process.discount,
            private: process.ln_pattern(1, sampler.rows).exp(),
            spread: state.hyper.spread,
            room: sampler.most.saturating_sub(state.features.len()) as u64,
            sweep: self.sweep,
            salt: self.rng.next_u64(),
        };
        let stats = if single {
            // a block by its share of the rows
            let shape = self.rows.shape();
            let row = self.rng.random_range(0..shape.rows);
            let block = (row / shape.block_rows) as u32;
            self.ask(state, Question::Groups(groups), Which::Some(&[block]))?
        } else {
            self.ask(state, Question::Groups(groups), Which::All)?
        };
        for (k, change) in stats.uses.0.iter().enumerate() {
            state.features.uses[k] = (state.features.uses[k] as f64 + change) as u64;
        }
        let nothing = vec![0.0; sampler.width];
        for (id, uses) in stats.born.0 {
            state.features.push(id, (0.0, 0.0), uses, &nothing, None);
        }
        state.truncated |= stats.refused.0 > 0;
        state.features.drop_unused();
        self.changed();
        Ok(())
    }

    /// Adds the features that nobody uses above the smallest probability of one that is used.
    pub(in crate::model::features) fn fill(&mut self, state: &mut State) -> Result<()> {
        let least = state.features.ln_on.iter().copied().fold(0.0, f64::min);
        self.tail(state, 0.0, least)
    }
}
