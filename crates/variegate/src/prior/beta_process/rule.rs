//! Nodes for integrals `int_0^1 h(b) db/b` where `h` is made of probabilities that a column is empty.
//!
//! Such a probability is `E (1-b)^U`, a polynomial of degree `U <= N` in `b`. Gauss-Legendre in `b` itself with `n` nodes is exact
//! up to degree `2n`, and near enough (its error is about `exp(-4 n^2/U)`) far beyond: a few dozen nodes do for hundreds of
//! rows, four for five rows. Only where `U` goes into tens of thousands are panels in `-ln b` cheaper.

use std::f64::consts::PI;
use std::sync::LazyLock;

use crate::special::coefficients::LEGENDRE;

/// Nodes `b`, `1-b`, and weights for `db/b`.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) b: Vec<f64>,
    pub(super) rest: Vec<f64>,
    pub(super) weight: Vec<f64>,
}

const SIZES: [usize; 12] = [4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256];
/// Panels of 16 nodes in `-ln b`, their edges at squares, and where they end: beyond it no stick matters.
const PANELS: usize = 26;
const LAST: f64 = 62.0;

static RULES: [LazyLock<Rule>; SIZES.len() + 1] = [
    LazyLock::new(|| Rule::legendre(SIZES[0])),
    LazyLock::new(|| Rule::legendre(SIZES[1])),
    LazyLock::new(|| Rule::legendre(SIZES[2])),
    LazyLock::new(|| Rule::legendre(SIZES[3])),
    LazyLock::new(|| Rule::legendre(SIZES[4])),
    LazyLock::new(|| Rule::legendre(SIZES[5])),
    LazyLock::new(|| Rule::legendre(SIZES[6])),
    LazyLock::new(|| Rule::legendre(SIZES[7])),
    LazyLock::new(|| Rule::legendre(SIZES[8])),
    LazyLock::new(|| Rule::legendre(SIZES[9])),
    LazyLock::new(|| Rule::legendre(SIZES[10])),
    LazyLock::new(|| Rule::legendre(SIZES[11])),
    LazyLock::new(Rule::panels),
];

/// Number of the smallest rule that suffices for `rows` rows in all, where `U` has this mean (and so at most this variance).
pub(super) fn level(rows: u64, mean: f64) -> usize {
    let degree = (mean + 6.0 * mean.sqrt() + 12.0).min(rows as f64);
    smallest(rows, 8.0 * degree)
}

/// The same for the probability of any pattern of ones: its peak inside (0, 1) is harder than one at the end.
pub(super) fn pattern_level(rows: u64) -> usize {
    smallest(rows, 12.5 * rows as f64)
}

fn smallest(rows: u64, square: f64) -> usize {
    SIZES.iter().position(|&n| rows <= 2 * n as u64 || (n * n) as f64 >= square).unwrap_or(SIZES.len())
}

/// The rule of a level.
#[inline]
pub(super) fn rule(level: usize) -> &'static Rule {
    &RULES[level]
}

impl Rule {
    fn legendre(n: usize) -> Self {
        let (mut b, mut rest, mut weight) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
        for i in 0..n.div_ceil(2) {
            let mut x = (PI * (i as f64 + 0.75) / (n as f64 + 0.5)).cos();
            let mut slope = 0.0;
            // Newton from this start doubles its digits at every step
            for _ in 0..8 {
                let (mut before, mut here) = (0.0, 1.0);
                for k in 0..n {
                    let k = k as f64;
                    (before, here) = (here, ((2.0 * k + 1.0) * x * here - k * before) / (k + 1.0));
                }
                slope = n as f64 * (x * here - before) / (x * x - 1.0);
                x -= here / slope;
            }
            let (near, far) = (0.5 * (1.0 - x), 0.5 * (1.0 + x));
            let w = 1.0 / ((1.0 - x * x) * slope * slope);
            (b[i], rest[i], weight[i]) = (near, far, w / near);
            (b[n - 1 - i], rest[n - 1 - i], weight[n - 1 - i]) = (far, near, w / far);
        }
        Self { b, rest, weight }
    }

    fn panels() -> Self {
        let (mut b, mut rest, mut weight) = (Vec::new(), Vec::new(), Vec::new());
        let edge = |p: usize| LAST * (p * p) as f64 / (PANELS * PANELS) as f64;
        for p in 0..PANELS {
            let (middle, half) = (0.5 * (edge(p) + edge(p + 1)), 0.5 * (edge(p + 1) - edge(p)));
            for (x, w) in LEGENDRE.iter().flat_map(|&(x, w)| [(-x, w), (x, w)]) {
                let t: f64 = middle + half * x;
                b.push((-t).exp());
                rest.push(-(-t).exp_m1());
                weight.push(half * w);
            }
        }
        Self { b, rest, weight }
    }
}
