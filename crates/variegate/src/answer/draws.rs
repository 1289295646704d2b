//! Draws of chains as a posterior reads them back, and the table that says how sure they are.

use super::{ColumnKind, Fact, SummaryTable};
use crate::diagnostics::{Convergence, by_chain, convergence, summarise};
use crate::run::Piece;
use crate::{Error, Result};

/// The chains of a run that have draws.
#[derive(Clone)]
pub struct KeptDraws<'a> {
    chains: Vec<&'a Piece>,
}

impl<'a> KeptDraws<'a> {
    /// Those that have draws; an error if none has.
    pub fn of(chains: &'a [Piece]) -> Result<Self> {
        let chains: Vec<&Piece> = chains.iter().filter(|c| c.draws.count > 0).collect();
        if chains.is_empty() {
            return Err(Error::Unfit("the run has no draws yet, it was stopped during its warm-up: resume it".into()));
        }
        Ok(Self { chains })
    }

    /// The chains.
    pub fn chains(&self) -> &[&'a Piece] {
        &self.chains
    }

    /// Draws of each chain.
    pub fn lengths(&self) -> Vec<usize> {
        self.chains.iter().map(|c| c.draws.count as usize).collect()
    }

    /// A vector of every draw, one after the other, chain after chain; it must have this width. Draws need not have one of width 0.
    pub fn vectors(&self, name: &str, width: usize) -> Result<Vec<f64>> {
        let mut out = Vec::new();
        for table in self.chains.iter().map(|c| &c.draws.scalars) {
            match table.find(name) {
                Some((at, found)) if found == width => {
                    out.extend(table.values.chunks_exact(table.width()).flat_map(|row| &row[at..at + width]));
                }
                None if width == 0 => {}
                _ => {
                    return Err(Error::Unfit(format!(
                        "the draws have no column `{name}` of {width} number(s): they belong to another model"
                    )));
                }
            }
        }
        Ok(out)
    }

    /// A number of every draw.
    pub fn numbers(&self, name: &str) -> Result<Vec<f64>> {
        self.vectors(name, 1)
    }

    /// A number of every draw, where draws have it.
    pub fn optional(&self, name: &str) -> Option<Vec<f64>> {
        self.vectors(name, 1).ok()
    }
}

/// Numbers of at most `most` of `count` draws, evenly spaced.
pub(crate) fn evenly(count: usize, most: usize) -> Vec<usize> {
    let take = most.min(count);
    (0..take).map(|i| (2 * i + 1) * count / (2 * take)).collect()
}

/// Mean, spread and diagnostics of quantities, and what they say of the chains together.
pub struct DrawTable<'a> {
    lengths: &'a [usize],
    table: SummaryTable,
    judged: Vec<(String, crate::diagnostics::Summary)>,
}

impl<'a> DrawTable<'a> {
    /// A table without rows, of chains of these lengths.
    pub fn new(name: &str, lengths: &'a [usize]) -> Self {
        use ColumnKind::{Diagnostic, Number};
        let columns = [
            ("mean", Number),
            ("sd", Number),
            ("5%", Number),
            ("95%", Number),
            ("ESS bulk", Diagnostic),
            ("ESS tail", Diagnostic),
            ("R-hat", Diagnostic),
        ];
        Self { lengths, table: SummaryTable::new(name, columns), judged: Vec::new() }
    }

    /// Adds a quantity: a number a draw, chain after chain.
    pub fn row(&mut self, name: impl Into<String>, values: &[f64]) {
        let name = name.into();
        let s = summarise(&by_chain(values, self.lengths));
        self.table.rows.push((name.clone(), vec![s.mean, s.sd, s.q5, s.q95, s.ess_bulk, s.ess_tail, s.r_hat]));
        self.judged.push((name, s));
    }

    /// Adds a quantity that some draws do not have (NaN): mean and spread over the others, and no diagnostics.
    pub fn partial_row(&mut self, name: impl Into<String>, values: &[f64]) {
        let there: Vec<f64> = values.iter().copied().filter(|v| !v.is_nan()).collect();
        let s = summarise(&[there]);
        self.table.rows.push((name.into(), vec![s.mean, s.sd, s.q5, s.q95, f64::NAN, f64::NAN, f64::NAN]));
    }

    /// Judges the chains by a quantity that is not shown.
    pub fn judge(&mut self, name: impl Into<String>, values: &[f64]) {
        self.judged.push((name.into(), summarise(&by_chain(values, self.lengths))));
    }

    /// The table, and whether the chains agree.
    pub fn finish(self) -> (SummaryTable, Convergence) {
        let verdict = convergence(self.judged.iter().map(|(n, s)| (n.as_str(), s)), self.lengths.len());
        (self.table, verdict)
    }

    /// How many draws and chains there are.
    pub fn facts(lengths: &[usize]) -> [Fact; 2] {
        [Fact::count("draws", lengths.iter().sum()), Fact::count("chains", lengths.len())]
    }
}
