//! Polya-Gamma distribution.

use super::polya_gamma_density;
use super::{ParamError, exponential, inverse_gaussian, require, uniform};
use crate::special::mills_ratio;
use rand::Rng;
use rand_distr::Distribution;
use std::f64::consts::PI;

/// PolyaGamma(b, c), integer `b >= 1`: the distribution of `sum_k g_k / (2 pi^2 ((k - 1/2)^2 + c^2/(4 pi^2)))`, `g_k ~ Gamma(b, 1)`, with
/// `E exp(-t w) = (cosh(c/2) / cosh(sqrt((c^2/2 + t)/2)))^b`.
///
/// Its use: `exp(psi)^a / (1 + exp(psi))^b` is proportional to the integral of `exp((a - b/2) psi - w psi^2/2)` over
/// `w ~ PolyaGamma(b, 0)`, and `w` given `psi` is `PolyaGamma(b, psi)`.
///
/// Draws are exact. PolyaGamma(1, c) takes one to two rejection steps whatever `c` is; PolyaGamma(b, c) adds `b` of them, so its cost
/// grows like `b` (there is no approximation for large `b`). The density of `b = 1` is a fast series; for `b >= 2` each value
/// costs an integral of a few hundred to a few thousand terms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PolyaGamma {
    b: u32,
    c: f64,
    tilt: Tilt,
}

/// The point where the two expansions of the density of `4 w` are exchanged.
pub(super) const SPLIT: f64 = 0.64;
/// `1/sqrt(SPLIT)`
const EDGE: f64 = 1.25;
/// From this half-tilt on the left part is drawn as an inverse Gaussian.
const GAUSSIAN_FROM: f64 = 2.0;
/// `1 - a_1/a_0` is never below this on either side of the split: accept without looking.
const SURELY: f64 = 0.994;

/// Proposal for `X = 4 w`, `b = 1`, at half-tilt `z = |c|/2`: right of the split an exponential of rate `pi^2/8 + z^2/2`, left of
/// it an inverse Gaussian with mean `1/z` and shape 1. Both are the first terms `a_0` of the two alternating series.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Tilt {
    z: f64,
    rate: f64,
    right: f64,
}

impl Tilt {
    /// The weights of the two parts are `pi/(2 rate) exp(-rate t)` and `2 exp(-z) P(IG <= t)`. Written with Mills ratios, the
    /// exponentials in their quotient cancel: no logarithm and, for `z <= 1/t`, no exponential is left.
    #[inline]
    fn new(z: f64) -> Self {
        // 4/(pi sqrt(2 pi)) exp(pi^2 t/8 - 1/(2t))
        const FACTOR: f64 = 0.512_192_009_419_478_6;
        const SQRT_2PI: f64 = 2.506_628_274_631_000_7;
        let rate = PI * PI / 8.0 + 0.5 * z * z;
        let (near, far) = (EDGE - z / EDGE, EDGE + z / EDGE); // (1 -+ t z)/sqrt(t)
        let sum = if near >= 0.0 {
            mills_ratio(near) + mills_ratio(far)
        } else {
            // M(-x) = sqrt(2 pi) exp(x^2/2) - M(x); infinite for large z, where the right part has no weight
            SQRT_2PI * (0.5 * near * near).exp() - mills_ratio(-near) + mills_ratio(far)
        };
        Self { z, rate, right: 1.0 / (1.0 + FACTOR * rate * sum) }
    }

    #[inline]
    fn draw<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        loop {
            // what is left of the uniform number after the choice of a side is uniform again
            let u = uniform(rng);
            let (x, v) = if u < self.right {
                (SPLIT + exponential(rng) / self.rate, u / self.right)
            } else {
                (self.left(rng), (u - self.right) / (1.0 - self.right))
            };
            if v <= SURELY || accept(x, v) {
                return 0.25 * x;
            }
        }
    }

    /// Inverse Gaussian of mean `1/z` and shape 1, given that it is at most `SPLIT`.
    #[inline]
    fn left<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        let square = self.z * self.z;
        if self.z < GAUSSIAN_FROM {
            // y = 1/sqrt(x) has log density f(y) = -y^2/2 - z^2/(2y^2), concave on y >= EDGE: reject from a tangent
            let (touch, slope, top) = tangent(square);
            loop {
                let y = EDGE + exponential(rng) / slope;
                let x = 1.0 / (y * y);
                if exponential(rng) >= 0.5 * (y * y + square * x) - top - slope * (y - touch) {
                    return x;
                }
            }
        }
        let mean = 1.0 / self.z;
        loop {
            let x = inverse_gaussian::draw(mean, mean, rng);
            if x <= SPLIT {
                return x;
            }
        }
    }
}

/// Point of contact, steepness and `-f` at the contact of a tangent to `f(y) = -y^2/2 - square/(2y^2)`: near the one that is
/// accepted most often; any would be exact.
#[inline]
fn tangent(square: f64) -> (f64, f64, f64) {
    let touch = 1.804 + 0.04 * square;
    let inverse = 1.0 / (touch * touch);
    (touch, touch * (1.0 - square * inverse * inverse), 0.5 * (touch * touch + square * inverse))
}

/// Whether `v a_0(x)` lies below `a_0 - a_1 + a_2 - ...`, decided by as many partial sums as it takes.
#[cold]
fn accept(x: f64, v: f64) -> bool {
    let mut sum = 1.0;
    let mut n = 0.0;
    loop {
        n += 1.0;
        sum -= term_ratio(n, x);
        if v <= sum {
            return true;
        }
        n += 1.0;
        sum += term_ratio(n, x);
        if v > sum {
            return false;
        }
    }
}

/// `a_n(x) / a_0(x)` of the series that is used at `x`.
pub(super) fn term_ratio(n: f64, x: f64) -> f64 {
    let exponent = if x <= SPLIT { -2.0 / x } else { -0.5 * PI * PI * x };
    (2.0 * n + 1.0) * (n * (n + 1.0) * exponent).exp()
}

impl PolyaGamma {
    /// `b` at least 1 and `c` finite.
    pub fn new(b: u32, c: f64) -> Result<Self, ParamError> {
        require(b >= 1, "Polya-Gamma", "b", b as f64, "at least 1")?;
        require(c.is_finite(), "Polya-Gamma", "c", c, "finite")?;
        Ok(Self { b, c, tilt: Tilt::new(0.5 * c.abs()) })
    }

    /// One draw from PolyaGamma(1, c) without constructing anything: what a Gibbs sweep needs for each row.
    /// The limit 0 for infinite `c`; NaN for NaN.
    #[inline]
    pub fn draw_1<R: Rng + ?Sized>(c: f64, rng: &mut R) -> f64 {
        if !c.is_finite() {
            return if c.is_nan() { c } else { 0.0 };
        }
        Tilt::new(0.5 * c.abs()).draw(rng)
    }

    /// Log density at `x`.
    pub fn ln_pdf(&self, x: f64) -> f64 {
        if x <= 0.0 || x.is_infinite() {
            return f64::NEG_INFINITY;
        }
        polya_gamma_density::ln_pdf(self.b, 0.5 * self.c.abs(), 4.0 * x) + 4.0_f64.ln()
    }

    /// `b tanh(c/2) / (2c)`.
    pub fn mean(&self) -> f64 {
        let b = self.b as f64;
        if self.c == 0.0 { 0.25 * b } else { b * (0.5 * self.c).tanh() / (2.0 * self.c) }
    }

    /// `b (sinh c - c) / (4 c^3 cosh^2(c/2))`.
    pub fn variance(&self) -> f64 {
        let (b, c) = (self.b as f64, self.c.abs());
        if c < 1.0 {
            // (sinh c - c)/c^3 by its series
            let s = c * c;
            let excess = (1.0 + s / 20.0 * (1.0 + s / 42.0 * (1.0 + s / 72.0 * (1.0 + s / 110.0 * (1.0 + s / 156.0))))) / 6.0;
            return b * excess / (4.0 * (0.5 * c).cosh().powi(2));
        }
        let e = (-c).exp();
        b * (1.0 - e * e - 2.0 * c * e) / (2.0 * c) / c / c / (1.0 + e).powi(2)
    }
}

impl Distribution<f64> for PolyaGamma {
    #[inline]
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        (0..self.b).map(|_| self.tilt.draw(rng)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::quadrature::integrate;
    use super::super::testing::*;
    use super::*;

    #[test]
    fn known_distribution_functions_and_moments() {
        let points = [0.05, 0.1, 0.25, 0.5, 1.0];
        let known = [
            (0.0, [0.050694637, 0.227688393, 0.629222570, 0.892022956, 0.990843010], 0.25, 1.0 / 24.0),
            (2.0, [0.072381675, 0.307231859, 0.753062095, 0.956382452, 0.998639219], 0.1903985390, 0.0213512384),
            (8.0, [0.412447270, 0.887627978, 0.999546205, 0.999999956, 1.0], 0.0624580812, 0.0009706694),
        ];
        for (c, cdf, mean, variance) in known {
            let pg = PolyaGamma::new(1, c).unwrap();
            assert!((pg.mean() - mean).abs() < 1e-10 && (pg.variance() - variance).abs() < 1e-10);
            let n = 200_000;
            let mut rng = rng(1200 + c as u64);
            let draws: Vec<f64> = (0..n).map(|_| pg.sample(&mut rng)).collect();
            for (x, p) in points.into_iter().zip(cdf) {
                let integral = integrate(&|v| pg.ln_pdf(v).exp(), 1e-6, x);
                assert!((integral - p).abs() < 2e-9, "c={c}: P(w <= {x}) = {integral}");
                let below = draws.iter().filter(|d| **d <= x).count() as f64 / n as f64;
                assert!((below - p).abs() <= 4.5 * (p * (1.0 - p) / n as f64).sqrt() + 1e-9, "c={c}, x={x}: {below} for {p}");
            }
        }
    }

    #[test]
    fn moments_and_density() {
        // tilts on both sides of every change of method, 1/t and 2 among them
        for (i, c) in [0.0, 1e-9, 0.3, 1.5, 3.0, 3.2, 3.99, 4.01, 7.0, 25.0, 140.0, 1e5].into_iter().enumerate() {
            let pg = PolyaGamma::new(1, c).unwrap();
            let mut rng = rng(1300 + i as u64);
            let name = format!("PG(1, {c})");
            let draws: Vec<f64> = (0..60_000).map(|_| PolyaGamma::draw_1(c, &mut rng)).collect();
            check_moments(&name, &draws, pg.mean(), pg.variance());
            let logs: Vec<f64> = draws.iter().map(|w| w.ln()).collect();
            check_ks(&name, &logs, |y| pg.ln_pdf(y.exp()) + y, f64::NEG_INFINITY, f64::INFINITY, 200);
        }
    }

    #[test]
    fn sums() {
        for (i, (b, c)) in [(2, 0.0), (3, 2.5), (12, 1.0), (200, 6.0)].into_iter().enumerate() {
            let pg = PolyaGamma::new(b, c).unwrap();
            let mut rng = rng(1400 + i as u64);
            let name = format!("PG({b}, {c})");
            let draws: Vec<f64> = (0..if b > 100 { 3000 } else { 20_000 }).map(|_| pg.sample(&mut rng)).collect();
            check_moments(&name, &draws, pg.mean(), pg.variance());
            check_ks(&name, &draws, |x| pg.ln_pdf(x), 0.0, f64::INFINITY, 12);
        }
    }

    /// The mixture weight against its definition by the normal distribution function.
    #[test]
    fn weight_of_the_right_part() {
        use crate::special::ln_norm_cdf;
        for z in [0.0, 0.1, 1.0, 1.56, 1.57, 3.0, 10.0, 40.0, 1e3] {
            let rate = PI * PI / 8.0 + 0.5 * z * z;
            let root = SPLIT.sqrt();
            let ln_left = [-1.0, 1.0].map(|s| s * z + ln_norm_cdf((-s * SPLIT * z - 1.0) / root));
            let ln_ratio = (4.0 / PI).ln() + rate.ln() + rate * SPLIT + crate::special::log_sum_exp(&ln_left);
            let want = 1.0 / (1.0 + ln_ratio.exp());
            assert!((Tilt::new(z).right - want).abs() <= 1e-12 * want, "z={z}: {} for {want}", Tilt::new(z).right);
        }
    }

    /// The line lies above the log density and touches it.
    #[test]
    fn tangent_is_an_envelope() {
        for z in [0.0, 0.5, 1.0, 1.5, 1.99] {
            let (touch, slope, top) = tangent(z * z);
            let gap = |y: f64| 0.5 * (y * y + z * z / (y * y)) - top - slope * (y - touch);
            assert!(slope > 0.0 && gap(touch).abs() < 1e-14 && gap(touch - 1e-5) > 0.0 && gap(touch + 1e-5) > 0.0);
            assert!((0..400).all(|i| gap(EDGE + 0.02 * i as f64) > -1e-14), "z={z}");
        }
    }

    /// The quick acceptance is what the series would say.
    #[test]
    fn quick_acceptance_is_safe() {
        for x in [1e-3, 0.3, 0.6, SPLIT, SPLIT + 1e-12, 0.7, 3.0] {
            assert!(1.0 - term_ratio(1.0, x) > SURELY, "{x}");
        }
    }

    #[test]
    fn extremes() {
        let mut rng = rng(3);
        for c in [1e3, 1e5, 1e8, 1e100, 1e300, -1e5] {
            let pg = PolyaGamma::new(1, c).unwrap();
            let w = pg.sample(&mut rng);
            assert!(w > 0.0 && w.is_finite(), "{c}: {w}");
            assert!((pg.mean() * 2.0 * c.abs() - 1.0).abs() < 1e-12);
            if c.abs() >= 1e8 {
                assert!((w / pg.mean() - 1.0).abs() < 1e-2); // relative sd sqrt(2/c)
            }
        }
        assert_eq!(PolyaGamma::draw_1(f64::INFINITY, &mut rng), 0.0);
        assert!(PolyaGamma::draw_1(f64::NAN, &mut rng).is_nan());
        assert!(PolyaGamma::new(0, 1.0).is_err() && PolyaGamma::new(1, f64::NAN).is_err());
        assert_eq!(PolyaGamma::new(1, 1.0).unwrap().ln_pdf(0.0), f64::NEG_INFINITY);
        // symmetric in c
        assert_eq!(PolyaGamma::new(2, 3.0).unwrap().mean(), PolyaGamma::new(2, -3.0).unwrap().mean());
    }

    #[test]
    fn variance_is_continuous() {
        let variance = |c: f64| PolyaGamma::new(1, c).unwrap().variance();
        assert!((variance(1.0 - 1e-12) / variance(1.0) - 1.0).abs() < 1e-11);
        assert!((variance(1e-4) - (1.0 / 24.0 - 1e-8 / 120.0)).abs() < 1e-15);
    }

    /// Several draws from each branch: tangent, inverse Gaussian, and both sides of the split.
    #[test]
    fn pinned_draws() {
        let mut rng = rng(1);
        let got = [0.0, 0.0, 1.5, 1.5, 3.5, 6.0, 50.0].map(|c| PolyaGamma::draw_1(c, &mut rng));
        check_pinned(
            "Polya-Gamma",
            &got,
            &[
                0.46330304845070913,
                0.04109347475960905,
                0.07091744790921574,
                0.34448902251194935,
                0.07735436098295481,
                0.11146201923599393,
                0.0063508825746195355,
            ],
        );
    }
}
