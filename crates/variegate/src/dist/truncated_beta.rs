//! Beta distribution restricted to an interval.

use super::quadrature::LnDensity;
use super::{ParamError, exponential, require, uniform};
use crate::special::{ln_sigmoid, log1p_exp, sigmoid};
use rand::Rng;
use rand_distr::Distribution;

/// TruncatedBeta(a, b, lower, upper): density proportional to `x^(a-1) (1-x)^(b-1)` on `[lower, upper]` inside [0, 1].
///
/// Shapes need not be positive where the interval keeps away from the end they belong to: `a <= 0` with `lower > 0`, `b <= 0` with
/// `upper < 1`, as long as `a + b >= 0`. So the stick of a feature that no row has yet (`a = 0`) is drawn like any other.
///
/// In `y = ln(x/(1-x))` the log density `a ln x + b ln(1-x)` is concave, also where the density of `x` is infinite at an end. Draws
/// are made there by rejection from a flat top with two exponential tails, touching the density where it has fallen by about `e`:
/// about three in four are accepted, wherever the interval lies. `x` is resolved to about `1e-16 |y|` of the smaller of `x`
/// and `1-x`; [`TruncatedBeta::sample_ln`] stays exact where `x` rounds to 0 or 1. Densities and moments cost one numerical integral.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TruncatedBeta {
    a: f64,
    b: f64,
    lower: f64,
    upper: f64,
    mode: f64,
    scale: f64,
    hat: Hat,
}

/// Envelope of the log density of `y`, relative to its value at the mode: 0 on `[left, right]`, straight lines beyond.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Hat {
    from: f64,
    left: f64,
    right: f64,
    to: f64,
    rise: f64,
    fall: f64,
    left_area: f64,
    right_area: f64,
}

/// `ln x^a (1-x)^b` at `y = ln(x/(1-x))`.
fn ln_density(a: f64, b: f64, y: f64) -> f64 {
    let term = |shape: f64, ln_base: f64| if shape == 0.0 { 0.0 } else { -shape * ln_base };
    term(a, log1p_exp(-y)) + term(b, log1p_exp(y))
}

fn logit(x: f64) -> f64 {
    x.ln() - (-x).ln_1p()
}

impl TruncatedBeta {
    /// Shapes and interval.
    pub fn new(a: f64, b: f64, lower: f64, upper: f64) -> Result<Self, ParamError> {
        let name = "truncated beta";
        require(lower >= 0.0, name, "lower", lower, "at least 0")?;
        require(upper <= 1.0, name, "upper", upper, "at most 1")?;
        require(lower < upper, name, "lower", lower, "below the upper bound")?;
        let allowed = "finite, and at least 1e-300 unless the interval excludes the end it belongs to";
        require(a.is_finite() && (a >= super::SMALLEST_SHAPE || lower > 0.0), name, "a", a, allowed)?;
        require(b.is_finite() && (b >= super::SMALLEST_SHAPE || upper < 1.0), name, "b", b, allowed)?;
        require(a + b >= 0.0 && (a + b).is_finite(), name, "a + b", a + b, "at least 0 and finite")?;
        let (from, to) = (logit(lower), logit(upper));
        require(from < to, name, "lower", lower, "further below the upper bound")?;
        let peak = if a > 0.0 && b > 0.0 {
            a.ln() - b.ln()
        } else if a > 0.0 {
            f64::INFINITY
        } else {
            f64::NEG_INFINITY
        };
        let mode = peak.clamp(from, to);
        // width of the density at its mode, from curvature and slope
        let x = sigmoid(mode);
        let curvature = ((a + b) * x * sigmoid(-mode)).sqrt();
        let scale = 1.0 / (curvature + slope(a, b, mode).abs()).max(1e-280);
        Ok(Self { a, b, lower, upper, mode, scale, hat: Hat::new(a, b, mode, scale, from, to) })
    }

    /// `ln(x/(1-x))` of a draw.
    #[inline]
    pub fn sample_logit<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        let top = ln_density(self.a, self.b, self.mode);
        loop {
            let (y, ceiling) = self.hat.draw(rng);
            if exponential(rng) >= ceiling + top - ln_density(self.a, self.b, y) {
                return y;
            }
        }
    }

    /// `(ln x, ln(1 - x))` of a draw.
    #[inline]
    pub fn sample_ln<R: Rng + ?Sized>(&self, rng: &mut R) -> (f64, f64) {
        let y = self.sample_logit(rng);
        (ln_sigmoid(y), ln_sigmoid(-y))
    }

    fn density(&self) -> LnDensity<impl Fn(f64) -> f64> {
        let (a, b) = (self.a, self.b);
        LnDensity::new(move |y| ln_density(a, b, y), self.mode, self.scale, self.hat.from, self.hat.to)
    }

    /// `ln` of the integral of `x^(a-1) (1-x)^(b-1)` over the interval.
    pub fn ln_normalizer(&self) -> f64 {
        self.density().ln_total()
    }

    /// Log density at `x`.
    pub fn ln_pdf(&self, x: f64) -> f64 {
        if !(self.lower..=self.upper).contains(&x) {
            return f64::NEG_INFINITY;
        }
        let power = |exponent: f64, ln_base: f64| if exponent == 0.0 { 0.0 } else { exponent * ln_base };
        power(self.a - 1.0, x.ln()) + power(self.b - 1.0, (-x).ln_1p()) - self.ln_normalizer()
    }

    /// Log density of `y = ln(x/(1-x))`.
    pub fn ln_pdf_of_logit(&self, y: f64) -> f64 {
        if !(self.hat.from..=self.hat.to).contains(&y) {
            return f64::NEG_INFINITY;
        }
        ln_density(self.a, self.b, y) - self.ln_normalizer()
    }

    /// Mean of the truncated distribution.
    pub fn mean(&self) -> f64 {
        self.density().mean_and_variance(sigmoid).0
    }

    /// Variance of the truncated distribution.
    pub fn variance(&self) -> f64 {
        self.density().mean_and_variance(sigmoid).1
    }
}

/// Derivative of [`ln_density`].
fn slope(a: f64, b: f64, y: f64) -> f64 {
    let part = |shape: f64, weight: f64| if shape == 0.0 { 0.0 } else { shape * weight };
    part(a, sigmoid(-y)) - part(b, sigmoid(y))
}

impl Hat {
    fn new(a: f64, b: f64, mode: f64, scale: f64, from: f64, to: f64) -> Self {
        let top = ln_density(a, b, mode);
        // A point towards `bound` where the density has fallen by about 1; none if it does not fall that far. Any point is valid.
        let touch = |direction: f64, bound: f64| -> Option<(f64, f64, f64)> {
            let mut step = scale;
            let drop = |step: f64| top - ln_density(a, b, mode + direction * step);
            while drop(step) > 2.0 && step > f64::MIN_POSITIVE {
                step *= 0.5;
            }
            while drop(step) < 0.5 && (bound - mode) * direction > step {
                step *= 2.0;
            }
            let y = mode + direction * step;
            let steepness = -direction * slope(a, b, y);
            ((bound - y) * direction > 0.0 && steepness > 0.0).then(|| (y, drop(step), steepness))
        };
        let mut hat = Self { from, left: from, right: to, to, rise: 0.0, fall: 0.0, left_area: 0.0, right_area: 0.0 };
        if let Some((y, drop, steepness)) = touch(-1.0, from) {
            hat.left = (y + drop / steepness).clamp(from, mode);
            hat.rise = steepness;
            hat.left_area = -(-steepness * (hat.left - from)).exp_m1() / steepness;
        }
        if let Some((y, drop, steepness)) = touch(1.0, to) {
            hat.right = (y - drop / steepness).clamp(mode, to);
            hat.fall = steepness;
            hat.right_area = -(-steepness * (to - hat.right)).exp_m1() / steepness;
        }
        hat
    }

    /// A point under the hat and the hat's height there, as a logarithm relative to the mode.
    #[inline]
    fn draw<R: Rng + ?Sized>(&self, rng: &mut R) -> (f64, f64) {
        let flat = self.right - self.left;
        let mut u = uniform(rng) * (self.left_area + flat + self.right_area);
        if u < flat {
            return ((self.left + u).min(self.right), 0.0);
        }
        u -= flat;
        // what is left over of u is uniform on a tail's area: invert its exponential distribution function
        if u < self.left_area {
            let fallen = -(-u * self.rise).ln_1p();
            return ((self.left - fallen / self.rise).max(self.from), -fallen);
        }
        let u = (u - self.left_area).min(self.right_area);
        let fallen = -(-u * self.fall).ln_1p();
        ((self.right + fallen / self.fall).min(self.to), -fallen)
    }
}

impl Distribution<f64> for TruncatedBeta {
    #[inline]
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        sigmoid(self.sample_logit(rng)).clamp(self.lower, self.upper)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Beta;
    use super::super::testing::*;
    use super::*;

    const CASES: [(f64, f64, f64, f64); 13] = [
        (2.0, 3.0, 0.0, 1.0),
        (2.0, 3.0, 0.1, 0.5),
        (0.5, 0.5, 0.0, 0.2),
        (0.1, 4.0, 0.0, 1.0),
        (0.05, 0.05, 0.0, 1.0),
        (30.0, 2.0, 0.0, 0.3),
        (2.0, 1000.0, 0.5, 0.9),
        (0.0, 20.0, 1e-4, 1.0),
        (-0.5, 20.0, 1e-3, 0.8),
        (3.0, -1.0, 0.0, 0.999),
        (0.0, 0.0, 0.2, 0.9),
        (1.0, 1.0, 0.3, 0.3001),
        (1e5, 1e5, 0.0, 0.499),
    ];

    #[test]
    fn moments_and_density() {
        for (i, (a, b, lower, upper)) in CASES.into_iter().enumerate() {
            let truncated = TruncatedBeta::new(a, b, lower, upper).unwrap();
            let mut rng = rng(600 + i as u64);
            let name = format!("beta({a}, {b}) on [{lower}, {upper}]");
            let draws: Vec<f64> = (0..20_000).map(|_| truncated.sample(&mut rng)).collect();
            check_moments(&name, &draws, truncated.mean(), truncated.variance());
            let odds: Vec<f64> = (0..20_000).map(|_| truncated.sample_logit(&mut rng)).collect();
            check_ks(&name, &odds, |y| truncated.ln_pdf_of_logit(y), logit(lower), logit(upper), 40);
            assert!(draws.iter().all(|x| (lower..=upper).contains(x)));
            let (x, y) = (draws[0], logit(draws[0]));
            let jacobian = x.ln() + (-x).ln_1p();
            let gap = truncated.ln_pdf(x) + jacobian - truncated.ln_pdf_of_logit(y);
            assert!(gap.abs() < 1e-9 * (1.0 + a.abs() + b.abs()), "{name}: {gap}");
        }
    }

    /// Three draws in four are accepted, everywhere.
    #[test]
    fn rejection_stays_cheap() {
        for (a, b, lower, upper) in CASES {
            let truncated = TruncatedBeta::new(a, b, lower, upper).unwrap();
            let hat = truncated.hat;
            let area = hat.left_area + (hat.right - hat.left) + hat.right_area;
            let accepted = truncated.density().integral(|_| 1.0) / area;
            assert!((0.6..=1.0 + 1e-9).contains(&accepted), "beta({a}, {b}) on [{lower}, {upper}]: {accepted}");
        }
    }

    #[test]
    fn whole_interval_is_the_beta() {
        for (a, b) in [(2.0, 3.0), (0.3, 7.0), (1e4, 2e4)] {
            let (truncated, beta) = (TruncatedBeta::new(a, b, 0.0, 1.0).unwrap(), Beta::new(a, b).unwrap());
            assert!((truncated.ln_pdf(0.4) - beta.ln_pdf(0.4)).abs() < 1e-11 * (a + b));
            assert!((truncated.mean() / beta.mean() - 1.0).abs() < 1e-11);
            assert!((truncated.variance() / beta.variance() - 1.0).abs() < 1e-10);
        }
    }

    #[test]
    fn extremes() {
        let mut rng = rng(12);
        for (a, b, lower, upper) in [
            (1e-300, 1.0, 0.0, 1.0),
            (1e-300, 1e-300, 0.0, 1.0),
            (1e8, 1e-8, 0.0, 1e-12),
            (5.0, 1e12, 0.9, 1.0),
            (1.0, 1.0, 0.5, 0.5 + 1e-15),
        ] {
            let truncated = TruncatedBeta::new(a, b, lower, upper).unwrap();
            for _ in 0..200 {
                let x = truncated.sample(&mut rng);
                assert!((lower..=upper).contains(&x), "beta({a}, {b}) on [{lower}, {upper}]: {x}");
                let (ln_x, ln_rest) = truncated.sample_ln(&mut rng);
                assert!(ln_x <= 0.0 && ln_rest <= 0.0 && ln_x.is_finite());
            }
        }
        let bad = [
            (0.0, 1.0, 0.0, 1.0),
            (1.0, 0.0, 0.0, 1.0),
            (-2.0, 1.0, 0.1, 1.0),
            (1.0, 1.0, 0.5, 0.5),
            (1.0, 1.0, -0.1, 0.5),
            (1.0, f64::NAN, 0.1, 0.5),
            (1.0, 1.0, 0.5, 1.1),
        ];
        for (a, b, lower, upper) in bad {
            assert!(TruncatedBeta::new(a, b, lower, upper).is_err(), "beta({a}, {b}) on [{lower}, {upper}]");
        }
    }

    #[test]
    fn pinned_draws() {
        let mut rng = rng(1);
        let got = [CASES[1], CASES[3], CASES[6], CASES[8]].map(|(a, b, l, u)| TruncatedBeta::new(a, b, l, u).unwrap().sample(&mut rng));
        check_pinned("truncated beta", &got, &[0.27841014131369424, 0.23544674623213138, 0.5002940335420726, 0.031426015927239905]);
    }
}
