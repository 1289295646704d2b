//! Steps against sweeps, passes against ascents, and streams.

use serde_json::{Map, Value, json};

use super::*;
use crate::answer::LabelRule;
use crate::data::{Dataset, LabelSets, Target, blocks};
use crate::model::labels::settings::Settings;
use crate::model::{RunSettings, Truth, family, fit, resolve};
use crate::run::{Merge, Unobserved};
use crate::score::LabelScores;

fn map(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

fn simulated(settings: &Value, request: Value, rows: usize, more: usize, seed: u64) -> (Dataset<'static>, Dataset<'static>) {
    let model = family("labels").unwrap().configure(&map(settings)).unwrap();
    let first = model.simulate(rows, &map(&request), seed).unwrap();
    let later = model.simulate_more(more, &map(&request), &Truth::new(&first.truth), seed + 1).unwrap();
    (first.data, later.data)
}

fn fitted(settings: &Value, data: &Dataset<'_>) -> crate::model::Fitted {
    let model = family("labels").unwrap().configure(&map(settings)).unwrap();
    fit(model.as_ref(), data, &RunSettings::default().seed(3).block_rows(64), &mut Unobserved).unwrap()
}

fn labels<'a>(data: &'a Dataset<'_>) -> &'a LabelSets {
    let Target::Labels(l) = &data.target else { panic!("no labels") };
    l
}

fn array(posterior: &dyn crate::answer::Posterior, name: &str) -> Vec<f64> {
    posterior.arrays().into_iter().find(|a| a.name == name).unwrap().values
}

fn log_loss(posterior: &dyn crate::answer::Posterior, test: &Dataset<'_>) -> f64 {
    let predicted = posterior.predict_labels(test, &LabelRule::default()).unwrap();
    let truth = labels(test);
    LabelScores::of(&predicted, &truth.values, truth.names.len()).log_loss.unwrap()
}

/// A step with all rows and nothing kept of earlier ones is a sweep, for every coupling; and sums of minibatches, scaled, average to those of
/// all rows.
#[test]
fn a_step_with_all_rows_is_a_sweep() {
    for settings in [json!({}), json!({ "coupling": "and" }), json!({ "coupling": "cut" }), json!({ "features": "multinomial" })] {
        let (data, _) = simulated(&settings, json!({ "unknown": 0.2 }), 60, 1, 8);
        let mut given = map(&settings);
        given.insert("inference".into(), "svi".into());
        let s: Settings = resolve("labels", &given).unwrap();
        let survey = crate::run::survey(&data, &family("labels").unwrap().configure(&given).unwrap().questions(), Some(20)).unwrap();
        let schema = Schema::of(&survey, &s).unwrap().0;
        let program = Svi::new(&schema, &s, None).unwrap();
        assert!(!program.rowwise());
        let mixture = &program.mixture;
        let mut scratch = Scratch::default();
        let centres: Vec<f64> = {
            let gathered = blocks(&data, 60).iter().map(|b| mixture.gather(60, 1, b, &mut scratch)).next().unwrap();
            mixture.centres(&gathered, 4, &mut crate::dist::testing::rng(1))
        };
        let mut q = mixture.start(4);
        let view = mixture.labels.view(&q.labels);
        let mut sums = Sums::default();
        for block in blocks(&data, 20) {
            sums.merge(mixture.visit_with(&view, 4, &block, &mut scratch, |x, r| mixture.nearest(&centres, x, r)));
        }
        mixture.update(&mut q, &mut sums).unwrap();
        let view = mixture.view(&q);
        let parts: Vec<Sums> = blocks(&data, 20).iter().map(|b| mixture.visit(&view, b, &mut scratch)).collect();
        let whole = parts
            .iter()
            .cloned()
            .reduce(|mut a, b| {
                a.merge(b);
                a
            })
            .unwrap();
        let labels = program.rates.len();
        let mut state = State { q: q.clone(), stream: Stream::new(labels, 60), passes: 0, score: 0.0, seen: Default::default() };
        state.stream.sums = sums;
        program.absorb(&mut state, whole.clone(), Default::default(), (0.0, 1.0), &vec![(0.0, 1.0); labels]).unwrap();
        let mut swept = q.clone();
        mixture.update(&mut swept, &mut whole.clone()).unwrap();
        assert_eq!(state.q, swept, "{settings}");
        // thirds of the rows, three times each, are all of them three times
        let mut average = Sums::default();
        for mut part in parts {
            part.scale(3.0, &vec![3.0; labels]);
            average.merge(part);
        }
        average.scale(1.0 / 3.0, &vec![1.0 / 3.0; labels]);
        let mut averaged = q.clone();
        mixture.update(&mut averaged, &mut average).unwrap();
        for (a, b) in averaged.counts.iter().zip(&swept.counts) {
            assert!((a - b).abs() < 1e-9);
        }
        assert!(near(&averaged.labels, &swept.labels), "{settings}");
    }
}

/// A program of some rows, what a start says of them, and what a pass does, with so many components.
fn begun(settings: &Value, components: usize) -> (Svi, State, Dataset<'static>) {
    let (data, _) = simulated(&json!({}), json!({ "unknown": 0.2 }), 60, 1, 8);
    let given = map(settings);
    let s: Settings = resolve("labels", &given).unwrap();
    let survey = crate::run::survey(&data, &family("labels").unwrap().configure(&given).unwrap().questions(), Some(20)).unwrap();
    let program = Svi { components, ..Svi::new(&Schema::of(&survey, &s).unwrap().0, &s, None).unwrap() };
    let mut scratch = Scratch::default();
    let whole = &blocks(&data, 60)[0];
    let centres = {
        let gathered = program.mixture.gather(60, 1, whole, &mut scratch);
        program.mixture.centres(&gathered, components, &mut crate::dist::testing::rng(1))
    };
    let q = program.mixture.start(components);
    let labels = program.mixture.labels.view(&q.labels);
    let stream = Random::new(1, 0, crate::run::Purpose::Check);
    let ask = Ask::Start { centres: Cow::Owned(centres), labels: Cow::Owned(labels) };
    let Stats { sums, past, .. } = program.visit(&ask, whole, &mut (), &mut scratch, stream).unwrap();
    let count = program.rates.len();
    let mut state = State { q, stream: Stream::new(count, 60), passes: 0, score: 0.0, seen: Default::default() };
    program.absorb(&mut state, sums, past, (0.0, 1.0), &vec![(0.0, 1.0); count]).unwrap();
    (program, state, data)
}

/// What all rows say under a view.
fn passed(program: &Svi, data: &Dataset<'_>, view: View) -> Stats {
    let stream = Random::new(1, 0, crate::run::Purpose::Check);
    program.visit(&Ask::Pass(Cow::Owned(view)), &blocks(data, 60)[0], &mut (), &mut Scratch::default(), stream).unwrap()
}

fn near(a: &impl Serialize, b: &impl Serialize) -> bool {
    let [a, b] = [serde_json::to_value(a).unwrap(), serde_json::to_value(b).unwrap()].map(|v| numbers(&v));
    a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| (a - b).abs() <= 1e-8 * (1.0 + b.abs()))
}

/// A step ends in the same place whatever components were called before it, and averages what is kept for labels that come later.
#[test]
fn names_of_components_do_not_matter() {
    for form in ["full", "diagonal"] {
        let settings = json!({ "inference": "svi", "covariance": form, "history": "negative" });
        let (program, state, data) = begun(&settings, 4);
        let mixture = &program.mixture;
        assert_eq!(program.rowwise(), form == "diagonal");
        let (order, size) = ([2, 0, 3, 1], mixture.kernel.size());
        let found = passed(&program, &data, mixture.view(&state.q));
        let (mut one, mut other) = (state.clone(), state.clone());
        other.q.labels.permute(&order);
        other.stream.sums.permute(&order, size);
        other.stream.past.permute(&order);
        let ln_weights = state.q.sticks.ln_weights();
        let view = View {
            ln_weights: order.iter().map(|&k| ln_weights[k]).collect(),
            table: mixture.kernel.expected(&order.map(|k| state.q.components[k].clone())),
            labels: mixture.labels.view(&other.q.labels),
        };
        let renamed = passed(&program, &data, view);
        let (step, steps) = ((0.6, 1.7), vec![(0.6, 1.7); program.rates.len()]);
        program.absorb(&mut one, found.sums.clone(), found.past.clone(), step, &steps).unwrap();
        program.absorb(&mut other, renamed.sums, renamed.past, step, &steps).unwrap();
        assert!(near(&one.q, &other.q), "{form}");
        assert!(near(&one.stream.past, &other.stream.past), "{form}");
        let sum = |stats: &logit::Stats| {
            let tables = serde_json::to_value(stats).unwrap();
            ["gram", "cross", "mass", "response", "pattern_response"].iter().flat_map(|t| numbers(&tables[t])).sum::<f64>()
        };
        let expected = 0.6 * sum(&state.stream.past) + 1.7 * sum(&found.past);
        assert!((sum(&one.stream.past) - expected).abs() <= 1e-9 * expected.abs(), "{form}");
        assert_eq!(expected == 0.0, form == "diagonal", "matrices keep sums, rows keep squares");
    }
}

/// A label that came later counts rows and steps from then on, unless all rows before are taken to lack it.
#[test]
fn later_labels_have_clocks_of_their_own() {
    for history in ["missing", "negative"] {
        let settings = json!({ "inference": "svi", "history": history });
        let (program, mut state, data) = begun(&settings, 3);
        let found = passed(&program, &data, program.mixture.view(&state.q));
        program.step(&mut state, found).unwrap();
        let (labels, common) = (program.rates.len(), state.stream.clock);
        assert_eq!((common.steps, common.rows), (1, 60.0));
        let mut wider = program.mixture.clone();
        let LabelPart::Logit(part) = &mut wider.labels else { panic!("not logit") };
        part.labels += 1;
        let history = if history == "missing" { HistoryKind::Missing } else { HistoryKind::Negative };
        state.add_labels(&wider, history, labels + 1).unwrap();
        state.stream.more_rows(40);
        assert!(state.stream.labels[..labels].iter().all(|c| (c.steps, c.rows) == (1, 100.0)));
        let expected = if history == HistoryKind::Missing { (0, 40.0) } else { (1, 100.0) };
        assert_eq!((state.stream.labels[labels].steps, state.stream.labels[labels].rows), expected);
    }
}

fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Number(n) => vec![n.as_f64().unwrap()],
        Value::Array(a) => a.iter().flat_map(numbers).collect(),
        Value::Object(o) => o.values().flat_map(numbers).collect(),
        _ => Vec::new(),
    }
}

/// New rows are predicted nearly as well as after an ascent over all rows, by every coupling and by rows instead of matrices.
#[test]
fn minibatches_predict_nearly_as_well_as_all_rows() {
    // weights of ordinary size: an ascent to large ones takes many sweeps, and as many passes
    let prior = json!({ "precision_shape": 50, "precision_rate": 10, "bias_precision": 1, "mean_strength": 1 });
    for more in [
        json!({}),
        json!({ "coupling": "and" }),
        json!({ "coupling": "cut" }),
        json!({ "covariance": "diagonal" }),
        json!({ "coupling": "and", "covariance": "diagonal" }),
        json!({ "coupling": "cut", "covariance": "diagonal" }),
        json!({ "coupling": "cut", "classifier": "svm", "covariance": "diagonal" }),
    ] {
        let mut simulate = map(&prior);
        simulate.extend(map(&more));
        simulate.remove("covariance");
        simulate.remove("classifier");
        let (train, test) = simulated(&Value::Object(simulate), json!({ "unknown": 0.1 }), 3_000, 1_000, 21);
        let mut svi = map(&more);
        svi.extend(map(&json!({ "inference": "svi", "components": 10, "passes": 8 })));
        let mut vb = map(&more);
        if vb.contains_key("coupling") {
            vb.remove("covariance");
        }
        vb.extend(map(&json!({ "components": 10, "n_init": 1, "tol": 1e-5 })));
        let (svi, vb) = (fitted(&Value::Object(svi), &train), fitted(&Value::Object(vb), &train));
        // the hinge is no likelihood, and says little of log losses: there labels that are wrong are counted
        let loss = |of: &crate::model::Fitted| {
            let predicted = of.posterior.predict_labels(&test, &LabelRule::default()).unwrap();
            let scores = LabelScores::of(&predicted, &labels(&test).values, labels(&test).names.len());
            let loss = if more.get("classifier").is_some() { scores.hamming_loss } else { scores.log_loss };
            loss.unwrap()
        };
        let (a, b) = (loss(&svi), loss(&vb));
        assert!(a < b + 0.01, "{more}: {a} by minibatches, {b} by all rows");
        if more.get("classifier").is_none() {
            // what is told on the way is about what new rows will show
            let told = array(svi.posterior.as_ref(), "mean_log_probability")[0];
            assert!((told + a).abs() < 0.05, "{more}: {told} was told, {a} is lost");
        }
    }
}

/// With a share of earlier rows kept, every row counts as often as its age says.
#[test]
fn decay_counts_rows_by_their_age() {
    let (train, _) = simulated(&json!({}), json!({}), 640, 1, 5);
    // ten blocks in batches of three: the last has four
    let uneven = 192.0 * 0.25 + 192.0 * 0.5 + 256.0;
    for (batch_rows, expected) in [(64, (0..10).map(|age| 64.0 * 0.5f64.powi(age)).sum()), (192, uneven)] {
        let settings = json!({ "inference": "svi", "components": 5, "decay": 0.5, "batch_rows": batch_rows });
        let model = family("labels").unwrap().configure(&map(&settings)).unwrap();
        let found = fit(model.as_ref(), &train, &RunSettings::default().block_rows(64), &mut Unobserved).unwrap();
        let rows: f64 = array(found.posterior.as_ref(), "component_rows").iter().sum();
        assert!((rows - expected).abs() < 1e-9 * expected, "{rows} {expected}");
    }
}

/// Rows from..to with the first so many of their labels.
fn part(data: &Dataset<'_>, rows: std::ops::Range<usize>, names: std::ops::Range<usize>) -> Dataset<'static> {
    let (truth, width) = (labels(data), data.x.cols());
    let crate::data::X::Dense { values, .. } = data.x.slice(rows.clone()) else { panic!("not dense") };
    let all = truth.names.len();
    let values_of_labels = rows.clone().flat_map(|i| truth.values[i * all + names.start..i * all + names.end].to_vec()).collect();
    let target = Target::Labels(LabelSets { names: truth.names[names].to_vec(), values: values_of_labels });
    Dataset::new(crate::data::Matrix::dense(rows.len(), width, values.to_vec())).with_target(target)
}

fn more(settings: &Value, earlier: &dyn crate::answer::Posterior, data: Dataset<'_>) -> crate::Result<crate::model::Fitted> {
    let model = family("labels").unwrap().configure(&map(settings)).unwrap();
    let data = crate::model::arranged(data, earlier, false);
    crate::model::fit_more(model.as_ref(), earlier, data, &RunSettings::default().seed(4).block_rows(64), &mut Unobserved)
}

/// Further rows make predictions better, whichever form the weights have, and a fit that was saved goes on to the same bits.
#[test]
fn further_rows_are_learned_from() {
    let prior = json!({ "precision_shape": 5, "precision_rate": 5, "bias_precision": 1 });
    for form in ["full", "diagonal"] {
        let settings = json!({ "inference": "svi", "components": 8, "covariance": form });
        let (all, test) = simulated(&prior, json!({}), 4_000, 1_000, 33);
        let first = fitted(&settings, &part(&all, 0..200, 0..4));
        let before = log_loss(first.posterior.as_ref(), &part(&test, 0..1_000, 0..4));
        let later = more(&settings, first.posterior.as_ref(), part(&all, 200..4_000, 0..4)).unwrap();
        let after = log_loss(later.posterior.as_ref(), &part(&test, 0..1_000, 0..4));
        assert!(after < before - 0.01, "{form}: {before} before, {after} after");
        let rows: f64 = array(later.posterior.as_ref(), "component_rows").iter().sum();
        assert!(rows > 3_000.0 && rows < 4_000.0 + 1e-6, "{rows}");
        let loaded = family("labels").unwrap().load(&first.posterior.save().unwrap()).unwrap();
        let again = more(&settings, loaded.as_ref(), part(&all, 200..4_000, 0..4)).unwrap();
        assert_eq!(again.posterior.save().unwrap(), later.posterior.save().unwrap());
    }
}

/// A label that comes with later rows is learned, whether earlier rows lacked it or did not tell; the order of labels does not matter.
#[test]
fn labels_may_come_later() {
    let prior = json!({ "precision_shape": 5, "precision_rate": 5, "bias_precision": 1 });
    let (all, test) = simulated(&prior, json!({}), 3_000, 1_000, 12);
    let count = labels(&all).names.len();
    for coupling in ["logit", "and", "cut"] {
        for (form, history) in [("auto", "missing"), ("diagonal", "missing"), ("auto", "negative"), ("diagonal", "negative")] {
            if coupling != "logit" && history != "missing" {
                continue;
            }
            let mut settings = map(&json!({ "inference": "svi", "components": 8, "coupling": coupling, "covariance": form }));
            if coupling == "logit" {
                settings.extend(map(&json!({ "history": history })));
            }
            let settings = Value::Object(settings);
            let first = fitted(&settings, &part(&all, 0..1_000, 0..count - 1));
            // the new label comes first in the file
            let mut later = part(&all, 1_000..3_000, 0..count);
            let Target::Labels(l) = &mut later.target else { panic!("no labels") };
            l.names.rotate_right(1);
            l.values.chunks_exact_mut(count).for_each(|row| row.rotate_right(1));
            let found = more(&settings, first.posterior.as_ref(), later).unwrap();
            assert_eq!(found.posterior.labels(), labels(&all).names);
            assert!(found.warnings.iter().any(|w| w.contains("1 label(s) are new")), "{:?}", found.warnings);
            let truth = labels(&test);
            let predicted = found.posterior.predict_labels(&test, &LabelRule::default()).unwrap().probability;
            let loss = |p: &dyn Fn(usize) -> f64| {
                let of = |i: usize| if truth.values[i * count + count - 1] == 1 { p(i).ln() } else { (1.0 - p(i)).ln() };
                -(0..1_000).map(of).sum::<f64>() / 1_000.0
            };
            let present = |range: std::ops::Range<usize>| {
                let l = labels(&all);
                range.clone().filter(|&i| l.values[i * count + count - 1] == 1).count() as f64 / range.len() as f64
            };
            let by_rate = loss(&|_| present(1_000..3_000));
            let by_fit = loss(&|i| predicted[i * count + count - 1]);
            // where the past is taken to lack it, it seems rarer than it is
            if history == "missing" {
                assert!(by_fit < by_rate, "{coupling} {form} {history}: {by_fit}, by rate {by_rate}");
            } else {
                let mean = (0..1_000).map(|i| predicted[i * count + count - 1]).sum::<f64>() / 1_000.0;
                assert!(mean < present(1_000..3_000), "{form}: {mean}");
            }
        }
    }
}

/// An ascent over all rows keeps nothing to go on with, and rows must be like those of the fit.
#[test]
fn what_cannot_go_on_says_so() {
    let (all, _) = simulated(&json!({}), json!({}), 300, 1, 2);
    let vb = json!({ "components": 4, "n_init": 1, "max_iter": 3 });
    let found = fitted(&vb, &all);
    let said = more(&vb, found.posterior.as_ref(), all.clone()).err().unwrap().to_string();
    assert!(said.contains("`inference` svi"), "{said}");
    let svi = json!({ "inference": "svi", "components": 4 });
    let found = fitted(&svi, &all);
    let mut narrow = part(&all, 0..10, 0..4);
    narrow.x = crate::data::Matrix::dense(10, 1, vec![0.0; 10]);
    let said = more(&svi, found.posterior.as_ref(), narrow).err().unwrap().to_string();
    assert!(said.contains("columns"), "{said}");
}
