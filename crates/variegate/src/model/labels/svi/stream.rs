//! What is kept of rows that are gone: averaged sums, and how far each label has come.

use serde::{Deserialize, Serialize};

use super::StepSize;
use crate::Result;
use crate::model::labels::label_part::{LabelFactors, LabelPart, widened};
use crate::model::labels::logit;
use crate::model::labels::mixture::{Factors, Mixture, Sums};
use crate::model::labels::settings::HistoryKind;

/// What a fit keeps to go on with further rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stream {
    /// Averaged sums, scaled up to all rows.
    pub(crate) sums: Sums,
    /// The same of a label that is absent in all rows, under Böhning's bound; empty unless new labels will ask for it.
    pub(crate) past: logit::Stats,
    /// Steps, and rows that the sums stand for.
    pub(crate) clock: Clock,
    /// The same of each label, since it came.
    pub(crate) labels: Vec<Clock>,
}

/// Steps that were made, and rows that they stand for.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Clock {
    pub(crate) steps: u64,
    pub(crate) rows: f64,
}

impl Clock {
    /// (old, new) of the next step, with a minibatch of so many rows.
    fn next(&mut self, pace: StepSize, batch: f64) -> (f64, f64) {
        self.steps += 1;
        match pace {
            StepSize::Falling { delay, power } => {
                let rho = (self.steps as f64 + delay).powf(-power);
                (1.0 - rho, rho * self.rows / batch)
            }
            // the guess that a fit begins with is no rows
            StepSize::Decay(kept) => (if self.steps == 1 { 0.0 } else { kept }, 1.0),
        }
    }
}

impl Stream {
    /// Before any row of so many.
    pub(super) fn new(labels: usize, rows: usize) -> Self {
        let clock = Clock { steps: 0, rows: rows as f64 };
        Self { sums: Sums::default(), past: logit::Stats::default(), clock, labels: vec![clock; labels] }
    }

    /// So many further rows are about to come.
    pub(super) fn more_rows(&mut self, rows: usize) {
        for clock in self.labels.iter_mut().chain(std::iter::once(&mut self.clock)) {
            clock.rows += rows as f64;
        }
    }

    /// (old, new) of the next step: in common, and of each label.
    pub(super) fn next_step(&mut self, pace: StepSize, batch: f64) -> ((f64, f64), Vec<(f64, f64)>) {
        let common = self.clock.next(pace, batch);
        (common, self.labels.iter_mut().map(|clock| clock.next(pace, batch)).collect())
    }
}

impl super::State {
    /// Room for the labels that this mixture has more than the fit so far.
    pub(crate) fn add_labels(&mut self, mixture: &Mixture, history: HistoryKind, labels: usize) -> Result<()> {
        let (have, components) = (self.stream.labels.len(), self.q.components());
        if labels == have {
            return Ok(());
        }
        let Factors { labels: q, present, known, counts, .. } = &mut self.q;
        let Stream { sums, past, clock, labels: clocks } = &mut self.stream;
        q.add_labels(&mixture.labels, components);
        sums.labels.add_labels(components, labels);
        for table in [present, known, &mut sums.present.0, &mut sums.known.0] {
            *table = widened(table, components, labels, 0.0);
        }
        // rows since it came; where it was absent before, it is as old as the others
        let fresh = if history == HistoryKind::Negative { *clock } else { Clock::default() };
        clocks.resize(labels, fresh);
        if history == HistoryKind::Negative {
            for label in have..labels {
                match (&mixture.labels, &mut *q) {
                    (LabelPart::Rowwise(p), LabelFactors::Rowwise(q)) => p.was_absent(q, label, counts)?,
                    (LabelPart::Logit(p), _) => sums.labels.logit.was_absent(p, label, past)?,
                    _ => {}
                }
            }
        }
        match mixture.labels {
            LabelPart::Rowwise(_) => Ok(()),
            _ => mixture.labels.update(q, &sums.labels),
        }
    }
}
