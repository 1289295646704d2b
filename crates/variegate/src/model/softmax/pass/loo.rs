//! What each row says when it is left out: criterion `loo`.
//!
//! The fit has seen all rows, so draws from q are weighed by 1/P(y_n | x_n, W) for the row that is left out, with the largest
//! weights smoothed ([`crate::diagnostics::Loo`]). What q thinks too certain, because it knows one arrangement of components and fitted
//! precisions, weighing cannot undo: with many weights a row the figure is too good (`bench/RESULTS.md`). Draws are those of `tight.rs`: logits of the row alone, named by its number.

use super::super::layout::Layout;
use super::super::program::{Vb, class_of};
use super::ask::{TreeStats, View};
use super::tight::Draws;
use super::{PanelView, Scratch};
use crate::Result;
use crate::diagnostics::Loo;
use crate::run::{Block, Purpose, Stream, Sum};

/// Antithetic pairs of draws of a row.
const PAIRS: usize = 100;

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
        let (vectors, forms) = (layout.vectors(), layout.forms);
        let stream = Stream::new(key, 0, Purpose::Score).sweep(1);
        let mut draws = Draws::new(layout, view)?;
        let (mut value, mut weight) = (0.0, 0.0);
        let mut column = Vec::with_capacity(2 * PAIRS);
        let y = self.outcomes(block);
        let ln_scale = self.ln_scale();
        self.for_view(layout, view, block, scratch, |rows| {
            let PanelView { first, rows: n, m, v, residual, walk, .. } = rows;
            for i in 0..n {
                let w = self.weight(block, first + i, view.fold);
                if w == 0.0 {
                    continue;
                }
                let (m, v) = (&m[i * vectors..(i + 1) * vectors], &mut v[i * forms..(i + 1) * forms]);
                y.residuals(first + i, &m[layout.units..], residual);
                let class = class_of(block, first + i);
                draws.prepare(layout, m, v);
                let mut rng = stream.item(block.first_row + (first + i) as u64).rng();
                column.clear();
                for _ in 0..PAIRS {
                    draws.draw(layout, &mut rng);
                    column.extend([1.0, -1.0].map(|sign| draws.ln_likelihood(layout, sign, residual, class, walk) - ln_scale));
                }
                value += w * Loo::of_row(&column, 1.0).elpd;
                weight += w;
            }
        });
        Ok(TreeStats { value: Sum(value), shares: Sum(vec![weight]), ..TreeStats::default() })
    }
}
