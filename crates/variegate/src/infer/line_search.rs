//! Line search for [`lbfgs`](super::lbfgs): a step along a descent direction that satisfies the strong Wolfe conditions
//!
//! ```text
//! φ(a) ≤ φ(0) + c₁ a φ'(0)   and   |φ'(a)| ≤ c₂ |φ'(0)|,      φ(a) = f(x + a d),  c₁ = 1e-4,  c₂ = 0.9.
//! ```
//!
//! A bracket is found by expansion and narrowed by safeguarded cubic interpolation. Near a minimum, where the values of φ
//! differ by rounding only, the test on values gives way to the equivalent one on slopes (the approximate Wolfe condition
//! of Hager and Zhang), and interpolation to a secant through the slopes. A point with a non-finite value or gradient
//! counts as too far. If no such step is found within the budget, the best sufficient decrease that was seen is taken.

/// What is known of φ at one step length.
#[derive(Debug, Clone, Copy)]
struct Trial {
    step: f64,
    value: f64,
    slope: f64,
}

/// The far end of the bracket.
#[derive(Debug, Clone, Copy)]
enum Far {
    Unknown,
    Known(Trial),
    /// φ was not finite there.
    Forbidden(f64),
}

const DECREASE: f64 = 1e-4;
const CURVATURE: f64 = 0.9;
/// Relative rounding of a value that is a sum over many rows.
pub(super) const ROUNDING: f64 = 1e-13;

/// Searches φ from `first_step`; `phi(a)` gives (value, slope), and leaves its own record of the point it was called at last.
///
/// Gives back the value that was found, `None` when there is no decrease. The last call to `phi` is always at the point found
/// (repeated if need be), so that the caller's record belongs to it.
pub(super) fn search<E>(
    value: f64,
    slope: f64,
    first_step: f64,
    max_evaluations: usize,
    mut phi: impl FnMut(f64) -> Result<(f64, f64), E>,
) -> Result<Option<f64>, E> {
    let start = Trial { step: 0.0, value, slope };
    let slack = ROUNDING * value.abs();
    let mut near = start; // the lowest point that has sufficient decrease
    let mut far = Far::Unknown;
    let mut step = first_step;
    let mut width = f64::INFINITY; // of the bracket, two trials ago
    let mut width_before = f64::INFINITY;

    for _ in 0..max_evaluations {
        let (value, slope) = phi(step)?;
        if !(value.is_finite() && slope.is_finite()) {
            far = Far::Forbidden(step);
        } else {
            let trial = Trial { step, value, slope };
            if accepts(&start, &trial, slack) {
                return Ok(Some(value));
            }
            let decreases = value <= start.value + DECREASE * step * start.slope;
            // Within rounding of each other, the slopes decide which of two points is better.
            let higher = if (value - near.value).abs() <= slack { slope * (step - near.step) > 0.0 } else { value > near.value };
            if higher || !(decreases || value <= start.value + slack) {
                far = Far::Known(trial);
            } else {
                // The minimum lies on the downhill side of the new point: towards the old near end or towards the far one.
                let points_back = slope * (step - near.step) >= 0.0;
                if points_back {
                    far = Far::Known(near);
                }
                near = trial;
            }
        }

        step = match far {
            Far::Unknown => expand(&start, &near),
            Far::Forbidden(at) => near.step + 0.3 * (at - near.step),
            Far::Known(end) => {
                let now = (end.step - near.step).abs();
                // Two trials must at least halve the bracket; otherwise bisect.
                let slow = now > 0.5 * width_before;
                width_before = width;
                width = now;
                if slow { 0.5 * (near.step + end.step) } else { interpolate(&near, &end, slack) }
            }
        };
        if (step - near.step).abs() <= f64::EPSILON * near.step.abs() || step <= 0.0 || !step.is_finite() {
            break; // the bracket is as narrow as floating point allows
        }
    }

    if near.step > 0.0 && near.value < start.value {
        phi(near.step)?;
        return Ok(Some(near.value));
    }
    Ok(None)
}

fn accepts(start: &Trial, trial: &Trial, slack: f64) -> bool {
    let flat = trial.slope.abs() <= CURVATURE * start.slope.abs();
    let decreases = trial.value <= start.value + DECREASE * trial.step * start.slope;
    // For a quadratic, φ(a) ≤ φ(0) + c₁ a φ'(0) is the same as φ'(a) ≤ (2 c₁ − 1) φ'(0).
    let decreases_by_slope = (trial.value - start.value).abs() <= slack && trial.slope <= (2.0 * DECREASE - 1.0) * start.slope;
    flat && (decreases || decreases_by_slope)
}

/// A longer step, while φ still falls at `near`: the secant of the slopes, held between 2 and 10 times as far.
fn expand(start: &Trial, near: &Trial) -> f64 {
    let secant = near.step * start.slope / (start.slope - near.slope);
    if secant.is_finite() && secant > 0.0 { secant.clamp(2.0 * near.step, 10.0 * near.step) } else { 4.0 * near.step }
}

/// The minimum of the cubic through both ends, kept away from them.
fn interpolate(near: &Trial, far: &Trial, slack: f64) -> f64 {
    let width = far.step - near.step; // negative where the bracket points back
    let secant = near.slope / (near.slope - far.slope);
    let fraction = if (far.value - near.value).abs() <= slack {
        secant
    } else {
        let a = near.slope * width;
        let b = far.slope * width;
        let theta = 3.0 * (near.value - far.value) + a + b;
        let discriminant = theta * theta - a * b;
        if discriminant >= 0.0 {
            let root = discriminant.sqrt();
            // a < 0: the search runs downhill from the near end.
            (root + theta - a) / (2.0 * root + b - a)
        } else {
            f64::NAN
        }
    };
    let fraction = if fraction.is_finite() { fraction.clamp(0.1, 0.9) } else { 0.5 };
    near.step + fraction * width
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    /// The value found, the step it was found at, and the number of calls.
    fn run(first: f64, phi: impl Fn(f64) -> (f64, f64)) -> (Option<f64>, f64, usize) {
        let (value, slope) = phi(0.0);
        let (mut calls, mut last) = (0, 0.0);
        let found = search(value, slope, first, 40, |a| {
            calls += 1;
            last = a;
            Ok::<_, Infallible>(phi(a))
        });
        (found.unwrap(), last, calls)
    }

    /// φ of Moré and Thuente's first test: long flat tail, minimum at √2.
    fn rational(a: f64) -> (f64, f64) {
        (-a / (a * a + 2.0), (a * a - 2.0) / (a * a + 2.0).powi(2))
    }

    #[test]
    fn wolfe_holds_from_any_first_step() {
        let quartic = |a: f64| ((a - 3.0).powi(4) + 0.1 * a, 4.0 * (a - 3.0).powi(3) + 0.1);
        let steep = |a: f64| ((a - 1e-3).powi(2) * 1e6, 2e6 * (a - 1e-3));
        for phi in [&rational as &dyn Fn(f64) -> (f64, f64), &quartic, &steep] {
            for exponent in -8..=8 {
                let (found, step, calls) = run(10f64.powi(exponent), phi);
                let ((value, slope), (at, slope_at)) = (phi(0.0), phi(step));
                assert_eq!(found, Some(at), "1e{exponent}");
                assert!(at <= value + DECREASE * step * slope + 1e-13, "1e{exponent}: {step}");
                assert!(slope_at.abs() <= CURVATURE * slope.abs(), "1e{exponent}: {step}");
                assert!(calls < 40, "1e{exponent}: {calls} calls");
            }
        }
    }

    #[test]
    fn forbidden_ground_is_left() {
        // −log(1 − a) − 3a: infinite beyond 1, minimum at 2/3.
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let phi = |a: f64| {
                if a < 1.0 { (-(1.0 - a).ln() - 3.0 * a, 1.0 / (1.0 - a) - 3.0) } else { (bad, bad) }
            };
            for first in [0.1, 1.0, 1e6] {
                let (found, step, _) = run(first, phi);
                assert!(step < 1.0 && found.unwrap() < 0.0, "{first}: {step}");
            }
        }
    }

    #[test]
    fn a_spent_budget_gives_the_best_decrease_seen() {
        // A kink at 1: the first trial still falls steeply, the second is too far, and there is no third.
        let phi = |a: f64| if a <= 1.0 { (-a, -1.0) } else { (10.0 * a, 10.0) };
        let mut last = f64::NAN;
        let found = search(0.0, -1.0, 0.5, 2, |a| {
            last = a;
            Ok::<_, Infallible>(phi(a))
        });
        assert_eq!((found.unwrap(), last), (Some(-0.5), 0.5));
    }

    #[test]
    fn no_decrease_is_admitted() {
        // Wrong sign of the slope: the function only rises.
        assert!(run(1.0, |a| (a, -1.0)).0.is_none());
        assert!(run(1.0, |a| if a > 0.0 { (f64::NAN, f64::NAN) } else { (0.0, -1.0) }).0.is_none());
    }
}
