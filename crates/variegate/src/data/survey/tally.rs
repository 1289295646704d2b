//! The answers of rows to one round of questions, for one block or for several that were merged.

use serde::{Deserialize, Serialize};

use super::probes::Probes;
use super::sources::SourceColumns;
use super::spread::{Spread, merge_spreads};
use super::{MOST_TRIALS, Questions};
use crate::Result;
use crate::data::design::{Mapped, Moments};
use crate::data::validate::Counts;
use crate::data::{Block, Header};

/// What some blocks report; `Default` is nothing.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Tally {
    pub(super) counts: Counts,
    pub(super) digest: u64,
    pub(super) not_whole: Option<u64>,
    pub(super) fractions: bool,
    pub(crate) columns: Vec<Spread>,
    pub(super) outcomes: Vec<Spread>,
    pub(super) sources: SourceColumns,
    pub(super) probes: Probes,
    pub(crate) features: Moments,
    pub(crate) squares: f64,
}

impl Tally {
    /// Checks a block and answers all that does not depend on other blocks.
    pub(crate) fn of(block: &Block<'_>, header: &Header, questions: &Questions) -> Result<Self> {
        let mut counts = Counts::default();
        counts.take(header, block, questions.needs)?;
        let whole = |w: f64| w.fract() == 0.0 && w <= MOST_TRIALS;
        let not_whole = block.weights.and_then(|w| w.iter().position(|w| !whole(*w))).map(|i| block.first_row + i as u64 + 1);
        let mut tally = Self { counts, digest: block.digest(header.target.width()), not_whole, ..Self::default() };
        tally.fractions = block.x.stored_values().iter().any(|v| v.fract() != 0.0);
        // those of balanced classes wait for the counts of all blocks
        if questions.columns && !questions.balanced {
            tally.columns = Spread::of_columns(block.x, |i| block.weight(i));
        }
        if header.outcomes() > 0 {
            tally.outcomes = Spread::of_outcomes(block.y.real(), header.outcomes(), |i| block.weight(i));
        }
        if questions.by_source.is_some() {
            tally.sources = SourceColumns::of(block, header.sources.as_ref().map_or(1, Vec::len));
        }
        tally.probes = Probes::of(block, questions.probes);
        Ok(tally)
    }

    /// Columns of a block whose rows also have the weights of their classes.
    pub(crate) fn of_columns(block: &Block<'_>, class_weight: &[f64]) -> Self {
        Self { columns: Spread::of_columns(block.x, row_weight(block, class_weight)), ..Self::default() }
    }

    /// Features of a block.
    pub(crate) fn of_features(block: &Block<'_>, mapped: &Mapped, class_weight: &[f64]) -> Self {
        Self { features: mapped.measure(block.x, row_weight(block, class_weight)), ..Self::default() }
    }

    /// Squares of the entries of a block that are not missing, around means: of all, or of each column in each source.
    pub(crate) fn of_squares(block: &Block<'_>, means: &[f64]) -> Self {
        let width = block.x.cols();
        let (mut squares, mut row) = (0.0, vec![0.0; width]);
        for i in 0..block.rows() {
            let source = block.sources.map_or(0, |s| s[i] as usize);
            row.fill(0.0);
            block.x.for_row(i, |m, v| row[m] = v);
            for (m, v) in row.iter().enumerate().filter(|(_, v)| !v.is_nan()) {
                let from = if means.len() == 1 { means[0] } else { means[source * width + m] };
                squares += (v - from) * (v - from);
            }
        }
        Self { squares, ..Self::default() }
    }

    pub(crate) fn merge(&mut self, right: Self) {
        self.counts.merge(right.counts);
        self.digest = self.digest.wrapping_add(right.digest);
        self.not_whole = self.not_whole.or(right.not_whole);
        self.fractions |= right.fractions;
        merge_spreads(&mut self.columns, right.columns);
        merge_spreads(&mut self.outcomes, right.outcomes);
        self.sources.merge(right.sources);
        self.probes.merge(right.probes);
        self.features.merge(right.features);
        self.squares += right.squares;
    }
}

/// Weight of each row, that of its class included.
fn row_weight<'a>(block: &'a Block<'_>, class_weight: &'a [f64]) -> impl Fn(usize) -> f64 + 'a {
    move |i| {
        let of_class = if class_weight.is_empty() { 1.0 } else { class_weight[block.y.classes()[i] as usize] };
        block.weight(i) * of_class
    }
}
