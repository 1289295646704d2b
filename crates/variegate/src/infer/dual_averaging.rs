//! Dual averaging of a step size (Hoffman and Gelman, 2014).
//!
//! During warm-up each trajectory reports its acceptance α_t; with H_t = α* − α_t the step size ε moves by
//!
//! ```text
//! H̄_t      = (1 − 1/(t + t₀)) H̄_{t−1} + H_t / (t + t₀)
//! log ε_t  = μ − (√t / γ) H̄_t
//! log ε̄_t = t^{−κ} log ε_t + (1 − t^{−κ}) log ε̄_{t−1}
//! ```
//!
//! with μ = log(10 ε₀), γ = 0.05, t₀ = 10, κ = 0.75. The noisy ε_t is for the warm-up, the averaged ε̄ for the draws.

use serde::{Deserialize, Serialize};

use super::require;
use crate::Result;

/// State of the adaptation; what it holds is all that a checkpoint needs.
///
/// ```
/// use variegate::infer::dual_averaging::DualAveraging;
///
/// let mut adapt = DualAveraging::new(0.1, 0.8).unwrap();
/// for _ in 0..100 {
///     let step = adapt.step();
///     let acceptance = (-step).exp(); // what a sampler would report
///     adapt.update(acceptance);
/// }
/// assert!((adapt.final_step() - 0.223).abs() < 0.01); // exp(−0.223) = 0.8
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DualAveraging {
    target: f64,
    shrink_to: f64,
    count: u64,
    error_mean: f64,
    log_step: f64,
    log_step_average: f64,
}

const REGULARISATION: f64 = 0.05; // γ
const EARLY_WEIGHT: f64 = 10.0; // t₀
const FORGETTING: f64 = 0.75; // κ
// Keeps exp(log step) a positive, finite number whatever the sampler reports.
const LOG_STEP_LIMIT: f64 = 300.0;

impl DualAveraging {
    /// Starts at `initial_step` and steers to mean acceptance `target`.
    pub fn new(initial_step: f64, target: f64) -> Result<Self> {
        require(target > 0.0 && target < 1.0, "target_acceptance", target, "strictly between 0 and 1")?;
        let mut state = Self { target, shrink_to: 0.0, count: 0, error_mean: 0.0, log_step: 0.0, log_step_average: 0.0 };
        state.restart(initial_step)?;
        Ok(state)
    }

    /// Forgets what was learnt and starts again at `initial_step` (after a change of the metric, for example).
    pub fn restart(&mut self, initial_step: f64) -> Result<()> {
        require(initial_step.is_finite() && initial_step > 0.0, "initial_step", initial_step, "finite and positive")?;
        self.shrink_to = (10.0 * initial_step).ln();
        self.count = 0;
        self.error_mean = 0.0;
        self.log_step = initial_step.ln();
        self.log_step_average = self.log_step;
        Ok(())
    }

    /// Learns from one trajectory with mean acceptance probability `acceptance`; NaN (a divergence) counts as 0.
    pub fn update(&mut self, acceptance: f64) {
        let acceptance = if acceptance.is_nan() { 0.0 } else { acceptance.clamp(0.0, 1.0) };
        self.count += 1;
        let t = self.count as f64;
        let weight = 1.0 / (t + EARLY_WEIGHT);
        self.error_mean += weight * (self.target - acceptance - self.error_mean);
        let moved = self.shrink_to - t.sqrt() / REGULARISATION * self.error_mean;
        self.log_step = moved.clamp(-LOG_STEP_LIMIT, LOG_STEP_LIMIT);
        let newest = t.powf(-FORGETTING);
        self.log_step_average += newest * (self.log_step - self.log_step_average);
    }

    /// The step size to use while adapting.
    pub fn step(&self) -> f64 {
        self.log_step.exp()
    }

    /// The averaged step size, to use once the warm-up is over (the initial one if nothing was reported).
    pub fn final_step(&self) -> f64 {
        self.log_step_average.exp()
    }

    /// The acceptance that is aimed at.
    pub fn target(&self) -> f64 {
        self.target
    }

    /// How many trajectories have been reported since the start or the last restart.
    pub fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    /// One Gaussian random-walk step on N(0, 1); gives back its acceptance probability.
    fn walk(x: &mut f64, step: f64, rng: &mut SmallRng) -> f64 {
        let proposal = *x + step * rng.sample::<f64, _>(rand_distr::StandardNormal);
        let acceptance = (0.5 * (*x * *x - proposal * proposal)).exp().min(1.0);
        if rng.random::<f64>() < acceptance {
            *x = proposal;
        }
        acceptance
    }

    #[test]
    fn the_final_step_has_the_target_acceptance() {
        for (seed, start, target) in [(1, 1e-3, 0.8), (2, 1.0, 0.44), (3, 1e3, 0.65), (4, 0.5, 0.95)] {
            let mut rng = SmallRng::seed_from_u64(seed);
            let mut adapt = DualAveraging::new(start, target).unwrap();
            let mut x = 0.0;
            for _ in 0..4_000 {
                let acceptance = walk(&mut x, adapt.step(), &mut rng);
                adapt.update(acceptance);
            }
            // Stationary acceptance of this walk is exactly (2/π) atan(2/ε).
            let reached = std::f64::consts::FRAC_2_PI * (2.0 / adapt.final_step()).atan();
            assert!((reached - target).abs() < 0.03, "target {target}, reached {reached}");
        }
    }

    #[test]
    fn first_update_is_the_published_formula() {
        let mut adapt = DualAveraging::new(0.3, 0.8).unwrap();
        adapt.update(0.5);
        let error_mean = 0.3 / 11.0;
        let log_step = 3.0f64.ln() - error_mean / 0.05;
        assert!((adapt.step().ln() - log_step).abs() < 1e-14);
        assert!((adapt.final_step().ln() - log_step).abs() < 1e-14); // the first average is the first step
        adapt.update(1.0);
        let error_mean = (1.0 - 1.0 / 12.0) * error_mean - 0.2 / 12.0;
        let second = 3.0f64.ln() - 2f64.sqrt() / 0.05 * error_mean;
        assert!((adapt.step().ln() - second).abs() < 1e-13);
        let average = 2f64.powf(-0.75) * second + (1.0 - 2f64.powf(-0.75)) * log_step;
        assert!((adapt.final_step().ln() - average).abs() < 1e-13);
    }

    #[test]
    fn steps_stay_positive_and_finite_whatever_is_reported() {
        for report in [0.0, 1.0, f64::NAN, f64::INFINITY, -3.0] {
            let mut adapt = DualAveraging::new(1.0, 0.5).unwrap();
            for _ in 0..10_000 {
                adapt.update(report);
                assert!(adapt.step().is_finite() && adapt.step() > 0.0);
            }
            assert!(adapt.final_step().is_finite() && adapt.final_step() > 0.0);
        }
    }

    #[test]
    fn state_survives_serialisation_and_restart() {
        let mut adapt = DualAveraging::new(0.1, 0.8).unwrap();
        assert!((adapt.final_step() - 0.1).abs() < 1e-15);
        adapt.update(0.9);
        let copy: DualAveraging = postcard::from_bytes(&postcard::to_stdvec(&adapt).unwrap()).unwrap();
        assert_eq!(copy, adapt);
        adapt.restart(0.1).unwrap();
        assert_eq!(adapt, DualAveraging::new(0.1, 0.8).unwrap());
        assert!(adapt.restart(0.0).is_err());
        assert!(DualAveraging::new(f64::NAN, 0.8).is_err());
        assert!(DualAveraging::new(1.0, 0.0).is_err());
    }
}
