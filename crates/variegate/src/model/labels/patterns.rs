//! Patterns of labels: each component has its own probability of every label, ψ_kc. This is the label part of `cut`, in which
//! classifiers are fitted on their own; the features' panel is not looked at.
//!
//! With the Bernoulli kernel labels are independent given the component, and every label counts the rows in which it is known. With
//! the multinomial one the present labels of a row are drawn from ψ_k, their number given: absent labels say nothing, and rows
//! with some labels unknown and others known do not belong there. A row all of whose labels are unknown adds nothing in either.

use rand::Rng;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::data::Panel;
use crate::dist::{Beta, Dirichlet};
use crate::linalg;
use crate::merge_fields;
use crate::run::Sum;
use crate::special::{digamma, ln_beta, ln_gamma, ln_sigmoid};

/// The label kernel and its prior.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Patterns {
    /// ψ_kc ~ Beta(s μ_c, s (1 − μ_c)).
    Bernoulli {
        /// s μ_c.
        ones: Vec<f64>,
        /// s (1 − μ_c).
        zeros: Vec<f64>,
    },
    /// ψ_k ~ Dirichlet(ω, …, ω).
    Multinomial {
        /// Number of labels.
        labels: usize,
        /// ω.
        omega: f64,
    },
}

/// Factors of ψ: parameters of Beta or Dirichlet distributions, K×C.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Factors {
    /// First parameters of Beta, or those of Dirichlet.
    pub ones: Vec<f64>,
    /// Second parameters of Beta; empty for Dirichlet.
    pub zeros: Vec<f64>,
    labels: usize,
}

/// What rows need: the (expected) logarithms of ψ and 1 − ψ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct View {
    components: usize,
    /// For a present label, K×C.
    present: Vec<f64>,
    /// For an absent one, K×C; empty for the multinomial kernel.
    absent: Vec<f64>,
}

/// Sums over rows with responsibilities.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stats {
    /// Σ_i r_ik y_ic, K×C.
    pub present: Sum<Vec<f64>>,
    /// Σ_i r_ik (1 − y_ic) over rows whose label is known, K×C.
    pub absent: Sum<Vec<f64>>,
    /// Σ_i ln T_i!, the logarithms of multinomial coefficients; 0 for the Bernoulli kernel.
    pub coefficients: Sum<f64>,
}

merge_fields!(Stats, present, absent, coefficients);

/// Buffers, reused from block to block.
#[derive(Default)]
pub(crate) struct Scratch {
    present: Vec<f64>,
    absent: Vec<f64>,
}

impl Patterns {
    /// Independent labels with a prior worth s rows at base rates μ_c, strictly between 0 and 1.
    pub fn bernoulli(strength: f64, rates: &[f64]) -> Self {
        let ones = rates.iter().map(|mu| strength * mu).collect();
        Self::Bernoulli { ones, zeros: rates.iter().map(|mu| strength * (1.0 - mu)).collect() }
    }

    /// Present labels as draws from a pattern that sums to one.
    pub fn multinomial(labels: usize, omega: f64) -> Self {
        Self::Multinomial { labels, omega }
    }

    /// Number of labels.
    pub fn labels(&self) -> usize {
        match self {
            Self::Bernoulli { ones, .. } => ones.len(),
            Self::Multinomial { labels, .. } => *labels,
        }
    }

    /// The prior for so many components.
    pub fn start(&self, components: usize) -> Factors {
        let labels = self.labels();
        match self {
            Self::Bernoulli { ones, zeros } => Factors { ones: ones.repeat(components), zeros: zeros.repeat(components), labels },
            Self::Multinomial { omega, .. } => Factors { ones: vec![*omega; components * labels], zeros: Vec::new(), labels },
        }
    }

    /// Expected logarithms of ψ and 1 − ψ.
    pub fn view(&self, q: &Factors) -> View {
        let components = q.components();
        match self {
            Self::Bernoulli { .. } => {
                let both: Vec<f64> = q.ones.iter().zip(&q.zeros).map(|(a, b)| digamma(a + b)).collect();
                let minus = |of: &[f64]| of.iter().zip(&both).map(|(&v, both)| digamma(v) - both).collect();
                View { components, present: minus(&q.ones), absent: minus(&q.zeros) }
            }
            Self::Multinomial { labels, .. } => {
                let component = |p: &[f64]| {
                    let total = digamma(p.iter().sum());
                    p.iter().map(|&p| digamma(p) - total).collect::<Vec<f64>>()
                };
                View { components, present: q.ones.chunks_exact(*labels).flat_map(component).collect(), absent: Vec::new() }
            }
        }
    }

    /// out (rows × K) += log probabilities of the known labels y (rows × C).
    pub fn terms(&self, view: &View, _panel: &mut Panel<'_>, y: &[i8], out: &mut [f64], scratch: &mut Scratch) {
        let labels = self.labels();
        let (n, k) = (y.len() / labels, view.components);
        scratch.read(y);
        linalg::mul_t(&scratch.present, &view.present, out, n, labels, k, true);
        if view.absent.is_empty() {
            for (y, out) in y.chunks_exact(labels).zip(out.chunks_exact_mut(k)) {
                let coefficient = ln_coefficient(y);
                out.iter_mut().for_each(|o| *o += coefficient);
            }
        } else {
            linalg::mul_t(&scratch.absent, &view.absent, out, n, labels, k, true);
        }
    }

    /// Adds the statistics of rows with responsibilities r (rows × K).
    pub fn add(&self, view: &View, _panel: &mut Panel<'_>, y: &[i8], r: &[f64], stats: &mut Stats, scratch: &mut Scratch) {
        let labels = self.labels();
        let (n, k) = (y.len() / labels, view.components);
        scratch.read(y);
        stats.present.0.resize(k * labels, 0.0);
        linalg::t_mul(r, &scratch.present, &mut stats.present.0, n, k, labels, true);
        match self {
            Self::Bernoulli { .. } => {
                stats.absent.0.resize(k * labels, 0.0);
                linalg::t_mul(r, &scratch.absent, &mut stats.absent.0, n, k, labels, true);
            }
            Self::Multinomial { .. } => {
                let rows = y.chunks_exact(labels).zip(r.chunks_exact(k));
                stats.coefficients.0 += rows.map(|(y, r)| ln_coefficient(y) * r.iter().sum::<f64>()).sum::<f64>();
            }
        }
    }

    /// Factors from sums.
    pub fn update(&self, q: &mut Factors, stats: &Stats) -> Result<()> {
        let components = stats.present.0.len() / self.labels();
        *q = self.start(components);
        q.ones.iter_mut().zip(&stats.present.0).for_each(|(p, s)| *p += s);
        q.zeros.iter_mut().zip(&stats.absent.0).for_each(|(p, s)| *p += s);
        Ok(())
    }

    /// Divergence of all factors from the prior.
    pub fn divergence(&self, q: &Factors) -> f64 {
        match self {
            Self::Bernoulli { ones, zeros } => {
                let prior = ones.iter().zip(zeros).cycle();
                let terms = q.ones.iter().zip(&q.zeros).zip(prior).map(|((&a, &b), (&a0, &b0))| {
                    let both = digamma(a + b);
                    ln_beta(a0, b0) - ln_beta(a, b) + (a - a0) * (digamma(a) - both) + (b - b0) * (digamma(b) - both)
                });
                terms.sum()
            }
            Self::Multinomial { labels, omega } => {
                let component = |p: &[f64]| {
                    let total: f64 = p.iter().sum();
                    let at_total = digamma(total);
                    let terms = p.iter().map(|&p| ln_gamma(*omega) - ln_gamma(p) + (p - omega) * (digamma(p) - at_total));
                    ln_gamma(total) - ln_gamma(omega * *labels as f64) + terms.sum::<f64>()
                };
                q.ones.chunks_exact(*labels).map(component).sum()
            }
        }
    }

    /// Σ_i r_ik E ln p(y_i | ψ_k) from sums.
    pub fn value(&self, q: &Factors, stats: &Stats) -> f64 {
        let view = self.view(q);
        linalg::dot(&view.present, &stats.present.0) + linalg::dot(&view.absent, &stats.absent.0) + stats.coefficients.0
    }

    /// E ψ_kc, K×C.
    pub fn probabilities(&self, q: &Factors) -> Vec<f64> {
        match self {
            Self::Bernoulli { .. } => q.ones.iter().zip(&q.zeros).map(|(a, b)| a / (a + b)).collect(),
            Self::Multinomial { labels, .. } => {
                let component = |p: &[f64]| {
                    let total: f64 = p.iter().sum();
                    p.iter().map(|p| p / total).collect::<Vec<f64>>()
                };
                q.ones.chunks_exact(*labels).flat_map(component).collect()
            }
        }
    }

    /// Prior mean of ψ_c, C numbers: the pattern of a component that no row belongs to.
    pub fn prior_probabilities(&self) -> Vec<f64> {
        self.probabilities(&self.start(1))
    }

    /// Draws ψ, K×C: log-odds for the Bernoulli kernel, logarithms for the multinomial one.
    pub fn draw<R: Rng + ?Sized>(&self, q: &Factors, rng: &mut R) -> Result<Vec<f64>> {
        match self {
            Self::Bernoulli { .. } => q.ones.iter().zip(&q.zeros).map(|(&a, &b)| Ok(Beta::new(a, b)?.sample_logit(rng))).collect(),
            Self::Multinomial { labels, .. } => {
                let mut out = vec![0.0; q.ones.len()];
                for (out, p) in out.chunks_exact_mut(*labels).zip(q.ones.chunks_exact(*labels)) {
                    Dirichlet::new(p)?.sample_ln_into(rng, out);
                }
                Ok(out)
            }
        }
    }

    /// What rows need of a drawn ψ: then [`Patterns::terms`] adds ln p(y | ψ_k).
    pub fn view_of(&self, drawn: &[f64]) -> View {
        let components = drawn.len() / self.labels();
        match self {
            Self::Bernoulli { .. } => {
                let (present, absent) = drawn.iter().map(|&odds| (ln_sigmoid(odds), ln_sigmoid(-odds))).unzip();
                View { components, present, absent }
            }
            Self::Multinomial { .. } => View { components, present: drawn.to_vec(), absent: Vec::new() },
        }
    }
}

/// ln T! of a row with T present labels: in how many orders they may have been drawn.
fn ln_coefficient(y: &[i8]) -> f64 {
    ln_gamma(1.0 + y.iter().filter(|&&y| y == 1).count() as f64)
}

impl Scratch {
    /// Indicators of present and of absent labels.
    fn read(&mut self, y: &[i8]) {
        let indicate = |out: &mut Vec<f64>, which: i8| {
            out.clear();
            out.extend(y.iter().map(|&y| if y == which { 1.0 } else { 0.0 }));
        };
        indicate(&mut self.present, 1);
        indicate(&mut self.absent, 0);
    }
}

/// Rows of a table in another order: row `order[k]` becomes row k.
fn permuted(table: &[f64], width: usize, order: &[usize]) -> Vec<f64> {
    if table.is_empty() {
        return Vec::new();
    }
    order.iter().flat_map(|&k| table[k * width..(k + 1) * width].iter().copied()).collect()
}

impl Factors {
    /// Number of components.
    pub fn components(&self) -> usize {
        self.ones.len() / self.labels
    }

    /// Component `order[k]` becomes component k.
    pub fn permute(&mut self, order: &[usize]) {
        self.ones = permuted(&self.ones, self.labels, order);
        self.zeros = permuted(&self.zeros, self.labels, order);
    }
}

impl Stats {
    /// Component `order[k]` becomes component k.
    pub fn permute(&mut self, order: &[usize]) {
        let width = self.present.0.len() / order.len().max(1);
        self.present.0 = permuted(&self.present.0, width, order);
        self.absent.0 = permuted(&self.absent.0, width, order);
    }
}
