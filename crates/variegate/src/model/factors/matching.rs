//! Which atom of one draw is which of another: one to one, as alike as can be.

use crate::infer::assignment::assign;
use crate::linalg::dot;

/// Atoms less alike than this (cosine) are not the same.
pub(super) const ALIKE: f64 = 0.8;

/// For each atom of `first` the atom of `second` that it is, and the sign that turns one into the other.
pub(super) fn same_atoms(first: &[f64], second: &[f64], width: usize) -> Vec<Option<(usize, f64)>> {
    let lengths = |phi: &[f64]| phi.chunks_exact(width).map(|a| dot(a, a).sqrt().max(f64::MIN_POSITIVE)).collect::<Vec<f64>>();
    let (a, b) = (lengths(first), lengths(second));
    let mut cosine = vec![0.0; a.len() * b.len()];
    crate::linalg::mul_t(first, second, &mut cosine, a.len(), width, b.len(), false);
    for (i, row) in cosine.chunks_exact_mut(b.len().max(1)).enumerate() {
        for (c, b) in row.iter_mut().zip(&b) {
            *c /= a[i] * b;
            *c = if c.is_finite() { *c } else { 0.0 };
        }
    }
    let worth: Vec<f64> = cosine.iter().map(|c| c.abs()).collect();
    let pairs = assign(&worth, a.len(), b.len());
    let found = |(i, j): (usize, Option<usize>)| j.map(|j| (j, cosine[i * b.len() + j])).filter(|(_, c)| c.abs() >= ALIKE);
    pairs.into_iter().enumerate().map(|p| found(p).map(|(j, c)| (j, c.signum()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atoms_are_found_again_up_to_scale_and_sign() {
        let first = [1.0, 0.0, 0.0, 0.0, 1.0, 0.1, 0.3, 0.3, 0.3];
        let second = [0.0, -2.0, -0.2, 5.0, 0.1, 0.0];
        assert_eq!(same_atoms(&first, &second, 3), [Some((1, 1.0)), Some((0, -1.0)), None]);
        assert_eq!(same_atoms(&first, &[], 3), [None, None, None]);
    }
}
