//! Missing entries of rows, filled in.
//!
//! Scans of a row draw its atoms, their weights and its missing entries in turn. Given atoms and weights a missing entry is Gaussian around
//! Σ φ w; its mean and its spread are averaged over scans and draws of the fit, which is less noisy than drawing it.

use super::gaussian::Gaussian;
use super::likelihood::Likelihood;
use super::posterior::{DRAWS, FactorsPosterior};
use super::stage::{COUNTED, Stage};
use crate::Result;
use crate::answer::Imputed;
use crate::data::{Dataset, X};

/// Sums over scans of the means of missing entries and of their mean squares, row-major on the scale that is modelled; 0 elsewhere.
#[derive(Debug, Clone, Default)]
struct Moments {
    first: Vec<f64>,
    second: Vec<f64>,
}

impl Stage<Gaussian> {
    fn impute(&self, likelihood: &Gaussian, x: X<'_>, sources: &[u32], out: &mut Moments) -> Result<()> {
        let width = likelihood.width();
        let mut fitted = vec![0.0; width];
        self.settle(likelihood, x, sources, 1.0, |i, entries| {
            let mut expected = false;
            likelihood.centre.for_missing(x, i, |_, m| {
                if !std::mem::replace(&mut expected, true) {
                    likelihood.expected(self.view(), sources[i] as usize, entries, &mut fitted);
                }
                out.first[i * width + m] += fitted[m];
                out.second[i * width + m] += fitted[m] * fitted[m] + 1.0 / self.scales.noise[sources[i] as usize];
            });
        })
    }
}

impl FactorsPosterior {
    /// Rows of real numbers with their missing entries filled in.
    pub(super) fn imputed(&self, data: &Dataset<'_>) -> Result<Imputed> {
        let likelihood = &self.schema.gaussian(&self.settings);
        let (sources, width, n) = (self.sources_of(data), self.schema.width, data.rows());
        let stages = self.stages(likelihood, &sources, DRAWS)?;
        let mut sums = Moments { first: vec![0.0; n * width], second: vec![0.0; n * width] };
        for (_, stage) in &stages {
            let start = |rows: usize| Moments { first: vec![0.0; rows * width], second: vec![0.0; rows * width] };
            let parts = self.panels(data, &sources, start, |out, x, sources| stage.impute(likelihood, x, sources, out))?;
            let add =
                |sum: &mut [f64], of: fn(&Moments) -> &Vec<f64>| sum.iter_mut().zip(parts.iter().flat_map(of)).for_each(|(s, v)| *s += v);
            add(&mut sums.first, |m| &m.first);
            add(&mut sums.second, |m| &m.second);
        }
        let (times, scale) = ((stages.len() * COUNTED) as f64, likelihood.centre.scale);
        let mut found = Imputed { values: data.x.to_dense(), deviation: vec![0.0; n * width] };
        for (at, value) in found.values.iter_mut().enumerate().filter(|(_, v)| v.is_nan()) {
            let mean = sums.first[at] / times;
            *value = likelihood.centre.means_of(sources[at / width] as usize)[at % width] + scale * mean;
            found.deviation[at] = scale * (sums.second[at] / times - mean * mean).max(0.0).sqrt();
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::super::gaussian::{Centre, Hyper, Scales};
    use super::*;
    use crate::data::Matrix;

    /// Mean and variance of a missing entry against the sum over the uses of two atoms. Given the uses, entries are Gaussian with
    /// covariance I/2 + 1.5 Σ φφᵀ. 1500 draws of ten scans: both within four standard errors.
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
            let stage = Stage { view: view.clone(), scales: scales.clone(), ln_odds, count: 2, number };
            let mut out = Moments { first: vec![0.0; 3], second: vec![0.0; 3] };
            stage.impute(&likelihood, rows.view(), &[0], &mut out).unwrap();
            assert_eq!((out.first[0], out.second[2]), (0.0, 0.0), "what was observed is left alone");
            firsts.push(out.first[1] / COUNTED as f64);
            seconds.push(out.second[1] / COUNTED as f64);
        }
        for (found, exact) in [(firsts, mean), (seconds, square)] {
            let n = found.len() as f64;
            let average = found.iter().sum::<f64>() / n;
            let error = (found.iter().map(|v| (v - average) * (v - average)).sum::<f64>() / n / n).sqrt();
            assert!((average - exact).abs() < 4.0 * error, "{average} ± {error} for {exact}");
        }
    }
}
