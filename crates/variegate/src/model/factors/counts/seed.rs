//! Atoms to begin with: rows, made less alike by a short nonnegative factorisation.
//!
//! It maximises the Poisson likelihood by the usual multiplicative steps: each count is owed to the atoms by their shares of its rate. Whatever
//! it finds, the sampler that goes on from there has the right distribution; better atoms only spare it sweeps.

use super::super::likelihood::{Entry, Row, Tempering};
use super::{Scratch, Sums, View};

/// Steps of the weights of a row for each step of the atoms.
const STEPS: usize = 3;
/// How much of the mean row is mixed into a seed: columns that the row has not are not ruled out.
const MIXED: f64 = 0.1;
/// Share of a row's counts that an atom must explain to be used by it.
const MATTERS: f64 = 0.02;
/// The same on the way there: what explains less will not come back, and costs time alone.
const NEGLIGIBLE: f64 = 1e-6;
/// Weight of a row beside the others that looks as the atom did before: nothing is ruled out on the way.
const LEFT: f64 = 1e-3;

/// A row as an atom, scaled so that its weight in the row is about one.
pub(super) fn of_row(width: usize, mean: &[f64], row: Row<'_>) -> Option<Vec<f64>> {
    let mut phi = vec![0.0; width];
    row.x.for_row(row.at, |m, x| phi[m] = x);
    let (total, means) = (phi.iter().sum::<f64>(), mean.iter().sum::<f64>());
    if total <= 0.0 {
        return None;
    }
    phi.iter_mut().zip(mean).for_each(|(p, m)| *p = (1.0 - MIXED) * *p + MIXED * total / means * m);
    Some(phi)
}

/// Better weights of a row; at the last time those that matter alone.
pub(super) fn climb(view: &View, width: usize, row: Row<'_>, last: bool, entries: &mut Vec<Entry>, scratch: &mut Scratch, sums: &mut Sums) {
    if entries.is_empty() {
        let mut total = 0.0;
        row.x.for_row(row.at, |_, x| total += x);
        let each = total / view.count as f64;
        entries.extend(view.totals.iter().enumerate().map(|(k, t)| (k as u32, each / t)));
    }
    scratch.begin(view, row, entries, Tempering::NONE, true);
    for _ in 0..STEPS {
        scratch.climb(view, entries);
    }
    let owed = |e: &Entry| e.1 * view.totals[e.0 as usize];
    let all: f64 = entries.iter().map(owed).sum();
    let least = if last { MATTERS } else { NEGLIGIBLE };
    if let Some(largest) = entries.iter().copied().max_by(|a, b| owed(a).total_cmp(&owed(b))) {
        entries.retain(|e| e.0 == largest.0 || owed(e) >= least * all);
    }
    scratch.rates(view, entries);
    scratch.owe(width, entries, row.source, sums);
    for &(k, w) in entries.iter() {
        sums.weights.0[row.source * view.count + k as usize] += w;
    }
}

/// φ = counts owed over weights.
pub(super) fn settle(width: usize, phi: &mut [f64], sums: &Sums) {
    let count = phi.len() / width;
    for (k, atom) in phi.chunks_exact_mut(width).enumerate() {
        let weight: f64 = super::learn::by_atom(&sums.weights.0, count, k).sum();
        let owed = &sums.counts.0[k * width..][..width];
        atom.iter_mut().zip(owed).for_each(|(p, s)| *p = ((s + LEFT * *p) / (weight + LEFT)).max(super::SMALLEST));
    }
}
