//! Density of a Polya-Gamma variable, times 4 (the Jacobi variable `X = 4 w`).
//!
//! For `b = 1` there are two alternating series, one for each side of `x = 0.64`, each with a few terms.
//! For larger `b` the one known series cancels away; the Laplace transform `E exp(-s X) = cosh(sqrt(2 s))^-b` (no tilt) is inverted
//! instead, along the vertical line through its saddle point. There the integrand is largest on the real axis and the
//! trapezoidal rule converges geometrically: its error is the tilted density a period away, made negligible by the choice of step.

use super::polya_gamma::{SPLIT, term_ratio};
use std::f64::consts::{LN_2, PI};

/// Log density of `X = 4 w`, `w ~ PolyaGamma(b, 2 z)`, at `x > 0`.
pub(super) fn ln_pdf(b: u32, z: f64, x: f64) -> f64 {
    if b == 1 { ln_single(z, x) } else { ln_sum(b as f64, z, x) }
}

/// `ln cosh z`.
fn ln_cosh(z: f64) -> f64 {
    z + (-2.0 * z).exp().ln_1p() - LN_2
}

fn ln_single(z: f64, x: f64) -> f64 {
    let mut sum = 1.0;
    for n in 1..12 {
        let term = term_ratio(n as f64, x);
        sum += if n % 2 == 1 { -term } else { term };
        if term < 1e-17 {
            break;
        }
    }
    // ln a_0 + ln cosh z - z^2 x/2; left of the split the large parts are a square
    let rest = (-2.0 * z).exp().ln_1p() - LN_2;
    let first = if x <= SPLIT {
        let deviation = 1.0 - z * x;
        (PI / 2.0).ln() + 1.5 * (2.0 / (PI * x)).ln() - 0.5 * deviation * (deviation / x)
    } else {
        (PI / 2.0).ln() - PI * PI * x / 8.0 + z - 0.5 * z * z * x
    };
    first + rest + sum.ln()
}

/// `ln cosh sqrt(2 s)` for complex `s = re + i im`, up to a multiple of `2 pi i`.
fn ln_cosh_root(re: f64, im: f64) -> (f64, f64) {
    // w = sqrt(2 s) with non-negative real part
    let modulus = (2.0 * re).hypot(2.0 * im);
    let (a, b) = if re >= 0.0 {
        let a = (0.5 * (modulus + 2.0 * re)).sqrt();
        (a, if a > 0.0 { im / a } else { 0.0 })
    } else {
        let b = (0.5 * (modulus - 2.0 * re)).sqrt();
        (im.abs() / b, if im < 0.0 { -b } else { b })
    };
    // cosh w = e^w (1 + e^-2w)/2
    let fade = (-2.0 * a).exp();
    let (sin, cos) = (2.0 * b).sin_cos();
    let (real, imaginary) = (1.0 + fade * cos, -fade * sin);
    (a + real.hypot(imaginary).ln() - LN_2, b + imaginary.atan2(real))
}

/// `s` at which the tilted mean `b tanh(sqrt(2s))/sqrt(2s)` is `x`; it lies above the pole at `-pi^2/8`.
fn saddle_point(b: f64, x: f64) -> f64 {
    let target = x / b;
    let mean = |w: f64| if target < 1.0 { w.tanh() / w } else { w.tan() / w };
    let (mut low, mut high) = if target < 1.0 { (0.0, 1.0 / target) } else { (0.0, 0.5 * PI) };
    for _ in 0..60 {
        let w = 0.5 * (low + high);
        // tanh(w)/w falls in w, tan(w)/w rises
        if (mean(w) > target) == (target < 1.0) { low = w } else { high = w }
    }
    let w = 0.5 * (low + high);
    if target < 1.0 { 0.5 * w * w } else { -0.5 * w * w }
}

fn ln_sum(b: f64, z: f64, x: f64) -> f64 {
    let s = saddle_point(b, x);
    let (height, _) = ln_cosh_root(s, 0.0);
    let pole_distance = s + PI * PI / 8.0;
    // Chernoff bound on the tilted density beyond x + period, at the best of a few tilts
    let period = (1..20)
        .map(|i| {
            let tilt = pole_distance * i as f64 / 20.0;
            let growth = b * (height - ln_cosh_root(s - tilt, 0.0).0);
            (growth + 45.0) / tilt - x
        })
        .fold(f64::INFINITY, f64::min)
        .max(x);
    let step = 2.0 * PI / period;
    let mut sum = 0.5;
    let mut k = 0.0;
    loop {
        k += 1.0;
        let u = k * step;
        let (real, imaginary) = ln_cosh_root(s, u);
        let size = -b * (real - height);
        sum += size.exp() * (u * x - b * imaginary).cos();
        if size < -42.0 {
            break;
        }
    }
    let untilted = s * x - b * height + (sum * step / PI).ln();
    untilted + b * ln_cosh(z) - 0.5 * z * z * x
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The inversion agrees with the series where both exist.
    #[test]
    fn inversion_and_series_agree_for_one() {
        for z in [0.0, 1.0, 6.0] {
            for x in [0.02, 0.1, 0.3, 0.63, 0.65, 1.0, 3.0, 10.0] {
                let (series, inversion) = (ln_single(z, x), ln_sum(1.0, z, x));
                assert!((series - inversion).abs() < 1e-10 * (1.0 + series.abs()), "z={z}, x={x}: {series}, {inversion}");
            }
        }
    }

    /// The classical alternating series, where it does not cancel.
    #[test]
    fn inversion_agrees_with_the_classical_series() {
        for (b, x) in [(2.0, 0.5), (2.0, 1.5), (5.0, 2.0), (5.0, 4.0), (20.0, 12.0)] {
            let mut sum = 0.0;
            let mut ln_coefficient = (b - 1.0) * LN_2; // 2^(b-1) Gamma(n+b)/(Gamma(b) n!)
            for n in 0..200 {
                let m = 2.0 * n as f64 + b;
                let value = (ln_coefficient + LN_2 + (m / (2.0 * PI * x * x * x).sqrt()).ln() - m * m / (2.0 * x)).exp();
                sum += if n % 2 == 0 { value } else { -value };
                ln_coefficient += ((n as f64 + b) / (n as f64 + 1.0)).ln();
            }
            let got = ln_sum(b, 0.0, x);
            assert!((got - sum.ln()).abs() < 1e-7, "b={b}, x={x}: {got}, {}", sum.ln());
        }
    }

    #[test]
    fn far_tails_are_finite_and_fall() {
        for b in [2, 7, 150] {
            let mut last = f64::INFINITY;
            for i in 1..30 {
                let value = ln_pdf(b, 1.0, b as f64 * (1.0 + i as f64));
                assert!(value < last && value.is_finite());
                last = value;
            }
            assert!(ln_pdf(b, 0.0, 1e-3 * b as f64).is_finite());
        }
    }
}
