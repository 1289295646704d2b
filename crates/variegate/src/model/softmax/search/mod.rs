//! Which structures are fitted, and which one is chosen.
//!
//! A run is a row of generations of chains: starts, then fits from the best of them, then whatever the results call for. What comes next is a
//! function of what has finished and nothing else, so a search resumes like any other run.
//!
//! | file | what it tries |
//! |---|---|
//! | `compressive.rs` | uniform numbers of subclasses, and what is left of them without irrelevant ones |
//! | `greedy.rs` | from one subclass or expert up: the best split or deletion, as long as it helps |
//! | `guided.rs` | the same, led by the prediction of held-out rows: criterion `cv`, the default |
//! | `moves.rs` | weights of a structure made from those of its neighbour |

mod compressive;
mod greedy;
mod guided;
mod moves;

use serde::{Deserialize, Serialize};

use super::criterion::{Criterion, Scores};
use super::job::{Job, Role, SEARCH_ITERATIONS, Start, State};
use super::policy::{Policy, Search};
use super::program::Vb;
use super::tree::Structure;
use crate::data::split::Fold;
use crate::score::Losses;

/// Two maxima this near (relative) are the same.
const SAME_MAXIMUM: f64 = 1e-6;

impl Search {
    fn job(&self, structure: &Structure, role: Role, start: Start, fold: Option<Fold>) -> Job {
        let fit = role != Role::Start;
        Job {
            structure: structure.clone(),
            role,
            generation: 1,
            start,
            search: SEARCH_ITERATIONS,
            ascent: if fit { self.max_iter } else { 0 },
            fold,
            score: fit && fold.is_none() && (self.compares() || self.criterion.needs_rows()),
        }
    }

    /// Jobs that find a structure from scratch.
    fn found(&self, structure: &Structure, fold: Option<Fold>) -> Vec<Job> {
        if structure.is_concave() {
            return vec![self.job(structure, Role::Fit, Start::Zero, fold)];
        }
        (0..self.starts.max(1))
            .map(|i| {
                // half and half: neither kind of start finds the best optimum everywhere
                let start = if i % 2 == 0 && !self.anneal { Start::Clusters(i) } else { Start::Random(i) };
                if self.anneal {
                    // the search for a maximum would undo what annealing is for
                    Job { search: 0, ..self.job(structure, Role::Fit, start, fold) }
                } else if self.max_iter == 0 {
                    self.job(structure, Role::Fit, start, fold)
                } else {
                    self.job(structure, Role::Start, start, fold)
                }
            })
            .collect()
    }

    /// The first generation.
    pub(crate) fn first(&self) -> Vec<Job> {
        let structures = match &self.policy {
            Policy::All(structures) => structures.clone(),
            Policy::Compressive { classes, largest, .. } => (1..=*largest).map(|s| Structure::Subclasses(vec![s; *classes])).collect(),
            Policy::GreedySubclasses { classes, .. } => vec![Structure::Subclasses(vec![1; *classes])],
            Policy::GreedyExperts { .. } => vec![Structure::Experts(1)],
        };
        if self.is_guided() {
            return structures.iter().flat_map(|s| guided::step(self, 1, s, &mut |_| Some(Start::Zero))).collect();
        }
        structures.iter().flat_map(|s| self.found(s, None)).collect()
    }

    /// Further chains, now that these have finished.
    pub(crate) fn next(&self, program: &Vb, finished: &[State]) -> Vec<State> {
        let begin = |jobs: Vec<Job>| jobs.into_iter().map(|job| State::new(program, job)).collect::<Vec<_>>();
        let ascents = begin(self.ascents(finished));
        if !ascents.is_empty() {
            return ascents;
        }
        let further = match &self.policy {
            Policy::All(_) => Vec::new(),
            Policy::Compressive { generations, relevance, .. } => {
                begin(compressive::next(self, program, finished, *generations, *relevance))
            }
            _ if self.is_guided() => return guided::next(self, program, finished),
            Policy::GreedySubclasses { .. } | Policy::GreedyExperts { .. } => greedy::next(self, program, finished),
        };
        if !further.is_empty() || self.criterion != Criterion::Cv {
            return further;
        }
        begin(self.folds(finished))
    }

    /// Ascents from the best starts of every structure that has starts and no fit yet.
    fn ascents(&self, finished: &[State]) -> Vec<Job> {
        let mut jobs: Vec<Job> = Vec::new();
        for (at, state) in finished.iter().enumerate().filter(|(_, s)| s.job.role == Role::Start) {
            let same = |s: &State| s.job.structure == state.job.structure && s.job.fold == state.job.fold;
            // starts that come after the last fit of their structure are still waiting for theirs
            let waiting = !finished[at..].iter().any(|s| same(s) && s.job.role == Role::Fit);
            if !waiting || jobs.iter().any(|j| j.structure == state.job.structure && j.fold == state.job.fold) {
                continue;
            }
            let mut starts: Vec<&State> = finished[at..].iter().filter(|s| same(s) && s.job.role == Role::Start).collect();
            starts.sort_by(|a, b| b.bound.total_cmp(&a.bound));
            starts.dedup_by(|b, a| (a.bound - b.bound).abs() <= SAME_MAXIMUM * (1.0 + a.bound.abs()));
            for start in starts.iter().take(self.ascents.max(1) as usize) {
                let Some(maximum) = &start.maximum else { continue };
                let job = self.job(&state.job.structure, Role::Fit, Start::At(maximum.at.clone()), state.job.fold);
                jobs.push(Job { search: 0, generation: state.job.generation, ..job });
            }
        }
        jobs
    }

    /// Fits without each fold, for every structure that was fitted.
    fn folds(&self, finished: &[State]) -> Vec<Job> {
        if finished.iter().any(|s| s.job.fold.is_some()) {
            return Vec::new();
        }
        let mut structures: Vec<&Structure> = Vec::new();
        for state in finished.iter().filter(|s| s.job.role == Role::Fit) {
            if !structures.contains(&&state.job.structure) {
                structures.push(&state.job.structure);
            }
        }
        Fold::all(self.folds).flat_map(|fold| structures.iter().flat_map(move |s| self.found(s, Some(fold)))).collect()
    }

    /// A score to choose by while searching: that of the criterion, or of the bound where the criterion is only known at the end.
    fn score(&self, scores: &Scores) -> f64 {
        let criterion = if self.criterion == Criterion::Cv { Criterion::ElboSym } else { self.criterion };
        let value = scores.get(criterion).unwrap_or(f64::NEG_INFINITY);
        // of all rows together, as bounds are
        if criterion == Criterion::Loo { value * scores.held_out.map_or(1.0, |h| h.weight) } else { value }
    }

    /// The structures met so far, in that order: number of their best chain and its scores, those of cross-validation added.
    pub(crate) fn table(&self, finished: &[State]) -> Vec<Candidate> {
        let mut table: Vec<Candidate> = Vec::new();
        let closed = self.is_guided() && finished.iter().any(guided::is_closing);
        for (chain, state) in finished.iter().enumerate() {
            let Some(scores) = &state.scores else { continue };
            if state.job.role == Role::Start || state.job.fold.is_some() {
                continue;
            }
            let trial = state.job.role != Role::Fit || (closed && !guided::is_closing(state));
            match table.iter_mut().find(|c| c.structure == state.job.structure) {
                None => table.push(Candidate { structure: state.job.structure.clone(), chain, trial, scores: scores.clone() }),
                // a fit before a trial; else what both have climbed decides
                Some(known) if (known.trial && !trial) || (known.trial == trial && state.bound > finished[known.chain].bound) => {
                    (known.chain, known.trial, known.scores) = (chain, trial, scores.clone());
                }
                Some(_) => {}
            }
        }
        for candidate in table.iter_mut().filter(|_| self.criterion == Criterion::Cv) {
            candidate.scores.held_out = self.held_out(finished, &candidate.structure);
        }
        table
    }

    /// Σ over folds of what the best fit without the fold loses on it; where fits went on in stages, of the stage that predicts best.
    fn held_out(&self, finished: &[State], structure: &Structure) -> Option<Losses> {
        let fits = || finished.iter().filter(|s| s.job.role == Role::Fit && s.job.structure == *structure && s.job.fold.is_some());
        let of = |stage: Option<u32>| {
            (0..self.folds).try_fold(None, |total: Option<Losses>, index| {
                let of_fold =
                    fits().filter(|s| stage.is_none_or(|g| g == s.job.generation) && s.job.fold.is_some_and(|f| f.index == index));
                let part = of_fold.max_by(|a, b| a.bound.total_cmp(&b.bound))?.scores.as_ref()?.held_out?;
                Some(Some(total.map_or(part, |t| t.plus(part))))
            })?
        };
        if !self.is_guided() {
            return of(None);
        }
        let stages: Vec<Losses> =
            fits().filter(|s| s.job.fold.is_some_and(|f| f.index == 0)).filter_map(|s| of(Some(s.job.generation))).collect();
        stages.into_iter().fold(None, |best: Option<Losses>, l| best.filter(|b| b.ln_likelihood >= l.ln_likelihood).or(Some(l)))
    }

    /// Place of the best candidate of a table.
    pub(crate) fn best(&self, table: &[Candidate]) -> Option<usize> {
        let value = |c: &Candidate| c.scores.get(self.criterion).unwrap_or(f64::NEG_INFINITY);
        // the first of equals: the simpler one comes first in every search
        (0..table.len()).filter(|i| !table[*i].trial).fold(None, |best: Option<usize>, i| match best {
            Some(b) if value(&table[i]) <= value(&table[b]) => Some(b),
            _ => Some(i),
        })
    }
}

/// A structure that was fitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Candidate {
    /// The structure.
    pub(crate) structure: Structure,
    /// Number of the chain of its best fit.
    pub(crate) chain: usize,
    /// Whether it was only tried for a few sweeps, and not brought to its end.
    pub(crate) trial: bool,
    /// Its scores.
    pub(crate) scores: Scores,
}
