//! Rows under the draws of a tree: class probabilities of many draws at a time, and log likelihoods.

use std::borrow::Cow;

use super::super::tree::Child;
use super::super::walk::Walk;
use super::Gibbs;
use super::posterior::DrawsPosterior;
use crate::answer::{
    ClassDraws, DrawScores, RowLikelihood, RowLikelihoods, check_prediction_rows, chosen, gather, known_classes, ln_likelihoods,
};
use crate::data::{DataError, Dataset, Design, Target};
use crate::linalg::wide;
use crate::special::lanes::{LANES, Lane, each, exponentials};
use crate::{Error, Result};

/// Draws of a tree.
pub(super) struct Tree<'a> {
    pub(super) of: &'a DrawsPosterior,
    pub(super) program: &'a Gibbs,
    /// Class of each leaf.
    pub(super) class: Vec<usize>,
}

/// Room to work in.
#[derive(Default)]
pub(super) struct Room {
    /// Logits of one row.
    row: Vec<f64>,
    z: Vec<Lane>,
    reach: Vec<Lane>,
    classes: Vec<Lane>,
    walk: Walk,
}

impl DrawScores for Tree<'_> {
    fn design(&self) -> &Design {
        &self.of.schema.design
    }

    fn draws(&self) -> usize {
        self.of.draws()
    }

    fn scores(&self) -> usize {
        self.program.layout.vectors()
    }

    fn weights(&self, draws: &[usize]) -> Cow<'_, [f64]> {
        chosen(&self.of.vectors, self.program.layout.vectors() * self.program.layout.dim, draws)
    }
}

impl ClassDraws for Tree<'_> {
    type Work = Room;

    fn classes(&self) -> usize {
        self.of.schema.classes.len()
    }

    fn probabilities(&self, scores: &mut [f64], out: &mut [f64], room: &mut Room) {
        let (layout, k) = (&self.program.layout, self.classes());
        let vectors = layout.vectors();
        room.row.resize(layout.logits, 0.0);
        room.z.resize(layout.logits, [0.0; LANES]);
        room.reach.resize(layout.nodes.len(), [1.0; LANES]);
        room.classes.resize(k, [0.0; LANES]);
        for (scores, out) in scores.chunks(LANES * vectors).zip(out.chunks_mut(LANES * k)) {
            for l in 0..LANES {
                // lanes without a draw repeat the first
                let m = &scores[(if l * k < out.len() { l } else { 0 }) * vectors..][..vectors];
                for node in &layout.nodes {
                    node.logits_of(&m[node.at_units()], &mut room.row[node.at_logits()]);
                }
                room.z.iter_mut().zip(&room.row).for_each(|(z, v)| z[l] = *v);
            }
            wide(
                #[inline(always)]
                || self.descend(room),
            );
            for (l, out) in out.chunks_exact_mut(k).enumerate() {
                out.iter_mut().zip(&room.classes).for_each(|(o, c)| *o = c[l]);
            }
        }
    }

    fn ln_likelihoods(&self, scores: &mut [f64], class: u32, out: &mut [f64], room: &mut Room) {
        let layout = &self.program.layout;
        room.walk.resize(layout);
        for (m, out) in scores.chunks_exact(layout.vectors()).zip(out) {
            self.program.ready(m, &[], |_| 0.0, &mut [], &mut room.walk);
            *out = room.walk.up(layout, class, 1.0);
        }
    }
}

impl Tree<'_> {
    /// Class probabilities from the logits of sixteen draws.
    #[inline(always)]
    fn descend(&self, room: &mut Room) {
        let layout = &self.program.layout;
        let Room { z, reach, classes, .. } = room;
        classes.fill([0.0; LANES]);
        reach[0] = [1.0; LANES];
        for (v, node) in layout.nodes.iter().enumerate() {
            let z = &mut z[node.first_logit..node.first_logit + node.children.len()];
            let (_, sum) = exponentials(z);
            let share = each(|l| reach[v][l] / sum[l]);
            for (child, z) in node.children.iter().zip(z.iter()) {
                match child {
                    Child::Node(below) => reach[*below] = each(|l| share[l] * z[l]),
                    Child::Leaf(below) => {
                        let class = &mut classes[self.class[*below]];
                        *class = each(|l| class[l] + share[l] * z[l]);
                    }
                }
            }
        }
    }
}

impl RowLikelihoods for DrawsPosterior {
    fn row_likelihoods(&self, data: &Dataset<'_>) -> Result<RowLikelihood> {
        check_prediction_rows(data, self.schema.design.raw_cols, &self.schema.columns)?;
        let program = self.program();
        let (tree, lengths, outputs) = (self.tree(&program), self.lengths.clone(), self.outputs());
        if outputs == 0 {
            let classes = known_classes(data, &self.schema.classes)?;
            return Ok(RowLikelihood { lengths, ln: ln_likelihoods(&tree, data, &classes) });
        }
        let values = match &data.target {
            Target::Real { width, values } if *width == outputs => values,
            Target::Real { width, .. } => {
                return Err(Error::Unfit(format!("the model was fitted to {outputs} outcomes, but these data have {width}")));
            }
            _ => return Err(DataError::NoTarget.into()),
        };
        let (layout, s) = (&program.layout, &self.schema);
        let each = layout.gaussians() * outputs;
        // a density of the outcomes as given, not as standardised
        let ln_scale: f64 = s.y_scale.iter().map(|s| s.ln()).sum();
        let ln = gather(&tree, data, |mut scored, out, (walk, residual): &mut (Walk, Vec<f64>)| {
            walk.resize(layout);
            residual.resize(each, 0.0);
            let (first, draws) = (scored.first, scored.draws);
            for i in 0..scored.count {
                let outcome = |q: usize| (values[(first + i) * outputs + q] - s.y_mean[q]) / s.y_scale[q];
                for (m, draw) in scored.row(i).chunks_exact(layout.vectors()).zip(draws) {
                    program.ready(m, &self.noise[draw * each..(draw + 1) * each], outcome, residual, walk);
                    out.push(walk.up(layout, 0, 1.0) - ln_scale);
                }
            }
        });
        Ok(RowLikelihood { lengths, ln })
    }
}
