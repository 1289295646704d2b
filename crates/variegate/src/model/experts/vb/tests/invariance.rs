//! What must not matter: how rows are stored, cut, weighted and threaded, where a run was interrupted; and what must not break.

use super::*;
use crate::run::{AnyProgram, Engine};

fn sparse(n: usize, p: usize, x: &[f64]) -> Matrix<'static> {
    let (mut indptr, mut indices, mut values) = (vec![0usize], vec![], vec![]);
    for row in x.chunks(p) {
        for (j, &v) in row.iter().enumerate().filter(|(_, v)| **v != 0.0) {
            indices.push(j as u32);
            values.push(v);
        }
        indptr.push(indices.len());
    }
    Matrix::Csr { rows: n, cols: p, indptr: indptr.into(), indices: indices.into(), values: values.into() }
}

/// After some plain sweeps: longer ones magnify rounding. Searches along a line end to 1e-8, where rounding decides.
fn objective(program: &Vb, data: &Dataset<'_>, block_rows: usize, sweeps: usize) -> f64 {
    with_chain(program, data, block_rows, 5, |chain| {
        (0..sweeps).for_each(|_| _ = plain_sweep(program, chain));
        chain.global.objective
    })
}

#[test]
fn sparse_and_dense_rows_agree() {
    let (n, p) = (40, 5);
    let (mut x, y) = crossed(n, p, 3);
    x.iter_mut().filter(|v| **v < 0.0).for_each(|v| *v = 0.0);
    for classes in [2, 3] {
        let y: Vec<u32> = y.iter().map(|c| c % classes as u32).collect();
        let of = |x: Matrix<'static>| Dataset::new(x).with_target(target(&y, classes));
        for (grams, gate_bound) in
            [(true, GateBound::Bohning), (false, GateBound::Bohning), (true, GateBound::Bouchard), (false, GateBound::Bouchard)]
        {
            let mut program = Vb { grams, gate_bound, ..program(3, classes, p, true) };
            // centred too: sparse rows then are sums of a sparse and a common part
            program.design.mean = pseudo(p, 8);
            let dense = objective(&program, &of(Matrix::dense(n, p, x.clone())), 16, 12);
            let found = objective(&program, &of(sparse(n, p, &x)), 16, 12);
            assert!((dense - found).abs() < 1e-7 * dense.abs(), "{dense} {found}");
        }
    }
}

/// The two ways to the same top.
#[test]
fn with_and_without_gram_matrices() {
    let data = dataset(40, 3, 2);
    let base = program(2, 2, 3, true);
    let whole = climb(&Vb { tol: 1e-11, ..base.clone() }, &data, 2000, 1);
    let along = climb(&Vb { tol: 1e-11, grams: false, ..base }, &data, 4000, 1);
    assert!((whole.objective - along.objective).abs() < 1e-4, "{} {}", whole.objective, along.objective);
}

#[test]
fn weights_are_repeated_rows() {
    let (n, p) = (20, 3);
    let (x, y) = crossed(n, p, 2);
    let weights: Vec<f64> = (0..n).map(|i| (i % 3) as f64).collect();
    let (mut rx, mut ry) = (vec![], vec![]);
    for i in 0..n {
        for _ in 0..i % 3 {
            rx.extend_from_slice(&x[i * p..(i + 1) * p]);
            ry.push(y[i]);
        }
    }
    let mut weighted = Dataset::new(Matrix::dense(n, p, x)).with_target(target(&y, 2));
    weighted.weights = Some(weights);
    let repeated = Dataset::new(Matrix::dense(ry.len(), p, rx)).with_target(target(&ry, 2));
    for (grams, gate_bound) in [(true, GateBound::Bohning), (false, GateBound::Bohning), (true, GateBound::Bouchard)] {
        let program = Vb { grams, gate_bound, ..program(3, 2, p, true) };
        let (a, b) = (objective(&program, &weighted, 8, 10), objective(&program, &repeated, 8, 10));
        assert!((a - b).abs() < 1e-7 * a.abs(), "{a} {b}");
    }
    // half a row twice is a row
    let program = program(2, 2, p, true);
    let mut halves = Dataset::new(repeated.x.take(&(0..2 * ry.len()).map(|i| i / 2).collect::<Vec<_>>()));
    halves = halves.with_target(target(&ry.iter().flat_map(|y| [*y, *y]).collect::<Vec<_>>(), 2));
    halves.weights = Some(vec![0.5; 2 * ry.len()]);
    let (a, b) = (objective(&program, &halves, 8, 10), objective(&program, &repeated, 8, 10));
    assert!((a - b).abs() < 1e-7 * a.abs(), "{a} {b}");
}

#[test]
fn threads_give_the_same_bits_and_blocks_the_same_numbers() {
    let data = dataset(70, 3, 2);
    for program in [program(3, 2, 3, true), Vb { grams: false, gate_bound: GateBound::Bouchard, ..program(3, 2, 3, true) }] {
        let with = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                with_chain(&program, &data, 8, 5, |chain| {
                    (0..8).for_each(|_| drop(chain.advance(false).unwrap()));
                    chain.global.clone()
                })
            })
        };
        let one = with(1);
        assert_eq!(one, with(2));
        assert_eq!(one, with(7));
        let one = objective(&program, &data, 8, 8);
        for block_rows in [1, 13, 512] {
            let other = objective(&program, &data, block_rows, 8);
            assert!((other - one).abs() < 1e-7 * other.abs());
        }
    }
}

#[test]
fn a_resumed_ascent_has_the_same_bits() {
    let data = dataset(40, 3, 2);
    let program = Vb { gate_bound: GateBound::Bouchard, learn: true, ..program(3, 2, 3, true) };
    let blocks = blocks(&data, 16);
    let shape = crate::run::Shape { rows: data.rows(), cols: 3, blocks: blocks.len() as u32, block_rows: 16 };
    let sweeps = |chain: &mut dyn Chain, n: usize| (0..n).for_each(|_| drop(chain.advance(false).unwrap()));
    let mut whole = AnyProgram::open(&program, Engine::Threads(&blocks), shape, 1, 2, None).unwrap();
    sweeps(whole.as_mut(), 9);
    let mut part = AnyProgram::open(&program, Engine::Threads(&blocks), shape, 1, 2, None).unwrap();
    sweeps(part.as_mut(), 4);
    let saved = part.save(true).unwrap();
    let mut resumed = AnyProgram::open(&program, Engine::Threads(&blocks), shape, 1, 2, Some(&saved)).unwrap();
    sweeps(resumed.as_mut(), 5);
    assert_eq!(whole.save(true).unwrap(), resumed.save(true).unwrap());
}

/// Input that leaves something undetermined: finite, rising, and proper through the prior.
#[test]
fn hostile_rows_stay_finite() {
    let p = 3;
    let column = |f: &dyn Fn(usize) -> [f64; 3], n: usize| (0..n).flat_map(f).collect::<Vec<f64>>();
    let cases: Vec<(&str, Vec<f64>, Vec<u32>)> = vec![
        ("fewer rows than experts", vec![1.0, 0.5, -0.3, -1.0, 0.2, 0.4], vec![1, 0]),
        ("one row", vec![1.0, 0.5, -0.3], vec![1]),
        ("no rows", vec![], vec![]),
        ("separable", column(&|i| [i as f64 - 9.5, 1.0, 0.0], 20), (0..20).map(|i| u32::from(i > 9)).collect()),
        ("one class", column(&|i| [(i as f64).sin(), (i as f64).cos(), 0.1], 15), vec![1; 15]),
        ("duplicate and constant columns", column(&|i| [(i as f64).sin(), (i as f64).sin(), 3.0], 25), (0..25).map(|i| i % 2).collect()),
        ("zeros", vec![0.0; 30], (0..10).map(|i| i % 2).collect()),
        ("huge", column(&|i| [1e4 * (i as f64).sin(), 1e-6, 1e4], 20), (0..20).map(|i| u32::from(i % 3 == 0)).collect()),
    ];
    for (name, x, y) in cases {
        let n = y.len();
        let data = Dataset::new(Matrix::dense(n, p, x)).with_target(target(&y, 2));
        for program in [
            program(4, 2, p, true),
            Vb { grams: false, ..program(4, 2, p, false) },
            regularised(Vb { gate_bound: GateBound::Bouchard, ..program(4, 2, p, true) }, 5.0),
            Vb { learn: true, ..program(1, 2, p, true) },
        ] {
            let state = climb(&program, &data, 60, 7);
            assert!(state.objective.is_finite(), "{name}");
            for f in state.q.experts.factors.iter().chain(&state.q.gates.factors) {
                assert!(f.direction.iter().chain(&f.intercepts).all(|v| v.is_finite()), "{name}: {f:?}");
                assert!((dot(&f.direction, &f.direction) - 1.0).abs() < 1e-9, "{name}");
                assert!(f.kappa >= 1e-4 && f.kappa <= 1e6 * 1.01 && f.shape > 0.0 && f.rate > 0.0 && f.variance > 0.0, "{name}: {f:?}");
            }
        }
    }
}

/// Without rows q goes to the prior: its bound is the log evidence of nothing, but for what a chain loses.
#[test]
fn no_rows_give_the_prior() {
    let data = Dataset::new(Matrix::dense(0, 3, vec![])).with_target(target(&[], 2));
    let state = climb(&regularised(program(3, 2, 3, true), 0.0), &data, 50, 7);
    assert!(state.objective.abs() < 1e-5, "{}", state.objective);
    let f = &state.q.experts.factors[0];
    assert!((f.shape - 2.0).abs() < 1e-3 && (f.rate - 0.5).abs() < 1e-3 && f.kappa < 0.01 && (f.variance - 4.0).abs() < 1e-9);
}
