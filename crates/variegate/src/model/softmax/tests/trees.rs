//! Trees: subclasses, experts, gates, Gaussian leaves, and every bound and covariance.

use super::*;
use crate::data::Dataset;
use crate::data::Target;
use crate::infer::finite_difference::check_gradient;

const ALL: [(Bound, CovarianceChoice); 9] = [
    (Bound::Double, CHILD),
    (Bound::Tilted, CHILD),
    (Bound::Tilted, JOINT),
    (Bound::Tilted, CovarianceChoice(Some(Covariance::Blocks(1)))),
    (Bound::Tilted, CovarianceChoice(Some(Covariance::Blocks(2)))),
    (Bound::Tilted, CovarianceChoice(Some(Covariance::LowRank(2)))),
    (Bound::Double, CovarianceChoice(Some(Covariance::Blocks(1)))),
    (Bound::Double, CovarianceChoice(Some(Covariance::LowRank(1)))),
    (Bound::Bohning, AUTO),
];

fn fixed(bound: Bound, covariance: CovarianceChoice) -> Settings {
    Settings { bound, covariance, precision: Precision::Fixed, ..Settings::default() }
}

fn gate(children: Vec<tree::Gates>) -> tree::Gates {
    tree::Gates::Gate { coding: None, children }
}

fn trees() -> Vec<Structure> {
    use tree::Gates::{Expert, Subclasses};
    vec![
        Structure::Subclasses(vec![1, 1]),
        Structure::Subclasses(vec![1, 2]),
        Structure::Subclasses(vec![3, 2]),
        Structure::Experts(2),
        Structure::Experts(3),
        Structure::Gates(gate(vec![Expert, gate(vec![Expert, Subclasses(vec![2, 1])])])),
    ]
}

/// Numbers of the derivation: the bound of a class with two subclasses, with given and learned precisions.
#[test]
fn bounds_of_subclasses() {
    let data = five(&[0, 0, 1, 1, 1], 2);
    let structure = Structure::Subclasses(vec![1, 2]);
    for (is_fixed, evidence, bounds) in
        [(true, -2.9094188293, [-7.40149180, -3.53159374, -3.34780276]), (false, -2.97553505, [-8.03836954, -4.17880758, -4.01107619])]
    {
        for ((bound, covariance), expected) in
            [(Bound::Double, CHILD), (Bound::Tilted, CHILD), (Bound::Tilted, JOINT)].into_iter().zip(bounds)
        {
            let s = if is_fixed { fixed(bound, covariance) } else { Settings { precision: Precision::Child, ..fixed(bound, covariance) } };
            let l = top_tree(&program(&s, 2, Design::identity(1, false)), &data, &structure).bound;
            assert!((l - expected).abs() < 2e-8, "{bound:?} {covariance:?} {is_fixed}: {l} instead of {expected}");
            assert!(l < evidence);
        }
    }
}

#[test]
fn two_children_under_the_quadratic_bound() {
    let data = five(&[0, 0, 1, 1, 1], 2);
    let l = |s: &Settings| top(&program(s, 2, Design::identity(1, false)), &data);
    let learned = |c| Settings { precision: Precision::Child, ..fixed(Bound::Jj, c) };
    for (s, expected) in [
        (fixed(Bound::Jj, CHILD), -3.48482640),
        (learned(CHILD), -3.92198516),
        (fixed(Bound::Jj, JOINT), -3.25936803),
        (learned(JOINT), -3.71418695),
    ] {
        let found = l(&s).bound;
        assert!((found - expected).abs() < 2e-8, "{s:?}: {found} instead of {expected}");
    }
    // reference coding: plain logistic regression
    let logistic = Settings { coding: tree::Coding::Logistic, ..fixed(Bound::Tilted, AUTO) };
    let state = l(&logistic);
    assert!((state.bound - -3.21689674).abs() < 2e-8, "{}", state.bound);
    assert!((node(&state).mean[0] - 0.78161242).abs() < 1e-7);
    assert!((1.0 / node(&state).precision[0] - 0.37219639).abs() < 1e-7);
    // contrasts have half the variance of differences: the same evidence as the full coding
    let bohning = l(&fixed(Bound::Bohning, AUTO));
    assert!(bohning.bound < -3.1211518661 && bohning.bound > -3.6, "{}", bohning.bound);
    let three = five(&[0, 0, 1, 2, 1], 3);
    let found = top(&program(&fixed(Bound::Bohning, AUTO), 3, Design::identity(1, false)), &three).bound;
    assert!((found - -5.66117404).abs() < 2e-8, "{found}");
}

/// Log likelihood and gradient of the exact model at given weights, to the printed digits.
#[test]
fn likelihood_of_trees_and_its_gradient() {
    let x = vec![0.5, -1.0, 2.0];
    let data = Dataset::new(Matrix::dense(3, 1, x)).with_target(classes(&[0, 1, 1], 2));
    let p = program(&Settings::default(), 2, Design::identity(1, true));
    let near = |a: &[f64], b: &[f64]| a.iter().zip(b).for_each(|(a, b)| assert!((a - b).abs() < 1e-8, "{a} instead of {b}"));
    let at = |structure: &Structure, w: &[f64]| {
        climb_tree(&p, &data, structure, 0, |chain, _| {
            let tree = structure.tree(p.outcome, p.binary);
            let mut gradient = vec![0.0; w.len()];
            let objective = map::Objective { program: &p, tree: &tree, fold: None, penalty: 0.0 };
            let value = objective.value(chain.rows(), w, &mut gradient).unwrap();
            (-value, gradient.iter().map(|g| -g).collect::<Vec<f64>>())
        })
    };
    let (value, gradient) = at(&Structure::Subclasses(vec![1, 2]), &[0.2, -0.1, 0.7, 0.3, -0.4, 0.05]);
    assert!((value - -1.8191833481).abs() < 1e-10);
    near(&gradient, &[0.24621772, 0.30153521, 0.01254274, -0.26249617, -0.25876045, -0.03903904]);
    let (value, gradient) = at(&Structure::Experts(2), &[0.2, -0.1, 0.7, 0.3, -0.4, 0.05, 0.1, 0.6, 0.9, -0.2, -0.3, 0.25]);
    assert!((value - -2.5171539469).abs() < 1e-10);
    let half = [[0.91099947, 0.18894655], [0.05914448, -0.14538668], [-0.39099978, -0.07313026]];
    for (node, g) in half.iter().enumerate() {
        near(&gradient[node * 4..node * 4 + 2], g);
        near(&gradient[node * 4 + 2..node * 4 + 4], &[-g[0], -g[1]]);
    }
}

/// Gradients of every tree by finite differences, Gaussian leaves included.
#[test]
fn gradients_of_trees() {
    let (rows, cols) = (14, 2);
    let x = pseudo(rows * cols, 5);
    let codes: Vec<u32> = (0..rows).map(|i| ((x[i * 2] > 0.0) as u32 + (i % 5 == 0) as u32) % 2).collect();
    for logistic in [false, true] {
        let coding = if logistic { tree::Coding::Logistic } else { tree::Coding::Full };
        for bound in [Bound::Tilted, Bound::Bohning] {
            for structure in trees() {
                for real in [false, true] {
                    if real && matches!(structure, Structure::Subclasses(_)) {
                        continue;
                    }
                    let (outcome, target, counts) = if real {
                        (Emission::Real(2), Target::Real { width: 2, values: pseudo(rows * 2, 8) }, vec![rows as f64])
                    } else {
                        (Emission::Classes(2), classes(&codes, 2), vec![7.0, 7.0])
                    };
                    let data = Dataset::new(Matrix::dense(rows, cols, x.clone())).with_target(target);
                    let s = Settings { bound, coding, ..Settings::default() };
                    let p = check::program(&s, outcome, Design::identity(cols, true), counts).unwrap();
                    climb_tree(&p, &data, &structure, 0, |chain, _| {
                        let tree = structure.tree(p.outcome, p.binary);
                        let at = pseudo(p.layout(&tree).parameters(), 3);
                        let objective = map::Objective { program: &p, tree: &tree, fold: None, penalty: 0.1 };
                        let mut gradient = vec![0.0; at.len()];
                        objective.value(chain.rows(), &at, &mut gradient).unwrap();
                        let value = |w: &[f64]| objective.value(chain.rows(), w, &mut vec![0.0; w.len()]).unwrap();
                        let worst = check_gradient(value, &at, &gradient);
                        assert!(worst.relative_error < 2e-7, "{structure:?} {real}: {worst:?}");
                    });
                }
            }
        }
    }
}

/// The trace never falls, and where it ends no neighbour is better.
fn rises_to_a_top(p: &Vb, data: &Dataset<'_>, structure: &Structure, what: &str) {
    climb_tree(p, data, structure, 400, |chain, trace| {
        for pair in trace.windows(2) {
            assert!(pair[1] >= pair[0] - 1e-9 * (1.0 + pair[0].abs()), "{what}: {} then {}", pair[0], pair[1]);
        }
        let gain = trace[trace.len() - 1] - trace[trace.len() - 2];
        let state = chain.global.clone();
        if gain < 1e-10 * (1.0 + state.bound.abs()) {
            for q in super::invariants::neighbours(p, &state) {
                let other = evaluate(p, &state, &q, chain.rows()).0;
                assert!(other < state.bound + 1e-7 * (1.0 + state.bound.abs()), "{what}: {other} beside {}", state.bound);
            }
        }
    });
}

/// Every trace rises, and at its end no neighbour is better: all trees, bounds, covariances, codings, precisions.
#[test]
fn long_every_tree_rises_to_a_top() {
    let (rows, cols) = (17, 3);
    for (salt, (bound, covariance)) in ALL.into_iter().chain([(Bound::Tilted, AUTO)]).enumerate() {
        for structure in trees() {
            for (precision, coding) in [
                (Precision::Node, tree::Coding::Full),
                (Precision::Child, tree::Coding::Full),
                (Precision::Fixed, tree::Coding::Logistic),
                (Precision::Feature, tree::Coding::Full),
            ] {
                let narrow = covariance.0.is_some_and(Covariance::needs_products);
                if (narrow && coding == tree::Coding::Logistic)
                    || (matches!(covariance.0, Some(Covariance::LowRank(_))) && precision == Precision::Feature)
                    || (bound == Bound::Bohning && !matches!(precision, Precision::Node | Precision::Fixed))
                {
                    continue;
                }
                let s = Settings { bound, covariance, precision, coding, ..Settings::default() };
                let x = pseudo(rows * cols, salt as u64);
                let codes: Vec<u32> = x.chunks(cols).map(|r| (r[0] * r[1] > 0.1 * r[2]) as u32).collect();
                let data = Dataset::new(Matrix::dense(rows, cols, x)).with_target(classes(&codes, 2));
                let p = program(&s, 2, Design::identity(cols, true));
                let what = format!("{bound:?} {covariance:?} {precision:?} {coding:?} {}", structure.describe());
                rises_to_a_top(&p, &data, &structure, &what);
            }
        }
    }
}

/// One regression expert is Bayesian linear regression, whose evidence is a multivariate t.
#[test]
fn one_regression_expert_is_exact() {
    let x = vec![-1.5, -0.7, 0.1, 0.6, 1.4, 2.0];
    let y = vec![1.4, 0.9, 0.2, 0.5, 1.6, 1.9];
    let data = Dataset::new(Matrix::dense(6, 1, x)).with_target(Target::Real { width: 1, values: y });
    let with = |slope_precision| {
        let s = Settings { task: Task::Regression, noise_rate: 1.0, slope_precision, ..Settings::default() };
        let p = check::program(&s, Emission::Real(1), Design::identity(1, true), vec![6.0]).unwrap();
        top_tree(&p, &data, &Structure::Experts(1))
    };
    let state = with(Some(0.5));
    let leaf = &state.q.as_ref().unwrap().leaves[0];
    assert!((state.bound - -9.6023496294).abs() < 1e-8, "{}", state.bound);
    assert!((leaf.mean[0] - 0.19191057).abs() < 1e-7 && (leaf.mean[1] - 0.94390306).abs() < 1e-7);
    assert!((leaf.shape - 4.0).abs() < 1e-12 && (leaf.rates[0] - 2.1989973547).abs() < 1e-8);
    let learned = with(None).bound;
    assert!((learned - -9.72254477).abs() < 2e-8, "{learned}");
}

#[test]
fn regression_trees_rise_to_a_top() {
    let rows = 24;
    let x = pseudo(rows, 6);
    let y: Vec<f64> = x.iter().zip(pseudo(rows * 2, 7).chunks(2)).flat_map(|(x, e)| [x.abs() + 0.05 * e[0], -x + 0.1 * e[1]]).collect();
    let data = Dataset::new(Matrix::dense(rows, 1, x)).with_target(Target::Real { width: 2, values: y });
    for (bound, covariance) in ALL {
        for structure in [
            Structure::Experts(1),
            Structure::Experts(2),
            Structure::Experts(3),
            Structure::Gates(gate(vec![tree::Gates::Expert, gate(vec![tree::Gates::Expert; 2])])),
        ] {
            let s = Settings { task: Task::Regression, bound, covariance, ..Settings::default() };
            let p = check::program(&s, Emission::Real(2), Design::identity(1, true), vec![rows as f64]).unwrap();
            let what = format!("{bound:?} {covariance:?} {}", structure.describe());
            rises_to_a_top(&p, &data, &structure, &what);
        }
    }
}

/// Reductions: one subclass, one expert, a gate over two experts, a low rank of full rank, blocks of full width.
#[test]
fn long_special_cases_are_the_models_they_reduce_to() {
    let (rows, cols) = (20, 2);
    let x = pseudo(rows * cols, 21);
    let codes: Vec<u32> = x.chunks(2).map(|r| (r[0] * r[1] > 0.0) as u32).collect();
    let data = Dataset::new(Matrix::dense(rows, cols, x)).with_target(classes(&codes, 2));
    let l = |s: &Settings, structure: &Structure| top_tree(&program(s, 2, Design::identity(cols, true)), &data, structure).bound;
    for (bound, covariance) in ALL {
        let s = Settings { bound, covariance, ..Settings::default() };
        let softmax = l(&s, &Structure::Subclasses(vec![1, 1]));
        assert!((l(&s, &Structure::Experts(1)) - softmax).abs() < 1e-9);
        assert!((l(&s, &Structure::Gates(tree::Gates::Expert)) - softmax).abs() < 1e-9);
        let two = l(&s, &Structure::Experts(2));
        assert!((l(&s, &Structure::Gates(gate(vec![tree::Gates::Expert; 2]))) - two).abs() < 1e-9, "{bound:?} {covariance:?}");
    }
    let three = Structure::Subclasses(vec![2, 1]);
    for bound in [Bound::Tilted, Bound::Double] {
        let child = l(&Settings { bound, covariance: CHILD, ..Settings::default() }, &three);
        for whole in [Covariance::LowRank(3), Covariance::Blocks(3)] {
            let other = l(&Settings { bound, covariance: CovarianceChoice(Some(whole)), ..Settings::default() }, &three);
            assert!((other - child).abs() < 1e-6 * child.abs(), "{bound:?} {whole:?}: {other} instead of {child}");
        }
    }
}

/// A_root once more, by listing every path: ln Σ_paths exp Σ (m − Φ), and shares that are each path's part of it.
#[test]
fn the_walk_is_a_sum_over_paths() {
    use crate::model::softmax::walk::Walk;
    use tree::{Child, Leaf};
    fn paths(layout: &layout::Layout, child: Child, so_far: f64, walk: &Walk, out: &mut Vec<(usize, f64)>) {
        match child {
            Child::Leaf(leaf) => out.push((leaf, so_far + walk.density.get(leaf).copied().unwrap_or(0.0))),
            Child::Node(v) => {
                for (c, below) in layout.nodes[v].children.iter().enumerate() {
                    paths(layout, *below, so_far + walk.z[layout.nodes[v].first_logit + c] - walk.phi[v], walk, out);
                }
            }
        }
    }
    for real in [false, true] {
        for structure in trees() {
            let outcome = if real { Emission::Real(1) } else { Emission::Classes(2) };
            if real && matches!(structure, Structure::Subclasses(_)) {
                continue;
            }
            let p = check::program(&Settings::default(), outcome, Design::identity(1, true), vec![1.0; 2]).unwrap();
            let layout = p.layout(&structure.tree(outcome, tree::Coding::Full));
            let mut walk = Walk::default();
            walk.resize(&layout);
            walk.z = pseudo(layout.logits, 3).iter().map(|z| 3.0 * z).collect();
            walk.phi = pseudo(layout.nodes.len(), 4);
            walk.density = pseudo(layout.gaussians(), 5);
            for class in 0..2u32 {
                let up = walk.up(&layout, class, 1.0);
                walk.down(&layout, class, 1.0);
                let mut all = Vec::new();
                paths(&layout, layout.root, 0.0, &walk, &mut all);
                let mine: Vec<(usize, f64)> = all
                    .into_iter()
                    .filter(|(leaf, _)| matches!(layout.leaves[*leaf], Leaf::Gaussian) || layout.leaves[*leaf] == Leaf::Class(class))
                    .collect();
                let total: f64 = mine.iter().map(|(_, t)| t.exp()).sum();
                assert!((up - total.ln()).abs() < 1e-12, "{structure:?}");
                for (leaf, t) in &mine {
                    assert!((walk.leaf[*leaf] - t.exp() / total).abs() < 1e-12, "{structure:?}");
                }
                assert!((walk.leaf.iter().sum::<f64>() - 1.0).abs() < 1e-12);
                for (v, node) in layout.nodes.iter().enumerate() {
                    let share: f64 = walk.share[node.at_logits()].iter().sum();
                    assert!((share - walk.reach[v]).abs() < 1e-12);
                }
            }
        }
    }
}

/// Permuted subclasses are the same fit, repeated rows are weights, sparse rows are dense rows: for trees too.
#[test]
fn trees_do_not_see_order_weights_or_storage() {
    let rows = 40;
    let mut x = pseudo(rows * 3, 31);
    x.iter_mut().filter(|v| v.abs() < 0.4).for_each(|v| *v = 0.0);
    let codes: Vec<u32> = x.chunks(3).map(|r| (r[0] * r[1] >= 0.0) as u32).collect();
    let (mut indptr, mut indices, mut values) = (vec![0usize], vec![], vec![]);
    for row in x.chunks(3) {
        for (j, &v) in row.iter().enumerate().filter(|(_, v)| **v != 0.0) {
            indices.push(j as u32);
            values.push(v);
        }
        indptr.push(indices.len());
    }
    let dense = Dataset::new(Matrix::dense(rows, 3, x.clone())).with_target(classes(&codes, 2));
    let csr = Matrix::Csr { rows, cols: 3, indptr: indptr.into(), indices: indices.into(), values: values.into() };
    let sparse = Dataset::new(csr).with_target(classes(&codes, 2));
    let mut weighted = dense.clone();
    weighted.weights = Some((0..rows).map(|i| (i % 3) as f64).collect());
    let repeated = dense.subset(&(0..rows).flat_map(|i| vec![i; i % 3]).collect::<Vec<_>>());
    for (bound, covariance) in ALL {
        for structure in [Structure::Subclasses(vec![1, 2]), Structure::Experts(2)] {
            let design = Design { mean: vec![0.1, -0.2, 0.3], scale: vec![0.5, 2.0, 1.5], ..Design::identity(3, true) };
            let p = program(&Settings { bound, covariance, ..Settings::default() }, 2, design);
            let l = |data: &Dataset<'_>| climb_tree(&p, data, &structure, 30, |chain, _| chain.global.bound);
            let what = format!("{bound:?} {covariance:?} {}", structure.describe());
            let (a, b) = (l(&dense), l(&sparse));
            assert!((a - b).abs() < 1e-6 * (1.0 + a.abs()), "{what}: dense {a}, sparse {b}");
            if !matches!(covariance.0, Some(Covariance::LowRank(_))) {
                let (a, b) = (l(&weighted), l(&repeated));
                assert!((a - b).abs() < 1e-6 * (1.0 + a.abs()), "{what}: weighted {a}, repeated {b}");
            }
        }
    }
}
