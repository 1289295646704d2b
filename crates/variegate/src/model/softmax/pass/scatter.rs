//! Where the rows of each component lie, and along which axis they vary most: how a component could be split.

use super::super::criterion::Axis;
use super::super::layout::Layout;
use super::super::program::Vb;
use super::Scratch;
use super::ask::{TreeStats, View};
use crate::data::design::packed_len;
use crate::linalg::dot;
use crate::run::{Block, Sum};

/// Up to so many columns the leading axis of a component is that of its whole scatter, beyond them the column that varies most.
const FULL_SCATTER: usize = 512;

impl Vb {
    /// Shares of the rows of a block in each leaf's component, with sums of x̃ and x̃x̃ᵀ.
    pub(crate) fn visit_scatter(
        &self,
        layout: &Layout,
        view: &View<'_>,
        of: &[usize],
        block: &Block<'_>,
        scratch: &mut Scratch,
    ) -> TreeStats {
        let count = of.iter().max().map_or(0, |last| last + 1);
        let full = layout.dim <= FULL_SCATTER;
        let len = if full { packed_len(layout.dim) } else { layout.dim };
        let mut stats = TreeStats {
            curvature: Sum(vec![0.0; count * len]),
            gradient: Sum(vec![0.0; count * layout.dim]),
            shares: Sum(vec![0.0; count]),
            ..TreeStats::default()
        };
        let mut shares = Vec::new();
        self.for_view(layout, view, block, scratch, |mut rows| {
            self.solve_panel(layout, view, block, &mut rows);
            shares.clear();
            shares.resize(rows.rows * count, 0.0);
            for (i, shares) in shares.chunks_exact_mut(count).enumerate() {
                let w = rows.solved.weight[i];
                if w != 0.0 {
                    rows.walk_row(self, layout, view, block, i);
                    of.iter().zip(&rows.walk.leaf).for_each(|(c, p)| shares[*c] += w * p);
                }
            }
            for row in shares.chunks_exact(count) {
                stats.shares.0.iter_mut().zip(row).for_each(|(s, r)| *s += r);
            }
            let mut panel = rows.panel;
            panel.t_mul_add(&shares, count, &mut stats.gradient.0);
            if full {
                panel.weighted_grams_add(&shares, count, &mut stats.curvature.0);
            } else {
                panel.block_grams_add(1, &shares, count, &mut stats.curvature.0);
            }
        });
        stats
    }

    /// Leading axes from the sums of [`Vb::visit_scatter`].
    pub(crate) fn axes(&self, stats: &TreeStats, count: usize) -> Vec<Axis> {
        let dim = self.design.dim();
        let inputs = dim - usize::from(self.design.intercept);
        let len = stats.curvature.0.len() / count;
        (0..count)
            .map(|c| {
                let weight = stats.shares.0[c].max(f64::MIN_POSITIVE);
                let mean: Vec<f64> = stats.gradient.0[c * dim..c * dim + inputs].iter().map(|s| s / weight).collect();
                let sums = &stats.curvature.0[c * len..(c + 1) * len];
                let (direction, variance) = if len == packed_len(dim) && inputs > 0 {
                    let scatter: Vec<f64> = (0..inputs * inputs)
                        .map(|at| {
                            let (i, j) = (at / inputs, at % inputs);
                            sums[packed_len(i.max(j)) + i.min(j)] / weight - mean[i] * mean[j]
                        })
                        .collect();
                    leading(&scatter, inputs)
                } else {
                    widest(&(0..inputs).map(|j| sums[j] / weight - mean[j] * mean[j]).collect::<Vec<_>>())
                };
                Axis { mean, direction, deviation: variance.max(0.0).sqrt() }
            })
            .collect()
    }
}

/// Leading eigenvector and eigenvalue of a symmetric matrix, by powers of it.
fn leading(a: &[f64], n: usize) -> (Vec<f64>, f64) {
    let diagonal: Vec<f64> = (0..n).map(|i| a[i * n + i]).collect();
    let (mut u, mut value) = widest(&diagonal);
    // not quite along a column, which may be an eigenvector itself
    u.iter_mut().enumerate().for_each(|(i, u)| *u += 1e-3 * (1.0 + i as f64).sqrt().fract() + 1e-3);
    for _ in 0..200 {
        let next: Vec<f64> = a.chunks_exact(n).map(|row| dot(row, &u)).collect();
        let length = dot(&next, &next).sqrt();
        if !length.is_finite() || length <= 0.0 {
            return (widest(&diagonal).0, value.max(0.0));
        }
        let moved: f64 = next.iter().zip(&u).map(|(n, u)| (n / length - u).abs()).fold(0.0, f64::max);
        u = next.iter().map(|v| v / length).collect();
        value = length;
        if moved < 1e-9 {
            break;
        }
    }
    (u, value)
}

/// The column that varies most.
fn widest(variances: &[f64]) -> (Vec<f64>, f64) {
    let best = variances.iter().enumerate().fold(0, |best, (i, v)| if *v > variances[best] { i } else { best });
    let mut u = vec![0.0; variances.len()];
    if let Some(entry) = u.get_mut(best) {
        *entry = 1.0;
    }
    (u, variances.get(best).copied().unwrap_or(0.0))
}
