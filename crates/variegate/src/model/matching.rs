//! Which component of one draw is which of another: one to one, as alike as can be.

use crate::infer::assignment::assign;
use crate::linalg::{dot, mul_t};

/// Whether a component and its opposite are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signs {
    /// They are.
    Free,
    /// They are not.
    Fixed,
}

/// For each component of `first` the one of `second` that it is, and the sign that turns one into the other; none where no one is as
/// alike (cosine) as `least`.
pub(super) fn same_components(first: &[f64], second: &[f64], width: usize, least: f64, signs: Signs) -> Vec<Option<(usize, f64)>> {
    let lengths = |all: &[f64]| all.chunks_exact(width).map(|a| dot(a, a).sqrt().max(f64::MIN_POSITIVE)).collect::<Vec<f64>>();
    let (a, b) = (lengths(first), lengths(second));
    if a.is_empty() || b.is_empty() {
        return vec![None; a.len()];
    }
    let mut cosine = vec![0.0; a.len() * b.len()];
    mul_t(first, second, &mut cosine, a.len(), width, b.len(), false);
    for (i, row) in cosine.chunks_exact_mut(b.len()).enumerate() {
        for (c, b) in row.iter_mut().zip(&b) {
            *c /= a[i] * b;
            *c = if c.is_finite() { *c } else { 0.0 };
        }
    }
    let worth = |c: f64| if signs == Signs::Free { c.abs() } else { c.max(0.0) };
    let pairs = assign(&cosine.iter().map(|&c| worth(c)).collect::<Vec<f64>>(), a.len(), b.len());
    let found = |(i, j): (usize, Option<usize>)| j.map(|j| (j, cosine[i * b.len() + j])).filter(|(_, c)| worth(*c) >= least);
    pairs.into_iter().enumerate().map(|p| found(p).map(|(j, c)| (j, c.signum()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_are_found_again_up_to_scale_and_sign() {
        let first = [1.0, 0.0, 0.0, 0.0, 1.0, 0.1, 0.3, 0.3, 0.3];
        let second = [0.0, -2.0, -0.2, 5.0, 0.1, 0.0];
        assert_eq!(same_components(&first, &second, 3, 0.8, Signs::Free), [Some((1, 1.0)), Some((0, -1.0)), None]);
        assert_eq!(same_components(&first, &second, 3, 0.8, Signs::Fixed), [Some((1, 1.0)), None, None]);
        assert_eq!(same_components(&first, &[], 3, 0.8, Signs::Free), [None, None, None]);
        assert!(same_components(&[], &second, 3, 0.8, Signs::Free).is_empty());
    }
}
