//! Number of tables in a Chinese restaurant.

use super::{ParamError, require, uniform};
use crate::special::{digamma, ln_beta, ln_gamma, trigamma};
use rand::Rng;
use rand_distr::Distribution;

/// TableCount(n, alpha): the number of tables that `n` customers occupy,
/// `P(t) = s(n, t) alpha^t Gamma(alpha) / Gamma(alpha + n)` with unsigned Stirling numbers of the first kind `s`.
///
/// It is the sum of independent Bernoulli variables with probabilities `alpha/(alpha + i)`, `i = 0..n`. Draws add those up, or, for many
/// customers and few tables, leap from one success to the next by bisection of the closed form of
/// `P(no success in i..j) = B(j, alpha) / B(i, alpha)`: at most about `t log2 n` steps, and no table of Stirling numbers. Both are exact.
/// `ln_pmf` costs `O(n t)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TableCount {
    customers: u64,
    alpha: f64,
}

/// A leap costs about as much as this many Bernoulli draws (measured).
const LEAP_COST: f64 = 80.0;

impl TableCount {
    /// Number of customers (up to 2^53) and a positive finite concentration.
    pub fn new(customers: u64, alpha: f64) -> Result<Self, ParamError> {
        let name = "table count";
        require(customers <= 1 << 53, name, "customers", customers as f64, "at most 2^53")?;
        require(alpha > 0.0 && alpha.is_finite(), name, "alpha", alpha, "positive and finite")?;
        Ok(Self { customers, alpha })
    }

    fn one_by_one<R: Rng + ?Sized>(&self, rng: &mut R) -> u64 {
        // customer i sits down alone with probability alpha/(alpha+i); the first always does
        let mut tables = 1;
        for i in 1..self.customers {
            tables += (uniform(rng) * (self.alpha + i as f64) < self.alpha) as u64;
        }
        tables
    }

    fn leaping<R: Rng + ?Sized>(&self, rng: &mut R) -> u64 {
        let (mut tables, mut next) = (1, 1);
        loop {
            // survival S(j) = P(no success among next..=j) = B(j+1, alpha)/B(next, alpha); the success is the first j with S(j) <= u
            let target = ln_beta(next as f64, self.alpha) + uniform(rng).ln();
            let survives = |j: u64| ln_beta(j as f64 + 1.0, self.alpha) > target;
            if next >= self.customers || survives(self.customers - 1) {
                return tables;
            }
            // gallop, then bisect: successes come early
            let (mut low, mut step) = (next, 1);
            while low + step < self.customers - 1 && survives(low + step) {
                low += step;
                step *= 2;
            }
            let mut high = (low + step).min(self.customers - 1);
            if !survives(low) {
                high = low;
            }
            while low < high {
                let middle = low + (high - low) / 2;
                if survives(middle) { low = middle + 1 } else { high = middle }
            }
            tables += 1;
            next = high + 1;
        }
    }

    /// Log probability of `tables` tables.
    pub fn ln_pmf(&self, tables: u64) -> f64 {
        let (n, t) = (self.customers, tables);
        if t > n || (t == 0) != (n == 0) {
            return f64::NEG_INFINITY;
        }
        if n == 0 {
            return 0.0;
        }
        let ln_rising = |alpha: f64| ln_gamma(n as f64) - ln_beta(alpha, n as f64); // ln alpha (alpha+1) ... (alpha+n-1)
        let ln_stirling = if t == n {
            0.0
        } else if t == 1 {
            ln_gamma(n as f64)
        } else {
            // The count's distribution at the concentration that makes t typical: no underflow there.
            let typical = concentration_with_mean(n, t as f64);
            let mut distribution = vec![0.0; t as usize + 1];
            distribution[0] = 1.0;
            for i in 0..n {
                let alone = typical / (typical + i as f64);
                let joins = i as f64 / (typical + i as f64);
                for m in (1..=t.min(i + 1) as usize).rev() {
                    distribution[m] = distribution[m] * joins + distribution[m - 1] * alone;
                }
                distribution[0] *= joins;
            }
            distribution[t as usize].ln() + ln_rising(typical) - t as f64 * typical.ln()
        };
        ln_stirling + t as f64 * self.alpha.ln() - ln_rising(self.alpha)
    }

    /// `sum_i alpha/(alpha+i) = alpha (psi(alpha+n) - psi(alpha))`.
    pub fn mean(&self) -> f64 {
        mean(self.customers, self.alpha)
    }

    /// `sum_i alpha i/(alpha+i)^2`. Beyond 100,000 customers the closed form is used, which loses digits when `alpha` exceeds `n`.
    pub fn variance(&self) -> f64 {
        let (n, a) = (self.customers as f64, self.alpha);
        if self.customers <= SUMMED {
            return (1..self.customers).map(|i| (a / (a + i as f64)) * (i as f64 / (a + i as f64))).sum();
        }
        a * (digamma(a + n) - digamma(a + 1.0)) - a * a * (trigamma(a + 1.0) - trigamma(a + n))
    }
}

/// Up to here moments are summed term by term.
const SUMMED: u64 = 100_000;

fn mean(n: u64, a: f64) -> f64 {
    if n == 0 {
        return 0.0;
    }
    if n <= SUMMED {
        return (0..n).map(|i| a / (a + i as f64)).sum();
    }
    1.0 + a * (digamma(a + n as f64) - digamma(a + 1.0))
}

/// The concentration at which `t` tables are expected, to a per cent or so; `1 < t < n`.
fn concentration_with_mean(n: u64, t: f64) -> f64 {
    let (mut low, mut high) = (-700.0_f64, 700.0_f64);
    for _ in 0..24 {
        let middle = 0.5 * (low + high);
        if mean(n, middle.exp()) < t { low = middle } else { high = middle }
    }
    (0.5 * (low + high)).exp()
}

impl Distribution<u64> for TableCount {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> u64 {
        let n = self.customers as f64;
        // an upper estimate of the expected number of tables
        let expected = 1.0 + self.alpha * (1.0 + (n / self.alpha).ln_1p());
        if self.customers == 0 {
            0
        } else if n > LEAP_COST * (expected + 1.0) {
            self.leaping(rng)
        } else {
            self.one_by_one(rng)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn known_distribution() {
        // CRT(5, 0.8)
        let count = TableCount::new(5, 0.8).unwrap();
        for (t, p) in [0.261069, 0.435116, 0.243665, 0.055695, 0.004456].into_iter().enumerate() {
            assert!((count.ln_pmf(t as u64 + 1).exp() - p).abs() < 5e-7);
        }
        assert!((count.mean() - 2.107352).abs() < 5e-7);
    }

    /// Probabilities sum to 1, and mean and variance agree with them.
    #[test]
    fn pmf_is_a_distribution() {
        for (n, alpha) in [(1, 0.3), (2, 5.0), (30, 1e-3), (60, 2.5), (200, 40.0), (50, 1e6)] {
            let count = TableCount::new(n, alpha).unwrap();
            let p: Vec<f64> = (0..=n).map(|t| count.ln_pmf(t).exp()).collect();
            let moment = |g: &dyn Fn(f64) -> f64| p.iter().enumerate().map(|(t, p)| p * g(t as f64)).sum::<f64>();
            assert!((moment(&|_| 1.0) - 1.0).abs() < 1e-11, "({n}, {alpha})");
            let mean = moment(&|t| t);
            assert!((mean / count.mean() - 1.0).abs() < 1e-11);
            let variance = moment(&|t| (t - mean) * (t - mean));
            assert!((variance - count.variance()).abs() < 1e-10 * (1.0 + variance), "({n}, {alpha}): {variance}");
        }
        // far tail: s(2000, 2000) = 1 and s(n, n-1) = n(n-1)/2
        let count = TableCount::new(2000, 0.5).unwrap();
        let gap = count.ln_pmf(1999) - count.ln_pmf(2000) - (2000.0 * 1999.0 / 2.0_f64).ln() + 0.5_f64.ln();
        assert!(gap.abs() < 1e-8, "{gap}");
    }

    /// Frequencies against the probabilities, for both ways of drawing.
    #[test]
    fn both_samplers_follow_the_pmf() {
        for (n, alpha) in [(1, 1.0), (2, 0.7), (7, 0.8), (40, 3.0), (40, 0.05), (300, 1.5)] {
            let count = TableCount::new(n, alpha).unwrap();
            let samplers: [fn(&TableCount, &mut TestRng) -> u64; 2] = [|c, r| c.one_by_one(r), |c, r| c.leaping(r)];
            for (which, draw) in samplers.into_iter().enumerate() {
                let mut rng = rng(700 + n + which as u64);
                let total = 20_000;
                let mut seen = vec![0.0; n as usize + 1];
                (0..total).for_each(|_| seen[draw(&count, &mut rng) as usize] += 1.0);
                for t in 1..=n.min(40) {
                    let p = count.ln_pmf(t).exp();
                    let (expected, sd) = (total as f64 * p, (total as f64 * p * (1.0 - p)).sqrt());
                    if expected > 5.0 {
                        let z = (seen[t as usize] - expected) / sd.max(1e-9);
                        assert!(z.abs() < 5.0 || sd < 1e-3, "({n}, {alpha}) sampler {which}: t={t} z={z}");
                    }
                }
            }
        }
    }

    #[test]
    fn many_customers() {
        for (n, alpha) in [(1_000_000_000_000u64, 2.5), (1_000_000, 0.01), (20_000, 300.0)] {
            let count = TableCount::new(n, alpha).unwrap();
            let mut rng = rng(800 + n);
            let draws: Vec<f64> = (0..2000).map(|_| count.sample(&mut rng) as f64).collect();
            check_moments("table count", &draws, count.mean(), count.variance());
        }
        // the closed forms of the moments meet the sums
        let (a, b) = (TableCount::new(SUMMED, 3.0).unwrap(), TableCount::new(SUMMED + 1, 3.0).unwrap());
        assert!((b.mean() - a.mean() - 3.0 / (3.0 + SUMMED as f64)).abs() < 1e-11);
        assert!((b.variance() - a.variance() - 3.0 * SUMMED as f64 / (3.0 + SUMMED as f64).powi(2)).abs() < 1e-11);
    }

    #[test]
    fn edges() {
        let mut rng = rng(6);
        let none = TableCount::new(0, 1.0).unwrap();
        assert_eq!((none.sample(&mut rng), none.ln_pmf(0), none.ln_pmf(1)), (0, 0.0, f64::NEG_INFINITY));
        assert_eq!(TableCount::new(1, 1e-300).unwrap().sample(&mut rng), 1);
        assert_eq!(TableCount::new(1000, 1e-300).unwrap().sample(&mut rng), 1);
        assert_eq!(TableCount::new(1_000_000, 1e-300).unwrap().sample(&mut rng), 1);
        assert_eq!(TableCount::new(50, 1e300).unwrap().sample(&mut rng), 50);
        assert_eq!(TableCount::new(5, 1.0).unwrap().ln_pmf(6), f64::NEG_INFINITY);
        for alpha in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(TableCount::new(5, alpha).is_err());
        }
    }

    #[test]
    fn pinned_draws() {
        let mut rng = rng(1);
        let got: Vec<u64> = [(40, 3.0), (40, 3.0), (1_000_000, 2.0), (1_000_000, 2.0)]
            .map(|(n, a)| TableCount::new(n, a).unwrap().sample(&mut rng))
            .to_vec();
        assert_eq!(got, [6, 9, 21, 29]);
    }
}
