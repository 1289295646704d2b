//! Every product against plain loops, with canaries around each output and over heights that leave ragged tails.

use super::*;
use proptest::prelude::*;

const CANARY: f64 = -7.25e300;

fn numbers(len: usize, salt: u64) -> Vec<f64> {
    let mut state = salt.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 11) as f64 / (1u64 << 53) as f64 - 0.5
        })
        .collect()
}

/// Runs `f` on a buffer with guard cells on both sides and checks that they survive.
fn guarded(len: usize, fill: f64, f: impl FnOnce(&mut [f64])) -> Vec<f64> {
    let mut buffer = vec![CANARY; len + 32];
    buffer[16..16 + len].fill(fill);
    f(&mut buffer[16..16 + len]);
    assert!(buffer[..16].iter().chain(&buffer[16 + len..]).all(|&v| v == CANARY), "wrote outside its output");
    buffer[16..16 + len].to_vec()
}

fn close(a: &[f64], b: &[f64], scale: f64) {
    for (i, (x, y)) in a.iter().zip(b).enumerate() {
        assert!((x - y).abs() <= 1e-13 * scale * (1.0 + y.abs()), "entry {i}: {x} against {y}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn long_sums_equal_plain_loops(n in 0usize..100, times in -3.0f64..3.0, salt in any::<u64>()) {
        let (a, b) = (numbers(n, salt), numbers(n, salt ^ 1));
        let distance: f64 = a.iter().zip(&b).map(|(x, y)| (x - times * y).powi(2)).sum();
        close(&[dot_long(&a, &b), distance_long(&a, &b, times)], &[dot(&a, &b), distance], 100.0);
    }

    #[test]
    fn products_equal_plain_loops(n in 1usize..300, d in 1usize..40, k in 1usize..24, salt in any::<u64>(), add in any::<bool>()) {
        let (x, w) = (numbers(n * d, salt), numbers(d * k, salt ^ 1));
        let start = if add { 0.75 } else { f64::NAN };
        let base = if add { 0.75 } else { 0.0 };
        let wt: Vec<f64> = (0..k * d).map(|i| w[(i % d) * k + i / d]).collect();
        let expect: Vec<f64> = (0..n * k)
            .map(|i| base + (0..d).map(|j| x[i / k * d + j] * w[j * k + i % k]).sum::<f64>())
            .collect();
        close(&guarded(n * k, start, |o| mul(&x, &w, o, n, d, k, add)), &expect, d as f64);
        close(&guarded(n * k, start, |o| mul_t(&x, &wt, o, n, d, k, add)), &expect, d as f64);

        let r = numbers(n * k, salt ^ 2);
        let expect: Vec<f64> = (0..k * d)
            .map(|i| base + (0..n).map(|m| r[m * k + i / d] * x[m * d + i % d]).sum::<f64>())
            .collect();
        close(&guarded(k * d, start, |o| t_mul(&r, &x, o, n, k, d, add)), &expect, n as f64);
    }

    #[test]
    fn weighted_gram_equals_plain_loops(n in 1usize..300, d in 1usize..40, salt in any::<u64>()) {
        let (x, c) = (numbers(n * d, salt), numbers(n, salt ^ 3));
        let mut scratch = vec![f64::NAN; n * d + 5];
        let got = guarded(d * d, 0.5, |o| weighted_gram(&x, &c, o, n, d, &mut scratch));
        let expect: Vec<f64> = (0..d * d)
            .map(|i| {
                let (a, b) = (i / d, i % d);
                if b > a { return 0.5 } // upper triangle untouched
                0.5 + (0..n).map(|m| c[m] * x[m * d + a] * x[m * d + b]).sum::<f64>()
            })
            .collect();
        close(&got, &expect, n as f64);
    }

    #[test]
    fn lower_triangular_product_equals_plain_loops(n in 1usize..300, d in 1usize..40, salt in any::<u64>()) {
        // garbage above the diagonal must not be read
        let (x, mut t) = (numbers(n * d, salt), numbers(d * d, salt ^ 4));
        for i in 0..d { for j in i + 1..d { t[i * d + j] = f64::NAN; } }
        let got = guarded(n * d, f64::NAN, |o| mul_lower(&x, &t, o, n, d));
        let expect: Vec<f64> = (0..n * d).map(|i| (i % d..d).map(|a| x[i / d * d + a] * t[a * d + i % d]).sum::<f64>()).collect();
        close(&got, &expect, d as f64);
    }

    #[test]
    fn cholesky_solves_and_inverts(d in 1usize..60, salt in any::<u64>()) {
        let x = numbers((d + 5) * d, salt);
        let mut a = vec![0.0; d * d];
        let mut scratch = vec![0.0; (d + 5) * d];
        weighted_gram(&x, &vec![1.0; d + 5], &mut a, d + 5, d, &mut scratch);
        for i in 0..d { a[i * d + i] += 0.5; }
        let chol = Cholesky::new(d, &a).unwrap();
        mirror_lower(&mut a, d);
        let l = chol.lower();
        let mut back = vec![0.0; d * d];
        mul_t(&l, &l, &mut back, d, d, d, false);
        close(&back, &a, 10.0 * d as f64);

        let b = numbers(d, salt ^ 5);
        let mut s = b.clone();
        chol.solve(&mut s);
        let mut again = vec![0.0; d];
        again.iter_mut().zip(a.chunks_exact(s.len())).for_each(|(o, row)| *o = dot(row, &s));
        close(&again, &b, 100.0 * d as f64);

        let inverse = chol.inverse();
        let mut unit = vec![0.0; d * d];
        mul(&a, &inverse, &mut unit, d, d, d, false);
        let identity: Vec<f64> = (0..d * d).map(|i| if i / d == i % d { 1.0 } else { 0.0 }).collect();
        close(&unit, &identity, 100.0 * d as f64);
        let direct: f64 = (0..d).map(|i| 2.0 * l[i * d + i].ln()).sum();
        prop_assert!((chol.ln_det() - direct).abs() < 1e-12 * (1.0 + direct.abs()));
    }
}

#[test]
fn indefinite_and_non_finite_matrices_are_refused() {
    assert!(Cholesky::new(2, &[1.0, 0.0, 2.0, 1.0]).is_err());
    assert!(Cholesky::new(1, &[f64::NAN]).is_err());
    assert!(Cholesky::new(1, &[f64::INFINITY]).is_err());
    // rank one: jitter makes it factorable and says how much it added
    let (_, jitter) = Cholesky::with_jitter(2, &[1.0, 0.0, 1.0, 1.0]).unwrap();
    assert!(jitter > 0.0);
}
