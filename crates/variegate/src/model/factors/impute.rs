//! Missing entries of rows, filled in.
//!
//! Scans of a row draw which atoms it uses, weights and missing entries integrated out. Given the atoms a missing entry is Gaussian; its mean
//! and its spread are averaged over scans and draws of the fit, which is less noisy than drawing it.

use super::gaussian::Gaussian;
use super::guests::Guests;
use super::likelihood::Likelihood;
use super::posterior::{DRAWS, FactorsPosterior};
use super::stage::Stage;
use crate::Result;
use crate::answer::Imputed;
use crate::data::Dataset;

/// Scans that count, for each draw.
const SCANS: usize = 5;

impl Stage<Gaussian> {
    /// Adds the means of missing entries to the first numbers of a row, and their mean squares to those after.
    fn add_moments(&self, out: &mut [f64], placing: &<Gaussian as Likelihood>::Placing) {
        let (first, second) = out.split_at_mut(out.len() / 2);
        placing.for_missing(self.view(), |m, mean, variance| {
            first[m] += mean;
            second[m] += mean * mean + variance;
        });
    }
}

impl FactorsPosterior {
    /// Rows of real numbers with their missing entries filled in.
    pub(super) fn imputed(&self, data: &Dataset<'_>) -> Result<Imputed> {
        let likelihood = &self.schema.gaussian(&self.settings);
        let (sources, width, n) = (self.sources_of(data), self.schema.width, data.rows());
        let stages = self.stages(likelihood, &sources, DRAWS)?;
        let mut guests = Guests::new(self, data, &sources, 1.0);
        let mut sums = vec![0.0; n * 2 * width];
        for (_, stage) in &stages {
            let own = guests.visit(likelihood, stage, SCANS, 2 * width, |out, _, row| stage.add_moments(out, row))?;
            sums.iter_mut().zip(&own).for_each(|(s, v)| *s += v);
        }
        let (times, scale) = ((stages.len() * SCANS) as f64, likelihood.centre.scale);
        let mut found = Imputed { values: data.x.to_dense(), deviation: vec![0.0; n * width] };
        for (at, value) in found.values.iter_mut().enumerate().filter(|(_, v)| v.is_nan()) {
            let (row, m) = (at / width, at % width);
            let [mean, square] = [0, width].map(|part| sums[2 * row * width + part + m] / times);
            *value = likelihood.centre.means_of(sources[row] as usize)[m] + scale * mean;
            found.deviation[at] = scale * (square - mean * mean).max(0.0).sqrt();
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::super::gaussian::{Centre, Hyper, Scales};
    use super::super::stage::Guest;
    use super::*;
    use crate::data::Matrix;

    /// Mean and variance of a missing entry against the sum over the uses of two atoms. Given the uses, entries are Gaussian with
    /// covariance I/2 + 1.5 Σ φφᵀ. 1500 draws of five scans: both within four standard errors.
    #[test]
    fn a_missing_entry_has_its_exact_moments() {
        let (a, b): ([f64; 3], [f64; 3]) = ([1.0, 0.5, -1.0], [0.3, -2.0, 0.4]);
        let (x, y) = (1.2, -1.0);
        let (mut total, mut first, mut second) = (0.0, 0.0, 0.0);
        for (za, zb, p) in [(0.0, 0.0, 0.28), (1.0, 0.0, 0.42), (0.0, 1.0, 0.12), (1.0, 1.0, 0.18)] {
            let c = |i: usize, j: usize| f64::from(u8::from(i == j)) * 0.5 + 1.5 * (za * a[i] * a[j] + zb * b[i] * b[j]);
            // entries 0 and 2 are seen, 1 is not
            let det = c(0, 0) * c(2, 2) - c(0, 2) * c(0, 2);
            let (u, v) = ((c(2, 2) * x - c(0, 2) * y) / det, (c(0, 0) * y - c(0, 2) * x) / det);
            let mean = c(1, 0) * u + c(1, 2) * v;
            let explained = (c(2, 2) * c(1, 0) * c(1, 0) - 2.0 * c(0, 2) * c(1, 0) * c(1, 2) + c(0, 0) * c(1, 2) * c(1, 2)) / det;
            let weight = p * (-0.5 * (x * u + y * v)).exp() / det.sqrt();
            total += weight;
            first += weight * mean;
            second += weight * (mean * mean + c(1, 1) - explained);
        }
        let (mean, square) = (first / total, second / total);
        let scales = Scales { atom: 1.0, weight: vec![1.0 / 1.5; 2], noise: vec![2.0; 2] };
        let centre = Centre { columns: 3, means: vec![0.0; 6], scale: 1.0, missing: true };
        let likelihood = Gaussian { centre, hyper: Hyper { shape: 1.0, rate: 1.0, fixed: None } };
        let view = likelihood.view(&[a, b].concat(), 2, &scales);
        let odds = |p: f64| (p / (1.0 - p)).ln();
        let rows = Matrix::dense(1, 3, vec![x, f64::NAN, y]);
        let (mut firsts, mut seconds) = (Vec::new(), Vec::new());
        for number in 0..1500 {
            let ln_odds = vec![odds(0.6), odds(0.3), odds(0.6), odds(0.3)];
            let stage = Stage { view: view.clone(), scales: scales.clone(), ln_odds, ln_own: Vec::new(), count: 2, number };
            let out =
                stage.settle(&likelihood, rows.view(), &[0], 1.0, &mut [Guest::default()], SCANS, 6, |out, _, p| stage.add_moments(out, p));
            let out = out.unwrap();
            assert_eq!((out[0], out[5]), (0.0, 0.0), "what was observed is left alone");
            firsts.push(out[1] / SCANS as f64);
            seconds.push(out[4] / SCANS as f64);
        }
        for (found, exact) in [(firsts, mean), (seconds, square)] {
            let n = found.len() as f64;
            let average = found.iter().sum::<f64>() / n;
            let error = (found.iter().map(|v| (v - average) * (v - average)).sum::<f64>() / n / n).sqrt();
            assert!((average - exact).abs() < 4.0 * error, "{average} ± {error} for {exact}");
        }
    }
}
