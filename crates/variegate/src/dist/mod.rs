//! Distributions.

use rand::Rng;
use rand_distr::{Distribution, Exp1, StandardNormal};
use thiserror::Error;

use crate::run::open01;
use crate::special::ln_norm_cdf;

/// A parameter of a distribution is out of range.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("{distribution}: {parameter} is {value}, but it must be {allowed}")]
pub struct ParamError {
    /// Name of the distribution.
    pub distribution: &'static str,
    /// Name of the parameter.
    pub parameter: &'static str,
    /// Value given.
    pub value: f64,
    /// What is allowed.
    pub allowed: &'static str,
}

/// Polya-Gamma PG(b, c).
pub struct PolyaGamma;

impl PolyaGamma {
    /// One draw; 0 for b = 0.
    pub fn draw<R: Rng + ?Sized>(b: u32, c: f64, rng: &mut R) -> f64 {
        (0..b).map(|_| draw_1(c, rng)).sum()
    }
}

fn draw_1<R: Rng + ?Sized>(c: f64, rng: &mut R) -> f64 {
    const T: f64 = 0.64;
    let pi = std::f64::consts::PI;
    let z = 0.5 * c.abs();
    let fz = pi * pi / 8.0 + z * z / 2.0;
    let l = (4.0 / pi).ln()
        + crate::special::log_sum_exp(&[
            fz.ln() + fz * T - z + ln_norm_cdf((T * z - 1.0) / T.sqrt()),
            fz.ln() + fz * T + z + ln_norm_cdf(-(T * z + 1.0) / T.sqrt()),
        ]);
    let p = if l > 700.0 { 0.0 } else { 1.0 / (1.0 + l.exp()) };
    let term = |n: f64, x: f64| {
        let k = n + 0.5;
        if x <= T { pi * k * (2.0 / (pi * x)).powf(1.5) * (-2.0 * k * k / x).exp() } else { pi * k * (-k * k * pi * pi * x / 2.0).exp() }
    };
    loop {
        let x = if open01(rng) < p {
            let e: f64 = Exp1.sample(rng);
            T + e / fz
        } else if z * T < 1.0 {
            loop {
                let x = loop {
                    let (a, b): (f64, f64) = (Exp1.sample(rng), Exp1.sample(rng));
                    if a * a <= 2.0 * b / T {
                        break T / ((1.0 + T * a) * (1.0 + T * a));
                    }
                };
                if open01(rng) <= (-z * z * x / 2.0).exp() {
                    break x;
                }
            }
        } else {
            loop {
                let n: f64 = StandardNormal.sample(rng);
                let (mu, y) = (1.0 / z, n * n);
                let x = mu + 0.5 * mu * mu * y - 0.5 * mu * (4.0 * mu * y + mu * mu * y * y).sqrt();
                let x = if open01(rng) <= mu / (mu + x) { x } else { mu * mu / x };
                if x <= T {
                    break x;
                }
            }
        };
        let mut s = term(0.0, x);
        if s == 0.0 {
            return x / 4.0;
        }
        let y = open01(rng) * s;
        let mut n = 0.0;
        loop {
            n += 1.0;
            s -= term(n, x);
            if y <= s {
                return x / 4.0;
            }
            n += 1.0;
            s += term(n, x);
            if y > s {
                break;
            }
        }
    }
}
