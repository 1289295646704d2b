//! Averages over posterior draws: class probabilities of rows with their deviations and intervals, and log likelihoods.
//!
//! A family whose draws are weights that rows are multiplied with says how probabilities follow from the scores of a row
//! ([`ClassDraws`]); all else is here. A panel of rows is multiplied with the weights of many draws at once, panels go to threads, and
//! numbers of a row are added up in an order that is its own: the same bits in any company and on any number of threads.
//!
//! Where the number of draws is left open ([`PredictDraws::Enough`]) they are taken in rounds, each evenly spaced between those before, and a row
//! is done when the Monte Carlo standard error of each of its probabilities is below [`TARGET_ERROR`]. The error is estimated from the
//! means of [`BATCHES`] stretches of the chains (batch means), so that it counts what draws have in common with their neighbours, and
//! chains that disagree. The estimate itself is off by an eighth or so, which the margin to 0.005 makes up for.

use std::borrow::Cow;

use super::panels::with_panel;
use super::{ClassProbabilities, Interval, PREDICT_PANEL, Predict, PredictDraws};
use crate::data::design::PanelScratch;
use crate::data::{Dataset, Design, X};
use crate::diagnostics::sorted_quantile;
use crate::parallel::{self, Pool};
use crate::{Error, Result};

/// The error at which a row is done.
pub(crate) const TARGET_ERROR: f64 = 0.004;
/// Stretches of the chains whose means are compared.
const BATCHES: usize = 32;
/// Scores of a row that are worked on together: more would not stay in cache.
const TOGETHER: usize = 1024;
/// Numbers that are held for the rows of one go.
const HELD: usize = 1 << 23;

/// Posterior draws of weights, which rows are multiplied with.
pub trait DrawScores: Sync {
    /// From raw rows to those that weights are for.
    fn design(&self) -> &Design;
    /// Number of draws.
    fn draws(&self) -> usize;
    /// Scores of a row under one draw: number of its weight vectors.
    fn scores(&self) -> usize;
    /// Weight vectors of some draws, one after the other.
    fn weights(&self, draws: &[usize]) -> Cow<'_, [f64]>;
}

/// Some draws of vectors that lie one draw a row; those that lie together are not copied.
pub fn chosen<'a>(all: &'a [f64], width: usize, draws: &[usize]) -> Cow<'a, [f64]> {
    match (draws.first(), draws.last()) {
        (Some(first), Some(last)) if last - first + 1 == draws.len() => Cow::Borrowed(&all[first * width..(last + 1) * width]),
        _ => Cow::Owned(draws.iter().flat_map(|d| &all[d * width..(d + 1) * width]).copied().collect()),
    }
}

/// Draws under which a row has class probabilities.
pub trait ClassDraws: DrawScores {
    /// Room to work in.
    type Work: Default + Send;
    /// Number of classes.
    fn classes(&self) -> usize;
    /// Class probabilities under some draws (one draw a line of `out`) from the scores of a row under each of them, which may be
    /// used up. What a draw gives may not depend on those beside it.
    fn probabilities(&self, scores: &mut [f64], out: &mut [f64], work: &mut Self::Work);
    /// Log likelihood of a class under some draws, likewise.
    fn ln_likelihoods(&self, scores: &mut [f64], class: u32, out: &mut [f64], work: &mut Self::Work);
}

/// Scores of the rows of a panel under some draws.
pub(crate) struct Scored<'a> {
    /// First row of the panel.
    pub(crate) first: usize,
    /// Number of its rows.
    pub(crate) count: usize,
    /// The draws.
    pub(crate) draws: &'a [usize],
    values: &'a mut [f64],
}

impl Scored<'_> {
    /// Scores of a row of the panel, draw after draw.
    pub(crate) fn row(&mut self, i: usize) -> &mut [f64] {
        let width = self.values.len() / PREDICT_PANEL;
        &mut self.values[i * width..(i + 1) * width]
    }
}

/// Draws whose scores are worked on together.
fn together(scores: usize) -> usize {
    // whole groups of lanes where there are many
    match TOGETHER / scores.max(1) {
        few @ 0..=15 => few.max(1),
        many => many / 16 * 16,
    }
}

/// Panels whose states, of so many numbers a row, are held at a time.
pub(crate) fn panels_at_once(numbers: usize) -> usize {
    (HELD / (PREDICT_PANEL * numbers.max(1))).max(rayon::current_num_threads())
}

/// Takes a state for each panel of a run of rows that begins at row `from` through `f`, for all draws given: panels in parallel, draws
/// in order. Panels whose state is not `open` are left alone.
pub(crate) fn for_scores<D: DrawScores, T: Send, W: Default + Send>(
    of: &D,
    (x, from): (X<'_>, usize),
    draws: &[usize],
    states: &mut [T],
    open: impl Fn(&T) -> bool + Sync,
    f: impl Fn(&mut T, Scored<'_>, &mut W) + Sync,
) {
    let scores = of.scores();
    for draws in draws.chunks(together(scores)) {
        let k = draws.len() * scores;
        let weights = of.weights(draws);
        let (new, pool) = (|| (PanelScratch::default(), vec![0.0; PREDICT_PANEL * k], W::default()), Pool::default());
        parallel::map(states.iter_mut().enumerate().filter(|(_, state)| open(state)), |_, (at, state)| {
            pool.lend(new, |(scratch, products, work)| {
                with_panel(x, from + at * PREDICT_PANEL, &mut |first, count, x| {
                    of.design().panel(x, scratch).mul_t(&weights, k, products);
                    f(state, Scored { first, count, draws, values: products }, work);
                });
            });
        });
    }
}

/// Sums over the draws that rows have seen.
struct Sums {
    /// Whether each row needs more.
    open: Vec<bool>,
    /// Number of draws of each row.
    seen: Vec<f64>,
    /// Probabilities, a batch and class.
    sums: Vec<f64>,
    /// Their squares, a class.
    squares: Vec<f64>,
}

impl Sums {
    fn new(rows: usize, batches: usize, classes: usize) -> Self {
        let sums = vec![0.0; rows * batches * classes];
        Self { open: vec![true; rows], seen: vec![0.0; rows], sums, squares: vec![0.0; rows * classes] }
    }

    /// Sum of a row over all batches, of each class.
    fn total(sums: &[f64], classes: usize) -> Vec<f64> {
        let mut total = vec![0.0; classes];
        sums.chunks_exact(classes).for_each(|batch| total.iter_mut().zip(batch).for_each(|(t, s)| *t += s));
        total
    }

    /// Closes the rows that are known well enough after so many draws of each batch.
    fn judge(&mut self, counts: &[f64], classes: usize) {
        let n: f64 = counts.iter().sum();
        for ((open, seen), sums) in self.open.iter_mut().zip(&mut self.seen).zip(self.sums.chunks_exact(counts.len() * classes)) {
            if *open {
                *seen = n;
                let total = Self::total(sums, classes);
                let worst = (0..classes).map(|c| batch_error(counts, |b| sums[b * classes + c], total[c] / n)).fold(0.0, f64::max);
                *open = worst >= TARGET_ERROR;
            }
        }
    }
}

/// Standard error of a mean over batches of these sizes and sums.
fn batch_error(counts: &[f64], sum: impl Fn(usize) -> f64, mean: f64) -> f64 {
    let (n, used) = (counts.iter().sum::<f64>(), counts.iter().filter(|c| **c > 0.0).count() as f64);
    let spread: f64 = counts.iter().enumerate().map(|(b, count)| (sum(b) - count * mean).powi(2)).sum();
    (spread * used / (used - 1.0)).sqrt() / n
}

/// Class probabilities of rows, averaged over draws.
pub fn average<D: ClassDraws>(of: &D, data: &Dataset<'_>, how: &Predict<'_>) -> Result<ClassProbabilities> {
    how.draws.check()?;
    let mut out = match how.quantiles()? {
        Some(ends) => with_intervals(of, data, how.draws, ends),
        None => averaged(of, data, how.draws),
    };
    normalise(&mut out, of.classes())?;
    Ok(out)
}

/// Makes rows of probabilities sum to one; an error for numbers that have left their range.
fn normalise(out: &mut ClassProbabilities, classes: usize) -> Result<()> {
    for (row, p) in out.probability.chunks_exact_mut(classes).enumerate() {
        let total: f64 = p.iter().sum();
        if !(total > 0.0 && total.is_finite()) {
            return Err(Error::Unfit(format!("row {}: its values are too large to compute with", row + 1)));
        }
        p.iter_mut().for_each(|p| *p /= total);
    }
    Ok(())
}

fn averaged<D: ClassDraws>(of: &D, data: &Dataset<'_>, draws: PredictDraws) -> ClassProbabilities {
    let (n, c, m) = (data.rows(), of.classes(), of.draws());
    let rounds = draws.rounds(m);
    let batches = if rounds.len() > 1 { BATCHES } else { 1 };
    let batch = |draw: usize| draw * batches / m;
    let (mut probability, mut deviation) = (Vec::with_capacity(n * c), Vec::with_capacity(n * c));
    for from in (0..n).step_by(PREDICT_PANEL * panels_at_once((batches + 1) * c)) {
        let rows = (PREDICT_PANEL * panels_at_once((batches + 1) * c)).min(n - from);
        let count = |panel: usize| PREDICT_PANEL.min(rows - panel * PREDICT_PANEL);
        let mut states: Vec<Sums> = (0..rows.div_ceil(PREDICT_PANEL)).map(|p| Sums::new(count(p), batches, c)).collect();
        let mut counts = vec![0.0; batches];
        for round in &rounds {
            let open = |state: &Sums| state.open.iter().any(|o| *o);
            for_scores(of, (data.x.view(), from), round, &mut states, open, |state, mut scored, (work, p): &mut (D::Work, Vec<f64>)| {
                p.resize(scored.draws.len() * c, 0.0);
                for i in (0..scored.count).filter(|i| state.open[*i]) {
                    of.probabilities(scored.row(i), p, work);
                    let squares = &mut state.squares[i * c..(i + 1) * c];
                    for (draw, p) in scored.draws.iter().zip(p.chunks_exact(c)) {
                        let sums = &mut state.sums[(i * batches + batch(*draw)) * c..][..c];
                        for ((sum, square), p) in sums.iter_mut().zip(squares.iter_mut()).zip(p) {
                            *sum += p;
                            *square += p * p;
                        }
                    }
                }
            });
            round.iter().for_each(|draw| counts[batch(*draw)] += 1.0);
            parallel::map(&mut states, |_, state| state.judge(&counts, c));
        }
        for state in &states {
            for ((sums, squares), seen) in state.sums.chunks_exact(batches * c).zip(state.squares.chunks_exact(c)).zip(&state.seen) {
                for (sum, square) in Sums::total(sums, c).iter().zip(squares) {
                    let mean = sum / seen;
                    probability.push(mean);
                    deviation.push((square / seen - mean * mean).max(0.0).sqrt());
                }
            }
        }
    }
    ClassProbabilities { probability, deviation: Some(deviation), interval: None }
}

fn with_intervals<D: ClassDraws>(of: &D, data: &Dataset<'_>, draws: PredictDraws, ends: (f64, f64)) -> ClassProbabilities {
    let (n, c) = (data.rows(), of.classes());
    // a quantile needs more draws than a mean
    let draws = if draws == PredictDraws::Enough { PredictDraws::All } else { draws };
    let chosen = draws.rounds(of.draws()).concat();
    let m = chosen.len();
    let mut found = Vec::with_capacity(n * c);
    let at_once = PREDICT_PANEL * panels_at_once(m * c);
    for from in (0..n).step_by(at_once) {
        let rows = at_once.min(n - from);
        // of each panel the probabilities under all draws, a row and class
        let mut states: Vec<Vec<Vec<f64>>> = vec![vec![Vec::with_capacity(m); PREDICT_PANEL * c]; rows.div_ceil(PREDICT_PANEL)];
        for_scores(
            of,
            (data.x.view(), from),
            &chosen,
            &mut states,
            |_| true,
            |state, mut scored, (work, p): &mut (D::Work, Vec<f64>)| {
                p.resize(scored.draws.len() * c, 0.0);
                for i in 0..scored.count {
                    of.probabilities(scored.row(i), p, work);
                    for (y, all) in state[i * c..(i + 1) * c].iter_mut().enumerate() {
                        all.extend(p.iter().skip(y).step_by(c));
                    }
                }
            },
        );
        let mut all: Vec<Vec<f64>> = states.into_iter().flatten().collect();
        all.truncate(rows * c);
        found.extend(parallel::map(all, |_, p| spread(p, ends)));
    }
    let part = |at: usize| found.iter().map(|f: &[f64; 4]| f[at]).collect();
    let interval = Some(Interval { lower: part(2), upper: part(3) });
    ClassProbabilities { probability: part(0), deviation: Some(part(1)), interval }
}

/// Mean, standard deviation and two quantiles of numbers.
pub(crate) fn spread(mut values: Vec<f64>, ends: (f64, f64)) -> [f64; 4] {
    let m = values.len() as f64;
    let mean = values.iter().sum::<f64>() / m;
    let variance = values.iter().map(|p| (p - mean) * (p - mean)).sum::<f64>() / m;
    values.sort_unstable_by(f64::total_cmp);
    [mean, variance.sqrt(), sorted_quantile(&values, ends.0), sorted_quantile(&values, ends.1)]
}

/// Log likelihood of the class of each row under each draw, one draw a line.
pub fn ln_likelihoods<D: ClassDraws>(of: &D, data: &Dataset<'_>, classes: &[u32]) -> Vec<f64> {
    gather(of, data, |mut scored, out, work: &mut (D::Work, Vec<f64>)| {
        let (work, ln) = work;
        ln.resize(scored.draws.len(), 0.0);
        let first = scored.first;
        for i in 0..scored.count {
            of.ln_likelihoods(scored.row(i), classes[first + i], ln, work);
            out.extend_from_slice(ln);
        }
    })
}

/// A number of each row under each draw, one draw a line: `f` appends those of a panel, a row after the other.
pub(crate) fn gather<D: DrawScores, W: Default + Send>(
    of: &D,
    data: &Dataset<'_>,
    f: impl Fn(Scored<'_>, &mut Vec<f64>, &mut W) + Sync,
) -> Vec<f64> {
    let (n, m) = (data.rows(), of.draws());
    let mut out = vec![0.0; n * m];
    let all: Vec<usize> = (0..m).collect();
    for draws in all.chunks(together(of.scores())) {
        let mut states: Vec<Vec<f64>> = vec![Vec::new(); n.div_ceil(PREDICT_PANEL)];
        for_scores(of, (data.x.view(), 0), draws, &mut states, |_| true, |state, scored, work| f(scored, state, work));
        for (row, numbers) in states.iter().flat_map(|panel| panel.chunks_exact(draws.len())).enumerate() {
            draws.iter().zip(numbers).for_each(|(draw, number)| out[draw * n + row] = *number);
        }
    }
    out
}

#[cfg(test)]
mod tests;
