//! Tail probabilities of the test statistics: normal, Student t, chi-square.

use crate::diagnostics::beta_cdf;
use crate::special::ln_gamma;

/// P(|Z| ≥ |z|) for a standard normal Z.
pub(super) fn normal_two_sided(z: f64) -> f64 {
    libm::erfc(z.abs() * std::f64::consts::FRAC_1_SQRT_2)
}

/// P(|T| ≥ |t|) for Student's t with `dof` > 0 degrees of freedom: I_{ν/(ν+t²)}(ν/2, 1/2).
pub(super) fn student_two_sided(t: f64, dof: f64) -> f64 {
    if t.is_nan() || dof.is_nan() || dof <= 0.0 {
        return f64::NAN;
    }
    if dof > 1e6 {
        return normal_two_sided(t);
    }
    if t.is_infinite() {
        return 0.0;
    }
    beta_cdf(dof / (dof + t * t), 0.5 * dof, 0.5)
}

/// P(X ≥ x) for chi-square with `dof` > 0 degrees of freedom: the upper incomplete gamma function Q(ν/2, x/2).
pub(super) fn chi_square_upper(x: f64, dof: f64) -> f64 {
    if x.is_nan() || dof.is_nan() || dof <= 0.0 {
        return f64::NAN;
    }
    let (a, x) = (0.5 * dof, 0.5 * x);
    if x <= 0.0 {
        return 1.0;
    }
    if x.is_infinite() {
        return 0.0;
    }
    let log_front = a * x.ln() - x - ln_gamma(a);
    if x < a + 1.0 {
        // P by its series, Q = 1 − P.
        let (mut term, mut sum) = (1.0 / a, 1.0 / a);
        for n in 1..10_000 {
            term *= x / (a + f64::from(n));
            sum += term;
            if term < sum * 1e-17 {
                break;
            }
        }
        return 1.0 - log_front.exp() * sum;
    }
    // Q by its continued fraction (Lentz).
    const TINY: f64 = 1e-300;
    let mut b = x + 1.0 - a;
    let mut c = 1.0 / TINY;
    let mut d = 1.0 / b;
    let mut fraction = d;
    for n in 1..10_000 {
        let n = f64::from(n);
        let numerator = -n * (n - a);
        b += 2.0;
        d = 1.0 / guard(numerator * d + b);
        c = guard(b + numerator / c);
        fraction *= c * d;
        if (c * d - 1.0).abs() < 1e-16 {
            break;
        }
    }
    fn guard(v: f64) -> f64 {
        if v.abs() < TINY { TINY } else { v }
    }
    log_front.exp() * fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agree_with_reference_values() {
        // x, degrees of freedom, upper tail: SciPy's chi2.sf.
        #[rustfmt::skip]
        let chi = [
            (0.1, 1.0, 0.7518296340458492),
            (1.0, 1.0, 0.31731050786291115),
            (5.0, 1.0, 0.025347318677468325),
            (30.0, 1.0, 4.3204630578274955e-08),
            (250.0, 1.0, 2.5968070393401957e-56),
            (0.1, 3.0, 0.9918374237318764),
            (1.0, 3.0, 0.8012519569012009),
            (5.0, 3.0, 0.1717971442967335),
            (30.0, 3.0, 1.3800570312932553e-06),
            (250.0, 3.0, 6.543750030967994e-54),
            (0.1, 7.0, 0.9999976885812014),
            (1.0, 7.0, 0.9948285365165155),
            (5.0, 7.0, 0.6599632296942824),
            (30.0, 7.0, 9.495972508134177e-05),
            (250.0, 7.0, 2.770711708247275e-50),
            (0.1, 31.0, 1.0),
            (1.0, 31.0, 1.0),
            (5.0, 31.0, 0.999999972599214),
            (30.0, 31.0, 0.5172965493148962),
            (250.0, 31.0, 4.4319202647924816e-36),
            (0.1, 200.0, 1.0),
            (1.0, 200.0, 1.0),
            (5.0, 200.0, 1.0),
            (30.0, 200.0, 1.0),
            (250.0, 200.0, 0.009379131668826098),
        ];
        // t, degrees of freedom, both tails: SciPy's 2 t.sf(|t|).
        #[rustfmt::skip]
        let student = [
            (0.01, 1.0, 0.993634014470186),
            (0.7, 1.0, 0.6111997755715705),
            (2.0, 1.0, 0.2951672353008665),
            (4.5, 1.0, 0.1392089745461279),
            (12.0, 1.0, 0.052929352119179755),
            (0.01, 5.0, 0.9924080180425819),
            (0.7, 5.0, 0.5151489483148164),
            (2.0, 5.0, 0.10193947882985835),
            (4.5, 5.0, 0.0063995363463242964),
            (12.0, 5.0, 7.089492517161522e-05),
            (0.01, 63.0, 0.9920528869697001),
            (0.7, 63.0, 0.4865042335720197),
            (2.0, 63.0, 0.04981576369904482),
            (4.5, 63.0, 2.9912422234835817e-05),
            (12.0, 63.0, 6.3479675436790636e-18),
            (0.01, 1000.0, 0.9920232819321873),
            (0.7, 1000.0, 0.48409011399260243),
            (2.0, 1000.0, 0.04577034649325166),
            (4.5, 1000.0, 7.593071026498249e-06),
            (12.0, 1000.0, 4.324057386774429e-31),
        ];
        for (x, dof, p) in chi {
            let got = chi_square_upper(x, dof);
            assert!((got / p - 1.0).abs() < 1e-11, "{x} {dof}: {got} against {p}");
        }
        for (t, dof, p) in student {
            let got = student_two_sided(t, dof);
            assert!((got / p - 1.0).abs() < 1e-9, "{t} {dof}: {got} against {p}");
        }
    }

    #[test]
    fn ends_and_nonsense() {
        assert_eq!(chi_square_upper(0.0, 3.0), 1.0);
        assert_eq!(chi_square_upper(f64::INFINITY, 3.0), 0.0);
        assert!(chi_square_upper(f64::NAN, 3.0).is_nan() && chi_square_upper(1.0, 0.0).is_nan());
        assert_eq!(student_two_sided(f64::INFINITY, 3.0), 0.0);
        assert_eq!(student_two_sided(0.0, 3.0), 1.0);
        assert!(student_two_sided(f64::NAN, 3.0).is_nan() && student_two_sided(1.0, f64::NAN).is_nan());
        assert!((student_two_sided(2.0, 1e7) / normal_two_sided(2.0) - 1.0).abs() < 1e-12);
    }
}
