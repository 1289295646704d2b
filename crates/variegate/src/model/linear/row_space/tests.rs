//! Weights in the space of the rows are those of all columns, sweep by sweep, for every loss, prior and kind of rows.

use super::super::bound::Bound;
use super::super::classifier::{Classifier, Loss};
use super::super::gamma_factor::{GammaFactor, Precision};
use super::super::logit::Form;
use super::super::{Ascent, Fitted, Inputs, Named, Schema};
use super::*;
use crate::data::{Classes, Dataset, Matrix, Target, blocks};
use crate::run::{Chain, Merge, Shape, Typed};

const BLOCK_ROWS: usize = 4;
const ROWS: usize = 14;
const COLUMNS: usize = 33;

#[derive(Debug, Clone)]
struct Toy;

impl Named for Toy {
    const NAME: &'static str = "toy/vb";
}

/// Numbers between −1 and 1 that look random.
fn number(at: usize, salt: usize) -> f64 {
    (((at * 7919 + salt * 104_729 + 13) * 48_271) % 65_537) as f64 / 32_768.5 - 1.0
}

/// Rows with zeros, a column of zeros, and some that repeat: they span less than they are.
fn matrix(rows: usize, columns: usize, sparse: bool, salt: usize) -> Matrix<'static> {
    let value = |i: usize, j: usize| {
        let v = number(i * columns + j, salt);
        if j == 5 || v.abs() < 0.4 { 0.0 } else { v }
    };
    let dense: Vec<f64> = (0..rows * columns).map(|at| (at / columns, at % columns)).map(|(i, j)| value(i - i / 5, j)).collect();
    if !sparse {
        return Matrix::dense(rows, columns, dense);
    }
    let (mut indptr, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
    for row in dense.chunks_exact(columns) {
        for (j, v) in row.iter().enumerate().filter(|(_, v)| **v != 0.0) {
            indices.push(j as u32);
            values.push(*v);
        }
        indptr.push(indices.len());
    }
    Matrix::Csr { rows, cols: columns, indptr: indptr.into(), indices: indices.into(), values: values.into() }
}

fn data(x: Matrix<'static>, classes: usize, weighted: bool) -> Dataset<'static> {
    let rows = x.rows();
    let codes = (0..rows).map(|i| ((number(i, 3) + 1.0) * 0.5 * classes as f64) as u32).collect();
    let names = (0..classes).map(|c| format!("c{c}")).collect();
    let weights = weighted.then(|| (0..rows).map(|i| if i == 2 { 0.0 } else { 1.0 + number(i, 9) }).collect());
    Dataset { weights, ..Dataset::new(x).with_target(Target::Classes(Classes { codes, names })) }
}

/// Columns centred and scaled, or as they are.
fn design(columns: usize, centred: bool, intercept: bool) -> Design {
    let of = |salt: usize| (0..columns).map(|j| number(j, salt)).collect::<Vec<_>>();
    let plain = Design::identity(columns, intercept);
    if !centred {
        return plain;
    }
    Design { mean: of(21), scale: of(22).iter().map(|s| 1.5 + s).collect(), ..plain }
}

/// The ascents with matrices of all columns and in the space of so many rows.
fn ascents(design: &Design, classes: usize, loss: Loss, precision: Precision, rows: usize) -> [Ascent<Toy>; 2] {
    [None, Some(rows as u64)].map(|spanning| {
        let inputs = Inputs { design: design.clone(), classes, class_weight: Vec::new() };
        let classifier = inputs.classifier(loss, precision, 0.3);
        Ascent::new(inputs, classifier, spanning, 1e-12, 1_000)
    })
}

fn close(a: &[f64], b: &[f64], what: &str) {
    assert_eq!(a.len(), b.len(), "{what}");
    let size = a.iter().fold(1e-3f64, |m, v| m.max(v.abs()));
    let worst = a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(worst < 1e-8 * size, "{what}: {worst:e} of {size}");
}

/// Both ascents say the same after every sweep: of their bound, of weights and precisions, and of rows old and new.
fn agree(programs: &[Ascent<Toy>; 2], data: &Dataset<'_>, new: &Dataset<'_>, sweeps: usize, name: &str) {
    let cut = blocks(data, BLOCK_ROWS);
    let shape = Shape { rows: data.rows(), cols: data.x.cols(), blocks: cut.len() as u32, block_rows: BLOCK_ROWS };
    let mut chains = programs.each_ref().map(|program| Typed::start(program, &cut, shape, 1, 0).unwrap());
    let mut last = f64::NEG_INFINITY;
    for sweep in 0..sweeps {
        let [plain, spanned] = chains.each_mut().map(|chain| chain.advance(false).unwrap().objective);
        assert!((plain - spanned).abs() < 1e-9 * plain.abs(), "{name}, sweep {sweep}: {plain} {spanned}");
        assert!(spanned >= last - 1e-10 * last.abs(), "{name}: the bound fell from {last} to {spanned}");
        last = spanned;
        let [a, b] = [0, 1].map(|at| {
            let program: &Ascent<Toy> = &programs[at];
            let classes = (0..program.inputs.classes).map(|c| c.to_string()).collect();
            let schema = Schema { columns: Vec::new(), classes, design: program.inputs.design.clone() };
            let state = chains[at].global.clone();
            let divergence = program.divergence(&state.q);
            (Fitted::new(schema, program.classifier.clone(), state).unwrap(), divergence)
        });
        assert!((a.1 - b.1).abs() < 1e-9 * a.1.abs(), "{name}: divergence {} {}", a.1, b.1);
        let (a, b) = (a.0, b.0);
        let precisions = |f: &Fitted| f.q.weight_precision.iter().flat_map(|t| [t.shape, t.rate]).collect::<Vec<_>>();
        close(&precisions(&a), &precisions(&b), &format!("{name}: precisions"));
        close(&a.mean(), &b.mean(), &format!("{name}: means"));
        close(&a.covariance(), &b.covariance(), &format!("{name}: covariances"));
        let ((means, deviations), (other_means, other_deviations)) = (a.coefficients(), b.coefficients());
        close(&means, &other_means, &format!("{name}: coefficients"));
        close(&deviations, &other_deviations, &format!("{name}: deviations"));
        for rows in [data, new] {
            let ((means, variances), (other_means, other_variances)) = (a.scores(rows).unwrap(), b.scores(rows).unwrap());
            close(&means, &other_means, &format!("{name}: E f"));
            close(&variances, &other_variances, &format!("{name}: Var f"));
        }
    }
}

/// Rows dense and sparse, centred or not, with a bias or without; given and learned precisions; all losses; two classes and three.
#[test]
fn the_row_space_and_all_columns_agree_at_every_sweep() {
    let learned = Precision::Learned(GammaFactor::new(0.5, 0.5));
    let cases = [
        (Loss::Logistic, learned, false, true, true, 2, false),
        (Loss::Logistic, Precision::Fixed(0.7), true, true, true, 2, true),
        (Loss::Logistic, learned, true, false, false, 3, false),
        (Loss::Hinge, learned, true, true, true, 2, true),
        (Loss::Hinge, Precision::Fixed(2.0), false, false, true, 3, false),
        (Loss::HingePoint, learned, false, true, true, 2, false),
    ];
    for (loss, precision, sparse, centred, intercept, classes, weighted) in cases {
        let name = format!("{loss:?} {precision:?} sparse {sparse} centred {centred} bias {intercept} classes {classes}");
        let rows = data(matrix(ROWS, COLUMNS, sparse, 1), classes, weighted);
        let new = data(matrix(9, COLUMNS, sparse, 2), classes, false);
        let programs = ascents(&design(COLUMNS, centred, intercept), classes, loss, precision, ROWS);
        agree(&programs, &rows, &new, if loss == Loss::HingePoint { 6 } else { 25 }, &name);
    }
}

/// One row; rows that are all the same; rows of zeros. New rows may be dense where those of the fit were sparse.
#[test]
fn odd_rows_span_little() {
    let learned = Precision::Learned(GammaFactor::new(0.5, 0.5));
    let new = data(matrix(6, 8, false, 2), 2, false);
    let same: Vec<f64> = (0..5 * 8).map(|at| number(at % 8, 4)).collect();
    let zeros = Matrix::Csr { rows: 3, cols: 8, indptr: vec![0; 4].into(), indices: vec![].into(), values: vec![].into() };
    for (x, name) in [
        (matrix(1, 8, false, 1), "one row"),
        (matrix(1, 8, true, 1), "one sparse row"),
        (Matrix::dense(5, 8, same), "equal rows"),
        (zeros, "rows of zeros"),
    ] {
        let rows = x.rows();
        for loss in [Loss::Logistic, Loss::Hinge] {
            let programs = ascents(&design(8, false, true), 2, loss, learned, rows);
            agree(&programs, &data(x.clone(), 2, false), &new, 12, name);
        }
    }
}

/// Rows handed over in blocks are those of one block, and none at all span nothing.
#[test]
fn rows_come_together_in_their_order() {
    for sparse in [false, true] {
        let (x, design) = (matrix(ROWS, COLUMNS, sparse, 1), design(COLUMNS, true, true));
        let of = |range: std::ops::Range<usize>| {
            let mut scratch = PanelScratch::default();
            Rows::of(&design.panel(x.slice(range), &mut scratch), COLUMNS)
        };
        let mut parts = Rows::default();
        [0..3, 3..4, 4..ROWS].into_iter().for_each(|range| parts.merge(of(range)));
        let whole = of(0..ROWS);
        assert_eq!(parts, whole);
        assert_eq!(whole.len(), ROWS);
        let space = RowSpace::new(parts).unwrap();
        assert!(space.values.len() < ROWS);
        // coordinates keep all inner products
        let (z, mut inner) = (space.coordinates(), vec![0.0; ROWS * ROWS]);
        linalg::mul_t(&z, &z, &mut inner, ROWS, ROWS + 1, ROWS, false);
        close(&inner, &whole.products(&whole), "inner products");
        // and nothing of the rows lies beyond them but rounding
        let found = space.coordinates_of(&whole);
        assert!(found.iter().skip(ROWS).step_by(ROWS + 1).all(|z| *z < 1e-6));
        let within = |z: &[f64]| z.chunks_exact(ROWS + 1).flat_map(|z| z[..ROWS].to_vec()).collect::<Vec<_>>();
        close(&within(&found), &within(&space.coordinates()), "coordinates");
    }
    assert_eq!(RowSpace::new(Rows::default()).unwrap().coordinates(), Vec::<f64>::new());
}

/// Inner products beyond f64 are refused in words.
#[test]
fn rows_that_are_too_large_are_refused() {
    let e = RowSpace::new(Rows::one(vec![1e200, 1.0])).unwrap_err();
    assert!(e.to_string().contains("common scale"), "{e}");
}

/// Few columns, or hardly more than rows, or too many rows: matrices of all columns.
#[test]
fn the_row_space_is_for_fewer_rows() {
    for (rows, columns, want) in [
        (333, 1_449, true),
        (500, 50_000, true),
        (1, 201, true),
        (1, 200, false),
        (0, 1_000, false),
        (900, 1_000, false),
        (1_999, 2_001, true),
        (2_001, 50_000, false),
        (3_000, 3_000, false),
    ] {
        assert_eq!(worthwhile(rows, columns), want, "{rows} {columns}");
    }
}

/// Böhning's bound and a prior that has patterns beside it go through the same code: what lies beyond is of the weights alone.
#[test]
fn what_lies_beyond_has_the_variance_of_the_last_coordinate() {
    let prior = Logit {
        labels: 1,
        dim: 11,
        intercept: true,
        bias_precision: 1.0,
        weight_precision: Precision::Learned(GammaFactor::new(2.0, 3.0)),
        pattern_precision: Precision::Fixed(1.0),
        bound: Bound::Bohning,
        form: Form::Full,
    };
    let (beyond, inner) = Beyond::split(3, prior.clone());
    assert_eq!((inner.dim, beyond.columns(&inner)), (5, 10));
    // nothing was seen: the posterior is the prior, whatever the coordinates
    let found = [(&prior, None), (&inner, Some(beyond))].map(|(prior, beyond)| {
        let part = Classifier { prior: prior.clone(), prior_mean: Vec::new(), loss: Loss::Logistic, class_weights: Vec::new() };
        let mut stats = super::super::logit::Stats::default();
        stats.reserve(1, prior.dim, 0);
        let mut q = part.start();
        let mut steps = Vec::new();
        for _ in 0..3 {
            part.update(&mut q, &stats).unwrap();
            beyond.iter().for_each(|b| b.update(prior, &mut q));
            let divergence = part.divergence(&q) + beyond.map_or(0.0, |b| b.divergence(prior, &q));
            steps.push((q.weight_precision[0], divergence));
        }
        steps
    });
    for (a, b) in found[0].iter().zip(&found[1]) {
        assert!((a.0.shape - b.0.shape).abs() < 1e-12 && (a.0.rate - b.0.rate).abs() < 1e-12 && (a.1 - b.1).abs() < 1e-12, "{a:?} {b:?}");
    }
}
