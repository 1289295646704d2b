//! Labels that come later: of earlier rows they are unknown, or were absent.

use super::{Factors, Logit, Stats, not_definite};
use crate::Result;
use crate::data::design::packed_len;
use crate::linalg::Cholesky;
use crate::special::sigmoid;

/// The one point of tangency u of Böhning's bound for many rows without a label, and u/4 − σ(u), what each adds to the linear term.
///
/// u is the mean of f over those rows: with s their sums of inputs and q = sᵀQ⁻¹s over their number, u = (u/4 − σ(u)) q, whose root is
/// negative. At u = 0 the label would seem far likelier than it was.
pub(super) fn point_of_absence(spread: f64) -> (f64, f64) {
    let pull = |u: f64| 0.25 * u - sigmoid(u);
    let (mut low, mut high) = (-60.0, 0.0);
    for _ in 0..200 {
        let u = 0.5 * (low + high);
        // u − pull(u) q rises through its root
        if u - pull(u) * spread > 0.0 {
            high = u;
        } else {
            low = u;
        }
    }
    let u = 0.5 * (low + high);
    (u, pull(u))
}

/// Q⁻¹ s for a precision Q (full, row-major).
pub(super) fn solved(precision: &[f64], s: &[f64], label: usize) -> Result<Vec<f64>> {
    let (factor, _) = Cholesky::with_jitter(s.len(), precision).map_err(|e| not_definite(label, &e))?;
    let mut solution = s.to_vec();
    factor.solve(&mut solution);
    Ok(solution)
}

impl Factors {
    /// Room for the labels that this part has more: their posterior is the prior.
    pub(crate) fn add_labels(&mut self, part: &Logit) {
        let fresh = part.start(self.components);
        let have = self.ln_det.len();
        let (width, size) = (self.width(part.dim), packed_len(self.width(part.dim)));
        self.mean.extend_from_slice(&fresh.mean[have * width..]);
        self.covariance.extend_from_slice(&fresh.covariance[have * size..]);
        self.ln_det.extend_from_slice(&fresh.ln_det[have..]);
        self.weight_precision.extend_from_slice(&fresh.weight_precision[have..]);
        self.pattern_precision.extend_from_slice(&fresh.pattern_precision[have..]);
    }
}

impl Stats {
    /// Room for so many labels in all; nothing was seen of those that are new.
    pub(crate) fn add_labels(&mut self, labels: usize) {
        let Some((have, ..)) = self.shape() else { return };
        for table in [&mut self.gram, &mut self.cross, &mut self.mass, &mut self.response, &mut self.pattern_response] {
            table.0.resize(table.0.len() / have * labels, 0.0);
        }
    }

    /// Takes a label as absent in the rows of `past`, sums of one label under Böhning's bound, whose curvatures are those of every label. The
    /// linear term is taken at one point of tangency for all rows.
    pub(crate) fn was_absent(&mut self, part: &Logit, label: usize, past: &Stats) -> Result<()> {
        let Some((_, components, dim)) = past.shape() else { return Ok(()) };
        let width = dim + components;
        // sums of the inputs are four times their products with the bias
        let bias = dim - 1;
        let mut sums: Vec<f64> = past.gram.0[packed_len(bias)..packed_len(dim)].iter().map(|v| 4.0 * v).collect();
        sums.extend(past.mass.0.iter().map(|v| 4.0 * v));
        let rows = sums[bias];
        if rows <= 0.0 {
            return Ok(());
        }
        let start = part.start(components);
        let packed = Logit { labels: 1, ..part.clone() }.data_precision(past, 0, components);
        let mut precision = vec![0.0; width * width];
        for i in 0..width {
            for j in 0..=i {
                precision[i * width + j] = packed[packed_len(i) + j];
                precision[j * width + i] = packed[packed_len(i) + j];
            }
            precision[i * width + i] += part.prior_precision(&start, label, i);
        }
        let solution = solved(&precision, &sums, label)?;
        let spread = sums.iter().zip(&solution).map(|(a, b)| a * b).sum::<f64>() / rows;
        let times = point_of_absence(spread).1;
        let size = packed_len(dim);
        self.gram.0[label * size..(label + 1) * size].copy_from_slice(&past.gram.0);
        self.cross.0[label * components * dim..(label + 1) * components * dim].copy_from_slice(&past.cross.0);
        self.mass.0[label * components..(label + 1) * components].copy_from_slice(&past.mass.0);
        for (out, s) in self.response.0[label * dim..(label + 1) * dim].iter_mut().zip(&sums) {
            *out = times * s;
        }
        for (out, s) in self.pattern_response.0[label * components..(label + 1) * components].iter_mut().zip(&sums[dim..]) {
            *out = times * s;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Form;
    use super::*;
    use crate::data::design::PanelScratch;
    use crate::data::{Design, Matrix};
    use crate::model::linear::bound::Bound;
    use crate::model::linear::gamma_factor::Precision;

    /// A label that no earlier row had, without columns: its posterior is the one that those rows give, each at its own point.
    #[test]
    fn absence_in_the_past_is_that_of_its_rows() {
        let part = Logit {
            labels: 1,
            dim: 1,
            intercept: true,
            bias_precision: 1.0,
            weight_precision: Precision::Fixed(1.0),
            pattern_precision: Precision::Fixed(1e7),
            bound: Bound::Bohning,
            form: Form::Full,
        };
        let (rows, design) = (300, Design::identity(0, true));
        let raw = Matrix::dense(rows, 0, Vec::new());
        let r: Vec<f64> = (0..rows).flat_map(|i| if i < 100 { [0.9, 0.1] } else { [0.0, 1.0] }).collect();
        let sums = |q: &Factors| {
            let (mut room, mut stats) = (PanelScratch::default(), Stats::default());
            part.add(&part.view(q), &mut design.panel(raw.view(), &mut room), &vec![0; rows], &r, &mut stats, &mut Default::default());
            stats
        };
        let mut exact = part.start(2);
        for _ in 0..3_000 {
            let stats = sums(&exact);
            part.update(&mut exact, &stats).unwrap();
        }
        let past = sums(&part.start(2));
        let mut stats = Stats::default();
        stats.reserve(1, 1, 2);
        stats.was_absent(&part, 0, &past).unwrap();
        let mut q = part.start(2);
        part.update(&mut q, &stats).unwrap();
        assert!((q.mean[0] - exact.mean[0]).abs() < 1e-4, "{} {}", q.mean[0], exact.mean[0]);
        assert!(q.covariance.iter().zip(&exact.covariance).all(|(a, b)| (a - b).abs() < 1e-12));
    }

    /// With no rows it is 0, and with more and more rows it falls.
    #[test]
    fn points_of_absence_are_roots() {
        let mut last = 0.0;
        for spread in [1e-9, 0.5, 2.0, 3.9, 3.9999] {
            let (u, pull) = point_of_absence(spread);
            assert!((u - pull * spread).abs() < 1e-9 && u < last);
            last = u;
        }
    }
}
