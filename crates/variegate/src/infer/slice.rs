//! Univariate slice sampling with stepping out and shrinkage (Neal, 2003).
//!
//! From x₀ with density f(x₀) a level y ~ U(0, f(x₀)) is drawn; the new point is uniform on (a part of) the slice
//! {x : f(x) > y}. The interval starts at a random place around x₀ with width w, is stepped out by w until both ends are
//! outside the slice or m widths are spent (their split between left and right drawn beforehand, which is what keeps the limit
//! exact), and shrinks towards x₀ with every rejected point. f need not be normalised, and it is left invariant
//! whatever w and m are; only the speed depends on them.
//!
//! Limits: the density must be known up to a constant at one point at a time; a density with far-apart modes mixes slowly
//! unless w reaches across. A log density that is NaN counts as −∞.
//!
//! ```
//! use rand::{SeedableRng, rngs::SmallRng};
//! use variegate::infer::slice::SliceSampler;
//!
//! let gamma = SliceSampler { width: 2.0, lower: 0.0, ..SliceSampler::default() };
//! let mut rng = SmallRng::seed_from_u64(1);
//! let mut x = 1.0;
//! for _ in 0..100 {
//!     x = gamma.step(x, |x| 2.0 * x.ln() - x, &mut rng).unwrap().x;
//!     assert!(x > 0.0);
//! }
//! ```

use rand::{Rng, RngExt};

use super::require;
use crate::Result;

/// How the slice is searched. Plain data; [`validate`](Self::validate) it once if it comes from a user.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SliceSampler {
    /// Width w of the first interval: about the scale of the density.
    pub width: f64,
    /// Most widths m that the interval may cover.
    pub max_widths: u32,
    /// The density is 0 below this (−∞ if it has no such bound).
    pub lower: f64,
    /// The density is 0 above this.
    pub upper: f64,
}

impl Default for SliceSampler {
    fn default() -> Self {
        Self { width: 1.0, max_widths: 100, lower: f64::NEG_INFINITY, upper: f64::INFINITY }
    }
}

/// One step and what it cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SliceStep {
    /// The new point.
    pub x: f64,
    /// Log density there.
    pub log_density: f64,
    /// How often the density was evaluated.
    pub evaluations: u32,
}

/// The density gives no slice to sample from at the current point.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("slice sampling cannot start at {x}: the log density there is {log_density} (it must be finite, inside the bounds)")]
pub struct NoSlice {
    /// The current point.
    pub x: f64,
    /// Its log density, −∞ outside the bounds.
    pub log_density: f64,
}

impl SliceSampler {
    /// Refuses a width that is not positive, a limit of 0 and bounds in the wrong order.
    pub fn validate(&self) -> Result<()> {
        require(self.width.is_finite() && self.width > 0.0, "width", self.width, "finite and positive")?;
        require(self.max_widths > 0, "max_widths", self.max_widths, "at least 1")?;
        require(self.lower < self.upper, "lower", self.lower, "below upper")
    }

    /// Moves `x` once; leaves the distribution with the given log density invariant.
    pub fn step<R: Rng + ?Sized>(&self, x: f64, mut log_density: impl FnMut(f64) -> f64, rng: &mut R) -> Result<SliceStep, NoSlice> {
        let mut evaluations = 0;
        let mut at = |x: f64| {
            if x < self.lower || x > self.upper {
                return f64::NEG_INFINITY;
            }
            evaluations += 1;
            let value = log_density(x);
            if value.is_nan() { f64::NEG_INFINITY } else { value }
        };

        let log_density_here = at(x);
        if !log_density_here.is_finite() {
            return Err(NoSlice { x, log_density: log_density_here });
        }
        // log of a uniform on (0, 1]: the level is never −∞.
        let level = log_density_here + (1.0 - rng.random::<f64>()).ln();

        let mut left = x - self.width * rng.random::<f64>();
        let mut right = left + self.width;
        let spare = self.max_widths.max(1) - 1;
        let mut left_widths = (f64::from(self.max_widths.max(1)) * rng.random::<f64>()) as u32;
        let mut right_widths = spare - left_widths.min(spare);
        while left_widths > 0 && left > self.lower && at(left) > level {
            left -= self.width;
            left_widths -= 1;
        }
        while right_widths > 0 && right < self.upper && at(right) > level {
            right += self.width;
            right_widths -= 1;
        }
        // No point outside the bounds can be accepted, so the interval may be cut there.
        left = left.max(self.lower);
        right = right.min(self.upper);

        for _ in 0..MAX_SHRINKS {
            let proposal = left + (right - left) * rng.random::<f64>();
            let log_density = at(proposal);
            if log_density > level {
                return Ok(SliceStep { x: proposal, log_density, evaluations });
            }
            if proposal == x {
                break; // the interval has shrunk to the current point
            }
            if proposal < x {
                left = proposal;
            } else {
                right = proposal;
            }
        }
        Ok(SliceStep { x, log_density: log_density_here, evaluations })
    }
}

// A shrink halves the interval on average and a double spans about 2,100 halvings: beyond this the slice is the point itself.
const MAX_SHRINKS: u32 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::invariance::{InvarianceSettings, one_step_invariance};
    use crate::check::report::CheckReport;
    use rand::SeedableRng;
    use rand::rngs::SmallRng;
    use rand_distr::{Exp1, StandardNormal};

    /// Exact draws in, one step, the same distribution out; false alarms once in 10⁴ runs (the seed is fixed).
    fn invariance(sampler: SliceSampler, exact: impl Fn(&mut SmallRng) -> f64, log_density: impl Fn(f64) -> f64) -> CheckReport {
        let settings = InvarianceSettings { draws: 100_000, false_alarm_rate: 1e-4 };
        let functions = |x: &f64, out: &mut Vec<f64>| {
            out.extend([*x, x * x, x.abs(), x.cos(), x.sin()]);
            out.extend([-1.5, -0.5, 0.1, 0.7, 2.0].map(|cut| f64::from(*x < cut)));
        };
        let names = ["x", "x²", "|x|", "cos x", "sin x", "x < -1.5", "x < -0.5", "x < 0.1", "x < 0.7", "x < 2"];
        let mut rng = SmallRng::seed_from_u64(20);
        one_step_invariance(
            "slice",
            &settings,
            &names,
            functions,
            &mut rng,
            |rng| Ok(exact(rng)),
            |x, rng| sampler.step(x, &log_density, rng).map(|step| step.x),
        )
        .unwrap()
    }

    /// Narrow intervals and few widths: here the random split of the widths matters.
    fn samplers() -> [SliceSampler; 4] {
        let with = |width, max_widths| SliceSampler { width, max_widths, ..SliceSampler::default() };
        [with(1.0, 100), with(0.3, 3), with(0.8, 1), with(30.0, 2)]
    }

    #[test]
    fn normal_is_invariant() {
        for sampler in samplers() {
            let report = invariance(sampler, |rng| rng.sample(StandardNormal), |x| -0.5 * x * x);
            assert!(report.passed, "{sampler:?}\n{report}");
        }
    }

    #[test]
    fn exponential_with_a_bound_is_invariant() {
        for sampler in samplers() {
            // The density given is not zero below 0: only the bound keeps it there.
            let bounded = SliceSampler { lower: 0.0, ..sampler };
            let report = invariance(bounded, |rng| rng.sample(Exp1), |x| -x);
            assert!(report.passed, "{sampler:?}\n{report}");
            let both = SliceSampler { lower: 0.0, upper: 1.0, ..sampler };
            let truncated = |rng: &mut SmallRng| -(1.0 - rng.random::<f64>() * (1.0 - f64::exp(-1.0))).ln();
            let report = invariance(both, truncated, |x| -x);
            assert!(report.passed, "{sampler:?}\n{report}");
        }
    }

    #[test]
    fn bimodal_is_invariant() {
        // 0.3 N(−1.5, 0.4²) + 0.7 N(1, 0.4²)
        let exact = |rng: &mut SmallRng| {
            let centre = if rng.random::<f64>() < 0.3 { -1.5 } else { 1.0 };
            centre + 0.4 * rng.sample::<f64, _>(StandardNormal)
        };
        let density = |x: f64| {
            let bump = |centre: f64| (-0.5 * ((x - centre) / 0.4).powi(2)).exp();
            (0.3 * bump(-1.5) + 0.7 * bump(1.0)).ln()
        };
        for sampler in samplers() {
            let report = invariance(sampler, exact, density);
            assert!(report.passed, "{sampler:?}\n{report}");
        }
    }

    #[test]
    fn cost_and_density_are_reported() {
        let mut rng = SmallRng::seed_from_u64(3);
        let mut calls = 0;
        let mut x = 0.4;
        for _ in 0..200 {
            calls = 0;
            let density = |x: f64| {
                calls += 1;
                -x * x
            };
            let step = SliceSampler::default().step(x, density, &mut rng).unwrap();
            x = step.x;
            assert_eq!(step.evaluations, calls);
            assert_eq!(step.log_density, -x * x);
        }
        assert!(calls > 2);
    }

    #[test]
    fn a_wide_interval_shrinks_fast() {
        // Shrinking costs about 2 log(width / slice) evaluations; rejection without it would need hundreds.
        let mut rng = SmallRng::seed_from_u64(6);
        let wide = SliceSampler { width: 1_000.0, ..SliceSampler::default() };
        let (mut x, mut total) = (0.0, 0);
        for _ in 0..1_000 {
            let step = wide.step(x, |x| -0.5 * x * x, &mut rng).unwrap();
            x = step.x;
            total += step.evaluations;
        }
        assert!(total < 20_000, "{total}");
    }

    #[test]
    fn hostile_densities_end() {
        let mut rng = SmallRng::seed_from_u64(4);
        let sampler = SliceSampler::default();
        for bad in [f64::NAN, f64::NEG_INFINITY, f64::INFINITY] {
            assert!(sampler.step(0.0, |_| bad, &mut rng).is_err());
        }
        let bounded = SliceSampler { lower: 0.0, ..sampler };
        let error = bounded.step(-1.0, |_| 0.0, &mut rng).unwrap_err();
        assert_eq!(error.log_density, f64::NEG_INFINITY);
        // A single point has density: nothing else can be accepted.
        let spike = |x: f64| if x == 0.3 { 0.0 } else { f64::NAN };
        assert_eq!(sampler.step(0.3, spike, &mut rng).unwrap().x, 0.3);
        // A flat density is improper, but the limit on widths ends the stepping out.
        let flat = sampler.step(0.0, |_| 0.0, &mut rng).unwrap();
        assert!(flat.x.abs() <= 100.0 && flat.evaluations <= 105);
        // Widths that overflow, or are not numbers.
        for width in [1e308, f64::NAN, 0.0] {
            let odd = SliceSampler { width, max_widths: 5, ..sampler };
            assert!(odd.step(1.0, |x| -x.abs(), &mut rng).unwrap().x.is_finite());
        }
        assert!(SliceSampler { width: 0.0, ..sampler }.validate().is_err());
        assert!(SliceSampler { max_widths: 0, ..sampler }.validate().is_err());
        assert!(SliceSampler { lower: 1.0, upper: 1.0, ..sampler }.validate().is_err());
        assert!(sampler.validate().is_ok());
    }
}
