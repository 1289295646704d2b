//! Draws with shapes of any size: Dirichlet and beta variables, numbers of tables, and rising factorials.
//!
//! Shapes here are concentrations times weights, and weights may be as small as they like. A shape below 1e-300 counts as 0, and a weight
//! that underflows is 0: nothing is ever floored, for a floor would create mass.

use rand::Rng;
use rand_distr::Distribution;

use crate::dist::{Gamma, TableCount};
use crate::special::ln_gamma;

/// Shapes below count as 0.
const SMALLEST: f64 = 1e-300;

fn gamma(shape: f64) -> Option<Gamma> {
    (shape >= SMALLEST).then(|| Gamma::new(shape, 1.0).expect("shapes are finite"))
}

/// Turns shapes into a draw of the Dirichlet distribution. All shapes 0: all weights 0.
pub(super) fn dirichlet<R: Rng + ?Sized>(shapes: &mut [f64], rng: &mut R) {
    // Which way is taken depends on the shapes alone. With a shape that is not small the sum cannot underflow.
    let largest = shapes.iter().fold(0.0_f64, |m, &s| m.max(s));
    if largest >= 0.1 {
        let mut total = 0.0;
        for s in shapes.iter_mut() {
            *s = gamma(*s).map_or(0.0, |g| g.sample(rng));
            total += *s;
        }
        shapes.iter_mut().for_each(|s| *s /= total);
        return;
    }
    let mut top = f64::NEG_INFINITY;
    for s in shapes.iter_mut() {
        *s = gamma(*s).map_or(f64::NEG_INFINITY, |g| g.sample_ln(rng));
        top = top.max(*s);
    }
    if top == f64::NEG_INFINITY {
        shapes.fill(0.0);
        return;
    }
    let mut total = 0.0;
    for s in shapes.iter_mut() {
        *s = (*s - top).exp();
        total += *s;
    }
    shapes.iter_mut().for_each(|s| *s /= total);
}

/// A draw `w` of Beta(a, b) as `(w, 1 - w)`, both accurate when small. Both shapes 0: `(0, 1)`.
pub(super) fn beta<R: Rng + ?Sized>(a: f64, b: f64, rng: &mut R) -> (f64, f64) {
    match (gamma(a), gamma(b)) {
        (Some(a), Some(b)) => {
            let odds = a.sample_ln(rng) - b.sample_ln(rng);
            (1.0 / (1.0 + (-odds).exp()), 1.0 / (1.0 + odds.exp()))
        }
        (Some(_), None) => (1.0, 0.0),
        (None, _) => (0.0, 1.0),
    }
}

/// Number of tables of `customers` customers in a restaurant of concentration `a`.
pub(super) fn tables<R: Rng + ?Sized>(customers: u32, a: f64, rng: &mut R) -> u32 {
    if customers <= 1 || a < SMALLEST {
        return customers.min(1);
    }
    if a == f64::INFINITY {
        return customers;
    }
    TableCount::new(customers.into(), a).expect("concentrations are finite").sample(rng) as u32
}

/// `ln x (x+1) .. (x+n-1)`; minus infinity if `x` counts as 0 and `n > 0`.
pub(super) fn ln_rising(x: f64, n: u32) -> f64 {
    if n == 0 {
        0.0
    } else if x < SMALLEST {
        f64::NEG_INFINITY
    } else if n <= 12 {
        let mut product = x;
        for i in 1..n {
            product *= x + f64::from(i);
        }
        product.ln()
    } else {
        ln_gamma(x + f64::from(n)) - ln_gamma(x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::special::{digamma, trigamma};
    use rand::{SeedableRng, rngs::SmallRng};

    /// Mean and variance of each weight, for shapes that are summed as they are and shapes that need logarithms.
    #[test]
    fn dirichlet_moments() {
        let mut rng = SmallRng::seed_from_u64(1);
        for shapes in [vec![0.3, 2.0, 0.0, 1e-4], vec![0.05, 1e-3, 0.02, 0.0]] {
            let (mut sum, mut squares) = (vec![0.0; 4], vec![0.0; 4]);
            let draws = 40_000;
            for _ in 0..draws {
                let mut w = shapes.clone();
                dirichlet(&mut w, &mut rng);
                assert!((w.iter().sum::<f64>() - 1.0).abs() < 1e-12);
                for i in 0..4 {
                    sum[i] += w[i];
                    squares[i] += w[i] * w[i];
                }
            }
            let total: f64 = shapes.iter().sum();
            for i in 0..4 {
                let mean = shapes[i] / total;
                let square = mean * (shapes[i] + 1.0) / (total + 1.0);
                let sd = ((square - mean * mean) / draws as f64).sqrt();
                assert!((sum[i] / draws as f64 - mean).abs() <= 4.0 * sd, "{shapes:?} {i}");
                assert!((squares[i] / draws as f64 - square).abs() <= 5.0 * (square / draws as f64).sqrt(), "{shapes:?} {i}");
            }
        }
        let mut none = [0.0, 1e-310];
        dirichlet(&mut none, &mut rng);
        assert_eq!(none, [0.0, 0.0]);
    }

    /// The log odds have mean `psi(a) - psi(b)` and variance `psi'(a) + psi'(b)`.
    #[test]
    fn beta_odds() {
        let mut rng = SmallRng::seed_from_u64(2);
        for (a, b) in [(1.0, 0.85), (1.3, 0.2), (6.0, 3.0)] {
            let draws = 40_000;
            let mut sum = 0.0;
            for _ in 0..draws {
                let (w, rest) = beta(a, b, &mut rng);
                assert!((w + rest - 1.0).abs() < 1e-14);
                sum += w.ln() - rest.ln();
            }
            let error = ((trigamma(a) + trigamma(b)) / draws as f64).sqrt();
            assert!((sum / draws as f64 - digamma(a) + digamma(b)).abs() < 4.0 * error);
        }
        assert_eq!(beta(0.0, 0.0, &mut rng), (0.0, 1.0));
        assert_eq!(beta(1e-310, 1.0, &mut rng), (0.0, 1.0));
        assert_eq!(beta(1e-310 + 1.0, 0.0, &mut rng), (1.0, 0.0));
    }

    #[test]
    fn tables_have_the_known_distribution() {
        let known = [0.261069, 0.435116, 0.243665, 0.055695, 0.004456];
        let mut rng = SmallRng::seed_from_u64(3);
        let (draws, mut seen) = (40_000, [0.0; 5]);
        (0..draws).for_each(|_| seen[tables(5, 0.8, &mut rng) as usize - 1] += 1.0);
        for (count, p) in seen.iter().zip(known) {
            let n = draws as f64;
            assert!((count - n * p).abs() < 4.0 * (n * p * (1.0 - p)).sqrt());
        }
        assert_eq!((tables(0, 0.8, &mut rng), tables(9, 0.0, &mut rng)), (0, 1));
    }

    #[test]
    fn rising_factorials() {
        for x in [1e-200, 0.3, 7.0, 1e4] {
            for n in [1, 2, 11, 12, 13, 40] {
                let sum: f64 = (0..n).map(|i| (x + f64::from(i)).ln()).sum();
                assert!((ln_rising(x, n) - sum).abs() < 1e-9 * (1.0 + sum.abs()), "{x} {n}");
            }
        }
        assert_eq!((ln_rising(0.0, 0), ln_rising(0.0, 1)), (0.0, f64::NEG_INFINITY));
    }
}
