//! Kernels against one another: sparse and dense rows, predictions as ratios of marginal likelihoods, draws against expectations.

use super::*;
use crate::data::Matrix;
use crate::dist::testing::{TestRng, rng};
use crate::model::labels::enumerated::{dense, statistics};
use crate::run::open01;

const WIDTH: usize = 3;
const ROWS: [f64; 12] = [1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0];

/// All four over three columns; the rows of ones and zeros above are legal under each.
fn kernels(power: f64) -> [Kernel; 4] {
    let (shift, mean) = ([0.4, 0.3, 0.2], [0.1, -0.2, 0.3]);
    let scatter = [1.5, 0.0, 0.0, 0.3, 1.0, 0.0, -0.2, 0.1, 0.8];
    [
        Kernel::Multinomial(Multinomial::new(WIDTH, 0.4, power)),
        Kernel::Bernoulli(Bernoulli::new(1.5, &[0.3, 0.5, 0.8], power)),
        Kernel::Diagonal(Diagonal::new(&mean, 0.5, 3.0, &[1.0, 0.7, 2.0], &shift, power)),
        Kernel::Full(Full::new(&mean, 0.5, 6.0, &scatter, &shift, power).unwrap()),
    ]
}

fn sparse(values: &[f64], cols: usize) -> Matrix<'static> {
    let (mut indptr, mut indices, mut kept) = (vec![0], Vec::new(), Vec::new());
    for row in values.chunks_exact(cols) {
        for (j, v) in row.iter().enumerate().filter(|(_, v)| **v != 0.0) {
            indices.push(j as u32);
            kept.push(*v);
        }
        indptr.push(kept.len());
    }
    Matrix::Csr { rows: values.len() / cols, cols, indptr: indptr.into(), indices: indices.into(), values: kept.into() }
}

fn close(got: &[f64], want: &[f64], within: f64) {
    assert_eq!(got.len(), want.len());
    assert!(got.iter().zip(want).all(|(g, w)| (g - w).abs() < within), "{got:?} {want:?}");
}

fn shares(n: usize, k: usize, rng: &mut TestRng) -> Vec<f64> {
    (0..n * k).map(|_| open01(rng)).collect()
}

#[test]
fn sparse_rows_are_as_dense_ones() {
    let (n, k, mut rng) = (40, 5, rng(3));
    let values: Vec<f64> = (0..n * WIDTH).map(|_| if open01(&mut rng) < 0.6 { 0.0 } else { 1.0 }).collect();
    let whole = sparse(&values, WIDTH);
    let r = shares(n, k, &mut rng);
    for kernel in kernels(0.7) {
        for range in [0..n, 7..9, 5..31] {
            let (x, s) = (dense(&values[range.start * WIDTH..range.end * WIDTH], WIDTH), whole.slice(range.clone()));
            let r = &r[range.start * k..range.end * k];
            let (a, b) = (statistics(&kernel, x, r, k), statistics(&kernel, s, r, k));
            close(&a, &b, 1e-12);
            let factors = kernel.posteriors(&a, k).unwrap();
            let mut parameters = Vec::new();
            factors.iter().for_each(|q| kernel.draw(q, &mut rng, &mut parameters).unwrap());
            assert_eq!(parameters.len(), k * kernel.parameters());
            // buffers that have served before
            let mut scratch = Scratch::default();
            for table in [kernel.expected(&factors), kernel.table_of(&parameters, k)] {
                assert_eq!(table.components(), k);
                let (mut a, mut b) = (vec![0.5; range.len() * k], vec![0.5; range.len() * k]);
                table.evaluate(x, &mut a, &mut scratch);
                table.evaluate(s, &mut b, &mut scratch);
                close(&a, &b, 1e-11);
            }
            let predictive = kernel.predictive(&factors);
            let (mut a, mut b) = (vec![0.5; range.len() * k], vec![0.5; range.len() * k]);
            predictive.evaluate(x, &mut a, &mut scratch);
            predictive.evaluate(s, &mut b, &mut scratch);
            close(&a, &b, 1e-11);
            let (mut a, mut b) = (vec![0.0; range.len()], vec![0.0; range.len()]);
            kernel.ln_coefficient(x, &mut a);
            kernel.ln_coefficient(s, &mut b);
            close(&a, &b, 1e-12);
        }
    }
}

/// A row's predictive density is the ratio of marginal likelihoods with and without it; without rows it is that of the prior.
#[test]
fn predictions_are_ratios_of_marginal_likelihoods() {
    // counts beyond the short product as well
    let rows = [4.0, 0.0, 1.0, 0.0, 12.0, 2.5, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0];
    for (number, kernel) in kernels(1.0).into_iter().enumerate() {
        let rows = if number == 1 { ROWS } else { rows };
        let x = dense(&rows, WIDTH);
        for weights in [[0.0; 4], [1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 1.0, 1.0]] {
            let stats = statistics(&kernel, x, &weights, 1);
            let mut out = vec![0.0; 4];
            kernel.predictive(&[kernel.posterior(&stats).unwrap()]).evaluate(x, &mut out, &mut Scratch::default());
            for (i, got) in out.into_iter().enumerate() {
                let mut more = weights;
                more[i] += 1.0;
                let want = kernel.ln_marginal(&statistics(&kernel, x, &more, 1)).unwrap() - kernel.ln_marginal(&stats).unwrap();
                assert!((got - want).abs() < 1e-11, "{number} {i}: {got} {want}");
            }
        }
        let empty = vec![0.0; kernel.size()];
        assert_eq!(kernel.posterior(&empty).unwrap(), kernel.prior());
        assert_eq!(kernel.ln_marginal(&empty).unwrap(), 0.0);
    }
}

/// Draws have the expected logarithms of the table, and their average density is the predictive one.
#[test]
fn draws_agree_with_expectations() {
    let x = dense(&ROWS, WIDTH);
    for (number, kernel) in kernels(1.0).into_iter().enumerate() {
        let q = kernel.posterior(&statistics(&kernel, x, &[1.0, 0.5, 0.0, 1.0], 1)).unwrap();
        let (mut scratch, mut rng, draws) = (Scratch::default(), rng(40), 20_000);
        let (mut logs, mut densities) = (vec![vec![]; 4], vec![vec![]; 4]);
        for _ in 0..draws {
            let mut parameters = Vec::new();
            kernel.draw(&q, &mut rng, &mut parameters).unwrap();
            let mut out = [0.0; 4];
            kernel.table_of(&parameters, 1).evaluate(x, &mut out, &mut scratch);
            for i in 0..4 {
                logs[i].push(out[i]);
                densities[i].push(out[i].exp());
            }
        }
        let (mut expected, mut predictive) = ([0.0; 4], [0.0; 4]);
        kernel.expected(std::slice::from_ref(&q)).evaluate(x, &mut expected, &mut scratch);
        kernel.predictive(std::slice::from_ref(&q)).evaluate(x, &mut predictive, &mut scratch);
        for (values, wants) in [(logs, expected), (densities, predictive.map(f64::exp))] {
            for (values, want) in values.iter().zip(wants) {
                let mean = values.iter().sum::<f64>() / draws as f64;
                let spread = (values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / draws as f64).sqrt();
                let error = spread / (draws as f64).sqrt();
                assert!((mean - want).abs() <= 4.5 * error + 1e-12, "{number}: {mean} {want} ± {error}");
            }
        }
    }
}

/// The posterior is where the bound is flat in every parameter of the factor.
#[test]
fn the_posterior_is_a_maximum() {
    let x = dense(&ROWS, WIDTH);
    for kernel in kernels(0.8) {
        let stats = statistics(&kernel, x, &[0.9, 0.4, 0.7, 0.2], 1);
        let q = kernel.posterior(&stats).unwrap();
        let bound = |q: &Factor| kernel.value(std::slice::from_ref(q), &stats) - kernel.divergence(q);
        // sums and tables are to the same power
        let mut terms = [0.0; 4];
        kernel.expected(std::slice::from_ref(&q)).evaluate(x, &mut terms, &mut Scratch::default());
        let by_rows = linalg::dot(&terms, &[0.9, 0.4, 0.7, 0.2]);
        assert!((kernel.value(std::slice::from_ref(&q), &stats) - by_rows).abs() < 1e-12);
        // with one component and all its rows the bound is the marginal likelihood
        assert!((bound(&q) - kernel.ln_marginal(&stats).unwrap()).abs() < 1e-11);
        let mut directions: Vec<Box<dyn Fn(f64) -> Factor>> = Vec::new();
        for d in 0..WIDTH {
            match &q {
                Factor::Multinomial(f) => directions.push(Box::new(move |by| {
                    let mut f = f.clone();
                    f.counts[d] += by;
                    Factor::Multinomial(f)
                })),
                Factor::Bernoulli(f) => directions.push(Box::new(move |by| {
                    let mut f = f.clone();
                    f.ones[d] += by;
                    f.zeros[d] -= 0.3 * by;
                    Factor::Bernoulli(f)
                })),
                Factor::Diagonal(f) => directions.push(Box::new(move |by| {
                    let mut f = f.clone();
                    f.mean[d] += by;
                    f.rate[d] += 0.5 * by;
                    f.shape -= 0.2 * by;
                    f.strength += 0.4 * by;
                    Factor::Diagonal(f)
                })),
                Factor::Full(f) => directions.push(Box::new(move |by| {
                    let mut f = f.clone();
                    f.mean[d] += by;
                    f.freedom -= 0.2 * by;
                    f.strength += 0.4 * by;
                    let lower = f.scatter.lower();
                    let mut scatter = vec![0.0; WIDTH * WIDTH];
                    linalg::mul_t(&lower, &lower, &mut scatter, WIDTH, WIDTH, WIDTH, false);
                    scatter[2 * WIDTH + d] += by;
                    f.scatter = crate::linalg::Cholesky::new(WIDTH, &scatter).unwrap();
                    Factor::Full(f)
                })),
            }
        }
        for direction in directions {
            let (up, down) = (bound(&direction(1e-4)), bound(&direction(-1e-4)));
            assert!(((up - down) / 2e-4).abs() < 1e-6, "{q:?}: {up} {down}");
            assert!(up < bound(&q) && down < bound(&q));
        }
    }
}

/// The same rows far from zero give the same posterior, their means moved.
#[test]
fn large_means_keep_their_digits() {
    let (n, mut rng) = (50, rng(9));
    let values: Vec<f64> = (0..n * 2).map(|_| (open01(&mut rng) * 64.0).round() / 64.0).collect();
    let (far, scatter) = (f64::from(1 << 30), Full::identity(2));
    let moved: Vec<f64> = values.iter().map(|v| v + far).collect();
    let build = |at: f64| {
        [
            Kernel::Diagonal(Diagonal::new(&[at; 2], 0.1, 2.0, &[1.0; 2], &[0.5 + at; 2], 1.0)),
            Kernel::Full(Full::new(&[at; 2], 0.1, 4.0, &scatter, &[0.5 + at; 2], 1.0).unwrap()),
        ]
    };
    for (near, distant) in build(0.0).into_iter().zip(build(far)) {
        let a = near.posterior(&statistics(&near, dense(&values, 2), &vec![1.0; n], 1)).unwrap();
        let b = distant.posterior(&statistics(&distant, dense(&moved, 2), &vec![1.0; n], 1)).unwrap();
        assert_eq!(a, b);
        assert!(distant.mean(&b).iter().zip(near.mean(&a)).all(|(b, a)| (b - far - a).abs() < 1e-6));
    }
}

/// Without columns rows say nothing, under any kernel.
#[test]
fn no_columns() {
    let none = X::Dense { rows: 3, cols: 0, values: &[] };
    let empty = X::Csr { cols: 0, indptr: &[0, 0, 0, 0], indices: &[], values: &[] };
    let kernels = [
        Kernel::Multinomial(Multinomial::new(0, 0.1, 1.0)),
        Kernel::Bernoulli(Bernoulli::new(1.0, &[], 1.0)),
        Kernel::Diagonal(Diagonal::new(&[], 0.1, 2.0, &[], &[], 1.0)),
        Kernel::Full(Full::new(&[], 0.1, 2.0, &[], &[], 1.0).unwrap()),
    ];
    for kernel in kernels {
        for x in [none, empty] {
            let stats = statistics(&kernel, x, &[0.5; 6], 2);
            let factors = kernel.posteriors(&stats, 2).unwrap();
            let (mut out, mut scratch, mut parameters) = ([0.0; 6], Scratch::default(), Vec::new());
            factors.iter().for_each(|q| kernel.draw(q, &mut rng(1), &mut parameters).unwrap());
            kernel.expected(&factors).evaluate(x, &mut out, &mut scratch);
            kernel.table_of(&parameters, 2).evaluate(x, &mut out, &mut scratch);
            kernel.predictive(&factors).evaluate(x, &mut out, &mut scratch);
            assert_eq!(out, [0.0; 6]);
            assert_eq!(kernel.value(&factors, &stats), 0.0);
            assert!(kernel.divergence(&factors[0]).abs() < 1e-12 && kernel.ln_marginal(&stats[..kernel.size()]).unwrap().abs() < 1e-12);
        }
    }
}

/// A kernel, its factors and its tables survive being written down.
#[test]
fn saved_and_loaded() {
    for kernel in kernels(0.5) {
        let q = kernel.posterior(&statistics(&kernel, dense(&ROWS, WIDTH), &[0.9, 0.4, 0.7, 0.2], 1)).unwrap();
        let table = kernel.expected(std::slice::from_ref(&q));
        let bytes = postcard::to_allocvec(&(&kernel, &q, &table)).unwrap();
        assert_eq!(postcard::from_bytes::<(Kernel, Factor, Table)>(&bytes).unwrap(), (kernel, q, table));
    }
}
