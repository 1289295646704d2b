//! The bound of an expert over more than two classes, and its slopes, of the rows of a tile.
//!
//! The zeros of V are left out: its column j has entries in the first j + 1 classes only.

use super::rows::View;
use crate::special::lanes::{LANES, Lane, each, exponentials, ln_sum};

/// Buffers.
#[derive(Debug, Default)]
pub(super) struct ClassBound {
    means: Vec<Lane>,
    scores: Vec<Lane>,
}

impl ClassBound {
    /// Makes room for j contrasts.
    pub(super) fn resize(&mut self, j: usize) {
        self.means.resize(j, [0.0; LANES]);
        self.scores.resize(j + 1, [0.0; LANES]);
    }

    /// The bound of expert `e` given â·x of its vectors, |x|², V and the contrasts of the rows' classes; `contrasts` become V'(1[y] − p).
    #[inline(always)]
    pub(super) fn fill(
        &mut self,
        view: &View<'_>,
        e: usize,
        v: &[f64],
        products: &[Lane],
        norm: &Lane,
        marks: &[Lane],
        contrasts: &mut [Lane],
    ) -> Lane {
        let j = products.len();
        let scale = view.scale[e];
        let (mut own, mut square) = ([0.0; LANES], [0.0; LANES]);
        for r in 0..j {
            let (u, mark, intercept) = (&products[r], &marks[r], view.intercepts[e * j + r]);
            let mean = each(|l| scale * u[l] + intercept);
            own = each(|l| own[l] + mark[l] * mean[l]);
            square = each(|l| square[l] + u[l] * u[l]);
            self.means[r] = mean;
        }
        for c in 0..=j {
            let mut sum = [0.0; LANES];
            for r in c.saturating_sub(1)..j {
                let (mean, v) = (&self.means[r], v[c * j + r]);
                sum = each(|l| sum[l] + v * mean[l]);
            }
            self.scores[c] = sum;
        }
        let (top, sum) = exponentials(&mut self.scores);
        let ln_sum = ln_sum(&top, &sum);
        let inverse = each(|l| 1.0 / sum[l]);
        for r in 0..j {
            let mut expected = [0.0; LANES];
            for c in 0..r + 2 {
                let (score, v) = (&self.scores[c], v[c * j + r]);
                expected = each(|l| expected[l] + score[l] * v);
            }
            contrasts[r] = each(|l| marks[r][l] - expected[l] * inverse[l]);
        }
        let (isotropic, along, variance) = (view.isotropic[e], view.along[e] - scale * scale, view.variance[e]);
        each(|l| own[l] - ln_sum[l] - 0.125 * (isotropic * norm[l] + along * square[l] + variance))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::experts::shape::Shape;
    use crate::special::log_sum_exp;

    /// As written down for one row and one expert.
    #[test]
    fn rows_side_by_side_are_as_rows_alone() {
        let pseudo = |len: usize, salt: f64| -> Vec<f64> { (0..len).map(|i| 2.0 * (salt + 1.3 * i as f64).sin()).collect() };
        let lanes = |of: &[f64], width: usize| -> Vec<Lane> { (0..width).map(|c| each(|l| of[l * width + c])).collect() };
        for (k, classes) in [(1, 3), (2, 3), (3, 5), (2, 6)] {
            let shape = Shape::new(k, classes, 4, true);
            let (j, vectors) = (classes - 1, k * (classes - 1));
            let (products, norms) = (pseudo(LANES * vectors, 0.3), each(|l| (1.1 + l as f64).sin().powi(2)));
            let codes: Vec<usize> = (0..LANES).map(|i| i * 7 % classes).collect();
            let positive = |salt: f64| pseudo(k, salt).iter().map(|v| 0.5 + v * v).collect::<Vec<_>>();
            let view = View {
                directions: Vec::new().into(),
                intercepts: pseudo(vectors, 2.0).into(),
                scale: positive(0.1).into(),
                isotropic: positive(0.2).into(),
                along: positive(0.3).into(),
                variance: positive(0.4).into(),
            };
            let v = shape.contrasts();
            let marks: Vec<Lane> = (0..j).map(|r| each(|l| v[codes[l] * j + r])).collect();
            let mut bound = ClassBound::default();
            bound.resize(j);
            let mut fill = |products: &[f64], e: usize| {
                let mut contrasts = vec![[0.0; LANES]; j];
                let own = &lanes(products, vectors)[e * j..(e + 1) * j];
                (bound.fill(&view, e, v, own, &norms, &marks, &mut contrasts), contrasts)
            };
            for e in 0..k {
                let (values, contrasts) = fill(&products, e);
                for l in 0..LANES {
                    let u = &products[l * vectors + e * j..][..j];
                    let mean: Vec<f64> = (0..j).map(|r| view.scale[e] * u[r] + view.intercepts[e * j + r]).collect();
                    let scores: Vec<f64> = v.chunks_exact(j).map(|v| v.iter().zip(&mean).map(|(v, m)| v * m).sum()).collect();
                    let whole = log_sum_exp(&scores);
                    let squares: f64 = u.iter().map(|u| u * u).sum();
                    let variance = view.isotropic[e] * norms[l] + (view.along[e] - view.scale[e].powi(2)) * squares + view.variance[e];
                    let value = scores[codes[l]] - whole - variance / 8.0;
                    assert!((values[l] - value).abs() < 1e-12 * (1.0 + value.abs()), "{k} {classes} {l} {e}");
                    for r in 0..j {
                        let slope: f64 =
                            (0..classes).map(|c| (f64::from(u8::from(c == codes[l])) - (scores[c] - whole).exp()) * v[c * j + r]).sum();
                        assert!((contrasts[r][l] - slope).abs() < 1e-12, "{k} {classes} {l} {e} {r}");
                    }
                }
                // a score that is no number makes no bound, and no other row knows of it
                let mut spoiled = products.clone();
                spoiled[e * j] = f64::NAN;
                let (found, _) = fill(&spoiled, e);
                assert!(found[0].is_nan() && found[1..] == values[1..]);
            }
        }
    }
}
