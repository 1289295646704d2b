//! Greedy search: every split and every deletion is tried for a few sweeps; the best is taken and brought to its end if it scores
//! better, and the search ends when none does.
//!
//! At the end the chosen structure is fitted once more from starts of its own, and without its irrelevant subclasses; the best of all
//! fits counts.

use super::super::criterion::Scores;
use super::super::job::{Job, Role, Standing, Start, State};
use super::super::policy::{Policy, Search};
use super::super::program::Vb;
use super::super::tree::Structure;
use super::compressive::relevant;
use super::moves;

/// Sweeps of a trial, and iterations of the search before it.
const TRIAL: (u64, usize) = (40, 200);
/// A trial must raise the score by more than this.
const GAIN: f64 = 0.01;
/// Steps at most.
const MOST_STEPS: u32 = 200;
/// A component with less than so many rows is not split.
const LEAST_ROWS: f64 = 2.0;

/// The next generation.
pub(crate) fn next(search: &Search, program: &Vb, finished: &[State]) -> Vec<State> {
    let is_fit = |s: &State| s.job.role == Role::Fit && s.job.fold.is_none();
    // the last fit that a step led to, which has no start of its own: fits that have one come only at the end
    let Some(current) = (0..finished.len()).rev().find(|i| is_fit(&finished[*i]) && finished[*i].job.start == Start::Zero) else {
        return Vec::new();
    };
    let here = &finished[current];
    let Some(scores) = &here.scores else { return Vec::new() };
    if finished.iter().skip(current + 1).any(is_fit) {
        return Vec::new();
    }
    let trials: Vec<&State> = finished.iter().filter(|s| s.job.role == Role::Trial { parent: current as u32 }).collect();
    if trials.is_empty() {
        let next = trials_of(search, program, here, current as u32);
        if !next.is_empty() {
            return next.into_iter().map(|job| State::new(program, job)).collect();
        }
    }
    let value = |s: &State| s.scores.as_ref().map_or(f64::NEG_INFINITY, |scores| search.score(scores));
    // a structure that was left behind is taken up again only for a better fit of it: every search ends
    let before = |s: &State| {
        finished.iter().filter(|f| is_fit(f) && f.job.structure == s.job.structure).map(&value).fold(f64::NEG_INFINITY, f64::max)
    };
    let trials: Vec<&State> = trials.into_iter().filter(|s| value(s) > before(s) + GAIN).collect();
    let best = trials.iter().fold(None, |best: Option<&State>, s| match best {
        Some(b) if value(b) >= value(s) => Some(b),
        _ => Some(s),
    });
    match best {
        Some(best) if value(best) > search.score(scores) + GAIN && here.job.generation < MOST_STEPS => {
            vec![continued(search, best, here.job.generation + 1)]
        }
        _ => closing(search, program, here),
    }
}

/// The same fit, going on until it converges.
fn continued(search: &Search, trial: &State, generation: u32) -> State {
    let mut state = trial.clone();
    state.job = Job { generation, ..search.job(&trial.job.structure, Role::Fit, Start::Zero, None) };
    state.job.ascent = trial.ascents + search.max_iter;
    state.standing = Standing::Running;
    state.scores = None;
    state
}

/// Whether a component has rows that differ.
pub(super) fn can_be_split(scores: &Scores, component: usize) -> bool {
    scores.shares[component] >= LEAST_ROWS && scores.axes.get(component).is_some_and(|a| a.deviation > 0.0)
}

fn trials_of(search: &Search, program: &Vb, here: &State, parent: u32) -> Vec<Job> {
    let Some(scores) = &here.scores else { return Vec::new() };
    let mut found: Vec<(Structure, Vec<f64>)> = Vec::new();
    let splittable = |c: usize| can_be_split(scores, c);
    match (&search.policy, &here.job.structure) {
        (Policy::GreedySubclasses { most, .. }, Structure::Subclasses(sizes)) => {
            let classes: Vec<usize> = sizes.iter().enumerate().flat_map(|(class, s)| std::iter::repeat_n(class, *s)).collect();
            for (leaf, &class) in classes.iter().enumerate() {
                if sizes[class] < *most && splittable(leaf) {
                    found.extend(moves::split_subclass(program, here, leaf, &scores.axes[leaf]));
                }
                if sizes[class] > 1 {
                    let kept: Vec<bool> = (0..classes.len()).map(|l| l != leaf).collect();
                    found.extend(moves::keep_subclasses(program, here, &kept));
                }
            }
        }
        (Policy::GreedyExperts { most }, Structure::Experts(count)) => {
            for expert in 0..*count {
                if count < most && splittable(expert) {
                    found.extend(moves::split_expert(program, here, expert, &scores.axes[expert]));
                }
                found.extend(moves::delete_expert(program, here, expert));
            }
        }
        _ => {}
    }
    let job = |(structure, at): (Structure, Vec<f64>)| Job {
        role: Role::Trial { parent },
        generation: here.job.generation,
        search: TRIAL.1,
        ascent: TRIAL.0.min(search.max_iter),
        score: search.criterion.needs_rows(),
        ..search.job(&structure, Role::Fit, Start::At(at), None)
    };
    found.into_iter().map(job).collect()
}

/// What is tried when no step helps any more.
fn closing(search: &Search, program: &Vb, here: &State) -> Vec<State> {
    let mut jobs = Vec::new();
    if !here.job.structure.is_concave() {
        jobs.extend(search.found(&here.job.structure, None));
    }
    if let Policy::GreedySubclasses { relevance, .. } = search.policy
        && let Some(kept) = relevant(program, here, relevance)
        && kept.contains(&false)
        && let Some((structure, at)) = moves::keep_subclasses(program, here, &kept)
    {
        jobs.push(Job { search: 0, ..search.job(&structure, Role::Fit, Start::At(at), None) });
    }
    jobs.into_iter().map(|job| State::new(program, job)).collect()
}
