//! One-step invariance of a single kernel: exact draws in, one step, the same law out.
//!
//! If x ~ π exactly and x' is one step of a kernel that leaves π invariant, then E h(x') = E h(x) for every h. With n independent
//! pairs the mean change of h has a plain standard error, and because x and x' are close to each other the noise common to
//! both cancels: errors far too small for a joint-distribution test stand out. It says nothing of ergodicity: a kernel that
//! never moves is invariant, so each function that never changed is said to be untested.

use serde::{Deserialize, Serialize};

use super::report::{CheckReport, Comparison, two_sided_p, z_score};

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

/// Checks one kernel: `exact` draws a state from the law, `step` moves it once, `functions` appends the values of the test
/// functions called `names` to its second argument. The first error of either closure ends the check.
///
/// The law may be a joint one of parameters and data, the kernel then changes the parameters only: exact draws are
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

/// Running means of test functions before and after, and of their changes.
#[derive(Debug, Clone)]
pub struct PairedChanges {
    count: u64,
    before: Vec<f64>,
    change: Vec<f64>,
    change_squares: Vec<f64>,
}

impl PairedChanges {
    /// For `functions` test functions.
    pub fn new(functions: usize) -> Self {
        let zeros = || vec![0.0; functions];
        Self { count: 0, before: zeros(), change: zeros(), change_squares: zeros() }
    }

    /// Takes in one pair of values of all test functions.
    ///
    /// # Panics
    /// If the number of values is not the one announced.
    pub fn add(&mut self, before: &[f64], after: &[f64]) {
        assert!(before.len() == self.before.len() && after.len() == self.before.len(), "every test function must give one value");
        self.count += 1;
        let n = self.count as f64;
        for i in 0..before.len() {
            // Welford: stable also when the change is small against its mean.
            let change = after[i] - before[i];
            self.before[i] += (before[i] - self.before[i]) / n;
            let away = change - self.change[i];
            self.change[i] += away / n;
            self.change_squares[i] += away * (change - self.change[i]);
        }
    }

    /// The verdict.
    pub fn report(&self, subject: &str, settings: &InvarianceSettings, names: &[impl AsRef<str>]) -> CheckReport {
        let n = self.count as f64;
        let comparisons = names
            .iter()
            .enumerate()
            .map(|(i, name)| {
                let standard_error = (self.change_squares[i] / (n - 1.0) / n).sqrt();
                let z = if self.count < 2 { f64::NAN } else { z_score(self.change[i], standard_error) };
                Comparison {
                    name: name.as_ref().to_string(),
                    expected: self.before[i],
                    observed: self.before[i] + self.change[i],
                    statistic: z,
                    p_value: two_sided_p(z),
                    passed: false,
                    meaning: String::new(),
                }
            })
            .collect();
        let never_changed: Vec<bool> = self.change_squares.iter().map(|s| *s == 0.0).collect();
        let meaning = |c: &Comparison| {
            let index = names.iter().position(|n| n.as_ref() == c.name);
            if c.passed && index.is_some_and(|i| never_changed[i]) {
                return format!("{} never changed: this step does not touch it, so nothing was tested", c.name);
            }
            let (before, after, z) = (c.expected, c.observed, c.statistic);
            let verdict = if c.passed { "unchanged within noise" } else { "changed: the step does not keep the law" };
            format!("{}: mean {before:.6} before, {after:.6} after one step, z = {z:.2}; {verdict}", c.name)
        };
        CheckReport::judge("one-step invariance", subject, self.count, settings.false_alarm_rate, comparisons, meaning)
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
        assert!(wrong.to_string().contains("does not keep the law"), "{wrong}");
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
