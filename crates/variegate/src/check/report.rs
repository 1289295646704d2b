//! What a check hands back: named comparisons with a verdict, as data that a front can print or store.
//!
//! A check makes many comparisons. Each is judged at the level (false-alarm rate) / (number of comparisons), so that a
//! right sampler fails the whole check with at most the stated probability (Bonferroni).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::diagnostics::normal_quantile::normal_quantile;

/// One comparison of a check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The function of parameters and data that is compared.
    pub name: String,
    /// What it should be (a mean over exact draws, a uniform histogram: see the check).
    pub expected: f64,
    /// What it was.
    pub observed: f64,
    /// The test statistic: a z-score, or a chi-square.
    pub statistic: f64,
    /// Probability of a statistic at least as extreme if the sampler is right.
    pub p_value: f64,
    /// Whether the p-value is above the level of a single comparison.
    pub passed: bool,
    /// What this means.
    pub meaning: String,
}

impl Comparison {
    /// Whether the worst of something, which should be 0, is as small as rounding allows.
    pub(crate) fn at_most(name: &str, worst: f64, allowed: f64, claim: &str) -> Self {
        let passed = worst <= allowed;
        let verdict = if passed { "as it must be" } else { "which must not be" };
        Self {
            name: name.to_string(),
            expected: 0.0,
            observed: worst,
            statistic: worst / allowed,
            p_value: f64::from(passed),
            passed,
            meaning: format!("{claim}: at most {worst:.2e} (allowed {allowed:.0e}), {verdict}"),
        }
    }

    /// A comparison that is not judged yet.
    pub(crate) fn open(name: &str, expected: f64, observed: f64, statistic: f64, p_value: f64) -> Self {
        Self { name: name.to_string(), expected, observed, statistic, p_value, passed: false, meaning: String::new() }
    }
}

/// The outcome of one check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckReport {
    /// Which check: "one-step invariance", "joint distribution", "simulation-based calibration".
    pub check: String,
    /// What was checked.
    pub subject: String,
    /// How many independent draws, chain steps or simulated data sets went in.
    pub replicates: u64,
    /// Probability that a right sampler fails this check.
    pub false_alarm_rate: f64,
    /// Whether every comparison passed.
    pub passed: bool,
    /// All comparisons, in the order in which they were named.
    pub comparisons: Vec<Comparison>,
}

impl CheckReport {
    /// Judges `comparisons` (whose `passed` and `meaning` are still open) at the level each may use.
    pub(crate) fn judge(
        check: &str,
        subject: &str,
        replicates: u64,
        false_alarm_rate: f64,
        mut comparisons: Vec<Comparison>,
        meaning: impl Fn(&Comparison) -> String,
    ) -> Self {
        let level = single_level(false_alarm_rate, comparisons.len());
        for comparison in &mut comparisons {
            // A statistic that is not a number compares to nothing and must not pass.
            comparison.passed = comparison.p_value >= level;
            comparison.meaning = meaning(comparison);
        }
        let passed = !comparisons.is_empty() && comparisons.iter().all(|c| c.passed);
        Self { check: check.to_string(), subject: subject.to_string(), replicates, false_alarm_rate, passed, comparisons }
    }

    /// The comparison with the smallest p-value (NaN counts as smallest).
    pub fn worst(&self) -> Option<&Comparison> {
        let rank = |c: &Comparison| if c.p_value.is_nan() { -1.0 } else { c.p_value };
        self.comparisons.iter().min_by(|a, b| rank(a).total_cmp(&rank(b)))
    }

    /// The comparisons that failed.
    pub fn failures(&self) -> impl Iterator<Item = &Comparison> {
        self.comparisons.iter().filter(|c| !c.passed)
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.passed { "passed" } else { "FAILED" };
        writeln!(
            f,
            "{} of {}: {verdict} ({} comparisons, {} replicates, false-alarm rate {:.0e})",
            self.check,
            self.subject,
            self.comparisons.len(),
            self.replicates,
            self.false_alarm_rate
        )?;
        for c in self.failures() {
            writeln!(f, "  {}", c.meaning)?;
        }
        if self.passed
            && let Some(worst) = self.worst()
        {
            writeln!(f, "  largest deviation: {}", worst.meaning)?;
        }
        Ok(())
    }
}

/// The level of each of `comparisons` tests that together raise a false alarm with probability `false_alarm_rate`.
pub fn single_level(false_alarm_rate: f64, comparisons: usize) -> f64 {
    false_alarm_rate / comparisons.max(1) as f64
}

/// The |z| beyond which one of `comparisons` two-sided z-tests fails.
pub fn z_threshold(false_alarm_rate: f64, comparisons: usize) -> f64 {
    -normal_quantile(0.5 * single_level(false_alarm_rate, comparisons))
}

/// A difference in units of its standard error; 0 where nothing differs at all.
pub(crate) fn z_score(difference: f64, standard_error: f64) -> f64 {
    if difference == 0.0 { 0.0 } else { difference / standard_error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::tail::normal_two_sided;

    #[test]
    fn thresholds_share_the_false_alarm_rate() {
        assert!((z_threshold(0.05, 1) - 1.959963984540054).abs() < 1e-12);
        assert!((z_threshold(1e-3, 20) - 4.055626981122).abs() < 1e-9);
        assert!((normal_two_sided(z_threshold(1e-3, 20)) - 5e-5).abs() < 1e-15);
    }

    #[test]
    fn nan_never_passes_and_an_empty_check_has_shown_nothing() {
        let comparison = |p_value: f64| Comparison {
            name: "x".into(),
            expected: 0.0,
            observed: 0.0,
            statistic: f64::NAN,
            p_value,
            passed: true,
            meaning: String::new(),
        };
        let judge = |list: Vec<Comparison>| CheckReport::judge("check", "toy", 1, 0.01, list, |c| c.name.clone());
        assert!(judge(vec![comparison(0.5)]).passed);
        let report = judge(vec![comparison(0.5), comparison(f64::NAN)]);
        assert!(!report.passed && report.worst().unwrap().p_value.is_nan());
        assert!(!judge(vec![]).passed);
        // 0.01 shared by two.
        assert!(judge(vec![comparison(0.006), comparison(0.5)]).passed);
        assert!(!judge(vec![comparison(0.004), comparison(0.5)]).passed);
    }
}
