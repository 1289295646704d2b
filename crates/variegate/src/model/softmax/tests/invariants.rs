//! What must hold for any data: the bound rises, weights are repeated rows, names of classes do not matter.

use proptest::prelude::*;

use super::*;
use crate::data::Dataset;
use crate::infer::finite_difference::check_gradient;

fn sparse(rows: usize, cols: usize, dense: &[f64]) -> Matrix<'static> {
    let (mut indptr, mut indices, mut values) = (vec![0usize], vec![], vec![]);
    for row in dense.chunks(cols) {
        for (j, &v) in row.iter().enumerate().filter(|(_, v)| **v != 0.0) {
            indices.push(j as u32);
            values.push(v);
        }
        indptr.push(indices.len());
    }
    Matrix::Csr { rows, cols, indptr: indptr.into(), indices: indices.into(), values: values.into() }
}

fn choice(kind: usize) -> (Bound, CovarianceChoice) {
    [(Bound::Double, CHILD), (Bound::Tilted, CHILD), (Bound::Tilted, JOINT)][kind]
}

fn precision(kind: usize) -> Precision {
    [Precision::Node, Precision::Child, Precision::Feature, Precision::Entry, Precision::Fixed][kind]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Every trace rises, at the end no neighbour is better, and weights of 0, 1, 2 are rows left out, kept, repeated.
    #[test]
    fn the_bound_rises_to_a_top(
        kind in 0usize..3, which in 0usize..5, children in 2usize..5, cols in 1usize..4, rows in 1usize..20, salt in 0u64..1000,
        scale in prop_oneof![Just(0.3), Just(1.0), Just(8.0)], bias in prop_oneof![Just(None), Just(Some(0.05))],
    ) {
        let (bound, covariance) = choice(kind);
        let s = Settings { bound, covariance, precision: precision(which), bias_precision: bias, ..Settings::default() };
        let x: Vec<f64> = pseudo(rows * cols, salt).iter().map(|v| v * scale).collect();
        let codes: Vec<u32> = pseudo(rows, salt + 1).iter().map(|v| ((v + 1.0) * 0.5 * children as f64) as u32).collect();
        let data = Dataset::new(Matrix::dense(rows, cols, x)).with_target(classes(&codes, children));
        let p = program(&s, children, Design::identity(cols, true));
        let (trace, worst, last) = climb(&p, &data, 150, |chain, trace| {
            let top = chain.global.clone();
            let worst = neighbours(&p, &top).iter().map(|q| evaluate(&p, &top, q, chain.rows()).0 - top.bound).fold(f64::NEG_INFINITY, f64::max);
            (trace.to_vec(), worst, top)
        });
        for pair in trace.windows(2) {
            prop_assert!(pair[1] >= pair[0] - 1e-9 * (1.0 + pair[0].abs()), "{} then {}", pair[0], pair[1]);
        }
        let gain = trace[trace.len() - 1] - trace[trace.len() - 2];
        if gain < 1e-10 * (1.0 + last.bound.abs()) {
            prop_assert!(worst < 1e-8 * (1.0 + last.bound.abs()), "a neighbour is better by {}", worst);
        }
    }
}

/// Means, precision matrices and rates of a top moved a little, one at a time.
pub(super) fn neighbours(p: &Vb, top: &State) -> Vec<factors::Factors> {
    let layout = p.layout(&top.tree);
    let q = top.q.as_ref().unwrap();
    let mut out = Vec::new();
    let mut push = |change: &dyn Fn(&mut factors::Factors)| {
        let mut other = q.clone();
        change(&mut other);
        out.push(other);
    };
    for (v, (node, l)) in q.nodes.iter().zip(&layout.nodes).enumerate() {
        let variance = node.moments(l, &top.basis, 1.0).unwrap().variance;
        for sign in [-1.0, 1.0] {
            for (j, s) in variance.iter().enumerate() {
                push(&|q| q.nodes[v].mean[j] += sign * 0.03 * s.sqrt());
            }
            for k in 0..node.precision.len() {
                let step = 0.01 / variance.iter().fold(0.0f64, |a, b| a.max(*b));
                push(&|q| q.nodes[v].precision[k] += sign * step);
            }
            for g in 0..node.rates.len() {
                push(&|q| q.nodes[v].rates[g] *= 1.0 + 0.03 * sign);
            }
        }
    }
    for l in 0..q.leaves.len() {
        for sign in [-1.0, 1.0] {
            for j in 0..q.leaves[l].mean.len() {
                push(&|q| q.leaves[l].mean[j] += sign * 0.01);
            }
            push(&|q| q.leaves[l].rates[0] *= 1.0 + 0.03 * sign);
            push(&|q| q.leaves[l].shape *= 1.0 + 0.03 * sign);
            push(&|q| q.leaves[l].slope.1 *= 1.0 + 0.03 * sign);
            for k in 0..q.leaves[l].precision.len() {
                push(&|q| q.leaves[l].precision[k] *= 1.0 + 0.03 * sign);
            }
        }
    }
    out.retain(|q| q.moments(&layout, &top.basis, 1.0).is_ok());
    out
}

fn random(rows: usize, cols: usize, children: u32, salt: u64) -> (Vec<f64>, Vec<u32>) {
    let x = pseudo(rows * cols, salt);
    let codes = (0..rows).map(|i| ((x[i * cols] * 3.0 + i as f64 * 0.37).sin() * 5.0).abs() as u32 % children).collect();
    (x, codes)
}

fn same_top(a: &State, b: &State, tolerance: f64) {
    assert!((a.bound - b.bound).abs() < tolerance * (1.0 + a.bound.abs()), "{} {}", a.bound, b.bound);
    for (x, y) in node(a).mean.iter().chain(&node(a).rates).zip(node(b).mean.iter().chain(&node(b).rates)) {
        assert!((x - y).abs() < 1e3 * tolerance * (1.0 + x.abs()), "{x} {y}");
    }
}

#[test]
fn weights_are_repeated_rows_and_zero_is_none() {
    let (x, codes) = random(30, 2, 3, 5);
    let plain = Dataset::new(Matrix::dense(30, 2, x)).with_target(classes(&codes, 3));
    let mut weighted = plain.clone();
    weighted.weights = Some((0..30).map(|i| (i % 3) as f64).collect());
    let chosen: Vec<usize> = (0..30).flat_map(|i| vec![i; i % 3]).collect();
    let repeated = plain.subset(&chosen);
    for kind in 0..3 {
        let (bound, covariance) = choice(kind);
        let given = as_map(&Settings { bound, covariance, tol: 1e-12, ..Settings::default() });
        let model = Softmax.configure(&given).unwrap();
        let run = |data: &Dataset<'_>| {
            let fitted = crate::model::fit(model.as_ref(), data, &Default::default(), &mut crate::run::Unobserved).unwrap();
            (saved_global::<Vb>(&fitted.kept.chains[0].checkpoint).unwrap(), fitted.posterior.predict(&plain, "").unwrap())
        };
        let ((a, p), (b, q)) = (run(&weighted), run(&repeated));
        assert!((a.bound - b.bound).abs() < 1e-9 * (1.0 + a.bound.abs()), "{} {}", a.bound, b.bound);
        for (p, q) in p.probability.iter().zip(&q.probability) {
            assert!((p - q).abs() < 1e-6);
        }
    }
}

#[test]
fn permuted_classes_permute_the_posterior() {
    let (x, codes) = random(25, 2, 3, 8);
    let turned: Vec<u32> = codes.iter().map(|c| (c + 1) % 3).collect();
    for kind in 0..3 {
        let (bound, covariance) = choice(kind);
        let p = program(&Settings { bound, covariance, precision: Precision::Child, ..Settings::default() }, 3, Design::identity(2, true));
        let run = |codes: &[u32]| top(&p, &Dataset::new(Matrix::dense(25, 2, x.clone())).with_target(classes(codes, 3)));
        let (a, mut b) = (run(&codes), run(&turned));
        let turned = &mut b.q.as_mut().unwrap().nodes[0];
        turned.mean.rotate_left(3);
        turned.rates.rotate_left(1);
        same_top(&a, &b, 1e-9);
    }
}

#[test]
fn a_common_shift_of_the_weights_changes_only_the_prior() {
    let (x, codes) = random(20, 2, 3, 9);
    let data = Dataset::new(Matrix::dense(20, 2, x)).with_target(classes(&codes, 3));
    for kind in 0..3 {
        let (bound, covariance) = choice(kind);
        let p = program(&Settings { bound, covariance, ..Settings::default() }, 3, Design::identity(2, true));
        climb(&p, &data, 5, |chain, _| {
            let state = chain.global.clone();
            let mut q = state.q.clone().unwrap();
            for (k, m) in q.nodes[0].mean.iter_mut().enumerate() {
                *m += [0.7, -1.1, 3.0][k % 3];
            }
            let (_, stats) = evaluate(&p, &state, &q, chain.rows());
            assert!((stats.value.0 - state.stats.value.0).abs() < 1e-10);
            for (a, b) in stats.gradient.0.iter().zip(&state.stats.gradient.0) {
                assert!((a - b).abs() < 1e-9);
            }
        });
    }
}

/// Independent classes find the shift that suits the prior in one sweep, however far off they start.
#[test]
fn a_common_shift_is_taken_out_at_once() {
    let (x, codes) = random(60, 2, 3, 13);
    let data = Dataset::new(Matrix::dense(60, 2, x)).with_target(classes(&codes, 3));
    for bound in [Bound::Double, Bound::Tilted] {
        let s = Settings { bound, covariance: CHILD, precision: Precision::Child, ..Settings::default() };
        let p = program(&s, 3, Design::identity(2, true));
        climb(&p, &data, 0, |chain, _| {
            let mean: Vec<f64> = node(&chain.global).mean.iter().enumerate().map(|(k, m)| m + [4.0, -2.0, 1.0][k % 3]).collect();
            let mut state = chain.global.clone();
            let layout = p.layout(&state.tree);
            p.begin_ascent(&layout, &mut state, &mean, chain.rows()).unwrap();
            chain.global = state;
            let alpha = layout.nodes[0].prior.means(&node(&chain.global).rates, 1.0);
            chain.advance(false).unwrap();
            for j in 0..3 {
                let pull: f64 = (0..3).map(|c| alpha[c * 3 + j] * node(&chain.global).mean[c * 3 + j]).sum();
                assert!(pull.abs() < 1e-12, "{bound:?} column {j}: {pull}");
            }
        });
    }
}

#[test]
fn sparse_rows_give_the_dense_fit() {
    let (mut x, codes) = random(40, 4, 3, 10);
    x.iter_mut().filter(|v| **v < 0.2).for_each(|v| *v = 0.0);
    for kind in 0..3 {
        let (bound, covariance) = choice(kind);
        let given = as_map(&Settings { bound, covariance, ..Settings::default() });
        let model = Softmax.configure(&given).unwrap();
        let run = |m: Matrix<'static>| {
            let data = Dataset::new(m).with_target(classes(&codes, 3));
            let fitted = crate::model::fit(model.as_ref(), &data, &Default::default(), &mut crate::run::Unobserved).unwrap();
            let p = fitted.posterior.predict(&data, "mc").unwrap();
            (saved_global::<Vb>(&fitted.kept.chains[0].checkpoint).unwrap(), p)
        };
        let ((a, p), (b, q)) = (run(Matrix::dense(40, 4, x.clone())), run(sparse(40, 4, &x)));
        same_top(&a, &b, 1e-9);
        for (p, q) in p.probability.iter().zip(&q.probability) {
            assert!((p - q).abs() < 1e-9);
        }
    }
}

#[test]
fn the_start_has_the_gradient_of_its_objective() {
    let (x, codes) = random(17, 3, 4, 11);
    let mut data = Dataset::new(Matrix::dense(17, 3, x)).with_target(classes(&codes, 4));
    data.weights = Some((0..17).map(|i| 0.25 * (i % 5) as f64).collect());
    let p = program(&Settings::default(), 4, Design::identity(3, true));
    climb(&p, &data, 0, |chain, _| {
        let at = pseudo(16, 2);
        let mut gradient = vec![0.0; 16];
        let tree = chain.global.tree.clone();
        let objective = map::Objective { program: &p, tree: &tree, fold: None, penalty: 0.01 };
        objective.value(chain.rows(), &at, &mut gradient).unwrap();
        let worst = check_gradient(|w| objective.value(chain.rows(), w, &mut [0.0; 16]).unwrap(), &at, &gradient);
        assert!(worst.relative_error < 2e-8, "{worst:?}");
        let found = objective.search(chain.rows(), &[0.0; 16], 500).unwrap();
        assert!(found.status.converged());
        objective.value(chain.rows(), &found.x, &mut gradient).unwrap();
        assert!(gradient.iter().all(|g| g.abs() < 1e-3), "{gradient:?}");
    });
}
