//! Intervals of shares.

/// Standard normal quantile of a two-sided 95 % interval.
pub const Z95: f64 = 1.959_963_984_540_054;

/// Wilson's 95 % interval of a share, of which `right` out of `rows` were seen: all p with |p̂ − p| ≤ z √(p(1−p)/n).
///
/// It stays inside [0, 1] and has a width also where all or none were seen; without rows it is [0, 1].
///
/// ```
/// let (low, high) = variegate::score::wilson(8, 10);
/// assert!((low - 0.4901625).abs() < 1e-7 && (high - 0.9433178).abs() < 1e-7);
/// ```
pub fn wilson(right: usize, rows: usize) -> (f64, f64) {
    if rows == 0 {
        return (0.0, 1.0);
    }
    let (n, z2) = (rows as f64, Z95 * Z95);
    let share = right as f64 / n;
    let centre = (share + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let half = Z95 / (1.0 + z2 / n) * (share * (1.0 - share) / n + z2 / (4.0 * n * n)).sqrt();
    // rounding must not put the ends of a sure share inside
    let low = if right == 0 { 0.0 } else { (centre - half).max(0.0) };
    let high = if right >= rows { 1.0 } else { (centre + half).min(1.0) };
    (low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of `scipy.stats.binomtest(…).proportion_ci(method="wilson")`.
    #[test]
    fn agrees_with_published_values() {
        for (right, rows, low, high) in [
            (0, 10, 0.0, 0.277_532_799_862_889_27),
            (10, 10, 0.722_467_200_137_110_7, 1.0),
            (263, 300, 0.834_626_275_971_176_6, 0.909_182_685_706_332),
            (1, 1, 0.206_549_314_377_237_45, 1.0),
        ] {
            let found = wilson(right, rows);
            assert!((found.0 - low).abs() < 1e-12 && (found.1 - high).abs() < 1e-12, "{right}/{rows}: {found:?}");
            // its definition: at an end that is not 0 or 1 the distance is z standard errors
            let share = right as f64 / rows as f64;
            for end in [found.0, found.1].into_iter().filter(|e| *e > 0.0 && *e < 1.0) {
                let z = (share - end).abs() / (end * (1.0 - end) / rows as f64).sqrt();
                assert!((z - Z95).abs() < 1e-9, "{z}");
            }
        }
        assert_eq!(wilson(0, 0), (0.0, 1.0));
    }
}
