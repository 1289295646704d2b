//! Elliptical slice sampling (Murray, Adams and MacKay, 2010) of a Gaussian distribution times a weight.
//!
//! The target has density N(w | m, Σ) exp(l(w)). With v ~ N(0, Σ) the points m + (w − m) cos θ + v sin θ form an ellipse through w on
//! which, θ being uniform, the Gaussian distribution is invariant. A level below exp(l(w)) is drawn, then angles from a bracket around θ = 0 that
//! shrinks with every point below the level. There is nothing to tune and the step always ends at a new point, however small the
//! weight lets it be.
//!
//! Limits: it is quick where the weight is flat on the scale of the Gaussian distribution. A weight that is NaN counts as 0.
//!
//! ```
//! use rand::{SeedableRng, rngs::SmallRng};
//! use variegate::infer::elliptical_slice::step;
//!
//! let mut rng = SmallRng::seed_from_u64(1);
//! let weight = |w: &[f64]| if w[0] > 0.0 { 0.0 } else { f64::NEG_INFINITY }; // half a normal distribution
//! let mut w = [0.5];
//! let l = step(&mut w, &[0.0], &[-1.3], 0.0, weight, &mut rng);
//! assert!(w[0] > 0.0 && l == 0.0);
//! ```

use rand::Rng;
use std::f64::consts::TAU;

use crate::run::open01;

/// Moves `current` once and returns its new log weight.
///
/// `draw` is a fresh draw of N(0, Σ), independent of everything else; `log_weight_now` is `log_weight(current)` and must be finite,
/// otherwise nothing moves.
///
/// # Panics
/// If the slices differ in length.
pub fn step<R: Rng + ?Sized>(
    current: &mut [f64],
    mean: &[f64],
    draw: &[f64],
    log_weight_now: f64,
    mut log_weight: impl FnMut(&[f64]) -> f64,
    rng: &mut R,
) -> f64 {
    assert!(current.len() == mean.len() && mean.len() == draw.len(), "mean and draw must be as long as the point");
    if !log_weight_now.is_finite() {
        return log_weight_now;
    }
    let start = current.to_vec();
    let level = log_weight_now + open01(rng).ln();
    let mut angle = TAU * open01(rng);
    let (mut low, mut high) = (angle - TAU, angle);
    for _ in 0..MAX_SHRINKS {
        let (sin, cos) = angle.sin_cos();
        for (((c, s), m), v) in current.iter_mut().zip(&start).zip(mean).zip(draw) {
            *c = m + (s - m) * cos + v * sin;
        }
        let value = log_weight(current);
        if value > level {
            return value;
        }
        if angle < 0.0 {
            low = angle;
        } else {
            high = angle;
        }
        angle = low + (high - low) * open01(rng);
    }
    current.copy_from_slice(&start);
    log_weight_now
}

// A shrink halves the bracket on average and a double spans about 1,100 halvings: beyond this the slice is the point itself.
const MAX_SHRINKS: u32 = 5_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::invariance::{InvarianceSettings, one_step_invariance};
    use crate::check::report::CheckReport;
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};
    use rand_distr::StandardNormal;
    use std::convert::Infallible;

    /// Base N(m, Σ) in the plane, Σ = LLᵀ.
    const MEAN: [f64; 2] = [0.7, -0.4];
    const L: [f64; 3] = [1.2, 0.5, 0.8];

    fn base(rng: &mut SmallRng) -> [f64; 2] {
        let (a, b): (f64, f64) = (rng.sample(StandardNormal), rng.sample(StandardNormal));
        [L[0] * a, L[1] * a + L[2] * b]
    }

    /// Exact draws in, one step, the same distribution out; false alarms once in 10⁴ runs (the seed is fixed).
    fn invariance(log_weight: impl Fn(&[f64]) -> f64, exact: impl Fn(&mut SmallRng) -> [f64; 2]) -> CheckReport {
        let settings = InvarianceSettings { draws: 60_000, false_alarm_rate: 1e-4 };
        let names = ["x", "y", "x²", "y²", "xy", "cos x", "sin 2y", "x > 1", "y > 0", "l"];
        let functions = |w: &[f64; 2], out: &mut Vec<f64>| {
            let [x, y] = *w;
            out.extend([x, y, x * x, y * y, x * y, x.cos(), (2.0 * y).sin(), f64::from(x > 1.0), f64::from(y > 0.0)]);
            out.push(log_weight(w));
        };
        let mut rng = SmallRng::seed_from_u64(21);
        let move_once = |mut w: [f64; 2], rng: &mut SmallRng| {
            let draw = base(rng);
            let now = log_weight(&w);
            let after = step(&mut w, &MEAN, &draw, now, &log_weight, rng);
            assert_eq!(after, log_weight(&w));
            Ok::<_, Infallible>(w)
        };
        one_step_invariance("elliptical slice", &settings, &names, functions, &mut rng, |rng| Ok(exact(rng)), move_once).unwrap()
    }

    /// A bounded weight: exact draws by rejection from the base.
    #[test]
    fn a_wavy_weight_is_invariant() {
        let log_weight = |w: &[f64]| 2.0 * (3.0 * w[0]).sin() - (w[1] - 1.0).abs();
        let report = invariance(log_weight, |rng| {
            loop {
                let w = base(rng);
                let w = [w[0] + MEAN[0], w[1] + MEAN[1]];
                if open01(rng).ln() < log_weight(&w) - 2.0 {
                    break w;
                }
            }
        });
        assert!(report.passed, "{report}");
    }

    /// A weight that moves the distribution away from the base: exp(h'w) turns N(m, Σ) into N(m + Σh, Σ).
    #[test]
    fn a_tilted_gaussian_is_invariant() {
        let h = [1.5, -1.0];
        let sigma = [L[0] * L[0], L[0] * L[1], L[1] * L[1] + L[2] * L[2]];
        let centre = [MEAN[0] + sigma[0] * h[0] + sigma[1] * h[1], MEAN[1] + sigma[1] * h[0] + sigma[2] * h[1]];
        let report = invariance(
            |w| h[0] * w[0] + h[1] * w[1],
            |rng| {
                let w = base(rng);
                [w[0] + centre[0], w[1] + centre[1]]
            },
        );
        assert!(report.passed, "{report}");
    }

    #[test]
    fn hostile_weights_end() {
        let mut rng = SmallRng::seed_from_u64(22);
        let mut w = [0.3, 0.2];
        for bad in [f64::NAN, f64::NEG_INFINITY, f64::INFINITY] {
            step(&mut w, &[0.0; 2], &[1.0, 2.0], bad, |_| 0.0, &mut rng);
            assert_eq!(w, [0.3, 0.2]);
        }
        // nothing but the point itself has weight
        let value = step(&mut w, &[0.0; 2], &[1.0, 2.0], 1.0, |_| f64::NAN, &mut rng);
        assert_eq!((w, value), ([0.3, 0.2], 1.0));
    }
}
