//! Greedy search led by prediction: splits as long as held-out rows are predicted better.
//!
//! Every step is one structure, fitted to all rows and to all rows but each fold. All of them begin at their own fit of the step before,
//! split in the same components, so that no fit of a fold has ever seen its held-out rows. Which components are split is decided by short
//! trials on all rows: all that raise the bound, one a class, at the first attempt, and the best alone where that predicted worse. A single
//! step that fails may lead to one that does not: [`PATIENCE`] of them are taken in a row before the search ends. The last structure that
//! helped is chosen: one that is ahead of it by less than folds can tell is not worth its size.
//!
//! Steps are short ascents. The bound is loose where weights are uncertain, so that its top may predict worse than the way up: fits of the
//! chosen structure, with and without folds, go on in stages of twice the sweeps, and the stage that predicts held-out rows best counts.

use super::super::criterion::Axis;
use super::super::job::{Job, Role, Standing, Start, State};
use super::super::policy::{Policy, Search};
use super::super::program::Vb;
use super::super::tree::Structure;
use super::greedy::can_be_split;
use super::moves;
use crate::data::split::Fold;

/// Sweeps of a trial, and iterations of the search before it.
const TRIAL: (u64, usize) = (15, 20);
/// The same of a step. Longer searches end where weights are too large, which a short ascent does not undo.
const STEP: (u64, usize) = (20, 20);
/// Steps in a row that may fail.
const PATIENCE: u32 = 2;
/// A trial must raise the bound by more than this to be taken beside the best.
const GAIN: f64 = 1.0;
/// Held-out rows must gain this share of their log loss, and more than folds differ, or a step counts as failed.
const HELPS: f64 = 0.005;
/// Most experts that are tried to be split, the largest first.
const MOST_EXPERTS_TRIED: usize = 4;
/// Steps at most.
const MOST_STEPS: usize = 100;
/// Generation of the first fits of the chosen structure that go on.
const LONGER: u32 = 1 << 31;
/// Generation of the fit that ends the search.
const CLOSING: u32 = u32::MAX;

/// Whether a chain brings the structure that was chosen to its end.
pub(super) fn is_closing(state: &State) -> bool {
    state.job.generation == CLOSING
}

/// Jobs of a step: all rows, then all but each fold; `start` says where each begins.
pub(super) fn step(
    search: &Search,
    generation: u32,
    structure: &Structure,
    start: &mut dyn FnMut(Option<Fold>) -> Option<Start>,
) -> Vec<Job> {
    let folds = std::iter::once(None).chain(Fold::all(search.folds).map(Some));
    let job = |fold: Option<Fold>| {
        let start = start(fold)?;
        // the first structure has one maximum
        let search_for = if start == Start::Zero { super::SEARCH_ITERATIONS } else { STEP.1 };
        let job = search.job(structure, Role::Fit, start, fold);
        Some(Job { generation, search: search_for, ascent: STEP.0.min(search.max_iter), score: false, ..job })
    };
    folds.filter_map(job).collect()
}

/// Fits of one structure.
struct Step {
    /// Chain of the fit to all rows.
    whole: usize,
    /// Chains of the fits without a fold.
    folds: Vec<usize>,
    /// Log likelihood of the held-out rows of each fold.
    values: Vec<f64>,
}

impl Step {
    /// Log likelihood of all held-out rows.
    fn value(&self) -> f64 {
        self.values.iter().sum()
    }

    /// Whether it predicts better than another, by more than the standard error of the gain that folds tell.
    fn improves(&self, on: &Self) -> bool {
        let folds = self.values.len() as f64;
        let gains: Vec<f64> = self.values.iter().zip(&on.values).map(|(a, b)| a - b).collect();
        let gain: f64 = gains.iter().sum();
        let squares: f64 = gains.iter().map(|g| (g - gain / folds).powi(2)).sum();
        let error = (squares * folds / (folds - 1.0)).sqrt();
        gain > error.max(HELPS * on.value().abs())
    }
}

/// The next generation.
pub(super) fn next(search: &Search, program: &Vb, finished: &[State]) -> Vec<State> {
    if finished.iter().any(is_closing) {
        return Vec::new();
    }
    let steps = steps(finished, |generation| generation < LONGER);
    let Some(course) = course(finished, &steps) else { return Vec::new() };
    let closing = || longer(search, finished, &steps[course.helped]);
    let ended = finished.iter().any(|s| s.job.generation >= LONGER);
    if ended || course.failed >= PATIENCE || steps.len() >= MOST_STEPS {
        return closing();
    }
    let base = &steps[course.base];
    let trials: Vec<&State> = finished.iter().filter(|s| s.job.role == Role::Trial { parent: base.whole as u32 }).collect();
    let jobs = if trials.is_empty() {
        trials_of(search, program, finished, base)
    } else {
        let components = chosen(search, &finished[base.whole], &trials, course.one_alone);
        split_all(search, program, finished, base, steps.len() as u32 + 1, &components)
    };
    if jobs.is_empty() { closing() } else { jobs.into_iter().map(|job| State::new(program, job)).collect() }
}

/// Steps of some generations.
fn steps(finished: &[State], which: impl Fn(u32) -> bool) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (chain, state) in finished.iter().enumerate().filter(|(_, s)| s.job.role == Role::Fit && which(s.job.generation)) {
        if state.job.fold.is_none() {
            steps.push(Step { whole: chain, folds: Vec::new(), values: Vec::new() });
        } else if let Some(step) = steps.last_mut() {
            let held_out = state.scores.as_ref().and_then(|s| s.held_out).map_or(f64::NEG_INFINITY, |h| h.ln_likelihood);
            step.folds.push(chain);
            step.values.push(held_out);
        }
    }
    steps
}

/// Where a search stands.
struct Course {
    /// The last step that helped.
    helped: usize,
    /// The step that the next one begins at.
    base: usize,
    /// Steps in a row that did not help.
    failed: u32,
    /// Whether the next step splits one component alone.
    one_alone: bool,
}

/// Goes through the steps again: what comes next is a function of what has finished and nothing else.
fn course(finished: &[State], steps: &[Step]) -> Option<Course> {
    let size = |step: &Step| finished[step.whole].tree.leaves.len();
    let mut course = Course { helped: 0, base: 0, failed: 0, one_alone: false };
    steps.first()?;
    for (number, step) in steps.iter().enumerate().skip(1) {
        if step.improves(&steps[course.helped]) {
            course = Course { helped: number, base: number, failed: 0, one_alone: false };
        } else if !course.one_alone
            && matches!(finished[step.whole].job.structure, Structure::Subclasses(_))
            && size(step) > size(&steps[course.base]) + 1
        {
            course.one_alone = true;
        } else {
            course = Course { base: number, failed: course.failed + 1, one_alone: true, ..course };
        }
    }
    Some(course)
}

/// Components of a fit that can be split under the limits of the search.
fn candidates(search: &Search, here: &State) -> Vec<usize> {
    let Some(scores) = &here.scores else { return Vec::new() };
    match (&search.policy, &here.job.structure) {
        (Policy::GreedySubclasses { most, .. }, Structure::Subclasses(sizes)) => {
            let classes = sizes.iter().flat_map(|s| std::iter::repeat_n(*s, *s));
            classes.enumerate().filter(|(leaf, size)| size < most && can_be_split(scores, *leaf)).map(|(leaf, _)| leaf).collect()
        }
        (Policy::GreedyExperts { most }, Structure::Experts(count)) if count < most => {
            let mut experts: Vec<usize> = (0..*count).filter(|expert| can_be_split(scores, *expert)).collect();
            experts.sort_by(|a, b| scores.shares[*b].total_cmp(&scores.shares[*a]));
            experts.truncate(MOST_EXPERTS_TRIED);
            experts
        }
        _ => Vec::new(),
    }
}

/// The structure with these components split, and weights to begin at.
fn split(program: &Vb, here: &State, components: &[usize]) -> Option<(Structure, Vec<f64>)> {
    let scores = here.scores.as_ref()?;
    // where rows do not differ, as may be without a fold, the two stay the same
    let still = |axis: &Axis| Axis { direction: vec![0.0; axis.direction.len()], deviation: 1.0, ..axis.clone() };
    let axis = |c: usize| Some(if can_be_split(scores, c) { scores.axes.get(c)?.clone() } else { still(scores.axes.get(c)?) });
    let axes = components.iter().map(|c| Some((*c, axis(*c)?))).collect::<Option<Vec<(usize, Axis)>>>()?;
    match &here.job.structure {
        Structure::Subclasses(_) => moves::split_subclasses(program, here, &axes.iter().map(|(c, a)| (*c, a)).collect::<Vec<_>>()),
        Structure::Experts(_) => axes.first().and_then(|(expert, axis)| moves::split_expert(program, here, *expert, axis)),
        Structure::Gates(_) => None,
    }
}

fn trials_of(search: &Search, program: &Vb, finished: &[State], base: &Step) -> Vec<Job> {
    let here = &finished[base.whole];
    let job = |component: usize| {
        let (structure, at) = split(program, here, &[component])?;
        let job = search.job(&structure, Role::Fit, Start::At(at), None);
        let role = Role::Trial { parent: base.whole as u32 };
        Some(Job { role, generation: here.job.generation, search: TRIAL.1, ascent: TRIAL.0.min(search.max_iter), score: false, ..job })
    };
    candidates(search, here).into_iter().filter_map(job).collect()
}

/// The components to split, in ascending order, by what their trials have gained.
fn chosen(search: &Search, here: &State, trials: &[&State], one_alone: bool) -> Vec<usize> {
    let mut gains: Vec<(usize, f64)> = candidates(search, here).into_iter().zip(trials).map(|(c, t)| (c, t.bound - here.bound)).collect();
    // stable: the first of equals
    gains.sort_by(|a, b| b.1.total_cmp(&a.1));
    let Structure::Subclasses(sizes) = &here.job.structure else { return gains.iter().take(1).map(|g| g.0).collect() };
    let mut taken = vec![false; sizes.len()];
    let mut components = Vec::new();
    for (component, gain) in gains {
        let class = moves::class_of(sizes, component);
        if components.is_empty() || (!one_alone && gain > GAIN && !taken[class]) {
            components.push(component);
            taken[class] = true;
        }
    }
    components.sort_unstable();
    components
}

/// Jobs of the step that splits these components of every fit of another.
fn split_all(search: &Search, program: &Vb, finished: &[State], base: &Step, generation: u32, components: &[usize]) -> Vec<Job> {
    let Some((structure, _)) = split(program, &finished[base.whole], components) else { return Vec::new() };
    let of_fold = |fold: Option<Fold>| match fold {
        None => Some(base.whole),
        Some(_) => base.folds.iter().copied().find(|chain| finished[*chain].job.fold == fold),
    };
    step(search, generation, &structure, &mut |fold| {
        let (_, at) = split(program, &finished[of_fold(fold)?], components)?;
        Some(Start::At(at))
    })
}

/// The fits of the chosen structure, going on for as many sweeps as they have had; once that predicts no better, the best stage as it is.
fn longer(search: &Search, finished: &[State], chosen: &Step) -> Vec<State> {
    let stages = steps(finished, |generation| generation >= LONGER);
    let before = stages.len().checked_sub(2).map_or(chosen, |i| &stages[i]);
    let last = stages.last().unwrap_or(chosen);
    let worse = !stages.is_empty() && last.value() <= before.value();
    let whole = &finished[last.whole];
    if worse || whole.standing != Standing::Running || whole.ascents >= search.max_iter {
        let ends_early = if worse { Standing::HeldOut } else { whole.standing };
        let best = &finished[if worse { before.whole } else { last.whole }];
        let standing = if best.standing == Standing::Running { ends_early } else { best.standing };
        let job = Job { generation: CLOSING, ascent: best.ascents, score: true, ..best.job.clone() };
        return vec![State { job, standing, scores: None, ..best.clone() }];
    }
    let generation = LONGER + stages.len() as u32;
    let go_on = |chain: &usize| {
        let fit = &finished[*chain];
        let job = Job { generation, ascent: (2 * fit.ascents).min(search.max_iter), ..fit.job.clone() };
        State { job, scores: None, ..fit.clone() }
    };
    std::iter::once(&last.whole).chain(&last.folds).map(go_on).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::Settings;
    use super::super::super::check;
    use super::super::super::tree::Emission;
    use super::*;
    use crate::data::Design;

    /// Where a search stands after steps with these numbers of leaves and values.
    fn after(sizes: &[(usize, f64)]) -> (usize, usize, u32, bool) {
        let settings = Settings { subclasses: Some("auto".into()), criterion: super::super::Criterion::Cv, ..Settings::default() };
        let program = check::program(&settings, Emission::Classes(2), Design::identity(1, true), vec![5.0, 5.0]).unwrap();
        let state = |size: usize| State::new(&program, check::job(&Structure::Subclasses(vec![1, size - 1]), 1));
        let finished: Vec<State> = sizes.iter().map(|(size, _)| state(*size)).collect();
        let steps: Vec<Step> =
            sizes.iter().enumerate().map(|(whole, (_, value))| Step { whole, folds: Vec::new(), values: vec![0.5 * value; 2] }).collect();
        let course = course(&finished, &steps).unwrap();
        (course.helped, course.base, course.failed, course.one_alone)
    }

    /// A gain that comes from one fold is less sure than one of all.
    #[test]
    fn gains_are_held_against_their_error() {
        let step = |values: &[f64]| Step { whole: 0, folds: Vec::new(), values: values.to_vec() };
        let before = step(&[-10.0, -11.0, -12.0, -9.0]);
        assert!(step(&[-9.5, -10.4, -11.5, -8.4]).improves(&before));
        // gains of 4, −1, −1, 0.5: 2.5 in all, with a standard error of √(4 · 16.6875/3) = 4.7
        assert!(!step(&[-6.0, -12.0, -13.0, -8.5]).improves(&before));
        // gains of 4, 1, 1, 0.5: 6.5 with an error of √(4 · 7.6875/3) = 3.2
        assert!(step(&[-6.0, -10.0, -11.0, -8.5]).improves(&before));
        // sure, but too little
        assert!(!step(&[-9.99, -10.99, -11.99, -8.99]).improves(&before));
    }

    #[test]
    fn a_search_goes_on_while_prediction_improves() {
        assert_eq!(after(&[(2, -10.0)]), (0, 0, 0, false));
        assert_eq!(after(&[(2, -10.0), (3, -9.0)]), (1, 1, 0, false));
        // several splits that fail are tried again one alone, from where they began
        assert_eq!(after(&[(2, -10.0), (5, -11.0)]), (0, 0, 0, true));
        assert_eq!(after(&[(2, -10.0), (5, -11.0), (3, -9.0)]), (2, 2, 0, false));
        // one that fails is gone on from, once
        assert_eq!(after(&[(2, -10.0), (3, -11.0)]), (0, 1, 1, true));
        assert_eq!(after(&[(2, -10.0), (3, -11.0), (4, -8.0)]), (2, 2, 0, false));
        assert_eq!(after(&[(2, -10.0), (3, -11.0), (4, -10.5)]), (0, 2, 2, true));
        // too little to be worth its size
        assert_eq!(after(&[(2, -10.0), (3, -9.99)]), (0, 1, 1, true));
    }
}
