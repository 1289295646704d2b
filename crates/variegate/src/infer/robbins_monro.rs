//! Robbins-Monro schedules, and a proposal scale that follows one to a target acceptance.
//!
//! A stochastic approximation moves by decreasing rates
//!
//! ```text
//! ρ_t = (t + τ)^{−κ},   t = 1, 2, …,   τ ≥ 0,   1/2 < κ ≤ 1,
//! ```
//!
//! for which Σ ρ_t = ∞ and Σ ρ_t² < ∞: it forgets its start and its noise dies out. The rate never exceeds 1; τ delays the
//! early steps, κ sets how fast old information fades.

use serde::{Deserialize, Serialize};

use super::require;
use crate::Result;

/// The schedule ρ_t = (t + τ)^{−κ}, counted from t = 1.
///
/// ```
/// use variegate::infer::robbins_monro::Rates;
///
/// let rates = Rates::new(1.0, 0.75).unwrap();
/// assert_eq!(rates.rate(1), 2f64.powf(-0.75));
/// assert!(Rates::new(1.0, 0.5).is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    delay: f64,
    forgetting: f64,
}

impl Rates {
    /// A schedule with delay τ = `delay` and forgetting rate κ = `forgetting`.
    pub fn new(delay: f64, forgetting: f64) -> Result<Self> {
        require(delay.is_finite() && delay >= 0.0, "delay", delay, "finite and at least 0")?;
        require(
            forgetting > 0.5 && forgetting <= 1.0,
            "forgetting",
            forgetting,
            "above 0.5 and at most 1, or the steps either never settle or stop too early",
        )?;
        Ok(Self { delay, forgetting })
    }

    /// Delay τ.
    pub fn delay(&self) -> f64 {
        self.delay
    }

    /// Forgetting rate κ.
    pub fn forgetting(&self) -> f64 {
        self.forgetting
    }

    /// The rate of step `t`, counted from 1; step 0 is taken as step 1.
    pub fn rate(&self, t: u64) -> f64 {
        (t.max(1) as f64 + self.delay).powf(-self.forgetting)
    }
}

impl Default for Rates {
    /// τ = 1, κ = 0.7.
    fn default() -> Self {
        Self { delay: 1.0, forgetting: 0.7 }
    }
}

/// Adapts the scale of a proposal so that its acceptance approaches a target.
///
/// After a proposal that was accepted with probability α_t
///
/// ```text
/// log s ← log s + g ρ_t (α_t − α*),     g = 1 / (α* (1 − α*)).
/// ```
///
/// The gain g makes the step comparable for low and high targets. Adaptation belongs to the warm-up: call
/// [`freeze`](Self::freeze) before draws are kept, or the chain loses its stationary distribution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScaleAdapter {
    rates: Rates,
    target: f64,
    log_scale: f64,
    steps: u64,
    frozen: bool,
}

// Beyond these, exp would leave the range in which a proposal scale is of any use.
const LOG_SCALE_LIMIT: f64 = 300.0;

impl ScaleAdapter {
    /// Starts at `scale` and steers to acceptance `target`.
    pub fn new(scale: f64, target: f64, rates: Rates) -> Result<Self> {
        require(scale.is_finite() && scale > 0.0, "scale", scale, "finite and positive")?;
        require(target > 0.0 && target < 1.0, "target_acceptance", target, "strictly between 0 and 1")?;
        Ok(Self { rates, target, log_scale: scale.ln(), steps: 0, frozen: false })
    }

    /// The scale to propose with.
    pub fn scale(&self) -> f64 {
        self.log_scale.exp()
    }

    /// Learns from one proposal that was accepted with probability `acceptance` (NaN counts as 0). No effect once frozen.
    pub fn update(&mut self, acceptance: f64) {
        if self.frozen {
            return;
        }
        self.steps += 1;
        let acceptance = if acceptance.is_nan() { 0.0 } else { acceptance.clamp(0.0, 1.0) };
        let gain = 1.0 / (self.target * (1.0 - self.target));
        let moved = self.log_scale + gain * self.rates.rate(self.steps) * (acceptance - self.target);
        self.log_scale = moved.clamp(-LOG_SCALE_LIMIT, LOG_SCALE_LIMIT);
    }

    /// Keeps the scale as it is from now on.
    pub fn freeze(&mut self) {
        self.frozen = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    #[test]
    fn rates_fall_and_never_exceed_one() {
        for (delay, forgetting) in [(0.0, 1.0), (0.0, 0.51), (64.0, 0.7)] {
            let rates = Rates::new(delay, forgetting).unwrap();
            assert!(rates.rate(0) <= 1.0);
            assert_eq!(rates.rate(0), rates.rate(1));
            assert!((1..100).all(|t| rates.rate(t + 1) < rates.rate(t)));
        }
        assert_eq!(Rates::new(3.0, 1.0).unwrap().rate(5), 0.125);
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for (delay, forgetting) in [(-1.0, 0.7), (f64::NAN, 0.7), (f64::INFINITY, 0.7), (1.0, 0.5), (1.0, 1.1), (1.0, f64::NAN)] {
            assert!(Rates::new(delay, forgetting).is_err(), "{delay} {forgetting}");
        }
        let error = ScaleAdapter::new(1.0, 1.0, Rates::default()).unwrap_err();
        assert_eq!(error.to_string(), "setting `target_acceptance` is 1, but it must be strictly between 0 and 1");
        assert!(ScaleAdapter::new(0.0, 0.4, Rates::default()).is_err());
    }

    #[test]
    fn a_random_walk_reaches_its_target_from_both_sides() {
        // Gaussian random walk on N(0, 1): acceptance 0.44 has the closed form (2/π) atan(2/s), hence s* = 2 / tan(0.22 π).
        let expected = 2.0 / (0.22 * std::f64::consts::PI).tan();
        for start in [1e-4, 1.0, 1e4] {
            let mut rng = SmallRng::seed_from_u64(5);
            let mut adapter = ScaleAdapter::new(start, 0.44, Rates::default()).unwrap();
            let mut x = 0.0f64;
            let (mut log_scale_sum, mut kept) = (0.0, 0.0);
            for t in 0..20_000 {
                let proposal = x + adapter.scale() * rng.sample::<f64, _>(rand_distr::StandardNormal);
                let acceptance = (0.5 * (x * x - proposal * proposal)).exp().min(1.0);
                if rng.random::<f64>() < acceptance {
                    x = proposal;
                }
                adapter.update(acceptance);
                if t >= 10_000 {
                    log_scale_sum += adapter.scale().ln();
                    kept += 1.0;
                }
            }
            // Late rates are below 0.005, so the average log scale is known to about 0.02.
            let scale = f64::exp(log_scale_sum / kept);
            assert!((scale / expected).ln().abs() < 0.1, "start {start}: {scale} against {expected}");
        }
    }

    #[test]
    fn frozen_means_frozen_and_the_state_survives_serialisation() {
        let mut adapter = ScaleAdapter::new(2.0, 0.3, Rates::default()).unwrap();
        adapter.update(1.0);
        adapter.update(f64::NAN);
        let copy: ScaleAdapter = postcard::from_bytes(&postcard::to_stdvec(&adapter).unwrap()).unwrap();
        assert_eq!(copy, adapter);
        let before = adapter.scale();
        adapter.freeze();
        adapter.update(1.0);
        assert_eq!(adapter.scale(), before);
    }
}
