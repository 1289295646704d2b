//! Sums and products over long lists, eight numbers at a time.
//!
//! An operation on an [`Eight`] is one vector instruction, if the closures that are handed over are marked `#[inline(always)]` and call nothing that is
//! not: what is not inlined is compiled for ordinary instructions. Sums are held in eight lanes, each of which adds up every eighth number in
//! order, and the lanes are added up last: the bits are those of plain loops that do the same, on any machine.

use std::ops::{Add, Div, Mul};

use super::wide;

/// Numbers that are worked on together.
const LANES: usize = 8;

/// Eight numbers side by side.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Eight([f64; LANES]);

impl Eight {
    /// The same number eight times.
    #[inline(always)]
    pub(crate) fn of(value: f64) -> Self {
        Self([value; LANES])
    }

    /// The smaller of each pair.
    #[inline(always)]
    pub(crate) fn min(self, other: Self) -> Self {
        self.with(
            other,
            #[inline(always)]
            |a, b| a.min(b),
        )
    }

    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    fn with(self, other: Self, f: impl Fn(f64, f64) -> f64) -> Self {
        let mut out = [0.0; LANES];
        for l in 0..LANES {
            out[l] = f(self.0[l], other.0[l]);
        }
        Self(out)
    }
}

macro_rules! lane_by_lane {
    ($($operation:ident $name:ident $sign:tt),*) => {$(
        impl $operation for Eight {
            type Output = Self;

            #[inline(always)]
            fn $name(self, other: Self) -> Self {
                self.with(
                    other,
                    #[inline(always)]
                    |a, b| a $sign b,
                )
            }
        }
    )*};
}
lane_by_lane!(Add add +, Mul mul *, Div div /);

/// Eight numbers of each list.
#[inline(always)]
#[allow(clippy::manual_memcpy)]
fn eight<const K: usize>(lists: &[&[f64]; K], at: usize) -> [Eight; K] {
    let mut out = [Eight::of(0.0); K];
    for k in 0..K {
        let numbers = &lists[k][at..at + LANES];
        // a copy of the slice would be a call
        for l in 0..LANES {
            out[k].0[l] = numbers[l];
        }
    }
    out
}

/// What is left of each list, and zeros.
#[inline(always)]
#[allow(clippy::manual_memcpy)]
fn left<const K: usize>(lists: &[&[f64]; K], at: usize) -> [Eight; K] {
    let mut out = [Eight::of(0.0); K];
    for k in 0..K {
        let numbers = &lists[k][at..];
        for l in 0..numbers.len().min(LANES) {
            out[k].0[l] = numbers[l];
        }
    }
    out
}

/// The lanes with those of the last numbers, added up. Never inlined: where the compiler sees the end of a sum it takes the lanes apart.
#[inline(never)]
fn added(lanes: &Eight, last: &Eight) -> f64 {
    (*lanes + *last).0.iter().sum()
}

/// S sums over lists that are at least as long as the first: of what `f` makes of their numbers, which must be 0 where all numbers are.
pub(crate) fn sums<const K: usize, const S: usize>(lists: [&[f64]; K], f: impl Fn([Eight; K]) -> [Eight; S]) -> [f64; S] {
    wide(
        #[inline(always)]
        || sums_here(lists, f),
    )
}

/// Product of two vectors.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let [sum] = sums(
        [a, b],
        #[inline(always)]
        |[a, b]| [a * b],
    );
    sum
}

#[inline(always)]
fn sums_here<const K: usize, const S: usize>(lists: [&[f64]; K], f: impl Fn([Eight; K]) -> [Eight; S]) -> [f64; S] {
    let n = lists[0].len();
    let mut lists = lists;
    for k in 1..K {
        lists[k] = &lists[k][..n];
    }
    let mut lanes = [Eight::of(0.0); S];
    let mut at = 0;
    while at + LANES <= n {
        let terms = f(eight(&lists, at));
        for s in 0..S {
            lanes[s] = lanes[s] + terms[s];
        }
        at += LANES;
    }
    let last = f(left(&lists, at));
    let mut out = [0.0; S];
    for s in 0..S {
        out[s] = added(&lanes[s], &last[s]);
    }
    out
}

const EXPONENT: u32 = 52;
const MANTISSA: u64 = (1 << EXPONENT) - 1;
const BIAS: u64 = 1023;

/// Exponents of eight numbers.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Exponents([u64; LANES]);

/// Numbers between 1 and 2, and their exponents of 2, of numbers of at least 1.
#[inline(always)]
fn parts(numbers: Eight) -> (Eight, Exponents) {
    let (mut mantissas, mut exponents) = ([0.0; LANES], [0; LANES]);
    for l in 0..LANES {
        exponents[l] = (numbers.0[l].to_bits() >> EXPONENT) - BIAS;
    }
    for l in 0..LANES {
        mantissas[l] = f64::from_bits(numbers.0[l].to_bits() & MANTISSA | BIAS << EXPONENT);
    }
    (Eight(mantissas), Exponents(exponents))
}

/// A product of many factors, of at least 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Product {
    mantissa: f64,
    exponent: u64,
}

impl Product {
    /// No factors.
    pub(crate) const EMPTY: Self = Self { mantissa: 1.0, exponent: 0 };

    /// With the factors of another, each this many times. A few products and small powers: mantissas are multiplied as they are.
    pub(crate) fn and(self, other: Self, times: i32) -> Self {
        Self { mantissa: self.mantissa * other.mantissa.powi(times), exponent: self.exponent + other.exponent * times as u64 }
    }

    /// Its logarithm.
    pub(crate) fn ln(self) -> f64 {
        self.mantissa.ln() + self.exponent as f64 * std::f64::consts::LN_2
    }
}

/// Never inlined, as `added`.
#[inline(never)]
fn multiplied(mantissas: &Eight, exponents: &Exponents, last: &Eight) -> Product {
    let (mantissas, more) = parts(*mantissas * *last);
    Product { mantissa: mantissas.0.iter().product(), exponent: exponents.0.iter().zip(&more.0).map(|(a, b)| a + b).sum() }
}

/// Π f(v). Factors are at least 1, at most 1e300, and 1 where the number is 0.
pub(crate) fn product(numbers: &[f64], f: impl Fn(Eight) -> Eight) -> Product {
    wide(
        #[inline(always)]
        || product_here(numbers, f),
    )
}

#[inline(always)]
fn product_here(numbers: &[f64], f: impl Fn(Eight) -> Eight) -> Product {
    let (mut mantissas, mut exponents) = (Eight::of(1.0), Exponents([0; LANES]));
    let mut at = 0;
    while at + LANES <= numbers.len() {
        let [v] = eight(&[numbers], at);
        let (product, more) = parts(mantissas * f(v));
        mantissas = product;
        for l in 0..LANES {
            exponents.0[l] += more.0[l];
        }
        at += LANES;
    }
    let [v] = left(&[numbers], at);
    multiplied(&mantissas, &exponents, &f(v))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bits of plain loops over lanes, for lists of every length around multiples of eight.
    #[test]
    fn sums_have_the_bits_of_plain_loops() {
        let number = |i: usize, by: usize| ((i * by % 101) as f64 - 40.0) / 7.0;
        for n in 0..40 {
            let lists: [Vec<f64>; 2] = [37, 53].map(|by| (0..n).map(|i| number(i, by)).collect());
            let mut lanes = [[0.0; LANES]; 2];
            for i in 0..n {
                let (x, y) = (lists[0][i], lists[1][i]);
                lanes[0][i % LANES] += x * y;
                lanes[1][i % LANES] += x / (1.0 + y * y);
            }
            let plain = lanes.map(|lanes| lanes.iter().sum::<f64>());
            let found = sums(
                [&lists[0], &lists[1]],
                #[inline(always)]
                |[x, y]| [x * y, x / (Eight::of(1.0) + y * y)],
            );
            assert_eq!(found.map(f64::to_bits), plain.map(f64::to_bits), "{n} numbers");
            assert_eq!(dot(&lists[0], &lists[1]).to_bits(), plain[0].to_bits(), "{n} numbers");
        }
    }

    #[test]
    fn logarithms_of_products() {
        for n in 0..40 {
            let numbers: Vec<f64> = (0..n).map(|i| 10f64.powi(i * 7 % 23 - 14)).collect();
            for w in [1e-9, 0.3, 1.0, 1e5, 1e300] {
                let exact: f64 = numbers.iter().map(|v| (v * w).min(1e299).ln_1p()).sum();
                let found = product(
                    &numbers,
                    #[inline(always)]
                    |v| Eight::of(1.0) + (v * Eight::of(w)).min(Eight::of(1e299)),
                );
                let found = Product::EMPTY.and(found, 3).ln() / 3.0;
                assert!((found - exact).abs() < 1e-11 * (1.0 + exact), "{n} numbers, {w}: {found} for {exact}");
            }
        }
    }
}
