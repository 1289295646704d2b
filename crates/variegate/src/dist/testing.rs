//! What the tests of every distribution share: a fixed generator, moment checks, and Kolmogorov-Smirnov against the density.

use super::quadrature::panel;
use rand::rand_core::TryRng;
use std::convert::Infallible;

/// SplitMix64, written out so that pinned draws depend on nothing but this file.
pub(crate) struct TestRng(u64);

pub(crate) fn rng(seed: u64) -> TestRng {
    TestRng(seed)
}

impl TryRng for TestRng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.try_next_u64()? >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.0 = self.0.wrapping_add(crate::run::GOLDEN);
        Ok(crate::run::scatter_bits(self.0))
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Infallible> {
        for chunk in out.chunks_mut(8) {
            chunk.copy_from_slice(&self.try_next_u64()?.to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}

/// Sample mean and sample variance about the exact mean, each within 4.5 standard errors (7e-6 false alarms each).
pub(crate) fn check_moments(name: &str, draws: &[f64], mean: f64, variance: f64) {
    let n = draws.len() as f64;
    let z_mean = (draws.iter().sum::<f64>() / n - mean) / (variance / n).sqrt();
    assert!(z_mean.abs() < 4.5, "{name}: mean is off by {z_mean:.2} standard errors (expected {mean})");
    let squares: Vec<f64> = draws.iter().map(|x| (x - mean) * (x - mean)).collect();
    let second = squares.iter().sum::<f64>() / n;
    let spread = squares.iter().map(|s| (s - second) * (s - second)).sum::<f64>() / n;
    let z_variance = (second - variance) / (spread / n).sqrt();
    assert!(z_variance.abs() < 4.5, "{name}: variance {second} is off by {z_variance:.2} standard errors (expected {variance})");
}

/// The density integrates to 1, and the empirical distribution function stays within 2.7/sqrt(n) of its integral
/// (a false alarm in a million).
///
/// The distance is taken at `panels` sample quantiles, between which the density is integrated; it must be smooth inside
/// `(lower, upper)` and finite at finite ends (a density that is not is tested on a transformed scale).
pub(crate) fn check_ks(name: &str, draws: &[f64], ln_pdf: impl Fn(f64) -> f64, lower: f64, upper: f64, panels: usize) {
    let mut sorted = draws.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let density = |x: f64| ln_pdf(x).exp();
    let at = |i: usize| i * (n - 1) / panels;
    let width = sorted[n / 2] - sorted[n / 4];
    let mut cumulative = outwards(&density, sorted[0], lower, width);
    let mut distance = 0.0_f64;
    for i in 0..panels {
        distance = distance.max((cumulative - at(i) as f64 / n as f64).abs());
        let (from, to) = (sorted[at(i)], sorted[at(i + 1)]);
        let middle = 0.5 * (from + to);
        cumulative += panel(&density, from, middle) + panel(&density, middle, to);
    }
    distance = distance.max((cumulative - 1.0).abs());
    let total = cumulative + outwards(&density, sorted[n - 1], upper, width);
    assert!((total - 1.0).abs() < 1e-6, "{name}: the density integrates to {total}");
    let scaled = distance * (n as f64).sqrt();
    assert!(scaled < 2.7, "{name}: Kolmogorov-Smirnov distance {scaled:.2}/sqrt(n)");
}

/// Integral from `start` to a bound that may be infinite, in panels that grow until they add nothing.
fn outwards(density: &impl Fn(f64) -> f64, start: f64, bound: f64, width: f64) -> f64 {
    let direction = if bound < start { -1.0 } else { 1.0 };
    let (mut total, mut from, mut step) = (0.0, start, width / 8.0);
    while from != bound {
        let to = if (bound - from).abs() <= step { bound } else { from + direction * step };
        let piece = panel(density, from, to).abs();
        total += piece;
        from = to;
        step *= 1.5;
        if piece < 1e-12 {
            break;
        }
    }
    total
}

/// Pinned first draws: a change here is a change of every stored result ("draws change" in the changelog).
pub(crate) fn check_pinned(name: &str, got: &[f64], want: &[f64]) {
    let same = got.len() == want.len() && got.iter().zip(want).all(|(g, w)| (g - w).abs() <= 1e-12 * w.abs());
    assert!(same, "{name}: draws changed to {got:?}");
}
