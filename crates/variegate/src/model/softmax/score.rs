//! What a fit is worth: the criteria of `criterion.rs`, computed once at the end of a job.

use std::borrow::Cow;

use super::criterion::{Criterion, Scores};
use super::job::State;
use super::layout::{Layout, components};
use super::map::Objective;
use super::pass::ask::Ask;
use super::program::Vb;
use super::symmetry;
use super::tree::Structure;
use crate::run::Rows;
use crate::score::Losses;
use crate::{Error, Result};

/// Penalty of the maximum that BIC is taken at: next to none.
const ML_PENALTY: f64 = 1e-6;
/// Names the draws of scores. All fits share them, so that the same fit scores the same and a search cannot go round in circles after noise.
const KEY: u64 = 0;

impl Vb {
    /// Scores of a finished job.
    pub(crate) fn score(&self, state: &State, rows: &mut dyn Rows<Self>) -> Result<Scores> {
        let layout = self.layout(&state.tree);
        let mut scores = Scores {
            elbo: f64::NAN,
            ln_symmetries: state.tree.ln_symmetries(),
            ln_effective: 0.0,
            effective_is_low: false,
            tight: None,
            bic: None,
            shares: Vec::new(),
            axes: Vec::new(),
            held_out: None,
        };
        if let Some(q) = &state.q {
            let failed = |e: crate::linalg::NotPositiveDefinite| Error::Numerical {
                what: "the covariance of the weights",
                sweep: state.ascents,
                detail: e.to_string(),
            };
            scores.elbo = state.bound;
            let (of, count) = components(&layout, &state.job.structure);
            scores.shares = vec![0.0; count];
            of.iter().zip(&state.stats.shares.0).for_each(|(c, s)| scores.shares[*c] += s);
            if state.job.fold.is_none() {
                let found = symmetry::ln_effective(&layout, &state.tree, &q.nodes, &state.basis, KEY).map_err(failed)?;
                (scores.ln_effective, scores.effective_is_low) = (found.value, found.is_low);
            }
            let predicting = self.predicting(&state.tree);
            let moments = q.moments(&predicting, &state.basis, 1.0).map_err(failed)?;
            if (state.job.fold.is_none() || self.search.is_guided())
                && self.search.splits()
                && !matches!(state.job.structure, Structure::Gates(_))
            {
                let view = q.view(&layout, &moments, &state.basis, 1.0, state.job.fold);
                let stats = rows.all(&Ask::Scatter { at: state.at(view), components: Cow::Borrowed(&of) })?;
                scores.axes = self.axes(&stats, count);
            }
            if state.job.score {
                let view = q.view(&predicting, &moments, &state.basis, 1.0, None);
                let stats = rows.all(&Ask::Tight { at: state.at(view), key: KEY })?;
                // everything in L but the rows' part stays
                let root = layout.nodes.first().zip(moments.nodes.first()).map_or(0.0, |(l, m)| state.root_term(l, m));
                let rest = state.bound - (state.stats.value.0 - root);
                scores.tight = stats.shares.0.first().map(|square| (rest + stats.value.0, square.sqrt()));
            }
            if state.job.fold.is_none() && self.search.criterion == Criterion::Loo {
                let view = q.view(&predicting, &moments, &state.basis, 1.0, None);
                let stats = rows.all(&Ask::Loo { at: state.at(view), key: KEY })?;
                scores.held_out = Some(Losses { ln_likelihood: stats.value.0, errors: f64::NAN, weight: stats.shares.0[0] });
            }
            if state.job.fold.is_some() {
                let view = q.view(&predicting, &moments, &state.basis, 1.0, state.job.fold);
                let stats = rows.all(&Ask::HeldOut(state.at(view)))?;
                scores.held_out = Some(Losses { ln_likelihood: stats.value.0, errors: stats.shares.0[0], weight: stats.shares.0[1] });
            }
        }
        if state.job.score {
            scores.bic = Some(self.bic(&layout, state, rows)?);
        }
        Ok(scores)
    }

    /// Maximum of the log likelihood and BIC.
    fn bic(&self, layout: &Layout, state: &State, rows: &mut dyn Rows<Self>) -> Result<(f64, f64)> {
        let objective = Objective { program: self, tree: &state.tree, fold: None, penalty: ML_PENALTY };
        let start = state.maximum.as_ref().map_or_else(|| state.parameters(self), |m| m.at.clone());
        let found = objective.search(rows, &start, 1000)?;
        let total: f64 = self.counts.iter().sum();
        let best = objective.ln_likelihood(rows, &found.x)? - total * self.ln_scale();
        let dim = layout.dim;
        let free = layout.nodes.iter().map(|n| (n.width() - 1) * dim).sum::<usize>() + layout.gaussians() * layout.outputs * (dim + 1);
        Ok((best, best - 0.5 * free as f64 * total.ln() + state.tree.ln_symmetries()))
    }
}
