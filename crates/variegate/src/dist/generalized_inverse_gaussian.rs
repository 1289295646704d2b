//! Generalised inverse Gaussian distribution.

use super::{Gamma, ParamError, exponential, require, uniform};
use rand::Rng;
use rand_distr::Distribution;

/// GeneralizedInverseGaussian(p, a, b): density proportional to `x^(p-1) exp(-(a x + b/x)/2)` on `x > 0`.
///
/// With `b = 0` it is Gamma(shape p, rate a/2), with `a = 0` the distribution of 1/Gamma(-p, b/2).
///
/// In `y = ln(x/mode)` the log density is `-alpha (cosh y - 1) - p (e^y - 1 - y)`, with `alpha = sqrt(p^2 + ab) - p`, for `p >= 0`
/// (else turn `x` over): concave and 0 at its top. Draws are made there by rejection from a flat top with two exponential tails that
/// touch where the density has fallen by about `e` (after Devroye); more than two in three are accepted for all parameters.
/// A draw is off by about 1e-16 of itself, and becomes 0 or infinite only where it leaves the range of doubles.
///
/// ```
/// use rand_distr::Distribution;
/// use variegate::dist::GeneralizedInverseGaussian;
/// let mut rng = variegate::run::Philox::new([1, 2], [0; 4]);
/// assert!(GeneralizedInverseGaussian::new(2.3, 3.0, 1.7)?.sample(&mut rng) > 0.0);
/// # Ok::<(), variegate::dist::ParamError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GeneralizedInverseGaussian {
    p: f64,
    a: f64,
    b: f64,
    core: Core,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Core {
    /// `b = 0`.
    Gamma(Gamma),
    /// `a = 0`.
    InverseGamma(Gamma),
    /// Neither.
    Between(Hat),
}

impl GeneralizedInverseGaussian {
    /// Any finite power; `a` and `b` not negative, not 0 where the power does not make up for it.
    pub fn new(p: f64, a: f64, b: f64) -> Result<Self, ParamError> {
        let name = "generalised inverse Gaussian";
        require(p.is_finite(), name, "p", p, "finite")?;
        for (parameter, value) in [("a", a), ("b", b)] {
            require(value >= 0.0 && value.is_finite(), name, parameter, value, "finite and not negative")?;
        }
        require(a > 0.0 || p < 0.0, name, "a", a, "positive unless p is negative")?;
        require(b > 0.0 || p > 0.0, name, "b", b, "positive unless p is positive")?;
        let core = if b == 0.0 {
            Core::Gamma(Gamma::new(p, 0.5 * a)?)
        } else if a == 0.0 {
            Core::InverseGamma(Gamma::new(-p, 0.5 * b)?)
        } else {
            Core::Between(Hat::new(p.abs(), a.sqrt() * b.sqrt()))
        };
        Ok(Self { p, a, b, core })
    }

    /// Log density at `x`, up to a constant.
    pub fn ln_pdf_unnormalised(&self, x: f64) -> f64 {
        if x <= 0.0 || x.is_infinite() {
            return f64::NEG_INFINITY;
        }
        (self.p - 1.0) * x.ln() - 0.5 * (self.a * x + self.b / x)
    }
}

/// The distribution of `y`, and the envelope of its logarithm: 0 on `[-left, right]`, straight lines beyond.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Hat {
    p: f64,
    /// `sqrt(alpha)`: `alpha` itself may underflow where `alpha cosh y` matters.
    root: f64,
    /// `p + sqrt(p^2 + ab)`: the top lies at this over `a`.
    sum: f64,
    left: f64,
    right: f64,
    /// Mean lengths of the two tails.
    left_tail: f64,
    right_tail: f64,
}

/// How far the log density has fallen at `y`, and how fast it falls there as `y` grows; `root` is that of alpha.
fn drop(p: f64, root: f64, y: f64) -> (f64, f64) {
    let (sinh, cosh) = (root * (0.5 * y).sinh(), root * (0.5 * y).cosh());
    if p == 0.0 {
        return (2.0 * sinh * sinh, 2.0 * sinh * cosh); // not 0 times an overflow
    }
    let more = y.exp_m1();
    (2.0 * sinh * sinh + p * (more - y), 2.0 * sinh * cosh + p * more)
}

impl Hat {
    /// `p >= 0`, `product = sqrt(ab) > 0`.
    fn new(p: f64, product: f64) -> Self {
        let sum = p + p.hypot(product);
        let root = (product / sum.sqrt()).max(f64::MIN_POSITIVE);
        let alpha = root * root;
        // distances at which the density has fallen by about 1; any would do, at a cost
        let touch = |direction: f64| {
            let fallen = drop(p, root, direction).0;
            if (0.5..=2.0).contains(&fallen) {
                1.0
            } else if fallen > 2.0 {
                (2.0 / (alpha + p)).sqrt()
            } else if direction > 0.0 {
                let (ln_alpha, ln_p) = (2.0 * root.ln(), (2.0 * p).ln());
                4.0_f64.ln() - crate::special::log_sum_exp(&[ln_alpha, ln_p])
            } else {
                // arcosh(1 + 1/alpha)
                let flat =
                    if alpha > 1e-16 { (1.0 + (1.0 + (1.0 + 2.0 * alpha).sqrt()) / alpha).ln() } else { 2.0_f64.ln() - 2.0 * root.ln() };
                flat.min(1.0 / p)
            }
        };
        let (right, left) = (touch(1.0), touch(-1.0));
        let (fallen_right, slope_right) = drop(p, root, right);
        let (fallen_left, slope_left) = drop(p, root, -left);
        let (right_tail, left_tail) = (1.0 / slope_right, -1.0 / slope_left);
        Self { p, root, sum, left: left - left_tail * fallen_left, right: right - right_tail * fallen_right, left_tail, right_tail }
    }

    fn draw<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        let flat = self.left + self.right;
        loop {
            let u = uniform(rng) * (flat + self.left_tail + self.right_tail);
            let (y, ceiling) = if u < flat {
                (u - self.left, 0.0)
            } else {
                let fallen = exponential(rng);
                let y =
                    if u < flat + self.left_tail { -self.left - fallen * self.left_tail } else { self.right + fallen * self.right_tail };
                (y, fallen)
            };
            if exponential(rng) >= drop(self.p, self.root, y).0 - ceiling {
                return y;
            }
        }
    }
}

impl Distribution<f64> for GeneralizedInverseGaussian {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        match &self.core {
            Core::Gamma(gamma) => gamma.sample(rng),
            Core::InverseGamma(gamma) => (-gamma.sample_ln(rng)).exp(),
            Core::Between(hat) => {
                let y = hat.draw(rng);
                // halves, so that a large ratio of mode to draw does not overflow on the way
                let half = if self.p < 0.0 { (-0.5 * y).exp() } else { (0.5 * y).exp() };
                let mode = if self.p < 0.0 { self.b / hat.sum } else { hat.sum / self.a };
                half * mode * half
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::InverseGaussian;
    use super::super::quadrature::LnDensity;
    use super::super::testing::*;
    use super::*;

    fn draws(distribution: &GeneralizedInverseGaussian, count: usize, seed: u64) -> Vec<f64> {
        let mut rng = rng(seed);
        (0..count).map(|_| distribution.sample(&mut rng)).collect()
    }

    /// The density of `ln x`, for integrals.
    fn of_ln(p: f64, a: f64, b: f64) -> LnDensity<impl Fn(f64) -> f64> {
        let mode = if p < 0.0 { b.ln() - (-p + p.hypot((a * b).sqrt())).ln() } else { (p + p.hypot((a * b).sqrt())).ln() - a.ln() };
        let (at_mode, over) = (0.5 * a * mode.exp(), 0.5 * b * (-mode).exp());
        // relative to the mode: the terms themselves are huge where p is
        let ln_f = move |y: f64| p * (y - mode) - at_mode * (y - mode).exp_m1() - over * (mode - y).exp_m1();
        LnDensity::new(ln_f, mode, 1.0 / (1.0 + p.abs()).sqrt(), f64::NEG_INFINITY, f64::INFINITY)
    }

    #[test]
    fn known_mean() {
        let (mean, variance) = of_ln(2.3, 3.0, 1.7).mean_and_variance(f64::exp);
        assert!((mean - 1.9303739022).abs() < 1e-9);
        check_moments("GIG(2.3, 3, 1.7)", &draws(&GeneralizedInverseGaussian::new(2.3, 3.0, 1.7).unwrap(), 40_000, 1), mean, variance);
    }

    #[test]
    fn distribution_of_draws() {
        for (i, (p, a, b)) in [
            (2.3, 3.0, 1.7),
            (-2.3, 3.0, 1.7),
            (0.0, 1.0, 1.0),
            (0.0, 1e-3, 1e-3),
            (0.4, 1e-8, 1e-6),
            (-0.4, 50.0, 80.0),
            (1e-9, 1e-10, 1e-10),
            (-1e5, 3.0, 1e5),
            (1e5, 1e12, 1e12),
            (700.0, 1e-9, 1e12),
            (0.01, 1e-20, 1e-20),
        ]
        .into_iter()
        .enumerate()
        {
            let distribution = GeneralizedInverseGaussian::new(p, a, b).unwrap();
            let density = of_ln(p, a, b);
            let total = density.ln_total();
            let mode = if p < 0.0 { b / (-p + p.hypot((a * b).sqrt())) } else { (p + p.hypot((a * b).sqrt())) / a };
            let ln_pdf = |y: f64| {
                let y = y - mode.ln();
                p * y - 0.5 * a * mode * y.exp_m1() - 0.5 * b / mode * (-y).exp_m1() - total
            };
            let logs: Vec<f64> = draws(&distribution, 20_000, 50 + i as u64).iter().map(|x| x.ln()).collect();
            check_ks(&format!("GIG({p}, {a}, {b})"), &logs, ln_pdf, f64::NEG_INFINITY, f64::INFINITY, 200);
            let (x, other) = (mode, mode * 1.1);
            let gap =
                distribution.ln_pdf_unnormalised(other) + other.ln() - distribution.ln_pdf_unnormalised(x) - x.ln() - ln_pdf(other.ln())
                    + ln_pdf(x.ln());
            assert!(gap.abs() < 1e-9 * (1.0 + p.abs() + (a * b).sqrt()), "GIG({p}, {a}, {b}): {gap}");
        }
    }

    #[test]
    fn inverse_gaussian_is_a_case() {
        let (mean, shape) = (1.4, 3.0);
        let ig = InverseGaussian::new(mean, shape).unwrap();
        let distribution = GeneralizedInverseGaussian::new(-0.5, shape / (mean * mean), shape).unwrap();
        let draws = draws(&distribution, 40_000, 3);
        check_moments("GIG(-1/2)", &draws, ig.mean(), ig.variance());
        let logs: Vec<f64> = draws.iter().map(|x| x.ln()).collect();
        check_ks("GIG(-1/2)", &logs, |y| ig.ln_pdf(y.exp()) + y, f64::NEG_INFINITY, f64::INFINITY, 200);
        assert!(
            ((distribution.ln_pdf_unnormalised(2.0) - distribution.ln_pdf_unnormalised(0.3)) - (ig.ln_pdf(2.0) - ig.ln_pdf(0.3))).abs()
                < 1e-12
        );
    }

    /// At the limits and beside them.
    #[test]
    fn gamma_limits() {
        for (shape, rate) in [(0.3, 2.0), (4.0, 0.1)] {
            let gamma = Gamma::new(shape, rate).unwrap();
            for (i, tiny) in [0.0, 1e-300].into_iter().enumerate() {
                for turn in [1.0, -1.0] {
                    let (a, b) = if turn > 0.0 { (2.0 * rate, tiny) } else { (tiny, 2.0 * rate) };
                    let distribution = GeneralizedInverseGaussian::new(turn * shape, a, b).unwrap();
                    let logs: Vec<f64> = draws(&distribution, 20_000, 7 + i as u64).iter().map(|x| turn * x.ln()).collect();
                    let name = format!("GIG({}, {a}, {b})", turn * shape);
                    check_ks(&name, &logs, |y| gamma.ln_pdf_of_ln(y), f64::NEG_INFINITY, f64::INFINITY, 200);
                }
            }
        }
    }

    /// Two draws in three are accepted, everywhere.
    #[test]
    fn rejection_stays_cheap() {
        for p in [0.0, 1e-6, 0.1, 1.0, 30.0, 1e5] {
            for root in [1e-300, 1e-8, 0.01, 0.3, 1.0, 5.0, 1e3, 1e12] {
                let hat = Hat::new(p, root);
                let area = hat.left + hat.right + hat.left_tail + hat.right_tail;
                let ln_f = |y: f64| -drop(p, hat.root, y).0;
                let scale = (hat.left + hat.right).max(1e-9);
                let accepted = LnDensity::new(ln_f, 0.0, scale, f64::NEG_INFINITY, f64::INFINITY).integral(|_| 1.0) / area;
                assert!((0.6..=1.0 + 1e-9).contains(&accepted), "p = {p}, root = {root}: {accepted}");
            }
        }
    }

    #[test]
    fn extremes() {
        for (p, a, b) in [(1e5, 1e-300, 1e-300), (-1e5, 1e-300, 1e12), (0.0, 1e-300, 1e-300), (0.0, 1e12, 1e-300), (-1e5, 1e12, 1e-300)] {
            let distribution = GeneralizedInverseGaussian::new(p, a, b).unwrap();
            for x in draws(&distribution, 200, 9) {
                assert!(x >= 0.0 && !x.is_nan(), "GIG({p}, {a}, {b}): {x}");
            }
        }
        for (p, a, b) in [(0.0, 0.0, 1.0), (0.0, 1.0, 0.0), (1.0, 0.0, 1.0), (-1.0, 1.0, 0.0), (1.0, -1.0, 1.0), (f64::NAN, 1.0, 1.0)] {
            assert!(GeneralizedInverseGaussian::new(p, a, b).is_err(), "GIG({p}, {a}, {b})");
        }
        let distribution = GeneralizedInverseGaussian::new(1.0, 1.0, 1.0).unwrap();
        assert_eq!(
            (distribution.ln_pdf_unnormalised(0.0), distribution.ln_pdf_unnormalised(f64::INFINITY)),
            (f64::NEG_INFINITY, f64::NEG_INFINITY)
        );
    }

    #[test]
    fn pinned_draws() {
        let mut rng = rng(1);
        let got = [(2.3, 3.0, 1.7), (-0.4, 50.0, 80.0), (0.0, 1e-3, 1e-3)]
            .map(|(p, a, b)| GeneralizedInverseGaussian::new(p, a, b).unwrap().sample(&mut rng));
        check_pinned("generalised inverse Gaussian", &got, &[2.821481018094493, 0.9469771588643541, 171.2228811327115]);
    }
}
