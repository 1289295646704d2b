//! Fewer rows than columns: weights in the space of the rows are those of all columns, for every coupling, with components that come and go.

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
use serde_json::{Value, json};

use super::fits::fitted;
use super::moves::same_bits;
use super::small::{self, LABELS, shape};
use crate::answer::{LabelRule, Posterior};
use crate::data::design::packed_len;
use crate::data::{Dataset, LabelSets, Matrix, Target, blocks};
use crate::dist::testing::rng;
use crate::model::Model;
use crate::model::labels::label_part::LabelPart;
use crate::model::labels::memoized::Memoized;
use crate::model::labels::mixture::Factors;
use crate::model::labels::schema::Schema;
use crate::model::labels::settings::{CombineKind, MoveKind, Settings};
use crate::model::labels::stage::{Room, Stage};
use crate::model::labels::vb::{State, Vb};
use crate::model::labels::{LabelsPosterior, logit};
use crate::run::{Chain, Program, Typed, open01};

const COLUMNS: usize = 61;
const BLOCK_ROWS: usize = 16;
const KINDS: [&str; 5] = ["jj", "bohning", "and", "cut", "svm"];

/// Four groups along the first twenty columns and noise in the others; every seventh row repeats the one before, one column is 0 in all rows, and
/// labels are unknown here and there.
fn groups(rows: usize, columns: usize, seed: u64) -> Dataset<'static> {
    let mut rng = rng(seed);
    let (mut x, mut y): (Vec<f64>, Vec<i8>) = (Vec::new(), Vec::new());
    for i in 0..rows {
        let often = [[0.9, 0.8, 0.1], [0.1, 0.9, 0.2], [0.2, 0.1, 0.9], [0.8, 0.2, 0.7]][i % 4];
        if i % 7 == 6 {
            x.extend_from_within((i - 1) * columns..);
        } else {
            let normal = |rng: &mut dyn Rng| -> f64 { StandardNormal.sample(rng) };
            let centre = [[-4.0, -4.0], [-4.0, 4.0], [4.0, -4.0], [4.0, 4.0]][i % 4];
            let mean = |j: usize| if j < 20 { centre[j % 2] } else { 0.0 };
            x.extend((0..columns).map(|j| if j == 7 { 0.0 } else { mean(j) + normal(&mut rng) }));
        }
        y.extend(often.map(|p| if open01(&mut rng) < 0.2 { -1 } else { i8::from(open01(&mut rng) < p) }));
    }
    let names = (1..=LABELS).map(|c| c.to_string()).collect();
    Dataset::new(Matrix::dense(rows, columns, x)).with_target(Target::Labels(LabelSets { names, values: y }))
}

/// The ascent of a coupling with matrices of all columns, and the same in the space of so many rows.
fn ascents(kind: &str, rows: usize, columns: usize, components: usize, moves: MoveKind) -> [Vb; 2] {
    let mixture = small::mixture_of(kind, columns);
    let plain = Vb { components, ..small::vb("jj", components, moves) };
    let mut spanned = mixture.clone();
    spanned.labels = spanned.labels.in_row_space(rows);
    [mixture, spanned].map(|mixture| Vb { mixture, ..plain.clone() })
}

fn close(a: &[f64], b: &[f64], what: &str) {
    assert_eq!(a.len(), b.len(), "{what}");
    let size = a.iter().fold(1e-3f64, |m, v| m.max(v.abs()));
    let worst = a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(worst < 1e-8 * size, "{what}: {worst:e} of {size}");
}

/// Means and variances of the weights of all columns; means of bias and patterns; precisions.
fn weights(vb: &Vb, q: &Factors) -> [Vec<f64>; 4] {
    let (prior, of): (&logit::Logit, &logit::Factors) = (vb.mixture.labels.weights(), q.labels.coupling().weights());
    let width = of.mean.len() / LABELS;
    let each = |c: usize, i: usize| (of.mean[c * width + i], of.covariance[c * packed_len(width) + packed_len(i + 1) - 1]);
    let table = |from: usize, to: usize| (0..LABELS).flat_map(move |c| (from..to).map(move |i| (c, i)));
    let (means, variances) =
        q.labels.of_columns(&vb.mixture.labels).unwrap_or_else(|| table(0, prior.columns()).map(|(c, i)| each(c, i)).unzip());
    let rest = table(prior.columns(), width).flat_map(|(c, i)| <[f64; 2]>::from(each(c, i))).collect();
    let precisions = of.weight_precision.iter().chain(&of.pattern_precision).flat_map(|t| [t.shape, t.rate]).collect();
    [means, variances, rest, precisions]
}

/// Both ascents say the same after every sweep, of themselves and of rows old and new.
fn agree<P: Program>(
    programs: &[P; 2],
    vbs: &[Vb; 2],
    data: &Dataset<'_>,
    sweeps: usize,
    name: &str,
    of: impl Fn(&P::Global) -> &State,
) -> State {
    let cut = blocks(data, BLOCK_ROWS);
    let new = groups(9, data.x.cols(), 77);
    let mut chains = programs.each_ref().map(|p| Typed::start(p, &cut, shape(data, BLOCK_ROWS), 6, 0).unwrap());
    let mut last = f64::NEG_INFINITY;
    for sweep in 0..sweeps {
        let [plain, spanned] = chains.each_mut().map(|chain| chain.advance(false).unwrap());
        let (a, b) = (plain.objective, spanned.objective);
        assert!((a - b).abs() < 1e-9 * a.abs(), "{name}, sweep {sweep}: {a} {b}");
        assert!(b >= last - 1e-9 * last.abs(), "{name}, sweep {sweep}: the bound fell from {last} to {b}");
        last = b;
        assert_eq!(plain.components, spanned.components, "{name}, sweep {sweep}");
        let states = [0, 1].map(|at| of(&chains[at].global));
        let divergences = [0, 1].map(|at| vbs[at].mixture.labels.divergence(&states[at].q.labels));
        close(&divergences[..1], &divergences[1..], &format!("{name}, sweep {sweep}: divergence"));
        let [a, b] = [0, 1].map(|at| weights(&vbs[at], &states[at].q));
        for (what, (a, b)) in ["means", "variances", "bias and patterns", "precisions"].iter().zip(a.iter().zip(&b)) {
            close(a, b, &format!("{name}, sweep {sweep}: {what}"));
        }
        for rows in [data, &new] {
            let [a, b] = [0, 1].map(|at| {
                let mut room = Room::default();
                Stage::new(&vbs[at].mixture, &states[at].q, CombineKind::Mean, vec![0.5; LABELS]).rows(rows.x.view(), &[], &mut room);
                room.probability
            });
            close(&a, &b, &format!("{name}, sweep {sweep}: probabilities"));
        }
    }
    of(&chains[1].global).clone()
}

#[test]
fn the_row_space_and_all_columns_agree_at_every_sweep() {
    for kind in KINDS {
        let data = groups(40, COLUMNS, 5);
        let programs = ascents(kind, 40, COLUMNS, 3, MoveKind::None);
        let end = agree(&programs, &programs, &data, 15, kind, |state| state);
        assert!(end.q.components() > 1, "{kind}");
    }
}

#[test]
fn they_agree_through_splits_and_merges() {
    let data = groups(40, COLUMNS, 5);
    for (components, from) in [(1, "one"), (7, "seven")] {
        // moves are tried as soon as a sweep gains little
        let programs = ascents("jj", 40, COLUMNS, components, MoveKind::SplitMerge).map(|vb| Vb { tol: 1e-3, ..vb });
        let end = agree(&programs, &programs, &data, 30, from, |state| state);
        assert!(end.q.components() > 1 && end.q.components() < 7, "from {from} to {}", end.q.components());
    }
}

#[test]
fn they_agree_batch_by_batch() {
    let data = groups(40, COLUMNS, 5);
    for kind in ["jj", "and"] {
        let vbs = ascents(kind, 40, COLUMNS, 4, MoveKind::SplitMerge);
        let programs = vbs.clone().map(|vb| Memoized { vb, batches: 3 });
        agree(&programs, &vbs, &data, 12, kind, |state| &state.ascent);
    }
}

/// One row, and rows that are all the same.
#[test]
fn few_rows_agree_too() {
    let all = groups(30, 12, 9);
    for rows in [vec![3], vec![3; 6]] {
        let data = all.subset(&rows);
        for kind in KINDS {
            let programs = ascents(kind, rows.len(), 12, 2, MoveKind::None);
            agree(&programs, &programs, &data, 6, kind, |state| state);
        }
    }
}

#[test]
fn workers_give_the_same_bits() {
    let data = groups(70, 120, 8);
    let [_, program] = ascents("jj", 70, 120, 3, MoveKind::SplitMerge);
    same_bits(&program, &data);
    same_bits(&Memoized { vb: program, batches: 3 }, &data);
}

/// Texts of four topics: a text has six words of its topic, a dozen of any, and its share of all words, so that each occurs.
fn texts(rows: usize, words: usize, labels: usize, seed: u64) -> Dataset<'static> {
    let mut rng = rng(seed);
    let (mut indptr, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
    let mut y: Vec<i8> = Vec::new();
    let often = (words as f64 / rows as f64).sqrt().ceil();
    for i in 0..rows {
        let topic = i % 4;
        let mut row: Vec<u32> = (i..words).step_by(rows).map(|w| w as u32).collect();
        row.extend((0..12).map(|_| (open01(&mut rng) * words as f64) as u32));
        row.extend((0..6).map(|w| (topic * 10 + w) as u32));
        row.sort_unstable();
        row.dedup();
        values.extend(row.iter().map(|w| if (*w as usize) / 10 == topic { often } else { 1.0 + (open01(&mut rng) * 2.0).floor() }));
        indices.extend(row);
        indptr.push(indices.len());
        y.extend((0..labels).map(|c| i8::from(open01(&mut rng) < if c % 4 == topic { 0.8 } else { 0.1 })));
    }
    let names = (0..labels).map(|c| format!("l{c}")).collect();
    let x = Matrix::Csr { rows, cols: words, indptr: indptr.into(), indices: indices.into(), values: values.into() };
    Dataset::new(x).with_target(Target::Labels(LabelSets { names, values: y }))
}

/// Which form the data and the settings lead to: the space of the rows where each label has a matrix, and one matrix of all columns where it serves all
/// labels with less work.
#[test]
fn the_form_goes_by_size() {
    let form = |data: &Dataset<'_>, settings: Value| {
        let settings: Settings = serde_json::from_value(settings).unwrap();
        let model = settings.clone().validate().unwrap();
        let survey = crate::run::survey(data, &model.questions(), None).unwrap();
        match Schema::of(&survey, &settings).unwrap().0.mixture(&settings).unwrap().labels {
            LabelPart::InRowSpace(_) => "row space",
            part if part.needs_columns() => "shared",
            _ => "all columns",
        }
    };
    let (few, many, most) = (texts(60, 300, 4, 3), texts(60, 1_449, 45, 3), texts(60, 6_000, 45, 3));
    let wide = texts(720, 1_001, 53, 3);
    let mut partly = texts(60, 1_449, 45, 3);
    if let Target::Labels(labels) = &mut partly.target {
        labels.values[0] = -1;
    }
    for (data, settings, want) in [
        (&few, json!({}), "row space"),
        (&few, json!({ "covariance": "full", "inference": "memoized" }), "row space"),
        (&few, json!({ "covariance": "factorised" }), "all columns"),
        (&few, json!({ "inference": "svi" }), "all columns"),
        (&few, json!({ "inference": "gibbs" }), "all columns"),
        (&few, json!({ "bound": "bohning" }), "shared"),
        (&few, json!({ "coupling": "and" }), "row space"),
        (&few, json!({ "label_memory": 1e-5 }), "shared"),
        (&many, json!({}), "shared"),
        (&many, json!({ "bound": "jj" }), "row space"),
        (&many, json!({ "coupling": "cut" }), "row space"),
        (&many, json!({ "coupling": "cut", "bound": "bohning" }), "shared"),
        (&wide, json!({ "coupling": "cut" }), "shared"),
        (&wide, json!({ "coupling": "and" }), "shared"),
        (&wide, json!({ "coupling": "and", "bound": "jj" }), "all columns"),
        (&wide, json!({ "coupling": "cut", "classifier": "svm" }), "all columns"),
        (&wide, json!({ "coupling": "cut", "class_weight": "balanced" }), "all columns"),
        (&partly, json!({}), "row space"),
        (&partly, json!({ "bound": "bohning" }), "row space"),
        (&most, json!({}), "row space"),
        (&most, json!({ "bound": "bohning" }), "row space"),
    ] {
        assert_eq!(form(data, settings.clone()), want, "{} columns, {settings}", data.x.cols());
    }
}

/// By default few rows with many columns are fitted in the space of the rows, and all answers are of columns. A matrix of all columns would take 20 GB
/// here.
#[test]
fn many_more_columns_than_rows_take_little_memory() {
    for coupling in ["logit", "cut"] {
        let data = texts(40, 50_000, 4, 3);
        let settings = json!({ "coupling": coupling, "components": 4, "n_init": 1, "max_iter": 15 });
        let found = fitted(settings, &data).unwrap_or_else(|e| panic!("{coupling}: {e}"));
        let saved = found.posterior.save().unwrap();
        assert!(saved.len() < 20_000_000, "{coupling}: {} bytes", saved.len());
        let loaded = LabelsPosterior::load(&saved).unwrap();
        assert!(matches!(loaded.mixture.labels, LabelPart::InRowSpace(_)), "{coupling}");
        let arrays = loaded.arrays();
        let of = |name: &str| &arrays.iter().find(|a| a.name == name).unwrap_or_else(|| panic!("{coupling}: no {name}")).values;
        assert_eq!((of("coefficients").len(), of("coefficient_deviations").len(), of("bias").len()), (200_000, 200_000, 4));
        assert!(of("coefficient_deviations").iter().all(|s| s.is_finite() && *s >= 0.0));
        let [here, there] =
            [found.posterior.as_ref(), &loaded as &dyn Posterior].map(|p| p.predict_labels(&data, &LabelRule::default()).unwrap());
        assert_eq!(here, there, "{coupling}");
        let Target::Labels(truth) = &data.target else { panic!("no labels") };
        let mean = |value: i8| {
            let of: Vec<f64> = here.probability.iter().zip(&truth.values).filter(|(_, y)| **y == value).map(|(p, _)| *p).collect();
            of.iter().sum::<f64>() / of.len() as f64
        };
        assert!(mean(1) > mean(0) + 0.05, "{coupling}: {} {}", mean(1), mean(0));
    }
}
