//! A unit in which numbers of extreme size can be squared.

/// A power of two near the largest of the values where squares of them would overflow or vanish, else 1. Dividing by it is exact.
pub(crate) fn unit_of(values: impl IntoIterator<Item = f64>) -> f64 {
    let largest = values.into_iter().fold(0.0, |most: f64, v| most.max(v.abs()));
    if largest == 0.0 || !largest.is_finite() || (1e-100..=1e100).contains(&largest) {
        return 1.0;
    }
    2f64.powi(largest.log2().floor().clamp(-1000.0, 1000.0) as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_extreme_sizes_have_a_unit() {
        for plain in [vec![], vec![0.0], vec![1e99, -3.0], vec![1e-99, 0.0], vec![f64::INFINITY], vec![f64::NAN]] {
            assert_eq!(unit_of(plain), 1.0);
        }
        for extreme in [1e-200, -1e200, f64::MAX, 5e-324, 1e-310] {
            let unit = unit_of([extreme, 0.0]);
            let scaled = extreme / unit;
            assert!(scaled * scaled > 1e-60 && scaled * scaled < 1e60, "{extreme} {unit}");
            assert_eq!(scaled * unit, extreme);
        }
    }
}
