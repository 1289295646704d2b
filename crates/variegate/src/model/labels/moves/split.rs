//! One component becomes two. Rows keep what they have of it in all, and alternate with the factors in how the two share it.
//!
//! Responsibilities are not stored but found again in every visit: those of the split component by the frozen view under which rows were last
//! visited, the shares of the two children by a view of these two alone.

use rand::{Rng, RngExt};
use serde::{Deserialize, Serialize};

use super::super::label_part::LabelView;
use super::super::mixture::{Factors, Mixture, Scratch, Sums, View};
use super::MEMBER;
use crate::Result;
use crate::data::Block;
use crate::model::gathered::Gathered;

/// Global steps that children have, each followed by a visit.
const ALTERNATIONS: usize = 5;
/// Steps after which children that differ little are given up: most splits fail, and the rest of the steps would be for nothing.
const JUDGED: usize = 2;
/// A child with fewer rows has lost.
const LEAST_CHILD: f64 = 0.5;

/// A local step that changes nothing but how two children share their parent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Restricted {
    /// Tells what rows have of the parent, and of all other components.
    pub(crate) frozen: Box<View>,
    /// The parent's number, which is then the first child's; the second comes last.
    pub(crate) parent: usize,
    /// How children share.
    shares: Shares,
    /// Labels of all components, with the children.
    labels: Box<LabelView>,
}

/// How children share their parent.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Shares {
    /// Members go to the nearer of two rows, all else is halved.
    Nearer(Vec<f64>),
    /// As the expected log densities of the two say.
    Between(Box<View>),
}

/// Two rows among gathered ones, the second far from the first more likely than near (k-means++); none where all rows are the same.
pub(crate) fn seeds(gathered: &Gathered, rng: &mut impl Rng) -> Option<Vec<f64>> {
    let rows: Vec<&[f64]> = gathered.rows.iter().map(|(_, _, row)| &row[..]).collect();
    let first = *rows.get((rng.random::<f64>() * rows.len() as f64) as usize)?;
    let distance = |row: &&[f64]| row.iter().zip(first).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
    let distances: Vec<f64> = rows.iter().map(distance).collect();
    let mut left = rng.random::<f64>() * distances.iter().sum::<f64>();
    let chosen = distances.iter().position(|d| {
        left -= d;
        left < 0.0
    })?;
    Some([first, rows[chosen]].concat())
}

impl Restricted {
    /// The first step of a split: members go to the nearer of two seeds. `q` has components in the order of the frozen view.
    pub(crate) fn new(mixture: &Mixture, frozen: View, parent: usize, seeds: Vec<f64>, q: &mut Factors) -> Self {
        let children: Vec<usize> = (0..q.components()).chain([parent]).collect();
        // until the first global step both children have the pattern of their parent
        q.labels.permute(&children);
        Self { frozen: Box::new(frozen), parent, shares: Shares::Nearer(seeds), labels: Box::new(mixture.labels.view(&q.labels)) }
    }

    /// Children share as they do under q, which has them.
    fn follow(&mut self, mixture: &Mixture, q: &Factors) {
        let pair = [self.parent, q.components() - 1];
        let mut labels = q.labels.clone();
        labels.permute(&pair);
        let ln_weights = q.sticks.ln_weights();
        let components: Vec<_> = pair.iter().map(|&k| q.components[k].clone()).collect();
        self.shares = Shares::Between(Box::new(View {
            ln_weights: pair.iter().map(|&k| ln_weights[k]).collect(),
            table: mixture.kernel.expected(&components),
            labels: mixture.labels.view(&labels),
        }));
        *self.labels = mixture.labels.view(&q.labels);
    }

    /// Alternates global steps and visits. `visit` gives sums of the rows that are looked at, `complete` makes of them those that a global
    /// step needs. The sums of the last visit are given back; none if a child lost its rows, or if children look as if they
    /// were better merged again, by what features, weights and rates of labels say.
    pub(crate) fn alternate(
        &mut self,
        mixture: &Mixture,
        q: &mut Factors,
        visit: &mut dyn FnMut(&Self) -> Result<Sums>,
        complete: &dyn Fn(&Sums) -> Sums,
    ) -> Result<Option<Sums>> {
        let mut sums = visit(self)?;
        for alternation in 0..ALTERNATIONS {
            let counts = &sums.counts.0;
            if counts[self.parent].min(counts[counts.len() - 1]) < LEAST_CHILD {
                return Ok(None);
            }
            if alternation == JUDGED {
                let (features, labels) = mixture.gains(&sums, self.parent, counts.len() - 1)?;
                if features + labels > 0.0 {
                    return Ok(None);
                }
            }
            mixture.update_in_order(q, &complete(&sums))?;
            self.follow(mixture, q);
            sums = visit(self)?;
        }
        Ok(Some(sums))
    }
}

impl Mixture {
    /// The restricted local step and its sums.
    pub(crate) fn visit_restricted(&self, step: &Restricted, block: &Block<'_>, scratch: &mut Scratch) -> Sums {
        let Scratch { inputs, kernel, labels, r, other } = scratch;
        let y = block.y.labels();
        let (components, parent) = (step.frozen.ln_weights.len(), step.parent);
        self.with_block(&step.frozen.labels, block, inputs, |x, panel| {
            self.local(&step.frozen, x, panel, y, r, (kernel, labels));
            let mut first = vec![0.5; x.rows()];
            match &step.shares {
                Shares::Nearer(seeds) => self.each_nearest(seeds, x, |i, seed| {
                    if r[i * components + parent] > MEMBER {
                        first[i] = if seed == 0 { 1.0 } else { 0.0 };
                    }
                }),
                Shares::Between(view) => {
                    let mut shares = Vec::new();
                    self.local(view, x, panel, y, &mut shares, (kernel, labels));
                    first.iter_mut().zip(shares.chunks_exact(2)).for_each(|(f, s)| *f = s[0]);
                }
            }
            let mut children = Vec::with_capacity(x.rows() * (components + 1));
            for (r, first) in r.chunks_exact(components).zip(&first) {
                let from = children.len();
                children.extend_from_slice(r);
                children[from + parent] *= first;
                children.push(r[parent] - children[from + parent]);
            }
            self.sums_of(&step.labels, x, panel, y, &children, components + 1, (kernel, labels, other))
        })
    }
}
