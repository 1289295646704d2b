//! Weights without patterns: what classifiers beside a mixture need. Their bounds are found elsewhere, and come as curvatures and linear terms.

use super::{Chunk, LANES, Lanes, Rowwise, Scratch, Stats, View};
use crate::data::Panel;

impl Scratch {
    /// x̃ᵀm and x̃ᵀVx̃ (rows×C each), as [`Rowwise::moments`] found them.
    pub(crate) fn found(&self) -> (&[f64], &[f64]) {
        (&self.means, &self.spreads)
    }
}

impl Rowwise {
    /// x̃ᵀm and x̃ᵀVx̃ of all labels.
    pub(crate) fn moments(&self, view: &View, panel: &mut Panel<'_>, scratch: &mut Scratch) {
        self.read(view, panel, &[], scratch);
        let (labels, groups) = (self.prior.labels, view.groups.len());
        let Scratch { linear, means, spreads, .. } = scratch;
        means.clear();
        spreads.clear();
        for lanes in linear.chunks_exact(groups.max(1)) {
            means.extend((0..labels).map(|c| lanes[c / LANES][0][c % LANES]));
            spreads.extend((0..labels).map(|c| lanes[c / LANES][1][c % LANES]));
        }
    }

    /// Hands over the rows that [`Rowwise::moments`] has read, with the curvatures and linear terms of their labels (rows×C each, 0 where one
    /// is unknown). Squares of columns, which labels that were absent before ask for, are not: without patterns there are no such.
    pub(crate) fn hand_over(&self, curvatures: &[f64], responses: &[f64], stats: &mut Stats, scratch: &Scratch) {
        let labels = self.prior.labels;
        let by_groups = |table: &[f64]| -> Vec<Lanes> {
            let of_group = |group: usize| {
                table.chunks_exact(labels).map(move |row| {
                    let own = &row[group * LANES..labels.min((group + 1) * LANES)];
                    let mut lanes = [0.0; LANES];
                    lanes[..own.len()].copy_from_slice(own);
                    lanes
                })
            };
            (0..labels.div_ceil(LANES)).flat_map(of_group).collect()
        };
        stats.chunks.push(Chunk {
            ends: scratch.ends.clone(),
            columns: scratch.columns.clone(),
            values: scratch.values.clone(),
            weight: by_groups(curvatures),
            response: by_groups(responses),
            ..Chunk::default()
        });
    }
}
