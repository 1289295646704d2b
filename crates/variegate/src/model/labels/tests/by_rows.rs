//! Weights of `and` and `cut` with variances alone: rows that are handed over give what matrices give.

use serde_json::{Value, json};

use super::fits::{fitted, map};
use super::small::{COLUMNS, LABELS, groups, mixture};
use crate::data::design::PanelScratch;
use crate::data::{Dataset, Design, LabelSets, Matrix, Panel, Target, blocks};
use crate::dist::testing::rng;
use crate::model::labels::and::{self, And};
use crate::model::labels::cut::{self, Cut};
use crate::model::labels::label_part::{LabelFactors, LabelPart, LabelScratch, LabelStats};
use crate::model::labels::logit::{self, Form, rowwise};
use crate::model::labels::schema::Schema;
use crate::model::labels::testing::random_shares;
use crate::model::{family, resolve};
use crate::run::Merge;

const COMPONENTS: usize = 3;
const ROWS: usize = 30;

/// The matrix form of a coupling, asked for by name: variances are kept alone there too, but A_c is formed.
enum Matrices {
    And(And, and::Factors, and::Stats),
    Cut(Cut, cut::Factors, cut::Stats),
}

impl Matrices {
    fn of(part: &LabelPart) -> Self {
        match part {
            LabelPart::And(p) => Self::And(p.clone(), p.start(COMPONENTS), Default::default()),
            LabelPart::Cut(p) => Self::Cut(p.clone(), p.start(COMPONENTS), Default::default()),
            _ => panic!("neither"),
        }
    }

    fn add(&mut self, panel: &mut Panel<'_>, y: &[i8], r: &[f64]) {
        match self {
            Self::And(p, q, stats) => p.add(&p.view(q), panel, y, r, stats, &mut Default::default()),
            Self::Cut(p, q, stats) => p.add(&p.view(q), panel, y, r, stats, &mut Default::default()),
        }
    }

    fn update(&mut self) {
        match self {
            Self::And(p, q, stats) => p.update(q, &std::mem::take(stats)).unwrap(),
            Self::Cut(p, q, stats) => p.update(q, &std::mem::take(stats)).unwrap(),
        }
    }

    fn terms(&self, panel: &mut Panel<'_>, y: &[i8]) -> Vec<f64> {
        let mut out = vec![0.0; ROWS * COMPONENTS];
        match self {
            Self::And(p, q, _) => p.terms(&p.view(q), panel, y, &mut out, &mut Default::default()),
            Self::Cut(p, q, _) => p.terms(&p.view(q), panel, y, &mut out, &mut Default::default()),
        }
        out
    }

    fn weights(&self) -> (&logit::Factors, Vec<f64>) {
        match self {
            Self::And(_, q, _) => (&q.weights, q.present.clone()),
            Self::Cut(_, q, _) => (&q.weights, q.patterns.ones.clone()),
        }
    }
}

fn weights(q: &LabelFactors) -> (&rowwise::Factors, Vec<f64>) {
    match q {
        LabelFactors::AndByRows(q) => (&q.weights, q.present.clone()),
        LabelFactors::CutByRows(q) => (&q.weights, q.patterns.ones.clone()),
        _ => panic!("matrices were formed"),
    }
}

/// With three coefficients, three steps of conjugate gradients are exact: every step with all rows is the global step of matrices.
#[test]
fn all_rows_give_what_matrices_give() {
    for kind in ["and", "cut", "svm", "weighted"] {
        let mut part = mixture(if kind == "weighted" { "svm" } else { kind }).labels;
        match &mut part {
            LabelPart::And(p) => p.weights.form = Form::Diagonal,
            LabelPart::Cut(p) => {
                p.classifier.prior.form = Form::Diagonal;
                if kind == "weighted" {
                    p.classifier.class_weights = vec![[0.6, 2.5], [1.0, 1.0], [1.7, 0.4]];
                }
            }
            _ => panic!("neither"),
        }
        let data = groups(kind, ROWS, 2.0, 4);
        let r = random_shares(ROWS, COMPONENTS, &mut rng(5));
        let design = Design::identity(COLUMNS, true);
        let (mut exact, mut q) = (Matrices::of(&part), part.start(COMPONENTS));
        let mut room = PanelScratch::default();
        for round in 0..4 {
            let (view, mut stats, mut scratch) = (part.view(&q), LabelStats::default(), LabelScratch::default());
            for block in blocks(&data, 7) {
                let (from, to) = (block.first_row as usize, block.first_row as usize + block.rows());
                let r = &r[from * COMPONENTS..to * COMPONENTS];
                let mut one = LabelStats::default();
                part.add(&view, &mut design.panel(block.x, &mut room), block.y.labels(), r, &mut one, &mut scratch);
                stats.merge(one);
                exact.add(&mut design.panel(block.x, &mut room), block.y.labels(), r);
            }
            (stats.rowwise.step, stats.rowwise.steps) = ((0.0, 1.0), vec![(0.0, 1.0); LABELS]);
            part.update(&mut q, &stats).unwrap();
            exact.update();
            let ((found, patterns), (want, want_patterns)) = (weights(&q), exact.weights());
            let dim = COLUMNS + 1;
            for (c, i) in (0..LABELS * dim).map(|at| (at / dim, at % dim)) {
                let (mean, variance) = found.coefficient(c, i);
                let at = c * crate::data::design::packed_len(dim) + i * (i + 3) / 2;
                assert!((mean - want.mean[c * dim + i]).abs() < 1e-8, "{kind}, round {round}: label {c}, {i}");
                assert!((variance / want.covariance[at] - 1.0).abs() < 1e-8, "{kind}, round {round}: label {c}, {i}");
            }
            for c in 0..LABELS {
                assert!((found.weight_precision[c].mean() / want.weight_precision[c].mean() - 1.0).abs() < 1e-8, "{kind}");
            }
            assert!(patterns.iter().zip(&want_patterns).all(|(a, b)| (a - b).abs() < 1e-8), "{kind}");
        }
        let whole = blocks(&data, ROWS);
        let mut found = vec![0.0; ROWS * COMPONENTS];
        let y = whole[0].y.labels();
        part.terms(&part.view(&q), &mut design.panel(whole[0].x, &mut room), y, &mut found, &mut LabelScratch::default());
        let want = exact.terms(&mut design.panel(whole[0].x, &mut room), y);
        assert!(found.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-7), "{kind}");
    }
}

/// Sparse rows of many columns, whose first ones say which labels they have.
fn wide(rows: usize, columns: usize, labels: usize, seed: u64) -> Dataset<'static> {
    use crate::run::open01;
    let rng = &mut rng(seed);
    let (mut indptr, mut indices, mut values, mut y) = (vec![0], Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rows {
        let on: Vec<usize> = (0..labels).filter(|_| open01(rng) < 0.4).collect();
        let mut row: Vec<u32> = on.iter().map(|&c| c as u32).collect();
        row.extend((0..6).map(|_| (labels + (open01(rng) * (columns - labels) as f64) as usize) as u32));
        row.sort_unstable();
        row.dedup();
        values.extend(vec![1.0; row.len()]);
        indices.extend(row);
        indptr.push(indices.len());
        y.extend((0..labels).map(|c| i8::from(on.contains(&c))));
    }
    let names = (0..labels).map(|c| format!("l{c}")).collect();
    let x = Matrix::Csr { rows, cols: columns, indptr: indptr.into(), indices: indices.into(), values: values.into() };
    Dataset::new(x).with_target(Target::Labels(LabelSets { names, values: y }))
}

/// With many columns no matrices are formed, and labels are learned all the same.
#[test]
fn many_columns_form_no_matrices() {
    let (train, columns, labels) = (wide(1_500, 3_000, 5, 9), 3_000, 5);
    for more in [json!({ "coupling": "and" }), json!({ "coupling": "cut" }), json!({ "coupling": "cut", "classifier": "svm" })] {
        let mut given = map(more.clone());
        given.extend(map(json!({ "inference": "svi", "components": 3, "passes": 6, "batch_rows": 100 })));
        let model = family("labels").unwrap().configure(&given).unwrap();
        let survey = crate::run::survey(&train, &model.questions(), Some(100)).unwrap();
        let s = resolve("labels", &given).unwrap();
        let part = Schema::of(&survey, &s).unwrap().0.mixture(&s).unwrap().labels;
        weights(&part.start(3));
        let found = fitted(Value::Object(given), &train).unwrap();
        let test = Dataset { target: Target::None, ..wide(200, columns, labels, 10) };
        let predicted = found.posterior.predict_labels(&test, &Default::default()).unwrap().probability;
        let Target::Labels(truth) = wide(200, columns, labels, 10).target else { panic!("no labels") };
        let right = predicted.iter().zip(&truth.values).filter(|(p, y)| (**p > 0.5) == (**y == 1)).count();
        assert!(right as f64 > 0.9 * predicted.len() as f64, "{more}: {right} of {}", predicted.len());
    }
}

/// Balanced weights are those of the family of support vector machines, and what has no use for them says so.
#[test]
fn balanced_labels_count_the_same() {
    let x: Vec<f64> = vec![-1.2, -0.4, 0.1, 0.7, 1.5, -0.9, 2.0, 0.3];
    let y: Vec<i8> = vec![0, 0, 1, 0, 1, 0, 0, 0];
    let classes = crate::data::Classes::encode(y.iter().map(|y| if *y == 1 { "yes" } else { "no" }));
    let rows = || Matrix::dense(8, 1, x.clone());
    let of_labels = Dataset::new(rows()).with_target(Target::Labels(LabelSets { names: vec!["a".into()], values: y.clone() }));
    let of_classes = Dataset::new(rows()).with_target(Target::Classes(classes));
    let alone = json!({ "inference": "vb", "prior_precision": 1, "bias_precision": 0.25, "standardize": false, "class_weight": "balanced", "tol": 1e-13 });
    let model = family("svm").unwrap().configure(&map(alone)).unwrap();
    let alone = crate::model::fit(model.as_ref(), &of_classes, &Default::default(), &mut crate::run::Unobserved).unwrap();
    let value =
        |fitted: &crate::model::Fitted, name: &str| fitted.posterior.arrays().into_iter().find(|a| a.name == name).unwrap().values[0];
    let fit_labels = |weight: &str| {
        let s = json!({ "coupling": "cut", "classifier": "svm", "class_weight": weight, "weight_precision": 1, "bias_precision": 0.25,
            "scaling": "none", "features": "gaussian-diag", "components": 1, "tol": 1e-13, "moves": "none" });
        fitted(s, &of_labels).unwrap()
    };
    let (balanced, plain) = (fit_labels("balanced"), fit_labels("none"));
    assert!((value(&balanced, "coefficients") - value(&alone, "coef")).abs() < 1e-6);
    assert!((value(&balanced, "bias") - value(&alone, "intercept")).abs() < 1e-6);
    assert!(value(&balanced, "bias") > value(&plain, "bias") + 0.1);
    let said = |s: Value| family("labels").unwrap().configure(&map(s)).err().unwrap().to_string();
    let all = said(json!({ "class_weight": "balanced" }));
    assert!(all.contains("class_weight") && all.contains("`coupling` cut"), "{all}");
    let draws = said(json!({ "coupling": "cut", "inference": "gibbs", "class_weight": "balanced" }));
    assert!(draws.contains("class_weight") && draws.contains("svm"), "{draws}");
    let form = said(json!({ "coupling": "cut", "inference": "svi", "covariance": "factorised" }));
    assert!(form.contains("covariance"), "{form}");
    let short = json!({ "coupling": "cut", "inference": "gibbs", "classifier": "svm", "class_weight": "balanced", "n_chains": 1, "n_warmup": 5,
        "n_draws": 5, "thin": 1 });
    fitted(short, &of_labels).unwrap();
}

/// Exact draws of classifiers with more columns than rows, and with very many columns, form no matrices of them, and find what says which
/// labels a row has. The commoner answer is right for .6 of the entries; four standard errors more is .7.
#[test]
fn many_columns_are_drawn_without_matrices() {
    for (rows, columns) in [(300, 400), (2_050, 2_100)] {
        let train = wide(rows, columns, 2, 9);
        for classifier in ["logistic", "svm"] {
            let s = json!({ "coupling": "cut", "inference": "gibbs", "classifier": classifier, "components": 2, "n_chains": 1, "n_warmup": 10,
                "n_draws": 10, "thin": 1 });
            let found = fitted(s, &train).unwrap();
            let Target::Labels(truth) = wide(200, columns, 2, 10).target else { panic!("no labels") };
            let test = Dataset { target: Target::None, ..wide(200, columns, 2, 10) };
            let predicted = found.posterior.predict_labels(&test, &Default::default()).unwrap().probability;
            let right = predicted.iter().zip(&truth.values).filter(|(p, y)| (**p > 0.5) == (**y == 1)).count();
            assert!(right as f64 > 0.7 * predicted.len() as f64, "{classifier}, {rows} rows: {right} of {}", predicted.len());
        }
    }
}
