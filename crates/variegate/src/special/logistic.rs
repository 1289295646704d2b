//! Sums and logistic functions in log space: no overflow, and no digits lost where the answer is small.

/// `ln sum_i exp(v_i)`; `-inf` for an empty slice or when every entry is `-inf`. A NaN among the entries gives NaN.
///
/// The largest entry is taken out of the sum, so that `ln(1 + small)` keeps the digits of the small part.
pub fn log_sum_exp(values: &[f64]) -> f64 {
    let (mut largest, mut at) = (f64::NEG_INFINITY, usize::MAX);
    for (i, &v) in values.iter().enumerate() {
        if v.is_nan() {
            return f64::NAN;
        }
        if v > largest {
            (largest, at) = (v, i);
        }
    }
    if largest.is_infinite() {
        return largest;
    }
    let mut rest = 0.0;
    for v in &values[..at] {
        rest += (v - largest).exp();
    }
    for v in &values[at + 1..] {
        rest += (v - largest).exp();
    }
    largest + rest.ln_1p()
}

/// `ln(1 + exp(x))`, also called softplus.
pub fn log1p_exp(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// `1 / (1 + exp(-x))`.
pub fn sigmoid(x: f64) -> f64 {
    let e = (-x.abs()).exp();
    if x < 0.0 { e / (1.0 + e) } else { 1.0 / (1.0 + e) }
}

/// `ln sigmoid(x) = -ln(1 + exp(-x))`.
pub fn ln_sigmoid(x: f64) -> f64 {
    -log1p_exp(-x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn empty_and_infinite_sums() {
        let inf = f64::INFINITY;
        assert_eq!(log_sum_exp(&[]), -inf);
        assert_eq!(log_sum_exp(&[-inf, -inf]), -inf);
        assert_eq!(log_sum_exp(&[-inf, 3.0]), 3.0);
        assert_eq!(log_sum_exp(&[inf, 3.0, inf]), inf);
        assert!(log_sum_exp(&[1.0, f64::NAN]).is_nan());
        assert!(log_sum_exp(&[inf, f64::NAN]).is_nan());
        assert_eq!(log_sum_exp(&[-1000.0, -1000.0]), -1000.0 + std::f64::consts::LN_2);
        assert_eq!(log_sum_exp(&[0.0, -45.0]), (-45.0_f64).exp().ln_1p());
    }

    #[test]
    fn limits() {
        let inf = f64::INFINITY;
        assert_eq!((log1p_exp(-inf), log1p_exp(inf)), (0.0, inf));
        assert_eq!((sigmoid(-inf), sigmoid(inf)), (0.0, 1.0));
        assert_eq!((ln_sigmoid(-inf), ln_sigmoid(inf)), (-inf, 0.0));
        for f in [log1p_exp, sigmoid, ln_sigmoid] {
            assert!(f(f64::NAN).is_nan());
        }
    }

    proptest! {
        #[test]
        fn a_shift_comes_out_of_the_sum(values in proptest::collection::vec(-50.0..50.0f64, 1..20), shift in -700.0..700.0f64) {
            let shifted: Vec<f64> = values.iter().map(|v| v + shift).collect();
            let plain: f64 = values.iter().map(|v| v.exp()).sum();
            prop_assert!((log_sum_exp(&shifted) - shift - plain.ln()).abs() < 1e-12);
        }
    }
}
