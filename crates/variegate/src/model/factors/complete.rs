//! What the rest of rows of counts is expected to be, given a share of them.
//!
//! Given the atoms of a row and their weights the next count falls on a column with probability r / Σ r. That is linear in the shares of the atoms
//! in Σ r, so these are averaged over scans first, and meet the atoms once for each draw. Atoms that the row alone uses know its columns.

use super::counts::{Counts, by_count};
use super::guests::Guests;
use super::likelihood::{Likelihood, Row};
use super::posterior::{DRAWS, FactorsPosterior};
use super::stage::Stage;
use crate::Result;
use crate::answer::PREDICT_PANEL;
use crate::data::{Dataset, X};
use crate::linalg::mul_t;
use crate::parallel;

/// Scans that count, for each draw.
const SCANS: usize = 10;
/// Entries of an atom are divided by their sum, or by this where it is smaller.
const SMALLEST_TOTAL: f64 = 1e-290;

impl Stage<Counts> {
    /// Adds Σ over the scans of r / Σ r of each row, from what [`super::counts::Placing::add_shares`] left of it: `each` numbers of a row.
    fn add_rates(&self, x: X<'_>, shares: &[f64], each: usize, width: usize, out: &mut [f64]) {
        let count = self.count;
        let panel = |at: usize, (shares, out): (&[f64], &mut [f64])| {
            // always as many rows: what is said of a row must not depend on how many come with it
            let mut weights = vec![0.0; PREDICT_PANEL * count];
            for (own, row) in weights.chunks_exact_mut(count.max(1)).zip(shares.chunks_exact(each)) {
                for ((own, share), total) in own.iter_mut().zip(row).zip(&self.view.totals) {
                    *own = share / total.max(SMALLEST_TOTAL);
                }
            }
            let mut rates = vec![0.0; PREDICT_PANEL * width];
            if count > 0 {
                mul_t(&weights, &self.view.by_column, &mut rates, PREDICT_PANEL, count, width, false);
            }
            let mut columns = Vec::new();
            for (i, ((out, rates), row)) in
                out.chunks_exact_mut(width).zip(rates.chunks_exact(width)).zip(shares.chunks_exact(each)).enumerate()
            {
                out.iter_mut().zip(rates).for_each(|(o, r)| *o += r + row[count] / width as f64);
                by_count(Row { x, at: at * PREDICT_PANEL + i, source: 0, filled: &[] }, &mut columns);
                columns.iter().zip(&row[count + 1..]).for_each(|((m, _), share)| out[*m as usize] += share);
            }
        };
        parallel::map(shares.chunks(PREDICT_PANEL * each).zip(out.chunks_mut(PREDICT_PANEL * width)), panel);
    }
}

impl FactorsPosterior {
    /// Rows of counts, of which the share `exposure` was seen: the probabilities of their columns.
    pub(super) fn completed(&self, data: &Dataset<'_>, exposure: f64) -> Result<Vec<f64>> {
        let likelihood = &self.schema.counts(&self.settings);
        let (sources, width) = (self.sources_of(data), likelihood.width());
        let stages = self.stages(likelihood, &sources, DRAWS)?;
        let mut guests = Guests::new(self, data, &sources, exposure);
        let mut out = vec![0.0; data.rows() * width];
        let x = data.x.view();
        let not_zero = |i: usize| {
            let mut n = 0;
            x.for_row(i, |_, v| n += usize::from(v > 0.0));
            n
        };
        let most = (0..data.rows()).map(not_zero).max().unwrap_or(0);
        for (_, stage) in &stages {
            let each = stage.count + 1 + most;
            let shares = guests.visit(likelihood, stage, SCANS, each, |out, _, row| row.add_shares(stage.view(), width, out))?;
            stage.add_rates(x, &shares, each, width, &mut out);
        }
        let times = (stages.len() * SCANS) as f64;
        out.iter_mut().for_each(|v| *v /= times);
        Ok(out)
    }
}
