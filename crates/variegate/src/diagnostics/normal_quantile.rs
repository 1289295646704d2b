//! The inverse of the standard normal distribution function, to full double accuracy.
//!
//! Wichura's rational approximations (algorithm AS 241, PPND16, relative error about 1e-16) in three ranges of
//! q = p − 1/2 and r = √(−log min(p, 1−p)). For p above 1/2 the result is limited by the rounding of 1 − p, not by this function.

/// Φ⁻¹(p); −∞ at 0, ∞ at 1, NaN outside [0, 1].
///
/// ```
/// use variegate::diagnostics::normal_quantile::normal_quantile;
///
/// assert_eq!(normal_quantile(0.5), 0.0);
/// assert!((normal_quantile(0.975) - 1.959963984540054).abs() < 1e-14);
/// ```
pub fn normal_quantile(p: f64) -> f64 {
    if !(0.0..=1.0).contains(&p) {
        return f64::NAN;
    }
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180625 - q * q;
        return q * polynomial(&CENTRE_ABOVE, r) / polynomial(&CENTRE_BELOW, r);
    }
    let tail = if q < 0.0 { p } else { 1.0 - p };
    if tail == 0.0 {
        return f64::INFINITY.copysign(q);
    }
    let r = (-tail.ln()).sqrt();
    let z = if r <= 5.0 {
        polynomial(&MIDDLE_ABOVE, r - 1.6) / polynomial(&MIDDLE_BELOW, r - 1.6)
    } else {
        polynomial(&FAR_ABOVE, r - 5.0) / polynomial(&FAR_BELOW, r - 5.0)
    };
    z.copysign(q)
}

/// Coefficients from the constant upwards, by Horner.
fn polynomial(coefficients: &[f64; 8], x: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c)
}

const CENTRE_ABOVE: [f64; 8] = [
    3.387_132_872_796_366_5,
    1.331_416_678_917_843_8e2,
    1.971_590_950_306_551_3e3,
    1.373_169_376_550_946e4,
    4.592_195_393_154_987e4,
    6.726_577_092_700_87e4,
    3.343_057_558_358_813e4,
    2.509_080_928_730_122_7e3,
];
const CENTRE_BELOW: [f64; 8] = [
    1.0,
    4.231_333_070_160_091e1,
    6.871_870_074_920_579e2,
    5.394_196_021_424_751e3,
    2.121_379_430_158_659_7e4,
    3.930_789_580_009_271e4,
    2.872_908_573_572_194_3e4,
    5.226_495_278_852_854e3,
];
const MIDDLE_ABOVE: [f64; 8] = [
    1.423_437_110_749_683_5,
    4.630_337_846_156_546,
    5.769_497_221_460_691,
    3.647_848_324_763_204_5,
    1.270_458_252_452_368_4,
    2.417_807_251_774_506e-1,
    2.272_384_498_926_918_4e-2,
    7.745_450_142_783_414e-4,
];
const MIDDLE_BELOW: [f64; 8] = [
    1.0,
    2.053_191_626_637_759,
    1.676_384_830_183_803_8,
    6.897_673_349_851e-1,
    1.481_039_764_274_800_8e-1,
    1.519_866_656_361_645_7e-2,
    5.475_938_084_995_345e-4,
    1.050_750_071_644_416_9e-9,
];
const FAR_ABOVE: [f64; 8] = [
    6.657_904_643_501_103,
    5.463_784_911_164_114,
    1.784_826_539_917_291_3,
    2.965_605_718_285_048_7e-1,
    2.653_218_952_657_612_4e-2,
    1.242_660_947_388_078_4e-3,
    2.711_555_568_743_487_6e-5,
    2.010_334_399_292_288_1e-7,
];
const FAR_BELOW: [f64; 8] = [
    1.0,
    5.998_322_065_558_88e-1,
    1.369_298_809_227_358e-1,
    1.487_536_129_085_061_5e-2,
    7.868_691_311_456_133e-4,
    1.846_318_317_510_054_8e-5,
    1.421_511_758_316_446e-7,
    2.044_263_103_389_939_8e-15,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_high_precision_values() {
        // p, Φ⁻¹(p): computed with 60 digits for the double nearest to p.
        let table = [
            (1e-300, -37.0470962993612),
            (1e-200, -30.20559417957964),
            (1e-100, -21.273453560965326),
            (1e-50, -14.933337534788489),
            (1e-20, -9.262340089798407),
            (1e-12, -7.034483825301132),
            (1e-11, -6.706023155495136),
            (1.4e-11, -6.656723091518184),
            (1e-8, -5.612001244174789),
            (1e-5, -4.264890793922825),
            (1e-3, -3.0902323061678136),
            (0.01, -2.326347874040841),
            (0.05, -1.6448536269514726),
            (0.07, -1.4757910281791706),
            (0.0751, -1.43882539275254),
            (0.1, -1.2815515655446004),
            (0.25, -0.6744897501960817),
            (0.3, -0.5244005127080408),
            (0.4, -0.2533471031357997),
            (0.49, -0.025068908258711057),
            (0.4999, -0.00025066283008800747),
            (0.6, 0.2533471031357997),
            (0.9, 1.2815515655446006),
            (0.925, 1.4395314709384561),
            (0.95, 1.6448536269514722),
            (0.999, 3.090232306167813),
        ];
        for (p, z) in table {
            let error = (normal_quantile(p) / z - 1.0).abs();
            assert!(error < 1e-15, "{p}: relative error {error:e}");
        }
    }

    #[test]
    fn ends_and_nonsense() {
        assert_eq!(normal_quantile(0.0), f64::NEG_INFINITY);
        assert_eq!(normal_quantile(1.0), f64::INFINITY);
        for p in [-1e-9, 1.1, f64::NAN, f64::INFINITY] {
            assert!(normal_quantile(p).is_nan());
        }
        assert!((normal_quantile(f64::from_bits(1)) + 38.467405617144346).abs() < 1e-10);
    }

    #[test]
    fn inverts_the_distribution_function() {
        for i in -350..=80 {
            let z = f64::from(i) / 10.0;
            let p = 0.5 * libm::erfc(-z * std::f64::consts::FRAC_1_SQRT_2);
            // Rounding of p near 1 alone moves z by ε / φ(z).
            let density = (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
            let tolerance = 1e-13 + if z > 0.0 { 4.0 * f64::EPSILON / density } else { 0.0 };
            assert!((normal_quantile(p) - z).abs() < tolerance * z.abs().max(1.0), "{z}");
        }
    }
}
