//! The joint-distribution test (Geweke, 2004): two ways to the same distribution p(unknowns, data).
//!
//! Directly: unknowns from the prior, data given them. By a chain: data given the unknowns, one sweep of the sampler given these
//! data, new data, and so on. If every sweep leaves the posterior invariant, the chain keeps to the joint distribution, and every test
//! function has the same mean both ways.
//!
//! The protocol is the simplest exact one: redraw the data, build the program over them, install the unknowns, sweep once. Many
//! independent chains start from the prior, which is their stationary distribution, so that there is nothing to burn in; their means are
//! independent, and their spread gives the standard error without any estimate of autocorrelation (Welch's t). Small errors of
//! a sweep add up along a chain until the data pull back: this test sees what one step is too short for, but is noisier.

use serde::{Deserialize, Serialize};

use super::generative::Generative;
use super::moments::Moments;
use super::report::{CheckReport, Comparison, z_score};
use super::subject::{Checkable, Role, evaluate, exact, one_sweep, rng};
use super::suite::{Progress, in_rounds};
use super::tail::student_two_sided;
use crate::Result;

/// How much evidence to gather.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JointSettings {
    /// Independent chains. At least a few dozen: their number is that of independent observations.
    pub chains: u32,
    /// Sweeps of each chain; long against the time in which the chain forgets.
    pub steps: u64,
    /// Direct draws to compare with. They are cheap, so take many.
    pub exact_draws: u64,
    /// Probability that a right sampler fails the whole check.
    pub false_alarm_rate: f64,
}

impl Default for JointSettings {
    fn default() -> Self {
        Self { chains: 100, steps: 200, exact_draws: 100_000, false_alarm_rate: 1e-3 }
    }
}

// Keep the random numbers of direct draws and of chains apart from each other and from those of other checks.
const DIRECT: u32 = 2;
const CHAINS: u32 = 1 << 24;

/// Runs the test.
pub fn joint_distribution<S: Checkable>(
    subject: &S,
    settings: &JointSettings,
    seed: u64,
    progress: &mut dyn FnMut(Progress),
) -> Result<CheckReport> {
    const CHECK: &str = "joint distribution";
    let names = subject.names();
    let width = names.len();

    const TOGETHER: u64 = 256;
    let direct = in_rounds(CHECK, settings.exact_draws.div_ceil(TOGETHER), &mut |_| (), |part| {
        let mut moments = Moments::new(width);
        let mut values = Vec::new();
        for index in part * TOGETHER..((part + 1) * TOGETHER).min(settings.exact_draws) {
            let (unknowns, data) = exact(subject, seed, DIRECT, index)?;
            evaluate(subject, &unknowns, &data, width, &mut values)?;
            moments.add(&values);
        }
        Ok(moments)
    })?;
    let direct = direct.iter().fold(Moments::new(width), |mut all, part| {
        all.merge(part);
        all
    });

    let means = in_rounds(CHECK, settings.chains.into(), progress, |chain| {
        let group = CHAINS + chain as u32;
        let mut moments = Moments::new(width);
        let mut values = Vec::new();
        let mut unknowns = subject.model().prior(&mut rng(seed, group, 0, Role::Prior))?;
        for step in 0..settings.steps {
            let data = subject.tiny_data(&unknowns, &mut rng(seed, group, step, Role::Data))?;
            unknowns = one_sweep(subject, unknowns, &data, seed, group, step)?;
            evaluate(subject, &unknowns, &data, width, &mut values)?;
            moments.add(&values);
        }
        Ok(moments.mean)
    })?;
    let mut between = Moments::new(width);
    if settings.steps > 0 {
        means.iter().for_each(|mean| between.add(mean));
    }

    let comparisons = names.iter().enumerate().map(|(i, name)| compare(name, &direct, &between, i)).collect();
    let meaning = |c: &Comparison| {
        let (expected, observed, t) = (c.expected, c.observed, c.statistic);
        let verdict =
            if c.passed { "the same within noise" } else { "not the same distribution: the sampler, the simulator or the prior is wrong" };
        format!("{}: mean {expected:.6} directly, {observed:.6} along the chains, t = {t:.2}; {verdict}", c.name)
    };
    let sweeps = u64::from(settings.chains) * settings.steps;
    Ok(CheckReport::judge(CHECK, &subject.title(), sweeps, settings.false_alarm_rate, comparisons, meaning))
}

/// Welch's t-test of direct draws against chain means.
fn compare(name: &str, direct: &Moments, chains: &Moments, i: usize) -> Comparison {
    let (a, b) = (direct.error_squared(i), chains.error_squared(i));
    let difference = chains.mean[i] - direct.mean[i];
    let t = if (a + b).is_nan() { f64::NAN } else { z_score(difference, (a + b).sqrt()) };
    let p = if t == 0.0 {
        1.0
    } else {
        let dof = (a + b) * (a + b) / (a * a / (direct.count as f64 - 1.0) + b * b / (chains.count as f64 - 1.0));
        // No spread at all, but a difference: certain.
        if dof.is_nan() && t.is_infinite() { 0.0 } else { student_two_sided(t, dof) }
    };
    Comparison::open(name, direct.mean[i], chains.mean[i], t, p)
}
