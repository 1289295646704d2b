//! What a classifier that knows nothing is charged: scores of nodes independent `N(0, s^2)`, `s = nu0 |phi_n|`. With m siblings at a level
//! no violation is above t with probability `F_m(t) = int phi(a) Phi((t - eps0)/s + a)^m da`, so
//! `r_n = E exp(-2C xi) = int_0^inf 2C e^{-2Ct} prod_l F_{m_l}(t) dt`, 1 without siblings.
//!
//! r_n is DEFINED by Gauss-Laguerre with 24 points in `u = 2Ct` and Gauss-Hermite with 60 for F, tables up to m = 30 (more siblings count as
//! 30), and, for more than 64 different norms, the nearest of 64 that are log-spaced: any fixed positive function of tree and features
//! is a legal choice, so none of this costs exactness. Features that are 0 have `exp(-2C eps0)`: the charge they always get.

use super::Margin;
use crate::linalg;
use crate::special::{ln_norm_cdf, log_sum_exp};
use crate::{Error, Result};

const LAGUERRE: usize = 24;
const HERMITE: usize = 60;
const MOST_SIBLINGS: usize = 30;
const MOST_NORMS: usize = 64;

/// Tables of `ln F_m` at the points of the outer rule.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Calibration {
    /// Norms that have a table, ascending.
    pub(super) norms: Vec<f64>,
    /// Norms by m - 1 by points.
    ln_f: Vec<f64>,
    ln_weights: Vec<f64>,
    /// Table of each training row; none where the features are 0.
    pub(super) of: Vec<Option<usize>>,
    /// -2C eps0.
    ln_neutral: f64,
}

/// Points and weights of the rule whose orthogonal polynomials have this recurrence: eigenvalues of the symmetric tridiagonal matrix, and
/// squares of the first parts of its eigenvectors.
fn rule(points: usize, diagonal: impl Fn(usize) -> f64, beside: impl Fn(usize) -> f64) -> Result<(Vec<f64>, Vec<f64>)> {
    let mut matrix = vec![0.0; points * points];
    for i in 0..points {
        matrix[i * points + i] = diagonal(i);
        if i > 0 {
            matrix[i * points + i - 1] = beside(i);
            matrix[(i - 1) * points + i] = beside(i);
        }
    }
    let (vectors, values) = linalg::eigen(&matrix, points).ok_or_else(|| Error::Numerical {
        what: "the quadrature of the margin's calibration",
        sweep: 0,
        detail: "the eigenvalues of a fixed matrix were not found: use the target `stated`".into(),
    })?;
    Ok((values, (0..points).map(|j| vectors[j] * vectors[j]).collect()))
}

impl Calibration {
    /// For training rows with these norms of features. The margin's separation must be above 0.
    pub(crate) fn new(margin: &Margin, norms: &[f64]) -> Result<Self> {
        let (laguerre, weights) = rule(LAGUERRE, |i| 2.0 * i as f64 + 1.0, |i| i as f64)?;
        let (hermite, masses) = rule(HERMITE, |_| 0.0, |i| (i as f64).sqrt())?;
        let ln_masses: Vec<f64> = masses.iter().map(|w| w.ln()).collect();
        let mut tabled: Vec<f64> = norms.iter().copied().filter(|v| *v > 0.0).collect();
        tabled.sort_by(f64::total_cmp);
        tabled.dedup();
        if tabled.len() > MOST_NORMS {
            let (low, high) = (tabled[0].ln(), tabled[tabled.len() - 1].ln());
            tabled = (0..MOST_NORMS).map(|i| (low + (high - low) * i as f64 / (MOST_NORMS - 1) as f64).exp()).collect();
        }
        let mut ln_f = Vec::with_capacity(tabled.len() * MOST_SIBLINGS * LAGUERRE);
        let mut terms = vec![0.0; HERMITE];
        for norm in &tabled {
            let sd = margin.spread * norm;
            let start = ln_f.len();
            ln_f.resize(start + MOST_SIBLINGS * LAGUERRE, 0.0);
            for (q, u) in laguerre.iter().enumerate() {
                let away = (u / (2.0 * margin.separation) - margin.margin) / sd;
                let ln_cdf: Vec<f64> = hermite.iter().map(|a| ln_norm_cdf(away + a)).collect();
                for m in 1..=MOST_SIBLINGS {
                    for i in 0..HERMITE {
                        terms[i] = ln_masses[i] + m as f64 * ln_cdf[i];
                    }
                    ln_f[start + (m - 1) * LAGUERRE + q] = log_sum_exp(&terms);
                }
            }
        }
        let ln_weights = weights.iter().map(|w| w.ln()).collect();
        let mut found = Self { norms: tabled, ln_f, ln_weights, of: Vec::new(), ln_neutral: -2.0 * margin.separation * margin.margin };
        found.of = norms.iter().map(|norm| found.nearest(*norm)).collect();
        Ok(found)
    }

    /// The table for features of this norm, also those of new rows.
    fn nearest(&self, norm: f64) -> Option<usize> {
        if norm.is_nan() || norm <= 0.0 || self.norms.is_empty() {
            return None;
        }
        let after = self.norms.partition_point(|v| *v < norm);
        let near = |at: usize| (self.norms[at].ln() - norm.ln()).abs();
        Some(match after {
            0 => 0,
            at if at == self.norms.len() => at - 1,
            at if near(at - 1) <= near(at) => at - 1,
            at => at,
        })
    }

    /// `ln r` of training row n, by its numbers of siblings at levels 1, 2, ...
    pub(crate) fn ln_r(&self, n: usize, siblings: &[usize]) -> f64 {
        self.ln_r_of(self.of[n], siblings)
    }

    /// The same for a new row with features of this norm.
    pub(crate) fn ln_r_new(&self, norm: f64, siblings: &[usize]) -> f64 {
        self.ln_r_of(self.nearest(norm), siblings)
    }

    fn ln_r_of(&self, table: Option<usize>, siblings: &[usize]) -> f64 {
        if siblings.iter().all(|m| *m == 0) {
            return 0.0;
        }
        let Some(table) = table else { return self.ln_neutral };
        let mut terms = [0.0; LAGUERRE];
        terms.copy_from_slice(&self.ln_weights);
        for &m in siblings.iter().filter(|m| **m > 0) {
            let from = (table * MOST_SIBLINGS + m.min(MOST_SIBLINGS) - 1) * LAGUERRE;
            terms.iter_mut().zip(&self.ln_f[from..]).for_each(|(t, f)| *t += f);
        }
        log_sum_exp(&terms)
    }
}
