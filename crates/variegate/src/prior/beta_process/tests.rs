use super::*;
use crate::dist::quadrature::LnDensity;
use crate::dist::testing::{check_ks, check_moments, rng};
use crate::special::{ln_gamma, sigmoid};

fn near(name: &str, got: f64, want: f64, tolerance: f64) {
    assert!((got - want).abs() <= tolerance, "{name}: {got}, but it must be {want}");
}

/// `U` of one source: the distribution of a sum of independent zeros and ones.
fn distribution_of_tables(rows: u64, al: f64) -> Vec<f64> {
    let mut distribution = vec![1.0];
    for t in 0..rows {
        let p = al / (al + t as f64);
        distribution.push(0.0);
        for k in (0..distribution.len()).rev() {
            distribution[k] = distribution[k] * (1.0 - p) + if k > 0 { distribution[k - 1] * p } else { 0.0 };
        }
    }
    distribution
}

/// `E H_U`.
fn atoms_by_tables(rows: &[u64], al: &[f64]) -> f64 {
    let mut all = vec![1.0];
    for distribution in rows.iter().zip(al).map(|(&n, &al)| distribution_of_tables(n, al)) {
        let mut sum = vec![0.0; all.len() + distribution.len() - 1];
        for (i, p) in all.iter().enumerate() {
            distribution.iter().enumerate().for_each(|(k, q)| sum[i + k] += p * q);
        }
        all = sum;
    }
    let mut harmonic = 0.0;
    all.iter().enumerate().fold(0.0, |mean, (u, p)| {
        harmonic += if u > 0 { 1.0 / u as f64 } else { 0.0 };
        mean + p * harmonic
    })
}

/// The density over `theta = ln(b/(1-b))` for adaptive integrals that share nothing with the library's.
fn over_theta(process: &BetaProcess, counts: &[u32]) -> LnDensity<impl Fn(f64) -> f64> {
    let (sources, counts) = (process.sources.clone(), counts.to_vec());
    let ln_f = move |theta: f64| {
        let (b, rest) = (sigmoid(theta), sigmoid(-theta));
        let part = |(s, &n): (&Source, &u32)| {
            let n = u64::from(n);
            ln_rise(s.al * b, n) + ln_rise(s.al * rest, s.rows - n) - s.ln_total
        };
        sources.iter().zip(&counts).map(part).sum::<f64>() + rest.ln()
    };
    let (mut from, mut to) = (-60.0_f64, 30.0_f64);
    for _ in 0..200 {
        let (low, high) = (from + (to - from) / 3.0, to - (to - from) / 3.0);
        if ln_f(low) < ln_f(high) { from = low } else { to = high }
    }
    LnDensity::new(ln_f, 0.5 * (from + to), 0.1, f64::NEG_INFINITY, f64::INFINITY)
}

#[test]
fn rising_factorials() {
    for a in [1e-12, 0.3, 2.0, 11.9, 12.0, 40.0, 1e4, 1e9] {
        let mut sum = 0.0;
        for n in 0..60 {
            near(&format!("ln_rise({a}, {n})"), ln_rise(a, n), sum, 1e-14 * (10.0 + n as f64 * (1.0 + a.ln().abs())));
            sum += (a + n as f64).ln();
        }
    }
    for (a, n) in [(0.5, 1000_u64), (3.0, 100_000), (700.0, 5000)] {
        let want = ln_gamma(a + n as f64) - ln_gamma(a);
        near(&format!("ln_rise({a}, {n})"), ln_rise(a, n), want, 1e-15 * want);
    }
    assert_eq!((ln_rise(0.0, 0), ln_rise(0.0, 3), ln_rise(0.0, 300)), (0.0, f64::NEG_INFINITY, f64::NEG_INFINITY));
}

#[test]
fn slopes_are_derivatives() {
    for a in [1e-3, 0.7, 5.0, 13.0, 1e3] {
        for n in [1, 2, 7, 16, 17, 100, 5000] {
            let (first, second) = rise::slopes(a, n);
            let h = 1e-4 * a;
            let (low, high) = (ln_rise(a - h, n), ln_rise(a + h, n));
            near(&format!("slope at {a}, {n}"), first, (high - low) / (2.0 * h), 2e-8 * first + 1e-11 * high.abs() / h);
            let bend = (rise::slopes(a + h, n).0 - rise::slopes(a - h, n).0) / (2.0 * h);
            near(&format!("bend at {a}, {n}"), second, bend, 1e-7 * second.abs() + 1e-12 / h);
        }
    }
}

#[test]
fn empty_columns() {
    let process = BetaProcess::new(&[5, 8], &[2.0, 0.7]);
    for (b, want) in [
        (1e-8, -5.22734306141e-8),
        (1e-3, -0.00522899119859),
        (0.1, -0.540144656893),
        (0.5, -3.19456823374),
        (0.9, -8.28274162833),
        (0.999, -18.0559903282),
    ] {
        near(&format!("ln G({b})"), process.ln_empty(b), want, 1e-10 * want.abs());
    }
    assert_eq!((process.ln_empty(0.0), process.ln_empty(1.0)), (0.0, f64::NEG_INFINITY));
}

/// Against the plain product, across the ways in which the library computes it.
#[test]
fn empty_sources() {
    for rows in [0, 1, 5, 16, 17, 100, 3000] {
        for al in [1e-6, 0.3, 4.0, 30.0, 1e3, 1e5, 1e8] {
            let source = Source::new(rows, al);
            let mean: f64 = (0..rows).map(|t| al / (al + t as f64)).sum();
            near(&format!("E U of {rows}, {al}"), source.mean, mean, 1e-11 * mean);
            for b in [1e-12, 9e-8, 1.1e-7, 1e-5, 0.01, 0.3, 0.8, 0.999, 1.0 - 1e-12] {
                let want: f64 = (0..rows).map(|t| (-b * (al / (al + t as f64))).ln_1p()).sum();
                let name = format!("ln g({b}) of {rows}, {al}");
                near(&name, source.ln_empty(b), want, 1e-9 * want.abs());
                let (empty, used) = source.empty_and_used(b, 1.0 - b);
                near(&name, empty, want.exp(), 1e-11 * empty + 1e-16);
                near(&name, used, -want.exp_m1(), 1e-9 * used + 1e-17);
            }
        }
    }
}

#[test]
fn expected_atoms() {
    for (rows, al, want) in [
        (&[5][..], &[2.0][..], 1.7607407407),
        (&[100], &[1.0], 2.2578560519),
        (&[1000, 200], &[1.0, 3.0], 3.6110911012),
        (&[80, 80], &[1.0, 1.0], 2.8903611163),
        (&[100_000, 10], &[0.5, 20.0], 3.3048966636),
        (&[3, 4], &[1.3, 0.6], 1.992589606448),
        (&[10, 7], &[1e-9, 1e-9], 1.500000002),
        (&[2, 3], &[1.3, 0.6], 1.8562151616),
        (&[2], &[1.3], 1.2826086957),
        (&[3], &[0.6], 1.2884615385),
    ] {
        near(&format!("Psi of {rows:?}, {al:?}"), BetaProcess::new(rows, al).atoms(), want, 1e-9);
    }
    assert_eq!(BetaProcess::new(&[], &[]).atoms(), 0.0);
    assert_eq!(BetaProcess::new(&[0], &[1.0]).atoms(), 0.0);
}

/// Every rule against the distribution of `U`; one concentration changed in place or not; the limit of one pooled source.
#[test]
fn atoms_by_the_distribution_of_counts() {
    for rows in [[1, 1], [2, 3], [16, 17], [30, 34], [40, 30], [100, 100], [400, 900]] {
        for al in [[1e-6, 0.1], [0.3, 2.0], [5.0, 20.0], [100.0, 1.0], [3000.0, 1e5]] {
            let want = atoms_by_tables(&rows, &al);
            let mut process = BetaProcess::new(&rows, &al);
            near(&format!("Psi of {rows:?}, {al:?}"), process.atoms(), want, 1e-11);
            for other in [1e-4, 0.5, 3.0, 50.0, 4e4] {
                let want = atoms_by_tables(&rows, &[al[0], other]);
                near(&format!("Psi of {rows:?}, {al:?} with {other}"), process.atoms_with(1, other), want, 1e-11);
                process.set_concentration(1, other);
                near(&format!("Psi of {rows:?}, {al:?} set to {other}"), process.atoms(), want, 1e-11);
                assert_eq!(process.concentration(), [al[0], other]);
            }
        }
    }
    let harmonic: f64 = (1..=30_000).map(|k| 1.0 / f64::from(k)).sum();
    near("pooled", BetaProcess::new(&[10_000, 20_000], &[1e12, 1e13]).atoms(), harmonic, 1e-6);
    near("pooled, few", BetaProcess::new(&[2, 3], &[1e200, f64::INFINITY]).atoms(), 137.0 / 60.0, 1e-12);
    near("apart", BetaProcess::new(&[500, 20_000, 3], &[0.0, 1e-200, 1e-12]).atoms(), 11.0 / 6.0, 1e-11);
}

/// The panels in `-ln b` agree with the largest Gauss-Legendre rule where both hold.
#[test]
fn many_tables() {
    let process = BetaProcess::new(&[100_000, 3000], &[400.0, 20.0]);
    let used = |level: usize| -> f64 {
        let rule = rule(level);
        (0..rule.b.len()).map(|i| -rule.weight[i] * process.ln_empty(rule.b[i]).exp_m1()).sum()
    };
    near("two rules", used(12), used(11), 1e-11);
    near("two rules", used(12), process.atoms(), 1e-11);
    let harmonic: f64 = (1..=100_000).map(|k| 1.0 / f64::from(k)).sum();
    near("pooled", BetaProcess::new(&[100_000], &[1e15]).atoms(), harmonic, 1e-9);
}

#[test]
fn private_columns() {
    for (rows, al, want) in [
        (&[5][..], &[2.0][..], &[0.09962963][..]),
        (&[80, 80], &[1.0, 1.0], &[0.00121601, 0.00121601]),
        (&[1000, 200], &[1.0, 3.0], &[4.783e-5, 7.1079e-4]),
    ] {
        let process = BetaProcess::new(rows, al);
        for (j, want) in want.iter().enumerate() {
            near(&format!("A(e_{j}) of {rows:?}"), process.ln_private(j).exp(), *want, 1e-8);
            let mut counts = vec![0; rows.len()];
            counts[j] = 1;
            near(&format!("A(e_{j}) of {rows:?}"), process.ln_private(j), process.ln_pattern(&counts), 1e-11);
            let column = Column::new(&process.sources, &counts).unwrap();
            near(&format!("A(e_{j}) of {rows:?}"), process.ln_private(j), column.ln_integral(), 1e-10);
        }
    }
    assert_eq!(BetaProcess::new(&[0, 4], &[1.0, 1.0]).ln_private(0), f64::NEG_INFINITY);
}

#[test]
fn patterns() {
    let process = BetaProcess::new(&[3, 4], &[1.3, 0.6]);
    for (counts, want) in
        [([1, 0], -2.3556112695), ([0, 1], -3.2651415502), ([1, 1], -5.6995721398), ([2, 1], -5.9010609928), ([3, 4], -1.2351697334)]
    {
        near(&format!("ln A({counts:?})"), process.ln_pattern(&counts), want, 1e-9);
        near(&format!("ln A({counts:?})"), Column::new(&process.sources, &counts).unwrap().ln_integral(), want, 1e-9);
    }
    for al in [1e-5_f64, 0.4, 7.0, 1e6] {
        let one = BetaProcess::new(&[2], &[al]);
        near("A(1)", one.ln_pattern(&[1]), (al / (2.0 * (al + 1.0))).ln(), 1e-12);
        near("A(2)", one.ln_pattern(&[2]), ((al + 2.0) / (2.0 * (al + 1.0))).ln(), 1e-12);
        let two = BetaProcess::new(&[1, 1], &[al, 3.0]);
        for counts in [[1, 1], [1, 0], [0, 1]] {
            near("A of two rows", two.ln_pattern(&counts), 0.5_f64.ln(), 1e-12);
        }
    }
    assert_eq!(process.ln_pattern(&[0, 0]), f64::INFINITY);
}

/// The rates of all patterns add up to that of columns with a one, by both ways to compute them.
#[test]
fn patterns_add_up() {
    let binomial = |n: u64, k: u32| (ln_rise((n - u64::from(k) + 1) as f64, k.into()) - ln_rise(1.0, k.into())).exp();
    for (rows, al) in [([3, 4], [1.3, 0.6]), ([6, 0], [0.2, 1.0]), ([20, 15], [8.0, 1e-3]), ([50, 20], [2.0, 0.5])] {
        let process = BetaProcess::new(&rows, &al);
        let (mut sum, mut walked) = (0.0, 0.0);
        for first in 0..=rows[0] as u32 {
            for second in u32::from(first == 0)..=rows[1] as u32 {
                let counts = [first, second];
                let ways = binomial(rows[0], first) * binomial(rows[1], second);
                sum += ways * process.ln_pattern(&counts).exp();
                walked += ways * Column::new(&process.sources, &counts).unwrap().ln_integral().exp();
            }
        }
        near(&format!("patterns of {rows:?}"), sum, process.atoms(), 1e-10);
        near(&format!("patterns of {rows:?}, walked"), walked, process.atoms(), 1e-10);
    }
}

/// Random rows, concentrations and counts over their whole ranges, against an adaptive integral.
#[test]
fn patterns_of_every_size() {
    let mut rng = rng(31);
    for case in 0..150 {
        let sources = 1 + case % 3;
        let rows: Vec<u64> = (0..sources).map(|_| (open01(&mut rng) * 11.5).exp().ceil() as u64).collect();
        let al: Vec<f64> = (0..sources).map(|_| (open01(&mut rng) * 25.3 - 13.8).exp()).collect();
        let mut counts: Vec<u32> = rows
            .iter()
            .map(|&n| match (open01(&mut rng) * 5.0) as u32 {
                0 => 0,
                1 => n as u32,
                2 => 1,
                3 => n as u32 - 1,
                _ => (open01(&mut rng) * n as f64) as u32,
            })
            .collect();
        counts[0] = counts[0].max(1);
        let process = BetaProcess::new(&rows, &al);
        let want = over_theta(&process, &counts).ln_total();
        near(&format!("ln A({counts:?}) of {rows:?}, {al:?}"), process.ln_pattern(&counts), want, 1e-9);
    }
}

/// Probabilities too small to be tabled.
#[test]
fn patterns_far_below_one() {
    let process = BetaProcess::new(&[2; 32], &[1e-12; 32]);
    // b^31 (1-b)^32 al^32
    let want = 32.0 * 1e-12_f64.ln() + ln_gamma(32.0) + ln_gamma(33.0) - ln_gamma(65.0);
    near("ln A(1, .., 1)", process.ln_pattern(&[1; 32]), want, 1e-9);
}

#[test]
fn voids() {
    let three = BetaProcess::new(&[4; 3], &[1.0; 3]);
    near("void", (-3.0 * three.void(0.5)).exp(), 0.004865115, 1e-8);
    let two = BetaProcess::new(&[10; 2], &[5.0; 2]);
    near("void", (-2.0 * two.void(0.9)).exp(), 0.002696924, 1e-8);
    assert_eq!(two.void(1.0), two.atoms());
    assert_eq!(two.void(0.0), 0.0);
    // its derivative is (1-G)/b, with many rows as with few
    for process in [three, BetaProcess::new(&[500, 20_000], &[30.0, 900.0])] {
        for b in [1e-6, 0.01, 0.4, 0.9] {
            let slope = (process.void(b * 1.0001) - process.void(b * 0.9999)) / (2e-4 * b);
            let want = -process.ln_empty(b).exp_m1() / b;
            near(&format!("V'({b})"), slope, want, 1e-6 * want);
        }
    }
}

#[test]
fn next_empty_stick() {
    let mut rng = rng(5);
    for (rows, al, tau, below, table) in [
        ([5, 8], [2.0, 0.7], 1.0, 0.8, &[(0.04, 0.324455), (0.08, 0.540646), (0.24, 0.899196)][..]),
        ([20, 5], [1.0, 4.0], 3.0, 0.6, &[(0.06, 0.156992), (0.18, 0.715446)]),
    ] {
        let process = BetaProcess::new(&rows, &al);
        let draws: Vec<f64> = (0..40_000).map(|_| process.next_empty(below, tau, &mut rng)).collect();
        for &(b, want) in table {
            let cdf: f64 = (b / below).powf(tau) * (tau * (process.void(below) - process.void(b))).exp();
            near(&format!("P(next < {b})"), cdf, want, 1e-6);
            let share = draws.iter().filter(|&&x| x < b).count() as f64 / draws.len() as f64;
            near(&format!("share of draws below {b}"), share, want, 4.0 * (want * (1.0 - want) / draws.len() as f64).sqrt());
        }
    }
    assert_eq!(BetaProcess::new(&[3], &[1.0]).next_empty(1e-290, 1e-3, &mut rng), 0.0);
}

/// `E b` given the counts, by the density and by draws.
#[test]
fn means_of_weights() {
    let (small, large) = (BetaProcess::new(&[2, 3], &[1.3, 0.6]), BetaProcess::new(&[200, 1000], &[2.0, 5.0]));
    let mut rng = rng(17);
    for (process, counts, want) in [
        (&small, [1, 0], 0.226024),
        (&small, [0, 1], 0.211891),
        (&small, [1, 2], 0.419355),
        (&small, [2, 3], 0.737085),
        (&large, [1, 0], 0.026854),
        (&large, [50, 3], 0.084014),
        (&large, [0, 700], 0.213313),
    ] {
        let (mean, variance) = over_theta(process, &counts).mean_and_variance(sigmoid);
        near(&format!("E b given {counts:?}"), mean, want, 1e-6);
        let draws: Vec<f64> = (0..20_000).map(|_| process.draw_weight(&counts, &mut rng)).collect();
        check_moments(&format!("b given {counts:?}"), &draws, mean, variance);
    }
}

/// Draws against the density, on the scale of `ln(b/(1-b))`, at corners: all ones, a single one, concentrations near 0 and huge.
#[test]
fn distribution_of_weights() {
    let mut rng = rng(23);
    for (rows, al, counts) in [
        (&[1][..], &[1.0][..], &[1][..]),
        (&[2, 3], &[1.3, 0.6], &[1, 2]),
        (&[2, 3], &[1.3, 0.6], &[2, 3]),
        (&[100, 100], &[1.0, 2.0], &[1, 0]),
        (&[100, 100], &[1.0, 2.0], &[30, 55]),
        (&[100, 100], &[1e-6, 1e-6], &[30, 55]),
        (&[100, 100], &[1e-6, 1e5], &[99, 2]),
        (&[100, 100], &[1e5, 1e5], &[100, 100]),
        (&[100_000, 50], &[1e5, 0.1], &[1, 0]),
        (&[100_000, 50], &[1e5, 0.1], &[30_000, 50]),
        (&[100_000, 100_000], &[1e5, 1e5], &[1, 1]),
        (&[40, 0, 7], &[0.01, 1.0, 300.0], &[39, 0, 0]),
    ] {
        let process = BetaProcess::new(rows, al);
        let total = process.ln_pattern(counts);
        let draws: Vec<f64> = (0..8000).map(|_| process.draw_weight(counts, &mut rng)).collect();
        assert!(draws.iter().all(|b| *b > 0.0 && *b < 1.0));
        let odds: Vec<f64> = draws.iter().map(|b| b.ln() - (-b).ln_1p()).collect();
        let ln_pdf = |theta: f64| process.ln_weight(sigmoid(theta), counts) - total - 2.0 * (1.0 + (-theta.abs()).exp()).ln() - theta.abs();
        check_ks(&format!("b given {counts:?} of {rows:?}, {al:?}"), &odds, ln_pdf, f64::NEG_INFINITY, 34.0, 60);
    }
}

/// The tangents fit: nine draws in ten are accepted at once.
#[test]
fn rejection_stays_cheap() {
    struct Counted(crate::dist::testing::TestRng, u64);
    impl rand::rand_core::TryRng for Counted {
        type Error = std::convert::Infallible;
        fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
            self.0.try_next_u32()
        }
        fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
            self.1 += 1;
            self.0.try_next_u64()
        }
        fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Self::Error> {
            self.0.try_fill_bytes(out)
        }
    }
    let mut rng = Counted(rng(3), 0);
    for al in [1e-6, 0.1, 1.0, 30.0, 1e5] {
        let process = BetaProcess::new(&[100, 3], &[al, 2.0]);
        for counts in [[1, 0], [5, 1], [50, 3], [99, 0], [100, 3]] {
            rng.1 = 0;
            (0..2000).for_each(|_| {
                process.draw_weight(&counts, &mut rng);
            });
            // two numbers a try, a few more for the exponential
            assert!(rng.1 < 2000 * 3, "{counts:?} at {al}: {} numbers a draw", rng.1 as f64 / 2000.0);
        }
    }
}

#[test]
fn sharing() {
    let process = BetaProcess::new(&[2, 3], &[1.3, 0.6]);
    near("shared", process.used_by_both(0, 1), 0.7148550725, 1e-9);
    near("used by the first", process.used_by_both(0, 0), 1.2826086957, 1e-9);
    near("tail activity", 1.5 * process.tail_activity(0), 0.1472743742, 1e-9);
    near("tail activity", 1.5 * process.tail_activity(1), 0.0623083891, 1e-9);
    let process = BetaProcess::new(&[2, 1, 3], &[1.3, 0.6, 2.0]);
    for (sources, want) in [
        ([true, false, false], 0.3586956522),
        ([true, true, false], 0.1143719807),
        ([true, false, true], 0.3297101449),
        ([true, true, true], 0.4798309179),
    ] {
        near(&format!("used by exactly {sources:?}"), process.used_by_exactly(&sources), want, 1e-9);
    }
    assert_eq!(process.used_by_exactly(&[false; 3]), f64::INFINITY);
    let all: f64 = (1..8).map(|set: u32| process.used_by_exactly(&[0, 1, 2].map(|j| set >> j & 1 == 1))).sum();
    near("all sets", all, process.atoms(), 1e-12);
    // a row more makes an atom of every new one
    let (before, after) = (BetaProcess::new(&[300, 90], &[7.0, 2.0]), BetaProcess::new(&[301, 90], &[7.0, 2.0]));
    near("activity of a row", before.tail_activity(0), after.atoms() - before.atoms(), 1e-11);
}

/// The factors of the sources make up the density of the weight.
#[test]
fn factors_of_sources() {
    let process = BetaProcess::new(&[40, 0, 7], &[0.5, 1.0, 3.0]);
    for (b, counts) in [(0.3, [4, 0, 0]), (1e-9, [40, 0, 7]), (0.99, [1, 0, 6])] {
        let sum: f64 = (0..3).map(|j| process.ln_counts_given(j, process.concentration()[j], b, counts[j])).sum();
        near(&format!("L({b}; {counts:?})"), process.ln_weight(b, &counts) + b.ln(), sum, 1e-12 * (10.0 + sum.abs()));
    }
    near("empty", process.ln_weight(0.2, &[0, 0, 0]), process.ln_empty(0.2) - 0.2_f64.ln(), 1e-12);
}
