//! The stable-beta process: which columns of ones there are, when their number is not fixed and their use follows a power law.
//!
//! Probabilities of use are the points of a Poisson process on (0, 1) with intensity
//! `lam(mu) = A mu^(-1-d) (1-mu)^(c+d-1)`, `A = mass G(1+c) / (G(1-d) G(c+d))`; every row uses Poisson(mass) columns, whatever `c` and `d` are.
//! The Indian buffet process is `c = 1, d = 0`. The book's chapter on `features` has the mathematics.

use rand::Rng;
use rand_distr::{Distribution, Exp1};
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::dist::Beta;
use crate::run::open01;
use crate::special::{digamma, ln_gamma};

/// Below this discount the closed form of the number of columns cancels.
const SMALL_DISCOUNT: f64 = 1e-6;
/// Logarithms of probabilities are not below this.
const LOWEST: f64 = -700.0;

/// Mass, concentration and discount of the process.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StableBeta {
    /// Columns that a row uses, on average.
    pub mass: f64,
    /// c, above minus the discount.
    pub concentration: f64,
    /// d, from 0 to below 1.
    pub discount: f64,
}

/// `ln(1 - e^y)` for y below 0.
pub(crate) fn ln_not(y: f64) -> f64 {
    if y > -std::f64::consts::LN_2 { (-y.exp_m1()).ln() } else { (-y.exp()).ln_1p() }
}

impl StableBeta {
    /// The Indian buffet process of this mass.
    pub fn buffet(mass: f64) -> Self {
        Self { mass, concentration: 1.0, discount: 0.0 }
    }

    /// ln A.
    fn ln_level(&self) -> f64 {
        let (c, d) = (self.concentration, self.discount);
        self.mass.ln() + ln_gamma(1.0 + c) - ln_gamma(1.0 - d) - ln_gamma(c + d)
    }

    /// Expected number of columns that `rows` rows use, for mass 1: `h`.
    pub fn growth(&self, rows: u64) -> f64 {
        let (c, d, n) = (self.concentration, self.discount, rows as f64);
        if rows == 0 {
            return 0.0;
        }
        if d >= SMALL_DISCOUNT {
            let whole = (ln_gamma(1.0 + c) + ln_gamma(n + c + d) - ln_gamma(n + c) - ln_gamma(c + d)).exp();
            // G(1+c)/G(c) is c, also where it is 0
            return (whole - c) / d;
        }
        if d == 0.0 {
            return c * (digamma(n + c) - digamma(c));
        }
        let mut term = 1.0;
        let mut sum = 1.0;
        for i in 1..rows {
            let i = i as f64;
            term *= (i - 1.0 + c + d) / (i + c);
            sum += term;
        }
        sum
    }

    /// Expected number of columns that `rows` rows use.
    pub fn columns(&self, rows: u64) -> f64 {
        self.mass * self.growth(rows)
    }

    /// Logarithm of the expected number of columns that exactly these `uses` of `rows` rows use.
    pub fn ln_pattern(&self, uses: u64, rows: u64) -> f64 {
        let (c, d, m, n) = (self.concentration, self.discount, uses as f64, rows as f64);
        self.ln_level() + ln_gamma(m - d) + ln_gamma(n - m + c + d) - ln_gamma(n + c)
    }

    /// Log probability density of columns with these uses, as a set of points.
    pub fn ln_columns(&self, uses: impl Iterator<Item = u64>, rows: u64) -> f64 {
        // what does not depend on the column once
        let (c, d, n) = (self.concentration, self.discount, rows as f64);
        let common = self.ln_level() - ln_gamma(n + c);
        uses.map(|m| common + ln_gamma(m as f64 - d) + ln_gamma(n - m as f64 + c + d)).sum::<f64>() - self.columns(rows)
    }

    /// Logarithms of the probability of use, and of its complement, of a column with these uses.
    pub fn sample_used<R: Rng + ?Sized>(&self, uses: u64, rows: u64, rng: &mut R) -> Result<(f64, f64)> {
        let (c, d) = (self.concentration, self.discount);
        let (a, b) = (uses as f64 - d, (rows - uses) as f64 + c + d);
        let (on, off) = Beta::new(a.max(1e-300), b.max(1e-300))?.sample_ln(rng);
        Ok((on.max(LOWEST), off.max(LOWEST)))
    }

    /// Logarithm of the largest probability of use below `e^below` among the columns that none of `rows` rows uses; none where it is below
    /// `e^least`.
    pub fn next_unused<R: Rng + ?Sized>(&self, below: f64, least: f64, rows: u64, rng: &mut R) -> Option<f64> {
        let (c, d) = (self.concentration, self.discount);
        let level = self.ln_level().exp();
        let power = rows as f64 + c + d - 1.0;
        let least = least.max(LOWEST);
        let mut y = below;
        loop {
            let e: f64 = Exp1.sample(rng);
            y = if d == 0.0 {
                y - e / level
            } else {
                // (mu^-d + d e / A)^(-1/d)
                let (one, other) = (-d * y, (d * e / level).ln());
                let top = one.max(other);
                -(top + ((one - top).exp() + (other - top).exp()).ln()) / d
            };
            if y.is_nan() || y < least {
                return None;
            }
            // thinned from the intensity without (1-mu)^power
            if y < 0.0 && open01(rng).ln() < power * ln_not(y) {
                return Some(y);
            }
        }
    }

    /// Expected number of columns with a probability of use above `e^from` that none of `rows` rows uses, for mass 1.
    pub fn unused_above(&self, from: f64, rows: u64) -> f64 {
        let d = self.discount;
        let power = rows as f64 + self.concentration + d - 1.0;
        // beyond this nothing is unused
        let to = if power > 40.0 { (40.0 / power).ln() } else { 0.0 };
        if from >= to {
            return 0.0;
        }
        let value = |y: f64| if y >= 0.0 { 0.0 } else { (-d * y + power * ln_not(y)).exp() };
        // double exponential quadrature: ends may be singular
        let (half, steps) = (0.5 * (to - from), 120);
        let h = 4.0 / steps as f64;
        let mut sum = 0.0;
        for i in -steps..=steps {
            let t = i as f64 * h;
            let s = std::f64::consts::FRAC_PI_2 * t.sinh();
            let weight = std::f64::consts::FRAC_PI_2 * t.cosh() / s.cosh().powi(2);
            // distance to the upper end, to full accuracy near it
            let gap = half * 2.0 / ((2.0 * s).exp() + 1.0);
            if weight > 0.0 && gap > 0.0 {
                let y = to - gap;
                sum += weight * if to == 0.0 { value(-gap) } else { value(y) };
            }
        }
        let unit = Self { mass: 1.0, ..*self };
        unit.ln_level().exp() * half * h * sum
    }

    /// Probability of use by row `rows + 1` of a column that `uses` of `rows` rows use, and the expected number of columns that are new to it.
    pub fn next_row(&self, uses: u64, rows: u64) -> f64 {
        (uses as f64 - self.discount) / (rows as f64 + self.concentration)
    }

    /// Expected number of columns that row `rows + 1` is the first to use.
    pub fn new_columns(&self, rows: u64) -> f64 {
        self.ln_pattern(1, rows + 1).exp()
    }

    /// One step of a chain for `ln mu` of a column with these uses, given that it lies between two bounds: a slice with the whole interval as
    /// its bracket.
    pub fn step_between<R: Rng + ?Sized>(&self, y: f64, uses: u64, rows: u64, (low, high): (f64, f64), rng: &mut R) -> f64 {
        let (c, d, m, n) = (self.concentration, self.discount, uses as f64, rows as f64);
        let (on, off) = (m - d, n - m + c + d - 1.0);
        let target = |y: f64| on * y + if off == 0.0 { 0.0 } else { off * ln_not(y) };
        let level = target(y) + open01(rng).ln();
        let (mut low, mut high) = (low, high);
        for _ in 0..1000 {
            let next = low + (high - low) * open01(rng);
            if next < 0.0 && target(next) > level {
                return next;
            }
            if next < y {
                low = next;
            } else {
                high = next;
            }
        }
        y
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    fn process(mass: f64, concentration: f64, discount: f64) -> StableBeta {
        StableBeta { mass, concentration, discount }
    }

    /// Values of the specification, each to the digits it gives.
    #[test]
    fn numbers_of_columns_are_the_published_ones() {
        for (n, c, d, h) in [
            (3, 1.0, 0.0, 1.8333333333),
            (100, 1.0, 0.0, 5.1873775176),
            (3, 1.0, 0.4, 2.26),
            (100, 1.0, 0.4, 15.3278768345),
            (10, -0.2, 0.5, 2.8057229747),
            (7, 2.5, 0.0, 3.7364530894),
            (10, 0.3, 0.6, 5.1066447103),
        ] {
            let found = process(1.0, c, d).growth(n);
            assert!((found - h).abs() < 1e-9, "{n} {c} {d}: {found}");
            // the sum over patterns, and over rows of the urn
            let p = process(1.7, c, d);
            let choose = |m: u64| (ln_gamma(n as f64 + 1.0) - ln_gamma(m as f64 + 1.0) - ln_gamma((n - m) as f64 + 1.0)).exp();
            let patterns: f64 = (1..=n).map(|m| choose(m) * p.ln_pattern(m, n).exp()).sum();
            assert!((patterns / p.columns(n) - 1.0).abs() < 1e-9, "{n} {c} {d}: {patterns}");
            let rows: f64 = (0..n).map(|i| p.new_columns(i)).sum();
            assert!((rows / p.columns(n) - 1.0).abs() < 1e-9);
        }
        // the sum that a tiny discount takes joins the closed forms on both sides
        for (d, tolerance) in [(1e-7, 1e-5), (2e-6, 1e-4)] {
            assert!((process(1.0, 1.0, d).growth(50) - process(1.0, 1.0, 0.0).growth(50)).abs() < tolerance);
        }
        let three = |d: f64| [1, 2, 3].map(|m| process(1.0, 1.0, d).ln_pattern(m, 3).exp());
        for (found, told) in three(0.0).iter().chain(&three(0.4)).zip([1.0 / 3.0, 1.0 / 6.0, 1.0 / 3.0, 0.56, 0.14, 0.16]) {
            assert!((found - told).abs() < 1e-9, "{found} {told}");
        }
        assert!((process(2.0, 1.0, 0.0).new_columns(4) - 0.4).abs() < 1e-12);
        assert!((process(2.0, 1.0, 0.4).new_columns(4) - 0.83776).abs() < 1e-9);
    }

    #[test]
    fn unused_columns_above_a_bound() {
        assert!((process(1.0, 1.0, 0.0).unused_above(0.1f64.ln(), 6) - 0.3838885930).abs() < 1e-9);
        assert!((process(1.0, 1.0, 0.4).unused_above(0.1f64.ln(), 6) - 0.5607058035).abs() < 1e-9);
        // -ln T - sum (1-T)^i/i
        for (t, n) in [(1e-3f64, 50), (0.3, 2), (1e-5, 10_000), (0.9, 1)] {
            let exact = -t.ln() - (1..=n).map(|i| (1.0 - t).powi(i) / i as f64).sum::<f64>();
            let found = process(3.0, 1.0, 0.0).unused_above(t.ln(), n as u64);
            assert!((found - exact).abs() < 1e-9, "{t} {n}: {found} {exact}");
        }
        assert_eq!(process(1.0, 1.0, 0.2).unused_above(0.0, 3), 0.0);
    }

    /// The distribution of the next unused one, at published points; 200,000 draws, so that a standard error is at most 0.0011.
    #[test]
    fn the_next_unused_column_has_its_distribution() {
        let mut rng = SmallRng::seed_from_u64(5);
        let p = process(1.3, 1.0, 0.0);
        let n = 200_000;
        let drawn: Vec<f64> = (0..n).map(|_| p.next_unused(0.7f64.ln(), -60.0, 6, &mut rng).map_or(0.0, f64::exp)).collect();
        for (at, told) in [(0.02, 0.1283822306), (0.1, 0.6071374975), (0.3, 0.9600644911)] {
            let found = drawn.iter().filter(|v| **v <= at).count() as f64 / n as f64;
            let error = (told * (1.0 - told) / n as f64).sqrt();
            assert!((found - told).abs() < 4.0 * error, "{at}: {found} {told}");
        }
        // none above T has probability exp(-(D(T) - D(from)))
        let p = process(1.3, 0.6, 0.3);
        let (from, to) = (0.5f64.ln(), 0.05f64.ln());
        let none = (0..n).filter(|_| p.next_unused(from, to, 4, &mut rng).is_none()).count() as f64 / n as f64;
        let told = (-1.3 * (p.unused_above(to, 4) - p.unused_above(from, 4))).exp();
        assert!((none - told).abs() < 4.0 * (told * (1.0 - told) / n as f64).sqrt(), "{none} {told}");
    }

    /// A chain of steps between two bounds has the moments of quadrature.
    #[test]
    fn steps_between_bounds_keep_the_truncated_distribution() {
        let mut rng = SmallRng::seed_from_u64(6);
        for (p, uses, low, high) in [(process(1.0, 1.0, 0.0), 2, 0.2f64, 0.7f64), (process(1.0, 0.4, 0.3), 0, 0.01, 0.5)] {
            let density =
                |mu: f64| mu.powf(uses as f64 - p.discount - 1.0) * (1.0 - mu).powf(5.0 - uses as f64 + p.concentration + p.discount - 1.0);
            let cells = 20_000;
            let (mut total, mut mean) = (0.0, 0.0);
            for i in 0..cells {
                let mu = low + (high - low) * (i as f64 + 0.5) / cells as f64;
                total += density(mu);
                mean += mu * density(mu);
            }
            let mut y = (0.5 * (low + high)).ln();
            let (batches, each) = (200, 500);
            let means: Vec<f64> = (0..batches)
                .map(|_| {
                    let sum: f64 = (0..each)
                        .map(|_| {
                            y = p.step_between(y, uses, 5, (low.ln(), high.ln()), &mut rng);
                            y.exp()
                        })
                        .sum();
                    sum / each as f64
                })
                .collect();
            let average = means.iter().sum::<f64>() / batches as f64;
            let error = (means.iter().map(|m| (m - average).powi(2)).sum::<f64>() / (batches * (batches - 1)) as f64).sqrt();
            assert!((average - mean / total).abs() < 4.0 * error, "{average} ± {error} for {}", mean / total);
        }
    }
}
