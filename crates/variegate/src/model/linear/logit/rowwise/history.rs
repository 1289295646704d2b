//! Labels that come later: of earlier rows they are unknown, or were absent.

use super::super::super::gamma_factor::GammaFactor;
use super::super::history::{point_of_absence, solved};
use super::{Factors, Group, LANES, Rowwise, kind};
use crate::Result;

impl Factors {
    /// Room for labels up to that many, their posterior being the prior.
    pub(crate) fn add_labels(&mut self, part: &Rowwise) {
        let fresh = part.start(self.components);
        let (have, want) = (self.weight_precision.len(), part.prior.labels);
        // a group that is not full has idle lanes already
        self.groups.extend(fresh.groups.into_iter().skip(self.groups.len()));
        self.weight_precision.extend(vec![part.prior.weight_precision.start(); want - have]);
        self.pattern_precision.extend(vec![part.prior.pattern_precision.start(); want - have]);
        for c in have..want {
            let (group, lane) = (&mut self.groups[c / LANES], c % LANES);
            part.reset(group, lane);
        }
    }
}

impl Rowwise {
    /// The prior of a label, as if no row had been seen.
    fn reset(&self, group: &mut Group, lane: usize) {
        for table in [&mut group.mean, &mut group.curvature, &mut group.linear] {
            table.iter_mut().for_each(|v| v[lane] = 0.0);
        }
        let (w, b) = (self.prior.weight_precision, self.prior.pattern_precision);
        group.prior[0][lane] = w.mean(w.start());
        group.prior[1][lane] = self.prior.bias_precision;
        group.prior[2][lane] = b.mean(b.start());
    }

    /// Takes a new label as absent in all rows before it, which had so many rows in each component. Bias and patterns answer for it, at one
    /// point of tangency for all these rows.
    pub(crate) fn was_absent(&self, q: &mut Factors, label: usize, counts: &[f64]) -> Result<()> {
        let rows: f64 = counts.iter().sum();
        let (group, lane) = (&mut q.groups[label / LANES], label % LANES);
        let dim = group.mean.len() - q.components;
        let width = 1 + counts.len();
        // bias and patterns alone: [[N, nᵀ], [n, diag n]]/4 and their priors
        let mut precision = vec![0.0; width * width];
        precision[0] = 0.25 * rows + group.prior[1][lane];
        for (k, n) in counts.iter().enumerate() {
            precision[(k + 1) * width] = 0.25 * n;
            precision[k + 1] = 0.25 * n;
            precision[(k + 1) * width + k + 1] = 0.25 * n + group.prior[2][lane];
        }
        let sums: Vec<f64> = std::iter::once(rows).chain(counts.iter().copied()).collect();
        let solution = solved(&precision, &sums, label)?;
        let spread = sums.iter().zip(&solution).map(|(a, b)| a * b).sum::<f64>() / rows;
        let times = point_of_absence(spread).1;
        for (j, square) in q.squares.iter().enumerate() {
            group.curvature[j][lane] = 0.25 * square;
        }
        for (k, n) in counts.iter().enumerate() {
            group.curvature[dim + k][lane] = 0.25 * n;
        }
        for (at, solution) in solution.iter().enumerate() {
            group.mean[dim - 1 + at][lane] = times * solution;
        }
        for i in 0..dim + counts.len() {
            group.linear[i][lane] = (group.prior[kind(i, dim)][lane] + group.curvature[i][lane]) * group.mean[i][lane];
        }
        let square = |i: usize| {
            let variance = 1.0 / (group.prior[kind(i, dim)][lane] + group.curvature[i][lane]);
            group.mean[i][lane].powi(2) + variance
        };
        let weights: f64 = (0..dim - 1).map(square).sum();
        let patterns: f64 = (dim..dim + counts.len()).map(square).sum();
        let posterior: (GammaFactor, GammaFactor) = (
            self.prior.weight_precision.posterior(self.prior.columns(), weights),
            self.prior.pattern_precision.posterior(counts.len(), patterns),
        );
        (q.weight_precision[label], q.pattern_precision[label]) = posterior;
        Ok(())
    }
}
