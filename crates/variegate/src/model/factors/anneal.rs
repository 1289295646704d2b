//! The probability of a new row by annealed importance sampling.
//!
//! A few scans of the row, tempered at first, tell which atoms it uses and how much. From them comes a distribution q of the row's atoms,
//! each on its own: used with some odds, the weight from a gamma distribution. Every run draws atoms from q and takes them along the path
//! q^{1−t} (prior × likelihood)^t, one scan at each t between 0 and 1. The mean of the exponentials of the log weights that it gathers on
//! the way is the probability of the row, whatever q is; because q is already near the posterior, few temperatures do.
//! Along the path an atom is used with other odds, and its weight has another gamma distribution: the scans are those of a fit.

use rand::seq::SliceRandom;
use rand_distr::Distribution;
use std::ops::Range;

use super::likelihood::{Entry, Likelihood, Row, Tempering};
use super::stage::Stage;
use crate::Result;
use crate::data::X;
use crate::dist::Gamma;
use crate::parallel;
use crate::run::{Philox, open01};
use crate::special::{ln_gamma, log1p_exp, sigmoid};

/// Scans of a row that warm up from the prior to the posterior, and those that then tell what it uses.
const WARM: usize = 30;
const HEARD: usize = 12;
/// Runs that begin at the same distribution: others have their own, so that no mode of the row is the only one.
const TOGETHER: usize = 2;
/// What the prior counts for beside them, in scans.
const PRIOR: f64 = 1.0;
/// Log odds of q beyond this are as good as certain, and no path could leave them; those of the prior beyond that change nothing, and are
/// lost among the digits.
const CERTAIN: f64 = 30.0;
const BEYOND: f64 = 60.0;
/// How often a scan asks about an atom at least, and how much more often than the row uses it otherwise.
const RARELY: f64 = 0.1;
const OFTEN: f64 = 10.0;
/// Temperatures are (q/T) to this power, and those of the warm-up to that.
const BEND: i32 = 2;
const WARM_BEND: i32 = 3;
/// Rows that a thread takes at a time.
const ROWS: usize = 8;

/// Streams of random numbers of these scans follow this one; those of runs are below.
const PILOTS: u64 = 1 << 32;

/// Odds of each atom, and shape and rate of its weight where weights are part of the state.
struct Law {
    ln_odds: Vec<f64>,
    weight: Vec<(f64, f64)>,
}

/// a ln b − ln Γ(a): the logarithm of what makes w^{a−1} exp(−bw) a density.
fn ln_scale((a, b): (f64, f64)) -> f64 {
    a * b.ln() - ln_gamma(a)
}

impl Law {
    /// From `self` to `other`: the density that is proportional to self^{1−t} other^t.
    fn between(&self, other: &Self, t: f64) -> Self {
        let mix = |a: f64, b: f64| (1.0 - t) * a + t * b;
        let mut ln_odds: Vec<f64> = self.ln_odds.iter().zip(&other.ln_odds).map(|(&a, &b)| mix(a, b)).collect();
        let weight: Vec<(f64, f64)> = self.weight.iter().zip(&other.weight).map(|(a, b)| (mix(a.0, b.0), mix(a.1, b.1))).collect();
        for (k, law) in weight.iter().enumerate() {
            ln_odds[k] += mix(ln_scale(self.weight[k]), ln_scale(other.weight[k])) - ln_scale(*law);
        }
        Self { ln_odds, weight }
    }

    fn weight_of(&self, k: usize) -> (f64, f64) {
        self.weight.get(k).copied().unwrap_or((1.0, 1.0))
    }
}

/// ln of prior over q, for the atoms that a row uses.
struct Ratio {
    /// Where none is used.
    base: f64,
    /// Of each atom: what its use adds, and what ln w and w add to that.
    use_of: Vec<(f64, f64, f64)>,
}

impl Ratio {
    fn new(prior: &Law, q: &Law) -> Self {
        // ln(1 − p) at log odds l is −ln(1 + eˡ)
        let base = prior.ln_odds.iter().zip(&q.ln_odds).map(|(&p, &q)| log1p_exp(q) - log1p_exp(p)).sum();
        let each = |k: usize| {
            let odds = prior.ln_odds[k] - q.ln_odds[k];
            match (prior.weight.get(k), q.weight.get(k)) {
                (Some(&a), Some(&b)) => (odds + ln_scale(a) - ln_scale(b), a.0 - b.0, b.1 - a.1),
                _ => (odds, 0.0, 0.0),
            }
        };
        Self { base, use_of: (0..prior.ln_odds.len()).map(each).collect() }
    }

    fn at(&self, entries: &[Entry]) -> f64 {
        let one = |&(k, w): &Entry| match self.use_of[k as usize] {
            (odds, 0.0, 0.0) => odds,
            (odds, shape, rate) => odds + shape * w.ln() + rate * w,
        };
        self.base + entries.iter().map(one).sum::<f64>()
    }
}

/// One row of a draw, as the scans see it.
struct Visited<'a, L: Likelihood> {
    likelihood: &'a L,
    view: &'a L::View,
    row: Row<'a>,
}

impl<L: Likelihood> Visited<'_, L> {
    /// One scan at a place of the path, atoms in a fresh order. Which are asked does not depend on which are used.
    fn scan(&self, law: &Law, chance: &[f64], order: &mut Vec<u32>, scratch: &mut L::Scratch, rng: &mut Philox) -> Result<()> {
        order.clear();
        order.extend((0..chance.len() as u32).filter(|&k| chance[k as usize] >= 1.0 || open01(rng) < chance[k as usize]));
        order.shuffle(rng);
        for &k in order.iter() {
            let k = k as usize;
            self.likelihood.update_under(self.view, k, law.ln_odds[k], law.weight_of(k), scratch, rng)?;
        }
        Ok(())
    }

    /// What a few scans tell of the row: where its paths begin. They start at the prior without atoms. The row has been begun.
    fn pilot(&self, prior: &Law, order: &mut Vec<u32>, scratch: &mut L::Scratch, rng: &mut Philox) -> Result<Law> {
        let count = prior.ln_odds.len();
        let chance: Vec<f64> = prior.ln_odds.iter().map(|&l| (OFTEN * sigmoid(l)).max(RARELY)).collect();
        // times used; sums of means of weights, of their squares and of variances
        let mut heard = vec![(0.0, 0.0, 0.0, 0.0); count];
        let mut entries = Vec::new();
        for scan in 1..=WARM {
            let power = (scan as f64 / WARM as f64).powi(WARM_BEND);
            self.likelihood.begin_again(self.view, self.row, &entries, power, scratch);
            self.scan(prior, &chance, order, scratch, rng)?;
            self.likelihood.list(scratch, &mut entries);
        }
        for _ in 0..HEARD {
            self.likelihood.begin_again(self.view, self.row, &entries, 1.0, scratch);
            self.scan(prior, &chance, order, scratch, rng)?;
            self.likelihood.finish(self.view, scratch, rng, &mut entries)?;
            for (place, &(k, _)) in entries.iter().enumerate() {
                let one = &mut heard[k as usize];
                one.0 += 1.0;
                if let Some((a, b)) = self.likelihood.weight_given_counts(self.view, scratch, Some(place), k) {
                    let mean = a / b;
                    (one.1, one.2, one.3) = (one.1 + mean, one.2 + mean * mean, one.3 + mean / b);
                }
            }
        }
        let odds = |(&l, one): (&f64, &(f64, f64, f64, f64))| {
            let (used, not) = (one.0 + PRIOR * sigmoid(l), HEARD as f64 - one.0 + PRIOR * sigmoid(-l));
            (used.max(1e-300).ln() - not.max(1e-300).ln()).clamp(-CERTAIN, CERTAIN)
        };
        let weight = |(k, &(n, mean, square, variance)): (usize, &(f64, f64, f64, f64))| {
            let law = self.likelihood.weight_given_counts(self.view, scratch, None, k as u32).unwrap_or((1.0, 1.0));
            if n == 0.0 {
                return law;
            }
            let mean: f64 = mean / n;
            // within scans and between them
            let variance = variance / n + (square / n - mean * mean).max(0.0);
            let (a, b) = (mean * mean / variance, mean / variance);
            if a.is_finite() && b.is_finite() && a > 0.0 && b > 0.0 { (a, b) } else { law }
        };
        Ok(Law {
            ln_odds: prior.ln_odds.iter().zip(&heard).map(odds).collect(),
            weight: heard.iter().enumerate().take(prior.weight.len()).map(weight).collect(),
        })
    }

    /// Log weights of annealed runs.
    fn runs(&self, stage: &Stage<L>, temperatures: usize, runs: usize, scratch: &mut L::Scratch) -> Result<Vec<f64>> {
        let (source, count) = (self.row.source, stage.count);
        let weight = self.likelihood.weight_prior(&stage.scales, source).map_or(Vec::new(), |law| vec![law; count]);
        let ln_odds = stage.ln_odds[source * count..][..count].iter().map(|l| l.clamp(-BEYOND, BEYOND)).collect();
        let prior = Law { ln_odds, weight };
        let mut order = Vec::new();
        self.likelihood.begin(self.view, self.row, &[], Tempering::NONE, scratch);
        let constant = self.likelihood.ln_constant(self.row);
        let mut weights = Vec::with_capacity(runs);
        for first in (0..runs).step_by(TOGETHER) {
            let q = self.pilot(&prior, &mut order, scratch, &mut stage.rng(PILOTS + first as u64))?;
            let some = first..runs.min(first + TOGETHER);
            self.runs_from(&q, &prior, constant, temperatures, some, stage, &mut order, scratch, &mut weights)?;
        }
        Ok(weights)
    }

    /// Adds the log weights of the runs of these numbers, which begin at `q`.
    fn runs_from(
        &self,
        q: &Law,
        prior: &Law,
        constant: f64,
        temperatures: usize,
        runs: Range<usize>,
        stage: &Stage<L>,
        order: &mut Vec<u32>,
        scratch: &mut L::Scratch,
        weights: &mut Vec<f64>,
    ) -> Result<()> {
        let ratio = Ratio::new(prior, q);
        let chance: Vec<f64> = q.ln_odds.iter().map(|&l| (OFTEN * sigmoid(l)).max(RARELY)).collect();
        let path: Vec<(f64, Law)> =
            (1..=temperatures).map(|at| (at as f64 / temperatures as f64).powi(BEND)).map(|t| (t, q.between(prior, t))).collect();
        let mut entries: Vec<Entry> = Vec::new();
        for run in runs {
            let mut rng = stage.rng(1 + run as u64);
            entries.clear();
            for (k, &l) in q.ln_odds.iter().enumerate() {
                if open01(&mut rng) < sigmoid(l) {
                    let w = match q.weight.get(k) {
                        Some(&(a, b)) => Gamma::new(a, b)?.sample(&mut rng).max(1e-300),
                        None => 0.0,
                    };
                    entries.push((k as u32, w));
                }
            }
            let (mut weight, mut before) = (constant, 0.0);
            for (at, (t, law)) in path.iter().enumerate() {
                self.likelihood.begin_again(self.view, self.row, &entries, *t, scratch);
                weight += (t - before) * (self.likelihood.ln_row(self.view, scratch) + ratio.at(&entries));
                before = *t;
                if at + 1 < path.len() {
                    self.scan(law, &chance, order, scratch, &mut rng)?;
                    self.likelihood.list(scratch, &mut entries);
                }
            }
            weights.push(weight);
        }
        Ok(())
    }
}

impl<L: Likelihood> Stage<L> {
    /// Log weights of annealed runs of each row: the mean of their exponentials is the probability of what was observed of the row.
    pub(super) fn anneal(&self, likelihood: &L, x: X<'_>, sources: &[u32], temperatures: usize, runs: usize) -> Result<Vec<Vec<f64>>> {
        let some = |part: usize, own: &[u32]| -> Result<Vec<Vec<f64>>> {
            let mut scratch = L::Scratch::default();
            likelihood.prepare(&self.view, x, sources, &[], &mut scratch);
            let one = |(i, &source): (usize, &u32)| {
                let row = Row { x, at: part * ROWS + i, source: source as usize, filled: &[] };
                let Some((likelihood, view, values)) = likelihood.observed(&self.view, row) else {
                    return Visited { likelihood, view: &self.view, row }.runs(self, temperatures, runs, &mut scratch);
                };
                if values.is_empty() {
                    return Ok(vec![0.0; runs]);
                }
                let x = X::Dense { rows: 1, cols: values.len(), values: &values };
                let mut own = L::Scratch::default();
                likelihood.prepare(&view, x, &[source], &[], &mut own);
                let row = Row { x, at: 0, ..row };
                Visited { likelihood: &likelihood, view: &view, row }.runs(self, temperatures, runs, &mut own)
            };
            own.iter().enumerate().map(one).collect()
        };
        let parts: Vec<Vec<Vec<f64>>> = parallel::map(sources.chunks(ROWS), some).into_iter().collect::<Result<_>>()?;
        Ok(parts.concat())
    }
}

#[cfg(test)]
mod tests {
    use super::super::counts::{Counts, Scales};
    use super::super::gaussian::{Centre, Gaussian, Hyper, Scales as Precisions};
    use super::*;
    use crate::data::Matrix;

    fn odds(p: f64) -> f64 {
        (p / (1.0 - p)).ln()
    }

    /// The mean of exp(weight) over its exact value is 1, within four standard errors; eight such comparisons have a false alarm in 2000.
    fn unbiased<L: Likelihood>(likelihood: &L, stage: &Stage<L>, x: &[f64], exact: f64, temperatures: usize) {
        let rows = Matrix::dense(1, x.len(), x.to_vec());
        let weights = &stage.anneal(likelihood, rows.view(), &[0], temperatures, 3000).unwrap()[0];
        let ratios: Vec<f64> = weights.iter().map(|w| (w - exact).exp()).collect();
        let n = ratios.len() as f64;
        let mean = ratios.iter().sum::<f64>() / n;
        let error = (ratios.iter().map(|r| (r - mean) * (r - mean)).sum::<f64>() / n / n).sqrt();
        assert!((mean - 1.0).abs() < 4.0 * error && error < 0.05, "{x:?}, {temperatures} temperatures: {mean} ± {error}");
    }

    #[test]
    fn annealed_runs_of_counts_are_unbiased() {
        let scales = Scales { shape: 1.0, atom: 1.0, weight: vec![0.8; 2], background: vec![0.2; 2] };
        let likelihood = Counts { weight_shape: 1.2, ..Counts::of_three_columns() };
        let view = likelihood.view(&[1.0, 0.2, 2.0, 0.1, 1.5, 0.3], 2, &scales);
        let ln_odds = vec![odds(0.6), odds(0.3), odds(0.6), odds(0.3)];
        for number in [1, 2] {
            let stage = Stage::<Counts> {
                view: view.clone(),
                scales: scales.clone(),
                ln_odds: ln_odds.clone(),
                ln_own: Vec::new(),
                count: 2,
                number,
            };
            for temperatures in [3, 10] {
                unbiased(&likelihood, &stage, &[3.0, 0.0, 5.0], -5.828103891, temperatures);
                unbiased(&likelihood, &stage, &[20.0, 3.0, 41.0], -19.675163375, temperatures);
            }
        }
    }

    fn gaussian(missing: bool) -> (Gaussian, Stage<Gaussian>) {
        let scales = Precisions { atom: 1.0, weight: vec![1.0 / 1.5; 2], noise: vec![2.0; 2] };
        let centre = Centre { columns: 3, means: vec![0.0; 6], scale: 1.0, missing };
        let likelihood = Gaussian { centre, hyper: Hyper { shape: 1.0, rate: 1.0, fixed: None } };
        let view = likelihood.view(&[1.0, 0.5, -1.0, 0.3, -2.0, 0.4], 2, &scales);
        let ln_odds = vec![odds(0.6), odds(0.3), odds(0.6), odds(0.3)];
        (likelihood, Stage { view, scales, ln_odds, ln_own: Vec::new(), count: 2, number: 3 })
    }

    #[test]
    fn annealed_runs_of_real_numbers_are_unbiased() {
        let (likelihood, stage) = gaussian(false);
        for temperatures in [2, 10] {
            unbiased(&likelihood, &stage, &[1.2, -0.7, -1.0], -4.544249498, temperatures);
        }
    }

    /// Of a row with a missing entry it is the density of the others: summed over the uses of two atoms, two entries have a Gaussian
    /// distribution of covariance I/2 + 1.5 Σ φφᵀ.
    #[test]
    fn missing_entries_are_left_out_of_the_density() {
        let (likelihood, stage) = gaussian(true);
        let (a, b) = ([1.0, -1.0], [0.3, 0.4]);
        let (x, y) = (1.2, -1.0);
        let density = |za: f64, zb: f64| {
            let c = |i: usize, j: usize| f64::from(u8::from(i == j)) * 0.5 + 1.5 * (za * a[i] * a[j] + zb * b[i] * b[j]);
            let (p, q, r) = (c(0, 0), c(0, 1), c(1, 1));
            let det = p * r - q * q;
            (-0.5 * (r * x * x - 2.0 * q * x * y + p * y * y) / det).exp() / (std::f64::consts::TAU * det.sqrt())
        };
        let exact =
            0.4 * 0.7 * density(0.0, 0.0) + 0.6 * 0.7 * density(1.0, 0.0) + 0.4 * 0.3 * density(0.0, 1.0) + 0.18 * density(1.0, 1.0);
        unbiased(&likelihood, &stage, &[x, f64::NAN, y], exact.ln(), 4);
        let nothing = Matrix::dense(1, 3, vec![f64::NAN; 3]);
        assert_eq!(stage.anneal(&likelihood, nothing.view(), &[0], 4, 2).unwrap(), [[0.0, 0.0]]);
    }
}
