//! Searches: what they find, what they count, and that they are runs like any other.

use serde_json::json;

use super::super::job::{Role, Standing, Start};
use super::super::policy::{Policy, Search};
use super::*;
use crate::data::Dataset;
use crate::data::Target;
use crate::model::{Fitted, RunSettings, family, fit};
use crate::run::{ChainProgress, Memory, Next, Pace, Unobserved, drive};

fn model(pairs: &[(&str, Value)]) -> Box<dyn Model> {
    family("softmax").unwrap().configure(&settings(pairs)).unwrap()
}

pub(super) fn run(pairs: &[(&str, Value)], data: &Dataset<'_>) -> Fitted {
    fit(model(pairs).as_ref(), data, &RunSettings::default(), &mut Unobserved).unwrap()
}

fn states(fitted: &Fitted) -> Vec<State> {
    fitted.kept.chains.iter().map(|c| saved_global::<Vb>(&c.checkpoint).unwrap()).collect()
}

/// Four clouds in the corners of a square, opposite corners of one class.
pub(super) fn corners(rows: usize, spread: f64) -> Dataset<'static> {
    let noise = pseudo(rows * 2, 4);
    let corner = |i: usize| [[2.0, 2.0], [-2.0, 2.0], [-2.0, -2.0], [2.0, -2.0]][i % 4];
    let x = (0..rows).flat_map(|i| [corner(i)[0] + spread * noise[2 * i], corner(i)[1] + spread * noise[2 * i + 1]]).collect::<Vec<f64>>();
    let codes: Vec<u32> = (0..rows as u32).map(|i| i % 2).collect();
    Dataset::new(Matrix::dense(rows, 2, x)).with_target(classes(&codes, 2))
}

pub(super) fn errors(fitted: &Fitted, data: &Dataset<'_>) -> usize {
    let Target::Classes(truth) = &data.target else { panic!("no classes") };
    let p = fitted.posterior.predict(data, "").unwrap();
    p.best(truth.names.len()).iter().zip(&truth.codes).filter(|(b, c)| **b != **c as usize).count()
}

#[test]
fn opposite_corners_need_two_subclasses_each() {
    let data = corners(160, 1.5);
    for how in ["auto", "compressive:3", "all:2", "auto:3"] {
        let fitted = run(&[("subclasses", json!(how)), ("n_init", json!(4))], &data);
        let selection = fitted.posterior.selection().unwrap();
        // three regions are enough for one class to surround the other: both are right
        let name = &selection.rows[selection.chosen].0;
        assert!(["[2,2]", "[1,2]", "[2,1]"].contains(&name.as_str()), "{how}: {name}");
        assert!(errors(&fitted, &data) <= 2, "{how}: {} errors", errors(&fitted, &data));
        assert!(fitted.posterior.summary().converged);
        assert!(selection.reason.contains("was chosen"), "{}", selection.reason);
    }
    let plain = run(&[], &data);
    assert!(errors(&plain, &data) > 40);
    let experts = run(&[("experts", json!("auto:4")), ("n_init", json!(4))], &data);
    assert!(errors(&experts, &data) <= 2);
}

/// The counts of compressive search: r uniform structures, then at most r − 1 new ones a generation, none twice.
#[test]
fn compressive_search_visits_what_it_says() {
    let data = corners(120, 2.2);
    let fitted = run(&[("subclasses", json!("compressive:4")), ("generations", json!(3)), ("n_init", json!(2))], &data);
    let selection = fitted.posterior.selection().unwrap();
    let names: Vec<&String> = selection.rows.iter().map(|r| &r.0).collect();
    for uniform in ["[1,1]", "[2,2]", "[3,3]", "[4,4]"] {
        assert!(names.iter().any(|n| *n == uniform), "{names:?}");
    }
    assert!(names.len() <= 4 + 2 * 3, "{names:?}");
    let mut unique = names.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), names.len());
}

/// A fit spawns what is left of it without irrelevant subclasses, with the weights it keeps and no search for others.
#[test]
fn irrelevant_subclasses_are_dropped() {
    let data = corners(40, 1.5);
    let map = settings(&[("subclasses", json!("compressive:3"))]);
    let s: Settings = crate::model::resolve("softmax", &map).unwrap();
    let p = check::program(&s, Emission::Classes(2), Design::identity(2, true), vec![20.0, 20.0]).unwrap();
    let mut finished: Vec<State> = (1..=3)
        .map(|size| {
            let structure = Structure::Subclasses(vec![size; 2]);
            let mut state = climb_tree(&p, &data, &structure, 3, |chain, _| chain.global.clone());
            state.scores = Some(climb_tree(&p, &data, &structure, 3, |chain, _| p.score(&state, chain.rows()).unwrap()));
            state
        })
        .collect();
    // the second and third subclass of the first class, and the third of the second, are hardly used
    finished[2].scores.as_mut().unwrap().shares = vec![0.9, 18.5, 0.6, 12.0, 7.5, 0.5];
    let next = p.search.next(&p, &finished);
    assert_eq!(next.len(), 1);
    assert_eq!(next[0].job.structure, Structure::Subclasses(vec![1, 2]));
    assert_eq!((next[0].job.generation, next[0].job.search), (2, 0));
    let mean = &finished[2].q.as_ref().unwrap().nodes[0].mean;
    let Start::At(at) = &next[0].job.start else { panic!("no weights") };
    assert_eq!(at[..], [&mean[3..6], &mean[9..15]].concat()[..]);
    // without a relevant subclass the largest of a class stays
    finished[2].scores.as_mut().unwrap().shares = vec![0.3, 0.2, 0.1, 12.0, 7.5, 0.5];
    assert_eq!(p.search.next(&p, &finished)[0].job.structure, Structure::Subclasses(vec![1, 2]));
    // nothing new, or generations used up
    finished[2].scores.as_mut().unwrap().shares = vec![10.0, 10.0, 0.1, 12.0, 7.5, 0.5];
    assert!(p.search.next(&p, &finished).is_empty());
    finished[2].job.generation = 2;
    assert!(p.search.next(&p, &finished).is_empty());
}

/// A greedy search takes a step only if the score rises, and what it returns is the best it has seen.
#[test]
fn greedy_steps_raise_the_score() {
    let data = corners(100, 2.0);
    for (name, value) in [("subclasses", "auto"), ("experts", "auto:3")] {
        let fitted = run(&[(name, json!(value)), ("n_init", json!(2))], &data);
        let states = states(&fitted);
        let steps: Vec<f64> = states
            .iter()
            .filter(|s| s.job.role == Role::Fit && s.job.start == Start::Zero)
            .map(|s| s.scores.as_ref().unwrap().get(Criterion::ElboSym).unwrap())
            .collect();
        assert!(steps.len() > 1 && steps.windows(2).all(|w| w[1] > w[0] + 0.01), "{steps:?}");
        let selection = fitted.posterior.selection().unwrap();
        let column = selection.headings.iter().position(|h| *h == selection.criterion).unwrap();
        let best = selection.rows[selection.chosen].1[column].unwrap();
        assert!(selection.rows.iter().all(|r| r.1[column].unwrap() <= best));
        assert!(best >= steps[steps.len() - 1]);
    }
}

/// Searches stopped after every round, and on any number of threads, give the same bits.
#[test]
fn searches_resume_to_the_same_bits() {
    let data = corners(60, 1.8);
    for pairs in [
        vec![("subclasses", json!("auto:2")), ("n_init", json!(2))],
        vec![("experts", json!("all:2")), ("n_init", json!(3)), ("criterion", json!("cv")), ("folds", json!(2))],
        vec![("subclasses", json!("auto:2")), ("criterion", json!("cv")), ("folds", json!(2))],
        vec![("subclasses", json!("2,1")), ("n_init", json!(3)), ("anneal", json!(true))],
        vec![("experts", json!("2")), ("n_init", json!(2)), ("covariance", json!("diag"))],
        vec![("input_map", json!("auto")), ("subclasses", json!("auto:2")), ("n_init", json!(2)), ("max_iter", json!(8))],
    ] {
        let model = model(&pairs);
        let settings = RunSettings { block_rows: Some(16), ..RunSettings::default() };
        let crate::model::Prepared { fit, plan, .. } = settings.prepare(model.as_ref(), &data).unwrap();
        let with = |threads: usize, stops: bool| {
            let mut memory = Memory::default();
            let pace = Pace { threads, ..Pace::default() };
            for _ in 0..10_000 {
                let mut observer = |_: &[ChainProgress]| if stops { Next::Stop } else { Next::Continue };
                let ending = drive(fit.program(), &data, &plan, pace, &mut memory, &mut observer).unwrap();
                if ending == crate::run::Ending::Complete {
                    break;
                }
            }
            memory.chains.iter().map(|c| (c.checkpoint.clone(), c.trace.clone())).collect::<Vec<_>>()
        };
        let one = with(1, false);
        assert!(one.len() > 2 && one == with(3, false), "{pairs:?}: threads");
        assert!(one == with(2, true), "{pairs:?}: stops");
    }
}

/// Who watches a search is told what each chain tries; where there is nothing to choose, nothing is said.
#[test]
fn a_search_says_what_it_tries() {
    let data = corners(60, 1.8);
    let told = |pairs: &[(&str, Value)]| {
        let mut told = std::collections::BTreeSet::new();
        let mut observer = |chains: &[ChainProgress]| {
            told.extend(chains.iter().filter_map(|c| c.works_on.clone()));
            Next::Continue
        };
        fit(model(pairs).as_ref(), &data, &RunSettings::default(), &mut observer).unwrap();
        told.into_iter().collect::<Vec<String>>()
    };
    let few = ("max_iter", json!(5));
    assert_eq!(told(&[("experts", json!("all:2")), few.clone()]), ["1 expert", "2 experts"]);
    let subclasses = told(&[("subclasses", json!("auto:2")), few.clone()]);
    assert!(subclasses.contains(&"subclasses [1,1]".to_string()) && subclasses.contains(&"subclasses [2,1]".to_string()), "{subclasses:?}");
    let maps = told(&[("input_map", json!("auto")), few.clone()]);
    assert!(maps.contains(&"none".to_string()) && maps.contains(&"polynomial:2".to_string()), "{maps:?}");
    assert_eq!(told(&[few]), [] as [&str; 0]);
}

/// The published criterion has the wrong sign: it is shown only where it was asked for.
#[test]
fn the_published_criterion_is_shown_where_it_decides() {
    let data = corners(60, 1.8);
    for (criterion, shown) in [("elbo-sym", false), ("paper", true)] {
        let fitted =
            run(&[("experts", json!("all:2")), ("n_init", json!(1)), ("max_iter", json!(20)), ("criterion", json!(criterion))], &data);
        let selection = fitted.posterior.selection().unwrap();
        assert_eq!(selection.headings.contains(&"paper".to_string()), shown, "{:?}", selection.headings);
        assert!(selection.rows.iter().all(|(_, figures)| figures.len() == selection.headings.len()));
    }
}

#[test]
fn cross_validation_prefers_what_predicts() {
    let data = corners(120, 1.5);
    let fitted = run(&[("experts", json!("all:2")), ("criterion", json!("cv")), ("folds", json!(3)), ("n_init", json!(2))], &data);
    let selection = fitted.posterior.selection().unwrap();
    assert_eq!(selection.rows[selection.chosen].0, "2 experts");
    let column = |name: &str| selection.headings.iter().position(|h| h == name).unwrap();
    let (cv, error) = (column("cv"), column("cv error"));
    assert!(selection.rows[1].1[cv].unwrap() > selection.rows[0].1[cv].unwrap() + 0.2);
    assert!(selection.rows[1].1[error].unwrap() < 0.1 && selection.rows[0].1[error].unwrap() > 0.3);
    // folds leave the fits of all rows alone
    let plain = run(&[("experts", json!("all:2")), ("n_init", json!(2))], &data);
    let elbo = column("elbo");
    let other = plain.posterior.selection().unwrap();
    assert_eq!(selection.rows[1].1[elbo], other.rows[1].1[elbo]);
}

/// Held-out rows lead: what is chosen predicts them best, and the fit without a fold begins at the fit of the step before without it.
#[test]
fn a_search_led_by_prediction_takes_what_predicts() {
    let data = corners(120, 1.8);
    for (name, value) in [("subclasses", "auto:4"), ("experts", "auto:4")] {
        let fitted = run(&[(name, json!(value)), ("criterion", json!("cv")), ("folds", json!(3))], &data);
        assert!(errors(&fitted, &data) <= 4, "{name}: {}", errors(&fitted, &data));
        assert!(fitted.posterior.summary().converged);
        let selection = fitted.posterior.selection().unwrap();
        let column = |name: &str| selection.headings.iter().position(|h| h == name).unwrap();
        let cv: Vec<f64> = selection.rows.iter().filter_map(|r| r.1[column("cv")]).collect();
        let best = selection.rows[selection.chosen].1[column("cv")].unwrap();
        assert!(cv.len() > 2 && best > cv[0] + 0.3, "{name}: {cv:?}");
        let map = settings(&[(name, json!(value)), ("criterion", json!("cv")), ("folds", json!(3))]);
        let s: Settings = crate::model::resolve("softmax", &map).unwrap();
        let program = check::program(&s, Emission::Classes(2), Design::identity(2, true), vec![60.0, 60.0]).unwrap();
        let states = states(&fitted);
        let ended: Vec<String> = states.iter().filter(|s| s.job.generation == u32::MAX).map(|s| s.job.structure.describe()).collect();
        assert_eq!(ended, [selection.rows[selection.chosen].0.clone()], "{name}");
        // the others were not brought to their end: one that is ahead by what folds cannot tell is not taken
        let table = program.search.table(&states);
        let taken: Vec<String> = table.iter().filter(|c| !c.trial).map(|c| c.structure.describe()).collect();
        assert_eq!(taken, ended, "{name}");
        let steps: Vec<&State> = states.iter().filter(|s| s.job.role == Role::Fit && s.job.generation < 3).collect();
        assert_eq!(steps.len(), 2 * 4, "{name}");
        for (before, after) in steps[..4].iter().zip(&steps[4..]) {
            assert_eq!(before.job.fold, after.job.fold);
            let Start::At(at) = &after.job.start else { panic!("{name}: a step without weights to begin at") };
            // all weights are there, or as the middle of two beside each other, but for the bias: those of the same fold
            let old = before.parameters(&program);
            let middle = |pair: &[f64], w: &[f64]| (0..2).all(|j| (0.5 * (pair[j] + pair[j + 3]) - w[j]).abs() < 1e-9);
            let found = |w: &[f64]| at.chunks_exact(3).any(|v| v == w) || at.windows(6).step_by(3).any(|pair| middle(pair, w));
            assert!(old.chunks_exact(3).all(found), "{name}: {old:?} {at:?}");
        }
    }
}

/// The chosen structure goes on in stages, all rows and all folds alike, for as long as that predicts better; the best stage is what is told.
#[test]
fn a_search_led_by_prediction_ends_where_it_predicts_best() {
    // one class between the two halves of the other, labels that are often wrong, and columns that say nothing: many weights to be unsure of
    let rows = 120;
    let x: Vec<f64> = pseudo(8 * rows, 6).iter().map(|v| 2.0 * v).collect();
    let noise = pseudo(rows, 7);
    let codes: Vec<u32> = (0..rows).map(|i| u32::from(x[8 * i].abs() + 0.4 * noise[i] > 1.0)).collect();
    let noisy = Dataset::new(Matrix::dense(rows, 8, x)).with_target(classes(&codes, 2));
    for (data, columns) in [(&noisy, 8), (&corners(120, 1.8), 2)] {
        let pairs = [("subclasses", json!("auto:2")), ("input_map", json!("none")), ("folds", json!(3)), ("tol", json!(1e-9))];
        let fitted = run(&pairs, data);
        let s: Settings = crate::model::resolve("softmax", &settings(&pairs)).unwrap();
        let half = data.rows() as f64 / 2.0;
        let program = check::program(&s, Emission::Classes(2), Design::identity(columns, true), vec![half, half]).unwrap();
        let states = states(&fitted);
        let ended = states.last().unwrap();
        assert_eq!(ended.job.generation, u32::MAX);
        let mut stages: Vec<(u64, f64, &State)> = Vec::new();
        for of_stage in states.iter().filter(|s| s.job.role == Role::Fit && s.job.generation != u32::MAX).collect::<Vec<_>>().chunks(4) {
            assert!(
                of_stage.iter().all(|s| s.job.structure == of_stage[0].job.structure && s.job.generation == of_stage[0].job.generation)
            );
            let folds: Vec<u32> = of_stage[1..].iter().map(|s| s.job.fold.unwrap().index).collect();
            assert!(of_stage[0].job.fold.is_none() && folds == [0, 1, 2]);
            let held_out = of_stage[1..].iter().map(|s| s.scores.as_ref().unwrap().held_out.unwrap().ln_likelihood).sum();
            if of_stage[0].job.structure == ended.job.structure {
                stages.push((of_stage[0].ascents, held_out, of_stage[0]));
            }
        }
        let best = stages.iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
        let sweeps: Vec<u64> = stages.iter().map(|s| s.0).collect();
        let doubled = |w: &[(u64, f64, &State)]| w[1].0 == (2 * w[0].0).min(s.max_iter) || w[1].2.standing != Standing::Running;
        assert!(stages.len() > 1 && stages.windows(2).all(doubled), "{sweeps:?}");
        // all stages but the last predict better than the one before
        let risen = stages.windows(2).map(|w| w[1].1 > w[0].1).collect::<Vec<_>>();
        assert!(risen[..risen.len() - 1].iter().all(|r| *r), "{risen:?}");
        assert_eq!((ended.q.as_ref(), ended.bound), (best.2.q.as_ref(), best.2.bound));
        assert!(ended.standing != Standing::Running);
        let table = program.search.table(&states);
        let chosen = &table[program.search.best(&table).unwrap()];
        assert_eq!((chosen.chain, chosen.scores.held_out.unwrap().ln_likelihood), (states.len() - 1, best.1));
        assert!(fitted.posterior.summary().converged);
    }
}

/// `auto` is cross-validation where classes are split, and the bound where it was asked for what only searches by the bound have.
#[test]
fn the_criterion_goes_by_what_is_searched() {
    let found = |pairs: &[(&str, Value)]| {
        let s: Settings = crate::model::resolve("softmax", &settings(pairs)).unwrap();
        s.search(Emission::Classes(2)).unwrap().criterion
    };
    assert_eq!(found(&[("subclasses", json!("auto"))]), Criterion::Cv);
    assert_eq!(found(&[("experts", json!("auto:3")), ("folds", json!(3))]), Criterion::Cv);
    for (name, value) in [("n_init", json!(3)), ("n_vb", json!(1)), ("anneal", json!(true)), ("relevance", json!(0.1))] {
        assert_eq!(found(&[("subclasses", json!("auto")), (name, value)]), Criterion::ElboSym, "{name}");
    }
    assert_eq!(found(&[("subclasses", json!("auto")), ("criterion", json!("bic"))]), Criterion::Bic);
    for pairs in
        [vec![], vec![("experts", json!("all:3"))], vec![("subclasses", json!("compressive:3"))], vec![("task", json!("regression"))]]
    {
        assert_eq!(found(&pairs), Criterion::ElboSym, "{pairs:?}");
    }
    let gibbs = |criterion: &str| settings(&[("inference", json!("gibbs")), ("criterion", json!(criterion))]);
    assert!(family("softmax").unwrap().configure(&gibbs("elbo-sym")).is_ok(), "as runs say that were begun when this was the default");
    assert!(family("softmax").unwrap().configure(&gibbs("cv")).is_err());
    let used = |pairs: &[(&str, Value)]| family("softmax").unwrap().configure(&settings(pairs)).unwrap().settings_in_use();
    assert_eq!(used(&[]), used(&[("criterion", json!("elbo-sym"))]));
    assert_eq!(used(&[("experts", json!("auto"))])["criterion"], json!("cv"));
}

/// Rows left out by weighing draws agree with rows that are left out; those that were seen are predicted better.
#[test]
fn rows_left_out_by_weights_are_as_good_as_left_out() {
    let rows = 40;
    let x = pseudo(2 * rows, 8);
    let noise = pseudo(rows, 3);
    let codes: Vec<u32> = (0..rows).map(|i| u32::from(x[2 * i] - 0.5 * x[2 * i + 1] + 0.8 * noise[i] > 0.0)).collect();
    let data = Dataset::new(Matrix::dense(rows, 2, x)).with_target(classes(&codes, 2));
    let plain = [("precision", json!("fixed")), ("prior_precision", json!(0.3)), ("standardize", json!(false)), ("tol", json!(1e-8))];
    let loo = run(&[&plain[..], &[("criterion", json!("loo"))]].concat(), &data);
    let selection = loo.posterior.selection().unwrap();
    let column = selection.headings.iter().position(|h| h == "loo").unwrap();
    let found = selection.rows[0].1[column].unwrap();
    let ln = |p: &[f64], row: usize| p[2 * row + codes[row] as usize].ln();
    let exact = (0..rows).map(|row| {
        let mut others = data.clone();
        others.weights = Some((0..rows).map(|i| f64::from(i != row)).collect());
        ln(&run(&plain, &others).posterior.predict(&data, "mc").unwrap().probability, row)
    });
    let exact = exact.sum::<f64>() / rows as f64;
    let seen = loo.posterior.predict(&data, "mc").unwrap().probability;
    let seen = (0..rows).map(|row| ln(&seen, row)).sum::<f64>() / rows as f64;
    // 200 draws a row whose likelihoods vary by about a third: 0.33/√(200·40)
    assert!((found - exact).abs() < 4.0 * 0.004 && seen > exact + 0.03, "{found} {exact} {seen}");
}

#[test]
fn annealing_finds_subclasses_from_random_starts() {
    let data = corners(120, 1.5);
    let fitted = run(&[("subclasses", json!("2,2")), ("anneal", json!(true)), ("n_init", json!(6))], &data);
    let plain = run(&[("subclasses", json!("2,2"))], &data);
    assert!(errors(&fitted, &data) <= 2, "{}", errors(&fitted, &data));
    let elbo = |f: &Fitted| f.posterior.arrays().iter().find(|a| a.name == "elbo").unwrap().values[0];
    assert!(elbo(&fitted) > elbo(&plain) - 3.0, "{} {}", elbo(&fitted), elbo(&plain));
    // within a stage the objective of its temperature never falls
    for chain in &fitted.kept.chains {
        for pair in chain.trace.windows(2) {
            let beta = |t: &(u64, crate::run::Report)| t.1.extras.iter().find(|e| e.0 == "beta").unwrap().1;
            if beta(&pair[0]) == 1.0 && beta(&pair[1]) == 1.0 {
                assert!(pair[1].1.objective >= pair[0].1.objective - 1e-9 * (1.0 + pair[0].1.objective.abs()));
            }
        }
    }
}

#[test]
fn regression_chooses_the_number_of_lines() {
    let rows = 80;
    let x: Vec<f64> = (0..rows).map(|i| -2.0 + 4.0 * i as f64 / (rows - 1) as f64).collect();
    let noise = pseudo(rows, 9);
    let y: Vec<f64> = x.iter().zip(&noise).map(|(x, e)| if *x < 0.0 { 100.0 - 30.0 * x } else { 100.0 + 20.0 * x } + 3.0 * e).collect();
    let data = Dataset::new(Matrix::dense(rows, 1, x)).with_target(Target::Real { width: 1, values: y.clone() });
    let fitted = run(&[("task", json!("regression")), ("n_init", json!(4))], &data);
    let selection = fitted.posterior.selection().unwrap();
    assert_eq!(selection.rows[selection.chosen].0, "2 experts", "{:?}", selection.rows);
    let p = fitted.posterior.predict_real(&data, &[0.05, 0.5, 0.95], "").unwrap();
    let mse: f64 = p.mean.iter().zip(&y).map(|(m, y)| (m - y).powi(2)).sum::<f64>() / rows as f64;
    assert!(mse.sqrt() < 3.0, "{mse}");
    let covered = (0..rows).filter(|&i| y[i] > p.quantiles[0][i] && y[i] < p.quantiles[2][i]).count();
    assert!(covered >= 64, "{covered}");
    assert!((0..rows).all(|i| p.quantiles[0][i] < p.quantiles[1][i] && p.quantiles[1][i] < p.quantiles[2][i]));
    // sure of the rows' density: better than one line
    let line = run(&[("task", json!("regression")), ("experts", json!("1"))], &data);
    let total = |f: &Fitted| f.posterior.predict_real(&data, &[], "").unwrap().ln_density.unwrap().iter().sum::<f64>();
    assert!(total(&fitted) > total(&line) + 20.0);
    let shares = fitted.posterior.responsibilities(&data).unwrap();
    assert_eq!(shares.names, ["expert 1", "expert 2"]);
    assert!(shares.share.chunks(2).all(|s| (s[0] + s[1] - 1.0).abs() < 1e-12));
    let slopes = fitted.posterior.arrays().iter().find(|a| a.name == "expert_coef").unwrap().values.clone();
    let (low, high) = (slopes[0].min(slopes[1]), slopes[0].max(slopes[1]));
    assert!((low - -30.0).abs() < 3.0 && (high - 20.0).abs() < 3.0, "{slopes:?}");
}

#[test]
fn policies_are_read_from_settings() {
    let search = |pairs: &[(&str, Value)]| -> Search {
        let map = settings(pairs);
        let s: Settings = crate::model::resolve("softmax", &map).unwrap();
        s.search(Emission::Classes(2)).unwrap()
    };
    assert!(matches!(search(&[]).policy, Policy::All(s) if s == [Structure::Subclasses(vec![1, 1])]));
    assert!(matches!(search(&[("subclasses", json!("3"))]).policy, Policy::All(s) if s == [Structure::Subclasses(vec![3, 3])]));
    assert!(matches!(search(&[("subclasses", json!("auto"))]).policy, Policy::GreedySubclasses { classes: 2, most: 10, .. }));
    assert_eq!(search(&[("experts", json!("all:3"))]).first().len(), 1 + 2 * 10);
    let say = |pairs: &[(&str, Value)]| family("softmax").unwrap().configure(&settings(pairs)).err().unwrap().to_string();
    assert!(say(&[("subclasses", json!("2,x"))]).contains("compressive"));
    assert!(say(&[("subclasses", json!("2,2")), ("experts", json!("2"))]).contains("left out"));
    assert!(say(&[("experts", json!("compressive:3"))]).contains("auto"));
    assert!(say(&[("gates", json!(["gate"]))]).contains("expert"));
    assert!(say(&[("covariance", json!("block:0"))]).contains("lowrank"));
    assert!(say(&[("bound", json!("bohning")), ("precision", json!("entry"))]).contains("node"));
    assert!(say(&[("generations", json!(3)), ("subclasses", json!("3,2"))]).contains("compressive"));
    assert!(say(&[("relevance", json!(0.1)), ("experts", json!("auto"))]).contains("compressive"));
    assert!(say(&[("folds", json!(3))]).contains("cv"));
    assert!(say(&[("experts", json!("auto")), ("criterion", json!("cv")), ("n_init", json!(3))]).contains("leads the search"));
    assert!(say(&[("subclasses", json!("auto")), ("criterion", json!("cv")), ("relevance", json!(0.2))]).contains("leads the search"));
    assert!(say(&[("input_map", json!("auto")), ("inference", json!("gibbs"))]).contains("compares several"));
    assert!(say(&[("input_map", json!("auto")), ("inference", json!("map"))]).contains("compares several"));
    assert!(say(&[("noise_rate", json!(3.0))]).contains("regression"));
    assert!(say(&[("max_iter", json!(3)), ("inference", json!("map"))]).contains("map"));
    assert!(say(&[("task", json!("regression")), ("subclasses", json!("2,2"))]).contains("experts"));
    let data = corners(20, 1.0);
    let error = model(&[("subclasses", json!("1,2,3"))]).bind(&data).err().unwrap().to_string();
    assert!(error.contains("2 and not 3"), "{error}");
    let error = model(&[("bound", json!("jj")), ("subclasses", json!("2,1"))]).bind(&data).err().unwrap().to_string();
    assert!(error.contains("3 children"), "{error}");
}

/// Class weights are sample weights, and inputs maps are columns.
#[test]
fn class_weights_and_input_maps() {
    let mut data = corners(60, 1.5);
    let Target::Classes(c) = &mut data.target else { panic!() };
    (0..60).filter(|i| i % 8 == 1).for_each(|i| c.codes[i] = 0);
    let counts = [c.codes.iter().filter(|k| **k == 0).count() as f64, c.codes.iter().filter(|k| **k == 1).count() as f64];
    let codes = c.codes.clone();
    let balanced = run(&[("class_weight", json!("balanced")), ("experts", json!("2")), ("n_init", json!(3))], &data);
    let mut weighted = data.clone();
    weighted.weights = Some(codes.iter().map(|k| 30.0 / counts[*k as usize]).collect());
    let same = run(&[("experts", json!("2")), ("n_init", json!(3))], &weighted);
    let elbo = |f: &Fitted| f.posterior.arrays().iter().find(|a| a.name == "elbo").unwrap().values[0];
    assert!((elbo(&balanced) - elbo(&same)).abs() < 1e-8 * elbo(&same).abs(), "{} {}", elbo(&balanced), elbo(&same));

    let data = corners(120, 1.5);
    let mapped = run(&[("input_map", json!("polynomial:2"))], &data);
    assert!(errors(&mapped, &data) <= 2);
    let fourier = run(&[("input_map", json!("fourier:60"))], &data);
    assert!(errors(&fourier, &data) <= 4, "{}", errors(&fourier, &data));
    // the bound prefers the map that fits
    assert!(elbo(&mapped) > elbo(&run(&[], &data)) + 20.0);
    assert!(mapped.posterior.summary().rows().iter().any(|r| r.0.contains('*')), "{:?}", mapped.posterior.summary().rows());
    let loaded = Softmax.load(&mapped.posterior.save().unwrap()).unwrap();
    assert_eq!(loaded.predict(&data, "").unwrap(), mapped.posterior.predict(&data, "").unwrap());
}

/// Degenerate data with every structure: a finite answer.
#[test]
fn hostile_data_with_trees() {
    let line: Vec<f64> = (0..24).map(|i| i as f64 - 11.5).collect();
    let halves: Vec<u32> = (0..24).map(|i| (i >= 12) as u32).collect();
    let mut lonely = halves.clone();
    lonely[5] = 2;
    let doubled: Vec<f64> = line.iter().flat_map(|v| [*v, *v]).collect();
    let cases = [
        ("separable", Dataset::new(Matrix::dense(24, 1, line.clone())).with_target(classes(&halves, 2))),
        ("duplicated columns", Dataset::new(Matrix::dense(24, 2, doubled)).with_target(classes(&halves, 2))),
        ("a class with one row", Dataset::new(Matrix::dense(24, 1, line.clone())).with_target(classes(&lonely, 3))),
        ("more columns than rows", Dataset::new(Matrix::dense(6, 15, pseudo(90, 3))).with_target(classes(&[0, 1, 0, 1, 1, 0], 2))),
        ("two rows", Dataset::new(Matrix::dense(2, 1, vec![0.0, 1.0])).with_target(classes(&[0, 1], 2))),
    ];
    for (name, data) in &cases {
        for pairs in [
            vec![("subclasses", json!("2"))],
            vec![("subclasses", json!("auto:3"))],
            vec![("subclasses", json!("auto:3")), ("criterion", json!("cv"))],
            vec![("experts", json!("auto:3")), ("criterion", json!("cv"))],
            vec![("experts", json!("3"))],
            vec![("gates", json!([2, "expert"]))],
            vec![("experts", json!("2")), ("bound", json!("double"))],
            vec![("experts", json!("2")), ("bound", json!("bohning"))],
            vec![("subclasses", json!("2")), ("covariance", json!("diag"))],
            vec![("subclasses", json!("2")), ("covariance", json!("lowrank:1"))],
            vec![("experts", json!("2")), ("coding", json!("logistic"))],
            vec![("experts", json!("2")), ("inference", json!("map"))],
        ] {
            let mut all = pairs.clone();
            if !pairs.iter().any(|p| p.0 == "criterion") {
                all.push(("n_init", json!(2)));
            }
            if !pairs.iter().any(|p| p.0 == "inference") {
                all.push(("max_iter", json!(60)));
            }
            let fitted = run(&all, data);
            for method in ["probit", "mc", "map"] {
                let p = fitted.posterior.predict(data, method).unwrap().probability;
                assert!(p.iter().all(|p| p.is_finite()), "{name} {pairs:?} {method}");
            }
            fitted.posterior.summary();
            assert!(fitted.posterior.arrays().iter().all(|a| a.values.iter().all(|v| v.is_finite())), "{name} {pairs:?}");
        }
    }
    let flat = Dataset::new(Matrix::dense(10, 1, pseudo(10, 2))).with_target(Target::Real { width: 1, values: vec![4.0; 10] });
    let fitted = run(&[("task", json!("regression")), ("experts", json!("2")), ("n_init", json!(2))], &flat);
    let p = fitted.posterior.predict_real(&flat, &[0.5], "").unwrap();
    assert!(p.mean.iter().all(|m| (m - 4.0).abs() < 0.1), "{:?}", p.mean);
}
