//! Quantiles of a mixture of many normals.

use std::f64::consts::PI;

use crate::special::norm_cdf;

/// A component of a mixture.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Normal {
    pub(super) share: f64,
    pub(super) mean: f64,
    pub(super) sd: f64,
}

/// Quantile of a mixture of normals with this mean and standard deviation: Newton's steps inside an interval that holds it, which by
/// Cantelli's inequality is [mean − sd √((1−p)/p), mean + sd √(p/(1−p))]; halved where a step leaves it.
pub(super) fn quantile(level: f64, parts: &[Normal], mean: f64, sd: f64) -> f64 {
    let (mut lo, mut hi) = (mean - sd * ((1.0 - level) / level).sqrt(), mean + sd * (level / (1.0 - level)).sqrt());
    let mut x = mean.clamp(lo, hi);
    let mut before = hi - lo;
    for _ in 0..200 {
        let (mut below, mut density) = (0.0, 0.0);
        for part in parts.iter().filter(|p| p.share > 0.0) {
            let t = (x - part.mean) / part.sd;
            below += part.share * norm_cdf(t);
            density += part.share * (-0.5 * t * t).exp() / (part.sd * (2.0 * PI).sqrt());
        }
        if below < level {
            lo = x
        } else {
            hi = x
        }
        let (newton, close) = (x - (below - level) / density, 1e-12 * (x.abs() + sd));
        if (newton - x).abs() <= close || hi - lo <= close {
            return newton.clamp(lo, hi);
        }
        // a step must at least halve the one before it, else it is the interval that is halved
        let next = if newton > lo && newton < hi && (newton - x).abs() < 0.5 * before { newton } else { 0.5 * (lo + hi) };
        before = (next - x).abs();
        x = next;
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_a_mixture_are_those_of_its_distribution() {
        let parts = [
            Normal { share: 0.7, mean: -3.0, sd: 0.1 },
            Normal { share: 0.3, mean: 40.0, sd: 5.0 },
            Normal { share: 0.0, mean: 0.0, sd: 1e-300 },
        ];
        let mean: f64 = parts.iter().map(|p| p.share * p.mean).sum();
        let sd = parts.iter().map(|p| p.share * (p.sd * p.sd + (p.mean - mean).powi(2))).sum::<f64>().sqrt();
        for level in [1e-6, 0.01, 0.35, 0.699, 0.7, 0.701, 0.9, 0.999999] {
            let x = quantile(level, &parts, mean, sd);
            let below: f64 = parts.iter().filter(|p| p.share > 0.0).map(|p| p.share * norm_cdf((x - p.mean) / p.sd)).sum();
            assert!((below - level).abs() < 1e-10, "{level}: {below} at {x}");
        }
    }
}
