//! Codes 0..J-1, independent given the atom: `x_d ~ Discrete(p_d)`, `p_d ~ Dir(s m_d)`. Answers yes or no are J = 2.
//!
//! Statistics: how often each code was seen, column by column. A column's log marginal is
//! `lgamma(s) - lgamma(s + n) + sum_j [lgamma(s m_j + n_j) - lgamma(s m_j)]`, and a row of weight w with code j has
//! `lgamma(s + n) - lgamma(s + n + w) + lgamma(s m_j + n_j + w) - lgamma(s m_j + n_j)`: `ln((s m_j + n_j)/(s + n))` for w = 1.
//! The strength s is one for all columns. A code that the fit did not know counts as missing.

use rand::Rng;
use serde::{Deserialize, Serialize};

use super::{Conjugate, Prepared};
use crate::Result;
use crate::dist::{Dirichlet, draw_from_shares};
use crate::special::ln_gamma;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Codes {
    /// s.
    pub(super) strength: f64,
    /// m, column by column.
    pub(super) base: Vec<f64>,
    /// Where a column's codes begin, and the end of all.
    pub(super) starts: Vec<usize>,
}

impl Codes {
    /// The place of a cell among all codes; none where it is missing.
    #[inline]
    fn place(&self, d: usize, x: f64) -> Option<usize> {
        // NaN fails the comparison
        (x < (self.starts[d + 1] - self.starts[d]) as f64).then_some(self.starts[d] + x as usize)
    }

    fn columns(&self) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
        self.starts.windows(2).map(|w| w[0]..w[1])
    }

    /// Whether a cell has a code that the fit did not know.
    pub(super) fn unknown(&self, d: usize, x: f64) -> bool {
        x >= (self.starts[d + 1] - self.starts[d]) as f64
    }
}

/// `lgamma(a + w) - lgamma(a)`.
#[inline]
pub(super) fn ln_rising(a: f64, weight: f64) -> f64 {
    if weight == 1.0 { a.ln() } else { ln_gamma(a + weight) - ln_gamma(a) }
}

impl Conjugate for Codes {
    fn statistics(&self) -> usize {
        self.base.len()
    }

    fn parameters(&self) -> usize {
        self.base.len()
    }

    fn add(&self, stats: &mut [f64], row: &[f64], weight: f64) {
        for (d, &x) in row.iter().enumerate() {
            if let Some(at) = self.place(d, x) {
                stats[at] += weight;
            }
        }
    }

    fn prepare(&self, stats: &[f64], weight: f64, out: &mut Prepared) {
        out.constant = 0.0;
        out.numbers.clear();
        // complete columns share n
        let mut last = (f64::NAN, 0.0);
        for column in self.columns() {
            let n: f64 = stats[column.clone()].iter().sum();
            if last.0 != n {
                last = (n, ln_rising(self.strength + n, weight));
            }
            out.numbers.extend(column.map(|at| ln_rising(self.strength * self.base[at] + stats[at], weight) - last.1));
        }
    }

    fn ln_predictive(&self, prepared: &Prepared, row: &[f64], _: f64) -> f64 {
        let mut sum = 0.0;
        for (d, &x) in row.iter().enumerate() {
            if let Some(at) = self.place(d, x) {
                sum += prepared.numbers[at];
            }
        }
        sum
    }

    fn ln_marginal(&self, stats: &[f64]) -> f64 {
        let s = self.strength;
        let mut sum = 0.0;
        for column in self.columns() {
            let n: f64 = stats[column.clone()].iter().sum();
            if n > 0.0 {
                sum += ln_gamma(s) - ln_gamma(s + n);
                // unseen codes add nothing
                let seen = column.filter(|&at| stats[at] > 0.0);
                sum += seen.map(|at| ln_gamma(s * self.base[at] + stats[at]) - ln_gamma(s * self.base[at])).sum::<f64>();
            }
        }
        sum
    }

    fn draw<R: Rng + ?Sized>(&self, stats: &[f64], rng: &mut R) -> Result<Vec<f64>> {
        let mut theta = vec![0.0; self.base.len()];
        for column in self.columns() {
            let shapes: Vec<f64> = column.clone().map(|at| (self.strength * self.base[at] + stats[at]).max(1e-300)).collect();
            Dirichlet::new(&shapes)?.sample_ln_into(rng, &mut theta[column]);
        }
        Ok(theta)
    }

    fn ln_density(&self, theta: &[f64], row: &[f64]) -> f64 {
        row.iter().enumerate().filter_map(|(d, &x)| self.place(d, x)).map(|at| theta[at]).sum()
    }

    fn draw_row<R: Rng + ?Sized>(&self, theta: &[f64], rng: &mut R, out: &mut [f64]) -> Result<()> {
        for (d, column) in self.columns().enumerate() {
            if !out[d].is_nan() {
                out[d] = draw_from_shares(theta[column].iter().map(|v| v.exp()), rng) as f64;
            }
        }
        Ok(())
    }

    fn mean(&self, theta: &[f64]) -> Vec<f64> {
        self.columns()
            .map(|column| {
                let own = &theta[column];
                match own.len() {
                    2 => own[1].exp(),
                    _ => (0..own.len()).max_by(|&a, &b| own[a].total_cmp(&own[b])).map_or(f64::NAN, |j| j as f64),
                }
            })
            .collect()
    }
}
