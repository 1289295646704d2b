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
    pub(crate) ones: Vec<f64>,
    /// Second parameters of Beta; empty for Dirichlet.
    pub(crate) zeros: Vec<f64>,
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
    pub(crate) present: Sum<Vec<f64>>,
    /// Σ_i r_ik (1 − y_ic) over rows whose label is known, K×C.
    pub(crate) absent: Sum<Vec<f64>>,
    /// Σ_i ln T_i!, the logarithms of multinomial coefficients; 0 for the Bernoulli kernel.
    pub(crate) coefficients: Sum<f64>,
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
    pub(crate) fn bernoulli(strength: f64, rates: &[f64]) -> Self {
        let ones = rates.iter().map(|mu| strength * mu).collect();
        Self::Bernoulli { ones, zeros: rates.iter().map(|mu| strength * (1.0 - mu)).collect() }
    }

    /// Present labels as draws from a pattern that sums to one.
    pub(crate) fn multinomial(labels: usize, omega: f64) -> Self {
        Self::Multinomial { labels, omega }
    }

    /// Number of labels.
    pub(crate) fn labels(&self) -> usize {
        match self {
            Self::Bernoulli { ones, .. } => ones.len(),
            Self::Multinomial { labels, .. } => *labels,
        }
    }

    /// Whether absent labels say something.
    pub(crate) fn counts_absent(&self) -> bool {
        matches!(self, Self::Bernoulli { .. })
    }

    /// The prior for so many components.
    pub(crate) fn start(&self, components: usize) -> Factors {
        let labels = self.labels();
        match self {
            Self::Bernoulli { ones, zeros } => Factors { ones: ones.repeat(components), zeros: zeros.repeat(components), labels },
            Self::Multinomial { omega, .. } => Factors { ones: vec![*omega; components * labels], zeros: Vec::new(), labels },
        }
    }

    /// Expected logarithms of ψ and 1 − ψ.
    pub(crate) fn view(&self, q: &Factors) -> View {
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
    pub(crate) fn terms(&self, view: &View, _panel: &mut Panel<'_>, y: &[i8], out: &mut [f64], scratch: &mut Scratch) {
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
    pub(crate) fn add(&self, view: &View, _panel: &mut Panel<'_>, y: &[i8], r: &[f64], stats: &mut Stats, scratch: &mut Scratch) {
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
    pub(crate) fn update(&self, q: &mut Factors, stats: &Stats) -> Result<()> {
        let components = stats.present.0.len() / self.labels();
        *q = self.start(components);
        q.ones.iter_mut().zip(&stats.present.0).for_each(|(p, s)| *p += s);
        q.zeros.iter_mut().zip(&stats.absent.0).for_each(|(p, s)| *p += s);
        Ok(())
    }

    /// Divergence of all factors from the prior.
    pub(crate) fn divergence(&self, q: &Factors) -> f64 {
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
    pub(crate) fn value(&self, q: &Factors, stats: &Stats) -> f64 {
        let view = self.view(q);
        linalg::dot(&view.present, &stats.present.0) + linalg::dot(&view.absent, &stats.absent.0) + stats.coefficients.0
    }

    /// E ψ_kc, K×C.
    pub(crate) fn probabilities(&self, q: &Factors) -> Vec<f64> {
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
    pub(crate) fn prior_probabilities(&self) -> Vec<f64> {
        self.probabilities(&self.start(1))
    }

    /// Draws ψ, K×C: log-odds for the Bernoulli kernel, logarithms for the multinomial one.
    pub(crate) fn draw<R: Rng + ?Sized>(&self, q: &Factors, rng: &mut R) -> Result<Vec<f64>> {
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
    pub(crate) fn view_of(&self, drawn: &[f64]) -> View {
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
    pub(crate) fn components(&self) -> usize {
        self.ones.len() / self.labels
    }

    /// Component `order[k]` becomes component k.
    pub(crate) fn permute(&mut self, order: &[usize]) {
        self.ones = permuted(&self.ones, self.labels, order);
        self.zeros = permuted(&self.zeros, self.labels, order);
    }
}

impl Stats {
    /// Component `order[k]` of so many becomes component k; one that is not named is left out.
    pub(crate) fn permute(&mut self, order: &[usize], components: usize) {
        let width = self.present.0.len() / components.max(1);
        self.present.0 = permuted(&self.present.0, width, order);
        self.absent.0 = permuted(&self.absent.0, width, order);
    }

    /// Calls f(numbers of all components, numbers of each) for both tables.
    pub(crate) fn each_table(&mut self, components: usize, f: &mut dyn FnMut(&mut [f64], usize)) {
        for table in [&mut self.present.0, &mut self.absent.0] {
            let width = table.len() / components.max(1);
            if width > 0 {
                f(table, width);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::design::PanelScratch;
    use crate::data::{Design, X};
    use crate::dist::testing::rng;
    use crate::run::Merge;

    const Y: [i8; 12] = [1, 0, -1, 0, 1, 1, -1, -1, -1, 0, 0, 0];
    const R: [f64; 8] = [0.3, 0.7, 0.9, 0.1, 0.4, 0.6, 0.2, 0.8];

    /// Calls f with a panel of no columns.
    fn with_panel<T>(rows: usize, f: impl FnOnce(&mut Panel<'_>) -> T) -> T {
        let (design, mut scratch) = (Design::identity(0, true), PanelScratch::default());
        f(&mut design.panel(X::Dense { rows, cols: 0, values: &[] }, &mut scratch))
    }

    fn stats(patterns: &Patterns, y: &[i8], r: &[f64]) -> Stats {
        let (mut stats, view) = (Stats::default(), patterns.view(&patterns.start(2)));
        with_panel(y.len() / 3, |panel| patterns.add(&view, panel, y, r, &mut stats, &mut Scratch::default()));
        stats
    }

    fn both() -> [(Patterns, Vec<i8>); 2] {
        // whole rows unknown at most where present labels are drawn
        let whole = vec![1, 0, 0, 0, 1, 1, -1, -1, -1, 0, 0, 0];
        [(Patterns::bernoulli(1.5, &[0.2, 0.5, 0.6]), Y.to_vec()), (Patterns::multinomial(3, 0.4), whole)]
    }

    #[test]
    fn unknown_labels_are_skipped() {
        let patterns = Patterns::bernoulli(2.0, &[0.5; 3]);
        let sums = stats(&patterns, &Y, &R);
        let close = |got: &[f64], want: &[f64]| assert!(got.iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-14), "{got:?}");
        close(&sums.present.0, &[0.3, 0.9, 0.9, 0.7, 0.1, 0.1]);
        close(&sums.absent.0, &[0.9 + 0.2, 0.3 + 0.2, 0.2, 0.1 + 0.8, 0.7 + 0.8, 0.8]);
        let mut q = patterns.start(2);
        patterns.update(&mut q, &sums).unwrap();
        close(&q.ones, &[1.3, 1.9, 1.9, 1.7, 1.1, 1.1]);
        assert_eq!(patterns.prior_probabilities(), [0.5; 3]);
        close(&patterns.probabilities(&q)[..1], &[1.3 / 3.4]);
    }

    /// Merged in pieces, and in another order of components.
    #[test]
    fn sums_of_pieces_and_permutations() {
        for (patterns, y) in both() {
            let whole = stats(&patterns, &y, &R);
            let mut pieces = Stats::default();
            pieces.merge(stats(&patterns, &y[..3], &R[..2]));
            pieces.merge(stats(&patterns, &y[3..], &R[2..]));
            let (mut a, mut b) = (patterns.start(2), patterns.start(2));
            patterns.update(&mut a, &whole).unwrap();
            patterns.update(&mut b, &pieces).unwrap();
            assert!(a.ones.iter().zip(&b.ones).all(|(a, b)| (a - b).abs() < 1e-14));
            assert!((patterns.value(&a, &whole) - patterns.value(&a, &pieces)).abs() < 1e-13);
            let mut exchanged = whole.clone();
            exchanged.permute(&[1, 0], 2);
            patterns.update(&mut b, &exchanged).unwrap();
            assert_ne!(a, b);
            b.permute(&[1, 0]);
            assert_eq!(a, b);
        }
    }

    /// The update is where the bound is flat, and the bound from sums is that of the rows.
    #[test]
    fn an_update_is_a_maximum() {
        for (patterns, y) in both() {
            let sums = stats(&patterns, &y, &R);
            let mut q = patterns.start(2);
            patterns.update(&mut q, &sums).unwrap();
            let mut terms = [0.0; 8];
            with_panel(4, |panel| patterns.terms(&patterns.view(&q), panel, &y, &mut terms, &mut Scratch::default()));
            assert!((linalg::dot(&terms, &R) - patterns.value(&q, &sums)).abs() < 1e-13);
            let bound = |q: &Factors| patterns.value(q, &sums) - patterns.divergence(q);
            for at in 0..6 {
                let moved = |by: f64| {
                    let mut q = q.clone();
                    q.ones[at] += by;
                    if let Some(zero) = q.zeros.get_mut(at) {
                        *zero -= 0.3 * by;
                    }
                    bound(&q)
                };
                let (up, down) = (moved(1e-4), moved(-1e-4));
                assert!(((up - down) / 2e-4).abs() < 1e-6 && up < bound(&q) && down < bound(&q), "{at}");
            }
        }
    }

    #[test]
    fn draws_have_the_expected_logarithms() {
        for (patterns, y) in both() {
            let mut q = patterns.start(2);
            patterns.update(&mut q, &stats(&patterns, &y, &R)).unwrap();
            let (mut rng, draws, mut scratch) = (rng(8), 20_000, Scratch::default());
            let (mut sums, mut squares, mut want) = ([0.0; 8], [0.0; 8], [0.0; 8]);
            with_panel(4, |panel| {
                for _ in 0..draws {
                    let mut out = [0.0; 8];
                    patterns.terms(&patterns.view_of(&patterns.draw(&q, &mut rng).unwrap()), panel, &y, &mut out, &mut scratch);
                    for (i, v) in out.into_iter().enumerate() {
                        sums[i] += v / draws as f64;
                        squares[i] += v * v / draws as f64;
                    }
                }
                patterns.terms(&patterns.view(&q), panel, &y, &mut want, &mut scratch);
            });
            for i in 0..8 {
                let error = ((squares[i] - sums[i] * sums[i]).max(0.0) / draws as f64).sqrt();
                assert!((sums[i] - want[i]).abs() <= 4.5 * error + 1e-12, "{i}: {} {} ± {error}", sums[i], want[i]);
            }
        }
    }
}
