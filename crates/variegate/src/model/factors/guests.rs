//! New rows on their way from draw to draw.
//!
//! A row begins with the atoms that it used by the draw before, as far as the two draws have them both, so that a few scans do until it is at home.

use super::likelihood::{Entry, Likelihood};
use super::posterior::FactorsPosterior;
use super::stage::{Guest, Stage};
use crate::Result;
use crate::answer::PREDICT_PANEL;
use crate::data::Dataset;

/// Rows that were not in the fit.
pub(super) struct Guests<'a> {
    posterior: &'a FactorsPosterior,
    data: &'a Dataset<'a>,
    sources: &'a [u32],
    /// Share of the whole rows that was seen.
    exposure: f64,
    /// The rows, by panels.
    panels: Vec<Vec<Guest>>,
    /// The draw that they come from.
    last: Option<usize>,
}

impl<'a> Guests<'a> {
    pub(super) fn new(posterior: &'a FactorsPosterior, data: &'a Dataset<'a>, sources: &'a [u32], exposure: f64) -> Self {
        let panels = sources.chunks(PREDICT_PANEL).map(|part| vec![Guest::default(); part.len()]).collect();
        Self { posterior, data, sources, exposure, panels, last: None }
    }

    /// Draws the atoms of all rows by one draw: [`Stage::settle`].
    pub(super) fn visit<L: Likelihood>(
        &mut self,
        likelihood: &L,
        stage: &Stage<L>,
        counted: usize,
        each: usize,
        f: impl Fn(&mut [f64], &[f64], &L::Placing) + Sync,
    ) -> Result<Vec<f64>> {
        self.move_on(likelihood, stage.number as usize);
        let states = std::mem::take(&mut self.panels).into_iter().map(|guests| (guests, Vec::new())).collect();
        let parts = self.posterior.panels(self.data, self.sources, states, |(guests, out): &mut (Vec<Guest>, Vec<f64>), x, sources| {
            *out = stage.settle(likelihood, x, sources, self.exposure, guests, counted, each, &f)?;
            Ok(())
        })?;
        let (panels, parts): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        self.panels = panels;
        Ok(parts.concat())
    }

    /// From the atoms of the last draw to those of this one. Draws are matched by way of the reference draw; what an atom adds to a row stays the
    /// same.
    fn move_on<L: Likelihood>(&mut self, likelihood: &L, draw: usize) {
        let Some(last) = self.last.replace(draw) else { return };
        let posterior = self.posterior;
        let sizes = [last, draw].map(|d| posterior.sizes(likelihood, d, posterior.draws[d].atoms()));
        let mut to: Vec<Option<(u32, f64)>> = vec![None; sizes[0].len()];
        for (from, here) in posterior.same[last].iter().zip(&posterior.same[draw]) {
            if let (Some((k, _)), Some((l, _))) = (from, here) {
                let factor = sizes[0][*k] / sizes[1][*l];
                to[*k] = Some((*l as u32, if factor.is_finite() && factor > 0.0 { factor } else { 1.0 }));
            }
        }
        for guest in self.panels.iter_mut().flatten() {
            let there = guest.entries.len();
            let moved = |&(k, w): &Entry| to.get(k as usize).copied().flatten().map(|(l, factor)| (l, w * factor));
            guest.entries = guest.entries.iter().filter_map(moved).collect();
            guest.entries.sort_unstable_by_key(|e| e.0);
            guest.settled = guest.entries.len() == there;
        }
    }
}
