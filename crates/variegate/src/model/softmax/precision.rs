//! Prior precisions of the weights of a node, in groups that share one.
//!
//! Entry (c, j) of the weights is N(0, 1/α_g) with g its group and α_g ~ Gamma(a₀, rate b₀), or N(0, 1/α) with α given. Under q,
//! α_g ~ Gamma(a_g, b_g) with a_g = a₀ + |g|/2 and b_g = b₀ + ½ Σ_g ⟨w²⟩. The bound needs E ln α = ψ(a) − ln b, never ln E α.
//! At inverse temperature β (annealing; else 1) the density of q(α) is raised to β: a_g = β(a₀ + |g|/2 − 1) + 1, and b_g times β.

use std::f64::consts::PI;

use crate::special::{digamma, ln_gamma};
use crate::words;

words! {
    /// Which weights share a precision.
    pub enum Precision {
        /// All of them.
        Node = "node",
        /// Those of a class.
        Child = "child",
        /// Those of a column.
        Feature = "feature",
        /// None: each has its own.
        Entry = "entry",
        /// All precisions are given.
        Fixed = "fixed",
    }
}

/// Where the precision of an entry comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Source {
    Group(usize),
    Given(f64),
}

/// The prior of the weights of a node.
#[derive(Debug, Clone)]
pub(crate) struct Prior {
    source: Vec<Source>,
    sizes: Vec<usize>,
    shape: f64,
    rate: f64,
}

impl Prior {
    /// Prior of S weight vectors of D entries. `given` is the precision of entries without a group; `bias`, if any, that of the last
    /// entry of each vector, which then belongs to no group.
    pub(crate) fn new(precision: Precision, children: usize, dim: usize, shape: f64, rate: f64, given: f64, bias: Option<f64>) -> Self {
        let mut source = Vec::with_capacity(children * dim);
        let mut sizes: Vec<usize> = Vec::new();
        let mut number = vec![usize::MAX; children * dim];
        for c in 0..children {
            for j in 0..dim {
                let key = match precision {
                    Precision::Node => 0,
                    Precision::Child => c,
                    Precision::Feature => j,
                    Precision::Entry => c * dim + j,
                    Precision::Fixed => usize::MAX,
                };
                source.push(match bias {
                    Some(alpha) if j + 1 == dim => Source::Given(alpha),
                    _ if key == usize::MAX => Source::Given(given),
                    _ => {
                        if number[key] == usize::MAX {
                            number[key] = sizes.len();
                            sizes.push(0);
                        }
                        sizes[number[key]] += 1;
                        Source::Group(number[key])
                    }
                });
            }
        }
        Self { source, sizes, shape, rate }
    }

    /// Number of groups.
    pub(crate) fn groups(&self) -> usize {
        self.sizes.len()
    }

    /// a_g.
    fn posterior_shape(&self, g: usize, beta: f64) -> f64 {
        beta * (self.shape + 0.5 * self.sizes[g] as f64 - 1.0) + 1.0
    }

    /// E α_g of each group.
    pub(crate) fn group_means(&self, rates: &[f64], beta: f64) -> Vec<f64> {
        rates.iter().enumerate().map(|(g, b)| self.posterior_shape(g, beta) / b).collect()
    }

    /// E α of each entry.
    pub(crate) fn means(&self, rates: &[f64], beta: f64) -> Vec<f64> {
        self.spread(&self.group_means(rates, beta))
    }

    /// b_g at its optimum, from ⟨w²⟩ of each entry.
    pub(crate) fn best_rates(&self, squares: &[f64], beta: f64) -> Vec<f64> {
        let mut rates = vec![beta * self.rate; self.groups()];
        for (s, square) in self.source.iter().zip(squares) {
            if let Source::Group(g) = *s {
                rates[g] += 0.5 * beta * square;
            }
        }
        rates
    }

    /// E ln p(W | α) + Σ_g ( E ln p(α_g) + H[q(α_g)]/β ), from ⟨w²⟩ of each entry. For β = 1 the sum is −KL( q(α) ‖ p(α) ).
    pub(crate) fn terms(&self, rates: &[f64], squares: &[f64], beta: f64) -> f64 {
        let means = self.group_means(rates, beta);
        let logs: Vec<f64> = rates.iter().enumerate().map(|(g, b)| digamma(self.posterior_shape(g, beta)) - b.ln()).collect();
        let ln_2pi = (2.0 * PI).ln();
        let mut sum = 0.0;
        for (s, square) in self.source.iter().zip(squares) {
            let (mean, log) = match *s {
                Source::Group(g) => (means[g], logs[g]),
                Source::Given(alpha) => (alpha, alpha.ln()),
            };
            sum += 0.5 * (log - ln_2pi - mean * square);
        }
        let (a0, b0) = (self.shape, self.rate);
        for (g, &b) in rates.iter().enumerate() {
            let a = self.posterior_shape(g, beta);
            sum -= gamma_divergence(a, b, a0, b0);
            if beta != 1.0 {
                sum += (1.0 / beta - 1.0) * (a - b.ln() + ln_gamma(a) + (1.0 - a) * digamma(a));
            }
        }
        sum
    }

    /// A draw of the precision of each group from its conditional given the weights; `gamma` draws at a shape and a rate.
    pub(crate) fn conditional(&self, weights: &[f64], mut gamma: impl FnMut(f64, f64) -> f64) -> Vec<f64> {
        let squares: Vec<f64> = weights.iter().map(|w| w * w).collect();
        self.best_rates(&squares, 1.0).iter().enumerate().map(|(g, b)| gamma(self.posterior_shape(g, 1.0), *b)).collect()
    }

    /// ln p(W | α) + ln p(α) for precisions of the groups and weights of all entries.
    pub(crate) fn ln_density(&self, groups: &[f64], weights: &[f64]) -> f64 {
        let entries: f64 =
            self.spread(groups).iter().zip(weights).map(|(alpha, w)| 0.5 * (alpha.ln() - (2.0 * PI).ln() - alpha * w * w)).sum();
        let (a, b) = (self.shape, self.rate);
        let constant = if groups.is_empty() { 0.0 } else { a * b.ln() - ln_gamma(a) };
        entries + groups.iter().map(|alpha| constant + (a - 1.0) * alpha.ln() - b * alpha).sum::<f64>()
    }

    /// The precision of each entry, given those of the groups.
    pub(crate) fn spread(&self, groups: &[f64]) -> Vec<f64> {
        self.source
            .iter()
            .map(|s| match *s {
                Source::Group(g) => groups[g],
                Source::Given(alpha) => alpha,
            })
            .collect()
    }
}

/// KL( Gamma(a, rate b) ‖ Gamma(a₀, rate b₀) ).
pub(crate) fn gamma_divergence(a: f64, b: f64, a0: f64, b0: f64) -> f64 {
    (a - a0) * digamma(a) - ln_gamma(a) + ln_gamma(a0) + a0 * (b.ln() - b0.ln()) + a * (b0 - b) / b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_what_their_names_say() {
        let sizes = |p, bias| Prior::new(p, 3, 4, 1.0, 1.0, 7.0, bias).sizes;
        assert_eq!(sizes(Precision::Node, None), [12]);
        assert_eq!(sizes(Precision::Child, None), [4, 4, 4]);
        assert_eq!(sizes(Precision::Feature, None), [3, 3, 3, 3]);
        assert_eq!(sizes(Precision::Entry, None), [1; 12]);
        assert!(sizes(Precision::Fixed, None).is_empty());
        assert_eq!(sizes(Precision::Node, Some(0.1)), [9]);
        assert_eq!(sizes(Precision::Feature, Some(0.1)), [3, 3, 3]);
        let fixed = Prior::new(Precision::Fixed, 2, 2, 1.0, 1.0, 7.0, Some(0.1));
        assert_eq!(fixed.means(&[], 1.0), [7.0, 0.1, 7.0, 0.1]);
        let feature = Prior::new(Precision::Feature, 2, 2, 1.0, 1.0, 7.0, None);
        assert_eq!(feature.means(&[1.0, 4.0], 1.0), [2.0, 0.5, 2.0, 0.5]);
    }

    #[test]
    fn the_density_is_that_of_normals_and_gammas() {
        let prior = Prior::new(Precision::Feature, 2, 2, 1.5, 0.7, 1.0, Some(3.0));
        let (weights, alpha) = ([0.3, -1.2, 2.0, 0.1], 0.8);
        let normal = |w: f64, a: f64| 0.5 * (a.ln() - (2.0 * PI).ln() - a * w * w);
        let sum = normal(0.3, alpha) + normal(-1.2, 3.0) + normal(2.0, alpha) + normal(0.1, 3.0);
        let gamma = crate::dist::Gamma::new(1.5, 0.7).unwrap().ln_pdf(alpha);
        assert!((prior.ln_density(&[alpha], &weights) - sum - gamma).abs() < 1e-12);
        let fixed = Prior::new(Precision::Fixed, 1, 2, 1.0, 1.0, 2.0, None);
        assert!((fixed.ln_density(&[], &weights[..2]) - normal(0.3, 2.0) - normal(-1.2, 2.0)).abs() < 1e-12);
    }

    /// The best rates maximise the terms, and at a₀, b₀ → ∞ with a₀/b₀ = α the prior is the fixed one.
    #[test]
    fn rates_are_optimal_and_the_limit_is_a_fixed_precision() {
        let prior = Prior::new(Precision::Child, 2, 3, 1.5, 0.7, 1.0, None);
        let squares = [0.3, 2.0, 0.1, 5.0, 0.4, 0.9];
        for beta in [1.0, 0.5] {
            let best = prior.best_rates(&squares, beta);
            let top = prior.terms(&best, &squares, beta);
            for g in 0..2 {
                for factor in [0.9, 0.99, 1.01, 1.2] {
                    let mut other = best.clone();
                    other[g] *= factor;
                    assert!(prior.terms(&other, &squares, beta) < top);
                }
            }
        }
        let sharp = Prior::new(Precision::Child, 2, 3, 2e8, 1e8, 1.0, None);
        let fixed = Prior::new(Precision::Fixed, 2, 3, 1.0, 1.0, 2.0, None);
        let gap = sharp.terms(&sharp.best_rates(&squares, 1.0), &squares, 1.0) - fixed.terms(&[], &squares, 1.0);
        assert!(gap.abs() < 1e-6, "{gap}");
    }
}
