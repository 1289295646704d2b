//! Features of rows for the margin: `phi = (x - column means) f`, of codes centred indicators, missing cells 0, with f such that the root
//! of the mean squared norm of the training rows is 3 (or 1: raw), and a 1 at the end where nodes have intercepts. New rows are
//! moved by the means and the factor of the training rows.

use serde::{Deserialize, Serialize};

/// How rows become features.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Features {
    /// Mean of each feature over the cells that are observed.
    means: Vec<f64>,
    /// Number of codes of each column; 0 of a number.
    codes: Vec<usize>,
    factor: f64,
    intercept: bool,
}

impl Features {
    /// From training rows one after the other. `codes` has the number of codes of each column and 0 for numbers; `scale` is the root mean
    /// squared norm that is wanted, none leaves features as they are.
    pub(crate) fn new(x: &[f64], codes: &[usize], scale: Option<f64>, intercept: bool) -> Self {
        let columns = codes.len();
        let mut means = Vec::new();
        for (d, &j) in codes.iter().enumerate() {
            let column = || x.iter().skip(d).step_by(columns).copied().filter(|v| !v.is_nan());
            let n = (column().count() as f64).max(1.0);
            if j == 0 {
                let origin = column().next().unwrap_or(0.0);
                means.push(origin + column().map(|v| v - origin).sum::<f64>() / n);
            } else {
                means.extend((0..j).map(|code| column().filter(|&v| v == code as f64).count() as f64 / n));
            }
        }
        let mut features = Self { means, codes: codes.to_vec(), factor: 1.0, intercept: false };
        let mut squares = 0.0;
        let mut phi = Vec::new();
        for row in x.chunks_exact(columns.max(1)) {
            phi.clear();
            features.append(row, &mut phi);
            squares += phi.iter().map(|v| v * v).sum::<f64>();
        }
        let norm = (squares / (x.len() / columns.max(1)).max(1) as f64).sqrt();
        // features that are all 0 stay so
        if let Some(scale) = scale
            && norm > 0.0
        {
            features.factor = scale / norm;
        }
        features.intercept = intercept;
        features
    }

    /// Numbers of a row's features.
    pub(crate) fn width(&self) -> usize {
        self.means.len() + usize::from(self.intercept)
    }

    /// Appends the features of a row.
    pub(crate) fn append(&self, row: &[f64], out: &mut Vec<f64>) {
        let mut at = 0;
        for (&x, &j) in row.iter().zip(&self.codes) {
            let means = &self.means[at..at + j.max(1)];
            at += j.max(1);
            let known = !x.is_nan() && (j == 0 || x < j as f64);
            if !known {
                out.extend(means.iter().map(|_| 0.0));
            } else if j == 0 {
                out.push((x - means[0]) * self.factor);
            } else {
                out.extend(means.iter().enumerate().map(|(code, m)| (f64::from(x == code as f64) - m) * self.factor));
            }
        }
        if self.intercept {
            out.push(1.0);
        }
    }

    /// Features of rows one after the other.
    pub(crate) fn of(&self, x: &[f64]) -> Vec<f64> {
        let mut out = Vec::with_capacity(x.len() / self.codes.len().max(1) * self.width());
        x.chunks_exact(self.codes.len().max(1)).for_each(|row| self.append(row, &mut out));
        out
    }
}
