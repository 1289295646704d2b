//! The means that rows give are those that matrices give.

use super::super::super::bound::Bound;
use super::super::super::gamma_factor::Precision;
use super::super::{Form, Logit};
use super::*;
use crate::data::design::PanelScratch;
use crate::data::{Design, Matrix};
use crate::dist::testing::rng;
use crate::linalg::Cholesky;
use crate::model::labels::testing::{Toy, random_shares, three_rows, twenty_rows};
use crate::run::Merge;

fn diagonal_form(part: Logit) -> Logit {
    Logit { form: Form::Diagonal, ..part }
}

/// The rows of a toy in panels of three, with responsibilities and the tangents of a view.
fn handed_over(toy: &Toy<Logit>, view: &View, r: &[f64]) -> Stats {
    let part = Rowwise { prior: toy.part.clone() };
    let (rows, components) = (toy.x.len(), view.components);
    let (mut all, mut scratch, mut room) = (Stats::default(), Scratch::default(), PanelScratch::default());
    for from in (0..rows).step_by(3) {
        let to = (from + 3).min(rows);
        let mut stats = Stats::default();
        let mut panel = toy.design.panel(toy.raw.slice(from..to), &mut room);
        let y = &toy.y[from * toy.labels..to * toy.labels];
        part.add(view, &mut panel, y, &r[from * components..to * components], &mut stats, &mut scratch);
        all.merge(stats);
    }
    all
}

fn with_steps(mut stats: Stats, labels: usize, step: (f64, f64)) -> Stats {
    (stats.step, stats.steps) = (step, vec![step; labels]);
    stats
}

/// Steps with the same rows, again and again, end where the diagonal form of matrices does; so do terms of rows.
#[test]
fn all_rows_give_the_diagonal_form() {
    let toy = twenty_rows(false, &mut rng(1), diagonal_form);
    let part = Rowwise { prior: toy.part.clone() };
    let components = 3;
    let r = random_shares(20, components, &mut rng(2));
    let (mut q, mut exact) = (part.start(components), toy.part.start(components));
    for _ in 0..3 {
        let stats = with_steps(handed_over(&toy, &part.view(&q), &r), toy.labels, (0.0, 1.0));
        let sums = toy.sums(&toy.part.view(&exact), &r, components);
        for _ in 0..200 {
            part.update(&mut q, &stats);
            toy.part.update(&mut exact, &sums).unwrap();
        }
        let width = toy.part.dim + components;
        for c in 0..toy.labels {
            for i in 0..width {
                let (mean, variance) = q.coefficient(c, i);
                let at = packed_diagonal(c, i, width);
                assert!((mean - exact.mean[c * width + i]).abs() < 1e-8, "label {c} coefficient {i}");
                assert!((variance / exact.covariance[at] - 1.0).abs() < 1e-8, "label {c} coefficient {i}");
            }
            assert!((q.weight_precision[c].mean() / exact.weight_precision[c].mean() - 1.0).abs() < 1e-8);
            assert!((q.pattern_precision[c].mean() / exact.pattern_precision[c].mean() - 1.0).abs() < 1e-8);
        }
    }
    let expected = toy.terms(&toy.part.view(&exact), components);
    let mut found = vec![0.0; expected.len()];
    let mut room = PanelScratch::default();
    let mut panel = toy.design.panel(toy.raw.view(), &mut room);
    part.terms(&part.view(&q), &mut panel, &toy.y, &mut found, &mut Scratch::default());
    for (a, b) in found.iter().zip(&expected) {
        assert!((a - b).abs() < 1e-7, "{a} {b}");
    }
    let (mut a, mut b) = (vec![0.0; 20 * 4 * toy.labels], vec![0.0; 20 * 4 * toy.labels]);
    part.probabilities(&part.view(&q), &mut panel, &mut a, |_, _| true, &mut Scratch::default());
    toy.part.probabilities(&toy.part.view(&exact), &mut panel, &mut b, &mut Default::default());
    assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-7));
}

fn packed_diagonal(label: usize, i: usize, width: usize) -> usize {
    label * crate::data::design::packed_len(width) + i * (i + 3) / 2
}

/// One step over earlier ones: with three coefficients three steps of conjugate gradients are exact, and the system is known.
#[test]
fn a_step_solves_old_and_new_together() {
    let toy = three_rows(|p| Logit { weight_precision: Precision::Fixed(0.8), pattern_precision: Precision::Fixed(1.7), ..p });
    let part = Rowwise { prior: toy.part.clone() };
    let r = [1.0; 3];
    let mut q = part.start(1);
    let stats = with_steps(handed_over(&toy, &part.view(&q), &r), 2, (0.0, 2.5));
    part.update(&mut q, &stats);
    let view = part.view(&q);
    let (before, stats) = (q.clone(), handed_over(&toy, &view, &r));
    // labels may be at different steps
    let steps = [(0.7, 1.3), (0.9, 0.4)];
    let stats = Stats { steps: steps.to_vec(), step: steps[0], ..stats };
    part.update(&mut q, &stats);
    for (c, (old, new)) in steps.into_iter().enumerate() {
        let prior = [0.8, 0.01, 1.7];
        let (mut a, mut right) = ([0.0; 9], [0.0; 3]);
        for i in 0..3 {
            let curvature = before.groups[0].curvature[i][c];
            a[i * 4] = prior[i] + old * curvature;
            right[i] = old * (prior[i] + curvature) * before.groups[0].mean[i][c];
        }
        let mut diagonal = [0.0; 3];
        for i in 0..3 {
            let y = toy.y[i * 2 + c];
            if y < 0 {
                continue;
            }
            let row = [[0.5, -1.0, 1.4][i], 1.0, 1.0];
            let mean: f64 = (0..3).map(|j| row[j] * before.coefficient(c, j).0).sum();
            let variance: f64 = (0..3).map(|j| row[j] * row[j] * before.coefficient(c, j).1).sum();
            let xi = (mean * mean + variance).sqrt();
            let lambda = (0.5 * xi).tanh() / (2.0 * xi);
            for j in 0..3 {
                diagonal[j] += lambda * row[j] * row[j];
                right[j] += new * row[j] * (f64::from(y) - 0.5);
                for k in 0..3 {
                    a[j * 3 + k] += new * lambda * row[j] * row[k];
                }
            }
        }
        let factor = Cholesky::new(3, &a).unwrap();
        factor.solve(&mut right);
        for i in 0..3 {
            let (mean, variance) = q.coefficient(c, i);
            let curvature = old * before.groups[0].curvature[i][c] + new * diagonal[i];
            assert!((mean - right[i]).abs() < 1e-9, "label {c} coefficient {i}: {mean} {}", right[i]);
            assert!((variance * (prior[i] + curvature) - 1.0).abs() < 1e-12);
        }
    }
}

/// Columns that a minibatch does not have shrink towards the prior alone.
#[test]
fn columns_that_do_not_occur_stand_alone() {
    let sparse = |columns: Vec<u32>| Matrix::Csr {
        rows: 2,
        cols: 4,
        indptr: vec![0, 1, 2].into(),
        indices: columns.into(),
        values: vec![1.0, -2.0].into(),
    };
    let part = Rowwise {
        prior: Logit {
            labels: 20,
            dim: 5,
            intercept: true,
            bias_precision: 0.1,
            weight_precision: Precision::Fixed(0.5),
            pattern_precision: Precision::Fixed(1.0),
            bound: Bound::JaakkolaJordan,
            form: Form::Diagonal,
        },
    };
    let design = Design::identity(4, true);
    let y: Vec<i8> = (0..40).map(|i| (i % 3) as i8 - 1).collect();
    let mut q = part.start(2);
    let step = |q: &mut Factors, columns: Vec<u32>, step: (f64, f64)| {
        let raw = sparse(columns);
        let mut room = PanelScratch::default();
        let mut stats = Stats::default();
        let mut panel = design.panel(raw.view(), &mut room);
        part.add(&part.view(q), &mut panel, &y, &[0.3, 0.7, 1.0, 0.0], &mut stats, &mut Scratch::default());
        part.update(q, &with_steps(stats, 20, step));
    };
    step(&mut q, vec![0, 2], (0.0, 3.0));
    let before = q.clone();
    step(&mut q, vec![1, 2], (0.6, 2.0));
    // squares of all rows, for labels that come later
    let squares = [0.6 * 3.0, 2.0, 0.6 * 12.0 + 8.0, 0.0, 0.6 * 6.0 + 4.0];
    assert!(q.squares.iter().zip(squares).all(|(a, b)| (a - b).abs() < 1e-12), "{:?}", q.squares);
    for c in 0..20 {
        let (mean, variance) = before.coefficient(c, 0);
        let curvature = 1.0 / variance - 0.5;
        let precision = 0.5 + 0.6 * curvature;
        let (m, v) = q.coefficient(c, 0);
        assert!((v * precision - 1.0).abs() < 1e-12);
        assert!((m - 0.6 * (0.5 + curvature) * mean / precision).abs() < 1e-12);
        assert_eq!(q.coefficient(c, 3), (0.0, 2.0));
    }
}

/// A label that was absent in all earlier rows: with no columns its posterior is the one that those rows give.
#[test]
fn absence_in_the_past_is_that_of_its_rows() {
    let (rows, components) = (500, 2);
    let prior = Logit {
        labels: 1,
        dim: 1,
        intercept: true,
        bias_precision: 1.0,
        weight_precision: Precision::Fixed(1.0),
        pattern_precision: Precision::Fixed(1e6),
        bound: Bound::Bohning,
        form: Form::Full,
    };
    let design = Design::identity(0, true);
    let raw = Matrix::dense(rows, 0, Vec::new());
    let r: Vec<f64> = (0..rows).flat_map(|i| if i < 200 { [1.0, 0.0] } else { [0.0, 1.0] }).collect();
    let mut exact = prior.start(components);
    for _ in 0..2_000 {
        let mut room = PanelScratch::default();
        let mut panel = design.panel(raw.view(), &mut room);
        let mut stats = super::super::Stats::default();
        prior.add(&prior.view(&exact), &mut panel, &vec![0; rows], &r, &mut stats, &mut Default::default());
        prior.update(&mut exact, &stats).unwrap();
    }
    let part = Rowwise { prior };
    let mut q = Rowwise { prior: Logit { labels: 0, ..part.prior.clone() } }.start(components);
    q.squares = vec![rows as f64];
    q.add_labels(&part);
    part.was_absent(&mut q, 0, &[200.0, 300.0]).unwrap();
    let bias = q.coefficient(0, 0).0;
    assert!((bias - exact.mean[0]).abs() < 1e-4, "{bias} {}", exact.mean[0]);
    // with the prior that fits have: far from the .119 of a point of tangency at 0
    let part = Rowwise { prior: Logit { bias_precision: 0.01, ..part.prior } };
    q.groups[0].prior[1][0] = 0.01;
    part.was_absent(&mut q, 0, &[200.0, 300.0]).unwrap();
    assert!(crate::special::sigmoid(q.coefficient(0, 0).0) < 1e-3);
}

/// Components whose features rule them out are left out, and the others do not see it.
#[test]
fn hopeless_components_are_left_out() {
    let toy = twenty_rows(false, &mut rng(5), diagonal_form);
    let part = Rowwise { prior: toy.part.clone() };
    let mut q = part.start(3);
    let r = random_shares(20, 3, &mut rng(6));
    let stats = with_steps(handed_over(&toy, &part.view(&q), &r), toy.labels, (0.0, 1.0));
    part.update(&mut q, &stats);
    let view = part.view(&q);
    let terms = |offsets: [f64; 3]| {
        let mut out: Vec<f64> = offsets.iter().copied().cycle().take(60).collect();
        let mut room = PanelScratch::default();
        let mut panel = toy.design.panel(toy.raw.view(), &mut room);
        part.terms(&view, &mut panel, &toy.y, &mut out, &mut Scratch::default());
        out
    };
    let (all, some) = (terms([0.0, 0.0, 0.0]), terms([0.0, -1e3, -20.0]));
    for i in 0..20 {
        assert_eq!(some[3 * i + 1], f64::NEG_INFINITY);
        assert!((some[3 * i] - all[3 * i]).abs() < 1e-12 && (some[3 * i + 2] + 20.0 - all[3 * i + 2]).abs() < 1e-12);
    }
}
