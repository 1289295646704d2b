//! Rows seen before a label was known, taken as rows without it.

use super::not_definite;
use crate::Result;
use crate::linalg::Cholesky;
use crate::special::sigmoid;

/// The one point of tangency u of Böhning's bound for many rows without a label, and u/4 − σ(u), what each adds to the linear term.
///
/// u is the mean of f over those rows: with s their sums of inputs and q = sᵀQ⁻¹s over their number, u = (u/4 − σ(u)) q, whose root is
/// negative. At u = 0 the label would seem far likelier than it was.
pub(super) fn point_of_absence(spread: f64) -> (f64, f64) {
    let pull = |u: f64| 0.25 * u - sigmoid(u);
    let (mut low, mut high) = (-60.0, 0.0);
    for _ in 0..200 {
        let u = 0.5 * (low + high);
        // u − pull(u) q rises through its root
        if u - pull(u) * spread > 0.0 {
            high = u;
        } else {
            low = u;
        }
    }
    let u = 0.5 * (low + high);
    (u, pull(u))
}

/// Q⁻¹ s for a precision Q (full, row-major).
pub(super) fn solved(precision: &[f64], s: &[f64], label: usize) -> Result<Vec<f64>> {
    let (factor, _) = Cholesky::with_jitter(s.len(), precision).map_err(|e| not_definite(label, &e))?;
    let mut solution = s.to_vec();
    factor.solve(&mut solution);
    Ok(solution)
}
