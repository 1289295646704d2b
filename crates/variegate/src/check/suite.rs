//! All checks of one subject, with settings that are quick or thorough.

use serde::{Deserialize, Serialize};

use super::calibration::{CalibrationSettings, calibration};
use super::invariance::{InvarianceSettings, sweep_invariance};
use super::joint::{JointSettings, joint_distribution};
use super::report::CheckReport;
use super::subject::Checkable;
use crate::Result;
use crate::parallel;

/// How much evidence each check gathers. Plain data; [`quick`](Self::quick) and [`full`](Self::full) are the usual choices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Effort {
    /// One-step invariance.
    pub invariance: InvarianceSettings,
    /// Joint distribution.
    pub joint: JointSettings,
    /// Simulation-based calibration.
    pub calibration: CalibrationSettings,
}

impl Effort {
    /// Some hundred thousand sweeps over tiny data: seconds for a sampler that takes 10 µs a sweep.
    pub fn quick() -> Self {
        Self {
            invariance: InvarianceSettings { draws: 40_000, ..Default::default() },
            joint: JointSettings { chains: 64, steps: 200, exact_draws: 40_000, ..Default::default() },
            calibration: CalibrationSettings { data_sets: 400, ..Default::default() },
        }
    }

    /// About twenty times as much: sees errors of a percent.
    pub fn full() -> Self {
        Self {
            invariance: InvarianceSettings { draws: 1_000_000, ..Default::default() },
            joint: JointSettings { chains: 128, steps: 2_000, exact_draws: 1_000_000, ..Default::default() },
            calibration: CalibrationSettings { data_sets: 4_000, ..Default::default() },
        }
    }
}

/// Where a check stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Which check.
    pub check: &'static str,
    /// Share that is done, from 0 to 1.
    pub done: f64,
}

/// Runs every check on the threads of the current rayon pool; the reports do not depend on their number.
///
/// `progress` is called on the caller's thread.
pub fn check<S: Checkable>(subject: &S, effort: &Effort, seed: u64, progress: &mut dyn FnMut(Progress)) -> Result<Vec<CheckReport>> {
    check_ranked(subject, subject, effort, seed, progress)
}

/// The same with ranks of other test functions. Where components may be exchanged for one another, a chain may keep to one order for
/// thousands of sweeps, which one sweep and the joint distribution do not mind, but ranks among the draws of one posterior do.
pub fn check_ranked<S: Checkable, R: Checkable>(
    subject: &S,
    ranked: &R,
    effort: &Effort,
    seed: u64,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<CheckReport>> {
    // first, because it refuses samplers that forget too slowly to be judged
    let ranks = calibration(ranked, &effort.calibration, seed, progress)?;
    Ok(vec![
        sweep_invariance(subject, &effort.invariance, seed, progress)?,
        joint_distribution(subject, &effort.joint, seed, progress)?,
        ranks,
    ])
}

/// Does `parts` pieces of work in parallel, in order, telling about progress between rounds. The error of the first piece wins.
pub(super) fn in_rounds<T: Send>(
    check: &'static str,
    parts: u64,
    progress: &mut dyn FnMut(Progress),
    work: impl Fn(u64) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    // A fiftieth at a time, but enough pieces to keep every thread busy.
    let round = (parts / 50).max(4 * rayon::current_num_threads() as u64);
    let mut all = Vec::new();
    let mut first = 0;
    while first < parts {
        let end = (first + round).min(parts);
        let results: Vec<Result<T>> = parallel::map(first..end, |_, part| work(part));
        for result in results {
            all.push(result?);
        }
        first = end;
        progress(Progress { check, done: first as f64 / parts as f64 });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn rounds_keep_the_order_and_the_first_error() {
        let mut seen = Vec::new();
        let all = in_rounds("count", 1_000, &mut |p| seen.push(p.done), |i| Ok(i * i)).unwrap();
        assert_eq!(all, (0..1_000).map(|i| i * i).collect::<Vec<_>>());
        assert!(seen.windows(2).all(|w| w[0] < w[1]) && seen.last() == Some(&1.0));
        let failed = in_rounds("count", 1_000, &mut |_| (), |i| if i >= 300 { Err(Error::Unfit(format!("part {i}"))) } else { Ok(()) });
        assert_eq!(failed.unwrap_err().to_string(), "part 300");
        assert!(in_rounds("count", 0, &mut |_| (), |_| Ok(())).unwrap().is_empty());
    }
}
