//! What each row says when it is left out: criterion `loo`.
//!
//! The fit has seen all rows, so draws from q are weighed by 1/P(y_n | x_n, W) for the row that is left out, with the largest
//! weights smoothed ([`crate::diagnostics::Loo`]). What q thinks too certain, because it knows one arrangement of components and fitted
//! precisions, weighing cannot undo: with many weights a row the figure is too good (`bench/RESULTS.md`). Draws are those of `tight.rs`: logits of the row alone, named by its number.

use super::super::layout::Layout;
use super::super::program::Vb;
use super::Scratch;
use super::ask::{TreeStats, View};
use crate::Result;
use crate::diagnostics::Loo;
use crate::run::{Block, Sum};

impl Vb {
    /// Sum of the log densities of rows left out in `value`, and of their weights in the one entry of `shares`.
    pub(crate) fn visit_loo(
        &self,
        layout: &Layout,
        view: &View<'_>,
        key: u64,
        block: &Block<'_>,
        scratch: &mut Scratch,
    ) -> Result<TreeStats> {
        let (mut value, mut weight) = (0.0, 0.0);
        let ln_scale = self.ln_scale();
        self.for_draws(layout, view, key, block, scratch, |w, draws| {
            // of the outcomes as given, not as standardised
            value += w * (Loo::of_row(draws, 1.0).elpd - ln_scale);
            weight += w;
        })?;
        Ok(TreeStats { value: Sum(value), shares: Sum(vec![weight]), ..TreeStats::default() })
    }
}
