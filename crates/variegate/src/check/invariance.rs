//! One-step invariance of a single kernel: exact draws in, one step, the same distribution out.
//!
//! If x ~ π exactly and x' is one step of a kernel that leaves π invariant, then E h(x') = E h(x) for every h. With n independent
//! pairs the mean change of h has a plain standard error, and because x and x' are close to each other the noise common to
//! both cancels: errors far too small for a joint-distribution test stand out. It says nothing of ergodicity: a kernel that
//! never moves is invariant, so each function that never changed is said to be untested.

use serde::{Deserialize, Serialize};

use super::moments::Moments;
use super::report::{CheckReport, Comparison, z_score};
use super::subject::{Checkable, evaluate, exact, one_sweep};
use super::suite::{Progress, in_rounds};
use super::tail::normal_two_sided;
use crate::Result;

/// How much evidence to gather.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InvarianceSettings {
    /// Number of independent exact draws, each followed by one step.
    pub draws: u64,
    /// Probability that a right kernel fails the whole check.
    pub false_alarm_rate: f64,
}

impl Default for InvarianceSettings {
    fn default() -> Self {
        Self { draws: 100_000, false_alarm_rate: 1e-3 }
    }
}

/// Checks one kernel: `exact` draws a state from the distribution, `step` moves it once, `functions` appends the values of the test
/// functions called `names` to its second argument. The first error of either closure ends the check.
///
/// The distribution may be a joint one of parameters and data, the kernel then changes the parameters only: exact draws are
/// always at hand (parameters from the prior, data given them).
///
/// # Panics
/// If `functions` gives a number of values other than that of `names`.
pub fn one_step_invariance<S, R: ?Sized, E>(
    subject: &str,
    settings: &InvarianceSettings,
    names: &[&str],
    functions: impl Fn(&S, &mut Vec<f64>),
    rng: &mut R,
    mut exact: impl FnMut(&mut R) -> Result<S, E>,
    mut step: impl FnMut(S, &mut R) -> Result<S, E>,
) -> Result<CheckReport, E> {
    let mut changes = PairedChanges::new(names.len());
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for _ in 0..settings.draws {
        let state = exact(rng)?;
        before.clear();
        functions(&state, &mut before);
        let state = step(state, rng)?;
        after.clear();
        functions(&state, &mut after);
        changes.add(&before, &after);
    }
    Ok(changes.report(subject, settings, names))
}

/// The same question of one sweep of a program: unknowns from the prior, data given them, one sweep.
pub fn sweep_invariance<S: Checkable>(
    subject: &S,
    settings: &InvarianceSettings,
    seed: u64,
    progress: &mut dyn FnMut(Progress),
) -> Result<CheckReport> {
    let names = subject.names();
    let mut changes = PairedChanges::new(names.len());
    // Blocks of draws are the unit of work; they are merged in order, whoever did them.
    const TOGETHER: u64 = 256;
    let parts = settings.draws.div_ceil(TOGETHER);
    in_rounds("one-step invariance", parts, progress, |part| {
        let mut changes = PairedChanges::new(names.len());
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for index in part * TOGETHER..((part + 1) * TOGETHER).min(settings.draws) {
            let (unknowns, data) = exact(subject, seed, GROUP, index)?;
            evaluate(subject, &unknowns, &data, names.len(), &mut before)?;
            let unknowns = one_sweep(subject, unknowns, &data, seed, GROUP, index)?;
            evaluate(subject, &unknowns, &data, names.len(), &mut after)?;
            changes.add(&before, &after);
        }
        Ok(changes)
    })?
    .iter()
    .for_each(|part| changes.merge(part));
    Ok(changes.report(&subject.title(), settings, &names))
}

/// Keeps the random numbers of this check apart from those of others.
const GROUP: u32 = 1;

/// Means of test functions before, and of their changes.
#[derive(Debug, Clone)]
pub struct PairedChanges {
    before: Moments,
    change: Moments,
}

impl PairedChanges {
    /// For `functions` test functions.
    pub fn new(functions: usize) -> Self {
        Self { before: Moments::new(functions), change: Moments::new(functions) }
    }

    /// Takes in one pair of values of all test functions.
    ///
    /// # Panics
    /// If the number of values is not the one announced.
    pub fn add(&mut self, before: &[f64], after: &[f64]) {
        let width = self.before.mean.len();
        assert!(before.len() == width && after.len() == width, "every test function must give one value");
        self.before.add(before);
        let change: Vec<f64> = after.iter().zip(before).map(|(a, b)| a - b).collect();
        self.change.add(&change);
    }

    /// Takes in pairs that were gathered elsewhere.
    pub fn merge(&mut self, right: &Self) {
        self.before.merge(&right.before);
        self.change.merge(&right.change);
    }

    /// The verdict.
    pub fn report(&self, subject: &str, settings: &InvarianceSettings, names: &[impl AsRef<str>]) -> CheckReport {
        let comparisons = names
            .iter()
            .enumerate()
            .map(|(i, name)| {
                let change = self.change.mean[i];
                let error = self.change.error_squared(i).sqrt();
                let z = if error.is_nan() { f64::NAN } else { z_score(change, error) };
                Comparison::open(name.as_ref(), self.before.mean[i], self.before.mean[i] + change, z, normal_two_sided(z))
            })
            .collect();
        let never_changed: Vec<bool> = (0..names.len()).map(|i| self.change.variance(i) == 0.0).collect();
        let meaning = |c: &Comparison| {
            let index = names.iter().position(|n| n.as_ref() == c.name);
            if c.passed && index.is_some_and(|i| never_changed[i]) {
                return format!("{} never changed: this step does not touch it, so nothing was tested", c.name);
            }
            let (before, after, z) = (c.expected, c.observed, c.statistic);
            let verdict = if c.passed { "unchanged within noise" } else { "changed: the step does not keep the distribution" };
            format!("{}: mean {before:.6} before, {after:.6} after one step, z = {z:.2}; {verdict}", c.name)
        };
        CheckReport::judge("one-step invariance", subject, self.change.count, settings.false_alarm_rate, comparisons, meaning)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};
    use rand_distr::StandardNormal;
    use std::convert::Infallible;

    /// Metropolis on N(0, 1) with a log-density that is `factor` times the right one.
    fn metropolis(factor: f64, draws: u64) -> CheckReport {
        let mut rng = SmallRng::seed_from_u64(8);
        one_step_invariance(
            "metropolis",
            &InvarianceSettings { draws, false_alarm_rate: 1e-3 },
            &["x", "x²", "constant"],
            |x: &f64, out| out.extend([*x, x * x, 1.0]),
            &mut rng,
            |rng| Ok::<f64, Infallible>(rng.sample(StandardNormal)),
            |x, rng| {
                let proposal = x + 2.0 * rng.sample::<f64, _>(StandardNormal);
                let accept = (0.5 * factor * (x * x - proposal * proposal)).exp();
                Ok(if rng.random::<f64>() < accept { proposal } else { x })
            },
        )
        .unwrap()
    }

    #[test]
    fn a_right_kernel_passes_and_a_wrong_one_does_not() {
        let right = metropolis(1.0, 100_000);
        assert!(right.passed, "{right}");
        assert!(right.comparisons[2].meaning.contains("nothing was tested"), "{right}");
        let wrong = metropolis(1.05, 100_000);
        assert!(!wrong.passed);
        let failed: Vec<_> = wrong.failures().map(|c| c.name.as_str()).collect();
        assert_eq!(failed, ["x²"]);
        assert!(wrong.to_string().contains("does not keep the distribution"), "{wrong}");
    }

    #[test]
    fn too_few_draws_show_nothing() {
        assert!(!metropolis(1.0, 0).passed);
        assert!(!metropolis(1.0, 1).passed);
    }

    #[test]
    fn a_failing_kernel_ends_the_check() {
        let result = one_step_invariance(
            "none",
            &InvarianceSettings::default(),
            &["x"],
            |x: &f64, out| out.push(*x),
            &mut (),
            |_| Ok(0.0),
            |_, _| Err("no step"),
        );
        assert_eq!(result, Err("no step"));
    }
}
