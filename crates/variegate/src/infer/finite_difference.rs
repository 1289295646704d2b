//! Numerical gradients by central differences, to check analytic gradients against.
//!
//! Two central differences with steps h and 2h are combined (Richardson) so that the error is O(h⁴):
//!
//! ```text
//! f'(x) ≈ [ 8 (f(x+h) − f(x−h)) − (f(x+2h) − f(x−2h)) ] / 12h,     h = ε^{1/5} max(|x|, 1)
//! ```
//!
//! For a smooth function of moderate size about 11 to 12 digits are right. It costs four evaluations a coordinate and is
//! meant for tests, not for fitting. A function that is not smooth on the scale of h (about 7e-4) defeats it.
//!
//! ```
//! use variegate::infer::finite_difference::{check_gradient, gradient};
//!
//! let f = |x: &[f64]| x[0].exp() * x[1];
//! let g = gradient(f, &[0.5, 2.0]);
//! assert!((g[1] - 0.5f64.exp()).abs() < 1e-10);
//! let worst = check_gradient(f, &[0.5, 2.0], &[2.0 * 0.5f64.exp(), 0.5f64.exp()]);
//! assert!(worst.relative_error < 1e-9, "{worst:?}");
//! ```

/// Numerical gradient of `f` at `x`.
pub fn gradient(mut f: impl FnMut(&[f64]) -> f64, x: &[f64]) -> Vec<f64> {
    let mut point = x.to_vec();
    (0..x.len())
        .map(|i| {
            let wanted = f64::EPSILON.powf(0.2) * x[i].abs().max(1.0);
            // The step that is really taken is the rounded one.
            let h = (x[i] + wanted) - x[i];
            let mut at = |offset: f64| {
                point[i] = x[i] + offset;
                let value = f(&point);
                point[i] = x[i];
                value
            };
            let (near, far) = (at(h) - at(-h), at(2.0 * h) - at(-2.0 * h));
            (8.0 * near - far) / (12.0 * h)
        })
        .collect()
}

/// The coordinate in which an analytic and a numerical gradient disagree most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WorstCoordinate {
    /// Which coordinate.
    pub index: usize,
    /// Its analytic derivative.
    pub analytic: f64,
    /// Its numerical derivative.
    pub numerical: f64,
    /// |analytic − numerical| / max(1, |analytic|, |numerical|); infinite where one of the two is NaN.
    pub relative_error: f64,
}

/// Compares `analytic` with the numerical gradient of `f` at `x` and names the worst coordinate.
///
/// # Panics
/// If `analytic` and `x` differ in length or are empty: this is a helper for tests.
pub fn check_gradient(f: impl FnMut(&[f64]) -> f64, x: &[f64], analytic: &[f64]) -> WorstCoordinate {
    assert_eq!(x.len(), analytic.len(), "the gradient must have one entry a coordinate");
    let numerical = gradient(f, x);
    let compare = |index: usize| {
        let (a, n) = (analytic[index], numerical[index]);
        let error = (a - n).abs() / a.abs().max(n.abs()).max(1.0);
        let relative_error = if error.is_nan() { f64::INFINITY } else { error };
        WorstCoordinate { index, analytic: a, numerical: n, relative_error }
    };
    (1..x.len()).map(compare).fold(compare(0), |worst, next| if next.relative_error > worst.relative_error { next } else { worst })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_known_derivatives_over_many_scales() {
        for &x in &[-1e6, -3.0, 0.0, 1e-9, 0.7, 40.0, 1e5] {
            let worst = check_gradient(|p| (p[0] / 7.0).sin() + p[1] * p[1], &[x, 2.0], &[(x / 7.0).cos() / 7.0, 4.0]);
            // The step grows with x, so that the wave is badly resolved only for large x.
            let bound = if x.abs() > 1e3 { 1.0 } else { 1e-9 };
            assert!(worst.relative_error < bound, "at {x}: {worst:?}");
        }
        let worst = check_gradient(|p| p[0].powi(4), &[1e5], &[4e15]);
        assert!(worst.relative_error < 1e-10, "{worst:?}");
    }

    #[test]
    fn names_the_coordinate_that_is_wrong() {
        let f = |p: &[f64]| p[0] * p[1] * p[2];
        let worst = check_gradient(f, &[2.0, 3.0, 4.0], &[12.0, 8.001, 6.0]);
        assert_eq!(worst.index, 1);
        assert!((worst.relative_error - 0.001 / 8.001).abs() < 1e-9);
        let worst = check_gradient(f, &[2.0, 3.0, 4.0], &[12.0, 8.0, f64::NAN]);
        assert_eq!((worst.index, worst.relative_error), (2, f64::INFINITY));
    }
}
