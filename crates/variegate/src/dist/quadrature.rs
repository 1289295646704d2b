//! Integrals of smooth densities given by their logarithm: normalisers and moments that have no stable closed form.

use crate::special::coefficients::LEGENDRE;

/// A density is left out where it has fallen by this much from its top: `exp(-50)` is below the rounding of the sum.
const NEGLIGIBLE_DROP: f64 = 50.0;

/// 16-point Gauss-Legendre rule on one panel.
pub(crate) fn panel(f: &impl Fn(f64) -> f64, from: f64, to: f64) -> f64 {
    let (middle, half) = (0.5 * (from + to), 0.5 * (to - from));
    let sum: f64 = LEGENDRE.iter().map(|(x, w)| w * (f(middle - half * x) + f(middle + half * x))).sum();
    sum * half
}

/// Integral over a finite interval, bisected until two halves agree with the whole to about 1e-14 of the integral of `|f|`.
pub(crate) fn integrate(f: &impl Fn(f64) -> f64, from: f64, to: f64) -> f64 {
    fn refine(f: &impl Fn(f64) -> f64, from: f64, to: f64, whole: f64, tolerance: f64, depth: u32) -> f64 {
        let middle = 0.5 * (from + to);
        let (left, right) = (panel(f, from, middle), panel(f, middle, to));
        if depth == 0 || (left + right - whole).abs() <= tolerance {
            return left + right;
        }
        refine(f, from, middle, left, tolerance, depth - 1) + refine(f, middle, to, right, tolerance, depth - 1)
    }
    let size = panel(&|x| f(x).abs(), from, to).abs();
    refine(f, from, to, panel(f, from, to), 1e-14 * size, 30)
}

/// An unnormalised density `exp(ln_f)` with one mode, on the part of its range that matters.
pub(crate) struct LnDensity<F> {
    ln_f: F,
    mode: f64,
    top: f64,
    from: f64,
    to: f64,
}

impl<F: Fn(f64) -> f64> LnDensity<F> {
    /// `scale` is a first guess of the width; only its order of magnitude matters. `mode` lies in `[lower, upper]`.
    pub(crate) fn new(ln_f: F, mode: f64, scale: f64, lower: f64, upper: f64) -> Self {
        let top = ln_f(mode);
        let reach = |direction: f64, bound: f64| {
            let mut step = scale;
            // from inside the density outwards: a rule that only saw its far tail would find nothing
            while ln_f(mode + direction * step) < top - NEGLIGIBLE_DROP && step > f64::MIN_POSITIVE {
                step *= 0.5;
            }
            loop {
                let at = mode + direction * step;
                if (bound - at) * direction <= 0.0 {
                    return bound;
                }
                if ln_f(at) < top - NEGLIGIBLE_DROP || !at.is_finite() {
                    return at;
                }
                step *= 2.0;
            }
        };
        let (from, to) = (reach(-1.0, lower), reach(1.0, upper));
        Self { ln_f, mode, top, from, to }
    }

    /// `integral of g(x) exp(ln_f(x) - ln_f(mode)) dx`.
    pub(crate) fn integral(&self, g: impl Fn(f64) -> f64) -> f64 {
        let f = |x: f64| g(x) * ((self.ln_f)(x) - self.top).exp();
        integrate(&f, self.from, self.mode) + integrate(&f, self.mode, self.to)
    }

    /// `ln integral exp(ln_f(x)) dx`.
    pub(crate) fn ln_total(&self) -> f64 {
        self.top + self.integral(|_| 1.0).ln()
    }

    /// Mean and variance of `g(x)`; the second pass is taken about the mean, so nothing cancels.
    pub(crate) fn mean_and_variance(&self, g: impl Fn(f64) -> f64) -> (f64, f64) {
        let total = self.integral(|_| 1.0);
        let mean = self.integral(&g) / total;
        let variance = self.integral(|x| (g(x) - mean) * (g(x) - mean)) / total;
        (mean, variance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaussian_normaliser_and_moments() {
        for (centre, sd, scale) in [(0.0, 1.0, 1.0), (3.0, 1e-3, 10.0), (-2.0, 1e3, 1e-3)] {
            let density = LnDensity::new(|x: f64| -0.5 * ((x - centre) / sd).powi(2), centre, scale, f64::NEG_INFINITY, f64::INFINITY);
            assert!((density.ln_total() - (sd * std::f64::consts::TAU.sqrt()).ln()).abs() < 1e-13);
            let (mean, variance) = density.mean_and_variance(|x| x);
            assert!((mean - centre).abs() < 1e-13 * (1.0 + sd) && (variance / (sd * sd) - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn one_sided_exponential() {
        let density = LnDensity::new(|x: f64| -7.0 * x, 0.0, 1.0, 0.0, f64::INFINITY);
        let (mean, variance) = density.mean_and_variance(|x| x);
        assert!((mean * 7.0 - 1.0).abs() < 1e-13 && (variance * 49.0 - 1.0).abs() < 1e-12);
    }
}
