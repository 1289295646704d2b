//! Features that are expressed anew, which leaves the fit nearly as it is: shears and complements.

use rand::RngExt;

use super::Course;
use super::ask::{Change, Question};
use crate::Result;
use crate::linalg::dot;
use crate::model::features::state::State;
use crate::run::{Which, open01};

impl Course<'_> {
    /// Tells a feature that contains another apart from it, or puts them together: who uses the first uses the second if they did not, and the
    /// other way round, and the second is added to the first, or taken away. Whether it happened.
    pub(in crate::model::features) fn shear(&mut self, state: &mut State) -> Result<bool> {
        let (count, width) = (state.features.len(), self.sampler.width);
        if count < 2 {
            return Ok(false);
        }
        let j = self.rng.random_range(0..count);
        let k = (j + 1 + self.rng.random_range(0..count - 1)) % count;
        let added = self.rng.random_range(0..2) == 1;
        // features are ascending by name here, as rows are told of them
        let stats = self.ask(state, Question::Shear { whole: j as u32, part: k as u32, added }, Which::All)?;
        let more = stats.uses.0.first().copied().unwrap_or(0.0) as i64;
        let uses = state.features.uses[k] as i64 + more;
        if uses <= 0 {
            return Ok(false);
        }
        let (whole, part) = (state.features.weight(j), state.features.weight(k));
        let sign = if added { 1.0 } else { -1.0 };
        let next: Vec<f64> = whole.iter().zip(&part).map(|(w, p)| w + sign * p).collect();
        let (hyper, rows) = (&state.hyper, self.sampler.rows);
        let ln_ratio = -0.5 * stats.squares.0 / hyper.noise - 0.5 * (dot(&next, &next) - dot(&whole, &whole)) / hyper.spread
            + hyper.process.ln_pattern(uses as u64, rows)
            - hyper.process.ln_pattern(state.features.uses[k], rows);
        if open01(&mut self.rng).ln() >= ln_ratio {
            return Ok(false);
        }
        state.features.entries[j * width..][..width].copy_from_slice(&next);
        state.features.uses[k] = uses as u64;
        self.change(Change::Toggle { feature: state.features.ids[k], by: state.features.ids[j] });
        self.changed();
        Ok(true)
    }

    /// Turns a feature inside out: who used it does not, and the other way round; the intercept takes it in. Whether it happened.
    pub(in crate::model::features) fn complement(&mut self, state: &mut State) -> bool {
        let (count, width, rows) = (state.features.len(), self.sampler.width, self.sampler.rows);
        let Some(variance) = self.sampler.intercept.variance().filter(|_| count > 0) else { return false };
        let k = self.rng.random_range(0..count);
        let uses = state.features.uses[k];
        if uses == rows {
            return false;
        }
        let entries = state.features.weight(k);
        let next: Vec<f64> = state.intercept.iter().zip(&entries).map(|(b, w)| b + w).collect();
        let process = &state.hyper.process;
        let ln_ratio = process.ln_pattern(rows - uses, rows)
            - process.ln_pattern(uses, rows)
            - 0.5 * (dot(&next, &next) - dot(&state.intercept, &state.intercept)) / variance;
        if open01(&mut self.rng).ln() >= ln_ratio {
            return false;
        }
        state.intercept = next;
        state.features.entries[k * width..][..width].iter_mut().for_each(|w| *w = -*w);
        state.features.uses[k] = rows - uses;
        self.change(Change::Complement(state.features.ids[k]));
        self.changed();
        true
    }
}
