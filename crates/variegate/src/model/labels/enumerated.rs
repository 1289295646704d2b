//! Four rows whose mixture posteriors are known exactly: every partition of them can be looked at.

use super::kernel::{Bernoulli, Diagonal, Full, Kernel, Multinomial, Scratch};
use super::patterns::Patterns;
use crate::data::X;
use crate::special::{ln_gamma, log_sum_exp};

pub(crate) const COUNTS: [f64; 12] = [3.0, 0.0, 1.0, 2.0, 1.0, 0.0, 0.0, 4.0, 1.0, 0.0, 2.0, 3.0];
pub(crate) const REALS: [f64; 8] = [0.2, 1.0, -0.3, 0.8, 2.5, -1.0, 2.2, -0.4];
pub(crate) const LABELS: [i8; 8] = [1, 0, 1, 1, 0, 1, 0, 1];

/// Dense rows of this width.
pub(crate) fn dense(values: &[f64], cols: usize) -> X<'_> {
    X::Dense { rows: values.len() / cols.max(1), cols, values }
}

pub(crate) fn counts() -> Kernel {
    Kernel::Multinomial(Multinomial::new(3, 0.5, 1.0))
}

pub(crate) fn normal_gamma() -> Kernel {
    Kernel::Diagonal(Diagonal::new(&[0.0; 2], 0.1, 2.0, &[1.0; 2], &[1.15, 0.1], 1.0))
}

pub(crate) fn normal_wishart() -> Kernel {
    Kernel::Full(Full::new(&[0.0; 2], 0.1, 4.0, &Full::identity(2), &[1.15, 0.1], 1.0).unwrap())
}

/// The label kernels as feature kernels, whose marginal likelihoods are the same functions.
pub(crate) fn labels_as_features(patterns: &Patterns) -> Kernel {
    match patterns {
        Patterns::Bernoulli { .. } => Kernel::Bernoulli(Bernoulli::new(1.0, &[0.5; 2], 1.0)),
        Patterns::Multinomial { labels, omega } => Kernel::Multinomial(Multinomial::new(*labels, *omega, 1.0)),
    }
}

pub(crate) fn beta_half() -> Patterns {
    Patterns::bernoulli(1.0, &[0.5; 2])
}

pub(crate) fn dirichlet_half() -> Patterns {
    Patterns::multinomial(2, 0.5)
}

/// Statistics of rows with these weights (rows × k).
pub(crate) fn statistics(kernel: &Kernel, x: X<'_>, r: &[f64], k: usize) -> Vec<f64> {
    let mut stats = vec![0.0; k * kernel.size()];
    kernel.add(x, r, k, &mut stats, &mut Scratch::default());
    stats
}

/// Every way to part n rows: numbers of groups, in order of first appearance.
pub(crate) fn partitions(n: usize) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for _ in 0..n {
        let longer = |p: Vec<usize>| {
            let groups = p.iter().max().map_or(0, |m| m + 1);
            (0..=groups).map(move |g| p.iter().copied().chain([g]).collect::<Vec<_>>())
        };
        all = all.into_iter().flat_map(longer).collect();
    }
    all
}

/// ln of the prior probability of a partition under a Dirichlet process.
pub(crate) fn ln_prior(partition: &[usize], alpha: f64) -> f64 {
    let (n, groups) = (partition.len(), partition.iter().max().map_or(0, |m| m + 1));
    let sizes = (0..groups).map(|g| partition.iter().filter(|p| **p == g).count() as f64);
    groups as f64 * alpha.ln() + sizes.map(ln_gamma).sum::<f64>() + ln_gamma(alpha) - ln_gamma(alpha + n as f64)
}

/// What is exact: evidence, posterior probabilities of partitions.
pub(crate) struct Exact {
    pub(crate) evidence: f64,
    pub(crate) partitions: Vec<Vec<usize>>,
    pub(crate) probabilities: Vec<f64>,
}

impl Exact {
    /// From the log joint of each partition.
    pub(crate) fn new(n: usize, ln_joint: impl Fn(&[usize]) -> f64) -> Self {
        let partitions = partitions(n);
        let joint: Vec<f64> = partitions.iter().map(|p| ln_joint(p)).collect();
        let evidence = log_sum_exp(&joint);
        Self { evidence, partitions, probabilities: joint.iter().map(|j| (j - evidence).exp()).collect() }
    }

    fn mean(&self, f: impl Fn(&[usize]) -> f64) -> f64 {
        self.partitions.iter().zip(&self.probabilities).map(|(p, w)| w * f(p)).sum()
    }

    /// Expected number of components.
    pub(crate) fn components(&self) -> f64 {
        self.mean(|p| p.iter().max().map_or(0.0, |m| *m as f64 + 1.0))
    }

    /// Probabilities of pairs of rows to be together: (0,1), (0,2), … (2,3).
    pub(crate) fn pairs(&self) -> Vec<f64> {
        let n = self.partitions[0].len();
        let pairs = (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j)));
        pairs.map(|(i, j)| self.mean(|p| f64::from(u8::from(p[i] == p[j])))).collect()
    }
}

/// The posterior of a mixture of features and label patterns, every label known.
pub(crate) fn exact(kernel: &Kernel, x: X<'_>, patterns: &Patterns, y: &[i8], alpha: f64) -> Exact {
    let labels = labels_as_features(patterns);
    let y: Vec<f64> = y.iter().map(|&y| f64::from(y)).collect();
    let y = dense(&y, patterns.labels());
    let n = x.rows();
    let mut coefficients = vec![0.0; n];
    kernel.ln_coefficient(x, &mut coefficients);
    labels.ln_coefficient(y, &mut coefficients);
    let coefficient: f64 = coefficients.iter().sum();
    Exact::new(n, |p| {
        let groups = p.iter().max().map_or(0, |m| m + 1);
        let r: Vec<f64> = p.iter().flat_map(|&z| (0..groups).map(move |g| f64::from(u8::from(z == g)))).collect();
        let marginal = |kernel: &Kernel, x: X<'_>| {
            let stats = statistics(kernel, x, &r, groups);
            stats.chunks_exact(kernel.size()).map(|s| kernel.ln_marginal(s).unwrap()).sum::<f64>()
        };
        ln_prior(p, alpha) + marginal(kernel, x) + marginal(&labels, y) + coefficient
    })
}
