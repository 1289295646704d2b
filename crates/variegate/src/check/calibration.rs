//! Simulation-based calibration (Talts et al., 2018): the truth must be ranked uniformly among posterior draws.
//!
//! Unknowns θ* from the prior, data given them, L nearly independent draws from the posterior: for every test function f the rank of
//! f(θ*) among the f(θ_l) is uniform on 0 … L. Over many data sets the histogram of ranks is tested by chi-square. Unlike
//! the one-step and the joint test it runs the program as a user does, from its own start through its warm-up.
//!
//! Draws are thinned by the autocorrelation that a few pilot data sets show: correlated draws would push ranks to both ends
//! and fail a right sampler. Ties are broken at random. The same test serves an approximation (variational, Laplace) through
//! [`rank_uniformity`]: it then shows how far from calibrated the approximation is.

use serde::{Deserialize, Serialize};

use super::report::{CheckReport, Comparison};
use super::subject::{Checkable, Role, advance, evaluate, exact, rng, with_blocks};
use super::suite::{Progress, in_rounds};
use super::tail::{chi_square_upper, normal_two_sided};
use crate::diagnostics::ess_mean;
use crate::run::{Program, Purpose, Stream, Threads, open01};
use crate::{Error, Result};

/// How much evidence to gather.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CalibrationSettings {
    /// Simulated data sets.
    pub data_sets: u64,
    /// Posterior draws L of each; L + 1 must be a multiple of `bins`.
    pub draws: u64,
    /// Bins of the histogram of ranks.
    pub bins: u64,
    /// Sweeps before the first draw.
    pub warm_up: u64,
    /// Most sweeps between two draws; a sampler that needs more is reported, not judged.
    pub max_thin: u64,
    /// Probability that a right sampler fails the whole check.
    pub false_alarm_rate: f64,
}

impl Default for CalibrationSettings {
    fn default() -> Self {
        Self { data_sets: 1_000, draws: 63, bins: 16, warm_up: 100, max_thin: 50, false_alarm_rate: 1e-3 }
    }
}

impl CalibrationSettings {
    fn validate(&self) -> Result<()> {
        if self.bins < 2 || !self.draws.saturating_add(1).is_multiple_of(self.bins) {
            let allowed = format!("at least 2 and a divisor of draws + 1 = {}", self.draws.saturating_add(1));
            return Err(Error::setting("bins", self.bins, allowed));
        }
        if self.data_sets / 5 < self.bins {
            let allowed = format!("at least 5 times bins = {}, for the chi-square test to hold", self.bins.saturating_mul(5));
            return Err(Error::setting("data_sets", self.data_sets, allowed));
        }
        if self.max_thin == 0 {
            return Err(Error::setting("max_thin", 0, "at least 1"));
        }
        Ok(())
    }
}

const CHECK: &str = "simulation-based calibration";
// Keep the random numbers of pilots and of the test apart from each other and from those of other checks.
const PILOT: u32 = 3;
const TEST: u32 = 4;
const PILOTS: u64 = 8;

/// Runs the test.
pub fn calibration<S: Checkable>(
    subject: &S,
    settings: &CalibrationSettings,
    seed: u64,
    progress: &mut dyn FnMut(Progress),
) -> Result<CheckReport> {
    settings.validate()?;
    let names = subject.names();
    let thin = thinning(subject, settings, seed)?;
    let ranks = in_rounds(CHECK, settings.data_sets, progress, |index| {
        let (truth, values) = posterior(subject, seed, TEST, index, settings.warm_up, settings.draws, thin)?;
        let mut ties = rng(seed, TEST, index, Role::Ties);
        Ok((0..names.len()).map(|i| rank(truth[i], values.iter().map(|v| v[i]), &mut ties)).collect::<Vec<u64>>())
    })?;
    rank_uniformity(&subject.title(), settings, &names, &ranks)
}

/// Test functions at the truth and at the draws of one simulated data set.
fn posterior<S: Checkable>(
    subject: &S,
    seed: u64,
    group: u32,
    index: u64,
    warm_up: u64,
    draws: u64,
    thin: u64,
) -> Result<(Vec<f64>, Vec<Vec<f64>>)> {
    let width = subject.names().len();
    let (unknowns, data) = exact(subject, seed, group, index)?;
    let mut truth = Vec::new();
    evaluate(subject, &unknowns, &data, width, &mut truth)?;
    with_blocks(subject, &data, |program, blocks, shape| {
        let seed = rand::Rng::next_u64(&mut rng(seed, group, index, Role::Chain));
        let mut rows = Threads::new(program, blocks, shape, seed, group, None);
        rows.begin(0);
        let mut global = program.start(&mut rows, Stream::new(seed, group, Purpose::Start))?;
        let mut values = Vec::new();
        for sweep in 1..=warm_up + draws * thin {
            advance(program, &mut global, &mut rows, seed, group, sweep, sweep <= warm_up)?;
            if sweep > warm_up && (sweep - warm_up).is_multiple_of(thin) {
                let mut row = Vec::new();
                evaluate(subject, &subject.recover(&global, rows.locals())?, &data, width, &mut row)?;
                values.push(row);
            }
        }
        Ok((truth, values))
    })
}

/// Sweeps between draws that make them nearly independent: the longest autocorrelation time in the pilots.
fn thinning<S: Checkable>(subject: &S, settings: &CalibrationSettings, seed: u64) -> Result<u64> {
    let length = 20 * settings.max_thin.clamp(25, 200);
    let times = in_rounds(CHECK, PILOTS, &mut |_| (), |index| {
        let (_, values) = posterior(subject, seed, PILOT, index, settings.warm_up, length, 1)?;
        let width = values.first().map_or(0, Vec::len);
        let time = |i: usize| {
            let chain: Vec<f64> = values.iter().map(|v| v[i]).collect();
            length as f64 / ess_mean(&[chain])
        };
        // A function of the data alone is constant here and has time 1; NaN drops out of the maximum.
        Ok((0..width).map(time).fold(1.0, f64::max))
    })?;
    let longest = times.into_iter().fold(1.0, f64::max);
    // Twice the time leaves an autocorrelation of a percent or two between draws.
    let thin = if longest < 1.1 { 1 } else { (2.0 * longest).ceil() as u64 };
    if thin > settings.max_thin {
        return Err(Error::Unfit(format!(
            "simulation-based calibration of {} needs one draw in {thin} sweeps, but at most {} are allowed: raise `max_thin`, or \
             choose stronger priors or fewer components, under which the sampler forgets faster",
            subject.title(),
            settings.max_thin
        )));
    }
    Ok(thin)
}

/// How many draws lie below the truth; those equal to it are divided at random.
pub fn rank(truth: f64, draws: impl Iterator<Item = f64>, rng: &mut impl rand::Rng) -> u64 {
    let (mut below, mut equal) = (0, 0u64);
    for draw in draws {
        if draw < truth {
            below += 1;
        } else if draw == truth {
            equal += 1;
        }
    }
    below + ((equal + 1) as f64 * open01(rng)) as u64
}

/// Judges ranks that were found elsewhere: one list of ranks (0 … `settings.draws`) a data set, one rank a name.
pub fn rank_uniformity(
    subject: &str,
    settings: &CalibrationSettings,
    names: &[impl AsRef<str>],
    ranks: &[Vec<u64>],
) -> Result<CheckReport> {
    settings.validate()?;
    if let Some(odd) = ranks.iter().position(|r| r.len() != names.len()) {
        return Err(Error::Unfit(format!("data set {odd} has {} ranks for {} names", ranks[odd].len(), names.len())));
    }
    let per_bin = (settings.draws + 1) / settings.bins;
    let n = ranks.len() as f64;
    let expected = n / settings.bins as f64;
    let comparisons: Vec<Comparison> = names
        .iter()
        .enumerate()
        .map(|(i, name)| {
            let mut counts = vec![0.0; settings.bins as usize];
            ranks.iter().for_each(|r| counts[(r[i].min(settings.draws) / per_bin) as usize] += 1.0);
            let statistic = counts.iter().map(|c: &f64| (c - expected) * (c - expected) / expected).sum::<f64>();
            let mean = ranks.iter().map(|r| r[i] as f64).sum::<f64>() / n;
            let p = chi_square_upper(statistic, settings.bins as f64 - 1.0);
            Comparison::open(name.as_ref(), 0.5 * settings.draws as f64, mean, statistic, p)
        })
        .collect();
    let meaning = |c: &Comparison| {
        let at = names.iter().position(|n| n.as_ref() == c.name).unwrap_or(0);
        let shape = if c.passed { "uniform within noise".into() } else { format!("not uniform: {}", shape(settings, ranks, at)) };
        let (mean, middle, x) = (c.observed, c.expected, c.statistic);
        format!("{}: mean rank {mean:.2} of {middle:.1} expected, chi-square {x:.1} over {} bins; {shape}", c.name, settings.bins)
    };
    Ok(CheckReport::judge(CHECK, subject, ranks.len() as u64, settings.false_alarm_rate, comparisons, meaning))
}

/// What the histogram looks like, in words.
fn shape(settings: &CalibrationSettings, ranks: &[Vec<u64>], at: usize) -> &'static str {
    // u is uniform on (0, 1): mean 1/2, variance 1/12, and (u − 1/2)² has mean 1/12, variance 1/180.
    let n = ranks.len() as f64;
    let centred: Vec<f64> = ranks.iter().map(|r| (r[at] as f64 + 0.5) / (settings.draws + 1) as f64 - 0.5).collect();
    let location = centred.iter().sum::<f64>() / (n / 12.0).sqrt();
    let spread = centred.iter().map(|u| u * u - 1.0 / 12.0).sum::<f64>() / (n / 180.0).sqrt();
    let clear = |z: f64| normal_two_sided(z) < 1e-3;
    if clear(location) && location.abs() > spread.abs() {
        if location > 0.0 { "the draws lie too low" } else { "the draws lie too high" }
    } else if clear(spread) {
        if spread > 0.0 { "the draws spread too little (or are correlated)" } else { "the draws spread too much" }
    } else {
        "neither location nor spread alone explains it"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks_from(f: impl Fn(f64) -> f64) -> CheckReport {
        let settings = CalibrationSettings { draws: 31, bins: 8, ..Default::default() };
        let mut rng = rng(5, TEST, 0, Role::Ties);
        let ranks: Vec<Vec<u64>> = (0..2_000).map(|_| vec![(32.0 * f(open01(&mut rng))) as u64]).collect();
        rank_uniformity("made up", &settings, &["u"], &ranks).unwrap()
    }

    #[test]
    fn shapes_are_told_apart() {
        assert!(ranks_from(|u| u).passed);
        for (f, words) in [
            ((|u| u * u) as fn(f64) -> f64, "too high"),
            (|u| u.sqrt(), "too low"),
            (|u| 0.5 + 0.4 * (u - 0.5), "too much"),
            (|u| if u < 0.5 { u * u * 2.0 } else { 1.0 - 2.0 * (1.0 - u) * (1.0 - u) }, "too little"),
        ] {
            let report = ranks_from(f);
            assert!(!report.passed && report.to_string().contains(words), "{report}");
        }
    }

    #[test]
    fn ties_are_divided_evenly() {
        let mut rng = rng(6, TEST, 0, Role::Ties);
        let mut counts = [0.0f64; 5];
        for _ in 0..10_000 {
            counts[rank(1.0, [0.0, 1.0, 1.0, 1.0, 2.0].into_iter(), &mut rng) as usize] += 1.0;
        }
        assert_eq!(counts[0], 0.0);
        // Binomial(10⁴, 1/4), 4.5 standard deviations.
        assert!(counts[1..].iter().all(|c| (c - 2_500.0).abs() < 4.5 * 43.3), "{counts:?}");
    }

    #[test]
    fn impossible_settings_are_refused() {
        let fine = CalibrationSettings::default();
        assert!(fine.validate().is_ok());
        for bad in [
            CalibrationSettings { bins: 5, ..fine.clone() },
            CalibrationSettings { bins: 0, ..fine.clone() },
            CalibrationSettings { data_sets: 10, ..fine.clone() },
            CalibrationSettings { max_thin: 0, ..fine.clone() },
        ] {
            assert!(bad.validate().is_err(), "{bad:?}");
        }
        assert!(rank_uniformity("ragged", &fine, &["a", "b"], &[vec![1, 2], vec![1]]).is_err());
    }
}
