//! The bound of experts over more than two classes, and its slopes: eight rows side by side.
//!
//! A row has few classes and an expert few contrasts, too few for vector instructions; rows are many. Each row is summed up in the same
//! order as it would be alone, and the zeros of V are left out: its column j has entries in the first j + 1 classes only.

use super::rows::View;
use crate::model::experts::shape::Shape;
use crate::special::branchless::{exp, ln_1p};

/// Rows side by side.
const LANES: usize = 8;
type Lane = [f64; LANES];

/// What is found of the rows of a panel.
#[derive(Debug, Default)]
pub(super) struct ClassBounds {
    /// Bound of each expert, one row of numbers a row.
    pub(super) values: Vec<f64>,
    /// V'(1[y] − p) of each expert, in contrasts, likewise.
    pub(super) contrasts: Vec<f64>,
    means: Vec<Lane>,
    scores: Vec<Lane>,
}

impl ClassBounds {
    /// Bounds of all experts given â·x of all vectors, |x|² and the classes of some rows.
    #[inline(always)]
    pub(super) fn fill(&mut self, shape: &Shape, view: &View<'_>, products: &[f64], norms: &[f64], classes: &[u32]) {
        let (k, j, n) = (shape.experts, shape.rows(), norms.len());
        let vectors = k * j + shape.gates();
        let v = shape.contrasts();
        self.values.resize(n * k, f64::NAN);
        self.contrasts.resize(n * k * j, f64::NAN);
        self.means.resize(j, [0.0; LANES]);
        self.scores.resize(j + 1, [0.0; LANES]);
        let (means, scores) = (&mut self.means[..j], &mut self.scores[..j + 1]);
        for first in (0..n).step_by(LANES) {
            let rows = LANES.min(n - first);
            for e in 0..k {
                let (scale, intercepts) = (view.scale[e], &view.intercepts[e * j..(e + 1) * j]);
                let mut square = [0.0; LANES];
                for (r, (mean, intercept)) in means.iter_mut().zip(intercepts).enumerate() {
                    // what is beyond the last row stays zero, and is not read
                    let mut u = [0.0; LANES];
                    for (i, u) in u[..rows].iter_mut().enumerate() {
                        *u = products[(first + i) * vectors + e * j + r];
                    }
                    for i in 0..LANES {
                        square[i] += u[i] * u[i];
                        mean[i] = scale * u[i] + intercept;
                    }
                }
                let mut top = [f64::NEG_INFINITY; LANES];
                for (c, score) in scores.iter_mut().enumerate() {
                    *score = [0.0; LANES];
                    for (mean, v) in means.iter().zip(&v[c * j..(c + 1) * j]).skip(c.saturating_sub(1)) {
                        for i in 0..LANES {
                            score[i] += v * mean[i];
                        }
                    }
                    for i in 0..LANES {
                        top[i] = if score[i] > top[i] { score[i] } else { top[i] };
                    }
                }
                let mut own = [0.0; LANES];
                for (i, (own, class)) in own.iter_mut().zip(&classes[first..first + rows]).enumerate() {
                    *own = scores[*class as usize][i];
                }
                let mut sum = [0.0; LANES];
                for score in scores.iter_mut() {
                    for i in 0..LANES {
                        score[i] = exp(score[i] - top[i]);
                        sum[i] += score[i];
                    }
                }
                let mut ln_sum = [0.0; LANES];
                for i in 0..LANES {
                    // scores that are no numbers make no sum
                    let whole = sum[i] < f64::INFINITY;
                    let found = top[i] + ln_1p(if whole { sum[i] } else { 1.0 } - 1.0);
                    ln_sum[i] = if whole { found } else { f64::NAN };
                }
                for i in 0..rows {
                    let row = first + i;
                    let variance = view.isotropic[e] * norms[row] + (view.along[e] - scale * scale) * square[i] + view.variance[e];
                    self.values[row * k + e] = own[i] - ln_sum[i] - 0.125 * variance;
                }
                for r in 0..j {
                    let mut expected = [0.0; LANES];
                    for (c, score) in scores[..r + 2].iter().enumerate() {
                        let v = v[c * j + r];
                        for i in 0..LANES {
                            expected[i] += score[i] * v;
                        }
                    }
                    for i in 0..LANES {
                        expected[i] /= sum[i];
                    }
                    for (i, class) in classes[first..first + rows].iter().enumerate() {
                        self.contrasts[((first + i) * k + e) * j + r] = v[*class as usize * j + r] - expected[i];
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::special::log_sum_exp;

    /// As written down for one row and one expert, for numbers of rows that fill no tile.
    #[test]
    fn rows_side_by_side_are_as_rows_alone() {
        let pseudo = |len: usize, salt: f64| -> Vec<f64> { (0..len).map(|i| 2.0 * (salt + 1.3 * i as f64).sin()).collect() };
        for (k, classes, n) in [(1, 3, 1), (2, 3, 8), (3, 5, 13), (2, 6, 23)] {
            let shape = Shape::new(k, classes, 4, true);
            let (j, vectors) = (classes - 1, k * (classes - 1) + shape.gates());
            let (products, norms) = (pseudo(n * vectors, 0.3), pseudo(n, 1.1).iter().map(|v| v * v).collect::<Vec<_>>());
            let codes: Vec<u32> = (0..n).map(|i| (i * 7 % classes) as u32).collect();
            let positive = |salt: f64| pseudo(k + shape.gates(), salt).iter().map(|v| 0.5 + v * v).collect::<Vec<_>>();
            let view = View {
                directions: Vec::new().into(),
                intercepts: pseudo(vectors, 2.0).into(),
                scale: positive(0.1).into(),
                isotropic: positive(0.2).into(),
                along: positive(0.3).into(),
                variance: positive(0.4).into(),
            };
            let mut found = ClassBounds::default();
            found.fill(&shape, &view, &products, &norms, &codes);
            let v = shape.contrasts();
            for i in 0..n {
                for e in 0..k {
                    let u = &products[i * vectors + e * j..][..j];
                    let mean: Vec<f64> = (0..j).map(|r| view.scale[e] * u[r] + view.intercepts[e * j + r]).collect();
                    let scores: Vec<f64> = v.chunks_exact(j).map(|v| v.iter().zip(&mean).map(|(v, m)| v * m).sum()).collect();
                    let (class, whole) = (codes[i] as usize, log_sum_exp(&scores));
                    let squares: f64 = u.iter().map(|u| u * u).sum();
                    let variance = view.isotropic[e] * norms[i] + (view.along[e] - view.scale[e].powi(2)) * squares + view.variance[e];
                    let value = scores[class] - whole - variance / 8.0;
                    assert!((found.values[i * k + e] - value).abs() < 1e-12 * (1.0 + value.abs()), "{k} {classes} {i} {e}");
                    for r in 0..j {
                        let slope: f64 =
                            (0..classes).map(|c| (f64::from(u8::from(c == class)) - (scores[c] - whole).exp()) * v[c * j + r]).sum();
                        assert!((found.contrasts[(i * k + e) * j + r] - slope).abs() < 1e-12, "{k} {classes} {i} {e} {r}");
                    }
                }
            }
            // a score that is no number makes no bound, and no other row knows of it
            let (mut spoiled, before) = (products.clone(), found.values.clone());
            spoiled[0] = f64::NAN;
            found.fill(&shape, &view, &spoiled, &norms, &codes);
            assert!(found.values[0].is_nan() && found.values[1..] == before[1..]);
        }
    }
}
