//! Rows in lanes against the searches for single rows.

use super::*;
use crate::data::design::packed_len;
use crate::linalg;
use crate::model::softmax::bound::tilted::FITTING;
use crate::model::softmax::bound::{Columns, PanelColumns, RowBound, Solver};
use crate::special::lanes::{LANES, Lane, each};
use proptest::prelude::*;

const BOUNDS: [RowBound; 3] = [RowBound::TiltedChild, RowBound::TiltedJoint, RowBound::Double];

/// Means and covariances of n rows with s logits.
#[derive(Debug, Clone)]
struct Rows {
    bound: RowBound,
    n: usize,
    s: usize,
    k: usize,
    m: Vec<f64>,
    v: Vec<f64>,
}

impl Rows {
    /// `uniform` gives numbers between −1 and 1. Covariances are LLᵀ with entries of L of size √spread.
    fn new(bound: RowBound, n: usize, s: usize, spread: f64, mut uniform: impl FnMut() -> f64) -> Self {
        let k = if bound == RowBound::TiltedJoint { packed_len(s) } else { s };
        let m = (0..n * s).map(|_| spread * uniform()).collect();
        let mut v = Vec::new();
        for _ in 0..n {
            let l: Vec<f64> = (0..packed_len(s)).map(|_| uniform()).collect();
            for i in 0..s {
                let row = |i: usize| &l[packed_len(i)..=packed_len(i) + i];
                if bound == RowBound::TiltedJoint {
                    v.extend((0..=i).map(|j| spread * linalg::dot(row(i), row(j)) / s as f64));
                } else {
                    v.push(spread * row(i)[0].abs());
                }
            }
        }
        Self { bound, n, s, k, m, v }
    }

    /// Φ, slopes and curvatures of some rows, solved together; 7 stands for what is left as it was.
    fn together(&self, rows: &[usize]) -> Vec<Vec<f64>> {
        let mut all = self.clone();
        let (mut slope, mut curvature, mut phi) = (vec![7.0; self.n * self.s], vec![7.0; self.n * self.k], vec![7.0; self.n]);
        let parts = PanelColumns {
            m: Columns { all: &mut all.m, stride: self.s, first: 0, width: self.s },
            v: Columns { all: &mut all.v, stride: self.k, first: 0, width: self.k },
            slope: Columns { all: &mut slope, stride: self.s, first: 0, width: self.s },
            curvature: Columns { all: &mut curvature, stride: self.k, first: 0, width: self.k },
            phi: Columns { all: &mut phi, stride: 1, first: 0, width: 1 },
        };
        Solver::default().panel(self.bound, rows, parts);
        (0..self.n)
            .map(|i| [&phi[i..=i], &slope[i * self.s..(i + 1) * self.s], &curvature[i * self.k..(i + 1) * self.k]].concat())
            .collect()
    }

    /// The same of one row, by the search for single rows.
    fn single(&self, i: usize) -> Vec<f64> {
        let (mut slope, mut curvature) = (vec![0.0; self.s], vec![0.0; self.k]);
        let (m, v) = (&self.m[i * self.s..(i + 1) * self.s], &self.v[i * self.k..(i + 1) * self.k]);
        let phi = Solver::default().row(self.bound, m, v, &mut slope, &mut curvature);
        [&[phi], &slope[..], &curvature[..]].concat()
    }

    /// How many of the first rows the lanes leave to the search for single rows.
    fn left(&self) -> f64 {
        let lanes = |of: &[f64], k: usize| -> Vec<Lane> { (0..k).map(|c| each(|l| of[l * k + c])).collect() };
        let (m, v) = (lanes(&self.m, self.s), lanes(&self.v, self.k));
        let mut tilted = Tilted::default();
        let spread = if self.bound == RowBound::TiltedJoint { Spread::Joint(&v) } else { Spread::Child(&v) };
        tilted.minimise(&m, spread, FITTING);
        tilted.unsolved.iter().sum()
    }
}

fn pseudo(mut state: u64) -> impl FnMut() -> f64 {
    move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        2.0 * (state >> 11) as f64 / (1u64 << 53) as f64 - 1.0
    }
}

proptest! {
    #[test]
    fn lanes_are_the_searches_for_single_rows(
        seed in 0..u64::MAX,
        s in 2usize..13,
        n in 1usize..3 * LANES,
        spread in prop_oneof![Just(0.0), Just(1e-3), Just(1.0), Just(30.0), Just(900.0)],
    ) {
        for bound in BOUNDS {
            let rows = Rows::new(bound, n, s, spread, pseudo(seed));
            let all: Vec<usize> = (0..n).collect();
            for (i, together) in rows.together(&all).iter().enumerate() {
                for (a, b) in together.iter().zip(&rows.single(i)) {
                    // both end within the same tolerance (1e-10 in γ), but a row at its very edge may take one step more
                    prop_assert!((a - b).abs() <= 1e-10 * (1.0 + b.abs()), "{bound:?}, row {i}: {a} for {b}");
                }
            }
        }
    }

    /// Bit for bit, in any company and order; rows that were not asked for are left alone.
    #[test]
    fn a_row_is_the_same_alone_and_among_others(seed in 0..u64::MAX, s in 2usize..9, spread in prop_oneof![Just(1.0), Just(100.0)]) {
        for bound in BOUNDS {
            let n = 2 * LANES + 3;
            let rows = Rows::new(bound, n, s, spread, pseudo(seed));
            let all: Vec<usize> = (0..n).collect();
            let together = rows.together(&all);
            let backwards: Vec<usize> = (0..n).rev().collect();
            prop_assert_eq!(&together, &rows.together(&backwards));
            for i in [0, 5, LANES, n - 1] {
                let alone = rows.together(&[i]);
                prop_assert_eq!(&alone[i], &together[i]);
                prop_assert!(alone.iter().enumerate().all(|(j, row)| j == i || row.iter().all(|v| *v == 7.0)));
            }
        }
    }
}

/// What is not a number stays with its row.
#[test]
fn rows_that_are_not_finite_do_not_touch_others() {
    for bound in BOUNDS {
        let mut rows = Rows::new(bound, LANES, 4, 2.0, pseudo(3));
        let all: Vec<usize> = (0..LANES).collect();
        let before = rows.together(&all);
        rows.m[4] = f64::NAN;
        rows.m[9] = f64::INFINITY;
        rows.v[3 * rows.k] = f64::NAN;
        let after = rows.together(&all);
        for i in 4..LANES {
            assert_eq!(before[i], after[i]);
        }
        for (row, i) in after.iter().zip(1..3) {
            let single = rows.single(i);
            assert_eq!(after[i][0].is_finite(), single[0].is_finite(), "{bound:?} {row:?}");
        }
    }
}

/// Rows of ordinary variances are solved in lanes, or nothing would be gained.
#[test]
fn ordinary_rows_are_not_left() {
    for bound in [RowBound::TiltedChild, RowBound::TiltedJoint] {
        for spread in [0.1, 1.0, 3.0] {
            let left: f64 = (0..10).map(|seed| Rows::new(bound, LANES, 6, spread, pseudo(seed)).left()).sum();
            assert!(left == 0.0, "{bound:?} {spread}: {left} of {}", 10 * LANES);
        }
    }
}
