//! What a von Mises-Fisher distribution of a given concentration looks like along its mean direction, in any dimension from 1 on.

use crate::special::{expansion, ln_gamma, series_suffices, stirling_correction};
use std::f64::consts::{LN_2, PI};

/// The functions of the concentration `kappa` of a von Mises-Fisher distribution `C exp(kappa mu'x)` on the unit sphere in `p` dimensions.
///
/// With the uniform density as the unit of measure, `ln C = -ln S - L(kappa)`, `S` the surface of the sphere
/// ([`ln_surface`]) and `L(kappa) = ln 0F1(; p/2; kappa^2/4)`. Its derivative is the mean resultant length `A = E mu'x`, and
/// `E xx' = (rho/p) I + (1 - rho) mu mu'` with `rho = p A/kappa`. On the line (`p = 1`) the sphere is two points:
/// `L = ln cosh`, `A = tanh`.
///
/// The power series serves where it is short; elsewhere the uniform expansion of the Bessel function, from which the large
/// parts of `L` and of `1 - A` are taken in closed form, so that neither a large dimension nor a large concentration costs
/// digits: `L` to 1e-14 (relative where it exceeds 1), `A` and `1 - A` to 1e-13 relative, the slope to 1e-9 (its terms cancel; tested for
/// `p <= 47236`, `kappa <= 1e5`). Nothing is allocated. All fields are NaN where `kappa` is negative or not finite or `p = 0`.
///
/// ```
/// use variegate::dist::Concentration;
/// let sphere = Concentration::at(3, 2.0); // A = coth(kappa) - 1/kappa
/// assert!((sphere.mean - (1.0 / 2f64.tanh() - 0.5)).abs() < 1e-14);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Concentration {
    /// `L(kappa)`: log of the ratio of the uniform density to the normaliser `C`.
    pub ln_ratio: f64,
    /// Mean resultant length `A(kappa)`, the derivative of `L`.
    pub mean: f64,
    /// `1 - A`, to full relative accuracy.
    pub gap: f64,
    /// `p A/kappa`, 1 at 0.
    pub rho: f64,
    /// `A'(kappa)`: the variance of `mu'x`.
    pub slope: f64,
}

impl Concentration {
    /// At concentration `kappa >= 0` in `dim >= 1` dimensions.
    pub fn at(dim: usize, kappa: f64) -> Self {
        if dim == 0 || !(kappa >= 0.0 && kappa.is_finite()) {
            return Self { ln_ratio: f64::NAN, mean: f64::NAN, gap: f64::NAN, rho: f64::NAN, slope: f64::NAN };
        }
        let p = dim as f64;
        let nu = 0.5 * p - 1.0;
        if dim == 1 {
            Self::on_the_line(kappa)
        } else if series_suffices(nu, kappa) {
            Self::by_series(p, nu, kappa)
        } else {
            Self::by_expansion(p, nu, kappa)
        }
    }

    /// ln cosh and its derivatives.
    fn on_the_line(kappa: f64) -> Self {
        let mean = kappa.tanh();
        let tail = (-2.0 * kappa).exp();
        let gap = 2.0 * tail / (1.0 + tail);
        let sinh = (0.5 * kappa).sinh();
        // cosh - 1 = 2 sinh^2(kappa/2), which keeps the digits of a small logarithm
        let ln_ratio = if kappa < 1.0 { (2.0 * sinh * sinh).ln_1p() } else { kappa - LN_2 + tail.ln_1p() };
        Self { ln_ratio, mean, gap, rho: if kappa > 0.0 { mean / kappa } else { 1.0 }, slope: gap * (2.0 - gap) }
    }

    /// `0F1 = sum_k t_k`, `t_k = t_{k-1} q/(k (nu+k))`, `q = kappa^2/4`, with its first two derivatives in `q`.
    fn by_series(p: f64, nu: f64, kappa: f64) -> Self {
        let q = 0.25 * kappa * kappa;
        // u = t_k/q, so that q = 0 needs no limit
        let mut u = 1.0 / (nu + 1.0);
        let (mut sum, mut first, mut second) = (u, u, 0.0);
        let mut k = 1.0;
        loop {
            k += 1.0;
            let w = u / (nu + k); // t_k k/q^2
            u = w * q / k;
            sum += u;
            first += k * u;
            second += (k - 1.0) * w;
            // terms of the second derivative are the last to fall
            if (k - 1.0) * w <= 1e-17 * second {
                break;
            }
        }
        let value = 1.0 + q * sum;
        let by_q = first / value; // dL/dq
        let curvature = second / value - by_q * by_q;
        let mean = 0.5 * kappa * by_q;
        Self { ln_ratio: (q * sum).ln_1p(), mean, gap: 1.0 - mean, rho: 0.5 * p * by_q, slope: 0.5 * by_q + q * curvature }
    }

    /// `I_nu ~ exp(nu eta)/sqrt(2 pi s) U`, `s = sqrt(nu^2 + kappa^2)`; see the Bessel functions.
    fn by_expansion(p: f64, nu: f64, kappa: f64) -> Self {
        let s = nu.hypot(kappa);
        let (u, h) = expansion(nu, s);
        let rise = kappa * (kappa / (s + nu)); // s - nu
        let ln_ratio = if nu >= 12.0 {
            // Stirling's leading part of ln Gamma(nu + 1) cancels against the exponent in closed form
            rise - nu * (0.5 * rise / nu).ln_1p() + 0.5 * (u * u * nu / s).ln() + stirling_correction(nu)
        } else {
            // nu eta - nu ln(kappa/2) = s - nu ln((s + nu)/2)
            s - nu * (0.5 * (s + nu)).ln() + 0.5 * (u * u / (2.0 * PI * s)).ln() + ln_gamma(nu + 1.0)
        };
        let correction = kappa * (h / (u * s) / s);
        let mean = kappa / (nu + s) - correction;
        let gap = (nu + nu * (nu / (s + kappa))) / (nu + s) + correction;
        let slope = gap * (2.0 - gap) - (p - 1.0) * (mean / kappa);
        Self { ln_ratio, mean, gap, rho: p * (mean / kappa), slope }
    }
}

/// Log surface of the unit sphere in `dim` dimensions, `ln 2 + (p/2) ln pi - ln Gamma(p/2)`; two points in one dimension.
pub fn ln_surface(dim: usize) -> f64 {
    let half = 0.5 * dim as f64;
    LN_2 + half * PI.ln() - ln_gamma(half)
}

/// The concentration whose mean resultant length is `mean`: 0 where that is not positive, infinite from 1 on.
pub(crate) fn inverse_mean(dim: usize, mean: f64) -> f64 {
    if dim == 0 || mean.is_nan() {
        return f64::NAN;
    }
    if mean <= 0.0 {
        return 0.0;
    }
    if mean >= 1.0 {
        return f64::INFINITY;
    }
    if dim == 1 {
        return mean.atanh();
    }
    let p = dim as f64;
    let (mut low, mut high) = (0.0, f64::INFINITY);
    let mut kappa = mean * (p - mean * mean) / (1.0 - mean * mean);
    // Newton's steps on a concave increasing function; bisection where one leaves what is known
    for _ in 0..100 {
        let now = Concentration::at(dim, kappa);
        let short = if mean > 0.5 { now.gap - (1.0 - mean) } else { mean - now.mean };
        if short > 0.0 {
            low = kappa;
        } else {
            high = kappa;
        }
        let next = kappa + short / now.slope;
        if (next - kappa).abs() <= 1e-15 * kappa {
            return next;
        }
        kappa = match next {
            inside if inside > low && inside < high => inside,
            _ if high.is_finite() => 0.5 * (low + high),
            _ => 2.0 * kappa,
        };
    }
    kappa
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `dim, kappa, ln_ratio, mean, gap, slope` in 50-digit arithmetic, both sides of every change of method.
    const REFERENCE: &str = include_str!("tables/concentration.csv");

    #[test]
    fn agrees_with_the_reference() {
        for line in REFERENCE.lines().skip(1) {
            let row: Vec<f64> = line.split(',').map(|field| field.parse().expect("a number")).collect();
            let got = Concentration::at(row[0] as usize, row[1]);
            let relative = |got: f64, want: f64| (got / want - 1.0).abs();
            let errors = [
                (got.ln_ratio - row[2]).abs() / row[2].abs().max(1.0),
                relative(got.mean, row[3]).max(relative(got.rho, row[0] * row[3] / row[1])),
                relative(got.gap, row[4]),
                relative(got.slope, row[5]),
            ];
            // largest seen: 4e-16, 7e-16, 2e-14, 6e-11
            let right = errors.iter().zip([1e-14, 1e-13, 1e-13, 1e-9]).all(|(error, bound)| *error < bound);
            assert!(right, "{line}: {errors:?}");
        }
    }

    /// Published to ten digits with the model: `ln C`, `A`, `A'`.
    #[test]
    fn normaliser_mean_and_slope() {
        #[rustfmt::skip]
        let oracles = [
            (2, 1.0, -2.073791425, 0.4463899659, 0.3543460325), (2, 1e5, -99995.16248, 0.999995, 5.000024997e-11),
            (3, 1.0, -2.692463609, 0.3130352855, 0.275938339), (3, 10.0, -9.535291971, 0.9000000041, 0.009999991755),
            (3, 1e5, -99990.32495, 0.99999, 1.0e-10), (3, 0.0, -2.531024247, 0.0, 1.0 / 3.0),
            (10, 10.0, -7.090957109, 0.6336683916, 0.028162817), (10, 100.0, -87.46804386, 0.9557951729, 0.0004340219376),
            (123, 0.0, 119.587526, 0.0, 1.0 / 123.0), (123, 100.0, 86.6782054, 0.5601132038, 0.002935090218),
            (123, 1e4, -9550.09673, 0.9939183017, 6.063395179e-07), (1000, 100.0, 2027.082385, 0.09902139567, 0.0009710205043),
            (1000, 1e5, -95166.06832, 0.9950174501, 4.970099861e-08), (5000, 10.0, 14194.59411, 0.001999992003, 0.000199997601),
            (5000, 1e4, 8738.141838, 0.7808050956, 1.893546953e-05), (5000, 1e5, -75785.99299, 0.9753172044, 2.437068548e-07),
        ];
        for (p, kappa, ln_c, mean, slope) in oracles {
            let got = Concentration::at(p, kappa);
            // the numbers have nine to ten digits
            let close = |got: f64, want: f64| (got - want).abs() <= 1e-9 * want.abs();
            assert!(close(-ln_surface(p) - got.ln_ratio, ln_c) || close(got.ln_ratio, -ln_c - ln_surface(p)), "{p}, {kappa}: {got:?}");
            assert!(close(got.mean, mean) && close(got.slope, slope), "{p}, {kappa}: {got:?}");
        }
    }

    #[test]
    fn closed_forms() {
        for kappa in [1e-3_f64, 0.3, 1.0, 5.0, 30.0] {
            let sphere = Concentration::at(3, kappa);
            let ln_c = (kappa / (4.0 * PI * kappa.sinh())).ln();
            assert!((-ln_surface(3) - sphere.ln_ratio - ln_c).abs() < 1e-13 * (1.0 + ln_c.abs()));
            assert!((sphere.mean - (1.0 / kappa.tanh() - 1.0 / kappa)).abs() < 2e-13 / kappa.min(1.0));
            let line = Concentration::at(1, kappa);
            assert!((-ln_surface(1) - line.ln_ratio + (2.0 * kappa.cosh()).ln()).abs() < 1e-13 * kappa.max(1.0));
            assert!((line.mean - kappa.tanh()).abs() < 1e-15 && (line.slope - kappa.cosh().powi(-2)).abs() < 1e-15);
        }
        assert_eq!(ln_surface(1), LN_2);
        assert!((ln_surface(2) - (2.0 * PI).ln()).abs() < 1e-15);
    }

    /// `A_p = 1/(p/kappa + A_{p+2})`, and `t -> L(sqrt t)` rises and is concave.
    #[test]
    fn recurrence_and_shape() {
        for p in [1, 2, 3, 17, 46, 123, 5000] {
            for kappa in [0.1, 3.0, 23.0, 25.0, 60.0, 140.0, 3e3, 1e5] {
                let (here, above) = (Concentration::at(p, kappa), Concentration::at(p + 2, kappa));
                assert!((here.mean * (p as f64 / kappa + above.mean) - 1.0).abs() < 1e-13, "{p}, {kappa}");
            }
            let squared = |t: f64| Concentration::at(p, t.sqrt()).ln_ratio;
            for t in [0.5, 40.0, 570.0, 576.0, 2.0 * p as f64, 1e4, 1e6] {
                let (a, b, c) = (squared(0.99 * t), squared(t), squared(1.01 * t));
                assert!(a < b && b < c && c - b < b - a, "{p}, {t}");
            }
        }
    }

    #[test]
    fn the_mean_is_inverted() {
        assert!((inverse_mean(3, 0.4) / 1.336051928 - 1.0).abs() < 1e-9);
        assert!((inverse_mean(123, 0.4) / 58.441035469 - 1.0).abs() < 1e-9);
        for p in [1, 2, 3, 10, 123, 5000] {
            for kappa in [1e-8, 0.02, 1.0, 20.0, 30.0, 500.0, 1e5] {
                let mean = Concentration::at(p, kappa).mean;
                if mean < 1.0 {
                    // the last digit of the mean is worth this much of kappa
                    let room = 1e-13 + 4.0 * f64::EPSILON * mean / (Concentration::at(p, kappa).slope * kappa);
                    assert!((inverse_mean(p, mean) / kappa - 1.0).abs() < room, "{p}, {kappa}: {}", inverse_mean(p, mean));
                }
            }
            assert_eq!((inverse_mean(p, -0.2), inverse_mean(p, 0.0), inverse_mean(p, 1.0)), (0.0, 0.0, f64::INFINITY));
            assert!(inverse_mean(p, f64::NAN).is_nan());
        }
    }

    #[test]
    fn borders_of_the_domain() {
        for p in [1, 2, 5, 5000] {
            let uniform = Concentration { ln_ratio: 0.0, mean: 0.0, gap: 1.0, rho: 1.0, slope: 1.0 / p as f64 };
            assert_eq!(Concentration::at(p, 0.0), uniform);
            for kappa in [1e-300, 1e-160, 1e12, 1e200] {
                let far = Concentration::at(p, kappa);
                assert!(far.ln_ratio.is_finite() && far.mean > 0.0 && (0.0..=1.0).contains(&far.gap), "{p}, {kappa}: {far:?}");
            }
            for kappa in [-1.0, f64::NAN, f64::INFINITY] {
                assert!(Concentration::at(p, kappa).ln_ratio.is_nan());
            }
        }
        assert!(Concentration::at(0, 1.0).mean.is_nan());
    }
}
