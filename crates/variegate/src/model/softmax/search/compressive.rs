//! Compressive search: fit uniform numbers of subclasses, drop the irrelevant ones of each fit, fit what is left, and so on.
//!
//! A subclass is relevant where its mean share among the rows of its class is at least ε; the largest of a class always is. A
//! spawned structure starts from the weights its parent keeps, without a new search; with several parents the first counts. At most
//! r + (g−1)(r−1) structures are fitted, since [1,…,1] spawns only itself.

use super::super::job::{Job, Role, Start, State};
use super::super::policy::Search;
use super::super::program::Vb;
use super::super::tree::Structure;
use super::moves;

/// Which subclasses of a fit are relevant.
pub(crate) fn relevant(program: &Vb, state: &State, relevance: f64) -> Option<Vec<bool>> {
    let Structure::Subclasses(sizes) = &state.job.structure else { return None };
    let shares = &state.scores.as_ref()?.shares;
    let mut kept = Vec::with_capacity(shares.len());
    let mut first = 0;
    for (class, &size) in sizes.iter().enumerate() {
        let own = &shares[first..first + size];
        let largest = own.iter().enumerate().fold(0, |best, (i, s)| if *s > own[best] { i } else { best });
        kept.extend(own.iter().enumerate().map(|(i, s)| i == largest || s / program.counts[class] >= relevance));
        first += size;
    }
    Some(kept)
}

/// Structures spawned by the last generation that are new.
pub(crate) fn next(search: &Search, program: &Vb, finished: &[State], generations: u32, relevance: f64) -> Vec<Job> {
    let fits = || finished.iter().filter(|s| s.job.role == Role::Fit && s.job.fold.is_none());
    let last = fits().map(|s| s.job.generation).max().unwrap_or(0);
    if last >= generations {
        return Vec::new();
    }
    let mut spawned: Vec<Job> = Vec::new();
    // of each structure only the best fit has children
    for candidate in search.table(finished) {
        let state = &finished[candidate.chain];
        if state.job.generation != last {
            continue;
        }
        let Some(kept) = relevant(program, state, relevance) else { continue };
        let Some((structure, weights)) = moves::keep_subclasses(program, state, &kept) else { continue };
        if fits().any(|s| s.job.structure == structure) || spawned.iter().any(|j| j.structure == structure) {
            continue;
        }
        let job = search.job(&structure, Role::Fit, Start::At(weights), None);
        spawned.push(Job { search: 0, generation: last + 1, ..job });
    }
    spawned
}
